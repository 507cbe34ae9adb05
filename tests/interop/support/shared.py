"""The head of a script whose tests share one node. ORACLE=1: Apache Kafka in its place, to see what is right."""
import atexit
import itertools
import time

from .check import equal
from .kafka_tools import ORACLE, ApacheKafka, install
from .node import Node, fresh_dir
from .wire import Connection


class SharedNode:
    """Runs until the script ends. Each test makes topics of its own, so that none depends on another."""

    def __init__(self, name, *options):
        if ORACLE:
            install()
            self.node = ApacheKafka(name, *(o for o in options if "=" in o))
            with self.connect() as c:
                while c.init_producer_id()[0] != 0:  # Its first ids take a while.
                    time.sleep(0.1)
        else:
            self.node = Node(fresh_dir(name) / "data", *options)
        atexit.register(self.node.__exit__)  # Also when only some tests were asked for.
        self._serial = itertools.count()

    def connect(self):
        return Connection(self.node.kafka)

    def new_name(self, prefix="topic"):
        """Nothing of this name is there."""
        return f"{prefix}-{next(self._serial)}"

    def new_topic(self, c, partitions=1, **configs):
        """Configurations with underscores for dots."""
        name = self.new_name()
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}
        equal(c.create_topic(name, partitions, named), 0, "create")
        if ORACLE:
            time.sleep(0.5)  # Apache Kafka answers before its broker has heard of it.
        return name

"""The head of a script whose tests share one node."""
import atexit
import itertools

from .check import equal
from .node import Node, fresh_dir
from .wire import Connection


class SharedNode:
    """Runs until the script ends. Each test makes topics of its own, so that none depends on another."""

    def __init__(self, name, *options):
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
        return name

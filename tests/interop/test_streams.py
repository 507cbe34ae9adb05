#!/usr/bin/env python3
"""A word count of Kafka Streams in two instances, at least once. ORACLE=1: against Apache Kafka."""
import collections
import subprocess

from support.check import equal, expect
from support.kafka_tools import ORACLE, maven, run_or_skip, server
from support.members import committed, coordinated, until
from support.node import ROOT, fresh_dir
from support.wire import Connection, batch

SOURCE, INSTALLED = ROOT / "tests" / "interop" / "streams", ROOT / "build" / "interop" / "streams"
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp", f"{INSTALLED}/classes:{INSTALLED}/dependency/*", "WordCount"]
PARTITIONS = 4
WORDS = [f"word{i}" for i in range(50)]
REPARTITION, CHANGES = "word-count-counts-repartition", "word-count-counts-changelog"


class Instance:
    def __init__(self, brokers, folder, protocol="classic"):
        folder.mkdir(exist_ok=True)
        self.path = folder / "out.log"
        with open(self.path, "a") as out:
            self.process = subprocess.Popen([*JAVA, brokers, str(folder), protocol], stdin=subprocess.PIPE, stdout=out, stderr=out)

    def text(self):
        return self.path.read_text()

    def runs(self, times=1):
        def told():
            expect(self.process.poll() is None, f"ended: {self.text()[-1500:]}")
            return self.text().count("running") >= times
        until(told, 60)
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.process.stdin.close()
        equal(self.process.wait(timeout=30), 0, f"it closes: {self.text()[-500:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Feed:
    """Writes lines, and knows how often each word was in them."""

    def __init__(self, connection):
        self.connection, self.counts, self.serial = connection, collections.Counter(), 0

    def write(self, lines):
        for partition in range(PARTITIONS):
            values = []
            for _ in range(lines // PARTITIONS):
                words = [WORDS[(self.serial * 7 + i * i) % len(WORDS)] for i in range(5)]
                self.counts.update(words)
                self.serial += 1
                values.append(" ".join(words).encode())
            until(lambda: self.connection.produce("lines", partition, batch(values))[0] == 0)


def end(connection, topic, partition):
    return connection.list_offsets(topic, partition, -1)[2]


def caught_up(connection):
    """All that was written is counted and committed: nothing is on its way."""
    offsets = committed(connection, "word-count")
    return all(offsets.get((topic, p), (-1,))[0] == end(connection, topic, p)
               for topic in ("lines", REPARTITION) for p in range(PARTITIONS) if end(connection, topic, p) > 0)


def counted(connection):
    """The last count of each word."""
    found = {}
    for partition in range(PARTITIONS):
        done = subprocess.run(["kcat", "-b", connection.address, "-C", "-t", "counts", "-p", str(partition), "-o", "beginning", "-e", "-q",
                               "-f", "%k %s\n"], capture_output=True, text=True, check=True, timeout=30)
        for line in done.stdout.splitlines():
            word, count = line.split()
            found[word] = int(count)
    return found


def test_counts_are_right():
    """Exactly, while nobody is killed; after a kill none is too low, and what is written then is counted."""
    folder = fresh_dir("streams_state")
    with server("streams_node", "group.initial.rebalance.delay.ms=500") as node, Connection(node.kafka) as connection:
        connection.address = node.kafka
        for topic in ("lines", "counts"):
            equal(connection.create_topic(topic, PARTITIONS), 0, topic)
        coordinated(connection)
        feed = Feed(connection)
        feed.write(2000)
        with Instance(node.kafka, folder / "a") as a, Instance(node.kafka, folder / "b") as b:
            a.runs(), b.runs()
            feed.write(2000)
            until(lambda: caught_up(connection), 60)
            equal(counted(connection), dict(feed.counts), "while nobody is killed")
            feed.write(2000)
            a.kill()
            feed.write(2000)
            until(lambda: caught_up(connection), 60)
            with Instance(node.kafka, folder / "a") as again:
                again.runs()
                feed.write(2000)
                until(lambda: caught_up(connection), 60)
                found = counted(connection)
                equal({word: found.get(word, 0) for word, count in feed.counts.items() if found.get(word, 0) < count}, {}, "too low")
                for instance in (again, b):
                    instance.close()
        before = counted(connection)
        # All end and start again: they go on where they were, from what the changelog has.
        with Instance(node.kafka, folder / "c") as last:
            last.runs()
            once = collections.Counter(feed.counts)
            feed.write(400)
            until(lambda: caught_up(connection), 60)
            after = counted(connection)
            equal({word: after[word] - before[word] for word in after}, dict(feed.counts - once) | {w: 0 for w in after if w not in feed.counts - once},
                  "what came since")
            last.close()


def test_the_streams_protocol_is_refused_with_words():
    if ORACLE:
        return  # Kafka has it.
    folder = fresh_dir("streams_protocol")
    with server("streams_protocol_node") as node, Connection(node.kafka) as connection:
        for topic in ("lines", "counts"):
            equal(connection.create_topic(topic, PARTITIONS), 0, topic)
        with Instance(node.kafka, folder / "a", "streams") as instance:
            equal(instance.process.wait(timeout=30), 1, "it ends")
            expect("UnsupportedVersionException" in instance.text(), instance.text()[-1500:])


if __name__ == "__main__":
    run_or_skip("Kafka Streams", globals(), lambda: maven(SOURCE, INSTALLED))

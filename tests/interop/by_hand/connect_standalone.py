#!/usr/bin/env python3
"""Kafka Connect: file source and sink, standalone with offsets in a file. ORACLE=1: the same against Apache Kafka."""
import subprocess

from support.check import equal, expect
from support.connect import LINES, SECONDS, Connect, append, sink, source, until
from support.kafka_tools import run_or_skip, server
from support.node import fresh_dir
from support.wire import Connection


def values(brokers, topic):
    """Every value of partition 0, read back by kcat."""
    done = subprocess.run(["kcat", "-b", brokers, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"],
                          capture_output=True, text=True, timeout=SECONDS)
    return done.stdout.splitlines()


def produce(brokers, topic, lines):
    subprocess.run(["kcat", "-b", brokers, "-P", "-t", topic], input="".join(f"{line}\n" for line in lines), text=True,
                   check=True, timeout=SECONDS)


def end_offset(brokers, topic):
    with Connection(brokers) as c:
        error, _, offset, _ = c.list_offsets(topic, 0, -1)
    return offset if error == 0 else -1


def test_source_goes_on_at_its_offset():
    """Worker and node are both restarted in between: every line once, in order."""
    folder = fresh_dir("connect_source")
    path = folder / "input.txt"
    append(path, LINES[:2000])
    with server("connect_source_node") as node:
        with Connect(folder, node.kafka, source(path, "lines")) as connect:
            until(lambda: end_offset(node.kafka, "lines") == 2000)
            append(path, LINES[2000:3000])
            until(lambda: end_offset(node.kafka, "lines") == 3000)
            connect.stop()
        append(path, LINES[3000:4000])
        node.restart()
        equal(end_offset(node.kafka, "lines"), 3000, "after the node's restart")
        with Connect(folder, node.kafka, source(path, "lines")):
            until(lambda: end_offset(node.kafka, "lines") == 4000)
        equal(values(node.kafka, "lines"), LINES[:4000], "lines")


def test_source_through_kills():
    """The node killed under a working worker, then the worker killed: nothing lost. The worker's producer
    retries without idempotence and its offsets are flushed twice a second, so that lines may come twice."""
    folder = fresh_dir("connect_kills")
    path = folder / "input.txt"
    append(path, LINES[:3000])
    with server("connect_kills_node") as node:
        with Connect(folder, node.kafka, source(path, "lines")) as connect:
            until(lambda: end_offset(node.kafka, "lines") >= 1000)
            node.restart(kill=True)
            append(path, LINES[3000:4500])
            until(lambda: LINES[4499] in values(node.kafka, "lines"))
            expect(connect.running("source"), "the source's task is alive")
            connect.process.kill()
        append(path, LINES[4500:])
        with Connect(folder, node.kafka, source(path, "lines")):
            until(lambda: LINES[-1] in values(node.kafka, "lines"))
        got = values(node.kafka, "lines")
        firsts = list(dict.fromkeys(got))
        equal(firsts, LINES, f"first of each of {len(got)}")


def test_sink():
    """A sink's task reads in a consumer group: every line, and after a restart only those that came since."""
    folder = fresh_dir("connect_sink")
    output = folder / "output.txt"

    def written():
        return output.read_text().splitlines() if output.exists() else []
    with server("connect_sink_node") as node:
        produce(node.kafka, "lines", LINES)
        with Connect(folder, node.kafka, sink(output, "lines")) as connect:
            until(lambda: len(written()) >= len(LINES))
            equal(written(), LINES, "lines")
            connect.stop()
        produce(node.kafka, "lines", LINES[:100])
        with Connect(folder, node.kafka, sink(output, "lines")):
            until(lambda: len(written()) >= len(LINES) + 100)
            equal(written()[len(LINES):], LINES[:100], "what came since")


if __name__ == "__main__":
    run_or_skip("Kafka Connect", globals())

#!/usr/bin/env python3
"""Kafka Connect: file source and sink, distributed on two workers. ORACLE=1: against Apache Kafka. Standalone: by_hand/."""
from support.check import equal
from support.connect import LINES, Worker, append, sink, source, until
from support.kafka_tools import run_or_skip, server
from support.node import fresh_dir


def written(output):
    return output.read_text().splitlines() if output.exists() else []


def at_work(worker):
    """The addresses of the workers with the two tasks, once both run."""
    running = [worker.running(name) for name in ("source", "sink")]
    return {status["tasks"][0]["worker_id"] for status in running} if all(running) else set()


def test_distributed_with_a_worker_killed():
    """Source and sink, first on one worker, then on two; one is killed -9: the other has both, and every line comes out at
    least once."""
    folder = fresh_dir("connect_distributed")
    path, output = folder / "input.txt", folder / "output.txt"
    append(path, LINES[:2000])
    with server("connect_distributed_node") as node, Worker(folder / "a", node.kafka) as a:
        until(lambda: a.put(source(path, "lines")))
        until(lambda: a.put(sink(output, "lines")))
        until(lambda: at_work(a) == {a.address})
        with Worker(folder / "b", node.kafka) as b: # Takes its time to load.
            until(lambda: LINES[1999] in written(output))
            until(lambda: at_work(b) == {a.address, b.address})
            append(path, LINES[2000:4000])
            until(lambda: LINES[3999] in written(output))
            a.process.kill()
            append(path, LINES[4000:])
            until(lambda: LINES[5999] in written(output))
            equal(list(dict.fromkeys(written(output))), LINES, "the first of each")
            until(lambda: at_work(b) == {b.address})
            b.stop()


if __name__ == "__main__":
    run_or_skip("Kafka Connect", globals())

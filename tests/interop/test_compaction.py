#!/usr/bin/env python3
"""Compaction as kcat sees it: what stays, at its offsets, also over a restart; and repacking."""
import subprocess
import time
import urllib.request

from support.check import equal, expect, run_all
from support.node import Node, fresh_dir
from support.wire import Connection

EXAMPLE = ["A:1", "B:2", "A:3", "C:4", "B:5", "A:6", "D:7", "C:8"]
LEFT = ["B 5 4", "A 6 5", "D 7 6", "C 8 7"]
SEGMENT = 1 << 20
WAIT_S = 60


def kcat(node, *options, lines=None):
    done = subprocess.run(["kcat", "-b", node.kafka, *options], capture_output=True, text=True, timeout=60,
                          input=None if lines is None else "\n".join(lines) + "\n")
    if done.returncode:
        raise AssertionError(f"kcat {options}: exit {done.returncode}: {done.stderr[-500:]}")
    return done.stdout.splitlines()


def metric(node, name):
    with urllib.request.urlopen(f"http://{node.admin}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))


def wait_for(node, name, count):
    deadline = time.monotonic() + WAIT_S
    while metric(node, name) < count:
        expect(time.monotonic() < deadline, f"{name} did not reach {count}")
        time.sleep(0.5)


FAST = ("--set", "log.cleaner.backoff.ms=200", "--set", "log.retention.check.interval.ms=200")


def create(node, topic, configs):
    with Connection(node.kafka) as c:
        equal(c.create_topic(topic, 1, {"segment.bytes": str(SEGMENT), "min.cleanable.dirty.ratio": "0", **configs}), 0,
              "create")


def filler(count, size=60000):
    return [f"filler-{i}:{'x' * size}" for i in range(count * SEGMENT // size)]


def first_records(node, offset="beginning"):
    return kcat(node, "-C", "-t", "compacted", "-o", str(offset), "-c", "4", "-q", "-f", "%k %s %o\n")


def test_the_worked_example():
    data = fresh_dir("compaction") / "data"
    with Node(data, *FAST) as node:
        create(node, "compacted", {"cleanup.policy": "compact"})
        kcat(node, "-P", "-t", "compacted", "-K", ":", lines=EXAMPLE)
        # Others behind them, so that their segment is closed and another one, too.
        kcat(node, "-P", "-t", "compacted", "-K", ":", lines=filler(3))
        wait_for(node, "coreflume_compactions_total", 1)
        equal(first_records(node), LEFT, "what is left")
        for offset in range(4):
            equal(first_records(node, offset), LEFT, f"from offset {offset}, which is gone")
        equal(first_records(node, 6)[:2], LEFT[2:], "from offset 6")
        expect(metric(node, "coreflume_compact_removed_records_total") >= 4, "removed records are not counted")
        keys = kcat(node, "-C", "-t", "compacted", "-o", "beginning", "-e", "-q", "-f", "%k\n")
        equal(keys, ["B", "A", "D", "C"] + [line.split(":")[0] for line in filler(3)], "all keys")
    with Node(data) as node:
        equal(first_records(node), LEFT, "after a restart")


def test_compacted_and_deleted():
    """Both policies: the last value of a key stays, until retention takes its segment."""
    data = fresh_dir("compact_delete") / "data"
    with Node(data, *FAST) as node:
        create(node, "compacted", {"cleanup.policy": "compact,delete", "retention.bytes": str(6 * SEGMENT)})
        kcat(node, "-P", "-t", "compacted", "-K", ":", lines=EXAMPLE)
        kcat(node, "-P", "-t", "compacted", "-K", ":", lines=filler(3))
        wait_for(node, "coreflume_compactions_total", 1)
        equal(first_records(node), LEFT, "compacted")
        more = [f"more-{i}:{'y' * 60000}" for i in range(8 * SEGMENT // 60000)]
        kcat(node, "-P", "-t", "compacted", "-K", ":", lines=more)
        deadline = time.monotonic() + WAIT_S
        while first_records(node) == LEFT:
            expect(time.monotonic() < deadline, "retention takes nothing")
            time.sleep(0.2)
        keys = kcat(node, "-C", "-t", "compacted", "-o", "beginning", "-e", "-q", "-f", "%k\n")
        expect(not {"A", "B", "C", "D"} & set(keys), "the oldest segment is gone as a whole")
        equal(keys[-len(more) // 2:], [line.split(":")[0] for line in more][-len(more) // 2:], "the youngest stay")


def test_the_lag_closes_a_segment_and_a_broker_may_not_compact():
    """max.compaction.lag.ms is kept although the records are few; log.cleaner.enable=false keeps all."""
    data = fresh_dir("compact_lag") / "data"
    with Node(data, *FAST, "--set", "log.cleaner.enable=false") as node:
        create(node, "compacted", {"cleanup.policy": "compact", "max.compaction.lag.ms": "500"})
        kcat(node, "-P", "-t", "compacted", "-K", ":", lines=EXAMPLE)
        time.sleep(0.6)
        kcat(node, "-P", "-t", "compacted", "-K", ":", lines=["E:9"])  # A segment ends when the next record comes.
        time.sleep(1)
        equal(metric(node, "coreflume_compactions_total"), 0, "compactions of a broker that does not compact")
        equal(len(kcat(node, "-C", "-t", "compacted", "-o", "beginning", "-e", "-q")), len(EXAMPLE) + 1, "all stays")
    with Node(data, *FAST) as node:
        wait_for(node, "coreflume_compactions_total", 1)
        equal(first_records(node), LEFT, "compacted")


def test_tiny_batches_are_repacked():
    with Node(fresh_dir("repack") / "data", *FAST) as node:
        create(node, "tiny", {})
        # One batch per record, each flushed before the next is sent.
        lines = [f"line {i}" for i in range(700)]
        kcat(node, "-P", "-t", "tiny", "-X", "batch.num.messages=1", "-X", "max.in.flight=1", lines=lines)
        wait_for(node, "coreflume_repacks_total", 1)
        equal(kcat(node, "-C", "-t", "tiny", "-o", "beginning", "-e", "-q"), lines, "what is read")
        written = metric(node, "coreflume_compact_written_bytes_total")
        expect(0 < written < SEGMENT / 4, f"{written} bytes are not dense")


run_all(globals())

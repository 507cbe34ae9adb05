#!/usr/bin/env python3
"""Records that go: retention and DeleteRecords on a real node, seen by kcat and on the wire."""
import signal
import subprocess
import time

from support.check import equal, expect, run_all
from support.node import Node, fresh_dir
from support.wire import Connection, array, batch, i32, i64, string

EARLIEST, LATEST = -2, -1
OUT_OF_RANGE, UNKNOWN_TOPIC, POLICY = 1, 3, 44
MIB = 1 << 20


def kcat(node, *options, lines=None):
    done = subprocess.run(["kcat", "-b", node.kafka, *options], capture_output=True, text=True, timeout=60,
                          input="\n".join(lines) + "\n" if lines else None)
    expect(done.returncode == 0, f"kcat {options}: {done.stderr[-500:]}")
    return done.stdout.splitlines()


def delete_records(wire, topic, offsets):
    """DeleteRecords v1; {partition: offset} to {partition: (low watermark, error)}."""
    parts = [i32(p) + i64(offset) for p, offset in offsets.items()]
    r = wire.ask(21, 1, array([string(topic) + array(parts)]) + i32(10000))
    r.i32()
    topics = r.array(lambda r: (r.string(), r.array(lambda r: (r.i32(), r.i64(), r.i16()))))
    r.end()
    equal(topics[0][0], topic, "topic")
    return {p: (low, error) for p, low, error in topics[0][1]}


def earliest(wire, topic, partition=0):
    return wire.list_offsets(topic, partition, EARLIEST)[2]


def wait_until(seconds, condition, what):
    deadline = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < deadline, f"not within {seconds} s: {what}")
        time.sleep(0.2)


def segments_count(data, topic):
    return len(list(data.glob(f"logs/{topic}-0/*.log")))


def test_beyond_retention_bytes_earliest_moves_and_the_rest_is_consumed():
    data = fresh_dir("retention_bytes") / "data"
    with Node(data, "--set", "log.retention.check.interval.ms=500") as node, Connection(node.kafka) as wire:
        equal(wire.create_topic("t", 1, {"retention.bytes": str(2 * MIB), "segment.bytes": str(MIB)}), 0, "create")
        lines = [f"{i:06d}" + "x" * 10000 for i in range(1000)]
        kcat(node, "-P", "-t", "t", "-X", "batch.num.messages=10", lines=lines)
        wait_until(20, lambda: earliest(wire, "t") > 500, "earliest moves")
        time.sleep(1)
        start = earliest(wire, "t")
        kept = (1000 - start) * 10006
        expect(1.8 * MIB < kept < 3.3 * MIB, f"kept {kept} bytes")
        got = kcat(node, "-C", "-t", "t", "-o", "beginning", "-e", "-q")
        equal([line[:6] for line in got], [line[:6] for line in lines[start:]], "what is left")
        equal(wire.fetch("t", 0, start - 1)[0], OUT_OF_RANGE, "below the start")
        # Two full segments, the one being written, and its successor if that is prepared already.
        wait_until(20, lambda: segments_count(data, "t") <= 4, "the files go")


def test_retention_ms_takes_the_last_segment_too():
    data = fresh_dir("retention_ms") / "data"
    with Node(data, "--set", "log.retention.check.interval.ms=500") as node, Connection(node.kafka) as wire:
        equal(wire.create_topic("t", 1, {"retention.ms": "2000"}), 0, "create")
        kcat(node, "-P", "-t", "t", lines=["a", "b", "c"])
        equal(earliest(wire, "t"), 0, "at first")
        wait_until(20, lambda: earliest(wire, "t") == 3, "all three go")
        kcat(node, "-P", "-t", "t", lines=["d"])
        equal(kcat(node, "-C", "-t", "t", "-o", "beginning", "-e", "-q"), ["d"], "the new one")


def test_delete_records_answers_and_survives_kill_9():
    data = fresh_dir("delete_records") / "data"
    with Node(data) as node, Connection(node.kafka) as wire:
        equal(wire.create_topic("t", 2), 0, "create")
        equal(wire.create_topic("c", 1, {"cleanup.policy": "compact"}), 0, "create")
        for _ in range(10):
            equal(wire.produce("t", 0, batch([b"v"]))[0], 0, "produce")
        equal(delete_records(wire, "t", {0: 4, 1: -1, 7: 0}),
              {0: (4, 0), 1: (0, 0), 7: (-1, UNKNOWN_TOPIC)}, "several at once")
        equal(delete_records(wire, "t", {0: 11}), {0: (-1, OUT_OF_RANGE)}, "beyond the end")
        equal(delete_records(wire, "t", {0: 2}), {0: (4, 0)}, "below the start: nothing to do")
        equal(delete_records(wire, "nope", {0: 0}), {0: (-1, UNKNOWN_TOPIC)}, "unknown")
        equal(delete_records(wire, "c", {0: -1}), {0: (-1, POLICY)}, "compact only")
        equal(delete_records(wire, "t", {0: 7}), {0: (7, 0)}, "again")
        node.process.send_signal(signal.SIGKILL)
        node.process.wait()
    with Node(data) as node, Connection(node.kafka) as wire:
        equal(earliest(wire, "t"), 7, "after kill -9")
        equal(wire.list_offsets("t", 0, LATEST)[2], 10, "the end")
        equal(wire.fetch("t", 0, 6)[0], OUT_OF_RANGE, "below")
        equal(len(kcat(node, "-C", "-t", "t", "-p", "0", "-o", "beginning", "-e", "-q")), 3, "what is left")
        equal(delete_records(wire, "t", {0: -1}), {0: (10, 0)}, "to the end")


run_all(globals())

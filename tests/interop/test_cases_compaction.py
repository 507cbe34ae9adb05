#!/usr/bin/env python3
"""Public fault reports about compaction, on a real node. Numbers like C097 are theirs."""
import signal
import subprocess
import time
import urllib.request

from support.check import equal, expect, run_all
from support.node import Node, fresh_dir
from support.wire import Connection, batch, i32, i64, array, string

NONE = 0
SEGMENT = 1 << 20
FAST = ("--set", "log.cleaner.backoff.ms=200", "--set", "log.retention.check.interval.ms=200")
# Made once: its checksum takes Python a while.
FILLER = batch([b"x" * 400000], keys=[b"filler"], timestamps=[int(time.time() * 1000)])


def create(c, topic, **configs):
    configs = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT), "min.cleanable.dirty.ratio": "0.01",
               **{name.replace("_", "."): value for name, value in configs.items()}}
    equal(c.create_topic(topic, 1, configs), NONE, "create")


def put(c, topic, *pairs):
    now = [int(time.time() * 1000)] * len(pairs)  # Else retention takes them where it may.
    data = batch([value for _, value in pairs], keys=[key for key, _ in pairs], timestamps=now)
    equal(c.produce(topic, 0, data)[0], NONE, "produce")


def close_segment(c, topic):
    """Others behind what is there, until its segment is full and the next one too."""
    for _ in range(5):
        equal(c.produce(topic, 0, FILLER)[0], NONE, "filler")


def read(node, topic):
    """(offset, key, value) of all, without the filler; a tombstone's value is None."""
    lines = subprocess.run(["kcat", "-b", node.kafka, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-Z",
                            "-f", "%o %k %s\n"], capture_output=True, text=True, timeout=60, check=True).stdout
    found = [line.split(" ", 2) for line in lines.splitlines()]
    return [(int(o), k, None if v == "NULL" else v) for o, k, v in found if k != "filler"]


def metric(node, name):
    with urllib.request.urlopen(f"http://{node.admin}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))


def eventually(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, f"not within {seconds} s: {what}")
        time.sleep(0.1)


def test_c097_the_last_batch_of_a_producer_outlives_its_records():
    data = fresh_dir("c097") / "data"
    with Node(data, *FAST) as node, Connection(node.kafka) as c:
        create(c, "t")
        _, producer_id, epoch = c.init_producer_id()
        sent = [batch([b"%d" % i], producer_id, epoch, i, keys=[b"a"]) for i in range(6)]
        for i in range(5):
            equal(c.produce("t", 0, sent[i])[:2], (NONE, i), f"sequence {i}")
        put(c, "t", (b"a", b"other"))
        close_segment(c, "t")
        eventually("only the latest of a is left", lambda: read(node, "t") == [(5, "a", "other")])
        node.process.send_signal(signal.SIGKILL)
        node.process.wait()
    with Node(data, *FAST) as node, Connection(node.kafka) as c:
        end = c.list_offsets("t", 0, -1)[2]
        equal(c.produce("t", 0, sent[4])[:2], (NONE, 4), "sequence 4 again: its first offset")
        equal(c.produce("t", 0, sent[5])[:2], (NONE, end), "sequence 5 goes on")


def test_c099_a_tombstone_stays_as_long_as_the_topic_says_and_no_longer():
    with Node(fresh_dir("c099") / "data", *FAST) as node, Connection(node.kafka) as c:
        create(c, "t", delete_retention_ms="4000")
        put(c, "t", (b"a", b"1"), (b"a", None), (b"b", b"1"))
        close_segment(c, "t")
        began = time.monotonic()
        eventually("a=1 goes", lambda: (0, "a", "1") not in read(node, "t"))
        equal(read(node, "t"), [(1, "a", None), (2, "b", "1")], "a reader from 0 sees the tombstone")
        seen = True
        while seen:
            close_segment(c, "t")  # A pass needs something new to read.
            time.sleep(0.5)
            seen = (1, "a", None) in read(node, "t")
            expect(time.monotonic() - began < 30, "the tombstone lives for ever")
        expect(time.monotonic() - began >= 4, f"gone after {time.monotonic() - began:.1f} s")
        equal(read(node, "t"), [(2, "b", "1")], "what is left")


def delete_records(c, topic, offset):
    r = c.ask(21, 1, array([string(topic) + array([i32(0) + i64(offset)])]) + i32(10000))
    r.i32()
    return r.array(lambda r: (r.string(), r.array(lambda r: (r.i32(), r.i64(), r.i16()))))[0][1][0][1:]


def test_c103_old_data_stay_readable_when_the_policy_changes():
    """The topic has no policy of its own: the broker's default changes from start to start."""
    data = fresh_dir("c103") / "data"
    policy = "log.cleanup.policy="
    with Node(data, *FAST, "--set", policy + "compact") as node, Connection(node.kafka) as c:
        configs = {"segment.bytes": str(SEGMENT), "min.cleanable.dirty.ratio": "0.01"}
        equal(c.create_topic("t", 1, configs), NONE, "create")
        put(c, "t", *[(b"k%d" % (i % 3), b"%d" % i) for i in range(9)])
        close_segment(c, "t")
        left = [(6, "k0", "6"), (7, "k1", "7"), (8, "k2", "8")]
        eventually("it is compacted", lambda: read(node, "t") == left)
    for value in ("delete", "compact,delete", "compact"):
        with Node(data, *FAST, "--set", policy + value) as node, Connection(node.kafka) as c:
            equal(read(node, "t"), left, f"under {value}")
            for start in range(9):  # From within what is gone, too.
                error, _, records = c.fetch("t", 0, max(start, left[0][0] if value == "compact" else start))
                expect(error == NONE and records, f"fetch from {start} under {value}: {error}")
            if value == "compact,delete":
                equal(delete_records(c, "t", 7), (7, NONE), "DeleteRecords to the middle")
                left = left[1:]
                equal(read(node, "t"), left, "after it")
            end = c.list_offsets("t", 0, -1)[2]
            put(c, "t", *[(b"new-%s-%d" % (value.encode(), i), b"v") for i in range(10)])
            left = left + [(end + i, f"new-{value}-{i}", "v") for i in range(10)]
            equal(read(node, "t"), left, f"ten more under {value}")


def test_c105_many_terms_leave_nothing_behind():
    """A start is a term: 25 of them, each overwrites the same keys; compaction merges across them."""
    data = fresh_dir("c105") / "data"
    keys = [b"key-%02d" % i for i in range(50)]
    for life in range(25):
        with Node(data, *FAST, "--set", "log.cleaner.enable=false") as node, Connection(node.kafka) as c:
            if life == 0:
                create(c, "t")
            put(c, "t", *[(key, b"%d" % life * 400) for key in keys])
            node.process.send_signal(signal.SIGKILL)
            node.process.wait()
    with Node(data, *FAST) as node, Connection(node.kafka) as c:
        close_segment(c, "t")
        eventually("it is compacted", lambda: metric(node, "coreflume_compactions_total") >= 1)
        eventually("one value per key is left", lambda: len(read(node, "t")) == len(keys))
        equal([value for _, _, value in read(node, "t")], ["24" * 400] * len(keys), "the latest")

        def closed_size():
            files = sorted(f for f in data.glob("logs/*-0/*.log") if not f.parent.is_symlink() and "AAAAAAAAAAAAAAAAAAAAAQ"
                           not in str(f))
            return sum(f.stat().st_blocks * 512 for f in files[:-1])
        live = 50 * 1000 + 2 * 400000  # And the filler that closed the segments.
        eventually(f"{closed_size()} bytes are left", lambda: closed_size() < 4 * live)


run_all(globals())

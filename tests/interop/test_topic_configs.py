#!/usr/bin/env python3
"""Topic configurations that change what is stored and when it is answered, as real clients see it."""
import subprocess
import time
import urllib.request

from support.check import equal, expect, run_all
from support.node import Node, fresh_dir
from support.wire import Connection, batch, batches

NONE = 0
INVALID_CONFIG = 40
INVALID_TIMESTAMP = 32
MESSAGE_TOO_LARGE = 10
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TYPES = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LINES = [f"line {i} {'abcdefgh' * (i % 40)}" for i in range(2000)]


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


def test_every_codec_becomes_every_other():
    with Node(fresh_dir("configs_codecs") / "data") as node, Connection(node.kafka) as c:
        for wanted, number in TYPES.items():
            # Every pair is a unit test (test_recode); here each codec is written and read by librdkafka.
            for sent in ("none", list(CODECS)[1 + number % 4]):
                topic = f"{sent}-to-{wanted}"
                equal(c.create_topic(topic, 1, {"compression.type": wanted}), NONE, "create")
                kcat(node, "-P", "-t", topic, "-z", sent, "-X", "enable.idempotence=true", lines=LINES)
                equal(kcat(node, "-C", "-t", topic, "-o", "beginning", "-e", "-q"), LINES, topic)
                stored = batches(c.fetch(topic, 0, 0)[2])
                equal({attributes & 7 for _, attributes, _, _ in stored}, {number}, f"{topic}: codecs stored")
        expect(metric(node, "coreflume_recoded_batches_total") > 0, "not counted")


def test_broker_default_and_level():
    with Node(fresh_dir("configs_level") / "data", "--set", "compression.type=gzip",
              "--set", "compression.gzip.level=9") as node, Connection(node.kafka) as c:
        equal(c.create_topic("best"), NONE, "create")
        equal(c.create_topic("fast", 1, {"compression.gzip.level": "1"}), NONE, "create")
        equal(c.create_topic("as-sent", 1, {"compression.type": "producer"}), NONE, "create")
        value = "".join(LINES).encode()
        sizes = {}
        for topic in ("best", "fast", "as-sent"):
            equal(c.produce(topic, 0, batch([value]))[0], NONE, topic)
            sizes[topic] = len(c.fetch(topic, 0, 0)[2])
        expect(sizes["best"] < sizes["fast"] < sizes["as-sent"], f"sizes {sizes}")


def test_sizes_before_and_after():
    with Node(fresh_dir("configs_size") / "data", "--set", "message.max.bytes=5000") as node, \
            Connection(node.kafka) as c:
        equal(c.create_topic("by-broker"), NONE, "create")
        equal(c.create_topic("by-topic", 1, {"max.message.bytes": "20000"}), NONE, "create")
        equal(c.create_topic("plain", 1, {"max.message.bytes": "20000", "compression.type": "uncompressed"}), NONE,
              "create")
        large = batch([b"x" * 10000])
        equal(c.produce("by-broker", 0, large)[0], MESSAGE_TOO_LARGE, "message.max.bytes")
        equal(c.produce("by-topic", 0, large)[0], NONE, "max.message.bytes")
        bomb = batch([b"x" * 30000], attributes=1)
        expect(len(bomb) < 5000, "the batch does not shrink")
        error, _, _, message = c.produce("plain", 0, bomb)
        equal(error, MESSAGE_TOO_LARGE, "as it would be stored")
        expect("compression.type" in message, f"message: {message}")


def test_timestamps_outside_the_window_name_the_record():
    with Node(fresh_dir("configs_time") / "data") as node, Connection(node.kafka) as c:
        equal(c.create_topic("t", 1, {"message.timestamp.before.max.ms": "60000", "compression.type": "zstd"}), NONE,
              "create")
        now = int(time.time() * 1000)
        error, _, errors, _ = c.produce("t", 0, batch([b"a", b"b"], timestamps=[now, now - 120000]))
        equal((error, [index for index, _ in errors]), (INVALID_TIMESTAMP, [1]), "before.max.ms")
        error, _, errors, _ = c.produce("t", 0, batch([b"a", b"b"], timestamps=[now + 7200000, now]))
        equal((error, [index for index, _ in errors]), (INVALID_TIMESTAMP, [0]), "after.max.ms")
        equal(c.produce("t", 0, batch([b"a"], timestamps=[now]))[0], NONE, "inside")


def test_ack_memory():
    with Node(fresh_dir("configs_ack") / "data") as node, Connection(node.kafka) as c:
        equal(c.create_topic("bad", 1, {"coreflume.ack": "page-cache"}), INVALID_CONFIG, "unknown word")
        equal(c.create_topic("relaxed", 1, {"coreflume.ack": "memory"}), NONE, "create")
        equal(c.create_topic("bounded", 1, {"coreflume.ack": "memory", "flush.messages": "1"}), NONE, "create")
        kcat(node, "-P", "-t", "relaxed", "-X", "acks=all", lines=LINES)
        expect(metric(node, "coreflume_produce_early_answers_total") > 0, "none was answered early")
        before = metric(node, "coreflume_produce_early_answers_total")
        kcat(node, "-P", "-t", "bounded", "-X", "acks=all", lines=LINES)
        equal(metric(node, "coreflume_produce_early_answers_total"), before, "flush.messages=1 answers early")
        equal(kcat(node, "-C", "-t", "relaxed", "-o", "beginning", "-e", "-q"), LINES, "relaxed")
        equal(kcat(node, "-C", "-t", "bounded", "-o", "beginning", "-e", "-q"), LINES, "bounded")
        equal(node.stop()[0], 0, "exit code")
    with Node(node.data_dir) as node:
        equal(kcat(node, "-C", "-t", "relaxed", "-o", "beginning", "-e", "-q"), LINES, "after a clean stop")


run_all(globals())

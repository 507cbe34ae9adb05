#!/usr/bin/env python3
"""Configurations of topics changed while they are used: what clients may ask for, what is in effect at once, and what
a crash leaves of it."""
import time

from support.check import equal, expect, run_all
from support.definitions import ask
from support.node import Node, fresh_dir
from support.shared import SharedNode
from support.wire import Connection, batch, batches

NONE, UNKNOWN_TOPIC, MESSAGE_TOO_LARGE, INVALID_CONFIG, INVALID_REQUEST = 0, 3, 10, 40, 42
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
OF_TOPIC = 1

shared = SharedNode("alter_configs", "--set", "log.retention.check.interval.ms=100")
connect, new_topic = shared.connect, shared.new_topic


def change(c, topic, *changes, kind=TOPIC, version=1, validate_only=False):
    answer = ask(c, "incremental_alter_configs", version, {"validate_only": validate_only, "resources": [{
        "resource_type": kind, "resource_name": topic,
        "configs": [{"name": n, "config_operation": o, "value": v} for n, o, v in changes]}]})
    result, = answer["responses"]
    equal((result["resource_type"], result["resource_name"]), (kind, topic), "whose")
    expect(bool(result["error_message"]) == (result["error_code"] != NONE), f"message: {result}")
    return result["error_code"]


def replace(c, topic, configs, version=2, validate_only=False):
    answer = ask(c, "alter_configs", version, {"validate_only": validate_only, "resources": [{
        "resource_type": TOPIC, "resource_name": topic,
        "configs": [{"name": n, "value": v} for n, v in configs.items()]}]})
    return answer["responses"][0]["error_code"]


def described(c, topic):
    answer = ask(c, "describe_configs", 4, {"resources": [{
        "resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}]})
    equal(answer["results"][0]["error_code"], NONE, "describe")
    return answer["results"][0]["configs"]


def own(c, topic):
    return {config["name"]: config["value"] for config in described(c, topic) if config["config_source"] == OF_TOPIC}


def test_c089_replacing_and_changing():
    with connect() as c:
        topic = new_topic(c, cleanup_policy="compact", retention_ms="1000")
        for version in (0, 1, 2):
            equal(replace(c, topic, {"segment.bytes": "2097152"}, version), NONE, "replace")
            equal(own(c, topic), {"segment.bytes": "2097152"}, "only that")
        for version in (0, 1):
            equal(change(c, topic, ("cleanup.policy", SET, "compact"), version=version), NONE, "set")
        equal(change(c, topic, ("cleanup.policy", APPEND, "delete")), NONE, "append")
        equal(own(c, topic), {"segment.bytes": "2097152", "cleanup.policy": "compact,delete"}, "appended")
        equal(change(c, topic, ("cleanup.policy", APPEND, "delete")), NONE, "what is there already")
        equal(own(c, topic)["cleanup.policy"], "compact,delete", "appended again")
        equal(change(c, topic, ("cleanup.policy", SUBTRACT, "compact"), ("segment.bytes", DELETE, None)), NONE, "less")
        equal(own(c, topic), {"cleanup.policy": "delete"}, "subtracted and deleted")
        equal(replace(c, topic, {}), NONE, "nothing")
        equal(own(c, topic), {}, "all at their defaults")
        equal(change(c, topic, ("cleanup.policy", APPEND, "compact")), NONE, "append to the default")
        equal(own(c, topic), {"cleanup.policy": "delete,compact"}, "from the default")
        equal(change(c, topic, ("cleanup.policy", SUBTRACT, "compact,delete")), NONE, "all")
        equal(own(c, topic), {"cleanup.policy": ""}, "an empty list")


def test_c091_what_was_described_can_be_set():
    with connect() as c:
        topic = new_topic(c, cleanup_policy="compact", retention_ms="1000")
        before = {config["name"]: config["value"] for config in described(c, topic) if not config["read_only"]}
        equal(change(c, topic, *((n, SET, v) for n, v in before.items())), NONE, "incremental")
        equal(own(c, topic), before, "after the incremental one")
        equal(replace(c, topic, before), NONE, "replaced")
        equal(own(c, topic), before, "after replacing")
        foreign = {n for n in before if n.startswith("coreflume.")}
        equal(foreign, {"coreflume.ack", "coreflume.retention.topic.bytes"}, "names that are not Kafka's")


def test_refusals_change_nothing():
    with connect() as c:
        topic = new_topic(c, retention_ms="1000")
        keep = ("segment.ms", SET, "5000")
        for wanted, *changes in (
                (INVALID_CONFIG, keep, ("no.such.name", SET, "1")), (INVALID_CONFIG, keep, ("segment.bytes", SET, "1")),
                (INVALID_CONFIG, ("retention.ms", SET, "soon")), (INVALID_CONFIG, ("retention.ms", APPEND, "5")),
                (INVALID_CONFIG, ("cleanup.policy", APPEND, "sometimes")),
                (INVALID_CONFIG, ("max.compaction.lag.ms", SET, "5"), ("min.compaction.lag.ms", SET, "6")),
                (INVALID_CONFIG, ("retention.ms", SET, "1" * 32767)),
                (INVALID_REQUEST, keep, keep), (INVALID_REQUEST, ("segment.ms", SET, None)),
                (INVALID_REQUEST, ("segment.ms", 4, "5")), (INVALID_REQUEST, ("", SET, "5"))):
            equal(change(c, topic, *changes), wanted, f"{str(changes)[:80]}")
            equal(own(c, topic), {"retention.ms": "1000"}, "unchanged")
        equal(change(c, topic, ("no.such.name", DELETE, None), ("segment.ms", DELETE, None)), NONE, "nothing to delete")
        equal(change(c, "no-such-topic", keep), UNKNOWN_TOPIC, "unknown topic")
        equal(change(c, "", keep), INVALID_REQUEST, "no name")
        for kind in (0, 3, LOGGER, METRICS):
            equal(change(c, topic, keep, kind=kind), INVALID_REQUEST, f"resource type {kind}")
        equal(change(c, topic, keep, validate_only=True), NONE, "would be fine")
        equal(replace(c, topic, {}, validate_only=True), NONE, "would be fine as well")
        equal(replace(c, topic, {"segment.bytes": "1"}, validate_only=True), INVALID_CONFIG, "would not")
        equal(own(c, topic), {"retention.ms": "1000"}, "still unchanged")


def test_each_resource_for_itself():
    with connect() as c:
        good, bad, twice = (new_topic(c) for _ in range(3))
        answer = ask(c, "incremental_alter_configs", 1, {"resources": [
            {"resource_type": TOPIC, "resource_name": name,
             "configs": [{"name": "segment.ms", "config_operation": SET, "value": value}]}
            for name, value in ((good, "5"), (twice, "6"), (bad, "0"), (twice, "7"))]})
        equal([(r["resource_name"], r["error_code"]) for r in answer["responses"]],
              [(good, NONE), (twice, INVALID_REQUEST), (bad, INVALID_CONFIG), (twice, INVALID_REQUEST)], "answers")
        equal([own(c, name) for name in (good, twice, bad)], [{"segment.ms": "5"}, {}, {}], "effects")


def start_offset(c, topic):
    return c.list_offsets(topic, 0, -2)[2]


def test_effective_at_once():
    with connect() as c:
        topic = new_topic(c, 4)
        large = batch([b"x" * 50000])
        equal(change(c, topic, ("compression.type", SET, "gzip")), NONE, "set")
        for partition in range(4):  # On every shard.
            equal(c.produce(topic, partition, large)[0], NONE, "fits")
            stored = batches(c.fetch(topic, partition, 0)[2])
            equal([attributes & 7 for _, attributes, _, _ in stored], [1], "stored as gzip")
        equal(replace(c, topic, {"max.message.bytes": "1000"}), NONE, "set")
        for partition in range(4):
            equal(c.produce(topic, partition, large)[0], MESSAGE_TOO_LARGE, "too large now")
        equal(change(c, topic, ("max.message.bytes", DELETE, None)), NONE, "delete")
        equal(c.produce(topic, 0, large)[0], NONE, "fits again")


def test_segments_and_retention_follow():
    with connect() as c:
        topic = new_topic(c)
        for _ in range(6):
            equal(c.produce(topic, 0, batch([b"y" * 500000]))[0], NONE, "produce")
        equal(change(c, topic, ("segment.bytes", SET, "1048576"), ("retention.bytes", SET, "1048576")), NONE, "set")
        for _ in range(6):
            equal(c.produce(topic, 0, batch([b"z" * 500000]))[0], NONE, "produce")
        until = time.monotonic() + 10
        while start_offset(c, topic) < 6 and time.monotonic() < until:
            time.sleep(0.05)
        expect(start_offset(c, topic) >= 6, f"the log starts at {start_offset(c, topic)}")
        first, = (base for base, *_ in batches(c.fetch(topic, 0, start_offset(c, topic))[2])[:1])
        equal(first, start_offset(c, topic), "readable from there")


def test_survives_kill():
    data_dir = fresh_dir("alter_configs_kill") / "data"
    with Node(data_dir) as other, Connection(other.kafka) as c:
        for name in ("altered", "replaced", "reset", "deleted"):
            equal(c.create_topic(name, 1, {"retention.ms": "1000"}), NONE, "create")
        equal(change(c, "altered", ("max.message.bytes", SET, "1000"), ("retention.ms", DELETE, None)), NONE, "set")
        equal(replace(c, "replaced", {"segment.ms": "7"}), NONE, "replace")
        equal(replace(c, "reset", {}), NONE, "reset")
        equal(change(c, "deleted", ("segment.ms", SET, "9")), NONE, "set")
        equal(c.delete_topic("deleted"), NONE, "delete")
        other.kill()
    for _ in range(2):
        with Node(data_dir) as other, Connection(other.kafka) as c:
            equal(own(c, "altered"), {"max.message.bytes": "1000"}, "altered")
            equal(own(c, "replaced"), {"segment.ms": "7"}, "replaced")
            equal(own(c, "reset"), {}, "reset")
            equal(c.produce("altered", 0, batch([b"x" * 5000]))[0], MESSAGE_TOO_LARGE, "in effect")
            other.kill()


run_all(globals())

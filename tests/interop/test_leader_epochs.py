#!/usr/bin/env python3
"""OffsetForLeaderEpoch: each start of a node is a leader epoch of its own, and readers learn where each ends."""
from support.check import equal, expect, run_all
from support.definitions import ask
from support.node import Node, fresh_dir
from support.wire import Connection, batch

NONE, UNKNOWN_TOPIC, FENCED_EPOCH, UNKNOWN_EPOCH = 0, 3, 74, 75

data = fresh_dir("leader_epochs") / "data"


def end_of(c, epoch, current=-1, partition=0, topic="t", version=4):
    answer = ask(c, "offset_for_leader_epoch", version, {"topics": [{"topic": topic, "partitions": [
        {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}]}]})
    (topic_answer,) = answer["topics"]
    (found,) = topic_answer["partitions"]
    equal((topic_answer["topic"], found["partition"]), (topic, partition), "whose")
    return found["error_code"], found["leader_epoch"], found["end_offset"]


def current_epoch(c):
    topic, = ask(c, "metadata", 12, {"topics": [{"name": "t"}]})["topics"]
    return topic["partitions"][0]["leader_epoch"]


def test_each_start_ends_where_the_next_begins():
    epochs, ends = [], []
    for start in range(3):
        with Node(data, "--cores", "0") as node, Connection(node.kafka) as c:
            if start == 0:
                equal(c.create_topic("t"), NONE, "create")
            epochs.append(current_epoch(c))
            for _ in range(start + 1):
                error, offset = c.produce("t", 0, batch([b"x"]))[:2]
                equal(error, NONE, "produce")
            ends.append(offset + 1)
            for version in (2, 3, 4):
                for epoch, end in zip(epochs, ends):
                    equal(end_of(c, epoch, version=version), (NONE, epoch, end), f"epoch {epoch} v{version}")
            equal(end_of(c, epochs[-1] + 1), (NONE, -1, -1), "larger than all known")
            equal(end_of(c, 0), (NONE, 0, 0), "older than all known")
            equal(end_of(c, epochs[0], current=epochs[-1]), (NONE, epochs[0], ends[0]), "the right current epoch")
            equal(end_of(c, epochs[0], current=epochs[-1] + 1)[0], UNKNOWN_EPOCH, "one that is to come")
            equal(end_of(c, epochs[0], current=epochs[-1] - 1)[0], FENCED_EPOCH, "one that is over")
            equal(end_of(c, epochs[0], partition=7), (UNKNOWN_TOPIC, -1, -1), "no such partition")
            equal(end_of(c, epochs[0], topic="none"), (UNKNOWN_TOPIC, -1, -1), "no such topic")
            node.kill()  # Terms are durable before anything is appended under them.
    expect(epochs == sorted(set(epochs)), f"epochs rise: {epochs}")


run_all(globals())

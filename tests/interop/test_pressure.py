#!/usr/bin/env python3
"""Crowds that mean harm, or do it: whatever they do, memory stays in its bounds, each limit is told in words, and
somebody else goes on. How much slower he gets is not asked here but in perf/hostile.py."""
import os
import resource
import socket
import struct
import time
import urllib.request

from support.check import equal, expect, run_all
from support.crowd import answered, dial, frame
from support.definitions import ask, receive, send
from support.node import Node, binary, fresh_dir
from support.wire import Connection, batch, batches

NONE, UNKNOWN_TOPIC, NO_PARTITIONS, UNSUPPORTED = 0, 3, 37, 42
MIB = 1 << 20
MEMORY = 32
# What the process takes beside its buffers: itself, its tables, decoded requests (a quarter of the memory).
BESIDE = 64
SLOTS = 100
SCALE = int(os.environ.get("SCALE", "1"))  # Of what takes long: ./dev soak has 20.


def start(name, *options, memory=MEMORY):
    node = Node(fresh_dir(f"pressure_{name}") / "data", "--cores", "0", "--memory", f"{memory}MiB", *options)
    node.memory = memory
    return node


class Neighbour:
    """A client who did nothing wrong, on one connection all the time."""

    def __init__(self, node):
        self.node, self.c, self.offset = node, Connection(node.kafka, seconds=60), 0
        equal(self.c.create_topic("neighbour"), NONE, "create")
        self.goes_on()
        self.before = node.rss_kib()

    def goes_on(self):
        equal(self.c.produce("neighbour", 0, batch([b"x"]), timeout_ms=60000)[:2], (NONE, self.offset), "produce")
        error, _, data = self.c.fetch("neighbour", 0, self.offset)
        equal((error, [b[0] for b in batches(data)]), (NONE, [self.offset]), "fetch")
        self.offset += 1

    def ends(self, grown_max=None):
        """The node stood within its memory all the time, and stops in order. ASan keeps what was freed."""
        self.goes_on()
        peak, grown = self.node.peak_kib() >> 10, (self.node.rss_kib() - self.before) >> 10
        print(f"   {peak} MiB at most, {grown} more than before")
        if "asan" not in binary():
            expect(peak < self.node.memory + BESIDE, f"{peak} MiB with --memory {self.node.memory}MiB")
            expect(grown_max is None or grown < grown_max, f"grown by {grown} MiB")
        self.c.socket.close()
        equal(self.node.stop()[0], 0, "exit code")


def page(node, path):
    return urllib.request.urlopen(f"http://{node.admin}/{path}", timeout=60).read().decode()


def comes_true(what, text):
    """What the node does or looks at a little later."""
    deadline = time.monotonic() + 60
    while not what():
        expect(time.monotonic() < deadline, text)
        time.sleep(0.05)


def metric(node, name):
    return sum(float(line.rsplit(" ", 1)[1]) for line in page(node, "metrics").splitlines() if line.split("{")[0].split(" ")[0] == name)


def test_ten_thousand_half_frames():
    """Each takes a page, and there is room for them; where there is none they go: test_hostile.py."""
    count = min(10000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 2000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with start("half_frames", memory=64) as node:
        neighbour = Neighbour(node)
        half = frame("metadata", 12, {"topics": None})[:12]
        crowd = []
        for i in range(count):
            crowd.append(dial(node))
            crowd[-1].sendall(half)
            if i % 1000 == 999:
                neighbour.goes_on()
        comes_true(lambda: metric(node, "coreflume_connections") == count + 1, "not all connections are there")
        neighbour.goes_on()
        crowd[0].sendall(frame("metadata", 12, {"topics": None})[12:])
        expect(answered(crowd[0]), "who sends the other half is served")
        for s in crowd:
            s.close()
        neighbour.ends()


def test_connections_come_and_go():
    with start("churn") as node:
        neighbour = Neighbour(node)
        question = frame("api_versions", 3, {})
        for i in range(4000):
            s = dial(node)
            if i % 4:
                s.sendall(question[:i % len(question)] if i % 4 == 1 else question)
            if i % 4 == 3:
                answered(s)
            s.close()
            if i % 500 == 0:
                neighbour.goes_on()
        neighbour.ends(grown_max=16)


def test_a_byte_at_a_time():
    """Who sends slowly is waited for, while others go on; each byte comes by itself."""
    with start("slow_bytes") as node:
        neighbour = Neighbour(node)
        partition = {"index": 0, "records": batch([b"slow"])}
        data = frame("produce", 9, {"acks": -1, "timeout_ms": 60000, "transactional_id": None, "topic_data": [
            {"name": "neighbour", "partition_data": [partition]}]})
        with dial(node) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(data)):
                s.sendall(data[i:i + 1])
                if i % 20 == 0:
                    neighbour.goes_on()
            expect(answered(s), "an answer")
            neighbour.offset += 1
        neighbour.ends(grown_max=16)


def test_fetch_sessions_left_behind():
    with start("sessions", "--set", f"max.incremental.fetch.session.cache.slots={SLOTS}") as node:
        neighbour = Neighbour(node)
        partitions = [{"partition": 0, "fetch_offset": 1 << 40, "partition_max_bytes": 1 << 20}]
        opens = frame("fetch", 12, {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": MIB, "session_epoch": 0,
                                    "topics": [{"topic": "neighbour", "partitions": partitions}]})
        ids = []
        for _ in range(20):
            crowd = [dial(node) for _ in range(250)]
            for s in crowd:
                s.sendall(opens)
            for s in crowd:
                ids.append(struct.unpack_from(">i", answered(s), 11)[0])
                s.close()
            neighbour.goes_on()
        equal(len(ids), 5000, "answers")
        equal(sum(1 for i in ids if i), SLOTS, "sessions: as many as there are slots")
        neighbour.ends(grown_max=16)


def test_a_hundred_thousand_unknown_topics():
    """A thousand at a time, all at once, and where asking makes topics: as many as the limit allows."""
    names = [{"name": f"unknown-{i}"} for i in range(100000)]
    with start("unknown", "--set", "coreflume.topics.max=12") as node:
        neighbour = Neighbour(node)
        with Connection(node.kafka, 60) as c:
            thousand = frame("metadata", 12, {"topics": names[:1000], "allow_auto_topic_creation": 0})
            for i in range(40):
                c.send_raw(thousand)
                if i % 20 == 0:
                    neighbour.goes_on()
                c.receive()
            answer = ask(c, "metadata", 12, {"topics": names[:1000], "allow_auto_topic_creation": 0})
            equal({t["error_code"] for t in answer["topics"]}, {UNKNOWN_TOPIC}, "unknown")
            correlation_id = send(c, "metadata", 12, {"topics": names, "allow_auto_topic_creation": 0})
            try:
                answer = c.receive()
                equal(answer.i32(), correlation_id, "answer")
                expect(answer.left() > 100000 * len("unknown-1"), f"{answer.left()} bytes")
            except EOFError:  # More than a request may take: its connection is the price.
                expect("request_refused" in node.log_path.read_text(), "closed without a word")
        with Connection(node.kafka, 60) as c:
            answer = ask(c, "metadata", 12, {"topics": names[:1000], "allow_auto_topic_creation": 1})
            made = [t for t in answer["topics"] if t["error_code"] == NONE]
            equal(len(made), 11, "topics made: what the limit leaves beside the neighbour's")
            equal(len(answer["topics"]), 1000, "answers")
            equal(len(ask(c, "metadata", 12, {"topics": None})["topics"]), 12, "topics in all")
        neighbour.ends()


def test_c137_limits_are_told_with_their_settings():
    """Limit, value, what is used, and the setting; what is there goes on; the metrics show how much room is left."""
    with start("limits", "--set", "coreflume.partitions.max=10", "--set", "coreflume.topics.max=3",
               "--set", "coreflume.topic.partitions.max=6") as node:
        neighbour = Neighbour(node)

        def create(name, count):
            answer = ask(neighbour.c, "create_topics", 7, {"timeout_ms": 10000, "topics": [
                {"name": name, "num_partitions": count, "replication_factor": 1}]})["topics"][0]
            return answer["error_code"], answer["error_message"] or ""

        def expect_words(answer, *words):
            equal(answer[0], NO_PARTITIONS, f"code of {answer[1]!r}")
            expect(all(word in answer[1] for word in words), answer[1])
        expect_words(create("wide", 7), "is 7", "may have 6", "coreflume.topic.partitions.max")
        equal(create("a", 6)[0], NONE, "six more")
        expect_words(create("b", 4), "has 7", "at most 10", "coreflume.partitions.max")
        grown = ask(neighbour.c, "create_partitions", 3, {"timeout_ms": 10000, "topics": [{"name": "neighbour", "count": 5}]})
        expect_words((grown["results"][0]["error_code"], grown["results"][0]["error_message"]),
                     "has 7", "at most 10", "coreflume.partitions.max")
        equal(create("b", 1)[0], NONE, "one more")
        expect_words(create("c", 1), "has 3", "at most 3", "coreflume.topics.max")
        equal((metric(node, "coreflume_partitions"), metric(node, "coreflume_partitions_max")), (8, 10), "metrics")
        neighbour.ends()


def test_c139_a_fetch_over_many_partitions_is_bounded():
    """Twenty clients ask for all there is in one request each. No answer passes fetch.max.bytes, no partition starves."""
    partitions, size, limit = 40, 100000, MIB
    with start("fetch", "--set", f"fetch.max.bytes={limit}") as node:
        neighbour = Neighbour(node)
        equal(neighbour.c.create_topic("t", partitions), NONE, "create")
        data = batch([bytes(size)])
        for p in range(partitions):
            equal(neighbour.c.produce("t", p, data)[0], NONE, "produce")
        crowd = [Connection(node.kafka, 60) for _ in range(20)]
        left = [list(range(partitions)) for _ in crowd]
        rounds = 0
        while any(left):  # While others have the memory an answer may be empty; asked again it is not, some time.
            rounds += 1
            expect(rounds < 1000, f"partitions that gave nothing: {left}")
            asked = [(c, todo, send(c, "fetch", 11, {
                "replica_id": -1, "max_wait_ms": 100, "min_bytes": 1, "max_bytes": 2**31 - 1, "session_epoch": -1,
                "topics": [{"topic": "t", "partitions": [
                    {"partition": p, "current_leader_epoch": -1, "partition_max_bytes": MIB} for p in todo]}]}))
                for c, todo in zip(crowd, left) if todo]
            neighbour.goes_on()
            for c, todo, number in asked:
                answer = receive(c, "fetch", 11, number)
                found = {p["partition_index"]: len(p["records"]) for t in answer["responses"] for p in t["partitions"]
                         if p["records"]}
                expect(sum(found.values()) <= limit + len(data), f"{sum(found.values())} bytes")
                todo[:] = [p for p in todo if p not in found]
        for c in crowd:
            c.socket.close()
        neighbour.ends()


def test_c141_short_lived_groups_and_producers():
    """Groups up to their limit, which is told; producers of one partition, of which the oldest are forgotten."""
    groups_max, groups, producers = 400 * SCALE, 1000 * SCALE, 1000 * SCALE
    with start("short_lived", "--set", f"coreflume.groups.max={groups_max}",
               "--set", "coreflume.partition.producers.max=300") as node:
        neighbour = Neighbour(node)
        c = neighbour.c
        while ask(c, "find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]})["coordinators"][0]["error_code"]:
            pass
        codes = []
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        for at in range(0, groups, 500):
            asked = [send(c, "offset_commit", 8, {"group_id": f"group-{i}", "topics": [
                {"name": "neighbour", "partitions": [partition]}]}) for i in range(at, at + 500)]
            codes += [receive(c, "offset_commit", 8, number)["topics"][0]["partitions"][0]["error_code"] for number in asked]
        print(f"   {codes.count(NONE)} of {groups} groups; codes {sorted(set(codes))}")
        equal(codes.count(NONE), groups_max, "groups")
        comes_true(lambda: "groups_full" in page(node, "healthz"), "/healthz does not tell")
        first = c.init_producer_id()[1]
        data = [frame("produce", 8, {"acks": -1, "timeout_ms": 60000, "transactional_id": None, "topic_data": [
            {"name": "neighbour", "partition_data": [{"index": 0, "records": batch(
                [b"x"], producer_id=first + i, epoch=0, sequence=0)}]}]}) for i in range(producers)]
        with dial(node) as s:
            for at in range(0, producers, 50):
                s.sendall(b"".join(data[at:at + 50]))
                for _ in range(50):
                    answered(s)
        neighbour.offset += producers
        for i in range(50):
            equal(c.init_producer_id(f"transaction-{i}")[0], UNSUPPORTED, "transactions are refused")
        equal(len(ask(c, "describe_producers", 0, {"topics": [{"name": "neighbour", "partition_indexes": [0]}]})
                  ["topics"][0]["partitions"][0]["active_producers"]), 300, "producers that are remembered")
        neighbour.ends()
        with Node(node.data_dir, *node.options) as again, Connection(again.kafka, 60) as c:
            answer = ask(c, "offset_fetch", 8, {"groups": [{"group_id": "group-0", "topics": None}]})
            equal(answer["groups"][0]["topics"][0]["partitions"][0]["committed_offset"], 1, "a group after the restart")


def test_c135_metadata_of_many_topics_for_many_clients():
    topics, clients = 400 * SCALE, 50
    with start("metadata") as node:
        neighbour = Neighbour(node)
        for at in range(0, topics, 400):
            answer = ask(neighbour.c, "create_topics", 7, {"timeout_ms": 60000, "topics": [
                {"name": f"topic-{i}", "num_partitions": 1, "replication_factor": 1} for i in range(at, at + 400)]})
            equal({t["error_code"] for t in answer["topics"]}, {NONE}, "create")
        asks_all = frame("metadata", 12, {"topics": None})
        crowd = [dial(node) for _ in range(clients)]
        for s in crowd:
            s.sendall(asks_all)
        neighbour.goes_on()
        answers = {len(answered(s)) for s in crowd}
        equal(len(answers), 1, "answers are alike")
        for s in crowd:
            s.close()
        neighbour.ends()


run_all(globals())

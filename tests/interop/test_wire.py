#!/usr/bin/env python3
"""The wire by hand: what real clients rely on but do not show, and what only broken ones send.
Numbers like C018 are those of the public fault reports the expectations come from."""
import gzip
import socket
import time
import urllib.request
import uuid

from support import wire
from support.check import equal, expect, run_all
from support.definitions import ask, codec, receive, send
from support.node import Node, fresh_dir
from support.shared import SharedNode
from support.wire import Connection, batch, batches

NAMES = {0: "produce", 1: "fetch", 2: "list_offsets", 3: "metadata", 8: "offset_commit", 9: "offset_fetch",
         10: "find_coordinator", 11: "join_group", 12: "heartbeat", 13: "leave_group", 14: "sync_group",
         15: "describe_groups", 16: "list_groups", 18: "api_versions",
         19: "create_topics", 20: "delete_topics", 21: "delete_records", 22: "init_producer_id",
         23: "offset_for_leader_epoch", 29: "describe_acls",
         30: "create_acls", 31: "delete_acls", 32: "describe_configs", 33: "alter_configs", 35: "describe_log_dirs",
         37: "create_partitions", 42: "delete_groups", 43: "elect_leaders", 44: "incremental_alter_configs",
         45: "alter_partition_reassignments",
         46: "list_partition_reassignments", 47: "offset_delete", 48: "describe_client_quotas", 50: "describe_user_scram_credentials",
         55: "describe_quorum", 57: "update_features", 60: "describe_cluster",
         61: "describe_producers", 65: "describe_transactions", 66: "list_transactions",
         68: "consumer_group_heartbeat", 69: "consumer_group_describe", 74: "list_config_resources",
         75: "describe_topic_partitions"}
COORDINATOR_NOT_AVAILABLE = 15
NONE, OUT_OF_RANGE, CORRUPT, UNKNOWN_TOPIC, TOO_LARGE, INVALID_TOPIC = 0, 1, 2, 3, 10, 17
INVALID_ACKS, INVALID_TIMESTAMP, UNSUPPORTED_VERSION, TOPIC_EXISTS, INVALID_PARTITIONS = 21, 32, 35, 36, 37
INVALID_RF, INVALID_CONFIG, INVALID_REQUEST, OUT_OF_ORDER, INVALID_EPOCH = 38, 40, 42, 45, 47
FENCED_EPOCH, UNKNOWN_EPOCH, CODEC, INVALID_RECORD, UNKNOWN_ID = 74, 75, 76, 87, 100

shared = SharedNode("wire", "--set", "num.partitions=2", "--set", "socket.request.max.bytes=4194304")
node, connect, new_topic, new_name = shared.node, shared.connect, shared.new_topic, shared.new_name


def topic_id(c, name):
    return ask(c, "metadata", 12, {"topics": [{"name": name}]})["topics"][0]["topic_id"]


def expect_closed(c):
    try:
        c.receive()
    except EOFError:
        return
    raise AssertionError("an answer instead of the end of the connection")


def minimal(name, version):
    """A well-formed request of exactly this version."""
    topic = {"name": new_name(), "partitions": [], "num_partitions": 1, "replication_factor": 1}
    return {"produce": {"acks": -1, "timeout_ms": 1000},
            "fetch": {"max_wait_ms": 10, "min_bytes": 1},
            "list_offsets": {"replica_id": -1},
            "create_topics": {"topics": [topic], "timeout_ms": 1000},
            "init_producer_id": {"transactional_id": None, "transaction_timeout_ms": 1},
            }.get(name, {})


def listed_versions(c):
    answer = ask(c, "api_versions", 0, {})
    return {k["api_key"]: (k["min_version"], k["max_version"]) for k in answer["api_keys"]}


# ---- versions and framing ----

def test_c001_unknown_version_of_api_versions():
    with connect() as c:
        wanted = c.send(18, 127, wire.compact("t") + wire.compact("1") + wire.NO_TAGS, flexible=True)
        r = c.receive()
        equal(r.i32(), wanted, "correlation id")
        equal(r.i16(), UNSUPPORTED_VERSION, "error")
        equal(r.array(lambda r: (r.i16(), r.i16(), r.i16())), [(18, 0, 4)], "ranges")
        r.end()
        equal(ask(c, "api_versions", 0, {})["error_code"], NONE, "the connection stays open")


def test_c003_every_listed_version_is_served():
    with connect() as c:
        listed = listed_versions(c)
    equal(sorted(listed), sorted(NAMES), "keys")
    for key, (low, high) in sorted(listed.items()):
        equal(low, 0 if key == 0 else codec(NAMES[key], high).api.versions[0], f"lowest of {NAMES[key]}")
        equal(high, codec(NAMES[key], high).api.stable_max, f"highest of {NAMES[key]}")
        for version in range(3 if key == 0 else low, high + 1):
            with connect() as c:
                answer = ask(c, NAMES[key], version, minimal(NAMES[key], version))
                expect(answer.get("error_code") != UNSUPPORTED_VERSION, f"{NAMES[key]} v{version}: error 35")


def test_unlisted_keys_and_versions_close():
    for key, version in ((0, 2), (0, 14), (1, 3), (1, 19), (3, 14), (4, 0), (77, 0), (-1, 0), (3, -1), (32000, 1)):
        with connect() as c:
            c.send(key, version, b"")
            expect_closed(c)


def test_bad_frames_close():
    for data in (wire.i32(-1), wire.i32(0), wire.i32(5 << 20) + b"x", wire.i32(4) + b"\0\3\0\1",
                 wire.i32(12) + wire.i16(3) + wire.i16(1) + wire.i32(1) + wire.i16(9) + b"ab"):
        with connect() as c:
            c.send_raw(data)
            expect_closed(c)
    with connect() as c:  # Half a frame, then silence: nobody else is kept waiting.
        c.send_raw(wire.i32(100) + b"half")
        with connect() as other:
            expect(listed_versions(other), "another client")


def test_c007_giant_counts_close():
    giant = b"\xff\xff\xff\xff\x07"
    for key, version, body, flexible in (
            (3, 12, giant, True),
            (1, 13, wire.i32(-1) + wire.i32(10) + wire.i32(1) + wire.i32(1 << 20) + wire.i8(0) + wire.i32(0) +
             wire.i32(-1) + giant, True),
            (3, 1, wire.i32(0x7FFFFFFF), False), (2, 1, wire.i32(-1) + wire.i32(-5), False), (3, 1, b"", False)):
        with connect() as c:
            c.send(key, version, body, flexible)
            expect_closed(c)


def test_pipelined_answers_come_in_order():
    with connect() as c:
        topic = new_topic(c)
        sent = []
        for i in range(40):
            if i % 4 == 3:
                sent.append(("metadata", 5, send(c, "metadata", 5, {"topics": [{"name": topic}]})))
            else:
                sent.append(("produce", 9, send(c, "produce", 9, {
                    "acks": -1, "timeout_ms": 10000, "transactional_id": None,
                    "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": batch([b"%d" % i])}]}]})))
        offsets = []
        for name, version, correlation_id in sent:
            answer = receive(c, name, version, correlation_id)
            if name == "produce":
                p = answer["responses"][0]["partition_responses"][0]
                equal(p["error_code"], NONE, "produce")
                offsets.append(p["base_offset"])
        equal(offsets, list(range(30)), "offsets in order")


def test_byte_by_byte():
    with connect() as c:
        body = wire.string(None)
        frame = wire.i16(18) + wire.i16(0) + wire.i32(7) + body
        for byte in wire.i32(len(frame)) + frame:
            c.send_raw(bytes([byte]))
            time.sleep(0.002)
        equal(c.receive().i32(), 7, "correlation id")


def until_closed(c):
    data = b""
    while part := c.socket.recv(1 << 16):
        data += part
    return data


def test_half_closed_clients_are_answered():
    """printf ... | nc: all that was asked is answered, in order, and then the broker closes. A fetch
    does not wait: such a client cannot ask again, and one that went away looks the same."""
    with connect() as c:
        topic = new_topic(c)
        for i in range(10):
            records = batch([b"x" * 50000] * 3)
            send(c, "produce", 9, {"acks": -1, "timeout_ms": 10000, "transactional_id": None, "topic_data": [
                {"name": topic, "partition_data": [{"index": 0, "records": records}]}]})
        last = send(c, "fetch", 11, {"replica_id": -1, "max_wait_ms": 60000, "min_bytes": 1 << 30, "session_epoch": -1,
                                     "topics": [{"topic": topic, "partitions": [part(0, current_leader_epoch=-1)]}]})
        c.send_raw(wire.i32(100) + b"half a frame")
        c.socket.shutdown(socket.SHUT_WR)
        began = time.monotonic()
        for i in range(10):
            p = receive(c, "produce", 9, last - 10 + i)["responses"][0]["partition_responses"][0]
            equal((p["error_code"], p["base_offset"]), (NONE, 3 * i), "produce")
        equal(receive(c, "fetch", 11, last)["responses"][0]["partitions"][0]["error_code"], NONE, "fetch")
        equal(until_closed(c), b"", "behind the answers")
        expect(time.monotonic() - began < 10, "the fetch waited")


def test_half_closed_admin_clients_are_answered():
    host, port = node.admin.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as s:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\nGET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        s.shutdown(socket.SHUT_WR)
        data = b""
        while part := s.recv(1 << 16):
            data += part
    equal(data.count(b"HTTP/1.1 200 OK"), 2, "answers")


def test_produce_is_listed_from_0_and_features_are_quiet():
    with connect() as c:
        equal(listed_versions(c)[0], (0, 13), "produce")
        answer = ask(c, "api_versions", 4, {"client_software_name": "t", "client_software_version": "1"})
        equal(answer.get("supported_features", []), [], "features")


# ---- metadata ----

def test_metadata_forms():
    with connect() as c:
        topic = new_topic(c, 3)
        equal(ask(c, "metadata", 1, {"topics": []})["topics"], [], "empty = none")
        names = {t["name"] for t in ask(c, "metadata", 1, {"topics": None})["topics"]}
        expect(topic in names, "null = all")
        expect(topic in {t["name"] for t in ask(c, "metadata", 0, {"topics": []})["topics"]}, "v0: empty = all")
        answer = ask(c, "metadata", 12, {"topics": [{"name": topic}, {"name": topic}]})
        equal(len(answer["topics"]), 1, "asked twice, answered once")
        t = answer["topics"][0]
        equal([(p["partition_index"], p["leader_id"], p["isr_nodes"]) for p in t["partitions"]],
              [(i, 1, [1]) for i in range(3)], "partitions")
        expect(answer["cluster_id"], "cluster id")
        equal(answer["controller_id"], 1, "controller")
        by_id = ask(c, "metadata", 12, {"topics": [{"topic_id": t["topic_id"], "name": None}]})["topics"][0]
        equal((by_id["error_code"], by_id["name"]), (NONE, topic), "by id")
        unknown = ask(c, "metadata", 12, {"topics": [{"topic_id": uuid.uuid4(), "name": None}]})["topics"][0]
        equal((unknown["error_code"], unknown["name"]), (UNKNOWN_ID, None), "unknown id")
        early = ask(c, "metadata", 10, {"topics": [{"topic_id": t["topic_id"], "name": "x"}]})["topics"][0]
        equal(early["error_code"], INVALID_REQUEST, "ids before version 12")


def test_auto_creation():
    with connect() as c:
        name = new_name("auto")
        asked = {"topics": [{"name": name}], "allow_auto_topic_creation": 0}
        equal(ask(c, "metadata", 8, asked)["topics"][0]["error_code"], UNKNOWN_TOPIC, "not allowed")
        asked["allow_auto_topic_creation"] = 1
        t = ask(c, "metadata", 8, asked)["topics"][0]
        equal((t["error_code"], len(t["partitions"])), (NONE, 2), "allowed")
        asked["topics"] = [{"name": "not a name!"}]
        equal(ask(c, "metadata", 8, asked)["topics"][0]["error_code"], INVALID_TOPIC, "illegal name")


def until_made(ask_for_it):
    """The first who asks for a group's coordinator has its topic made."""
    answer = ask_for_it()
    while answer["error_code"] == COORDINATOR_NOT_AVAILABLE:
        answer = ask_for_it()
    equal(answer["error_code"], NONE, answer)
    return answer


def test_c015_listeners_have_their_own_addresses():
    directory = fresh_dir("wire_listeners")
    ports = []
    for _ in range(2):
        with Node(directory / "probe") as probe:
            ports.append(int(probe.kafka.split(":")[1]))
            probe.stop()
    listeners = f"INTERNAL://127.0.0.1:{ports[0]},EXTERNAL://127.0.0.2:{ports[1]}"
    with Node(directory / "data", "--set", f"listeners={listeners}",
              "--set", "advertised.listeners=EXTERNAL://outside.example:7777"):
        for address, wanted in ((f"127.0.0.1:{ports[0]}", ("127.0.0.1", ports[0])),
                                (f"127.0.0.2:{ports[1]}", ("outside.example", 7777))):
            with Connection(address) as c:
                answer = ask(c, "metadata", 8, {"topics": None})
                equal([(b["host"], b["port"]) for b in answer["brokers"]], [wanted], address)
                cluster = ask(c, "describe_cluster", 0, {})
                equal([(b["host"], b["port"]) for b in cluster["brokers"]], [wanted], f"{address}: DescribeCluster")
                equal([answer["controller_id"], cluster["controller_id"]], [answer["brokers"][0]["node_id"]] * 2,
                      "the controller is listed")
                coordinator = until_made(lambda: ask(c, "find_coordinator", 3, {"key": "g", "key_type": 0}))
                equal((coordinator["host"], coordinator["port"]), wanted, f"{address}: FindCoordinator")


# ---- produce ----

def test_c005_failed_acks_0_closes():
    with connect() as c:
        topic = new_topic(c)
        equal(c.produce(topic, 0, batch([b"a"]), acks=0), None, "no answer")
        equal(ask(c, "metadata", 1, {"topics": []})["topics"], [], "nothing between")
        c.produce(new_name("nosuch"), 0, batch([b"a"]), acks=0)
        c.send(3, 1, wire.array([]))
        expect_closed(c)
    with connect() as c:  # Nobody waited for its flush.
        equal(len(batches(c.fetch(topic, 0, 0, max_wait_ms=5000)[2])), 1, "the good one is stored")


def test_c018_batches_that_contradict_themselves():
    records = b"".join(wire.record(None, b"v", 0, i) for i in range(3))
    three = [b"v"] * 3
    with connect() as c:
        topic = new_topic(c)
        stamped = new_topic(c, message_timestamp_type="LogAppendTime")
        for inside in (records[:len(records) // 3 * 2], wire.record(None, b"v") + bytes(16), b"\0" * 5):
            data = batch([b"v"], attributes=1, records=gzip.compress(inside))
            for name in (topic, stamped):
                equal(c.produce(name, 0, data)[:2], (INVALID_RECORD, -1), f"C020: inside gzip on {name}")
        # Apache Kafka 4.3.1 has the same codes, but for the codec (-1) and magic 3 (2, which clients retry).
        for what, data, wanted in (
                ("base offset 5", batch(three, base_offset=5), INVALID_RECORD),
                ("count 0", batch(three, count=0), INVALID_RECORD),
                ("count -1", batch(three, count=-1), INVALID_RECORD),
                ("last delta -1", batch(three, last_delta=-1), INVALID_RECORD),
                ("last delta 9", batch(three, last_delta=9), INVALID_RECORD),
                ("magic 3", batch(three, magic=3), INVALID_RECORD),
                ("magic 1", batch(three, magic=1), INVALID_RECORD),
                ("codec 7", batch(three, attributes=7, records=records), CODEC),
                ("control batch", batch(three, attributes=0x20), INVALID_RECORD),
                ("two batches", batch(three) + batch(three), INVALID_RECORD),
                ("bad crc", batch(three, crc=1), CORRUPT),
                ("cut short", batch(three)[:-2], INVALID_RECORD),
                ("no batch", b"", INVALID_RECORD),
                ("header only", batch(three)[:40], INVALID_RECORD),
                ("C020: two records, count 1", batch([b"v"], records=records[:len(records) // 3 * 2]), INVALID_RECORD),
                ("C020: zeros behind", batch([b"v"], records=wire.record(None, b"v") + bytes(16)), INVALID_RECORD),
                ("negative sequence", batch(three, producer_id=5, epoch=0, sequence=-1), INVALID_RECORD)):
            error, offset, _, message = c.produce(topic, 0, data)
            equal(error, wanted, what)
            equal(offset, -1, f"{what}: base offset")
            expect(message, f"{what}: no message")
        equal(c.list_offsets(topic, 0, -1)[2], 0, "nothing was appended")
        equal(c.produce(topic, 0, batch(three))[:2], (NONE, 0), "a good one")


def test_produce_errors():
    with connect() as c:
        topic = new_topic(c, max_message_bytes=1000)
        equal(c.produce(topic, 0, batch([b"x" * 2000]))[0], TOO_LARGE, "too large")
        equal(c.produce(topic, 1, batch([b"x"]))[0], UNKNOWN_TOPIC, "no such partition")
        equal(c.produce(topic, -1, batch([b"x"]))[0], UNKNOWN_TOPIC, "negative partition")
        equal(c.produce("nosuch", 0, batch([b"x"]))[0], UNKNOWN_TOPIC, "no such topic")
        equal(c.produce(topic, 0, batch([b"x"]), acks=2)[0], INVALID_ACKS, "acks=2")
        equal(c.list_offsets(topic, 0, -1)[2], 0, "nothing was appended")
        for version in range(3, 9):
            equal(c.produce(topic, 0, batch([b"x"]), version=version)[:2], (NONE, version - 3), f"v{version}")
        answer = ask(c, "produce", 13, {"acks": -1, "timeout_ms": 1000, "transactional_id": None, "topic_data": [
            {"topic_id": topic_id(c, topic), "partition_data": [{"index": 0, "records": batch([b"x"])}]},
            {"topic_id": uuid.uuid4(), "partition_data": [{"index": 0, "records": batch([b"x"])}]}]})
        equal([t["partition_responses"][0]["error_code"] for t in answer["responses"]], [NONE, UNKNOWN_ID], "by id")


def test_timestamps():
    with connect() as c:
        topic = new_topic(c)
        late = int(time.time() * 1000) + 2 * 3600 * 1000
        error, _, errors, message = c.produce(topic, 0, batch([b"a", b"b"], timestamps=[late - 7200000, late]))
        equal(error, INVALID_TIMESTAMP, "two hours ahead")
        equal([e[0] for e in errors], [1], "the record's place")
        appended = new_topic(c, message_timestamp_type="LogAppendTime")
        answer = ask(c, "produce", 9, {"acks": -1, "timeout_ms": 1000, "transactional_id": None, "topic_data": [
            {"name": appended, "partition_data": [{"index": 0, "records": batch([b"a"], timestamps=[late])}]}]})
        p = answer["responses"][0]["partition_responses"][0]
        equal(p["error_code"], NONE, "append time")
        expect(abs(p["log_append_time_ms"] - time.time() * 1000) < 60000, f"append time {p['log_append_time_ms']}")


def test_compacted_topics_need_keys():
    with connect() as c:
        topic = new_topic(c, cleanup_policy="compact")
        equal(c.produce(topic, 0, batch([b"x"]))[0], INVALID_RECORD, "no key")
        keyed = batch([b"x"], records=wire.record(b"k", b"x"))
        equal(c.produce(topic, 0, keyed)[0], NONE, "key")


def test_c048_idempotence():
    with connect() as c:
        topic = new_topic(c)
        error, producer_id, epoch = c.init_producer_id()
        equal((error, epoch), (NONE, 0), "init")
        equal(c.init_producer_id()[1] != producer_id, True, "ids differ")
        sent = [batch([b"v"] * 10, producer_id, 0, 10 * i) for i in range(6)]
        for i, data in enumerate(sent):
            equal(c.produce(topic, 0, data)[:2], (NONE, 10 * i), f"batch {i}")
        equal(c.produce(topic, 0, sent[5])[:2], (NONE, 50), "batch 6 again")
        equal(c.produce(topic, 0, sent[1])[:2], (NONE, 10), "batch 2 again")
        equal(c.produce(topic, 0, sent[0])[0], OUT_OF_ORDER, "batch 1 is forgotten")
        equal(c.produce(topic, 0, batch([b"v"], producer_id, 0, 70))[0], OUT_OF_ORDER, "a gap")
        equal(c.list_offsets(topic, 0, -1)[2], 60, "the log is as it was")
        equal(c.produce(topic, 0, batch([b"v"], producer_id, 1, 3))[0], OUT_OF_ORDER, "new epoch, not from 0")
        equal(c.produce(topic, 0, batch([b"v"], producer_id, 1, 0))[:2], (NONE, 60), "new epoch from 0 (KIP-360)")
        equal(c.produce(topic, 0, batch([b"v"], producer_id, 0, 60))[0], INVALID_EPOCH, "the old epoch")


def test_transactions_are_refused():
    with connect() as c:
        topic = new_topic(c)
        equal(c.init_producer_id("tx")[0], INVALID_REQUEST, "transactional id")
        error = c.produce(topic, 0, batch([b"x"], 1, 0, 0, attributes=0x10))[0]
        expect(error != NONE, "a transactional batch was taken")
        for version in range(1, 7):
            answer = ask(c, "find_coordinator", version, {"key": "tx", "key_type": 1,
                                                          "coordinator_keys": ["tx"] if version > 3 else []})
            answer = answer["coordinators"][0] if version > 3 else answer
            equal(answer["error_code"], INVALID_REQUEST, f"find_coordinator v{version}")
            expect("Transactions are not served" in answer["error_message"], answer["error_message"])


# ---- fetch ----

def test_c046_every_fetch_is_answered_in_time():
    with connect() as c:
        topic = new_topic(c)
        for version in range(4, 12):
            began = time.monotonic()
            equal(c.fetch(topic, 0, 0, version=version, max_wait_ms=300), (NONE, 0, b""), f"v{version}")
            expect(0.25 < time.monotonic() - began < 0.6, f"v{version} took {time.monotonic() - began:.2f} s")


def test_fetch_ends_when_data_comes():
    with connect() as reader, connect() as writer:
        topic = new_topic(writer)
        wanted = send(reader, "fetch", 11, {
            "replica_id": -1, "max_wait_ms": 10000, "min_bytes": 1, "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [
                {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}]}]})
        time.sleep(0.2)
        began = time.monotonic()
        equal(writer.produce(topic, 0, batch([b"x"]))[0], NONE, "produce")
        answer = receive(reader, "fetch", 11, wanted)
        expect(time.monotonic() - began < 0.3, "the reader was woken late")
        p = answer["responses"][0]["partitions"][0]
        equal((p["error_code"], p["high_watermark"]), (NONE, 1), "answer")
        equal(len(batches(p["records"])), 1, "records")


def test_min_bytes_holds_small_answers():
    with connect() as reader, connect() as writer:
        topic = new_topic(writer)
        equal(writer.produce(topic, 0, batch([b"x" * 100]))[0], NONE, "produce")
        began = time.monotonic()
        error, _, records = reader.fetch(topic, 0, 0, min_bytes=100000, max_wait_ms=400)
        expect(time.monotonic() - began > 0.35, "min_bytes was not waited for")
        equal(len(batches(records)), 1, "what there is comes at the end")


def test_fetch_offsets():
    with connect() as c:
        topic = new_topic(c)
        for i in range(3):
            c.produce(topic, 0, batch([b"a%d" % i, b"b", b"c"]))
        equal(c.fetch(topic, 0, 10)[0], OUT_OF_RANGE, "beyond the end")
        equal(c.fetch(topic, 0, -1)[0], OUT_OF_RANGE, "negative")
        equal(c.fetch(topic, 0, 9, max_wait_ms=0), (NONE, 9, b""), "at the end")
        equal(c.fetch(topic, 1, 0)[0], UNKNOWN_TOPIC, "no such partition")
        # Inside a batch: the whole batch, and the rest.
        equal([b[0] for b in batches(c.fetch(topic, 0, 4)[2])], [3, 6], "inside a batch")
        # However small the limits, the first batch comes whole.
        equal([b[0] for b in batches(c.fetch(topic, 0, 4, max_bytes=1, partition_max_bytes=1)[2])], [3], "small limits")
        equal([b[0] for b in batches(c.fetch(topic, 0, 0, max_bytes=200)[2])], [0, 3], "two fit")


def fetch_all(c, version, topics, **request):
    return ask(c, "fetch", version, {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1,
                                     "topics": topics, **request})


def part(partition, offset=0, **fields):
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **fields}


def test_many_partitions_in_one_fetch():
    with connect() as c:
        topic = new_topic(c, 40)
        big = batch([b"x" * 30000])
        for i in range(40):
            equal(c.produce(topic, i, big if i % 2 else batch([b"small"]))[0], NONE, "produce")
        seen = {}
        offsets = [0] * 40
        for _ in range(6):
            answer = fetch_all(c, 12, [{"topic": topic, "partitions": [part(i, offsets[i]) for i in range(40)]}])
            partitions = answer["responses"][0]["partitions"]
            equal([p["partition_index"] for p in partitions], list(range(40)), "each partition once, in order")
            for p in partitions:
                equal((p["error_code"], p["high_watermark"]), (NONE, 1), "state")
                if p["records"]:
                    equal(seen.setdefault(p["partition_index"], p["records"]), p["records"], "records")
                    offsets[p["partition_index"]] = 1
            if len(seen) == 40:
                break
        equal(len(seen), 40, "partitions read")


def test_fetch_by_id_and_epochs():
    with connect() as c:
        topic = new_topic(c)
        c.produce(topic, 0, batch([b"x"]))
        t = ask(c, "metadata", 12, {"topics": [{"name": topic}]})["topics"][0]
        epoch = t["partitions"][0]["leader_epoch"]
        for version in range(13, 19):
            p = fetch_all(c, version, [{"topic_id": t["topic_id"], "partitions": [part(0)]}])["responses"][0]
            equal((p["topic_id"], p["partitions"][0]["error_code"]), (t["topic_id"], NONE), f"v{version}")
            expect(p["partitions"][0]["records"], f"v{version}: no records")
        answer = fetch_all(c, 13, [{"topic_id": uuid.uuid4(), "partitions": [part(0)]}])
        equal(answer["responses"][0]["partitions"][0]["error_code"], UNKNOWN_ID, "unknown id")
        for known, wanted in ((epoch, NONE), (epoch - 1, FENCED_EPOCH), (epoch + 1, UNKNOWN_EPOCH)):
            if known < 0:
                continue
            p = fetch_all(c, 12, [{"topic": topic, "partitions": [part(0, current_leader_epoch=known)]}])
            equal(p["responses"][0]["partitions"][0]["error_code"], wanted, f"epoch {known} of {epoch}")


def test_followers_are_refused():
    with connect() as c:
        topic = new_topic(c)
        answer = fetch_all(c, 12, [{"topic": topic, "partitions": [part(0)]}], replica_id=3)
        expect(answer["responses"][0]["partitions"][0]["error_code"] != NONE, "a replica was served")


def test_c026_zstd_is_taken_from_new_versions_and_sent_to_all():
    # One zstd frame, stored without compression, that holds one record.
    records = wire.record(None, b"z")
    frame = b"\x28\xb5\x2f\xfd\x20" + bytes([len(records)]) + (1 | len(records) << 3).to_bytes(3, "little") + records
    data = batch([b"z"], attributes=4, records=frame)
    with connect() as c:
        topic = new_topic(c)
        equal(c.produce(topic, 0, data, version=6)[0], CODEC, "produce v6")
        equal(c.produce(topic, 0, batch([b"plain"]))[:2], (NONE, 0), "a plain batch first")
        equal(c.produce(topic, 0, data, version=7)[:2], (NONE, 1), "produce v7")
        # Kafka 4 sends it to every version: clients of version 4 only (rskafka, kafka-python 2.0) read zstd.
        for version in (4, 9, 10):
            error, _, got = c.fetch(topic, 0, 0, version=version)
            equal((error, [b[0] for b in batches(got)]), (NONE, [0, 1]), f"fetch v{version}")


def test_reader_that_leaves_while_waiting():
    with connect() as c:
        topic = new_topic(c)
    for _ in range(50):
        with connect() as c:
            send(c, "fetch", 11, {"replica_id": -1, "max_wait_ms": 60000, "min_bytes": 1, "session_epoch": -1,
                                  "topics": [{"topic": topic, "partitions": [part(0, current_leader_epoch=-1)]}]})
    with connect() as c:
        expect(listed_versions(c), "the broker goes on")


# ---- list offsets ----

def test_c028_time_lookup():
    with connect() as c:
        topic = new_topic(c, message_timestamp_before_max_ms=9223372036854775807)
        c.produce(topic, 0, batch([b"v"] * 5, timestamps=[100, 200, 300, 400, 500]))
        c.produce(topic, 0, batch([b"v"] * 2, timestamps=[150, 600]))
        for asked, offset, found in ((50, 0, 100), (100, 0, 100), (250, 2, 300), (500, 4, 500), (501, 6, 600), (600, 6, 600)):
            error, timestamp, got, _ = c.list_offsets(topic, 0, asked)
            equal((error, got, timestamp), (NONE, offset, found), f"time {asked}")
        equal(c.list_offsets(topic, 0, 601), (NONE, -1, -1, -1), "C030: after the last")
        p = ask(c, "list_offsets", 7, {"replica_id": -1, "topics": [{"name": topic, "partitions": [
            {"partition_index": 0, "timestamp": -3}]}]})["topics"][0]["partitions"][0]
        equal((p["error_code"], p["timestamp"], p["offset"]), (NONE, 600, 6), "largest timestamp")


def test_c028_time_lookup_with_gzip_and_append_time():
    with connect() as c:
        topic = new_topic(c)
        c.produce(topic, 0, batch([b"v"] * 5, timestamps=[100, 200, 300, 400, 500], attributes=1))
        c.produce(topic, 0, batch([b"v"] * 2, timestamps=[150, 600], attributes=1))
        for asked, offset, found in ((50, 0, 100), (250, 2, 300), (501, 6, 600)):
            equal(c.list_offsets(topic, 0, asked)[:3], (NONE, found, offset), f"time {asked}")
        topic = new_topic(c, message_timestamp_type="LogAppendTime")
        c.produce(topic, 0, batch([b"v"] * 3, attributes=1))
        error, stamped, offset, _ = c.list_offsets(topic, 0, 1)
        equal((error, offset), (NONE, 0), "the first record")
        expect(abs(time.time() * 1000 - stamped) < 60_000, f"stamped {stamped}")
        equal(c.list_offsets(topic, 0, stamped)[:3], (NONE, stamped, 0), "at its time")
        equal(c.list_offsets(topic, 0, stamped + 1)[2], -1, "after the last")


def test_c030_nothing_so_late():
    with connect() as c:
        topic = new_topic(c)
        late = int(time.time() * 1000) + 3600_000
        equal(c.list_offsets(topic, 0, late), (NONE, -1, -1, -1), "an empty topic")
        c.produce(topic, 0, batch([b"v"] * 10))
        equal(c.list_offsets(topic, 0, late), (NONE, -1, -1, -1), "after the last")


def test_c034_list_offsets_v0_is_not_listed():
    with connect() as c:
        equal(listed_versions(c)[2][0], 1, "the lowest version")


def test_c172_a_record_from_the_future():
    with connect() as c:
        topic = new_topic(c)
        equal(c.produce(topic, 0, batch([b"x"], timestamps=[4102444800000]))[0], INVALID_TIMESTAMP, "refused by default")
        topic = new_topic(c, message_timestamp_after_max_ms=9223372036854775807)
        equal(c.produce(topic, 0, batch([b"x"], timestamps=[4102444800000]))[0], NONE, "where an operator allows it")


def test_special_timestamps():
    with connect() as c:
        topic = new_topic(c)
        epoch = ask(c, "metadata", 12, {"topics": [{"name": topic}]})["topics"][0]["partitions"][0]["leader_epoch"]

        def listed(timestamp, version):
            answer = ask(c, "list_offsets", version, {"replica_id": -1, "topics": [{"name": topic, "partitions": [
                {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}]}]})
            p = answer["topics"][0]["partitions"][0]
            return p["error_code"], p["offset"], p["timestamp"]
        equal(listed(-3, 7), (NONE, -1, -1), "largest timestamp of nothing")
        c.produce(topic, 0, batch([b"a", b"b"]))
        equal(listed(-1, 1), (NONE, 2, -1), "latest")
        equal(listed(-2, 1), (NONE, 0, -1), "earliest")
        equal(listed(-4, 8), (NONE, 0, -1), "earliest local")
        equal(listed(-5, 9), (NONE, -1, -1), "latest tiered")
        equal(listed(-6, 11), (NONE, -1, -1), "earliest pending upload")
        for timestamp, version in ((-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)):
            equal(listed(timestamp, version)[0], UNSUPPORTED_VERSION, f"{timestamp} in v{version}")
        equal(c.list_offsets(topic, 0, -1)[3], epoch, "epoch")
        for told, wanted in ((epoch - 1, FENCED_EPOCH), (epoch, NONE), (epoch + 1, UNKNOWN_EPOCH)):
            for timestamp in (-1, -2, -3, 5):
                answer = ask(c, "list_offsets", 7, {"replica_id": -1, "topics": [{"name": topic, "partitions": [
                    {"partition_index": 0, "current_leader_epoch": told, "timestamp": timestamp}]}]})
                equal(answer["topics"][0]["partitions"][0]["error_code"], wanted, f"{timestamp} under epoch {told}")
        twice = {"name": topic, "partitions": [
            {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1} for _ in range(2)]}
        answer = ask(c, "list_offsets", 5, {"replica_id": -1, "topics": [twice]})
        equal([p["error_code"] for p in answer["topics"][0]["partitions"]], [INVALID_REQUEST] * 2, "named twice")


# ---- topics ----

def create(c, version=7, validate_only=0, **topic):
    topic = {"num_partitions": 1, "replication_factor": 1, **topic}
    answer = ask(c, "create_topics", version, {"topics": [topic], "timeout_ms": 10000, "validate_only": validate_only})
    return answer["topics"][0]


def test_c085_validate_only():
    with connect() as c:
        existing = new_topic(c)
        for topic, wanted in (({"name": existing}, TOPIC_EXISTS), ({"name": "valid"}, NONE),
                              ({"name": "rf", "replication_factor": 99}, INVALID_RF),
                              ({"name": "config", "configs": [{"name": "foo", "value": "bar"}]}, INVALID_CONFIG)):
            t = create(c, 5, 1, **topic)
            equal(t["error_code"], wanted, topic["name"])
            expect(wanted == NONE or t["error_message"], "no message")
        asked = {"topics": [{"name": "valid"}], "allow_auto_topic_creation": 0}
        equal(ask(c, "metadata", 8, asked)["topics"][0]["error_code"], UNKNOWN_TOPIC, "nothing was created")


def test_c087_defaults_and_effective_configs():
    with connect() as c:
        for version in (5, 6, 7):
            t = create(c, version, name=new_name(), num_partitions=-1, replication_factor=-1,
                       configs=[{"name": "retention.ms", "value": "1000"}])
            equal((t["error_code"], t["num_partitions"], t["replication_factor"]), (NONE, 2, 1), f"defaults, v{version}")
            configs = {p["name"]: (p["value"], p["config_source"]) for p in t["configs"]}
            expect("segment.bytes" in configs, f"v{version}: all that is in effect")
        equal(configs["retention.ms"], ("1000", 1), "its own")
        equal(configs["cleanup.policy"], ("delete", 5), "a default")
        expect(list(configs) == sorted(configs), "sorted by name")
        equal(t["topic_id"], topic_id(c, t["name"]), "id")


def test_create_errors():
    with connect() as c:
        name = new_name()
        for topic, wanted in (({"num_partitions": 0}, INVALID_PARTITIONS), ({"num_partitions": -2}, INVALID_PARTITIONS),
                              ({"replication_factor": 0}, INVALID_RF), ({"name": "a b"}, INVALID_TOPIC),
                              ({"name": ""}, INVALID_TOPIC), ({"name": ".."}, INVALID_TOPIC),
                              ({"name": "x" * 250}, INVALID_TOPIC),
                              ({"configs": [{"name": "segment.bytes", "value": "14"}]}, INVALID_CONFIG),
                              ({"configs": [{"name": "segment.bytes", "value": None}]}, INVALID_CONFIG),
                              ({"assignments": [{"partition_index": 0, "broker_ids": [1]}]}, INVALID_REQUEST)):
            t = create(c, **{"name": name, **topic})
            equal(t["error_code"], wanted, str(topic)[:80])
            expect(t["error_message"], f"{topic}: no message")
        equal(create(c, name="colliding.name")["error_code"], NONE, "a.b")
        equal(create(c, name="colliding_name")["error_code"], INVALID_TOPIC, "a_b beside a.b")
        by_hand = create(c, name=name, num_partitions=-1, replication_factor=-1, assignments=[
            {"partition_index": i, "broker_ids": [1]} for i in range(3)])
        equal((by_hand["error_code"], by_hand["num_partitions"]), (NONE, 3), "assigned by hand")
        topics = [{"name": "double", "num_partitions": 1, "replication_factor": 1}] * 2
        answer = ask(c, "create_topics", 7, {"topics": topics, "timeout_ms": 1000, "validate_only": 0})
        equal({t["error_code"] for t in answer["topics"]}, {INVALID_REQUEST}, "named twice")


def test_c093_delete_and_create_again():
    with connect() as c:
        topic = new_topic(c)
        old_id = topic_id(c, topic)
        c.produce(topic, 0, batch([b"old"] * 10))
        answer = ask(c, "delete_topics", 6, {"topics": [{"name": topic}], "timeout_ms": 10000})
        equal(answer["responses"][0]["error_code"], NONE, "delete")
        equal(c.produce(topic, 0, batch([b"x"]))[0], UNKNOWN_TOPIC, "gone")
        equal(c.create_topic(topic), NONE, "create again")
        new_id = topic_id(c, topic)
        expect(new_id != old_id, "the id is the old one")
        equal(c.produce(topic, 0, batch([b"new"] * 5))[:2], (NONE, 0), "it starts from nothing")
        answer = fetch_all(c, 13, [{"topic_id": old_id, "partitions": [part(0)]}])
        equal(answer["responses"][0]["partitions"][0]["error_code"], UNKNOWN_ID, "the old id")
        equal(c.fetch(topic, 0, 0)[:2], (NONE, 5), "the new topic")


def test_delete_errors():
    with connect() as c:
        topic = new_topic(c)
        for version in range(1, 6):
            answer = ask(c, "delete_topics", version, {"topic_names": ["nosuch"], "timeout_ms": 1000})
            equal(answer["responses"][0]["error_code"], UNKNOWN_TOPIC, f"v{version}")
        both = {"name": topic, "topic_id": topic_id(c, topic)}
        answer = ask(c, "delete_topics", 6, {"timeout_ms": 1000, "topics": [
            {"name": None, "topic_id": uuid.uuid4()}, both, {"name": "double"}, {"name": "double"}]})
        equal([t["error_code"] for t in answer["responses"]], [UNKNOWN_ID] + [INVALID_REQUEST] * 3, "v6")
        by_id = ask(c, "delete_topics", 6, {"timeout_ms": 1000, "topics": [{"name": None, "topic_id": both["topic_id"]}]})
        equal(by_id["responses"][0]["error_code"], NONE, "by id")


def test_a_topic_deleted_while_it_is_read_by_id():
    with connect() as c, connect() as other:
        topic = new_topic(c)
        wanted = topic_id(c, topic)
        for version, code in ((12, UNKNOWN_TOPIC), (13, UNKNOWN_ID)):
            row = {"topic": topic, "topic_id": wanted, "partitions": [{"partition_max_bytes": 1000}]}
            sent = send(c, "fetch", version, {"max_wait_ms": 20000, "min_bytes": 1, "max_bytes": 1000, "topics": [row]})
            time.sleep(0.1)  # It may wait for data by then; if not it is answered the same.
            equal(other.delete_topic(topic), NONE, "delete")
            answer = receive(c, "fetch", version, sent)
            equal([p["error_code"] for t in answer["responses"] for p in t["partitions"]], [code], f"v{version}")
            equal(other.create_topic(topic, 1), NONE, "create again")
            wanted = topic_id(c, topic)


def test_zz_memory_is_where_it_was():
    """Last: after all of the above, no request, buffer or connection is left behind."""
    time.sleep(0.3)
    with urllib.request.urlopen(f"http://{node.admin}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    print("\n".join(line for line in text.splitlines() if "buf" in line and not line.startswith("#")))
    code, seconds = node.stop()
    equal(code, 0, "exit code")
    expect(seconds < 5, f"the stop took {seconds:.1f} s")


run_all(globals())

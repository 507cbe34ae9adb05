#!/usr/bin/env python3
"""Public fault reports that no other script shows: what old clients, Kafka Connect and kcat rely on. Which test
shows which report: tests/cases.md. ORACLE=1: the same against Apache Kafka."""
import os
import re
import subprocess
import time
import zlib

from support import wire
from support.check import equal, expect, run_all
from support.definitions import ask
from support.kafka_tools import ORACLE
from support.shared import SharedNode
from support.wire import Connection, batch, batches

NONE, UNKNOWN_TOPIC, TOO_LARGE, COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST, INVALID_RECORD = 0, 3, 10, 15, 42, 87
TOPIC, OF_TOPIC = 2, 1
SNAPPY = 2

shared = SharedNode("cases", "--set", "num.partitions=2", "--set", "auto.create.topics.enable=false")
node, connect, new_topic, new_name = shared.node, shared.connect, shared.new_topic, shared.new_name


def expect_closed(c):
    try:
        c.receive()
    except EOFError:
        return
    raise AssertionError("an answer instead of the end of the connection")


def kcat(*options, lines=None, seconds=30):
    return subprocess.run(["kcat", "-b", node.kafka, *options], capture_output=True, text=True, timeout=seconds,
                          input=None if lines is None else "".join(f"{line}\n" for line in lines))


# ---- old clients ----

def test_c009_librdkafka_keeps_its_codec():
    """librdkafka to 2.8 gives up every codec but zstd where Produce 0 is not listed, and says so in one debug line."""
    with connect() as c:
        for codec, number in (("gzip", 1), ("snappy", SNAPPY), ("lz4", 3)):
            topic = new_topic(c)
            done = kcat("-P", "-t", topic, "-z", codec, "-d", "feature,msg", lines=["abc" * 100] * 100)
            equal(done.returncode, 0, f"kcat {done.stderr[-300:]}")
            expect("does not support compression type" not in done.stderr, "the codec was given up")
            stored = batches(c.fetch(topic, 0, 0)[2])
            equal({attributes & 7 for _, attributes, *_ in stored}, {number}, "stored as")


def old_messages(magic, values, codec=0):
    """A message set of format 0 or 1; with a codec, one message around the others."""
    def message(value, offset, attributes):
        body = wire.i8(magic) + wire.i8(attributes) + (wire.i64(1000 + offset) if magic else b"")
        body += wire.i32(-1) + wire.i32(len(value)) + value
        framed = (zlib.crc32(body)).to_bytes(4, "big") + body
        return wire.i64(offset) + wire.i32(len(framed)) + framed
    inside = b"".join(message(value, i, 0) for i, value in enumerate(values))
    return message(zlib.compress(inside, wbits=31), len(values) - 1, codec) if codec else inside


def test_c022_old_formats_are_refused_whole():
    """KIP-724: formats 0 and 1 are gone, and so are the versions of Produce and Fetch that speak them."""
    values = [b"value %d" % i for i in range(10)]
    with connect() as c:
        topic = new_topic(c)
        for magic, codec in ((0, 0), (1, 0), (0, 1), (1, 1)):
            data = old_messages(magic, values, codec)
            for version in (0, 1, 2):
                with connect() as old:
                    old.send(0, version, wire.i16(1) + wire.i32(1000) + wire.array(
                        [wire.string(topic) + wire.array([wire.i32(0) + wire.i32(len(data)) + data])]))
                    expect_closed(old)
            for version in (3, 8):
                equal(c.produce(topic, 0, data, version=version)[:2], (INVALID_RECORD, -1), f"format {magic} in v{version}")
        for version in range(4):
            with connect() as old:
                old.send(1, version, b"")
                expect_closed(old)
        equal(c.list_offsets(topic, 0, -1)[2], 0, "nothing of it is stored")


# ---- sizes ----

def memory_peak(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM:"))


def gzip_of_zeros(head, mebibytes):
    """head and then zeros. Compressed a mebibyte at a time, each apart from what was before it: all are alike."""
    zeros = bytes(1 << 20)
    c = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = c.compress(head + zeros) + c.flush(zlib.Z_FULL_FLUSH)
    other = c.compress(zeros) + c.flush(zlib.Z_FULL_FLUSH)
    crc = zlib.crc32(head)
    for _ in range(mebibytes):
        crc = zlib.crc32(zeros, crc)
    size = len(head) + (mebibytes << 20)
    trailer = crc.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + first + other * (mebibytes - 1) + c.flush(zlib.Z_FINISH) + trailer


def test_c024_what_a_batch_becomes_is_limited():
    """A small batch that would be stored large is refused, and costs little memory even where it expands a
    thousandfold."""
    with connect() as c:
        plain = new_topic(c, compression_type="uncompressed", max_message_bytes=1 << 20)
        done = subprocess.run(["kcat", "-b", node.kafka, "-P", "-t", plain, "-z", "zstd", "-X", "message.max.bytes=10000000",
                               "-D", "\x01"], input=bytes(8 << 20), capture_output=True, timeout=30)
        expect(done.returncode != 0 or b"too large" in done.stderr, f"kcat: {done.stderr[-300:]}")
        bomb = batch([b""], attributes=1, records=gzip_of_zeros(one_record_head((1 << 30) - 64), 1024))
        expect(len(bomb) < 2 << 20, f"{len(bomb)} bytes")
        for topic in (plain, new_topic(c, max_message_bytes=2 << 20)):
            before = memory_peak(node.process.pid)
            error = c.produce(topic, 0, bomb)[0]
            expect(error in (TOO_LARGE, INVALID_RECORD), f"error {error}")
            grown = memory_peak(node.process.pid) - before
            expect(ORACLE or grown < 64 << 20, f"{grown >> 20} MiB")
            equal(c.list_offsets(topic, 0, -1)[2], 0, "nothing is stored")


def one_record_head(value_size):
    """All of a record before its value, which is followed by one zero: no headers."""
    body = wire.i8(0) + wire.varint(0) + wire.varint(0) + wire.varint(-1) + wire.varint(value_size)
    return wire.varint(len(body) + value_size + 1) + body


# ---- fetch ----

def test_c046_fetches_by_id_are_answered_in_time():
    with connect() as c:
        topic = new_topic(c)
        found = ask(c, "metadata", 12, {"topics": [{"name": topic}]})["topics"][0]["topic_id"]
        for version in range(12, 19):
            began = time.monotonic()
            answer = ask(c, "fetch", version, {
                "replica_id": -1, "max_wait_ms": 200, "min_bytes": 1, "session_epoch": -1, "topics": [
                    {"topic": topic, "topic_id": found, "partitions": [
                        {"partition": 0, "current_leader_epoch": -1, "partition_max_bytes": 1 << 20}]}]})
            partition, = answer["responses"][0]["partitions"]
            equal((partition["error_code"], partition["records"]), (NONE, b""), f"v{version}")
            expect(0.18 < time.monotonic() - began < 0.5, f"v{version} took {time.monotonic() - began:.2f} s")


def test_c046_kcat_at_the_end_gets_the_next_record():
    with connect() as c:
        topic = new_topic(c)
        reader = subprocess.Popen(["kcat", "-b", node.kafka, "-C", "-t", topic, "-o", "end", "-u", "-q"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            time.sleep(2)  # Idle: several long polls end empty.
            equal(c.produce(topic, 0, batch([b"next"]))[0], NONE, "produce")
            began = time.monotonic()
            equal(reader.stdout.readline(), "next\n", "the record")
            expect(time.monotonic() - began < 1, "late")
        finally:
            reader.kill()
            reader.wait()


# ---- topics ----

def test_c093_a_reader_of_the_earliest_reads_the_new_topic():
    with connect() as c:
        topic = new_topic(c)
        equal(c.produce(topic, 0, batch([b"old"] * 10))[0], NONE, "produce")
        equal(c.delete_topic(topic), NONE, "delete")
        time.sleep(2 if ORACLE else 0)
        equal(c.create_topic(topic), NONE, "create again")
        time.sleep(1 if ORACLE else 0)
        equal(c.produce(topic, 0, batch([b"new"] * 5))[:2], (NONE, 0), "produce")
        equal(kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q").stdout, "new\n" * 5, "read")


def test_c179_topics_as_kafka_connect_makes_and_checks_them():
    """Its worker ends with an error unless DescribeConfigs says that its topics are compacted, and only that."""
    with connect() as c:
        for partitions in (25, 1, 5):
            name = new_name("connect")
            answer = ask(c, "create_topics", 7, {"timeout_ms": 10000, "topics": [
                {"name": name, "num_partitions": partitions, "replication_factor": -1,
                 "configs": [{"name": "cleanup.policy", "value": "compact"}]}]})
            equal((answer["topics"][0]["error_code"], answer["topics"][0]["replication_factor"]), (NONE, 1), "create")
            time.sleep(0.5 if ORACLE else 0)
            result, = ask(c, "describe_configs", 4, {"resources": [
                {"resource_type": TOPIC, "resource_name": name, "configuration_keys": ["cleanup.policy"]}]})["results"]
            config, = result["configs"]
            equal((config["value"], config["config_source"]), ("compact", OF_TOPIC), "cleanup.policy")
            again = ask(c, "create_topics", 7, {"timeout_ms": 10000, "topics": [
                {"name": name, "num_partitions": partitions, "replication_factor": -1}]})
            equal(again["topics"][0]["error_code"], 36, "the second worker finds it")


# ---- kcat ----

def test_c183_where_kcat_starts_and_ends():
    with connect() as c:
        one, empty = new_topic(c), new_topic(c)
        equal(c.produce(one, 0, batch([b"only"]))[0], NONE, "produce")
        for offset, wanted in (("-10", "only\n"), ("-1", "only\n"), ("beginning", "only\n"), ("end", ""), ("0", "only\n"),
                               ("1", ""), ("s@1", "only\n"), ("s@9999999999999", "")):
            done = kcat("-C", "-t", one, "-e", "-o", offset)
            equal((done.returncode, done.stdout), (0, wanted), f"-o {offset}: {done.stderr[-200:]}")
            equal(len(re.findall("Reached end of topic", done.stderr)), 1, f"-o {offset}: {done.stderr[-200:]}")
        for offset in ("-10", "beginning", "end"):
            done = kcat("-C", "-t", empty, "-e", "-o", offset)
            equal((done.returncode, done.stdout), (0, ""), f"an empty topic, -o {offset}")


def test_c183_kcat_starts_at_what_was_committed():
    with connect() as c:
        topic, group = new_topic(c), new_name("group")
        for value in (b"read", b"not read"):
            equal(c.produce(topic, 0, batch([value]))[0], NONE, "produce")
        while ask(c, "find_coordinator", 3, {"key": group, "key_type": 0})["error_code"] == COORDINATOR_NOT_AVAILABLE:
            pass # The first of all groups has its topic made.
        answer = ask(c, "offset_commit", 7, {"group_id": group, "generation_id_or_member_epoch": -1, "topics": [
            {"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]})
        equal(answer["topics"][0]["partitions"][0]["error_code"], NONE, "commit")
        done = kcat("-C", "-t", topic, "-p", "0", "-e", "-o", "stored", "-X", f"group.id={group}")
        equal((done.returncode, done.stdout), (0, "not read\n"), done.stderr[-200:])


def test_c183_many_partitions_have_an_end_while_they_grow():
    with connect() as c:
        topic = new_topic(c, 50)
        for partition in range(50):
            equal(c.produce(topic, partition, batch([b"%d" % partition]))[0], NONE, "produce")
        writer = subprocess.Popen(["kcat", "-b", node.kafka, "-P", "-t", topic], stdin=subprocess.PIPE, text=True)
        try:
            reader = subprocess.Popen(["kcat", "-b", node.kafka, "-C", "-t", topic, "-e", "-q", "-o", "beginning"],
                                      stdout=subprocess.PIPE, text=True)
            while reader.poll() is None:
                writer.stdin.write("more\n")
                writer.stdin.flush()
                time.sleep(0.001)
            lines = reader.stdout.read().split("\n")
            equal(reader.returncode, 0, "exit code")
            equal(set(lines) - {"more", ""}, {str(p) for p in range(50)}, "what was there before")
        finally:
            writer.stdin.close()
            writer.wait()


run_all(globals())

#!/usr/bin/env python3
"""Clients that mean harm or are broken, machines that are too small: nobody else pays for it."""
import random
import resource
import time

from support import wire
from support.check import equal, expect, run_all
from support.definitions import ask, codec, has, name_of, receive, send
from support.node import Node, binary, fresh_dir, refused_start
from support.wire import Connection, batch

NONE = 0
PRODUCE, CREATE_TOPICS = 0, 19


def expect_alive(node, what):
    with Connection(node.kafka) as c:
        equal(ask(c, "api_versions", 0, {})["error_code"], NONE, what)


def filled(c, message):
    """A request in which nothing is empty."""
    def one(f):
        if f.is_struct:
            return filled(c, f.struct)
        return {"uuid": c.default(f), "string": "t", "bytes": b"b", "records": b"r"}.get(f.type, 1)
    return {f.name: [one(f), one(f)] if f.is_array else one(f)
            for f in message.plain() if has(f.versions, c.version)}


def cut(body):
    return (body[:size] for size in range(len(body)))


def swollen(body):
    giants = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x80\0\0\0", b"\xff\xff\xff\xff\x07", b"\xff" * 9 + b"\x01")
    return (body[:at] + giant + body[at + len(giant):] for at in range(len(body)) for giant in giants)


def flipped(body, rng, count):
    for _ in range(count):
        data = bytearray(body)
        for _ in range(3):
            data[rng.randrange(len(data))] = rng.randrange(256)
        yield bytes(data)


class Attacker:
    """Sends what may be no request. It is answered with a well-formed message, or costs its connection."""

    def __init__(self, node):
        self.node, self.connection = node, None

    def send(self, c, data):
        if self.connection is None:
            self.connection = Connection(self.node.kafka, 1 if c.api.key == PRODUCE else 10)
        correlation_id = self.connection.send(c.api.key, c.version, data, c.flexible)
        try:
            receive(self.connection, name_of(c.api.key), c.version, correlation_id)
        except EOFError as e:
            expect("of" not in str(e).split(), f"an answer that ends early: {e}")
            self.close()
        except TimeoutError:
            expect(c.api.key == PRODUCE, "no answer")  # acks became 0.
            self.close()

    def close(self):
        if self.connection is not None:
            self.connection.socket.close()
        self.connection = None


def test_requests_cut_and_swollen_at_every_byte():
    """Of every listed version of every API, within no memory to speak of. Fixed seeds, and no topic of that name."""
    rng = random.Random(7)
    with Node(fresh_dir("hostile_requests") / "data", "--set", "auto.create.topics.enable=false") as node:
        attacker = Attacker(node)
        with Connection(node.kafka) as c:
            listed = [(k["api_key"], k["min_version"], k["max_version"]) for k in ask(c, "api_versions", 0, {})["api_keys"]]
        before = node.rss_kib()
        sent = 0
        for key, low, high in sorted(listed, key=lambda k: (k[0] == CREATE_TOPICS, k)):
            low = 3 if key == PRODUCE else low
            for version in range(low, high + 1):
                c = codec(name_of(key), version)
                body = c.write(c.api.request.root, filled(c, c.api.request.root))
                attacker.close()
                attacks = [*cut(body), *flipped(body, rng, 10 if body else 0), *(swollen(body) if version == high else ())]
                for data in attacks:
                    attacker.send(c, data)
                sent += len(attacks)
        attacker.close()
        print(f"{sent} requests to {len(listed)} APIs")
        expect_alive(node, "after")
        grown = node.rss_kib() - before
        expect("asan" in binary() or grown < 32 << 10, f"grew by {grown} KiB")  # ASan keeps what was freed.
        equal(node.stop()[0], 0, "exit code")


def test_half_frames_give_way():
    """A few bytes announce a megabyte each: when no memory is left, they go, and not the others."""
    with Node(fresh_dir("hostile_half") / "data", "--cores", "0", "--memory", "16MiB") as node:
        with Connection(node.kafka, 20) as c:
            equal(c.create_topic("t"), NONE, "create")
            half = []
            for size in [1 << 20] * 16 + [1 << 16] * 64 + [4000] * 2000:
                half.append(Connection(node.kafka))
                half[-1].send_raw(wire.i32(size) + b"\0\0\0\x09")
            began = time.monotonic()
            equal(c.produce("t", 0, batch([b"x" * 100000]), timeout_ms=20000)[:2], (NONE, 0), "produce")
            expect(time.monotonic() - began < 15, "the wait is too long")
            for connection in half:
                connection.socket.close()
        expect_alive(node, "after")


def test_lengths_alone_keep_nobody_waiting():
    """100 clients announce 4 MiB each and send two bytes; then a page each. Who sends what it announces is
    served: at once while they sent less than a page, and small requests ever after."""
    large, small = batch([b"x" * (3 << 20)]), batch([b"x" * 30000])
    with Node(fresh_dir("hostile_lengths") / "data", "--cores", "0", "--memory", "16MiB",
              "--set", "message.max.bytes=4MiB") as node:
        with Connection(node.kafka, 20) as c:
            equal(c.create_topic("t"), NONE, "create")
            half = []
            for _ in range(100):
                half.append(Connection(node.kafka))
                half[-1].send_raw(wire.i32((4 << 20) - 1) + b"\0\0")
            time.sleep(0.5)
            for data in (large, small):
                began = time.monotonic()
                equal(c.produce("t", 0, data, timeout_ms=20000)[0], NONE, "produce")
                expect(time.monotonic() - began < 3, f"{len(data)} bytes waited for the promises")
            for connection in half:
                connection.send_raw(b"\0\x09" + bytes(8000))
            time.sleep(0.2)
            began = time.monotonic()
            equal(c.produce("t", 0, small, timeout_ms=20000)[:2], (NONE, 2), "produce")
            expect(len(c.fetch("t", 0, 1)[2]) > 60000, "fetch")
            expect(time.monotonic() - began < 3, "a small request waited")
            for connection in half:
                connection.socket.close()
        expect_alive(node, "after")


def test_readers_that_do_not_read_give_way():
    with Node(fresh_dir("hostile_readers") / "data", "--cores", "0", "--memory", "64MiB") as node:
        with Connection(node.kafka, 20) as c:
            equal(c.create_topic("t"), NONE, "create")
            data = batch([b"x" * 500000])
            for i in range(20):
                equal(c.produce("t", 0, data)[:2], (NONE, i), "produce")
            wanted = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1 << 23}
            idle = [Connection(node.kafka) for _ in range(60)]
            for connection in idle:
                for _ in range(4):
                    send(connection, "fetch", 11, {
                        "replica_id": -1, "max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 23,
                        "session_epoch": -1, "topics": [{"topic": "t", "partitions": [wanted]}]})
            time.sleep(1)
            deadline = time.monotonic() + 15
            records = b""
            while not records and time.monotonic() < deadline:
                error, _, records = c.fetch("t", 0, 0, max_wait_ms=500, partition_max_bytes=1)
                equal(error, NONE, "fetch")
            expect(records, "a reader that reads got nothing")
            for connection in idle:
                connection.socket.close()


def limit_files(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def test_connections_take_no_descriptors_of_files():
    with Node(fresh_dir("hostile_descriptors") / "data", "--cores", "0", preexec_fn=limit_files(320)) as node:
        with Connection(node.kafka) as c:
            equal(c.create_topic("t", 60), NONE, "create")
            flood = [Connection(node.kafka) for _ in range(400)]
            for i in range(60):
                equal(c.produce("t", i, batch([b"x"]))[:2], (NONE, 0), f"produce to {i}")
                expect(c.fetch("t", i, 0)[2], f"fetch of {i}")
            for connection in flood:
                connection.socket.close()
        time.sleep(0.3)
        expect_alive(node, "after")
        lines = node.log_path.read_text().splitlines()
        expect(len(lines) < 30, f"{len(lines)} lines of log for 400 connections")


def test_too_few_descriptors_are_refused():
    code, stdout, lines = refused_start(fresh_dir("hostile_no_descriptors") / "data", preexec_fn=limit_files(64))
    lines = [line for line in lines if line.startswith("coreflume: ")]
    equal((code, stdout, len(lines)), (1, "", 1), "refusal")
    expect("ulimit -n" in lines[0], f"no fix in {lines[0]!r}")


run_all(globals())

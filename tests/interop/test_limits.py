#!/usr/bin/env python3
"""Everything is bounded: what happens at the limits, and that it passes again."""
import random
import os
import resource
import signal
import socket
import subprocess
import threading
import time

from support import wire
from support.check import equal, expect, run_all
from support.definitions import ask, receive, send
from support.node import READY, Node, binary, fresh_dir
from support.wire import Connection, batch

NONE = 0
INVALID_REQUEST = 42
FETCH = {"replica_id": -1, "max_wait_ms": 100, "min_bytes": 1, "session_epoch": -1}


def fill(c, topic, partitions, megabytes):
    data = batch([b"x" * 900000])
    for i in range(megabytes):
        equal(c.produce(topic, i % partitions, data)[0], NONE, "produce")


def fetch_request(topic, partitions):
    return {**FETCH, "topics": [{"topic": topic, "partitions": [
        {"partition": p, "fetch_offset": 0, "partition_max_bytes": 8 << 20, "current_leader_epoch": -1}
        for p in range(partitions)]}]}


def test_waiting_fetches_leave_room_for_others():
    """What they hold is more than all requests may: they closed connections, their own and those of others."""
    with Node(fresh_dir("limits_waiting") / "data", "--cores", "0", "--memory", "16MiB") as node, \
            Connection(node.kafka) as c:
        equal(c.create_topic("t", 400), NONE, "create")
        readers = [Connection(node.kafka) for _ in range(60)]
        request = {**fetch_request("t", 400), "max_wait_ms": 1500, "max_bytes": 1 << 20}
        numbers = [send(reader, "fetch", 11, request) for reader in readers]
        time.sleep(0.3)
        equal(c.produce("t", 0, batch([b"still writing"]))[0], NONE, "a writer")
        for reader, number in zip(readers, numbers):
            receive(reader, "fetch", 11, number)
        expect("request_refused" not in node.log_path.read_text(), "a request was refused")


def test_readers_that_do_not_read_hold_up_nobody():
    """Answers for more than all memory wait in the sockets of readers that sleep."""
    with Node(fresh_dir("limits_readers") / "data", "--memory", "64MiB") as node, Connection(node.kafka) as c:
        equal(c.create_topic("t", 4), NONE, "create")
        fill(c, "t", 4, 32)
        sleepers = [Connection(node.kafka) for _ in range(60)]
        for sleeper in sleepers:
            sleeper.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(4):
                send(sleeper, "fetch", 11, fetch_request("t", 4))
        time.sleep(1)
        equal(c.produce("t", 0, batch([b"still writing"]))[0], NONE, "a writer")
        began = time.monotonic()
        answer = ask(c, "fetch", 11, fetch_request("t", 4))
        expect(time.monotonic() - began < 5, "a reader waited long")
        equal({p["error_code"] for p in answer["responses"][0]["partitions"]}, {NONE}, "errors")
        for sleeper in sleepers:
            sleeper.socket.close()
        time.sleep(0.5)
        answer = ask(c, "fetch", 11, fetch_request("t", 4))
        expect(any(p["records"] for p in answer["responses"][0]["partitions"]), "memory did not come back")
        equal(node.stop()[0], 0, "exit code")


def test_writers_beyond_all_memory_are_slowed_not_dropped():
    with Node(fresh_dir("limits_writers") / "data", "--memory", "64MiB") as node:
        with Connection(node.kafka) as c:
            equal(c.create_topic("t", 4), NONE, "create")
        data = batch([b"x" * 900000])
        results = []

        def write(partition):
            with Connection(node.kafka, seconds=60) as c:
                ids = []
                request = {"acks": -1, "timeout_ms": 60000, "transactional_id": None, "topic_data": [
                    {"name": "t", "partition_data": [{"index": partition, "records": data}]}]}
                for _ in range(10):
                    ids.append(send(c, "produce", 9, request))
                for correlation_id in ids:
                    answer = receive(c, "produce", 9, correlation_id)
                    results.append(answer["responses"][0]["partition_responses"][0]["error_code"])
        threads = [threading.Thread(target=write, args=(i % 4,)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal((len(results), set(results)), (200, {NONE}), "answers")
        equal(node.stop()[0], 0, "exit code")


def test_the_cache_gives_way_to_a_large_request():
    """A quarter of the memory in one piece, which the cached ends of logs stand in the way of."""
    with Node(fresh_dir("limits_large") / "data", "--memory", "32MiB", "--cores", "0") as node, \
            Connection(node.kafka, seconds=20) as c:
        equal(c.create_topic("t", 4, {"max.message.bytes": "9000000"}), NONE, "create")
        fill(c, "t", 4, 32)
        body = batch([b"y"] * 1, records=b"".join([wire.record(None, b"x" * 8000000)]))
        error, _, _, message = c.produce("t", 0, body)
        equal((error, message), (NONE, None), "8 MB at once")
        equal(node.stop()[0], 0, "exit code")


def test_a_request_larger_than_memory_closes():
    with Node(fresh_dir("limits_request") / "data", "--memory", "64MiB") as node:
        with Connection(node.kafka) as c:
            c.send_raw(wire.i32(90 << 20))
            try:
                c.send_raw(bytes(1 << 20))
                expect(c.socket.recv(1) == b"", "an answer")
            except (ConnectionResetError, BrokenPipeError):
                pass
        with Connection(node.kafka) as c:
            expect(ask(c, "api_versions", 0, {})["api_keys"], "others are served")


def test_connections_are_counted():
    with Node(fresh_dir("limits_connections") / "data", "--cores", "0", "--set", "max.connections=3") as node:
        kept = [Connection(node.kafka) for _ in range(3)]
        for c in kept:
            expect(ask(c, "api_versions", 0, {})["api_keys"], "served")
        with Connection(node.kafka) as c:
            try:
                ask(c, "api_versions", 0, {})
                raise AssertionError("the fourth is served")
            except (EOFError, ConnectionResetError, BrokenPipeError):
                pass
        kept.pop().socket.close()
        time.sleep(0.3)
        with Connection(node.kafka) as c:
            expect(ask(c, "api_versions", 0, {})["api_keys"], "a place came free")


def test_idle_connections_are_closed():
    with Node(fresh_dir("limits_idle") / "data", "--set", "connections.max.idle.ms=500") as node:
        with Connection(node.kafka) as c:
            expect(ask(c, "api_versions", 0, {})["api_keys"], "served")
            began = time.monotonic()
            equal(c.socket.recv(1), b"", "closed")
            expect(0.3 < time.monotonic() - began < 3, f"after {time.monotonic() - began:.1f} s")


def test_bytes_of_chance_end_no_process():
    """Frames of random bytes with the keys and versions that are served."""

    rng = random.Random(4711)
    with Node(fresh_dir("limits_random") / "data") as node:
        versions = {0: (3, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 10: (0, 6), 18: (0, 4), 19: (2, 7), 20: (1, 6), 22: (0, 5)}
        for _ in range(3000):
            key = rng.choice(list(versions))
            version = rng.randint(*versions[key])
            body = bytes(rng.choice((0, 0, 1, 2, 255, rng.randrange(256))) for _ in range(rng.randrange(80)))
            frame = wire.i16(key) + wire.i16(version) + wire.i32(1) + wire.string("r") + body
            with Connection(node.kafka) as c:
                c.send_raw(wire.i32(len(frame)) + frame)
        with Connection(node.kafka) as c:
            expect(ask(c, "api_versions", 0, {})["api_keys"], "served")
        equal(node.stop()[0], 0, "exit code")


def test_a_log_that_nobody_reads_stops_nothing():
    """Stderr is a pipe whose reader sleeps, or has gone: the broker serves and stops as ever."""
    for is_gone in (False, True):
        reader, writer = os.pipe()
        if is_gone:
            os.close(reader)
        command = [binary(), "start", "--data-dir", str(fresh_dir("limits_log") / "data"), "--kafka", "127.0.0.1:0",
                   "--admin", "127.0.0.1:0", "--cores", "0", "--set", "coreflume.log.level=debug"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer, text=True)
        try:
            os.close(writer)
            address = READY.match(process.stdout.readline().rstrip("\n")).group(1)
            for _ in range(2000):
                Connection(address).socket.close()  # Two lines each.
            with Connection(address) as c:
                equal(c.create_topic("t"), NONE, "create")
                equal(c.produce("t", 0, batch([b"x"]))[:2], (NONE, 0), "produce")
            process.send_signal(signal.SIGHUP)
            equal(process.wait(timeout=10), 0, "exit code")
        finally:
            process.kill()
            process.wait()
            if not is_gone:
                os.close(reader)


def test_many_topics_and_a_long_answer():
    with Node(fresh_dir("limits_topics") / "data") as node, Connection(node.kafka, seconds=60) as c:
        for start in range(0, 300, 100):
            topics = [{"name": f"topic-{i}", "num_partitions": 10, "replication_factor": 1}
                      for i in range(start, start + 100)]
            answer = ask(c, "create_topics", 7, {"topics": topics, "timeout_ms": 60000, "validate_only": 0})
            equal({t["error_code"] for t in answer["topics"]}, {NONE}, "create")
        answer = ask(c, "metadata", 12, {"topics": None})
        equal(len(answer["topics"]), 300, "topics")
        equal(sum(len(t["partitions"]) for t in answer["topics"]), 3000, "partitions")
        names = [{"name": f"topic-{i}"} for i in range(300)]
        answer = ask(c, "delete_topics", 6, {"topics": names, "timeout_ms": 60000})
        equal({t["error_code"] for t in answer["responses"]}, {NONE}, "delete")
        equal(ask(c, "metadata", 12, {"topics": None})["topics"], [], "none is left")
        equal(node.stop()[0], 0, "exit code")


def most_memory_mib(node):
    with open(f"/proc/{node.process.pid}/status", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("VmHWM:")).split()[1]) >> 10


def test_a_client_that_half_closed_is_answered():
    """It asked for more groups than are looked at at once, and waits for what they are."""
    with Node(fresh_dir("limits_half_closed"), "--cores", "0") as node, Connection(node.kafka) as c:
        ask(c, "find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]})
        message = ("describe_groups", 5, {"groups": [f"g{i}" for i in range(100)]})
        want = [g["error_code"] for g in ask(c, *message)["groups"]]
        number = send(c, *message)
        c.socket.shutdown(socket.SHUT_WR)
        equal([g["error_code"] for g in receive(c, *message[:2], number)["groups"]], want, "errors")


def test_answers_about_many_groups_are_bounded():
    """A few kilobytes that ask for gigabytes: a group of four megabytes, a thousand times."""
    with Node(fresh_dir("limits_groups") / "data", "--cores", "0", "--set", "group.initial.rebalance.delay.ms=0",
              "--set", "offsets.topic.num.partitions=1") as node:
        with Connection(node.kafka) as c:
            ask(c, "find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]})
            joined = ask(c, "join_group", 3, {
                "group_id": "g", "member_id": "", "session_timeout_ms": 30000, "rebalance_timeout_ms": 30000,
                "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": bytes(4 << 20)}]})
            equal(joined["error_code"], NONE, "join")
            synced = ask(c, "sync_group", 3, {"group_id": "g", "generation_id": joined["generation_id"],
                                              "member_id": joined["member_id"], "assignments": []})
            equal(synced["error_code"], NONE, "sync")
            groups = ask(c, "describe_groups", 5, {"groups": ["g"] * 4})["groups"]
            equal([len(g["members"][0]["member_metadata"]) for g in groups], [4 << 20] * 4, "four fit")
            groups = ask(c, "describe_groups", 6, {"groups": ["g"] * 1000})["groups"]
            fit = sum(g["error_code"] == NONE for g in groups)
            expect(4 <= fit < 32, f"{fit} fit") # Into 64 MiB, and those that were under way.
            equal({(g["error_code"], g["error_message"]) for g in groups[fit:]},
                  {(INVALID_REQUEST, "The answer is too large: ask for less at once.")}, "the others")
            groups = ask(c, "describe_groups", 5, {"groups": ["g"] * 1000})["groups"]
            equal([g["error_code"] for g in groups[fit:]], [INVALID_REQUEST] * (1000 - fit), "without words")
        expect(most_memory_mib(node) < 500, f"{most_memory_mib(node)} MiB")
        with Connection(node.kafka) as c:
            expect(ask(c, "api_versions", 0, {})["api_keys"], "others are served")


def test_the_soft_limit_on_open_files_is_raised():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        with Node(fresh_dir("limits_files") / "data", "--memory", "64MiB") as node:
            with open(f"/proc/{node.process.pid}/limits", encoding="ascii") as f:
                line = next(line for line in f if line.startswith("Max open files"))
            soft, hard = line.split()[3:5]
            equal(soft, hard, "soft limit")
            equal(node.stop()[0], 0, "exit code")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


run_all(globals())

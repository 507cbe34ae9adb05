#!/usr/bin/env python3
"""A small disk that fills up: records are refused while there is a reserve, deletes and reads go on, and
what they free brings it back. On an ext4 of 96 MiB, loop-mounted; without the right to mount it is skipped."""
import json
import os
import pathlib
import subprocess
import time
import urllib.request

from support.check import equal, expect, run_all
from support.definitions import ask
from support.disk import Disk, skip_reason
from support.node import Node, refused_start
from support.wire import Connection, batch, batches

NONE = 0
STORAGE_ERROR = 56
NOT_LEADER = 6
BATCH = batch([os.urandom(900000)])  # Made once: its checksum takes Python a while.


def health(node):
    with urllib.request.urlopen(f"http://{node.admin}/healthz", timeout=10) as answer:
        return json.load(answer)


def free(path):
    fs = os.statvfs(path)
    return fs.f_bavail * fs.f_frsize


def fill(c, topic):
    """Produces until it is refused; the answer and how many were taken."""
    taken = 0
    while True:
        began = time.monotonic()
        answer = c.produce(topic, 0, BATCH)
        expect(time.monotonic() - began < 5, "an answer took long")
        if answer[0] != NONE:
            return answer, taken
        taken += 1


def commit_offset(c, group, topic, offset):
    """Of a consumer that is nobody's member; the group's first makes the topic for all of them, in the reserve."""
    ask(c, "find_coordinator", 3, {"key": group, "key_type": 0})
    answer = ask(c, "offset_commit", 7, {"group_id": group, "generation_id_or_member_epoch": -1, "topics": [
        {"name": topic, "partitions": [{"partition_index": 0, "committed_offset": offset}]}]})
    return answer["topics"][0]["partitions"][0]["error_code"]


def eventually(what, condition):
    end = time.monotonic() + 20
    while not condition():
        expect(time.monotonic() < end, what)
        time.sleep(0.1)


def test_records_are_refused_first_and_a_delete_brings_it_back():
    with Disk("full_disk") as path, Node(path / "data") as node, Connection(node.kafka) as c:
        equal([c.create_topic(t) for t in ("kept", "large")], [NONE, NONE], "create")
        equal(c.produce("kept", 0, batch([b"kept"]))[0], NONE, "produce")
        equal(health(node)["problems"], [], "problems before")
        (error, _, _, message), taken = fill(c, "large")
        equal(error, STORAGE_ERROR, "the first refusal: at once, and one that clients repeat")
        expect("disk is full" in message, f"message: {message}")
        equal(c.produce("large", 0, BATCH, version=3)[0], NOT_LEADER, "in version 3")
        reserve = 96 << 18  # A quarter of the file system, about.
        expect(free(path) > reserve / 2, f"{free(path)} bytes are left")
        problem = health(node)["problems"][0]
        equal((problem["code"], problem["subject"]), ("disk_full", str(path / "data")), "problem")
        shards = os.cpu_count()
        expect(1 <= node.log_path.read_text().count("disk_full: ") <= shards, "not one line per core at most")

        stored = batches(c.fetch("large", 0, 0)[2])
        expect(len(stored) > 0, "reads do not go on")
        expect(c.init_producer_id()[0] == NONE, "producer ids do not go on")
        eventually("offset commits do not go on", lambda: commit_offset(c, "group", "large", 3) == NONE)
        equal(c.create_topic("another"), STORAGE_ERROR, "a new topic")
        equal(c.delete_topic("large"), NONE, "delete")
        eventually("records are not taken again", lambda: c.produce("kept", 0, BATCH)[0] == NONE)
        eventually("the problem stays", lambda: health(node)["problems"] == [])
        expect("disk_has_space: " in node.log_path.read_text(), "no line that it is over")
        expect(taken > 10, f"only {taken} batches fitted")


def test_a_real_producer_waits_for_space():
    """librdkafka takes the error for one that passes: it repeats until there is space, and loses nothing."""
    with Disk("full_disk_client") as path, Node(path / "data") as node, Connection(node.kafka) as c:
        equal([c.create_topic(t) for t in ("kept", "large")], [NONE, NONE], "create")
        fill(c, "large")
        lines = [f"line {i} {'x' * 900}" for i in range(3000)]
        with subprocess.Popen(["kcat", "-b", node.kafka, "-P", "-t", "kept", "-X", "enable.idempotence=true"],
                              stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as producer:
            producer.stdin.write("\n".join(lines) + "\n")
            producer.stdin.close()
            time.sleep(2)
            expect(producer.poll() is None, "the producer ended though the disk is full")
            equal(c.delete_topic("large"), NONE, "delete")
            equal(producer.wait(timeout=60), 0, "kcat's exit code")
        got = subprocess.run(["kcat", "-b", node.kafka, "-C", "-t", "kept", "-o", "beginning", "-e", "-q"],
                             capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
        equal(got, lines, "lines")


def test_others_take_it_all():
    """The whole disk, the reserve too, is taken by somebody else: deletes still work."""
    with Disk("full_disk_others") as path, Node(path / "data") as node, Connection(node.kafka) as c:
        equal([c.create_topic(f"t{i}") for i in range(20)], [NONE] * 20, "create")
        equal(c.produce("t0", 0, batch([b"first"]))[0], NONE, "produce")
        hog = path / "hog"
        with open(hog, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(1 << 20))
            except OSError:
                pass
        time.sleep(0.2)
        equal(c.produce("t1", 0, batch([b"second"]))[0], STORAGE_ERROR, "at once")
        for i in range(10, 20):
            equal(c.delete_topic(f"t{i}"), NONE, f"delete t{i}")
        equal(batches(c.fetch("t0", 0, 0)[2])[0][0], 0, "fetch")
        node.kill()
        with Node(path / "data") as again, Connection(again.kafka) as c2:
            equal(batches(c2.fetch("t0", 0, 0)[2])[0][0], 0, "after a restart on a full disk")
            equal(c2.delete_topic("t9"), NONE, "delete after it")
            hog.unlink()
            eventually("records are not taken again", lambda: c2.produce("t1", 0, batch([b"x"]))[0] == NONE)
            equal(again.stop()[0], 0, "exit code")


def test_another_number_of_cores_on_a_full_disk():
    """It takes some space; without, the way back is named, and goes."""
    if len(os.sched_getaffinity(0)) == 1:
        return
    with Disk("full_disk_cores", 64) as path:
        with Node(path / "data", "--cores", "0") as node, Connection(node.kafka) as c:
            equal(c.create_topic("t"), NONE, "create")
            equal(c.produce("t", 0, batch([b"x"]))[:2], (NONE, 0), "produce")
            node.kill()
        for left in (600 << 10, 100 << 10):
            hog = path / "hog"
            subprocess.run(["fallocate", "-l", str(free(path) - left), hog], check=True)
            exit_code, _, lines = refused_start(path / "data", "--cores", "all")
            equal(exit_code, 1, f"exit code, {left} bytes left")
            expect("or start with as many cores as before" in "".join(lines), f"no way out in {lines[-2:]}")
            with Node(path / "data", "--cores", "0") as node, Connection(node.kafka) as c:
                equal(batches(c.fetch("t", 0, 0)[2])[0][0], 0, f"fetch, {left} bytes left")
                node.kill()
            hog.unlink()
        with Node(path / "data", "--cores", "0") as node, Connection(node.kafka) as c:
            equal(batches(c.fetch("t", 0, 0)[2])[0][0], 0, "fetch")
            equal(c.produce("t", 0, batch([b"x"]))[:2], (NONE, 1), "produce")
            equal(node.stop()[0], 0, "exit code")


if (reason := skip_reason()) is not None:
    print(f"SKIPPED {pathlib.Path(__file__).name}: {reason}; CI runs it as root\n0 passed, 0 failed, 4 skipped")
else:
    run_all(globals())

#!/usr/bin/env python3
"""Files of a stopped node that rotted, shrank or went: what is left is served, nothing wrong is ever
answered, and what cannot be served says so in one line that names the fix."""
import json
import os
import re
import shutil
import urllib.request

from support.check import equal, expect, run_all
from support.cli import cli, run
from support.definitions import ask
from support.node import Node, fresh_dir, refused_start
from support.wire import Connection, batch, batches

NONE, CORRUPT, COORDINATOR_NOT_AVAILABLE, STORAGE = 0, 2, 15, 56
FOUND = 3  # What log repair exits with where damage is left.
RECORDS = 40
SIZE = 5000

directory = fresh_dir("damage")
intact = directory / "intact"


def value(topic, i):
    return b"%s-%d:" % (topic.encode(), i) + bytes([65 + i % 26]) * SIZE


def troubles(node):
    """What /healthz says, as (code, subject)."""
    with urllib.request.urlopen(f"http://{node.admin}/healthz", timeout=10) as answer:
        problems = json.load(answer)["problems"]
    return [(problem["code"], problem["subject"]) for problem in problems]


def prepare():
    with Node(intact, "--cores", "0") as node:
        with Connection(node.kafka) as c:
            for topic in ("hurt", "other"):
                equal(c.create_topic(topic), NONE, "create")
                for i in range(RECORDS):
                    equal(c.produce(topic, 0, batch([value(topic, i)]))[:2], (NONE, i), "produce")
        equal(node.stop()[0], 0, "exit code")


def damaged(change):
    """A copy of the intact directory, changed by change(the segment of `hurt`, the copy)."""
    copy = directory / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(intact, copy, symlinks=True)
    segment, = (copy / "logs" / "hurt-0").resolve().glob("*.log")
    change(segment, copy)
    return copy


def expect_served(c, topic, offsets):
    for offset in offsets:
        error, _, records = c.fetch(topic, 0, offset, max_wait_ms=0, partition_max_bytes=1)
        equal(error, NONE, f"{topic} at {offset}")
        (base, _, _, data), = batches(records)
        equal(base, offset, "offset")
        expect(value(topic, offset) in data, f"{topic} at {offset}: other data")


def test_flipped_byte():
    def flip(segment, _):
        data = bytearray(segment.read_bytes())
        data[data.index(value("hurt", 17)) + SIZE // 2] ^= 4
        segment.write_bytes(data)
    with Node(damaged(flip), "--cores", "0") as node, Connection(node.kafka) as c:
        expect_served(c, "hurt", [i for i in range(RECORDS) if i != 17])
        equal(c.fetch("hurt", 0, 17)[0], CORRUPT, "the damaged one")
        equal(c.fetch("hurt", 0, 17)[0], CORRUPT, "again")
        line = next(line for line in node.log_tail().splitlines() if "log_damaged" in line)
        expect(re.search(r" file=\S+\.log pos=\d+ end_pos=\d+ fault=payload .*first_offset=17 next_offset=18", line), line)
        equal(troubles(node), [("partition_damaged", "hurt-0")], "health")
        equal(c.produce("hurt", 0, batch([b"more"]))[:2], (NONE, RECORDS), "produce goes on")
        expect_served(c, "other", range(RECORDS))
        equal(node.stop()[0], 0, "exit code")


def losses(node):
    """How many accepted losses /metrics counts."""
    with urllib.request.urlopen(f"http://{node.admin}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith("coreflume_log_losses_accepted{"))


def test_accepted_loss():
    """What the operator gives up is passed by consumers, for good; what rots later is refused again."""
    def flip(*indexes):
        def change(segment, _=None):
            data = bytearray(segment.read_bytes())
            for i in indexes:
                data[data.index(value("hurt", i)[:8]) + SIZE // 2] ^= 4
            segment.write_bytes(data)
        return change
    copy = damaged(flip(17, 18))
    repair = ("log", "repair", "hurt-0", "--data-dir", str(copy))
    dry = run(*repair, "--json")
    segment, = (copy / "logs" / "hurt-0").glob("*.log")
    damage = json.loads(dry.out)
    starts = [segment.read_bytes().index(value("hurt", i)[:8]) for i in range(RECORDS)]
    for i, d in zip((17, 18), damage["damaged"]):
        pos, end = d.pop("pos"), d.pop("end_pos")
        expect(starts[i - 1] < pos < starts[i] < end <= starts[i + 1], f"{pos} {end} of {i}: {starts}")
    equal((dry.code, damage), (FOUND, {"partition": "hurt-0", "accepted": False, "accepted_before": [], "damaged": [
        {"first_offset": i, "next_offset": i + 1, "entries": 1, "file": str(segment)} for i in (17, 18)]}), "dry run")
    bad = [line for line in run("log", "dump", str(segment)).ok().out.splitlines() if "BAD=" in line]
    expect(len(bad) == 2 and f"BAD=payload file={segment} first_offset=17 next_offset=18" in bad[0], f"dump: {bad}")
    for more in ((), ("--accept-loss",)):
        equal(run("log", "repair", "other-0", "--data-dir", str(copy), *more).ok().out, "other-0: no damage\n", "healthy")
    for name, where, why in (("nobody-0", copy, "no partition nobody-0"), ("hrut-0", copy, "did you mean 'hurt-0'?"),
                             ("hurt-0", copy / "logs", "/logs has no logs: give its node's data directory"),
                             ("hurt-0", copy / "format.json", "format.json has no logs"),
                             ("x" * 300, copy, "File name too long")):
        run("log", "repair", name, "--data-dir", str(where)).fails(1, why)
    with Node(copy, "--cores", "0") as node, Connection(node.kafka) as c:
        equal(c.fetch("hurt", 0, 17)[0], CORRUPT, "a dry run changes nothing")
        run(*repair).fails(1, "stop the node first")
        equal(node.stop()[0], 0, "exit code")
    expect(f"hurt-0 is given up: offset 17 ({segment}, position " in run(*repair, "--accept-loss").ok().out, "what is given up")
    expect("hurt-0: no damage\n" in run(*repair, "--accept-loss").ok().out, "again")
    expect(f"given up before: offset 17 ({segment}, position " in run(*repair).ok().out, "what was given up before")
    for life in range(2):
        with Node(copy, "--cores", "0") as node, Connection(node.kafka) as c:
            equal((troubles(node), losses(node)), ([], 2), "health, metrics")
            expect_served(c, "hurt", [i for i in range(RECORDS + life) if i not in (17, 18)])
            for offset in (17, 18):
                (base, _, _, _), = batches(c.fetch("hurt", 0, offset, partition_max_bytes=1)[2])
                equal(base, 19, f"behind the loss, from {offset}")
            equal(c.list_offsets("hurt", 0, 0)[0], NONE, "by time")
            equal(c.produce("hurt", 0, batch([value("hurt", RECORDS + life)]))[:2], (NONE, RECORDS + life), "produce")
            equal(node.stop()[0], 0, "exit code")
    segment, = (copy / "logs" / "hurt-0").resolve().glob("*.log")
    flip(30)(segment)
    with Node(copy, "--cores", "0") as node, Connection(node.kafka) as c:
        equal(c.fetch("hurt", 0, 30)[0], CORRUPT, "nobody has accepted that")
        equal(node.stop()[0], 0, "exit code")


def test_many_losses_are_told_one_by_one():
    """More than a log keeps apart while they are damage: what is given up is exact, and so it is later."""
    data, count = directory / "many", 140
    with Node(data, "--cores", "0") as node:
        with Connection(node.kafka) as c:
            equal(c.create_topic("many"), NONE, "create")
            for i in range(count):
                equal(c.produce("many", 0, batch([b"number-%03d" % i]))[:2], (NONE, i), "produce")
        equal(node.stop()[0], 0, "exit code")
    segment, = (data / "logs" / "many-0").resolve().glob("*.log")
    content = bytearray(segment.read_bytes())
    lost = range(1, count - 1, 2)
    for i in lost:
        content[content.index(b"number-%03d" % i)] ^= 4
    segment.write_bytes(content)
    repair = ("log", "repair", "many-0", "--data-dir", str(data), "--json")
    dry = run(*repair)
    equal((dry.code, len(json.loads(dry.out)["damaged"])), (FOUND, 64), "dry run")
    exact = [(i, i + 1, 1) for i in lost]
    given_up = run(*repair, "--accept-loss").json()["damaged"]
    equal([(d["first_offset"], d["next_offset"], d["entries"]) for d in given_up], exact, "what is given up")
    again = run(*repair).json()
    equal((again["damaged"], again["accepted_before"]), ([], given_up), "and was")


def test_byte_flipped_while_it_runs():
    """What was good at the start and is not when it is read: the reader is told, and so is /healthz."""
    with Node(damaged(lambda *_: None), "--cores", "0") as node, Connection(node.kafka) as c:
        equal(troubles(node), [], "nothing is known yet")
        segment, = (directory / "copy" / "logs" / "hurt-0").resolve().glob("*.log")
        data = segment.read_bytes()
        with segment.open("r+b") as file:
            file.seek(data.index(value("hurt", 17)) + SIZE // 2)
            file.write(b"!")
        equal(c.fetch("hurt", 0, 17)[0], CORRUPT, "the damaged one")
        equal(troubles(node), [("partition_damaged", "hurt-0")], "health")
        line = next(line for line in node.log_tail().splitlines() if "log_read_corrupt" in line)
        where = re.search(r" file=(\S+\.log) pos=(\d+) .*first_offset=17 next_offset=18", line)
        expect(where and where[1] == str(segment) and 0 < data.index(value("hurt", 17)) - int(where[2]) < 4096, line)
        expect_served(c, "hurt", [0, 16, 18, RECORDS - 1])
        equal(node.stop()[0], 0, "exit code")


def test_end_that_damage_hides():
    """Nobody knows what was acknowledged behind the damage: no reader there is told that its offset
    is out of range, which would send it to the start, nor that there is just nothing new."""
    def cut(segment, _):
        data = segment.read_bytes()
        os.truncate(segment, data.index(value("hurt", 20)) // 4096 * 4096)
    copy = damaged(cut)
    with Node(copy, "--cores", "0") as node, Connection(node.kafka) as c:
        expect_served(c, "hurt", range(20))
        for offset in (20, 21, RECORDS - 1, RECORDS, RECORDS + 1):
            equal(c.fetch("hurt", 0, offset)[0], CORRUPT, f"at {offset}")
        equal(c.list_offsets("hurt", 0, -1)[0], STORAGE, "latest")
        equal(c.list_offsets("hurt", 0, -2)[::2], (NONE, 0), "earliest")
        equal(c.list_offsets("hurt", 0, 1 << 50)[0], CORRUPT, "by a time after the last")
        equal(c.produce("hurt", 0, batch([b"more"]))[0], STORAGE, "produce")
        expect("first_offset=20 " in next(line for line in node.log_tail().splitlines() if "log_damaged" in line), "where")
        equal(troubles(node), [("partition_damaged", "hurt-0")], "health")
        expect_served(c, "other", range(RECORDS))
        equal(c.produce("other", 0, batch([b"more"]))[:2], (NONE, RECORDS), "produce to another")
        equal(node.stop()[0], 0, "exit code")
    repair = ("log", "repair", "hurt-0", "--data-dir", str(copy), "--json")
    dry = json.loads(run(*repair).out)["damaged"]
    equal([(d["first_offset"], d["next_offset"], d["entries"]) for d in dry], [(20, None, None)], "dry run")
    equal(run(*repair, "--accept-loss").json()["damaged"], dry, "what is given up")
    equal(run(*repair).json()["damaged"], [], "and was")
    with Node(copy, "--cores", "0") as node, Connection(node.kafka) as c:
        expect_served(c, "hurt", range(20))
        equal(c.produce("hurt", 0, batch([b"more"]))[:2], (NONE, 20), "produce goes on")
        equal(node.stop()[0], 0, "exit code")


def test_one_partition_of_a_group_is_damaged():
    """Its figures are not known, those of its topic's others are; a seek that cannot go on says where and why."""
    data = directory / "wide"
    options = ("--cores", "0", "--set", "offsets.topic.num.partitions=1")
    with Node(data, *options) as node:
        with Connection(node.kafka) as c:
            equal(c.create_topic("wide", 2), NONE, "create")
            for partition in range(2):
                equal(c.produce("wide", partition, batch([b"marked"] * 3))[:2], (NONE, 0), "produce")
        cli(node, "group", "seek", "g", "-t", "wide", "-o", "1", "--execute").ok()
        equal(node.stop()[0], 0, "exit code")
    segment, = (data / "logs" / "wide-0").resolve().glob("*.log")
    os.truncate(segment, segment.read_bytes().index(b"marked") // 4096 * 4096)
    with Node(data, *options) as node:
        done = cli(node, "group", "describe", "g", "--json")
        rows = [(o["partition"], o["committed"], o["end"], o["lag"]) for o in json.loads(done.out)["offsets"]]
        equal((done.code, rows), (0, [(0, 1, None, None), (1, 1, 3, 2)]), "describe")
        expect("wide[0]: the broker's disk failed" in done.err, f"why: {done.err}")
        for where in (("--by", "1"), ("--by", "-1h"), ("-o", "end")):
            cli(node, "group", "seek", "g", *where).fails(1, "wide[0] cannot be asked for its offsets: a disk failed")
        cli(node, "group", "seek", "g", "-t", "wide", "-p", "1", "--by", "1").ok()
        equal(node.stop()[0], 0, "exit code")


def test_segment_missing():
    with Node(damaged(lambda segment, _: segment.unlink()), "--cores", "0") as node, \
            Connection(node.kafka) as c:
        equal(c.fetch("hurt", 0, 0)[0], STORAGE, "fetch")
        equal(troubles(node), [("partition_failed", "hurt-0")], "health")
        expect_served(c, "other", range(RECORDS))
        equal(c.delete_topic("hurt"), NONE, "delete")
        equal(troubles(node), [], "a topic that is gone troubles nobody")


def expect_refused(what, change):
    code, stdout, lines = refused_start(damaged(change), "--cores", "0")
    lines = [line for line in lines if line.startswith("coreflume: ")]
    equal((code, stdout, len(lines)), (1, "", 1), what)
    expect("restore" in lines[0], f"{what}: no fix in {lines[0]!r}")


def test_groups_whose_records_are_damaged_are_refused():
    """Also where the damage hides the end: older offsets, or none, would be answered as if they were the last."""
    data = directory / "groups"
    commit = {"group_id": "g", "member_id": "", "topics": [{"name": "t", "partitions": [
        {"partition_index": 0, "committed_offset": 0, "committed_metadata": "metadata"}]}]}
    fetch = {"groups": [{"group_id": "g", "topics": None}]}
    options = ("--cores", "0", "--set", "offsets.topic.num.partitions=1")
    with Node(data, *options) as node:
        with Connection(node.kafka) as c:
            equal(c.create_topic("t"), NONE, "create")
            ask(c, "find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]})
            for offset in range(100):
                commit["topics"][0]["partitions"][0]["committed_offset"] = offset
                equal(ask(c, "offset_commit", 8, commit)["topics"][0]["partitions"][0]["error_code"], NONE, "commit")
        equal(node.stop()[0], 0, "exit code")
    segment, = (data / "logs" / "__consumer_offsets-0").resolve().glob("*.log")
    content = segment.read_bytes()
    middle = content.rindex(b"metadata") // 2 // 4096 * 4096
    flipped = bytearray(content)
    flipped[content.index(b"metadata")] ^= 1
    zeros = content[:middle] + bytes(len(content) - middle)
    older = [[i] for i in range(99)]
    for name, bad, left in (("flipped", flipped, [[99]]), ("zeros", zeros, older), ("empty", b"", [[]]), ("restored", flipped, [[99]])):
        copy = directory / f"groups-{name}"
        shutil.copytree(data, copy, symlinks=True)
        segment, = (copy / "logs" / "__consumer_offsets-0").resolve().glob("*.log")
        segment.write_bytes(bad)
        with Node(copy, *options) as node:
            with Connection(node.kafka) as c:
                equal(ask(c, "offset_fetch", 8, fetch)["groups"][0]["error_code"], COORDINATOR_NOT_AVAILABLE, name)
            expect("groups_not_loaded" in node.log_tail(), f"{name}: the log says nothing")
            equal(node.stop()[0], 0, "exit code")
        if name == "restored":
            segment.write_bytes(content)
        else:
            run("log", "repair", "__consumer_offsets-0", "--data-dir", copy, "--accept-loss").ok()
        with Node(copy, *options) as node:
            with Connection(node.kafka) as c:
                group = ask(c, "offset_fetch", 8, fetch)["groups"][0]
                equal(group["error_code"], NONE, f"{name}: the group is back")
                expect([p["committed_offset"] for topic in group["topics"] for p in topic["partitions"]] in left, f"{name}: {group}")
                equal(ask(c, "offset_commit", 8, commit)["topics"][0]["partitions"][0]["error_code"], NONE, "commit goes on")
            equal(node.stop()[0], 0, "exit code")


def test_what_the_node_cannot_do_without():
    def flip_at(path, position):
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)
    for name in ("format.json", "shard-0.store"):
        expect_refused(f"{name} gone", lambda _, copy: (copy / name).unlink())
        expect_refused(f"{name} empty", lambda _, copy: os.truncate(copy / name, 0))
        expect_refused(f"{name} zeros", lambda _, copy: (copy / name).write_bytes(bytes((copy / name).stat().st_size)))
    # One bit in each of the first blocks of the store that hold anything.
    store = (intact / "shard-0.store").read_bytes()
    blocks = [at for at in range(0, len(store), 4096) if store[at:at + 4096].strip(b"\0")]
    for at in blocks[:6]:
        expect_refused(f"a bit of the store at {at}", lambda _, copy: flip_at(copy / "shard-0.store", at + 20))


prepare()
run_all(globals())

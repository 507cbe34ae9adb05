#!/usr/bin/env python3
"""How far groups are behind, on /metrics: in records and in time, by group and topic, and by partition; what goes away
with a group or a topic; and what the health page says of groups."""
import json
import re
import time
import urllib.request

from support.check import equal, expect, run_all
from support.definitions import ask
from support.node import Node, fresh_dir
from support.wire import Connection, batch

NONE, COORDINATOR_EARLY = 0, (14, 15, 16)
HOUR = 3600
WAIT_SECONDS = 40  # A pass every two seconds, on a machine that is busy.

data = fresh_dir("group_lag") / "data"
SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\d+)$", re.M)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def metrics(node):
    """Summed over shards: {(name, labels without shard): value}."""
    with urllib.request.urlopen(f"http://{node.admin}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    sums = {}
    for name, labels, value in SAMPLE.findall(text):
        key = name, *(v for k, v in LABEL.findall(labels) if k != "shard")
        sums[key] = sums.get(key, 0) + int(value)
    return sums


def await_metrics(node, what, is_right):
    ends = time.monotonic() + WAIT_SECONDS
    while True:
        found = metrics(node)
        if is_right(found):
            return found
        lag = {k: v for k, v in found.items() if "group" in k[0] and v}
        expect(time.monotonic() < ends, f"{what}: {lag}")
        time.sleep(0.2)


def commit(c, group, topic, offsets):
    request = {"group_id": group, "member_id": "", "generation_id_or_member_epoch": -1, "topics": [
        {"name": topic, "partitions": [{"partition_index": p, "committed_offset": o, "committed_metadata": ""}
                                       for p, o in offsets.items()]}]}
    ends = time.monotonic() + WAIT_SECONDS
    codes = COORDINATOR_EARLY
    while set(codes) & set(COORDINATOR_EARLY):
        expect(time.monotonic() < ends, f"commit: {codes}")
        ask(c, "find_coordinator", 4, {"key_type": 0, "coordinator_keys": [group]})
        codes = [p["error_code"] for p in ask(c, "offset_commit", 8, request)["topics"][0]["partitions"]]
        time.sleep(0.02)
    equal(set(codes), {NONE}, "commit")


def test_lag():
    now_ms = int(time.time() * 1000)
    with Node(data, "--cores", "0") as node, Connection(node.kafka) as c:
        equal(c.create_topic("t", 3), NONE, "create")
        for hours in (3, 2, 1):
            for partition in (0, 1):
                equal(c.produce("t", partition, batch([b"x"] * 10, timestamps=[now_ms - hours * HOUR * 1000] * 10))[0],
                      NONE, "produce")
        commit(c, 'g "1"', "t", {0: 10, 1: 30, 2: 0})
        commit(c, "caught-up", "t", {0: 30})
        found = await_metrics(node, "lag", lambda m: m.get(("coreflume_group_lag_records", 'g \\"1\\"', "t")) == 20)
        group = 'g \\"1\\"', "t"
        age = found["coreflume_group_lag_seconds", *group]
        expect(2 * HOUR <= age < 2 * HOUR + 600, f"the record at offset 10 is two hours old: {age}")
        equal([found["coreflume_group_partition_lag_records", *group, str(p)] for p in range(3)], [20, 0, 0], "by partition")
        equal(found["coreflume_group_partition_lag_seconds", *group, "1"], 0, "nothing left to read")
        equal((found["coreflume_group_lag_records", "caught-up", "t"],
               found["coreflume_group_lag_seconds", "caught-up", "t"]), (0, 0), "caught up")
        equal((found["coreflume_groups", "Empty"], found["coreflume_group_offsets", ], found["coreflume_group_members", ]),
              (2, 4, 0), "groups")
        expect(found["coreflume_group_commits_total", ] >= 2, "commits")
        commit(c, group[0].replace("\\", ""), "t", {0: 20})
        found = await_metrics(node, "moved on", lambda m: m["coreflume_group_lag_records", *group] == 10)
        age = found["coreflume_group_lag_seconds", *group]
        expect(HOUR <= age < HOUR + 600, f"one hour: {age}")
        node.kill()


def test_lag_after_a_restart_and_what_goes():
    with Node(data, "--cores", "0") as node, Connection(node.kafka) as c:
        await_metrics(node, "after kill -9", lambda m: m.get(("coreflume_group_lag_records", 'g \\"1\\"', "t")) == 10)
        deleted = ask(c, "delete_groups", 2, {"groups_names": ["caught-up"]})["results"]
        equal([r["error_code"] for r in deleted], [NONE], "delete")
        await_metrics(node, "deleted", lambda m: ("coreflume_group_lag_records", "caught-up", "t") not in m
                      and m["coreflume_groups", "Empty"] == 1)
        equal(c.delete_topic("t"), NONE, "delete topic")
        await_metrics(node, "its topic is gone", lambda m: m["coreflume_groups", "Empty"] == 0
                      and not any("lag_records" in k[0] for k in m))
        equal(c.create_topic("t", 3), NONE, "create again")
        found = ask(c, "offset_fetch", 8, {"require_stable": 0, "groups": [{"group_id": 'g "1"', "topics": None}]})
        equal(found["groups"][0]["topics"], [], "a topic made again inherits nothing")
        equal(node.stop()[0], 0, "stops")


def problems(node):
    with urllib.request.urlopen(f"http://{node.admin}/healthz", timeout=10) as answer:
        return [p["code"] for p in json.load(answer)["problems"]]


def await_problems(node, wanted):
    ends = time.monotonic() + WAIT_SECONDS
    while problems(node) != wanted:
        expect(time.monotonic() < ends, f"{problems(node)}, wanted {wanted}")
        time.sleep(0.2)


def test_the_number_of_groups_is_bounded():
    directory = fresh_dir("group_limit") / "data"
    with Node(directory, "--cores", "0", "--set", "coreflume.groups.max=10") as node, Connection(node.kafka) as c:
        equal(c.create_topic("t"), NONE, "create")
        groups = [f"g{i}" for i in range(10)]
        for group in groups:
            commit(c, group, "t", {0: 0})
        refused = ask(c, "offset_commit", 8, {"group_id": "more", "member_id": "", "generation_id_or_member_epoch": -1, "topics": [
            {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]}]})
        equal(refused["topics"][0]["partitions"][0]["error_code"], 15, "one too many: to be tried again")
        await_problems(node, ["groups_full"])
        ask(c, "delete_groups", 2, {"groups_names": groups[1:]})
        commit(c, "more", "t", {0: 0})
        await_problems(node, [])
        lines = [line.split()[2] for line in node.log_path.read_text().splitlines() if "group_limit_" in line]
        equal(lines, ["group_limit_reached:", "group_limit_over:"], "once each")


run_all(globals())

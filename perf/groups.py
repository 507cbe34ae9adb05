#!/usr/bin/env python3
"""Many consumer groups: what their heartbeats cost, and how soon they are back after kill -9.

Usage: groups.py [--groups N] [--members N] [--connections N] [--offsets N] [--seconds N] [--runs N]
                 [--commits N] [-- NODE OPTIONS]

Groups of `members` members are multiplexed over some connections: every member joins (classic, then another node with
KIP-848), commits `offsets` offsets per group, and heartbeats at the interval of its protocol for `seconds`: CPU of the
node by its own count, memory before and after. Then the node is killed and started again `runs` times: time until
every group answers OffsetFetch with what it had. One line of JSON per protocol.
--commits N: instead, groups without members that committed their offsets N times before the kill.
"""
import argparse
import concurrent.futures
import json
import pathlib
import selectors
import subprocess
import sys
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "interop"))
sys.path.insert(0, str(ROOT / "perf"))
from restart import cpu_ms, memory, spread  # noqa: E402
from support.definitions import ask, codec, receive, send  # noqa: E402
from support.node import Node, fresh_dir  # noqa: E402
from support.wire import Connection, i16, i32, string  # noqa: E402

TOPIC, PARTITIONS = "t", 64
WINDOW = 64  # Commits on their way over one connection.
INTERVAL_MS = {"classic": 3000, "consumer": 5000}  # Of Kafka's clients and brokers.
SUBSCRIPTION = i16(0) + i32(1) + string(TOPIC) + i32(-1)


def check(answer, what):
    if answer["error_code"] != 0:
        raise SystemExit(f"groups: {what}: {answer}")
    return answer


def join_classic(connections, group):
    """Each member on a connection of its own: a join keeps its connection until all are there."""
    request = {"group_id": group, "session_timeout_ms": 300000, "rebalance_timeout_ms": 300000, "protocol_type": "consumer",
               "protocols": [{"name": "range", "metadata": SUBSCRIPTION}]}
    asked = [(c, send(c, "join_group", 3, request)) for c in connections]
    joined = [(c, check(receive(c, "join_group", 3, wanted), "join")) for c, wanted in asked]
    asked = []
    for c, answer in joined:
        members = [{"member_id": m["member_id"], "assignment": b"x" * 50} for m in answer["members"]]
        asked.append((c, send(c, "sync_group", 2, {"group_id": group, "generation_id": answer["generation_id"],
                                                   "member_id": answer["member_id"], "assignments": members})))
    for c, wanted in asked:
        check(receive(c, "sync_group", 2, wanted), "sync")
    if len({answer["generation_id"] for _, answer in joined}) != 1:
        raise SystemExit(f"groups: {group} did not come together in one generation")
    return [(c, answer["member_id"], answer["generation_id"]) for c, answer in joined]


def join_consumer(connections, group):
    """Until every member has its share."""
    members = [[c, uuid.uuid4().hex, 0, []] for c in connections]
    for _ in range(50):
        for member in members:
            c, name, epoch, owned = member
            request = {"group_id": group, "member_id": name, "member_epoch": epoch, "topic_partitions": owned}
            if epoch == 0:
                request.update(rebalance_timeout_ms=300000, subscribed_topic_names=[TOPIC])
            answer = check(ask(c, "consumer_group_heartbeat", 1, request), "heartbeat")
            member[2] = answer["member_epoch"]
            if answer["assignment"] is not None:
                member[3] = [dict(t) for t in answer["assignment"]["topic_partitions"]]
        if sum(len(t["partitions"]) for m in members for t in m[3]) == PARTITIONS and len({m[2] for m in members}) == 1:
            return [(c, name, epoch) for c, name, epoch, _ in members]
        time.sleep(0.2)
    raise SystemExit(f"groups: {group} did not settle")


def commit_request(group, count):
    partitions = [{"partition_index": p, "committed_offset": 7, "committed_metadata": ""} for p in range(count)]
    return {"group_id": group, "generation_id_or_member_epoch": -1, "topics": [{"name": TOPIC, "partitions": partitions}]}


def commit(connection, group, count):
    answer = ask(connection, "offset_commit", 8, commit_request(group, count))
    if any(p["error_code"] for t in answer["topics"] for p in t["partitions"]):
        raise SystemExit(f"groups: commit: {answer}")


def connect_all(node, count):
    """With a topic, and coordinators for groups."""
    command = [str(node.process.args[0]), "topic", "create", "-b", node.kafka, TOPIC, "-p", str(PARTITIONS)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    connections = [Connection(node.kafka, seconds=120) for _ in range(count)]
    ask(connections[0], "find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]})
    return connections


def fill(node, options, protocol):
    """Returns the members: (connection, group, member id, generation or epoch)."""
    connections = connect_all(node, options.connections)
    teams = [connections[at:at + options.members] for at in range(0, options.connections, options.members)]
    join = {"classic": join_classic, "consumer": join_consumer}[protocol]

    def fill_team(index):
        members = []
        for number in range(index, options.groups, len(teams)):
            group = f"group-{number}"
            commit(teams[index][0], group, options.offsets) if options.offsets else None
            members += [(c, group, *rest) for c, *rest in join(teams[index], group)]
        return members

    with concurrent.futures.ThreadPoolExecutor(len(teams)) as pool:
        return [m for team in pool.map(fill_team, range(len(teams))) for m in team]


def frame_of(name, version, request):
    """Its bytes, with their length."""
    c = codec(name, version)
    frame = i16(c.api.key) + i16(version) + i32(1) + string("raw") + (b"\0" if c.flexible else b"")
    frame += c.write(c.api.request.root, request)
    return i32(len(frame)) + frame


def heartbeat(protocol, group, member, epoch):
    name, version = ("heartbeat", 3) if protocol == "classic" else ("consumer_group_heartbeat", 1)
    request = {"group_id": group, "member_id": member, "generation_id": epoch, "member_epoch": epoch}
    if protocol == "consumer":
        request.update(subscribed_topic_names=None, topic_partitions=None)
    return frame_of(name, version, request)


def beat(members, protocol, seconds):
    """All members at their interval; returns how many heartbeats were answered."""
    queues = {}
    for connection, group, member, epoch in members:
        queues.setdefault(connection, []).append(heartbeat(protocol, group, member, epoch))
    selector = selectors.DefaultSelector()
    for connection in queues:
        connection.socket.setblocking(False)
        selector.register(connection.socket, selectors.EVENT_READ)
    longest = max(len(q) for q in queues.values())
    pause = INTERVAL_MS[protocol] / 1000 / longest
    began, sent, tick = time.monotonic(), 0, 0
    while time.monotonic() - began < seconds:
        for connection, frames in queues.items():
            connection.socket.send(frames[tick % len(frames)])
            sent += 1
        tick += 1
        while (left := began + tick * pause - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if not key.fileobj.recv(1 << 16):
                    raise SystemExit("groups: a connection was closed")
    return sent


def restore(data, options):
    """ms from the start of the process until every group has its offsets."""
    began = time.monotonic()
    with Node(data, *options.node, ready_seconds=60) as node:
        ready = time.monotonic()
        with Connection(node.kafka, seconds=60) as c:
            groups = [{"group_id": f"group-{n}", "topics": None} for n in range(options.groups)]
            answer = ask(c, "offset_fetch", 8, {"groups": groups})
        ended = time.monotonic()
        whole = sum(len(t["partitions"]) for g in answer["groups"] for t in g["topics"])
        if any(g["error_code"] for g in answer["groups"]) or whole != options.groups * options.offsets:
            raise SystemExit(f"groups: {whole} offsets are there, of {options.groups * options.offsets}")
        node.kill()
    return 1000 * (ready - began), 1000 * (ended - ready)


def commit_often(connection, groups, options):
    for group in groups:
        commit(connection, group, options.offsets)
    frames = [frame_of("offset_commit", 8, commit_request(group, options.offsets)) for group in groups] * options.commits
    for at in range(len(frames) + WINDOW):
        if at < len(frames):
            connection.socket.sendall(frames[at])
        if at >= WINDOW:
            connection.receive()


def measure_history(options):
    data = fresh_dir("groups-history")
    with Node(data, *options.node) as node:
        connections = connect_all(node, 4)
        parts = [[f"group-{n}" for n in range(part, options.groups, 4)] for part in range(4)]
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(commit_often, connections, parts, [options] * 4))
        elapsed = time.monotonic() - began
        node.kill()
    size = sum(p.stat().st_size for p in data.glob("**/*.log"))
    runs = [restore(data, options) for _ in range(options.runs)]
    offsets = options.groups * options.offsets * (1 + options.commits)
    return {"history_of": options.groups, "offsets_committed": offsets, "per_s": round(offsets / elapsed), "log_mib": size >> 20,
            "ready_ms": spread([round(r) for r, _ in runs]), "restored_ms_after_ready": spread([round(r) for _, r in runs])}


def measure(protocol, options):
    data = fresh_dir(f"groups-{protocol}")
    settings = ["--set", "group.initial.rebalance.delay.ms=100", *options.node]
    with Node(data, *settings) as node:
        pid = node.process.pid
        before = memory(pid)["anon"]
        began = time.monotonic()
        members = fill(node, options, protocol)
        joined = time.monotonic() - began
        after = memory(pid)["anon"]
        time.sleep(2)
        idle_began = cpu_ms(pid)
        time.sleep(5)
        idle = (cpu_ms(pid) - idle_began) / 50  # Percent of a core.
        cpu_began, began = cpu_ms(pid), time.monotonic()
        sent = beat(members, protocol, options.seconds)
        elapsed, cpu = time.monotonic() - began, cpu_ms(pid) - cpu_began
        node.kill()
    runs = [restore(data, options) for _ in range(options.runs)]
    return {"protocol": protocol, "groups": options.groups, "members": options.members, "connections": options.connections,
            "joined_s": round(joined, 1), "memory_kib": after - before,
            "bytes_per_member": round(1024 * (after - before) / options.groups / options.members),
            "heartbeats_per_s": round(sent / elapsed), "cpu_percent": round(cpu / elapsed / 10, 1),
            "us_per_heartbeat": round(1000 * cpu / sent, 1), "idle_percent": round(idle, 1),
            "ready_ms": spread([round(r) for r, _ in runs]), "restored_ms_after_ready": spread([round(r) for _, r in runs])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("groups", 5000), ("members", 4), ("connections", 100), ("offsets", 20), ("seconds", 30), ("runs", 5), ("commits", 0)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("node", nargs="*")
    options = parser.parse_args()
    if options.commits:
        print(json.dumps(measure_history(options)), flush=True)
        return
    for protocol in ("classic", "consumer"):
        print(json.dumps(measure(protocol, options)), flush=True)


if __name__ == "__main__":
    main()

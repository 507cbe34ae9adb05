#!/usr/bin/env python3
"""Groups on the command line: members that share, leave and die, lag, seek, delete. ORACLE=1: against Apache Kafka."""
import collections
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

from support.check import equal, expect, run_all
from support.cli import cli
from support.definitions import ask
from support.kafka_tools import ORACLE, server
from support.node import Node, binary, fresh_dir
from support.wire import Connection, batch

PARTITIONS = 4


class Member:
    """coreflume consume -g as a process; lines as they come."""

    def __init__(self, node, *arguments, is_read=True):
        self.lines = []
        self.process = subprocess.Popen([binary(), "consume", *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=dict(os.environ, COREFLUME_BROKERS=node.kafka))
        self.reader = threading.Thread(target=lambda: self.lines.extend(line.rstrip("\n") for line in self.process.stdout))
        if is_read:
            self.reader.start()

    def end(self, number=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        if self.reader.is_alive():
            self.reader.join()
        error = self.process.stderr.read()
        return code, error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end(signal.SIGKILL)


class Relay:
    """Between a node that names it as its address and clients. Before the first request of an API goes on, does something."""

    def __init__(self, api_key):
        self.api_key, self.before, self.node = api_key, None, None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            broker = socket.create_connection(self.node.kafka.rsplit(":", 1))
            for source, target, is_request in ((client, broker, True), (broker, client, False)):
                threading.Thread(target=self._pass_on, args=(source, target, is_request), daemon=True).start()

    def _pass_on(self, source, target, is_request):
        stream = source.makefile("rb")
        try:
            while len(head := stream.read(4)) == 4:
                frame = stream.read(int.from_bytes(head, "big"))
                if is_request and self.before and int.from_bytes(frame[:2], "big") == self.api_key:
                    before, self.before = self.before, None
                    before()
                target.sendall(head + frame)
        except OSError:
            pass
        target.close()


def wait_for(what, seconds=30):
    """Until it returns something true, which is returned."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what.__doc__ or what}")


def describe(node, group):
    return cli(node, "group", "describe", group, "--json").json()


def shares(node, group):
    """How many partitions each member has; none while there is no such group."""
    described = cli(node, "group", "describe", group, "--json")
    members = json.loads(described.out)["members"] if described.code == 0 else []
    return sorted(sum(len(a["partitions"]) for a in m["assignments"]) for m in members)


def produce(node, topic, lines):
    """Some in each partition."""
    for partition in range(PARTITIONS):
        part = lines[partition::PARTITIONS]
        cli(node, "produce", topic, "-p", partition, text_in="".join(f"{line}\n" for line in part)).ok()


def test_members_share_and_nothing_is_lost():
    with server("cli_groups_share") as node:
        cli(node, "topic", "create", "t", "-p", PARTITIONS).ok()
        first = [f"a{i}" for i in range(400)]
        produce(node, "t", first)
        with Member(node, "t", "-g", "g") as one, Member(node, "t", "-g", "g") as two:
            wait_for(lambda: shares(node, "g") == [2, 2])
            wait_for(lambda: len(one.lines) + len(two.lines) >= 400)
            second = [f"b{i}" for i in range(400)]
            produce(node, "t", second)
            wait_for(lambda: len(one.lines) + len(two.lines) >= 800)
            expect(one.lines and two.lines, "both read")
            equal(two.end(), (0, ""), "a member told to stop leaves")
            wait_for(lambda: shares(node, "g") == [PARTITIONS])
            third = [f"c{i}" for i in range(40)]
            produce(node, "t", third)
            wait_for(lambda: len(one.lines) + len(two.lines) >= 840)
            equal(one.end(signal.SIGTERM), (0, ""), "so does the last")
            got = collections.Counter(one.lines + two.lines)
            equal(sorted(got), sorted(first + second + third), "records")
            equal(max(got.values()), 1, "none twice: each member left with what it had printed committed")
        d = describe(node, "g")
        equal((d["state"], d["members"]), ("Empty", []), "left")
        equal([(o["partition"], o["committed"], o["end"], o["lag"], o["lag_ms"]) for o in d["offsets"]],
              [(p, 210, 210, 0, 0) for p in range(PARTITIONS)], "all is committed")


def test_what_was_printed_is_committed():
    """All of it and nothing else: by -n, and before it waits for more."""
    with server("cli_groups_committed") as node:
        cli(node, "topic", "create", "t", "-p", PARTITIONS).ok()
        produce(node, "t", [f"{i}" for i in range(2000)])
        with Member(node, "t", "-g", "g", "-n", "1000") as one:
            equal(one.process.wait(timeout=30), 0, "-n")
        expect(len(one.lines) == 1000, len(one.lines))
        equal(sum(o["committed"] for o in describe(node, "g")["offsets"]), 1000, "exactly what was printed")
        with Member(node, "t", "-g", "g") as two:
            wait_for(lambda: sum(o["committed"] for o in describe(node, "g")["offsets"]) == 2000)
        equal(len(two.lines), 1000, "each once")


def test_where_it_begins_is_committed():
    """-o end: what comes when nobody has the partition any more, before anything was printed of it, is printed by the next."""
    with server("cli_groups_end") as node:
        cli(node, "topic", "create", "t").ok()
        cli(node, "produce", "t", text_in="old\n").ok()
        with Member(node, "t", "-g", "g", "-o", "end") as one:
            wait_for(lambda: shares(node, "g") == [1])
            wait_for(lambda: [o["committed"] for o in describe(node, "g")["offsets"]] == [1])
            equal(one.end(), (0, ""), "told to stop")
        equal(one.lines, [], "nothing printed")
        cli(node, "produce", "t", text_in="new\n").ok()
        equal(cli(node, "consume", "t", "-g", "g", "-o", "end", "-e").lines(), ["new"], "goes on where the first began")


def test_a_killed_member_s_records_come_again_elsewhere():
    """kill -9 with records printed and not committed: another gets its partitions after the session timeout, and reads them again."""
    short = ("group.consumer.min.session.timeout.ms=1000", "group.consumer.session.timeout.ms=3000",
             "group.consumer.min.heartbeat.interval.ms=100", "group.consumer.heartbeat.interval.ms=200")
    with server("cli_groups_kill", *short) as node:
        cli(node, "topic", "create", "t", "-p", PARTITIONS).ok()
        lines = {f"{i:020}" for i in range(40_000)}
        with Member(node, "t", "-g", "g", is_read=False) as one, Member(node, "t", "-g", "g") as two:
            wait_for(lambda: shares(node, "g") == [2, 2])
            produce(node, "t", sorted(lines))
            # Nobody takes what it prints: it stands in the middle of what it was handed, and goes on living.
            wait_for(lambda: [o["committed"] for o in describe(node, "g")["offsets"]].count(10_000) == 2)
            one.process.kill()
            one.process.wait()
            one.reader.start()
            one.reader.join()
            printed = {line for line in one.lines if len(line) == 20}  # The last one may be half a line.
            committed = sum(o["committed"] for o in describe(node, "g")["offsets"]) - 20_000
            expect(0 <= committed < len(printed), f"{committed} of {len(printed)} committed: nothing to come again")
            wait_for(lambda: len(two.lines) >= 40_000 - committed)
            equal(set(two.lines) | printed, lines, "nothing is missing")
            expect(len(printed & set(two.lines)) >= len(printed) - committed, "what was printed and not committed comes again")
            equal(shares(node, "g"), [PARTITIONS], "all are the survivor's")


def test_a_static_member_that_is_restarted_keeps_its_place():
    """Within its session timeout: nobody gets its partitions meanwhile, and it goes on where it was."""
    def members(node):
        return {m["instance_id"]: (m["epoch"], m["assignments"]) for m in describe(node, "g")["members"]}

    with server("cli_groups_static") as node:
        cli(node, "topic", "create", "t", "-p", PARTITIONS).ok()
        with Member(node, "t", "-g", "g", "--instance", "a") as one, Member(node, "t", "-g", "g", "--instance", "b") as two:
            wait_for(lambda: shares(node, "g") == [2, 2])
            produce(node, "t", [f"a{i}" for i in range(400)])
            wait_for(lambda: len(one.lines) + len(two.lines) >= 400)
            before = members(node)
            equal(one.end(), (0, ""), "stopped")
            produce(node, "t", [f"b{i}" for i in range(400)])
            wait_for(lambda: len(two.lines) >= 400)
            with Member(node, "t", "-g", "g", "--instance", "a") as again:
                wait_for(lambda: len(again.lines) >= 200)
                equal(members(node), before, "the same partitions in the same epochs")
                equal(len(two.lines), 400, "the other one has read its own, and nothing else")
                equal(sorted(again.lines + one.lines + two.lines), sorted(f"{c}{i}" for c in "ab" for i in range(400)), "each once")


def test_lag_in_records_and_in_time():
    with server("cli_groups_lag") as node:
        cli(node, "topic", "create", "t", "-p", PARTITIONS, "-c", "retention.ms=-1").ok()
        old = int(time.time() * 1000) - 3600_000
        cli(node, "produce", "t", "-p", 0, "--timestamp", old, text_in="1\n2\n").ok()
        cli(node, "produce", "t", "-p", 0, "--timestamp", old + 1800_000, text_in="3\n").ok()
        equal(cli(node, "consume", "t", "-g", "g", "-n", 2).lines(), ["1", "2"], "two")
        offsets = {o["partition"]: o for o in describe(node, "g")["offsets"]}
        equal((offsets[0]["committed"], offsets[0]["end"], offsets[0]["lag"]), (2, 3, 1), "records")
        expect(1800_000 <= offsets[0]["lag_ms"] < 1900_000, offsets[0])
        text = cli(node, "group", "describe", "g").ok().out
        expect(re.search(r"^lag +1 record, 30m\d*s? at most$", text, re.M), text)
        expect(re.search(r"^t +0 +2 +3 +1 +30m", text, re.M), text)
        # Records below the log's start count as Kafka's tools have it, and are told; the time is that of what is left.
        cli(node, "produce", "t", "-p", 0, "--timestamp", old + 2700_000, text_in="4\n").ok()
        cli(node, "topic", "trim", "t", "-p", 0, "-o", 3).ok()
        offset = describe(node, "g")["offsets"][0]
        equal((offset["committed"], offset["end"], offset["lag"], offset["gone"]), (2, 4, 2, 1), "one of two is gone")
        expect(900_000 <= offset["lag_ms"] < 1000_000, offset)
        # What is not known is not 0.
        with Connection(node.kafka) as c:
            equal(c.produce("t", 1, batch([b"x"], timestamps=[-1]))[0], 0, "a record without a time")
        cli(node, "group", "seek", "g", "-t", "t", "-p", 1, "-o", "start", "--execute").ok()
        offset = describe(node, "g")["offsets"][1]
        equal((offset["lag"], offset["lag_ms"]), (1, None), "no time")
        text = cli(node, "group", "describe", "g").ok().out
        expect(re.search(r"^lag +3 records, 15m\d*s? at most; 1 of them is gone; their time is not known of 1 partition$", text, re.M), text)
        expect(re.search(r"^t +1 +0 +1 +1 +- ", text, re.M), text)
        # Nor a place to go from: now would be behind what was never read.
        for options in ((), ("--execute",)):
            cli(node, "group", "seek", "g", "--by", "-10m", *options).fails(
                1, "t[1]: the record at offset 0 has no time: go by a number of records, or to a place (-o): nothing was changed")
        equal([(o["partition"], o["committed"]) for o in describe(node, "g")["offsets"]][:2], [(0, 2), (1, 0)], "as before")


def test_seek():
    with server("cli_groups_seek") as node:
        cli(node, "topic", "create", "t", "-p", 2, "-c", "retention.ms=-1").ok()
        now = int(time.time() * 1000)
        for i in range(10):
            cli(node, "produce", "t", "-p", 0, "--timestamp", now - (10 - i) * 600_000, text_in=f"{i}\n").ok()
        cli(node, "consume", "t", "-g", "g", "-e").ok()

        def sought(*options):
            rows = cli(node, "group", "seek", "g", "-t", "t", "-p", 0, "--json", *options).json()
            expect(rows["executed"] == ("--execute" in options), rows)
            return [(row["from"], row["to"], row["error"]) for row in rows["offsets"]]

        for where, to in (("start", 0), ("end", 10), ("3", 3), ("-3", 7), ("@-35m", 7), (f"@{now - 1200_000}", 8), ("@-1d", 0),
                          (f"@{now + 1000_000}", 10)):
            equal(sought("-o", where), [(10, to, None)], where)
        for by, to in (("-4", 6), ("-40", 0), ("4", 10), ("-25m", 8), ("1h", 10), ("9223372036854775807", 10)):
            equal(sought("--by", by), [(10, to, None)], by)
        equal(sought("-o", "5", "--execute"), [(10, 5, None)], "done")
        equal(sought("--by", "-20m"), [(5, 3, None)], "counted from the record there")
        equal(sought("--by", "+20m"), [(5, 7, None)], "ahead")
        equal(cli(node, "consume", "t", "-g", "g", "-e").lines(), ["5", "6", "7", "8", "9"], "goes on there")
        cli(node, "group", "seek", "g", "-o", "99", "-t", "t").fails(1, "offset 99 is not in t[0], which holds 0 to 10: nothing")
        cli(node, "group", "seek", "g").fails(2, "needs either a place")
        cli(node, "group", "seek", "g", "-o", "end", "--by", "1").fails(2, "needs either a place")
        cli(node, "group", "seek", "g", "--by", "soon").fails(2, "'soon' is neither")
        cli(node, "group", "seek", "g", "-o", "end", "-p", 0).fails(2, "-t TOPIC")
        cli(node, "group", "seek", "g", "-o", "end", "-t", "tt").fails(1, "did you mean 't'?")
        # A group that is to come: its first member begins there.
        cli(node, "group", "seek", "new", "-o", "8", "-t", "t", "-p", 0, "--execute").ok()
        equal(cli(node, "consume", "t", "-g", "new", "-e").lines(), ["8", "9"], "made by seek")


def test_members_are_in_the_way():
    with server("cli_groups_busy") as node:
        cli(node, "topic", "create", "t").ok()
        cli(node, "produce", "t", text_in="1\n").ok()
        with Member(node, "t", "-g", "g", "--instance", "i") as member:
            wait_for(lambda: member.lines)
            who = f"the group has 1 member: {describe(node, 'g')['members'][0]['member_id']} (coreflume-cli on "
            cli(node, "group", "seek", "g", "-o", "start", "--execute").fails(1, who)
            cli(node, "group", "delete", "g").fails(1, who)
            dry = cli(node, "group", "seek", "g", "-o", "start")
            expect(dry.code == 0 and "nothing was changed" in dry.out and who in dry.err, dry.out + dry.err)
            cli(node, "consume", "t", "-g", "g", "--instance", "i", seconds=20).fails(1, "instance id 'i' is another member's")
            members = describe(node, "g")["members"]
            equal([(m["instance_id"], m["assignments"]) for m in members], [("i", [{"topic": "t", "partitions": [0]}])], "member")
        wait_for(lambda: member.process.returncode is not None)


def test_a_member_that_comes_while_seek_is_at_work():
    """Between the look at the group and the change: refused all the same, and it is said once who is in the way."""
    if ORACLE:
        return
    relay = Relay(api_key=8)
    with Node(fresh_dir("cli_groups_race") / "data", "--advertise", relay.address) as node, contextlib.ExitStack() as members:
        relay.node = node
        cli(node, "topic", "create", "t", "-p", PARTITIONS).ok()
        cli(node, "group", "seek", "g", "-t", "t", "-o", "end", "--execute").ok()

        def join():
            members.enter_context(Member(node, "t", "-g", "g"))
            wait_for(lambda: shares(node, "g") == [PARTITIONS])

        relay.before = join
        done = cli(node, "group", "seek", "g", "-t", "t", "-o", "start", "--execute")
        done.fails(1, f"the group has 1 member: {describe(node, 'g')['members'][0]['member_id']} (coreflume-cli on ")
        expect(done.err.endswith(": nothing was changed, stop them first\n"), done.err)


def test_unknown_and_empty():
    with server("cli_groups_unknown") as node:
        equal(cli(node, "group", "list", "--json").json(), {"groups": []}, "none yet")
        expect("no groups" in cli(node, "group", "list").ok().out, "in words")
        cli(node, "group", "describe", "g").fails(1, "group 'g' does not exist: see 'coreflume group list'")
        cli(node, "group", "delete", "g").fails(1, "group 'g' does not exist")
        cli(node, "group", "seek", "g", "-o", "end").fails(1, "group 'g' does not exist")
        cli(node, "consume", "nope", "-g", "g").fails(1, "topic 'nope' does not exist")
        cli(node, "topic", "create", "t").ok()
        cli(node, "consume", "t", "-g", "g", "-p", "0").fails(2, "--partition and --group exclude each other")
        cli(node, "consume", "t", "-g", "g", "-o", "5").fails(2, "coreflume group seek")
        cli(node, "consume", "t", "u").fails(2, "-g GROUP")
        equal(cli(node, "consume", "t", "-g", "billing", "-e").lines(), [], "nothing to read")
        cli(node, "group", "describe", "biling").fails(1, "did you mean 'billing'?")
        equal(cli(node, "group", "delete", "billing", "--json").json(),
              {"groups": [{"group": "billing", "deleted": True, "error": None}]}, "delete")


def test_what_clients_call_themselves_is_only_text():
    """A name that clears the terminal, sets its title and begins a row of its own."""
    evil = "evil\x1b]0;owned\x07\x1b[2J\nPAYMENTS  classic  Stable  -"
    with server("cli_groups_text") as node, Connection(node.kafka) as c:
        equal(c.create_topic("t", 1), 0, "create")
        ask(c, "find_coordinator", 4, {"key_type": 0, "coordinator_keys": [evil]})
        joined = ask(c, "consumer_group_heartbeat", 1, {
            "group_id": evil, "member_id": "m\x1b[2J\nx", "member_epoch": 0, "rebalance_timeout_ms": 30000,
            "subscribed_topic_names": ["t"], "topic_partitions": []})
        equal(joined["error_code"], 0, "join")
        shown = "evil?]0;owned??[2J?PAYMENTS  classic  Stable  -"
        done = [cli(node, "group", "list"), cli(node, "group", "describe", evil), cli(node, "group", "delete", evil),
                cli(node, "group", "seek", evil, "-o", "start", "-t", "t", "--execute")]
        for one in done:
            expect(all(c == "\n" or c.isprintable() for c in one.out + one.err), f"{one.out!r} {one.err!r}")
            expect(shown in one.out + one.err, f"{one.out!r} {one.err!r}")
        for one in done[2:]:
            expect("m?[2J?x" in one.err and one.err.count("\n") == 1, repr(one.err))
        equal([g["group"] for g in cli(node, "group", "list", "--json").json()["groups"]], [evil], "for programs all of it")
        left = ask(c, "consumer_group_heartbeat", 1, {"group_id": evil, "member_id": "m\x1b[2J\nx", "member_epoch": -1})
        equal(left["error_code"], 0, "leave")
        equal(cli(node, "group", "delete", evil).ok().out, f"deleted {shown}\n", "deleted")


def test_the_node_dies_under_members():
    """kill -9 while two read: both go on by themselves, and all is read."""
    if ORACLE:
        return
    with server("cli_groups_restart") as node:
        cli(node, "topic", "create", "t", "-p", PARTITIONS).ok()
        with Member(node, "t", "-g", "g") as one, Member(node, "t", "-g", "g") as two:
            wait_for(lambda: shares(node, "g") == [2, 2])
            wanted = set()
            for turn in range(3):
                lines = [f"{turn}-{i}" for i in range(100)]
                wanted |= set(lines)
                produce(node, "t", lines)
                node.restart(kill=True)
                wait_for(lambda: set(one.lines) | set(two.lines) == wanted)
            equal(sorted(code for code, _ in (one.end(), two.end())), [0, 0], "ends")
        equal(sum(o["committed"] for o in describe(node, "g")["offsets"]), 300, "committed")


run_all(globals())

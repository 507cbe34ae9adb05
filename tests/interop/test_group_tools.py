#!/usr/bin/env python3
"""Kafka's own command line tools for groups and offsets. ORACLE=1: the same expectations against Apache Kafka."""
import contextlib
import json
import re
import subprocess
import time

from support.check import equal, expect
from support.members import Classic, Consumer, Members, commit, committed, coordinated, until
from support.kafka_tools import JAVA, ORACLE, Tools, run_or_skip, server
from support.node import ROOT, fresh_dir
from support.wire import batch

GROUPS, KINDS, CONFIGS, TOPICS = "consumer.group.ConsumerGroupCommand", "GroupsCommand", "kafka.admin.ConfigCommand", "TopicCommand"
DELAY = "group.initial.rebalance.delay.ms=0"
RECORDS = 10


class Place:
    """A server with topics t (3 partitions of 10 records) and u (1, empty), its tools, and groups in every state."""
    jvm = None  # Of all tests; it ends with the script.

    def __init__(self, name, stack, *settings):
        self.node = stack.enter_context(server(name, DELAY, *settings))
        self.tool = Place.jvm = Place.jvm or Tools(None)
        self.tool.brokers = self.node.kafka
        self.members = stack.enter_context(Members(self.node.kafka))
        self.connection = self.members.connect()
        equal([self.connection.create_topic(topic, count) for topic, count in (("t", 3), ("u", 1))], [0, 0], "topics")
        for partition in range(3):
            until(lambda: self.connection.produce("t", partition, batch([b"v"] * RECORDS))[0] == 0)
        coordinated(self.connection)
        equal(commit(self.connection, "simple", [("t", 0, 4), ("t", 1, 10), ("u", 0, 0)]), [0, 0, 0], "commits")
        self.classic = Classic(self.members, "classic", ["t"]).alone([("t", [0, 1, 2])])
        equal(self.classic.commit(("t", 0, 3), ("t", 2, 10)), [0, 0], "a member commits")
        emptied = Classic(self.members, "emptied", ["t"]).alone([("t", [0, 1, 2])])
        equal((emptied.commit(("t", 0, 3)), emptied.leave()), ([0], 0), "a member commits and leaves")
        Classic(self.members, "connect", ["t"], kind="connect").alone([("t", [0, 1, 2])])
        self.new = Consumer(self.members, "new", ["t"], instance="i").settle(3)
        equal(self.new.commit(("t", 0, 3)), [0], "a member of the new protocol commits")

    def __call__(self, *words, main=GROUPS, **more):
        return self.tool(main, *words, **more)

    def rows(self, *words, main=GROUPS):
        """What a tool prints as a table, without its header: sets of lists of words."""
        answer = self.tool(main, *words)
        expect(answer.exit == 0, f"{words}: exit {answer.exit}: {answer.out} {answer.err[-300:]}")
        lines = [tuple(line.split()) for line in answer.out.splitlines() if line.strip()]
        return sorted(line for line in lines if line[0] not in ("GROUP", "TOPIC", "Request", "Topic"))

    def says(self, text, *words, main=GROUPS):
        answer = self.tool(main, *words)
        expect(text in answer.out + answer.err, f"{words}: no {text!r} in {answer.out[:700]!r} {answer.err[:700]!r}")


@contextlib.contextmanager
def place(name, *settings):
    with contextlib.ExitStack() as stack:
        yield Place(name, stack, *settings)


def test_list():
    with place("groups_list") as p:
        equal(p.rows("--list"), [("classic",), ("emptied",), ("new",), ("simple",)], "--list")
        equal(p.rows("--list", "--state"), [("classic", "Stable"), ("emptied", "Empty"), ("new", "Stable"), ("simple", "Empty")], "--state")
        equal(p.rows("--list", "--state", "empty"), [("emptied", "Empty"), ("simple", "Empty")], "--state empty")
        equal(p.rows("--list", "--type"), [("classic", "Classic"), ("emptied", "Classic"), ("new", "Consumer"), ("simple", "Classic")], "--type")
        equal(p.rows("--list", "--type", "consumer"), [("new", "Consumer")], "--type consumer")
        equal(p.rows("--list", "--type", "classic", "--state", "stable"), [("classic", "Classic", "Stable")], "both")
        kinds = [("classic", "Classic", "consumer"), ("connect", "Classic", "connect"), ("emptied", "Classic", "consumer"),
                 ("new", "Consumer", "consumer"), ("simple", "Classic")]
        equal(p.rows("--list", main=KINDS), kinds, "all groups")
        equal(p.rows("--list", "--consumer", main=KINDS), [kind for kind in kinds if "connect" not in kind], "consumers' groups")
        equal(p.rows("--list", "--group-type", "consumer", main=KINDS), [kinds[3]], "groups of one type")
        equal(p.rows("--list", "--protocol", "connect", main=KINDS), [kinds[1]], "groups of one protocol")
        equal(p.rows("--list", "--share", main=KINDS), [], "share groups")


def test_describe():
    with place("groups_describe") as p:
        at, who = "/127.0.0.1", p.classic.id
        none = ("-", "-", "-")
        equal(p.rows("--describe", "--group", "simple"),
              [("simple", "t", "0", "4", "10", "6", *none), ("simple", "t", "1", "10", "10", "0", *none), ("simple", "u", "0", "0", "0", "0", *none)], "simple")
        p.says("Consumer group 'simple' has no active members.", "--describe", "--group", "simple", "--offsets")
        equal(p.rows("--describe", "--group", "classic"),
              [("classic", "t", "0", "3", "10", "7", who, at, "raw"), ("classic", "t", "1", "-", "10", "-", who, at, "raw"),
               ("classic", "t", "2", "10", "10", "0", who, at, "raw")], "classic")
        equal(p.rows("--describe", "--group", "classic", "--members", "--verbose"),
              [("classic", who, at, "raw", "3", "-", "t:0,1,2", "-", "-")], "its members")
        state = p.rows("--describe", "--group", "classic", "--state", "--verbose")
        equal(state, [("classic", p.node.kafka, "(1)", "range", "Stable", "-", "-", "1")], "its state")
        equal(p.rows("--describe", "--group", "emptied", "--state"), [("emptied", p.node.kafka, "(1)", "-", "Empty", "0")], "no members")
        member = ("member", "of", "new")
        equal(p.rows("--describe", "--group", "new"),
              [("new", "t", "0", "3", "10", "7", *member, at, "raw"), ("new", "t", "1", "-", "10", "-", *member, at, "raw"),
               ("new", "t", "2", "-", "10", "-", *member, at, "raw")], "of the new protocol")
        epoch = str(p.new.epoch)
        equal(p.rows("--describe", "--group", "new", "--members", "--verbose"),
              [("new", *member, "i", at, "raw", "3", epoch, "t:0,1,2", epoch, "t:0,1,2")], "its members")
        equal(p.rows("--describe", "--group", "new", "--state", "--verbose"),
              [("new", p.node.kafka, "(1)", "uniform", "Stable", epoch, epoch, "1")], "its state")
        equal([row[0] for row in p.rows("--describe", "--all-groups", "--state")], ["classic", "emptied", "new", "simple"], "all")
        equal(len(p.rows("--describe", "--all-groups", "--offsets")), 3 + 1 + 3 + 3, "offsets of all")
        equal(len(p.rows("--describe", "--all-groups", "--members")), 2, "members of all")
        p.says("GroupIdNotFoundException: Group absent not found.", "--describe", "--group", "absent")
        p.says("is not a consumer group (connect)", "--describe", "--group", "connect")


def test_reset_offsets():
    with place("groups_reset") as p:
        def reset(group, *words, scope=("--topic", "t")):
            return [row[1:] for row in p.rows("--reset-offsets", "--group", group, *words, *scope)]

        def now(group="simple"):
            return {f"{topic}{partition}": offset for (topic, partition), (offset, *_) in sorted(committed(p.connection, group).items())}

        def at(a, b, c):
            return [("t", "0", str(a)), ("t", "1", str(b)), ("t", "2", str(c))]
        before = now()
        equal(reset("simple", "--to-earliest", "--dry-run"), at(0, 0, 0), "dry run")
        equal(now(), before, "a dry run changes nothing")
        equal(reset("simple", "--to-latest", "--execute", scope=["--all-topics"]), [("t", "0", "10"), ("t", "1", "10"), ("u", "0", "0")], "latest")
        equal(now(), {"t0": 10, "t1": 10, "u0": 0}, "the ends")
        equal(reset("simple", "--to-earliest", "--execute"), at(0, 0, 0), "earliest")
        equal(reset("simple", "--to-offset", 7, "--execute"), at(7, 7, 7), "to an offset")
        equal(reset("simple", "--to-offset", 99, "--execute", scope=["--topic", "t:1"]), [("t", "1", "10")], "beyond the end")
        equal(reset("simple", "--shift-by", -3, "--execute"), at(4, 7, 4), "shifted")
        equal(reset("simple", "--shift-by", -9, "--execute", scope=["--topic", "t:0,2"]), [("t", "0", "0"), ("t", "2", "0")], "before the start")
        equal(now(), {"t0": 0, "t1": 7, "t2": 0, "u0": 0}, "in between")
        equal(reset("simple", "--to-current", "--execute"), at(0, 7, 0), "as it is")
        equal(reset("simple", "--to-datetime", "2050-01-01T00:00:00.000", "--execute")[-3:], at(10, 10, 10), "a time to come")
        equal(reset("simple", "--to-datetime", "2020-01-01T00:00:00.000", "--execute"), at(0, 0, 0), "a time gone by")
        equal(reset("simple", "--by-duration", "PT1H", "--execute"), at(0, 0, 0), "an hour ago")
        exported = p("--reset-offsets", "--group", "simple", "--to-latest", "--topic", "t", "--export", "--dry-run").out
        equal(sorted(exported.split()), ["t,0,10", "t,1,10", "t,2,10"], "exported")
        plan = fresh_dir("groups_reset_plan") / "plan.csv"
        plan.write_text("t,0,2\nt,1,99\nu,0,0\n")
        equal(reset("simple", "--from-file", plan, "--execute", scope=[]), [("t", "0", "2"), ("t", "1", "10"), ("u", "0", "0")], "from a file")
        equal(now(), {"t0": 2, "t1": 10, "t2": 0, "u0": 0}, "as the file says")
        equal(reset("emptied", "--to-latest", "--execute"), at(10, 10, 10), "a group without members")
        equal(reset("made", "--to-latest", "--execute"), at(10, 10, 10), "a group that was not there")
        equal(now("made"), {"t0": 10, "t1": 10, "t2": 10}, "now it is")
        for group in ("classic", "new"):
            kept = now(group)
            p.says(f"if the group '{group}' is inactive, but the current state is Stable.", "--reset-offsets", "--group", group,
                   "--to-earliest", "--topic", "t", "--execute")
            equal(now(group), kept, "an active group keeps its offsets")
        p.says("UnknownTopicOrPartitionException", "--reset-offsets", "--group", "simple", "--to-latest", "--topic", "absent", "--execute")
        p.says("no current committed offset", "--reset-offsets", "--group", "classic2", "--shift-by", 1, "--topic", "t", "--execute")


def test_delete():
    with place("groups_delete") as p:
        def forget(group, *topics):
            words = [word for topic in topics for word in ("--topic", topic)]
            return p.rows("--delete-offsets", "--group", group, *words)
        equal(forget("simple", "t:0"), [("t", "0", "Successful")], "one partition")
        equal(sorted(committed(p.connection, "simple")), [("t", 1), ("u", 0)], "the others are there")
        equal(forget("simple", "t", "u"), [("t", "0", "Successful"), ("t", "1", "Successful"), ("t", "2", "Successful"), ("u", "0", "Successful")], "all")
        equal(committed(p.connection, "simple"), {}, "none is there")
        p.says("UnknownTopicOrPartitionException", "--delete-offsets", "--group", "simple", "--topic", "absent")
        for group in ("classic", "new"):
            p.says("GroupSubscribedToTopicException", "--delete-offsets", "--group", group, "--topic", "t")
        equal(forget("classic", "u"), [("u", "0", "Successful")], "a topic nobody reads")
        p.says("GroupIdNotFoundException", "--delete-offsets", "--group", "absent", "--topic", "t")
        p.says("Deletion of requested consumer groups ('emptied') was successful.", "--delete", "--group", "emptied")
        p.says("Group 'absent' could not be deleted due to: org.apache.kafka.common.errors.GroupIdNotFoundException", "--delete", "--group", "absent")
        for group in ("classic", "new"):
            p.says(f"Group '{group}' could not be deleted due to: org.apache.kafka.common.errors.GroupNotEmptyException", "--delete", "--group", group)
        equal(committed(p.connection, "classic"), {("t", 0): (3, -1, ""), ("t", 2): (10, -1, "")}, "an active group keeps its offsets")
        equal(p.new.leave(), 0, "leaves")
        equal(p.classic.leave(), 0, "leaves")
        p.says("Deletion of requested consumer groups ('new') was successful.", "--delete", "--group", "new")
        p.says("Deletion of requested consumer groups ('classic'", "--delete", "--group", "classic")
        equal(committed(p.connection, "new"), {}, "a deleted group has no offsets")
        equal([row for row in p.rows("--list") if row != ("simple",)], [], "gone")


def test_configs_of_groups():
    with place("groups_configs", "coreflume.group.heartbeat.hold=false") as p:  # Else the interval told is shorter.
        group = ("--entity-type", "groups", "--entity-name", "new")

        def described(*words):
            time.sleep(0.5)  # Kafka's broker hears of it a little later.
            return p.tool(CONFIGS, "--describe", *words).out
        p.says("Completed updating config for group new.", "--alter", *group, "--add-config",
               "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000", main=CONFIGS)
        text = described(*group)
        for line in ("consumer.session.timeout.ms=50000", "consumer.heartbeat.interval.ms=6000"):
            expect(f"  {line} sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{line}," in text, text)
        equal(p.new.heartbeat()["heartbeat_interval_ms"], 6000, "members are told")
        p.says("Completed updating config for group later.", "--alter", "--entity-type", "groups", "--entity-name", "later", "--add-config",
               "consumer.session.timeout.ms=46000", main=CONFIGS)
        text = described("--entity-type", "groups")
        expect("Dynamic configs for group new are:" in text and "Dynamic configs for group later are:" in text, f"all groups: {text}")
        p.says("Completed updating config for group new.", "--alter", *group, "--delete-config", "consumer.heartbeat.interval.ms", main=CONFIGS)
        expect("heartbeat.interval" not in described(*group), "deleted")
        until(lambda: p.new.heartbeat()["heartbeat_interval_ms"] == 5000)


def test_records_of_the_offsets_topic():
    """Kafka's own formatters read what was written, and its tools see the topic for what it is."""
    with place("groups_records") as p:
        equal(p.connection.produce("__consumer_offsets", 0, batch([b"x"]))[0] != 0, True, "nobody else writes it")
        ends = p.tool("GetOffsetShell", "--topic", "__consumer_offsets").out.split()
        equal(len(ends), 50, "partitions")
        topic = p.tool(TOPICS, "--describe", "--topic", "__consumer_offsets").out
        expect("PartitionCount: 50\tReplicationFactor: 1" in topic and "cleanup.policy=compact" in topic, topic[:300])
        expect("__consumer_offsets" in p.tool(TOPICS, "--list").out, "listed")
        equal(p.tool(TOPICS, "--list", "--exclude-internal").out.split(), ["t", "u"], "it is internal")
        equal(p.classic.leave(), 0, "leaves")
        p("--delete", "--group", "emptied")
        found = {}
        for formatter in ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"):
            read = p.tool("consumer.ConsoleConsumer", "--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", 3000,
                          "--formatter", f"org.apache.kafka.tools.consumer.{formatter}", "--command-property", "group.protocol=consumer")
            for text in re.sub(r"\}\s*\{\"key\"", '}\n{"key"', read.out).splitlines():
                record = json.loads(text)
                found.setdefault((record["key"]["type"], *record["key"]["data"].values()), []).append(record["value"])
        offset = found[1, "simple", "t", 0][-1]["data"]
        equal((offset["offset"], offset["leaderEpoch"], offset["metadata"]), (4, -1, ""), "a commit")
        expect(abs(offset["commitTimestamp"] / 1000 - time.time()) < 120, f"its time: {offset}")
        equal(found[1, "emptied", "t", 0][-1], None, "a deleted offset")
        group = found[2, "classic"]
        equal([state["data"]["generation"] for state in group if state["data"]["members"]], [1], "a generation")
        data = next(state["data"] for state in group if state["data"]["members"])
        equal((data["protocolType"], data["protocol"], data["leader"]), ("consumer", "range", p.classic.id), "of a leader")
        member = data["members"][0]
        equal((member["memberId"], member["clientId"], member["clientHost"], member["sessionTimeout"], member["rebalanceTimeout"]),
              (p.classic.id, "raw", "/127.0.0.1", 600000, 60000), "a member")
        equal((group[-1]["data"]["members"], group[-1]["data"]["leader"]), ([], None), "emptied")
        equal(found[2, "emptied"][-1], None, "a deleted group")


def test_console_consumer_in_a_group():
    """Both protocols: one reads all, the next goes on where it ended; a reset sends the third back."""
    with place("groups_console") as p:
        for records, protocol in ((30, "classic"), (33, "consumer")):
            def consume(wanted, *words):
                read = p.tool("consumer.ConsoleConsumer", "--topic", "t", "--group", f"console-{protocol}", "--max-messages", wanted,
                              "--timeout-ms", 20000, "--command-property", f"group.protocol={protocol}", *words)
                equal(len(read.out.split()), wanted, f"{protocol}: {read.err[-300:]}")
            consume(records, "--from-beginning")
            equal([row[5] for row in p.rows("--describe", "--group", f"console-{protocol}")], ["0", "0", "0"], "lag")
            for partition in range(3):
                equal(p.connection.produce("t", partition, batch([b"w"]))[0], 0, "one more")
            consume(3)
            p.rows("--reset-offsets", "--group", f"console-{protocol}", "--shift-by", -1, "--topic", "t", "--execute")
            consume(3)
            p.rows("--reset-offsets", "--group", f"console-{protocol}", "--to-earliest", "--topic", "t", "--execute")
            consume(records + 3)


def test_console_consumer_that_runs_owns_its_partitions():
    """A live one of each protocol: described with its partitions; killed, it is gone after its session."""
    with place("groups_live") as p:
        live = {protocol: subprocess.Popen(
            [*JAVA, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", p.node.kafka, "--topic", "t", "--group", f"live-{protocol}",
             "--command-property", f"group.protocol={protocol}", *(("--command-property", "session.timeout.ms=6000") if protocol == "classic" else ())],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for protocol in ("classic", "consumer")}
        try:
            for protocol in live:
                until(lambda: [row[-1] for row in p.rows("--describe", "--group", f"live-{protocol}", "--members")] == ["3"]
                      if (f"live-{protocol}",) in p.rows("--list") else False)
                p.says("could not be deleted due to", "--delete", "--group", f"live-{protocol}")
            live["classic"].kill()
            until(lambda: p.rows("--describe", "--group", "live-classic", "--state")[0][-2:] == ("Empty", "0"))
            live["consumer"].terminate()
            live["consumer"].wait()
            until(lambda: p.rows("--describe", "--group", "live-consumer", "--state")[0][-2:] == ("Empty", "0"), 10)
        finally:
            for process in live.values():
                process.kill()
                process.wait()


if __name__ == "__main__":
    run_or_skip("Kafka's tools for groups", globals())

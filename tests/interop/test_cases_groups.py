#!/usr/bin/env python3
"""Fault reports about groups and their offsets (tests/cases.md). ORACLE=1: the same against Apache Kafka."""
import os
import pathlib
import time

from support.check import equal, expect, run_all
from support.definitions import ask
from support.members import Classic, Consumer, Members, assignment, commit, committed, coordinated, state, until
from support.kafka_tools import ORACLE, server
from support.node import binary
from support.shared import SharedNode

DELAY = "group.initial.rebalance.delay.ms=0"
UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCING, FENCED, NOT_FOUND, SUBSCRIBED = 25, 22, 27, 82, 69, 86


def start(members):
    connection = members.connect()
    coordinated(connection)
    return connection, shared.new_name("group")


def pair(members, group, topic, **options):
    """Two members, the first leads, at generation 2."""
    first = Classic(members, group, [topic], **options).alone([(topic, [0, 1])])
    second = Classic(members, group, [topic], **options)
    waiting = second.start_join()
    until(lambda: first.heartbeat() == REBALANCING)
    equal(first.join()["error_code"], 0, "the first joins again")
    equal(second.end_join(waiting)["error_code"], 0, "the second joins")
    parts = {first.id: [(topic, [0])], second.id: [(topic, [1])]}
    equal((first.sync(parts)["error_code"], second.sync()["error_code"]), (0, 0), "both sync")
    return first, second


def test_c067_members_that_vanish_in_a_rebalance():
    """50 groups of five; a sixth comes, three go without a word: stable again with the three that live."""
    with server("cases_vanish", "group.initial.rebalance.delay.ms=1000") as node, Members(node.kafka) as members:
        connection = members.connect()
        equal(connection.create_topic("t", 6), 0, "create")
        coordinated(connection)

        def member(i):
            return Classic(members, f"g{i}", ["t"], session_ms=6000, rebalance_ms=10000)
        groups = [[member(i) for _ in range(5)] for i in range(50)]
        waiting = [[one.start_join() for one in group] for group in groups]
        for group, sent in zip(groups, waiting):
            answers = [one.end_join(join) for one, join in zip(group, sent)]
            equal([answer["error_code"] for answer in answers], [0] * 5, "all join")
            leader = next(one for one in group if one.id == answers[0]["leader"])
            equal(leader.sync({one.id: [("t", [i])] for i, one in enumerate(group)})["error_code"], 0, "the leader syncs")
        began, waiting = time.monotonic(), []
        for i, group in enumerate(groups):
            for dead in group[:3]:
                dead.connection.socket.close()
            group[:] = [member(i), *group[3:]]
            waiting.append([group[0].start_join()])
        for group, sent in zip(groups, waiting):
            until(lambda: [one.heartbeat() for one in group[1:]] == [REBALANCING] * 2)
            sent += [one.start_join() for one in group[1:]]
        for group, sent in zip(groups, waiting):
            answers = [one.end_join(join) for one, join in zip(group, sent)]
            equal([answer["error_code"] for answer in answers], [0, 0, 0], "those that live join")
            leader = next(one for one in group if one.id == answers[0]["leader"])
            equal(leader.sync({one.id: [("t", [i])] for i, one in enumerate(group)})["error_code"], 0, "the leader syncs")
            equal([one.sync()["assignment"] for one in group], [assignment([("t", [i])]) for i in range(3)], "each has its part")
            described = ask(connection, "describe_groups", 5, {"groups": [leader.group]})["groups"][0]
            equal((described["group_state"], sorted(one["member_id"] for one in described["members"])),
                  ("Stable", sorted(one.id for one in group)), "the dead are gone")
        expect(time.monotonic() - began < 13, f"{time.monotonic() - began:.1f} s")


def test_c069_the_newest_owner_of_an_instance_id_wins():
    def old_is_fenced(old):
        equal((old.heartbeat(), old.commit((topic, 0, 1)), old.sync()["error_code"], old.join()["error_code"]),
              (FENCED, [FENCED], FENCED, FENCED), "the old owner")

    with Members(shared.node.kafka) as members:
        connection, group = start(members)
        topic = shared.new_topic(connection, 2)
        old = Classic(members, group, [topic], instance="ia").alone([(topic, [0, 1])])
        new = Classic(members, group, [topic], instance="ia")
        answer = new.join()
        equal((answer["generation_id"], answer["skip_assignment"], answer["leader"]), (old.generation, 1, new.id), "no rebalance")
        equal(new.sync()["assignment"], assignment([(topic, [0, 1])]), "and what the old one had")
        old_is_fenced(old)
        equal((new.heartbeat(), new.commit((topic, 0, 1))), (0, [0]), "the new owner")
        # While a rebalance is prepared, and then while the leader owes its assignment.
        other = Classic(members, group, [topic])
        waiting = other.start_join()
        until(lambda: new.heartbeat() == REBALANCING)
        newer = Classic(members, group, [topic], instance="ia")
        answer = newer.join()
        equal((answer["error_code"], other.end_join(waiting)["error_code"]), (0, 0), "both join")
        equal(state(connection, group), "CompletingRebalance", "state")
        old_is_fenced(new)
        newest = Classic(members, group, [topic], instance="ia")
        waiting = newest.start_join()
        until(lambda: other.heartbeat() == REBALANCING)
        equal((other.join()["error_code"], newest.end_join(waiting)["error_code"]), (0, 0), "both join again")
        old_is_fenced(newer)
        equal((newest.heartbeat(), other.heartbeat()), (0, 0), "those that are left")


def test_c071_commits_in_a_rebalance():
    with Members(shared.node.kafka) as members:
        connection, group = start(members)
        topic = shared.new_topic(connection, 2)
        first, second = pair(members, group, topic)
        third = Classic(members, group, [topic])
        waiting = third.start_join()
        until(lambda: state(connection, group) == "PreparingRebalance")
        equal(first.commit((topic, 0, 7)), [0], "while it is prepared")
        sent = second.start_join()
        equal((first.join()["error_code"], second.end_join(sent)["error_code"], third.end_join(waiting)["error_code"]), (0, 0, 0), "all join")
        equal(state(connection, group), "CompletingRebalance", "state")
        equal(first.commit((topic, 0, 8)), [REBALANCING], "before the assignment")
        equal(commit(connection, group, [(topic, 0, 9)], 8, first.generation - 1, first.id), [ILLEGAL_GENERATION], "of the last generation")
        equal(commit(connection, group, [(topic, 0, 9)], 8, first.generation, "nobody"), [UNKNOWN_MEMBER], "of a stranger")
        equal(committed(connection, group), {(topic, 0): (7, -1, "")}, "what is committed")


def test_c073_commits_without_membership():
    with Members(shared.node.kafka) as members:
        connection, group = start(members)
        topic = shared.new_topic(connection, 2)
        equal(commit(connection, group, [(topic, 0, 5)]), [0], "a group that is not there")
        equal(committed(connection, group), {(topic, 0): (5, -1, "")}, "committed")
        member = Classic(members, group, [topic]).alone([(topic, [0, 1])])
        equal(commit(connection, group, [(topic, 0, 6)]), [UNKNOWN_MEMBER], "a group with members")
        equal(member.leave(), 0, "leaves")
        equal(commit(connection, group, [(topic, 0, 7)]), [0], "a group without members")
        equal(committed(connection, group), {(topic, 0): (7, -1, "")}, "committed")
        other = shared.new_name("group")
        new = Consumer(members, other, [topic]).settle(2)
        equal(commit(connection, other, [(topic, 0, 6)]), [UNKNOWN_MEMBER], "a group of the new protocol")
        equal((new.leave(), commit(connection, other, [(topic, 0, 7)])), (0, [0]), "without members")


def test_c075_each_group_is_listed_once():
    with Members(shared.node.kafka) as members:
        connection, base = start(members)
        topic = shared.new_topic(connection)
        names = sorted(f"{base}-{i}" for i in range(50))
        for name in names:
            equal(commit(connection, name, [(topic, 0, 1)]), [0], "commit")
        for version in range(0, 6):
            groups = ask(connection, "list_groups", version, {})["groups"]
            equal(sorted(group["group_id"] for group in groups if group["group_id"].startswith(base)), names, f"v{version}")
        absent = ask(connection, "describe_groups", 5, {"groups": [f"{base}-nosuch"]})["groups"][0]
        equal((absent["error_code"], absent["group_state"]), (0, "Dead"), "v5")
        absent = ask(connection, "describe_groups", 6, {"groups": [f"{base}-nosuch"]})["groups"][0]
        equal((absent["error_code"], absent["group_state"]), (NOT_FOUND, "Dead"), "v6")


def test_c077_leader_epochs_of_committed_offsets():
    with Members(shared.node.kafka) as members:
        connection, group = start(members)
        topic = shared.new_topic(connection, 2)

        def fetched(version, topics, name=group):
            asked = topics and [{"name": name, "partition_indexes": indexes} for name, indexes in topics]
            answer = ask(connection, "offset_fetch", version, {
                "group_id": name, "topics": asked,
                "groups": [{"group_id": one, "topics": asked} for one in (name, f"{name}-other")]})
            answer = answer["groups"][0] if version >= 8 else answer
            equal(answer["error_code"], 0, "error")
            return [(p["committed_offset"], p["committed_leader_epoch"], p["metadata"], p["error_code"])
                    for topic in answer["topics"] for p in topic["partitions"]]
        for version in (6, 7, 8, 9):
            equal(commit(connection, group, [(topic, 0, 42, 3, "m")], version), [0], "commit")
            for fetch in range(5, 10):
                for topics in ([(topic, [0])], None):
                    equal(fetched(fetch, topics), [(42, 3, "m", 0)], f"v{fetch} {topics}")
                equal(fetched(fetch, [(topic, [1])]), [(-1, -1, "", 0)], "never committed")
                equal(fetched(fetch, [(topic, [0])], f"{group}-none"), [(-1, -1, "", 0)], "a group without commits")
                equal(fetched(fetch, None, f"{group}-none"), [], "a group without commits")


def test_c079_offsets_expire_and_no_sooner():
    """What says how long it lives (OffsetCommit 2 to 4) goes then, and its group with it; a member's offsets stay."""
    with server("cases_expiry", DELAY, "offsets.retention.check.interval.ms=200") as node, Members(node.kafka) as members:
        connection, group, topic = members.connect(), "g", "t"
        equal(connection.create_topic(topic, 2), 0, "create")
        coordinated(connection)
        active = Classic(members, f"{group}-active", [topic]).alone([(topic, [0, 1])])
        for version in (2, 3, 4):
            equal(commit(connection, f"{group}-{version}", [(topic, 0, 1)], version, retention_time_ms=1500), [0], "commit")
            equal(commit(connection, f"{group}-{version}-kept", [(topic, 0, 1)], version, retention_time_ms=60000), [0], "commit")
        equal(commit(connection, f"{group}-active", [(topic, 0, 1)], 2, active.generation, active.id, retention_time_ms=1500), [0], "commit")
        time.sleep(0.5)
        equal([len(committed(connection, f"{group}-{version}")) for version in (2, 3, 4)], [1, 1, 1], "too soon")
        until(lambda: not any(committed(connection, f"{group}-{version}") for version in (2, 3, 4)))
        listed = {one["group_id"] for one in ask(connection, "list_groups", 5, {})["groups"]}
        equal([f"{group}-{version}" in listed for version in (2, 3, 4)], [False] * 3, "the groups are gone")
        equal([committed(connection, f"{group}-{version}-kept") != {} for version in (2, 3, 4)], [True] * 3, "those that live longer")
        equal(committed(connection, f"{group}-active"), {(topic, 0): (1, -1, "")}, "of a topic that is read")


def test_c079_what_nobody_reads_expires_by_the_retention():
    """A node that is started again 30 s, then 90 s and 3 min later by its wall clock; offsets live for a minute."""
    if ORACLE: # Its clock is not ours to move.
        return
    module = pathlib.Path(binary()).resolve().parent / "tests/interop/wall_ahead.so"
    groups = ("standalone", "emptied", "emptied-new", "active", "active-new")

    def start_later(seconds):
        node.popen = {"env": dict(os.environ, LD_PRELOAD=str(module), WALL_AHEAD_S=str(seconds))}
        node.restart()

    def left(connection):
        coordinated(connection)
        listed = {one["group_id"] for one in ask(connection, "list_groups", 5, {})["groups"]}
        return [name for name in groups if committed(connection, name) or name in listed]

    with server("cases_retention", DELAY, "offsets.retention.minutes=1", "offsets.retention.check.interval.ms=200") as node:
        with Members(node.kafka) as members:
            connection, topic = members.connect(), "t"
            equal(connection.create_topic(topic, 2), 0, "create")
            coordinated(connection)
            equal(commit(connection, "standalone", [(topic, 0, 1)]), [0], "without membership")
            for name, is_left in (("emptied", True), ("active", False)):
                member = Classic(members, name, [topic]).alone([(topic, [0, 1])])
                new = Consumer(members, f"{name}-new", [topic]).settle(2)
                equal((member.commit((topic, 0, 1)), new.commit((topic, 0, 1))), ([0], [0]), "commit")
                if is_left:
                    equal((member.leave(), new.leave()), (0, 0), "leave")
        for seconds, wanted in ((30, groups), (90, groups[3:]), (180, groups[3:])):
            start_later(seconds)
            with Members(node.kafka) as members:
                connection = members.connect()
                until(lambda: left(connection) == list(wanted))
                time.sleep(0.5)
                equal(left(connection), list(wanted), f"{seconds} s later, and a few looks")
                for name in wanted[-2:]:
                    equal(committed(connection, name), {("t", 0): (1, -1, "")}, name)


def test_c081_what_was_committed_is_there_after_kill_9():
    names, partitions = [f"g{i}" for i in range(100)], range(20)
    with server("cases_commits", DELAY) as node:
        with Members(node.kafka) as members:
            connection = members.connect()
            equal(connection.create_topic("t", len(partitions)), 0, "create")
            coordinated(connection)
        for turn in range(2 if ORACLE else 20):
            with Members(node.kafka) as members:
                connection = members.connect()
                coordinated(connection)
                for i, name in enumerate(names):
                    wanted = [("t", p, 1000 * turn + i + p, turn, f"turn {turn}") for p in partitions]
                    equal(set(commit(connection, name, wanted)), {0}, "commits")
            node.restart(kill=True)
            with Members(node.kafka) as members:
                connection = members.connect()
                coordinated(connection)
                for i, name in enumerate(names):
                    until(lambda: ask(connection, "offset_fetch", 9, {"groups": [{"group_id": name, "topics": None}]})["groups"][0]["error_code"] == 0)
                    equal(committed(connection, name), {("t", p): (1000 * turn + i + p, turn, f"turn {turn}") for p in partitions}, name)


def test_c083_offsets_of_readers_without_membership_can_be_deleted():
    with Members(shared.node.kafka) as members:
        connection, group = start(members)
        topic, other = shared.new_topic(connection), shared.new_topic(connection)

        def forget(name, which):
            answer = ask(connection, "offset_delete", 0, {"group_id": name, "topics": [{"name": which, "partitions": [{"partition_index": 0}]}]})
            return answer["error_code"] or [p["error_code"] for t in answer["topics"] for p in t["partitions"]]
        equal(commit(connection, group, [(topic, 0, 1)]), [0], "commit")
        equal((forget(group, topic), committed(connection, group)), ([0], {}), "assigned by hand")
        member = Classic(members, group, [topic]).alone([(topic, [0])])
        equal(member.commit((topic, 0, 2), (other, 0, 3)), [0, 0], "commit")
        equal((forget(group, topic), forget(group, other)), ([SUBSCRIBED], [0]), "subscribed")
        equal(committed(connection, group), {(topic, 0): (2, -1, "")}, "what is left")
        equal(forget(f"{group}-nosuch", topic), NOT_FOUND, "no such group")


def test_heartbeats_with_requests_behind_them_are_not_refused():
    """What stands behind a heartbeat hurries it; while another member's change is under way it was refused for that."""
    with Members(shared.node.kafka) as members:
        connection, base = start(members)
        topic = shared.new_topic(connection, 2)
        for i in range(20):
            first = Consumer(members, f"{base}-{i}", [topic], member_id="first").settle(2)
            second = Consumer(members, f"{base}-{i}", [topic], member_id="second")
            equal([second.heartbeat()["error_code"], first.heartbeat()["error_code"]], [0, 0], "both are there")
            equal([second.leave(), first.heartbeat()["error_code"], first.heartbeat()["error_code"]], [0, 0, 0], "one leaves")


def test_what_is_told_goes_by_what_a_client_calls_itself():
    """librdkafka gives a heartbeat up, and its connection, after what it was told last: it is told more (decision 0021)."""
    if ORACLE:
        return
    with Members(shared.node.kafka) as members:
        connection, group = start(members)
        topic = shared.new_topic(connection, 1)
        for name, ms in (("apache-kafka-java", 500), ("kgo", 500), ("librdkafka", 1000), ("", 1000)):
            member = Consumer(members, f"{group}-{name}", [topic])
            if name:
                named = {"client_software_name": name, "client_software_version": "1"}
                equal(ask(member.connection, "api_versions", 3, named)["error_code"], 0, "it says who it is")
            equal(member.heartbeat()["heartbeat_interval_ms"], ms, name)


if __name__ == "__main__":
    shared = SharedNode("cases_groups", "--set", DELAY)
    run_all(globals())

#!/usr/bin/env python3
"""The checks of consumer groups: each is quiet about a good log, and speaks of one with its fault."""
from support.check import equal, expect, run_all
from support.group_checks import (Log, Seen, Window, check_commits_forward, check_delivered, check_not_thrown_out,
                                  check_received_by_owner, check_resumed, check_single_owner, check_undisturbed)
from support.group_wire import WireMember


def event(at, name, **fields):
    return {"at": at, "event": name, **fields}


def assigned(at, *partitions):
    return event(at, "assigned", partitions=list(partitions))


def revoked(at, *partitions, name="revoked"):
    return event(at, name, partitions=list(partitions))


def record(at, partition, offset):
    return event(at, "record", partition=partition, offset=offset)


def committed(at, **offsets):
    return event(at, "committed", offsets={name[1:]: offset for name, offset in offsets.items()})


def ended(name, *events, at=100):
    return Log(name, list(events) + [event(at, "closed")], ended_at=at, exit=0, was_asked=True)


# Partition 0 goes from a, which is killed, to b, which also has partition 1.
A = Log("a", [assigned(10, 0), record(11, 0, 0), record(12, 0, 1), committed(13, p0=1)], killed_at=20)
B = ended("b", assigned(9, 1), record(14, 1, 0), committed(15, p1=1), assigned(30, 0), record(31, 0, 1), committed(32, p0=2),
          revoked(40, 0, 1))
GOOD = [A, B]
FETCHED = [Seen(14, 15, {0: 1, 1: -1}), Seen(33, 34, {0: 2, 1: 1})]


def speaks(problems, *texts):
    for text in texts:
        expect(any(text in problem for problem in problems), f"no {text!r} in {problems}")
    expect(len(problems) >= len(texts) > 0, problems)


def test_a_good_run():
    equal(check_delivered({(0, 0), (0, 1), (1, 0)}, GOOD), [], "delivered")
    equal(check_received_by_owner(GOOD), [], "received by owner")
    equal(check_commits_forward(GOOD, FETCHED), [], "commits forward")
    equal(check_resumed(GOOD), [], "resumed")
    equal(check_single_owner(GOOD), [], "single owner")
    equal(check_not_thrown_out(GOOD), [], "thrown out")
    equal(check_undisturbed(GOOD, [Window("kill", 20, 35, ("b",)), Window("quiet", 21, 29, ())]), [], "undisturbed")


def test_a_record_is_never_delivered():
    speaks(check_delivered({(0, 0), (0, 2)}, GOOD), "partition 0 offset 2: never")
    speaks(check_delivered(set(), GOOD), "nothing was acknowledged")
    speaks(check_delivered({(7, offset) for offset in range(9)}, GOOD), "partition 7 offset 0: never", "and 6 more")


def test_a_record_of_a_partition_that_is_not_owned():
    speaks(check_received_by_owner([ended("c", assigned(1, 0), revoked(2, 0), record(3, 0, 5))]), "c received partition 0 offset 5")
    speaks(check_received_by_owner([ended("c", record(3, 0, 5))]), "without owning it")


def test_a_commit_goes_back():
    late = ended("c", committed(33, p0=1))
    speaks(check_commits_forward([*GOOD, late], []), "c committed 1 after 2")
    speaks(check_commits_forward([ended("c")], []), "no commit was acknowledged")


def test_a_fetched_position_goes_back():
    speaks(check_commits_forward(GOOD, [*FETCHED, Seen(35, 36, {0: 1, 1: 1})]), "partition 0: OffsetFetch says 1, 2 was")
    ahead = [Seen(1, 2, {0: 9}), Seen(3, 4, {0: 8})] # Seen, though never acknowledged.
    speaks(check_commits_forward(GOOD, ahead), "OffsetFetch says 8, 9 was")
    speaks(check_commits_forward(GOOD, [Seen(14, 15, {0: -1})]), "OffsetFetch says -1, 1 was")


def test_a_commit_that_came_while_it_was_fetched():
    equal(check_commits_forward(GOOD, [Seen(12, 15, {0: 0})]), [], "was asked before the acknowledgement")


def test_a_partition_goes_on_before_what_was_committed():
    speaks(check_resumed([A, ended("c", assigned(30, 0), record(31, 0, 0))]), "c: partition 0 went on from 0, 1 was committed")


def test_two_owners():
    speaks(check_single_owner([A, ended("c", assigned(15, 0))]), "partition 0: c got it while a had it, for 0.0 ms")
    forever = Log("d", [assigned(1, 3)])
    speaks(check_single_owner([forever, ended("c", assigned(2, 3))]), "while d had it, for good")


def test_an_owner_ends_by_its_word():
    for last in (revoked(5, 3), revoked(5, 3, name="lost"), event(5, "closed")):
        d = Log("d", [assigned(1, 3), last], ended_at=50)
        equal(check_single_owner([d, ended("c", assigned(6, 3))]), [], last)
        speaks(check_single_owner([d, ended("c", assigned(4, 3))]), "while d had it")


def test_thrown_out():
    speaks(check_not_thrown_out([ended("c", assigned(1, 3), revoked(5, 3, name="lost"))]), "c lost partitions [3]")
    fenced = ended("c", event(1, "error", error="FENCED_INSTANCE_ID: static member was fenced"))
    speaks(check_not_thrown_out([fenced]), "FENCED_INSTANCE_ID")
    speaks(check_not_thrown_out([ended("c", event(1, "refused", error="UNKNOWN_MEMBER_ID"))]), "refused: UNKNOWN_MEMBER_ID")
    equal(check_not_thrown_out([ended("c", event(1, "refused", error="REBALANCE_IN_PROGRESS"))]), [], "a commit in a rebalance")


def test_ends_by_itself():
    speaks(check_not_thrown_out([Log("c", [], ended_at=9, exit=3)]), "c ended by itself, exit 3")
    speaks(check_not_thrown_out([Log("c", [], ended_at=9, exit=0, was_asked=True)]), "c did not close: exit 0")
    speaks(check_not_thrown_out([Log("c", [event(8, "closed")], ended_at=9, exit=1, was_asked=True)]), "c did not close: exit 1")


def test_disturbed():
    speaks(check_undisturbed(GOOD, [Window("static restart", 20, 35, ("a",))]), "static restart: b assigned [0]")


def test_a_wire_member_that_cannot_ask_for_its_offsets_does_not_begin_at_0():
    """It would commit 1 after 37, and the broker be blamed for it."""
    class Cut(WireMember):
        def __init__(self): # Without a broker.
            self.positions, self.generation, self.rounds, self.said = {}, -1, 0, []

        def say(self, name, **fields):
            self.said.append(name)

        def fetched(self, partitions):
            raise EOFError("killed")

    member = Cut()
    try:
        member.take(3, [1, 2])
    except EOFError:
        pass
    equal((member.generation, member.positions, member.said), (-1, {}, []), "what it has")


run_all(globals())

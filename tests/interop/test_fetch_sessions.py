#!/usr/bin/env python3
"""Fetch sessions (KIP-227): answers name what changed, and nobody is told less than that."""
import time
import uuid

from support.check import equal, expect, run_all
from support.definitions import ask
from support.node import Node, fresh_dir
from support.shared import SharedNode
from support.wire import Connection, batch, batches

NONE, UNKNOWN_TOPIC, NOT_FOUND, INVALID_EPOCH, UNKNOWN_ID, TOPIC_ID_ERROR = 0, 3, 70, 71, 100, 106
SLOTS = 8

shared = SharedNode("fetch_sessions", "--cores", "0",
                    "--set", f"max.incremental.fetch.session.cache.slots={SLOTS}")
connect, new_topic, new_name = shared.connect, shared.new_topic, shared.new_name


def part(number, offset=0, **more):
    return {"partition": number, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}


def of(topic, *parts):
    return {"topic": topic, "partitions": list(parts)}


class Session:
    """A consumer's end of one."""

    def __init__(self, c, topics, version=12):
        self.c, self.version, self.id, self.epoch = c, version, 0, 0
        self.opened = self.fetch(topics)

    def fetch(self, topics=(), forgotten=(), epoch=None, session=None, **more):
        """{(topic or id, partition): (error, first offsets)}"""
        answer = ask(self.c, "fetch", self.version, {
            "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 24,
            "session_id": self.id if session is None else session,
            "session_epoch": self.epoch if epoch is None else epoch,
            "topics": list(topics), "forgotten_topics_data": list(forgotten), **more})
        self.error = answer["error_code"]
        self.answered_id = answer["session_id"]
        if self.error == NONE and epoch is None and session is None:
            expect(self.epoch == 0 or self.answered_id in (self.id, 0), "another session's id")
            self.id, self.epoch = self.answered_id, self.epoch + 1
        return {(t["topic"] if self.version < 13 else t["topic_id"], p["partition_index"]):
                (p["error_code"], [b[0] for b in batches(p["records"])] if p["records"] else [])
                for t in answer["responses"] for p in t["partitions"]}


def test_c038_only_what_changed_is_answered():
    with connect() as c, connect() as producer:
        topic = new_topic(c, 2)
        session = Session(c, [of(topic, part(0), part(1))])
        expect(session.id > 0, "a session")
        equal(session.opened, {(topic, 0): (NONE, []), (topic, 1): (NONE, [])}, "the first answer names all")
        for i in range(20):
            if i == 10:
                producer.produce(topic, 1, batch([b"x"]))
                equal(session.fetch(max_wait_ms=30000), {(topic, 1): (NONE, [0])}, "the new record, early")
                equal(session.fetch(), {(topic, 1): (NONE, [0])}, "and again, until the reader moves on")
                equal(session.fetch([of(topic, part(1, 1))]), {}, "it has moved on")
                continue
            began = time.monotonic()
            equal(session.fetch(max_wait_ms=50), {}, "nothing new")
            expect(time.monotonic() - began >= 0.05, "an empty answer before max_wait_ms")


def test_partitions_come_and_go():
    with connect() as c:
        topic, other = new_topic(c, 3), new_topic(c)
        for partition in range(3):
            c.produce(topic, partition, batch([b"x"]))
        session = Session(c, [of(topic, part(0))])
        equal(session.fetch([of(other, part(0)), of(topic, part(2))]),
              {(topic, 0): (NONE, [0]), (topic, 2): (NONE, [0]), (other, 0): (NONE, [])}, "added")
        equal(session.fetch([of(topic, part(0, 1), part(2, 1))]), {}, "all read")
        equal(session.fetch([of(topic, part(1))], [{"topic": topic, "partitions": [0, 2]}]), {(topic, 1): (NONE, [0])}, "forgotten")
        c.produce(topic, 0, batch([b"x"]))
        equal(session.fetch([of(topic, part(1, 1))]), {}, "what was forgotten is not told of")
        equal(session.fetch(forgotten=[{"topic": topic, "partitions": [1]}, {"topic": other, "partitions": [0, 9]}]), {}, "the last")
        equal((session.error, session.answered_id), (NONE, 0), "a session of nothing ends")
        equal(session.fetch(session=session.id or 12345, epoch=5), {}, "it is gone")
        equal(session.error, NOT_FOUND, "error")


def test_a_high_watermark_is_told_and_errors_until_they_end():
    with connect() as c, connect() as producer:
        topic = new_topic(c)
        late = new_name()
        session = Session(c, [of(topic, part(0)), of(late, part(0))])
        equal(session.opened[(late, 0)], (UNKNOWN_TOPIC, []), "not there")
        equal(session.fetch(), {(late, 0): (UNKNOWN_TOPIC, [])}, "each time")
        equal(producer.create_topic(late), NONE, "create")
        equal(session.fetch(), {(late, 0): (NONE, [])}, "it is well: once")
        equal(session.fetch(), {}, "nothing new")
        producer.produce(topic, 0, batch([b"x"]))
        equal(session.fetch([of(topic, part(0, 1))]), {(topic, 0): (NONE, [])}, "a watermark alone")
        equal(session.fetch(), {}, "once")


def test_what_gave_records_moves_behind_the_others():
    with connect() as c:
        topic = new_topic(c, 3)
        for partition in range(3):
            for _ in range(4):
                c.produce(topic, partition, batch([b"x" * 1000]))
        session = Session(c, [of(topic, *(part(p) for p in range(3)))])
        seen = []
        for _ in range(6):  # Room for one batch in each answer.
            got = {p: offsets for (_, p), (_, offsets) in session.fetch(max_bytes=1).items() if offsets}
            (partition, offsets), = got.items()
            seen.append(partition)
            session.fetch([of(topic, part(partition, offsets[-1] + 1))], max_bytes=0)
        equal(sorted(seen), [0, 0, 1, 1, 2, 2], "each its turn")


def test_c044_wrong_ids_and_epochs():
    with connect() as c:
        topic = new_topic(c)
        session = Session(c, [of(topic, part(0))])
        equal((session.fetch(session=session.id + 1, epoch=1), session.error), ({}, NOT_FOUND), "an id nobody has")
        for epoch in (2, 3, -2, 1 << 30):
            equal((session.fetch(epoch=epoch), session.error, session.answered_id), ({}, INVALID_EPOCH, 0), "epoch")
        equal((session.fetch(), session.error), ({}, NONE), "the right epoch goes on")
        answer = ask(c, "fetch", 13, {"session_id": session.id, "session_epoch": 2, "max_wait_ms": 0})
        equal(answer["error_code"], TOPIC_ID_ERROR, "names turned into ids")
        equal(set(session.fetch([of(topic, part(0))], epoch=-1)), {(topic, 0)}, "a full answer")
        equal((session.error, session.answered_id), (NONE, 0), "and no session")
        equal((session.fetch(), session.error), ({}, NOT_FOUND), "it was closed")


def test_c044_slots_are_bounded():
    with connect() as c:
        topic = new_topic(c)
        ids = []
        for _ in range(200):
            with connect() as other:
                ids.append(Session(other, [of(topic, part(0))]).id)
        given = [i for i in ids if i]
        expect(len(given) <= SLOTS, f"{len(given)} sessions")
        equal(ids[-1], 0, "no slot, no session")
        for i in given:  # Room for the next test.
            ask(c, "fetch", 12, {"session_id": i, "session_epoch": -1, "max_wait_ms": 0})
        expect(Session(c, [of(topic, part(0))]).id > 0, "a slot that was given back")


def test_c093_a_topic_that_was_made_again():
    with connect() as c:
        topic = new_topic(c)

        def id_of():
            found, = ask(c, "metadata", 12, {"topics": [{"name": topic}]})["topics"]
            return found["topic_id"]
        old = id_of()
        c.produce(topic, 0, batch([b"x"]))
        session = Session(c, [{"topic_id": old, "partitions": [part(0)]}], version=13)
        equal(session.opened, {(old, 0): (NONE, [0])}, "records")
        equal(c.delete_topic(topic), NONE, "delete")
        equal(session.fetch(), {(old, 0): (UNKNOWN_ID, [])}, "deleted")
        equal(c.create_topic(topic), NONE, "create")
        expect(id_of() != old, "the same id")
        equal(session.fetch(), {(old, 0): (UNKNOWN_ID, [])}, "made again")
        equal(session.fetch([{"topic_id": id_of(), "partitions": [part(0)]}], [{"topic_id": old, "partitions": [0]}]),
              {(id_of(), 0): (NONE, [])}, "the new one")


def test_a_session_of_many_partitions():
    with connect() as c:
        topics = [new_topic(c, 100) for _ in range(10)]
        session = Session(c, [of(t, *(part(p) for p in range(100))) for t in topics])
        equal(len(session.opened), 1000, "all")
        equal(session.fetch(), {}, "none")
        c.produce(topics[7], 77, batch([b"x"]))
        equal(session.fetch(), {(topics[7], 77): (NONE, [0])}, "one")
        equal(session.fetch([of(topics[7], part(77, 1))], [{"topic": t, "partitions": list(range(100))} for t in topics[:7]]), {}, "300 left")
        for t in topics:
            c.produce(t, 5, batch([b"x"]))
        equal(set(session.fetch()), {(t, 5) for t in topics[7:]}, "of those that are left")


def test_a_session_spans_all_cores():
    """Partitions of every core in one session; and a session is answered, or refused and opened anew, by whichever
    core takes the connection."""
    with Node(fresh_dir("fetch_sessions_cores") / "data", "--cores", "all") as own:
        with Connection(own.kafka) as producer:
            equal(producer.create_topic("t", 16), NONE, "create")
            every = [of("t", *(part(p) for p in range(16)))]
            readers = []
            for _ in range(8):
                readers.append(Session(Connection(own.kafka), every))
                expect(readers[-1].id > 0, "a session")
            for partition in range(16):
                equal(producer.produce("t", partition, batch([b"x"]))[:2], (NONE, 0), "produce")
            for reader in readers:
                told = {}
                for _ in range(16):  # An answer may come before another core has told of its records.
                    told.update({p: offsets for (_, p), (_, offsets) in reader.fetch(max_wait_ms=1000).items()})
                    if len(told) == 16:
                        break
                equal(told, {p: [0] for p in range(16)}, "each record, once")
                equal(reader.fetch([of("t", *(part(p, 1) for p in range(16)))]), {}, "all read")
            for reader in readers:
                with Connection(own.kafka) as other:
                    answer = ask(other, "fetch", 12, {"session_id": reader.id, "session_epoch": reader.epoch, "max_wait_ms": 0})
                    expect(answer["error_code"] in (NONE, NOT_FOUND), f"error {answer['error_code']}")
                reader.c.socket.close()


run_all(globals())

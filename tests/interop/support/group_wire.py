"""Members of consumer groups by hand, as cheap threads: the same events as a client program's, in the same kind of log.

A "record" of theirs is none of a topic's: it is a position that the member is about to commit, so that positions go on where
the last committed one was.
"""
import json
import random
import threading
import time

from support.definitions import ask
from support.group_checks import Log
from support.groups import EARLY
from support.wire import Connection

REBALANCE_MS = 3000
TICK = 0.03
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79
NAMES = {22: "ILLEGAL_GENERATION", 25: "UNKNOWN_MEMBER_ID", 27: "REBALANCE_IN_PROGRESS", 79: "MEMBER_ID_REQUIRED"}


class Restart(Exception):
    """Try again a little later: the coordinator is not there yet."""


class WireClient(threading.Thread):
    """Has a connection, and a new one when that ends. `turn` is asked again and again."""

    def __init__(self, kafka, group, topic, partitions, name):
        super().__init__(daemon=True)
        self.kafka, self.group, self.topic, self.partitions = kafka, group, topic, partitions
        self.log = Log(name, [], was_asked=True)
        self._ends = threading.Event()
        self.failure = None

    def run(self):
        try:
            while not self._ends.is_set():
                self.connected()
        except Exception as error: # A thread must not vanish silently.
            self.failure = error

    def connected(self):
        try:
            with Connection(self.kafka) as self.connection:
                while not self._ends.wait(TICK):
                    self.turn()
                self.leave()
        except (OSError, EOFError, Restart):
            self._ends.wait(2 * TICK)

    def end(self):
        self._ends.set()
        self.join()
        self.say("closed")
        self.log.ended_at, self.log.exit = time.monotonic_ns(), 0

    def leave(self):
        pass

    def say(self, event, **fields):
        self.log.events.append({"at": time.monotonic_ns(), "event": event, **fields})

    def ask(self, api, version, **request):
        answer = ask(self.connection, api, version, {"group_id": self.group, **request})
        if answer.get("error_code", 0) in EARLY:
            raise Restart()
        return answer

    def commit(self, positions, generation=-1, member_id=""):
        """Of what was acknowledged it says so; returns the errors."""
        answer = self.ask("offset_commit", 8, generation_id_or_member_epoch=generation, member_id=member_id, topics=[
            {"name": self.topic, "partitions": [{"partition_index": p, "committed_offset": offset, "committed_metadata": ""}
                                                for p, offset in positions.items()]}])
        partitions = answer["topics"][0]["partitions"]
        taken = {str(p["partition_index"]): positions[p["partition_index"]] for p in partitions if not p["error_code"]}
        if taken:
            self.say("committed", offsets=taken)
        return {p["error_code"] for p in partitions} - {0}

    def fetched(self, partitions):
        answer = ask(self.connection, "offset_fetch", 8, {"require_stable": 0, "groups": [
            {"group_id": self.group, "topics": [{"name": self.topic, "partition_indexes": partitions}]}]})["groups"][0]
        if answer["error_code"] in EARLY:
            raise Restart()
        return {p["partition_index"]: max(p["committed_offset"], 0) for p in answer["topics"][0]["partitions"]}


class SimpleCommitter(WireClient):
    """Commits rising positions of all partitions, in no group's generation."""

    def __init__(self, *args):
        super().__init__(*args)
        self.position = 0

    def turn(self):
        self.position += 1
        for code in self.commit({p: self.position for p in range(self.partitions)}):
            self.say("refused", error=NAMES.get(code, str(code)))


class WireMember(WireClient):
    """A classic member. What it has, it keeps over a new connection; now and then it leaves, or joins again."""

    def __init__(self, *args, session_ms=3000, seed=0):
        super().__init__(*args)
        self.session_ms, self.rng = session_ms, random.Random(seed)
        self.member_id, self.generation, self.positions = "", -1, {}
        self.rounds = 0 # Generations it was in.

    def turn(self):
        if self.generation < 0:
            self.join_group()
            return
        code = self.ask("heartbeat", 4, generation_id=self.generation, member_id=self.member_id)["error_code"]
        if code == 0 and self.rng.random() < 0.03:
            self.leave() if self.rng.random() < 0.5 else self.give_up()
        elif code == 0:
            self.work()
        elif code == REBALANCE_IN_PROGRESS:
            self.work()
            self.give_up()
        else:
            self.forgotten(code)

    def work(self):
        for partition in self.positions:
            self.say("record", partition=partition, offset=self.positions[partition])
            self.positions[partition] += 1
        for code in self.commit(self.positions, self.generation, self.member_id) if self.positions else ():
            self.say("refused", error=NAMES.get(code, str(code)))

    def give_up(self, event="revoked"):
        if self.positions:
            self.say(event, partitions=list(self.positions))
        self.positions, self.generation = {}, -1

    def forgotten(self, code):
        """The coordinator does not know it, or not in this generation."""
        self.say("error", error=NAMES.get(code, str(code)))
        self.give_up("lost")
        if NAMES.get(code) == "UNKNOWN_MEMBER_ID":
            self.member_id = ""

    def leave(self):
        self.give_up()
        if self.member_id:
            self.ask("leave_group", 5, members=[{"member_id": self.member_id}])
            self.member_id = ""

    def join_group(self):
        answer = self.ask("join_group", 9, session_timeout_ms=self.session_ms, rebalance_timeout_ms=REBALANCE_MS,
                          member_id=self.member_id, protocol_type="wire", protocols=[{"name": "each", "metadata": b""}])
        if answer["error_code"] == MEMBER_ID_REQUIRED:
            self.member_id = answer["member_id"]
        elif answer["error_code"]:
            self.forgotten(answer["error_code"])
        else:
            self.member_id = answer["member_id"]
            self.sync(answer)

    def sync(self, joined):
        assignments = []
        if joined["leader"] == self.member_id:
            ids = sorted(member["member_id"] for member in joined["members"])
            assignments = [{"member_id": one, "assignment": json.dumps(list(range(self.partitions))[i::len(ids)]).encode()}
                           for i, one in enumerate(ids)]
        answer = self.ask("sync_group", 5, generation_id=joined["generation_id"], member_id=self.member_id,
                          protocol_type="wire", protocol_name="each", assignments=assignments)
        if answer["error_code"] == REBALANCE_IN_PROGRESS:
            return
        if answer["error_code"]:
            self.forgotten(answer["error_code"])
            return
        self.take(joined["generation_id"], json.loads(answer["assignment"] or b"[]"))

    def take(self, generation, partitions):
        """Nothing of it if the broker goes while it is asked for the offsets: it joins again, and does not begin at 0."""
        positions = self.fetched(partitions) if partitions else {}
        self.generation, self.positions = generation, positions
        self.rounds += 1
        if partitions:
            self.say("assigned", partitions=partitions)

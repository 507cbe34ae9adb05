"""Consumer groups of real client programs: their processes, a producer that feeds them, a wire client that reads what
they have committed. What the programs write: clients/README.md, the verb `member`."""
import json
import os
import pathlib
import subprocess
import threading
import time

from support.definitions import ask
from support.group_checks import Log, Seen
from support.node import ROOT
from support.wire import Connection

POLL = 0.02
WATCH = 0.1
EARLY = (14, 15, 16) # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR


class Timeout(Exception):
    pass


def wait_for(what, condition, seconds=30):
    ends = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > ends:
            raise Timeout(f"{what() if callable(what) else what}: not within {seconds} s")
        time.sleep(POLL)
    return found


class Member:
    """One process in a group: loads its client, joins when it is told to, ends when its input closes, so at the latest
    when the test does."""

    def __init__(self, command, name, directory):
        self.name, self.path, self.errors = name, directory / f"{name}.log", directory / f"{name}.err"
        with open(self.path, "w") as out, open(self.errors, "w") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=errors)
        self.log = Log(name, [])
        self.owned, self.changed_at = set(), time.monotonic_ns()
        self._read_up_to = 0

    def wait_loaded(self):
        wait_for(lambda: f"{self.name} loaded ({self.error_text()})", lambda: self.update().log.events, 60)

    def join(self):
        self.wait_loaded()
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return self

    def update(self):
        """Takes over what the process has written meanwhile."""
        with open(self.path, "rb") as f:
            f.seek(self._read_up_to)
            whole, _, _ = f.read().rpartition(b"\n")
        if whole:
            self._read_up_to += len(whole) + 1
            for line in whole.split(b"\n"):
                self._take(json.loads(line))
        if self.process.poll() is not None and self.log.ended_at is None:
            self.log.ended_at, self.log.exit = time.monotonic_ns(), self.process.returncode
        return self

    def _take(self, event):
        self.log.events.append(event)
        if event["event"] == "assigned":
            self.owned |= set(event["partitions"])
        elif event["event"] in ("revoked", "lost"):
            self.owned -= set(event["partitions"])
        else:
            return
        self.changed_at = event["at"]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.killed_at = time.monotonic_ns()
        self.process.stdin.close()
        self.update()

    def ask_to_end(self):
        self.update()
        self.log.was_asked |= self.process.poll() is None
        self.process.stdin.close()

    def close(self, seconds=20):
        """As a program that ends in order: what it has received is committed; leaves unless it is static."""
        self.ask_to_end()
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.update()

    def last_words(self):
        if self.process.poll() is not None:
            return f"ended {self.error_text()}"
        return "last said " + json.dumps(self.log.events[-1]) if self.log.events else "silent"

    def error_text(self):
        return self.errors.read_text()[-300:].strip()


class Producer:
    """Feeds a topic steadily, all partitions alike, until it is closed."""

    def __init__(self, kafka, topic, directory, delay_us=8000):
        path = pathlib.Path(os.environ.get("COREFLUME", ROOT / "build/release/coreflume")).parent
        self.path = directory / "producer.acks"
        with open(self.path, "w") as out:
            self.process = subprocess.Popen([path / "tests/interop/rdkafka_producer", kafka, topic, "plain", str(delay_us)],
                                            stdin=subprocess.PIPE, stdout=out, stderr=subprocess.DEVNULL)

    def close(self):
        """{(partition, offset)} of every acknowledged record."""
        self.process.stdin.close()
        self.process.wait(timeout=90)
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return {(int(partition), int(offset)) for word, _, partition, offset in (l for l in lines if l[0] == "acked")}

    def end(self):
        self.process.kill()
        self.process.wait()


class Watcher:
    """Asks again and again what a group has committed. A connection that ends is opened again."""

    def __init__(self, kafka, group, topic, partitions):
        self.kafka, self.seen, self.problems = kafka, [], []
        self.request = {"groups": [{"group_id": group, "topics": [
            {"name": topic, "partition_indexes": list(range(partitions))}]}], "require_stable": 0}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def once(self, connection):
        asked_at = time.monotonic_ns()
        group = ask(connection, "offset_fetch", 8, self.request)["groups"][0]
        errors = {group["error_code"], *(p["error_code"] for t in group["topics"] for p in t["partitions"])} - {0}
        if errors:
            if not errors <= set(EARLY):
                self.problems.append(f"OffsetFetch: errors {errors}")
            return None
        offsets = {p["partition_index"]: p["committed_offset"] for p in group["topics"][0]["partitions"]}
        self.seen.append(Seen(asked_at, time.monotonic_ns(), offsets))
        return self.seen[-1]

    def _watch(self):
        while not self._ends.is_set():
            try:
                with Connection(self.kafka) as connection:
                    while not self._ends.wait(WATCH):
                        self.once(connection)
            except (OSError, EOFError):
                self._ends.wait(WATCH)
            except Exception as error: # A thread must not vanish silently.
                self.problems.append(f"OffsetFetch: {type(error).__name__}: {error}")
                return

    def close(self):
        """The last answer, asked for now."""
        self._ends.set()
        self._thread.join()
        with Connection(self.kafka) as connection:
            return wait_for("committed offsets", lambda: self.once(connection))

    def end(self):
        self._ends.set()


class Group:
    """The living members of one group and the logs of all there ever were."""

    def __init__(self, partitions, directory):
        self.partitions, self.directory = set(range(partitions)), directory
        self.living, self.all = [], []

    def load(self, command, name):
        member = Member(command, name, self.directory)
        self.all.append(member)
        return member

    def join(self, *members):
        for member in members:
            self.living.append(member.join())

    def remove(self, member):
        self.living.remove(member)
        return member

    def update(self):
        for member in self.all:
            if member.log.ended_at is None or member in self.living:
                member.update()

    def describe(self):
        self.update()
        return "; ".join(f"{m.name}: {sorted(m.owned)}, {m.last_words()}" for m in self.living)

    def is_settled(self, quiet_ns):
        """Every living member has its share, each partition has one owner, and that has been so for a while."""
        self.update()
        owned = [member.owned for member in self.living]
        sizes = [len(one) for one in owned]
        is_shared = sum(sizes) == len(self.partitions) and set().union(*owned) == self.partitions
        return (is_shared and max(sizes) - min(sizes) <= 1
                and all(time.monotonic_ns() - member.changed_at > quiet_ns for member in self.living))

    def settle(self, what, seconds=60, quiet=0.4):
        """Waits; returns when the last change was."""
        wait_for(lambda: f"{what}: every partition with one owner, every member with its share ({self.describe()})",
                 lambda: self.is_settled(int(quiet * 1e9)), seconds)
        return max(member.changed_at for member in self.living)

    def received(self):
        self.update()
        return {(event["partition"], event["offset"]) for member in self.all for event in member.log.events
                if event["event"] == "record"}

    def logs(self):
        self.update()
        return [member.log for member in self.all]

    def end(self):
        """Whatever happened: no process stays. To be called when a run is over or has failed."""
        for member in self.all:
            if member.process.poll() is None:
                member.process.kill()
                member.process.wait()

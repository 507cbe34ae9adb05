#!/usr/bin/env python3
"""Consumer groups of real clients: `test_group_members.py [--all] [--jobs N] [ROW...]`; ORACLE=1: against Apache Kafka.

A row is a client with one of its protocols. Three members share twelve partitions that a producer feeds; one is killed,
one added, a static one restarted within its session, then each in turn restarted. Then the checks of
support/group_checks.py judge the members' own logs. Without --all: the rows that CI runs.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import sys
import time
import traceback

from support.clients import CLIENTS, Client, prepared
from support.group_checks import (Window, check_commits_forward, check_delivered, check_not_thrown_out, check_received_by_owner,
                                  check_resumed, check_single_owner, check_undisturbed)
from support.groups import Group, Producer, Timeout, Watcher, wait_for
from support.kafka_tools import ORACLE
from support.node import ROOT, fresh_dir
from support.shared import SharedNode

PARTITIONS = 12
SESSION_MS, HEARTBEAT_MS = 6000, 500
JOBS = 3
SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000",
            "group.consumer.min.session.timeout.ms=1000", f"group.consumer.session.timeout.ms={SESSION_MS}",
            "group.consumer.min.heartbeat.interval.ms=100", f"group.consumer.heartbeat.interval.ms={HEARTBEAT_MS}")


@dataclasses.dataclass
class Row:
    client: str # A folder of clients/.
    protocol: str # In the client's own words.
    in_ci: bool = False
    no_static: str = None # Why it has no static members.
    rejoins: str = None # Why it may cause changes when nobody else has a reason for any.
    tells_commits: bool = True
    session_ms: int = SESSION_MS # Of the classic protocol: longer where a process takes its time to close and to join.
    rolled_to: tuple = () # Online migration: restarted in turn into these protocols; without: into its own.

    @property
    def name(self):
        return "-".join((self.client, self.protocol, *(f"to-{protocol}" for protocol in self.rolled_to)))


ROWS = [
    Row("confluent_kafka", "range", True),
    Row("confluent_kafka", "cooperative-sticky", True),
    Row("confluent_kafka", "consumer", True),
    Row("confluent_kafka", "range", True, rolled_to=("consumer", "range")),
    Row("java", "range", True, session_ms=12000),
    Row("java", "cooperative", True, session_ms=12000),
    Row("java", "consumer", True),
    Row("java", "cooperative", rolled_to=("consumer", "cooperative"), session_ms=12000),
    Row("java", "range", rolled_to=("consumer", "range"), session_ms=12000),
    Row("franz_go", "cooperative-sticky", True),
    Row("franz_go", "consumer", True, no_static="it leaves without its instance id, which Kafka refuses, so that the "
        "instance is free only when its session ends"),
    Row("kafkajs", "roundrobin", True, no_static="not in kafkajs"),
    Row("librdkafka_c", "range"),
    Row("librdkafka_c", "cooperative-sticky"),
    Row("librdkafka_c", "consumer"),
    Row("sarama", "range", True, tells_commits=False),
    Row("sarama", "sticky", tells_commits=False),
    Row("kafka_go", "range", True, no_static="not in kafka-go"),
    Row("kafka_python", "range", True, rejoins="a leader may join again when the metadata come that it asks for after its "
        "first assignment"),
    Row("kafka_python_2", "range", no_static="not in this release"),
    Row("aiokafka", "range", True),
]


class Run:
    """One row through its scenario."""

    def __init__(self, row, client, node):
        self.row, self.client, self.node = row, client, node
        self.directory = fresh_dir(f"group_members/{row.name}")
        self.group_id = f"group-{row.name}"
        self.group = Group(PARTITIONS, self.directory)
        self.windows, self.phases = [], []
        self.problems = collections.OrderedDict()

    def load(self, name, protocol=None):
        """The one called static has an instance id."""
        instance = "instance-1" if name.startswith("static") and not self.row.no_static else "-"
        return self.group.load([*self.client.member(), self.group_id, self.topic, protocol or self.row.protocol, instance,
                                str(self.row.session_ms), str(HEARTBEAT_MS)], name)

    def phase(self, what):
        """All settles; from now on nobody has a reason for changes, but what the next step gives."""
        began = time.monotonic()
        changed_at = self.group.settle(what)
        self.phases.append(f"{what} {time.monotonic() - began:.1f} s")
        return changed_at

    def quiet(self, seconds):
        start = time.monotonic_ns()
        time.sleep(seconds)
        self.windows.append(Window("nothing happens", start, time.monotonic_ns(), ()))

    def restart(self, member, name, protocol=None):
        """The new process is loaded before the old one closes, so that the gap is the client's and not the machine's."""
        again = self.load(name, protocol)
        again.wait_loaded()
        began = time.monotonic_ns()
        self.group.remove(member).close()
        self.group.join(again)
        return began, again

    def scenario(self):
        first, static, third, fourth = (self.load(name) for name in ("first", "static", "third", "fourth"))
        self.group.join(first, static, third)
        self.phase("three join")
        self.quiet(1)
        self.group.remove(first).kill()
        self.phase("one killed")
        self.group.join(fourth)
        self.phase("one added")
        self.quiet(0.5)
        if not self.row.no_static:
            static = self.restart_static(static)
        for protocol in self.row.rolled_to or (self.row.protocol,):
            for member in list(self.group.living):
                self.restart(member, f"{member.name}, {protocol}", protocol)
                self.phase(f"{member.name} rolled")

    def restart_static(self, static, attempt=1):
        """Where the machine was too slow for the session, the others had a reason; it is tried again then."""
        began, again = self.restart(static, f"static again {attempt}")
        wait_for(lambda: f"{again.name}: the partitions it had ({self.group.describe()})", lambda: again.update().owned)
        is_late = again.changed_at - began > 0.9e6 * self.row.session_ms
        self.phase(again.name)
        if not is_late:
            self.windows.append(Window("static restart", began, time.monotonic_ns(), (static.name, again.name)))
        elif attempt < 3:
            return self.restart_static(again, attempt + 1)
        else:
            self.problems["static restart"] = [f"took {(again.changed_at - began) / 1e9:.1f} s, as much as the session"]
        return again

    def drain(self, acked):
        wait_for(lambda: f"all records delivered ({len(acked - self.group.received())} of {len(acked)} are not)",
                 lambda: acked <= self.group.received())

    def end_in_turn(self):
        """Each when all is settled: a Java member that closes in the rebalance of another's leaving commits nothing and calls
        its partitions lost. The static one last, who does not leave."""
        for member in sorted(self.group.living, key=lambda member: member.name.startswith("static")):
            self.group.remove(member).close()
            if self.group.living:
                self.phase(f"{member.name} ended")

    def all(self):
        with self.node.connect() as c:
            self.topic = self.node.new_topic(c, PARTITIONS)
        self.producer = Producer(self.node.node.kafka, self.topic, self.directory)
        self.watcher = Watcher(self.node.node.kafka, self.group_id, self.topic, PARTITIONS)
        acked = set()
        try:
            self.scenario()
            acked = self.producer.close()
            self.drain(acked)
            self.end_in_turn()
            self.ends = self.watcher.close().offsets
        except (Timeout, Exception) as error:
            self.problems["scenario"] = ["".join(traceback.format_exception(error)) if not isinstance(error, Timeout)
                                         else str(error)]
        finally:
            self.producer.end()
            self.watcher.end()
            self.group.end()
        self.judge(acked)
        return self

    def judge(self, acked):
        logs = self.group.logs()
        self.records, self.refused = len(acked), sum(len(log.of("refused")) for log in logs)
        self.problems.setdefault("scenario", [])
        self.problems["delivered"] = check_delivered(acked, logs)
        self.problems["committed"] = (check_commits_forward(logs, self.watcher.seen, self.row.tells_commits)
                                      + self.watcher.problems + self.not_at_end(acked))
        self.problems["resumed"] = check_resumed(logs)
        self.problems["one owner"] = check_single_owner(logs)
        self.problems["received by owner"] = check_received_by_owner(logs)
        self.problems["not thrown out"] = check_not_thrown_out(logs)
        if not self.row.rejoins:
            self.problems["undisturbed"] = check_undisturbed(logs, self.windows)

    def not_at_end(self, acked):
        """After all have closed, the group stands behind the last record."""
        due = {partition: max(offset for p, offset in acked if p == partition) + 1 for partition in {p for p, _ in acked}}
        return [f"partition {p}: {self.ends[p]} committed at the end, due was {due[p]}" for p in due if self.ends[p] != due[p]] \
            if hasattr(self, "ends") else []


def report(run, seconds, tally):
    for check, problems in run.problems.items():
        tally["failed" if problems else "passed"] += 1
        print(f"{'not ok' if problems else 'ok'} {run.row.name}: {check}" + "".join(f"\n   {text}" for text in problems))
    for what, why in (("static restart", run.row.no_static), ("undisturbed", run.row.rejoins)):
        if why:
            print(f"SKIPPED {run.row.name}: {what}: {why}")
            tally["skipped"] += 1
    print(f"   {run.row.name}: {run.records} records, {run.refused} commits refused in a rebalance, {seconds:.0f} s: "
          + ", ".join(run.phases), flush=True)


def timed(run):
    began = time.monotonic()
    return run.all(), time.monotonic() - began


def chosen(options):
    rows = [row for row in ROWS if options.all or row.in_ci or options.rows]
    rows = [row for row in rows if not options.rows or any(text in row.name for text in options.rows)]
    if not rows:
        raise SystemExit(f"test_group_members.py: no such row; there are {', '.join(row.name for row in ROWS)}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="also the rows that CI does not run")
    parser.add_argument("--jobs", type=int, default=JOBS, help="rows side by side")
    parser.add_argument("rows", nargs="*", help="parts of names")
    options = parser.parse_args()
    tally = collections.Counter()
    rows = chosen(options)
    node = SharedNode("group_members_node", *(word for setting in SETTINGS for word in ("--set", setting)))
    clients = {name: Client(CLIENTS / name, node.node.kafka) for name in dict.fromkeys(row.client for row in rows)}
    ready = {client.name: client for client in prepared(clients.values(), tally, ("required", "members"))}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = [pool.submit(timed, Run(row, ready[row.client], node)) for row in rows if row.client in ready]
        for done in concurrent.futures.as_completed(runs):
            report(*done.result(), tally)
    print(f"{tally['passed']} passed, {tally['failed']} failed, {tally['skipped']} skipped")
    return 1 if tally["failed"] or not tally["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""kill -9 of the broker in the middle of rebalances and of commits, again and again: groups go on by themselves.

Four groups over one topic: members through librdkafka with the classic and with the new protocol, of which one is restarted
around every kill; members by hand that rebalance all the time; and a client that only commits. Afterwards: every acknowledged
commit is there, positions never went back, every acknowledged record was delivered, no partition had two owners.

usage: test_group_kills.py [--rounds N] [--seed N]; ORACLE=1: Apache Kafka in the broker's place (few rounds)
"""
import argparse
import random
import subprocess
import sys
import time

from support.clients import CLIENTS, Client
from support.group_checks import (check_commits_forward, check_delivered, check_received_by_owner, check_resumed,
                                  check_single_owner)
from support.group_wire import SimpleCommitter, WireMember
from support.groups import Group, Producer, Timeout, Watcher, wait_for
from support.kafka_tools import ORACLE
from support.node import binary, fresh_dir
from support.shared import SharedNode

PARTITIONS = 12
SESSION_MS, HEARTBEAT_MS = 3000, 300
SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000",
            "group.consumer.min.session.timeout.ms=1000", f"group.consumer.session.timeout.ms={SESSION_MS}",
            "group.consumer.min.heartbeat.interval.ms=100", f"group.consumer.heartbeat.interval.ms={HEARTBEAT_MS}")


class ProcessGroup:
    """Three members through librdkafka."""

    def __init__(self, node, client, topic, protocol, directory, losses_max):
        self.losses_max = losses_max
        self.name, self.client, self.topic, self.protocol = f"kills-{protocol}", client, topic, protocol
        self.node = node
        self.group = Group(PARTITIONS, directory)
        self.watcher = Watcher(node.kafka, self.name, topic, PARTITIONS)
        self.started = 0
        self.group.join(*(self.load() for _ in range(3)))

    def load(self):
        self.started += 1
        return self.group.load([*self.client.member(), self.name, self.topic, self.protocol, "-", str(SESSION_MS),
                                str(HEARTBEAT_MS)], f"{self.protocol}-{self.started}")

    def disturb(self, rng):
        """One member goes, in order or by kill -9; another comes. Neither waits for the group."""
        member = self.group.remove(rng.choice(self.group.living))
        again = self.load()
        if rng.random() < 0.1:
            member.kill()
        else:
            member.ask_to_end()
        self.group.join(again)

    def settle(self, when):
        try:
            self.group.settle(f"{self.name} {when}", 60)
        except Timeout as late:
            raise Timeout(f"{late}\n{self.described()}") from None

    def described(self):
        """What the broker knows of it."""
        done = subprocess.run([binary(), "group", "describe", self.name, "--brokers", self.node.kafka, "--json"],
                              capture_output=True, text=True)
        return done.stdout + done.stderr

    def finish(self, acked):
        """After the last kill: it goes on by itself, and comes to the end of the topic."""
        self.settle("after the last kill")
        wait_for(lambda: f"{self.name}: {len(acked - self.group.received())} of {len(acked)} records not delivered",
                 lambda: acked <= self.group.received(), 60)
        for member in self.group.living:
            member.ask_to_end()
        for member in self.group.all:
            member.close()
        return self.watcher.close().offsets

    def problems(self, acked, ends):
        logs = self.group.logs()
        due = {p: max(offset for q, offset in acked if q == p) + 1 for p in {p for p, _ in acked}}
        behind = [f"partition {p}: {ends[p]} committed at the end, due was {due[p]}" for p in due if ends[p] != due[p]]
        return {"delivered": check_delivered(acked, logs), "received by owner": check_received_by_owner(logs),
                **judged(logs, self.watcher), "at the end": behind, "thrown out": self.thrown_out(logs)}

    def thrown_out(self, logs):
        """A restart throws nobody out; a machine that stands still for a session may, now and then."""
        losses = [f"{log.name} lost {event['partitions']}" for log in logs for event in log.of("lost")]
        return losses if len(losses) > self.losses_max else []

    def end(self):
        self.watcher.end()
        self.group.end()


class WireGroup:
    """Members or others by hand."""

    def __init__(self, node, topic, name, make, count):
        self.name = name
        self.watcher = Watcher(node.kafka, name, topic, PARTITIONS)
        self.clients = [make(node.kafka, name, topic, PARTITIONS, f"{name}-{i}") for i in range(count)]
        for client in self.clients:
            client.start()

    def settle(self, when):
        """It never does."""

    def disturb(self, rng):
        """They do it themselves."""

    def finish(self, acked):
        before = {client.log.name: len(client.log.of("committed")) for client in self.clients}
        wait_for(f"{self.name}: commits after the last kill", lambda: any(
            client.failure or len(client.log.of("committed")) > before[client.log.name] for client in self.clients))
        for client in self.clients:
            client.end()
        return self.watcher.close().offsets

    def problems(self, acked, ends):
        failures = [f"{client.log.name}: {type(client.failure).__name__}: {client.failure}" for client in self.clients
                    if client.failure]
        return {"by hand": failures, **judged([client.log for client in self.clients], self.watcher)}

    def end(self):
        self.watcher.end()


def judged(logs, watcher):
    return {"committed": check_commits_forward(logs, watcher.seen) + watcher.problems, "resumed": check_resumed(logs),
            "one owner": check_single_owner(logs)}


def summary(group):
    logs = group.group.logs() if isinstance(group, ProcessGroup) else [client.log for client in group.clients]
    count = {name: sum(len(log.of(name)) for log in logs) for name in ("assigned", "committed", "refused", "lost")}
    return f"{group.name}: " + ", ".join(f"{number} {name}" for name, number in count.items())


def report(groups, acked, ends):
    passed = failed = 0
    for group in groups:
        print(f"   {summary(group)}")
        for check, problems in group.problems(acked, ends[group.name]).items():
            passed, failed = passed + (not problems), failed + bool(problems)
            print(f"{'not ok' if problems else 'ok'} {group.name}: {check}" + "".join(f"\n   {text}" for text in problems))
    return passed, failed


def kill_rounds(node, groups, rounds, rng):
    slowest = 0.0
    for number in range(rounds):
        if rng.random() < 0.3: # Else kills come faster than the sessions of classic members that a kill has ended.
            for group in groups:
                group.settle(f"before kill {number}")
        time.sleep(rng.uniform(0.2, 1.6))
        for group in groups:
            if rng.random() < 0.4:
                group.disturb(rng)
        time.sleep(rng.uniform(0, 0.4)) # Into the rebalance.
        began = time.monotonic()
        node.restart(kill=True)
        slowest = max(slowest, time.monotonic() - began)
    return slowest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5 if ORACLE else 50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"group kills: rounds {options.rounds}, seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    shared = SharedNode("group_kills_node", *(word for setting in SETTINGS for word in ("--set", setting)))
    node, directory = shared.node, fresh_dir("group_kills")
    with shared.connect() as c:
        topic = shared.new_topic(c, PARTITIONS)
    client = Client(CLIENTS / "confluent_kafka", node.kafka)
    client.install()
    producer = Producer(node.kafka, topic, directory)
    seeds = iter(range(options.seed, options.seed + 1000))
    groups = [*(ProcessGroup(node, client, topic, protocol, directory, options.rounds // 5) for protocol in ("range", "consumer")),
              WireGroup(node, topic, "kills-wire", lambda *args: WireMember(*args, session_ms=SESSION_MS, seed=next(seeds)), 3),
              WireGroup(node, topic, "kills-simple", SimpleCommitter, 1)]
    try:
        slowest = kill_rounds(node, groups, options.rounds, rng)
        acked = producer.close()
        ends = {group.name: group.finish(acked) for group in groups}
        passed, failed = report(groups, acked, ends)
    finally:
        producer.end()
        for group in groups:
            group.end()
    print(f"acknowledged records {len(acked)}, slowest kill and start {slowest:.2f} s")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

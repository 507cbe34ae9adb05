#!/usr/bin/env python3
"""Members that subscribe by a pattern: topics that come and go, a pattern that is none. ORACLE=1: against Apache Kafka.

Clients of tests/interop/clients by their verb `pattern`; our own by docs/examples/member.c, as others get it.
"""
import collections
import json
import re
import signal
import subprocess
import threading

from support.check import equal, expect, run_all
from support.cli import cli
from support.client_library import compile_example, install
from support.clients import CLIENTS, Client, prepared
from support.kafka_tools import server
from support.members import until

SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.consumer.min.heartbeat.interval.ms=100",
            "group.consumer.heartbeat.interval.ms=500")
PATTERN, NO_PATTERN = "^logs-.*", r"^(logs)\1" # librdkafka looks whether it is one for regcomp.


class Program:
    """What it reads, what it owns, and what it complains of, from its lines."""

    def __init__(self, command, **options):
        self.records, self.owned, self.errors = [], set(), []
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **options)
        self.readers = [threading.Thread(target=self._read, args=stream, daemon=True)
                        for stream in ((self.process.stdout, self.on_line), (self.process.stderr, self.on_error))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def _read(stream, on_line):
        for line in stream:
            on_line(line.rstrip("\n"))

    def on_line(self, line):
        event = json.loads(line)
        if event["event"] == "record":
            self.records.append((event["topic"], event["value"]))
        elif event["event"] == "error":
            self.errors.append(event["error"])
        else:
            self.change(event["event"], event["topics"])

    def on_error(self, line):
        self.errors.append(line)

    def change(self, event, topics):
        self.owned = self.owned | set(topics) if event == "assigned" else self.owned - set(topics)

    def ask_to_end(self):
        self.process.stdin.close()

    def end(self):
        self.ask_to_end()
        code = self.process.wait(timeout=30)
        for reader in self.readers:
            reader.join()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Example(Program):
    """docs/examples/member.c."""

    def on_line(self, line):
        topic, value = re.fullmatch(r"(.*)\[0\]:\d+ (.*)", line).groups()
        self.records.append((topic, value))

    def on_error(self, line):
        word, _, rest = line.partition(" ")
        if word in ("assigned", "revoked"):
            self.change(word, [rest.removesuffix("[0]")])
        else:
            self.errors.append(line)

    def ask_to_end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)


def produce(node, topic, value):
    cli(node, "produce", topic, text_in=f"{value}\n").ok()


def follows_topics(node, start):
    for topic in ("logs-a", "other", "my-logs-a"):
        cli(node, "topic", "create", topic).ok()
        produce(node, topic, "1")
    with start(PATTERN) as member:
        wanted = [("logs-a", "1")]
        until(lambda: member.records == wanted)
        cli(node, "topic", "create", "logs-b").ok()
        produce(node, "logs-b", "2")
        wanted.append(("logs-b", "2"))
        until(lambda: member.records == wanted)
        equal(member.owned, {"logs-a", "logs-b"}, "owns")
        cli(node, "topic", "delete", "logs-a").ok()
        until(lambda: member.owned == {"logs-b"})
        produce(node, "logs-b", "3")
        wanted.append(("logs-b", "3"))
        until(lambda: member.records == wanted)
        equal(member.end(), 0, f"exit ({member.errors})")
        equal((member.records, member.errors), (wanted, []), "records and errors")


def run_client(name, refusal):
    """refusal: of a pattern that is none, in the client's words."""
    tally = collections.Counter()
    ready = prepared([Client(CLIENTS / name, None)], tally)
    if not ready:
        expect(tally["failed"] == 0, f"{name} is not there")
        return
    client = ready[0]
    with server(f"group_patterns_{name}", *SETTINGS) as node:
        def start(pattern):
            return Program([*client.fill(client.about["program"]), node.kafka, "pattern", "g", pattern])
        follows_topics(node, start)
        with start(NO_PATTERN) as member:
            until(lambda: member.errors)
            equal(member.end(), 0, "exit")
            equal([error for error in member.errors if error == refusal], [refusal], f"errors ({member.errors})")


def test_java():
    run_client("java", "INVALID_REGULAR_EXPRESSION")


def test_librdkafka():
    run_client("confluent_kafka", "Fatal error: Broker: The regular expression is not valid: ConsumerGroupHeartbeat fatal error: "
               "Broker: The regular expression is not valid")


def test_our_own():
    environment, destination = install("group_patterns_library")
    program = compile_example("member", environment, destination)
    with server("group_patterns_own", *SETTINGS) as node:
        def start(pattern):
            return Example([program, node.kafka, "g", pattern], env=environment)
        follows_topics(node, start)
        with start(NO_PATTERN) as member:
            equal(member.process.wait(timeout=30), 1, "exit")
            member.end()
            equal(member.errors, [f"member: group 'g': SubscribedTopicRegex `{NO_PATTERN}` is not a valid regular expression: invalid escape sequence."],
                  "errors")


run_all(globals())

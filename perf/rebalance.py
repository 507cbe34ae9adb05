#!/usr/bin/env python3
"""G18: ten consumers of KIP-848 on 900 fed partitions; one joins, one leaves. Ours and Apache Kafka, A B B A.

Usage: rebalance.py [--partitions N] [--members N] [--rounds N] [--only coreflume|kafka|no_hold] [--once]

The consumers are Kafka's own (tests/interop/clients/java), with the defaults of both servers. Per event: ms until the
group was balanced and nothing changed any more, from the subscribe or the close of one that had its connections (`whole_ms`:
from the making of its consumer), partitions moved, and the longest silence of a partition that stayed
(`quiet`: the same over 7 s without an event). One line of JSON per server and event: median, smallest, largest.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "interop"))
sys.path.insert(0, str(ROOT / "perf"))
from restart import spread  # noqa: E402
from support import kafka_tools  # noqa: E402
from support.node import Node, fresh_dir  # noqa: E402

PROGRAM = ROOT / "perf" / "rebalance" / "Rebalance.java"


def start(server):
    if server == "kafka":
        return kafka_tools.ApacheKafka("rebalance-kafka")
    options = ["--set", "coreflume.group.heartbeat.hold=false"] if server == "no_hold" else []
    return Node(fresh_dir("rebalance"), *options)


def run(server, options, events):
    with start(server) as node:
        command = ["java", "-cp", f"{kafka_tools.INSTALLED}/dependency/*", PROGRAM, node.kafka, options.partitions,
                   options.members, options.rounds]
        process = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if process.returncode != 0:
            raise SystemExit(f"rebalance: {server}: {process.stderr[-2000:]}")
    for line in process.stdout.splitlines():
        event = json.loads(line)
        print(json.dumps({"server": server, **event}), file=sys.stderr, flush=True)
        for name in ("ms", "whole_ms", "moved", "gap_ms"):
            events[server, event["event"]][name].append(event[name])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("partitions", 900), ("members", 10), ("rounds", 3)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--only")
    parser.add_argument("--once", action="store_true", help="A B instead of A B B A")
    options = parser.parse_args()
    kafka_tools.install()
    servers = [options.only] if options.only else ["coreflume", "kafka", "kafka", "coreflume"][:2 if options.once else 4]
    events = collections.defaultdict(lambda: collections.defaultdict(list))
    for server in servers:
        run(server, options, events)
    for (server, event), values in sorted(events.items()):
        print(json.dumps({"server": server, "event": event, **{name: spread(v) for name, v in values.items()}}))


if __name__ == "__main__":
    main()

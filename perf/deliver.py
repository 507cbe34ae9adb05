#!/usr/bin/env python3
"""G21: what a delivered GB costs when 1, 10, 100 consumer groups read one topic at the same time.

Usage: deliver.py [--groups N,N,...] [--partitions N] [--records N] [--rounds N] [-- NODE OPTIONS]

A topic of `records` records of 1 KiB is written once, small enough to be read from memory. Each measurement delivers it
to as many groups as the largest number: all at a time, or ten after ten, or one after the other, so that joins,
commits and bytes are the same and only what happens at the same time differs. The groups are of KIP-848 and our
client's, with their commits. CPU of the node by its own count, per GB of values; interleaved, `rounds` times.
One line of JSON per number of groups, and its ratio to the one before.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "interop"))
sys.path.insert(0, str(ROOT / "perf"))
from restart import cpu_ms, spread  # noqa: E402
from support.node import Node, fresh_dir  # noqa: E402

TOPIC, RECORD_SIZE = "t", 1024
PROGRAMS = ROOT / "build" / "release" / "perf"


def fill(node, options):
    binary = ROOT / "build" / "release" / "coreflume"
    subprocess.run([binary, "topic", "create", "-b", node.kafka, TOPIC, "-p", str(options.partitions)], check=True,
                   stdout=subprocess.DEVNULL)
    values = b"".join(b"%0*d\n" % (RECORD_SIZE, number) for number in range(options.records))
    subprocess.run([binary, "produce", TOPIC, "-b", node.kafka], input=values, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def deliver(node, options, groups, name):
    """Milliseconds of the node's CPU per GB, and GB a second."""
    total = max(options.groups)
    began_ms, began, size = cpu_ms(node.process.pid), time.monotonic(), 0
    for turn in range(total // groups):
        command = [PROGRAMS / "deliver", node.kafka, TOPIC, str(groups), str(options.records), f"{name}-{turn}"]
        size += int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    if size != total * options.records * RECORD_SIZE:
        raise SystemExit(f"deliver: {size} bytes were read, not {total * options.records * RECORD_SIZE}")
    return (cpu_ms(node.process.pid) - began_ms) / (size / 1e9), size / 1e9 / (time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", default="1,10,100")
    for name, value in (("partitions", 8), ("records", 98304), ("rounds", 5)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("node", nargs="*", default=["--set", "coreflume.memory=1GiB"])
    options = parser.parse_args()
    options.groups = sorted(map(int, options.groups.split(",")))
    costs, speeds = collections.defaultdict(list), collections.defaultdict(list)
    with Node(fresh_dir("deliver"), *options.node) as node:
        fill(node, options)
        deliver(node, options, max(options.groups), "warm")
        for turn in range(options.rounds):
            for groups in options.groups if turn % 2 else reversed(options.groups):
                cost, speed = deliver(node, options, groups, f"g{groups}-{turn}")
                print(f"groups={groups} ms_per_gb={cost:.0f} gb_per_s={speed:.2f}", file=sys.stderr, flush=True)
                costs[groups].append(cost)
                speeds[groups].append(speed)
    before = None
    for groups in options.groups:
        line = {"groups": groups, "cpu_ms_per_gb": spread(costs[groups]), "gb_per_s": spread(speeds[groups])}
        if before:
            line["ratio_to_fewer"] = spread([a / b for a, b in zip(costs[groups], costs[before])])
        print(json.dumps(line))
        before = groups


if __name__ == "__main__":
    main()

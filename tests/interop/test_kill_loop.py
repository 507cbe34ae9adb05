#!/usr/bin/env python3
"""kill -9, again and again, under two librdkafka producers, one of them idempotent.

Afterwards every acknowledged record stands at the offset its acknowledgement named, offsets have no
gaps, and no record of the idempotent producer stands twice.

usage: test_kill_loop.py [--rounds N] [--seed N]
"""
import argparse
import collections
import os
import pathlib
import random
import subprocess
import sys
import time

from support.node import ROOT, Node, fresh_dir

PARTITIONS = 3
DELAY_US = 300


class Producer:
    def __init__(self, node, topic, kind, directory):
        path = pathlib.Path(os.environ.get("COREFLUME", ROOT / "build/release/coreflume")).parent
        self.topic, self.kind = topic, kind
        self.path = directory / f"{topic}.acks"
        self.process = subprocess.Popen(
            [path / "tests/interop/rdkafka_producer", node.kafka, topic, kind, str(DELAY_US)],
            stdin=subprocess.PIPE, stdout=open(self.path, "w"), stderr=subprocess.DEVNULL)

    def finish(self):
        self.process.stdin.close()
        self.process.wait(timeout=120)

    def results(self):
        """{number: (partition, offset)} of the acknowledged, and the other lines."""
        acked, others = {}, []
        for line in self.path.read_text().splitlines():
            word, rest = line.split(" ", 1)
            if word == "acked":
                number, partition, offset = map(int, rest.split())
                acked[number] = (partition, offset)
            else:
                others.append(line)
        return acked, others


def read_all(node, topic):
    """{(partition, offset): number}, and whether the offsets of each partition are 0, 1, 2 ..."""
    done = subprocess.run(["kcat", "-b", node.kafka, "-C", "-t", topic, "-o", "beginning", "-e", "-q",
                           "-f", "%p %o %s\n"], capture_output=True, text=True, timeout=300, check=True)
    stored, next_offset = {}, collections.Counter()
    gaps = []
    for line in done.stdout.splitlines():
        partition, offset, number = map(int, line.split())
        if offset != next_offset[partition]:
            gaps.append((partition, offset))
        next_offset[partition] = offset + 1
        stored[partition, offset] = number
    return stored, gaps


def verify(node, producer):
    """Returns (acknowledged, lost, twice, problems)."""
    acked, others = producer.results()
    stored, gaps = read_all(node, producer.topic)
    lost = [n for n, place in acked.items() if stored.get(place) != n]
    times = collections.Counter(stored.values())
    twice = [n for n, count in times.items() if count > 1]
    problems = [f"gap before {gap}" for gap in gaps[:3]] + [f"lost {n} at {acked[n]}" for n in lost[:3]]
    if producer.kind == "idempotent":
        problems += [f"twice {n}" for n in twice[:3]]
        problems += [line for line in others if line.startswith("fatal")]
    print(f"{producer.kind}: acknowledged {len(acked)}, stored {len(stored)}, lost {len(lost)}, "
          f"twice {len(twice)}, failed {len(others)}", flush=True)
    return len(acked), problems


def start(directory, kafka, rng):
    """Sometimes on one core, sometimes on all: placement must not matter."""
    return Node(directory / "data", "--cores", rng.choice(["0", "all"]), "--set", f"num.partitions={PARTITIONS}",
                "--set", "log.segment.bytes=1MiB", kafka=kafka)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"kill loop: rounds {options.rounds}, seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    directory = fresh_dir("kill_loop")

    node = start(directory, "127.0.0.1:0", rng)
    kafka = node.kafka
    producers = [Producer(node, f"{kind}-topic", kind, directory) for kind in ("plain", "idempotent")]
    slowest = 0.0
    for _ in range(options.rounds):
        time.sleep(rng.uniform(0.05, 0.6))
        node.kill()
        node.__exit__()
        began = time.monotonic()
        node = start(directory, kafka, rng)
        slowest = max(slowest, time.monotonic() - began)
    time.sleep(1)
    for producer in producers:
        producer.finish()

    failed = 0
    for producer in producers:
        acknowledged, problems = verify(node, producer)
        if not acknowledged:
            problems.append("nothing was acknowledged")
        for problem in problems:
            print(f"not ok {producer.kind}: {problem}", flush=True)
        failed += bool(problems)
    code, seconds = node.stop()
    node.__exit__()
    if code != 0:
        print(f"not ok: the last stop exits {code}")
        failed += 1
    print(f"slowest start {slowest:.2f} s, stop {seconds:.2f} s")
    print(f"{len(producers) + 1 - failed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


main()

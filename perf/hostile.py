#!/usr/bin/env python3
"""What crowds that mean harm cost a client who does nothing wrong: his produce p99 beside them, as a ratio to his p99
without them in the same run.

Usage: hostile.py [--rounds N] [--seconds S] [--rate N] [--memory MIB] [ATTACK ...]      (default: all)

The node has core 0 to itself, crowd and client share the others. A round is S seconds without the crowd and S with it,
in turns; the client sends batches of one 1 KiB record at a fixed rate, and a latency begins when its batch was due.
One line of JSON per attack: the ratio's median, smallest and largest, both p99, the node's CPU and memory meanwhile.

  half     10,000 connections, each with half a frame
  slow     100 producers that send a byte a second
  sleep    60 readers that ask for all there is and never read
  session  fetch sessions opened and left, 1,000 a second
  unknown  Metadata of 1,000 topics that are not there, 100 a second
  churn    2,000 connections a second that come, ask and go
  giant    500 requests a second whose counts are 2 billion
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import resource
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "interop"))
sys.path.insert(0, str(ROOT / "perf"))
import bench  # noqa: E402
from restart import spread  # noqa: E402
from support import wire  # noqa: E402
from support.crowd import dial, frame  # noqa: E402

TOPIC, LARGE, PARTITIONS = "neighbour", "large", 8


def paced(per_second, act, stop):
    """Acts so often, in bursts of some ms; what cannot be kept up is left out."""
    began, done = time.monotonic(), 0
    while not stop.is_set():
        due = int((time.monotonic() - began) * per_second)
        for _ in range(min(due - done, per_second // 20 + 1)):
            act()
        done = due
        time.sleep(0.002)


class Line:
    """A connection that answers are read from and forgotten."""

    def __init__(self, node):
        self.socket = dial(node)
        self.socket.setblocking(False)

    def send(self, data):
        try:
            self.socket.send(data)
            self.socket.recv(1 << 20)
        except BlockingIOError:
            pass


def half(node, ready, stop):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    data = frame("metadata", 12, {"topics": None})[:12]
    crowd = []
    for _ in range(10000):
        crowd.append(dial(node))
        crowd[-1].sendall(data)
    ready.set()
    stop.wait()


def slow(node, ready, stop):
    data = frame("produce", 9, {"acks": -1, "timeout_ms": 1000, "transactional_id": None, "topic_data": [
        {"name": TOPIC, "partition_data": [{"index": 0, "records": wire.batch([bytes(200)])}]}]})
    crowd = [dial(node) for _ in range(100)]
    ready.set()
    at = 0
    while not stop.wait(1):
        for s in crowd:
            s.send(data[at % len(data):][:1])
        at += 1


def sleep(node, ready, stop):
    partitions = [{"partition": p, "fetch_offset": 0, "partition_max_bytes": 1 << 23, "current_leader_epoch": -1}
                  for p in range(PARTITIONS)]
    data = frame("fetch", 11, {"replica_id": -1, "max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 26,
                               "session_epoch": -1, "topics": [{"topic": LARGE, "partitions": partitions}]})
    crowd = [dial(node) for _ in range(60)]
    for s in crowd:
        s.sendall(data * 4)
    ready.set()
    stop.wait()


def session(node, ready, stop):
    data = frame("fetch", 12, {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": 0, "topics": [
        {"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 1 << 40, "partition_max_bytes": 1 << 20}]}]})

    def act():
        with dial(node) as s:
            s.sendall(data)
            s.recv(1 << 16)
    ready.set()
    paced(1000, act, stop)


def unknown(node, ready, stop):
    data = frame("metadata", 12, {"allow_auto_topic_creation": 0, "topics": [{"name": f"unknown-{i}"} for i in range(1000)]})
    line = Line(node)
    ready.set()
    paced(100, lambda: line.send(data), stop)


def churn(node, ready, stop):
    data = frame("api_versions", 3, {})

    def act():
        with dial(node) as s:
            s.sendall(data)
    ready.set()
    paced(2000, act, stop)


def giant(node, ready, stop):
    data = frame("metadata", 12, {"topics": []})
    data = data[:-5] + b"\xff\xff\xff\xff\x07"

    def act():
        with dial(node) as s:
            s.sendall(data)
    ready.set()
    paced(500, act, stop)


ATTACKS = {f.__name__: f for f in (half, slow, sleep, session, unknown, churn, giant)}


def rss_mib(node):
    for line in open(f"/proc/{node.process.pid}/status", encoding="ascii"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) >> 10
    raise ValueError("no VmRSS")


def window(node, options):
    """p99 of the client in us, and the node's CPU in that time."""
    before = node.cpu_seconds()
    figures = bench.load(node, TOPIC, conns=1, window=64, records=1, record=1024, rate=options.rate, seconds=options.seconds,
                         warmup=0.5)
    return figures["p99_us"], node.cpu_seconds() - before


def measure(name, options):
    quiet, attacked, ratios, cpu, rss = [], [], [], [], 0
    bench.SCRATCH.mkdir(parents=True, exist_ok=True)
    everywhere = os.sched_getaffinity(0)
    with bench.Node("--cores", "0", "--memory", f"{options.memory}MiB", "--set", "auto.create.topics.enable=false") as node:
        os.sched_setaffinity(0, everywhere - {0} or everywhere)
        node.create(TOPIC)
        node.create(LARGE, PARTITIONS)
        bench.load(node, LARGE, partitions=PARTITIONS, conns=1, window=4, records=60, record=1024, seconds=0.5, warmup=0)
        for _ in range(options.rounds):
            p99, idle_cpu = window(node, options)
            ready, stop = multiprocessing.Event(), multiprocessing.Event()
            crowd = multiprocessing.Process(target=ATTACKS[name], args=(node, ready, stop), daemon=True)
            crowd.start()
            ready.wait(60)
            p99_beside, busy_cpu = window(node, options)
            rss = max(rss, rss_mib(node))
            stop.set()
            crowd.join(20)
            quiet.append(p99)
            attacked.append(p99_beside)
            ratios.append(p99_beside / p99)
            cpu.append((busy_cpu - idle_cpu) / options.seconds * 100)
        os.sched_setaffinity(0, everywhere)
    return {"attack": name, "ratio": spread(ratios), "p99_us": spread(quiet), "p99_us_beside": spread(attacked),
            "cpu_percent_more": round(statistics.median(cpu), 1), "rss_mib_max": rss}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attacks", nargs="*", metavar="ATTACK")
    for name, value in (("rounds", 5), ("seconds", 3), ("rate", 300), ("memory", 64)):
        parser.add_argument("--" + name, type=int, default=value)
    options = parser.parse_args()
    for name in options.attacks or ATTACKS:
        print(json.dumps(measure(name, options)), flush=True)


if __name__ == "__main__":
    main()

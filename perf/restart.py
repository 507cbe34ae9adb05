#!/usr/bin/env python3
"""Restart of a node with many partitions after kill -9: what it costs in time, memory, descriptors, disk.

Usage: restart.py [--partitions N] [--rolled N] [--runs N] [--data DIR] [-- NODE OPTIONS]

Every partition gets acknowledged records; `rolled` of them also a segment that is closed. The node is
killed right after the last acknowledgement, started again, and asked by Fetch for the last record of
every partition as soon as it says that it is ready. One line of JSON.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "interop"))
from support.node import Node, fresh_dir  # noqa: E402
from support.wire import Connection, array, batch, batches, i8, i16, i32, i64, string  # noqa: E402

AT_ONCE = 200  # Partitions of one request.
SEGMENT_SIZE = 1 << 20
HUGE_PAGE_KIB = 2048


def produce(connection, topic, partitions, data):
    """Produce v7 of the same batch to many partitions; every one must be acknowledged."""
    body = string(None) + i16(-1) + i32(30000) + array([string(topic) + array(
        [i32(p) + i32(len(data)) + data for p in partitions])])
    reader = connection.ask(0, 7, body)

    def answer(r):
        partition, error = r.i32(), r.i16()
        r.i64(), r.i64(), r.i64()
        return partition, error
    answers = reader.array(lambda r: (r.string(), r.array(answer)))[0][1]
    bad = [a for a in answers if a[1] != 0]
    if bad or len(answers) != len(partitions):
        raise SystemExit(f"restart: {topic} did not acknowledge: {bad[:3]}")


def last_record(connection, topic, partitions, offset):
    """Fetch v4 at offset from many partitions; each must answer with a batch that ends there."""
    body = i32(-1) + i32(1000) + i32(1) + i32(1 << 28) + i8(0) + array([string(topic) + array(
        [i32(p) + i64(offset) + i32(1 << 20) for p in partitions])])
    reader = connection.ask(1, 4, body)
    reader.i32()

    def answer(r):
        partition, error, high = r.i32(), r.i16(), r.i64()
        r.i64()
        for _ in range(max(r.i32(), 0)):
            r.take(16)
        return partition, error, high, r.bytes()
    answers = reader.array(lambda r: (r.string(), r.array(answer)))[0][1]
    for partition, error, high, data in answers:
        found = batches(data) if error == 0 else []
        if not found or found[-1][0] + found[-1][2] != offset or high != offset + 1:
            raise SystemExit(f"restart: {topic}-{partition}: error {error}, high watermark {high}, "
                             f"{len(data or b'')} bytes instead of the record at {offset}")
    return len(answers)


def memory(pid):
    """KiB of the process: anonymous memory, of it in transparent huge pages, and explicit huge pages."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()

    def field(text, name):
        match = re.search(rf"{name}:\s+(\d+)", text)
        return int(match.group(1)) if match else 0
    return {"anon": field(status, "RssAnon"), "anon_huge": field(rollup, "AnonHugePages"),
            "hugetlb": field(status, "HugetlbPages"), "rss": field(status, "VmRSS")}


def cpu_ms(pid):
    """CPU time of the process so far: what a busy machine does not distort."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def chunks(count):
    return [range(at, min(at + AT_ONCE, count)) for at in range(0, count, AT_ONCE)]


def fill(node, small_count, rolled_count):
    """Returns {topic: (partitions, offset of the last record)}."""
    topics = {}
    command = [str(pathlib.Path(node.process.args[0])), "topic", "create", "-b", node.kafka]
    subprocess.run([*command, "small", "-p", str(small_count)], check=True, stdout=subprocess.DEVNULL)
    if rolled_count > 0:
        subprocess.run([*command, "rolled", "-p", str(rolled_count), "-c", f"segment.bytes={SEGMENT_SIZE}",
                        "-c", "retention.ms=-1"],
                       check=True, stdout=subprocess.DEVNULL)
    record = batch([b"x" * 100])
    with Connection(node.kafka, seconds=60) as connection:
        if rolled_count > 0:
            half = batch([b"y" * (SEGMENT_SIZE * 5 // 8)])
            for _ in range(2):  # The second one does not fit any more.
                for at in range(0, rolled_count, 8):
                    produce(connection, "rolled", range(at, min(at + 8, rolled_count)), half)
            topics["rolled"] = (rolled_count, 2)
        for partitions in chunks(rolled_count):
            produce(connection, "rolled", partitions, record)
        for partitions in chunks(small_count):
            produce(connection, "small", partitions, record)
    topics["small"] = (small_count, 0)
    return topics


def verify(node, topics):
    answered = 0
    with Connection(node.kafka, seconds=60) as connection:
        for topic, (count, offset) in topics.items():
            for partitions in chunks(count):
                answered += last_record(connection, topic, partitions, offset)
    return answered


def empty_start(runs, options):
    """ms from the start on an empty directory to the ready line, and to the first acknowledged record."""
    ready, acked = [], []
    for _ in range(runs):
        data = fresh_dir("restart-empty")
        began = time.monotonic()
        with Node(data, *options) as node:
            ready.append((time.monotonic() - began) * 1000)
            with Connection(node.kafka) as connection:
                connection.create_topic("first")
                error = connection.produce("first", 0, batch([b"x"]))[0]
                acked.append((time.monotonic() - began) * 1000)
                if error != 0:
                    raise SystemExit(f"restart: the first record was refused: {error}")
        shutil.rmtree(data)
    return ready, acked


def measure(partitions, rolled, runs, data, options=()):
    small = partitions - rolled
    with Node(data, *options, ready_seconds=60) as node:
        topics = fill(node, small, rolled)
        node.kill()
    ready, cpu = [], []
    for _ in range(runs):
        began = time.monotonic()
        with Node(data, *options, ready_seconds=120) as node:
            ready.append((time.monotonic() - began) * 1000)
            cpu.append(cpu_ms(node.process.pid))
            idle = memory(node.process.pid)
            descriptors = len(os.listdir(f"/proc/{node.process.pid}/fd"))
            answered = verify(node, topics)
            if answered != partitions:
                raise SystemExit(f"restart: {answered} of {partitions} partitions answered")
            after = memory(node.process.pid)
            node.kill()
    disk = int(subprocess.run(["du", "-sk", str(data)], capture_output=True, text=True, check=True).stdout.split()[0])
    first_ready, first_acked = empty_start(runs, options)
    figures = {"partitions": partitions, "rolled": rolled, "ready_ms": spread(ready), "ready_cpu_ms": spread(cpu),
               "anon_MiB": idle["anon"] / 1024, "hugetlb_MiB": idle["hugetlb"] / 1024,
               "anon_huge_MiB": idle["anon_huge"] / 1024, "anon_after_reading_MiB": after["anon"] / 1024,
               "descriptors": descriptors, "disk_MiB": disk / 1024,
               "empty_ready_ms": spread(first_ready), "empty_first_ack_ms": spread(first_acked)}
    return figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=10000)
    parser.add_argument("--rolled", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", default=None)
    parser.add_argument("options", nargs="*")
    a = parser.parse_args()
    data = pathlib.Path(a.data) if a.data else fresh_dir("restart")
    print(json.dumps(measure(a.partitions, a.rolled, a.runs, data, a.options)))
    if not a.data:
        shutil.rmtree(data)


if __name__ == "__main__":
    main()

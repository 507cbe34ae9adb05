#!/usr/bin/env python3
"""Figures of reading, as ratios of one run: cold reads against the disk, reads by reference against copies, and
what a consumer that catches up costs those who write and those who read the tail (G26).

Usage: reads.py [--runs N] [NAME ...]     NAME: cold shared refs laggard (default: all)

Prints one JSON object. The cache is kept small (128 MiB of memory for one or two cores), so that what was written
some hundred MB ago comes from the disk.
"""
import argparse
import json
import shutil
import subprocess
import time

import bench

SCRATCH = bench.SCRATCH / "reads"
MEMORY = "128MiB"
COLD_MB = 1000  # Written before cold reads.
NO_AHEAD = ("--set", "coreflume.readahead.bytes=0")
NO_REFS = ("--set", "coreflume.fetch.pinned.bytes=0")


def start(name, *arguments):
    """A node with a directory of its own, so that two can be compared in turns."""
    bench.SCRATCH = SCRATCH / name
    bench.SCRATCH.mkdir(parents=True, exist_ok=True)
    return bench.Node("--memory", MEMORY, *arguments)


def begin(tool, node, topic, **options):
    command = [str(bench.BUILD / "perf" / tool), "--broker", node.kafka, "--topic", topic]
    for key, value in options.items():
        command += [f"--{key}", str(value)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def result(process):
    text, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"reads: {' '.join(process.args)} failed")
    return json.loads(text)


def fill(node, topic, megabytes, records=63):
    """About so many MB in batches of so many KiB."""
    written = 0
    while written < megabytes * 1e6:
        written += result(begin("load", node, topic, conns=2, window=4, records=records, seconds=0.5, warmup=0))["bytes"]


def fetch(node, topic, **options):
    before = node.cpu_seconds()
    figures = result(begin("fetch", node, topic, **options))
    figures["MB_per_s"] = figures["bytes"] / figures["seconds"] / 1e6
    figures["ns_per_byte"] = (node.cpu_seconds() - before) / figures["bytes"] * 1e9
    return figures


def read_by_fio(size):
    """MB/s of reads one after the other; the file is written by the first call."""
    bench.SCRATCH = SCRATCH
    job = bench.fio("read", 2, "--rw=read", f"--bs={size}", "--iodepth=1", "--ioengine=io_uring")
    return job["read"]["bw_bytes"] / 1e6


def over(xs, ys):
    return bench.median([x / y for x, y in zip(xs, ys)])


def measure_cold(runs):
    """One consumer through a log on disk, with and without reading ahead, against fio one read at a time."""
    ahead, plain, small, large, ns = [], [], [], [], []
    with start("a") as a, start("b", *NO_AHEAD) as b:
        for node in (a, b):
            node.create("cold")
            fill(node, "cold", COLD_MB)
        for _ in range(runs):
            figures = fetch(a, "cold", once=1, seconds=20)
            ahead.append(figures["MB_per_s"])
            ns.append(figures["ns_per_byte"])
            plain.append(fetch(b, "cold", once=1, seconds=20)["MB_per_s"])
            small.append(read_by_fio("128k"))
            large.append(read_by_fio("1m"))
    return {"MB_per_s": bench.median(ahead), "without_MB_per_s": bench.median(plain),
            "fio_128k_MB_per_s": bench.median(small), "fio_1m_MB_per_s": bench.median(large),
            "ratio_to_fio_1m": over(ahead, large), "without_ratio_to_fio_1m": over(plain, large),
            "cpu_ns_per_byte": bench.median(ns), "command": "fetch --once 1"}


def measure_shared(runs):
    """Sixteen consumers, each through a partition of its own on disk, on one core (between cores the kernel decides): the
    sum against fio, the slowest against the fastest."""
    rates, fair, large = [], [], []
    with start("a", "--cores", "0") as node:
        node.create("shared", 16)
        fill_all = COLD_MB / 16
        for _ in range(16):
            result(begin("load", node, "shared", partitions=16, conns=16, window=1, seconds=fill_all / 60, warmup=0))
        for _ in range(runs):
            figures = fetch(node, "shared", partitions=16, conns=16, seconds=2)
            rates.append(figures["MB_per_s"])
            fair.append(figures["bytes_least"] / figures["bytes_most"])
            large.append(read_by_fio("1m"))
    return {"MB_per_s": bench.median(rates), "ratio_to_fio_1m": over(rates, large),
            "slowest_to_fastest": bench.median(fair), "command": "fetch --partitions 16 --conns 16 --seconds 2"}


def measure_refs(runs):
    """Broker CPU per byte that two consumers take, by reference and copied, in turns; batches of 16, 63 and 500 KiB, of the
    tail in memory and from disk. Ratio below 1: by reference is cheaper."""
    figures = {"command": "fetch --conns 2 --seconds 1.5, with and without " + " ".join(NO_REFS)}
    for records in (16, 63, 500):
        for kind, megabytes in (("tail", 8), ("cold", 400)):
            ours, copied = [], []
            with start("a", "--cores", "0") as a, start("b", "--cores", "0", *NO_REFS) as b:
                for node in (a, b):
                    node.create("refs")
                    fill(node, "refs", megabytes, records)
                for _ in range(runs):
                    ours.append(fetch(a, "refs", conns=2, seconds=1.5)["ns_per_byte"])
                    copied.append(fetch(b, "refs", conns=2, seconds=1.5)["ns_per_byte"])
            name = f"{kind}_{records}KiB"
            figures[f"{name}_ns_per_byte"] = bench.median(ours)
            figures[f"{name}_ratio_to_copied"] = over(ours, copied)
    return figures


def measure_laggard(runs):
    """G26: p99 of produce at 1,000 requests a second of 1 KiB, and of a consumer of the tail, beside a consumer that
    catches up from disk, against the same without it."""
    produce = {"conns": 4, "window": 64, "records": 1, "record": 1024, "rate": 1000, "seconds": 3, "warmup": 1}
    alone, beside, tail_alone, tail_beside, cold = [], [], [], [], []
    with start("a") as node:
        node.create("old")
        node.create("new")
        fill(node, "old", 2 * COLD_MB)
        for _ in range(runs):
            for has_laggard in (False, True):
                laggard = begin("fetch", node, "old", seconds=4.5) if has_laggard else None
                tail = begin("fetch", node, "new", **{"from": "end"}, seconds=4)
                figures = result(begin("load", node, "new", **produce))
                (beside if has_laggard else alone).append(figures["p99_us"])
                (tail_beside if has_laggard else tail_alone).append(result(tail)["p99_us"])
                if has_laggard:
                    figures = result(laggard)
                    cold.append(figures["bytes"] / figures["seconds"] / 1e6)
                time.sleep(0.5)
    options = " ".join(f"--{key} {value}" for key, value in produce.items())
    return {"produce_p99_us": bench.median(alone), "produce_p99_us_beside": bench.median(beside),
            "produce_p99_ratio": over(beside, alone), "tail_fetch_p99_us": bench.median(tail_alone),
            "tail_fetch_p99_us_beside": bench.median(tail_beside), "tail_fetch_p99_ratio": over(tail_beside, tail_alone),
            "laggard_MB_per_s": bench.median(cold), "command": f"load {options}; fetch; fetch --from end"}


MEASURES = {key[8:]: value for key, value in list(globals().items()) if key.startswith("measure_")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runs", type=int, default=bench.RUNS)
    arguments = parser.parse_args()
    names = arguments.names or list(MEASURES)
    unknown = [name for name in names if name not in MEASURES]
    if unknown:
        raise SystemExit(f"reads: no such figure: {unknown[0]} (there are: {' '.join(MEASURES)})")
    try:
        print(json.dumps({name: MEASURES[name](arguments.runs) for name in names}, indent=1))
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    main()

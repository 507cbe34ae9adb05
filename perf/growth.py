#!/usr/bin/env python3
"""G19, G20, G22: ten times the partitions or connections at the same rate, and a second shard: what they cost.

Usage: growth.py [--rounds N] [NAME ...]     NAME: partitions connections producers shards (default: all)

Sizes are interleaved, forwards and backwards in turn; ratios are of one round, to the size before. CPU is the node's by
its own count over the middle of a window, latencies are of the whole window, from when a record was due.
Writes perf/results/<date>-growth.{json,md}.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import datetime
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "interop"))
sys.path.insert(0, str(ROOT / "perf"))
from bench import machine, median  # noqa: E402
from restart import cpu_ms, memory  # noqa: E402
from support.node import Node, binary, fresh_dir  # noqa: E402

LOAD = ROOT / "build" / "release" / "perf" / "load"
SIZES = (100, 1000, 10000)
RATE, WARMUP, SECONDS = 2000, 2, 6
ROW = re.compile(rb"\s+\d+\.\d ")


def rows_of(process, terminal, pid):
    """The node's CPU and memory at the end of each second that bench tells to its terminal."""
    marks = []
    with contextlib.suppress(OSError), open(terminal, "rb", buffering=0) as rows:  # EIO: bench is gone.
        text = b""
        while part := rows.read(4096):
            *lines, text = (text + part).split(b"\n")
            marks += [(time.monotonic(), cpu_ms(pid), memory(pid)["anon"]) for line in lines if ROW.match(line)]
    return marks


def bench(node, topic, *options, rate=RATE, seconds=SECONDS, warmup=WARMUP):
    """One window of `coreflume bench`: its figures, and the node's."""
    command = [binary(), "bench", topic, "--rate", str(rate), "--duration", str(seconds), "--warmup", str(warmup),
               *options, "--json", "-b", node.kafka]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    marks = rows_of(process, ours, node.process.pid)
    window = json.loads(process.communicate()[0])["windows"][0]
    if process.returncode != 0:
        raise SystemExit(f"growth: {' '.join(command)}: {window['records']}, {window['first_failure']}")
    (from_s, from_ms, _), (to_s, to_ms, anon) = marks[0], marks[-2]
    end_to_end = window["end_to_end"] or {}
    return {"cpu_s_per_million": (to_ms - from_ms) / 1000 / (to_s - from_s) / rate * 1e6,
            "publish_p50_us": window["publish"]["p50_us"], "publish_p99_us": window["publish"]["p99_us"],
            **({"end_to_end_p99_us": end_to_end["p99_us"]} if end_to_end else {}),
            "anon_KiB": anon, "generator_cpus": window["generator"]["cpus"]}


def load(node, **options):
    command = [LOAD, "--broker", node.kafka, *(word for key, value in options.items() for word in (f"--{key}", str(value)))]
    before = cpu_ms(node.process.pid)
    done = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return done | {"cpu_s_per_million": (cpu_ms(node.process.pid) - before) / 1000 / done["all_records"] * 1e6}


def load_all(nodes, rate, conns, **options):
    """The load in equal parts, at once: CPU per message of all, the worst p99."""
    share = {"rate": rate // len(nodes), "conns": conns // len(nodes)}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        parts = list(pool.map(lambda node: load(node, **share, **options), nodes))
    return {"cpu_s_per_million": sum(part["cpu_s_per_million"] * part["records"] for part in parts) /
            sum(part["records"] for part in parts), "p99_us": max(part["p99_us"] for part in parts)}


def create(node, topic, partitions):
    began = time.monotonic()
    subprocess.run([binary(), "topic", "create", topic, "-p", str(partitions), "-b", node.kafka], check=True,
                   stdout=subprocess.DEVNULL)
    return (time.monotonic() - began) * 1000


def grow(rounds, sizes, measure):
    """measure(size) for all, in turns; the figures of each size, and how the first two grew since the size before."""
    figures, before = collections.defaultdict(lambda: collections.defaultdict(list)), None
    for turn in range(rounds):
        for size in sizes if turn % 2 == 0 else reversed(sizes):
            for key, value in measure(size).items():
                figures[size][key].append(value)
            print(f"growth: {size}: " + ", ".join(f"{k} {v[-1]:.0f}" for k, v in figures[size].items()), file=sys.stderr)
    lines = {}
    for size in sizes:
        lines[f"{size}"] = {key: median(values) for key, values in figures[size].items()}
        if before:
            for key in ("cpu_s_per_million", "publish_p99_us"):
                ratios = [a / b for a, b in zip(figures[size][key], figures[before][key])]
                lines[f"{size}"][f"{key}_ratio"] = median(ratios)
        before = size
    return lines


def growth_partitions(rounds):
    """G19: 2,000 records of 1 KiB a second, each its own request, over 100, 1,000 and 10,000 partitions in turn (all of
    them have records); 4 producers, and the same with a consumer of all partitions that reads along. A node for each size.
    Goal per decade: CPU <= 1.15, p99 <= 1.3. create_ms: one request for the whole topic."""
    with contextlib.ExitStack() as stack:
        nodes, created = {}, {}
        for size in SIZES:
            nodes[size] = stack.enter_context(Node(fresh_dir(f"growth_{size}") / "data"))
            created[size] = create(nodes[size], "t", size)
            bench(nodes[size], "t", "--consumers", "0", rate=4000, seconds=max(3, size // 3000), warmup=0)
        alone = grow(rounds, SIZES, lambda size: bench(nodes[size], "t", "--consumers", "0"))
        along = grow(rounds, SIZES, lambda size: bench(nodes[size], "t", "--consumers", "1"))
    return {**{f"produce, {size} partitions": figures | {"create_ms": created[int(size)]} for size, figures in alone.items()},
            **{f"produce and fetch, {size} partitions": figures for size, figures in along.items()}}


def growth_connections(rounds):
    """G20: 2,000 records of 1 KiB a second into 8 partitions from 10, 100 and 1,000 producers, beside nine times as many
    connections that ask something once a minute each (150 requests a second of 9,000). Goal per decade: CPU <= 1.05.
    of_an_idle_one_KiB: by how much more the memory of a fresh node grows with 9,000 of them at a hundred records a second."""
    sparse = ("--producers", "1", "--consumers", "0")
    idle = []
    for _ in range(min(rounds, 2)):
        with Node(fresh_dir("growth_connections") / "data") as node:
            create(node, "t", 1)
            few, many = (bench(node, "t", *sparse, "--idle-connections", str(count), rate=100, seconds=3)["anon_KiB"]
                         for count in (0, 9000))
            idle.append((many - few) / 9000)
    with Node(fresh_dir("growth_connections") / "data") as node:
        create(node, "t", 8)

        def measure(size):
            return bench(node, "t", "--producers", str(size // 10), "--idle-connections", str(size - size // 10),
                         "--consumers", "0")
        bench(node, "t", "--consumers", "0")
        lines = {f"{size} connections": figures for size, figures in grow(rounds, SIZES, measure).items()}
    return lines | {"idle": {"of_an_idle_one_KiB": median(idle)}}


def growth_producers(rounds):
    """4,000 producers at a node with coreflume.memory=256MiB: each a request of one record of 1 KiB a second, then each
    a request of 15 records in flight all the time; peak_MiB is the most the process ever had in memory."""
    result = {}
    for name, options in (("4,000 requests a second", {"records": 1, "rate": 4000}), ("as fast as it goes", {"records": 15})):
        figures = collections.defaultdict(list)
        for _ in range(min(rounds, 2)):
            with Node(fresh_dir("growth_producers") / "data", "--set", "coreflume.memory=256MiB") as node:
                create(node, "load", 16)
                done = load(node, conns=4000, partitions=16, window=1, record=1024, seconds=5, warmup=2, **options)
                figures["errors"].append(done["errors"])
                figures["records_per_s"].append(done["records"] / done["seconds"])
                figures["p99_us"].append(done["p99_us"])
                figures["peak_MiB"].append(node.peak_kib() / 1024)
        result[name] = {key: median(values) for key, values in figures.items()}
    return result


def growth_shards(rounds):
    """G22: what a second shard costs. 400 requests a second of 63 records of 1 KiB, and 4,000 of one, into 4 partitions
    over 32 connections, at one node with two shards, where about half of the requests come in on the other one; at two nodes
    with one each, half of the requests to either, at once; at one node with one. same_load, two shards to two nodes: the
    same processors have the same to do, so this is the tax; goal: CPU per million <= 1.05. same_rate, to one shard: that,
    and what shards lose that are half as busy, where fewer requests share a turn and a flush."""
    kinds = {"64 KiB batches": {"records": 63, "rate": 400}, "single records": {"records": 1, "rate": 4000}}
    result = {}
    with Node(fresh_dir("growth_first") / "data", "--set", "coreflume.cores=0") as first, \
         Node(fresh_dir("growth_second") / "data", "--set", "coreflume.cores=1") as second, \
         Node(fresh_dir("growth_two") / "data", "--set", "coreflume.cores=0-1") as two:
        plan = (("two", [two]), ("apart", [first, second]), ("one", [first]))
        for node in (first, second, two):
            create(node, "load", 4)
            load(node, partitions=4, conns=32, window=16, seconds=2, warmup=0, records=63, rate=400)
        for kind, options in kinds.items():
            cpu, p99 = collections.defaultdict(list), collections.defaultdict(list)
            for turn in range(rounds):
                for name, nodes in plan[::1 if turn % 2 == 0 else -1]:
                    done = load_all(nodes, partitions=4, conns=32, window=16, seconds=5, warmup=0, record=1024, **options)
                    cpu[name].append(done["cpu_s_per_million"])
                    p99[name].append(done["p99_us"])
            result[kind] = {
                **{f"cpu_s_per_million_{name}": median(values) for name, values in cpu.items()},
                "cpu_ratio_same_load": median([a / b for a, b in zip(cpu["two"], cpu["apart"])]),
                "cpu_ratio_same_rate": median([a / b for a, b in zip(cpu["two"], cpu["one"])]),
                **{f"p99_us_{name}": median(values) for name, values in p99.items()}}
    return result


ROWS = {key[7:]: value for key, value in list(globals().items()) if key.startswith("growth_")}


def as_markdown(report):
    lines = [f"# Growth, {report['date']}", "",
             "Machine: " + ", ".join(f"{key} {value}" for key, value in report["machine"].items()) + ".",
             "Median (smallest .. largest) of the rounds of one run.", ""]
    for name, parts in report["figures"].items():
        lines += [f"## {name}", "", re.sub(r"\n +", "\n", ROWS[name].__doc__), "",
                  "| | quantity | median | min | max | runs |", "|---|---|---|---|---|---|"]
        for part, figures in parts.items():
            for key, value in figures.items():
                value = value if isinstance(value, dict) else median([value])
                lines.append(f"| {part} | {key} | {value['median']:.2f} | {value['min']:.2f} | {value['max']:.2f} | {value['runs']} |")
        lines.append("")
    return "\n".join(lines + [f"Command: `{report['command']}`", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", nargs="*", choices=[*ROWS, []], default=[])
    options = parser.parse_args()
    report = {"date": datetime.date.today().isoformat(), "machine": machine() | {"repetitions": options.rounds},
              "command": "perf/growth.py " + " ".join(sys.argv[1:]), "figures": {}}
    stem = ROOT / "perf" / "results" / f"{report['date']}-growth"
    for name in options.names or ROWS:
        report["figures"][name] = ROWS[name](options.rounds)
        print(json.dumps({name: report["figures"][name]}), flush=True)
    if stem.with_suffix(".json").exists():  # A run of some rows leaves the day's others.
        report["figures"] = json.loads(stem.with_suffix(".json").read_text())["figures"] | report["figures"]
    stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    stem.with_suffix(".md").write_text(as_markdown(report))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""First figures of one node, as ratios against floors measured in the same run.

Usage: bench.py [NAME ...]     NAME: ack cpu throughput fsync sharing compaction repack hop idle restart writes
                               steady retention full reads (default: all)

Writes perf/results/<date>-node.{json,md}. Each figure is the median of RUNS interleaved repetitions
with its smallest and largest value; the commands stand beside it.
"""
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "release"
SCRATCH = ROOT / "build" / "bench"
RUNS = 5
TICK = os.sysconf("SC_CLK_TCK")


class Node:
    """One broker process on a fresh data directory."""

    def __init__(self, *arguments):
        self.data = SCRATCH / "data"
        shutil.rmtree(self.data, ignore_errors=True)
        self.command = [str(BUILD / "coreflume"), "start", "--kafka", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                        "--data-dir", str(self.data), *arguments]
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True,
                                        stderr=open(SCRATCH / "node.log", "w"))
        ready = self.process.stdout.readline()
        match = re.match(r"ready kafka=(\S+) admin=(\S+)", ready)
        if not match:
            raise SystemExit(f"bench: the node did not start, see {SCRATCH / 'node.log'}")
        self.kafka, self.admin = match.groups()

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def create(self, topic, partitions=1, *configs):
        subprocess.run([BUILD / "coreflume", "topic", "create", topic, "-p", str(partitions), "-b", self.kafka,
                        *(word for config in configs for word in ("-c", config))],
                       check=True, stdout=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.data, ignore_errors=True)


def load(node, topic, **options):
    command = [str(BUILD / "perf" / "load"), "--broker", node.kafka, "--topic", topic]
    for key, value in options.items():
        command += [f"--{key}", str(value)]
    before = node.cpu_seconds()
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    result["broker_cpu_s_with_warmup"] = node.cpu_seconds() - before
    result["command"] = "load " + " ".join(command[1:])
    return result


def fio(name, seconds, *options):
    """One fio job on the disk the node uses; returns its job report."""
    path = SCRATCH / "fio.dat"
    command = ["fio", f"--name={name}", f"--filename={path}", "--direct=1", "--size=1g", "--overwrite=1",
               "--time_based", f"--runtime={seconds}", "--output-format=json", *options]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report["jobs"][0]


def median(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "runs": len(values)}


def echo_us(seconds=1):
    """1 KiB messages to another process and back over loopback TCP: how long each took, in order of size."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pid = os.fork()
        if pid == 0:
            peer, _ = server.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while message := peer.recv(2048):
                peer.sendall(message[:64])
            os._exit(0)
        times = []
        with socket.create_connection(server.getsockname()) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end = time.perf_counter() + seconds
            while (began := time.perf_counter()) < end:
                client.sendall(bytes(1200))
                client.recv(2048)
                times.append(time.perf_counter() - began)
        os.waitpid(pid, 0)
    return sorted(taken * 1e6 for taken in times)


def bench_ack():
    """Flushed ack of one client, one 1 KiB record at a time, against write + flush of 4 KiB by fio and an echo over
    loopback TCP (by Python: a little slower than one in C)."""
    ours50, ours99, floor50, floor99, echo = [], [], [], [], []
    with Node() as node:
        node.create("ack")
        for _ in range(RUNS):
            echo.append(statistics.median(echo_us()))
            result = load(node, "ack", conns=1, window=1, records=1, record=1024, seconds=3, warmup=1)
            ours50.append(result["p50_us"])
            ours99.append(result["p99_us"])
            job = fio("ack", 3, "--rw=write", "--bs=4k", "--iodepth=1", "--ioengine=io_uring", "--fdatasync=1")
            write = job["write"]["clat_ns"]["percentile"]
            sync = job["sync"]["lat_ns"]["percentile"]
            floor50.append((write["50.000000"] + sync["50.000000"]) / 1000)
            floor99.append((write["99.000000"] + sync["99.000000"]) / 1000)
    return {"p50_us": median(ours50), "p99_us": median(ours99), "fio_write_flush_p50_us": median(floor50),
            "fio_write_flush_p99_us": median(floor99),
            "echo_p50_us": median(echo),
            "p50_ratio": median([a / (b + c) for a, b, c in zip(ours50, floor50, echo)]),
            "command": result["command"]}


def bench_cpu():
    """Broker CPU-seconds per million 1 KiB messages in 64 KiB batches, acks=all, RF 1."""
    per_million, rates = [], []
    with Node() as node:
        node.create("cpu", 4)
        load(node, "cpu", partitions=4, conns=4, window=4, seconds=2, warmup=0)
        for _ in range(RUNS):
            result = load(node, "cpu", partitions=4, conns=4, window=4, seconds=4, warmup=0)
            per_million.append(result["broker_cpu_s_with_warmup"] / result["all_records"] * 1e6)
            rates.append(result["bytes"] / result["seconds"] / 1e6)
    return {"cpu_s_per_million": median(per_million), "MB_per_s": median(rates), "command": result["command"]}


def bench_throughput():
    """Most flushed throughput with pre-encoded 1 MiB batches against fio 128K at depth 16."""
    ours, floor, ratios = [], [], []
    with Node("--set", "message.max.bytes=2097152") as node:
        node.create("big", 4)
        for _ in range(RUNS):
            result = load(node, "big", partitions=4, conns=4, window=4, records=1000, seconds=4, warmup=1)
            ours.append(result["bytes"] / result["seconds"] / 1e6)
            job = fio("throughput", 4, "--rw=write", "--bs=128k", "--iodepth=16", "--ioengine=io_uring")
            floor.append(job["write"]["bw_bytes"] / 1e6)
            ratios.append(ours[-1] / floor[-1])
    return {"MB_per_s": median(ours), "fio_MB_per_s": median(floor), "ratio": median(ratios),
            "command": result["command"]}


def bench_fsync():
    """G10, what durability costs: acknowledged when flushed, against the same load on a topic with
    coreflume.ack=memory, interleaved."""
    tax, p99, durable, memory = [], [], [], []
    options = {"partitions": 4, "conns": 4, "window": 4, "seconds": 4, "warmup": 1}
    with Node() as node:
        node.create("durable", 4)
        node.create("memory", 4, "coreflume.ack=memory")
        for _ in range(RUNS):
            with_flush, without = load(node, "durable", **options), load(node, "memory", **options)
            durable.append(with_flush["bytes"] / with_flush["seconds"] / 1e6)
            memory.append(without["bytes"] / without["seconds"] / 1e6)
            tax.append(durable[-1] / memory[-1])
            p99.append(with_flush["p99_us"] / without["p99_us"])
    return {"throughput_ratio": median(tax), "p99_ratio": median(p99), "durable_MB_per_s": median(durable),
            "memory_MB_per_s": median(memory), "command": with_flush["command"]}


def bench_sharing():
    """G11, flushes are shared: the same rate of 1 KiB requests from 1,000 connections to 1,000 partitions and to one,
    interleaved; latencies from when a request was due."""
    cpu, p50, p99, wide99, narrow99 = [], [], [], [], []
    options = {"conns": 1000, "window": 16, "records": 1, "record": 1024, "rate": 2000, "seconds": 5, "warmup": 2}
    with Node() as node:
        node.create("wide", 1000)
        node.create("narrow", 1)
        for _ in range(RUNS):
            wide, narrow = load(node, "wide", partitions=1000, **options), load(node, "narrow", **options)
            cpu.append(wide["broker_cpu_s_with_warmup"] / narrow["broker_cpu_s_with_warmup"])
            p50.append(wide["p50_us"] / narrow["p50_us"])
            p99.append(wide["p99_us"] / narrow["p99_us"])
            wide99.append(wide["p99_us"])
            narrow99.append(narrow["p99_us"])
    return {"cpu_ratio": median(cpu), "p99_ratio": median(p99), "p50_ratio": median(p50), "wide_p99_us": median(wide99),
            "narrow_p99_us": median(narrow99), "command": wide["command"]}


UNPACED = ("--set", "coreflume.background.bytes.per.second=0", "--set", "coreflume.background.ops.per.second=0")


def rewritten(word, seconds=120):
    """The fields of the node's next line about a rewriting: log_compacted or log_repacked."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        lines = [line for line in (SCRATCH / "node.log").read_text().splitlines() if f" {word}: " in line]
        if lines:
            return dict(re.findall(r"(\w+)=(\S+)", lines[0]))
        time.sleep(0.2)
    raise SystemExit(f"bench: no {word} within {seconds} s")


def speed_of(fields):
    before, after = (int(size) for size in fields["bytes"].split("->"))
    return before / 1e6 / (int(fields["took_ms"]) / 1000), before / 1e6, after / 1e6


def bench_compaction():
    """Compaction without a limit on its pace: 300,000 records of 1 KiB over 60,000 keys in segments of 64 MiB, all
    there before the cleaner looks; megabytes of the old segments per second."""
    speed, before, after, records = [], [], [], []
    lines = "".join(f"key-{i * 7919 % 60000}:{'v' * 1000}\n" for i in range(300_000))
    for _ in range(RUNS):
        with Node(*UNPACED) as node:
            node.create("c", 1, "cleanup.policy=compact", "segment.bytes=67108864", "min.cleanable.dirty.ratio=0.9")
            subprocess.run(["kcat", "-b", node.kafka, "-P", "-t", "c", "-K", ":", "-X", "batch.size=65536"],
                           input=lines, text=True, check=True)
            fields = rewritten("log_compacted")
        for figures, value in zip((speed, before, after), speed_of(fields)):
            figures.append(value)
        records.append(int(fields["records_read"]) / (int(fields["took_ms"]) / 1000))
    return {"MB_per_s": median(speed), "records_per_s": median(records), "before_MB": median(before),
            "after_MB": median(after), "command": "kcat -P -K : -X batch.size=65536, node " + " ".join(UNPACED)}


def bench_repack():
    """Repacking without a limit on its pace: a segment of 64 MiB that holds a record of 100 B per block; megabytes of
    it per second (more than the disk's: much of it is still in the cache)."""
    speed, before, after = [], [], []
    for _ in range(RUNS):
        with Node(*UNPACED) as node:
            node.create("r", 1, "segment.bytes=67108864")
            while "log_repacked" not in (SCRATCH / "node.log").read_text():
                result = load(node, "r", conns=1, window=1, records=1, record=100, seconds=2, warmup=0)
            fields = rewritten("log_repacked")
        for figures, value in zip((speed, before, after), speed_of(fields)):
            figures.append(value)
    return {"MB_per_s": median(speed), "before_MB": median(before), "after_MB": median(after),
            "command": result["command"]}


def bench_hop():
    """One hop between two shards, both awake, and the cost of waking a sleeping one."""
    runs = [json.loads(subprocess.run([BUILD / "perf" / "hop"], check=True, capture_output=True, text=True).stdout)
            for _ in range(RUNS)]
    return {key: median([run[key] for run in runs]) for key in runs[0]} | {"command": "hop"}


def bench_idle():
    """CPU of an idle node with 1,000 partitions, percent of one core, over 10 s."""
    with Node() as node:
        node.create("idle", 1000)
        time.sleep(2)
        shares = []
        for _ in range(RUNS):
            before = node.cpu_seconds()
            time.sleep(10)
            shares.append((node.cpu_seconds() - before) / 10 * 100)
        rss = re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{node.process.pid}/status").read_text())
        return {"percent_of_a_core": median(shares), "rss_anon_MiB": int(rss.group(1)) / 1024,
                "command": "sleep 10, /proc/PID/stat"}


def bench_restart():
    """kill -9 with 10,000 partitions that hold acknowledged records, 1,000 of them with closed segments: time to
    the ready line, at which all answer Fetch with their last record; what the idle node then holds."""
    command = [sys.executable, str(ROOT / "perf" / "restart.py"), "--runs", str(RUNS)]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for value in figures.values():
        if isinstance(value, dict):
            value["runs"] = RUNS
    return figures | {"command": "perf/restart.py --partitions 10000 --rolled 1000"}


def disk(figure):
    command = [sys.executable, str(ROOT / "perf" / "disk.py"), figure, "--runs", str(RUNS)]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures | {"command": f"perf/disk.py {figure}"}


def bench_writes():
    """Bytes written to the disk per byte of records, on a fresh directory and through the retention limit."""
    return disk("writes")


def bench_steady():
    """Most flushed throughput with 1 MiB batches through the retention limit, against fio 128K at depth 16."""
    return disk("steady")


def bench_retention():
    """p99.9 of produce at about half of the maximum, on a topic that keeps all and on one at its limit."""
    return disk("retention")


def bench_full():
    """p99.9 of produce through the retention limit on a disk with room and on the same 80 % full (root)."""
    return disk("full")


def bench_reads():
    """Cold reads against fio, reads by reference against copies, and G26: p99 of produce beside a consumer that catches up
    against p99 without it."""
    command = [sys.executable, str(ROOT / "perf" / "reads.py"), "--runs", str(RUNS)]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    flat = {f"{name}_{key}": value for name, part in figures.items() for key, value in part.items() if key != "command"}
    return flat | {"command": "perf/reads.py"}


BENCHES = {key[6:]: value for key, value in list(globals().items()) if key.startswith("bench_")}


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return {"cores": os.cpu_count(), "cpu": re.search(r"model name\s*: (.*)", info).group(1),
            "kernel": platform.release(), "commit": commit.stdout.strip(), "repetitions": RUNS}


def as_markdown(report):
    lines = [f"# One node, {report['date']}", "",
             "Machine: " + ", ".join(f"{key} {value}" for key, value in report["machine"].items()) + ".",
             "The commit and the repetitions are those of the latest run; figures of earlier runs that day stay, each with its own",
             "runs. Median (smallest .. largest); floors measured in the same run, interleaved.", ""]
    for name, figures in report["figures"].items():
        lines += [f"## {name}", "", BENCHES[name].__doc__, "", "| quantity | median | min | max | runs |",
                  "|---|---|---|---|---|"]
        for key, value in figures.items():
            if isinstance(value, dict):
                lines.append(f"| {key} | {value['median']:.3f} | {value['min']:.3f} | {value['max']:.3f} | {value.get('runs', '')} |")
            elif key != "command":
                lines.append(f"| {key} | {value:.3f} | | | |")
        lines += ["", f"Command: `{figures['command']}`", ""]
    return "\n".join(lines)


def main():
    names = sys.argv[1:] or list(BENCHES)
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        raise SystemExit(f"bench: no such figure: {unknown[0]} (there are: {' '.join(BENCHES)})")
    SCRATCH.mkdir(parents=True, exist_ok=True)
    report = {"date": datetime.date.today().isoformat(), "machine": machine(), "figures": {}}
    for name in names:
        print(f"{name}: {BENCHES[name].__doc__}", flush=True)
        report["figures"][name] = BENCHES[name]()
        print(json.dumps(report["figures"][name], indent=1), flush=True)
    stem = ROOT / "perf" / "results" / f"{report['date']}-node"
    if stem.with_suffix(".json").exists():  # A run of some figures leaves the day's others.
        report["figures"] = json.loads(stem.with_suffix(".json").read_text())["figures"] | report["figures"]
    stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    stem.with_suffix(".md").write_text(as_markdown(report))
    print(f"wrote {stem.relative_to(ROOT)}.json and .md")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a node writes to its disk, and what deleting old records does to produce.

Usage: disk.py writes | steady | retention | full [--runs N]

  writes      G24: bytes written to the disk per byte of batches, on a fresh directory and through the retention
              limit, for 1 KiB records in 64 KiB batches and for batches of one record of 100 B
  steady      G8 through the retention limit: throughput of 1 MiB batches against fio 128K at depth 16
  retention   G25: p99.9 of produce at half of the maximum, on a topic that keeps all and on one at its limit
  full        G25: through the limit on a file system of 8 GiB that is 80 % full, against the same with room
              (loop-mounted: root)

One line of JSON. Bytes are the process's own (/proc/PID/io), so that others on the machine do not count; the
device's stand beside it (/sys/block, journal and others included).
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "perf"))
import bench  # noqa: E402

MIB = 1 << 20
PARTITIONS = 4
SEGMENT = 64 * MIB
RETAINED = 256 * MIB  # Of a partition.
CHECK = ["--set", "log.retention.check.interval.ms=500"]
SHAPES = {
    "1KiB_in_64KiB": {"record": 1024, "records": 63, "conns": 4, "window": 4},
    "100B_singles": {"record": 100, "records": 1, "conns": 64, "window": 64},
}


class Counters:
    """Bytes that a node and its disk have written."""

    def __init__(self, node):
        self.pid = node.process.pid
        device = os.stat(node.data).st_dev
        self.stat = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")

    def read(self):
        io = pathlib.Path(f"/proc/{self.pid}/io").read_text()
        own = int(re.search(r"^write_bytes: (\d+)", io, re.M).group(1))
        device = int(self.stat.read_text().split()[6]) * 512 if self.stat.exists() else 0
        return own, device


def create(node, topic, retained):
    subprocess.run([bench.BUILD / "coreflume", "topic", "create", topic, "-p", str(PARTITIONS), "-b", node.kafka,
                    "-c", f"segment.bytes={SEGMENT}", "-c", f"retention.bytes={retained}"],
                   check=True, stdout=subprocess.DEVNULL)


def metric(node, name):
    text = urllib.request.urlopen(f"http://{node.admin}/metrics").read().decode()
    return sum(float(v) for v in re.findall(rf"^{name}{{[^}}]*}} (\S+)$", text, re.M))


def fill_to_limit(node, topic, size):
    """Until more was written than is retained, by a half."""
    written = 0
    while written < size * 3 // 2:
        written += bench.load(node, topic, partitions=PARTITIONS, conns=4, window=4, records=1000, seconds=2,
                              warmup=0)["bytes"]
    time.sleep(1)


def varint_size(value):
    zigzag, size = value * 2, 1
    while zigzag >= 128:
        zigzag, size = zigzag >> 7, size + 1
    return size


def batch_size(shape):
    """Of a record batch v2 as load makes it: what Kafka stores of it."""
    size = 61
    for i in range(shape["records"]):
        body = 1 + 1 + varint_size(i) + 1 + varint_size(shape["record"]) + shape["record"] + 1
        size += varint_size(body) + body
    return size


def amplification(node, topic, shape, seconds=4):
    counters = Counters(node)
    before = counters.read()
    result = bench.load(node, topic, partitions=PARTITIONS, seconds=seconds, warmup=0, **shape)
    time.sleep(1)
    own, device = (b - a for a, b in zip(before, counters.read()))
    logical = result["requests"] * batch_size(shape)
    return own / logical, device / logical, result


def writes(runs):
    figures = {}
    big = ["--set", "message.max.bytes=2097152"]
    for name, shape in SHAPES.items():
        fresh, steady, device, rates = [], [], [], []
        for _ in range(runs):
            with bench.Node() as node:
                create(node, "fresh", -1)
                fresh.append(amplification(node, "fresh", shape)[0])
        with bench.Node(*CHECK, *big) as node:
            create(node, "steady", RETAINED)
            fill_to_limit(node, "steady", RETAINED * PARTITIONS)
            hits = metric(node, "coreflume_recycle_hits_total")
            for _ in range(runs):
                own, all_of_it, result = amplification(node, "steady", shape)
                steady.append(own)
                device.append(all_of_it)
                rates.append(result["bytes"] / result["seconds"] / 1e6)
            figures[f"{name}_recycled_segments"] = metric(node, "coreflume_recycle_hits_total") - hits
            figures[f"{name}_missed_segments"] = metric(node, "coreflume_recycle_misses_total")
        figures |= {f"{name}_fresh": bench.median(fresh), f"{name}_steady": bench.median(steady),
                    f"{name}_steady_device": bench.median(device), f"{name}_MB_per_s": bench.median(rates)}
    return figures


def steady(runs):
    ours, floor, ratios = [], [], []
    with bench.Node(*CHECK, "--set", "message.max.bytes=2097152") as node:
        create(node, "big", RETAINED)
        fill_to_limit(node, "big", RETAINED * PARTITIONS)
        for _ in range(runs):
            result = bench.load(node, "big", partitions=PARTITIONS, conns=4, window=4, records=1000, seconds=4,
                                warmup=1)
            ours.append(result["bytes"] / result["seconds"] / 1e6)
            job = bench.fio("throughput", 4, "--rw=write", "--bs=128k", "--iodepth=16", "--ioengine=io_uring")
            floor.append(job["write"]["bw_bytes"] / 1e6)
            ratios.append(ours[-1] / floor[-1])
    return {"MB_per_s": bench.median(ours), "fio_MB_per_s": bench.median(floor), "ratio": bench.median(ratios)}


SHAPE = {"record": 1024, "records": 63, "conns": 4, "window": 4}


def half_rate(node, topic):
    """Requests per second: half of what a closed loop reaches."""
    result = bench.load(node, topic, partitions=PARTITIONS, warmup=1, seconds=3, **SHAPE)
    return int(result["requests"] / result["seconds"] / 2)


def p999(node, topic, seconds, rate):
    return bench.load(node, topic, partitions=PARTITIONS, warmup=1, seconds=seconds, rate=rate, **SHAPE)["p999_us"]


def in_turns(runs, before, during):
    """Both, one after the other, and their ratio."""
    pairs = [(before(), during()) for _ in range(runs)]
    return {"before_p999_us": bench.median([b for b, _ in pairs]),
            "during_p999_us": bench.median([d for _, d in pairs]),
            "ratio": bench.median([d / b for b, d in pairs])}


def retention(runs):
    with bench.Node(*CHECK) as node:
        create(node, "at-limit", RETAINED)
        fill_to_limit(node, "at-limit", RETAINED * PARTITIONS)
        rate = half_rate(node, "at-limit")
        moves = metric(node, "coreflume_retention_moves_total")

        def before():
            create(node, "keeps-all", -1)
            value = p999(node, "keeps-all", 5, rate)
            subprocess.run([bench.BUILD / "coreflume", "topic", "delete", "keeps-all", "-b", node.kafka], check=True,
                           stdout=subprocess.DEVNULL)
            time.sleep(2)
            return value

        figures = in_turns(runs, before, lambda: p999(node, "at-limit", 5, rate))
        moves = metric(node, "coreflume_retention_moves_total") - moves
        return figures | {"requests_per_s": rate, "retention_moves": moves}


@contextlib.contextmanager
def loop_mounted(size):
    if os.geteuid() != 0:
        raise SystemExit("disk: a loop mount needs root")
    image = bench.SCRATCH / "full.img"
    mount = pathlib.Path(tempfile.mkdtemp(prefix="coreflume-full-"))
    image.unlink(missing_ok=True)
    with open(image, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, size)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=True)
    try:
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)
        mount.rmdir()
        image.unlink()


def full(runs):
    with loop_mounted(8 << 30) as mount:
        ballast = mount / "ballast"
        scratch, bench.SCRATCH = bench.SCRATCH, mount
        try:
            with bench.Node(*CHECK) as node:
                create(node, "at-limit", RETAINED)
                fill_to_limit(node, "at-limit", RETAINED * PARTITIONS)
                rate = half_rate(node, "at-limit")

                def before():
                    ballast.unlink(missing_ok=True)
                    time.sleep(1)
                    return p999(node, "at-limit", 4, rate)

                def during():
                    fs = os.statvfs(mount)
                    size = (fs.f_blocks * 8 // 10 - (fs.f_blocks - fs.f_bfree)) * fs.f_frsize
                    with open(ballast, "wb") as f:
                        os.posix_fallocate(f.fileno(), 0, size)
                    time.sleep(1)
                    return p999(node, "at-limit", 4, rate)

                return in_turns(runs, before, during) | {
                    "requests_per_s": rate, "refused": metric(node, "coreflume_disk_refused_total")}
        finally:
            bench.SCRATCH = scratch
            ballast.unlink(missing_ok=True)


FIGURES = {"writes": writes, "steady": steady, "retention": retention, "full": full}


def main():
    parser = argparse.ArgumentParser(usage="disk.py " + " | ".join(FIGURES) + " [--runs N]")
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--runs", type=int, default=bench.RUNS)
    options = parser.parse_args()
    bench.SCRATCH.mkdir(parents=True, exist_ok=True)
    print(json.dumps(FIGURES[options.figure](options.runs)))


if __name__ == "__main__":
    main()

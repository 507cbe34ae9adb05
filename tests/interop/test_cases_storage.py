#!/usr/bin/env python3
"""Public fault reports about storage and retention, on a real node. Numbers like C163 are theirs."""
import signal
import subprocess
import time
import urllib.request

from support.check import equal, expect, run_all
from support.disk import Disk, skip_reason
from support.node import Node, fresh_dir, refused_start
from support.wire import Connection, batch, batches, zero_crc_batch

NONE = 0
MIB = 1 << 20


def metric(node, name):
    with urllib.request.urlopen(f"http://{node.admin}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + "{", name + " ")))


def kill(node):
    node.process.send_signal(signal.SIGKILL)
    node.process.wait()


def consume(node, topic):
    return subprocess.run(["kcat", "-b", node.kafka, "-C", "-t", topic, "-o", "beginning", "-e", "-q"],
                          capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()


def test_c163_a_checksum_that_is_zero_ends_nothing():
    """And zeros behind the tail are empty space, however many."""
    data = fresh_dir("c163") / "data"
    zero = zero_crc_batch(40)
    equal(zero[17:21], bytes(4), "the checksum of the batch")
    with Node(data) as node, Connection(node.kafka) as c:
        equal(c.create_topic("t"), NONE, "create")
        equal(c.produce("t", 0, zero)[:2], (NONE, 0), "produce")
        for i in range(10):
            equal(c.produce("t", 0, batch([b"after %d" % i]))[:2], (NONE, 1 + i), "produce")
        kill(node)
    segment = next(f for f in data.glob("logs/*/*.log") if not f.parent.is_symlink() and b"after 9" in f.read_bytes())
    subprocess.run(["fallocate", "-o", str(segment.stat().st_size), "-l", str(64 * MIB), str(segment)], check=True)
    with Node(data) as node, Connection(node.kafka) as c:
        equal([b[0] for b in batches(c.fetch("t", 0, 0)[2])], list(range(11)), "all eleven")
        equal(c.fetch("t", 0, 0)[2][17:21], bytes(4), "as it was sent")
        equal(c.produce("t", 0, batch([b"more"]))[:2], (NONE, 11), "and it goes on")


def test_c169_file_systems_and_block_sizes():
    """Works, or says in one line why not; batches from 1 to 10,000 bytes, reads from any offset."""
    if (reason := skip_reason()) is not None:
        print(f"SKIPPED c169: {reason}; CI runs it as root")
        return
    rows = [("ext4", 512, 96), ("ext4", 4096, 96), ("xfs", 512, 400), ("xfs", 4096, 400)]
    for kind, sector, megabytes in rows:
        with Disk(f"c169_{kind}_{sector}", megabytes, kind, sector) as path:
            sizes = [1, 10, 100, 511, 512, 513, 1000, 4095, 4096, 4097, 10000]
            with Node(path / "data", "--cores", "0") as node, Connection(node.kafka) as c:
                equal(c.create_topic("t"), NONE, "create")
                for i, size in enumerate(sizes):
                    equal(c.produce("t", 0, batch([bytes([i + 1]) * size]))[:2], (NONE, i), f"{kind} {sector}")
                kill(node)
            with Node(path / "data", "--cores", "0") as node, Connection(node.kafka) as c:
                for i, size in enumerate(sizes):
                    got = batches(c.fetch("t", 0, i)[2])
                    equal(got[0][0], i, f"{kind} {sector}: from offset {i}")
                    expect(bytes([i + 1]) * size in got[0][3], f"{kind} {sector}: the bytes of {i}")
                equal(node.stop()[0], 0, "exit code")
    with Disk("c169_btrfs", 400, "btrfs") as path:
        code, _, lines = refused_start(path / "data")
        equal(code, 1, "btrfs")
        expect(any("is on btrfs" in line and "use a directory on ext4 or XFS" in line for line in lines), lines)


def test_c171_a_start_reads_little():
    """After a clean stop below 1 % of the data; after kill -9 what came since the last checkpoint, and what was
    filled ahead of the tail: only zeros tell that nothing was written there."""
    data = fresh_dir("c171") / "data"
    partitions, per_partition = 12, 20
    fresh = ("--cores", "0", "--set", "coreflume.log.checkpoint.bytes=1048576")
    big = batch([b"x" * (MIB * 3 // 4)])
    with Node(data, *fresh) as node, Connection(node.kafka) as c:
        equal(c.create_topic("t", partitions), NONE, "create")
        for partition in range(partitions):
            for i in range(per_partition):
                equal(c.produce("t", partition, big)[:2], (NONE, i), "produce")
        equal(node.stop()[0], 0, "exit code")
    written = partitions * per_partition * len(big)
    stores = 2 * MIB + 4096  # Both areas of the one store are read.
    with Node(data, *fresh) as node, Connection(node.kafka) as c:
        read = metric(node, "coreflume_io_read_bytes_total")
        expect(read - stores < written / 100, f"{read - stores} of {written} bytes were read after a clean stop")
        for partition in range(partitions):
            equal(c.list_offsets("t", partition, -1)[2], per_partition, f"the end of {partition}")
            equal(c.produce("t", partition, batch([b"little"]))[0], NONE, "produce")
        kill(node)
    files = [f for f in data.glob("logs/*/*.log") if not f.parent.is_symlink()]
    ahead = sum(f.stat().st_size for f in files) - written
    with Node(data, *fresh) as node, Connection(node.kafka) as c:
        read = metric(node, "coreflume_io_read_bytes_total") - stores
        wanted = ahead + partitions * 2 * MIB
        expect(read < wanted, f"{read} bytes were read after kill -9, wanted {wanted}")
        for partition in range(partitions):
            equal(c.list_offsets("t", partition, -1)[2], per_partition + 1, f"the end of {partition}")


def test_c172_a_record_from_the_future_pins_no_other_segment():
    """Where an operator lets it in. Its own segment stays, those before it go; retention.bytes frees it."""
    data = fresh_dir("c172") / "data"
    configs = {"retention.ms": "1000", "segment.bytes": str(MIB),
               "message.timestamp.after.max.ms": "9223372036854775807"}
    now = int(time.time() * 1000)
    with Node(data, "--set", "log.retention.check.interval.ms=200") as node, Connection(node.kafka) as c:
        for topic, more in (("pinned", {}), ("freed", {"retention.bytes": str(MIB)})):
            equal(c.create_topic(topic, 1, {**configs, **more}), NONE, "create")
            big = batch([b"x" * (MIB * 3 // 4)], timestamps=[now])
            for _ in range(2):
                equal(c.produce(topic, 0, big)[0], NONE, "before")
            equal(c.produce(topic, 0, batch([b"future"], timestamps=[4102444800000]))[:2], (NONE, 2), "the future")
            for _ in range(4):
                equal(c.produce(topic, 0, big)[0], NONE, "after")
        end = time.monotonic() + 30
        while c.list_offsets("pinned", 0, -2)[2] < 2 or c.list_offsets("freed", 0, -2)[2] <= 2:
            expect(time.monotonic() < end, "retention takes too little")
            time.sleep(0.1)
        # Its time is further from that of batch 1 than segment.ms: its segment begins with it.
        equal(c.list_offsets("pinned", 0, -2)[2], 2, "what stands before its segment goes")
        expect(c.list_offsets("freed", 0, -2)[2] > 2, "by size it goes all the same")
        found = c.list_offsets("pinned", 0, now + 1000)
        equal(found[:3], (NONE, 4102444800000, 2), "by time it is found, above the moved start")
        equal(c.list_offsets("freed", 0, now + 1000)[2], -1, "and no more where it went")


run_all(globals())

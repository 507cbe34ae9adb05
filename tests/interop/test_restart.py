#!/usr/bin/env python3
"""A node with many partitions is killed and started again: perf/restart.py in small, with its checks.

When it says that it is ready, every partition answers Fetch with its last acknowledged record, those with
closed segments too; memory and descriptors do not follow the number of partitions.
"""
import pathlib
import sys

from support.check import expect, run_all
from support.node import Node, fresh_dir
from support.wire import Connection, batch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "perf"))
import restart  # noqa: E402

PARTITIONS = 300
ROLLED = 20


def test_many_partitions_are_ready_at_once():
    figures = restart.measure(PARTITIONS, ROLLED, 2, fresh_dir("many"))
    expect(figures["ready_ms"]["max"] < 10000, f"ready after {figures['ready_ms']}")
    expect(figures["descriptors"] < PARTITIONS, f"{figures['descriptors']} descriptors at rest")
    expect(figures["anon_MiB"] < 128, f"{figures['anon_MiB']} MiB")


def test_a_checkpoint_is_used_and_not_needed():
    """With a low threshold the start takes checkpoints; with damaged ones it reads everything."""
    data = fresh_dir("checkpoints")
    small = ("--set", "coreflume.log.checkpoint.bytes=65536")
    record = batch([b"z" * 10000])

    def read_all(node, count):
        with Connection(node.kafka) as connection:
            for offset in range(count):
                error, high, found = connection.fetch("t", 0, offset)
                expect(error == 0 and high == count and found, f"offset {offset}: error {error}, high {high}")

    with Node(data, *small) as node:
        with Connection(node.kafka) as connection:
            connection.create_topic("t")
            for offset in range(40):
                error, base, _, _ = connection.produce("t", 0, record)
                expect((error, base) == (0, offset), f"produce: error {error}, offset {base}")
        node.kill()
    with Node(data, *small) as node:
        read_all(node, 40)
        expect("log_checkpoint_ignored" not in node.log_path.read_text(), "the checkpoint was not used")
        code, _ = node.stop()
        expect(code == 0, f"exit {code}")
    for path in data.glob("logs/*/*.checkpoint"):
        path.write_bytes(b"no checkpoint")
    with Node(data, *small) as node:
        read_all(node, 40)


if __name__ == "__main__":
    run_all(globals())

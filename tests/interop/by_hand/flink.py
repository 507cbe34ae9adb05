#!/usr/bin/env python3
"""Flink's Kafka source with its partitions given, bounded, into its Kafka sink. ORACLE=1: against Apache Kafka."""
import pathlib
import subprocess
import time

from support.check import equal, expect, run_all
from support.kafka_tools import maven, server
from support.node import ROOT
from support.wire import Connection

INSTALLED = ROOT / "build" / "interop" / "flink"
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp", f"{INSTALLED}/classes:{INSTALLED}/dependency/*",
        "--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS = 120


def start(brokers, from_topic, to_topic, begin, end):
    return subprocess.Popen([*JAVA, "Copy", brokers, from_topic, to_topic, str(PARTITIONS), str(begin), str(end)],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(job):
    try:
        out, _ = job.communicate(timeout=SECONDS)
    finally:
        job.kill()
    expect(job.returncode == 0, f"exit {job.returncode}: {out[-900:]}")


def kcat(brokers, *options, text=None):
    return subprocess.run(["kcat", "-b", brokers, *options], input=text, capture_output=True, text=True, check=True,
                          timeout=SECONDS).stdout.splitlines()


def fill(brokers, topic, first, count):
    """Keys and values to each partition, a codec after the other."""
    for i, codec in enumerate(CODECS):
        for partition in range(PARTITIONS):
            lines = "".join(f"k{first + i * count + n}:v{first + i * count + n} {'x' * (n % 83)}\n" for n in range(count))
            kcat(brokers, "-P", "-t", topic, "-p", str(partition), "-z", codec, "-K:", text=lines)


def lines_of(brokers, topic):
    return sorted(kcat(brokers, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%p %o %T %k %s\n"))


def copied(brokers, topic):
    return sorted(kcat(brokers, "-C", "-t", topic, "-o", "beginning", "-e", "-q"))


def topics(brokers, *names):
    with Connection(brokers) as c:
        for name in names:
            equal(c.create_topic(name, PARTITIONS), 0, name)


def test_bounded():
    with server("flink_bounded") as node:
        topics(node.kafka, "from", "to")
        fill(node.kafka, "from", 0, 2000)
        finish(start(node.kafka, "from", "to", "earliest", "latest"))
        wanted = lines_of(node.kafka, "from")
        equal(len(wanted), PARTITIONS * len(CODECS) * 2000, "records")
        equal(copied(node.kafka, "to"), wanted, "copy")


def test_from_a_time():
    with server("flink_time") as node:
        topics(node.kafka, "from", "to")
        fill(node.kafka, "from", 0, 100)
        time.sleep(0.01)
        between = int(time.time() * 1000)
        time.sleep(0.01)
        fill(node.kafka, "from", 500, 100)
        finish(start(node.kafka, "from", "to", between, "latest"))
        wanted = [line for line in lines_of(node.kafka, "from") if int(line.split()[2]) >= between]
        equal(len(wanted), PARTITIONS * len(CODECS) * 100, "records")
        equal(copied(node.kafka, "to"), wanted, "copy")


def test_node_killed_under_the_job():
    """At least once is what the job asks for: nothing may be missing, some may come twice."""
    with server("flink_killed") as node:
        topics(node.kafka, "from", "to")
        fill(node.kafka, "from", 0, 1000)
        job = start(node.kafka, "from", "to", "earliest", 10 * 1000)
        try:
            ends = time.monotonic() + SECONDS
            while len(copied(node.kafka, "to")) < 15000 and time.monotonic() < ends and job.poll() is None:
                time.sleep(0.2)
            node.restart(kill=True)
            fill(node.kafka, "from", 5000, 1000)
        except BaseException:
            job.kill()
            raise
        finish(job)
        equal(sorted(set(copied(node.kafka, "to"))), lines_of(node.kafka, "from"), "copy")


if __name__ == "__main__":
    maven(pathlib.Path(__file__).with_name("flink_job"), INSTALLED)
    run_all(globals())

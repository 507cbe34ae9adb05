#!/usr/bin/env python3
"""A node as kcat sees it: lists, all codecs there and back, restarts."""
import json
import subprocess
import urllib.request

from support.check import equal, expect, run_all
from support.node import Node, fresh_dir
from support.wire import Connection, batches

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LINES = [f"line {i} {'x' * (i % 300)}" for i in range(3000)]


def kcat(node, *options, lines=None, seconds=60):
    done = subprocess.run(["kcat", "-b", node.kafka, *options], capture_output=True, text=True, timeout=seconds,
                          input=None if lines is None else "\n".join(lines) + "\n")
    if done.returncode:
        raise AssertionError(f"kcat {options}: exit {done.returncode}: {done.stderr[-500:]}")
    return done.stdout.splitlines()


def consume(node, topic, *options):
    return kcat(node, "-C", "-t", topic, "-o", "beginning", "-e", "-q", *options)


def test_list():
    with Node(fresh_dir("kcat_list") / "data", "--node-id", "3", "--rack", "r1") as node:
        kcat(node, "-P", "-t", "listed", lines=["a"])
        listing = json.loads("".join(kcat(node, "-L", "-J")))
        equal(listing["brokers"], [{"id": 3, "name": node.kafka}], "brokers")
        equal(listing["controllerid"], 3, "controller")
        equal([(t["topic"], len(t["partitions"])) for t in listing["topics"]], [("listed", 1)], "topics")


def test_every_codec_there_and_back():
    with Node(fresh_dir("kcat_codecs") / "data") as node:
        for codec, number in CODECS.items():
            topic = f"codec-{codec}"
            kcat(node, "-P", "-t", topic, "-z", codec, lines=LINES)
            equal(consume(node, topic), LINES, codec)
            with Connection(node.kafka) as c:
                stored = batches(c.fetch(topic, 0, 0)[2])
            # librdkafka leaves a batch that would not shrink as it is: not all need to have the codec.
            codecs = {attributes & 7 for _, attributes, _, _ in stored}
            expect(number in codecs, f"{codec}: stored with codecs {codecs}")


def test_keys_headers_partitions():
    with Node(fresh_dir("kcat_keys") / "data", "--set", "num.partitions=5") as node:
        lines = [f"key{i % 17}:value{i}" for i in range(500)]
        kcat(node, "-P", "-t", "keyed", "-K:", "-H", "h=1", lines=lines)
        got = consume(node, "keyed", "-f", "%p %k:%s %h\n")
        equal(sorted(line.split(" ", 1)[1] for line in got), sorted(line + " h=1" for line in lines), "records")
        partition_of = {}
        for line in got:
            partition, rest = line.split(" ", 1)
            partition_of.setdefault(rest.split(":")[0], set()).add(partition)
        expect(all(len(p) == 1 for p in partition_of.values()), "a key in two partitions")
        expect(len({p for s in partition_of.values() for p in s}) > 1, "all in one partition")


def test_idempotent_and_acks():
    with Node(fresh_dir("kcat_acks") / "data") as node:
        for name, options in {"idempotent": ["-X", "enable.idempotence=true"], "all": ["-X", "acks=all"],
                              "one": ["-X", "acks=1"], "zero": ["-X", "acks=0"]}.items():
            kcat(node, "-P", "-t", name, *options, lines=LINES[:500])
            equal(consume(node, name), LINES[:500], name)


def test_large_messages():
    with Node(fresh_dir("kcat_large") / "data") as node:
        lines = [str(i) * 900000 for i in range(8)]
        kcat(node, "-P", "-t", "large", "-X", "message.max.bytes=1048588", lines=lines)
        equal(consume(node, "large"), lines, "large lines")
        # The first batch comes whole, however little the client asks for.
        equal(consume(node, "large", "-X", "fetch.message.max.bytes=1000"), lines, "with small fetches")


def test_offsets_by_time():
    with Node(fresh_dir("kcat_time") / "data") as node:
        kcat(node, "-P", "-t", "timed", lines=["a", "b", "c"])
        equal(kcat(node, "-Q", "-t", "timed:0:-1"), ["timed [0] offset 3"], "latest")
        equal(kcat(node, "-Q", "-t", "timed:0:-2"), ["timed [0] offset 0"], "earliest")
        equal(kcat(node, "-Q", "-t", "timed:0:1000"), ["timed [0] offset 0"], "by time")
        equal(kcat(node, "-Q", "-t", "timed:0:9999999999999"), ["timed [0] offset -1"], "after the end")


def test_a_group_goes_on_where_it_was():
    """Also after the node was killed: what the first one took and committed, the second does not see again."""
    directory = fresh_dir("kcat_group") / "data"
    with Node(directory, "--set", "group.initial.rebalance.delay.ms=0") as node:
        kcat(node, "-P", "-t", "grouped", lines=["a", "b"])
        command = ("-G", "g", "-X", "auto.offset.reset=earliest", "-e", "grouped")
        equal(kcat(node, *command), ["a", "b"], "the first member")
        node.kill()
    with Node(directory, "--set", "group.initial.rebalance.delay.ms=0") as node:
        kcat(node, "-P", "-t", "grouped", lines=["c"])
        equal(kcat(node, *command), ["c"], "the next member")


def test_clean_stop_and_restart_on_other_cores():
    directory = fresh_dir("kcat_cores")
    expected = []
    for round_number, cores in enumerate(["0", "all", "0", "all"]):
        with Node(directory / "data", "--cores", cores, "--set", "num.partitions=4") as node:
            lines = [f"round {round_number} line {i}" for i in range(200)]
            kcat(node, "-P", "-t", "restarted", lines=lines)
            expected += lines
            equal(sorted(consume(node, "restarted")), sorted(expected), f"cores {cores}")
            code, seconds = node.stop()
            equal(code, 0, "exit code")
            expect(seconds < 5, f"the stop took {seconds:.1f} s")


def test_stop_while_clients_wait():
    with Node(fresh_dir("kcat_stop") / "data") as node:
        kcat(node, "-P", "-t", "waited", lines=["a"])
        consumer = subprocess.Popen(
            ["kcat", "-b", node.kafka, "-C", "-t", "waited", "-u", "-X", "fetch.wait.max.ms=60000",
             "-X", "socket.timeout.ms=90000"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            equal(consumer.stdout.readline(), "a\n", "the record")
            code, seconds = node.stop()
            equal(code, 0, "exit code")
            expect(seconds < 5, f"the stop took {seconds:.1f} s")
        finally:
            consumer.kill()
            consumer.wait()


def test_kill_9_keeps_what_was_acknowledged():
    directory = fresh_dir("kcat_kill")
    with Node(directory / "data") as node:
        kcat(node, "-P", "-t", "killed", "-X", "acks=all", lines=LINES)
        node.kill()
    with Node(directory / "data") as node:
        equal(consume(node, "killed"), LINES, "after the restart")


def test_admin_pages():
    with Node(fresh_dir("kcat_admin") / "data") as node:
        for path in ("/healthz", "/readyz"):
            with urllib.request.urlopen(f"http://{node.admin}{path}", timeout=10) as answer:
                equal(answer.status, 200, path)
        kcat(node, "-L")
        with urllib.request.urlopen(f"http://{node.admin}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        expect('coreflume_kafka_requests_total{' in text and 'api="metadata"' in text, "no request counters")


run_all(globals())

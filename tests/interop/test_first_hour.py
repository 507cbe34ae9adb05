#!/usr/bin/env python3
"""What a newcomer does wrong in the first hour: each gets an error that names the fix.

Ours from our command line, and from kcat as far as the protocol lets a broker speak through it.
"""
import json
import socket
import subprocess

from support.check import equal, expect, run_all
from support.node import Node, binary, fresh_dir


def run(program, *arguments, text_in=""):
    done = subprocess.run([program, *map(str, arguments)], input=text_in, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def ours(node, *arguments, text_in=""):
    return run(binary(), *arguments, "-b", node.kafka, text_in=text_in)


def kcat(node, *arguments, text_in=""):
    return run("kcat", "-b", node.kafka, *arguments, text_in=text_in)


def refused(done, *texts):
    """Fails, and its errors have all of the texts."""
    expect(done[0] != 0, f"exit {done[0]}: {done}")
    for text in texts:
        expect(text in done[2], f"{text!r} is not in {done[2]!r}")


def test_wrong_advertised_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        wrong = f"127.0.0.1:{s.getsockname()[1]}"
    with Node(fresh_dir("hour_advertised") / "data", "--advertise", wrong) as node:
        equal(ours(node, "topic", "create", "a")[0], 0, "create")
        refused(ours(node, "produce", "a", "--timeout", 1, text_in="x\n"), wrong, "advertised.listeners")
        # kcat can only know the address: it is in its errors, and as the broker's in its list.
        refused(kcat(node, "-P", "-t", "a", "-X", "message.timeout.ms=2000", text_in="x\n"), wrong)
        expect(wrong in kcat(node, "-L")[1], "kcat -L shows what is advertised")


def test_unknown_topic():
    with Node(fresh_dir("hour_topic") / "data", "--set", "auto.create.topics.enable=false") as node:
        equal(ours(node, "topic", "create", "orders")[0], 0, "create")
        refused(ours(node, "produce", "ordres", text_in="x\n"), "'ordres' does not exist", "did you mean 'orders'?",
                "coreflume topic create ordres")
        refused(ours(node, "topic", "config", "ordres"), "did you mean 'orders'?")
        # librdkafka believes that a topic may still be on its way, by default for half a minute.
        refused(kcat(node, "-P", "-t", "ordres", "-X", "topic.metadata.propagation.max.ms=500", text_in="x\n"),
                "Unknown topic")
        refused(kcat(node, "-C", "-t", "ordres", "-e"), "Unknown topic")


def test_too_large_a_record():
    with Node(fresh_dir("hour_large") / "data") as node:
        equal(ours(node, "topic", "create", "l", "-c", "max.message.bytes=1000")[0], 0, "create")
        large = "x" * 5000 + "\n"
        refused(ours(node, "produce", "l", text_in=large), "max.message.bytes")
        refused(kcat(node, "-P", "-t", "l", text_in=large), "Message size too large")


def test_bad_codec():
    with Node(fresh_dir("hour_codec") / "data") as node:
        refused(ours(node, "produce", "c", "-z", "lzma"), "'lzma' is none of none|gzip|snappy|lz4|zstd")
        refused(ours(node, "topic", "create", "c", "-c", "compression.type=lzma"), "compression.type", "lzma", "zstd")
        refused(kcat(node, "-P", "-t", "c", "-z", "lzma"), "lzma")


def test_bad_config_value():
    with Node(fresh_dir("hour_config") / "data") as node:
        refused(ours(node, "topic", "create", "v", "-c", "retention.ms=soon"), "retention.ms", "soon")
        refused(ours(node, "topic", "create", "v", "-c", "retention.mss=1"), "retention.mss")
        equal(json.loads(ours(node, "topic", "list", "--json")[1]), {"topics": []}, "nothing was created")
    for setting, *texts in (("log.retention.ms=soon", "log.retention.ms", "soon"),
                            ("log.retention.mss=1", "log.retention.mss", "log.retention.ms")):
        refused(run(binary(), "start", "--data-dir", fresh_dir("hour_start") / "data", "--set", setting), *texts)


run_all(globals())

#!/usr/bin/env python3
"""Every mode of `coreflume bench`, of which ORACLE=1 shows that they are for any broker: nothing is lost or refused.

Usage: bench_modes.py [NAME ...]
"""
import json
import pathlib
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import kafka_tools  # noqa: E402
from support.check import equal, expect, run_all  # noqa: E402
from support.node import binary  # noqa: E402

SERVER = []


def bench(*options, code=0):
    command = [binary(), "bench", "-b", SERVER[0].kafka, "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    equal(done.returncode, code, (options, done.stderr, done.stdout[-2000:]))
    return json.loads(done.stdout)


def whole(options, readers):
    """Two seconds of it: all that was offered is acknowledged, and read by every reader."""
    window = bench("--rate", "1000", "--duration", "2", "--warmup", "1", *options.split())["windows"][0]
    records = window["records"]
    expect(records["offered"] >= 2000, (options, records))
    equal(records, {"offered": records["offered"], "acknowledged": records["offered"], "failed": 0, "unsent": 0,
                    "unanswered": 0, "missing": 0}, options)
    equal(window["publish"]["count"], records["offered"], options)
    equal((window["end_to_end"] or {"count": 0})["count"], readers * records["offered"], options)


def test_acks():
    whole("--acks all", 1)
    whole("--acks 1", 1)
    whole("--acks 0", 1)


def test_sequence_numbers():
    whole("--idempotent --producers 3", 1)
    whole("--idempotent --replay --batch 8KiB", 1)


def test_codecs():
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        whole(f"-z {codec} --size 200-2000 --keys zipf:1000", 1)
        whole(f"-z {codec} --replay --batch 16KiB --consumers 0", 0)


def test_groups_and_assignment():
    whole("-g bench-a -g bench-b --consumers 2 -p 5", 2)
    whole("--consumers 3 -p 6 --keys round:100 --linger 5", 1)


def test_many_connections():
    whole("--producers 100 --idle-connections 300", 1)


def test_ramp_and_search():
    window = bench("--ramp", "100-2000", "--duration", "3", "--warmup", "0", "--consumers", "0")["windows"][0]
    equal((window["records"]["offered"], window["records"]["acknowledged"]), (3150, 3150), "a ramp")
    process = subprocess.Popen([binary(), "bench", "-b", SERVER[0].kafka, "--json", "--search", "--rate", "200",
                                "--duration", "4", "--consumers", "0"], stdout=subprocess.PIPE, text=True)
    threading.Event().wait(13)
    process.send_signal(signal.SIGINT)
    found = json.loads(process.communicate(timeout=60)[0])
    equal((process.returncode, found["complete"]), (0, False), found)
    equal([w["held"] for w in found["windows"][:2]], [True, True], found["windows"])
    expect(found["found_rate"] >= 400, found)


def test_reading():
    kafka, topic = SERVER[0].kafka, "bench-read"
    subprocess.run([binary(), "topic", "create", topic, "-p", "3", "-b", kafka], check=True, stdout=subprocess.DEVNULL)
    bench(topic, "--rate", "5000", "--duration", "1", "--warmup", "0", "--size", "100", "--consumers", "0")
    for options in ("--consumers 2", "-g bench-read --consumers 2", "--again --warmup 0 --duration 1"):
        window = bench(topic, "--producers", "0", *options.split())["windows"][0]
        equal(window["first_failure"], None, options)
        expect("-g" in options or window["records"] >= 5000, (options, window))


if __name__ == "__main__":
    if kafka_tools.ORACLE:
        kafka_tools.install()
    with kafka_tools.server("bench_modes") as server:
        SERVER.append(server)
        run_all(globals())

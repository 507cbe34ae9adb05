#!/usr/bin/env python3
"""The client library as others get it: installed, found by pkg-config, and the programs of docs/examples with it."""
import os
import signal
import subprocess
import threading
import time

from support.check import equal, expect, run_all
from support.client_library import call, compile_example, install
from support.node import Node, binary, fresh_dir

LINES = [f"line {i}" for i in range(5000)]


def test_examples():
    environment, destination = install("client_library")
    header = next(destination.rglob("coreflume-client.h")).read_text()
    expect('#include "' not in header, "the installed header includes one of the tree")
    produce = compile_example("produce", environment, destination)
    consume = compile_example("consume", environment, destination)
    member = compile_example("member", environment, destination)
    with Node(fresh_dir("client_library_node") / "data") as node:
        call(binary(), "topic", "create", "orders", "--partitions", "3", env=dict(os.environ, COREFLUME_BROKERS=node.kafka))
        said = call(produce, node.kafka, "orders", input="\n".join(LINES) + "\n", env=environment)
        equal(said, f"{len(LINES)} records written, 0 lost\n", "produce says")
        got = call(consume, node.kafka, "orders", env=environment).splitlines()
        equal(sorted(line.split(" ", 1)[1] for line in got), sorted(LINES), "records")
        program = subprocess.Popen([member, node.kafka, "billing", "orders"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=environment)
        got = [program.stdout.readline().split(" ", 1)[1].rstrip("\n") for _ in LINES]
        program.send_signal(signal.SIGINT)
        said = program.communicate(timeout=30)[1].splitlines()
        equal((program.returncode, sorted(got)), (0, sorted(LINES)), "records of a member")
        equal(sorted(said), sorted(f"{what} orders[{i}]" for what in ("assigned", "revoked") for i in range(3)), "a member says")
        described = call(binary(), "group", "describe", "billing", "-b", node.kafka)
        expect("lag       0 records" in described, described)


def feed(program, lines):
    """Writes lines at a pace that leaves batches on their way all the time, and ends the input."""
    for at in range(0, len(lines), 200):
        program.stdin.write("".join(f"{line}\n" for line in lines[at:at + 200]))
        program.stdin.flush()
        time.sleep(0.004)
    program.stdin.close()


def test_a_node_that_dies_loses_and_doubles_nothing():
    """kill -9 of the node in the middle of an idempotent producer's work, again and again."""
    environment, destination = install("client_library_kill")
    produce = compile_example("produce", environment, destination)
    consume = compile_example("consume", environment, destination)
    lines = [f"{i}" for i in range(60000)]
    with Node(fresh_dir("client_library_kill_node") / "data") as node:
        call(binary(), "topic", "create", "orders", "--partitions", "3", env=dict(os.environ, COREFLUME_BROKERS=node.kafka))
        program = subprocess.Popen([produce, node.kafka, "orders"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment)
        feeder = threading.Thread(target=feed, args=(program, lines))
        feeder.start()
        for _ in range(3):
            time.sleep(0.2)
            node.restart(kill=True)
        feeder.join()
        out, err = program.stdout.read(), program.stderr.read()
        equal((program.wait(timeout=60), out), (0, f"{len(lines)} records written, 0 lost\n"), err[-2000:])
        got = call(consume, node.kafka, "orders", env=environment).splitlines()
    partitions = {}
    for line in got:
        place, value = line.split(" ", 1)
        partitions.setdefault(place.split(":")[0], []).append(int(value))
    equal(len(got), len(lines), "records, each once")
    equal(sorted(value for values in partitions.values() for value in values), list(range(len(lines))), "records")
    for partition, values in partitions.items():
        equal(values, sorted(values), f"order in partition {partition}")


def test_only_the_header_is_exported():
    environment, destination = install("client_library_symbols")
    library = next(destination.rglob("libcoreflume-client.so"))
    symbols = {line.split()[-1].split("@")[0] for line in
               call("nm", "-D", "--defined-only", library, env=environment).splitlines()}
    header = next(destination.rglob("coreflume-client.h")).read_text()
    expect("client_producer_send" in symbols, "client_producer_send is not exported")
    equal([name for name in sorted(symbols) if f"{name}(" not in header], [], "exported without declaration")


run_all(globals())

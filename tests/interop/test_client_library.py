#!/usr/bin/env python3
"""The client library as others get it: installed, found by pkg-config, and the programs of docs/examples with it."""
import os
import pathlib
import subprocess

from support.check import equal, expect, run_all
from support.node import ROOT, Node, binary, fresh_dir

LINES = [f"line {i}" for i in range(5000)]


def call(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **options)
    expect(done.returncode == 0, f"{command}: exit {done.returncode}: {done.stdout[-500:]}{done.stderr[-2000:]}")
    return done.stdout


def install(name):
    """The environment of somebody who installed the library."""
    destination = fresh_dir(name) / "destination"
    build = pathlib.Path(binary()).resolve().parent
    call("meson", "install", "-C", build, "--no-rebuild", "--destdir", destination, "--tags", "client,devel")
    found = list(destination.rglob("coreflume-client.pc"))
    equal(len(found), 1, "files for pkg-config")
    return dict(os.environ, PKG_CONFIG_PATH=str(found[0].parent), PKG_CONFIG_SYSROOT_DIR=str(destination),
                LD_LIBRARY_PATH=str(found[0].parent.parent)), destination


def compile_example(name, environment, directory):
    flags = call("pkg-config", "--cflags", "--libs", "coreflume-client", env=environment).split()
    program = directory / name
    # An older C, and pedantic: the header must not depend on how this tree is compiled.
    call(os.environ.get("CC", "gcc"), "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
         ROOT / "docs" / "examples" / f"{name}.c", *flags, "-o", program)
    return program


def test_examples():
    environment, destination = install("client_library")
    header = next(destination.rglob("coreflume-client.h")).read_text()
    expect('#include "' not in header, "the installed header includes one of the tree")
    produce = compile_example("produce", environment, destination)
    consume = compile_example("consume", environment, destination)
    with Node(fresh_dir("client_library_node") / "data") as node:
        call(binary(), "topic", "create", "orders", "--partitions", "3", env=dict(os.environ, COREFLUME_BROKERS=node.kafka))
        call(produce, node.kafka, "orders", input="\n".join(LINES) + "\n", env=environment)
        got = call(consume, node.kafka, "orders", env=environment).splitlines()
        equal(sorted(line.split(" ", 1)[1] for line in got), sorted(LINES), "records")


def test_only_the_header_is_exported():
    environment, destination = install("client_library_symbols")
    library = next(destination.rglob("libcoreflume-client.so"))
    symbols = {line.split()[-1].split("@")[0] for line in
               call("nm", "-D", "--defined-only", library, env=environment).splitlines()}
    header = next(destination.rglob("coreflume-client.h")).read_text()
    expect("client_producer_send" in symbols, "client_producer_send is not exported")
    equal([name for name in sorted(symbols) if f"{name}(" not in header], [], "exported without declaration")


run_all(globals())

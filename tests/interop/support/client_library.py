"""Our client library as others get it: installed, and the programs of docs/examples compiled with it."""
import os
import pathlib
import subprocess

from support.check import equal, expect
from support.node import ROOT, binary, fresh_dir


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

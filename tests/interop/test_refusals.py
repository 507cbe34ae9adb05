#!/usr/bin/env python3
"""A start that cannot succeed says in one line what to do, and exits 1 (wrong usage: 2)."""
import ctypes
import json
import pathlib
import resource
import socket
import struct
import subprocess
import tempfile

from support.check import equal, expect, run_all
from support.node import Node, binary, fresh_dir, refused_start

CAP_IPC_LOCK = 14
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
IO_URING_SETUP = 425  # The same number on every architecture.


def expect_refusal(result, code, *words):
    """One line on stderr that has all the words; nothing on stdout."""
    exit_code, stdout, lines = result
    lines = [line for line in lines if line.startswith("coreflume: ")]
    equal(exit_code, code, f"exit code; stderr {lines}")
    equal(stdout, "", "stdout")
    equal(len(lines), 1, f"lines of refusal in {result[2]}")
    for word in words:
        expect(word in lines[0], f"{word!r} is not in {lines[0]!r}")


def test_unknown_option():
    expect_refusal(refused_start(None, "--data-dirs", "x"), 2, "--data-dirs", "--data-dir'")


def test_option_without_value():
    expect_refusal(refused_start(None, "--config"), 2, "--config", "value")


def test_cluster_options_come_later():
    expect_refusal(refused_start(None, "--seeds", "a:1"), 2, "--seeds", "one node")


def test_unknown_key_in_file():
    directory = fresh_dir("refusal_key")
    config = directory / "coreflume.yaml"
    config.write_text("node.id: 1\nauto.create.topic.enable: true\n")
    expect_refusal(refused_start(directory / "data", "--config", str(config)), 1,
                   "coreflume.yaml:2", "auto.create.topic.enable", "'auto.create.topics.enable'")


def test_bad_value_in_file():
    directory = fresh_dir("refusal_value")
    config = directory / "coreflume.yaml"
    config.write_text("\nnum.partitions: many\n")
    expect_refusal(refused_start(directory / "data", "--config", str(config)), 1,
                   "coreflume.yaml:2", "num.partitions", "many")


def test_c143_no_wrong_value_becomes_a_default():
    """The fault names place, key, value and what is expected; nothing was begun."""
    directory = fresh_dir("refusal_values")
    config = directory / "coreflume.yaml"
    for key, value, expected in (("log.retention.ms", "foobar", "milliseconds"), ("num.partitions", "3.5", "a whole number"),
                                 ("listeners", "127.0.0.1", "NAME://HOST:PORT"), ("message.max.bytes", "1G", "bytes, or a size"),
                                 ("num.partitions", "3\u00a0", "a whole number"),
                                 ("auto.create.topics.enable", "yes", "true or false"),
                                 ("compression.type", "brotli", "one of")):
        seen = value.replace("\u00a0", "\\xc2\\xa0")
        config.write_text(f"node.id: 1\n{key}: {value}\n")
        no_listener = {"kafka": None} if key == "listeners" else {}
        expect_refusal(refused_start(directory / "data", "--config", str(config), **no_listener), 1,
                       "coreflume.yaml:2", "" if no_listener else f"'{key}'", f"'{seen}'", expected)
        expect_refusal(refused_start(directory / "data", "--set", f"{key}={value}", **no_listener), 1, "--set", f"'{seen}'", expected)
    config.write_text("node.id: 1\nnum.partitions: 2\nnode.id: 1\n")
    expect_refusal(refused_start(directory / "data", "--config", str(config)), 1, "coreflume.yaml:3", "'node.id'", "coreflume.yaml:1")
    expect(not (directory / "data").exists(), "a data directory was made")


def test_c145_a_config_file_is_only_read():
    """A hundred at once, read-only; what they refuse and what they serve leaves it as it was."""
    directory = fresh_dir("refusal_read_only")
    config = directory / "coreflume.yaml"

    def state():
        found = config.stat()
        return config.read_bytes(), found.st_mtime_ns, found.st_ino, found.st_mode, sorted(p.name for p in directory.iterdir())
    config.write_bytes(b"\xef\xbb\xbfnum.partitions: 3\r\nnode.id:\tx # The last line has no end.")
    config.chmod(0o444)
    before = state()
    command = [binary(), "start", "--config", str(config), "--data-dir", str(directory / "data")]
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(100)]
    answers = {process.communicate(timeout=60)[1] for process in started}
    equal(len(answers), 1, "different answers")
    expect("coreflume.yaml:2: 'node.id' cannot be 'x'" in answers.pop(), "what is wrong")
    equal(state(), before, "the file and its directory")
    config.chmod(0o644)
    config.write_bytes(before[0].replace(b"x #", b"7 #"))
    config.chmod(0o444)
    before = state()[:-1]
    with Node(directory / "data", "--config", str(config), "--cores", "0") as node:
        equal(node.stop()[0], 0, "exit code")
    equal(state()[:-1], before, "the file")


def test_config_file_missing():
    expect_refusal(refused_start(None, "--config", "/nowhere/c.yaml"), 1, "/nowhere/c.yaml")


def test_unknown_key_of_set():
    expect_refusal(refused_start(None, "--set", "num.partition=3"), 1, "num.partition", "'num.partitions'")


def test_topic_default_out_of_range():
    expect_refusal(refused_start(None, "--set", "log.segment.bytes=1000"), 1, "log.segment.bytes", "1000")


def test_listener_forms():
    expect_refusal(refused_start(None, "--set", "listeners=127.0.0.1:9092"), 1, "NAME://HOST:PORT")
    expect_refusal(refused_start(None, "--set", "advertised.listeners=OTHER://a:1"), 1, "OTHER")
    expect_refusal(refused_start(None, "--set", "listener.security.protocol.map=PLAINTEXT:SSL"), 1, "SSL")


def test_cores():
    expect_refusal(refused_start(None, "--cores", "0,4000"), 1, "4000", "all")
    expect_refusal(refused_start(None, "--cores", "one"), 1, "'one'")


def test_memory():
    expect_refusal(refused_start(None, "--memory", "1MiB"), 1, "--memory")
    expect_refusal(refused_start(None, "--memory", "900000GiB"), 1, "--memory")


def test_kafka_port_taken():
    directory = fresh_dir("refusal_port")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        expect_refusal(refused_start(directory / "data", kafka=address), 1, address)


def test_port_taken_by_another_node():
    """Also by a process that opened it for sharing (SO_REUSEPORT), as each of our shards does."""
    directory = fresh_dir("refusal_port_shared")
    with Node(directory / "a") as node:
        expect_refusal(refused_start(directory / "b", kafka=node.kafka), 1, node.kafka)


def test_admin_port_taken():
    directory = fresh_dir("refusal_admin_port")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        expect_refusal(refused_start(directory / "data", admin=address), 1, "admin", address)


def test_directory_locked():
    directory = fresh_dir("refusal_lock")
    with Node(directory / "data"):
        expect_refusal(refused_start(directory / "data"), 1, str(directory / "data"))


def test_another_node():
    directory = fresh_dir("refusal_node")
    with Node(directory / "data", "--node-id", "7") as node:
        node.stop()
    expect_refusal(refused_start(directory / "data", "--node-id", "8"), 1, "node 7", "--node-id 7")


def edit_format(data_dir, **changes):
    path = pathlib.Path(data_dir) / "format.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_newer_format():
    directory = fresh_dir("refusal_newer")
    with Node(directory / "data") as node:
        node.stop()
    edit_format(directory / "data", version=99)
    expect_refusal(refused_start(directory / "data"), 1, "99")


def test_another_cluster():
    """The directory says one cluster, the data in it are another's."""
    directory = fresh_dir("refusal_cluster")
    with Node(directory / "data") as node:
        node.stop()
    edit_format(directory / "data", cluster_id="AAAAAAAAAAAAAAAAAAAAEg")
    expect_refusal(refused_start(directory / "data"), 1, "cluster")


def deny_io_uring():
    """A seccomp filter as container runtimes have it: io_uring_setup fails with EPERM."""
    def statement(code, jt, jf, k):
        return struct.pack("HBBI", code, jt, jf, k)
    program = (statement(0x20, 0, 0, 0) +                     # Load the number of the call.
               statement(0x15, 0, 1, IO_URING_SETUP) +        # Is it this one?
               statement(0x06, 0, 0, 0x00050000 | 1) +        # EPERM.
               statement(0x06, 0, 0, 0x7FFF0000))             # Allow.
    filters = ctypes.create_string_buffer(program)
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(filters)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header):
        raise OSError(ctypes.get_errno(), "seccomp")


def test_no_io_uring():
    directory = fresh_dir("refusal_seccomp")
    expect_refusal(refused_start(directory / "data", preexec_fn=deny_io_uring), 1, "io_uring", "seccomp")


def limit_memlock():
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)


def test_memlock_too_small():
    directory = fresh_dir("refusal_memlock")
    expect_refusal(refused_start(directory / "data", preexec_fn=limit_memlock), 1,
                   "ulimit -l", "CAP_IPC_LOCK", "--memory")


def test_memlock_not_needed():
    directory = fresh_dir("refusal_memlock_off")
    options = ("--set", "coreflume.memory.lock=false")
    expect_refusal(refused_start(directory / "data", "--node-id", "no", *options, preexec_fn=limit_memlock), 1,
                   "node")


def test_no_direct_io():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        expect_refusal(refused_start(directory), 1, "direct I/O")


run_all(globals())

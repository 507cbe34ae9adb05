#!/usr/bin/env python3
"""Every subcommand against a real node, and against kcat both ways; error texts and exit codes."""
import base64
import http.server
import json
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

from support.check import equal, expect, run_all
from support.cli import cli, kcat, run
from support.node import Node, binary, fresh_dir
from support.wire import Connection, batch, batches

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LINES = [f"line {i} {'x' * (i % 300)}" for i in range(3000)]


# ---- topics ----

def test_topics_from_nothing_to_nothing():
    with Node(fresh_dir("cli_topics") / "data") as node:
        equal(cli(node, "topic", "list", "--json").json(), {"topics": []}, "empty")
        expect("coreflume topic create" in cli(node, "topic", "list").ok().out, "what to do first")
        equal(cli(node, "topic", "create", "a", "b", "-p", 3, "-c", "retention.ms=60000").lines(),
              ["created a", "created b"], "create")
        listed = cli(node, "topic", "list", "--json").json()["topics"]
        equal([(t["name"], t["partitions"], t["replication_factor"], t["internal"]) for t in listed],
              [("a", 3, 1, False), ("b", 3, 1, False)], "list")
        equal([sorted(t) for t in listed],
              [sorted(["name", "id", "partitions", "replication_factor", "internal"])] * 2, "fields")
        expect(re.search(r"^a +3 +1", cli(node, "topic", "list").ok().out, re.M), "table")
        equal(cli(node, "topic", "delete", "a").lines(), ["deleted a"], "delete")
        equal([t["name"] for t in cli(node, "topic", "list", "--json").json()["topics"]], ["b"], "after delete")


def test_create_returns_when_the_topic_is_ready():
    """As perf/bench.py uses it: at once after create every partition takes records."""
    with Node(fresh_dir("cli_ready") / "data") as node:
        for i in range(5):
            run("topic", "create", f"t{i}", "-p", "16", "-b", node.kafka).ok()
            for partition in (0, 7, 15):
                cli(node, "produce", f"t{i}", "-p", partition, text_in="x\n").ok()


def test_describe():
    with Node(fresh_dir("cli_describe") / "data", "--node-id", "7") as node:
        cli(node, "topic", "create", "d", "-p", 2).ok()
        cli(node, "produce", "d", "-p", 1, text_in="a\nb\n").ok()
        d = cli(node, "topic", "describe", "d", "--json").json()
        equal(d["name"], "d", "name")
        equal([(p["partition"], p["leader"], p["replicas"], p["isr"], p["start"], p["end"]) for p in d["partitions"]],
              [(0, 7, [7], [7], 0, 0), (1, 7, [7], [7], 0, 2)], "partitions")
        text = cli(node, "topic", "describe", "d").ok().out
        expect(re.search(r"^1 +7 +\d+ +7 +7 +0 +2$", text, re.M), text)


def test_each_topic_has_its_own_result():
    with Node(fresh_dir("cli_results") / "data") as node:
        cli(node, "topic", "create", "there").ok()
        done = cli(node, "topic", "create", "there", "new", "bad name", "--json")
        equal(done.code, 1, "exit code")
        results = {t["name"]: t for t in json.loads(done.out)["topics"]}
        equal({name: t["created"] for name, t in results.items()},
              {"there": False, "new": True, "bad name": False}, "created")
        expect("already exists" in results["there"]["error"], results["there"])
        equal(results["new"]["error"], None, "no error")
        cli(node, "topic", "create", "r2", "-r", "2").fails(1, "r2: ")
        cli(node, "topic", "create", "c", "-c", "retention.mss=1").fails(1, "retention.mss")
        cli(node, "topic", "delete", "nope").fails(1, "topic 'nope' does not exist")
        cli(node, "topic", "delete", "ther").fails(1, "topic 'ther' does not exist: did you mean 'there'?")
        for verb in ("create", "delete"):
            cli(node, "topic", verb, "one", "two", "one").fails(2, "'one' stands there twice")


# ---- records ----

def test_produce_and_consume():
    with Node(fresh_dir("cli_records") / "data") as node:
        cli(node, "topic", "create", "r").ok()
        equal(cli(node, "produce", "r", text_in="one\n\nthree").lines(), ["produced 3 records to r"], "produce")
        equal(cli(node, "consume", "r", "-e").lines(), ["one", "", "three"], "consume")
        equal(cli(node, "consume", "r", "-n", 2).lines(), ["one", ""], "-n")
        equal(cli(node, "consume", "r", "-e", "-o", "end").lines(), [], "from the end")
        equal(cli(node, "consume", "r", "-e", "-o", 2).lines(), ["three"], "from an offset")
        equal(cli(node, "consume", "r", "-e", "-o", "-1").lines(), ["three"], "the last one")
        equal(cli(node, "consume", "r", "-e", "-o", "-99").lines(), ["one", "", "three"], "more than there are")
        equal(cli(node, "consume", "r", "-e", "-o", "@-1h").lines(), ["one", "", "three"], "by time")
        equal(cli(node, "consume", "r", "-e", "-o", "@9999999999999").lines(), [], "a time to come")
        equal(cli(node, "produce", "r", "--json", text_in="").json(),
              {"topic": "r", "produced": 0, "failed": 0}, "nothing")


def test_keys_headers_and_formats():
    with Node(fresh_dir("cli_format") / "data") as node:
        cli(node, "topic", "create", "f", "-p", 4).ok()
        cli(node, "produce", "f", "-k", "key", "-H", "h=1", "-H", "empty=", "-H", "null", text_in="v\n").ok()
        [line] = cli(node, "consume", "f", "-e", "-f", "%t %p %o %k %v %K %S %h %%\\x41\\n").lines()
        expect(re.fullmatch(r"f \d 0 key v 3 1 h=1,empty=,null= %A", line), line)
        [record] = cli(node, "consume", "f", "-e", "--json").json_lines()
        equal(record["headers"], [{"key": "h", "value": "1"}, {"key": "empty", "value": ""},
                                  {"key": "null", "value": None}], "headers")
        equal((record["topic"], record["key"], record["value"], record["offset"]), ("f", "key", "v", 0), "record")
        expect(abs(record["timestamp"] / 1000 - time.time()) < 60, record)
        cli(node, "produce", "f", "-K", ": ", "-p", 2, text_in="a: 1\nb: 2: 3\nc\n").ok()
        equal(cli(node, "consume", "f", "-e", "-p", 2, "-f", "%k=%v\\n").lines(), ["a=1", "b=2: 3", "=c"], "-K")


def test_bytes_that_are_not_text():
    with Node(fresh_dir("cli_bytes") / "data") as node:
        cli(node, "topic", "create", "b").ok()
        value = bytes(range(256)).replace(b"\n", b"")
        subprocess.run([binary(), "produce", "b", "-b", node.kafka], input=value, check=True, capture_output=True)
        out = subprocess.run([binary(), "consume", "b", "-e", "-b", node.kafka], check=True, capture_output=True).stdout
        equal(out, value + b"\n", "bytes")
        [record] = cli(node, "consume", "b", "-e", "--json").json_lines()
        equal(base64.b64decode(record["value_base64"]), value, "base64")
        expect("value" not in record, record)


def test_keys_meet_in_the_partitions_of_other_clients():
    with Node(fresh_dir("cli_keys") / "data") as node:
        cli(node, "topic", "create", "k", "-p", 7).ok()
        pairs = [f"key{i}:{i}" for i in range(200)]
        cli(node, "produce", "k", "-K", ":", text_in="\n".join(pairs)).ok()
        kcat(node, "-P", "-t", "k", "-K:", "-X", "topic.partitioner=murmur2_random", lines=pairs)
        partitions = {}
        for line in cli(node, "consume", "k", "-e", "-f", "%p %k\\n").lines():
            partition, key = line.split()
            partitions.setdefault(key, []).append(partition)
        expect(all(len(p) == 2 and len(set(p)) == 1 for p in partitions.values()), partitions)
        expect(len({p[0] for p in partitions.values()}) == 7, "all partitions are used")


def test_every_codec_there_and_back():
    with Node(fresh_dir("cli_codecs") / "data") as node:
        for codec, number in CODECS.items():
            for idempotent in ([], ["--idempotent"]):
                topic = f"{codec}{len(idempotent)}"
                cli(node, "topic", "create", topic).ok()
                cli(node, "produce", topic, "-z", codec, *idempotent, text_in="\n".join(LINES)).ok()
                equal(kcat(node, "-C", "-t", topic, "-o", "beginning", "-e", "-q"), LINES, f"kcat reads {topic}")
                equal(cli(node, "consume", topic, "-e").lines(), LINES, f"we read {topic}")
                with Connection(node.kafka) as c:
                    stored = batches(c.fetch(topic, 0, 0)[2])
                equal({attributes & 7 for _, attributes, *_ in stored}, {number}, f"{topic}: codec")
            topic = f"{codec}-kcat"
            kcat(node, "-P", "-t", topic, "-z", codec, lines=LINES)
            equal(cli(node, "consume", topic, "-e").lines(), LINES, f"we read kcat's {codec}")


def test_acks_and_many_partitions():
    with Node(fresh_dir("cli_acks") / "data") as node:
        for acks in ("all", "-1", "1", "0"):
            topic = f"acks{acks}"
            cli(node, "topic", "create", topic, "-p", 8).ok()
            cli(node, "produce", topic, "--acks", acks, text_in="\n".join(LINES)).ok()
            deadline = time.monotonic() + 10
            got = []
            while len(got) < len(LINES) and time.monotonic() < deadline:
                got = cli(node, "consume", topic, "-e").lines()
            equal(sorted(got), sorted(LINES), topic)


def test_large_records():
    with Node(fresh_dir("cli_large") / "data") as node:
        cli(node, "topic", "create", "l").ok()
        lines = [str(i) * 900000 for i in range(6)]
        cli(node, "produce", "l", text_in="\n".join(lines)).ok()
        equal(cli(node, "consume", "l", "-e").lines(), lines, "large")
        cli(node, "produce", "l", text_in="x" * 2000000).fails(1, "max.message.bytes")


def test_consume_waits_and_prints_at_once():
    with Node(fresh_dir("cli_follow") / "data") as node:
        cli(node, "topic", "create", "w", "-p", 3).ok()
        consumer = subprocess.Popen([binary(), "consume", "w", "-b", node.kafka, "-o", "end", "-n", "2"],
                                    stdout=subprocess.PIPE, text=True)
        producer = subprocess.Popen([binary(), "produce", "w", "-b", node.kafka], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)
        try:
            time.sleep(1)
            for word in ("first", "second"):
                producer.stdin.write(word + "\n")
                producer.stdin.flush()
                equal(consumer.stdout.readline(), word + "\n", "while the producer's input is open")
            equal(consumer.wait(timeout=10), 0, "exit code")
            producer.stdin.close()
            equal(producer.stdout.read(), "produced 2 records to w\n", "the producer's last word")
            equal(producer.wait(timeout=10), 0, "exit code")
        finally:
            consumer.kill()
            producer.kill()
            consumer.wait()
            producer.wait()


def test_idempotent_over_a_restart():
    """The broker dies and comes back under a producer: nothing lost, nothing twice, order kept."""
    directory = fresh_dir("cli_restart")
    with Node(directory / "data") as node:
        cli(node, "topic", "create", "i").ok()
        port = node.kafka
        producer = subprocess.Popen([binary(), "produce", "i", "-b", node.kafka, "--idempotent"],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines = [f"{i}" for i in range(60)]
        try:
            for line in lines[:30]:
                producer.stdin.write(line + "\n")
                producer.stdin.flush()
                time.sleep(0.005)
            node.kill()
            producer.stdin.write("\n".join(lines[30:45]) + "\n")
            producer.stdin.flush()
            with Node(directory / "data", kafka=port) as again:
                producer.stdin.write("\n".join(lines[45:]) + "\n")
                out, err = producer.communicate(timeout=60)
                equal((producer.returncode, err), (0, ""), "the producer")
                equal(out, "produced 60 records to i\n", "the producer's count")
                equal(cli(again, "consume", "i", "-e").lines(), lines, "the log")
        finally:
            producer.kill()
            producer.wait()


# ---- log dump ----

def test_log_dump():
    directory = fresh_dir("cli_dump")
    with Node(directory / "data") as node:
        cli(node, "topic", "create", "d").ok()
        cli(node, "produce", "d", "-k", "k", "-z", "zstd", "--idempotent", text_in="a\nb\n").ok()
        cli(node, "produce", "d", text_in="c\n").ok()
        [segment] = (directory / "data" / "logs" / "d-0").glob("*.log")
        items = run("log", "dump", segment, "--json", "--records").json_lines()
        equal(items[0]["kind"], "segment", "first")
        equal(items[-1]["kind"], "end", "last")
        data = [i["entry"] for i in items if i["kind"] == "entry" and i["entry"]["type"] == "data"]
        equal([(e["batch"]["base_offset"], e["batch"]["last_offset"], e["batch"]["codec"]) for e in data],
              [(0, 1, "zstd"), (2, 2, "none")], "batches")
        equal([[(r["key"], r["value"]) for r in e["batch"]["records"]] for e in data],
              [[("k", "a"), ("k", "b")], [(None, "c")]], "records")
        equal([i for i in items if "fault" in i], [], "faults")
        with Connection(node.kafka) as c:
            equal(c.produce("d", 0, batch([b"\xff\x00!"]))[0], 0, "bytes that are no text")
        record = run("log", "dump", segment, "--json", "--records").json_lines()[-2]["entry"]["batch"]["records"][0]
        equal((record["value_base64"], "value" in record), ("/wAh", False), "nothing is lost")
        text = run("log", "dump", segment).ok().out
        expect("offsets=0-1 records=2 codec=zstd" in text, text)
        node.kill()
        damaged = directory / "damaged.log"
        damage = bytearray(segment.read_bytes())
        at = damage.index(b"\x00\x00\x00\x02\x01c") if b"\x00\x00\x00\x02\x01c" in damage else damage.rindex(b"c")
        damage[at] ^= 1
        damaged.write_bytes(damage)
        items = [json.loads(line) for line in run("log", "dump", damaged, "--json").ok().out.splitlines()]
        expect([i for i in items if "fault" in i], "a changed byte is not seen")
    evil = directory / "evil\x1b[2J\u009b2J"
    evil.mkdir()
    (evil / "a.log").write_bytes(damage)
    for done in (run("log", "dump", evil / "a.log"), run("log", "dump", evil / "nope.log"), run("check", "--data-dir", evil)):
        said = done.out + done.err
        expect("evil?[2J?2J" in said and all(c == "\n" or c.isprintable() for c in said), repr(said))
    run("log", "dump", directory / "nope.log").fails(1, "no such file")
    run("log", "dump", pathlib.Path(__file__)).fails(1, "not a segment file")


def test_dump_of_stores_and_checkpoints():
    """Small checkpoints are in the store, large ones in files; what was written last need not be in one."""
    data = fresh_dir("cli_dump_values") / "data"
    with Node(data, "--cores", "0", "--set", "coreflume.log.checkpoint.bytes=65536") as node:
        cli(node, "topic", "create", "d", "-c", "segment.bytes=1048576").ok()
        for _ in range(3):
            cli(node, "produce", "d", text_in="\n".join(LINES)).ok()
        described = cli(node, "topic", "describe", "d", "--json").json()
        running = run("log", "dump", data / "shard-0.store", "--json").json_lines()
        expect(any(i["kind"] == "segment_record" for i in running), "while the broker runs")
    items = run("log", "dump", data / "shard-0.store", "--json").json_lines()
    equal((items[0]["kind"], items[0]["store"]["shard"], items[0]["store"]["shards"]), ("store", 0, 1), "the store")
    log = f"{described['id']}-0"
    of_log = {i["kind"]: i[i["kind"]] for i in items[1:] if i[i["kind"]].get("log") == log}
    expect(0 < of_log["checkpoint_record"]["next_offset"] <= described["partitions"][0]["end"], of_log)
    expect(of_log["segment_record"]["filled_to"] > 0 and of_log["durable"]["durable_index"] > 0, of_log)
    text = run("log", "dump", data / "shard-0.store").ok().out
    expect(re.search(rf"^  log id={log} version=\d+ values=\d+$", text, re.M), text)
    expect(re.search(r"^    durable durable_index=\d+ commit_index=\d+ generation=\d+ end_segment=\d+ end_pos=\d+$", text, re.M), text)
    damaged = data.parent / "shard-9.store"
    damage = bytearray((data / "shard-0.store").read_bytes())
    damage[4096 + 100] ^= 1
    damage[4096 * 257 + 100] ^= 1
    damaged.write_bytes(damage)
    run("log", "dump", damaged).fails(1, "damaged at position")
    damage[100] ^= 1
    damaged.write_bytes(damage)
    run("log", "dump", damaged).fails(1, "not a store file")


# ---- the machine, the binary, help ----

def test_check():
    done = run("check", "--json", "--data-dir", fresh_dir("cli_check"))
    result = json.loads(done.out)
    equal(done.code, 0 if result["ok"] else 1, "exit code")
    checks = {c["name"]: c for c in result["checks"]}
    for name in ("kernel", "io_uring", "locked memory", "open files", "direct I/O", "shared flush", "free space"):
        expect(checks[name]["status"] in ("PASS", "WARN", "FAIL"), name)
    expect(all((c["advice"] is None) == (c["status"] == "PASS") for c in result["checks"]), "advice for each trouble")
    expect("PASS" in run("check", "--data-dir", fresh_dir("cli_check")).out, "table")
    done = run("check", "--json", "--data-dir", "/dev/shm/coreflume")
    equal(done.code, 1, "a file system without direct I/O")
    equal({c["name"]: c["status"] for c in json.loads(done.out)["checks"]}["direct I/O"], "FAIL", "tmpfs")


def test_version():
    lines = run("version").lines()
    expect(re.fullmatch(r"coreflume \d+\.\d+\.\d+", lines[0]), lines[0])
    equal([line.split()[0] for line in lines[1:]], ["commit", "build", "libraries"], "lines")
    version = run("version", "--json").json()
    equal(sorted(version), sorted(["version", "commit", "build", "compiler", "machine", "libraries"]), "fields")
    expect("zstd" in version["libraries"], version)


def test_help():
    text = run("help").ok().out
    for command in ("start", "topic create", "topic list", "topic describe", "topic delete", "produce", "consume",
                    "log dump", "check", "version"):
        expect(f"  {command} " in text, f"{command} is not in help")
        own = run(*command.split(), "--help").ok().out
        expect(f"usage: coreflume {command}" in own, own)
    equal(run("--help").ok().out, text, "--help")
    equal(run("help", "topic").ok().out, run("topic", "--help").ok().out, "of a group")


def test_help_knows_what_start_takes():
    own = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", run("help", "start").ok().out, re.M))
    broker = subprocess.run([binary(), "start", "--help"], capture_output=True, text=True, timeout=10)
    equal(own, set(re.findall(r"^ +(--[a-z-]+)", broker.stdout + broker.stderr, re.M)), "options of start")


# ---- wrong use and trouble: one line that says what to do ----

def test_wrong_use():
    run().fails(2, "a command is missing: see 'coreflume help'")
    run("topc", "list").fails(2, "unknown command 'topc', did you mean 'coreflume topic'?")
    run("topic", "lst").fails(2, "did you mean 'coreflume topic list'?")
    run("topic", "create").fails(2, "'topic create' needs NAME...")
    run("topic", "create", "x", "--partition", "3").fails(2, "did you mean '--partitions'?")
    run("topic", "create", "x", "-p", "many").fails(2, "'many' is not a number from 1 to")
    run("topic", "create", "x", "-c", "nonsense").fails(2, "'nonsense' is not NAME=VALUE")
    run("produce", "x", "-z", "lzma").fails(2, "'lzma' is none of none|gzip|snappy|lz4|zstd")
    run("produce", "x", "--acks", "1", "--idempotent").fails(2, "--idempotent needs --acks all")
    run("consume", "x", "-o", "latest").fails(2, "'latest' is none of start, end, N, -N, @TIME")
    run("consume", "x", "-f", "%q").fails(2, "'%q' means nothing")
    run("topic", "list", "-b", "host:port").fails(2, "'host:port' is not the address of a broker")


def test_no_broker():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    for command in (["topic", "list"], ["produce", "t"], ["consume", "t"], ["topic", "create", "t"]):
        run(*command, "-b", address).fails(
            1, f"cannot reach {address} (connection refused): is the broker running? start one with: coreflume start")
    run("topic", "list", "-b", "no.such.host.invalid:1").fails(1, "cannot reach no.such.host.invalid:1 (")
    with Node(fresh_dir("cli_second") / "data") as node:
        run("topic", "list", "-b", f"{address},{node.kafka}").ok()


def test_strangers():
    with Node(fresh_dir("cli_strangers") / "data") as node:
        run("topic", "list", "-b", node.admin).fails(1, "is an HTTP server, not a Kafka listener")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        def hang_up():
            try:
                for _ in range(2):
                    s.accept()[0].close()
            except OSError:
                pass  # One was enough.
        threading.Thread(target=hang_up, daemon=True).start()
        run("topic", "list", "-b", f"127.0.0.1:{s.getsockname()[1]}").fails(1, "is it a Kafka listener")


def test_wrong_advertised_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        wrong = f"127.0.0.1:{s.getsockname()[1]}"
    with Node(fresh_dir("cli_advertised") / "data", "--advertise", wrong) as node:
        cli(node, "topic", "create", "a").ok()
        done = cli(node, "produce", "a", "--timeout", "1", text_in="x\n")
        equal(done.code, 1, "exit code")
        expect(f"cannot reach {wrong}" in done.err and "advertised.listeners" in done.err, done.err)


def test_unknown_topics_partitions_offsets():
    with Node(fresh_dir("cli_unknown") / "data") as node:
        cli(node, "topic", "create", "orders").ok()
        cli(node, "produce", "orders", text_in="x\n").ok()
        for command in ("produce", "consume"):
            cli(node, command, "ordres").fails(1, "topic 'ordres' does not exist: did you mean 'orders'?")
            cli(node, command, "quite-else").fails(1, "make it with: coreflume topic create quite-else")
        equal([t["name"] for t in cli(node, "topic", "list", "--json").json()["topics"]], ["orders"],
              "asking creates nothing")
        cli(node, "topic", "describe", "nope").fails(1, "topic 'nope' does not exist")
        cli(node, "consume", "orders", "-p", 5).fails(1, "topic 'orders' has no partition 5, only 0 to 0")
        cli(node, "produce", "orders", "-p", 5, text_in="x").fails(1, "has no partition 5, only 0 to 0")
        cli(node, "consume", "orders", "-o", 9).fails(1, "offset 9 is not in orders[0], which holds 0 to 1")


def test_trim():
    with Node(fresh_dir("cli_trim") / "data") as node:
        cli(node, "topic", "create", "t", "-p", 2).ok()
        cli(node, "produce", "t", "-p", 0, text_in="a\nb\nc\nd\n").ok()
        cli(node, "produce", "t", "-p", 1, text_in="x\n").ok()
        cli(node, "topic", "trim", "t").fails(2, "name it with -o")
        cli(node, "topic", "trim", "t", "-o", "soon").fails(2, "'soon' is none of start, end")
        cli(node, "topic", "trim", "tt", "-o", "end").fails(1, "did you mean 't'?")
        cli(node, "topic", "trim", "t", "-o", "end", "-p", 2).fails(1, "has no partition 2, only 0 to 1")
        cli(node, "topic", "trim", "t", "-o", 3).fails(1, "3 is behind the end of t[1], which holds 0 to 1")
        equal(cli(node, "consume", "t", "-p", 0, "-e").lines(), ["a", "b", "c", "d"], "nothing was deleted")
        text = cli(node, "topic", "trim", "t", "-o", -2).ok().out
        expect(re.search(r"^0 +0 +2 +4$", text, re.M) and re.search(r"^1 +0 +0 +1$", text, re.M), text)
        equal(cli(node, "consume", "t", "-p", 0, "-e", "-f", "%o %v\\n").lines(), ["2 c", "3 d"], "the last two stay")
        equal(cli(node, "topic", "trim", "t", "-p", 0, "-o", 1, "--json").json(),
              {"name": "t", "partitions": [{"partition": 0, "trimmed": True, "before": 2, "start": 2}]}, "never back")
        cli(node, "topic", "trim", "t", "-o", "@9999999999999").ok()
        equal(cli(node, "consume", "t", "-e").lines(), [], "all older than a time to come")
        equal(kcat(node, "-Q", "-t", "t:0:-2")[0].split()[-1], "4", "kcat's earliest")
        cli(node, "topic", "create", "c", "-c", "cleanup.policy=compact").ok()
        cli(node, "topic", "trim", "c", "-o", "end").fails(1, "its cleanup.policy is compact")


def test_grow():
    with Node(fresh_dir("cli_grow") / "data") as node:
        cli(node, "topic", "create", "g", "-p", 2).ok()
        equal(cli(node, "topic", "grow", "g", "-p", 5).lines(), ["grown g"], "grow")
        for partition in range(5):
            cli(node, "produce", "g", "-p", partition, text_in="x\n").ok()
        equal(len(cli(node, "topic", "describe", "g", "--json").json()["partitions"]), 5, "partitions")
        done = cli(node, "topic", "grow", "g", "-p", 3, "--json")
        equal((done.code, json.loads(done.out)["grown"]), (1, False), "fewer")
        cli(node, "topic", "grow", "g", "-p", 5).fails(1, "g: ")
        cli(node, "topic", "grow", "nope", "-p", 5).fails(1, "topic 'nope' does not exist")


def test_options_of_topics():
    with Node(fresh_dir("cli_config") / "data") as node:
        cli(node, "topic", "create", "o", "-c", "retention.ms=60000").ok()
        configs = {o["name"]: o for o in cli(node, "topic", "config", "o", "--json").json()["configs"]}
        equal(configs["retention.ms"], {"name": "retention.ms", "value": "60000", "source": "topic"}, "set")
        equal(configs["cleanup.policy"]["source"], "default", "not set")
        expect(re.search(r"^retention.ms +60000 +topic$", cli(node, "topic", "config", "o").ok().out, re.M), "table")
        cli(node, "topic", "config", "oo").fails(1, "did you mean 'o'?")
        cli(node, "topic", "alter", "o").fails(2, "needs an option to set")
        cli(node, "topic", "alter", "oo", "-c", "retention.ms=1").fails(1, "topic 'oo' does not exist: did you mean 'o'?")
        cli(node, "topic", "alter", "oo", "--reset", "retention.ms").fails(1, "topic 'oo' does not exist: did you mean 'o'?")
        cli(node, "topic", "alter", "o", "--reset", "retention.m").fails(
            1, "topics have no option 'retention.m', did you mean 'retention.ms'?")
        expect("\noptions     retention.ms=60000\n\nPARTITION" in cli(node, "topic", "describe", "o").ok().out, "described")
        equal(cli(node, "topic", "describe", "o", "--json").json()["configs"], [{"name": "retention.ms", "value": "60000"}],
              "described in JSON")
        cli(node, "topic", "alter", "o", "--reset", "retention.ms").ok()
        equal(cli(node, "topic", "describe", "o", "--json").json()["configs"], [], "after reset")
        cli(node, "topic", "alter", "o", "-c", "x").fails(2, "'x' is not NAME=VALUE")
        cli(node, "topic", "grow", "o").fails(2, "'topic grow' needs -p N")


def test_options_of_brokers():
    with Node(fresh_dir("cli_broker_config") / "data", "--set", "log.roll.hours=12") as node:
        cli(node, "topic", "create", "o").ok()

        def options(*words):
            return {o["name"]: (o["value"], o["source"]) for o in cli(node, *words, "--json").json()["configs"]}
        equal(options("broker", "config"), {}, "nothing is set for all")
        equal(options("broker", "config", 1)["log.roll.hours"], ("12", "broker's start"), "of the start")
        expect("nothing is set for all brokers" in cli(node, "broker", "config").ok().out, "nothing yet")
        cli(node, "broker", "alter", "-c", "log.retention.mss=1").fails(
            1, "brokers have no option 'log.retention.mss', did you mean 'log.retention.ms'?")
        cli(node, "broker", "alter", 1, "--reset", "log.retention").fails(1, "did you mean 'log.retention")
        equal(cli(node, "broker", "alter", "-c", "log.retention.ms=60000").lines(), ["altered all brokers"], "all")
        equal(cli(node, "broker", "alter", 1, "-c", "message.max.bytes=5000").lines(), ["altered 1"], "one")
        equal(options("broker", "config"), {"log.retention.ms": ("60000", "all brokers")}, "of all")
        equal(options("broker", "config", 1)["message.max.bytes"], ("5000", "broker"), "of one")
        equal(options("topic", "config", "o")["retention.ms"], ("60000", "all brokers"), "of a topic without its own")
        cli(node, "broker", "alter", "--reset", "log.retention.ms").ok()
        equal(options("topic", "config", "o")["retention.ms"], ("604800000", "default"), "reset")
        cli(node, "broker", "alter", 1, "-c", "node.id=2").fails(1, "1: Cannot update these configs dynamically: [node.id]")
        cli(node, "broker", "alter", "-c", "log.segment.bytes=1").fails(1, "Value must be at least 1048576")
        cli(node, "broker", "alter", 7, "-c", "log.roll.ms=5").fails(1, "node 7 is not in the cluster now")
        cli(node, "broker", "config", 7).fails(1, "node 7 is not in the cluster now")
        cli(node, "broker", "alter").fails(2, "'broker alter' needs an option to set")


def test_output_that_cannot_be_written():
    with Node(fresh_dir("cli_full") / "data") as node:
        cli(node, "topic", "create", "o").ok()
        cli(node, "produce", "o", text_in="\n".join(LINES)).ok()
        with open("/dev/full", "w") as full:
            done = subprocess.run([binary(), "consume", "o", "-e", "-b", node.kafka], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=30)
        equal(done.returncode, 1, "exit code")
        expect("cannot write the output (No space left on device)" in done.stderr, done.stderr)


def test_streams_that_are_closed():
    """They are no file of ours: nothing is read from a socket, and nothing written into one."""
    def closed(streams, *arguments):
        return subprocess.run(["bash", "-c", f'exec "$@" {streams}', "bash", binary(), *arguments, "-b", node.kafka],
                              capture_output=True, text=True, timeout=30)

    with Node(fresh_dir("cli_closed") / "data") as node:
        cli(node, "topic", "create", "o").ok()
        cli(node, "produce", "o", text_in="eight b\n").ok()
        done = closed("<&-", "produce", "o")
        equal(done.returncode, 1, "exit code")
        expect("cannot read the input (Bad file descriptor)" in done.stderr, done.stderr)
        for arguments in ("consume", "o", "-e"), ("topic", "list"):
            done = closed(">&-", *arguments)
            equal(done.returncode, 1, f"exit code of {arguments}")
            expect("cannot write the output (Bad file descriptor)" in done.stderr, done.stderr)
        equal(closed("<&- >&- 2>&-", "produce", "o").returncode, 1, "exit code without any")


def test_a_node_without_streams_writes_into_no_file():
    directory = fresh_dir("cli_closed_start") / "data"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [binary(), "start", "--cores", "0", "--data-dir", directory, "--kafka", address, "--admin", "127.0.0.1:0"]
    node = subprocess.Popen(["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", *map(str, command)])
    try:
        for _ in range(300):
            if run("topic", "create", "o", brokers=address).code == 0:
                break
            time.sleep(0.1)
        files = {os.readlink(f"/proc/{node.pid}/fd/{fd}") for fd in range(3)}
        equal(files, {"/dev/null"}, "standard streams")
        node.terminate()
        equal(node.wait(timeout=30), 0, "exit code")
        equal((directory / "LOCK").read_bytes(), b"", "the lock file")
    finally:
        node.kill()
        node.wait()


run_all(globals())

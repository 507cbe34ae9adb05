#!/usr/bin/env python3
"""produce and consume: every form of input and output, copied to and fro and against kcat."""
import json
import os
import pty
import re
import signal
import subprocess
import time

from support.check import equal, expect, run_all
from support.cli import cli, kcat, run
from support.node import Node, binary, fresh_dir

# Key, value, headers; None is null. What text cannot say is among them.
RECORDS = [
    ("k", "v", []),
    (None, "v", [("h", "1")]),
    ("", "", [("empty", ""), ("null", None), ("empty", "again")]),
    ("tombstone", None, []),
    (None, None, []),
    ("quote\"d\\", "two\nlines\ttab \u00e4 \U0001f600", [("h\u00e4", "=,\n")]),
    ("zero\0", "\0", []),
]

# Records of long ago are not to be deleted at once.
KEPT = ("-c", "retention.ms=-1")


def lines_of(records, **more):
    return "".join(json.dumps({"key": k, "value": v, "headers": [{"key": n, "value": x} for n, x in h], **more}) + "\n"
                   for k, v, h in records)


def bare(records):
    """What a copy has to have in common."""
    return [{name: value for name, value in r.items() if name not in ("topic", "offset")} for r in records]


def piped(node, source, sink, between=None):
    """Output of one command as input of another, bytes as they are."""
    done = subprocess.run([binary(), *map(str, source), "-b", node.kafka], capture_output=True, timeout=60)
    expect(done.returncode == 0, f"{source}: {done.stderr}")
    done = subprocess.run([binary(), *map(str, sink), "-b", node.kafka], input=done.stdout, capture_output=True, timeout=60)
    expect(done.returncode == 0 and done.stderr == b"", f"{sink}: {done.stderr}")
    return done.stdout.decode()


def test_json_there_and_back():
    with Node(fresh_dir("cli_json") / "data") as node:
        cli(node, "topic", "create", "from", "to", "spread", "-p", 3, *KEPT).ok()
        for number, timestamp in enumerate((0, 1700000000123, -1)):
            done = cli(node, "produce", "from", "--json", "-p", number,
                       text_in=lines_of(RECORDS, timestamp=timestamp) + "\n \n" + lines_of(RECORDS[:1], timestamp=timestamp))
            equal(done.json(), {"topic": "from", "produced": len(RECORDS) + 1, "failed": 0}, "produced")
        cli(node, "produce", "from", "--json", "-p", 1, text_in='{"value_base64":"/wA=","key_base64":"gIE=",'
            '"headers":[{"key_base64":"/g==","value_base64":"/Q=="}]}').ok()
        equal(json.loads(piped(node, ["consume", "from", "--json", "-e"], ["produce", "to", "--json", "--keep-partitions"])),
              {"topic": "to", "produced": 3 * len(RECORDS) + 4, "failed": 0}, "copied")
        for partition in range(3):
            one, other = (cli(node, "consume", topic, "--json", "-e", "-p", partition).json_lines() for topic in ("from", "to"))
            equal(bare(one), bare(other), f"partition {partition}")
            expect([r["offset"] for r in one] == list(range(len(one))) and len(one) > len(RECORDS), one)
        one = cli(node, "consume", "from", "--json", "-e", "-p", 1).json_lines()
        equal([(r["key"], r["value"], [(h["key"], h["value"]) for h in r["headers"]]) for r in one[:len(RECORDS)]],
              RECORDS, "what was meant")
        piped(node, ["consume", "from", "--json", "-e"], ["produce", "spread", "--json"])
        keyed = [r for r in cli(node, "consume", "spread", "--json", "-e").json_lines() if r.get("key") == "k"]
        equal(len({r["partition"] for r in keyed}), 1, "a key has one partition unless they are kept")


def test_kcat_reads_what_we_write():
    with Node(fresh_dir("cli_to_kcat") / "data") as node:
        cli(node, "topic", "create", "t", *KEPT).ok()
        cli(node, "produce", "t", "--json", text_in=lines_of(RECORDS, timestamp=1700000000123)).ok()
        got = [json.loads(line) for line in kcat(node, "-C", "-t", "t", "-e", "-q", "-J")]
        equal([(r["key"], r["payload"], r["ts"]) for r in got], [(k, v, 1700000000123) for k, v, _ in RECORDS], "records")
        flat = [r.get("headers", []) for r in got]
        equal([list(zip(h[::2], h[1::2])) for h in flat], [h for _, _, h in RECORDS], "headers")


def test_we_read_what_kcat_writes():
    with Node(fresh_dir("cli_from_kcat") / "data") as node:
        cli(node, "topic", "create", "t", *KEPT).ok()
        kcat(node, "-P", "-t", "t", "-K:", "-Z", "-H", "a=1", "-H", "empty=", "-H", "null", lines=["k:v", ":v", "k:", "a:b:c"])
        got = cli(node, "consume", "t", "-e", "--json").json_lines()
        equal([(r["key"], r["value"]) for r in got], [("k", "v"), (None, "v"), ("k", None), ("a", "b:c")], "records")
        equal(got[0]["headers"], [{"key": "a", "value": "1"}, {"key": "empty", "value": ""}, {"key": "null", "value": None}],
              "headers")


# Letters that both have; sizes stand before what they are of.
SHARED = "%t %p %o %T [%K] [%S] <%h> %k=%s;\\n"


def test_formats_print_as_kcat_prints():
    with Node(fresh_dir("cli_kcat_format") / "data") as node:
        cli(node, "topic", "create", "t", *KEPT).ok()
        records = [r for r in RECORDS if not any(v is None for _, v in r[2])]
        cli(node, "produce", "t", "--json", text_in=lines_of(records, timestamp=5)).ok()
        for text, ours, theirs in (("as it is", [], []), ("null shown", ["-Z", "NULL"], ["-Z"])):
            for layout in (SHARED, "%R%s", "\\x41\\t%%%k\\n"):
                kcat_layout = layout.replace("%%", "%")  # kcat knows no %%, but prints what it does not know.
                if "%%" in layout:
                    kcat_layout = layout.replace("%%", "\\x25")
                out = [subprocess.run(command, capture_output=True, timeout=60, check=True).stdout for command in (
                    [binary(), "consume", "t", "-b", node.kafka, "-e", "-f", layout, *ours],
                    ["kcat", "-b", node.kafka, "-C", "-t", "t", "-e", "-q", "-f", kcat_layout, *theirs])]
                equal(out[0], out[1], f"{layout}, {text}")


def test_a_format_reads_what_it_prints():
    with Node(fresh_dir("cli_format_copy") / "data") as node:
        cli(node, "topic", "create", "from", "-p", 2, *KEPT).ok()
        cli(node, "produce", "from", "--json", "-p", 1, text_in=lines_of([r for r in RECORDS if not r[2]], timestamp=7)).ok()
        cli(node, "produce", "from", "--json", "-p", 0, text_in='{"value_base64":"/wA=","key":null,"timestamp":0}').ok()
        for number, layout in enumerate(("%t %o %p %T %h|%K %S %k%v\\n", "%p,%d,%h,%K,%k%R%v")):
            topic = f"to{number}"
            cli(node, "topic", "create", topic, "-p", 2, *KEPT).ok()
            piped(node, ["consume", "from", "-e", "-f", layout], ["produce", topic, "-f", layout, "--keep-partitions"])
            for partition in range(2):
                one, other = (bare(cli(node, "consume", t, "--json", "-e", "-p", partition).json_lines())
                              for t in ("from", topic))
                equal(other, one, f"{layout}, partition {partition}")


def test_lines_nulls_times_and_files():
    directory = fresh_dir("cli_lines")
    with Node(directory / "data") as node:
        cli(node, "topic", "create", "t", *KEPT).ok()
        file = directory / "lines"
        file.write_text("k:v\nNULL:v\nk:NULL\nNULL\n:\nNULLS:x")
        equal(cli(node, "produce", "t", "-i", file, "-K:", "-Z", "NULL", "--timestamp", "2023-11-14T22:13:20.123Z", "-H",
                  "h=1").lines(), ["produced 6 records to t"], "produce")
        got = cli(node, "consume", "t", "-e", "--json").json_lines()
        equal([(r["key"], r["value"]) for r in got],
              [("k", "v"), (None, "v"), ("k", None), (None, None), ("", ""), ("NULLS", "x")], "records")
        equal({r["timestamp"] for r in got}, {1700000000123}, "timestamp")
        equal(cli(node, "consume", "t", "-e", "-Z", "~", "-f", "%k=%v\\n").lines(),
              ["k=v", "~=v", "k=~", "~=~", "=", "NULLS=x"], "nulls shown")
        cli(node, "produce", "t", "--json", "--timestamp", "5", "-H", "all=1", text_in='{"value":"a","timestamp":6,'
            '"headers":[{"key":"own","value":""}]}\n{"value":"b"}\n').ok()
        equal([(r["timestamp"], [h["key"] for h in r["headers"]]) for r in
               cli(node, "consume", "t", "-o", -2, "-e", "--json").json_lines()],
              [(6, ["all", "own"]), (5, ["all"])], "what a record says itself")
        cli(node, "produce", "t", "-K", "\\t\\x3d", text_in="a=b\t=c\n").ok()
        equal(cli(node, "consume", "t", "-o", -1, "-e", "-f", "%k %v\\n").lines(), ["a=b c"], "escapes in -K")
        cli(node, "produce", "t", "-f", "%v\\n", "-k", "fixed", text_in="x\n").ok()
        equal(cli(node, "consume", "t", "-o", -1, "-e", "-f", "%k=%v\\n").lines(), ["fixed=x"], "-k with -f")


# ---- from where to where ----

def test_consume_ends():
    with Node(fresh_dir("cli_until") / "data") as node:
        cli(node, "topic", "create", "t", "-p", 3, *KEPT).ok()
        for partition, count in ((0, 4), (1, 2)):
            cli(node, "produce", "t", "-p", partition, "--json", text_in="".join(
                json.dumps({"value": f"{partition}/{i}", "timestamp": 1000 * (i + 1)}) + "\n" for i in range(count))).ok()

        def got(*options):
            return sorted(cli(node, "consume", "t", *options).lines())
        every = ["0/0", "0/1", "0/2", "0/3", "1/0", "1/1"]
        equal(got("-e"), every, "-e")
        equal(got("--until", "end"), every, "--until end")
        equal(got("--until", "start"), [], "--until start")
        equal(got("--until", "1", "-p", "0,1"), ["0/0", "1/0"], "before an offset")
        equal(got("--until", "3", "-e"), ["0/0", "0/1", "0/2", "1/0", "1/1"], "an offset, or the end if it comes first")
        equal(got("--until", "-1"), ["0/0", "0/1", "0/2", "1/0"], "all but the last")
        equal(got("--until", "@2000"), ["0/0", "1/0"], "before a time")
        equal(got("-o", "@2000", "--until", "@4000"), ["0/1", "0/2", "1/1"], "from a time to another")
        equal(got("--until", "@5000"), every, "a time behind all of them")
        equal(got("-o", "2", "--until", "2", "-p", "0-1"), [], "nothing between")
        equal(got("-o", "-1", "-e"), ["0/3", "1/1"], "the last of each")
        equal(got("-p", "1-2", "-e"), ["1/0", "1/1"], "-p, a range")
        equal(got("-p", "0,2,0", "-e"), every[:4], "-p, a list")
        equal(got("-p", "2", "-e"), [], "-p, an empty one")
        equal(len(got("-e", "-n", "2")), 2, "-n with -e")
        run("consume", "t", "--until", "@-0s", "-p", "2", brokers=node.kafka).ok()
        run("consume", "t", "--until", "@9999999999999", brokers=node.kafka).fails(2, "is still to come")
        run("consume", "t", "--until", "noon", brokers=node.kafka).fails(2, "option '--until': 'noon' is none of start, end")
        for bad in ("", "x", "1,", ",1", "2-1", "1-", "-1", "1 2", "99999999999"):
            run("consume", "t", f"-p{bad}" if bad else "--partition=", brokers=node.kafka).fails(
                2, f"option '--partition': '{bad}' is no list of partitions: 0,2,4-7")
        run("consume", "t", "-p", "0,2-3", brokers=node.kafka).fails(1, "topic 't' has no partition 3, only 0 to 2")
        trimmed = cli(node, "topic", "trim", "t", "-p", "0,2", "-o", "1", "--json")
        expect("is behind the end of t[2]" in trimmed.err, trimmed.err)
        equal([(p["partition"], p["start"]) for p in
               cli(node, "topic", "trim", "t", "-p", "0-1", "-o", "1", "--json").json()["partitions"]], [(0, 1), (1, 1)], "trim")


def test_consume_until_an_offset_to_come():
    with Node(fresh_dir("cli_until_later") / "data") as node:
        cli(node, "topic", "create", "t").ok()
        consumer = subprocess.Popen([binary(), "consume", "t", "-b", node.kafka, "--until", "3"], stdout=subprocess.PIPE, text=True)
        try:
            for word in ("a", "b", "c", "d"):
                cli(node, "produce", "t", text_in=word + "\n").ok()
            equal(consumer.communicate(timeout=20)[0].split(), ["a", "b", "c"], "until offset 3")
            equal(consumer.returncode, 0, "exit code")
        finally:
            consumer.kill()
            consumer.wait()


def test_the_end_is_the_one_at_the_start():
    """-e ends although the topic never stops growing."""
    with Node(fresh_dir("cli_growing") / "data") as node:
        cli(node, "topic", "create", "t").ok()
        producer = subprocess.Popen(f"yes line | {binary()} produce t -b {node.kafka}", shell=True, stdout=subprocess.DEVNULL,
                                    start_new_session=True)
        try:
            for _ in range(3):
                lines = cli(node, "consume", "t", "-e", "-o", "-100").lines()
                expect(len(lines) <= 100 and set(lines) <= {"line"}, len(lines))
            expect(producer.poll() is None, "it still writes")
        finally:
            os.killpg(producer.pid, signal.SIGKILL)
            producer.wait()


# ---- what is wrong ----

def test_bad_input_is_named_and_what_came_before_is_sent():
    with Node(fresh_dir("cli_bad_input") / "data") as node:
        cli(node, "topic", "create", "t", *KEPT).ok()
        rows = [
            (["--json"], '{"value":"1"}\n\n{"valeu":"2"}\n{"value":"3"}\n', "line 3: unknown name 'valeu', did you mean 'value'?"),
            (["--json"], '{"value":"1"}\n{"key":"k"}\n', "line 2: there is no 'value': write \"value\":null for a tombstone"),
            (["--json"], '{"value":"1"}\nhello\n', "line 2: it is not JSON"),
            (["-f", "%k=%v\\n"], "k=1\nhello\n", "line 2: there is no '=' behind '%k'"),
            (["-f", "%S:%v\\n"], "1:a\n3:a\nb\nhello\n", "line 4: there is no ':' behind '%S'")]
        for options, text, why in rows:
            done = cli(node, "produce", "t", *options, text_in=text).fails(1, f"{why}")
            expect("nothing from there on was sent" in done.err, done.err)
            expect("1 record" in done.out or '"produced":1' in done.out or "2 records" in done.out, done.out)
        end = cli(node, "topic", "describe", "t", "--json").json()["partitions"][0]["end"]
        equal(end, len(rows) + 1, "what came before it")
        cli(node, "produce", "t", "-p", 0, "--json", text_in='{"value":"v","partition":7}').ok()
        cli(node, "produce", "t", "--keep-partitions", "--json", text_in='{"value":"v","partition":7}').fails(
            1, "has no partition 7, only 0 to 0")
        run("produce", "t", "-i", "/nowhere", brokers=node.kafka).fails(1, "cannot open '/nowhere' (No such file or directory)")
        run("produce", "t", "-i", "/", brokers=node.kafka).fails(1, "cannot read / (Is a directory)")


def test_options_that_do_not_go_together():
    for options, why in [
            (["--json", "-f", "%v\\n"], "--json and --format exclude each other"),
            (["--json", "-K:"], "--json and --key-separator exclude each other"),
            (["--json", "-Z", ""], "--json and --null exclude each other"),
            (["-f", "%v\\n", "-K:"], "--format and --key-separator exclude each other"),
            (["-f", "%k:%v\\n", "-k", "x"], "--key and %k in --format exclude each other"),
            (["-K", ""], "--key-separator must not be empty"),
            (["-K", "\\q"], "option '--key-separator': '\\q' means nothing: \\n \\t"),
            (["--keep-partitions"], "--keep-partitions needs input that has them"),
            (["--keep-partitions", "-f", "%v\\n"], "--keep-partitions needs %p in --format"),
            (["--keep-partitions", "--json", "-p", "0"], "--partition and --keep-partitions exclude each other"),
            (["-f", "%v"], "option '--format': nothing tells where '%v' ends: put text behind it, such as \\n"),
            (["-f", "%q"], "option '--format': '%q' means nothing"),
            (["--timestamp", "noon"], "option '--timestamp': 'noon' is no time"),
            (["--idempotent", "--acks", "1"], "--idempotent needs --acks all")]:
        run("produce", "t", *options, "-b", "127.0.0.1:1").fails(2, why)
    for options in (["--json", "-f", "x"], ["--json", "-Z", "x"]):
        run("consume", "t", *options, "-b", "127.0.0.1:1").fails(2, "exclude each other")


# ---- the ends of it ----

def producer_of(node, *options, **popen):
    return subprocess.Popen([binary(), "produce", "t", "-b", node.kafka, *options], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen)


def wait_for_end(node, wanted):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if cli(node, "topic", "describe", "t", "--json").json()["partitions"][0]["end"] == wanted:
            return
        time.sleep(0.05)
    expect(False, f"the topic never ended at {wanted}")


def test_interrupted():
    """Ctrl-C: what was read is sent and counted, the line that was being typed is not."""
    with Node(fresh_dir("cli_interrupt") / "data") as node:
        cli(node, "topic", "create", "t", *KEPT).ok()
        for number, number_name in ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "interrupted")):
            before = cli(node, "topic", "describe", "t", "--json").json()["partitions"][0]["end"]
            producer = producer_of(node)
            producer.stdin.write("one\ntwo\nhal")
            producer.stdin.flush()
            wait_for_end(node, before + 2)
            producer.send_signal(number)
            out, err = producer.communicate(timeout=30)
            equal((producer.returncode, out), (1, "produced 2 records to t\n"), err)
            expect(number_name in err and "not the record that was being read" in err, err)


def test_interrupted_while_nobody_answers():
    """The broker is away: Ctrl-C ends the input, another one the waiting; it says what is open."""
    directory = fresh_dir("cli_interrupt_away")
    with Node(directory / "data") as node:
        cli(node, "topic", "create", "t").ok()
        producer = producer_of(node)
        producer.stdin.write("one\n")
        producer.stdin.flush()
        wait_for_end(node, 1)
        node.kill()
        producer.stdin.write("two\nthree\n")
        producer.stdin.flush()
        time.sleep(0.3)
        started = time.monotonic()
        producer.send_signal(signal.SIGINT)
        time.sleep(0.3)
        expect(producer.poll() is None, "it waits for the broker")
        producer.send_signal(signal.SIGINT)
        out, err = producer.communicate(timeout=30)
        equal((producer.returncode, out), (1, "produced 1 record to t, 2 not acknowledged\n"), err)
        expect("interrupted: of 2 records it is not known whether they were written" in err, err)
        expect(time.monotonic() - started < 5, "at once")


def test_interrupted_while_there_is_no_room():
    """The broker hangs and the buffer is full: Ctrl-C ends the input, and what was taken still arrives."""
    with Node(fresh_dir("cli_interrupt_full") / "data") as node:
        cli(node, "topic", "create", "t").ok()
        source = subprocess.Popen(["yes", "x" * 1000], stdout=subprocess.PIPE)
        producer = subprocess.Popen([binary(), "produce", "t", "-b", node.kafka], stdin=source.stdout, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        source.stdout.close()
        try:
            time.sleep(0.5)
            node.process.send_signal(signal.SIGSTOP)
            time.sleep(1)
            producer.send_signal(signal.SIGINT)
            time.sleep(0.5)
            expect(producer.poll() is None, "it waits for the broker")
            node.process.send_signal(signal.SIGCONT)
            out, err = producer.communicate(timeout=30)
            equal(producer.returncode, 1, err)
            expect("interrupted: only what was read so far was sent" in err, err)
            wait_for_end(node, int(re.fullmatch(r"produced (\d+) records to t\n", out).group(1)))
        finally:
            node.process.send_signal(signal.SIGCONT)
            for process in (source, producer):
                process.kill()
                process.wait()


def test_a_failure_is_told_while_the_input_waits():
    with Node(fresh_dir("cli_failure") / "data") as node:
        cli(node, "topic", "create", "t").ok()
        producer = producer_of(node, "--timeout", "1")
        producer.stdin.write("one\n")
        producer.stdin.flush()
        wait_for_end(node, 1)
        node.kill()
        producer.stdin.write("two\n")
        producer.stdin.flush()
        try:
            equal(producer.wait(timeout=20), 1, "exit code, with the input open")
            equal(producer.stdout.read(), "produced 1 record to t, 1 not acknowledged\n", "count")
            equal(producer.stderr.read().count("\n"), 1, "lines on stderr")
        finally:
            producer.kill()
            producer.wait()


def test_the_terminal_is_told_what_to_do():
    with Node(fresh_dir("cli_terminal") / "data") as node:
        cli(node, "topic", "create", "t", *KEPT).ok()
        ours, theirs = pty.openpty()
        producer = subprocess.Popen([binary(), "produce", "t", "-b", node.kafka], stdin=theirs, stdout=theirs, stderr=theirs,
                                    start_new_session=True)
        os.close(theirs)
        seen = b""
        try:
            while b"Ctrl-D" not in seen:
                seen += os.read(ours, 1000)
            os.write(ours, b"typed\n\x04")
            while b"produced 1 record to t" not in seen:
                seen += os.read(ours, 1000)
            equal(producer.wait(timeout=20), 0, seen)
        finally:
            producer.kill()
            producer.wait()
            os.close(ours)


def test_progress_is_shown_to_a_terminal():
    with Node(fresh_dir("cli_progress") / "data") as node:
        cli(node, "topic", "create", "t").ok()
        ours, theirs = pty.openpty()
        producer = subprocess.Popen([binary(), "produce", "t", "-b", node.kafka], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=theirs, text=True)
        os.close(theirs)
        try:
            for _ in range(30):
                producer.stdin.write("line\n")
                producer.stdin.flush()
                time.sleep(0.04)
            equal(producer.communicate(timeout=20)[0], "produced 30 records to t\n", "the last word")
            seen = ""
            while not seen.endswith("\x1b[K"):
                seen += os.read(ours, 4000).decode()
            expect(re.fullmatch(r"(\r\d+ records acknowledged)+\r\x1b\[K", seen), repr(seen))
        finally:
            producer.kill()
            producer.wait()
            os.close(ours)


def test_the_reader_leaves():
    """consume | head: no word of it, whether SIGPIPE ends it or was ignored by whoever started it."""
    with Node(fresh_dir("cli_sigpipe") / "data") as node:
        cli(node, "topic", "create", "t", *KEPT).ok()
        cli(node, "produce", "t", text_in="".join(f"{i} {'x' * 100}\n" for i in range(20000))).ok()
        for ignored in (signal.SIG_DFL, signal.SIG_IGN):
            consumer = subprocess.Popen([binary(), "consume", "t", "-b", node.kafka], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, restore_signals=False,
                                        preexec_fn=lambda how=ignored: signal.signal(signal.SIGPIPE, how))
            try:
                expect(consumer.stdout.readline().startswith(b"0 "), "first line")
                consumer.stdout.close()
                consumer.wait(timeout=20)
                equal(consumer.stderr.read(), b"", "what it says")
            finally:
                consumer.kill()
                consumer.wait()


def test_hostile_json():
    """Lines made to break a parser: refused in one line, whatever they are."""
    hostile = [b"\0", b"{" * 100000, b"[" * 100000, b'{"value":"' + b"\\u0000" * 1000, b'{"value":"\xed\xa0\x80"}', b"\xff\xfe",
               b'{"value":1e999999}', b'{"headers":[[[[[]]]]],"value":""}', b'{"value":"","headers":' + b'[{}]' * 1000 + b"}",
               b'{"value_base64":"' + b"=" * 5000 + b'"}', b'{"":""}', b'{"value\\u0000":""}', b'{"%s%n%x":"%s"}',
               b'{"partition":-9223372036854775808,"value":""}', b'"' * 99999]
    with Node(fresh_dir("cli_hostile") / "data") as node:
        cli(node, "topic", "create", "t", *KEPT).ok()
        for line in hostile:
            done = subprocess.run([binary(), "produce", "t", "--json", "-b", node.kafka], input=line, capture_output=True,
                                  timeout=60)
            equal(done.returncode, 1, f"exit code of {line[:40]}")
            expect(done.stderr.startswith(b"coreflume: line 1: ") and len(done.stderr) < 600, done.stderr[:700])
            equal(done.stderr.count(b"\n"), 1, f"lines on stderr: {done.stderr}")


run_all(globals())

#!/usr/bin/env python3
"""coreflume bench against a real node: what it counts, and that a node which stands still cannot hide it."""
import json
import signal
import subprocess
import threading

from support.check import equal, expect, run_all
from support.cli import cli
from support.node import Node, binary, fresh_dir

STALL_SECONDS = 0.5


def bench(node, *options):
    return cli(node, "bench", "--json", *options).json()


def start(node, log, *options):
    """500 records a second, unless options say otherwise; the first of them is about to be due."""
    rate = [] if "--rate" in options else ["--rate", "500"]
    process = subprocess.Popen([binary(), "bench", "-b", node.kafka, "--json", "--warmup", "0", "--size", "100",
                                "--hlog", str(log), *rate, *options],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_begin(log, process)
    return process


def test_a_node_that_stands_still_shows_in_all_that_was_due_meanwhile():
    """Two seconds, of which the node stands still for a half: a quarter of the records waits between half a second and
    nothing, evenly. So p90 is 0.3 s, p99 0.48 s, and the longest half a second. The bounds below leave room for slow
    machines, which only make latencies longer; a closed loop, which waits for answers before it sends on, would tell milliseconds for p90."""
    directory = fresh_dir("bench_stall")
    log = directory / "run.hlog"
    with Node(directory / "data") as node:
        process = start(node, log, "--duration", "2")
        node.process.send_signal(signal.SIGSTOP)
        threading.Event().wait(STALL_SECONDS)
        node.process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=60)
        equal(process.returncode, 0, err)
    window = json.loads(out)["windows"][0]
    equal(window["records"], {"offered": 1000, "acknowledged": 1000, "failed": 0, "unsent": 0, "unanswered": 0,
                              "missing": 0}, "records")
    for kind in ("publish", "end_to_end"):
        times = window[kind]
        equal(times["count"], 1000, kind)
        expect(times["p90_us"] > 0.4 * STALL_SECONDS * 1e6, (kind, times))
        expect(times["p99_us"] > 0.8 * STALL_SECONDS * 1e6, (kind, times))
        expect(times["max_us"] > 0.95 * STALL_SECONDS * 1e6, (kind, times))
    tags = [line.split(",")[0] for line in log.read_text().splitlines() if line.startswith("Tag=")]
    equal(set(tags), {"Tag=publish", "Tag=e2e", "Tag=slip"}, "what is in the log")


def test_what_is_never_answered_is_among_the_latencies():
    """The node stops for good at the start. Without these records the percentiles would be those of the few before. A
    client gives up a whole batch when its oldest record has waited for so long: the others, too, were not answered."""
    directory = fresh_dir("bench_dead")
    with Node(directory / "data") as node:
        cli(node, "topic", "create", "t").ok()
        process = start(node, directory / "run.hlog", "t", "--duration", "3", "--timeout", "1", "--consumers", "0")
        node.process.send_signal(signal.SIGSTOP)
        out, err = process.communicate(timeout=60)
        node.process.send_signal(signal.SIGCONT)
        equal(process.returncode, 1, err)
    window = json.loads(out)["windows"][0]
    records, times = window["records"], window["publish"]
    expect(records["acknowledged"] < 250, records)
    equal(times["count"], 1500, "every record is among them")
    equal(sum(records[k] for k in ("acknowledged", "failed", "unsent", "unanswered")), 1500, records)
    expect(times["p90_us"] >= 990000, times)


def test_an_early_end_leaves_nothing_unsent():
    directory = fresh_dir("bench_stop")
    with Node(directory / "data") as node:
        process = start(node, directory / "run.hlog", "--rate", "5000", "--duration", "60")
        threading.Event().wait(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        equal(process.returncode, 0, err)
        records = json.loads(out)["windows"][0]["records"]
        expect(0 < records["acknowledged"] == records["offered"] < 300000, records)
        process = start(node, directory / "search.hlog", "--search", "--rate", "100", "--duration", "60")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        equal(process.returncode, 1, err)
        found = json.loads(out)
        equal((found["found_rate"], found["complete"], found["windows"][0]["held"]), (0, False, False), "search")


def test_a_topic_that_stays_is_told():
    with Node(fresh_dir("bench_left") / "data", "--set", "delete.topic.enable=false") as node:
        cli(node, "bench", "--rate", "100", "--duration", "1", "--warmup", "0", "--consumers", "0").fails(
            1, "could not be deleted and is left")


def test_who_stops_reading_ends_it():
    with Node(fresh_dir("bench_head") / "data") as node:
        process = subprocess.Popen([binary(), "bench", "-b", node.kafka, "--rate", "100", "--duration", "600", "--warmup",
                                    "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        process.stdout.close()
        process.wait(timeout=60)
        equal(process.stderr.read(), "", "words")
        equal(cli(node, "topic", "list", "--json").json()["topics"], [], "the topic it made is gone")


def wait_for_begin(log, process):
    """The log's first lines are written when the first record is about to be due."""
    while process.poll() is None and not (log.exists() and log.stat().st_size):
        threading.Event().wait(0.005)


def test_replay_in_groups_with_sequence_numbers():
    """Every group reads every record; nothing is left but what was there before."""
    with Node(fresh_dir("bench_groups") / "data") as node:
        cli(node, "topic", "create", "t", "-p", "2").ok()
        result = bench(node, "t", "--rate", "2000", "--duration", "1", "--warmup", "0", "--size", "100-200", "--keys",
                       "zipf:50", "--replay", "--batch", "2KiB", "--idempotent", "-g", "a", "-g", "b", "--consumers", "2")
        window = result["windows"][0]
        records = window["records"]
        equal((records["failed"], records["unsent"], records["unanswered"], records["missing"]), (0, 0, 0, 0), "losses")
        expect(records["offered"] >= 2000, records)
        equal(records["acknowledged"], records["offered"], "acknowledged")
        equal(window["end_to_end"]["count"], 2 * records["offered"], "read by two groups")
        expect(abs(sum(row["achieved_rate"] * row["seconds"] for row in window["series"]) - records["offered"]) < 1,
               window["series"])
        equal([t["name"] for t in cli(node, "topic", "list", "--json").json()["topics"] if not t["internal"]], ["t"],
              "topics")


def test_reading_alone():
    """All that is there, once; by two that share it, by a group, again and again, and what nobody writes."""
    with Node(fresh_dir("bench_read") / "data") as node:
        cli(node, "topic", "create", "t", "-p", "5").ok()
        bench(node, "t", "--rate", "3000", "--duration", "1", "--warmup", "0", "--size", "100", "--consumers", "0")

        def read(*options):
            result = bench(node, "t", "--producers", "0", *options)
            window = result["windows"][0]
            equal((result["mode"], window["first_failure"], window["stopped"]), ("read", None, False), "how it went")
            for of, per in (("records", "records_per_s"), ("bytes", "bytes_per_s")):
                equal(sum(row[of] for row in window["series"]), window[of], f"rows of {of}")
                expect(abs(window[per] * window["seconds"] - window[of]) < 1, window)
            return window

        window = read("--consumers", "2")
        equal((window["records"], window["bytes"], window["lag"], window["up_to_end"]), (3000, 300000, 0, True), "shared")
        window = read("-g", "g", "--consumers", "2", "--idle-connections", "300")
        equal(window["warnings"], [w for w in window["warnings"] if "idle" not in w], "idle connections stay")
        equal((window["lag"], window["up_to_end"]), (0, True), "by a group")
        window = read("--again", "--warmup", "0", "--duration", "1")
        expect(window["records"] > 3000 and not window["up_to_end"], window)
        window = read("--from", "end", "--warmup", "0", "--duration", "1")
        equal((window["records"], window["lag"]), (0, 0), "from the end")


def test_what_does_not_go_together_is_refused():
    rows = [("--ramp 1-2 --rate 5", "--ramp has its own rates"),
            ("--ramp 5", "not FROM-TO"),
            ("--size 5-3", "not SIZE or MIN-MAX"),
            ("--keys zipf:0", "uniform:N"),
            ("--keys often:3", "uniform:N"),
            ("--consumers 0 -g x", "a group needs consumers"),
            ("t -p 3", "without t"),
            ("--from end", "for --producers 0"),
            ("--producers 0", "a TOPIC that is there"),
            ("t --producers 0 --size 100", "--size is for producers"),
            ("t --producers 0 --from end --again", "without --from end")]
    with Node(fresh_dir("bench_refusals") / "data") as node:
        for options, text in rows:
            cli(node, "bench", *options.split()).fails(2, text)
        for options, text in [("--size 8", "--size 16 or more"), ("--replay -z zstd", "--consumers 0"),
                              ("--idempotent --acks 1", "acks all"), ("-p 2 --consumers 3", "each needs one")]:
            done = cli(node, "bench", *options.split())
            expect(done.code != 0 and text in done.err, (options, done.err))
        equal(cli(node, "topic", "list", "--json").json()["topics"], [], "topics that were made are gone")
        cli(node, "bench", "nope").fails(1, "topic 'nope' does not exist")


if __name__ == "__main__":
    run_all(globals())

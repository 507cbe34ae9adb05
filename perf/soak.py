#!/usr/bin/env python3
"""G28: an hour at 80 % of the highest rate that is sustained: does it get slower, does it grow?

Usage: soak.py [--minutes N] [--windows N] [--share PERCENT] [--rate N]

One node with its defaults, a topic of four partitions that is at its retention limit all the time, batches of 64 KiB of
1 KiB records, a consumer that reads along. `coreflume bench --search` finds the highest rate of this machine, unless --rate
gives what is run; then windows of equal length follow each other, each with percentiles of its own. Between two windows lie
the seconds in which bench starts. Memory is what the node has of its own (RssAnon), every ten seconds.
Goal: p99.9 of the last window <= 1.1 of the first, and no growth of memory after the first.
Writes perf/results/<date>-soak.{json,md}.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "interop"))
sys.path.insert(0, str(ROOT / "perf"))
from bench import machine  # noqa: E402
from restart import cpu_ms, memory  # noqa: E402
from support.node import Node, binary, fresh_dir  # noqa: E402

TOPIC = ["t", "-p", "4", "-c", "retention.bytes=268435456", "-c", "segment.bytes=67108864"]
LOAD = ["--replay", "--size", "1024", "--batch", "64KiB", "--producers", "4", "--consumers", "1"]
SAMPLE_SECONDS = 10


class Memory(threading.Thread):
    """KiB of the node's own memory, while it runs."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.samples, self.is_over = pid, [memory(pid)["anon"]], threading.Event()
        self.start()

    def run(self):
        while not self.is_over.wait(SAMPLE_SECONDS):
            self.samples.append(memory(self.pid)["anon"])

    def end(self):
        self.is_over.set()
        self.join()
        return self.samples


def bench(node, *options):
    command = [binary(), "bench", "t", *LOAD, *options, "--json", "-b", node.kafka]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if not done.stdout:
        raise SystemExit(f"soak: no figures from: {' '.join(command)}")
    return json.loads(done.stdout)["windows"]


def highest(node):
    held = [w["rate_to"] for w in bench(node, "--search", "--rate", "20000") if w["held"]]
    if not held:
        raise SystemExit("soak: not even 20,000 records a second are sustained: --rate gives one")
    return int(max(held))


def window(node, rate, seconds):
    pid = node.process.pid
    before, watch = cpu_ms(pid), Memory(pid)
    figures = bench(node, "--rate", str(rate), "--duration", str(seconds), "--warmup", "2")[0]
    samples, records = watch.end(), figures["records"]
    per_s = [row["achieved_rate"] for row in figures["series"]]
    return {"publish": figures["publish"], "end_to_end": figures["end_to_end"],
            "achieved_rate": figures["achieved_rate"], "slowest_second": min(per_s),
            "lost": {key: records[key] for key in ("failed", "unsent", "unanswered", "missing")},
            "cpu_s_per_million": (cpu_ms(pid) - before) / 1000 / ((seconds + 2) * rate) * 1e6,
            "anon_KiB": {"first": samples[0], "median": statistics.median(samples), "max": max(samples)},
            "generator_cpus": figures["generator"]["cpus"], "warnings": figures["warnings"]}


def verdict(windows):
    first, last = windows[0], windows[-1]
    return {"p99.9, last to first": last["publish"]["p99_9_us"] / first["publish"]["p99_9_us"],
            "p99, last to first": last["publish"]["p99_us"] / first["publish"]["p99_us"],
            "memory, last to first, KiB": last["anon_KiB"]["max"] - first["anon_KiB"]["max"],
            "records without a good end": sum(sum(w["lost"].values()) for w in windows)}


def as_markdown(report):
    lines = [f"# Soak, {report['date']}", "",
             "Machine: " + ", ".join(f"{key} {value}" for key, value in report["machine"].items()) + ".",
             f"`{report['command']}`: highest sustained rate {report['highest'] or 'not looked for'}, run at {report['rate']} records/s.",
             "Goal (G28): p99.9 of the last window <= 1.1 of the first, memory does not grow.", "",
             "| window | p50, us | p99, us | p99.9, us | max, us | end to end p99.9, us | slowest second, records/s | CPU-s per million |"
             " own memory, MiB: median, max | failed, unsent, unanswered, missing |", "|---|---|---|---|---|---|---|---|---|---|"]
    for number, w in enumerate(report["windows"], 1):
        p, anon = w["publish"], w["anon_KiB"]
        lines.append(f"| {number} | {p['p50_us']:,} | {p['p99_us']:,} | {p['p99_9_us']:,} | {p['max_us']:,} | {w['end_to_end']['p99_9_us']:,} |"
                     f" {w['slowest_second']:,.0f} | {w['cpu_s_per_million']:.2f} | {anon['median'] / 1024:.1f}, {anon['max'] / 1024:.1f} |"
                     f" {', '.join(str(n) for n in w['lost'].values())} |")
    lines += [""] + [f"- {what}: {value:,.3f}" for what, value in report["verdict"].items()]
    warnings = sorted({text for w in report["windows"] for text in w["warnings"]})
    return "\n".join(lines + ["- bench: " + text for text in warnings]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("minutes", 60.0), ("share", 80.0)):
        parser.add_argument(f"--{name}", type=float, default=value)
    for name, value in (("windows", 6), ("rate", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    seconds = max(1, round(options.minutes * 60 / options.windows))
    with Node(fresh_dir("soak") / "data") as node:
        subprocess.run([binary(), "topic", "create", *TOPIC, "-b", node.kafka], check=True, stdout=subprocess.DEVNULL)
        most = None if options.rate else highest(node)
        rate = options.rate or int(most * options.share / 100)
        bench(node, "--rate", str(rate), "--duration", str(min(60, seconds)))  # Caches and the retention limit.
        windows = []
        for _ in range(options.windows):
            windows.append(window(node, rate, seconds))
            print(json.dumps(windows[-1]), file=sys.stderr, flush=True)
    report = {"date": datetime.date.today().isoformat(), "machine": {k: v for k, v in machine().items() if k != "repetitions"}, "highest": most, "rate": rate, "windows": windows,
              "command": " ".join(["perf/soak.py", *sys.argv[1:]]), "verdict": verdict(windows)}
    stem = ROOT / "perf" / "results" / f"{report['date']}-soak"
    stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    stem.with_suffix(".md").write_text(as_markdown(report))
    print(as_markdown(report))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Instructions per operation, counted by callgrind, against a stored baseline.

  micro.py                  runs all cases, prints the table; exit 1 if one needs 2 % more than the baseline
  micro.py --profile CASE   where the instructions of a case are, by function
  micro.py --write "WHY"    measures and rewrites baseline.json; WHY goes into it

A count is exact and the same in each run, on any machine with the same compiler, libraries and valgrind: time
and load have no part in it. What could differ is pinned or compared. Pinned: the build (build/release), seeds, the
environment, and glibc's copying (without "rep movsb", of which valgrind counts each byte as an instruction).
Compared with the baseline's: compiler, glibc, valgrind, and whether the CPU has AVX2, which valgrind shows to the
program as one and the same CPU, whatever the machine's is. If one of these differs nothing is judged, loudly.
"""
import argparse
import collections
import json
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = "build/release/perf/micro/micro"
BASELINE = pathlib.Path(__file__).resolve().parent / "baseline.json"
TOLERANCE = 0.02
RECORDS_MORE = 100

# What counts within the cases; see micro.h. The simulated disk, uncounted, ends its operations in core/io.c.
TOGGLES = ["counted_*", "uncounted_*", "io_complete"]

GOALS = {"produce": 3000, "extra record": 30, "fetch": 2500} # G27.


class Profile:
    """One dump of callgrind: instructions of each function alone, with all it calls, and by caller."""

    def __init__(self, text):
        self.total = 0
        self.alone = collections.Counter()
        self.inclusive = collections.Counter()
        self.calls = collections.Counter()
        self.callers = collections.defaultdict(collections.Counter)
        function = callee = None
        calls_count = None # Of the call whose cost the next line has.
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key == "fn":
                function = value
            elif key == "cfn":
                callee = value
            elif key == "calls":
                calls_count = int(value.split()[0])
            elif line.startswith("summary:"):
                self.total = int(line.split()[1])
            elif line[:1].isdigit() and len(line.split()) == 2:
                cost = int(line.split()[1])
                if calls_count is None:
                    self.alone[function] += cost
                    continue
                self.inclusive[callee] += cost
                self.calls[callee] += calls_count
                self.callers[callee][function] += cost
                calls_count = None


def measure():
    """The compiler of the program, and [(case, operations, Profile)] in its order."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise SystemExit("micro.py: no valgrind here; ./dev micro installs it")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        command = [valgrind, "-q", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-pos=no",
                   "--compress-strings=no", *[f"--toggle-collect={name}" for name in TOGGLES],
                   "--zero-before=micro_begin", "--dump-before=micro_end", PROGRAM]
        ran = subprocess.run(command, cwd=ROOT, env={"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-ERMS,-FSRM"},
                             stdout=subprocess.PIPE, text=True)
        if ran.returncode != 0:
            raise SystemExit(f"micro.py: {PROGRAM} ended with {ran.returncode}")
        compiler, *lines = ran.stdout.splitlines()
        cases = [line.split() for line in lines]
        return compiler, [(name, int(count), Profile(pathlib.Path(f"{out}.{number}").read_text()))
                          for number, (name, count) in enumerate(cases, 1)]


def counts_of(measured):
    """Instructions per operation, by case, with those that follow from others."""
    counts = {name: profile.total / operations for name, operations, profile in measured}
    of_produce = next(item for item in measured if item[0] == "produce")
    more = counts.pop("produce_more_records")
    derived = {
        "extra record": (more - counts["produce"]) / RECORDS_MORE,
        "append": of_produce[2].inclusive["log_append"] / of_produce[1],
    }
    names = ["produce", *derived, *(name for name in counts if name != "produce")]
    return {name: round({**counts, **derived}[name], 1) for name in names}


def made_with(compiler):
    version = subprocess.run(["valgrind", "--version"], check=True, capture_output=True, text=True)
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "").split()
    return {
        "compiler": compiler,
        "libc": " ".join(platform.libc_ver()),
        "valgrind": version.stdout.strip(),
        "cpu": f"{platform.machine()} {'with' if 'avx2' in flags else 'without'} AVX2",
    }


Verdict = collections.namedtuple("Verdict", "passed failed skipped lines")


def judge(counts, here, baseline):
    """What the counts are worth, in words, and how many passed, failed or were not judged."""
    lines = []
    foreign = [f"{name}: {baseline['made_with'].get(name)!r} made the baseline, here is {value!r}"
               for name, value in here.items() if baseline["made_with"].get(name) != value]
    if foreign:
        lines += ["NOT JUDGED, these counts cannot be compared with the baseline:", *foreign,
                  "to have them judged here: micro.py --write of an older commit first"]
        return Verdict(0, 0, len(counts), lines)
    failed = better = 0
    for name, count in counts.items():
        expected = baseline["counts"].get(name)
        if expected is None:
            failed += 1
            lines.append(f"FAILED {name}: not in the baseline")
        elif count > expected * (1 + TOLERANCE):
            failed += 1
            lines.append(f"FAILED {name}: {count} instructions, {count / expected - 1:+.1%} of the baseline's {expected}")
        elif count < expected * (1 - TOLERANCE):
            better += 1
            lines.append(f"better: {name}: {count} instructions, {count / expected - 1:+.1%}")
    gone = [name for name in baseline["counts"] if name not in counts]
    lines += [f"FAILED {name}: in the baseline, and no case any more" for name in gone]
    failed += len(gone)
    if better:
        lines.append("better than the baseline: write it, or the gain may be lost unseen (micro.py --write WHY)")
    if failed:
        lines.append("if it is worth it: micro.py --write WHY, in the same commit")
    return Verdict(len(counts) + len(gone) - failed, failed, 0, lines)


def print_table(counts, baseline):
    print(f"{'':32}{'instructions':>12}{'baseline':>12}{'ratio':>8}{'goal':>8}")
    for name, count in counts.items():
        expected = baseline["counts"].get(name)
        ratio = f"{count / expected:.3f}" if expected else "-"
        print(f"{name:32}{count:12}{expected or '-':>12}{ratio:>8}{GOALS.get(name, ''):>8}")


def print_profile(measured, case):
    found = [item for item in measured if item[0] == case]
    if not found:
        raise SystemExit(f"micro.py: no such case: {case} ({', '.join(item[0] for item in measured)})")
    _, operations, profile = found[0]
    print(f"{'alone':>10}{'with calls':>12}{'calls':>8}  function <- callers, per operation")
    for function, cost in profile.alone.most_common(60):
        callers = ", ".join(name for name, _ in profile.callers[function].most_common(3))
        print(f"{cost / operations:10.1f}{profile.inclusive[function] / operations:12.1f}"
              f"{profile.calls[function] / operations:8.2f}  {function} <- {callers}")


def main():
    parser = argparse.ArgumentParser(description="Instructions per operation, under callgrind.")
    parser.add_argument("--write", metavar="WHY", help="rewrite baseline.json")
    parser.add_argument("--profile", metavar="CASE", help="show where a case's instructions are")
    options = parser.parse_args()
    compiler, measured = measure()
    if options.profile:
        print_profile(measured, options.profile)
        return 0
    counts = counts_of(measured)
    here = made_with(compiler)
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"made_with": here, "counts": {}}
    print_table(counts, baseline)
    if options.write:
        BASELINE.write_text(json.dumps({"why": options.write, "made_with": here, "counts": counts}, indent=2) + "\n")
        return 0
    verdict = judge(counts, here, baseline)
    print("".join(f"{line}\n" for line in verdict.lines), end="")
    print(f"{verdict.passed} passed, {verdict.failed} failed, {verdict.skipped} skipped")
    return 1 if verdict.failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs suites and counts. Modes: test [PATTERN], interop [NAME], soak MINUTES, ci.

A step is a command with a way to count what passed and failed in it: TAP lines of the unit tests, a
closing `N passed, N failed`, or the exit code. The last line printed is `N passed, N failed` over all
steps; exit 1 if anything failed or if nothing ran.
"""
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CORES = os.cpu_count() or 1
# Scripts that take the longest begin first, so that none of them runs on alone at the end.
LONGEST = ("test_group_members", "test_group_kills", "test_kill_loop", "test_streams", "test_group_tools", "test_connect",
           "test_kafka_tools", "test_cases_groups")
TALLY = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


class Totals:
    def __init__(self):
        self.passed = self.failed = 0
        self.started = time.monotonic()

    def add(self, step, passed, failed, seconds):
        self.passed += passed
        self.failed += failed
        verdict = "ok" if not failed else "FAILED"
        print(f"== {step}: {verdict} ({passed} passed, {failed} failed, {seconds:.0f} s)", flush=True)

    def close(self):
        print(f"== total time {time.monotonic() - self.started:.0f} s")
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0


def execute(command, env, say):
    """Runs one command and says its lines; returns (passed, failed, seconds). Its own closing tally counts, else
    it is one test by its exit code."""
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", env={**os.environ, **(env or {})})
    tally = None
    for line in process.stdout:
        match = TALLY.match(line.strip())
        if match:
            tally = int(match.group(1)), int(match.group(2))
        else:
            say(f"   {line.rstrip()}")
    code = process.wait()
    passed, failed = tally or (1, 0)
    if code and not failed:
        passed, failed = (0, 1) if tally is None else (passed, 1)
    return passed, failed, time.monotonic() - began


def begin(step, command):
    print(f"== {step}: {' '.join(map(str, command))}", flush=True)


def run(totals, step, command, env=None):
    """One step, its lines as they come."""
    begin(step, command)
    passed, failed, seconds = execute(command, env, lambda line: print(line, flush=True))
    totals.add(step, passed, failed, seconds)
    return not failed


def run_beside(totals, steps, env=None):
    """Steps that mostly wait, one more at a time than there are cores; the lines of each once it has ended."""
    def one(step):
        lines = []
        return *step, lines, execute(step[1], env, lines.append)

    with concurrent.futures.ThreadPoolExecutor(CORES + 1) as pool:
        for done in concurrent.futures.as_completed([pool.submit(one, step) for step in steps]):
            step, command, lines, result = done.result()
            begin(step, command)
            print("".join(f"{line}\n" for line in lines), end="", flush=True)
            totals.add(step, *result)


def fresh_reports(build):
    """Where sanitizers write: what a test says on stderr Criterion swallows. (The option is ASan's, for UBSan too.)"""
    reports = build / "sanitizer"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    return reports


def unit(totals, kind, pattern="*"):
    """The meson tests of one build whose name matches; TAP subtests are what is counted."""
    began = time.monotonic()
    build = ROOT / "build" / kind
    tests = json.loads(subprocess.run(["meson", "introspect", str(build), "--tests"], check=True,
                                      capture_output=True, text=True).stdout)
    names = [test["name"] for test in tests if fnmatch.fnmatch(test["name"], f"*{pattern}*")]
    if not names:
        if pattern == "*": # Criterion is missing or the build is: units must not vanish silently.
            totals.add(f"unit tests ({kind}): none found", 0, 1, 0)
        return
    log = build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    reports = fresh_reports(build)
    subprocess.run(["meson", "test", "-C", str(build), "--no-rebuild", "--num-processes", str(CORES),
                    "--quiet", *names], cwd=ROOT, capture_output=True, text=True,
                   env={**os.environ, "ASAN_OPTIONS": f"log_path={reports}/report", "UBSAN_OPTIONS": "print_stacktrace=1"})
    passed = failed = 0
    if not log.exists():
        print(f"   no test ran in build/{kind}: is it built?", flush=True)
        failed = 1
    for line in log.read_text().splitlines() if log.exists() else []:
        result = json.loads(line)
        output = (result.get("stdout") or "") + (result.get("stderr") or "")
        good = len(re.findall(r"^ok\b", output, re.M))
        bad = len(re.findall(r"^not ok\b", output, re.M))
        if result["result"] not in ("OK", "SKIP", "EXPECTEDFAIL"):
            bad = max(bad, 1)
            print(f"   {result['name']}: {result['result']}\n{output[-4000:]}", flush=True)
        elif result["result"] == "SKIP":
            print(f"   SKIPPED {result['name']}: {output.strip()[-300:]}", flush=True)
        for skip in re.findall(r"^(?:ok|not ok) \d+.*# SKIP.*$", output, re.M):
            print(f"   SKIPPED {result['name']}: {skip}", flush=True)
        passed += max(good, 1 if not bad and result["result"] != "SKIP" else 0)
        failed += bad
    for report in sorted(reports.iterdir()) if failed else ():
        print(f"   {report.read_text()[:4000]}", flush=True)
    totals.add(f"unit tests ({kind})", passed, failed, time.monotonic() - began)


def interop(totals, pattern="*", env=None):
    scripts = sorted((ROOT / "tests" / "interop").glob("test_*.py"),
                     key=lambda script: (LONGEST.index(script.stem) if script.stem in LONGEST else len(LONGEST), script))
    run_beside(totals, [(script.stem, [sys.executable, script]) for script in scripts
                        if fnmatch.fnmatch(script.stem, f"*{pattern}*")], env)


def by_hand(name):
    """What no suite and no CI runs: only its own name does."""
    return ROOT / "tests/interop/by_hand" / f"{name}.py"


def matrix(totals, name=None, env=None):
    """Real clients against a node, compared with docs/compatibility.md; or one of them. With CI set, some may not
    be skipped."""
    run(totals, "clients", [sys.executable, ROOT / "tests/interop/matrix.py", *([name] if name else [])], env)


def is_client(name):
    return (ROOT / "tests/interop/clients" / name / "client.json").exists()


def build(totals, kind):
    return run(totals, f"build {kind}", ["./dev", "build", kind])


def readme_test_command():
    """README promises one command that passes the tests; CI runs what README says."""
    match = re.search(r"^    (\./dev test)$", (ROOT / "README.md").read_text(), re.M)
    if not match:
        raise SystemExit("README.md no longer names its test command (./dev test)")
    return match.group(1).split()


def marks_file(name, *options):
    """The marks that a campaign has to reach: but for those that marks_not_reached.txt admits to."""
    named = subprocess.run([sys.executable, "tests/sim/list_marks.py", *options], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split()
    admitted = [line.split()[0] for line in
                (ROOT / "tests/sim/marks_not_reached.txt").read_text().splitlines() if line[:1] not in ("#", "")]
    marks = ROOT / "build" / name
    marks.write_text("".join(f"{mark}\n" for mark in named if mark not in admitted))
    return marks


def campaign(totals, sim):
    """The fixed seeds: all clean, and every mark that the sources name was reached by one of them, or by one
    of some further seeds."""
    run(totals, "simulator, fixed seeds",
        [sim, "--first", "1", "--runs", "5000", "--quiet", "--marks", marks_file("marks.txt"), "--further", "10000",
         "--jobs", str(CORES)])
    run(totals, "simulator, fixed seeds of groups",
        [sim, "--mode", "groups", "--first", "1", "--runs", "300", "--quiet",
         "--marks", marks_file("marks_groups.txt", "--groups"), "--further", "600", "--jobs", str(CORES)])


def ci(totals):
    sim = "build/release/tests/sim/sim"
    built = [build(totals, kind) for kind in ("release", "debug", "asan")] # gcc, gcc, clang
    if not all(built):
        return
    run(totals, "lint", [sys.executable, "tests/lint/lint.py", "--build", "build/debug"])
    run(totals, "instruction counts", [sys.executable, "perf/micro/micro.py"])
    unit(totals, "asan")
    run(totals, "hostile requests, asan", [sys.executable, "tests/interop/test_hostile.py", "every_byte"],
        {"COREFLUME": str(ROOT / "build/asan/coreflume")})
    campaign(totals, sim)
    run(totals, "simulator, same seed same hash",
        [sim, "--first", "1", "--runs", "50", "--check-determinism", "--quiet", "--jobs", str(CORES)])
    run(totals, "simulator, same seed same hash, groups",
        [sim, "--mode", "groups", "--first", "1", "--runs", "20", "--check-determinism", "--quiet", "--jobs", str(CORES)])
    run(totals, "mutants", [sys.executable, "tests/sim/run_mutants.py"])
    none_skipped = {"CI": "1"}
    run(totals, "README's test command", readme_test_command(), none_skipped)
    matrix(totals, env=none_skipped)


def fuzzers():
    return sorted(path.stem.removeprefix("fuzz_") for path in (ROOT / "tests/fuzz").glob("fuzz_*.c")
                  if path.stem != "fuzz_main")


def soak(totals, minutes):
    ends = time.monotonic() + 60 * minutes
    run(totals, "lint, deep", [sys.executable, "tests/lint/lint.py", "--build", "build/debug", "--deep", "tidy"])
    while time.monotonic() < ends:
        first = random.SystemRandom().randrange(1 << 40)
        run(totals, "simulator, fresh seeds",
            ["build/release/tests/sim/sim", "--first", str(first), "--runs", "2000", "--quiet", "--jobs", str(CORES)])
        run(totals, "simulator, fresh seeds of groups",
            ["build/release/tests/sim/sim", "--mode", "groups", "--first", str(first), "--runs", "2000", "--quiet",
             "--jobs", str(CORES)])
        run(totals, "crowds", [sys.executable, "tests/interop/test_pressure.py"], {"SCALE": "20"})
        for name in fuzzers():
            run(totals, f"fuzz {name}", ["./dev", "fuzz", name, "60"])
        run(totals, "kill -9 loop", [sys.executable, "tests/interop/test_kill_loop.py", "--rounds", "200"])


def main():
    # Started in the background by a shell, this would be ignored, here and by every program that is tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    mode, *rest = sys.argv[1:] or ["test"]
    totals = Totals()
    if mode == "test":
        unit(totals, "debug", *rest)
        interop(totals, *rest)
    elif mode == "interop":
        if rest and is_client(rest[0]):
            matrix(totals, rest[0])
        elif rest and by_hand(rest[0]).exists():
            run(totals, rest[0], [sys.executable, by_hand(rest[0]), *rest[1:]], {"PYTHONPATH": str(ROOT / "tests/interop")})
        else:
            interop(totals, *rest)
            if not rest or rest[0] in "matrix":
                matrix(totals)
    elif mode == "soak":
        soak(totals, float(rest[0]))
    elif mode == "ci":
        ci(totals)
    else:
        raise SystemExit(f"run.py: no such mode: {mode}")
    return totals.close()


if __name__ == "__main__":
    sys.exit(main())

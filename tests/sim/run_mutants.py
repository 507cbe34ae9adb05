#!/usr/bin/env python3
"""Mutants: planted faults that the simulator must catch (tests/sim/mutants/README.md).

Copies the tree to build/mutants/1/src, builds the simulator there once as it is, and then with each
patch of tests/sim/mutants: a mutant passes if a seed that is good without the patch fails with it.
Compiling and linking one file keeps one core busy, so there is a tree for each core, copied with what is built.
The last line is `N passed, N failed`; exit 1 if anything failed.

  run_mutants.py [PATTERN...] [--record] [--seeds N] [--seconds N] [--jobs N]
"""
import argparse
import concurrent.futures
import fnmatch
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATCHES = ROOT / "tests" / "sim" / "mutants"
WORK = ROOT / "build" / "mutants"
TARGET = "tests/sim/sim"
FIELDS = {"rule": str, "fault": str, "mode": str, "first seed": int, "seeds needed": int}
BROKEN = re.compile(r"^(?:FAILED seed=(\d+).*?: |repeat: .*--seed (\d+))(.*)$")


class Failure(Exception):
    """Why a mutant, or the whole run, is no good: one line."""


class Mutant:
    """One patch: fields on top, then the diff."""

    def __init__(self, path):
        self.path = path
        self.name = path.stem
        self.head, mark, diff = path.read_text().partition("\n--- ")
        if not mark:
            raise Failure(f"{path.name}: holds no diff")
        self.diff = "--- " + diff
        self.fields = {}
        for line in self.head.splitlines():
            name, colon, value = line.partition(":")
            if colon and name in FIELDS:
                self.fields[name] = FIELDS[name](value.strip())
        missing = FIELDS.keys() - self.fields.keys() - {"seeds needed"}
        if missing:
            raise Failure(f"{path.name}: does not say: {', '.join(sorted(missing))}")

    def record(self, seeds):
        lines = [line for line in self.head.splitlines() if not line.startswith("seeds needed:")]
        while lines and not lines[-1]:
            lines.pop()
        self.path.write_text("\n".join([*lines, f"seeds needed: {seeds}", "", self.diff]))


def command(arguments, **more):
    return subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **more)


# ---- the copies ----

class Tree:
    """A copy of the sources and a build of them, which stand side by side: what a build names, it names from there."""

    def __init__(self, number):
        self.home = WORK / str(number)
        self.src, self.out = self.home / "src", self.home / "out"
        self.sim = str(self.out / TARGET)

    def sync(self):
        """Makes src what the working tree is; files that did not change keep their time."""
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
        names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
        for name in names:
            source, copy = ROOT / name, self.src / name
            content = source.read_bytes()
            if not copy.is_file() or copy.read_bytes() != content:
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(content)
            copy.chmod(source.stat().st_mode)
        for copy in [path for path in self.src.rglob("*") if path.is_file()]:
            if str(copy.relative_to(self.src)) not in names:
                copy.unlink()

    def configure(self):
        if (self.out / "build.ninja").exists():
            return
        # A mutant may leave a variable unused: no warning is an error here.
        result = command(["meson", "setup", str(self.out), str(self.src), "-Dbuildtype=release", "-Ddebug=true",
                          "-Dwerror=false", "-Dunit_tests=disabled"])
        if result.returncode:
            raise Failure(f"the copy does not configure:\n{result.stdout}")

    def build(self):
        result = command(["ninja", "-C", str(self.out), TARGET])
        if result.returncode:
            raise Failure("does not build:\n" + "\n".join(result.stdout.splitlines()[-30:]))

    def apply(self, mutant, *options):
        # src lies inside of a repository that it is no part of.
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.home)}
        result = command(["git", "apply", *options, str(mutant.path)], cwd=self.src, env=env)
        if result.returncode:
            raise Failure("the patch no longer applies: " + " / ".join(result.stdout.split("\n")).strip())

    def copied(self, number):
        """With its times, so that nothing is built again."""
        other = Tree(number)
        shutil.rmtree(other.home, ignore_errors=True)
        shutil.copytree(self.home, other.home, symlinks=True)
        return other


# ---- runs ----

def run_sim(sim, mode, first, runs, seconds, jobs=1):
    """(seed, why) of the first bad seed, or None. Ends after so many seconds, too."""
    try:
        result = command([sim, "--mode", mode, "--first", str(first), "--runs", str(runs),
                          "--jobs", str(jobs), "--quiet"], timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    if result.returncode == 0:
        return None
    seed, why = None, ""
    for line in result.stdout.splitlines():
        match = BROKEN.match(line)
        if match and match.group(2):
            return int(match.group(2)), why or "died"
        # An assertion, or what the simulator says.
        if match or "assert" in line.lower() or "panic" in line.lower():
            why = why or (match.group(3) if match else line.strip())
    raise Failure(f"the simulator exits with {result.returncode} and names no seed: "
                  f"{result.stdout[-500:]}")


def hunt(mutant, tree, good, options):
    """Seeds until the mutant is caught, and how."""
    mode, first = mutant.fields["mode"], mutant.fields["first seed"]
    ends = time.monotonic() + options.seconds
    at, limit = first, first + options.seeds
    while at < limit and time.monotonic() < ends:
        found = run_sim(tree.sim, mode, at, limit - at, ends - time.monotonic())
        if found is None:
            break
        seed, why = found
        if run_sim(good, mode, seed, 1, options.seconds) is None:
            return seed - first + 1, why
        print(f"{mutant.name}: seed={seed} is bad without the mutant, too", flush=True)
        at = seed + 1
    raise Failure(f"not caught by {options.seeds} seeds in {options.seconds} s")


def try_mutant(mutant, tree, good, options):
    tree.apply(mutant)
    try:
        tree.build()
        return hunt(mutant, tree, good, options)
    finally:
        tree.apply(mutant, "--reverse")


def tried(mutant, trees, good, options):
    """In the next tree that is free: (mutant, seeds or None, why, seconds)."""
    tree = trees.get()
    start = time.monotonic()
    try:
        return mutant, *try_mutant(mutant, tree, good, options), time.monotonic() - start
    except Failure as failure:
        return mutant, None, failure, time.monotonic() - start
    finally:
        trees.put(tree)


def check_unmutated(mutants, good, options):
    """The seeds that are known to catch mutants, without any."""
    bad = False
    for mode, first in sorted({(m.fields["mode"], m.fields["first seed"]) for m in mutants}):
        runs = max(max(m.fields.get("seeds needed", 1), 1) for m in mutants
                   if (m.fields["mode"], m.fields["first seed"]) == (mode, first))
        found = run_sim(good, mode, first, runs, 600, options.jobs)
        if found:
            print(f"without mutants: mode={mode} seed={found[0]} is bad: {found[1]}", flush=True)
            bad = True
        else:
            print(f"without mutants: mode={mode} seeds {first}..{first + runs - 1} are good",
                  flush=True)
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--record", action="store_true", help="rewrite the `seeds needed` lines")
    parser.add_argument("--seeds", type=int, default=600, help="limit per mutant")
    parser.add_argument("--seconds", type=float, default=120, help="limit per mutant")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 16), help="mutants at a time")
    options = parser.parse_args()
    began = time.monotonic()
    passed = failed = 0
    try:
        mutants = [Mutant(path) for path in sorted(PATCHES.glob("*.patch"))
                   if any(fnmatch.fnmatch(path.stem, f"*{p}*") for p in options.patterns)]
        if not mutants:
            raise Failure("no such mutant")
        tree = Tree(1)
        tree.sync()
        tree.configure()
        tree.build()
        good = str(shutil.copy2(tree.sim, WORK / "sim-unmutated"))
        print(f"built in {time.monotonic() - began:.0f} s", flush=True)
        if check_unmutated(mutants, good, options):
            passed += 1
        else:
            failed += 1
        trees = queue.Queue()
        for free in [tree, *(tree.copied(number) for number in range(2, options.jobs + 1))]:
            trees.put(free)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(tried, mutant, trees, good, options) for mutant in mutants]):
                mutant, seeds, why, seconds = done.result()
                if seeds is None:
                    failed += 1
                    print(f"{mutant.name}: FAILED: {why}", flush=True)
                    continue
                passed += 1
                print(f"{mutant.name}: caught after {seeds} seeds (recorded {mutant.fields.get('seeds needed', 'never')}, "
                      f"{seconds:.0f} s): {why}", flush=True)
                if options.record:
                    mutant.record(seeds)
    except Failure as failure:
        failed += 1
        print(f"mutants: FAILED: {failure}", flush=True)
    print(f"mutants took {time.monotonic() - began:.0f} s")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Plants one fault at a time and asks whether the simulator catches it, and within how many seeds.

    tests/sim/run_mutants.py [--only TEXT] [--seeds N] [--work DIR] [--record]

A mutant is a patch in tests/sim/mutants/. Lines before its first "---" that read "key: value" are
about it: `fault` says what is planted, `mode` is the simulator's (any, broker, storage).

The tree is copied to the work directory and built there once; each mutant is applied, built, run and
taken back. Exits 1 if one survives or does not apply. --record writes mutants/RESULTS.md.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MUTANTS = HERE / "mutants"


def run(command, cwd, **options):
    return subprocess.run(command, cwd=cwd, text=True, capture_output=True, **options)


def must(command, cwd):
    done = run(command, cwd)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def copy_tree(work):
    """Copies what git knows or would know; files that did not change keep their times, so that a
    work directory that is used again is built quickly."""
    names = must(["git", "ls-files", "-co", "--exclude-standard"], ROOT).splitlines()
    for name in names:
        source, target = ROOT / name, work / name
        if not source.is_file():
            continue
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def facts(patch):
    head = patch.read_text().split("\n--- ", 1)[0]
    return dict(re.findall(r"^(\w+): (.+)$", head, re.M))


def patched(work, patch, *flags):
    return run(["patch", "-p1", "-F3", "--no-backup-if-mismatch", *flags, "-i", patch], work)


def build(work):
    return run(["ninja", "-C", "build", "tests/sim/sim"], work)


def hunt(work, mode, seeds):
    """The number of seeds until one fails; None if all are clean. Also what it said."""
    command = ["build/tests/sim/sim", "--mode", mode, "--runs", str(seeds), "--quiet"]
    done = run(command, work)
    if done.returncode == 0:
        return None, ""
    first = re.search(r"^repeat: .* --seed (\d+)", done.stderr, re.M)
    said = re.search(r"^(FAILED seed=.*|.*[Aa]ssertion.*|panic: .*)$", done.stderr, re.M)
    if first is None:
        sys.exit(f"the simulator ended with {done.returncode}:\n{done.stderr}")
    return int(first.group(1)), re.sub(r"^FAILED seed=\d+( now_us=\d+)?: ", "", said.group(1))


def try_mutant(work, patch, seeds):
    about = facts(patch)
    applied = patched(work, patch)
    if applied.returncode != 0:
        patched(work, patch, "-R", "-f")
        return f"does not apply:\n{applied.stdout}", None, about
    try:
        built = build(work)
        if built.returncode != 0:
            return f"does not build:\n{built.stdout[-3000:]}", None, about
        needed, said = hunt(work, about.get("mode", "any"), seeds)
    finally:
        must(["patch", "-p1", "-F3", "-R", "--no-backup-if-mismatch", "-i", patch], work)
    if needed is None:
        return f"SURVIVED {seeds} seeds", None, about
    return said, needed, about


def record(rows):
    lines = [
        "# Mutants",
        "",
        "Faults planted on purpose, and the seeds the simulator needed to catch them (counted from",
        "seed 1). Written by `tests/sim/run_mutants.py --record`.",
        "",
        "| mutant | fault | mode | seeds | caught by |",
        "|---|---|---|---|---|",
    ]
    for name, about, needed, said in rows:
        said = said.replace("|", "\\|")[:90]
        lines.append(
            f"| {name} | {about.get('fault', '')} | {about.get('mode', 'any')} | {needed} | {said} |"
        )
    (MUTANTS / "RESULTS.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--work", type=pathlib.Path, help="kept, and quick the next time")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()

    work = arguments.work or pathlib.Path(tempfile.mkdtemp(prefix="coreflume-mutants-"))
    work.mkdir(parents=True, exist_ok=True)
    try:
        copy_tree(work)
        if not (work / "build" / "build.ninja").exists():
            must(["meson", "setup", "build", "--buildtype=release", "-Dunit_tests=disabled"], work)
        built = build(work)
        if built.returncode != 0:
            sys.exit(f"the tree does not build:\n{built.stdout[-3000:]}")
        rows, survivors = [], 0
        for patch in sorted(MUTANTS.glob("*.patch")):
            if arguments.only not in patch.stem:
                continue
            said, needed, about = try_mutant(work, patch, arguments.seeds)
            survivors += needed is None
            print(f"{patch.stem}: seeds={needed} {said}", flush=True)
            rows.append((patch.stem, about, needed, said))
        if arguments.record and not arguments.only:
            record(rows)
    finally:
        if arguments.work is None:
            shutil.rmtree(work)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

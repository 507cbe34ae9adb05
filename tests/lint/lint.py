#!/usr/bin/env python3
"""Style is a test. Each check yields `path:line: what is wrong and what to do`; exit 1 if any did.

Usage: lint.py [--build DIR] [--deep] [CHECK ...]     (no CHECK: all of them)
DIR holds a finished build, for the check of mutable globals and for clang-tidy's compile commands.
--deep lets clang's analyzer walk as far as it wants to: three times the time.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# DESIGN section 2: what a folder may include besides itself.
MAY_INCLUDE = {
    "core": [],
    "storage": ["core"],
    "net": ["core"],
    "raft": ["core", "storage", "net"],
    "cluster": ["core", "storage", "net", "raft"],
    "groups": ["core", "storage", "cluster", "kafka/proto"],
    "txn": ["core", "storage", "cluster", "kafka/proto"],
    "kafka/proto": ["core"],
    "kafka": ["core", "storage", "net", "cluster", "groups", "txn", "kafka/proto"],
    "admin": ["core", "net", "cluster", "groups", "txn"],
    "client": ["core", "net", "kafka/proto", "storage/batch.h", "storage/codec.h"],
    "perf/bench": ["core", "client", "storage/batch.h"],
    "cli": ["core", "storage", "client", "kafka/proto", "perf/bench"],
    "broker": ["core", "storage", "net", "raft", "cluster", "groups", "txn", "kafka", "kafka/proto",
               "admin", "client", "cli"],
}

NESTED = ("kafka/proto", "perf/bench") # Folders with rules of their own within others.
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 1000
PARAMETERS_MAX = 5
NESTING_MAX = 4
TIDY_DEPTH = ["-analyzer-config", "max-nodes=75000"] # A third of clang's own, and of the time: `./dev soak` goes deep.

# Calls that only the named folders (or files) may make, and what to use instead.
BANNED = [
    (r"\b(clock_gettime|gettimeofday|time)\(", ["core/clock.c"], "use the shard's clock (core/clock.h)"),
    (r"\b(rand|random|srand|getrandom|drand48)\(", ["core/rand.c"], "use the shard's rand (core/rand.h)"),
    (r"(?<![\w>.])(read|write|pread|pwrite|fsync|fdatasync|open|openat|rename|unlink)\(",
     ["core/", "net/", "client/", "cli/", "broker/"], "use the shard's io (core/io.h)"),
    (r"\bpthread_\w+\(", ["core/", "net/", "broker/", "client/", "perf/bench/"], "one thread a shard: messages (core/xmsg.h)"),
    (r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol)\(", [], "use the bounded form"),
    (r"\b(usleep|nanosleep|sleep)\(", ["client/", "cli/"], "arm a timer (core/timer.h)"),
    (r"\b_Thread_local\b|\b__thread\b|\bthread_local\b", [], "no thread-locals (rule 3)"),
    (r"\batomic_\w+\(|\b_Atomic\b", ["core/"], "no atomics outside core's message rings (rule 2)"),
    (r"//(?!/)[^\"]*$", [], "/* */ comments only"),
]

# Of tests. Criterion 2.4's gt(type, a, b) holds when a equals b.
BANNED_IN_TESTS = [
    (r"(?<!\w)gt\(", [], "Criterion's gt means >=: turn it round, lt(type, b, a)"),
]


def sources(pattern):
    for folder in MAY_INCLUDE:
        if folder in NESTED:
            continue
        yield from sorted((ROOT / folder).rglob(pattern))
    yield from sorted((ROOT / "tests").rglob(pattern))
    yield from sorted((ROOT / "perf").rglob(pattern))


def product(pattern):
    for path in sources(pattern):
        if path.relative_to(ROOT).parts[0] not in ("tests", "perf") or folder_of(path) == "perf/bench":
            yield path


def name(path):
    return path.relative_to(ROOT).as_posix()


def folder_of(path):
    return home_of(name(path))


def home_of(path):
    return next((folder for folder in NESTED if path.startswith(f"{folder}/")), path.split("/")[0])


def without_comments(text):
    """Blanks comments and string contents, keeps line numbers."""
    def blank(match):
        piece = match.group(0)
        if piece.startswith('"') or piece.startswith("'"):
            return piece[0] + " " * (len(piece) - 2) + piece[-1]
        return re.sub(r"[^\n]", " ", piece)
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def check_layers():
    include = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
    for path in product("*.[ch]"):
        folder = folder_of(path)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = include.match(line)
            if not match:
                continue
            target = match.group(1)
            home = home_of(target)
            allowed = home == folder or home in MAY_INCLUDE[folder] or target in MAY_INCLUDE[folder]
            if "/" not in target:
                yield f"{name(path)}:{number}: include \"{target}\" by its full path from the root"
            elif not allowed:
                yield f"{name(path)}:{number}: {folder}/ must not include {target}"
            elif target.endswith("_priv.h") and home != folder:
                yield f"{name(path)}:{number}: {target} is private to {home}/"


def check_headers():
    """Every header compiles alone, under both compilers."""
    flags = ["-std=gnu2x", "-D_GNU_SOURCE", f"-I{ROOT}", "-Wall", "-Wextra", "-Wno-unused-function",
             "-Wno-pragma-once-outside-header", "-fsyntax-only", "-x", "c"]
    generated = [f"-I{ROOT / BUILD}"] if BUILD else []

    def compile_one(job):
        compiler, path = job
        run = subprocess.run([compiler, *flags, *generated, "-include", str(path), "/dev/null"],
                             capture_output=True, text=True)
        return f"{name(path)}:1: does not compile alone with {compiler}: {run.stderr.strip()[:300]}" \
            if run.returncode or run.stderr.strip() else None

    jobs = [(compiler, path) for path in sources("*.h") for compiler in ("gcc", "clang-14")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from filter(None, pool.map(compile_one, jobs))
    for path in sources("*.h"):
        if "#pragma once" not in path.read_text():
            yield f"{name(path)}:1: starts without #pragma once"


def check_banned():
    rules = [(path, BANNED) for path in product("*.[ch]")]
    rules += [(path, BANNED_IN_TESTS) for path in sorted((ROOT / "tests").rglob("*.[ch]"))]
    for path, banned in rules:
        relative = name(path)
        text = without_comments(path.read_text())
        for pattern, homes, instead in banned:
            if any(relative.startswith(home) for home in homes):
                continue
            for number, line in enumerate(text.splitlines(), 1):
                if re.search(pattern, line) and not line.lstrip().startswith("#"):
                    yield f"{relative}:{number}: {line.strip()[:60]}: {instead}"


def functions(path):
    """(name, first line, last line, head, body) of each function; clang-format fixed the braces."""
    lines = without_comments(path.read_text()).splitlines()
    start = None
    for number, line in enumerate(lines):
        if line == "{" and number > 0:
            start = number
        elif line == "}" and start is not None:
            head_from = start - 1
            while head_from > 0 and lines[head_from - 1].strip() and \
                    not lines[head_from - 1].rstrip().endswith((";", "}", "*/")) and \
                    not lines[head_from - 1].startswith("#"):
                head_from -= 1
            head = " ".join(piece.strip() for piece in lines[head_from:start])
            match = re.search(r"(\w+)\s*\(", head)
            yield (match.group(1) if match else "?", start + 1, number + 1, head,
                   lines[start + 1:number])
            start = None


def check_functions():
    for path in sources("*.c"):
        text = path.read_text().splitlines()
        relative = name(path)
        if len(text) > FILE_LINES_MAX:
            yield f"{relative}:1: {len(text)} lines, at most {FILE_LINES_MAX}: split it"
        for function, first, last, head, body in functions(path):
            is_exempt = any("/* long:" in line for line in text[max(0, first - 12):first + 1])
            if last - first - 1 > FUNCTION_LINES_MAX and not is_exempt:
                yield f"{relative}:{first}: {function} has {last - first - 1} lines, at most " \
                      f"{FUNCTION_LINES_MAX} (a flat switch may say /* long: reason */)"
            parameters = head[head.find("(") + 1:head.rfind(")")]
            depth = count = 0
            for character in parameters:
                depth += character in "(["
                depth -= character in ")]"
                count += character == "," and depth == 0
            if count + 1 > PARAMETERS_MAX and not relative.startswith("tests/"):
                yield f"{relative}:{first}: {function} takes {count + 1} parameters, at most " \
                      f"{PARAMETERS_MAX}: use an options struct"
            for number, line in enumerate(body, first + 1):
                indent = len(line) - len(line.lstrip())
                if re.match(r"\s*(if|for|while|switch|do|list_for_each\w*)\b.*\{$", line) and \
                        indent // 4 > NESTING_MAX and not is_exempt:
                    yield f"{relative}:{number}: nesting deeper than {NESTING_MAX} in {function}"


def check_globals():
    """No mutable file-scope variable (rule 3): .data and .bss of the archives are empty."""
    if not BUILD:
        return
    for archive in sorted((ROOT / BUILD).rglob("*.a")):
        if "tests" in archive.parts or "perf" in archive.parts and archive.parent.name != "bench":
            continue
        run = subprocess.run(["objdump", "-t", str(archive)], capture_output=True, text=True)
        member = ""
        for line in run.stdout.splitlines():
            if "file format" in line:
                member = line.split(":")[0]
            match = re.match(r"\S+ .{7} (\.data|\.bss)(\.\S+)?\s+(\S+)\s+(.+)$", line)
            if not match or match.group(2) and match.group(2).startswith(".rel.ro"):
                continue
            size, symbol = int(match.group(3), 16), match.group(4).split()[-1]
            if size and not symbol.startswith((".", "__asan", "__odr")):
                yield f"{archive.name}({member}): mutable global '{symbol}' (rule 3)"


def check_readmes():
    for folder in MAY_INCLUDE:
        path = ROOT / folder
        if not any(path.glob("*.[ch]")):
            continue
        readme = path / "README.md"
        if not readme.exists():
            yield f"{folder}/README.md:1: missing"
            continue
        text = readme.read_text()
        if len(text.splitlines()) > 140:
            yield f"{folder}/README.md:1: more than 140 lines"
        for link in re.findall(r"`([a-z_0-9/]+\.[ch])`", text):
            homes = [ROOT / link, *path.rglob(link)]
            generated = ROOT / BUILD / folder / link if BUILD else ROOT / link
            if not any(home.exists() for home in [*homes, generated]):
                yield f"{folder}/README.md:1: names {link}, which is not there"


def check_words():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout
    for relative in tracked.splitlines():
        path = ROOT / relative
        if path.suffix not in (".c", ".h", ".py", ".sh", ".build", ".md") and relative != "dev":
            continue
        if relative == "tests/lint/lint.py" or not path.exists():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if re.search(r"\b(FIXME|XXX|HACK)\b", line):
                yield f"{relative}:{number}: {line.strip()[:60]}: say it as TODO(#issue) or do it"
            if path.suffix != ".md" and re.search(r"\bTODO\b(?!\(#\d+\))", line):
                yield f"{relative}:{number}: TODO needs an open issue: TODO(#123)"
            if line != line.rstrip() and path.suffix != ".md":
                yield f"{relative}:{number}: trailing white space"


def check_format():
    files = [str(path) for path in sources("*.[ch]")]
    if not files:
        return
    run = subprocess.run(["clang-format-14", "--dry-run", "-Werror", *files], capture_output=True,
                         text=True)
    for line in run.stderr.splitlines():
        if "error:" in line:
            yield f"{line.replace(str(ROOT) + '/', '').split(' error:')[0]} not formatted: ./dev fmt"


def check_mutants():
    for patch in sorted((ROOT / "tests/sim/mutants").glob("*.patch")):
        run = subprocess.run(["git", "apply", "--check", patch], cwd=ROOT, capture_output=True, text=True)
        if run.returncode:
            yield f"tests/sim/mutants/{patch.name}: no longer applies: make the same fault in what it patched"


def check_tidy():
    if not BUILD or not (ROOT / BUILD / "compile_commands.json").exists():
        return
    files = [str(path) for path in product("*.c")]
    depth = [] if DEEP else [f"--extra-arg={word}" for option in TIDY_DEPTH for word in ("-Xclang", option)]

    def tidy(path):
        run = subprocess.run(["clang-tidy-14", "--quiet", "-p", str(ROOT / BUILD), *depth, path],
                             capture_output=True, text=True)
        return [line.replace(str(ROOT) + "/", "") for line in run.stdout.splitlines()
                if re.search(r": (warning|error): ", line)]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(tidy, files):
            yield from found


CHECKS = {key[6:]: value for key, value in list(globals().items()) if key.startswith("check_")}
BUILD = None
DEEP = False


def main():
    global BUILD, DEEP
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("checks", nargs="*")
    arguments = parser.parse_args()
    BUILD = arguments.build
    DEEP = arguments.deep
    failed = 0
    for check in arguments.checks or CHECKS:
        found = sorted(set(CHECKS[check]()))
        for line in found:
            print(line)
        print(f"lint {check}: {'ok' if not found else str(len(found)) + ' found'}", flush=True)
        failed += bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

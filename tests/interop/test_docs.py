#!/usr/bin/env python3
"""What the documentation says is what the program does."""
import os
import pathlib
import re
import subprocess

from support.check import equal, expect, run_all
from support.node import ROOT, Node, binary, fresh_dir


def test_configuration_lists_every_option():
    table = subprocess.run([binary(), "start", "--options"], capture_output=True, text=True, check=True).stdout
    text = (ROOT / "docs" / "configuration.md").read_text()
    missing = [line for line in table.splitlines() if line not in text]
    expect(not missing, f"docs/configuration.md is not what `coreflume start --options` prints; missing: {missing[:3]}")


def test_every_test_that_cases_names_exists():
    table = (ROOT / "tests" / "cases.md").read_text()
    rows = [line for line in table.splitlines() if re.match(r"\| C\d{3} \|", line)]
    numbers = [line[2:6] for line in rows]
    equal(numbers, sorted(set(numbers)), "one row for each report, in order")
    for line in rows:
        named = re.findall(r"`((?:unit|interop)/[\w/.]+):(\w+)`", line)
        expect(named or "later:" in line, f"{line[2:6]}: neither a test nor a reason")
        for path, name in named:
            form = rf"^def {name}\(" if path.endswith(".py") else rf"^Test\(\w+, {name}\)"
            source = (ROOT / "tests" / path).read_text()
            expect(re.search(form, source, re.M), f"{line[2:6]}: no {name} in tests/{path}")


def examples(path):
    """(command, what it prints) of each '    $ ' in it, in order."""
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line[4:])
        elif not line and found and found[-1][1] and found[-1][1][0].startswith(("name ", "group ", "TOPIC ")):
            found[-1][1].append("")
    return found


def test_the_command_line_prints_what_its_page_says():
    directory = fresh_dir("docs_cli")
    with Node(directory / "data") as node:
        environment = dict(os.environ, PATH=f"{pathlib.Path(binary()).resolve().parent}:{os.environ['PATH']}", LC_ALL="C.UTF-8",
                           COREFLUME_BROKERS=node.kafka)
        for command, printed in examples(ROOT / "docs" / "cli.md"):
            if command.startswith("export "):
                continue
            done = subprocess.run(["bash", "-c", command.replace("/tmp/", f"{directory}/")], env=environment, timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            wanted = "\n".join(printed).rstrip()
            pattern = re.escape(wanted).replace(re.escape("..."), ".*")
            expect(re.fullmatch(pattern, done.stdout.rstrip()), f"$ {command}\n{done.stdout}\nwanted:\n{wanted}")
            failed = "coreflume: " in wanted
            expect((done.returncode != 0) == failed, f"$ {command}: exit {done.returncode}")


run_all(globals())

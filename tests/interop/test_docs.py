#!/usr/bin/env python3
"""What the documentation says is what the program does."""
import re
import subprocess

from support.check import equal, expect, run_all
from support.node import ROOT, binary


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


run_all(globals())

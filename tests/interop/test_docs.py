#!/usr/bin/env python3
"""What the documentation says is what the program does."""
import subprocess

from support.check import expect, run_all
from support.node import ROOT, binary


def test_configuration_lists_every_option():
    table = subprocess.run([binary(), "start", "--options"], capture_output=True, text=True, check=True).stdout
    text = (ROOT / "docs" / "configuration.md").read_text()
    missing = [line for line in table.splitlines() if line not in text]
    expect(not missing, f"docs/configuration.md is not what `coreflume start --options` prints; missing: {missing[:3]}")


run_all(globals())

#!/usr/bin/env python3
"""The log that `coreflume bench --hlog` writes, as HdrHistogram's own reader sees it: per tag as many values as the run
says, and the same percentiles. Installs the reader (pinned) beside the build.

    python3 tests/interop/by_hand/hdrhistogram.py
"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.check import equal, expect, run_all
from support.cli import cli
from support.node import Node, fresh_dir

READER = "hdrhistogram==0.10.3"
PROGRAM = """
import json, sys
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
sums = {}
reader = HistogramLogReader(sys.argv[1], HdrHistogram(1, 3600000000, 3))
while True:
    one = reader.get_next_interval_histogram()
    if one is None:
        break
    tag = one.get_tag()
    sums.setdefault(tag, HdrHistogram(1, 3600000000, 3)).add(one)
print(json.dumps({tag: dict(count=h.get_total_count(), p50_us=h.get_value_at_percentile(50),
                            p99_us=h.get_value_at_percentile(99), p99_9_us=h.get_value_at_percentile(99.9),
                            max_us=h.get_max_value()) for tag, h in sums.items()}))
"""


def test_the_reference_reader_sees_what_the_run_said():
    directory = fresh_dir("hdrhistogram")
    subprocess.run([sys.executable, "-m", "venv", directory / "venv"], check=True)
    subprocess.run([directory / "venv/bin/pip", "install", "--quiet", READER], check=True)
    log = directory / "run.hlog"
    with Node(directory / "data") as node:
        window = cli(node, "bench", "--json", "--rate", "5000", "--duration", "3", "--hlog", log).json()["windows"][0]
    done = subprocess.run([directory / "venv/bin/python", "-c", PROGRAM, log], check=True, capture_output=True, text=True)
    seen = json.loads(done.stdout)
    for tag, name in (("publish", "publish"), ("e2e", "end_to_end"), ("slip", "send_slip")):
        said = window[name]
        equal(seen[tag]["count"], said["count"], f"{tag}: values")
        for key in ("p50_us", "p99_us", "p99_9_us", "max_us"):
            expect(abs(seen[tag][key] - said[key]) <= said[key] / 1000 + 1, (tag, key, seen[tag], said))


if __name__ == "__main__":
    run_all(globals())

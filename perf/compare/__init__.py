"""Coreflume beside Apache Kafka in one run; README.md."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in (ROOT / "perf", ROOT / "tests" / "interop"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

"""Usage: ./dev compare [--rows NAME,...] [--pairs N] [--seconds S] [--only coreflume,...] [--out PATH]

NAME is a row's or a goal's: batches or G1. README.md says what the rows are and how long all of them take.
"""
import argparse
import collections
import datetime
import pathlib
import signal
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from compare import ROOT, floors, report, servers, starts  # noqa: E402
from compare.rows import ROWS  # noqa: E402
from compare.slots import Measured, say  # noqa: E402

STARTS = "starts"
STARTS_ABOUT = "{} idle partitions with a record each; an empty start; kill -9 and start"


def wanted(names):
    """The rows in the order in which they are asked for."""
    offered = {row.name: row.goals.split() for row in ROWS} | {STARTS: ["G12", "G14"]}
    if not names:
        return list(offered)
    chosen = []
    for name in names.split(","):
        found = [row for row, goals in offered.items() if name in (row, *goals)]
        if not found:
            raise SystemExit(f"compare: no row or goal {name}; there are {', '.join(offered)}")
        chosen += found
    return list(dict.fromkeys(chosen))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10, help="of a slot")
    parser.add_argument("--warm", type=int, default=10, help="seconds of a turn of the load that each side of a row gets before it")
    parser.add_argument("--turns", type=int, default=6, help="how many of them, at most")
    parser.add_argument("--partitions", type=int, default=10000, help="of the row starts")
    parser.add_argument("--only", help="servers: coreflume, kafka, redis")
    parser.add_argument("--out", help="without suffix (default perf/results/<date>-compare)")
    return parser.parse_args()


def needed(names, only):
    kinds = {side.server for row in ROWS if row.name in names for side in row.sides.values()}
    kinds |= set(starts.SIDES.values()) if STARTS in names else set()
    return kinds & set(only) if only else kinds


def measure_row(row, running, timing, only):
    measured = Measured(row, running, timing, only).run()
    slots = [values for slots in measured.rounds for _, values in slots]
    return {"about": row.about, "goals": row.goals, "rate": measured.rate, "peaks": measured.peaks,
            "topics": {name: vars(side) for name, side in measured.sides.items()},
            "warnings": dict(collections.Counter(measured.warnings)), "command": slots[0]["command"],
            "rounds": measured.rounds}, row.figures


def measure_starts(options, only):
    rounds = starts.measure(servers.STARTERS, options.pairs, options.partitions, only)
    return {"about": STARTS_ABOUT.format(options.partitions), "goals": "G12 G14", "rounds": rounds}, starts.FIGURES


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("compare: ended early; what is written ends with the row before"))  # No server outlives us.
    options = parse()
    only = options.only.split(",") if options.only else None
    names = wanted(options.rows)
    servers.install(needed(names, only))
    timing = {"pairs": options.pairs, "seconds": options.seconds, "warm": options.warm, "turns": options.turns}
    result = {"date": datetime.date.today().isoformat(), "command": " ".join(["./dev compare", *sys.argv[1:]]),
              "machine": report.machine(ROOT), "versions": servers.versions(), "timing": timing, "rows": {}}
    out = pathlib.Path(options.out) if options.out else ROOT / "perf" / "results" / f"{result['date']}-compare"
    floor_seconds = max(1, options.seconds // 2)
    before = floors.measure(floor_seconds)
    with servers.Servers() as running:
        for name in names:
            if name == STARTS:
                row, figures = measure_starts(options, only)
            else:
                row, figures = measure_row(next(row for row in ROWS if row.name == name), running, timing, only)
            after = floors.measure(floor_seconds)
            result["rows"][name] = report.row_result(figures, row["rounds"], before, after) | row
            result["settings"] = {kind: server.settings for kind, server in running.running.items()}
            report.write(result, out)
            before = after
    say(f"{report.verdict_line(result)} See {out.with_suffix('.md')}")


if __name__ == "__main__":
    main()

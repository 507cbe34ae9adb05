"""What a run says: one JSON with everything, and a table to read."""
import json
import os
import pathlib
import platform
import re
import subprocess

from compare import ROOT
from compare import verdict
from support.node import binary

QUANTITIES = {
    "cpu_s_per_million": "CPU-s per million records", "p50_us": "p50, us", "p99_us": "p99, us", "p999_us": "p99.9, us",
    "MB_per_s": "MB/s", "written_per_byte": "bytes written per byte", "generator_cpu_s": "generator's CPU-s in a slot",
    "others_cpu_s": "all others' CPU-s in a slot (the kernel's threads and the host's share too)", "memory_MiB": "memory, MiB",
    "empty_MiB": "memory before, MiB", "KiB_per_partition": "KiB per partition",
    "descriptors_per_partition": "descriptors per partition", "first_ack_ms": "empty start to first ack, ms",
    "restart_ms": "kill -9 to records taken, ms"}


def first_line(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip().split("\n")[0] if done.returncode == 0 else None


def machine(directory):
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", cpuinfo)
    return {"cores": os.cpu_count(), "cpu": model.group(1) if model else platform.machine(), "kernel": platform.release(),
            "memory_MiB": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1 << 20),
            "file_system": first_line("findmnt", "-no", "FSTYPE,OPTIONS", "--target", str(directory)),
            "load_before": os.getloadavg()[0], "commit": first_line("git", "describe", "--always", "--dirty"),
            "binary_sha256": first_line("sha256sum", binary())}


def row_result(figures, rounds, before, after):
    """Spreads per side and quantity, verdicts, the control; before and after: the floors on both sides of the row."""
    floors, moved = verdict.mean_floors(before, after), verdict.drift(before, after)
    drifted = [name for name, value in moved.items() if not value["good"]]
    sides = list(dict.fromkeys(side for slots in rounds for side, _ in slots))
    spreads = {side: {quantity: verdict.spread(values) for quantity in QUANTITIES
                      if (values := verdict.series(rounds, side, quantity))} for side in sides}
    judged = []
    for figure in figures:
        result = verdict.judge(figure, rounds, floors, drifted)
        if result["ratio"]:
            judged.append({"figure": vars(figure), **result, "short_by": verdict.distance(figure, result)})
    checked = {figure.quantity: verdict.control(rounds, figure.quantity) for figure in figures}
    return {"sides": spreads, "figures": judged, "control": {name: value for name, value in checked.items() if value},
            "floors": {name: value | {"before": before[name], "after": after[name]} for name, value in moved.items()}}


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cell(spread):
    return f"{number(spread['median'])} ({number(spread['min'])}..{number(spread['max'])})"


def beside(figure):
    return figure["to"] or (f"floor {figure['floor']}" if figure["floor"] else "-")


def goals_table(rows):
    yield "| goal | row | quantity | of | to | ratio (or value) | goal | verdict |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, row in rows.items():
        for judged in row["figures"]:
            figure = judged["figure"]
            sign = ">=" if figure["is_least"] else "<="
            yield (f"| {figure['goal']} | {name} | {QUANTITIES[figure['quantity']]} | {figure['of']} | {beside(figure)} | "
                   f"{cell(judged['ratio'])} | {sign} {figure['limit']:g} | {judged['verdict']} |")


def row_lines(name, row):
    yield f"## {name}"
    yield ""
    yield f"{row['about'][0].upper()}{row['about'][1:]}." + (f" Rate: {number(row['rate'])} records/s." if row.get("rate") else "")
    yield ""
    quantities = [quantity for quantity in QUANTITIES if any(quantity in side for side in row["sides"].values())]
    yield "| | " + " | ".join(row["sides"]) + " |"
    yield "|---" * (len(row["sides"]) + 1) + "|"
    for quantity in quantities:
        cells = [cell(side[quantity]) if quantity in side else "" for side in row["sides"].values()]
        yield f"| {QUANTITIES[quantity]} | " + " | ".join(cells) + " |"
    yield ""
    if row["control"]:
        texts = [f"{QUANTITIES[name]} {cell(value)}" + ("" if value["good"] else f", more than {value['allowed']:.0%}: VOID")
                 for name, value in row["control"].items()]
        yield "Control, the first side's later slot over its earlier one: " + "; ".join(texts) + "."
    if row["floors"]:
        yield "Floors before and after: " + ", ".join(
            f"{name} {number(value['before'])} to {number(value['after'])}" + ("" if value["good"] else " (moved)")
            for name, value in row["floors"].items()) + "."
    for warning, count in row.get("warnings", {}).items():
        yield f"- {warning} ({count} slots)"
    if row.get("command"):
        yield f"- Of the first slot: `{row['command']}`"
    yield ""


def verdict_line(result):
    void = sorted({name for name, row in result["rows"].items() for judged in row["figures"]
                   if judged["verdict"] == verdict.VOID})
    moved = {judged["figure"]["floor"] for row in result["rows"].values() for judged in row["figures"]
             if not row["floors"].get(judged["figure"]["floor"], {"good": True})["good"]}
    words = []
    if void:
        words.append(f"VOID in part or whole, by the control or the floors: {', '.join(void)}.")
    if moved:
        words.append(f"Floors that moved by more than {verdict.DRIFT_MAX:.0%} while their row ran, so that ratios to them are void: "
                     f"{', '.join(sorted(moved))}.")
    return " ".join(words) or "All controls held, and the floors stayed."


def markdown(result):
    yield f"# Beside Apache Kafka, {result['date']}"
    yield ""
    yield verdict_line(result)
    yield ""
    about = result["machine"]
    yield (f"{about['cores']} cores ({about['cpu']}), {about['memory_MiB']:,} MiB, kernel {about['kernel']}, load {about['load_before']:.2f} "
           f"before; commit {about['commit']}; {', '.join(result['versions']['kafka'])} on {(result['versions']['java'] or ['?'])[0]}. "
           f"{result['timing']['pairs']} pairs of {result['timing']['seconds']:g} s. `{result['command']}`")
    yield ""
    yield from goals_table(result["rows"])
    yield ""
    for name, row in result["rows"].items():
        yield from row_lines(name, row)


def write(result, out):
    out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1).replace(f"{ROOT}/", "")
    out.with_suffix(".json").write_text(text + "\n")
    out.with_suffix(".md").write_text("\n".join(markdown(result)).rstrip() + "\n")

#!/usr/bin/env python3
"""perf/compare: what it makes of figures, and one tiny row with our own broker on both sides."""
import dataclasses
import json
import pathlib
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "perf"))
from compare import report, rows, servers, slots, verdict  # noqa: E402
from support.check import equal, expect, run_all  # noqa: E402

CPU, P99 = "cpu_s_per_million", "p99_us"


def rounds(*values):
    """Each value: ours at the beginning, Kafka's, ours at the end; of both quantities."""
    return [[(side, {CPU: value, P99: value}) for side, value in zip(("ours", "kafka", "ours"), triple)] for triple in values]


def test_a_round_begins_and_ends_with_the_first_side_and_turns_round():
    equal(verdict.order(["a", "b", "c"], 0), ["a", "b", "c", "a"])
    equal(verdict.order(["a", "b", "c"], 1), ["a", "c", "b", "a"])
    equal(verdict.order(["a"], 0), ["a", "a"])


def test_ratios_are_per_round_and_goals_have_two_directions():
    figures = rounds((1, 10, 1), (2, 10, 2), (3, 10, 3))
    less = verdict.Figure("G1", CPU, "ours", 0.2, to="kafka")
    equal(verdict.judge(less, figures, {}), {"ratio": {"median": 0.2, "min": 0.1, "max": 0.3, "n": 3}, "verdict": "met"})
    cases = [(less, 0.19, False, "short"), (less, 0.2, False, "met"), (less, 0.2, True, "met"), (less, 0.21, True, "short")]
    for figure, limit, is_least, wanted in cases:
        changed = dataclasses.replace(figure, limit=limit, is_least=is_least)
        equal(verdict.judge(changed, figures, {})["verdict"], wanted, (limit, is_least))


def test_short_by_is_above_one_whatever_the_direction():
    at = {"ratio": {"median": 0.5}}
    equal(verdict.distance(verdict.Figure("G1", CPU, "ours", 0.25, to="kafka"), at), 2)
    equal(verdict.distance(verdict.Figure("G8", CPU, "ours", 2.0, to="kafka", is_least=True), at), 4)


def test_floors_and_plain_values_are_divisors_too():
    figures = rounds((4, 10, 4))
    floor = verdict.Figure("G5", CPU, "ours", 2, floor="ack_p99_us")
    equal(verdict.judge(floor, figures, {"ack_p99_us": 2})["ratio"]["median"], 2)
    equal(verdict.judge(floor, figures, {"ack_p99_us": 2}, ["ack_p99_us"])["verdict"], "void", "a floor that did not stay")
    equal(verdict.judge(floor, figures, {})["verdict"], "none", "a floor that was not measured")
    equal(verdict.judge(verdict.Figure("G1", CPU, "ours", 3), figures, {})["ratio"]["median"], 4)
    nobody = verdict.Figure("G1", CPU, "ours", 3, to="k-cache")
    equal(verdict.judge(nobody, figures, {})["verdict"], "none", "a side that did not run")


def test_a_control_that_is_off_voids_its_quantity():
    """The same server 6 % from itself: too much for CPU, nothing for p99. One round does not decide: the median does."""
    figures = rounds((1, 10, 1.06), (1, 10, 1.06), (1, 10, 3))
    for quantity, wanted in ((CPU, "void"), (P99, "met")):
        judged = verdict.judge(verdict.Figure("G", quantity, "ours", 0.2, to="kafka"), figures, {})
        equal(judged["verdict"], wanted, quantity)
    equal(verdict.control(rounds((1, 10, 0.94)), CPU)["good"], False, "to the other side")
    equal(verdict.control(rounds((1, 10, 1.04), (1, 10, 0.96)), CPU)["good"], True)


def test_a_side_that_refuses_voids_what_it_is_in():
    figures = [[("ours", {CPU: 1, "errors": 0}), ("kafka", {CPU: 10, "errors": 1}), ("redis", {CPU: 10, "errors": 0}), ("ours", {CPU: 1})]]
    for beside, wanted in (("kafka", "void"), ("redis", "met"), ("", "met")):
        equal(verdict.judge(verdict.Figure("G", CPU, "ours", 1, to=beside), figures, {})["verdict"], wanted, beside)


def test_a_warm_up_is_over_when_a_turn_costs_what_the_last_one_did():
    for costs, wanted in (([], False), ([1], False), ([2, 1], False), ([2, 1, 0.96], True), ([1, 1.04], True), ([1, 1.06], False)):
        equal(verdict.is_steady(costs), wanted, costs)


def test_drift_is_told_in_both_directions():
    moved = verdict.drift({"a": 100, "b": 100, "c": 100}, {"a": 109, "b": 111, "c": 90})
    equal({name: value["good"] for name, value in moved.items()}, {"a": True, "b": False, "c": False})
    equal(verdict.mean_floors({"a": 100, "b": 1}, {"a": 109}), {"a": 104.5})


def test_every_figure_is_about_sides_that_its_row_has():
    names = [row.name for row in rows.ROWS]
    equal(len(set(names)), len(names), "rows of one name")
    for row in rows.ROWS:
        for figure in row.figures:
            expect(figure.of in row.sides and (not figure.to or figure.to in row.sides), (row.name, figure))
            expect(figure.goal in row.goals.split() and figure.quantity in report.QUANTITIES, (row.name, figure))
        for name, side in row.sides.items():
            expect(side.server in servers.STARTERS, (row.name, name))
            expect(row.rate is None or row.peak, (row.name, "a rate that nothing finds"))


def test_a_row_with_our_broker_on_both_sides():
    """Not what the figures are: only that there are all of them, and that the report can say them."""
    row = next(row for row in rows.ROWS if row.name == "unloaded")
    with servers.Servers({"coreflume": servers.coreflume, "kafka": servers.coreflume}) as running:
        measured = slots.Measured(row, running, {"pairs": 1, "seconds": 0.2, "warm": 0.1, "turns": 1}).run()
        equal([side for side, _ in measured.rounds[0]], ["ours", "k-fsync", "k-cache", "ours"])
        for side, values in measured.rounds[0]:
            expect(values["cpu_s"] > 0 and values["records"] > 0 and values["written"] > 0, (side, values))
            equal(values["errors"], 0, side)
        result = report.row_result(row.figures, measured.rounds, {"ack_p50_us": 100}, {"ack_p50_us": 120}) | {"about": row.about}
        equal(len(result["figures"]), len(row.figures))
        lines = "\n".join(report.row_lines(row.name, result))
        expect("| p50, us |" in lines and "ack_p50_us 100 to 120 (moved)" in lines, lines)
        equal([judged["verdict"] for judged in result["figures"] if judged["figure"]["floor"]], ["void"], "its floor has moved")
        expect("moved by more than 10%" in report.verdict_line({"rows": {row.name: result}}), result["floors"])
        told_by_bench(running.get("coreflume"))


def test_what_is_under_way_at_the_end_of_a_slot_is_waited_for():
    """The node stands still for longer than the slot. A generator that starts late finds it awake, and proves nothing then;
    one that does not wait for what it sent has no answers."""
    with servers.Servers({"coreflume": servers.coreflume}) as running:
        server = running.get("coreflume")
        server.resume()
        server.create("stall", 1)
        server.pause()
        process = subprocess.Popen([str(slots.program("load")), "--broker", server.address, "--topic", "stall", "--rate", "500",
                                    "--seconds", "0.5", "--warmup", "0", "--records", "1"], stdout=subprocess.PIPE, text=True)
        threading.Event().wait(1.5)
        server.resume()
        told = json.loads(process.communicate(timeout=60)[0])
        equal((told["all_records"], told["errors"]), (250, 0), told)


def told_by_bench(server):
    """The fields of its JSON that rows are made of."""
    timing, side = {"seconds": 1, "warmup": 0}, rows.Side("coreflume", {})
    server.resume()
    server.create("bench", side.partitions)
    told = slots.bench(side, "bench", server.address, {"rate": 1000, "consumers": 0}, timing)
    equal((told["records"], told["bytes"], told["errors"]), (1000, 1000 * 1024, 0))
    expect(0 < told["p50_us"] <= told["p99_us"] <= told["p999_us"] and told["MB_per_s"] > 0, told)
    told = slots.read(side, "bench", server.address, {"consumers": 1}, timing)
    expect(told["records"] >= 1000 and told["bytes"] >= 1000 * 1024 and told["MB_per_s"] > 0, told)


if __name__ == "__main__":
    run_all(globals())

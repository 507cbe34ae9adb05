"""What pairs of one run say: ratios, their spread, the control, and whether a goal is reached. Pure."""
import dataclasses
import statistics

# How far the same server may be from itself, per quantity; others have none.
CONTROL = {"cpu_s_per_million": 0.05, "p50_us": 0.15, "p99_us": 0.15, "p999_us": 0.30, "MB_per_s": 0.10}
DRIFT_MAX = 0.10
STEADY = 0.05
MET, SHORT, VOID, NONE = "met", "short", "void", "none"


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def ratio(a, b):
    return a / b if b else float("inf")


@dataclasses.dataclass(frozen=True)
class Figure:
    """One goal of a row: `of` measured by `quantity`, divided by the same of `to` (a side), or by a floor, or by nothing."""
    goal: str
    quantity: str
    of: str
    limit: float
    to: str = ""
    floor: str = ""
    is_least: bool = False  # The limit is a lower one.


def is_steady(costs):
    """Whether the last turn of a warm-up cost what the one before it did."""
    return len(costs) > 1 and 1 / (1 + STEADY) <= ratio(costs[-1], costs[-2]) <= 1 + STEADY


def order(sides, number):
    """Of the slots of one round: the first side begins and ends it, which is the control; the others turn round."""
    first, *others = sides
    return [first, *(others if number % 2 == 0 else reversed(others)), first]


def sides_of(slots):
    """A round's slots [(side, values)] as {side: [values, ...]}."""
    sides = {}
    for side, values in slots:
        sides.setdefault(side, []).append(values)
    return sides


def value_of(side, quantity):
    """Of a side in one round, the mean where it had two slots; None without the quantity."""
    values = [slot[quantity] for slot in side if slot.get(quantity) is not None]
    return statistics.fmean(values) if len(values) == len(side) else None


def series(rounds, side, quantity):
    """One value per round."""
    values = [value_of(sides_of(slots)[side], quantity) for slots in rounds if side in sides_of(slots)]
    return [] if None in values else values


def control(rounds, quantity):
    """The later run of the first side over the earlier one; whether that is close enough to tell anything."""
    twice = [side for slots in rounds for side in sides_of(slots).values() if len(side) == 2]
    ratios = [ratio(later[quantity], earlier[quantity]) for earlier, later in twice
              if earlier.get(quantity) and later.get(quantity)]
    if not ratios:
        return None
    allowed = CONTROL.get(quantity)
    middle = statistics.median(ratios)
    is_good = allowed is None or 1 / (1 + allowed) <= middle <= 1 + allowed
    return spread(ratios) | {"allowed": allowed, "good": is_good}


def has_errors(rounds, sides):
    """A side that refuses is fast."""
    return any(slot.get("errors") for slots in rounds for side, slot in slots if side in sides)


def judge(figure, rounds, floors, drifted=()):
    """{"ratio": spread, "verdict": ...}: per round, then the median of the rounds. drifted: floors that did not stay."""
    ours = series(rounds, figure.of, figure.quantity)
    if figure.to:
        beside = series(rounds, figure.to, figure.quantity)
    elif figure.floor:
        beside = [floors[figure.floor]] * len(ours) if floors.get(figure.floor) else []
    else:
        beside = [1] * len(ours)
    if not ours or len(beside) != len(ours):
        return {"ratio": None, "verdict": NONE}
    ratios = spread([ratio(a, b) for a, b in zip(ours, beside)])
    is_met = ratios["median"] >= figure.limit if figure.is_least else ratios["median"] <= figure.limit
    checked = control(rounds, figure.quantity)
    is_void = figure.floor in drifted or (checked and not checked["good"]) or has_errors(rounds, (figure.of, figure.to))
    verdict = VOID if is_void else MET if is_met else SHORT
    return {"ratio": ratios, "verdict": verdict}


def distance(figure, result):
    """How many times short of its goal; below 1 if it is reached."""
    middle = result["ratio"]["median"]
    return ratio(figure.limit, middle) if figure.is_least else ratio(middle, figure.limit)


def drift(before, after):
    """Per floor: after over before, and whether the machine stayed as it was."""
    ratios = {name: ratio(after[name], before[name]) for name in before if name in after}
    return {name: {"ratio": value, "good": 1 / (1 + DRIFT_MAX) <= value <= 1 + DRIFT_MAX}
            for name, value in ratios.items()}


def mean_floors(before, after):
    return {name: statistics.fmean([before[name], after[name]]) for name in before if name in after}

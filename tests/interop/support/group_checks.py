"""What must hold of a consumer group, judged from the logs of its members.

Each check takes what was seen and returns the problems as texts. Times are nanoseconds of the one monotonic
clock that all processes of a machine share.
"""
import collections
import dataclasses

# Errors that a member hears when the coordinator no longer has it as it is.
THROWN_OUT = ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID", "MAX_POLL_EXCEEDED",
              "MEMBER_ID_REQUIRED")
SHOWN = 3 # Problems of one kind.


@dataclasses.dataclass
class Log:
    """What one process said, and how it ended."""
    name: str
    events: list # Of the dicts of the contract.
    killed_at: int = None # After the kernel said that it was gone.
    ended_at: int = None
    exit: int = None
    was_asked: bool = False # To end.

    def of(self, *names):
        return [event for event in self.events if event["event"] in names]


@dataclasses.dataclass
class Seen:
    """A wire client's OffsetFetch: asked and answered when, {partition: offset}."""
    asked_at: int
    answered_at: int
    offsets: dict


@dataclasses.dataclass
class Window:
    """From when to when only these members had a reason to get or give partitions."""
    what: str
    start: int
    end: int
    changing: tuple


def shortened(problems):
    more = len(problems) - SHOWN
    return problems[:SHOWN] + ([f"and {more} more"] if more > 0 else [])


# ---- records ----

def check_delivered(acked, logs):
    """Every acknowledged record, as (partition, offset), was received by some member."""
    received = {(event["partition"], event["offset"]) for log in logs for event in log.of("record")}
    missing = sorted(set(acked) - received)
    problems = [] if acked else ["nothing was acknowledged"]
    return problems + shortened([f"partition {p} offset {o}: never delivered" for p, o in missing])


def check_received_by_owner(logs):
    """A member receives only of partitions that it owns."""
    problems = []
    for log in logs:
        owned = set()
        for event in log.events:
            if event["event"] == "assigned":
                owned |= set(event["partitions"])
            elif event["event"] in ("revoked", "lost"):
                owned -= set(event["partitions"])
            elif event["event"] == "record" and event["partition"] not in owned:
                problems.append(f"{log.name} received partition {event['partition']} offset {event['offset']} without owning it")
    return shortened(problems)


# ---- committed positions ----

def commits(logs):
    """(time, partition, position) of each acknowledged commit, in order."""
    return sorted((event["at"], int(partition), position, log.name) for log in logs for event in log.of("committed")
                  for partition, position in event["offsets"].items())


def check_commits_forward(logs, fetched, tells=True):
    """No acknowledged position is behind one acknowledged before; what a wire client is answered neither goes back nor
    misses what was acknowledged before it asked. tells: whether the members say what was acknowledged."""
    problems, best = [], collections.defaultdict(int)
    acknowledged = commits(logs)
    if not acknowledged and tells:
        problems.append("no commit was acknowledged")
    for _, partition, position, name in acknowledged:
        if position < best[partition]:
            problems.append(f"partition {partition}: {name} committed {position} after {best[partition]}")
        best[partition] = max(best[partition], position)
    due, place = collections.defaultdict(int), 0
    for seen in sorted(fetched, key=lambda seen: seen.asked_at):
        while place < len(acknowledged) and acknowledged[place][0] < seen.asked_at:
            _, partition, position, _ = acknowledged[place]
            due[partition] = max(due[partition], position)
            place += 1
        for partition, offset in seen.offsets.items():
            if max(offset, 0) < due[partition]:
                problems.append(f"partition {partition}: OffsetFetch says {offset}, {due[partition]} was committed or seen")
            due[partition] = max(due[partition], offset)
    return shortened(problems)


def check_resumed(logs):
    """The first record after a partition was assigned is not before what had been acknowledged as committed then."""
    acknowledged, problems = commits(logs), []
    for log in logs:
        waiting = {}
        for event in log.events:
            if event["event"] == "assigned":
                waiting.update({partition: event["at"] for partition in event["partitions"]})
            elif event["event"] == "record" and event["partition"] in waiting:
                partition, at = event["partition"], waiting.pop(event["partition"])
                due = max((position for when, p, position, _ in acknowledged if p == partition and when < at), default=0)
                if event["offset"] < due:
                    problems.append(f"{log.name}: partition {partition} went on from {event['offset']}, {due} was committed")
    return shortened(problems)


# ---- owners ----

def ownerships(log):
    """(partition, from, to) of one process. A process that was killed or has ended owns nothing from then on."""
    open_since, out = {}, []
    for event in log.events:
        if event["event"] == "assigned":
            for partition in event["partitions"]:
                open_since.setdefault(partition, event["at"])
        elif event["event"] in ("revoked", "lost"):
            out += [(partition, open_since.pop(partition), event["at"]) for partition in event["partitions"]
                    if partition in open_since]
        elif event["event"] == "closed":
            out += [(partition, since, event["at"]) for partition, since in open_since.items()]
            open_since = {}
    end = log.killed_at or log.ended_at or float("inf")
    return out + [(partition, since, end) for partition, since in open_since.items()]


def check_single_owner(logs):
    """At no time two processes own a partition. There is no tolerance: an ownership lasts from the member's word that it
    was assigned to its word that it was revoked or lost or that it has closed, or to its death by kill -9. (A member whose
    session ended while it lived says `lost` late: that is a member thrown out, and check_not_thrown_out's.)"""
    by_partition = collections.defaultdict(list)
    for log in logs:
        for partition, start, end in ownerships(log):
            by_partition[partition].append((start, end, log.name))
    problems = []
    for partition, intervals in sorted(by_partition.items()):
        intervals.sort()
        for (_, end, name), (start, _, other) in zip(intervals, intervals[1:]):
            if start < end and name != other:
                overlap = "for good" if end == float("inf") else f"for {(end - start) / 1e6:.1f} ms"
                problems.append(f"partition {partition}: {other} got it while {name} had it, {overlap}")
    return shortened(problems)


# ---- members ----

def check_not_thrown_out(logs, allowed=()):
    """No member lost its partitions, was fenced or forgotten, or ended unasked."""
    problems = []
    for log in logs:
        problems += [f"{log.name} lost partitions {event['partitions']}" for event in log.of("lost")]
        problems += [f"{log.name}: {event['event']}: {event['error']}" for event in log.of("error", "refused")
                     if any(name in event["error"] for name in THROWN_OUT) and event["error"] not in allowed]
        if log.killed_at is None and not log.was_asked:
            problems.append(f"{log.name} ended by itself, exit {log.exit}")
        elif log.killed_at is None and (log.exit != 0 or not log.of("closed")):
            problems.append(f"{log.name} did not close: exit {log.exit}")
    return shortened(problems)


def check_undisturbed(logs, windows):
    """In these times only members that had a reason got or gave partitions."""
    problems = []
    for window in windows:
        for log in logs:
            if log.name in window.changing:
                continue
            problems += [f"{window.what}: {log.name} {event['event']} {event['partitions']}"
                         for event in log.of("assigned", "revoked", "lost") if window.start <= event["at"] <= window.end]
    return shortened(problems)

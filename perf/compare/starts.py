"""G12 and G14: many idle partitions, an empty start, a start after kill -9. Each server is started for this alone."""
import time

from compare.servers import empty_start
from compare.slots import say
from compare.verdict import Figure
from support.wire import Connection, batch

ASKED = 20  # Partitions, evenly over all, that must take a record for a start to be over.
TURNS_MAX = 300
AT_ONCE = 500  # Partitions made by one request.
FIGURES = (
    Figure("G12", "memory_MiB", "ours", 0.10, to="kafka"), Figure("G12", "memory_MiB", "ours", 128),
    Figure("G12", "KiB_per_partition", "ours", 8), Figure("G12", "descriptors_per_partition", "ours", 0.1),
    Figure("G14", "first_ack_ms", "ours", 0.02, to="kafka"), Figure("G14", "first_ack_ms", "ours", 50),
    Figure("G14", "restart_ms", "ours", 0.05, to="kafka"), Figure("G14", "restart_ms", "ours", 1000),
)
SIDES = {"ours": "coreflume", "kafka": "kafka"}


def fill(server, partitions):
    """Topics of AT_ONCE partitions; a record in each partition."""
    record, topics = batch([b"x" * 100]), []
    for number in range(0, partitions, AT_ONCE):
        topics.append((f"idle-{number}", min(AT_ONCE, partitions - number)))
        server.create(*topics[-1])
    for topic, count in topics:
        refused = range(count)
        with Connection(server.address, seconds=120) as connection:
            for _ in range(TURNS_MAX):
                refused = [partition for partition in refused if connection.produce(topic, partition, record)[0]]
                if not refused:
                    break
                time.sleep(0.1)  # New partitions get their leaders one after the other.
        if refused:
            raise SystemExit(f"compare: {topic}: {len(refused)} of {count} partitions take no record")
    return topics


def once(kind, starters, partitions):
    server, began = empty_start(kind, f"compare_starts_{kind}", starters)
    try:
        server.create("first")
        server.await_ack("first")
        first_ack = time.monotonic() - began
        empty = server.memory_kib()
        topics = fill(server, partitions)
        time.sleep(2)
        idle = server.memory_kib()
        values = {"first_ack_ms": first_ack * 1000, "memory_MiB": idle / 1024, "empty_MiB": empty / 1024,
                  "KiB_per_partition": (idle - empty) / partitions,
                  "descriptors_per_partition": server.descriptors() / partitions}
        began = time.monotonic()
        server.restart()
        for number in range(0, partitions, -(-partitions // ASKED)):
            topic, _ = topics[number // AT_ONCE]
            server.await_ack(topic, number % AT_ONCE)
        return values | {"restart_ms": (time.monotonic() - began) * 1000}
    finally:
        server.close()


def measure(starters, pairs, partitions, only=None):
    """Rounds as the rows have them, without a control: nothing here hangs on a percent."""
    rounds = []
    sides = [side for side, server in SIDES.items() if not only or server in only]
    for number in range(pairs):
        slots = []
        for side in sides if number % 2 == 0 else reversed(sides):
            slots.append((side, once(SIDES[side], starters, partitions)))
            say(f"starts {number + 1}/{pairs} {side}: "
                + " ".join(f"{key}={value:.4g}" for key, value in slots[-1][1].items()))
        rounds.append(slots)
    return rounds

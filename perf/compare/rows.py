"""The rows: what is written and read, on which sides, and which goals are read from it."""
import dataclasses

from compare.verdict import Figure

MIB = 1 << 20
# Kafka acknowledges when this has flushed; for us it is the default.
FLUSHED = {"flush.messages": "1"}
# Small enough to be reached in a warm-up: from then on every byte is written over an old one, as on a node that is not
# new, and as much is deleted as is written.
AT_LIMIT = {"segment.bytes": str(64 * MIB), "retention.bytes": str(128 * MIB)}
# The same for tiny batches, which fill it slowly.
AT_LOW_LIMIT = {"segment.bytes": str(8 * MIB), "retention.bytes": str(16 * MIB)}
BIG = {"max.message.bytes": "2097152"}


@dataclasses.dataclass(frozen=True)
class Side:
    server: str
    configs: dict
    partitions: int = 4
    topic: str = ""  # Its name in the run is the side's.


@dataclasses.dataclass(frozen=True)
class Half:
    """A rate: half of what this side reaches in a closed loop of the row's shape."""
    side: str


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    goals: str
    about: str
    sides: dict
    figures: tuple
    tool: str = "load"  # load: perf/load; bench: coreflume bench; read: the same without producers; redis: per side.
    options: dict = dataclasses.field(default_factory=dict)
    peak: dict = dataclasses.field(default_factory=dict)  # Of perf/load's closed loop that finds the half.
    rate: object = None
    fill: int = 0  # Bytes of values before anything is measured: on us, at least; to be read, just so many, on all.


def three(configs, partitions=4):
    return {"ours": Side("coreflume", configs, partitions), "k-fsync": Side("kafka", configs | FLUSHED, partitions),
            "k-cache": Side("kafka", configs, partitions)}


BATCHES = {"conns": 4, "window": 5, "records": 63, "record": 1024}
SINGLES = {"conns": 100, "window": 1, "records": 1, "record": 100}
ONE_BY_ONE = {"conns": 1, "window": 1, "records": 1, "record": 1024}
LARGE = {"conns": 4, "window": 4, "records": 1000, "record": 1024}
CROWD = {"conns": 1000, "window": 16, "records": 1, "record": 1024}
SIXTEEN = {"conns": 4, "window": 1, "records": 16, "record": 1024}

CPU, P50, P99, P999, SPEED, WRITTEN = ("cpu_s_per_million", "p50_us", "p99_us", "p999_us", "MB_per_s", "written_per_byte")

ROWS = [
    Row("batches", "G1 G5 G6 G24", "1 KiB records in batches of 64 KiB at half of what Kafka reaches with fsync",
        three(AT_LIMIT), (
            Figure("G1", CPU, "ours", 0.20, to="k-fsync"), Figure("G1", CPU, "ours", 0.25, to="k-cache"),
            Figure("G1", CPU, "ours", 0.5),
            Figure("G5", P99, "ours", 0.10, to="k-fsync"), Figure("G5", P99, "ours", 1.0, to="k-cache"),
            Figure("G5", P99, "ours", 2.0, floor="ack_p99_us"),
            Figure("G6", P999, "ours", 0.10, to="k-fsync"), Figure("G6", P999, "ours", 2.0, floor="flush_p999_us"),
            Figure("G24", WRITTEN, "ours", 1.05), Figure("G24", WRITTEN, "ours", 1.0, to="k-fsync")),
        tool="bench", options={"producers": 4, "consumers": 0, "size": 1024, "batch": "64KiB", "in-flight": 5, "replay": True},
        peak=BATCHES, rate=Half("k-fsync"), fill=768 * MIB),
    Row("singles", "G2", "batches of one record of 100 B over 100 connections, at half of what Kafka reaches with fsync",
        three(AT_LOW_LIMIT), (
            Figure("G2", CPU, "ours", 0.15, to="k-fsync"), Figure("G2", CPU, "ours", 0.15, to="k-cache")),
        options=SINGLES, peak=SINGLES, rate=Half("k-fsync"), fill=30 * 1000 * 1000),
    Row("unloaded", "G7", "one connection, one record of 1 KiB at a time", three({}, 1), (
            Figure("G7", P50, "ours", 0.25, to="k-fsync"), Figure("G7", P50, "ours", 1.5, floor="ack_p50_us")),
        options=ONE_BY_ONE, fill=1),
    Row("large", "G8 G34", "batches of 1 MiB as fast as they go, through the retention limit", three(AT_LIMIT | BIG), (
            Figure("G8", SPEED, "ours", 2.0, to="k-fsync", is_least=True),
            Figure("G8", SPEED, "ours", 0.80, floor="disk_MB_per_s", is_least=True),
            Figure("G34", SPEED, "ours", 1.0, to="k-cache", is_least=True)),
        options=LARGE, fill=768 * MIB),
    Row("read", "G3", "64 MB in batches of 64 KiB, read from memory again and again", {
            "ours": Side("coreflume", {}), "kafka": Side("kafka", {})}, (
            Figure("G3", CPU, "ours", 0.5, to="kafka"),),
        tool="read", options={"consumers": 2}, peak=BATCHES, fill=64 * 1000 * 1000),
    Row("crowd", "G2 G24", "the singles as fast as they go", three(AT_LOW_LIMIT), (
            Figure("G2", CPU, "ours", 0.15, to="k-fsync"),
            Figure("G24", WRITTEN, "ours", 1.5), Figure("G24", WRITTEN, "ours", 1.0, to="k-fsync")),
        options=SINGLES, fill=30 * 1000 * 1000),
    Row("tax", "G10", "batches of 64 KiB as fast as they go: acknowledged when flushed, and from memory", {
            "ours": Side("coreflume", AT_LIMIT), "ours-memory": Side("coreflume", AT_LIMIT | {"coreflume.ack": "memory"}),
            "k-fsync": Side("kafka", AT_LIMIT | FLUSHED), "k-cache": Side("kafka", AT_LIMIT)}, (
            Figure("G10", SPEED, "ours", 0.97, to="ours-memory", is_least=True),
            Figure("G10", P99, "ours", 1.5, to="ours-memory")),
        options=BATCHES, fill=768 * MIB),
    Row("sharing", "G11", "records of 1 KiB from 1,000 connections to 1,000 partitions, and to one, at half of Kafka's rate "
        "with fsync and 1,000", {
            "wide": Side("coreflume", {}, 1000), "narrow": Side("coreflume", {}, 1),
            "k-fsync-wide": Side("kafka", FLUSHED, 1000)}, (
            Figure("G11", P99, "wide", 0.05, to="k-fsync-wide"), Figure("G11", CPU, "wide", 1.3, to="narrow"),
            Figure("G11", P99, "wide", 1.5, to="narrow")),
        options=CROWD, peak=CROWD | {"window": 1}, rate=Half("k-fsync-wide"), fill=1),
    Row("redis", "G30", "records of 1 KiB, 16 at a time on each of four connections, flushed; Redis Streams by its own "
        "redis-benchmark", {
            "ours": Side("coreflume", AT_LIMIT), "redis": Side("redis", {})}, (
            Figure("G30", CPU, "ours", 0.15, to="redis"),),
        options=SIXTEEN, fill=768 * MIB),
]

"""What both servers are asked. An area is a function ask_*; it makes the topics it needs, named after it."""
import time
import uuid

from support.wire import batch

UNKNOWN_ID = uuid.UUID("11111111-2222-4333-8444-555555555555")
LONG = "x" * 250
BAD_NAMES = ("", ".", "..", "a b", "a/b", LONG, "ü")


def ask_api_versions(s):
    s.ask("", "api_versions", {"client_software_name": "oracle", "client_software_version": "1"})
    s.ask("bad software name", "api_versions", {"client_software_name": "a b", "client_software_version": "1"}, (3, 4))
    s.ask("empty software name", "api_versions", {"client_software_name": "", "client_software_version": "1"}, (3, 4))
    s.ask("bad software version", "api_versions", {"client_software_name": "a", "client_software_version": "-"}, (3,))


def ask_metadata(s):
    s.create("metadata-a", 3)
    s.create("metadata-b")

    def named(*names, **more):
        return lambda version: {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": 0, **more}
    s.ask("two", "metadata", named("metadata-b", "metadata-a"))
    s.ask("one twice", "metadata", named("metadata-b", "metadata-b"))
    s.ask("unknown", "metadata", named("metadata-unknown", "metadata-b"), range(4, 14))
    s.ask("none", "metadata", {"topics": []}, range(1, 14))
    for name in BAD_NAMES:
        s.ask(f"name {name[:5]!r}", "metadata", named(name), range(4, 14))
    s.ask("bad name, may be created", "metadata", {"topics": [{"name": "a b"}]}, range(4, 14))
    s.ask("operations", "metadata", named("metadata-b", include_cluster_authorized_operations=1,
                                          include_topic_authorized_operations=1), range(8, 14))

    def by_id(*pairs):
        return {"topics": [{"topic_id": topic_id, "name": name} for topic_id, name in pairs],
                "allow_auto_topic_creation": 0}
    no_id, known = uuid.UUID(int=0), s.ids["metadata-a"]
    for versions, name in (((12, 13), None), ((10, 11), "")):
        s.ask("known id", "metadata", by_id((known, name)), versions)
        s.ask("unknown id", "metadata", by_id((UNKNOWN_ID, name)), versions)
        s.ask("two ids", "metadata", by_id((UNKNOWN_ID, name), (known, name)), versions)
        s.ask("no id and no name", "metadata", by_id((no_id, name)), versions)
    s.ask("id and name", "metadata", by_id((known, "metadata-a")), range(10, 14))
    s.ask("id and another name", "metadata", by_id((known, "metadata-b")), range(10, 14))


def topic(name, partitions=1, factor=1, assignments=(), **configs):
    return {"name": name, "num_partitions": partitions, "replication_factor": factor,
            "assignments": [{"partition_index": p, "broker_ids": list(ids)} for p, ids in assignments],
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]}


def ask_create_topics(s):
    s.create("create-there")

    def wrong(label, *topics, versions=None, **more):
        s.ask(label, "create_topics", {"topics": list(topics), "timeout_ms": 10000, **more}, versions)
    wrong("none")
    wrong("exists", topic("create-there"))
    wrong("exists, only checked", topic("create-there"), validate_only=1)
    for name in BAD_NAMES:
        wrong(f"name {name[:5]!r}", topic(name))
    wrong("collides", topic("create.there"), validate_only=1)
    s.create("create.dots")
    wrong("collides with another", topic("create_dots"))
    for count in (0, -2, 2147483647):
        wrong(f"{count} partitions", topic("create-x", count))
    wrong("10001 partitions", topic("create-x", 10001))
    for factor in (0, -2, 2, 3, 32767):
        wrong(f"factor {factor}", topic("create-x", 1, factor))
    wrong("only checked", topic("create-x", 2), validate_only=1)
    wrong("defaults, only checked", topic("create-x", -1, -1), validate_only=1, versions=range(4, 8))
    wrong("twice in one request", topic("create-x"), topic("create-x"))
    wrong("twice, and another", topic("create-x"), topic("create-x", 2), topic("create-there"))
    wrong("all of it", topic("create-there"), topic("a b"), topic("create-x", 0), validate_only=1)

    def by_hand(label, *assignments, partitions=-1, factor=-1):
        wrong(label, topic("create-x", partitions, factor, assignments), validate_only=1)
    by_hand("by hand", (0, [1]), (1, [1]))
    by_hand("by hand, counts too", (0, [1]), partitions=1, factor=1)
    by_hand("by hand, partitions too", (0, [1]), partitions=1)
    by_hand("by hand, factor too", (0, [1]), factor=1)
    by_hand("by hand, a gap", (0, [1]), (2, [1]))
    by_hand("by hand, from 1", (1, [1]))
    by_hand("by hand, negative", (-1, [1]))
    by_hand("by hand, twice", (0, [1]), (0, [1]))
    by_hand("by hand, unknown broker", (0, [7]))
    by_hand("by hand, negative broker", (0, [-1]))
    by_hand("by hand, a broker twice", (0, [1, 1]))
    by_hand("by hand, no replicas", (0, []))
    by_hand("by hand, uneven", (0, [1]), (1, [1, 2]))
    for label, configs in CONFIG_FAULTS.items():
        wrong(f"config {label}", topic("create-x", **configs), validate_only=1)
    twice = topic("create-x", retention_ms="1")
    twice["configs"].append({"name": "retention.ms", "value": "2"})
    wrong("config twice", twice, validate_only=1)
    wrong("config, by its default", topic("create-x", retention_ms="604800000"), validate_only=1)
    for version in range(2, 8):
        name = f"create-real-{version}"
        made = s.once("create_topics", version, {"topics": [topic(name, 2, retention_ms="5000", cleanup_policy="compact")],
                                                 "timeout_ms": 10000})
        s.keep(f"create_topics v{version}: made", made)


CONFIG_FAULTS = {
    "unknown": {"nonsense": "1"}, "null": {"retention_ms": None}, "empty": {"retention_ms": ""},
    "not a number": {"retention_ms": "soon"}, "below range": {"retention_ms": "-2"}, "float": {"retention_ms": "1.5"},
    "spaces": {"retention_ms": " 1 "}, "too large": {"retention_ms": "9223372036854775808"},
    "int too large": {"max_message_bytes": "2147483648"}, "int negative": {"max_message_bytes": "-1"},
    "small segment": {"segment_bytes": "13"}, "segment ms": {"segment_ms": "0"}, "bad boolean": {"preallocate": "maybe"},
    "boolean's case": {"preallocate": "TRUE"}, "bad codec": {"compression_type": "brotli"},
    "codec's case": {"compression_type": "GZIP"}, "bad policy": {"cleanup_policy": "keep"},
    "policies": {"cleanup_policy": "delete,compact"}, "policy and rubbish": {"cleanup_policy": "delete,keep"},
    "policy twice": {"cleanup_policy": "delete,delete"}, "policy empty": {"cleanup_policy": ""},
    "policy spaces": {"cleanup_policy": "delete , compact"}, "time type": {"message_timestamp_type": "Now"},
    "ratio above 1": {"min_cleanable_dirty_ratio": "1.5"}, "ratio NaN": {"min_cleanable_dirty_ratio": "x"},
    "ratio": {"min_cleanable_dirty_ratio": "0.25"}, "lags": {"min_compaction_lag_ms": "10", "max_compaction_lag_ms": "5"},
    "local retention": {"local_retention_ms": "10", "retention_ms": "5"}, "min isr": {"min_insync_replicas": "0"},
    "index interval": {"index_interval_bytes": "-1"}, "throttled": {"leader_replication_throttled_replicas": "x"},
    "throttled all": {"leader_replication_throttled_replicas": "*"},
    "throttled some": {"leader_replication_throttled_replicas": "0:1,1:1"}, "remote": {"remote_storage_enable": "true"},
    "remote off": {"remote_storage_enable": "false"}, "old format": {"message_format_version": "2.0"},
    "old difference": {"message_timestamp_difference_max_ms": "10"}, "gzip level": {"compression_gzip_level": "11"},
    "lz4 level": {"compression_lz4_level": "0"}, "zstd level": {"compression_zstd_level": "23"},
    "two faults": {"nonsense": "1", "retention_ms": "x"}, "long flush": {"flush_ms": "-1"},
    "after max": {"message_timestamp_after_max_ms": "-1"}, "jitter": {"segment_jitter_ms": "-1"},
    "hidden": {"internal_segment_bytes": "1000"}, "good ones": {"flush_messages": "1", "delete_retention_ms": "0"},
}


def ask_delete_topics(s):
    def names(*wanted):
        return lambda version: ({"topics": [{"name": name} for name in wanted], "timeout_ms": 10000} if version >= 6 else
                                {"topic_names": list(wanted), "timeout_ms": 10000})
    s.ask("none", "delete_topics", names())
    s.ask("unknown", "delete_topics", names("delete-unknown"))
    s.ask("unknown twice", "delete_topics", names("delete-unknown", "delete-unknown"))
    for name in BAD_NAMES:
        s.ask(f"name {name[:5]!r}", "delete_topics", names(name))
    a = s.create("delete-a")
    both = {"name": a, "topic_id": s.ids[a]}
    s.ask("id and name", "delete_topics", {"topics": [both], "timeout_ms": 10000}, (6,))
    s.ask("neither", "delete_topics", {"topics": [{}], "timeout_ms": 10000}, (6,))
    s.ask("unknown id", "delete_topics", {"topics": [{"topic_id": UNKNOWN_ID}], "timeout_ms": 10000}, (6,))
    s.ask("id twice", "delete_topics", {"topics": [{"topic_id": s.ids[a]}] * 2, "timeout_ms": 10000}, (6,))
    s.ask("by name and by id", "delete_topics", {"topics": [{"name": a}, {"topic_id": s.ids[a]}], "timeout_ms": 10000}, (6,))
    s.ask("name twice", "delete_topics", names(a, a), (6,))
    for version in range(1, 7):
        name = s.create(f"delete-real-{version}")
        s.ask("deleted", "delete_topics", names(name, "delete-unknown"), (version,))
    by_id = s.create("delete-by-id")
    s.ask("deleted by id", "delete_topics", {"topics": [{"topic_id": s.ids[by_id]}], "timeout_ms": 10000}, (6,))


def ask_create_partitions(s):
    s.create("grow", 3)

    def grow(label, *topics, versions=None, **more):
        s.ask(label, "create_partitions", {"topics": list(topics), "timeout_ms": 10000, "validate_only": 1, **more}, versions)

    def to(count, assignments=None, name="grow"):
        return {"name": name, "count": count,
                "assignments": None if assignments is None else [{"broker_ids": ids} for ids in assignments]}
    grow("none")
    grow("unknown", to(3, name="grow-unknown"))
    for name in BAD_NAMES:
        grow(f"name {name[:5]!r}", to(3, name=name))
    for count in (-1, 0, 1, 3, 4, 10004, 2147483647):
        grow(f"to {count}", to(count))
    grow("by hand", to(5, [[1], [1]]))
    grow("by hand, too few", to(5, [[1]]))
    grow("by hand, too many", to(4, [[1], [1]]))
    grow("by hand, none", to(5, []))
    grow("by hand, unknown broker", to(4, [[9]]))
    grow("by hand, negative broker", to(4, [[-1]]))
    grow("by hand, twice", to(4, [[1, 1]]))
    grow("by hand, no replicas", to(4, [[]]))
    grow("by hand, uneven", to(5, [[1], [1, 2]]))
    grow("twice", to(4), to(5))
    grow("twice, and another", to(4), to(5), to(9, name="grow-unknown"))
    for version in range(0, 4):
        name = s.create(f"grow-real-{version}")
        grow("grown", to(3, name=name), versions=(version,), validate_only=0)
        s.settle(name, 3)


def resource(kind, name, keys=None):
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


def ask_describe_configs(s):
    s.create("describe-configs", retention_ms=5000, cleanup_policy="compact")
    for synonyms in (0, 1):
        def describe(label, *resources, **more):
            s.ask(f"{label}{', synonyms' if synonyms else ''}", "describe_configs",
                  {"resources": list(resources), "include_synonyms": synonyms, **more})
        describe("topic", resource(2, "describe-configs"))
        describe("topic, documentation", resource(2, "describe-configs"), include_documentation=1)
        describe("broker", resource(4, "1"))
        describe("broker, documentation", resource(4, "1"), include_documentation=1)
        describe("all brokers", resource(4, ""))
    describe("topic, some keys", resource(2, "describe-configs", ["retention.ms", "nonsense", "retention.ms"]))
    describe("topic, no keys", resource(2, "describe-configs", []))
    describe("topic unknown", resource(2, "describe-unknown"))
    for name in BAD_NAMES:
        describe(f"topic {name[:5]!r}", resource(2, name))
    describe("topic twice", resource(2, "describe-configs", ["retention.ms"]), resource(2, "describe-configs"))
    describe("none")
    for name in ("2", "-1", "x", "1.0", " 1"):
        describe(f"broker {name!r}", resource(4, name, ["num.partitions"]))
    for kind in (0, 1, 3, 5, 8, 16, 32, 99, -1):
        describe(f"type {kind}", resource(kind, "1"))
    describe("type 8, broker 2", resource(8, "2"))
    describe("type 8, rubbish", resource(8, "x"))
    describe("type 16, no name", resource(16, ""))
    describe("type 32, no name", resource(32, ""))


TOPIC_OPERATIONS = {
    "set": [("retention.ms", 0, "7000")], "delete": [("retention.ms", 1, None)], "delete with value": [("retention.ms", 1, "5")],
    "append": [("cleanup.policy", 2, "compact")], "append what is there": [("cleanup.policy", 2, "compact")],
    "subtract": [("cleanup.policy", 3, "delete")], "subtract what is not there": [("cleanup.policy", 3, "delete")],
    "subtract the last": [("cleanup.policy", 3, "compact")],
    "append to no list": [("retention.ms", 2, "1")], "subtract from no list": [("retention.ms", 3, "1")],
    "set null": [("retention.ms", 0, None)], "append null": [("cleanup.policy", 2, None)],
    "bad operation": [("retention.ms", 4, "1")], "negative operation": [("retention.ms", -1, "1")],
    "twice": [("retention.ms", 0, "1"), ("retention.ms", 0, "2")], "twice, differing": [("retention.ms", 0, "1"), ("retention.ms", 1, None)],
    "unknown": [("nonsense", 0, "1")], "delete unknown": [("nonsense", 1, None)], "append unknown": [("nonsense", 2, "1")],
    "append rubbish": [("cleanup.policy", 2, "keep")], "empty name": [("", 0, "1")], "nothing": [],
    "a fault among good ones": [("retention.ms", 0, "9"), ("segment.bytes", 0, "x")],
}


def ask_alter_configs(s):
    """The engineer's notes: errors and texts for topics; what a broker says is in ask_alter_broker_configs."""
    s.create("alter-configs")

    def incremental(label, kind, name, operations, **more):
        s.ask(label, "incremental_alter_configs", {"resources": [
            {"resource_type": kind, "resource_name": name,
             "configs": [{"name": n, "config_operation": o, "value": v} for n, o, v in operations]}], **more})

    def whole(label, kind, name, configs, **more):
        s.ask(label, "alter_configs", {"resources": [{"resource_type": kind, "resource_name": name, "configs": [
            {"name": n.replace("_", "."), "value": v} for n, v in configs]}], **more})
    for label, operations in TOPIC_OPERATIONS.items():
        incremental(label, 2, "alter-configs", operations)
        s.pause()
        now = s.once("describe_configs", 4, {"resources": [resource(2, "alter-configs", ["retention.ms", "cleanup.policy"])]})
        s.keep(f"incremental_alter_configs: after {label}", now)
    for label, configs in CONFIG_FAULTS.items():
        whole(label, 2, "alter-configs", list(configs.items()), validate_only=1)
        incremental(f"fault {label}", 2, "alter-configs", [(n.replace("_", "."), 0, v) for n, v in configs.items()],
                    validate_only=1)
    whole("twice", 2, "alter-configs", [("retention.ms", "1"), ("retention.ms", "2")])
    whole("nothing", 2, "alter-configs", [])
    whole("unknown topic", 2, "alter-unknown", [("retention.ms", "1")])
    incremental("unknown topic", 2, "alter-unknown", [("retention.ms", 0, "1")])
    for name in BAD_NAMES:
        incremental(f"topic {name[:5]!r}", 2, name, [("retention.ms", 0, "1")])
    for kind in (0, 1, 3, 99, -1):
        incremental(f"type {kind}", kind, "1", [("retention.ms", 0, "1")])
        whole(f"type {kind}", kind, "1", [("retention.ms", "1")])
    for kind, name, key in ((32, "g", "consumer.session.timeout.ms"), (16, "m", "interval.ms")):
        incremental(f"type {kind} unknown name", kind, name, [("nonsense", 0, "1")])
        incremental(f"type {kind} bad value", kind, name, [(key, 0, "x")])
        incremental(f"type {kind} no name", kind, "", [(key, 0, "50000")])
    same = {"resource_type": 2, "resource_name": "alter-configs",
            "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}]}
    s.ask("resource twice", "incremental_alter_configs", {"resources": [same, same]})
    s.ask("resource twice, and another", "incremental_alter_configs",
          {"resources": [same, same, {**same, "resource_name": "alter-unknown"}]})
    s.ask("none", "incremental_alter_configs", {"resources": []})
    s.ask("resource twice", "alter_configs", {"resources": [
        {**same, "configs": [{"name": "retention.ms", "value": "1"}]}] * 2})


def ask_alter_broker_configs(s):
    def alter(label, name, *operations, kind=4):
        s.ask(label, "incremental_alter_configs", {"resources": [
            {"resource_type": kind, "resource_name": name,
             "configs": [{"name": n, "config_operation": o, "value": v} for n, o, v in operations]}], "validate_only": 1})
    for target in ("1", ""):
        where = f"broker {target!r}"
        alter(f"{where}: threads", target, ("num.io.threads", 0, "9"))
        alter(f"{where}: segment bytes", target, ("log.segment.bytes", 0, "2000000"))
        alter(f"{where}: max bytes", target, ("message.max.bytes", 0, "2000000"))
        alter(f"{where}: bad value", target, ("message.max.bytes", 0, "x"))
        alter(f"{where}: null", target, ("message.max.bytes", 0, None))
        alter(f"{where}: read-only", target, ("node.id", 0, "3"))
        alter(f"{where}: read-only log.dirs", target, ("log.dirs", 0, "/x"))
        alter(f"{where}: auto create", target, ("auto.create.topics.enable", 0, "false"))
        alter(f"{where}: unknown", target, ("nonsense", 0, "3"))
        alter(f"{where}: delete", target, ("message.max.bytes", 1, None))
        alter(f"{where}: delete unknown", target, ("nonsense", 1, None))
        alter(f"{where}: append", target, ("log.cleanup.policy", 2, "compact"))
        alter(f"{where}: twice", target, ("message.max.bytes", 0, "2"), ("message.max.bytes", 0, "3"))
        alter(f"{where}: connections", target, ("max.connections", 0, "100"))
    for name in ("2", "x", "-1", "1.5"):
        alter(f"broker {name!r}: max bytes", name, ("message.max.bytes", 0, "2000000"))
    alter("logger", "1", ("root", 0, "INFO"), kind=8)


def fill(s, name, partition=0):
    """Three batches of known times: offsets 0-2, 3, 4-5."""
    for times in ((1000, 3000, 2000), (9000,), (5000, 5000)):
        data = batch([b"v"] * len(times), timestamps=list(times))

        def put():
            made = s.once("produce", 8, {"acks": -1, "timeout_ms": 10000, "topic_data": [
                {"name": name, "partition_data": [{"index": partition, "records": data}]}]})
            return made["responses"][0]["partition_responses"][0]["error_code"] == 0
        s.until(put)  # A new leader says for a moment that it is none.


def new_producer(s):
    """Kafka has no ids for a moment."""
    made = {}

    def ask():
        made.update(s.once("init_producer_id", 4, {"transactional_id": None, "transaction_timeout_ms": 1000}))
        return made["error_code"] == 0
    s.until(ask)
    return made


def ask_list_offsets(s):
    s.create("offsets", 2, retention_ms=-1)
    fill(s, "offsets")

    def look(label, *partitions, versions=None, name="offsets", **more):
        s.ask(label, "list_offsets", {"replica_id": -1, "topics": [{"name": name, "partitions": [
            {"partition_index": p, "timestamp": t, "current_leader_epoch": -1, **extra} for p, t, extra in partitions]}],
            **more}, versions)
    for time_asked in (-1, -2, -3, -4, -5, -6, -7, -100, 0, 999, 1000, 1500, 2500, 3000, 3001, 5000, 9000, 9001, 2**62):
        look(f"at {time_asked}", (0, time_asked, {}))
        look(f"at {time_asked} of an empty one", (1, time_asked, {}))
    look("read committed", (0, -1, {}), versions=range(2, 12), isolation_level=1)
    look("isolation 7", (0, -1, {}), versions=(5, 11), isolation_level=7)
    look("unknown topic", (0, -1, {}), name="offsets-unknown")
    look("bad topic", (0, -1, {}), name="a b")
    look("no name", (0, -1, {}), name="")
    look("unknown partition", (2, -1, {}), (-1, -1, {}))
    look("twice", (0, -1, {}), (0, -2, {}))
    look("twice, and another", (0, -1, {}), (0, -2, {}), (1, -1, {}))
    for epoch in (0, 1, 100, -2):
        look(f"epoch {epoch}", (0, -1, {"current_leader_epoch": epoch}), versions=range(4, 12))
    for replica in (-2, 0, 1, 5):
        look(f"replica {replica}", (0, -1, {}), replica_id=replica)
    s.ask("none", "list_offsets", {"replica_id": -1, "topics": []})
    s.ask("no partitions", "list_offsets", {"replica_id": -1, "topics": [{"name": "offsets", "partitions": []}]})


def ask_leader_epochs(s):
    s.create("epochs", 2)
    fill(s, "epochs")

    def look(label, *partitions, name="epochs", **more):
        s.ask(label, "offset_for_leader_epoch", {"replica_id": -1, "topics": [{"topic": name, "partitions": [
            {"partition": p, "current_leader_epoch": c, "leader_epoch": e} for p, c, e in partitions]}], **more})
    for epoch in (-2, -1, 100):
        look(f"of {epoch}", (0, -1, epoch))
        look(f"of {epoch}, an empty one", (1, -1, epoch))
    for current in (-2, 100):
        look(f"current {current}", (0, current, 0))
    look("unknown topic", (0, -1, 0), name="epochs-unknown")
    look("unknown partition", (2, -1, 0), (-1, -1, 0))
    look("twice", (0, -1, 100), (0, -1, 100))
    look("replica", (0, -1, 100), replica_id=5)


def ask_cluster(s):
    s.ask("", "describe_cluster", {})
    s.ask("operations", "describe_cluster", {"include_cluster_authorized_operations": 1})
    for kind in (0, 2, 3, -1):
        s.ask(f"endpoint {kind}", "describe_cluster", {"endpoint_type": kind}, (1, 2))
    s.ask("fenced too", "describe_cluster", {"include_fenced_brokers": 1}, (2,))


def ask_describe_topic_partitions(s):
    for name, partitions in (("dtp-a", 3), ("dtp-b", 2), ("dtp-c", 1)):
        s.create(name, partitions)

    def look(label, *names, limit=2000, cursor=None):
        s.ask(label, "describe_topic_partitions", {
            "topics": [{"name": name} for name in names], "response_partition_limit": limit,
            "cursor": None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}})
    every = ("dtp-c", "dtp-a", "dtp-b")
    look("all", *every)
    look("twice", "dtp-a", "dtp-a")
    look("unknown", "dtp-unknown", "dtp-b")
    for name in BAD_NAMES:
        look(f"name {name[:5]!r}", name)
    for limit in (-1, 0, 1, 2, 3, 4, 5, 6, 7):
        look(f"limit {limit}", *every, limit=limit)
    for cursor in (("dtp-a", 0), ("dtp-a", 2), ("dtp-a", 3), ("dtp-a", 9), ("dtp-a", -1), ("dtp-b", 1), ("dtp-c", 0),
                   ("dtp-d", 0), ("dtp-ab", 1), ("", 0), ("a b", 0)):
        look(f"from {cursor}", *every, cursor=cursor)
        look(f"from {cursor}, limit 2", *every, cursor=cursor, limit=2)
    look("limit 1 with an unknown", "dtp-a", "dtp-unknown", limit=1)
    look("from an unknown", "dtp-a", "dtp-unknown", cursor=("dtp-unknown", 0))


def ask_log_dirs(s):
    s.create("dirs", 2)
    fill(s, "dirs")

    def look(label, topics):
        s.ask(label, "describe_log_dirs", {"topics": None if topics is None else [
            {"topic": name, "partitions": list(partitions)} for name, partitions in topics]})
    look("none", [])
    look("one", [("dirs", [0, 1])])
    look("one of two", [("dirs", [1])])
    look("no partitions", [("dirs", [])])
    look("unknown", [("dirs-unknown", [0]), ("dirs", [0, 7])])
    look("twice", [("dirs", [0]), ("dirs", [0])])
    look("partition twice", [("dirs", [0, 0])])


def ask_producers(s):
    s.create("producers", 2)

    def look(label, name, *partitions):
        s.ask(label, "describe_producers", {"topics": [{"name": name, "partition_indexes": list(partitions)}]})
    look("nobody", "producers", 0, 1)
    made = new_producer(s)
    produce(s, "producers", "one", 8, batch([b"a", b"b"], made["producer_id"], made["producer_epoch"], 0))
    look("one", "producers", 0, 1)
    look("unknown topic", "producers-unknown", 0)
    look("bad topic", "a b", 0)
    look("unknown partition", "producers", 9, -1)
    look("twice", "producers", 0, 0)
    s.ask("none", "describe_producers", {"topics": []})


def ask_elections(s):
    s.create("elect", 2)

    def elect(label, topics, **more):
        s.ask(label, "elect_leaders", {"timeout_ms": 10000, "topic_partitions": None if topics is None else [
            {"topic": name, "partitions": list(partitions)} for name, partitions in topics], **more})
    elect("all", None)
    elect("all, unclean", None, election_type=1)
    elect("none", [])
    elect("one", [("elect", [0, 1])])
    elect("unclean", [("elect", [0])], election_type=1)
    elect("bad type", [("elect", [0])], election_type=7)
    elect("unknown topic", [("elect-unknown", [0])])
    elect("bad topic", [("a b", [0])])
    elect("unknown partition", [("elect", [9, -1])])
    elect("twice", [("elect", [0, 0])])


def ask_reassignments(s):
    s.create("move", 2)

    def move(label, *partitions, name="move", **more):
        s.ask(label, "alter_partition_reassignments", {"timeout_ms": 10000, "topics": [{"name": name, "partitions": [
            {"partition_index": p, "replicas": replicas} for p, replicas in partitions]}], **more})
    move("as it is", (0, [1]))
    move("cancel", (0, None))
    move("unknown broker", (0, [7]))
    move("two brokers", (0, [1, 7]))
    move("no replicas", (0, []))
    move("a broker twice", (0, [1, 1]))
    move("negative broker", (0, [-1]))
    move("unknown partition", (9, [1]), (-1, [1]))
    move("unknown topic", (0, [1]), name="move-unknown")
    move("unknown topic, cancel", (0, None), name="move-unknown")
    move("bad topic", (0, [1]), name="a b")
    move("twice", (0, [1]), (0, [1]))
    move("factor may not change", (0, [1, 7]), allow_replication_factor_change=0)
    s.ask("none", "alter_partition_reassignments", {"topics": []})
    for label, topics in (("all", None), ("none", []), ("one", [{"name": "move", "partition_indexes": [0, 9]}]),
                          ("unknown", [{"name": "move-unknown", "partition_indexes": [0]}])):
        s.ask(label, "list_partition_reassignments", {"timeout_ms": 10000, "topics": topics})


def produce(s, name, label, version, data, acks=-1, partition=0, **more):
    """By name or, from version 13, by id."""
    target = {"topic_id": s.ids.get(name, UNKNOWN_ID)} if version >= 13 else {"name": name}
    answer = s.once("produce", version, {"acks": acks, "timeout_ms": 10000, "topic_data": [
        {**target, "partition_data": [{"index": partition, "records": data}]}], **more})
    s.keep(f"produce v{version}: {label}", answer)


def ask_produce(s):
    now = int(1000 * time.time())
    good = batch([b"a", b"b"])
    for version in (3, 5, 7, 8, 9, 10, 12, 13):
        name = s.create(f"produce-{version}", 1, max_message_bytes=2000)
        compacted = s.create(f"produce-compacted-{version}", 1, cleanup_policy="compact")
        long = s.create(f"produce-long-{version}")
        appended = s.create(f"produce-appended-{version}", 1, message_timestamp_type="LogAppendTime")
        timed = s.create(f"produce-timed-{version}", 1, message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)

        def put(label, data, topic_name=name, **more):
            produce(s, topic_name, label, version, data, **more)
        put("good", good)
        put("acks 1", good, acks=1)
        put("acks 2", good, acks=2)
        put("acks -2", good, acks=-2)
        put("time 0", batch([b"a"], timestamps=[0]))
        put("time -1", batch([b"a"], timestamps=[-1]))
        put("empty", b"")
        put("too large", batch([b"x" * 2000]))
        put("wrong checksum", batch([b"a"], crc=1))
        put("magic 0", batch([b"a"], magic=0))
        put("magic 1", batch([b"a"], magic=1))
        put("magic 3", batch([b"a"], magic=3))
        put("cut", good[:-3])
        put("cut to a few bytes", good[:9])
        put("a byte too many", good + b"\0", long)
        put("two batches", good + good)
        put("base offset 7", batch([b"a", b"b"], base_offset=7))
        put("count too high", batch([b"a", b"b"], count=3))
        put("count too low", batch([b"a", b"b"], count=1))
        put("last delta too high", batch([b"a", b"b"], last_delta=5))
        put("count 0", batch([], timestamps=[now], count=0, last_delta=-1, records=b""))
        put("negative count", batch([b"a"], count=-1))
        put("codec 5", batch([b"a"], attributes=5))
        put("gzip of rubbish", batch([b"a"], attributes=1, records=b"rubbish"))
        put("control batch", batch([b"a"], attributes=0x20))
        put("transactional without an id", batch([b"a"], 1, 0, 0, attributes=0x10))
        put("append time bit", batch([b"a"], attributes=0x08))
        put("unknown partition", good, partition=9)
        put("negative partition", good, partition=-1)
        put("unknown topic", good, "produce-unknown")
        if version < 13:
            put("bad topic", good, "a b")
            put("no name", good, "")
        put("no key in a compacted topic", good, compacted)
        put("one key in a compacted topic", batch([b"a", b"b"], keys=[b"k", None]), compacted)
        put("keys in a compacted topic", batch([b"a", b"b"], keys=[b"k", b"l"]), compacted)
        put("append time", batch([b"a"], timestamps=[1000]), appended)
        put("too old", batch([b"a", b"b"], timestamps=[now, 1000]), timed)
        put("too new", batch([b"a"], timestamps=[now + 10_000_000]), timed)
        s.keep(f"produce v{version}: none", s.once("produce", version, {"acks": -1, "timeout_ms": 1000, "topic_data": []}))
        s.keep(f"produce v{version}: no partitions", s.once("produce", version, {"acks": -1, "timeout_ms": 1000, "topic_data": [
            {"name": name, "topic_id": s.ids[name], "partition_data": []}]}))
        s.keep(f"produce v{version}: partition twice", s.once("produce", version, {
            "acks": -1, "timeout_ms": 1000, "topic_data": [{"name": long, "topic_id": s.ids[long], "partition_data": [
                {"index": 0, "records": good}, {"index": 0, "records": good}]}]}))
        s.keep(f"produce v{version}: stored", s.once("fetch", 11, fetch_body(name, 0, 0)))


def ask_idempotence(s):
    for version in (3, 7, 8, 12):
        name = s.create(f"idem-{version}")
        made = new_producer(s)
        pid = made["producer_id"]

        def put(label, sequence, epoch=0, count=2, producer=pid):
            produce(s, name, label, version, batch([b"v"] * count, producer, epoch, sequence))
        put("first not 0", 5)
        put("first", 0)
        put("second", 2)
        put("first again", 0)
        put("second again", 2)
        put("overlapping", 3)
        put("a gap", 9)
        put("third to fifth", 4)
        put("", 6)
        put(" ", 8)
        put("  ", 10)
        put("first, long past", 0)
        put("older epoch", 12, epoch=-1)
        put("newer epoch, not from 0", 12, epoch=1)
        put("newer epoch", 0, epoch=1)
        put("old epoch", 12, epoch=0)
        put("unknown producer, not from 0", 3, producer=pid + 1000)
        put("unknown producer, from 0", 0, producer=pid + 1001)
        put("negative sequence", -1, epoch=1)
        put("negative sequence -5", -5, epoch=1)
        put("negative producer", 0, producer=-2)
        put("highest sequence", 2147483647, epoch=2)
        twice = batch([b"v"], pid, 3, 0) + batch([b"w"], pid, 3, 1)
        produce(s, name, "two batches of one producer", version, twice)
        s.keep(f"produce v{version}: stored", s.once("fetch", 11, fetch_body(name, 0, 0)))


def fetch_body(name, partition, offset, topic_id=None, **more):
    wanted = {"partition": partition, "fetch_offset": offset, "current_leader_epoch": more.pop("epoch", -1),
              "last_fetched_epoch": more.pop("last_epoch", -1), "log_start_offset": -1,
              "partition_max_bytes": more.pop("partition_max_bytes", 1 << 20), "high_watermark": 2**63 - 1}
    return {"replica_id": -1, "max_wait_ms": 10, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1,
            "replica_state": {"replica_id": -1, "replica_epoch": -1},
            "topics": [{"topic": name, "topic_id": topic_id or uuid.UUID(int=0), "partitions": [wanted]}], **more}


def ask_fetch(s):
    s.create("fetch", 2, retention_ms=-1)
    fill(s, "fetch")

    def get(label, partition, offset, name="fetch", versions=None, topic_id=None, **more):
        topic_id = topic_id or s.ids.get(name, UNKNOWN_ID)
        s.ask(label, "fetch", lambda version: fetch_body(name, partition, offset, topic_id, **dict(more)), versions)
    for offset in (0, 1, 3, 5, 6, 7, -1, -2, 2**62):
        get(f"from {offset}", 0, offset)
    get("an empty one", 1, 0)
    get("an empty one from 1", 1, 1)
    get("read committed", 0, 0, isolation_level=1)
    get("isolation 9", 0, 0, isolation_level=9)
    get("unknown partition", 9, 0)
    get("negative partition", -1, 0)
    get("unknown topic", 0, 0, name="fetch-unknown")
    get("bad topic", 0, 0, name="a b", versions=range(4, 13))
    get("no id", 0, 0, versions=range(13, 19), topic_id=uuid.UUID(int=0))
    for epoch in (100, -2):
        get(f"epoch {epoch}", 0, 0, versions=range(9, 19), epoch=epoch)
    get("last epoch 100", 0, 6, versions=range(12, 19), last_epoch=100)
    get("one byte", 0, 0, partition_max_bytes=1)
    get("one byte in all", 0, 0, max_bytes=1)
    get("zero bytes", 0, 0, partition_max_bytes=0)
    get("negative bytes", 0, 0, partition_max_bytes=-1)
    get("a replica", 0, 0, versions=range(4, 15), replica_id=1)
    get("another replica", 0, 0, versions=range(4, 15), replica_id=7)
    get("a replica, new", 0, 0, versions=range(15, 19), replica_state={"replica_id": 7, "replica_epoch": 1})
    get("another cluster", 0, 0, versions=range(12, 19), cluster_id="nonsense")
    s.ask("none", "fetch", {**fetch_body("fetch", 0, 0), "topics": []})
    for session, epoch in ((0, 5), (7, 1), (7, 0), (7, -1), (0, -2), (0, 0)):
        get(f"session {session}, {epoch}", 0, 6, versions=range(7, 19), session_id=session, session_epoch=epoch)

    def twice(version):
        body = fetch_body("fetch", 0, 0, s.ids["fetch"])
        body["topics"][0]["partitions"] *= 2
        return body
    s.ask("partition twice", "fetch", twice)


def ask_fetch_sessions(s):
    s.create("sessions", 2, retention_ms=-1)
    fill(s, "sessions")
    for version in (7, 12, 13, 18):
        def get(label, session, epoch, partitions=(), forgotten=()):
            topic_id = s.ids["sessions"]
            body = fetch_body("sessions", 0, 0, topic_id, session_id=session, session_epoch=epoch)
            one = body["topics"][0]["partitions"][0]
            body["topics"][0]["partitions"] = [{**one, "partition": p, "fetch_offset": o} for p, o in partitions]
            if not partitions:
                body["topics"] = []
            body["forgotten_topics_data"] = [{"topic": "sessions", "topic_id": topic_id, "partitions": list(forgotten)}
                                             ] if forgotten else []
            answer = s.once("fetch", version, body)
            s.keep(f"fetch v{version}: {label}", answer)
            return answer
        made = get("opened", 0, 0, [(0, 0), (1, 0)])
        session = made["session_id"]
        get("again: from where it was", session, 1, [])
        get("one moves to the end", session, 2, [(0, 6)])
        get("nothing new", session, 3)
        get("wrong epoch", session, 9)
        get("epoch gone by", session, 3)
        get("still there", session, 4)
        get("one forgotten", session, 5, [], [1])
        get("an unknown partition joins", session, 6, [(9, 0)])
        get("out of range", session, 7, [(0, 99)], [9])
        get("out of range still", session, 8)
        get("closed", session, -1)
        get("gone", session, 9)


def ask_delete_records(s):
    for version in range(0, 3):
        name = s.create(f"purge-{version}", 2, retention_ms=-1)
        fill(s, name)
        kept = s.create(f"purge-compact-{version}", 1, cleanup_policy="compact")
        both = s.create(f"purge-both-{version}", 1, cleanup_policy="compact,delete")

        def purge(label, *partitions, topic_name=name):
            s.ask(label, "delete_records", {"timeout_ms": 10000, "topics": [{"name": topic_name, "partitions": [
                {"partition_index": p, "offset": o} for p, o in partitions]}]}, (version,))
        purge("beyond the end", (0, 7))
        purge("-2", (0, -2))
        purge("to 2", (0, 2))
        purge("back to 1", (0, 1))
        purge("all", (0, -1))
        purge("an empty one", (1, 0), (1, 1))
        purge("unknown partition", (9, 0), (-1, 0))
        purge("unknown topic", (0, 0), topic_name="purge-unknown")
        purge("bad topic", (0, 0), topic_name="a b")
        purge("compacted", (0, 0), topic_name=kept)
        purge("compacted and deleted", (0, 0), topic_name=both)
        s.ask("none", "delete_records", {"timeout_ms": 10000, "topics": []}, (version,))


def ask_producer_ids(s):
    new_producer(s)

    def ids(label, versions=None, **body):
        s.ask(label, "init_producer_id", {"transactional_id": None, "transaction_timeout_ms": 60000, **body}, versions)
    ids("")
    ids("timeout 0", transaction_timeout_ms=0)
    ids("timeout -1", transaction_timeout_ms=-1)
    ids("empty transactional id", transactional_id="")
    ids("an id without an epoch", range(3, 6), producer_id=5)
    ids("an epoch without an id", range(3, 6), producer_epoch=5)
    ids("an id and an epoch", range(3, 6), producer_id=5, producer_epoch=5)
    ids("id -2", range(3, 6), producer_id=-2, producer_epoch=5)


def ask_nothing_there(s):
    """ACLs, quotas, users, transactions."""
    def is_coordinated():
        found = s.once("find_coordinator", 6, {"key_type": 1, "coordinator_keys": ["t"]})["coordinators"][0]["error_code"]
        described = s.once("describe_transactions", 0, {"transactional_ids": ["t"]})["transaction_states"][0]
        return found == 42 or (found == 0 and described["error_code"] not in (14, 15, 16))
    s.until(is_coordinated)  # Kafka makes a topic for it first.
    any_acl = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    s.ask("any", "describe_acls", any_acl)
    s.ask("unknown resource type", "describe_acls", {**any_acl, "resource_type_filter": 0})
    acl = {"resource_type": 2, "resource_name": "t", "principal": "User:u", "host": "*", "operation": 3, "permission_type": 3}
    s.ask("one", "create_acls", {"creations": [acl]})
    s.ask("two", "create_acls", {"creations": [acl, {**acl, "principal": "nobody"}]})
    s.ask("none", "create_acls", {"creations": []})
    s.ask("any", "delete_acls", {"filters": [any_acl]})
    s.ask("none", "delete_acls", {"filters": []})
    for strict in (0, 1):
        def quotas(label, *components):
            s.ask(f"{label}{', strict' if strict else ''}", "describe_client_quotas", {"strict": strict, "components": [
                {"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components]})
        quotas("all")
        quotas("any user", ("user", 2, None))
        quotas("a user", ("user", 0, "u"))
        quotas("the default client", ("client-id", 1, None))
        quotas("bad type", ("nobody", 2, None))
        quotas("empty type", ("", 2, None))
        quotas("bad match", ("user", 9, None))
        quotas("exact without a name", ("user", 0, None))
        quotas("default with a name", ("user", 1, "u"))
        quotas("any with a name", ("user", 2, "u"))
        quotas("twice", ("user", 2, None), ("user", 0, "u"))
        quotas("an address and a user", ("ip", 2, None), ("user", 2, None))
        quotas("an address", ("ip", 0, "1.2.3.4"))
        quotas("no address", ("ip", 0, "nonsense"))
    for label, users in (("all", None), ("none", []), ("unknown", ["u"]), ("twice", ["u", "u"]), ("empty", [""]),
                         ("twice, and another", ["u", "u", "v"])):
        s.ask(label, "describe_user_scram_credentials", {"users": users and [{"name": u} for u in users]})
    s.ask("all", "list_transactions", {})
    s.ask("states", "list_transactions", {"state_filters": ["Ongoing", "Nonsense", "ongoing", ""]})
    s.ask("producers", "list_transactions", {"producer_id_filters": [1, -5]})
    s.ask("duration", "list_transactions", {"duration_filter": 10}, (1, 2))
    s.ask("pattern", "list_transactions", {"transactional_id_pattern": "a.*"}, (2,))
    s.ask("bad pattern", "list_transactions", {"transactional_id_pattern": "("}, (2,))
    s.ask("empty pattern", "list_transactions", {"transactional_id_pattern": ""}, (2,))
    for label, ids in (("none", []), ("unknown", ["t"]), ("twice", ["t", "t"]), ("empty", [""])):
        s.ask(label, "describe_transactions", {"transactional_ids": ids})


def ask_coordinators(s):
    for kind in (0, 1, 2, 3, -1):
        s.ask(f"kind {kind}", "find_coordinator", {"key": "g", "key_type": kind, "coordinator_keys": ["g", "h"]}, range(1, 7))
        s.ask(f"kind {kind}, empty", "find_coordinator", {"key": "", "key_type": kind, "coordinator_keys": [""]}, range(1, 7))
        s.ask(f"kind {kind}, none", "find_coordinator", {"key_type": kind, "coordinator_keys": []}, range(4, 7))
    s.ask("", "find_coordinator", {"key": "g"}, (0,))


def ask_cluster_state(s):
    s.ask("all", "list_config_resources", {})
    for kinds in ([2], [4], [8], [16], [32], [2, 2], [1], [99], [0], [2, 99]):
        s.ask(f"types {kinds}", "list_config_resources", {"resource_types": kinds}, (1,))

    def features(label, *updates, **more):
        s.ask(label, "update_features", {"timeout_ms": 10000, "feature_updates": [
            {"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level, kind in updates],
            "validate_only": 1, **more}, (1, 2))
    features("none")
    features("unknown", ("nonsense", 1, 1))
    features("empty", ("", 1, 1))
    features("metadata too high", ("metadata.version", 999, 1))
    features("bad type", ("metadata.version", 7, 9))
    features("negative", ("metadata.version", -1, 1))
    features("twice", ("nonsense", 1, 1), ("nonsense", 2, 1))

    def quorum(label, *topics):
        s.ask(label, "describe_quorum", {"topics": [{"topic_name": name, "partitions": [{"partition_index": p} for p in ps]}
                                                    for name, ps in topics]})
    quorum("the log", ("__cluster_metadata", [0]))
    quorum("another partition", ("__cluster_metadata", [1]))
    quorum("another topic", ("nonsense", [0]))
    quorum("two", ("__cluster_metadata", [0, 0]))
    quorum("none")
    s.ask("", "get_telemetry_subscriptions", {})


def ask_unserved_versions(s):
    """A version above, or below, what is served; the body is that of the nearest."""
    for api, version in (("produce", 3), ("fetch", 4), ("metadata", 13), ("list_offsets", 11), ("create_topics", 7)):
        newest = s.versions(api)[-1]
        del version
        for wrong in (newest + 1, 99):
            s.connection.send(CODES[api], wrong, b"")
            s.keep(f"{api} v{wrong}: not served", s.raw())
    for key, version in ((4, 0), (7, 0), (999, 0), (-1, 0), (52, 0), (56, 2), (59, 1), (19, 1), (1, 3), (2, 0)):
        s.connection.send(key, version, b"")
        s.keep(f"key {key} v{version}: not served", s.raw())
    s.connection.send(18, 99, b"", flexible=True)
    s.keep("api_versions v99: not served", s.raw())


CODES = {"produce": 0, "fetch": 1, "list_offsets": 2, "metadata": 3, "create_topics": 19}

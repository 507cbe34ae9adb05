#!/usr/bin/env python3
"""Configurations of brokers, groups, subscriptions of client metrics and loggers, altered while the node runs: what
Kafka lets be altered and in which words it refuses the rest, what is in effect at once and on every core, where a value
is said to come from, and what a crash leaves of it."""
import atexit
import time

from support.check import equal, expect, run_all
from support.definitions import ask
from support.node import Node, fresh_dir
from support.wire import Connection, batch, batches

NONE, MESSAGE_TOO_LARGE, INVALID_CONFIG, INVALID_REQUEST = 0, 10, 40, 42
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
OF_TOPIC, OF_BROKER, OF_BROKERS, OF_FILE, DEFAULT, OF_LOGGER, OF_METRICS, OF_GROUP = range(1, 9)
PARTITIONS = 4  # On every core.

STATIC = ("--set", "log.retention.check.interval.ms=100ms", "--set", "message.max.bytes=2000000",
          "--set", "log.retention.hours=24", "--set", "log.roll.hours=12", "--set", "log.retention.minutes=60")
node = Node(fresh_dir("broker_configs") / "data", *STATIC)
atexit.register(node.__exit__)  # Also when only some tests were asked for.
serial = iter(range(1 << 30))


def connect():
    return Connection(node.kafka)


def new_topic(c, partitions=1, **configs):
    name = f"topic-{next(serial)}"
    equal(c.create_topic(name, partitions, {k.replace("_", "."): v for k, v in configs.items()}), NONE, "create")
    return name


def alter(c, kind, name, *changes, version=1, validate_only=False):
    """(error, message) of (name, operation, value)..."""
    answer = ask(c, "incremental_alter_configs", version, {"validate_only": validate_only, "resources": [{
        "resource_type": kind, "resource_name": name,
        "configs": [{"name": n, "config_operation": o, "value": v} for n, o, v in changes]}]})
    result, = answer["responses"]
    equal((result["resource_type"], result["resource_name"]), (kind, name), "whose")
    return result["error_code"], result["error_message"]


def put(c, kind, name, **values):
    changes = [(n.replace("_", "."), DELETE if v is None else SET, v) for n, v in values.items()]
    equal(alter(c, kind, name, *changes), (NONE, None), f"set {values}")


def replace(c, kind, name, configs):
    answer = ask(c, "alter_configs", 2, {"resources": [{"resource_type": kind, "resource_name": name, "configs": [
        {"name": n, "value": v} for n, v in configs.items()]}]})
    return answer["responses"][0]["error_code"], answer["responses"][0]["error_message"]


def describe(c, kind, name, *keys):
    answer = ask(c, "describe_configs", 4, {"include_synonyms": True, "resources": [{
        "resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}]})
    result, = answer["results"]
    return result["error_code"], {config["name"]: config for config in result["configs"]}


def of(c, kind, name, key):
    """(value, source, synonyms) of one configuration."""
    error, configs = describe(c, kind, name, key)
    equal(error, NONE, "describe")
    return (configs[key]["value"], configs[key]["config_source"],
            [(s["name"], s["value"], s["source"]) for s in configs[key]["synonyms"]])


def list_resources(c, *kinds):
    answer = ask(c, "list_config_resources", 1, {"resource_types": list(kinds)})
    return {(r["resource_type"], r["resource_name"]) for r in answer["config_resources"]}


FILE_RETENTION = [("log.retention.minutes", "60", OF_FILE), ("log.retention.hours", "24", OF_FILE),
                  ("log.retention.hours", "168", DEFAULT)]


def test_secondary_names():
    with connect() as c:
        topic = new_topic(c)
        equal(of(c, BROKER, "1", "log.retention.ms"), (None, DEFAULT, []), "the first name is not set")
        equal(of(c, BROKER, "1", "log.retention.minutes"), ("60", OF_FILE, FILE_RETENTION), "minutes")
        equal(of(c, BROKER, "1", "log.retention.hours"), ("24", OF_FILE, FILE_RETENTION[1:]), "hours")
        equal(of(c, BROKER, "1", "log.flush.interval.ms"), (None, DEFAULT, []), "flush")
        # Kafka's own oddity: a chain begins with the first name, which nobody set.
        equal(of(c, TOPIC, topic, "retention.ms"), ("3600000", DEFAULT, []), "of a topic")
        equal(of(c, TOPIC, topic, "segment.ms"), ("43200000", DEFAULT, []), "of a topic")
        equal(of(c, TOPIC, topic, "flush.ms"), ("9223372036854775807", DEFAULT, []), "of a topic")


def test_sources_and_synonyms():
    with connect() as c:
        topic = new_topic(c)
        own = new_topic(c, retention_ms="77")
        put(c, BROKER, "", log_retention_ms="88000000")
        equal(of(c, TOPIC, topic, "retention.ms"),
              ("88000000", OF_BROKERS, [("log.retention.ms", "88000000", OF_BROKERS)] + FILE_RETENTION), "of all")
        put(c, BROKER, "1", log_retention_ms="99000000")
        chain = [("log.retention.ms", "99000000", OF_BROKER), ("log.retention.ms", "88000000", OF_BROKERS)] + FILE_RETENTION
        equal(of(c, TOPIC, topic, "retention.ms"), ("99000000", OF_BROKER, chain), "of this broker")
        equal(of(c, TOPIC, own, "retention.ms"), ("77", OF_TOPIC, [("retention.ms", "77", OF_TOPIC)] + chain), "own")
        equal(of(c, BROKER, "1", "log.retention.ms"), ("99000000", OF_BROKER, chain), "of the broker")
        equal(of(c, BROKER, "", "log.retention.ms"),
              ("88000000", OF_BROKERS, [("log.retention.ms", "88000000", OF_BROKERS)]), "of all brokers")
        equal(set(describe(c, BROKER, "")[1]), {"log.retention.ms"}, "nothing else is set for all")
        put(c, BROKER, "", message_max_bytes="3000000")
        created = ask(c, "create_topics", 5, {"timeout_ms": 10000, "topics": [
            {"name": f"topic-{next(serial)}", "num_partitions": 1, "replication_factor": 1}]})["topics"][0]["configs"]
        told = {config["name"]: (config["value"], config["config_source"]) for config in created}
        equal((told["retention.ms"], told["max.message.bytes"], told["segment.ms"]),
              (("99000000", OF_BROKER), ("3000000", OF_BROKERS), ("43200000", DEFAULT)), "what CreateTopics answers")
        equal(replace(c, BROKER, "", {"log.cleanup.policy": "compact"}), (NONE, None), "replace")
        equal(of(c, TOPIC, topic, "cleanup.policy")[:2], ("compact", OF_BROKERS), "replaced")
        equal(set(describe(c, BROKER, "")[1]), {"log.cleanup.policy"}, "all else is gone")
        equal(replace(c, BROKER, "", {}), (NONE, None), "nothing for all")
        put(c, BROKER, "1", log_retention_ms=None)
        equal(describe(c, BROKER, ""), (NONE, {}), "nothing left")
        equal(of(c, TOPIC, topic, "max.message.bytes"), ("2000000", OF_FILE, [
            ("message.max.bytes", "2000000", OF_FILE), ("message.max.bytes", "1048588", DEFAULT)]), "the file again")


def test_what_can_be_altered():
    with connect() as c:
        configs = describe(c, BROKER, "1")[1]
        may = {n for n, config in configs.items() if not config["read_only"]}
        expect({"log.retention.ms", "message.max.bytes", "min.insync.replicas", "max.connections",
                "log.cleaner.backoff.ms", "producer.id.expiration.ms"} <= may, may)
        expect(may.isdisjoint({"node.id", "listeners", "log.dirs", "log.retention.hours", "num.partitions",
                               "coreflume.cores", "auto.create.topics.enable"}), may)
        for name in sorted(may):  # Each takes what it has, and without it has that of the file again.
            value = configs[name]["value"] or "5"
            equal(alter(c, BROKER, "", (name, SET, value)), (NONE, None), name)
            equal(of(c, BROKER, "1", name)[:2], (value, OF_BROKERS), name)
        equal(replace(c, BROKER, "", {}), (NONE, None), "nothing")
        for name in configs.keys() - may:
            equal(alter(c, BROKER, "1", (name, SET, configs[name]["value"] or "x")),
                  (INVALID_REQUEST, f"Cannot update these configs dynamically: [{name}]"), name)
        equal(describe(c, BROKER, "1")[1], configs, "as before")


def test_refusals():
    with connect() as c:
        put(c, BROKER, "1", log_roll_ms="5000")
        good = ("log.retention.ms", SET, "5000")
        for wanted, text, *changes in (
                (42, "Cannot update these configs dynamically: [node.id, log.dirs]", ("node.id", SET, "2"), good, ("log.dirs", SET, "x")),
                (42, "Cannot update these configs dynamically: [group.max.session.timeout.ms]", ("group.max.session.timeout.ms", SET, "2")),
                (42, "Invalid value 1 for configuration log.segment.bytes: Value must be at least 1048576", good, ("log.segment.bytes", SET, "1")),
                (42, "Invalid value x for configuration log.retention.ms: Not a number of type LONG", ("log.retention.ms", SET, "x")),
                (42, "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1", ("log.retention.ms", SET, "0")),
                (42, "requirement failed: log.roll.ms must be greater than or equal to 1", ("log.roll.ms", SET, "0")),
                (42, "Invalid value foo for configuration log.cleanup.policy: String must be one of: compact, delete", ("log.cleanup.policy", APPEND, "foo")),
                (42, "Invalid value foo for configuration log.preallocate: Expected value to be either true or false", ("log.preallocate", SET, "foo")),
                (40, "Config value append is not allowed for config key: log.retention.ms", ("log.retention.ms", APPEND, "5")),
                (42, "Null value not supported for : log.retention.ms", ("log.retention.ms", SET, None)),
                (42, "Unknown operations type 7", ("log.retention.ms", 7, "5")),
                (42, "Error due to duplicate config keys", good, good)):
            for name in ("1", ""):
                equal(alter(c, BROKER, name, *changes), (wanted, text), f"{name!r} {changes}")
        for name, text in (("2", "Unexpected broker id, expected 1, but received 2"),
                           ("x", "Node id must be an integer, but it is: x"),
                           (" 1", "Node id must be an integer, but it is:  1")):
            equal(alter(c, BROKER, name, good), (INVALID_REQUEST, text), name)
            equal(replace(c, BROKER, name, {}), (INVALID_REQUEST, text), name)
        equal(alter(c, 77, "1", good), (INVALID_REQUEST, "Unknown resource type 77"), "no such type")
        equal(alter(c, BROKER, "1", good, validate_only=True), (NONE, None), "would be fine")
        equal(of(c, BROKER, "1", "log.retention.ms")[1], DEFAULT, "nothing of it was set")
        equal(of(c, BROKER, "1", "log.roll.ms")[:2], ("5000", OF_BROKER), "what was set before")
        put(c, BROKER, "1", log_roll_ms=None)


def test_names_that_nobody_knows():
    with connect() as c:
        put(c, BROKER, "", some_plugin="secret", num_io_threads="7")
        error, configs = describe(c, BROKER, "1", "some.plugin", "num.io.threads")
        plugin, threads = configs["some.plugin"], configs["num.io.threads"]
        equal((plugin["value"], plugin["is_sensitive"], plugin["read_only"], plugin["config_source"]),
              (None, 1, 1, OF_BROKERS), "it could be a secret")
        equal((threads["value"], threads["is_sensitive"], threads["read_only"], threads["config_type"]), ("7", 0, 0, 3), "Kafka's")
        put(c, BROKER, "", some_plugin=None, num_io_threads=None)
        equal(describe(c, BROKER, "1", "some.plugin", "num.io.threads"), (NONE, {}), "gone")


def test_values_that_are_too_long():
    with connect() as c:
        topic = new_topic(c)
        for kind, name, key in ((TOPIC, topic, "retention.ms"), (BROKER, "", "some.plugin"), (GROUP, "g", "share.isolation.level")):
            for size in (32768, 70000):
                equal(alter(c, kind, name, (key, SET, "1" * size))[0], INVALID_CONFIG, f"{key}, {size} characters")
        created = ask(c, "create_topics", 7, {"timeout_ms": 10000, "topics": [{
            "name": "long", "num_partitions": 1, "replication_factor": 1,
            "configs": [{"name": "retention.ms", "value": "1" * 40000}]}]})
        equal(created["topics"][0]["error_code"], INVALID_CONFIG, "of a new topic")
        equal(alter(c, BROKER, "", ("some.plugin", SET, "1" * 32767))[0], NONE, "as long as may be")
        put(c, BROKER, "", some_plugin=None)


def start_offset(c, topic):
    return c.list_offsets(topic, 0, -2)[2]


def await_start(c, topic, offset):
    until = time.monotonic() + 10
    while start_offset(c, topic) < offset and time.monotonic() < until:
        time.sleep(0.05)
    equal(start_offset(c, topic), offset, "log start")


def test_in_effect_at_once_on_every_core():
    with connect() as c:
        topic = new_topic(c, PARTITIONS)
        own = new_topic(c, PARTITIONS, max_message_bytes="1000000")
        large = batch([b"x" * 50000])

        def produce(name):
            return {c.produce(name, partition, large)[0] for partition in range(PARTITIONS)}
        equal(produce(topic), {NONE}, "fits")
        put(c, BROKER, "", message_max_bytes="1000", compression_type="gzip")
        equal(produce(topic), {MESSAGE_TOO_LARGE}, "too large now")
        equal(produce(own), {NONE}, "a topic with a value of its own")
        put(c, BROKER, "1", message_max_bytes="60000")
        equal(produce(topic), {NONE}, "this broker's goes before that of all")
        for partition in range(PARTITIONS):
            equal([b[1] & 7 for b in batches(c.fetch(topic, partition, 1)[2])], [1], "stored as gzip")
        put(c, BROKER, "1", message_max_bytes=None)
        equal(produce(topic), {MESSAGE_TOO_LARGE}, "that of all again")
        put(c, BROKER, "", message_max_bytes=None, compression_type=None)
        equal(produce(topic), {NONE}, "the file's again")


def test_retention_follows_where_the_topic_has_none():
    with connect() as c:
        old = [int(1000 * time.time()) - 600000]
        topic, own = new_topic(c), new_topic(c, retention_ms="86400000")
        for name in (topic, own):
            for i in range(3):
                equal(c.produce(name, 0, batch([b"y"], timestamps=old))[0], NONE, "produce")
        time.sleep(0.3)
        equal((start_offset(c, topic), start_offset(c, own)), (0, 0), "both stay for an hour and a day")
        put(c, BROKER, "", log_retention_ms="60000")
        await_start(c, topic, 3)
        equal(start_offset(c, own), 0, "the one with a value of its own stays")
        put(c, BROKER, "", log_retention_ms=None)


def test_connections_are_counted_anew():
    with connect() as c:
        put(c, BROKER, "1", max_connections="1")  # One per core, whatever their number.
        others = []
        refused = False
        for _ in range(2 * PARTITIONS + 32):
            try:
                other = connect()
                others.append(other)
                ask(other, "list_config_resources", 1, {})
            except (OSError, EOFError):
                refused = True
        expect(refused, f"{len(others)} connections")
        put(c, BROKER, "1", max_connections=None)
        for other in others:
            other.__exit__()
        with connect() as again:
            equal(of(again, BROKER, "1", "max.connections")[1], DEFAULT, "back")


def test_groups():
    with connect() as c:
        name = "a group of any name/\n"
        broker = [("group.consumer.session.timeout.ms", "45000", DEFAULT)]
        equal(of(c, GROUP, name, "consumer.session.timeout.ms"), ("45000", DEFAULT, broker), "of one that is not there")
        equal(len(describe(c, GROUP, name)[1]), 17, "names")
        put(c, GROUP, name, consumer_session_timeout_ms="50000")
        equal(of(c, GROUP, name, "consumer.session.timeout.ms"),
              ("50000", OF_GROUP, [("consumer.session.timeout.ms", "50000", OF_GROUP)] + broker), "set")
        expect((GROUP, name) in list_resources(c), "listed")
        equal(list_resources(c, GROUP), {(GROUP, name)}, "listed alone")
        for key, value, text in (
                ("consumer.session.timeout.ms", "1", "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"),
                ("consumer.session.timeout.ms", "70000", "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"),
                ("consumer.session.timeout.ms", "x", "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT"),
                ("share.isolation.level", "x", "Invalid value x for configuration share.isolation.level: String must be one of: read_committed, read_uncommitted"),
                ("retention.ms", "1", "Unknown group config name: retention.ms")):
            equal(alter(c, GROUP, name, (key, SET, value)), (INVALID_CONFIG, text), value)
        equal(alter(c, GROUP, "", ("share.isolation.level", SET, "read_committed")),
              (INVALID_REQUEST, "Default group resources are not allowed."), "no name")
        equal(describe(c, GROUP, "")[0], INVALID_REQUEST, "no name")
        put(c, BROKER, "", group_consumer_assignment_interval_ms="2000")
        equal(of(c, GROUP, name, "consumer.assignment.interval.ms")[:2], ("2000", OF_BROKERS), "the broker's")
        equal(replace(c, BROKER, "", {}), (NONE, None), "nothing")
        put(c, GROUP, name, consumer_session_timeout_ms=None)
        equal(list_resources(c, GROUP), set(), "not listed any more")


def test_client_metrics():
    with connect() as c:
        equal({n: config["value"] for n, config in describe(c, METRICS, "m")[1].items()},
              {"interval.ms": "300000", "match": "", "metrics": ""}, "defaults")
        put(c, METRICS, "m", interval_ms="5000", match="client_id=a.*", metrics="org.apache.")
        equal(of(c, METRICS, "m", "interval.ms"), ("5000", OF_METRICS, [("interval.ms", "5000", OF_METRICS)]), "set")
        answer = ask(c, "list_config_resources", 0, {})
        equal([r["resource_name"] for r in answer["config_resources"]], ["m"], "what version 0 lists")
        equal(alter(c, METRICS, "m", ("interval.ms", SET, "5")), (
            INVALID_REQUEST, "Invalid value 5 for interval.ms, interval must be between 100 and 3600000 (1 hour)"), "5")
        equal(alter(c, METRICS, "m", ("match", SET, "foo=a")), (INVALID_CONFIG, "Illegal client matching pattern: foo=a"), "foo")
        equal(alter(c, METRICS, "m", ("nope", SET, "a")), (INVALID_REQUEST, "Unknown client metrics configuration: nope"), "nope")
        put(c, METRICS, "m", interval_ms=None, match=None, metrics=None)
        equal(list_resources(c, METRICS), set(), "gone")


def test_the_logger():
    with connect() as c:
        equal(of(c, LOGGER, "1", "root"), ("INFO", OF_LOGGER, []), "as started")
        equal(alter(c, LOGGER, "1", ("root", SET, "WARN")), (NONE, None), "set")
        equal(of(c, LOGGER, "1", "root")[0], "WARN", "set")
        for change, wanted, text in (
                (("kafka.server", SET, "INFO"), 40, "Logger kafka.server does not exist!"),
                (("root", SET, "info"), 40, "Cannot set the log level of root to info as it is not a supported log level. "
                 "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"),
                (("root", DELETE, None), 42, "Removing the log level of the root logger is not allowed"),
                (("root", APPEND, "INFO"), 42, "APPEND operation is not allowed for the BROKER_LOGGER resource")):
            equal(alter(c, LOGGER, "1", change), (wanted, text), str(change))
        equal(replace(c, LOGGER, "1", {"root": "INFO"}), (INVALID_REQUEST, "Unknown resource type 8"), "as Kafka")
        equal(alter(c, LOGGER, "1", ("root", SET, "INFO")), (NONE, None), "back")


def test_survives_kill_with_other_cores():
    data_dir = fresh_dir("broker_configs_kill") / "data"
    large = batch([b"x" * 5000])
    with Node(data_dir, "--cores", "0-1") as other, Connection(other.kafka) as c:
        equal(c.create_topic("t", PARTITIONS), NONE, "create")
        equal(c.create_topic("own", PARTITIONS, {"max.message.bytes": "100000"}), NONE, "create")
        put(c, BROKER, "", message_max_bytes="1000", log_retention_ms="5000000", some_plugin="secret")
        put(c, BROKER, "1", log_retention_ms="6000000")
        put(c, GROUP, "g", share_isolation_level="read_committed")
        put(c, METRICS, "m", interval_ms="5000")
        put(c, GROUP, "gone", share_isolation_level="read_committed")
        put(c, GROUP, "gone", share_isolation_level=None)
        other.kill()
    for cores in ("0", "0-1"):
        with Node(data_dir, "--cores", cores, "--set", "message.max.bytes=4000") as other, Connection(other.kafka) as c:
            equal(set(describe(c, BROKER, "")[1]), {"message.max.bytes", "log.retention.ms", "some.plugin"}, "of all")
            equal(of(c, TOPIC, "t", "retention.ms")[:2], ("6000000", OF_BROKER), "retention.ms")
            equal(list_resources(c, GROUP, METRICS), {(GROUP, "g"), (METRICS, "m")}, "resources")
            for partition in range(PARTITIONS):
                equal(c.produce("t", partition, large)[0], MESSAGE_TOO_LARGE, "in effect")
                equal(c.produce("own", partition, large)[0], NONE, "not for the one with its own")
            other.kill()
    with Node(data_dir) as other, Connection(other.kafka) as c:
        equal(replace(c, BROKER, "", {}), (NONE, None), "nothing")
        equal(replace(c, BROKER, "1", {}), (NONE, None), "nothing")
        equal(c.produce("t", 0, large)[0], NONE, "the default again")
        equal(of(c, TOPIC, "t", "retention.ms")[:2], ("604800000", DEFAULT), "the default again")


run_all(globals())

#!/usr/bin/env python3
"""What clients are told of configurations: names, values in effect, and the sources that MirrorMaker, Terraform and
kafka-topics go by."""

from support.check import equal, expect, run_all
from support.definitions import ask
from support.shared import SharedNode

NONE, UNKNOWN_TOPIC, INVALID_TOPIC, UNSUPPORTED_VERSION, INVALID_REQUEST = 0, 3, 17, 35, 42
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
OF_TOPIC, OF_FILE, DEFAULT = 1, 4, 5
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7

shared = SharedNode("configs", "--set", "log.retention.ms=3h", "--set", "message.max.bytes=2MiB")
connect, new_topic = shared.connect, shared.new_topic


def describe(c, kind, name, keys=None, version=4, **more):
    answer = ask(c, "describe_configs", version, {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}], **more})
    result, = answer["results"]
    equal((result["resource_type"], result["resource_name"]), (kind, name), "whose")
    return result["error_code"], {config["name"]: config for config in result["configs"]}


def of(configs, name):
    return configs[name]["value"], configs[name]["config_source"], configs[name]["config_type"]


def test_every_name_of_a_topic_has_a_source():
    with connect() as c:
        topic = new_topic(c, cleanup_policy="compact", retention_ms="5")
        for version in (1, 2, 3, 4):
            error, configs = describe(c, TOPIC, topic, version=version)
            equal(error, NONE, "error")
            expect(len(configs) >= 33, "names")
            equal({n for n, config in configs.items() if config["config_source"] == OF_TOPIC},
                  {"cleanup.policy", "retention.ms"}, "those of its own")
            equal({n for n, config in configs.items() if config["config_source"] == OF_FILE},
                  {"max.message.bytes"}, "those of the broker's file")
            expect(not any(config["read_only"] or config["is_sensitive"] for config in configs.values()), "read-only")
        equal(of(configs, "cleanup.policy"), ("compact", OF_TOPIC, LIST), "cleanup.policy")
        equal(of(configs, "retention.ms"), ("5", OF_TOPIC, LONG), "retention.ms")
        equal(of(configs, "max.message.bytes"), ("2097152", OF_FILE, INT), "max.message.bytes")
        equal(of(configs, "min.cleanable.dirty.ratio"), ("0.5", DEFAULT, DOUBLE), "ratio")
        equal(of(configs, "segment.bytes"), ("1073741824", DEFAULT, INT), "segment.bytes")
        equal(of(configs, "preallocate"), ("false", DEFAULT, BOOLEAN), "preallocate")
        expect(all(config["synonyms"] == [] for config in configs.values()), "synonyms that nobody asked for")


def test_synonyms_from_the_first_that_counts():
    with connect() as c:
        topic = new_topic(c, retention_ms="5")
        _, configs = describe(c, TOPIC, topic, include_synonyms=True)

        def chain(name):
            return [(s["name"], s["value"], s["source"]) for s in configs[name]["synonyms"]]
        equal(chain("retention.ms"), [("retention.ms", "5", OF_TOPIC), ("log.retention.ms", "10800000", OF_FILE),
                                      ("log.retention.hours", "168", DEFAULT)], "retention.ms")
        equal(chain("segment.bytes"), [("log.segment.bytes", "1073741824", DEFAULT)], "segment.bytes")
        equal(chain("remote.storage.enable"), [], "a name without synonyms")


def test_only_the_names_asked_for():
    with connect() as c:
        topic = new_topic(c)
        equal(set(describe(c, TOPIC, topic, ["segment.ms", "no.such", "flush.ms"])[1]), {"segment.ms", "flush.ms"}, "two")
        expect(len(describe(c, TOPIC, topic, [])[1]) > 30, "an empty list means all")


def test_topics_that_are_not_there():
    with connect() as c:
        equal(describe(c, TOPIC, "no-such"), (UNKNOWN_TOPIC, {}), "unknown")
        for name in ("", ".", "a b", "x" * 250):
            equal(describe(c, TOPIC, name), (INVALID_TOPIC, {}), name)


def test_this_broker():
    with connect() as c:
        error, configs = describe(c, BROKER, "1", include_synonyms=True, include_documentation=True)
        equal(error, NONE, "error")
        equal(of(configs, "log.retention.ms"), ("10800000", OF_FILE, LONG), "a duration")
        equal(of(configs, "message.max.bytes"), ("2097152", OF_FILE, INT), "a size")
        # ksqlDB and Debezium ask for these two.
        equal(of(configs, "delete.topic.enable"), ("true", DEFAULT, BOOLEAN), "a word")
        equal(of(configs, "default.replication.factor"), ("1", DEFAULT, INT), "a number")
        equal(of(configs, "node.id")[0], "1", "node.id")
        expect(all(config["documentation"] for config in configs.values()), "documentation")
        equal([s["source"] for s in configs["message.max.bytes"]["synonyms"]], [OF_FILE, DEFAULT], "synonyms")
        equal(describe(c, BROKER, ""), (NONE, {}), "what is set for all brokers")
        for name in ("2", "one", "1 "):
            equal(describe(c, BROKER, name), (INVALID_REQUEST, {}), name)
        equal(set(describe(c, LOGGER, "1")[1]), {"root"}, "loggers")
        equal(describe(c, 77, "x"), (INVALID_REQUEST, {}), "no such type")


def test_each_resource_is_answered():
    with connect() as c:
        topic = new_topic(c)
        wanted = [(TOPIC, topic), (TOPIC, "no-such"), (BROKER, "1"), (TOPIC, topic)]
        answer = ask(c, "describe_configs", 4, {"resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": ["segment.bytes"]} for kind, name in wanted]})
        equal([(r["resource_type"], r["resource_name"], len(r["configs"])) for r in answer["results"]],
              [(TOPIC, topic, 1), (TOPIC, "no-such", 0), (BROKER, "1", 0), (TOPIC, topic, 1)], "in order")


def test_list_of_what_has_configurations():
    with connect() as c:
        topic = new_topic(c)

        def names(version, types):
            answer = ask(c, "list_config_resources", version, {"resource_types": types})
            return answer["error_code"], {(r["resource_type"], r["resource_name"]) for r in answer["config_resources"]}
        equal(names(0, []), (NONE, set()), "version 0 means client metrics")
        error, found = names(1, [])
        equal(error, NONE, "all")
        expect({(TOPIC, topic), (BROKER, "1"), (LOGGER, "1")} <= found, found)
        equal(names(1, [BROKER, METRICS, GROUP]), (NONE, {(BROKER, "1")}), "some types")
        equal(names(1, [TOPIC, 3]), (UNSUPPORTED_VERSION, set()), "an unknown type")


run_all(globals())

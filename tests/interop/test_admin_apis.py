#!/usr/bin/env python3
"""What admin clients ask beside topics and records, by hand: the cluster, elections, reassignments, and what this
version has none of: ACLs, quotas, users, transactions, features."""
import os
import time
import uuid

from support.check import equal, expect, run_all
from support.definitions import ask
from support.node import Node, fresh_dir
from support.shared import SharedNode
from support.wire import Connection, batch

NONE, UNKNOWN_TOPIC, INVALID_TOPIC, UNSUPPORTED_VERSION, TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_RF = 0, 3, 17, 35, 36, 37, 38
INVALID_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION = 39, 40, 42, 44
SECURITY_DISABLED, ELECTION_NOT_NEEDED, NO_REASSIGNMENT, RESOURCE_NOT_FOUND, DUPLICATE = 54, 84, 85, 91, 92
INVALID_UPDATE, UNKNOWN_ID, TRANSACTIONAL_ID_NOT_FOUND, MISMATCHED_ENDPOINT, UNSUPPORTED_ENDPOINT = 95, 100, 105, 114, 115
INVALID_PATTERN = 128
NOT_ASKED = -2147483648

shared = SharedNode("admin_apis")
connect, new_topic = shared.connect, shared.new_topic


def partition_errors(topics, list_name, index_name):
    return {t.get("name", t.get("topic")): [(p[index_name], p["error_code"]) for p in t[list_name]] for t in topics}


# ---- the cluster ----

def test_describe_cluster():
    with connect() as c:
        metadata = ask(c, "metadata", 12, {"topics": []})
        for version in (0, 1, 2):
            answer = ask(c, "describe_cluster", version, {})
            equal(answer["error_code"], NONE, "error")
            equal(answer["cluster_id"], metadata["cluster_id"], "cluster id")
            equal(answer["controller_id"], metadata["controller_id"], "controller")
            equal([(b["broker_id"], b["host"], b["port"]) for b in answer["brokers"]],
                  [(b["node_id"], b["host"], b["port"]) for b in metadata["brokers"]], "brokers")
            equal(answer["cluster_authorized_operations"], NOT_ASKED, "operations not asked for")
        answer = ask(c, "describe_cluster", 2, {"include_cluster_authorized_operations": True})
        expect(answer["cluster_authorized_operations"] > 0, "operations")
        equal(ask(c, "describe_cluster", 1, {"endpoint_type": 2})["error_code"], MISMATCHED_ENDPOINT, "controllers")
        equal(ask(c, "describe_cluster", 1, {"endpoint_type": 9})["error_code"], UNSUPPORTED_ENDPOINT, "type 9")


def describe_topics(c, names, limit=2000, cursor=None):
    answer = ask(c, "describe_topic_partitions", 0, {
        "topics": [{"name": n} for n in names], "response_partition_limit": limit,
        "cursor": None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}})
    found = [(t["name"], t["error_code"], [p["partition_index"] for p in t["partitions"]]) for t in answer["topics"]]
    following = answer["next_cursor"]
    return found, following and (following["topic_name"], following["partition_index"]), answer["topics"]


def test_describe_topic_partitions():
    with connect() as c:
        a, b = sorted(new_topic(c, partitions) for partitions in (3, 3))
        found, following, topics = describe_topics(c, [b, "absent", a, b])
        equal(found, [("absent", UNKNOWN_TOPIC, []), (a, NONE, [0, 1, 2]), (b, NONE, [0, 1, 2])], "sorted, once each")
        equal(following, None, "cursor")
        p = topics[1]["partitions"][2]
        equal((p["leader_id"], p["replica_nodes"], p["isr_nodes"]), (1, [1], [1]), "replicas")
        equal((p["eligible_leader_replicas"], p["last_known_elr"], p["offline_replicas"]), ([], [], []), "no others")
        expect(topics[1]["topic_authorized_operations"] > 0, "operations")
        pages, cursor = [], None
        while True:
            found, cursor, _ = describe_topics(c, [a, b], limit=2, cursor=cursor)
            pages.append([(name, numbers) for name, _, numbers in found])
            if cursor is None:
                break
        equal(pages, [[(a, [0, 1])], [(a, [2]), (b, [0])], [(b, [1, 2])]], "pages")
        equal(describe_topics(c, [a, b], limit=3)[1], (b, 0), "a page that ends with a topic")
        equal(describe_topics(c, [a], cursor=("else", 0))[0], [(a, INVALID_REQUEST, [])], "a cursor at no topic")
        equal(describe_topics(c, [a], cursor=(a, -1))[0], [(a, INVALID_REQUEST, [])], "a negative cursor")
        every = [name for name, _, _ in describe_topics(c, [])[0]]
        expect(every == sorted(every) and a in every and b in every, f"all topics: {every}")
        equal(describe_topics(c, ["never"])[0], [("never", UNKNOWN_TOPIC, [])], "unknown")
        equal(describe_topics(c, ["never"])[0], [("never", UNKNOWN_TOPIC, [])], "not created by the question")


# ---- more partitions ----

def grow(c, topics, version=3, validate_only=False):
    """Errors of {name: count, or (count, replica lists)}."""
    rows = [{"name": name, "count": ask_for[0], "assignments": [{"broker_ids": b} for b in ask_for[1]]}
            if isinstance(ask_for, tuple) else {"name": name, "count": ask_for, "assignments": None}
            for name, ask_for in topics]
    answer = ask(c, "create_partitions", version, {"topics": rows, "timeout_ms": 10000, "validate_only": validate_only})
    equal([r["name"] for r in answer["results"]], [name for name, _ in topics], "one result each")
    for r in answer["results"]:
        equal(bool(r["error_message"]), r["error_code"] != NONE, f"a message with an error: {r}")
    return [r["error_code"] for r in answer["results"]]


def partitions_of(c, topic):
    topics = ask(c, "metadata", 12, {"topics": [{"name": topic}], "allow_auto_topic_creation": 0})["topics"]
    return [p["partition_index"] for p in topics[0]["partitions"]]


def test_c095_partitions_only_grow():
    with connect() as c:
        topic = new_topic(c, 4)
        equal(c.produce(topic, 3, batch([b"kept"]))[0], NONE, "produce")
        before = c.fetch(topic, 3, 0)
        equal(grow(c, [(topic, 2)]), [INVALID_PARTITIONS], "fewer")
        equal(grow(c, [(topic, 4)]), [INVALID_PARTITIONS], "as many")
        equal(grow(c, [(topic, 0)]), [INVALID_PARTITIONS], "none")
        equal(grow(c, [(topic, -1)]), [INVALID_PARTITIONS], "-1")
        equal(grow(c, [(topic, 8)], validate_only=True), [NONE], "only asked")
        for lists in ([[1]] * 3, [], [[1]] * 5, [[2]] * 4, [[1, 1]] * 4, [[]] * 4):
            equal(grow(c, [(topic, (8, lists))]), [INVALID_ASSIGNMENT], f"{lists}")
        equal(partitions_of(c, topic), [0, 1, 2, 3], "nothing changed")
        equal(grow(c, [(topic, (6, [[1]] * 2))]), [NONE], "by hand")
        equal(grow(c, [(topic, 8), ("absent", 2), ("twice", 3), ("twice", 4)]),
              [NONE, UNKNOWN_TOPIC, INVALID_REQUEST, INVALID_REQUEST], "each for itself")
        equal(partitions_of(c, topic), list(range(8)), "grown")
        for partition in range(4, 8):
            equal(c.produce(topic, partition, batch([b"new"]))[0], NONE, "produce at once")
        equal(c.fetch(topic, 3, 0), before, "what was there stays")
        for version in (0, 1, 2, 3):
            equal(grow(c, [(topic, 9 + version)], version), [NONE], f"v{version}")
        equal(grow(c, [(topic, 1 << 30)]), [INVALID_PARTITIONS], "too many")


def test_grown_topics_outlive_kills_and_deletes():
    with Node(fresh_dir("admin_apis_grown") / "data") as own:
        with Connection(own.kafka) as c:
            equal(c.create_topic("a", 2), NONE, "create")
            equal(grow(c, [("a", 5)]), [NONE], "grow")
            equal(c.produce("a", 4, batch([b"v"]))[0], NONE, "produce")
        own.kill()
        with Node(own.data_dir) as again:
            with Connection(again.kafka) as c:
                equal(partitions_of(c, "a"), list(range(5)), "after kill -9")
                equal(c.produce("a", 4, batch([b"w"]))[:2], (NONE, 1), "after what was produced before")
                equal(grow(c, [("a", 6)]), [NONE], "grow again")
                equal(c.delete_topic("a"), NONE, "delete")
                equal(c.create_topic("a", 1), NONE, "create again")
                equal(partitions_of(c, "a"), [0], "a new topic")
                equal(grow(c, [("a", 3)]), [NONE], "grow the new one")
            equal(again.stop()[0], 0, "a clean stop")


def test_c085_validate_only_checks_everything():
    with connect() as c:
        a = new_topic(c)

        def validate(name, replication_factor=1, configs=()):
            answer = ask(c, "create_topics", 5, {"timeout_ms": 1000, "validate_only": True, "topics": [
                {"name": name, "num_partitions": 1, "replication_factor": replication_factor,
                 "configs": [{"name": n, "value": v} for n, v in configs]}]})
            return answer["topics"][0]["error_code"]
        equal(validate(a), TOPIC_EXISTS, "there already")
        equal(validate("c085-b"), NONE, "new")
        equal(validate("c085-c", 99), INVALID_RF, "too many replicas")
        equal(validate("c085-d", configs=[("foo", "bar")]), INVALID_CONFIG, "no such config")
        names = {t["name"] for t in ask(c, "metadata", 12, {"topics": None})["topics"]}
        expect(not any(n.startswith("c085-") for n in names), f"nothing was created: {names}")


# ---- directories ----

def test_describe_log_dirs():
    directory = fresh_dir("admin_apis_dirs")
    with Node(directory / "a", "--data-dir", str(directory / "b")) as own, Connection(own.kafka) as c:
        equal(c.create_topic("t", 6), NONE, "create")
        equal(c.produce("t", 1, batch([b"x" * 5000]))[0], NONE, "produce")
        for version in (1, 2, 3, 4, 5):
            answer = ask(c, "describe_log_dirs", version, {"topics": None})
            equal(sorted(r["log_dir"].rsplit("/", 1)[1] for r in answer["results"]), ["a", "b"], "directories")
            equal([r["error_code"] for r in answer["results"]], [NONE, NONE], "errors")
            found = {p["partition_index"]: p for r in answer["results"] for t in r["topics"] for p in t["partitions"]}
            equal(sorted(found), list(range(6)), "each partition once")
            expect(found[1]["partition_size"] > 5000, f"size: {found[1]}")
            equal({(p["offset_lag"], p["is_future_key"]) for p in found.values()}, {(0, 0)}, "no moves")
            for r in answer["results"]:
                if version >= 4:
                    disk = os.statvfs(r["log_dir"])
                    equal(r["total_bytes"], disk.f_blocks * disk.f_frsize, "of the file system")
                    expect(0 < r["usable_bytes"] <= r["total_bytes"], f"usable: {r}")
                equal([(t["name"], len(t["partitions"])) for t in r["topics"]], [("t", 3)], "grouped by topic")
        answer = ask(c, "describe_log_dirs", 4, {"topics": [{"topic": "t", "partitions": [1, 99]},
                                                            {"topic": "absent", "partitions": [0]}]})
        equal([p["partition_index"] for r in answer["results"] for t in r["topics"] for p in t["partitions"]], [1],
              "only what was asked for and is there")


# ---- what errors say ----

def test_errors_say_what_kafka_says():
    """As Apache Kafka 4.3.1 answered the same requests."""
    with connect() as c:
        topic = new_topic(c, 2)
        equal(c.create_topic(f"{topic}.dot", 1), NONE, "create")

        def created(**fields):
            row = {"name": "fresh", "num_partitions": 1, "replication_factor": 1, **fields}
            answer = ask(c, "create_topics", 7, {"topics": [row], "timeout_ms": 5000, "validate_only": True})
            return answer["topics"][0]["error_code"], answer["topics"][0]["error_message"]

        def by_hand(*rows, **fields):
            return created(**{"num_partitions": -1, "replication_factor": -1, **fields}, assignments=[
                {"partition_index": number, "broker_ids": brokers} for number, brokers in rows])

        def grown(name, count, *brokers):
            row = {"name": name, "count": count, "assignments": [{"broker_ids": b} for b in brokers] or None}
            answer = ask(c, "create_partitions", 3, {"topics": [row], "timeout_ms": 5000, "validate_only": True})
            return answer["results"][0]["error_code"], answer["results"][0]["error_message"]

        def deleted(**topic):
            answer = ask(c, "delete_topics", 6, {"topics": [topic], "timeout_ms": 5000})
            return answer["responses"][0]["error_code"], answer["responses"][0]["error_message"]

        def elected(name, partition, election_type=0):
            answer = ask(c, "elect_leaders", 2, {"topic_partitions": [{"topic": name, "partitions": [partition]}],
                                                 "election_type": election_type})
            [p] = answer["replica_election_results"][0]["partition_result"]
            return p["error_code"], p["error_message"]

        def moved(name, partition, replicas):
            answer = ask(c, "alter_partition_reassignments", 1, {"topics": [
                {"name": name, "partitions": [{"partition_index": partition, "replicas": replicas}]}]})
            equal((answer["error_code"], answer["error_message"]), (NONE, None), "all of it")
            [p] = answer["responses"][0]["partitions"]
            return p["error_code"], p["error_message"]

        invalid = "Topic name is invalid: "
        assignment = "The manual partition assignment includes "
        given = "A manual partition assignment was specified, but "
        here = f"The topic {topic} currently has 2 partition(s); "
        nobody = uuid.UUID(int=5)
        for actual, wanted in (
                (created(), (NONE, None)),
                (created(name=""), (INVALID_TOPIC, invalid + "the empty string is not allowed")),
                (created(name=".."), (INVALID_TOPIC, invalid + "'..' is not allowed")),
                (created(name="a/b"), (INVALID_TOPIC, invalid + "'a/b' contains one or more characters other than ASCII "
                                                                "alphanumerics, '.', '_' and '-'")),
                (created(name="x" * 250), (INVALID_TOPIC, invalid + f"the length of '{'x' * 250}' is longer than the max "
                                                                    "allowed length 249")),
                (created(name=f"{topic}_dot"),
                 (INVALID_TOPIC, f"Topic '{topic}_dot' collides with existing topic: {topic}.dot")),
                (created(name=topic), (TOPIC_EXISTS, f"Topic '{topic}' already exists.")),
                (created(name="__cluster_metadata"),
                 (INVALID_REQUEST, "Creation of internal topic __cluster_metadata is prohibited.")),
                (created(num_partitions=0),
                 (INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")),
                (created(replication_factor=0),
                 (INVALID_RF, "Replication factor must be larger than 0, or -1 to use the default value.")),
                (by_hand((1, [1]), (0, [1])), (NONE, None)),
                (by_hand((0, [1]), num_partitions=1), (INVALID_REQUEST, given + "numPartitions was not set to -1.")),
                (by_hand((0, [1]), replication_factor=1),
                 (INVALID_REQUEST, given + "replication factor was not set to -1.")),
                (by_hand((0, [])), (INVALID_ASSIGNMENT, assignment + "an empty replica list.")),
                (by_hand((0, [1, 1])), (INVALID_ASSIGNMENT, assignment + "the broker 1 more than once.")),
                (by_hand((0, [2])), (INVALID_ASSIGNMENT, assignment + "broker 2, but no such broker is registered.")),
                (by_hand((0, [1]), (2, [1])),
                 (INVALID_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")),
                (by_hand((0, [1]), (0, [1])),
                 (INVALID_ASSIGNMENT, "Found multiple manual partition assignments for partition 0")),
                (grown(topic, 2), (INVALID_PARTITIONS, "Topic already has 2 partition(s).")),
                (grown(topic, 1), (INVALID_PARTITIONS, here + "1 would not be an increase.")),
                (grown(topic, 4, [1]), (INVALID_ASSIGNMENT, "Attempted to add 2 additional partition(s), but only 1 "
                                                            "assignment(s) were specified.")),
                (grown(topic, 3, [2]), (INVALID_ASSIGNMENT, assignment + "broker 2, but no such broker is registered.")),
                (deleted(name="absent"), (UNKNOWN_TOPIC, "This server does not host this topic-partition.")),
                (deleted(name=None, topic_id=nobody), (UNKNOWN_ID, "This server does not host this topic ID.")),
                (deleted(name="absent", topic_id=nobody),
                 (INVALID_REQUEST, "You may not specify both topic name and topic id.")),
                (deleted(name=None), (INVALID_REQUEST, "Neither topic name nor id were specified.")),
                (elected("absent", 0), (UNKNOWN_TOPIC, "No such topic as absent")),
                (elected(topic, 2), (UNKNOWN_TOPIC, f"No such partition as {topic}-2")),
                (elected(topic, 0), (ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")),
                (elected(topic, 0, 7), (INVALID_REQUEST, "Unknown election type 7")),
                (moved(topic, 0, [1]), (NONE, None)),
                (moved(topic, 0, None), (NO_REASSIGNMENT, None)),
                (moved(topic, 9, [1]), (UNKNOWN_TOPIC, f"Unable to find partition {topic}:9.")),
                (moved("absent", 0, [1]), (UNKNOWN_TOPIC, "Unable to find a topic named absent."))):
            equal(actual, wanted, "error")


# ---- producers, the controller ----

def test_describe_producers():
    """As Apache Kafka 4.3.1 answered the same requests, but for the order of producers, which has no meaning there."""
    with connect() as c:
        topic = new_topic(c, 3)
        for producer, epoch, sequence in ((70000, 1, 0), (5, 0, 0), (70000, 1, 2), (5, 2, 0)):
            records = batch([b"a", b"b"], producer, epoch, sequence, timestamps=[1700000000500, 1700000000000 + sequence])
            equal(c.produce(topic, 1, records)[0], NONE, "produce")
        equal(c.produce(topic, 2, batch([b"plain"]))[0], NONE, "produce without an id")
        answer = ask(c, "describe_producers", 0, {"topics": [
            {"name": topic, "partition_indexes": [1, 0, 2, 3, -1, 1]}, {"name": "absent", "partition_indexes": [0]},
            {"name": "a b", "partition_indexes": [0]}, {"name": topic, "partition_indexes": []}]})
        equal([t["name"] for t in answer["topics"]], [topic, "absent", "a b", topic], "topics")
        equal([(p["partition_index"], p["error_code"], p["error_message"]) for p in answer["topics"][0]["partitions"]],
              [(n, UNKNOWN_TOPIC if n in (3, -1) else NONE, None) for n in (1, 0, 2, 3, -1, 1)], "partitions")
        here = [{"last_timestamp": 1700000000500, "coordinator_epoch": -1, "current_txn_start_offset": -1,
                 "producer_id": producer, "producer_epoch": epoch, "last_sequence": last}
                for producer, epoch, last in ((70000, 1, 3), (5, 2, 1))]
        equal([p["active_producers"] for p in answer["topics"][0]["partitions"]], [here, [], [], [], [], here], "who")
        equal([(p["error_code"], p["error_message"]) for t in answer["topics"][1:3] for p in t["partitions"]],
              [(UNKNOWN_TOPIC, "This server does not host this topic-partition."),
               (INVALID_TOPIC, "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
                               "alphanumerics, '.', '_' and '-'")], "no such topics")


def quorum(c, version, *topics):
    return ask(c, "describe_quorum", version, {"topics": [
        {"topic_name": name, "partitions": [{"partition_index": p} for p in numbers]} for name, numbers in topics]})


def test_describe_quorum():
    with connect() as c:
        ends = []
        for version in (0, 1, 2):
            new_topic(c)
            before = int(1000 * time.time())
            answer = quorum(c, version, ("__cluster_metadata", [0]))
            equal((answer["error_code"], answer.get("error_message", "")), (NONE, ""), "error")
            [(name, [p])] = [(t["topic_name"], t["partitions"]) for t in answer["topics"]]
            equal((name, p["partition_index"], p["error_code"], p["leader_id"]), ("__cluster_metadata", 0, NONE, 1), "who")
            expect(p["leader_epoch"] >= 1, f"the term: {p}")
            [voter] = p["current_voters"]
            equal((voter["replica_id"], p["observers"]), (1, []), "voters")
            equal(voter["log_end_offset"], p["high_watermark"], "all of it is committed")
            ends.append(p["high_watermark"])
            if version >= 1:
                for name in ("last_fetch_timestamp", "last_caught_up_timestamp"):
                    expect(before - 1000 <= voter[name] <= before + 10000, f"{name}: {voter}")
        expect(ends[0] < ends[1] < ends[2], f"every topic is a command: {ends}")
        expect(voter["replica_directory_id"].int != 0, "the directory of group 0")
        host, port = shared.node.kafka.rsplit(":", 1)
        equal(answer["nodes"], [{"node_id": 1, "listeners": [{"name": "CONTROLLER", "host": host, "port": int(port)}]}],
              "nodes")
        for topics in ([("absent", [0])], [("__cluster_metadata", [0, 1])], [("__cluster_metadata", [])], [],
                       [("__cluster_metadata", [0]), ("absent", [3])]):
            answer = quorum(c, 2, *topics)
            equal((answer["error_code"], answer["nodes"]), (NONE, []), "refused partition by partition")
            equal([(t["topic_name"], [(p["partition_index"], p["error_code"], p["leader_id"]) for p in t["partitions"]])
                   for t in answer["topics"]], [(n, [(p, UNKNOWN_TOPIC, 0) for p in ps]) for n, ps in topics], "each")


def test_telemetry_is_not_listed():
    """As a Kafka broker without a receiver of metrics: clients then send none."""
    with connect() as c:
        keys = {k["api_key"] for k in ask(c, "api_versions", 4, {"client_software_name": "t",
                                                                 "client_software_version": "1"})["api_keys"]}
        equal(keys & {71, 72}, set(), "GetTelemetrySubscriptions, PushTelemetry")


# ---- elections and reassignments ----

def test_elect_leaders():
    with connect() as c:
        topic = new_topic(c, 2)
        for version in (0, 1, 2):
            answer = ask(c, "elect_leaders", version, {"topic_partitions": [
                {"topic": topic, "partitions": [0, 1, 2]}, {"topic": "absent", "partitions": [0]}]})
            equal(partition_errors(answer["replica_election_results"], "partition_result", "partition_id"),
                  {topic: [(0, ELECTION_NOT_NEEDED), (1, ELECTION_NOT_NEEDED), (2, UNKNOWN_TOPIC)],
                   "absent": [(0, UNKNOWN_TOPIC)]}, f"v{version}")
        answer = ask(c, "elect_leaders", 2, {"topic_partitions": None, "election_type": 1})
        equal(answer["error_code"], NONE, "all")
        equal({tuple(t["partition_result"]) for t in answer["replica_election_results"]}, {()}, "nothing to elect")
        equal(ask(c, "elect_leaders", 2, {"election_type": 7})["error_code"], INVALID_REQUEST, "type 7")


def test_reassignments():
    with connect() as c:
        topic = new_topic(c, 5)
        equal(ask(c, "list_partition_reassignments", 0, {"topics": None})["topics"], [], "under way")
        plans = [[1], None, [], [2], [1, 1]]
        answer = ask(c, "alter_partition_reassignments", 1, {"topics": [
            {"name": topic, "partitions": [{"partition_index": i, "replicas": p} for i, p in enumerate(plans)]},
            {"name": "absent", "partitions": [{"partition_index": 0, "replicas": [1]}]}]})
        equal(answer["error_code"], NONE, "error")
        equal(partition_errors(answer["responses"], "partitions", "partition_index"),
              {topic: [(0, NONE), (1, NO_REASSIGNMENT), (2, INVALID_ASSIGNMENT), (3, INVALID_ASSIGNMENT),
                       (4, INVALID_ASSIGNMENT)], "absent": [(0, UNKNOWN_TOPIC)]}, "errors")


# ---- what there is none of ----

def test_acls_are_disabled():
    with connect() as c:
        for version in (1, 2, 3):
            found = ask(c, "describe_acls", version, {"operation": 1, "permission_type": 1, "resource_type_filter": 1})
            equal(found["error_code"], SECURITY_DISABLED, "describe")
            made = ask(c, "create_acls", version, {"creations": [{"principal": "User:a"}, {"principal": "User:b"}]})
            equal([r["error_code"] for r in made["results"]], [SECURITY_DISABLED] * 2, "create")
            gone = ask(c, "delete_acls", version, {"filters": [{}, {}, {}]})
            equal([r["error_code"] for r in gone["filter_results"]], [SECURITY_DISABLED] * 3, "delete")


def test_quotas():
    def ask_for(c, *components):
        keys = ("entity_type", "match_type", "match")
        answer = ask(c, "describe_client_quotas", 1, {"components": [dict(zip(keys, x)) for x in components]})
        return answer["error_code"], answer["entries"]
    with connect() as c:
        equal(ask_for(c), (NONE, []), "all")
        equal(ask_for(c, ("user", 0, "a"), ("client-id", 2, None)), (NONE, []), "some")
        for bad in (("", 0, "a"), ("user", 0, None), ("user", 1, "a"), ("user", 2, "a"), ("user", 3, None)):
            equal(ask_for(c, bad), (INVALID_REQUEST, None), f"{bad}")
        equal(ask_for(c, ("user", 2, None), ("user", 2, None)), (INVALID_REQUEST, None), "twice")
        equal(ask_for(c, ("planet", 2, None)), (UNSUPPORTED_VERSION, None), "unknown type")


def test_users():
    with connect() as c:
        for users in (None, []):
            answer = ask(c, "describe_user_scram_credentials", 0, {"users": users})
            equal((answer["error_code"], answer["results"]), (NONE, []), "all")
        answer = ask(c, "describe_user_scram_credentials", 0, {"users": [{"name": n} for n in ("a", "b", "a")]})
        equal([(r["user"], r["error_code"]) for r in answer["results"]], [("a", DUPLICATE), ("b", RESOURCE_NOT_FOUND)],
              "one each")


def test_transactions():
    with connect() as c:
        for version in (0, 1, 2):
            answer = ask(c, "list_transactions", version, {"state_filters": ["Ongoing", "Odd"]})
            equal((answer["error_code"], answer["unknown_state_filters"], answer["transaction_states"]),
                  (NONE, ["Odd"], []), "list")
        for pattern, wanted in (("t.*", NONE), ("", NONE), (None, NONE), ("(", INVALID_PATTERN), ("[a", INVALID_PATTERN)):
            answer = ask(c, "list_transactions", 2, {"transactional_id_pattern": pattern})
            equal(answer["error_code"], wanted, f"pattern {pattern}")
        answer = ask(c, "describe_transactions", 0, {"transactional_ids": ["t", ""]})
        equal([(t["transactional_id"], t["error_code"]) for t in answer["transaction_states"]],
              [("t", TRANSACTIONAL_ID_NOT_FOUND), ("", INVALID_REQUEST)], "describe")


def test_features():
    with connect() as c:
        update = {"feature_updates": [{"feature": "metadata.version", "max_version_level": 25}]}
        for version in (0, 1, 2):
            answer = ask(c, "update_features", version, update)
            equal((answer["error_code"], answer.get("results", [])), (INVALID_UPDATE, []), "all or nothing")
        equal(ask(c, "update_features", 2, {})["error_code"], NONE, "nothing to do")


# ---- what the comparison with Apache Kafka found (by_hand/oracle.py) ----

def test_client_software_is_checked():
    with connect() as c:
        for name, version, error in (("a b", "1", INVALID_REQUEST), ("", "1", INVALID_REQUEST), ("a", "-", INVALID_REQUEST),
                                     ("a", "1.", INVALID_REQUEST), ("librdkafka", "2.0.2-rc.1", NONE)):
            answer = ask(c, "api_versions", 3, {"client_software_name": name, "client_software_version": version})
            equal((answer["error_code"], bool(answer["api_keys"])), (error, error == NONE), f"{name!r} {version!r}")


def test_impossible_names_are_told_from_unknown_ones():
    with connect() as c:
        for name, error in (("absent", UNKNOWN_TOPIC), ("", INVALID_TOPIC), ("..", INVALID_TOPIC), ("a b", INVALID_TOPIC)):
            answer = ask(c, "metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": 0})
            equal([t["error_code"] for t in answer["topics"]], [error], f"metadata {name!r}")
            equal(describe_topics(c, [name])[0], [(name, error, [])], "describe")


def test_the_brokers_own_topic():
    """Kafka lets clients do all that is refused here: by_hand/oracle_differences.py has no row for what is lost."""
    name = "__consumer_offsets"
    with connect() as c:
        def create(name, partitions, **configs):
            [topic] = ask(c, "create_topics", 7, {"timeout_ms": 5000, "topics": [
                {"name": name, "num_partitions": partitions, "replication_factor": -1,
                 "configs": [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()]}]})["topics"]
            return topic

        def described():
            [t] = ask(c, "metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": 0})["topics"]
            return t["error_code"], t["is_internal"], len(t["partitions"])
        equal(described(), (UNKNOWN_TOPIC, 1, 0), "internal by its name")
        equal(create(name, 3, cleanup_policy="delete")["error_code"], INVALID_CONFIG, "its offsets would go")
        for other in ("__cluster_metadata", "__transaction_state", "__share_group_state"):
            made = create(other, 1)
            equal((made["error_code"], made["error_message"]),
                  (INVALID_REQUEST, f"Creation of internal topic {other} is prohibited."), other)
        made = create(name, -1)
        own = {k["name"]: k["value"] for k in made["configs"] if k["config_source"] == 1}
        equal((made["error_code"], made["num_partitions"], own),
              (NONE, 50, {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "8388608"}), "made")
        equal(described(), (NONE, 1, 50), "as it is wanted")
        [t] = ask(c, "delete_topics", 6, {"topics": [{"name": name}], "timeout_ms": 5000})["responses"]
        equal(t["error_code"], POLICY_VIOLATION, "deleted")
        expect("cannot be deleted" in t["error_message"], t["error_message"])
        [t] = ask(c, "create_partitions", 3, {"topics": [{"name": name, "count": 51}], "timeout_ms": 5000})["results"]
        equal(t["error_code"], POLICY_VIOLATION, "more partitions")
        [t] = ask(c, "delete_records", 2, {"topics": [{"name": name, "partitions": [
            {"partition_index": 0, "offset": -1}]}], "timeout_ms": 1000})["topics"]
        equal([p["error_code"] for p in t["partitions"]], [INVALID_TOPIC], "trimmed")
        equal(c.produce(name, 0, batch([b"v"]))[0], INVALID_TOPIC, "written")
        equal(described(), (NONE, 1, 50), "as it was")


def test_created_with_assignments_in_any_order():
    with connect() as c:
        def create(name, *assignments, version=7):
            [topic] = ask(c, "create_topics", version, {"timeout_ms": 1000, "topics": [
                {"name": name, "num_partitions": -1, "replication_factor": -1, "configs": [
                    {"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}],
                 "assignments": [{"partition_index": p, "broker_ids": ids} for p, ids in assignments]}]})["topics"]
            return topic
        made = create(shared.new_name(), (2, [1]), (0, [1]), (1, [1]))
        equal((made["error_code"], made["error_message"], made["num_partitions"]), (NONE, None, 3), "made")
        equal([k["value"] for k in made["configs"] if k["name"] == "retention.ms"], ["2"], "the last counts")
        for assignments, text in ((((0, [1]), (2, [1])), "partitions should be a consecutive 0-based integer sequence"),
                                  (((0, [1]), (0, [1])), "Found multiple manual partition assignments for partition 0"),
                                  (((0, [7]),), "The manual partition assignment includes broker 7, but no such broker is "
                                                "registered.")):
            made = create(shared.new_name(), *assignments)
            equal((made["error_code"], made["error_message"]), (INVALID_ASSIGNMENT, text), f"{assignments}")


def test_deleted_by_either_name():
    with connect() as c:
        names = [new_topic(c) for _ in range(3)]
        ids = {t["name"]: t["topic_id"] for t in ask(c, "metadata", 12, {"topics": [{"name": n} for n in names]})["topics"]}

        def delete(*topics):
            return [(t["name"], t["topic_id"], t["error_code"]) for t in ask(
                c, "delete_topics", 6, {"topics": list(topics), "timeout_ms": 5000})["responses"]]
        both = (names[0], ids[names[0]])
        equal(delete({"name": names[0]}, {"topic_id": ids[names[0]]}), [(*both, INVALID_REQUEST)] * 2, "one topic twice")
        equal(delete({"name": names[0]}), [(*both, NONE)], "by name: its id")
        equal(delete({"topic_id": ids[names[1]]}), [(names[1], ids[names[1]], NONE)], "by id: its name")
        equal(delete({"topic_id": ids[names[1]]}), [(None, ids[names[1]], UNKNOWN_ID)], "gone")


def test_null_where_kafka_has_null():
    with connect() as c:
        name = new_topic(c)
        body = {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1000, "session_epoch": -1, "topics": [
            {"topic": name, "partitions": [{"partition": p, "current_leader_epoch": -1, "partition_max_bytes": 1000,
                                            "last_fetched_epoch": -1} for p in (0, 9)]}]}
        for isolation, wanted in ((0, [None, []]), (1, [[], []])):
            answer = ask(c, "fetch", 12, {**body, "isolation_level": isolation})
            equal([p["aborted_transactions"] for p in answer["responses"][0]["partitions"]], wanted, "aborted transactions")
        [described] = ask(c, "describe_configs", 4, {"resources": [
            {"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms"]}]})["results"]
        equal(described["configs"][0]["documentation"], None, "documentation")
        equal(ask(c, "list_partition_reassignments", 0, {})["error_message"], None, "reassignments")


def test_quotas_of_an_address_and_a_user():
    with connect() as c:
        answer = ask(c, "describe_client_quotas", 1, {"components": [
            {"entity_type": kind, "match_type": 2, "match": None} for kind in ("ip", "user")]})
        equal((answer["error_code"], answer["entries"]), (INVALID_REQUEST, None), "both")


run_all(globals())

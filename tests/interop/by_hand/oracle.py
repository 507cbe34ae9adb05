#!/usr/bin/env python3
"""The same raw requests to Coreflume and to Apache Kafka; answers are compared field by field.

`oracle.py [AREA...]`: areas are the ask_* functions of oracle_requests.py and oracle_groups.py. What differs must be named and explained in
oracle_differences.py, and what is explained there must still differ; all else is a failure. --save FILE keeps both
sides' answers as JSON. --kafka prints what Kafka alone answers.
"""
import argparse
import json
import re
import subprocess
import sys
import time
import uuid

import oracle_differences
import oracle_groups
import oracle_requests
from support.definitions import ask, codec, receive, send
from support.kafka_tools import ApacheKafka, install
from support.node import Node, fresh_dir
from support.wire import Connection, batches

SECONDS = 8
# Of both: groups do not wait for members that may come.
SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.consumer.assignment.interval.ms=0")
NO_ID = uuid.UUID(int=0)
IDENTITY = ("name", "topic", "topic_name", "resource_name", "partition_index", "partition", "index", "partition_id", "key",
            "api_key", "node_id", "broker_id", "feature", "transactional_id", "user", "topic_id", "batch_index", "group_id", "member_id")
# What is another on each server, and says nothing: kept as "there" or "not there".
OPAQUE = {"cluster_id": "cluster", "producer_id": "producer id", "session_id": "session", "log_dir": "directory",
          "total_bytes": "bytes", "usable_bytes": "bytes", "subscription_id": "subscription"}
TIMES = ("timestamp", "log_append_time_ms", "last_timestamp", "last_fetch_timestamp", "last_caught_up_timestamp")


class Server:
    """One side: asks, and keeps every answer under its label."""

    def __init__(self, title, node):
        self.title, self.node = title, node
        self.port = node.kafka.rsplit(":", 1)[1]
        self.answers, self.ids, self.area = {}, {}, ""
        self.members = {}  # Ids that the server made, and what the lists of requests call them.
        self.connection = Connection(node.kafka, SECONDS)
        self.groups = 0

    # ---- for the lists of requests ----

    def ask(self, label, api, request, versions=None):
        """In every version that is stable (or those given); request may be a function of the version. Returns the
        last answer."""
        answer = None
        for version in versions if versions is not None else self.versions(api):
            body = request(version) if callable(request) else request
            answer = self.once(api, version, body)
            self.keep(f"{api} v{version}: {label}", answer)
        return answer

    def versions(self, api):
        definition = codec(api, 0).api
        return range(definition.versions[0], definition.stable_max + 1)

    def once(self, api, version, body):
        try:
            if api != "consumer_group_heartbeat":
                return ask(self.connection, api, version, body)
            sent = send(self.connection, api, version, body)  # Ours may wait with it for news, or a request behind it.
            behind = send(self.connection, "find_coordinator", 4, {"coordinator_keys": []})
            answer = receive(self.connection, api, version, sent)
            receive(self.connection, "find_coordinator", 4, behind)
            return answer
        except (EOFError, TimeoutError, ConnectionError) as gone:
            self.connection.socket.close()
            self.connection = Connection(self.node.kafka, SECONDS)
            return {"connection": "no answer" if isinstance(gone, TimeoutError) else "closed"}

    def raw(self, limit=None):
        """What comes back to a frame that was sent as it was: nothing, or its bytes without the correlation id."""
        try:
            reader = self.connection.receive()
            reader.i32()
            return {"bytes": reader.take(reader.left() if limit is None else limit).hex()}
        except (EOFError, TimeoutError, ConnectionError) as gone:
            self.connection.socket.close()
            self.connection = Connection(self.node.kafka, SECONDS)
            return {"connection": "no answer" if isinstance(gone, TimeoutError) else "closed"}

    def keep(self, label, answer):
        label = f"{self.area}/{label}"
        assert label not in self.answers, label
        self.answers[label] = self.plain(None, answer)

    def count_group(self):
        """For a group's name, which is the same on both sides."""
        self.groups += 1
        return self.groups

    def create(self, name, partitions=1, **configs):
        pairs = [{"name": key.replace("_", "."), "value": str(value)} for key, value in configs.items()]
        made = ask(self.connection, "create_topics", 7, {"topics": [
            {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": pairs}]})["topics"][0]
        if made["error_code"]:
            raise AssertionError(f"{self.title}: create {name}: {made}")
        self.ids[name] = made["topic_id"]
        self.settle(name, partitions)
        return name

    def settle(self, name, partitions):
        """What the controller has decided, the broker knows a little later."""
        def leads():
            topic = ask(self.connection, "metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": 0})
            found = topic["topics"][0]["partitions"]
            if len(found) != partitions or not all(p["leader_id"] >= 0 and not p["error_code"] for p in found):
                return False
            ends = ask(self.connection, "list_offsets", 5, {"replica_id": -1, "topics": [{"name": name, "partitions": [
                {"partition_index": p, "timestamp": -1, "current_leader_epoch": -1} for p in range(partitions)]}]})
            return not any(p["error_code"] for p in ends["topics"][0]["partitions"])
        self.until(leads)

    def until(self, condition):
        ends = time.monotonic() + 60
        while not condition():
            if time.monotonic() > ends:
                raise AssertionError(f"{self.title}: {condition} never came true")
            time.sleep(0.05)

    def pause(self):
        """For what the broker takes over a little later without a way to see that."""
        time.sleep(0.5)

    # ---- making two servers' answers comparable ----

    def plain(self, field, value):
        if isinstance(value, dict):
            return {name: self.plain(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.plain(field, inner) for inner in value]
        if isinstance(value, uuid.UUID):
            known = [name for name, topic_id in self.ids.items() if topic_id == value]
            return f"id of {known[0]}" if known else ("no id" if value == NO_ID else "some id")
        if isinstance(value, bytes):
            return [list(map(str, batch)) for batch in batches(value)] if field == "records" else value.hex()
        if isinstance(value, str):
            return self.plain_text(field, value)
        if field in OPAQUE and value not in (-1, 0):
            return f"some {OPAQUE[field]}"
        if field in TIMES and value > 1_500_000_000_000:
            return "some time"
        if field == "port" and str(value) == self.port:
            return "the port"
        return value

    def plain_text(self, field, text):
        if field in OPAQUE:
            return f"some {OPAQUE[field]}" if text else text
        for member, called in self.members.items():
            text = text.replace(member, called)
        text = re.sub(r"\braw-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "MEMBER", text)
        text = text.replace(oracle_requests.LONG, "LONG")
        text = re.sub(r"\b1[6-9]\d{11}\b", "TIME", text)
        return text.replace(self.node.kafka, "HOST:PORT").replace(f":{self.port}", ":PORT")


# ---- comparing ----

def identified(items):
    """Pairs of a name and an item: what the item calls itself, or its position."""
    seen, out = {}, []
    for position, item in enumerate(items):
        name = str(position)
        if isinstance(item, dict):
            name = next((str(item[key]) for key in IDENTITY if item.get(key) not in (None, "")), name)
            if item.get("name", item.get("topic", item.get("group_id"))) == "" and "resource_name" not in item:
                name = '""'
        seen[name] = seen.get(name, 0) + 1
        out.append((name if seen[name] == 1 else f"{name}#{seen[name]}", item))
    return out


def differences(kafka, ours, path=""):
    """(path, Kafka's value, ours) of each field that differs."""
    if isinstance(kafka, dict) and isinstance(ours, dict):
        if kafka.get("error_code", 0) != ours.get("error_code", 0):
            kafka, ours = ({name: value for name, value in side.items() if not isinstance(value, list)} for side in (kafka, ours))
        for name in sorted(set(kafka) | set(ours)):
            yield from differences(kafka.get(name, "(absent)"), ours.get(name, "(absent)"), f"{path}.{name}".lstrip("."))
    elif isinstance(kafka, list) and isinstance(ours, list) and any(isinstance(i, dict) for i in kafka + ours):
        theirs, mine = identified(kafka), identified(ours)
        by_name = dict(mine)
        for name, item in theirs:
            yield from differences(item, by_name.get(name, "(absent)"), f"{path}[{name}]")
        for name, item in mine:
            if name not in dict(theirs):
                yield f"{path}[{name}]", "(absent)", item
        order = [[name for name, _ in side if name in dict(other)] for side, other in ((theirs, mine), (mine, theirs))]
        if order[0] != order[1]:
            yield f"{path}(order)", " ".join(order[0]), " ".join(order[1])
    elif kafka != ours:
        yield path, kafka, ours


def short(value, limit=240):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= limit else text[:limit] + f"... ({len(text)} characters)"


class Report:
    def __init__(self):
        self.compared = self.explained = 0
        self.used, self.unexplained = set(), {}

    def judge(self, label, found):
        for path, kafka, ours in found:
            where = f"{label}: {path}"
            reason = next((i for i, (pattern, _) in enumerate(oracle_differences.EXPLAINED)
                           if re.search(pattern, f"{where}: {short(kafka, 400)} | {short(ours, 400)}")), None)
            if reason is None:
                self.unexplained.setdefault((re.sub(r"\[[^]]*\]", "[]", path), short(kafka), short(ours)), []).append(label)
            else:
                self.used.add(reason)
                self.explained += 1

    def close(self, all_areas):
        for (path, kafka, ours), labels in self.unexplained.items():
            print(f"not explained, {len(labels)} times: {path}\n      kafka: {kafka}\n      ours:  {ours}\n      in     "
                  + " | ".join(labels[:3]))
        stale = [oracle_differences.EXPLAINED[i][0] for i in range(len(oracle_differences.EXPLAINED))
                 if i not in self.used] if all_areas else []
        for pattern in stale:
            print(f"explained, but does not differ: {pattern}")
        print(f"{self.compared} answers compared; {self.explained} fields differ as explained by {len(self.used)} reasons, "
              f"{len(self.unexplained)} without")
        bad = len(self.unexplained) + len(stale)
        print(f"{self.compared} passed, {bad} failed")
        return 1 if bad or not self.compared else 0


def print_kafka(functions, areas):
    with ApacheKafka("oracle", *SETTINGS) as kafka:
        side = Server("kafka", kafka)
        for area in areas:
            side.area = area
            functions[area](side)
        for label, answer in side.answers.items():
            print(f"{label}: {json.dumps(answer)}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", help="keep both sides' answers here")
    parser.add_argument("--kafka", action="store_true", help="print what Kafka alone answers")
    parser.add_argument("areas", nargs="*")
    options = parser.parse_args()
    install()
    functions = {name[4:]: f for module in (oracle_requests, oracle_groups) for name, f in vars(module).items()
                 if name.startswith("ask_")}
    areas = options.areas or list(functions)
    if options.kafka:
        return print_kafka(functions, areas)
    report, saved = Report(), {}
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    with ApacheKafka("oracle", *SETTINGS) as kafka, Node(fresh_dir("oracle") / "data", "--node-id", "1", *settings) as ours:
        sides = [Server("kafka", kafka), Server("coreflume", ours)]
        for area in areas:
            for side in sides:
                side.area = area
                functions[area](side)
        for label, answer in sides[0].answers.items():
            report.compared += 1
            report.judge(label, differences(answer, sides[1].answers[label]))
            saved[label] = {"kafka": answer, "coreflume": sides[1].answers[label]}
    if options.save:
        with open(options.save, "w") as file:
            json.dump(saved, file, indent=1)
    return report.close(not options.areas)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}: {(error.stderr or b'')[-500:]}")

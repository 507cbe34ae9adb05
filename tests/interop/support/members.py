"""Members of groups by hand, one request at a time, and the embedded messages of protocol type "consumer"."""
import time

from support.check import equal, expect
from support.definitions import ask, receive, send
from support.wire import Connection, i16, i32, string


def subscription(topics, version=0, owned=(), generation=-1, rack=None, user_data=None):
    """What a member hands in at JoinGroup; owned has (topic, partitions)."""
    out = i16(version) + i32(len(topics)) + b"".join(map(string, topics)) + data(user_data)
    if version >= 1:
        out += by_topic(owned)
    if version >= 2:
        out += i32(generation)
    if version >= 3:
        out += string(rack)
    return out


def assignment(parts, version=0, user_data=None):
    """What the leader hands in at SyncGroup; parts has (topic, partitions)."""
    return i16(version) + by_topic(parts) + data(user_data)


def by_topic(parts):
    return i32(len(parts)) + b"".join(string(topic) + i32(len(partitions)) + b"".join(map(i32, partitions))
                                      for topic, partitions in parts)


def data(content):
    return i32(-1) if content is None else i32(len(content)) + content


class Members:
    """Members of groups by hand, on one connection each; all end with it."""

    def __init__(self, address):
        self.address, self.connections = address, []

    def connect(self):
        self.connections.append(Connection(self.address, 60))
        return self.connections[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.connections:
            connection.socket.close()


class Classic:
    """A member of a classic group: joins at once, and leads when it is told to."""

    def __init__(self, members, group, topics, instance=None, kind="consumer", session_ms=600000, rebalance_ms=60000):
        self.members, self.group, self.topics, self.instance, self.kind = members, group, topics, instance, kind
        self.session_ms, self.rebalance_ms, self.protocol = session_ms, rebalance_ms, "range"
        self.connection, self.id, self.generation = members.connect(), "", -1

    def ask(self, api, version, body):
        return ask(self.connection, api, version, {"group_id": self.group, "member_id": self.id, "generation_id": self.generation,
                                                   "group_instance_id": self.instance, **body})

    def join_body(self, member_id=None):
        return {"group_id": self.group, "session_timeout_ms": self.session_ms, "rebalance_timeout_ms": self.rebalance_ms,
                "member_id": self.id if member_id is None else member_id, "group_instance_id": self.instance, "protocol_type": self.kind,
                "protocols": [{"name": self.protocol, "metadata": subscription(self.topics)}]}

    def start_join(self):
        """Sends the join, with an id when the server wants that first; end_join has the answer."""
        if not self.id and not self.instance:
            self.id = ask(self.connection, "join_group", 9, self.join_body())["member_id"]
        return send(self.connection, "join_group", 9, self.join_body())

    def end_join(self, correlation_id):
        answer = receive(self.connection, "join_group", 9, correlation_id)
        if answer["error_code"] == 0:
            self.id, self.generation = answer["member_id"], answer["generation_id"]
        return answer

    def join(self):
        return self.end_join(self.start_join())

    def sync(self, parts=None):
        """parts: the assignment of each member id, from the leader."""
        given = [{"member_id": member, "assignment": assignment(what)} for member, what in (parts or {}).items()]
        return self.ask("sync_group", 5, {"protocol_type": self.kind, "protocol_name": self.protocol, "assignments": given})

    def alone(self, parts):
        """Becomes the only member, with these partitions."""
        expect(self.join()["error_code"] == 0, "joins")
        equal(self.sync({self.id: parts})["error_code"], 0, "syncs")
        return self

    def heartbeat(self):
        return self.ask("heartbeat", 4, {})["error_code"]

    def leave(self):
        return self.ask("leave_group", 5, {"members": [{"member_id": self.id, "group_instance_id": self.instance}]})["members"][0]["error_code"]

    def commit(self, *offsets, version=8):
        return commit(self.connection, self.group, offsets, version, self.generation, self.id, self.instance)


class Consumer:
    """A member of a group of the new protocol. A node may hold its heartbeat until there is news, or another request
    behind it: there always is."""

    def __init__(self, members, group, topics, instance=None, member_id=None):
        self.connection, self.group, self.topics, self.instance = members.connect(), group, topics, instance
        self.id, self.epoch, self.owned = member_id or f"member of {group}", 0, []

    def heartbeat(self, **more):
        joins = {"rebalance_timeout_ms": 60000, "subscribed_topic_names": self.topics, "topic_partitions": []} if self.epoch == 0 else {}
        sent = send(self.connection, "consumer_group_heartbeat", 1, {
            "group_id": self.group, "member_id": self.id, "member_epoch": self.epoch, "instance_id": self.instance,
            "rebalance_timeout_ms": -1, **joins, **more})
        behind = send(self.connection, "find_coordinator", 4, {"coordinator_keys": []})
        answer = receive(self.connection, "consumer_group_heartbeat", 1, sent)
        receive(self.connection, "find_coordinator", 4, behind)
        if answer["error_code"] == 0:
            self.epoch = answer["member_epoch"]
            if answer["assignment"] is not None:
                self.owned = answer["assignment"]["topic_partitions"]
        return answer

    def settle(self, partitions, seconds=30):
        """Until it owns that many partitions, and says so."""
        def owns():
            self.heartbeat(topic_partitions=self.owned)
            return sum(len(topic["partitions"]) for topic in self.owned) == partitions
        until(owns, seconds)
        self.heartbeat(topic_partitions=self.owned)
        return self

    def leave(self, epoch=-1):
        self.epoch = epoch
        return self.heartbeat()["error_code"]

    def commit(self, *offsets, version=9):
        return commit(self.connection, self.group, offsets, version, self.epoch, self.id, self.instance)


def commit(connection, group, offsets, version=8, generation=-1, member="", instance=None, **more):
    """offsets has (topic, partition, offset[, leader epoch[, metadata]]); the codes, in the order of offsets."""
    topics = [{"name": topic, "partitions": [{"partition_index": partition, "committed_offset": offset,
                                              "committed_leader_epoch": rest[0] if rest else -1,
                                              "committed_metadata": rest[1] if len(rest) > 1 else ""}]}
              for topic, partition, offset, *rest in offsets]
    answer = ask(connection, "offset_commit", version, {"group_id": group, "generation_id_or_member_epoch": generation,
                                                        "member_id": member, "group_instance_id": instance, "topics": topics, **more})
    codes = {(topic["name"], p["partition_index"]): p["error_code"] for topic in answer["topics"] for p in topic["partitions"]}
    return [codes[topic, partition] for topic, partition, *_ in offsets]


def committed(connection, group, topics=None):
    """(offset, leader epoch, metadata) of each partition asked for ({topic: partitions}), or of all that the group has."""
    asked = topics and [{"name": topic, "partition_indexes": list(partitions)} for topic, partitions in topics.items()]
    answer = ask(connection, "offset_fetch", 9, {"groups": [{"group_id": group, "topics": asked}]})["groups"][0]
    equal(answer["error_code"], 0, f"offsets of {group}")
    found = {}
    for topic in answer["topics"]:
        for p in topic["partitions"]:
            equal(p["error_code"], 0, f"offset of {topic['name']}-{p['partition_index']}")
            found[topic["name"], p["partition_index"]] = (p["committed_offset"], p["committed_leader_epoch"], p["metadata"])
    return found


def state(connection, group):
    """As DescribeGroups of version 5 has it."""
    return ask(connection, "describe_groups", 5, {"groups": [group]})["groups"][0]["group_state"]


def until(condition, seconds=30):
    ends = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < ends, f"not within {seconds} s")
        time.sleep(0.05)


def coordinated(connection):
    """Kafka makes its topic for groups when one is asked for first; ours may too."""
    until(lambda: ask(connection, "find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]})["coordinators"][0]["error_code"] == 0)
    until(lambda: ask(connection, "offset_fetch", 9, {"groups": [{"group_id": "g", "topics": None}]})["groups"][0]["error_code"] == 0)

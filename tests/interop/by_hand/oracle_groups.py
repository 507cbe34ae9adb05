"""What both servers are asked about groups and offsets. An area is a function ask_*, as in oracle_requests.py; each
request that may change a group meets a fresh one."""
import uuid

from support.definitions import receive, send
from support.members import assignment, subscription
from support.wire import Connection

TOPIC, OTHER = "groups-t", "groups-u"
NOBODY = "raw-00000000-0000-0000-0000-000000000000"
STATES = ("unknown", "simple", "empty", "preparing", "completing", "stable", "consumer empty", "consumer")
UNKNOWN_ID = uuid.UUID("11111111-2222-4333-8444-555555555555")


class Group:
    """A group in a state of our choice, held there by connections of its members."""
    def __init__(self, s, state, instance=None, kind="consumer", session_ms=60000):
        self.s, self.state, self.instance, self.kind = s, state, instance, kind
        self.name = f"{s.area}-{s.count_group()}"
        self.session_ms = session_ms
        self.member, self.generation, self.connections = "", -1, []
        getattr(self, state.replace(" ", "_"))()

    # ---- states ----

    def unknown(self):
        pass

    def simple(self):
        """Offsets, and never a member."""
        self.commit(-1, "")

    def completing(self):
        answer = self.join()
        self.member, self.generation = answer["member_id"], answer["generation_id"]
        self.s.members[self.member] = "A"

    def stable(self):
        self.completing()
        answer = self.sync()
        assert answer["error_code"] == 0, answer
        self.commit(self.generation, self.member)

    def preparing(self):
        """The second member waits for the first, which does not come."""
        self.stable()
        waiting = self.connect()
        send(waiting, "join_group", 3, self.join_body())
        self.s.until(lambda: self.described() == "PreparingRebalance")

    def empty(self):
        self.stable()
        self.s.once("leave_group", 2, {"group_id": self.name, "member_id": self.member})
        if self.instance:
            static = {"member_id": "", "group_instance_id": self.instance}
            self.s.once("leave_group", 4, {"group_id": self.name, "members": [static]})

    def consumer(self):
        """One member of the new protocol."""
        self.member = f"member of {self.name}"
        self.s.members[self.member] = "A"
        answer = self.heartbeat(0)
        while not (answer["assignment"] or {"topic_partitions": 0})["topic_partitions"]:
            answer = self.heartbeat(answer["member_epoch"], topic_partitions=[])
        self.generation = answer["member_epoch"]
        owned = [{"topic_id": t["topic_id"], "partitions": t["partitions"]} for t in answer["assignment"]["topic_partitions"]]
        self.heartbeat(self.generation, topic_partitions=owned)
        self.commit(self.generation, self.member)

    def consumer_empty(self):
        self.consumer()
        self.heartbeat(-1)

    # ---- its members' requests ----

    def connect(self):
        self.connections.append(Connection(self.s.node.kafka, 60))
        return self.connections[-1]

    def join_body(self, member="", protocols=("range",), **more):
        return {"group_id": self.name, "session_timeout_ms": self.session_ms, "rebalance_timeout_ms": 120000, "member_id": member,
                "group_instance_id": self.instance, "protocol_type": self.kind,
                "protocols": [{"name": p, "metadata": subscription([TOPIC])} for p in protocols], **more}

    def join(self, version=5, **more):
        body = self.join_body(**more)
        answer = self.s.once("join_group", version, body)
        if answer["error_code"] == 79:
            answer = self.s.once("join_group", version, {**body, "member_id": answer["member_id"]})
        assert answer["error_code"] == 0, answer
        return answer

    def sync(self, version=3):
        given = {"member_id": self.member, "assignment": assignment([(TOPIC, [0, 1])])}
        return self.s.once("sync_group", version, {
            "group_id": self.name, "generation_id": self.generation, "member_id": self.member, "group_instance_id": self.instance,
            "protocol_type": self.kind, "protocol_name": "range", "assignments": [given]})

    def commit(self, generation, member):
        answer = self.s.once("offset_commit", 9, commit_body(self, generation, member)(9))
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0, answer

    def heartbeat(self, epoch, **more):
        joins = {"rebalance_timeout_ms": 120000, "subscribed_topic_names": [TOPIC], "topic_partitions": [],
                 "instance_id": self.instance} if epoch == 0 else {"instance_id": self.instance}
        answer = self.s.once("consumer_group_heartbeat", 1, {
            "group_id": self.name, "member_id": self.member, "member_epoch": epoch, **joins, **more})
        assert answer["error_code"] == 0, answer
        return answer

    def described(self):
        return self.s.once("describe_groups", 5, {"groups": [self.name]})["groups"][0]["group_state"]

    def close(self):
        for connection in self.connections:
            connection.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def ready(s):
    """Topics to subscribe to, and a coordinator that is there (Kafka makes a topic for it first)."""
    if TOPIC not in s.ids:
        s.create(TOPIC, 2)
        s.create(OTHER, 2)
    key, group = {"key_type": 0, "coordinator_keys": ["g"]}, {"group_id": "g", "topics": None}
    s.until(lambda: s.once("find_coordinator", 6, key)["coordinators"][0]["error_code"] == 0)
    s.until(lambda: s.once("offset_fetch", 8, {"groups": [group]})["groups"][0]["error_code"] == 0)


def commit_body(group, generation, member, offset=5, partition=0, topic=TOPIC, instance=None, metadata="m", **more):
    return lambda version: {
        "group_id": group.name, "generation_id_or_member_epoch": generation, "member_id": member, "group_instance_id": instance,
        "topics": [{"name": topic, "topic_id": group.s.ids.get(topic, UNKNOWN_ID), "partitions": [
            {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": 3,
             "committed_metadata": metadata}]}],
        **more}


def identities(group):
    """(what it is called, generation, member id) of right and wrong members."""
    yield "itself", group.generation, group.member
    yield "nobody", -1, ""
    yield "generation 0 and no id", 0, ""
    yield "no generation", -1, group.member or NOBODY
    yield "generation before", group.generation - 1, group.member or NOBODY
    yield "generation after", group.generation + 1, group.member or NOBODY
    yield "stranger", group.generation, NOBODY


def in_each_state(s, versions, states=STATES):
    """(group, version, the label's beginning), the group being fresh for each."""
    ready(s)
    for state in states:
        for version in versions:
            with Group(s, state) as group:
                yield group, version, f"{state}: "


def in_kept_states(s, states=STATES, **options):
    ready(s)
    for state in states:
        with Group(s, state, **options) as group:
            yield group, f"{state}: "


# ---- areas ----

def ask_group_coordinators(s):
    ready(s)
    for kind in (0, 3, -1):
        s.ask(f"kind {kind}", "find_coordinator", {"key": "g", "key_type": kind, "coordinator_keys": ["g", "h"]}, range(1, 7))
        s.ask(f"kind {kind}, empty", "find_coordinator", {"key": "", "key_type": kind, "coordinator_keys": [""]}, range(1, 7))
        s.ask(f"kind {kind}, none", "find_coordinator", {"key_type": kind, "coordinator_keys": []}, range(4, 7))
    s.ask("twice", "find_coordinator", {"coordinator_keys": ["g", "g"]}, range(4, 7))
    s.ask("", "find_coordinator", {"key": "g"}, (0,))
    s.ask("empty", "find_coordinator", {"key": ""}, (0,))


def ask_heartbeats(s):
    for group, begin in in_kept_states(s):
        for who, generation, member in identities(group):
            s.ask(f"{begin}{who}", "heartbeat", {"group_id": group.name, "generation_id": generation, "member_id": member})
            if group.state in ("stable", "consumer"):
                s.ask(f"{begin}{who}, an instance", "heartbeat", {"group_id": group.name, "generation_id": generation,
                      "member_id": member, "group_instance_id": "i"}, (3, 4))
    for group, begin in in_kept_states(s, ("stable", "completing", "preparing"), instance="i"):
        for who, generation, member in identities(group):
            for instance in ("i", "j", None):
                s.ask(f"static {begin}{who} as {instance}", "heartbeat", {
                    "group_id": group.name, "generation_id": generation, "member_id": member, "group_instance_id": instance}, (3, 4))
    s.ask("no group id", "heartbeat", {"group_id": "", "generation_id": 1, "member_id": NOBODY})


def ask_sync(s):
    def body(group, generation, member, **more):
        return {"group_id": group.name, "generation_id": generation, "member_id": member, "protocol_type": "consumer",
                "protocol_name": "range", "assignments": [], **more}
    for group, begin in in_kept_states(s, ("unknown", "simple", "empty", "preparing", "stable", "consumer empty", "consumer")):
        for who, generation, member in identities(group):
            s.ask(f"{begin}{who}", "sync_group", body(group, generation, member))
        s.ask(f"{begin}another type", "sync_group", body(group, group.generation, group.member, protocol_type="x"), (4, 5))
        s.ask(f"{begin}another protocol", "sync_group", body(group, group.generation, group.member, protocol_name="x"), (4, 5))
        s.ask(f"{begin}no type", "sync_group", body(group, group.generation, group.member, protocol_type=None), (4, 5))
        s.ask(f"{begin}no protocol", "sync_group", body(group, group.generation, group.member, protocol_name=None), (4, 5))
        s.ask(f"{begin}an instance", "sync_group", body(group, group.generation, group.member, group_instance_id="i"), (3, 4, 5))
    for group, version, begin in in_each_state(s, s.versions("sync_group"), ("completing",)):
        for who, generation, member in list(identities(group))[1:]:
            s.ask(f"{begin}{who}", "sync_group", body(group, generation, member), (version,))
        if version >= 5:
            s.ask(f"{begin}another type", "sync_group", body(group, group.generation, group.member, protocol_type="x"), (version,))
            s.ask(f"{begin}another protocol", "sync_group", body(group, group.generation, group.member, protocol_name="x"), (version,))
        given = [{"member_id": NOBODY, "assignment": b"theirs"}, {"member_id": group.member, "assignment": b"first"},
                 {"member_id": group.member, "assignment": b"second"}]
        s.ask(f"{begin}itself", "sync_group", body(group, group.generation, group.member, assignments=given), (version,))
        s.ask(f"{begin}again", "sync_group", body(group, group.generation, group.member), (version,))
    for group, version, begin in in_each_state(s, s.versions("sync_group"), ("completing",)):
        s.ask(f"{begin}nothing is given", "sync_group", body(group, group.generation, group.member), (version,))
    with Group(s, "unknown") as group:
        group.name = ""
        s.ask("no group id", "sync_group", body(group, 1, NOBODY))


def ask_leave(s):
    for group, version, begin in in_each_state(s, s.versions("leave_group")):
        for who, member in (("stranger", NOBODY), ("nobody", ""), ("itself", group.member), ("again", group.member)):
            s.ask(f"{begin}{who}", "leave_group", {"group_id": group.name, "member_id": member, "members": [{"member_id": member}]},
                  (version,))
        s.ask(f"{begin}then", "describe_groups", {"groups": [group.name]}, (5,)) if version == 5 else None
    for state in ("stable", "preparing", "completing", "consumer"):
        for version in (3, 4, 5):
            with Group(s, state, instance="i") as group:
                def leave(label, *members):
                    s.ask(f"static {state}: {label}", "leave_group", {"group_id": group.name, "members": [
                        {"member_id": m, "group_instance_id": i} for m, i in members]}, (version,))
                leave("stranger with the instance", (NOBODY, "i"))
                leave("unknown instance", ("", "j"))
                leave("itself with another instance", (group.member, "j"))
                leave("none")
                leave("all at once", (NOBODY, None), (group.member, "i"), ("", "i"), ("", "j"))
            with Group(s, state, instance="i") as group:
                leave("by instance", ("", "i"))
            with Group(s, state, instance="i") as group:
                leave("by id alone", (group.member, None))
            with Group(s, state, instance="i") as group:
                leave("twice", (group.member, "i"), (group.member, "i"))
    s.ask("no group id", "leave_group", {"group_id": "", "member_id": NOBODY, "members": [{"member_id": NOBODY}]})


def ask_joins(s):
    for group, version, begin in in_each_state(s, s.versions("join_group"), ("unknown", "simple", "empty", "consumer empty")):
        def join(label, member="", **more):
            answer = s.once("join_group", version, {**group.join_body(member), **more})
            if label == "new":
                s.members[answer["member_id"]] = "NEW"
            s.keep(f"join_group v{version}: {begin}{label}", answer)
            return answer
        join("stranger", NOBODY)
        join("no protocols", protocols=[])
        join("no type", protocol_type="")
        join("session too short", session_timeout_ms=5999)
        join("session too long", session_timeout_ms=1800001)
        join("session 0", session_timeout_ms=0)
        join("rebalance timeout 0", NOBODY, rebalance_timeout_ms=0)
        answer = join("new")
        if answer["error_code"] == 79:
            answer = join("with the id", answer["member_id"])
        s.ask(f"{begin}then v{version}", "describe_groups", {"groups": [group.name]}, (5,)) if version in (3, 9) else None
        if answer["error_code"]:
            continue
        member = answer["member_id"]
        join("again", member)
        join("again with another protocol", member, protocols=[{"name": "other", "metadata": b"x"}])
        join("another type", member, protocol_type="connect")
    s.ask("no group id", "join_group", {"group_id": "", "session_timeout_ms": 10000, "protocol_type": "consumer",
                                        "protocols": [{"name": "range", "metadata": b""}]})


def ask_joins_of_members(s):
    """Into groups that have members: what is answered at once."""
    for state in ("completing", "stable", "preparing", "consumer"):
        for version in s.versions("join_group"):
            with_group_joined(s, state, version)


def with_group_joined(s, state, version):
    ready(s)
    with Group(s, state) as group:
        def join(label, member="", **more):
            s.ask(f"{state}: {label}", "join_group", {**group.join_body(member), **more}, (version,))
        join("stranger", NOBODY)
        join("another type", protocol_type="connect")
        join("no protocol in common", protocols=[{"name": "other", "metadata": b"x"}])
        join("member without a protocol in common", group.member, protocols=[{"name": "other", "metadata": b"x"}])
        join("an instance of a stranger", NOBODY, group_instance_id="j") if version >= 5 else None
        if state != "preparing":
            join("the member again", group.member)
            join("the member with more", group.member, protocols=[{"name": "range", "metadata": subscription([TOPIC, OTHER])},
                                                                 {"name": "other", "metadata": b"x"}])
        s.ask(f"{state}: then v{version}", "describe_groups", {"groups": [group.name]}, (6,))


def ask_static_joins(s):
    ready(s)
    for version in range(5, 10):
        for state in ("stable", "completing", "empty", "consumer"):
            with Group(s, state, instance="i") as group:
                def join(label, member="", **more):
                    answer = s.once("join_group", version, {**group.join_body(member), **more})
                    if answer["error_code"] == 0 and answer["member_id"] not in s.members:
                        s.members[answer["member_id"]] = label
                    s.keep(f"join_group v{version}: {state}: {label}", answer)
                    return answer
                old = group.member
                join("stranger as the instance", NOBODY)
                answer = join("taken over")
                s.ask(f"{state}: the old one v{version}", "heartbeat", {
                    "group_id": group.name, "generation_id": group.generation, "member_id": old, "group_instance_id": "i"}, (4,))
                s.ask(f"{state}: the old one, without its instance v{version}", "heartbeat", {
                    "group_id": group.name, "generation_id": group.generation, "member_id": old}, (4,))
                s.ask(f"{state}: the old one v{version}", "offset_commit", commit_body(group, group.generation, old, instance="i"), (8,))
                s.ask(f"{state}: the old one v{version}", "sync_group", {
                    "group_id": group.name, "generation_id": group.generation, "member_id": old, "group_instance_id": "i",
                    "protocol_type": "consumer", "protocol_name": "range"}, (5,))
                s.ask(f"{state}: the old one joins v{version}", "join_group", group.join_body(old), (version,))
                s.ask(f"{state}: the new one v{version}", "heartbeat", {
                    "group_id": group.name, "generation_id": answer["generation_id"], "member_id": answer["member_id"],
                    "group_instance_id": "i"}, (4,))
                s.ask(f"{state}: the new one v{version}", "sync_group", {
                    "group_id": group.name, "generation_id": answer["generation_id"], "member_id": answer["member_id"],
                    "group_instance_id": "i", "protocol_type": "consumer", "protocol_name": "range",
                    "assignments": [{"member_id": answer["member_id"], "assignment": b"x"}]}, (5,))
                s.ask(f"{state}: then v{version}", "describe_groups", {"groups": [group.name]}, (6,))
            with Group(s, state, instance="i") as group:
                join("taken over with more", protocols=[{"name": "range", "metadata": subscription([TOPIC, OTHER])}])
                s.ask(f"{state}: after more v{version}", "describe_groups", {"groups": [group.name]}, (6,))


def ask_commits(s):
    for group, begin in in_kept_states(s, [state for state in STATES if state != "unknown"]):
        for who, generation, member in identities(group):
            s.ask(f"{begin}{who}", "offset_commit", commit_body(group, generation, member))
            s.ask(f"{begin}{who}, an instance", "offset_commit", commit_body(group, generation, member, instance="i"), (7, 8, 9, 10))
        s.ask(f"{begin}nothing", "offset_commit", {"group_id": group.name, "generation_id_or_member_epoch": group.generation,
                                                   "member_id": group.member, "topics": []})
    for who, generation, member, instance in (
            ("stranger", 1, NOBODY, None), ("no generation", -1, NOBODY, None), ("generation and no id", 1, "", None),
            ("generation 0 and no id", 0, "", None), ("generation -2", -2, "", None), ("nobody", -1, "", None),
            ("nobody, an instance", -1, "", "i"), ("stranger, an instance", 1, NOBODY, "i")):
        for group, version, begin in in_each_state(s, s.versions("offset_commit"), ("unknown",)):
            if instance is None or version >= 7:
                s.ask(f"{begin}{who}", "offset_commit", commit_body(group, generation, member, instance=instance), (version,))
    for group, begin in in_kept_states(s, ("stable",), instance="i"):
        for who, generation, member in identities(group):
            for instance in ("i", "j", None):
                s.ask(f"static {begin}{who} as {instance}", "offset_commit", commit_body(group, generation, member, instance=instance),
                      (7, 8, 9, 10))


def ask_commits_of_partitions(s):
    ready(s)
    group = Group(s, "simple")

    def commit(label, *partitions, topics=(TOPIC,)):
        def body(version):
            ids = {**s.ids, "groups-unknown": UNKNOWN_ID, "": uuid.UUID(int=0)}
            return {"group_id": group.name, "generation_id_or_member_epoch": -1, "member_id": "", "topics": [
                {"name": t, "topic_id": ids[t], "partitions": [
                    {"partition_index": p, "committed_offset": o, "committed_leader_epoch": e, "committed_metadata": m}
                    for p, o, e, m in partitions]} for t in topics]}
        s.ask(label, "offset_commit", body)
        s.ask(f"after {label}", "offset_fetch", {"groups": [{"group_id": group.name, "topics": None}]}, (8, 9, 10))
    commit("one", (0, 7, 3, "m"))
    commit("null metadata", (0, 8, -1, None))
    commit("longest metadata", (0, 9, -1, "x" * 4096))
    commit("too long metadata", (0, 10, -1, "x" * 4097), (1, 10, -1, ""))
    commit("two bytes a letter", (0, 11, -1, "ä" * 4096))
    commit("two units a letter", (0, 11, -1, "😀" * 2049))
    commit("unknown partition", (9, 11, -1, ""), (1, 11, -1, ""), (-1, 11, -1, ""))
    commit("partition twice", (1, 12, -1, "first"), (1, 13, -1, "second"))
    commit("offset -1", (0, -1, -1, ""))
    commit("offset -2", (0, -2, -1, ""))
    commit("largest offset", (0, 2 ** 63 - 1, -1, ""))
    commit("epoch -2", (0, 14, -2, ""))
    commit("largest epoch", (0, 15, 2 ** 31 - 1, ""))
    commit("unknown topic", (0, 16, -1, ""), topics=("groups-unknown", OTHER))
    commit("no topic", (0, 16, -1, ""), topics=("",))
    commit("topic twice", (0, 17, -1, ""), topics=(TOPIC, TOPIC))
    commit("no partitions", topics=(TOPIC, "groups-unknown"))
    for label, retention in (("an hour", 3600000), ("none", 0), ("-2", -2)):
        s.ask(f"retention {label}", "offset_commit", commit_body(group, -1, "", retention_time_ms=retention), (2, 3, 4))
        s.ask(f"after retention {label}", "offset_fetch", {"groups": [{"group_id": group.name, "topics": None}]}, (8,))
    group.name = ""
    s.ask("no group id", "offset_commit", commit_body(group, -1, ""))
    s.ask("no group id, of a member", "offset_commit", commit_body(group, 1, NOBODY))
    s.ask("no group id", "offset_fetch", {"group_id": "", "topics": None, "groups": [{"group_id": "", "topics": None}]}, range(2, 11))


def ask_fetches(s):
    def fetch(label, names, topics, versions=None, **more):
        def body(version):
            asked = topics and [{"name": name, "topic_id": s.ids.get(name, UNKNOWN_ID), "partition_indexes": indexes}
                                for name, indexes in topics]
            groups = [{"group_id": name, "topics": asked, **more} for name in names]
            return {"group_id": names[0] if names else "", "topics": asked, "groups": groups}
        s.ask(label, "offset_fetch", body, versions)
    for group, begin in in_kept_states(s):
        name = group.name
        fetch(f"{begin}all", [name], None, range(2, 11))
        fetch(f"{begin}one", [name], [(TOPIC, [0])])
        fetch(f"{begin}not committed", [name], [(TOPIC, [1, 9, -1]), (OTHER, [0])])
        fetch(f"{begin}no partitions", [name], [(TOPIC, [])])
        fetch(f"{begin}no topics", [name], [])
        fetch(f"{begin}unknown topic", [name], [("groups-unknown", [0]), (TOPIC, [0])])
        fetch(f"{begin}partition twice", [name], [(TOPIC, [0, 0])])
        fetch(f"{begin}topic twice", [name], [(TOPIC, [0]), (TOPIC, [0])])
        fetch(f"{begin}with two others", [name, "fetches-unknown", "", name], [(TOPIC, [0])], (8, 9, 10))
        for who, generation, member in identities(group):
            for topics in (None, [(TOPIC, [0])]):
                fetch(f"{begin}{who}{'' if topics else ', all'}", [name], topics, (9, 10), member_id=member, member_epoch=generation)
        fetch(f"{begin}null member", [name], [(TOPIC, [0])], (9, 10), member_id=None, member_epoch=group.generation)
    fetch("no groups", [], None, (8, 9, 10))
    fetch("no topic", ["g"], [("", [0])])


def ask_offset_deletes(s):
    for group, begin in in_kept_states(s):
        def delete(label, *topics):
            s.ask(f"{begin}{label}", "offset_delete", {"group_id": group.name, "topics": [
                {"name": name, "partitions": [{"partition_index": p} for p in partitions]} for name, partitions in topics]})
        delete("never committed", (OTHER, [0, 1]))
        delete("unknown partition", (OTHER, [9, -1]))
        delete("unknown topic", ("groups-unknown", [0]))
        delete("no topic", ("", [0]))
        delete("none")
        delete("no partitions", (TOPIC, []), ("groups-unknown", []))
        delete("committed", (TOPIC, [0]))
        delete("again", (TOPIC, [0]))
        delete("twice", (TOPIC, [0, 0]), (TOPIC, [0]))
        s.ask(f"{begin}after", "offset_fetch", {"groups": [{"group_id": group.name, "topics": None}]}, (9,))
        s.ask(f"{begin}after", "describe_groups", {"groups": [group.name]}, (6,))
    with Group(s, "stable", kind="connect") as group:
        one = {"name": TOPIC, "partitions": [{"partition_index": 0}]}
        s.ask("another protocol type", "offset_delete", {"group_id": group.name, "topics": [one]})
    s.ask("no group id", "offset_delete", {"group_id": "", "topics": [one]})


def ask_describes(s):
    for group, begin in in_kept_states(s):
        s.ask(f"{begin}it", "describe_groups", {"groups": [group.name]})
        s.ask(f"{begin}operations", "describe_groups", {"groups": [group.name], "include_authorized_operations": 1}, range(3, 7))
        s.ask(f"{begin}it", "consumer_group_describe", {"group_ids": [group.name]})
        s.ask(f"{begin}operations", "consumer_group_describe", {"group_ids": [group.name], "include_authorized_operations": 1})
    for group, begin in in_kept_states(s, ("stable", "consumer"), instance="i"):
        s.ask(f"static {begin}", "describe_groups", {"groups": [group.name]})
        s.ask(f"static {begin}", "consumer_group_describe", {"group_ids": [group.name]})
    with Group(s, "stable", kind="connect") as group:
        s.ask("another protocol type", "describe_groups", {"groups": [group.name]})
        s.ask("another protocol type", "consumer_group_describe", {"group_ids": [group.name]})
    s.ask("none", "describe_groups", {"groups": []})
    s.ask("none", "consumer_group_describe", {"group_ids": []})
    s.ask("twice, and no name", "describe_groups", {"groups": ["g", "g", ""]})
    s.ask("twice, and no name", "consumer_group_describe", {"group_ids": ["g", "g", ""]})


def ask_lists(s):
    ready(s)
    groups = [Group(s, state) for state in STATES] + [Group(s, "stable", kind="connect")]
    mine = {group.name for group in groups}

    def listed(label, versions, **filters):
        for version in versions:
            answer = s.once("list_groups", version, filters)
            answer["groups"] = sorted((g for g in answer["groups"] if g["group_id"] in mine), key=lambda g: g["group_id"])
            s.keep(f"list_groups v{version}: {label}", answer)
    listed("all", range(0, 6))
    for states in (["Stable"], ["stable"], ["Empty", "CompletingRebalance"], ["Nonsense"], [""], ["Stable", "Stable"], ["Dead"],
                   ["Reconciling"], ["Assigning"], ["preparingrebalance"]):
        listed(f"states {states}", (4, 5), states_filter=states)
    for types in (["classic"], ["Consumer"], ["consumer", "classic"], ["share"], ["nonsense"], [""]):
        listed(f"types {types}", (5,), types_filter=types)
    listed("both", (5,), states_filter=["Stable"], types_filter=["consumer"])
    for group in groups:
        group.close()


def ask_group_deletes(s):
    for group, version, begin in in_each_state(s, s.versions("delete_groups")):
        s.ask(f"{begin}it", "delete_groups", {"groups_names": [group.name]}, (version,))
        s.ask(f"{begin}again", "delete_groups", {"groups_names": [group.name]}, (version,))
        s.ask(f"{begin}after v{version}", "offset_fetch", {"groups": [{"group_id": group.name, "topics": None}]}, (9,))
        s.ask(f"{begin}after v{version}", "describe_groups", {"groups": [group.name]}, (6,))
    for version in s.versions("delete_groups"):
        with Group(s, "simple") as group:
            names = [group.name, group.name, "", "group_deletes-unknown"]
            s.ask("twice, and others", "delete_groups", {"groups_names": names}, (version,))
    s.ask("none", "delete_groups", {"groups_names": []})


def beat(s, label, group, versions=None, **body):
    """A heartbeat that is kept; the last answer."""
    whole = {"group_id": group.name, "rebalance_timeout_ms": -1, "member_id": "m", "member_epoch": 0, **body}
    return s.ask(label, "consumer_group_heartbeat", whole, versions)


JOINS = {"rebalance_timeout_ms": 60000, "subscribed_topic_names": [TOPIC], "topic_partitions": []}

FIRST_HEARTBEATS = {
    "no group id": {"group_id": ""}, "no member id": {"member_id": ""}, "epoch -3": {"member_epoch": -3},
    "no instance id": {"instance_id": ""}, "no rack": {"rack_id": ""}, "no rebalance timeout": {"rebalance_timeout_ms": -1},
    "rebalance timeout 0": {"rebalance_timeout_ms": 0}, "no topics": {"subscribed_topic_names": None},
    "empty topics": {"subscribed_topic_names": []}, "topics twice": {"subscribed_topic_names": [TOPIC, TOPIC]},
    "unknown topic": {"subscribed_topic_names": ["groups-unknown"]}, "bad topic": {"subscribed_topic_names": ["a b", ""]},
    "null partitions": {"topic_partitions": None}, "some partitions": {}, "no assignor": {"server_assignor": ""},
    "unknown assignor": {"server_assignor": "x"}, "range": {"server_assignor": "range"},
    "all is wrong": {"group_id": "", "member_id": "", "member_epoch": -5, "instance_id": ""},
    "epoch 1": {"member_epoch": 1}, "epoch -1": {"member_epoch": -1}, "epoch -2": {"member_epoch": -2},
    "epoch -2 of an instance": {"member_epoch": -2, "instance_id": "i"},
    "epoch 1 of an instance": {"member_epoch": 1, "instance_id": "i"},
    "epoch -1 of an instance": {"member_epoch": -1, "instance_id": "i"}, "long member id": {"member_id": "m" * 40},
}
EXPRESSIONS = {
    "empty": "", "all": ".*", "anchored": "^groups-t$", "part": "groups", "broken": "(", "class": "[a", "look behind": "(?<=a)b",
    "none": "nothing.*", "back reference": "(a)\\1", "quoted": "\\Qgroups-t\\E", "long": "a" * 1000,
}


def ask_consumer_joins(s):
    """What a first heartbeat may say, and what not."""
    ready(s)
    for label, body in FIRST_HEARTBEATS.items():
        for version in s.versions("consumer_group_heartbeat"):
            with Group(s, "unknown") as group:
                whole = {"group_id": group.name, "member_id": "m", "member_epoch": 0, **JOINS, **body}
                if label == "some partitions":
                    whole["topic_partitions"] = [{"topic_id": s.ids[TOPIC], "partitions": [0]}]
                answer = s.once("consumer_group_heartbeat", version, whole)
                if answer["member_id"] and answer["member_id"] != whole["member_id"]:
                    s.members[answer["member_id"]] = "MADE"
                s.keep(f"consumer_group_heartbeat v{version}: {label}", answer)
    for label, expression in EXPRESSIONS.items():
        with Group(s, "unknown") as group:
            names = {**JOINS, "subscribed_topic_names": None, "subscribed_topic_regex": expression}
            beat(s, f"expression {label}", group, (1,), **names)
            s.ask(f"after expression {label}", "consumer_group_describe", {"group_ids": [group.name]}, (1,))
    for state in ("simple", "empty", "preparing", "completing", "stable", "consumer", "consumer empty"):
        for version in s.versions("consumer_group_heartbeat"):
            with Group(s, state) as group:
                for epoch in (1, -1, -2, 0):
                    beat(s, f"{state}: stranger at {epoch}", group, (version,), member_epoch=epoch, **JOINS)
                s.ask(f"{state}: after v{version}", "consumer_group_describe", {"group_ids": [group.name]}, (1,))
                s.ask(f"{state}: after v{version}", "describe_groups", {"groups": [group.name]}, (6,))
    with Group(s, "stable", kind="connect") as group:
        beat(s, "into connect", group, **JOINS)


def ask_consumer_heartbeats(s):
    ready(s)
    owned = [{"topic_id": s.ids[TOPIC], "partitions": [0, 1]}]
    for version in s.versions("consumer_group_heartbeat"):
        with Group(s, "consumer") as group:
            def again(label, epoch, **body):
                return beat(s, label, group, (version,), **{"member_id": group.member, "member_epoch": epoch, **body})
            now = group.generation
            again("same", now)
            again("same, in full", now, **{**JOINS, "topic_partitions": owned})
            again("epoch after", now + 1)
            again("epoch before", now - 1)
            again("epoch before, with what it owns", now - 1, topic_partitions=owned)
            again("epoch before, with less", now - 1, topic_partitions=[])
            again("epoch before, with more", now - 1, topic_partitions=[{"topic_id": s.ids[OTHER], "partitions": [0]}])
            again("stranger", now, member_id=NOBODY)
            again("an instance", now, instance_id="i")
            again("no topics now", now, subscribed_topic_names=[])
            again("then", now + 1)
            again("topics again", now + 1, subscribed_topic_names=[TOPIC])
            again("unknown assignor", now + 2, server_assignor="x")
            again("another assignor", now + 2, server_assignor="range")
            again("unknown partitions", now + 2, topic_partitions=[{"topic_id": UNKNOWN_ID, "partitions": [7]}])
            again("again from 0", 0, **JOINS)
            s.ask(f"after all v{version}", "consumer_group_describe", {"group_ids": [group.name]}, (1,))
            again("leaves as an instance", -2)
            again("leaves", -1)
            again("left already", -1)
            again("heartbeat of one that left", now)
            s.ask(f"after it left v{version}", "consumer_group_describe", {"group_ids": [group.name]}, (1,))
        with Group(s, "consumer", instance="i") as group:
            now = group.generation
            again("static: same", now, instance_id="i")
            again("static: without the instance", now)
            again("static: another instance", now, instance_id="j")
            again("static: stranger as the instance", now, member_id="m", instance_id="i")
            again("static: joins while it is there", 0, member_id="m", instance_id="i", **JOINS)
            again("static: stranger leaves as it", -2, member_id="m", instance_id="i")
            again("static: stranger leaves for good", -1, member_id="m", instance_id="i")
            again("static: leaves for a while", -2, instance_id="i")
            s.ask(f"static: after it left for a while v{version}", "consumer_group_describe", {"group_ids": [group.name]}, (1,))
            again("static: heartbeat while away", now, instance_id="i")
            again("static: comes back as another", 0, member_id="m", instance_id="i", **JOINS)
            again("static: the old one", now, instance_id="i")
            again("static: the new one", now, member_id="m", instance_id="i")
            s.ask(f"static: after all v{version}", "consumer_group_describe", {"group_ids": [group.name]}, (1,))


def ask_consumer_moves(s):
    """Two members: partitions are given up before another has them."""
    ready(s)
    for version in s.versions("consumer_group_heartbeat"):
        with Group(s, "consumer") as group:
            def turn(label, member, epoch, **body):
                answer = beat(s, label, group, (version,), member_id=member, member_epoch=epoch, **body)
                s.ask(f"{label}: then v{version}", "consumer_group_describe", {"group_ids": [group.name]}, (1,))
                return answer
            a, now = group.member, group.generation
            one = [{"topic_id": s.ids[TOPIC], "partitions": [0]}]
            turn("b joins", "b", 0, **JOINS)
            turn("b again", "b", now + 1)
            turn("a hears of it", a, now)
            turn("a again, with both", a, now, topic_partitions=[{"topic_id": s.ids[TOPIC], "partitions": [0, 1]}])
            s.ask(f"commit by a v{version}", "offset_commit", commit_body(group, now, a), (9,))
            s.ask(f"commit by a of what it gives up v{version}", "offset_commit", commit_body(group, now, a, partition=1), (9,))
            turn("a gives one up", a, now, topic_partitions=one)
            turn("a repeats it", a, now, topic_partitions=one)
            s.ask(f"commit by a at its old epoch v{version}", "offset_commit", commit_body(group, now, a), (9,))
            s.ask(f"commit by a at its old epoch, of the other v{version}", "offset_commit", commit_body(group, now, a, partition=1), (9,))
            turn("b gets it", "b", now + 1)
            turn("b confirms", "b", now + 1, topic_partitions=[{"topic_id": s.ids[TOPIC], "partitions": [1]}])
            turn("b leaves", "b", -1)
            turn("a gets it back", a, now + 1)
            turn("a knows", a, now + 2)


def ask_migrations(s):
    """A group changes its protocol under its members."""
    ready(s)
    with Group(s, "stable") as group:
        migrate_up(s, group, group.member, group.generation)
    with Group(s, "consumer") as group:
        migrate_down(s, group)


def migrate_up(s, group, old, generation):
    def classic(label, api, version, now, **more):
        bodies = {"offset_commit": lambda: commit_body(group, now, old)(version), "join_group": lambda: group.join_body(old)}
        body = {"group_id": group.name, "member_id": old, "generation_id": now, "protocol_type": "consumer", "protocol_name": "range"}
        answer = s.once(api, version, {**bodies.get(api, lambda: body)(), **more})
        s.keep(f"{api} v{version}: up: {label}", answer)
        return answer

    def owning(*partitions):
        return [{"name": "range", "metadata": subscription([TOPIC], 1, [(TOPIC, partitions)])}]

    def new(label, epoch, **body):
        beat(s, f"up: {label}", group, (1,), member_id="new", member_epoch=epoch, **body)
        s.ask(f"up: {label}: then", "consumer_group_describe", {"group_ids": [group.name]}, (1,))
        s.ask(f"up: {label}: listed", "describe_groups", {"groups": [group.name]}, (6,))
    new("joins", 0, **JOINS)
    for version in (8, 9):
        classic("commit", "offset_commit", version, generation)
        classic("commit, wrong generation", "offset_commit", version, generation + 7)
    classic("heartbeat", "heartbeat", 4, generation)
    classic("heartbeat, wrong generation", "heartbeat", 4, generation + 7)
    classic("sync", "sync_group", 5, generation)
    now = classic("rejoins with what it owns", "join_group", 9, 0, protocols=owning(0, 1))["generation_id"]
    classic("heartbeat after", "heartbeat", 4, now)
    classic("sync after", "sync_group", 5, now)
    classic("sync with another protocol", "sync_group", 5, now, protocol_name="x")
    now = classic("rejoins with less", "join_group", 9, 0, protocols=owning(0))["generation_id"]
    classic("sync with less", "sync_group", 5, now)
    new("has the rest", now)
    classic("commit now", "offset_commit", 8, now)
    of_member = {"group_id": group.name, "member_id": old, "member_epoch": now, "topics": None}
    classic("fetch by epoch", "offset_fetch", 9, now, groups=[of_member])
    new("leaves", -1)
    classic("heartbeat at the end", "heartbeat", 4, now)
    s.ask("up: at the end", "describe_groups", {"groups": [group.name]}, (6,))


def migrate_down(s, group):
    def joins(label, member=""):
        answer = s.once("join_group", 9, group.join_body(member))
        s.members[answer["member_id"]] = "B"
        s.keep(f"join_group v9: down: {label}", answer)
        return answer["member_id"], answer["generation_id"]

    def classic(label, api, version, **more):
        s.ask(f"down: {label}", api, {"group_id": group.name, "member_id": member, "generation_id": now, "protocol_type": "consumer",
                                      "protocol_name": "range", **more}, (version,))

    def described(label):
        s.ask(f"down: {label}", "consumer_group_describe", {"group_ids": [group.name]}, (1,))

    def other(label, epoch, **more):
        beat(s, f"down: {label}", group, (1,), member_id=group.member, member_epoch=epoch, **more)
    member, now = joins("first")
    member, now = joins("with the id", member)
    classic("nobody leads", "sync_group", 5, assignments=[{"member_id": member, "assignment": b"mine"}])
    classic("heartbeat", "heartbeat", 4)
    described("then")
    other("the other gives one up", group.generation)
    other("and says so", group.generation, topic_partitions=[{"topic_id": s.ids[TOPIC], "partitions": [0]}])
    classic("heartbeat, something changed", "heartbeat", 4)
    member, now = joins("again", member)
    classic("sync again", "sync_group", 5)
    described("then again")
    beat(s, "down: the classic one by the new protocol", group, (1,), member_id=member, member_epoch=now)
    described("upgraded")
    classic("heartbeat, upgraded", "heartbeat", 4)
    member, now = joins("classic again", member)
    other("the other leaves", -1)
    s.ask("down: at the end", "describe_groups", {"groups": [group.name]}, (6,))
    classic("heartbeat at the end", "heartbeat", 4)

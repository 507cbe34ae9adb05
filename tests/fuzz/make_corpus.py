"""Writes the first corpora of fuzzers whose input is a script, or has a shape of its own: client, codecs, config,
dispatch, files, group_records, segments. (requests has make_requests_corpus.py.)

    make_corpus.py

What is written here stands in files whose names begin with "seed-", which are removed first; files that a fuzzer found
and that are worth keeping go to the same folder under a name of their own. Re-run it when a fuzzer's script changes.
"""
import gzip
import pathlib
import re
import struct
import sys
import uuid
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))

from support import wire  # noqa: E402
from support.definitions import Codec, codec, has  # noqa: E402
import generate_records  # noqa: E402  (kafka/proto; definitions has made it importable)

DEFS = HERE.parent.parent / "kafka" / "proto" / "defs"
TOPIC_ID = uuid.UUID(bytes=b"\xEE" * 16)  # fuzz_dispatch puts the id of topic "t" there.
CLIENT_TOPIC_ID = uuid.UUID(bytes=b"\7" + bytes(15))
GROUPS_TOPIC_IDS = [uuid.UUID(bytes=b"t" * 16), uuid.UUID(bytes=b"u" * 16)]
SERVED = re.findall(r"^    {API_(\w+),", (DEFS.parents[1] / "api_table.c").read_text(), re.M)
TIMES = [1700000000000, 1700000000001]


def u8(v): return struct.pack(">B", v)
def u16(v): return struct.pack(">H", v)


def write(corpus, files):
    folder = HERE / "corpus" / corpus
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("seed-*"):
        old.unlink()
    for name, data in files.items():
        (folder / f"seed-{name}").write_bytes(data)


def newest(name):
    return codec(name, 0).api.stable_max


def body(name, version, message, value):
    c = codec(name, version)
    return c.write(getattr(c.api, message).root, value)


# ---- dispatch ----

def frame(name, version, value):
    c = codec(name, version)
    head = wire.i16(c.api.key) + wire.i16(version) + wire.i32(0) + wire.string("fuzz") + (wire.NO_TAGS if c.flexible else b"")
    return head + c.write(c.api.request.root, value)


def raw_request(data, kind=0): return u8(kind) + u16(len(data)) + data
def request(name, value, version=None, kind=0):
    return raw_request(frame(name, newest(name) if version is None else version, value), kind)
def passes(shift): return u8(3) + u8(shift)
def client(number): return u8(4) + u8(number)
def hangs_up(how=0): return u8(5) + u8(how)
def takes(size): return u8(6) + u8(size)


def filled(c, message):
    """Nothing is empty; names that are there."""
    def one(f):
        if f.is_struct:
            return filled(c, f.struct)
        names = {"protocol_type": "consumer", "coordinator_type": "group"}
        return {"uuid": TOPIC_ID, "string": names.get(f.name, "t"), "bytes": b"b",
                "records": wire.batch([b"v"], timestamps=TIMES[:1])}.get(f.type, 1)
    return {f.name: [one(f)] if f.is_array else one(f) for f in message.plain() if has(f.versions, c.version)}


def dispatch_filled():
    """Each API that is served, in its oldest and newest version; a dozen requests a file."""
    requests = []
    for name in SERVED:
        c = codec(name.lower(), 0)
        for version in sorted({c.api.versions[0], c.api.stable_max}):
            c = codec(c.api.name, version)
            requests.append(request(c.api.name, filled(c, c.api.request.root), version, 1))
    return {f"filled-{i // 12:02}": client(0).join([b""] + [client(0) + r for r in requests[i:i + 12]])
            for i in range(0, len(requests), 12)}


def produce(values, version=9, **fault):
    c = {"records": wire.batch(values, timestamps=TIMES[:1] * len(values), **fault)}
    topic = {"name": "t", "topic_id": TOPIC_ID, "partition_data": [{"index": 0, **c}]}
    return {"acks": -1, "timeout_ms": 1000, "transactional_id": None, "topic_data": [topic]}


def fetch(offset, session=(0, -1), wait_ms=0, min_bytes=1):
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return {"max_wait_ms": wait_ms, "min_bytes": min_bytes, "max_bytes": 1 << 20, "session_id": session[0],
            "session_epoch": session[1], "topics": [{"topic": "t", "topic_id": TOPIC_ID, "partitions": [partition]}]}


def dispatch_stories():
    offset = {"partition_index": 0, "committed_offset": 2, "committed_metadata": "m"}
    commit = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "",
              "topics": [{"name": "t", "topic_id": TOPIC_ID, "partitions": [offset]}]}
    beat = {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1000,
            "subscribed_topic_names": ["t"], "topic_partitions": []}
    join = {"group_id": "c", "session_timeout_ms": 10000, "rebalance_timeout_ms": 1000, "member_id": "",
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\1\0\1t\0\0\0\0\0\0\0\0"}]}
    find = request("find_coordinator", {"key_type": 0, "coordinator_keys": ["g"]}) + passes(20)
    topics = [{"name": "n", "num_partitions": 2, "replication_factor": 1,
               "configs": [{"name": "cleanup.policy", "value": "compact"}]}]
    half = wire.i32(1000) + b"\0\3"
    return {
        "records": b"".join(request("produce", produce([b"a", b"b"], attributes=codec_), v, 1)
                            for v in (3, 9, 13) for codec_ in (0, 1)) +
        b"".join(request("fetch", fetch(0), v) for v in (4, 11, 12, 13, 17)) + request("list_offsets", {
            "replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}),
        "idempotent": b"".join(request("produce", produce([b"a"], producer_id=1, epoch=0, sequence=s), 9, 1)
                               for s in (0, 1, 1, 7)),
        "sessions": request("fetch", fetch(0, (0, 0)), 13) + request("fetch", fetch(3, (1, 1), 500), 13) + passes(20) +
        request("fetch", fetch(0, (0, 0)), 12) + request("fetch", fetch(0, (7, 3)), 12),
        "waits": request("fetch", fetch(3, wait_ms=30000), 11) + client(1) + request("produce", produce([b"x"]), 9, 1) +
        client(0) + request("fetch", fetch(100, wait_ms=30000), 11) + hangs_up(),
        "group-consumer": find + request("consumer_group_heartbeat", beat) + passes(24) +
        request("consumer_group_heartbeat", {**beat, "member_epoch": 1}) + request("offset_commit", commit) +
        request("offset_fetch", {"groups": [{"group_id": "g", "topics": None}]}) +
        request("consumer_group_describe", {"group_ids": ["g", "h"]}) +
        request("consumer_group_heartbeat", {**beat, "member_epoch": -1}),
        "group-classic": find + request("join_group", join, 3) + client(1) + request("join_group", {
            **join, "group_instance_id": "i"}, 5) + passes(23) + request("sync_group", {
                "group_id": "c", "generation_id": 1, "assignments": [{"member_id": "m", "assignment": b"x"}]}) +
        request("heartbeat", {"group_id": "c", "generation_id": 1, "member_id": "m"}) + passes(28),
        "group-migrates": find + request("consumer_group_heartbeat", beat) + passes(24) +
        request("join_group", {**join, "group_id": "g"}, 3) + passes(26) + request("list_groups", {}),
        "topics": request("create_topics", {"topics": topics, "timeout_ms": 1000}) + passes(20) +
        request("create_partitions", {"topics": [{"name": "n", "count": 4}], "timeout_ms": 1000}) +
        request("describe_configs", {"resources": [{"resource_type": 2, "resource_name": "n", "configuration_keys": None}]}) +
        request("incremental_alter_configs", {"resources": [{"resource_type": 2, "resource_name": "n", "configs": [
            {"name": "retention.ms", "config_operation": 0, "value": "1000"}]}]}) +
        request("delete_records", {"timeout_ms": 1000, "topics": [{"name": "t", "partitions": [{"offset": -1}]}]}) +
        request("delete_topics", {"topics": [{"name": "n"}], "timeout_ms": 1000}) + request("metadata", {"topics": None}),
        "limits": b"".join(request("create_topics", {"timeout_ms": 1000, "topics": [
            {"name": f"n{i}{j}", "num_partitions": 7, "replication_factor": 1} for j in range(3)]}) for i in range(3)) +
        request("metadata", {"allow_auto_topic_creation": 1, "topics": [{"name": f"auto{i}"} for i in range(20)]}, 8),
        "half-frames": u8(2) + u16(len(half)) + half + passes(30) + client(1) + u8(2) + u16(4) + wire.i32(-1) + client(2) +
        request("metadata", {"topics": None}),
        "slow-reader": takes(5) + request("metadata", {"topics": None}) * 12 + passes(25) + takes(255),
        "giant-counts": raw_request(frame("metadata", 12, {"topics": []})[:-5] + b"\xff\xff\xff\xff\x07") +
        client(0) + raw_request(frame("fetch", 4, {"topics": []})[:-4] + wire.i32(2**31 - 1)),
        "future": raw_request(wire.i16(18) + wire.i16(99) + wire.i32(0) + wire.string("fuzz")),
    }


# ---- codecs ----

def codecs():
    plain = b"".join(wire.record(b"key%d" % i, b"value" * 20) for i in range(8))
    literal = b"\x0b" + u8(10 << 2) + b"hello there"
    xerial = b"\x82SNAPPY\0" + wire.i32(1) + wire.i32(1) + wire.i32(len(literal)) + literal
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = deflate.compress(bytes(1 << 20)) + deflate.flush()
    lz4 = b"\x04\x22\x4d\x18\x60\x40\x82" + struct.pack("<I", 5 | 1 << 31) + b"hello" + bytes(4)
    zstd = b"\x28\xb5\x2f\xfd\x04\x00" + struct.pack("<I", 5 << 3 | 1)[:3] + b"hello" + bytes(4)
    compress = 130  # What is not below 128 compresses; this is codec 0.
    files = {f"compress-{number}": u8(compress + number) + u8(40) + u8(5) + plain for number in range(5)}
    streams = {"gzip": (1, gzip.compress(plain, mtime=0)), "gzip-members": (1, gzip.compress(plain, mtime=0) * 2),
               "gzip-bomb": (1, bomb), "snappy-raw": (2, literal), "snappy-xerial": (2, xerial),
               "snappy-claims": (2, b"\xff\xff\xff\xff\x07" + literal[1:]), "lz4": (3, lz4), "zstd": (4, zstd),
               "zstd-window": (4, b"\x28\xb5\x2f\xfd\x00\xf8" + zstd[6:])}
    files |= {name: u8(number) + u8(3) + u8(0) + data for name, (number, data) in streams.items()}
    return files


# ---- config ----

def config():
    files = {
        "plain": "num.partitions: 12\nlog.segment.bytes: 64MiB\nlog.retention.ms: -1\nbroker.rack: \"eu: 1\"\n"
                 "listeners: [INTERNAL://:9092, EXTERNAL://127.0.0.1:9093]\nadvertised.listeners:\n"
                 "  - INTERNAL://a:1\n  - EXTERNAL://b:2\ncompression.type: gzip\n",
        "nested": "log:\n  segment:\n    bytes: 1\n", "twice": "num.partitions: 1\nnum.partitions: 2\n",
        "alias": "a: &x [b, b]\nbroker.rack: *x\n", "tab": "\tnum.partitions: 1\n", "bom": "\ufeffnum.partitions: 3\n",
        "groups": "group.consumer.assignors: [range, uniform]\ngroup.max.size: 7\n"
                  "group.coordinator.rebalance.protocols: classic,consumer\noffsets.retention.minutes: 1\n",
        "dirs": "log.dirs: [/a, /b/../b, c]\ncoreflume.log.dirs.lost: [AAAAAAAAAAAAAAAAAAAAAQ]\n",
        "long": "broker.rack: " + "x" * 3000 + "\n",
    }
    lines = {
        "short": ["--data-dir", "d", "--kafka", "127.0.0.1:0", "--admin=127.0.0.1:0", "--cores", "0-1", "--memory", "1GiB"],
        "set": ["--set", "num.partitions=3", "--set=log.retention.ms=7d", "--set", "broker.rack=a=b", "--node-id", "7"],
        "wrong": ["--set", "num.partitions=three"], "unknown": ["--memroy", "1"], "valueless": ["--set"],
        "listeners": ["--set", "listeners=A://0.0.0.0:1,B://[::1]:2", "--set", "advertised.listeners=A://h:3"],
        "help": ["--help"],
    }
    return {name: b"\0" + text.encode() for name, text in files.items()} | \
        {f"line-{name}": b"\1" + "\n".join(words).encode() for name, words in lines.items()}


# ---- group_records ----

def records():
    found = {}
    for path in sorted((DEFS / "records").glob("*.def")):
        found[path.stem] = generate_records.Parser(path).parse()
    return found


RECORDS = records()


def side(one, version, value):
    return Codec(one, version).write(one.message.root, value)


def record(name, key, value, version=None):
    r = RECORDS[name]
    version = r.versions[1] if version is None else version
    k = wire.i16(r.type) + side(r.key, 0, key)
    if value is None:
        return u8(1) + u8(len(k)) + k
    v = wire.i16(version) + side(r.value, version, value)
    return u8(0) + u8(len(k)) + k + u16(len(v)) + v


COMMITS = u8(2)
TAKES_OVER = u8(6)
ASKS = ["join_group", "sync_group", "heartbeat", "leave_group", "offset_commit", "offset_delete", "consumer_group_heartbeat",
        "describe", "delete", "consumer_describe"]


def asks(name, value=None, version=0):
    data = b"" if value is None else body(name, version, "request", value)
    return u8(5) + u8(ASKS.index(name)) + u8(version) + u16(len(data)) + data


def lasts(shift): return u8(4) + u8(shift)


def subscription(topics=("t",), owned=()):
    value = {"topics": list(topics), "user_data": b"u", "generation_id": 1, "rack_id": None,
             "owned_partitions": [{"topic": t, "partitions": list(p)} for t, p in owned]}
    one = RECORDS["consumer_protocol_subscription"].value
    return wire.i16(3) + Codec(one, 3).write(one.message.root, value)


def assignment(topics):
    one = RECORDS["consumer_protocol_assignment"].value
    value = {"assigned_partitions": [{"topic": t, "partitions": list(p)} for t, p in topics], "user_data": None}
    return wire.i16(3) + Codec(one, 3).write(one.message.root, value)


def group_records():
    g, gm = {"group_id": "g"}, {"group_id": "g", "member_id": "m"}
    t = [{"topic_id": GROUPS_TOPIC_IDS[0], "partitions": [0, 1, 2]}]
    members = record("consumer_group_member_metadata", gm, {
        "client_id": "c", "client_host": "/h", "subscribed_topic_names": ["t"], "rebalance_timeout_ms": 1000})
    consumer = members + record("consumer_group_metadata", g, {"epoch": 3}) + \
        record("consumer_group_target_assignment_metadata", g, {"assignment_epoch": 3}) + \
        record("consumer_group_target_assignment_member", gm, {"topic_partitions": t}) + \
        record("consumer_group_current_member_assignment", gm, {
            "member_epoch": 3, "previous_member_epoch": 2, "state": 0, "assigned_partitions": t,
            "partitions_pending_revocation": []})
    goes = b"".join(record(name, key, None) for name, key in (
        ("consumer_group_current_member_assignment", gm), ("consumer_group_target_assignment_member", gm),
        ("consumer_group_member_metadata", gm), ("consumer_group_target_assignment_metadata", g),
        ("consumer_group_metadata", g)))
    beat = {"group_id": "g", "member_id": "n", "member_epoch": 0, "rebalance_timeout_ms": 1000,
            "subscribed_topic_names": ["t", "u"], "topic_partitions": []}
    regex = {**beat, "member_id": "r", "subscribed_topic_names": [], "subscribed_topic_regex": "t|u.*"}
    classic = record("group_metadata", {"group": "g"}, {
        "protocol_type": "consumer", "generation": 2, "protocol": "range", "leader": "m", "members": [{
            "member_id": "m", "client_id": "c", "client_host": "/h", "rebalance_timeout": 1000, "session_timeout": 10000,
            "subscription": subscription(), "assignment": assignment([("t", (0, 1))])}]})
    join = {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 1000, "member_id": "",
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": subscription(("t", "u"), [("t", (0, 9))])}]}
    offset = {"offset": 7, "metadata": "m", "commit_timestamp": TIMES[0], "leader_epoch": 1}
    commit = record("offset_commit", {"group": "g", "topic": "t", "partition": 0}, offset)
    described = asks("describe") + asks("consumer_describe")
    epochs_back = record("consumer_group_metadata", g, {"epoch": -5}) + record(
        "consumer_group_current_member_assignment", gm, {
            "member_epoch": 9, "previous_member_epoch": 99, "state": 77, "assigned_partitions": t + t,
            "partitions_pending_revocation": t})
    return {
        "consumer": consumer + COMMITS + asks("consumer_group_heartbeat", beat, 1) + lasts(24) + described + lasts(27),
        "consumer-goes": consumer + COMMITS + goes + COMMITS + described,
        "consumer-parts": members + COMMITS + described + epochs_back + COMMITS + described +
        asks("consumer_group_heartbeat", {**beat, "member_id": "m", "member_epoch": 9}, 1) + lasts(27),
        "regex": record("consumer_group_regular_expression", {"group_id": "g", "regular_expression": "t|u.*"}, {
            "topics": ["t", "gone"], "version": 1, "timestamp": TIMES[0]}) + asks("consumer_group_heartbeat", regex, 1) +
        COMMITS + asks("consumer_group_heartbeat", regex, 1) + lasts(25) + TAKES_OVER + described,
        "classic": classic + COMMITS + asks("join_group", join, 3) + lasts(24) + asks("sync_group", {
            "group_id": "g", "generation_id": 3, "member_id": "m", "assignments": []}, 5) + described + lasts(27),
        "classic-migrates": classic + COMMITS + asks("consumer_group_heartbeat", beat, 1) + lasts(24) + described,
        "consumer-migrates": consumer + COMMITS + asks("join_group", join, 3) + lasts(24) + asks("join_group", {
            **join, "protocols": [{"name": "range", "metadata": b"\0\3\xff\xff\xff\xff"}]}, 3) + described + lasts(27),
        "offsets": commit + COMMITS + asks("offset_delete", {"group_id": "g", "topics": [
            {"name": "t", "partitions": [{"partition_index": 0}]}]}) + commit + COMMITS + asks("delete") + described,
        "both": classic + consumer + COMMITS + described + asks("delete") + TAKES_OVER,
        "batch": u8(3) + u16(len(wire.batch([b"v"], keys=[b"\0\1"]))) + wire.batch([b"v"], keys=[b"\0\1"], timestamps=TIMES[:1]),
        "unknown": u8(0) + u8(2) + b"\0\x63" + u16(2) + b"\0\0" + u8(0) + u8(1) + b"\0" + u16(0) + COMMITS,
    }


# ---- client ----

ACTS = ["describe", "configs", "topics", "offsets", "times", "consume", "produce", "join", "groups", "group_offsets"]
FLAG_VERSIONS, FLAG_METADATA, FLAG_COORDINATOR, FLAG_RAW, FLAG_SEAL = 1, 2, 4, 8, 16


def piece(data): return u16(len(data)) + data
def answers(name, value, version=None):
    return piece(body(name, newest(name) if version is None else version, "response", value))


def act(name, *pieces, flags=FLAG_SEAL): return u8(ACTS.index(name)) + u8(flags) + b"".join(pieces)


def fetched(records_, **more):
    partition = {"partition_index": 0, "high_watermark": 9, "last_stable_offset": 9, "log_start_offset": 0,
                 "aborted_transactions": None, "records": records_, **more}
    return answers("fetch", {"session_id": 0, "responses": [
        {"topic": "t", "topic_id": CLIENT_TOPIC_ID, "partitions": [partition]}]})


def clients():
    topic = {"name": "t", "topic_id": CLIENT_TOPIC_ID, "partitions": [
        {"partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1], "offline_replicas": []}]}
    metadata = {"brokers": [{"node_id": 1, "host": "fuzz", "port": 9092}], "cluster_id": "c", "controller_id": 1,
                "topics": [topic, {**topic, "name": "u", "error_code": 3}]}
    one, two = wire.batch([b"a", b"b"], timestamps=TIMES), wire.batch([b"c"], attributes=1, timestamps=TIMES[:1], base_offset=2)
    control = wire.batch([b"\0" * 6], keys=[b"\0\0\0\1"], attributes=0x30, timestamps=TIMES[:1], base_offset=3)
    beat = {"member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 500, "assignment": {"topic_partitions": [
        {"topic_id": CLIENT_TOPIC_ID, "partitions": [0, 1]}]}}
    offsets = {"groups": [{"group_id": "g", "topics": [{"name": "t", "topic_id": CLIENT_TOPIC_ID, "partitions": [
        {"partition_index": 0, "committed_offset": 0, "metadata": "m"}]}]}]}
    listed = {"topics": [{"name": "t", "partitions": [
        {"partition_index": p, "timestamp": -1, "offset": 5, "leader_epoch": 1} for p in (0, 1)]}]}
    described = {"groups": [{"group_id": "g", "group_state": "Stable", "group_epoch": 3, "assignment_epoch": 3, "members": [{
        "member_id": "m", "client_id": "c", "client_host": "/h", "subscribed_topic_names": ["t"],
        "assignment": {"topic_partitions": [{"topic_id": CLIENT_TOPIC_ID, "topic_name": "t", "partitions": [0]}]},
        "target_assignment": {"topic_partitions": []}}]}]}
    written = {"responses": [{"name": "t", "topic_id": CLIENT_TOPIC_ID, "partition_responses": [
        {"index": p, "base_offset": 7, "record_errors": []} for p in (0, 1)]}]}
    small = body("metadata", newest("metadata"), "response", metadata)
    return {
        "describe": act("describe", answers("metadata", metadata), flags=FLAG_METADATA),
        "describe-cut": act("describe", *(piece(small[:n]) for n in range(0, len(small), 7)), flags=FLAG_METADATA),
        "giant": act("describe", piece(wire.i32(0x7FFFFFFF) + wire.i32(0)), flags=FLAG_METADATA | FLAG_RAW),
        "versions": act("describe", answers("api_versions", {"api_keys": [
            {"api_key": 3, "min_version": 0, "max_version": 99}, {"api_key": 18, "min_version": -1, "max_version": 0}]}, 3),
            answers("metadata", metadata, 13), flags=FLAG_VERSIONS | FLAG_METADATA),
        "versions-old": act("describe", piece(wire.i16(35) + wire.i32(0)), piece(wire.i16(0) + wire.i32(0)), flags=FLAG_VERSIONS),
        "configs": act("configs", answers("describe_configs", {"results": [{"resource_type": 2, "resource_name": "t",
            "configs": [{"name": "a", "value": "b", "config_source": 5, "synonyms": []}]}]}),
            answers("incremental_alter_configs", {"responses": [{"resource_type": 2, "resource_name": "t", "error_code": 40}]})),
        "topics": act("topics", answers("create_topics", {"topics": [{"name": "t", "num_partitions": 2, "configs": []},
            {"name": "u", "error_code": 36, "error_message": "no"}]}),
            answers("create_partitions", {"results": [{"name": "t", "error_code": 0}]}),
            answers("delete_topics", {"responses": [{"name": "t"}, {"name": "u", "error_code": 3}]})),
        "offsets": act("offsets", answers("list_offsets", listed), answers("delete_records", {"topics": [
            {"name": "t", "partitions": [{"partition_index": p, "low_watermark": 2} for p in (0, 1)]}]})),
        "times": act("times", fetched(one), fetched(two), fetched(b"")),
        "consume": act("consume", answers("list_offsets", listed), fetched(one), fetched(two), fetched(control), fetched(b"")),
        "consume-aborted": act("consume", answers("list_offsets", listed), fetched(control, aborted_transactions=[
            {"producer_id": 1, "first_offset": 0}])),
        "consume-errors": act("consume", answers("list_offsets", listed), fetched(None, error_code=1), fetched(one[:30]),
                              fetched(None, error_code=6), flags=0),
        "produce": act("produce", answers("init_producer_id", {"producer_id": 5, "producer_epoch": 0}),
                       answers("produce", written), answers("produce", written)),
        "join": act("join", answers("consumer_group_heartbeat", beat), answers("offset_fetch", offsets),
                    answers("list_offsets", listed), fetched(one), answers("consumer_group_heartbeat", {
                        **beat, "error_code": 110}), answers("offset_commit", {"topics": []})),
        "groups": act("groups", answers("list_groups", {"groups": [{"group_id": "g", "protocol_type": "consumer",
            "group_state": "Stable", "group_type": "consumer"}]}), answers("consumer_group_describe", described)),
        "group-offsets": act("group_offsets", answers("offset_fetch", offsets), answers("offset_commit", {"topics": [
            {"name": "t", "partitions": [{"partition_index": p} for p in (0, 1)]}]}),
            answers("offset_delete", {"topics": [{"name": "t", "partitions": [{"partition_index": 1}]}]}),
            answers("delete_groups", {"results": [{"group_id": "g"}, {"group_id": "h", "error_code": 69}]})),
        "coordinator": act("group_offsets", answers("find_coordinator", {"coordinators": [{"key": "g", "node_id": 9,
            "host": "", "port": -1}]}), flags=FLAG_COORDINATOR),
    }


# ---- files and segments ----

def files():
    point = struct.pack("<QQqq", 4096, 1, 0, 5) + struct.pack("<QQqq", 8192, 3, 2, 7)
    index = b"CFLOGIDX" + struct.pack("<IIQQIIQQq", 1, 0, 7, 1, 0, 2, 12288, 5, 9) + point
    term = struct.pack("<QQq", 2, 1, 0)
    checkpoint = b"CFLOGCKP" + struct.pack("<IIQQQQqQQQqIIIIIIQqq", 1, 0, 136 + 24 + 32, 4, 2, 11, 4, 1, 7, 8192, 9, 0, 1, 1, 1,
                                           0, 0, 1, 0, 5) + term + point[:32]
    entry = struct.pack("<IIQIBBHQQqqqQIIQQ", 0, 16, 0x5A17, 0, 2, 0, 1, 1, 1, 0, 0, -1, 0, 0, 0, 0, 0) + bytes(16)
    second = struct.pack("<IIQIBBHQQqqqQIIQQ", 0, 0, 0x5A17, 0, 6, 0, 1, 2, 1, 0, 9, -1, 1, 1, 3, 0, 0)
    return {
        "header": b"\0\1" + b"CFLOGSEG" + struct.pack("<IIQQqQQ", 1, 0, 7, 1, 0, 0, 0) + bytes(76),
        "index": b"\1\1" + index, "checkpoint": b"\2\1" + checkpoint,
        "segment-record": b"\3\0" + struct.pack("<IIQQqQQQQQIIQqQ", 1, 0, 7, 1, 0, 0, 0, 8192, 8192, 0, 0, 0, 0, -1, 0),
        "cut": b"\3\0" + struct.pack("<IIQQQQII", 1, 1, 1, 4096, 3, 5, 1, 0),
        "durable": b"\3\0" + struct.pack("<IIQQQQ", 1, 0, 4, 4, 1, 8192), "clean": b"\3\0" + struct.pack("<IIQq", 1, 0, 4, 3),
        "log-start": b"\3\0" + struct.pack("<IIq", 1, 0, 3), "name": b"\5\0" + b"00000000000000000001-0000000002.log",
        "producers": b"\4\0" + struct.pack("<IIII", 1, 0, 0, 0), "entries": b"\6\1" + entry + second + entry,
    }


def segments():
    def at(number, what, data): return u8(number) + u8(what) + data
    found = {"as-closed": b"\0", "as-killed": b"\1"}
    for variant in (0, 1):
        for number in range(12):
            found[f"bytes-{variant}-{number:02}"] = u8(variant) + at(number, 0, u8(0) + u16(4096 + 100) + u8(3) + b"abc")
            found[f"ends-{variant}-{number:02}"] = u8(variant) + at(number, 2, u16(2))
            found[f"entry-{variant}-{number:02}"] = u8(variant) + at(number, 1, u16(2) + u8(24) + u8(8) + b"\7" + bytes(7)) + \
                at(number, 1, u16(1) + u8(96 + 57) + u8(4) + wire.i32(2**31 - 1))
        found[f"gone-{variant}"] = u8(variant) + b"".join(at(number, 5, b"") for number in range(1, 12, 2))
        found[f"zeros-{variant}"] = u8(variant) + b"".join(at(number, 4, u16(1)) + at(number, 6, u16(1)) for number in range(12))
        found[f"copies-{variant}"] = u8(variant) + b"".join(at(number, 3, u16(1) + u16(2)) for number in range(12))
        found[f"sealed-{variant}"] = u8(variant) + b"".join(
            at(number, 0, u8(0) + u16(64) + u8(8) + b"\xff" * 8) + at(number, 6, u16(0)) for number in range(12))
    return found


def main():
    write("dispatch", dispatch_filled() | dispatch_stories())
    write("codecs", codecs())
    write("config", config())
    write("group_records", group_records())
    write("client", clients())
    write("files", files())
    write("segments", segments())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Real clients against a real node: `matrix.py [--write] [NAME...]`.

Each folder of clients/ is one client: client.json says how it is installed and started, the program
follows the contract of clients/README.md. What comes out is compared with docs/compatibility.md, which
--write brings up to date; without it a result that differs fails.
"""
import argparse
import base64
import collections
import concurrent.futures
import json
import os
import re
import sys
import textwrap
import time

from support.clients import CLIENTS, ROOT, Client, Failed, Lacks, TimedOut, prepared
from support.node import Node, fresh_dir
from support.wire import Connection, batches

DOCUMENT = ROOT / "docs" / "compatibility.md"
REFERENCE = "confluent_kafka" # Reads back what each client wrote, and stands in for verbs one lacks.

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
COMBINATIONS = [(codec, acks, idempotent) for codec in CODECS for acks in (0, 1, -1) for idempotent in (0, 1)]
STEPS = {"create": "create, delete", "produce": "produce", "read": "read back", "times": "by timestamp",
         "limit": "size limit", "again": "re-create", "admin": "admin calls"}
UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, ELECTION_NOT_NEEDED = 3, 40, 84
DEFAULT_RECORDS = 100 # Of "produce by default", below.
# What a client's own administration may be asked by the verb `admin` -> the answer due, for a topic of two partitions
# with every sample in the second. In the order in which programs ask.
CALLS = {
    "describe cluster": [1], # The ids of the brokers.
    "list topics": True, # Whether the topic is among them.
    "describe topic": 2,
    "describe missing topic": UNKNOWN_TOPIC_OR_PARTITION,
    "check a creation": False, # validate_only: whether the topic is there then.
    "describe topic config": "604800000", # retention.ms
    "alter topic config": "1234567890", # As described then.
    "reset topic config": "604800000",
    "replace topic configs": "7654321000",
    "refused topic config": INVALID_CONFIG,
    "describe broker config": "1048588", # message.max.bytes
    "add partitions": 3,
    "earliest offset": 0,
    "latest offset": 10,
    "offset of latest time": 9,
    "offset for a time": 5,
    "delete records": 4, # Before offset 4: the first that is left.
    "elect leaders": ELECTION_NOT_NEEDED,
    "log directories": True, # Whether the topic's partitions are in one.
    "produce by default": DEFAULT_RECORDS, # With no setting but the brokers: records acknowledged.
}
MAX_MESSAGE_BYTES = 1048588 # The broker's default; below, what a batch of one record adds to its value.
BATCH_OVERHEAD = 72
AROUND = "\n## Programs around Kafka\n" # From here on the page is written by hand.

TEXT = """# Compatibility

Real clients against one node. `./dev interop matrix` runs them and fails where a result differs from this
page; `python3 tests/interop/matrix.py --write` writes it. What a client must do: `tests/interop/clients/README.md`.

- create, delete: topics through the client's own admin calls
- produce: combinations of codec (none, gzip, snappy, lz4, zstd), acks (0, 1, all) and idempotence (off, on) that
  passed, of 30; each with null, empty, binary and large keys, values and headers and times of its own; librdkafka reads
  them back and compares everything, and the node's answer shows that codec and producer id arrived
- read back: the client reads its own records and librdkafka's, every codec
- by timestamp: the first offset at or after a time
- size limit: a batch of exactly max.message.bytes is taken, one byte more is refused
- re-create: a deleted topic comes back empty, under the same name
- admin calls: what else the client's own administration has, with the answers that Kafka gives; and its producer with
  nothing set. The calls: {calls}

A number or `-` instead of `ok` has its reason below, and there are the words of refusals; `FAILS` would be a fault of Coreflume.

"""


def base64_of(data):
    return None if data is None else base64.b64encode(data).decode()


# What a record tests -> (key, value, headers). A client names in "lacks" what it cannot express.
SAMPLES = {
    "plain": (b"key", b"value", [("h", b"1")]),
    "null-key": (None, b"no key", []),
    "empty-key": (b"", b"empty key", []),
    "null-value": (b"tombstone", None, []),
    "empty-value": (b"empty value", b"", []),
    "null-header": (b"k", b"v", [("null", None)]),
    "empty-header": (b"k", b"v", [("empty", b"")]),
    "many-headers": (b"k", b"v", [("b", b"2"), ("a", b"1"), ("b", b"3"), ("name \u00fc\u2603", b"\x00\xff")]),
    "binary": (bytes(range(256)), bytes(reversed(range(256))), []),
    "large": (b"k" * 300, b"a row of words, " * 1500, []),
}


def samples(lacks, partition, start):
    found = []
    for number, (facet, (key, value, headers)) in enumerate(SAMPLES.items()):
        if facet in lacks or (headers and "headers" in lacks):
            continue
        found.append({"partition": partition, "key": base64_of(key), "value": base64_of(value),
                      "headers": [[name, base64_of(data)] for name, data in headers],
                      "timestamp": start + 1000 * number})
    return found


def compare(wanted, got, lacks):
    """Records of all partitions, in order within each; offsets from 0."""
    by_partition = collections.defaultdict(list)
    for record in got:
        by_partition[record["partition"]].append(record)
    for partition, records in wanted.items():
        found = by_partition.pop(partition, [])
        if len(found) != len(records):
            raise Failed(f"partition {partition}: {len(found)} records, {len(records)} were written")
        for offset, (record, other) in enumerate(zip(records, found)):
            if other["offset"] != offset:
                raise Failed(f"partition {partition}: offset {other['offset']} where {offset} was due")
            for field in ("key", "value", "headers", "timestamp"):
                if field not in lacks and record[field] != other[field]:
                    raise Failed(f"partition {partition} offset {offset}: {field} is {str(other[field])[:120]}, "
                                 f"written was {str(record[field])[:120]}")
    if by_partition:
        raise Failed(f"records in partitions {sorted(by_partition)} where none were written")


def label(codec, acks, idempotent):
    return f"{codec}, acks {'all' if acks == -1 else acks}, idempotence {'on' if idempotent else 'off'}"


def stored_as(brokers, topic, partition, codec, idempotent):
    """What the node itself hands out: the codec asked for, and a producer id if one was due."""
    with Connection(brokers) as connection:
        data = connection.fetch(topic, partition, 0)[2]
    codecs = {attributes & 7 for _, attributes, _, _ in batches(data)}
    if CODECS[codec] not in codecs:
        raise Failed(f"partition {partition}: stored with codecs {codecs}, not {codec}")
    # Byte 43 of a batch: its producer id.
    if (int.from_bytes(data[43:51], "big", signed=True) >= 0) != bool(idempotent):
        raise Failed(f"partition {partition}: a producer id where none was due, or none")


class Run:
    """One client through all steps. outcome: step -> (cell, reasons)."""

    def __init__(self, client, reference):
        self.client, self.reference = client, reference
        self.outcome, self.seconds = {}, {}
        about = client.call("versions")[0]
        self.version, self.lacks = about["version"], about.get("lacks", {})
        self.start = int(time.time() * 1000) - 3600 * 1000
        self.topic = f"matrix-{client.name}"
        self.written = {}

    def all_steps(self):
        for step in STEPS:
            began = time.monotonic()
            try:
                self.outcome[step] = getattr(self, step)()
            except Lacks as why:
                self.outcome[step] = "-", [str(why)]
            except (Failed, TimedOut) as why:
                self.outcome[step] = "FAILS", [str(why)]
            self.seconds[step] = time.monotonic() - began
        return self

    def either(self, verb, *args):
        """By the client, or by the reference where it has no such verb."""
        try:
            return self.client.call(verb, *args)
        except Lacks:
            return self.reference.call(verb, *args)

    def create(self):
        self.either("create", self.topic, len(COMBINATIONS))
        self.client.call("create", f"{self.topic}-gone", 3)
        try:
            self.client.call("create", f"{self.topic}-gone", 3)
        except Failed:
            pass
        else:
            raise Failed("creating a topic twice was no error")
        self.client.call("delete", f"{self.topic}-gone")
        return "ok", []

    def produce(self):
        reasons, passed = collections.defaultdict(list), 0
        for partition, (codec, acks, idempotent) in enumerate(COMBINATIONS):
            sent = samples(self.lacks, partition, self.start)
            try:
                answers = self.client.call("produce", self.topic, codec, acks, idempotent, lines=sent)
            except Lacks as why:
                reasons[str(why)].append((codec, acks, idempotent))
                continue
            offsets = [answer["offset"] for answer in answers] # null: the client does not tell.
            if acks != 0 and offsets not in (list(range(len(sent))), [None] * len(sent)):
                raise Failed(f"{label(codec, acks, idempotent)}: offsets {offsets}")
            self.written[partition] = sent
        read = self.settled()
        compare(self.written, read, self.lacks)
        for partition in self.written:
            codec, _, idempotent = COMBINATIONS[partition]
            stored_as(self.client.brokers, self.topic, partition, codec, idempotent)
            passed += 1
        texts = [f"{why} ({len(which)} combinations)" for why, which in reasons.items()]
        texts += [f"not expressible: {facet}: {why}" for facet, why in self.lacks.items()]
        return (f"{passed} of {len(COMBINATIONS)}" if passed else "-"), texts

    def settled(self):
        """All records, once those sent with acks 0 are there too."""
        due = sum(map(len, self.written.values()))
        for _ in range(20):
            read = self.reference.call("read", self.topic, len(COMBINATIONS))
            if len(read) >= due:
                break
            time.sleep(0.25)
        return read

    def read(self):
        compare(self.written, self.client.call("read", self.topic, len(COMBINATIONS)), self.lacks)
        theirs = f"{self.topic}-gallery"
        self.reference.call("create", theirs, len(CODECS))
        written = {}
        for partition, codec in enumerate(CODECS):
            written[partition] = samples(self.lacks, partition, self.start)
            self.reference.call("produce", theirs, codec, -1, 1, lines=written[partition])
        compare(written, self.client.call("read", theirs, len(CODECS)), self.lacks)
        return "ok", []

    def times(self):
        topic = f"{self.topic}-times"
        self.reference.call("create", topic, 2)
        sent = samples({}, 1, self.start)
        self.reference.call("produce", topic, "none", -1, 0, lines=sent)
        for at, offset in ((0, 0), (self.start, 0), (self.start + 1, 1), (self.start + 1000, 1),
                           (self.start + 4500, 5), (sent[-1]["timestamp"], len(sent) - 1),
                           (sent[-1]["timestamp"] + 1, -1)):
            answer = self.client.call("lookup", topic, 1, at)[0]
            if answer["offset"] != offset:
                raise Failed(f"time {at - self.start}: offset {answer['offset']}, due was {offset}")
        return "ok", []

    def one(self, size):
        return [{"partition": 0, "key": None, "value": base64_of(b"x" * size), "headers": [],
                 "timestamp": self.start}]

    def limit(self):
        topic = f"{self.topic}-limit"
        self.reference.call("create", topic, 1)
        fits = MAX_MESSAGE_BYTES - BATCH_OVERHEAD
        self.client.call("produce", topic, "none", -1, 0, lines=self.one(fits))
        try:
            self.client.call("produce", topic, "none", -1, 0, lines=self.one(fits + 1))
        except Failed as error:
            refusal = str(error).removeprefix("produce: ")
        else:
            raise Failed("one byte more than max.message.bytes was taken")
        compare({0: self.one(fits)}, self.reference.call("read", topic, 1), self.lacks)
        return "ok", [f"refused with: {refusal}"]

    def again(self):
        topic = f"{self.topic}-again"
        for partition in (2, 0):
            self.either("create", topic, 3)
            sent = samples(self.lacks, partition, self.start)
            self.client.call("produce", topic, "none", -1, 0, lines=sent)
            compare({partition: sent}, self.either("read", topic, 3), self.lacks)
            self.either("delete", topic)
        return "ok", []

    def admin(self):
        topic = f"{self.topic}-admin"
        self.reference.call("create", topic, 2)
        self.reference.call("produce", topic, "none", -1, 0, lines=samples({}, 1, self.start))
        answers = self.client.call("admin", topic, self.start + 4500)
        calls = {answer["call"]: answer["answer"] for answer in answers if "answer" in answer}
        for call, answer in calls.items():
            if answer != CALLS[call]:
                raise Failed(f"{call}: {json.dumps(answer)[:200]}, due was {json.dumps(CALLS[call])}")
        if "produce by default" in calls:
            found = self.reference.call("read", f"{topic}-default", 1)
            if [base64.b64decode(record["value"]) for record in found] != \
                    [b"%d" % number for number in range(DEFAULT_RECORDS)]:
                raise Failed(f"{len(found)} records of the producer by default, or in another order")
        reasons = [f"{answer['call']}: {answer['unsupported']}" for answer in answers if "unsupported" in answer]
        absent = [call for call in CALLS if call not in {answer["call"] for answer in answers}]
        if absent:
            reasons.append(f"not in this client: {', '.join(absent)}")
        return ("ok" if len(calls) == len(CALLS) else f"{len(calls)} of {len(CALLS)}"), reasons

    def row(self):
        cells = [self.outcome[step][0] for step in STEPS]
        return f"| {self.client.title} | {self.version} | {' | '.join(cells)} |"

    def reasons(self):
        return [f"- {self.client.title}, {STEPS[step]}: {reason}"
                for step in STEPS for reason in self.outcome[step][1]]


def committed():
    """title -> its row and reasons, as docs/compatibility.md has them."""
    found = {}
    for line in DOCUMENT.read_text().split(AROUND)[0].splitlines() if DOCUMENT.exists() else []:
        row = re.match(r"\| (.+?) \| ", line)
        if row and row[1] != "client":
            found[row[1]] = [line]
        else:
            for title in found:
                if line.startswith(f"- {title}, "):
                    found[title].append(line)
    return found


def write(results):
    """Rows of clients that did not run now stay as they are."""
    known = committed()
    known.update({run.client.title: [run.row(), *run.reasons()] for run in results})
    rows = [known[title][0] for title in sorted(known)]
    reasons = [line for title in sorted(known) for line in known[title][1:]]
    _, heading, rest = DOCUMENT.read_text().partition(AROUND) if DOCUMENT.exists() else ("", "", "")
    head = f"| client | version | {' | '.join(STEPS.values())} |\n|{'---|' * (2 + len(STEPS))}\n"
    text = TEXT.format(calls=textwrap.fill(", ".join(CALLS), 118, subsequent_indent="  ", initial_indent=" " * 26).strip())
    DOCUMENT.write_text(text + head + "\n".join(rows) + "\n\n## Reasons\n\n" + "\n".join(reasons) + "\n" + heading + rest)


def chosen(names):
    """Folders to run: those named, else all but the ones too slow for CI when in CI."""
    folders = sorted(path.parent for path in CLIENTS.glob("*/client.json"))
    if names:
        unknown = set(names) - {folder.name for folder in folders}
        if unknown:
            raise SystemExit(f"matrix.py: no such client: {', '.join(sorted(unknown))}; "
                             f"there are {', '.join(folder.name for folder in folders)}")
        return [folder for folder in folders if folder.name in names]
    return folders


def judge(run, tally, known):
    """Prints one client's steps; what differs from the committed page is a failure."""
    for step, (cell, reasons) in run.outcome.items():
        bad = cell == "FAILS"
        tally["failed" if bad else "passed"] += 1
        text = f": {'; '.join(reasons)}" if reasons else ""
        print(f"{'not ok' if bad else 'ok'} {run.client.name} {step} {cell} ({run.seconds[step]:.1f} s){text}")
    if known is not None:
        now = [run.row(), *run.reasons()]
        same = known.get(run.client.title) == now
        tally["passed" if same else "failed"] += 1
        if not same:
            print(f"not ok {run.client.name}: differs from docs/compatibility.md; --write updates it. Now:\n   "
                  + "\n   ".join(now))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="bring docs/compatibility.md up to date")
    parser.add_argument("names", nargs="*", help="folders of clients/; all without")
    options = parser.parse_args()
    tally = collections.Counter()
    with Node(fresh_dir("matrix") / "data") as node:
        reference = Client(CLIENTS / REFERENCE, node.kafka)
        reference.install()
        clients = prepared([Client(folder, node.kafka) for folder in chosen(options.names)], tally)
        results = []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            waiting = [(client, pool.submit(lambda c: Run(c, reference).all_steps(), client)) for client in clients]
            for client, future in waiting:
                try:
                    results.append(future.result())
                except (Failed, TimedOut, Lacks) as error:
                    print(f"not ok {client.name}: {error}", flush=True)
                    tally["failed"] += 1
                    continue
                judge(results[-1], tally, None if options.write else committed())
    if options.write:
        write(results)
    print(f"{tally['passed']} passed, {tally['failed']} failed, {tally['skipped']} skipped")
    return 1 if tally["failed"] or not tally["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())

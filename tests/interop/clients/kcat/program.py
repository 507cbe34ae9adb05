"""kcat: the contract's verbs (see ../README.md) by its command line. kcat's producer takes one record for
a run here, because whether there is a key, and whether an empty value is null, are options of a run."""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import contract

# Framed by lengths; kcat itself writes NULL for a header without value, and separates headers with commas.
FORMAT = "%p %o %T %K %S\\n%k%s\\n%h\\n"
LACKS = {
    "binary": "keys and values are separated by bytes",
    "timestamp": "kcat's producer gives no times",
    "null-header": "-H has no null value, and -f prints it as NULL",
    "headers": "-f separates headers with commas, without a length",
}


class Client:
    def __init__(self, brokers):
        self.brokers = brokers

    def kcat(self, *options, stdin=b""):
        done = subprocess.run(["kcat", "-b", self.brokers, *options], capture_output=True, timeout=60, input=stdin)
        if done.returncode:
            errors = done.stderr.decode(errors="replace").strip().splitlines()
            raise RuntimeError(errors[-1] if errors else f"exit {done.returncode}")
        return done.stdout

    def versions(self):
        text = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
        words = text.split("Version ")[1].split()
        library = text.split("librdkafka ")[1].split()[0]
        return {"client": "kcat", "version": f"{words[0]} (librdkafka {library})", "lacks": LACKS}

    def produce(self, topic, codec, acks, idempotent, records):
        if idempotent and acks != -1:
            raise contract.Unsupported("librdkafka refuses idempotence with acks other than all")
        options = ["-P", "-t", topic, "-z", codec, "-X", f"acks={acks}", "-X", "message.max.bytes=16777216",
                   "-X", f"enable.idempotence={str(idempotent).lower()}", "-X", "linger.ms=0"]
        for record in records:
            yield record, self.produce_one(options, record)

    def produce_one(self, options, record):
        # With -Z what is empty is null.
        extra = ["-p", str(record.partition), "-D", "\\x1e", *(["-Z"] if record.value is None else [])]
        line = (record.value or b"") + b"\x1e"
        if record.key is not None:
            extra += ["-K", "\\x1f"]
            line = record.key + b"\x1f" + line
        self.kcat(*options, *extra, stdin=line)
        return None # kcat does not tell offsets.

    def read(self, topic, partitions):
        data, at = self.kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", FORMAT), 0
        while at < len(data):
            line = data.index(b"\n", at)
            partition, offset, timestamp, key, value = map(int, data[at:line].split())
            at = line + 1
            fields = []
            for length in (key, value):
                fields.append(None if length < 0 else data[at:at + length])
                at += max(length, 0)
            line = data.index(b"\n", at + 1)
            pairs = data[at + 1:line].decode()
            headers = [(name, text.encode()) for name, _, text in
                       (pair.partition("=") for pair in pairs.split(",") if pair)]
            at = line + 1
            yield contract.Record(partition, fields[0], fields[1], headers, timestamp, offset)

    def lookup(self, topic, partition, timestamp):
        answer = self.kcat("-Q", "-t", f"{topic}:{partition}:{timestamp}").decode()
        return max(int(answer.split("offset ")[1].split()[0]), -1), None

    def metadata(self, *options):
        return json.loads(self.kcat("-L", "-J", *options))

    def admin_calls(self, topic, timestamp):
        everything = self.metadata()
        yield "describe cluster", [broker["id"] for broker in everything["brokers"]]
        yield "list topics", topic in [found["topic"] for found in everything["topics"]]
        yield "describe topic", len(self.metadata("-t", topic)["topics"][0]["partitions"])
        yield "earliest offset", self.lookup(topic, 1, -2)[0]
        yield "latest offset", self.lookup(topic, 1, -1)[0]
        yield "offset for a time", self.lookup(topic, 1, timestamp)[0]
        lines = b"".join(b"%d\n" % number for number in range(100))
        self.kcat("-P", "-t", topic + "-default", stdin=lines) # Fails if one record was not acknowledged.
        yield "produce by default", 100


contract.main(Client)

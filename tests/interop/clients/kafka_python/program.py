"""kafka-python: the contract's verbs (see ../README.md)."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import contract
import kafka_python_member

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec, OffsetTimestamp

LARGEST = 16 << 20 # The broker's limit is what is tested, not the client's.

LACKS = {"null-header": "a header without a value is refused as no (str, bytes) pair"}


class Client:
    def __init__(self, brokers):
        self.brokers = brokers

    def versions(self):
        return {"client": "kafka-python", "version": kafka.__version__, "lacks": LACKS}

    def admin(self):
        return KafkaAdminClient(bootstrap_servers=self.brokers)

    def create(self, topic, partitions):
        self.admin().create_topics({topic: {"num_partitions": partitions}})

    def delete(self, topic):
        self.admin().delete_topics([topic])

    def produce(self, topic, codec, acks, idempotent, records):
        if idempotent and acks != -1:
            raise contract.Unsupported("kafka-python refuses idempotence with acks other than all")
        producer = KafkaProducer(bootstrap_servers=self.brokers, acks="all" if acks == -1 else acks,
                                 compression_type=None if codec == "none" else codec, linger_ms=20,
                                 batch_size=1 << 20, max_request_size=LARGEST, enable_idempotence=idempotent)
        futures = [producer.send(topic, value=r.value, key=r.key, headers=r.headers, partition=r.partition,
                                 timestamp_ms=r.timestamp) for r in records]
        producer.flush(60)
        answers = [(record, future.get(60).offset) for record, future in zip(records, futures)]
        producer.close()
        return answers

    def consumer(self):
        return KafkaConsumer(bootstrap_servers=self.brokers, group_id=None, enable_auto_commit=False)

    def read(self, topic, partitions):
        consumer = self.consumer()
        all_of = [TopicPartition(topic, partition) for partition in range(partitions)]
        ends = {at: end for at, end in consumer.end_offsets(all_of).items() if end > 0}
        consumer.assign(list(ends))
        for at in ends:
            consumer.seek(at, 0)
        while ends:
            for at, records in consumer.poll(1000).items():
                for r in records:
                    yield contract.Record(r.partition, r.key, r.value, r.headers, r.timestamp, r.offset)
                if records[-1].offset + 1 >= ends.get(at, 0):
                    ends.pop(at, None)
        consumer.close()

    def lookup(self, topic, partition, timestamp):
        at = TopicPartition(topic, partition)
        found = self.consumer().offsets_for_times({at: timestamp})[at]
        return (found.offset, found.timestamp) if found else (-1, None)

    def admin_calls(self, topic, timestamp):
        admin, at = self.admin(), TopicPartition(topic, 1)

        def config(kind, name, entry):
            resource = ConfigResource(kind, name)
            return admin.describe_configs([resource], config_filter="all")[kind.lower()][name][entry]["value"]

        def altered(value, **how):
            answer = admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": value})], **how)
            return answer["topic"][topic]

        def offset(spec):
            return admin.list_partition_offsets({at: spec})[at].offset

        yield "describe cluster", [broker["broker_id"] for broker in admin.describe_cluster()["brokers"]]
        yield "list topics", topic in admin.list_topics()
        yield "describe topic", len(admin.describe_topics([topic])[0]["partitions"])
        yield "describe missing topic", admin.describe_topics([topic + "-no"])[0]["error_code"]
        admin.create_topics({topic + "-no": {"num_partitions": 1}}, validate_only=True)
        yield "check a creation", topic + "-no" in admin.list_topics()
        yield "describe topic config", config("TOPIC", topic, "retention.ms")
        altered("1234567890")
        yield "alter topic config", config("TOPIC", topic, "retention.ms")
        admin.reset_configs([ConfigResource("TOPIC", topic, ["retention.ms"])])
        yield "reset topic config", config("TOPIC", topic, "retention.ms")
        altered("7654321000", incremental=False)
        yield "replace topic configs", config("TOPIC", topic, "retention.ms")
        yield "refused topic config", int(altered("soon").split("]")[0].removeprefix("[Error ")) # Only as a text.
        yield "describe broker config", config("BROKER", "1", "message.max.bytes")
        admin.create_partitions({topic: 3})
        yield "add partitions", len(admin.describe_topics([topic])[0]["partitions"])
        yield "earliest offset", offset(OffsetSpec.EARLIEST)
        yield "latest offset", offset(OffsetSpec.LATEST)
        yield "offset of latest time", offset(OffsetSpec.MAX_TIMESTAMP)
        yield "offset for a time", offset(OffsetTimestamp(timestamp))
        yield "delete records", admin.delete_records({at: 4})[at]["low_watermark"]
        elected = admin.elect_leaders(0, {topic: [0]}, raise_errors=False)
        yield "elect leaders", elected.replica_election_results[0].partition_result[0].error_code
        yield "log directories", topic in [found["name"] for broker in admin.describe_log_dirs()
                                           for log_dir in broker["log_dirs"] for found in log_dir["topics"]]
        yield "produce by default", self.produced(topic + "-default")

    def member(self, args):
        kafka_python_member.run(self.brokers, args, commits_when_revoked=False)

    def produced(self, topic):
        producer = KafkaProducer(bootstrap_servers=self.brokers)
        futures = [producer.send(topic, b"%d" % number) for number in range(100)]
        producer.flush()
        return sum(future.succeeded() for future in futures)


contract.main(Client)

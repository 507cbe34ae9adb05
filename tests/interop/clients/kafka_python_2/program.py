"""kafka-python 2.0.2: the contract's verbs (see ../README.md)."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import contract
import kafka_python_member

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient, NewPartitions, NewTopic

LARGEST = 16 << 20 # The broker's limit is what is tested, not the client's.
LACKS = {"null-header": "the encoder throws on a header without a value"}


class Client:
    def __init__(self, brokers):
        self.brokers = brokers

    def versions(self):
        return {"client": "kafka-python", "version": kafka.__version__, "lacks": LACKS}

    def admin(self):
        return KafkaAdminClient(bootstrap_servers=self.brokers)

    def create(self, topic, partitions):
        self.admin().create_topics([NewTopic(topic, partitions, 1)])

    def delete(self, topic):
        self.admin().delete_topics([topic])

    def produce(self, topic, codec, acks, idempotent, records):
        if idempotent:
            raise contract.Unsupported("no idempotent producer in this release")
        producer = KafkaProducer(bootstrap_servers=self.brokers, acks="all" if acks == -1 else acks, retries=1,
                                 compression_type=None if codec == "none" else codec, linger_ms=20,
                                 batch_size=1 << 20, max_request_size=LARGEST)
        futures = [producer.send(topic, value=r.value, key=r.key, headers=r.headers, partition=r.partition,
                                 timestamp_ms=r.timestamp) for r in records]
        producer.flush(60)
        answers = [(record, future.get(60).offset if acks else None) for record, future in zip(records, futures)]
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
            answer = admin.describe_configs([ConfigResource(kind, name, {entry: None})])
            return answer[0].resources[0][4][0][1]

        def altered(value):
            return admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": value})]).resources[0][0]

        yield "describe cluster", [broker["node_id"] for broker in admin.describe_cluster()["brokers"]]
        yield "list topics", topic in admin.list_topics()
        yield "describe topic", len(admin.describe_topics([topic])[0]["partitions"])
        yield "describe missing topic", contract.Unsupported("describe_topics creates it")
        admin.create_topics([NewTopic(topic + "-no", 1, 1)], validate_only=True)
        yield "check a creation", topic + "-no" in admin.list_topics()
        yield "describe topic config", config("TOPIC", topic, "retention.ms")
        altered("7654321000")
        yield "replace topic configs", config("TOPIC", topic, "retention.ms")
        yield "refused topic config", altered("soon")
        yield "describe broker config", config("BROKER", "1", "message.max.bytes")
        admin.create_partitions({topic: NewPartitions(3)})
        yield "add partitions", len(admin.describe_topics([topic])[0]["partitions"])
        yield "earliest offset", self.consumer().beginning_offsets([at])[at]
        yield "latest offset", self.consumer().end_offsets([at])[at]
        yield "offset for a time", self.lookup(topic, 1, timestamp)[0]
        producer = KafkaProducer(bootstrap_servers=self.brokers)
        futures = [producer.send(topic + "-default", b"%d" % number) for number in range(100)]
        producer.flush()
        yield "produce by default", sum(future.succeeded() for future in futures)

    def member(self, args):
        kafka_python_member.run(self.brokers, args, commits_when_revoked=True)


contract.main(Client)

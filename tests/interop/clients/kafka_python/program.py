"""kafka-python: the contract's verbs (see ../README.md)."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import contract

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

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


contract.main(Client)

"""librdkafka through confluent-kafka: the contract's verbs (see ../README.md)."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import contract

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

LARGEST = 16 << 20 # The broker's limit is what is tested, not the client's.
ERROR_IF_IDEMPOTENT = "librdkafka refuses idempotence with acks other than all"


class Client:
    def __init__(self, brokers):
        self.config = {"bootstrap.servers": brokers}

    def versions(self):
        return {"client": "librdkafka",
                "version": f"{confluent_kafka.libversion()[0]} (confluent-kafka {confluent_kafka.version()})"}

    def create(self, topic, partitions):
        admin = AdminClient(self.config)
        admin.create_topics([NewTopic(topic, partitions)])[topic].result(30)

    def delete(self, topic):
        admin = AdminClient(self.config)
        admin.delete_topics([topic])[topic].result(30)

    def produce(self, topic, codec, acks, idempotent, records):
        if idempotent and acks != -1:
            raise contract.Unsupported(ERROR_IF_IDEMPOTENT)
        producer = Producer({**self.config, "compression.type": codec, "acks": acks, "linger.ms": 20,
                             "enable.idempotence": idempotent, "message.max.bytes": LARGEST})
        offsets, errors = {}, []

        def delivered(index):
            def callback(error, message):
                if error:
                    errors.append(error)
                else:
                    offsets[index] = message.offset()
            return callback

        for index, record in enumerate(records):
            producer.produce(topic, value=record.value, key=record.key, partition=record.partition,
                             timestamp=record.timestamp, headers=record.headers or None,
                             on_delivery=delivered(index))
        producer.flush(60)
        if errors:
            raise KafkaException(errors[0])
        return [(record, offsets[index]) for index, record in enumerate(records)]

    def read(self, topic, partitions):
        consumer = Consumer({**self.config, "group.id": "unused", "enable.auto.commit": False,
                             "auto.offset.reset": "error", "enable.partition.eof": False})
        ends = {}
        for partition in range(partitions):
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)
            if end > first:
                ends[partition] = end
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        while ends:
            message = consumer.poll(30)
            if message is None:
                raise TimeoutError(f"no record for 30 s; missing up to {ends}")
            if message.error() and message.topic() is None:
                continue # The group's coordinator, which nothing here needs, and which is not served yet.
            if message.error():
                raise KafkaException(message.error())
            partition = message.partition()
            if partition not in ends:
                continue
            yield contract.Record(partition, message.key(), message.value(), message.headers(),
                                  message.timestamp()[1], message.offset())
            if message.offset() + 1 >= ends[partition]:
                del ends[partition]
        consumer.close()

    def lookup(self, topic, partition, timestamp):
        consumer = Consumer({**self.config, "group.id": "unused"})
        found = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], 30)[0]
        consumer.close()
        return max(found.offset, -1), None


contract.main(Client)

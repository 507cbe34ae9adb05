"""librdkafka through confluent-kafka: the contract's verbs (see ../README.md)."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import contract

import confluent_kafka
from confluent_kafka import Consumer, ElectionType, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic,
                                   OffsetSpec)

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

    def pattern(self, group, pattern):
        events = []

        def note(event):
            return lambda _, partitions: events.append((event, {"topics": sorted({p.topic for p in partitions})}))
        consumer = Consumer({**self.config, "group.id": group, "group.protocol": "consumer", "auto.offset.reset": "earliest",
                             "fetch.wait.max.ms": 100})
        consumer.subscribe([pattern], on_assign=note("assigned"), on_revoke=note("revoked"))
        while not contract.is_asked_to_end():
            message = consumer.poll(0.05)
            if message is not None:
                events.append(("error", {"error": message.error().str()}) if message.error() else
                              ("record", {"topic": message.topic(), "value": message.value().decode()}))
            yield from events
            events.clear()
        consumer.close()

    def admin_calls(self, topic, timestamp):
        admin = AdminClient(self.config)

        def one(futures):
            return next(iter(futures.values())).result(30)

        def error(call, *args):
            try:
                one(call(*args))
            except KafkaException as refused:
                return refused.args[0].code()

        def partitions():
            return len(one(admin.describe_topics(TopicCollection([topic]))).partitions)

        def config(kind, name, entry):
            return one(admin.describe_configs([ConfigResource(kind, name)]))[entry].value

        def alter(operation, value):
            entry = ConfigEntry("retention.ms", value, incremental_operation=operation)
            return admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[entry])])

        def offset(spec):
            return one(admin.list_offsets({TopicPartition(topic, 1): spec})).offset

        yield "describe cluster", [node.id for node in admin.describe_cluster().result(30).nodes]
        yield "list topics", topic in admin.list_topics(timeout=30).topics
        yield "describe topic", partitions()
        yield "describe missing topic", error(admin.describe_topics, TopicCollection([topic + "-no"]))
        one(admin.create_topics([NewTopic(topic + "-no", 1)], validate_only=True))
        yield "check a creation", topic + "-no" in admin.list_topics(timeout=30).topics
        yield "describe topic config", config("topic", topic, "retention.ms")
        one(alter(AlterConfigOpType.SET, "1234567890"))
        yield "alter topic config", config("topic", topic, "retention.ms")
        one(alter(AlterConfigOpType.DELETE, None))
        yield "reset topic config", config("topic", topic, "retention.ms")
        one(admin.alter_configs([ConfigResource("topic", topic, set_config={"retention.ms": "7654321000"})]))
        yield "replace topic configs", config("topic", topic, "retention.ms")
        yield "refused topic config", error(alter, AlterConfigOpType.SET, "soon")
        yield "describe broker config", config("broker", "1", "message.max.bytes")
        one(admin.create_partitions([NewPartitions(topic, 3)]))
        yield "add partitions", partitions()
        yield "earliest offset", offset(OffsetSpec.earliest())
        yield "latest offset", offset(OffsetSpec.latest())
        yield "offset of latest time", offset(OffsetSpec.max_timestamp())
        yield "offset for a time", offset(OffsetSpec.for_timestamp(timestamp))
        yield "delete records", one(admin.delete_records([TopicPartition(topic, 1, 4)])).low_watermark
        elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(30)
        yield "elect leaders", next(iter(elected.values())).code()
        yield "produce by default", self.produced(topic + "-default")

    def produced(self, topic):
        producer, delivered = Producer(self.config), []
        for number in range(100):
            producer.produce(topic, str(number), on_delivery=lambda error, message: error or delivered.append(message))
        producer.flush(60)
        return len(delivered)


contract.main(Client)

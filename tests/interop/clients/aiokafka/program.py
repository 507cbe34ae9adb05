"""aiokafka: the contract's verbs (see ../README.md)."""
import asyncio
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import contract
import member

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError, for_code

LARGEST = 16 << 20 # The broker's limit is what is tested, not the client's.
SECONDS = 60


ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Member(ConsumerRebalanceListener):
    """The verb `member`: one consumer in a group, until the input closes."""

    def __init__(self, brokers, args):
        self.joining, self.events = member.joining(args), member.Events()
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=brokers, group_id=self.joining.group, group_instance_id=self.joining.instance,
            session_timeout_ms=self.joining.session_ms, heartbeat_interval_ms=self.joining.heartbeat_ms,
            enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=100,
            partition_assignment_strategy=[ASSIGNORS[self.joining.protocol]])

    async def on_partitions_assigned(self, assigned):
        self.events.partitions("assigned", assigned)

    async def on_partitions_revoked(self, revoked):
        if revoked:
            await self.commit(revoked)
        self.events.partitions("revoked", revoked)

    async def commit(self, partitions=None):
        offsets = self.events.due(partitions)
        if not offsets:
            return
        try:
            await self.consumer.commit({TopicPartition(self.joining.topic, n): position for n, position in offsets.items()})
        except KafkaError as error:
            self.events.failed("refused", error)
        else:
            self.events.committed(offsets)

    async def run(self):
        self.events.ready()
        self.consumer.subscribe([self.joining.topic], listener=self)
        await self.consumer.start()
        due = time.monotonic()
        while not self.events.is_asked_to_end:
            for records in (await self.consumer.getmany(timeout_ms=member.POLL_MS)).values():
                for record in records:
                    self.events.record(record.partition, record.offset)
            if time.monotonic() >= due:
                await self.commit()
                due = time.monotonic() + member.COMMIT_SECONDS
        await self.commit()
        await self.consumer.stop()
        self.events.say("closed")


class Client:
    def __init__(self, brokers):
        self.brokers = brokers

    def member(self, args):
        async def run():
            await Member(self.brokers, args).run() # Made inside the loop that it belongs to.
        asyncio.run(run())

    def versions(self):
        return {"client": "aiokafka", "version": aiokafka.__version__}

    def within(self, work):
        return asyncio.run(asyncio.wait_for(work, SECONDS))

    async def asked(self, ask):
        """ask(admin)'s answer; the admin client leaves the errors in it to its caller."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.brokers)
        await admin.start()
        try:
            answer = await ask(admin)
        finally:
            await admin.close()
        errors = answer.topic_errors if hasattr(answer, "topic_errors") else answer.topic_error_codes
        for topic, code, *_ in errors:
            if code:
                raise for_code(code)(topic)

    def create(self, topic, partitions):
        self.within(self.asked(lambda admin: admin.create_topics([NewTopic(topic, partitions, 1)])))

    def delete(self, topic):
        self.within(self.asked(lambda admin: admin.delete_topics([topic])))

    def produce(self, topic, codec, acks, idempotent, records):
        if idempotent and acks != -1:
            raise contract.Unsupported("aiokafka refuses idempotence with acks other than all")
        return self.within(self.produced(topic, codec, acks, idempotent, records))

    async def produced(self, topic, codec, acks, idempotent, records):
        producer = AIOKafkaProducer(bootstrap_servers=self.brokers, acks="all" if acks == -1 else acks,
                                    compression_type=None if codec == "none" else codec, linger_ms=20,
                                    max_batch_size=LARGEST, max_request_size=LARGEST,
                                    enable_idempotence=idempotent)
        await producer.start()
        try:
            futures = [await producer.send(topic, value=r.value, key=r.key, headers=r.headers, partition=r.partition,
                                           timestamp_ms=r.timestamp) for r in records]
            await producer.flush()
            answers = [await future for future in futures]
        finally:
            await producer.stop()
        return [(record, answer.offset if answer else None) for record, answer in zip(records, answers)]

    def consumer(self):
        return AIOKafkaConsumer(bootstrap_servers=self.brokers, group_id=None, enable_auto_commit=False)

    def read(self, topic, partitions):
        return self.within(self.all_records(topic, partitions))

    async def all_records(self, topic, partitions):
        consumer = self.consumer()
        await consumer.start()
        try:
            all_of = [TopicPartition(topic, partition) for partition in range(partitions)]
            ends = {at: end for at, end in (await consumer.end_offsets(all_of)).items() if end > 0}
            consumer.assign(list(ends))
            for at in ends:
                consumer.seek(at, 0)
            found = []
            while ends:
                for at, records in (await consumer.getmany(timeout_ms=1000)).items():
                    found += [contract.Record(r.partition, r.key, r.value, r.headers, r.timestamp, r.offset)
                              for r in records]
                    if records[-1].offset + 1 >= ends.get(at, 0):
                        ends.pop(at, None)
        finally:
            await consumer.stop()
        return found

    def lookup(self, topic, partition, timestamp):
        return self.within(self.first_after(TopicPartition(topic, partition), timestamp))

    async def first_after(self, at, timestamp):
        consumer = self.consumer()
        await consumer.start()
        try:
            found = (await consumer.offsets_for_times({at: timestamp}))[at]
        finally:
            await consumer.stop()
        return (found.offset, found.timestamp) if found else (-1, None)

    def admin_calls(self, topic, timestamp):
        return self.within(self.all_calls(topic, timestamp))

    async def all_calls(self, topic, timestamp):
        admin, at, calls = AIOKafkaAdminClient(bootstrap_servers=self.brokers), TopicPartition(topic, 1), {}
        await admin.start()

        async def config(kind, name, entry):
            answer = await admin.describe_configs([ConfigResource(kind, name, {entry: None})])
            return answer[0].resources[0][4][0][1]

        async def altered(value):
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": value})
            return (await admin.alter_configs([resource]))[0].resources[0][0]

        async def offsets(ask, *args):
            consumer = self.consumer()
            await consumer.start()
            try:
                return (await ask(consumer)(*args))[at]
            finally:
                await consumer.stop()

        try:
            calls["describe cluster"] = [broker["node_id"] for broker in (await admin.describe_cluster())["brokers"]]
            calls["list topics"] = topic in await admin.list_topics()
            calls["describe topic"] = len((await admin.describe_topics([topic]))[0]["partitions"])
            calls["describe missing topic"] = contract.Unsupported("describe_topics creates it")
            await admin.create_topics([NewTopic(topic + "-no", 1, 1)], validate_only=True)
            calls["check a creation"] = topic + "-no" in await admin.list_topics()
            calls["describe topic config"] = await config(ConfigResourceType.TOPIC, topic, "retention.ms")
            await altered("7654321000")
            calls["replace topic configs"] = await config(ConfigResourceType.TOPIC, topic, "retention.ms")
            calls["refused topic config"] = await altered("soon")
            calls["describe broker config"] = await config(ConfigResourceType.BROKER, "1", "message.max.bytes")
            await admin.create_partitions({topic: NewPartitions(3)})
            calls["add partitions"] = len((await admin.describe_topics([topic]))[0]["partitions"])
            calls["earliest offset"] = await offsets(lambda c: c.beginning_offsets, [at])
            calls["latest offset"] = await offsets(lambda c: c.end_offsets, [at])
            calls["offset for a time"] = (await offsets(lambda c: c.offsets_for_times, {at: timestamp})).offset
            calls["delete records"] = (await admin.delete_records({at: RecordsToDelete(4)}))[at]
            calls["produce by default"] = await self.produced_by_default(topic + "-default")
        finally:
            await admin.close()
        return calls.items()

    async def produced_by_default(self, topic):
        producer = AIOKafkaProducer(bootstrap_servers=self.brokers)
        await producer.start()
        try:
            sent = [await producer.send(topic, b"%d" % number) for number in range(100)]
            return len([await future for future in sent])
        finally:
            await producer.stop()


contract.main(Client)

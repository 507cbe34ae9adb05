"""aiokafka: the contract's verbs (see ../README.md)."""
import asyncio
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import contract

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code

LARGEST = 16 << 20 # The broker's limit is what is tested, not the client's.
SECONDS = 60


class Client:
    def __init__(self, brokers):
        self.brokers = brokers

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


contract.main(Client)

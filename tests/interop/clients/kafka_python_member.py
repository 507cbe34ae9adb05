"""The verb `member` of both releases of kafka-python."""
import time

import member

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Listener(ConsumerRebalanceListener):
    def __init__(self, events, commit):
        self.events, self.commit = events, commit

    def on_partitions_assigned(self, assigned):
        self.events.partitions("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        if revoked and self.commit:
            self.commit(revoked)
        self.events.partitions("revoked", revoked)

    def on_partitions_lost(self, lost):
        self.events.partitions("lost", lost)


def run(brokers, args, commits_when_revoked):
    """commits_when_revoked: whether the release lets its callbacks call it."""
    joining, events = member.joining(args), member.Events()
    # Release 3.0 misses to wake its own network thread now and then: what the consumer asks of it waits until that wakes for
    # another reason, by default when the metadata are five minutes old.
    consumer = KafkaConsumer(bootstrap_servers=brokers, group_id=joining.group, session_timeout_ms=joining.session_ms,
                             heartbeat_interval_ms=joining.heartbeat_ms, enable_auto_commit=False, fetch_max_wait_ms=100,
                             auto_offset_reset="earliest", metadata_max_age_ms=1000,
                             partition_assignment_strategy=[ASSIGNORS[joining.protocol]],
                             **({"group_instance_id": joining.instance} if joining.instance else {}))
    more = [-1] * (len(OffsetAndMetadata._fields) - 2) # Later releases have a leader epoch.

    def commit(partitions=None):
        offsets = events.due(partitions)
        if not offsets:
            return
        try:
            consumer.commit({TopicPartition(joining.topic, n): OffsetAndMetadata(position, "", *more)
                             for n, position in offsets.items()})
        except KafkaError as error:
            events.failed("refused", error)
        else:
            events.committed(offsets)

    events.ready()
    consumer.subscribe([joining.topic], listener=Listener(events, commit if commits_when_revoked else None))
    due = time.monotonic()
    while not events.is_asked_to_end:
        try:
            for records in consumer.poll(timeout_ms=member.POLL_MS).values():
                for record in records:
                    events.record(record.partition, record.offset)
        except KafkaError as error:
            events.failed("error", error)
        if time.monotonic() >= due:
            commit()
            due = time.monotonic() + member.COMMIT_SECONDS
    commit()
    consumer.close()
    events.say("closed")

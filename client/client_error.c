#include "client/client_error.h"

#include <stddef.h>

#include "kafka/proto/error_codes.h"

struct row {
    int16_t code;
    enum err err;
    const char *text;
};

static const struct row rows[] = {
    {KAFKA_NONE, ERR_OK, "no error"},
    {KAFKA_OFFSET_OUT_OF_RANGE, ERR_OUT_OF_RANGE, "the offset is not in the log"},
    {KAFKA_CORRUPT_MESSAGE, ERR_CORRUPT, "the bytes were damaged on their way"},
    {KAFKA_UNKNOWN_TOPIC_OR_PARTITION, ERR_TOPIC_UNKNOWN, "the topic does not exist"},
    {KAFKA_LEADER_NOT_AVAILABLE, ERR_NOT_LEADER, "the partition has no leader now"},
    {KAFKA_NOT_LEADER_OR_FOLLOWER, ERR_NOT_LEADER, "the broker does not lead the partition"},
    {KAFKA_REQUEST_TIMED_OUT, ERR_TIMED_OUT, "the broker gave up waiting"},
    {KAFKA_MESSAGE_TOO_LARGE,
     ERR_TOO_LARGE,
     "the batch is larger than the topic's max.message.bytes"},
    {KAFKA_INVALID_TOPIC_EXCEPTION,
     ERR_TOPIC_NAME_INVALID,
     "the name is not allowed: 1 to 249 of a-z A-Z 0-9 . _ -"},
    {KAFKA_RECORD_LIST_TOO_LARGE,
     ERR_TOO_LARGE,
     "the batch is larger than the topic's segment.bytes"},
    {KAFKA_NOT_ENOUGH_REPLICAS,
     ERR_NOT_LEADER,
     "fewer replicas than min.insync.replicas are in sync"},
    {KAFKA_TOPIC_AUTHORIZATION_FAILED, ERR_FAILED, "access to the topic is denied"},
    {KAFKA_CLUSTER_AUTHORIZATION_FAILED, ERR_FAILED, "access to the cluster is denied"},
    {KAFKA_INVALID_TIMESTAMP,
     ERR_TIMESTAMP_INVALID,
     "the timestamp is outside of what the topic allows"},
    {KAFKA_UNSUPPORTED_VERSION, ERR_UNSUPPORTED, "the broker does not know this version"},
    {KAFKA_TOPIC_ALREADY_EXISTS, ERR_TOPIC_EXISTS, "the topic exists already"},
    {KAFKA_INVALID_PARTITIONS, ERR_PARTITIONS_INVALID, "the number of partitions is not allowed"},
    {KAFKA_INVALID_REPLICATION_FACTOR,
     ERR_REPLICATION_INVALID,
     "the replication factor is larger than the number of brokers, or below 1"},
    {KAFKA_INVALID_CONFIG, ERR_CONFIG_INVALID, "a topic option is unknown or has a bad value"},
    {KAFKA_INVALID_REQUEST, ERR_INVALID, "the broker finds the request invalid"},
    {KAFKA_POLICY_VIOLATION, ERR_POLICY, "the broker's policy forbids it"},
    {KAFKA_UNSUPPORTED_COMPRESSION_TYPE,
     ERR_CODEC_UNSUPPORTED,
     "the broker does not take this compression codec"},
    {KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER,
     ERR_SEQUENCE_OUT_OF_ORDER,
     "records before it were lost: the sequence has a gap"},
    {KAFKA_INVALID_PRODUCER_EPOCH,
     ERR_PRODUCER_EPOCH_STALE,
     "another producer took over this producer id"},
    {KAFKA_UNKNOWN_PRODUCER_ID,
     ERR_SEQUENCE_OUT_OF_ORDER,
     "the broker no longer knows this producer"},
    {KAFKA_TOPIC_DELETION_DISABLED,
     ERR_UNSUPPORTED,
     "topics may not be deleted (delete.topic.enable)"},
    {KAFKA_INVALID_RECORD, ERR_RECORD_INVALID, "a record breaks the topic's rules"},
    {KAFKA_UNKNOWN_TOPIC_ID, ERR_TOPIC_UNKNOWN, "the topic was deleted"},
    {KAFKA_COORDINATOR_LOAD_IN_PROGRESS,
     ERR_NOT_LEADER,
     "the group's coordinator is still loading"},
    {KAFKA_COORDINATOR_NOT_AVAILABLE, ERR_NOT_LEADER, "the group has no coordinator now"},
    {KAFKA_NOT_COORDINATOR, ERR_NOT_LEADER, "the broker does not coordinate the group"},
    {KAFKA_GROUP_ID_NOT_FOUND, ERR_NOT_FOUND, "the group does not exist, or is of another kind"},
    {KAFKA_INVALID_GROUP_ID, ERR_INVALID, "the group's name is not allowed"},
    {KAFKA_NON_EMPTY_GROUP, ERR_POLICY, "the group has members"},
    {KAFKA_GROUP_SUBSCRIBED_TO_TOPIC, ERR_POLICY, "members of the group read the topic"},
    {KAFKA_GROUP_AUTHORIZATION_FAILED, ERR_FAILED, "access to the group is denied"},
    {KAFKA_GROUP_MAX_SIZE_REACHED, ERR_POLICY, "the group has as many members as it may have"},
    {KAFKA_INCONSISTENT_GROUP_PROTOCOL,
     ERR_INVALID,
     "the group's members do not share a protocol with this one"},
    {KAFKA_UNKNOWN_MEMBER_ID, ERR_FAILED, "the group does not know the member"},
    {KAFKA_FENCED_MEMBER_EPOCH, ERR_FAILED, "the group went on without the member"},
    {KAFKA_STALE_MEMBER_EPOCH, ERR_FAILED, "the member's epoch has moved"},
    {KAFKA_FENCED_INSTANCE_ID, ERR_FAILED, "another member has taken over the instance id"},
    {KAFKA_UNRELEASED_INSTANCE_ID, ERR_EXISTS, "the instance id is another living member's"},
    {KAFKA_UNSUPPORTED_ASSIGNOR, ERR_INVALID, "the broker knows no such assignor"},
    {KAFKA_INVALID_REGULAR_EXPRESSION, ERR_INVALID, "the pattern is no regular expression"},
    {KAFKA_OFFSET_METADATA_TOO_LARGE,
     ERR_TOO_LARGE,
     "the metadata are longer than offset.metadata.max.bytes"},
    {KAFKA_KAFKA_STORAGE_ERROR, ERR_FAILED, "the broker's disk failed (see its log)"},
};

static const struct row *find(int16_t code)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].code == code) {
            return &rows[i];
        }
    }
    return NULL;
}

enum err client_err_of(int16_t code)
{
    const struct row *row = find(code);
    return row == NULL ? ERR_FAILED : row->err;
}

const char *client_error_text(int16_t code)
{
    const struct row *row = find(code);
    return row == NULL ? kafka_error_name(code) : row->text;
}

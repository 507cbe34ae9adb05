#include "kafka/errors.h"

#include "core/assert.h"

/* long: one line per error */
enum kafka_error kafka_error_of(enum err e)
{
    switch (e) {
    case ERR_OK:
        return KAFKA_NONE;
    /* Retriable, and possibly done after all: a client with idempotence repeats it safely. */
    case ERR_BUSY:
    case ERR_CANCELLED:
    case ERR_TIMED_OUT:
        return KAFKA_REQUEST_TIMED_OUT;
    case ERR_CORRUPT:
        return KAFKA_CORRUPT_MESSAGE;
    /* The disk's trouble, full or broken: the client asks again, elsewhere if it can. */
    case ERR_IO:
    case ERR_NO_SPACE:
    case ERR_FAILED:
        return KAFKA_KAFKA_STORAGE_ERROR;
    case ERR_NOT_FOUND:
    case ERR_TOPIC_UNKNOWN:
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    case ERR_EXISTS:
    case ERR_TOPIC_EXISTS:
        return KAFKA_TOPIC_ALREADY_EXISTS;
    case ERR_INVALID:
        return KAFKA_INVALID_REQUEST;
    case ERR_UNSUPPORTED:
        return KAFKA_UNSUPPORTED_VERSION;
    case ERR_TOO_LARGE:
        return KAFKA_MESSAGE_TOO_LARGE;
    case ERR_OUT_OF_RANGE:
        return KAFKA_OFFSET_OUT_OF_RANGE;
    case ERR_NOT_LEADER:
        return KAFKA_NOT_LEADER_OR_FOLLOWER;
    case ERR_LEADER_EPOCH_FENCED:
        return KAFKA_FENCED_LEADER_EPOCH;
    case ERR_LEADER_EPOCH_UNKNOWN:
        return KAFKA_UNKNOWN_LEADER_EPOCH;
    case ERR_RECORD_INVALID:
        return KAFKA_INVALID_RECORD;
    case ERR_TIMESTAMP_INVALID:
        return KAFKA_INVALID_TIMESTAMP;
    case ERR_CODEC_UNSUPPORTED:
        return KAFKA_UNSUPPORTED_COMPRESSION_TYPE;
    case ERR_SEQUENCE_OUT_OF_ORDER:
        return KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER;
    case ERR_PRODUCER_EPOCH_STALE:
        return KAFKA_INVALID_PRODUCER_EPOCH;
    case ERR_TOPIC_NAME_INVALID:
        return KAFKA_INVALID_TOPIC_EXCEPTION;
    case ERR_PARTITIONS_INVALID:
        return KAFKA_INVALID_PARTITIONS;
    case ERR_REPLICATION_INVALID:
        return KAFKA_INVALID_REPLICATION_FACTOR;
    case ERR_ASSIGNMENT_INVALID:
        return KAFKA_INVALID_REPLICA_ASSIGNMENT;
    case ERR_CONFIG_INVALID:
        return KAFKA_INVALID_CONFIG;
    case ERR_POLICY:
        return KAFKA_POLICY_VIOLATION;
    /* Start-up and connection errors: no handler returns them to a client. */
    case ERR_EOF:
    case ERR_CLOSED:
    case ERR_NEWER_FORMAT:
    case ERR_FOREIGN:
    case ERR_LOCKED:
        return KAFKA_UNKNOWN_SERVER_ERROR;
    case ERR_COUNT:
        break;
    }
    assert(false && "not an error");
    return KAFKA_UNKNOWN_SERVER_ERROR;
}

static const char *advice_text(enum err e)
{
    switch (e) {
    case ERR_OK:
        return NULL;
    case ERR_BUSY:
        return "The broker is at a memory limit; try again, or give it more with --memory.";
    case ERR_CANCELLED:
        return "The broker is stopping; try again.";
    case ERR_TIMED_OUT:
        return "Not durable within the request's timeout; it may still become so.";
    case ERR_CORRUPT:
        return "The bytes do not match their checksum.";
    case ERR_NO_SPACE:
        return "The broker's disk is full; free space, or delete topics, and try again.";
    case ERR_IO:
    case ERR_FAILED:
        return "The partition's disk failed; the broker's log says which and why.";
    case ERR_NOT_FOUND:
    case ERR_TOPIC_UNKNOWN:
        return "No such topic or partition; create it first.";
    case ERR_EXISTS:
    case ERR_TOPIC_EXISTS:
        return "A topic of this name exists; choose another name, or delete it first.";
    case ERR_INVALID:
        return "The request contradicts itself.";
    case ERR_UNSUPPORTED:
        return "This version of Coreflume does not serve it.";
    case ERR_TOO_LARGE:
        return "Larger than max.message.bytes of the topic; raise it, or send smaller batches.";
    case ERR_OUT_OF_RANGE:
        return "The offset is outside of the log; ask ListOffsets for its bounds.";
    case ERR_NOT_LEADER:
        return "Another broker leads the partition; ask for metadata.";
    case ERR_LEADER_EPOCH_FENCED:
        return "The leader epoch is older than the partition's; ask for metadata.";
    case ERR_LEADER_EPOCH_UNKNOWN:
        return "The leader epoch is newer than this broker knows; try again.";
    case ERR_RECORD_INVALID:
        return "The record batch breaks the rules of the format.";
    case ERR_TIMESTAMP_INVALID:
        return "A timestamp is outside of message.timestamp.before.max.ms and .after.max.ms.";
    case ERR_CODEC_UNSUPPORTED:
        return "The compression codec is not allowed in this version of the request.";
    case ERR_SEQUENCE_OUT_OF_ORDER:
        return "The batch does not follow the producer's last one.";
    case ERR_PRODUCER_EPOCH_STALE:
        return "A newer epoch of this producer has written.";
    case ERR_TOPIC_NAME_INVALID:
        return "Topic names are 1 to 249 characters of [a-zA-Z0-9._-], not '.' or '..', and differ "
               "in more than '.' and '_' from others.";
    case ERR_PARTITIONS_INVALID:
        return "The number of partitions must be above 0, within the broker's limit, or -1.";
    case ERR_REPLICATION_INVALID:
        return "The replication factor must be at least 1 and at most the number of brokers.";
    case ERR_ASSIGNMENT_INVALID:
        return "Replica assignments may name only brokers of the cluster, each once, one list for "
               "each new partition.";
    case ERR_CONFIG_INVALID:
        return "Unknown configuration name, or a value that it does not take.";
    case ERR_POLICY:
        return "The topic's cleanup.policy does not include delete.";
    case ERR_EOF:
    case ERR_CLOSED:
    case ERR_NEWER_FORMAT:
    case ERR_FOREIGN:
    case ERR_LOCKED:
    case ERR_COUNT:
        break;
    }
    return "Unexpected; the broker's log says more.";
}

struct slice kafka_error_advice(enum err e)
{
    return slice_of_string(advice_text(e));
}

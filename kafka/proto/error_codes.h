/* The error codes of the Kafka protocol, as of 4.3. The program's own errors are core/err.h; they
 * are mapped to these in one place, kafka/errors.c.
 *
 * Shard: any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Name, number, and what a client does about it: FINAL: reports it; RETRIABLE: asks again;
 * STALE_METADATA: asks again after it fetched new metadata. */
#define KAFKA_ERROR_TABLE(X)                              \
    X(UNKNOWN_SERVER_ERROR, -1, FINAL)                    \
    X(NONE, 0, FINAL)                                     \
    X(OFFSET_OUT_OF_RANGE, 1, FINAL)                      \
    X(CORRUPT_MESSAGE, 2, RETRIABLE)                      \
    X(UNKNOWN_TOPIC_OR_PARTITION, 3, STALE_METADATA)      \
    X(INVALID_FETCH_SIZE, 4, FINAL)                       \
    X(LEADER_NOT_AVAILABLE, 5, STALE_METADATA)            \
    X(NOT_LEADER_OR_FOLLOWER, 6, STALE_METADATA)          \
    X(REQUEST_TIMED_OUT, 7, RETRIABLE)                    \
    X(BROKER_NOT_AVAILABLE, 8, FINAL)                     \
    X(REPLICA_NOT_AVAILABLE, 9, STALE_METADATA)           \
    X(MESSAGE_TOO_LARGE, 10, FINAL)                       \
    X(STALE_CONTROLLER_EPOCH, 11, FINAL)                  \
    X(OFFSET_METADATA_TOO_LARGE, 12, FINAL)               \
    X(NETWORK_EXCEPTION, 13, STALE_METADATA)              \
    X(COORDINATOR_LOAD_IN_PROGRESS, 14, RETRIABLE)        \
    X(COORDINATOR_NOT_AVAILABLE, 15, RETRIABLE)           \
    X(NOT_COORDINATOR, 16, RETRIABLE)                     \
    X(INVALID_TOPIC_EXCEPTION, 17, FINAL)                 \
    X(RECORD_LIST_TOO_LARGE, 18, FINAL)                   \
    X(NOT_ENOUGH_REPLICAS, 19, RETRIABLE)                 \
    X(NOT_ENOUGH_REPLICAS_AFTER_APPEND, 20, RETRIABLE)    \
    X(INVALID_REQUIRED_ACKS, 21, FINAL)                   \
    X(ILLEGAL_GENERATION, 22, FINAL)                      \
    X(INCONSISTENT_GROUP_PROTOCOL, 23, FINAL)             \
    X(INVALID_GROUP_ID, 24, FINAL)                        \
    X(UNKNOWN_MEMBER_ID, 25, FINAL)                       \
    X(INVALID_SESSION_TIMEOUT, 26, FINAL)                 \
    X(REBALANCE_IN_PROGRESS, 27, FINAL)                   \
    X(INVALID_COMMIT_OFFSET_SIZE, 28, FINAL)              \
    X(TOPIC_AUTHORIZATION_FAILED, 29, FINAL)              \
    X(GROUP_AUTHORIZATION_FAILED, 30, FINAL)              \
    X(CLUSTER_AUTHORIZATION_FAILED, 31, FINAL)            \
    X(INVALID_TIMESTAMP, 32, FINAL)                       \
    X(UNSUPPORTED_SASL_MECHANISM, 33, FINAL)              \
    X(ILLEGAL_SASL_STATE, 34, FINAL)                      \
    X(UNSUPPORTED_VERSION, 35, FINAL)                     \
    X(TOPIC_ALREADY_EXISTS, 36, FINAL)                    \
    X(INVALID_PARTITIONS, 37, FINAL)                      \
    X(INVALID_REPLICATION_FACTOR, 38, FINAL)              \
    X(INVALID_REPLICA_ASSIGNMENT, 39, FINAL)              \
    X(INVALID_CONFIG, 40, FINAL)                          \
    X(NOT_CONTROLLER, 41, RETRIABLE)                      \
    X(INVALID_REQUEST, 42, FINAL)                         \
    X(UNSUPPORTED_FOR_MESSAGE_FORMAT, 43, FINAL)          \
    X(POLICY_VIOLATION, 44, FINAL)                        \
    X(OUT_OF_ORDER_SEQUENCE_NUMBER, 45, FINAL)            \
    X(DUPLICATE_SEQUENCE_NUMBER, 46, FINAL)               \
    X(INVALID_PRODUCER_EPOCH, 47, FINAL)                  \
    X(INVALID_TXN_STATE, 48, FINAL)                       \
    X(INVALID_PRODUCER_ID_MAPPING, 49, FINAL)             \
    X(INVALID_TRANSACTION_TIMEOUT, 50, FINAL)             \
    X(CONCURRENT_TRANSACTIONS, 51, RETRIABLE)             \
    X(TRANSACTION_COORDINATOR_FENCED, 52, FINAL)          \
    X(TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 53, FINAL)   \
    X(SECURITY_DISABLED, 54, FINAL)                       \
    X(OPERATION_NOT_ATTEMPTED, 55, FINAL)                 \
    X(KAFKA_STORAGE_ERROR, 56, STALE_METADATA)            \
    X(LOG_DIR_NOT_FOUND, 57, FINAL)                       \
    X(SASL_AUTHENTICATION_FAILED, 58, FINAL)              \
    X(UNKNOWN_PRODUCER_ID, 59, FINAL)                     \
    X(REASSIGNMENT_IN_PROGRESS, 60, FINAL)                \
    X(DELEGATION_TOKEN_AUTH_DISABLED, 61, FINAL)          \
    X(DELEGATION_TOKEN_NOT_FOUND, 62, FINAL)              \
    X(DELEGATION_TOKEN_OWNER_MISMATCH, 63, FINAL)         \
    X(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, 64, FINAL)    \
    X(DELEGATION_TOKEN_AUTHORIZATION_FAILED, 65, FINAL)   \
    X(DELEGATION_TOKEN_EXPIRED, 66, FINAL)                \
    X(INVALID_PRINCIPAL_TYPE, 67, FINAL)                  \
    X(NON_EMPTY_GROUP, 68, FINAL)                         \
    X(GROUP_ID_NOT_FOUND, 69, FINAL)                      \
    X(FETCH_SESSION_ID_NOT_FOUND, 70, RETRIABLE)          \
    X(INVALID_FETCH_SESSION_EPOCH, 71, RETRIABLE)         \
    X(LISTENER_NOT_FOUND, 72, STALE_METADATA)             \
    X(TOPIC_DELETION_DISABLED, 73, FINAL)                 \
    X(FENCED_LEADER_EPOCH, 74, STALE_METADATA)            \
    X(UNKNOWN_LEADER_EPOCH, 75, RETRIABLE)                \
    X(UNSUPPORTED_COMPRESSION_TYPE, 76, FINAL)            \
    X(STALE_BROKER_EPOCH, 77, FINAL)                      \
    X(OFFSET_NOT_AVAILABLE, 78, RETRIABLE)                \
    X(MEMBER_ID_REQUIRED, 79, FINAL)                      \
    X(PREFERRED_LEADER_NOT_AVAILABLE, 80, STALE_METADATA) \
    X(GROUP_MAX_SIZE_REACHED, 81, FINAL)                  \
    X(FENCED_INSTANCE_ID, 82, FINAL)                      \
    X(ELIGIBLE_LEADERS_NOT_AVAILABLE, 83, STALE_METADATA) \
    X(ELECTION_NOT_NEEDED, 84, STALE_METADATA)            \
    X(NO_REASSIGNMENT_IN_PROGRESS, 85, FINAL)             \
    X(GROUP_SUBSCRIBED_TO_TOPIC, 86, FINAL)               \
    X(INVALID_RECORD, 87, FINAL)                          \
    X(UNSTABLE_OFFSET_COMMIT, 88, RETRIABLE)              \
    X(THROTTLING_QUOTA_EXCEEDED, 89, RETRIABLE)           \
    X(PRODUCER_FENCED, 90, FINAL)                         \
    X(RESOURCE_NOT_FOUND, 91, FINAL)                      \
    X(DUPLICATE_RESOURCE, 92, FINAL)                      \
    X(UNACCEPTABLE_CREDENTIAL, 93, FINAL)                 \
    X(INCONSISTENT_VOTER_SET, 94, FINAL)                  \
    X(INVALID_UPDATE_VERSION, 95, FINAL)                  \
    X(FEATURE_UPDATE_FAILED, 96, FINAL)                   \
    X(PRINCIPAL_DESERIALIZATION_FAILURE, 97, FINAL)       \
    X(SNAPSHOT_NOT_FOUND, 98, FINAL)                      \
    X(POSITION_OUT_OF_RANGE, 99, FINAL)                   \
    X(UNKNOWN_TOPIC_ID, 100, STALE_METADATA)              \
    X(DUPLICATE_BROKER_REGISTRATION, 101, FINAL)          \
    X(BROKER_ID_NOT_REGISTERED, 102, FINAL)               \
    X(INCONSISTENT_TOPIC_ID, 103, STALE_METADATA)         \
    X(INCONSISTENT_CLUSTER_ID, 104, FINAL)                \
    X(TRANSACTIONAL_ID_NOT_FOUND, 105, FINAL)             \
    X(FETCH_SESSION_TOPIC_ID_ERROR, 106, RETRIABLE)       \
    X(INELIGIBLE_REPLICA, 107, FINAL)                     \
    X(NEW_LEADER_ELECTED, 108, FINAL)                     \
    X(OFFSET_MOVED_TO_TIERED_STORAGE, 109, FINAL)         \
    X(FENCED_MEMBER_EPOCH, 110, FINAL)                    \
    X(UNRELEASED_INSTANCE_ID, 111, FINAL)                 \
    X(UNSUPPORTED_ASSIGNOR, 112, FINAL)                   \
    X(STALE_MEMBER_EPOCH, 113, FINAL)                     \
    X(MISMATCHED_ENDPOINT_TYPE, 114, FINAL)               \
    X(UNSUPPORTED_ENDPOINT_TYPE, 115, FINAL)              \
    X(UNKNOWN_CONTROLLER_ID, 116, FINAL)                  \
    X(UNKNOWN_SUBSCRIPTION_ID, 117, FINAL)                \
    X(TELEMETRY_TOO_LARGE, 118, FINAL)                    \
    X(INVALID_REGISTRATION, 119, FINAL)                   \
    X(TRANSACTION_ABORTABLE, 120, FINAL)                  \
    X(INVALID_RECORD_STATE, 121, FINAL)                   \
    X(SHARE_SESSION_NOT_FOUND, 122, RETRIABLE)            \
    X(INVALID_SHARE_SESSION_EPOCH, 123, RETRIABLE)        \
    X(FENCED_STATE_EPOCH, 124, FINAL)                     \
    X(INVALID_VOTER_KEY, 125, FINAL)                      \
    X(DUPLICATE_VOTER, 126, FINAL)                        \
    X(VOTER_NOT_FOUND, 127, FINAL)                        \
    X(INVALID_REGULAR_EXPRESSION, 128, FINAL)             \
    X(REBOOTSTRAP_REQUIRED, 129, FINAL)                   \
    X(STREAMS_INVALID_TOPOLOGY, 130, FINAL)               \
    X(STREAMS_INVALID_TOPOLOGY_EPOCH, 131, FINAL)         \
    X(STREAMS_TOPOLOGY_FENCED, 132, FINAL)                \
    X(SHARE_SESSION_LIMIT_REACHED, 133, RETRIABLE)

enum kafka_error {
#define KAFKA_ERROR_ENUM(name, code, reaction) KAFKA_##name = (code),
    KAFKA_ERROR_TABLE(KAFKA_ERROR_ENUM)
#undef KAFKA_ERROR_ENUM
};

/* "UNKNOWN_TOPIC_OR_PARTITION"; of a number that is none, "UNLISTED". Never NULL. */
const char *kafka_error_name(int16_t code);

bool kafka_error_is_retriable(int16_t code);

/* The client should fetch new metadata before it asks again. Implies retriable. */
bool kafka_error_has_stale_metadata(int16_t code);

/* From the names and ids of a request to partitions.
 *
 * Shard: the request's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/metadata.h"
#include "core/ids.h"
#include "core/slice.h"
#include "kafka/proto/error_codes.h"

struct request;

/* How a request names a topic. */
struct lookup {
    bool is_by_id; /* Else by name. */
    struct slice name;
    struct uuid id;
};

/* KAFKA_NONE and the topic, which is valid until the callback returns (cluster/metadata.h), or
 * UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID. */
enum kafka_error
lookup_topic(const struct request *r, const struct lookup *how, const struct topic **ret_topic);

/* Why there is no topic of this name: UNKNOWN_TOPIC_OR_PARTITION, or INVALID_TOPIC_EXCEPTION where
 * there can be none. */
enum kafka_error lookup_absent(struct slice name);

/* Likewise of one partition: t is the topic found, error what lookup_topic said. */
enum kafka_error lookup_partition(enum kafka_error error,
                                  const struct topic *t,
                                  int32_t partition,
                                  struct partition_id *ret_id);

/* Whether the data directory of a partition of t is there and works. */
bool lookup_is_served(const struct request *r, const struct topic *t, int32_t partition);

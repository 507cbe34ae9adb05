/* The shared vocabulary of identities. Nothing else of the domain may enter core.
 *
 * Shard: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/uuid.h"

enum {
    SHARDS_MAX = 128,          /* Cores one process may use. */
    TOPIC_NAME_SIZE_MAX = 249, /* Characters; Kafka's limit. */
};

/* Names one partition for ever: a re-created topic has another id. */
struct partition_id {
    struct uuid topic_id;
    int32_t partition; /* >= 0 */
};

static inline bool partition_id_equal(const struct partition_id *a, const struct partition_id *b)
{
    return uuid_equal(&a->topic_id, &b->topic_id) && a->partition == b->partition;
}

/* Group 0, the controller's log: reserved topic id (0, 1) of KIP-516, partition 0. */
extern const struct uuid CONTROLLER_TOPIC_ID;

/* Well-mixed 64-bit hash, seeded by the caller (the shard's seed, never a constant for tables that
 * outsiders can fill). */
uint64_t hash_bytes(uint64_t seed, const void *data, size_t size);
uint64_t partition_id_hash(uint64_t seed, const struct partition_id *id);

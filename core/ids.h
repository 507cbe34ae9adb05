/* The shared vocabulary of identities. Nothing else of the domain may enter core.
 *
 * Shard: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    SHARDS_MAX = 128,    /* Cores one process may use. */
    UUID_TEXT_SIZE = 23, /* 22 characters of URL-safe base64 without padding, and NUL. */
    UUID_SIZE = 16,
    TOPIC_NAME_SIZE_MAX = 249, /* Characters; Kafka's limit. */
};

/* 128 bits, most significant first on the wire. All zero = none. */
struct uuid {
    uint8_t bytes[UUID_SIZE];
};

/* Names one partition for ever: a re-created topic has another id. */
struct partition_id {
    struct uuid topic_id;
    int32_t partition; /* >= 0 */
};

static inline bool uuid_is_zero(const struct uuid *u)
{
    static const struct uuid zero;
    return memcmp(u, &zero, sizeof(zero)) == 0;
}

static inline bool uuid_equal(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static inline bool partition_id_equal(const struct partition_id *a, const struct partition_id *b)
{
    return uuid_equal(&a->topic_id, &b->topic_id) && a->partition == b->partition;
}

/* Text form as Kafka prints it. */
void uuid_format(const struct uuid *u, char ret_text[UUID_TEXT_SIZE]);

/* False if text is not 22 characters of that alphabet, or not the one spelling that uuid_format
 * gives; *ret_uuid is then left alone. */
bool uuid_parse(const char *text, struct uuid *ret_uuid);

/* Group 0, the controller's log: reserved topic id (0, 1) of KIP-516, partition 0. */
extern const struct uuid CONTROLLER_TOPIC_ID;

/* Well-mixed 64-bit hash, seeded by the caller (the shard's seed, never a constant for tables that
 * outsiders can fill). */
uint64_t hash_bytes(uint64_t seed, const void *data, size_t size);
uint64_t partition_id_hash(uint64_t seed, const struct partition_id *id);

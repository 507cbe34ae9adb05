/* 128-bit identities, as Kafka has them for topics; here and not in core/ids.h because the client
 * library's public header shows them.
 *
 * Shard: any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    UUID_TEXT_SIZE = 23, /* 22 characters of URL-safe base64 without padding, and NUL. */
    UUID_SIZE = 16,
};

/* 128 bits, most significant first on the wire. All zero = none. */
struct uuid {
    uint8_t bytes[UUID_SIZE];
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

/* Text form as Kafka prints it. */
void uuid_format(const struct uuid *u, char ret_text[UUID_TEXT_SIZE]);

/* False if text is not 22 characters of that alphabet, or not the one spelling that uuid_format
 * gives; *ret_uuid is then left alone. */
bool uuid_parse(const char *text, struct uuid *ret_uuid);

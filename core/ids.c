/* Text form of ids, and the hash of all tables that outsiders can fill.
 *
 * The hash is SipHash-1-3 (Aumasson and Bernstein): a client that chooses topic names or producer
 * ids must not be able to choose collisions, and a multiply-and-shift hash would let it.
 */
#include "core/ids.h"

#include <endian.h>

const struct uuid CONTROLLER_TOPIC_ID = {.bytes = {[15] = 1}};

static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

enum {
    UUID_TEXT_LENGTH = UUID_TEXT_SIZE - 1,
    /* 22 characters carry 132 bits; the last 4 are always zero. */
    UUID_TEXT_UNUSED_MASK = 0x0f,
};

void uuid_format(const struct uuid *u, char ret_text[UUID_TEXT_SIZE])
{
    uint32_t bits = 0;
    int bits_count = 0;
    char *out = ret_text;
    for (size_t i = 0; i < sizeof(u->bytes); i++) {
        bits = bits << 8 | u->bytes[i];
        bits_count += 8;
        while (bits_count >= 6) {
            bits_count -= 6;
            *out++ = base64url[(bits >> bits_count) & 63];
        }
    }
    *out++ = base64url[(bits << (6 - bits_count)) & 63];
    *out = '\0';
}

static int base64url_value(char c)
{
    if (c == '\0') {
        return -1;
    }
    const char *at = strchr(base64url, c);
    return at == NULL ? -1 : (int)(at - base64url);
}

bool uuid_parse(const char *text, struct uuid *ret_uuid)
{
    struct uuid u;
    uint32_t bits = 0;
    int bits_count = 0;
    size_t size = 0;
    for (size_t i = 0; i < UUID_TEXT_LENGTH; i++) {
        int value = base64url_value(text[i]);
        if (value < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)value;
        bits_count += 6;
        if (bits_count >= 8) {
            bits_count -= 8;
            u.bytes[size++] = (uint8_t)(bits >> bits_count);
        }
    }
    if (text[UUID_TEXT_LENGTH] != '\0') {
        return false;
    }
    if ((bits & UUID_TEXT_UNUSED_MASK) != 0) {
        return false; /* A second spelling of another id: directories are named by this text. */
    }
    *ret_uuid = u;
    return true;
}

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate_left(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate_left(s->v1, 13) ^ s->v0;
    s->v0 = rotate_left(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate_left(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate_left(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate_left(s->v1, 17) ^ s->v2;
    s->v2 = rotate_left(s->v2, 32);
}

static inline struct sip sip_begin(uint64_t seed)
{
    /* The second key word only has to differ from the first; the secret is the seed. */
    const uint64_t k0 = seed;
    const uint64_t k1 = seed ^ 0x9e3779b97f4a7c15u;
    return (struct sip){
        .v0 = k0 ^ 0x736f6d6570736575u,
        .v1 = k1 ^ 0x646f72616e646f6du,
        .v2 = k0 ^ 0x6c7967656e657261u,
        .v3 = k1 ^ 0x7465646279746573u,
    };
}

static inline void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

static inline uint64_t sip_end(struct sip *s, uint64_t last)
{
    sip_word(s, last);
    s->v2 ^= 0xff;
    sip_round(s);
    sip_round(s);
    sip_round(s);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

uint64_t hash_bytes(uint64_t seed, const void *data, size_t size)
{
    struct sip s = sip_begin(seed);
    const uint8_t *cursor = data;
    size_t left = size;
    for (; left >= sizeof(uint64_t); left -= sizeof(uint64_t), cursor += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, cursor, sizeof(word));
        sip_word(&s, le64toh(word));
    }
    uint64_t last = (uint64_t)size << 56;
    for (size_t i = 0; i < left; i++) {
        last |= (uint64_t)cursor[i] << (8 * i);
    }
    return sip_end(&s, last);
}

/* What hash_bytes makes of the id's bytes with the partition behind them, little-endian. */
uint64_t partition_id_hash(uint64_t seed, const struct partition_id *id)
{
    const size_t size = UUID_SIZE + sizeof(uint32_t);
    uint64_t words[UUID_SIZE / sizeof(uint64_t)];
    memcpy(words, id->topic_id.bytes, sizeof(words));
    struct sip s = sip_begin(seed);
    sip_word(&s, le64toh(words[0]));
    sip_word(&s, le64toh(words[1]));
    return sip_end(&s, (uint64_t)size << 56 | (uint32_t)id->partition);
}

/* What is sent: keys, values and their sizes, the same for the same seed.
 *
 * A value begins with a stamp: which run it belongs to, and when it was due. That is how consumers
 * of the run know its records, and how long they took. Values too small for it have none.
 *
 * One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "core/err.h"
#include "core/rand.h"
#include "core/slice.h"

enum {
    WORKLOAD_STAMP_SIZE = 16,
    WORKLOAD_VALUE_SIZE_MAX = 64 << 20,
    WORKLOAD_KEY_SIZE_MAX = 1024,
};

enum workload_keys {
    WORKLOAD_KEYS_NONE,
    WORKLOAD_KEYS_UNIFORM, /* Each of keys_count as often as the others. */
    WORKLOAD_KEYS_ZIPF,    /* The k-th in proportion to 1 / k^zipf_exponent. */
    WORKLOAD_KEYS_ROUND,   /* One after the other. */
};

struct workload_options {
    uint32_t value_size_min; /* Sizes are spread evenly from min to max. */
    uint32_t value_size_max;
    enum workload_keys keys;
    uint64_t keys_count;
    double zipf_exponent; /* Above 0. */
    uint32_t key_size;    /* Decimal digits, filled with zeros; 1 to WORKLOAD_KEY_SIZE_MAX. */
    int compressible; /* So many per cent of a value are one repeated byte; the rest is random. */
    uint64_t run_id;
    uint64_t seed;
};

struct workload {
    struct workload_options options;
    struct rand rand;
    uint8_t *pool; /* Random bytes, from which values are cut. */
    size_t pool_size;
    uint8_t *stamped; /* The latest value; what its stamp covers is here. NULL: none is. */
    uint8_t covered[WORKLOAD_STAMP_SIZE];
    uint64_t round;  /* The next key of WORKLOAD_KEYS_ROUND. */
    double zipf_sum; /* As rejection-inversion needs them; see workload.c. */
    double zipf_low;
    double zipf_shift;
    uint8_t key[WORKLOAD_KEY_SIZE_MAX];
};

/* ERR_BUSY without memory. */
enum err workload_init(struct workload *w, const struct workload_options *options);
void workload_done(struct workload *w);

/* The next record; key and value are valid until the next. partition is -1. */
void workload_next(struct workload *w, uint64_t due_us, struct client_message *ret_message);

/* Writes the stamp over the value's first bytes; nothing if it is too small. */
void workload_stamp(uint8_t *value, size_t size, uint64_t run_id, uint64_t due_us);
/* True if the value is one of this run. */
bool workload_read_stamp(struct slice value, uint64_t run_id, uint64_t *ret_due_us);

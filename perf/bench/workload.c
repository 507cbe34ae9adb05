#include "perf/bench/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

enum {
    /* So many places where a value may begin: many times a batch, which would else be compressed
     * by what its values share. */
    POOL_SIZE_EXTRA = 8 << 20,
};

/* ---- Zipf: rejection-inversion after Hoermann and Derflinger ("Rejection-inversion to generate
 * variates from monotone discrete distributions", 1996): no table, whatever the number of keys. */

/* Of x^-e, up to a constant; h(x) of the paper. */
static double integral(double x, double e)
{
    const double rest = 1 - e;
    const double log_x = log(x);
    return fabs(rest * log_x) < 1e-8 ? log_x : expm1(rest * log_x) / rest;
}

static double integral_inverse(double y, double e)
{
    const double rest = 1 - e;
    return fabs(rest * y) < 1e-8 ? exp(y) : exp(log1p(rest * y) / rest);
}

static double weight(double k, double e)
{
    return exp(-e * log(k));
}

static void zipf_init(struct workload *w)
{
    const double e = w->options.zipf_exponent;
    w->zipf_low = integral(1.5, e) - 1;
    w->zipf_sum = integral((double)w->options.keys_count + 0.5, e);
    w->zipf_shift = 2 - integral_inverse(integral(2.5, e) - weight(2, e), e);
}

/* Uniform in [0, 1). */
static double unit(struct rand *r)
{
    return (double)(rand_u64(r) >> 11) * 0x1p-53;
}

static uint64_t zipf_next(struct workload *w)
{
    const double e = w->options.zipf_exponent;
    const double count = (double)w->options.keys_count;
    for (;;) { /* Rejects one in a few at most. */
        const double u = w->zipf_sum + unit(&w->rand) * (w->zipf_low - w->zipf_sum);
        const double x = integral_inverse(u, e);
        double k = floor(x + 0.5);
        k = k < 1 ? 1 : k > count ? count : k;
        if (k - x <= w->zipf_shift || u >= integral(k + 0.5, e) - weight(k, e)) {
            return (uint64_t)k - 1;
        }
    }
}

/* ---- records ---- */

/* Values are cut from random bytes; the compressible share of every piece of 64 is one byte. */
static void fill_pool(struct workload *w)
{
    enum {
        PIECE = 64,
    };
    rand_bytes(&w->rand, w->pool, w->pool_size);
    const size_t same = (size_t)w->options.compressible * PIECE / 100;
    for (size_t i = 0; i < w->pool_size; i += PIECE) {
        const size_t left = w->pool_size - i;
        memset(w->pool + i, 'x', same < left ? same : left);
    }
}

enum err workload_init(struct workload *w, const struct workload_options *options)
{
    assert_cmp(options->value_size_min, <=, options->value_size_max);
    assert_cmp(options->value_size_max, <=, WORKLOAD_VALUE_SIZE_MAX);
    assert_cmp(options->key_size, <=, WORKLOAD_KEY_SIZE_MAX);
    *w = (struct workload){.options = *options};
    rand_init_seed(&w->rand, options->seed);
    w->pool_size = (size_t)options->value_size_max + POOL_SIZE_EXTRA;
    w->pool = malloc(w->pool_size);
    if (w->pool == NULL) {
        return ERR_BUSY;
    }
    fill_pool(w);
    if (options->keys == WORKLOAD_KEYS_ZIPF) {
        assert(options->zipf_exponent > 0);
        zipf_init(w);
    }
    return ERR_OK;
}

void workload_done(struct workload *w)
{
    free(w->pool);
    w->pool = NULL;
}

static struct slice write_key(struct workload *w, uint64_t number)
{
    for (size_t i = w->options.key_size; i-- > 0;) {
        w->key[i] = (uint8_t)('0' + number % 10);
        number /= 10;
    }
    return slice_of(w->key, w->options.key_size);
}

static struct slice next_key(struct workload *w)
{
    switch (w->options.keys) {
    case WORKLOAD_KEYS_NONE:
        return (struct slice){0};
    case WORKLOAD_KEYS_UNIFORM:
        return write_key(w, rand_below(&w->rand, w->options.keys_count));
    case WORKLOAD_KEYS_ZIPF:
        return write_key(w, zipf_next(w));
    case WORKLOAD_KEYS_ROUND:
        return write_key(w, w->round++ % w->options.keys_count);
    }
    assert(false && "no such distribution of keys");
    return (struct slice){0};
}

/* Stamps must not stay: values would in the end be made of them. */
static void uncover(struct workload *w)
{
    if (w->stamped != NULL) {
        memcpy(w->stamped, w->covered, sizeof(w->covered));
    }
    w->stamped = NULL;
}

static void cover(struct workload *w, uint8_t *value, size_t size)
{
    if (size >= WORKLOAD_STAMP_SIZE) {
        memcpy(w->covered, value, sizeof(w->covered));
        w->stamped = value;
    }
}

void workload_next(struct workload *w, uint64_t due_us, struct client_message *ret_message)
{
    const struct workload_options *o = &w->options;
    const uint32_t spread = o->value_size_max - o->value_size_min;
    const size_t size =
        o->value_size_min + (spread > 0 ? (size_t)rand_below(&w->rand, (uint64_t)spread + 1) : 0);
    uint8_t *value = w->pool + rand_below(&w->rand, POOL_SIZE_EXTRA);
    uncover(w);
    cover(w, value, size);
    workload_stamp(value, size, o->run_id, due_us);
    *ret_message = (struct client_message){
        .partition = -1,
        .key = next_key(w),
        .value = slice_of(value, size),
    };
}

/* In the machine's byte order: written and read by one process. */
void workload_stamp(uint8_t *value, size_t size, uint64_t run_id, uint64_t due_us)
{
    if (size >= WORKLOAD_STAMP_SIZE) {
        memcpy(value, &run_id, sizeof(run_id));
        memcpy(value + sizeof(run_id), &due_us, sizeof(due_us));
    }
}

bool workload_read_stamp(struct slice value, uint64_t run_id, uint64_t *ret_due_us)
{
    uint64_t id = 0;
    if (value.size < WORKLOAD_STAMP_SIZE) {
        return false;
    }
    memcpy(&id, value.data, sizeof(id));
    if (id != run_id) {
        return false;
    }
    memcpy(ret_due_us, value.data + sizeof(id), sizeof(*ret_due_us));
    return true;
}

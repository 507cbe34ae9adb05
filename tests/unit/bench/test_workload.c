/* Records: sizes, keys as they are distributed, stamps. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "perf/bench/workload.h"

enum {
    KEYS = 100,
    DRAWS = 100000,
};

static struct workload w;

static void start(struct workload_options o)
{
    o.run_id = 42;
    o.seed = 7;
    o.key_size = o.key_size == 0 ? 8 : o.key_size;
    cr_assert(workload_init(&w, &o) == ERR_OK);
}

static void teardown(void)
{
    workload_done(&w);
}

TestSuite(bench_workload, .fini = teardown);

Test(bench_workload, the_same_seed_gives_the_same_records)
{
    uint8_t first[100];
    for (int round = 0; round < 2; round++) {
        struct client_message m;
        start((struct workload_options){.value_size_min = 100,
                                        .value_size_max = 100,
                                        .keys = WORKLOAD_KEYS_UNIFORM,
                                        .keys_count = 9});
        workload_next(&w, 5, &m);
        cr_assert(eq(sz, m.value.size, 100));
        cr_assert(eq(sz, m.key.size, 8));
        cr_assert(eq(int, m.partition, -1));
        if (round == 0) {
            memcpy(first, m.value.data, sizeof(first));
            workload_done(&w);
        } else {
            cr_assert(memcmp(first, m.value.data, sizeof(first)) == 0);
        }
    }
}

Test(bench_workload, sizes_fill_their_range)
{
    bool is_seen[21] = {false};
    start((struct workload_options){.value_size_min = 10, .value_size_max = 30});
    for (int i = 0; i < 2000; i++) {
        struct client_message m;
        workload_next(&w, 0, &m);
        cr_assert(m.value.size >= 10 && m.value.size <= 30);
        is_seen[m.value.size - 10] = true;
        cr_assert(slice_is_null(m.key));
    }
    for (size_t i = 0; i < 21; i++) {
        cr_assert(is_seen[i], "%zu", i);
    }
}

Test(bench_workload, stamps_are_read_back_by_their_run_only)
{
    uint64_t due_us = 0;
    struct client_message m;
    start((struct workload_options){.value_size_min = 16, .value_size_max = 16});
    workload_next(&w, 123456789, &m);
    cr_assert(workload_read_stamp(m.value, 42, &due_us));
    cr_assert(eq(u64, due_us, 123456789));
    cr_assert(not(workload_read_stamp(m.value, 43, &due_us)));
    cr_assert(not(workload_read_stamp(slice_of(m.value.data, 15), 42, &due_us)));
    cr_assert(not(workload_read_stamp((struct slice){0}, 42, &due_us)));
}

/* What 200 values of 1 KiB are compressed to, of 1. */
static double ratio(void)
{
    enum {
        SIZE = 1024,
        COUNT = 200,
    };
    static uint8_t plain[COUNT * SIZE];
    static uint8_t packed[2 * COUNT * SIZE];
    uLongf size = sizeof(packed);
    for (size_t i = 0; i < COUNT; i++) {
        struct client_message m;
        workload_next(&w, 1000000 + i, &m);
        memcpy(plain + i * SIZE, m.value.data, SIZE);
    }
    cr_assert(eq(int, compress2(packed, &size, plain, sizeof(plain), 1), Z_OK));
    return (double)size / sizeof(plain);
}

/* From the first to the last: neither the stamps of values before, nor what values share. */
Test(bench_workload, values_are_as_compressible_as_asked)
{
    static const struct {
        int compressible;
        double min;
        double max;
    } rows[] = {{0, 0.95, 1.01}, {50, 0.47, 0.62}, {100, 0, 0.1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start((struct workload_options){
            .value_size_min = 1024, .value_size_max = 1024, .compressible = rows[i].compressible});
        const double first = ratio();
        for (int k = 0; k < DRAWS; k++) {
            struct client_message m;
            workload_next(&w, (uint64_t)k, &m);
        }
        const double last = ratio();
        cr_assert(first > rows[i].min && first < rows[i].max, "%zu: %f", i, first);
        cr_assert(last > first - 0.02 && last < first + 0.02, "%zu: %f, then %f", i, first, last);
        workload_done(&w);
    }
}

/* How often each key was drawn. */
static void draw(enum workload_keys keys, double exponent, int counts[KEYS])
{
    start((struct workload_options){
        .value_size_min = 1,
        .value_size_max = 1,
        .keys = keys,
        .keys_count = KEYS,
        .zipf_exponent = exponent,
    });
    memset(counts, 0, KEYS * sizeof(counts[0]));
    for (int i = 0; i < DRAWS; i++) {
        struct client_message m;
        workload_next(&w, 0, &m);
        char text[16] = "";
        memcpy(text, m.key.data, m.key.size);
        const long key = strtol(text, NULL, 10);
        cr_assert(key >= 0 && key < KEYS);
        counts[key]++;
    }
}

Test(bench_workload, keys_come_in_turn)
{
    int counts[KEYS];
    draw(WORKLOAD_KEYS_ROUND, 1, counts);
    for (int i = 0; i < KEYS; i++) {
        cr_assert(eq(int, counts[i], DRAWS / KEYS));
    }
}

Test(bench_workload, uniform_keys_are_even)
{
    int counts[KEYS];
    draw(WORKLOAD_KEYS_UNIFORM, 1, counts);
    for (int i = 0; i < KEYS; i++) {
        cr_assert(counts[i] > 800 && counts[i] < 1200, "%d: %d", i, counts[i]);
    }
}

/* The k-th as often as 1 / k^e of the first. */
Test(bench_workload, zipf_keys_follow_their_law)
{
    static const double exponents[] = {0.5, 1, 1.5};
    for (size_t i = 0; i < sizeof(exponents) / sizeof(exponents[0]); i++) {
        int counts[KEYS];
        draw(WORKLOAD_KEYS_ZIPF, exponents[i], counts);
        double sum = 0;
        for (int k = 1; k <= KEYS; k++) {
            sum += 1 / __builtin_pow(k, exponents[i]);
        }
        for (int k = 1; k <= KEYS; k *= 3) {
            const double wanted = DRAWS / __builtin_pow(k, exponents[i]) / sum;
            const double got = counts[k - 1];
            cr_assert(got > wanted * 0.8 - 10 && got < wanted * 1.2 + 10,
                      "exponent %zu, key %d: %.0f, wanted %.0f",
                      i,
                      k,
                      got,
                      wanted);
        }
        workload_done(&w);
    }
}

/* How fast the compaction engine is: keys learnt and entries judged per second, for batches of
 * records with 100-byte and 1,000-byte values, half of which are superseded.
 *
 *   build/release/perf/compact
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "storage/compaction.h"

enum {
    BATCHES = 2000,
    RECORDS = 100,
};

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct slice make_batch(int number, enum batch_codec codec, size_t value_size)
{
    char value[1024];
    memset(value, 'v', sizeof(value));
    struct batch_builder b;
    batch_builder_init(&b, 1 << 20);
    for (int i = 0; i < RECORDS; i++) {
        char key[32];
        const int size =
            snprintf(key, sizeof(key), "key-%d", (number * RECORDS + i) % (BATCHES * RECORDS / 2));
        const struct batch_record r = {
            .key = slice_of(key, (size_t)size),
            .value = slice_of(value, value_size),
        };
        if (batch_builder_add(&b, &r) != ERR_OK) {
            abort();
        }
    }
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    const struct batch_identity id = {-1, -1, -1};
    if (batch_builder_finish(&b, codec, &id, &w) != ERR_OK) {
        abort();
    }
    batch_builder_done(&b);
    batch_stamp(w.data, (int64_t)number * RECORDS, 1);
    size_t size;
    uint8_t *bytes = wbuf_take(&w, &size);
    return slice_of(bytes, size);
}

static void measure(const char *name, enum batch_codec codec, size_t value_size)
{
    static struct slice batches[BATCHES];
    uint64_t bytes = 0;
    for (int i = 0; i < BATCHES; i++) {
        batches[i] = make_batch(i, codec, value_size);
        bytes += batches[i].size;
    }
    const struct compaction_options o = {
        .end_offset = (int64_t)BATCHES * RECORDS,
        .keys_size_max = 64 << 20,
        .secret = {1, 2},
    };
    struct compaction c;
    if (compaction_init(&c, &o) != ERR_OK) {
        abort();
    }
    double seconds[2];
    for (int pass = 0; pass < 2; pass++) {
        const double start = now_s();
        for (int i = 0; i < BATCHES; i++) {
            const struct entry_header h = {
                .type = ENTRY_DATA,
                .index = (uint64_t)i + 1,
                .base_offset = (int64_t)i * RECORDS,
                .next_offset = (int64_t)(i + 1) * RECORDS,
            };
            struct compaction_result result;
            if (pass == 0) {
                (void)compaction_learn_keys(&c, &h, batches[i]);
            } else {
                compaction_judge(&c, &h, batches[i], &result);
            }
        }
        seconds[pass] = now_s() - start;
    }
    const double mib = (double)bytes / (1 << 20);
    const double records = (double)BATCHES * RECORDS / 1e6;
    printf("%-14s %7.1f MiB  learn %7.0f MiB/s %5.1f M records/s  judge %7.0f MiB/s %5.1f M "
           "records/s  removed %" PRIu64 "\n",
           name,
           mib,
           mib / seconds[0],
           records / seconds[0],
           mib / seconds[1],
           records / seconds[1],
           c.counters.records_removed);
    compaction_done(&c);
    for (int i = 0; i < BATCHES; i++) {
        free((void *)(uintptr_t)batches[i].data);
    }
}

int main(void)
{
    measure("plain 100 B", CODEC_NONE, 100);
    measure("plain 1000 B", CODEC_NONE, 1000);
    measure("lz4 100 B", CODEC_LZ4, 100);
    measure("zstd 100 B", CODEC_ZSTD, 100);
    return 0;
}

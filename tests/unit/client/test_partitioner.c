/* The partitioner against hashes that Kafka's Java client computes. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "client/partitioner.h"

struct row {
    const char *key;
    int32_t hash; /* As Java shows it: signed. */
};

/* Kafka's own test of its murmur2, and further keys of every length modulo 4. */
static const struct row rows[] = {
    {"21", -973932308},
    {"foobar", -790332482},
    {"a-little-bit-long-string", -985981536},
    {"a-little-bit-longer-string", -1486304829},
    {"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
    {"abc", 479470107},
    {"", 275646681},
    {"1", -1993445489},
    {"12", 126087238},
    {"123", -267702483},
    {"1234", -1614185708},
    {"12345", -1188365604},
};

Test(partitioner, hashes_as_java_does)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const int32_t hash = (int32_t)partitioner_murmur2(slice_of_string(rows[i].key));
        cr_assert(eq(int, hash, rows[i].hash), "%s", rows[i].key);
    }
}

/* toPositive, then modulo: not the absolute value. */
Test(partitioner, partition_is_the_hash_without_its_sign)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int32_t count = 1; count < 20; count++) {
            const int32_t wanted = (rows[i].hash & INT32_MAX) % count;
            const int32_t got = partitioner_of_key(slice_of_string(rows[i].key), count);
            cr_assert(eq(int, got, wanted), "%s of %d", rows[i].key, count);
        }
    }
}

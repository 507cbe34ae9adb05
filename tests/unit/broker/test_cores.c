/* Which CPUs, and how much memory for each. What the machine has is not assumed beyond CPU use. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "broker/cores.h"
#include "core/thread.h"

Test(cores, all_are_what_the_process_may_use)
{
    int cpus[SHARDS_MAX];
    const int count = thread_cpus(cpus, SHARDS_MAX);
    struct cores cores;
    char why[CORES_WHY_SIZE];
    cr_assert(eq(int, cores_choose(&cores, "all", why), ERR_OK));
    cr_assert(eq(int, cores.count, count));
    cr_assert(eq(int, memcmp(cores.cpus, cpus, (size_t)count * sizeof(int)), 0));
}

Test(cores, lists_keep_their_order)
{
    int cpus[SHARDS_MAX];
    const int count = thread_cpus(cpus, SHARDS_MAX);
    char text[32];
    (void)snprintf(text, sizeof(text), "%d,%d-%d", cpus[count - 1], cpus[0], cpus[0]);
    struct cores cores;
    char why[CORES_WHY_SIZE];
    enum err e = cores_choose(&cores, text, why);
    if (count == 1) {
        cr_assert(eq(int, e, ERR_CONFIG_INVALID), "named twice");
        return;
    }
    cr_assert(eq(int, e, ERR_OK));
    cr_assert(eq(int, cores.count, 2));
    cr_assert(eq(int, cores.cpus[0], cpus[count - 1]));
    cr_assert(eq(int, cores.cpus[1], cpus[0]));
}

Test(cores, what_is_no_list_is_refused)
{
    static const char *const texts[] = {
        "", ",", "0,", ",0", "a", "-1", "0-", "1-0", "0-99999999999", "99999999999", "0 1", "0,0"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct cores cores;
        char why[CORES_WHY_SIZE] = "";
        cr_assert(
            eq(int, cores_choose(&cores, texts[i], why), ERR_CONFIG_INVALID), "'%s'", texts[i]);
        cr_assert(strncmp(why, "cores: ", 7) == 0);
    }
}

Test(memory, is_a_power_of_two_within_what_was_asked)
{
    static const struct {
        uint64_t asked_size;
        uint16_t shards_count;
        size_t size; /* 0 = refused. */
    } rows[] = {
        {UINT64_C(64) << 20, 1, 64 << 20},
        {UINT64_C(65) << 20, 1, 64 << 20},
        {UINT64_C(64) << 20, 2, 32 << 20},
        {UINT64_C(96) << 20, 3, 32 << 20},
        {UINT64_C(100) << 20, 4, 16 << 20},
        {UINT64_C(63) << 20, 4, 0},
        {1, 1, 0},
        {UINT64_C(1) << 60, 1, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t size = 0;
        char why[CORES_WHY_SIZE];
        enum err e = memory_per_shard(rows[i].asked_size, rows[i].shards_count, &size, why);
        cr_assert(eq(int, e, rows[i].size == 0 ? ERR_CONFIG_INVALID : ERR_OK), "row %zu", i);
        cr_assert(eq(sz, size, rows[i].size), "row %zu", i);
    }
}

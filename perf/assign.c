/* What the server's assignors cost: a group is assigned from nothing, then one member leaves and
 * one joins, and once more nothing changes. Members subscribe to all topics, or each to half of
 * them.
 *
 *     assign [MEMBERS [TOPICS [PARTITIONS]]]
 *
 * Prints a line of JSON per case: microseconds (median of REPETITIONS), moved partitions, memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/assert.h"
#include "core/rand.h"
#include "groups/assignor.h"

enum {
    REPETITIONS = 15,
    ID_SIZE = 16,
};

struct bench {
    struct assignor_group group;
    struct assignor_topic *topics;
    struct arena arenas[2]; /* Of the targets that count, and of those that come. */
    size_t memory;
    size_t moved;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *take(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    assert(memory != NULL);
    return memory;
}

static void make_group(struct bench *b, const size_t sizes[3], bool is_alike)
{
    struct rand random;
    rand_init_seed(&random, 1);
    b->topics = take(sizes[1], sizeof(*b->topics));
    for (size_t t = 0; t < sizes[1]; t++) {
        b->topics[t].partitions_count = (uint32_t)sizes[2];
        b->topics[t].id.bytes[0] = (uint8_t)(t >> 8);
        b->topics[t].id.bytes[1] = (uint8_t)t;
    }
    b->group = (struct assignor_group){
        .topics = b->topics,
        .topics_count = sizes[1],
        .members = take(sizes[0] + 1, sizeof(struct assignor_member)),
        .members_count = sizes[0],
    };
    uint32_t *list = NULL;
    for (size_t i = 0; i <= sizes[0]; i++) {
        struct assignor_member *m = &b->group.members[i];
        char *id = take(1, ID_SIZE);
        (void)snprintf(id, ID_SIZE, "m%06zu", i * 7919 % 1000000);
        m->id = slice_of_string(id);
        list = i == 0 || !is_alike ? take(sizes[1], sizeof(*list)) : list;
        for (uint32_t t = 0; t < sizes[1]; t++) {
            if (is_alike || rand_one_in(&random, 2)) {
                list[m->topics_count++] = t;
            }
        }
        m->topics = list;
    }
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Of the member's current partitions, those it has not any more. */
static size_t lost(const struct assignor_member *m)
{
    size_t kept = 0;
    for (size_t i = 0, k = 0; i < m->current_count && k < m->target_count;) {
        const struct assignor_partition *a = &m->current[i];
        const struct assignor_partition *b = &m->target[k];
        const bool is_before =
            a->topic != b->topic ? a->topic < b->topic : a->partition < b->partition;
        const bool is_same = a->topic == b->topic && a->partition == b->partition;
        kept += is_same;
        i += is_same || is_before;
        k += is_same || !is_before;
    }
    return m->current_count - kept;
}

static void run(struct bench *b, assignor_fn *fn, const char *name)
{
    uint64_t samples[REPETITIONS];
    for (int i = 0; i < REPETITIONS; i++) {
        arena_done(&b->arenas[1]);
        arena_init(&b->arenas[1], (size_t)1 << 30);
        const uint64_t start_ns = now_ns();
        const enum err e = fn(&b->group, &b->arenas[1]);
        samples[i] = now_ns() - start_ns;
        assert_cmp(e, ==, ERR_OK);
    }
    qsort(samples, REPETITIONS, sizeof(samples[0]), compare);
    size_t moved = 0;
    for (size_t i = 0; i < b->group.members_count; i++) {
        moved += lost(&b->group.members[i]);
    }
    printf("{\"case\":\"%s\",\"us\":%.1f,\"us_min\":%.1f,\"us_max\":%.1f,\"moved\":%zu,\"arena_"
           "bytes\":%zu}\n",
           name,
           (double)samples[REPETITIONS / 2] / 1000,
           (double)samples[0] / 1000,
           (double)samples[REPETITIONS - 1] / 1000,
           moved,
           b->arenas[1].used_size);
    for (size_t i = 0; i < b->group.members_count; i++) {
        b->group.members[i].current = b->group.members[i].target;
        b->group.members[i].current_count = b->group.members[i].target_count;
    }
    const struct arena old = b->arenas[0];
    b->arenas[0] = b->arenas[1];
    b->arenas[1] = old;
}

static void run_all(const size_t sizes[3], assignor_fn *fn, bool is_alike, const char *name)
{
    struct bench b = {0};
    char text[64];
    arena_init(&b.arenas[0], (size_t)1 << 30);
    arena_init(&b.arenas[1], (size_t)1 << 30);
    make_group(&b, sizes, is_alike);
    (void)snprintf(text, sizeof(text), "%s: from nothing", name);
    run(&b, fn, text);
    b.group.members_count--;
    (void)snprintf(text, sizeof(text), "%s: one leaves", name);
    run(&b, fn, text);
    b.group.members_count++;
    b.group.members[b.group.members_count - 1].current_count = 0;
    (void)snprintf(text, sizeof(text), "%s: one joins", name);
    run(&b, fn, text);
    (void)snprintf(text, sizeof(text), "%s: nothing changes", name);
    run(&b, fn, text);
    arena_done(&b.arenas[0]);
    arena_done(&b.arenas[1]);
}

int main(int argc, char **argv)
{
    size_t sizes[3] = {1000, 100, 100};
    for (int i = 1; i < argc && i <= 3; i++) {
        sizes[i - 1] = strtoul(argv[i], NULL, 10);
    }
    run_all(sizes, assignor_uniform, true, "uniform, alike");
    run_all(sizes, assignor_uniform, false, "uniform, unequal");
    run_all(sizes, assignor_range, true, "range, alike");
    run_all(sizes, assignor_range, false, "range, unequal");
    return 0;
}

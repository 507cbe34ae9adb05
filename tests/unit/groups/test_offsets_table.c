#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/rand.h"
#include "groups/memory.h"
#include "groups/offsets_table.h"

enum {
    TOPICS = 5,
    PARTITIONS = 60,
    STEPS = 30000,
};

static struct offset_value value_of(int32_t partition, int64_t offset)
{
    return (struct offset_value){
        .partition = partition,
        .offset = offset,
        .leader_epoch = 3,
        .commit_ms = offset * 2,
        .expire_ms = OFFSET_NEVER_EXPIRES,
        .metadata = slice_of("", 0),
    };
}

/* The table against arrays; what it takes of memory is what growth said, or less. */
struct model {
    bool is_there[TOPICS][PARTITIONS];
    struct offset_value values[TOPICS][PARTITIONS];
    char texts[TOPICS][PARTITIONS][8];
    uint64_t count;
};

static struct slice topic_name(uint64_t i)
{
    static const char *const NAMES[TOPICS] = {"", "a", "b", "topic.with.a.longer.name", "e"};
    return slice_of_string(NAMES[i]);
}

static int32_t partition_number(uint64_t i)
{
    return i < PARTITIONS / 2 ? (int32_t)i : INT32_MAX - (int32_t)(i * 5);
}

static void compare(const struct offset_table *t, const struct model *m)
{
    offset_table_check(t);
    cr_assert(eq(u64, t->entries_count, m->count));
    for (size_t i = 0; i < TOPICS; i++) {
        const struct offset_topic *topic = offset_table_topic(t, topic_name(i));
        for (size_t j = 0; j < PARTITIONS; j++) {
            const struct offset_entry *e =
                topic == NULL ? NULL : offset_topic_find(topic, partition_number(j));
            cr_assert(eq(int, e != NULL, m->is_there[i][j]));
            if (e != NULL) {
                const struct offset_value *v = &m->values[i][j];
                cr_assert(eq(i64, e->offset, v->offset));
                cr_assert(eq(i64, e->commit_ms, v->commit_ms));
                cr_assert(eq(i64, offset_entry_expire_ms(e), v->expire_ms));
                cr_assert(uuid_equal(&e->topic_id, &v->topic_id));
                cr_assert(slice_equal_string(offset_entry_metadata(e), m->texts[i][j]));
            }
        }
    }
}

static void put(struct offset_table *t, struct model *m, struct rand *r)
{
    const uint64_t i = rand_below(r, TOPICS);
    const uint64_t j = rand_below(r, PARTITIONS);
    struct offset_value v = value_of(partition_number(j), (int64_t)rand_below(r, 1000));
    char *text = m->texts[i][j];
    (void)snprintf(text, sizeof(m->texts[i][j]), "%" PRIu64, rand_below(r, 10000));
    if (rand_one_in(r, 2)) {
        text[0] = '\0';
    }
    v.metadata = slice_of_string(text);
    v.expire_ms = rand_one_in(r, 4) ? 5 : OFFSET_NEVER_EXPIRES;
    v.topic_id.bytes[0] = rand_one_in(r, 9) ? 1 : 2;
    const uint64_t before = t->memory->size;
    const uint64_t growth = offset_table_growth(t, topic_name(i), &v);
    cr_assert(eq(int, offset_table_put(t, topic_name(i), &v), ERR_OK));
    /* Tables that double take what later ones will not. */
    cr_assert(le(u64, t->memory->size, before + growth + 4096));
    cr_assert(growth > 0 || t->memory->size <= before);
    m->count += m->is_there[i][j] ? 0 : 1;
    m->is_there[i][j] = true;
    m->values[i][j] = v;
}

static void remove_one(struct offset_table *t, struct model *m, struct rand *r)
{
    const uint64_t i = rand_below(r, TOPICS);
    const uint64_t j = rand_below(r, PARTITIONS);
    cr_assert(
        eq(int, offset_table_remove(t, topic_name(i), partition_number(j)), m->is_there[i][j]));
    m->count -= m->is_there[i][j] ? 1 : 0;
    m->is_there[i][j] = false;
}

Test(offset_table, is_what_arrays_are)
{
    struct group_memory memory = {.size_max = UINT64_MAX};
    struct offset_table t;
    struct model m = {0};
    struct rand r;
    rand_init_seed(&r, 7);
    offset_table_init(&t, &memory, 9);
    for (int i = 0; i < STEPS; i++) {
        /* It fills, and then empties, again and again. */
        const bool is_filling = i % 3000 < 1500;
        if (rand_one_in(&r, 4) != is_filling) {
            put(&t, &m, &r);
        } else {
            remove_one(&t, &m, &r);
        }
        if (i % 100 == 0) {
            compare(&t, &m);
        }
    }
    compare(&t, &m);
    offset_table_done(&t);
    cr_assert(eq(u64, memory.size, 0));
}

static bool is_ascending(void *context, const struct offset_topic *t, const struct offset_entry *e)
{
    int32_t *previous = context;
    (void)t;
    const bool is_next = e->partition > *previous;
    *previous = e->partition;
    return is_next;
}

/* Whatever order they came in: by partition, and the digest is that of the contents. */
Test(offset_table, does_not_depend_on_order)
{
    struct group_memory memory = {.size_max = UINT64_MAX};
    struct offset_table up;
    struct offset_table down;
    offset_table_init(&up, &memory, 1);
    offset_table_init(&down, &memory, 2);
    for (int32_t i = 0; i < 100; i++) {
        const struct offset_value a = value_of(i, i);
        const struct offset_value b = value_of(99 - i, 99 - i);
        cr_assert(eq(int, offset_table_put(&up, slice_of_string("t"), &a), ERR_OK));
        cr_assert(eq(int, offset_table_put(&down, slice_of_string("t"), &b), ERR_OK));
    }
    cr_assert(eq(u64, offset_table_digest(&up), offset_table_digest(&down)));
    int32_t previous = -1;
    const struct offset_topic *t = offset_table_topic(&down, slice_of_string("t"));
    cr_assert(offset_topic_for_each(t, is_ascending, &previous));
    cr_assert(eq(i32, previous, 99));
    const struct offset_value other = value_of(5, 6);
    cr_assert(eq(int, offset_table_put(&up, slice_of_string("t"), &other), ERR_OK));
    cr_assert(ne(u64, offset_table_digest(&up), offset_table_digest(&down)));
    offset_table_done(&up);
    offset_table_done(&down);
}

/* What the header promises of memory. */
Test(offset_table, takes_fifty_bytes_per_offset)
{
    enum { COUNT = 16384 };
    struct group_memory memory = {.size_max = UINT64_MAX};
    struct offset_table t;
    offset_table_init(&t, &memory, 1);
    struct offset_value v = value_of(0, 7);
    cr_assert(eq(int, offset_table_put(&t, slice_of_string("t"), &v), ERR_OK));
    cr_assert(le(u64, memory.size, 170));
    for (v.partition = 1; v.partition < COUNT; v.partition++) {
        cr_assert(eq(int, offset_table_put(&t, slice_of_string("t"), &v), ERR_OK));
    }
    cr_assert(le(u64, memory.size, COUNT * 50 + 1024));
    offset_table_done(&t);
}

Test(offset_table, knows_whether_a_topic_was_made_again)
{
    struct group_memory memory = {.size_max = UINT64_MAX};
    struct offset_table t;
    offset_table_init(&t, &memory, 1);
    struct offset_value v = value_of(0, 7);
    v.topic_id.bytes[0] = 1;
    cr_assert(eq(int, offset_table_put(&t, slice_of_string("t"), &v), ERR_OK));
    v.topic_id.bytes[0] = 2;
    cr_assert(eq(int, offset_table_put(&t, slice_of_string("t"), &v), ERR_OK));
    const struct offset_topic *topic = offset_table_topic(&t, slice_of_string("t"));
    cr_assert(not(topic->is_mixed));
    cr_assert(uuid_equal(&topic->id, &v.topic_id));
    v.partition = 1;
    v.topic_id.bytes[0] = 3;
    cr_assert(eq(int, offset_table_put(&t, slice_of_string("t"), &v), ERR_OK));
    cr_assert(topic->is_mixed);
    cr_assert(eq(i32, offset_topic_last(topic)->partition, 1));
    offset_table_done(&t);
}

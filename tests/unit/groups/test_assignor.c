/* Goal: every partition of a subscribed topic has one owner, the load is level, nothing moves that
 * need not, and the result depends on nothing but the group. Method: groups of chance from fixed
 * seeds, through histories of members that come and go and topics that come and grow; the checks
 * know nothing of how targets are made.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rand.h"
#include "groups/assignor.h"

enum {
    TOPICS_MAX = 12,
    MEMBERS_MAX = 16,
    PARTITIONS_MAX = 20,
    CELLS = TOPICS_MAX * PARTITIONS_MAX,
    ARENA_SIZE_MAX = 64 << 20,
    CASES = 300,
    STEPS = 8, /* Of a history. */
    NOBODY = -1,
};

struct world {
    struct rand random;
    struct arena arena;
    struct assignor_topic topics[TOPICS_MAX];
    size_t topics_count;
    struct assignor_member members[MEMBERS_MAX];
    size_t members_count;
    char ids[MEMBERS_MAX][2][16];
    uint32_t subscriptions[MEMBERS_MAX][TOPICS_MAX];
    struct assignor_partition currents[MEMBERS_MAX][CELLS];
    int ids_count;
};

static struct world world_of(uint64_t seed)
{
    struct world w = {0};
    rand_init_seed(&w.random, seed);
    return w;
}

static void add_topic(struct world *w, uint32_t partitions_count)
{
    struct assignor_topic *t = &w->topics[w->topics_count++];
    *t = (struct assignor_topic){.partitions_count = partitions_count};
    t->id.bytes[0] = (uint8_t)w->topics_count;
}

/* All topics. */
static void subscribe_all(struct world *w, size_t i)
{
    for (uint32_t t = 0; t < w->topics_count; t++) {
        w->subscriptions[i][t] = t;
    }
    w->members[i].topics_count = w->topics_count;
}

static void subscribe_some(struct world *w, size_t i)
{
    size_t count = 0;
    for (uint32_t t = 0; t < w->topics_count; t++) {
        if (rand_one_in(&w->random, 2)) {
            w->subscriptions[i][count++] = t;
        }
    }
    w->members[i].topics_count = count;
}

/* With a name that no other had. */
static void add_member(struct world *w, bool is_static)
{
    const size_t i = w->members_count++;
    const int number = w->ids_count++;
    (void)snprintf(w->ids[i][0], sizeof(w->ids[i][0]), "m%03d", (number * 37) % 1000);
    (void)snprintf(w->ids[i][1], sizeof(w->ids[i][1]), "i%03d", (number * 53) % 1000);
    w->members[i] = (struct assignor_member){0};
    w->members[i].instance_id.size = is_static; /* A mark: connect sets it. */
    subscribe_all(w, i);
}

static void remove_member(struct world *w, size_t i)
{
    w->members_count--;
    const size_t rest = w->members_count - i;
    memmove(&w->members[i], &w->members[i + 1], rest * sizeof(w->members[0]));
    memmove(&w->ids[i], &w->ids[i + 1], rest * sizeof(w->ids[0]));
    memmove(&w->subscriptions[i], &w->subscriptions[i + 1], rest * sizeof(w->subscriptions[0]));
    memmove(&w->currents[i], &w->currents[i + 1], rest * sizeof(w->currents[0]));
}

/* Points members to what is theirs. */
static struct assignor_group connect(struct world *w)
{
    for (size_t i = 0; i < w->members_count; i++) {
        struct assignor_member *m = &w->members[i];
        m->id = slice_of_string(w->ids[i][0]);
        m->instance_id =
            m->instance_id.size > 0 ? slice_of_string(w->ids[i][1]) : (struct slice){0};
        m->topics = w->subscriptions[i];
        m->current = w->currents[i];
    }
    return (struct assignor_group){
        .topics = w->topics,
        .topics_count = w->topics_count,
        .members = w->members,
        .members_count = w->members_count,
    };
}

static void assign(struct world *w, assignor_fn *fn)
{
    struct assignor_group g = connect(w);
    arena_init(&w->arena, ARENA_SIZE_MAX);
    cr_assert(eq(int, fn(&g, &w->arena), ERR_OK));
}

/* Targets become what members have. */
static void settle(struct world *w)
{
    for (size_t i = 0; i < w->members_count; i++) {
        struct assignor_member *m = &w->members[i];
        if (m->target_count > 0) {
            memcpy(w->currents[i], m->target, m->target_count * sizeof(m->target[0]));
        }
        m->current_count = m->target_count;
    }
    arena_done(&w->arena);
}

static bool is_subscribed(const struct assignor_member *m, uint32_t topic)
{
    for (size_t i = 0; i < m->topics_count; i++) {
        if (m->topics[i] == topic) {
            return true;
        }
    }
    return false;
}

/* Who has what, by target or by current; NOBODY elsewhere. */
struct owners {
    int of[TOPICS_MAX][PARTITIONS_MAX];
};

static struct owners owners_of(const struct world *w, bool is_target)
{
    struct owners o;
    for (size_t cell = 0; cell < CELLS; cell++) {
        o.of[cell / PARTITIONS_MAX][cell % PARTITIONS_MAX] = NOBODY;
    }
    for (size_t i = 0; i < w->members_count; i++) {
        const struct assignor_member *m = &w->members[i];
        const struct assignor_partition *list = is_target ? m->target : m->current;
        const size_t count = is_target ? m->target_count : m->current_count;
        for (size_t k = 0; k < count; k++) {
            int *of = &o.of[list[k].topic][list[k].partition];
            cr_assert(eq(int, *of, NOBODY), "two owners");
            *of = (int)i;
        }
    }
    return o;
}

static void expect_whole(const struct world *w)
{
    const struct owners o = owners_of(w, true);
    for (uint32_t t = 0; t < w->topics_count; t++) {
        bool is_wanted = false;
        for (size_t i = 0; i < w->members_count; i++) {
            is_wanted |= is_subscribed(&w->members[i], t);
        }
        for (uint32_t p = 0; p < PARTITIONS_MAX; p++) {
            const bool is_there = is_wanted && p < w->topics[t].partitions_count;
            const int owner = o.of[t][p];
            cr_assert(eq(int, owner != NOBODY, is_there), "topic %u partition %u", t, p);
            cr_assert(owner == NOBODY || is_subscribed(&w->members[owner], t));
        }
    }
    for (size_t i = 0; i < w->members_count; i++) {
        const struct assignor_member *m = &w->members[i];
        for (size_t k = 1; k < m->target_count; k++) {
            const struct assignor_partition *a = &m->target[k - 1];
            const struct assignor_partition *b = &m->target[k];
            cr_assert(a->topic < b->topic || (a->topic == b->topic && a->partition < b->partition));
        }
    }
}

/* Nobody could hand a partition to one who has at least two fewer. */
static void expect_level(const struct world *w)
{
    for (size_t i = 0; i < w->members_count; i++) {
        const struct assignor_member *m = &w->members[i];
        for (size_t k = 0; k < m->target_count; k++) {
            for (size_t j = 0; j < w->members_count; j++) {
                const struct assignor_member *other = &w->members[j];
                const bool may_not_have = !is_subscribed(other, m->target[k].topic);
                cr_assert(may_not_have || other->target_count + 1 >= m->target_count,
                          "%zu has %zu, %zu has %zu",
                          i,
                          m->target_count,
                          j,
                          other->target_count);
            }
        }
    }
}

static size_t count_moves(const struct world *w)
{
    const struct owners before = owners_of(w, false);
    const struct owners after = owners_of(w, true);
    size_t moves = 0;
    for (size_t cell = 0; cell < CELLS; cell++) {
        const int from = before.of[cell / PARTITIONS_MAX][cell % PARTITIONS_MAX];
        const int to = after.of[cell / PARTITIONS_MAX][cell % PARTITIONS_MAX];
        moves += from != NOBODY && to != from;
    }
    return moves;
}

/* Of a group that subscribes alike: what all have above what they may keep. */
static size_t count_moves_needed(const struct world *w)
{
    size_t total = 0;
    for (size_t t = 0; t < w->topics_count; t++) {
        total += w->topics[t].partitions_count;
    }
    const size_t quota = total / w->members_count;
    size_t extras = total % w->members_count;
    size_t moves = 0;
    for (size_t i = 0; i < w->members_count; i++) {
        size_t keeps = quota;
        if (w->members[i].current_count > quota && extras > 0) {
            keeps++;
            extras--;
        }
        moves += w->members[i].current_count > keeps ? w->members[i].current_count - keeps : 0;
    }
    return moves;
}

static void change(struct world *w, bool is_alike)
{
    switch (rand_below(&w->random, 5)) {
    case 0:
    case 1:
        if (w->members_count < MEMBERS_MAX) {
            add_member(w, rand_one_in(&w->random, 3));
        }
        break;
    case 2:
        if (w->members_count > 1) {
            remove_member(w, rand_below(&w->random, w->members_count));
        }
        break;
    case 3:
        if (w->topics_count < TOPICS_MAX) {
            add_topic(w, (uint32_t)rand_below(&w->random, PARTITIONS_MAX + 1));
        }
        break;
    default: {
        struct assignor_topic *t = &w->topics[rand_below(&w->random, w->topics_count)];
        t->partitions_count += t->partitions_count < PARTITIONS_MAX;
    }
    }
    for (size_t i = 0; i < w->members_count; i++) {
        if (is_alike) {
            subscribe_all(w, i);
        } else if (rand_one_in(&w->random, 3)) {
            subscribe_some(w, i);
        }
    }
}

static void begin(struct world *w, uint64_t seed)
{
    *w = world_of(seed);
    for (size_t t = rand_below(&w->random, 4) + 1; t > 0; t--) {
        add_topic(w, (uint32_t)rand_below(&w->random, PARTITIONS_MAX + 1));
    }
    for (size_t i = rand_below(&w->random, 5) + 1; i > 0; i--) {
        add_member(w, rand_one_in(&w->random, 3));
    }
}

/* No claim of what a member may not have any more: what is left is what may stay. */
static void drop_claims_in_vain(struct world *w)
{
    for (size_t i = 0; i < w->members_count; i++) {
        struct assignor_member *m = &w->members[i];
        m->topics = w->subscriptions[i];
        size_t kept = 0;
        for (size_t k = 0; k < m->current_count; k++) {
            if (is_subscribed(m, w->currents[i][k].topic)) {
                w->currents[i][kept++] = w->currents[i][k];
            }
        }
        m->current_count = kept;
    }
}

Test(assignor, uniform_groups_that_subscribe_alike_through_histories)
{
    static struct world w;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        begin(&w, seed);
        for (int step = 0; step < STEPS; step++) {
            assign(&w, assignor_uniform);
            expect_whole(&w);
            expect_level(&w);
            cr_assert(eq(sz, count_moves(&w), count_moves_needed(&w)), "seed %zu", (size_t)seed);
            settle(&w);
            change(&w, true);
        }
    }
}

Test(assignor, uniform_groups_that_subscribe_to_what_they_like_through_histories)
{
    static struct world w;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        begin(&w, seed);
        for (int step = 0; step < STEPS; step++) {
            assign(&w, assignor_uniform);
            expect_whole(&w);
            expect_level(&w);
            settle(&w);
            assign(&w, assignor_uniform);
            cr_assert(eq(sz, count_moves(&w), 0), "seed %zu: no rest", (size_t)seed);
            settle(&w);
            change(&w, false);
            drop_claims_in_vain(&w);
        }
    }
}

/* Of each topic, members differ by one partition at most; alike topics have alike owners. */
static void expect_range(const struct world *w)
{
    const struct owners o = owners_of(w, true);
    for (uint32_t t = 0; t < w->topics_count; t++) {
        size_t counts[MEMBERS_MAX] = {0};
        for (uint32_t p = 0; p < w->topics[t].partitions_count; p++) {
            counts[o.of[t][p]]++;
        }
        const size_t quota = w->topics[t].partitions_count / w->members_count;
        for (size_t i = 0; i < w->members_count; i++) {
            cr_assert(counts[i] == quota || counts[i] == quota + 1);
        }
        for (uint32_t other = 0; other < t; other++) {
            if (w->topics[other].partitions_count == w->topics[t].partitions_count) {
                cr_assert(memcmp(o.of[other], o.of[t], sizeof(o.of[t])) == 0, "not co-partitioned");
            }
        }
    }
}

Test(assignor, range_through_histories)
{
    static struct world w;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        begin(&w, seed);
        for (int step = 0; step < STEPS; step++) {
            assign(&w, assignor_range);
            expect_whole(&w);
            expect_range(&w);
            settle(&w);
            assign(&w, assignor_range);
            cr_assert(eq(sz, count_moves(&w), 0), "seed %zu: no rest", (size_t)seed);
            settle(&w);
            change(&w, true);
        }
    }
}

Test(assignor, range_with_unequal_subscriptions)
{
    static struct world w;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        begin(&w, seed);
        for (int step = 0; step < STEPS; step++) {
            assign(&w, assignor_range);
            expect_whole(&w);
            settle(&w);
            change(&w, false);
            drop_claims_in_vain(&w);
        }
    }
}

/* The order in which members stand in the group, or share their lists, is nothing. */
Test(assignor, the_order_of_members_in_the_input_does_not_count)
{
    static assignor_fn *const fns[] = {assignor_uniform, assignor_range};
    static struct world w;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        begin(&w, seed);
        for (size_t i = 0; i < w.members_count && seed % 2 == 0; i++) {
            subscribe_some(&w, i);
        }
        assign(&w, fns[seed / 2 % 2]);
        struct assignor_member reversed[MEMBERS_MAX];
        for (size_t i = 0; i < w.members_count; i++) {
            reversed[i] = w.members[w.members_count - 1 - i];
            if (seed % 2 == 1) {
                reversed[i].topics = w.subscriptions[0];
            }
        }
        struct assignor_group g = connect(&w);
        g.members = reversed;
        cr_assert(eq(int, fns[seed / 2 % 2](&g, &w.arena), ERR_OK));
        for (size_t i = 0; i < w.members_count; i++) {
            const struct assignor_member *a = &w.members[i];
            const struct assignor_member *b = &reversed[w.members_count - 1 - i];
            cr_assert(eq(sz, a->target_count, b->target_count));
            cr_assert(memcmp(a->target, b->target, a->target_count * sizeof(a->target[0])) == 0);
        }
        settle(&w);
    }
}

/* ---- by hand ---- */

static void expect_target(const struct assignor_member *m, const char *expected)
{
    char text[256] = "";
    size_t size = 0;
    for (size_t k = 0; k < m->target_count; k++) {
        size += (size_t)snprintf(text + size,
                                 sizeof(text) - size,
                                 "%s%c%u",
                                 k > 0 ? " " : "",
                                 'a' + (char)m->target[k].topic,
                                 m->target[k].partition);
    }
    cr_assert(eq(str, text, (char *)(uintptr_t)expected));
}

Test(assignor, uniform_by_hand)
{
    static struct world w;
    w = world_of(1);
    add_topic(&w, 3);
    add_topic(&w, 3);
    add_member(&w, false); /* m000 */
    add_member(&w, false); /* m037 */
    assign(&w, assignor_uniform);
    expect_target(&w.members[0], "a0 a2 b1");
    expect_target(&w.members[1], "a1 b0 b2");
    settle(&w);
    add_member(&w, false); /* m074 takes something of each. */
    assign(&w, assignor_uniform);
    expect_target(&w.members[0], "a0 a2");
    expect_target(&w.members[1], "a1 b0");
    expect_target(&w.members[2], "b1 b2");
    settle(&w);
    remove_member(&w, 0);
    assign(&w, assignor_uniform);
    expect_target(&w.members[0], "a0 a1 b0");
    expect_target(&w.members[1], "a2 b1 b2");
    settle(&w);
}

Test(assignor, range_by_hand)
{
    static struct world w;
    w = world_of(1);
    add_topic(&w, 5);
    add_topic(&w, 5);
    add_topic(&w, 2);
    add_member(&w, false);
    add_member(&w, false);
    assign(&w, assignor_range);
    expect_target(&w.members[0], "a0 a1 a2 b0 b1 b2 c0");
    expect_target(&w.members[1], "a3 a4 b3 b4 c1");
    settle(&w);
    add_member(&w, false);
    assign(&w, assignor_range);
    expect_target(&w.members[0], "a0 a1 b0 b1 c0");
    expect_target(&w.members[1], "a3 a4 b3 b4 c1");
    expect_target(&w.members[2], "a2 b2");
    settle(&w);
}

/* Static members go by their instance, before all others. */
Test(assignor, a_static_member_under_another_id_has_the_same_place)
{
    static struct world w;
    w = world_of(1);
    add_topic(&w, 4);
    add_member(&w, false); /* m000 */
    add_member(&w, true);  /* m037, i053 */
    add_member(&w, true);  /* m074, i106 */
    assign(&w, assignor_range);
    expect_target(&w.members[1], "a0 a1");
    expect_target(&w.members[2], "a2");
    expect_target(&w.members[0], "a3");
    settle(&w);
    for (size_t i = 0; i < 3; i++) {
        w.members[i].current_count = 0;
    }
    (void)snprintf(w.ids[1][0], sizeof(w.ids[1][0]), "zzz");
    assign(&w, assignor_range);
    expect_target(&w.members[1], "a0 a1");
    settle(&w);
}

Test(assignor, claims_in_vain_are_passed_over)
{
    static struct world w;
    w = world_of(1);
    add_topic(&w, 2);
    add_member(&w, false);
    add_member(&w, false);
    for (size_t i = 0; i < 2; i++) {
        const struct assignor_partition claims[] = {
            {7, 0}, {UINT32_MAX, 1}, {0, 2}, {0, UINT32_MAX}, {0, 1}};
        memcpy(w.currents[i], claims, sizeof(claims));
        w.members[i].current_count = 5;
    }
    assign(&w, assignor_uniform);
    expect_target(&w.members[0], "a1");
    expect_target(&w.members[1], "a0");
    settle(&w);
}

Test(assignor, groups_of_nothing)
{
    static assignor_fn *const fns[] = {assignor_uniform, assignor_range};
    static struct world w;
    for (size_t i = 0; i < 2; i++) {
        w = world_of(1);
        assign(&w, fns[i]);
        settle(&w);
        add_member(&w, false);
        assign(&w, fns[i]);
        cr_assert(eq(sz, w.members[0].target_count, 0));
        settle(&w);
        w.members_count = 0;
        add_topic(&w, 3);
        add_topic(&w, 0);
        assign(&w, fns[i]);
        settle(&w);
        add_member(&w, false);
        assign(&w, fns[i]);
        cr_assert(eq(sz, w.members[0].target_count, 3));
        settle(&w);
    }
}

Test(assignor, a_full_arena_is_an_error)
{
    static assignor_fn *const fns[] = {assignor_uniform, assignor_range};
    static struct world w;
    for (size_t size = 0; size < 1200; size += 8) {
        begin(&w, 5);
        struct assignor_group g = connect(&w);
        arena_init(&w.arena, size);
        const enum err e = fns[size / 8 % 2](&g, &w.arena);
        cr_assert(e == ERR_OK || e == ERR_TOO_LARGE);
        cr_assert(e == ERR_OK || w.members[0].target == NULL);
        arena_done(&w.arena);
    }
}

Test(assignor, names)
{
    cr_assert(assignor_find(slice_of_string("uniform")) == assignor_uniform);
    cr_assert(assignor_find(slice_of_string("range")) == assignor_range);
    cr_assert(assignor_find((struct slice){0}) == assignor_uniform);
    cr_assert(assignor_find(slice_of_string("")) == NULL);
    cr_assert(assignor_find(slice_of_string("Range")) == NULL);
}

Test(assignor, topics_are_found_by_id)
{
    static struct world w;
    w = world_of(1);
    for (uint32_t t = 0; t < 5; t++) {
        add_topic(&w, 1);
    }
    const struct assignor_group g = connect(&w);
    for (uint32_t t = 0; t < 5; t++) {
        uint32_t index = 99;
        cr_assert(assignor_topic_index(&g, &w.topics[t].id, &index));
        cr_assert(eq(u32, index, t));
    }
    uint32_t index = 99;
    const struct uuid unknown = {{9}};
    cr_assert(not(assignor_topic_index(&g, &unknown, &index)));
    cr_assert(eq(u32, index, 99));
}

/* Random commits, deletions, topics that come and go, failing appends, restarts and hand-overs,
 * against a model of arrays that knows only what was answered. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "tests/unit/groups/offsets_rig.h"

enum {
    GROUPS = 3,
    TOPICS = 3,
    PARTITIONS = 20,
    SEEDS = 5,
    STEPS = 200,
    LINES_MAX = 12,
};

static const char *const GROUP_NAMES[GROUPS] = {"", "g", "another-group"};
static const char *const TOPIC_NAMES[TOPICS] = {"a", "b", "c"};

/* -1 = nothing. */
struct model {
    int64_t offsets[GROUPS][TOPICS][PARTITIONS];
    char metadata[GROUPS][TOPICS][PARTITIONS][8];
};

struct walk {
    struct rig *r;
    struct rand rand;
    struct model m;
};

static void forget_topic(struct walk *w, size_t topic)
{
    for (size_t g = 0; g < GROUPS; g++) {
        for (size_t p = 0; p < PARTITIONS; p++) {
            w->m.offsets[g][topic][p] = -1;
        }
    }
}

static bool has_group(const struct walk *w, size_t group)
{
    bool is_there = false;
    for (size_t t = 0; t < TOPICS; t++) {
        for (size_t p = 0; p < PARTITIONS; p++) {
            is_there = is_there || w->m.offsets[group][t][p] >= 0;
        }
    }
    return is_there;
}

static void compare_group(const struct walk *w, size_t group)
{
    size_t left = offsets_fetched_count(w->r, GROUP_NAMES[group]);
    for (size_t t = 0; t < TOPICS; t++) {
        for (int32_t p = 0; p < PARTITIONS; p++) {
            const struct offset_fetch_response_group_topic_partition got =
                offsets_fetch_one(w->r, GROUP_NAMES[group], TOPIC_NAMES[t], p);
            cr_assert(eq(i64, got.committed_offset, w->m.offsets[group][t][p]));
            if (got.committed_offset >= 0) {
                cr_assert(slice_equal_string(got.metadata, w->m.metadata[group][t][p]));
                left--;
            }
        }
    }
    cr_assert(eq(sz, left, 0));
}

static void commit(struct walk *w)
{
    const size_t group = rand_below(&w->rand, GROUPS);
    const size_t count = 1 + rand_below(&w->rand, LINES_MAX);
    struct offset_line *lines = rig_alloc(w->r, count, sizeof(*lines));
    size_t topics[LINES_MAX];
    for (size_t i = 0; i < count; i++) {
        char *text = rig_alloc(w->r, 8, 1);
        topics[i] = rand_below(&w->rand, TOPICS);
        if (rand_one_in(&w->rand, 3)) {
            (void)snprintf(text, 8, "m%d", (int)rand_below(&w->rand, 1000));
        }
        lines[i] = (struct offset_line){TOPIC_NAMES[topics[i]],
                                        (int32_t)rand_below(&w->rand, PARTITIONS),
                                        (int64_t)rand_below(&w->rand, 1000),
                                        text};
    }
    w->r->append_err = rand_one_in(&w->rand, 5) ? ERR_NO_SPACE : ERR_OK;
    const struct offset_commit_response *out =
        rig_answer(rig_send(w->r,
                            GROUP_COMMIT,
                            (int16_t)(2 + rand_below(&w->rand, 9)),
                            GROUP_NAMES[group],
                            offsets_commit_request(w->r, lines, count)));
    w->r->append_err = ERR_OK;
    size_t at = 0;
    for (size_t i = 0; i < out->topics_count; i++) {
        for (size_t j = 0; j < out->topics[i].partitions_count; j++, at++) {
            if (out->topics[i].partitions[j].error_code == KAFKA_NONE) {
                const size_t p = (size_t)lines[at].partition;
                w->m.offsets[group][topics[at]][p] = lines[at].offset;
                (void)snprintf(w->m.metadata[group][topics[at]][p], 8, "%s", lines[at].metadata);
            }
        }
    }
    cr_assert(eq(sz, at, count));
}

static void delete_offset(struct walk *w)
{
    const size_t group = rand_below(&w->rand, GROUPS);
    const size_t topic = rand_below(&w->rand, TOPICS);
    const struct offset_line line = {
        TOPIC_NAMES[topic], (int32_t)rand_below(&w->rand, PARTITIONS), 0, NULL};
    if (group == 0) {
        return; /* OffsetDelete wants a name. */
    }
    const bool was_there = has_group(w, group);
    const struct offset_delete_response *out = rig_answer(rig_send(
        w->r, GROUP_DELETE_OFFSETS, 0, GROUP_NAMES[group], offsets_delete_request(w->r, &line, 1)));
    cr_assert(eq(int, out->error_code, was_there ? KAFKA_NONE : KAFKA_GROUP_ID_NOT_FOUND));
    w->m.offsets[group][topic][line.partition] = -1;
}

static void delete_group(struct walk *w)
{
    const size_t group = rand_below(&w->rand, GROUPS);
    const bool was_there = has_group(w, group);
    const int16_t error = offsets_delete_group_error(w->r, GROUP_NAMES[group]);
    cr_assert(eq(int, error, was_there ? KAFKA_NONE : KAFKA_GROUP_ID_NOT_FOUND));
    for (size_t t = 0; t < TOPICS; t++) {
        for (size_t p = 0; p < PARTITIONS; p++) {
            w->m.offsets[group][t][p] = -1;
        }
    }
}

static void remake_topic(struct walk *w)
{
    const size_t topic = rand_below(&w->rand, TOPICS);
    const bool is_away = rand_one_in(&w->rand, 2);
    if (is_away) {
        rig_resign(w->r);
    }
    rig_topic_delete(w->r, TOPIC_NAMES[topic]);
    rig_topic(w->r, TOPIC_NAMES[topic], PARTITIONS);
    if (is_away) {
        rig_restart(w->r);
    }
    /* Groups that had nothing else are there until that is written. */
    rig_pass_ms(w->r, 1);
    forget_topic(w, topic);
}

static void step(struct walk *w)
{
    switch (rand_below(&w->rand, 20)) {
    case 0:
        delete_group(w);
        break;
    case 1:
    case 2:
    case 3:
        delete_offset(w);
        break;
    case 4:
        remake_topic(w);
        break;
    case 5:
        rig_restart(w->r);
        break;
    case 6:
        rig_handover(w->r);
        break;
    default:
        commit(w);
        break;
    }
}

Test(offsets_random, is_what_was_answered)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct walk w = {.r = rig_new()};
        rand_init_seed(&w.rand, seed);
        for (size_t t = 0; t < TOPICS; t++) {
            rig_topic(w.r, TOPIC_NAMES[t], PARTITIONS);
            forget_topic(&w, t);
        }
        for (int i = 0; i < STEPS; i++) {
            step(&w);
            if (i % 10 == 0) {
                for (size_t g = 0; g < GROUPS; g++) {
                    compare_group(&w, g);
                }
            }
        }
        rig_restart(w.r);
        for (size_t g = 0; g < GROUPS; g++) {
            compare_group(&w, g);
        }
        rig_free(w.r);
    }
}

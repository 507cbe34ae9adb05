/* Members that subscribe by patterns: in how many turns these are matched, whose turn it is, and
 * how often topics are looked at. All in simulated time; the queue alone is in test_matching.c. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "groups/topic_pattern.h"
#include "kafka/proto/consumer_group_heartbeat.h"

#include "tests/unit/groups/rig.h"

/* A pattern that has many states. */
#define LONG_PATTERN "(a?){100}[ab](a|aa|b|.){40}.*b[0-9]*"

enum {
    VERSION = 1,
    LONG_TOPICS = 80,
    BUSY_GROUPS = 8,
    TEXT_SIZE = 64,
    US_PER_MS = 1000,
};

/* A member of a group, and how many topics it was told last. */
struct person {
    const char *group;
    const char *id;
    int32_t epoch;
    size_t topics_count;
};

static void hear(struct person *m, const struct consumer_group_heartbeat_response *out)
{
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
    m->epoch = out->member_epoch;
    if (out->assignment != NULL) {
        m->topics_count = out->assignment->topic_partitions_count;
    }
}

static struct consumer_group_heartbeat_request *new_request(struct rig *r, const struct person *m)
{
    struct consumer_group_heartbeat_request *in = rig_alloc(r, 1, sizeof(*in));
    consumer_group_heartbeat_request_init(in);
    in->group_id = rig_text(r, m->group);
    in->member_id = rig_text(r, m->id);
    in->member_epoch = m->epoch;
    return in;
}

static struct consumer_group_heartbeat_request *
join_request(struct rig *r, const struct person *m, const char *pattern)
{
    struct consumer_group_heartbeat_request *in = new_request(r, m);
    in->rebalance_timeout_ms = 60000;
    in->subscribed_topic_regex = rig_text(r, pattern);
    in->topic_partitions = rig_alloc(r, 1, sizeof(*in->topic_partitions));
    return in;
}

static void
speak(struct rig *r, struct person *m, const struct consumer_group_heartbeat_request *in)
{
    hear(m, rig_answer(rig_send(r, GROUP_CONSUMER_HEARTBEAT, VERSION, m->group, in)));
}

static struct person join(struct rig *r, const char *group, const char *member, const char *pattern)
{
    struct person m = {.group = group, .id = member};
    speak(r, &m, join_request(r, &m, pattern));
    return m;
}

static void beat(struct rig *r, struct person *m)
{
    speak(r, m, new_request(r, m));
}

static const char *numbered(struct rig *r, const char *text, int i)
{
    char *name = rig_alloc(r, TEXT_SIZE, 1);
    (void)snprintf(name, TEXT_SIZE, "%s%03d", text, i);
    return name;
}

static void add_long_topics(struct rig *r, int count)
{
    char name[250];
    memset(name, 'a', sizeof(name) - 1);
    for (int i = 0; i < count; i++) {
        (void)snprintf(name + 200, sizeof(name) - 200, "b%03d", i);
        rig_topic(r, name, 1);
    }
}

/* Matching has had its share until then. */
static void use_share_ms(struct rig *r, uint64_t ms)
{
    enum {
        CREDIT_MS = 1000,
    };
    r->leader->matching.busy_us = r->now.now_us + (CREDIT_MS + ms) * US_PER_MS;
}

/* Milliseconds until it is told of so many topics. */
static uint64_t ms_until(struct rig *r, struct person *m, size_t topics_count)
{
    const uint64_t from_us = r->now.now_us;
    while (m->topics_count != topics_count) {
        rig_pass_ms(r, 10);
        beat(r, m);
        cr_assert(lt(u64, r->now.now_us - from_us, 600ULL * 1000 * US_PER_MS), "it never is");
    }
    return (r->now.now_us - from_us) / US_PER_MS;
}

/* What it takes to match it against all topics. */
static uint64_t steps_of_long_pattern(const struct rig *r)
{
    struct topic_pattern *p = NULL;
    const char *why = NULL;
    cr_assert(eq(int, topic_pattern_new(slice_of_string(LONG_PATTERN), &p, &why), ERR_OK));
    uint64_t steps = 0;
    for (uint32_t i = 0; i < metadata_topics_count(r->metadata); i++) {
        const struct slice name = slice_of_string(metadata_topic_at(r->metadata, i)->name);
        (void)topic_pattern_matches(p, name, &steps);
    }
    topic_pattern_free(p);
    return steps;
}

/* ---- turns, and the share of the core ---- */

Test(consumer_resolve, a_pattern_over_many_topics_takes_turns)
{
    struct rig *r = rig_new();
    add_long_topics(r, LONG_TOPICS);
    struct person a = join(r, "g", "a", LONG_PATTERN);
    cr_assert(eq(sz, a.topics_count, 0), "it is not known yet");
    rig_pass_ms(r, 2000);
    cr_assert(rig_has_reached(r, "consumer_resolve_next_turn"));
    beat(r, &a);
    cr_assert(eq(sz, a.topics_count, LONG_TOPICS));
    rig_restart(r);
    rig_free(r);
}

/* The most that a turn may take: a millisecond, and the name that it was at then. */
Test(consumer_resolve, a_turn_is_short)
{
    struct rig *r = rig_new();
    add_long_topics(r, LONG_TOPICS);
    (void)join(r, "g", "a", LONG_PATTERN);
    const uint64_t used_us = (r->leader->matching.busy_us - r->now.now_us) / 10;
    cr_assert(ge(u64, used_us, 1000));
    cr_assert(le(u64, used_us, 3000));
    rig_free(r);
}

/* What a match takes, as the pattern itself tells it, is spread over ten times as long. */
Test(consumer_resolve, matching_takes_a_tenth_of_a_core)
{
    struct rig *r = rig_new();
    add_long_topics(r, LONG_TOPICS);
    const uint64_t alone_ms = steps_of_long_pattern(r) * 5 / (1000 * 1000);
    cr_assert(lt(u64, 50, alone_ms), "many turns");
    use_share_ms(r, 0);
    struct person a = join(r, "g", "a", LONG_PATTERN);
    const uint64_t took_ms = ms_until(r, &a, LONG_TOPICS);
    cr_assert(ge(u64, took_ms, alone_ms * 10 - 50), "%llu", (unsigned long long)took_ms);
    cr_assert(le(u64, took_ms, alone_ms * 10 + 250), "%llu", (unsigned long long)took_ms);
    rig_free(r);
}

/* Matching has had its share of the core for the next minute: a new pattern is not even looked at
 * for the first answer, and nothing else waits for it. */
Test(consumer_resolve, patterns_wait_for_their_share)
{
    struct rig *r = rig_new();
    rig_topic(r, "t", 1);
    use_share_ms(r, 59000);
    struct person a = join(r, "g", "a", "t.*");
    cr_assert(eq(sz, a.topics_count, 0));
    rig_pass_ms(r, 30000);
    beat(r, &a);
    cr_assert(rig_has_reached(r, "consumer_resolve_waits_for_its_share"));
    cr_assert(eq(sz, a.topics_count, 0));
    rig_pass_ms(r, 30000);
    beat(r, &a);
    cr_assert(eq(sz, a.topics_count, 1));
    rig_free(r);
}

/* ---- whose turn it is ---- */

/* Groups have seconds of work because topics changed: a member that comes waits for a few
 * turns, not for all of them. */
Test(consumer_resolve, a_new_pattern_goes_before_those_that_are_matched_again)
{
    struct rig *r = rig_new();
    add_long_topics(r, LONG_TOPICS);
    struct person busy[BUSY_GROUPS];
    for (int i = 0; i < BUSY_GROUPS; i++) {
        r->leader->matching.busy_us = 0;
        busy[i] = join(r, numbered(r, "busy", i), "a", LONG_PATTERN);
        (void)ms_until(r, &busy[i], LONG_TOPICS);
    }
    rig_pass_ms(r, 2000);
    use_share_ms(r, 0);
    rig_topic(r, "b", 1);
    rig_pass_ms(r, 100);
    use_share_ms(r, 5);
    struct person a = join(r, "new", "a", "b");
    cr_assert(eq(sz, a.topics_count, 0), "it is not its turn");
    const uint64_t took_ms = ms_until(r, &a, 1);
    cr_assert(le(u64, took_ms, 50), "%llu", (unsigned long long)took_ms);
    beat(r, &busy[BUSY_GROUPS - 1]);
    cr_assert(eq(sz, busy[BUSY_GROUPS - 1].topics_count, LONG_TOPICS),
              "others have most before them");
    const uint64_t alone_ms = steps_of_long_pattern(r) * 50 / (1000 * 1000);
    struct person costly = join(r, "costly", "a", LONG_PATTERN);
    const uint64_t costly_ms = ms_until(r, &costly, LONG_TOPICS);
    cr_assert(le(u64, costly_ms, 3 * alone_ms), "every other turn is its own");
    rig_free(r);
}

/* Members come with costly patterns faster than these are matched: topics that changed are found in
 * between. */
Test(consumer_resolve, members_that_come_do_not_hold_up_topics_that_changed)
{
    struct rig *r = rig_new();
    add_long_topics(r, LONG_TOPICS);
    rig_topic(r, "t1", 1);
    struct person a = join(r, "g", "a", "t.*");
    cr_assert(eq(sz, a.topics_count, 1));
    use_share_ms(r, 0);
    for (int i = 0; i < 20; i++) {
        (void)join(r, numbered(r, "h", i), "a", LONG_PATTERN);
    }
    rig_topic(r, "t2", 1);
    for (int i = 20; i < 60; i++) {
        rig_pass_ms(r, 10);
        (void)join(r, numbered(r, "h", i), "a", LONG_PATTERN);
    }
    beat(r, &a);
    cr_assert(eq(sz, a.topics_count, 2));
    rig_free(r);
}

/* Nor do costly patterns hold up others that members wait for. */
Test(consumer_resolve, a_costly_pattern_does_not_hold_up_a_cheap_one)
{
    struct rig *r = rig_new();
    add_long_topics(r, LONG_TOPICS);
    rig_topic(r, "t", 1);
    use_share_ms(r, 0);
    struct person costly[5];
    for (int i = 0; i < 5; i++) {
        costly[i] = join(r, numbered(r, "costly", i), "a", LONG_PATTERN);
    }
    struct person a = join(r, "g", "a", "t");
    const uint64_t took_ms = ms_until(r, &a, 1);
    cr_assert(le(u64, took_ms, 200), "%llu", (unsigned long long)took_ms);
    for (int i = 0; i < 5; i++) {
        beat(r, &costly[i]);
        cr_assert(eq(sz, costly[i].topics_count, 0), "they need more turns");
    }
    for (int i = 0; i < 5; i++) {
        (void)ms_until(r, &costly[i], LONG_TOPICS);
    }
    rig_free(r);
}

/* ---- looks ---- */

/* How often it was written what the pattern matches, and with the member of it. */
static size_t count_written(const struct rig *r, const char *pattern)
{
    size_t count = 0;
    for (size_t i = 0; i < r->batches_count; i++) {
        const struct rig_batch *b = &r->batches[i];
        count += memmem(b->bytes, b->size, pattern, strlen(pattern)) != NULL;
    }
    return count;
}

/* How often the text is in it. */
static size_t count_in(const struct rig_batch *b, const char *text)
{
    size_t count = 0;
    const uint8_t *end = b->bytes + b->size;
    const uint8_t *at = b->bytes;
    while ((at = memmem(at, (size_t)(end - at), text, strlen(text))) != NULL) {
        count++;
        at++;
    }
    return count;
}

/* A topic each 10 ms: each look writes all names anew. */
Test(consumer_resolve, topics_are_looked_at_once_a_second)
{
    struct rig *r = rig_new();
    rig_topic(r, "t", 1);
    (void)join(r, "g", "a", "t[0-9]*");
    for (int i = 0; i < 1000; i++) {
        rig_pass_ms(r, 10);
        rig_topic(r, numbered(r, "t", i), 1);
    }
    const size_t written = count_written(r, "t[0-9]*");
    cr_assert(ge(sz, written, 10), "%zu", written);
    cr_assert(le(sz, written, 12), "%zu", written);
    rig_free(r);
}

Test(consumer_resolve, what_changes_in_a_pause_is_found_after_it)
{
    struct rig *r = rig_new();
    rig_topic(r, "t1", 1);
    struct person a = join(r, "g", "a", "t.*");
    rig_topic(r, "t2", 1);
    cr_assert(le(u64, ms_until(r, &a, 2), 10), "it has not looked lately");
    rig_topic(r, "t3", 1);
    const uint64_t took_ms = ms_until(r, &a, 3);
    cr_assert(ge(u64, took_ms, 900), "%llu", (unsigned long long)took_ms);
    cr_assert(le(u64, took_ms, 1100), "%llu", (unsigned long long)took_ms);
    rig_free(r);
}

/* A pause is between two looks, not between the patterns of one. */
Test(consumer_resolve, a_look_is_for_all_patterns_of_a_group)
{
    enum {
        MEMBERS = 20,
    };
    struct rig *r = rig_new();
    rig_topic(r, "t", 1);
    for (int i = 0; i < MEMBERS; i++) {
        (void)join(r, "g", numbered(r, "m", i), numbered(r, "(t.*)|", i));
    }
    rig_topic(r, "t2", 1);
    rig_pass_ms(r, 500);
    for (int i = 0; i < MEMBERS; i++) {
        cr_assert(eq(sz, count_written(r, numbered(r, "(t.*)|", i)), 2), "%d", i);
    }
    rig_free(r);
}

/* Topics come faster than a pattern is matched, which is to wait before each turn: it is matched
 * against what was there, and not never. */
Test(consumer_resolve, a_pattern_is_matched_while_topics_come)
{
    struct rig *r = rig_new();
    add_long_topics(r, LONG_TOPICS);
    struct person a = join(r, "g", "a", LONG_PATTERN);
    cr_assert(eq(sz, a.topics_count, 0), "it is not known yet");
    use_share_ms(r, 0);
    for (int i = 0; i < 300; i++) {
        rig_pass_ms(r, 10);
        rig_topic(r, numbered(r, "other", i), 1);
    }
    cr_assert(rig_has_reached(r, "consumer_resolve_waits_for_its_share"));
    beat(r, &a);
    cr_assert(eq(sz, a.topics_count, LONG_TOPICS));
    rig_free(r);
}

/* What was found could not be written: it is looked for again. */
Test(consumer_resolve, a_pattern_is_matched_again_if_that_could_not_be_kept)
{
    struct rig *r = rig_new();
    rig_topic(r, "t1", 1);
    struct person a = join(r, "g", "a", "t.*");
    cr_assert(eq(sz, a.topics_count, 1));
    r->append_err = ERR_NO_SPACE;
    rig_topic(r, "t2", 1);
    rig_pass_ms(r, 2000);
    r->append_err = ERR_OK;
    rig_pass_ms(r, 3000);
    beat(r, &a);
    cr_assert(eq(sz, a.topics_count, 2));
    rig_free(r);
}

/* Topics that come while the first match is on its way to the log: the group is told of them, and
 * has no pattern yet. */
Test(consumer_resolve, a_topic_made_while_the_first_match_is_written_is_found)
{
    struct rig *r = rig_new();
    rig_topic(r, "t1", 1);
    struct person a = {.group = "g", .id = "a"};
    struct consumer_group_heartbeat_request *in = join_request(r, &a, "t.*");
    r->is_holding = true;
    const struct rig_call *call = rig_send(r, GROUP_CONSUMER_HEARTBEAT, VERSION, a.group, in);
    rig_topic(r, "t2", 1);
    rig_pass_ms(r, 100);
    r->is_holding = false;
    rig_commit_all(r);
    hear(&a, rig_answer(call));
    (void)ms_until(r, &a, 2);
    rig_free(r);
}

/* Between two turns of a match topics come in front of the one that is next: none is in the record
 * twice. */
Test(consumer_resolve, a_name_is_written_once)
{
    struct rig *r = rig_new();
    add_long_topics(r, LONG_TOPICS);
    (void)join(r, "g", "a", LONG_PATTERN);
    use_share_ms(r, 0);
    rig_pass_ms(r, 100);
    cr_assert(rig_has_reached(r, "consumer_resolve_next_turn"));
    const size_t before = r->batches_count;
    rig_topic(r, "a", 1);
    rig_pass_ms(r, 5000);
    cr_assert(lt(sz, before, r->batches_count));
    cr_assert(eq(sz, count_in(&r->batches[before], LONG_PATTERN), 1), "it is matched");
    cr_assert(eq(sz, count_in(&r->batches[before], "aab"), LONG_TOPICS));
    rig_free(r);
}

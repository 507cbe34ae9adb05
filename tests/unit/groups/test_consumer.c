/* What other modules ask of a group of the new protocol, its limits, and damaged records. Its
 * stories are in tests/scenarios/groups, its random walks in test_consumer_random.c. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "groups/consumer.h"
#include "groups/group.h"
#include "kafka/proto/consumer_group_describe.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/consumer_group_member_metadata_record.h"
#include "kafka/proto/consumer_group_metadata_record.h"
#include "kafka/proto/consumer_group_target_assignment_metadata_record.h"
#include "kafka/proto/consumer_protocol_subscription.h"
#include "kafka/proto/group_metadata_record.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/offset_commit.h"
#include "storage/batch.h"

#include "tests/unit/groups/rig.h"

enum {
    VERSION = 1,
};

static struct consumer_group_heartbeat_request *
new_request(struct rig *r, const char *member, int32_t epoch)
{
    struct consumer_group_heartbeat_request *in = rig_alloc(r, 1, sizeof(*in));
    consumer_group_heartbeat_request_init(in);
    in->group_id = slice_of_string("g");
    in->member_id = rig_text(r, member);
    in->member_epoch = epoch;
    return in;
}

static const struct consumer_group_heartbeat_response *
send(struct rig *r, const struct consumer_group_heartbeat_request *in)
{
    return rig_answer(rig_send(r, GROUP_CONSUMER_HEARTBEAT, VERSION, "g", in));
}

static const struct consumer_group_heartbeat_response *
join(struct rig *r, const char *member, const char *topic, const char *pattern)
{
    struct consumer_group_heartbeat_request *in = new_request(r, member, 0);
    in->rebalance_timeout_ms = 60000;
    in->subscribed_topic_names = rig_alloc(r, 1, sizeof(struct slice));
    in->subscribed_topic_names[0] = rig_text(r, topic);
    in->subscribed_topic_names_count = topic == NULL ? 0 : 1;
    in->subscribed_topic_regex = rig_text(r, pattern);
    in->topic_partitions = rig_alloc(r, 1, sizeof(*in->topic_partitions));
    return send(r, in);
}

/* owned: partitions of the topic, ended by -1; NULL = not said. */
static const struct consumer_group_heartbeat_response *
beat(struct rig *r, const char *member, int32_t epoch, const int32_t *owned)
{
    struct consumer_group_heartbeat_request *in = new_request(r, member, epoch);
    if (owned != NULL) {
        const struct topic *t = metadata_topic_by_name(r->metadata, slice_of_string("t"));
        in->topic_partitions = rig_alloc(r, 1, sizeof(*in->topic_partitions));
        in->topic_partitions->topic_id = t->id;
        in->topic_partitions->partitions = rig_alloc(r, 8, sizeof(int32_t));
        in->topic_partitions_count = 1;
        for (size_t i = 0; owned[i] >= 0; i++) {
            in->topic_partitions->partitions[i] = owned[i];
            in->topic_partitions->partitions_count++;
        }
    }
    return send(r, in);
}

/* ---- commits ---- */

static int16_t
commit(struct rig *r, int16_t version, const char *member, int32_t epoch, int32_t partition)
{
    struct offset_commit_request *in = rig_alloc(r, 1, sizeof(*in));
    offset_commit_request_init(in);
    in->group_id = slice_of_string("g");
    in->member_id = rig_text(r, member);
    in->generation_id_or_member_epoch = epoch;
    in->topics = rig_alloc(r, 1, sizeof(*in->topics));
    in->topics_count = 1;
    offset_commit_request_topic_init(in->topics);
    in->topics->name = slice_of_string("t");
    in->topics->partitions = rig_alloc(r, 1, sizeof(*in->topics->partitions));
    in->topics->partitions_count = 1;
    offset_commit_request_partition_init(in->topics->partitions);
    in->topics->partitions->partition_index = partition;
    in->topics->partitions->committed_offset = 5;
    const struct offset_commit_response *out =
        rig_answer(rig_send(r, GROUP_COMMIT, version, "g", in));
    return out->topics[0].partitions[0].error_code;
}

/* The story of two members that Apache Kafka 4.3.1 was asked to tell: b joins, a gives partition 1
 * back and goes from epoch 2 to 3. */
Test(consumer, a_commit_in_an_older_epoch_counts_for_what_was_held_then)
{
    static const int32_t BOTH[] = {0, 1, -1};
    static const int32_t ONE[] = {0, -1};
    static const struct {
        const char *member;
        int16_t version;
        int32_t epoch;
        int32_t partition;
        int16_t before; /* b joined, a still has both; */
        int16_t after;  /* a gave one of them back. */
    } ROWS[] = {
        {"a", 9, 2, 0, KAFKA_NONE, KAFKA_NONE},
        {"a", 9, 2, 1, KAFKA_NONE, KAFKA_STALE_MEMBER_EPOCH},
        {"a", 9, 3, 0, KAFKA_STALE_MEMBER_EPOCH, KAFKA_NONE},
        {"a", 9, 1, 0, KAFKA_STALE_MEMBER_EPOCH, KAFKA_STALE_MEMBER_EPOCH},
        {"a", 9, -1, 0, KAFKA_STALE_MEMBER_EPOCH, KAFKA_STALE_MEMBER_EPOCH},
        {"a", 8, 2, 0, KAFKA_UNSUPPORTED_VERSION, KAFKA_UNSUPPORTED_VERSION},
        {"b", 9, 3, 1, KAFKA_NONE, KAFKA_NONE},
        {"b", 9, 2, 1, KAFKA_STALE_MEMBER_EPOCH, KAFKA_STALE_MEMBER_EPOCH},
        {"", 9, -1, 0, KAFKA_UNKNOWN_MEMBER_ID, KAFKA_UNKNOWN_MEMBER_ID},
        {"x", 8, 2, 0, KAFKA_UNKNOWN_MEMBER_ID, KAFKA_UNKNOWN_MEMBER_ID},
    };
    struct rig *r = rig_new();
    rig_topic(r, "t", 2);
    (void)join(r, "a", "t", NULL);
    (void)join(r, "b", "t", NULL);
    rig_pass_ms(r, 1000);
    (void)beat(r, "b", 2, NULL);
    (void)beat(r, "a", 2, BOTH);
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
        const int16_t e =
            commit(r, ROWS[i].version, ROWS[i].member, ROWS[i].epoch, ROWS[i].partition);
        cr_expect(eq(i16, e, ROWS[i].before), "row %zu before", i);
    }
    cr_assert(eq(i32, beat(r, "a", 2, ONE)->member_epoch, 3));
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
        const int16_t e =
            commit(r, ROWS[i].version, ROWS[i].member, ROWS[i].epoch, ROWS[i].partition);
        cr_expect(eq(i16, e, ROWS[i].after), "row %zu after", i);
    }
    rig_free(r);
}

Test(consumer, whoever_fetches_is_a_member_in_its_epoch_or_nobody)
{
    static const struct {
        const char *member;
        int32_t epoch;
        enum kafka_error expected;
    } ROWS[] = {
        {NULL, -1, KAFKA_NONE},
        {NULL, 2, KAFKA_UNKNOWN_MEMBER_ID},
        {"", -1, KAFKA_UNKNOWN_MEMBER_ID},
        {"x", 2, KAFKA_UNKNOWN_MEMBER_ID},
        {"a", 2, KAFKA_NONE},
        {"a", 1, KAFKA_STALE_MEMBER_EPOCH},
        {"a", 3, KAFKA_STALE_MEMBER_EPOCH},
        {"a", -1, KAFKA_STALE_MEMBER_EPOCH},
    };
    struct rig *r = rig_new();
    rig_topic(r, "t", 2);
    (void)join(r, "a", "t", NULL);
    const struct group *g = group_find(r->leader->c, slice_of_string("g"));
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
        const enum kafka_error e =
            consumer_check_fetch(g, rig_text(r, ROWS[i].member), ROWS[i].epoch);
        cr_expect(eq(int, e, ROWS[i].expected), "row %zu", i);
    }
    cr_assert(consumer_is_subscribed(g, slice_of_string("t")));
    cr_assert(not(consumer_is_subscribed(g, slice_of_string("u"))));
    rig_free(r);
}

/* ---- intervals ---- */

Test(consumer, members_come_often_only_while_something_moves)
{
    struct rig *r = rig_new();
    rig_topic(r, "t", 2);
    cr_assert(eq(i32, join(r, "a", "t", NULL)->heartbeat_interval_ms, 5000));
    cr_assert(eq(i32, join(r, "b", "t", NULL)->heartbeat_interval_ms, 200));
    cr_assert(eq(i32, beat(r, "a", 2, NULL)->heartbeat_interval_ms, 200));
    r->intervals.heartbeat_interval_ms = 100;
    cr_assert(eq(i32, beat(r, "a", 2, NULL)->heartbeat_interval_ms, 100), "never longer than set");
    r->intervals.heartbeat_interval_ms = 5000;
    char id[16];
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(id, sizeof(id), "m%d", i);
        (void)join(r, id, "t", NULL);
    }
    cr_assert(eq(i32, beat(r, "a", 2, NULL)->heartbeat_interval_ms, 501), "a large group in turns");
    rig_free(r);
}

/* ---- subscriptions ---- */

static size_t count_shown(const struct consumer_group_heartbeat_response *out)
{
    size_t count = 0;
    cr_assert(out->assignment != NULL, "the assignment is told");
    for (size_t i = 0; i < out->assignment->topic_partitions_count; i++) {
        count += out->assignment->topic_partitions[i].partitions_count;
    }
    return count;
}

static const struct consumer_group_heartbeat_response *
subscribe(struct rig *r, const char *member, int32_t epoch, const char *topic, const char *other)
{
    struct consumer_group_heartbeat_request *in = new_request(r, member, epoch);
    in->rebalance_timeout_ms = 60000;
    in->subscribed_topic_names = rig_alloc(r, 2, sizeof(struct slice));
    in->subscribed_topic_names[0] = rig_text(r, topic);
    in->subscribed_topic_names[1] = rig_text(r, other);
    in->subscribed_topic_names_count = other == NULL ? 1 : 2;
    if (epoch == 0) {
        in->topic_partitions = rig_alloc(r, 1, sizeof(*in->topic_partitions));
    }
    return send(r, in);
}

/* Though the next target is not due: no record of the topic is to come any more. */
Test(consumer, what_is_unsubscribed_from_goes_at_once)
{
    static const int32_t BOTH[] = {0, 1, -1};
    struct rig *r = rig_new();
    rig_topic(r, "t", 2);
    rig_topic(r, "u", 1);
    rig_topic(r, "v", 1);
    cr_assert(eq(sz, count_shown(subscribe(r, "a", 0, "t", "u")), 3));
    (void)subscribe(r, "b", 0, "v", NULL);
    rig_pass_ms(r, 1000);
    (void)beat(r, "b", 2, NULL);
    cr_assert(eq(i32, beat(r, "a", 2, NULL)->member_epoch, 3));
    const struct consumer_group_heartbeat_response *out = subscribe(r, "a", 3, "t", NULL);
    cr_assert(eq(i32, out->member_epoch, 3));
    cr_assert(eq(sz, count_shown(out), 2), "u is to be given back");
    cr_assert(eq(i32, beat(r, "a", 3, BOTH)->member_epoch, 3));
    rig_restart(r);
    rig_pass_ms(r, 1000);
    cr_assert(eq(i32, beat(r, "a", 3, BOTH)->member_epoch, 4));
    rig_pass_ms(r, 1000);
    cr_assert(eq(sz, count_shown(subscribe(r, "a", 4, "t", "u")), 3), "it has it again");
    rig_free(r);
}

/* Also while it gives back something else. */
Test(consumer, what_is_unsubscribed_from_goes_with_what_goes_anyway)
{
    static const int32_t ONE[] = {0, -1};
    struct rig *r = rig_new();
    rig_topic(r, "t", 2);
    rig_topic(r, "u", 1);
    (void)subscribe(r, "a", 0, "t", "u");
    (void)subscribe(r, "b", 0, "t", NULL);
    rig_pass_ms(r, 1000);
    (void)beat(r, "b", 2, NULL);
    cr_assert(eq(sz, count_shown(beat(r, "a", 2, NULL)), 2), "b gets one of t");
    const struct consumer_group_heartbeat_response *out = subscribe(r, "a", 2, "t", NULL);
    cr_assert(eq(i32, out->member_epoch, 2));
    cr_assert(eq(sz, count_shown(out), 1));
    cr_assert(eq(i32, beat(r, "a", 2, ONE)->member_epoch, 3));
    cr_assert(eq(sz, count_shown(beat(r, "b", 3, NULL)), 1));
    rig_restart(r);
    rig_free(r);
}

/* ---- epochs ---- */

/* The log says that the group, without members, is in that epoch. */
static void be_in_epoch(struct rig *r, int32_t epoch)
{
    static const uint8_t KEYS[][5] = {{0, 3, 0, 1, 'g'}, {0, 6, 0, 1, 'g'}};
    const struct consumer_group_metadata_value v = {.epoch = epoch};
    const struct consumer_group_target_assignment_metadata_value target = {.assignment_epoch =
                                                                               epoch};
    struct wbuf w;
    wbuf_init(&w, 1024);
    cr_assert(
        eq(int, consumer_group_target_assignment_metadata_value_encode(&w, 0, &target), ERR_OK));
    rig_record(r, slice_of(KEYS[1], sizeof(KEYS[1])), wbuf_slice(&w));
    wbuf_done(&w);
    wbuf_init(&w, 1024);
    cr_assert(eq(int, consumer_group_metadata_value_encode(&w, 0, &v), ERR_OK));
    rig_record(r, slice_of(KEYS[0], sizeof(KEYS[0])), wbuf_slice(&w));
    wbuf_done(&w);
}

/* Behind the greatest comes 1: members move on, commit and leave as in any other epoch. */
Test(consumer, epochs_go_round)
{
    static const int32_t BOTH[] = {0, 1, -1};
    static const int32_t ONE[] = {0, -1};
    struct rig *r = rig_new();
    rig_topic(r, "t", 2);
    be_in_epoch(r, INT32_MAX - 1);
    cr_assert(eq(i32, join(r, "a", "t", NULL)->member_epoch, INT32_MAX));
    cr_assert(eq(i32, join(r, "b", "t", NULL)->member_epoch, INT32_MAX));
    rig_pass_ms(r, 1000);
    cr_assert(eq(i32, beat(r, "b", INT32_MAX, NULL)->member_epoch, 1));
    cr_assert(eq(i32, beat(r, "a", INT32_MAX, BOTH)->member_epoch, INT32_MAX));
    cr_assert(eq(i16, commit(r, 9, "a", INT32_MAX, 1), KAFKA_NONE));
    cr_assert(eq(i32, beat(r, "a", INT32_MAX, ONE)->member_epoch, 1));
    cr_assert(eq(i32, beat(r, "a", INT32_MAX, ONE)->member_epoch, 1), "the answer was lost");
    cr_assert(eq(i16, commit(r, 9, "a", INT32_MAX, 0), KAFKA_NONE), "it had that one then");
    cr_assert(eq(i16, commit(r, 9, "a", INT32_MAX, 1), KAFKA_STALE_MEMBER_EPOCH));
    cr_assert(eq(i16, commit(r, 9, "a", 1, 0), KAFKA_NONE));
    cr_assert(eq(i16, commit(r, 9, "a", 2, 0), KAFKA_STALE_MEMBER_EPOCH));
    cr_assert(eq(i32, beat(r, "b", 1, NULL)->heartbeat_interval_ms, 5000), "all is settled");
    cr_assert(eq(i16, beat(r, "b", -1, NULL)->error_code, KAFKA_NONE));
    rig_pass_ms(r, 1000);
    cr_assert(eq(i32, beat(r, "a", 1, NULL)->member_epoch, 2));
    rig_restart(r);
    rig_free(r);
}

/* ---- limits ---- */

Test(consumer, who_finds_no_room_is_told_to_try_again)
{
    struct rig *r = rig_new();
    rig_topic(r, "t", 2);
    (void)join(r, "a", "t", NULL);
    r->leader->memory.size_max = r->leader->memory.size + 100;
    cr_assert(eq(i16, join(r, "b", "t", NULL)->error_code, KAFKA_COORDINATOR_NOT_AVAILABLE));
    cr_assert(eq(i16, beat(r, "a", 2, NULL)->error_code, KAFKA_NONE), "who is in stays in");
    r->leader->memory.size_max *= 1000;
    r->leader->memory.members_max = 1;
    cr_assert(eq(i16, join(r, "b", "t", NULL)->error_code, KAFKA_GROUP_MAX_SIZE_REACHED));
    cr_assert(eq(i16, join(r, "a", "t", NULL)->error_code, KAFKA_NONE));
    r->leader->memory.members_max = 2;
    cr_assert(eq(i16, join(r, "b", "t", NULL)->error_code, KAFKA_NONE));
    rig_free(r);
}

/* All there is to say, as clients do after a failure; NULL ends the topics. */
static const struct consumer_group_heartbeat_response *
say_all(struct rig *r, const char *member, int32_t epoch, const char *const *topics)
{
    struct consumer_group_heartbeat_request *in = new_request(r, member, epoch);
    in->rebalance_timeout_ms = 60000;
    in->topic_partitions = rig_alloc(r, 1, sizeof(*in->topic_partitions));
    in->subscribed_topic_names = rig_alloc(r, 4, sizeof(struct slice));
    for (size_t i = 0; topics[i] != NULL; i++) {
        in->subscribed_topic_names[i] = rig_text(r, topics[i]);
        in->subscribed_topic_names_count++;
    }
    return send(r, in);
}

Test(consumer, who_is_in_stays_in_without_memory_left)
{
    static const char *const AS_BEFORE[] = {"t", NULL};
    static const char *const MORE[] = {"t", "u", NULL};
    struct rig *r = rig_new();
    rig_topic(r, "t", 2);
    (void)join(r, "a", "t", NULL);
    r->leader->memory.size_max = r->leader->memory.size;
    for (int i = 0; i < 3; i++) {
        rig_pass_ms(r, 30000);
        cr_assert(eq(i16, say_all(r, "a", 2, AS_BEFORE)->error_code, KAFKA_NONE));
        rig_pass_ms(r, 30000);
        cr_assert(eq(i16, say_all(r, "a", 2, MORE)->error_code, KAFKA_COORDINATOR_NOT_AVAILABLE));
    }
    rig_restart(r);
    rig_free(r);
}

/* Those from .. to - 1, by number. */
static struct slice *names_from_to(struct rig *r, int32_t from, int32_t to)
{
    struct slice *names = rig_alloc(r, (size_t)(to - from) + 1, sizeof(*names));
    for (int32_t i = from; i < to; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "t%d", (int)i);
        names[i - from] = rig_text(r, name);
    }
    return names;
}

static const struct consumer_group_heartbeat_response *
say_names(struct rig *r, const char *member, int32_t from, int32_t to)
{
    struct consumer_group_heartbeat_request *in = new_request(r, member, 0);
    in->rebalance_timeout_ms = 60000;
    in->topic_partitions = rig_alloc(r, 1, sizeof(*in->topic_partitions));
    in->subscribed_topic_names_count = (size_t)(to - from);
    in->subscribed_topic_names = names_from_to(r, from, to);
    return send(r, in);
}

/* Whenever a topic changes all that a group names is gone through, in one turn. */
Test(consumer, a_group_names_so_many_topics_whoever_says_them)
{
    struct rig *r = rig_new();
    rig_topic(r, "t1", 1);
    cr_assert(eq(i16, say_names(r, "a", 0, 50001)->error_code, KAFKA_INVALID_REQUEST));
    cr_assert(eq(i16, say_names(r, "a", 0, 30000)->error_code, KAFKA_NONE));
    cr_assert(eq(i16, say_names(r, "b", 0, 30000)->error_code, KAFKA_NONE), "the same ones");
    cr_assert(eq(i16, say_names(r, "c", 30000, 50001)->error_code, KAFKA_INVALID_REQUEST));
    cr_assert(eq(i16, say_names(r, "c", 10000, 50000)->error_code, KAFKA_NONE));
    cr_assert(eq(i16, say_names(r, "d", 49999, 50001)->error_code, KAFKA_INVALID_REQUEST));
    cr_assert(eq(i16, say_names(r, "a", 0, 30000)->error_code, KAFKA_NONE), "all that it said");
    rig_free(r);
}

/* A member of the classic protocol that names topics from .. to - 1. */
static void join_classic(struct rig *r, int32_t from, int32_t to)
{
    struct consumer_protocol_subscription says;
    consumer_protocol_subscription_init(&says);
    says.topics = names_from_to(r, from, to);
    says.topics_count = (size_t)(to - from);
    struct wbuf w;
    wbuf_init(&w, 2 << 20);
    cr_assert(eq(int, consumer_protocol_subscription_encode(&w, 0, &says), ERR_OK));
    uint8_t *bytes = rig_alloc(r, w.size, 1);
    memcpy(bytes, w.data, w.size);
    struct join_group_request *in = rig_alloc(r, 1, sizeof(*in));
    join_group_request_init(in);
    in->group_id = slice_of_string("g");
    in->session_timeout_ms = in->rebalance_timeout_ms = 60000;
    in->member_id = slice_of_string("");
    in->protocol_type = slice_of_string("consumer");
    in->protocols = rig_alloc(r, 1, sizeof(*in->protocols));
    in->protocols_count = 1;
    in->protocols->name = slice_of_string("range");
    in->protocols->metadata = slice_of(bytes, w.size);
    wbuf_done(&w);
    (void)rig_send(r, GROUP_JOIN, 3, "g", in);
}

/* Members take over a group of the classic protocol in one turn, and each one's names are sorted.
 */
Test(consumer, what_a_classic_group_names_is_bounded)
{
    static const struct {
        int members;
        int32_t shift; /* Of the names from one member to the next. */
        enum kafka_error error;
    } rows[] = {
        {9, 0, KAFKA_NONE},
        {11, 0, KAFKA_GROUP_ID_NOT_FOUND},
        {2, 1, KAFKA_GROUP_ID_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig *r = rig_new();
        r->settings.migration = GROUPS_MIGRATION_BIDIRECTIONAL;
        rig_topic(r, "t1", 1);
        for (int32_t j = 0; j < rows[i].members; j++) {
            join_classic(r, j * rows[i].shift, j * rows[i].shift + 50000);
        }
        cr_assert(eq(i16, join(r, "a", "t1", NULL)->error_code, rows[i].error), "%zu", i);
        rig_free(r);
    }
}

/* What nobody else named goes with what it said before. */
Test(consumer, a_member_may_name_other_topics_than_before)
{
    struct rig *r = rig_new();
    rig_topic(r, "t1", 1);
    cr_assert(eq(i16, say_names(r, "a", 0, 30000)->error_code, KAFKA_NONE));
    cr_assert(eq(i16, say_names(r, "a", 30000, 60000)->error_code, KAFKA_NONE));
    cr_assert(eq(i16, say_names(r, "a", 40000, 90000)->error_code, KAFKA_NONE), "some of them");
    cr_assert(eq(i16, say_names(r, "b", 40000, 60000)->error_code, KAFKA_NONE));
    cr_assert(eq(i16, say_names(r, "a", 0, 30001)->error_code, KAFKA_INVALID_REQUEST));
    cr_assert(eq(i16, say_names(r, "a", 0, 30000)->error_code, KAFKA_NONE));
    rig_free(r);
}

/* What is said is sorted, in one turn. */
Test(consumer, nobody_has_more_partitions_than_there_are)
{
    enum {
        FREE = 10000,
        COUNT = FREE + 3,
    };
    struct rig *r = rig_new();
    rig_topic(r, "t", 2);
    (void)join(r, "a", "t", NULL);
    struct consumer_group_heartbeat_request *in = new_request(r, "a", 2);
    in->topic_partitions = rig_alloc(r, 1, sizeof(*in->topic_partitions));
    in->topic_partitions_count = 1;
    in->topic_partitions->partitions = rig_alloc(r, COUNT, sizeof(int32_t));
    in->topic_partitions->partitions_count = COUNT;
    cr_assert(eq(i16, send(r, in)->error_code, KAFKA_INVALID_REQUEST));
    in->topic_partitions->partitions_count = COUNT - 1;
    cr_assert(eq(i16, send(r, in)->error_code, KAFKA_NONE));
    rig_free(r);
}

/* A group stays with the topics that are gone until its next target. */
Test(consumer, everybody_may_say_what_it_has)
{
    enum {
        COUNT = 20000,
    };
    for (int32_t i = 0; i < 3; i++) {
        struct rig *r = rig_new();
        rig_topic(r, "t", COUNT);
        const struct consumer_group_heartbeat_response *told = join(r, "a", "t", NULL);
        cr_assert(eq(sz, told->assignment->topic_partitions->partitions_count, COUNT));
        rig_topic_delete(r, "t");
        struct consumer_group_heartbeat_request *in =
            new_request(r, "a", i == 0 ? -1 : told->member_epoch);
        in->topic_partitions = rig_alloc(r, 1, sizeof(*in->topic_partitions));
        in->topic_partitions->topic_id = told->assignment->topic_partitions->topic_id;
        in->topic_partitions->partitions = told->assignment->topic_partitions->partitions;
        in->topic_partitions->partitions_count = COUNT;
        in->topic_partitions_count = 1;
        if (i == 2) { /* And others besides. */
            in->topic_partitions->partitions = rig_alloc(r, 3 * COUNT, sizeof(int32_t));
            in->topic_partitions->partitions_count = (size_t)3 * COUNT;
        }
        const enum kafka_error e = i == 2 ? KAFKA_INVALID_REQUEST : KAFKA_NONE;
        cr_assert(eq(i16, send(r, in)->error_code, e), "%d", (int)i);
        rig_free(r);
    }
}

/* ---- records ---- */

static enum err apply_one(struct rig *r, struct slice key, struct slice value)
{
    struct batch_builder b;
    struct wbuf batch;
    static const struct batch_identity NOBODY = {-1, -1, -1};
    const struct batch_record record = {.key = key, .value = value};
    batch_builder_init(&b, 1 << 20);
    wbuf_init(&batch, 1 << 20);
    cr_assert(eq(int, batch_builder_add(&b, &record), ERR_OK));
    cr_assert(eq(int, batch_builder_finish(&b, CODEC_NONE, &NOBODY, &batch), ERR_OK));
    const enum err e = coordinator_apply(r->follower->c, wbuf_slice(&batch));
    batch_builder_done(&b);
    wbuf_done(&batch);
    return e;
}

/* Every record of a real story, cut at every byte and with every byte changed: never more than an
 * error. */
static void damage(struct rig *r, const struct record *record)
{
    uint8_t bytes[1024];
    cr_assert(lt(sz, record->key.size, sizeof(bytes)));
    cr_assert(lt(sz, record->value.size, sizeof(bytes)));
    for (size_t i = 0; i < record->value.size; i++) {
        (void)apply_one(r, record->key, slice_of(record->value.data, i));
        memcpy(bytes, record->value.data, record->value.size);
        bytes[i] ^= 0x81;
        (void)apply_one(r, record->key, slice_of(bytes, record->value.size));
    }
    for (size_t i = 2; i < record->key.size; i++) {
        cr_assert(eq(int, apply_one(r, slice_of(record->key.data, i), record->value), ERR_CORRUPT));
    }
    (void)apply_one(r, record->key, (struct slice){0});
}

Test(consumer, damaged_records_are_errors)
{
    struct rig *r = rig_new();
    rig_topic(r, "t", 2);
    (void)join(r, "a", "t", "t.*");
    (void)join(r, "b", "t", NULL);
    struct rig *victim = rig_new();
    for (size_t i = 0; i < r->batches_count; i++) {
        struct batch_header h;
        struct slice bytes;
        struct wbuf w;
        struct record_cursor cursor;
        struct record record;
        const struct slice batch = slice_of(r->batches[i].bytes, r->batches[i].size);
        wbuf_init(&w, 1 << 20);
        cr_assert(eq(int, batch_header_decode(batch, &h), ERR_OK));
        cr_assert(eq(int, batch_records(batch, 1 << 20, &w, &bytes), ERR_OK));
        record_cursor_init(&cursor, &h, bytes);
        while (record_next(&cursor, &record) == ERR_OK) {
            damage(victim, &record);
        }
        wbuf_done(&w);
    }
    rig_free(r);
    /* Its nodes differ on purpose: no rig_free, which compares them. */
    coordinator_resign(victim->leader->c);
    coordinator_free(victim->leader->c);
    coordinator_free(victim->follower->c);
    cr_assert(eq(u64, victim->follower->memory.size, 0));
}

/* The group is what the last record says that can be read. */
Test(consumer, a_damaged_record_takes_nothing_from_a_classic_group)
{
    struct rig *r = rig_new();
    struct wbuf key;
    struct wbuf value;
    wbuf_init(&key, 1024);
    wbuf_init(&value, 1024);
    const struct group_metadata_key k = {.group = slice_of_string("g")};
    struct group_metadata_value v;
    group_metadata_value_init(&v);
    v.generation = 7;
    v.protocol_type = slice_of_string("consumer");
    cr_assert(eq(int, group_metadata_key_encode(&key, &k), ERR_OK));
    cr_assert(eq(int, group_metadata_value_encode(&value, 3, &v), ERR_OK));
    cr_assert(eq(int, apply_one(r, wbuf_slice(&key), wbuf_slice(&value)), ERR_OK));
    const uint64_t digest = coordinator_digest(r->follower->c);
    static const uint8_t KEY[] = {0, 5, 0, 1, 'g', 0, 1, 'm'};
    cr_assert(eq(int, apply_one(r, slice_of(KEY, sizeof(KEY)), slice_of("\0\0?", 3)), ERR_CORRUPT));
    cr_assert(eq(u64, coordinator_digest(r->follower->c), digest));
    coordinator_check(r->follower->c);
    wbuf_done(&key);
    wbuf_done(&value);
    /* Its nodes differ on purpose. */
    coordinator_resign(r->leader->c);
    coordinator_free(r->leader->c);
    coordinator_free(r->follower->c);
}

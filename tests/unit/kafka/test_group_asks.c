/* What a request asks of coordinators, and some do not answer: the answer does not fit, or there is
 * no memory. The test plays all coordinators. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "groups/groups.h"
#include "kafka/proto/consumer_group_describe.h"
#include "kafka/proto/delete_groups.h"
#include "kafka/proto/describe_groups.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/list_groups.h"
#include "kafka/proto/offset_fetch.h"

#include "tests/support/kafka_rig.h"

enum {
    GROUPS = 200, /* More than are asked at a time. */
    SPARE = 16,   /* Partitions that would fit besides. */
};

/* Calls that are not answered. */
static struct group_call *calls[GROUPS];
static size_t calls_count;
static size_t submitted_count;

void __wrap_groups_submit(struct groups *g, struct group_call *call);
void __wrap_groups_submit_list(struct groups *g, uint16_t shard_id, struct group_call *call);

void __wrap_groups_submit(struct groups *g, struct group_call *call)
{
    (void)g;
    cr_assert(lt(sz, calls_count, (size_t)GROUPS));
    calls[calls_count++] = call;
    submitted_count++;
}

void __wrap_groups_submit_list(struct groups *g, uint16_t shard_id, struct group_call *call)
{
    (void)shard_id;
    __wrap_groups_submit(g, call);
}

enum failure {
    TOO_LARGE,
    NO_MEMORY,
};

/* All calls under way are answered: group "a" well, all others not at all. */
static void answer_all(struct kafka_rig *g, enum failure failure)
{
    while (calls_count > 0) {
        struct group_call *call = calls[0];
        calls_count--;
        memmove(calls, calls + 1, calls_count * sizeof(calls[0]));
        if (slice_equal_string(call->group_id, "a")) {
            group_call_refuse(call, KAFKA_NONE, (struct slice){0});
        } else {
            call->is_out_of_memory = true;
            call->arena.is_without_memory = failure == NO_MEMORY;
        }
        call->on_done(call);
    }
    kafka_rig_run(g);
}

static const struct {
    enum failure failure;
    enum kafka_error error;
    const char *text;
} ROWS[] = {
    {TOO_LARGE, KAFKA_INVALID_REQUEST, "The answer is too large: ask for less at once."},
    {NO_MEMORY, KAFKA_COORDINATOR_NOT_AVAILABLE, "There is no memory for the answer now."},
};

#define FOR_EACH_ROW(i) for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++)

static struct slice AB[] = {{(const uint8_t *)"a", 1}, {(const uint8_t *)"b", 1}};

static const void *
ask(struct kafka_rig *g, const struct schema_api *api, int16_t version, void *in, enum failure f)
{
    kafka_rig_init(g);
    kafka_rig_send(g, api, version, in);
    answer_all(g, f);
    const void *out = kafka_rig_answer(g, api, version);
    cr_assert(ne(ptr, (void *)out, NULL), "it is answered");
    return out;
}

Test(group_asks, describe_names_what_has_no_answer)
{
    struct describe_groups_request in;
    describe_groups_request_init(&in);
    in.groups = AB;
    in.groups_count = 2;
    FOR_EACH_ROW(i)
    {
        struct kafka_rig g;
        const struct describe_groups_response *out =
            ask(&g, &DESCRIBE_GROUPS_API, 6, &in, ROWS[i].failure);
        cr_assert(eq(i16, out->groups[0].error_code, KAFKA_NONE));
        cr_assert(slice_equal_string(out->groups[1].group_id, "b"));
        cr_assert(eq(i16, out->groups[1].error_code, ROWS[i].error));
        cr_assert(slice_equal_string(out->groups[1].error_message, ROWS[i].text));
        kafka_rig_done(&g);
    }
}

Test(group_asks, consumer_describe_names_what_has_no_answer)
{
    struct consumer_group_describe_request in;
    consumer_group_describe_request_init(&in);
    in.group_ids = AB;
    in.group_ids_count = 2;
    FOR_EACH_ROW(i)
    {
        struct kafka_rig g;
        const struct consumer_group_describe_response *out =
            ask(&g, &CONSUMER_GROUP_DESCRIBE_API, 1, &in, ROWS[i].failure);
        cr_assert(eq(i16, out->groups[0].error_code, KAFKA_NONE));
        cr_assert(slice_equal_string(out->groups[1].group_id, "b"));
        cr_assert(eq(i16, out->groups[1].error_code, ROWS[i].error));
        cr_assert(slice_equal_string(out->groups[1].error_message, ROWS[i].text));
        kafka_rig_done(&g);
    }
}

Test(group_asks, delete_names_what_has_no_answer)
{
    struct delete_groups_request in;
    delete_groups_request_init(&in);
    in.groups_names = AB;
    in.groups_names_count = 2;
    FOR_EACH_ROW(i)
    {
        struct kafka_rig g;
        const struct delete_groups_response *out =
            ask(&g, &DELETE_GROUPS_API, 2, &in, ROWS[i].failure);
        cr_assert(eq(i16, out->results[0].error_code, KAFKA_NONE));
        cr_assert(slice_equal_string(out->results[1].group_id, "b"));
        cr_assert(eq(i16, out->results[1].error_code, ROWS[i].error));
        kafka_rig_done(&g);
    }
}

Test(group_asks, list_says_that_it_has_no_answer)
{
    struct list_groups_request in;
    list_groups_request_init(&in);
    FOR_EACH_ROW(i)
    {
        struct kafka_rig g;
        const struct list_groups_response *out = ask(&g, &LIST_GROUPS_API, 5, &in, ROWS[i].failure);
        cr_assert(eq(i16, out->error_code, ROWS[i].error));
        cr_assert(eq(sz, out->groups_count, 0));
        kafka_rig_done(&g);
    }
}

/* The shards' parts fit, and all of them together not. */
Test(group_asks, list_is_larger_than_a_request_may_be)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    struct list_groups_request in;
    list_groups_request_init(&in);
    kafka_rig_send(&g, &LIST_GROUPS_API, 5, &in);
    cr_assert(eq(sz, calls_count, 1));
    const size_t count = (64 << 20) / sizeof(struct list_groups_response_group) - 100;
    group_call_refuse(calls[0], KAFKA_NONE, (struct slice){0});
    struct list_groups_response *part = calls[0]->out;
    part->groups = group_call_alloc(calls[0], count, sizeof(*part->groups));
    cr_assert(ne(ptr, part->groups, NULL));
    part->groups_count = count;
    calls_count = 0;
    calls[0]->on_done(calls[0]);
    kafka_rig_run(&g);
    const struct list_groups_response *out = kafka_rig_answer(&g, &LIST_GROUPS_API, 5);
    cr_assert(ne(ptr, (void *)out, NULL));
    cr_assert(ne(i16, out->error_code, KAFKA_NONE));
    cr_assert(eq(sz, out->groups_count, 0));
    kafka_rig_done(&g);
}

static struct offset_fetch_request single_fetch(void)
{
    static int32_t partitions[] = {3, 4};
    static struct offset_fetch_request_topic topic;
    topic.name = AB[0];
    topic.partition_indexes = partitions;
    topic.partition_indexes_count = 2;
    struct offset_fetch_request in;
    offset_fetch_request_init(&in);
    in.group_id = AB[1];
    in.topics = &topic;
    in.topics_count = 1;
    return in;
}

/* Version 1 has no place for an error but the partitions. */
Test(group_asks, fetch_of_version_1_says_it_in_the_partitions)
{
    struct offset_fetch_request in = single_fetch();
    FOR_EACH_ROW(i)
    {
        struct kafka_rig g;
        const struct offset_fetch_response *out =
            ask(&g, &OFFSET_FETCH_API, 1, &in, ROWS[i].failure);
        cr_assert(eq(sz, out->topics_count, 1));
        cr_assert(eq(sz, out->topics[0].partitions_count, 2));
        for (size_t j = 0; j < 2; j++) {
            cr_assert(eq(i16, out->topics[0].partitions[j].error_code, ROWS[i].error));
            cr_assert(eq(i64, out->topics[0].partitions[j].committed_offset, -1));
        }
        kafka_rig_done(&g);
    }
}

Test(group_asks, fetch_up_to_version_7_says_it_once)
{
    struct offset_fetch_request in = single_fetch();
    FOR_EACH_ROW(i)
    {
        struct kafka_rig g;
        const struct offset_fetch_response *out =
            ask(&g, &OFFSET_FETCH_API, 7, &in, ROWS[i].failure);
        cr_assert(eq(i16, out->error_code, ROWS[i].error));
        cr_assert(eq(sz, out->topics_count, 0));
        kafka_rig_done(&g);
    }
}

Test(group_asks, fetch_names_what_has_no_answer)
{
    struct offset_fetch_request_group groups[2];
    struct offset_fetch_request in;
    offset_fetch_request_init(&in);
    for (size_t i = 0; i < 2; i++) {
        offset_fetch_request_group_init(&groups[i]);
        groups[i].group_id = AB[i];
        groups[i].topics = NULL;
    }
    in.groups = groups;
    in.groups_count = 2;
    FOR_EACH_ROW(i)
    {
        struct kafka_rig g;
        const struct offset_fetch_response *out =
            ask(&g, &OFFSET_FETCH_API, 8, &in, ROWS[i].failure);
        cr_assert(eq(i16, out->groups[0].error_code, KAFKA_NONE));
        cr_assert(slice_equal_string(out->groups[1].group_id, "b"));
        cr_assert(eq(i16, out->groups[1].error_code, ROWS[i].error));
        kafka_rig_done(&g);
    }
}

/* What the call's memory held is too large for the request's: the error, and no partitions. */
Test(group_asks, fetch_of_all_is_larger_than_a_request_may_be)
{
    struct offset_fetch_request in = single_fetch();
    in.topics = NULL;
    in.topics_count = 0;
    struct kafka_rig g;
    kafka_rig_init(&g);
    kafka_rig_send(&g, &OFFSET_FETCH_API, 7, &in);
    struct group_call *call = calls[0];
    calls_count = 0;
    group_call_refuse(call, KAFKA_NONE, (struct slice){0});
    struct offset_fetch_response_group *group = call->out;
    group->topics = group_call_alloc(call, 1, sizeof(*group->topics));
    group->topics_count = 1;
    offset_fetch_response_group_topic_init(group->topics);
    group->topics->name = AB[0];
    group->topics->partitions_count = (64 << 20) / sizeof(*group->topics->partitions) - SPARE;
    group->topics->partitions =
        group_call_alloc(call, group->topics->partitions_count, sizeof(*group->topics->partitions));
    cr_assert(ne(ptr, group->topics->partitions, NULL));
    call->on_done(call);
    kafka_rig_run(&g);
    const struct offset_fetch_response *out = kafka_rig_answer(&g, &OFFSET_FETCH_API, 7);
    cr_assert(ne(ptr, (void *)out, NULL));
    cr_assert(ne(i16, out->error_code, KAFKA_NONE));
    cr_assert(eq(sz, out->topics_count, 0));
    kafka_rig_done(&g);
}

/* Where the whole request is of one group. */
Test(group_asks, a_single_call_without_memory_is_to_be_tried_again)
{
    struct heartbeat_request in;
    heartbeat_request_init(&in);
    in.group_id = AB[1];
    FOR_EACH_ROW(i)
    {
        struct kafka_rig g;
        const struct heartbeat_response *out = ask(&g, &HEARTBEAT_API, 4, &in, ROWS[i].failure);
        cr_assert(eq(i16, out->error_code, ROWS[i].error));
        kafka_rig_done(&g);
    }
}

/* After the first that has no answer nothing is begun: what is named but not done is told so. */
Test(group_asks, what_was_not_begun_is_refused)
{
    struct slice names[GROUPS];
    char texts[GROUPS][4];
    for (size_t i = 0; i < GROUPS; i++) {
        texts[i][0] = 'g';
        texts[i][1] = (char)('0' + i / 100);
        texts[i][2] = (char)('0' + i / 10 % 10);
        texts[i][3] = (char)('0' + i % 10);
        names[i] = slice_of(texts[i], sizeof(texts[i]));
    }
    struct delete_groups_request in;
    delete_groups_request_init(&in);
    in.groups_names = names;
    in.groups_names_count = GROUPS;
    struct kafka_rig g;
    const struct delete_groups_response *out = ask(&g, &DELETE_GROUPS_API, 2, &in, NO_MEMORY);
    cr_assert(lt(sz, submitted_count, (size_t)GROUPS));
    cr_assert(eq(sz, out->results_count, (size_t)GROUPS));
    for (size_t i = 0; i < GROUPS; i++) {
        cr_assert(slice_equal(out->results[i].group_id, names[i]));
        cr_assert(eq(i16, out->results[i].error_code, KAFKA_COORDINATOR_NOT_AVAILABLE));
    }
    kafka_rig_done(&g);
}

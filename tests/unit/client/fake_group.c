#include "tests/unit/client/fake_group.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/list.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/fetch.h"
#include "kafka/proto/find_coordinator.h"
#include "kafka/proto/list_offsets.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_fetch.h"
#include "storage/batch.h"

enum {
    RECORDS_MAX = 10, /* Of one batch. */
};

static const struct uuid topic_id = {.bytes = {7}};

[[gnu::format(printf, 2, 3)]] static void note(struct fake_group *g, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int size = vsnprintf(
        g->trace + g->trace_size, FAKE_GROUP_TRACE_SIZE - g->trace_size, format, arguments);
    va_end(arguments);
    g->trace_size += (size_t)size;
    if (g->trace_size >= FAKE_GROUP_TRACE_SIZE - 256) {
        g->trace_size = 0; /* Long runs are not looked at. */
    }
}

static void *make(struct fake_group *g, size_t count, size_t size)
{
    void *memory = arena_alloc_array(&g->broker.arena, count, size);
    cr_assert(memory != NULL);
    return memory;
}

static bool has_bit(uint32_t bits, int32_t partition)
{
    return partition < FAKE_GROUP_PARTITIONS && (bits & (1U << partition)) != 0;
}

/* ---- answers ---- */

static void answer_coordinator(struct fake_group *g, const struct fake_request *r, int16_t code)
{
    const struct find_coordinator_request *request = r->message;
    struct find_coordinator_response response;
    struct find_coordinator_response_coordinator found;
    note(g, "find; ");
    find_coordinator_response_init(&response);
    find_coordinator_response_coordinator_init(&found);
    found.key = request->coordinator_keys[0];
    found.node_id = code == KAFKA_NONE ? g->coordinator : -1;
    found.host = slice_of_string("fake");
    found.port = FAKE_PORT - FAKE_NODE_ID + g->coordinator;
    found.error_code = code;
    response.coordinators = &found;
    response.coordinators_count = 1;
    fake_broker_reply(&g->broker, r, &response);
}

static void note_option(struct fake_group *g, const char *word, struct slice value)
{
    if (!slice_is_null(value)) {
        note(g, " %s %.*s", word, (int)value.size, (const char *)value.data);
    }
}

static void note_beat(struct fake_group *g, const struct consumer_group_heartbeat_request *request)
{
    if (request->member_epoch < 0) {
        note(g, "leave %d; ", request->member_epoch);
        return;
    }
    if (request->member_epoch == 0) {
        cr_assert(request->topic_partitions != NULL && request->topic_partitions_count == 0);
        cr_assert(request->rebalance_timeout_ms > 0);
        (void)snprintf(g->member_id,
                       sizeof(g->member_id),
                       "%.*s",
                       (int)request->member_id.size,
                       (const char *)request->member_id.data);
        note(g, "join");
        for (size_t i = 0; i < request->subscribed_topic_names_count; i++) {
            const struct slice name = request->subscribed_topic_names[i];
            note(g, " %.*s", (int)name.size, (const char *)name.data);
        }
        note_option(g, "like", request->subscribed_topic_regex);
        note_option(g, "by", request->server_assignor);
        note_option(g, "at", request->rack_id);
        note(g, "; ");
        return;
    }
    note(g, "beat %d", request->member_epoch);
    if (request->topic_partitions != NULL) {
        note(g, " owns %s", request->topic_partitions_count == 0 ? "-" : "");
    }
    for (size_t i = 0; i < request->topic_partitions_count; i++) {
        for (size_t j = 0; j < request->topic_partitions[i].partitions_count; j++) {
            note(g, "%s%d", j == 0 ? "" : ",", request->topic_partitions[i].partitions[j]);
        }
    }
    note(g, "; ");
}

static void answer_beat(struct fake_group *g, const struct fake_request *r, int16_t code)
{
    const struct consumer_group_heartbeat_request *request = r->message;
    struct consumer_group_heartbeat_response response;
    struct consumer_group_heartbeat_response_assignment assignment;
    struct consumer_group_heartbeat_response_topic_partitions topic;
    int32_t partitions[FAKE_GROUP_PARTITIONS];
    note_beat(g, request);
    if (g->is_mute) {
        return;
    }
    if (g->is_keeping && request->member_epoch > 0 && request->topic_partitions == NULL &&
        !g->is_assignment_due && !g->has_kept && code == KAFKA_NONE) {
        g->kept = *r;
        g->has_kept = true;
        return;
    }
    consumer_group_heartbeat_response_init(&response);
    response.error_code = code;
    response.member_epoch = request->member_epoch < 0 ? request->member_epoch : g->epoch;
    response.heartbeat_interval_ms = FAKE_GROUP_INTERVAL_MS;
    const bool is_full = request->member_epoch == 0 || request->subscribed_topic_names != NULL;
    if (code == KAFKA_NONE && request->member_epoch >= 0 && (is_full || g->is_assignment_due)) {
        consumer_group_heartbeat_response_assignment_init(&assignment);
        consumer_group_heartbeat_response_topic_partitions_init(&topic);
        topic.topic_id = topic_id;
        topic.partitions = partitions;
        for (int32_t i = 0; i < FAKE_GROUP_PARTITIONS; i++) {
            if (g->assigned & (1U << i)) {
                partitions[topic.partitions_count++] = i;
            }
        }
        assignment.topic_partitions = &topic;
        assignment.topic_partitions_count = topic.partitions_count > 0;
        response.assignment = &assignment;
        g->is_assignment_due = false;
    }
    fake_broker_reply(&g->broker, r, &response);
}

static void answer_metadata(struct fake_group *g, const struct fake_request *r)
{
    static int32_t nodes[] = {FAKE_NODE_ID};
    struct metadata_response response;
    struct metadata_response_topic topic;
    struct metadata_response_partition partitions[FAKE_GROUP_PARTITIONS];
    struct metadata_response_broker brokers[2];
    metadata_response_init(&response);
    metadata_response_topic_init(&topic);
    for (int32_t i = 0; i < 2; i++) {
        metadata_response_broker_init(&brokers[i]);
        brokers[i].node_id = FAKE_NODE_ID + i;
        brokers[i].host = slice_of_string("fake");
        brokers[i].port = FAKE_PORT + i;
    }
    for (int32_t i = 0; i < FAKE_GROUP_PARTITIONS; i++) {
        metadata_response_partition_init(&partitions[i]);
        partitions[i].partition_index = i;
        partitions[i].leader_id = FAKE_NODE_ID;
        partitions[i].replica_nodes = partitions[i].isr_nodes = nodes;
        partitions[i].replica_nodes_count = partitions[i].isr_nodes_count = 1;
    }
    topic.name = slice_of_string("t");
    topic.topic_id = topic_id;
    topic.partitions = partitions;
    topic.partitions_count = FAKE_GROUP_PARTITIONS;
    response.brokers = brokers;
    response.brokers_count = 2;
    response.topics = &topic;
    response.topics_count = 1;
    fake_broker_reply(&g->broker, r, &response);
}

static void answer_offsets(struct fake_group *g, const struct fake_request *r, int16_t code)
{
    const struct offset_fetch_request *request = r->message;
    const struct offset_fetch_request_group_topic *asked = &request->groups[0].topics[0];
    struct offset_fetch_response response;
    struct offset_fetch_response_group group;
    struct offset_fetch_response_group_topic topic;
    struct offset_fetch_response_group_topic_partition partitions[FAKE_GROUP_PARTITIONS];
    offset_fetch_response_init(&response);
    offset_fetch_response_group_init(&group);
    offset_fetch_response_group_topic_init(&topic);
    cr_assert(slice_equal_string(request->groups[0].member_id, g->member_id));
    note(g, "fetch ");
    for (size_t i = 0; i < asked->partition_indexes_count; i++) {
        const int32_t partition = asked->partition_indexes[i];
        note(g, "%s%d", i == 0 ? "" : ",", partition);
        offset_fetch_response_group_topic_partition_init(&partitions[i]);
        partitions[i].partition_index = partition;
        partitions[i].committed_offset = g->committed[partition];
        partitions[i].metadata = slice_of_string("");
    }
    note(g, "; ");
    topic.topic_id = topic_id;
    topic.partitions = partitions;
    topic.partitions_count = asked->partition_indexes_count;
    group.group_id = request->groups[0].group_id;
    group.topics = &topic;
    group.topics_count = 1;
    group.error_code = code;
    response.groups = &group;
    response.groups_count = 1;
    fake_broker_reply(&g->broker, r, &response);
}

static void answer_commit(struct fake_group *g, const struct fake_request *r, int16_t code)
{
    const struct offset_commit_request *request = r->message;
    const struct offset_commit_request_topic *asked = &request->topics[0];
    struct offset_commit_response response;
    struct offset_commit_response_topic topic;
    struct offset_commit_response_partition *partitions =
        make(g, asked->partitions_count, sizeof(*partitions));
    offset_commit_response_init(&response);
    offset_commit_response_topic_init(&topic);
    note(g, "commit %d ", request->generation_id_or_member_epoch);
    for (size_t i = 0; i < asked->partitions_count; i++) {
        const int32_t partition = asked->partitions[i].partition_index;
        const int64_t offset = asked->partitions[i].committed_offset;
        note(g, "%s%d@%d", i == 0 ? "" : ",", partition, (int)offset);
        offset_commit_response_partition_init(&partitions[i]);
        partitions[i].partition_index = partition;
        partitions[i].error_code = code;
        if (code == KAFKA_NONE && has_bit(g->refused, partition)) {
            partitions[i].error_code = g->refused_code;
        } else if (code == KAFKA_NONE && partition < FAKE_GROUP_PARTITIONS) {
            g->has_gone_back |= offset < g->committed[partition];
            g->committed[partition] = offset;
        }
    }
    note(g, "; ");
    topic.topic_id = topic_id;
    topic.partitions = partitions;
    topic.partitions_count = asked->partitions_count;
    response.topics = &topic;
    response.topics_count = 1;
    fake_broker_reply(&g->broker, r, &response);
}

static void answer_starts(struct fake_group *g, const struct fake_request *r)
{
    const struct list_offsets_request *request = r->message;
    const struct list_offsets_request_topic *asked = &request->topics[0];
    struct list_offsets_response response;
    struct list_offsets_response_topic topic;
    struct list_offsets_response_partition partitions[FAKE_GROUP_PARTITIONS];
    list_offsets_response_init(&response);
    list_offsets_response_topic_init(&topic);
    for (size_t i = 0; i < asked->partitions_count; i++) {
        list_offsets_response_partition_init(&partitions[i]);
        g->list_offsets_time = asked->partitions[i].timestamp;
        partitions[i].partition_index = asked->partitions[i].partition_index;
        partitions[i].offset = asked->partitions[i].timestamp == CLIENT_OFFSET_END
                                   ? g->ends[partitions[i].partition_index]
                                   : g->starts[partitions[i].partition_index];
    }
    topic.name = slice_of_string("t");
    topic.partitions = partitions;
    topic.partitions_count = asked->partitions_count;
    response.topics = &topic;
    response.topics_count = 1;
    fake_broker_reply(&g->broker, r, &response);
}

/* A batch of records whose values are their offsets. Returns the offset behind it. */
static int64_t
add_batch(const struct fake_group *g, int32_t partition, int64_t offset, struct wbuf *w)
{
    const int64_t left = g->ends[partition] - offset;
    const int64_t end = offset + (left < RECORDS_MAX ? left : RECORDS_MAX);
    const int64_t timestamp = has_bit(g->timeless, partition) ? -1 : 1000;
    const size_t at = w->size;
    struct batch_builder b;
    const struct batch_identity nobody = {-1, -1, -1};
    batch_builder_init(&b, 1 << 20);
    for (int64_t i = offset; i < end; i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%d", (int)i);
        const struct batch_record record = {.timestamp = timestamp, .value = slice_of_string(text)};
        cr_assert(batch_builder_add(&b, &record) == ERR_OK);
    }
    cr_assert(batch_builder_finish(&b, CODEC_NONE, &nobody, w) == ERR_OK);
    batch_stamp(w->data + at, offset, 1);
    batch_builder_done(&b);
    return end;
}

static struct slice records_from(struct fake_group *g, int32_t partition, int64_t offset)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    for (size_t i = 0; i <= g->more_batches && offset < g->ends[partition]; i++) {
        offset = add_batch(g, partition, offset, &w);
    }
    uint8_t *copy = make(g, w.size, 1);
    memcpy(copy, w.data, w.size);
    copy[w.size - 1] ^= has_bit(g->damaged, partition);
    const struct slice records = slice_of(copy, w.size);
    wbuf_done(&w);
    return records;
}

/* Without records the broker keeps the request for a while, as brokers do. */
static void answer_fetch(struct fake_group *g, const struct fake_request *r, bool is_late)
{
    const struct fetch_request *request = r->message;
    const struct fetch_request_topic *asked = &request->topics[0];
    struct fetch_response response;
    struct fetch_response_topic topic;
    struct fetch_response_partition partitions[FAKE_GROUP_PARTITIONS];
    bool has_some = false;
    fetch_response_init(&response);
    fetch_response_topic_init(&topic);
    for (size_t i = 0; i < asked->partitions_count; i++) {
        const int32_t partition = asked->partitions[i].partition;
        const int64_t offset = asked->partitions[i].fetch_offset;
        fetch_response_partition_init(&partitions[i]);
        partitions[i].partition_index = partition;
        partitions[i].high_watermark = g->ends[partition];
        partitions[i].last_stable_offset = g->ends[partition];
        if (offset < g->starts[partition]) {
            partitions[i].error_code = KAFKA_OFFSET_OUT_OF_RANGE;
            has_some = true;
        } else if (offset < g->ends[partition] && !has_bit(g->stuck, partition)) {
            partitions[i].records = records_from(g, partition, offset);
            has_some = true;
        }
    }
    topic.topic_id = topic_id;
    topic.partitions = partitions;
    topic.partitions_count = asked->partitions_count;
    response.responses = &topic;
    response.responses_count = 1;
    if (has_some || is_late) {
        fake_broker_reply(&g->broker, r, &response);
    } else {
        g->held = *r;
        g->held_until_us = g->broker.clock.now_us + (uint64_t)request->max_wait_ms * 1000;
    }
}

static uint64_t tick(struct fake_broker *b)
{
    struct fake_group *g = container_of(b, struct fake_group, broker);
    if (g->held_until_us != 0 && g->held_until_us <= b->clock.now_us) {
        g->held_until_us = 0;
        answer_fetch(g, &g->held, true);
    }
    return g->held_until_us != 0 ? g->held_until_us : UINT64_MAX;
}

void fake_group_grow(struct fake_group *g, int32_t partition, int64_t count)
{
    g->ends[partition] += count;
    if (g->held_until_us != 0) {
        g->held_until_us = 0;
        answer_fetch(g, &g->held, true);
    }
}

/* ---- what goes wrong ---- */

/* True if that was the end of the connection; else *ret_code is set. */
static bool goes_wrong(struct fake_group *g, const struct fake_request *r, int16_t *ret_code)
{
    static const int16_t codes[] = {
        KAFKA_NOT_COORDINATOR, KAFKA_COORDINATOR_LOAD_IN_PROGRESS, KAFKA_NONE};
    *ret_code = KAFKA_NONE;
    if (g->failing_count > 0 && g->failing_api == r->api_key) {
        g->failing_count--;
        *ret_code = g->failing_code;
    } else if (g->faults_of > 0 && rand_one_in(&g->broker.rand, g->faults_of)) {
        *ret_code = codes[rand_below(&g->broker.rand, 3)];
        *ret_code =
            r->api_key == API_FIND_COORDINATOR ? KAFKA_COORDINATOR_NOT_AVAILABLE : *ret_code;
    } else {
        return false;
    }
    if (*ret_code == KAFKA_NONE) {
        fake_broker_cut(&g->broker, r->connection);
    }
    return *ret_code == KAFKA_NONE;
}

static void serve(struct fake_broker *b, const struct fake_request *r)
{
    struct fake_group *g = container_of(b, struct fake_group, broker);
    int16_t code = KAFKA_NONE;
    if (g->has_kept && g->kept.connection == r->connection) {
        fake_group_release(g);
        g->is_keeping = true;
    }
    if (goes_wrong(g, r, &code)) {
        return;
    }
    switch (r->api_key) {
    case API_FIND_COORDINATOR:
        answer_coordinator(g, r, code);
        break;
    case API_CONSUMER_GROUP_HEARTBEAT:
        answer_beat(g, r, code);
        break;
    case API_METADATA:
        answer_metadata(g, r);
        break;
    case API_OFFSET_FETCH:
        answer_offsets(g, r, code);
        break;
    case API_OFFSET_COMMIT:
        answer_commit(g, r, code);
        break;
    case API_LIST_OFFSETS:
        answer_starts(g, r);
        break;
    case API_FETCH:
        answer_fetch(g, r, false);
        break;
    default:
        cr_assert(false, "a request of api %d", r->api_key);
    }
}

/* ---- for tests ---- */

void fake_group_init(struct fake_group *g)
{
    memset(g, 0, sizeof(*g));
    fake_broker_init(&g->broker);
    g->broker.serve = serve;
    g->broker.tick = tick;
    g->epoch = 1;
    g->coordinator = FAKE_NODE_ID;
    for (size_t i = 0; i < FAKE_GROUP_PARTITIONS; i++) {
        g->ends[i] = 3;
    }
}

void fake_group_done(struct fake_group *g)
{
    fake_broker_done(&g->broker);
}

struct client *fake_group_client(struct fake_group *g)
{
    return fake_broker_client(&g->broker);
}

void fake_group_assign(struct fake_group *g, int32_t epoch, uint32_t partitions)
{
    g->epoch = epoch;
    g->assigned = partitions;
    g->is_assignment_due = true;
}

void fake_group_fail(struct fake_group *g, int16_t api_key, int16_t code, size_t count)
{
    g->failing_api = api_key;
    g->failing_code = code;
    g->failing_count = count;
}

void fake_group_release(struct fake_group *g)
{
    cr_assert(g->has_kept);
    g->is_keeping = g->has_kept = false;
    answer_beat(g, &g->kept, KAFKA_NONE);
}

void fake_group_expect(struct fake_group *g, const char *wanted)
{
    g->trace[g->trace_size] = '\0';
    cr_assert(strcmp(g->trace, wanted) == 0, "got    %s\nwanted %s", g->trace, wanted);
    g->trace_size = 0;
}

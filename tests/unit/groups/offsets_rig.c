#include "tests/unit/groups/offsets_rig.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

static size_t run_of(const struct offset_line *lines, size_t count)
{
    size_t n = 1;
    while (n < count && strcmp(lines[n].topic, lines[0].topic) == 0) {
        n++;
    }
    return n;
}

static struct uuid id_of(const struct rig *r, const char *topic)
{
    static const struct uuid UNKNOWN = {{0xff}};
    const struct topic *t = metadata_topic_by_name(r->metadata, slice_of_string(topic));
    return t == NULL ? UNKNOWN : t->id;
}

struct offset_commit_request *
offsets_commit_request(struct rig *r, const struct offset_line *lines, size_t count)
{
    struct offset_commit_request *in = rig_alloc(r, 1, sizeof(*in));
    offset_commit_request_init(in);
    in->topics = rig_alloc(r, count, sizeof(*in->topics));
    for (size_t i = 0; i < count;) {
        const size_t n = run_of(lines + i, count - i);
        struct offset_commit_request_topic *t = &in->topics[in->topics_count++];
        offset_commit_request_topic_init(t);
        t->name = rig_text(r, lines[i].topic);
        t->topic_id = id_of(r, lines[i].topic);
        t->partitions = rig_alloc(r, n, sizeof(*t->partitions));
        for (size_t j = 0; j < n; j++, i++) {
            struct offset_commit_request_partition *p = &t->partitions[t->partitions_count++];
            offset_commit_request_partition_init(p);
            p->partition_index = lines[i].partition;
            p->committed_offset = lines[i].offset;
            p->committed_metadata = rig_text(r, lines[i].metadata);
        }
    }
    return in;
}

void offsets_commit_one(
    struct rig *r, const char *group, const char *topic, int32_t partition, int64_t offset)
{
    const struct offset_line line = {topic, partition, offset, NULL};
    const struct rig_call *call =
        rig_send(r, GROUP_COMMIT, 9, group, offsets_commit_request(r, &line, 1));
    cr_assert(eq(i16, offsets_commit_error(call), KAFKA_NONE));
}

int16_t offsets_commit_error(const struct rig_call *call)
{
    const struct offset_commit_response *out = rig_answer(call);
    cr_assert(eq(sz, out->topics_count, 1));
    cr_assert(eq(sz, out->topics[0].partitions_count, 1));
    return out->topics[0].partitions[0].error_code;
}

struct offset_fetch_request_group *
offsets_fetch_request(struct rig *r, const struct offset_line *lines, size_t count)
{
    struct offset_fetch_request_group *in = rig_alloc(r, 1, sizeof(*in));
    offset_fetch_request_group_init(in);
    in->topics = rig_alloc(r, count, sizeof(*in->topics));
    for (size_t i = 0; i < count;) {
        const size_t n = run_of(lines + i, count - i);
        struct offset_fetch_request_group_topic *t = &in->topics[in->topics_count++];
        offset_fetch_request_group_topic_init(t);
        t->name = rig_text(r, lines[i].topic);
        t->topic_id = id_of(r, lines[i].topic);
        t->partition_indexes = rig_alloc(r, n, sizeof(*t->partition_indexes));
        for (size_t j = 0; j < n; j++, i++) {
            t->partition_indexes[t->partition_indexes_count++] = lines[i].partition;
        }
    }
    return in;
}

const struct offset_fetch_response_group *offsets_fetch_everything(struct rig *r, const char *group)
{
    struct offset_fetch_request_group *in = rig_alloc(r, 1, sizeof(*in));
    offset_fetch_request_group_init(in);
    in->topics = NULL;
    return rig_answer(rig_send(r, GROUP_FETCH, 8, group, in));
}

size_t offsets_fetched_count(struct rig *r, const char *group)
{
    const struct offset_fetch_response_group *out = offsets_fetch_everything(r, group);
    size_t count = 0;
    for (size_t i = 0; i < out->topics_count; i++) {
        count += out->topics[i].partitions_count;
    }
    return count;
}

struct offset_fetch_response_group_topic_partition
offsets_fetch_one(struct rig *r, const char *group, const char *topic, int32_t partition)
{
    const struct offset_line line = {topic, partition, 0, NULL};
    const struct offset_fetch_response_group *out =
        rig_answer(rig_send(r, GROUP_FETCH, 9, group, offsets_fetch_request(r, &line, 1)));
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
    cr_assert(eq(sz, out->topics_count, 1));
    cr_assert(eq(sz, out->topics[0].partitions_count, 1));
    cr_assert(eq(i16, out->topics[0].partitions[0].error_code, KAFKA_NONE));
    return out->topics[0].partitions[0];
}

struct offset_delete_request *
offsets_delete_request(struct rig *r, const struct offset_line *lines, size_t count)
{
    struct offset_delete_request *in = rig_alloc(r, 1, sizeof(*in));
    offset_delete_request_init(in);
    in->topics = rig_alloc(r, count, sizeof(*in->topics));
    for (size_t i = 0; i < count;) {
        const size_t n = run_of(lines + i, count - i);
        struct offset_delete_request_topic *t = &in->topics[in->topics_count++];
        offset_delete_request_topic_init(t);
        t->name = rig_text(r, lines[i].topic);
        t->partitions = rig_alloc(r, n, sizeof(*t->partitions));
        for (size_t j = 0; j < n; j++, i++) {
            t->partitions[t->partitions_count++].partition_index = lines[i].partition;
        }
    }
    return in;
}

int16_t offsets_delete_group_error(struct rig *r, const char *group)
{
    const struct delete_groups_response_result *out =
        rig_answer(rig_send(r, GROUP_DELETE, 2, group, NULL));
    cr_assert(slice_equal_string(out->group_id, group));
    return out->error_code;
}

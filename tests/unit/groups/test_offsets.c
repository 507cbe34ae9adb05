/* OffsetCommit, OffsetFetch, OffsetDelete and DeleteGroups of groups without members (PROTOCOL
 * facts 16). */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/metadata_edit.h"
#include "groups/offsets_priv.h"
#include "kafka/proto/legacy_offset_commit_record.h"
#include "kafka/proto/offset_commit_record.h"

#include "tests/unit/groups/offsets_rig.h"

static struct rig *rig_with_topics(void)
{
    struct rig *r = rig_new();
    rig_topic(r, "t", 4);
    rig_topic(r, "u", 40);
    return r;
}

static const struct rig_call *
commit(struct rig *r, int16_t version, const struct offset_line *lines, size_t count)
{
    return rig_send(r, GROUP_COMMIT, version, "g", offsets_commit_request(r, lines, count));
}

/* ---- commit ---- */

/* Every partition has its own answer; the good ones are stored whatever the others are. */
Test(offsets, judges_each_partition)
{
    static const struct {
        const char *topic;
        int32_t partition;
        int16_t error;    /* v9: by name. */
        int16_t id_error; /* v10: by id. */
        size_t metadata_size;
    } CASES[] = {
        {"t", 0, 0, 0, 0},
        {"t", 3, 0, 0, 4096},
        {"t", 2, KAFKA_OFFSET_METADATA_TOO_LARGE, KAFKA_OFFSET_METADATA_TOO_LARGE, 4097},
        {"t", 4, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, 0},
        {"t", -1, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, 0},
        {"none", 0, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, KAFKA_UNKNOWN_TOPIC_ID, 0},
        {"u", 39, 0, 0, 1},
    };
    enum { COUNT = sizeof(CASES) / sizeof(CASES[0]) };
    for (int16_t version = 2; version <= 10; version++) {
        struct rig *r = rig_with_topics();
        struct offset_line lines[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            char *metadata = rig_alloc(r, CASES[i].metadata_size + 1, 1);
            memset(metadata, 'm', CASES[i].metadata_size);
            lines[i] = (struct offset_line){
                CASES[i].topic, CASES[i].partition, 100 + (int64_t)i, metadata};
        }
        const struct offset_commit_response *out = rig_answer(commit(r, version, lines, COUNT));
        size_t at = 0;
        for (size_t i = 0; i < out->topics_count; i++) {
            for (size_t j = 0; j < out->topics[i].partitions_count; j++, at++) {
                cr_assert(
                    eq(i32, out->topics[i].partitions[j].partition_index, CASES[at].partition));
                cr_assert(eq(i16,
                             out->topics[i].partitions[j].error_code,
                             version < 10 ? CASES[at].error : CASES[at].id_error));
            }
        }
        cr_assert(eq(sz, at, COUNT));
        cr_assert(eq(sz, offsets_fetched_count(r, "g"), 3));
        cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 3).committed_offset, 101));
        cr_assert(eq(sz, offsets_fetch_one(r, "g", "t", 3).metadata.size, 4096));
        cr_assert(eq(i64, offsets_fetch_one(r, "g", "u", 39).committed_offset, 106));
        rig_restart(r);
        cr_assert(eq(sz, offsets_fetched_count(r, "g"), 3));
        rig_free(r);
    }
}

/* offset.metadata.max.bytes counts what Java does: UTF-16 units. */
Test(offsets, counts_metadata_in_utf16_units)
{
    static const struct {
        const char *text;
        int32_t units;
    } CASES[] = {
        {"", 0},
        {"ab", 2},
        {"\xc3\xa4", 1},         /* U+00E4 */
        {"\xe2\x82\xac", 1},     /* U+20AC */
        {"\xf0\x9f\x98\x80", 2}, /* U+1F600: a pair of surrogates. */
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct rig *r = rig_with_topics();
        const struct offset_line line = {"t", 0, 1, CASES[i].text};
        r->settings.offset_metadata_size_max = CASES[i].units;
        cr_assert(eq(i16, offsets_commit_error(commit(r, 8, &line, 1)), KAFKA_NONE));
        r->settings.offset_metadata_size_max = CASES[i].units - 1;
        if (CASES[i].units > 0) {
            cr_assert(eq(i16,
                         offsets_commit_error(commit(r, 8, &line, 1)),
                         KAFKA_OFFSET_METADATA_TOO_LARGE));
        }
        rig_free(r);
    }
}

/* Whatever the client says is kept as it is: a lower offset, -1, epochs that cannot be. */
Test(offsets, keeps_what_the_client_says)
{
    static const struct {
        int64_t offset;
        int32_t epoch;
        const char *metadata;
    } CASES[] = {
        {42, 3, "m"},
        {41, 2, ""},
        {0, 0, NULL},
        {-1, -1, "minus"},
        {-2, -2, NULL},
        {INT64_MAX, INT32_MAX, "max"},
    };
    struct rig *r = rig_with_topics();
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        const struct offset_line line = {"t", 1, CASES[i].offset, CASES[i].metadata};
        struct offset_commit_request *in = offsets_commit_request(r, &line, 1);
        in->topics[0].partitions[0].committed_leader_epoch = CASES[i].epoch;
        cr_assert(eq(i16, offsets_commit_error(rig_send(r, GROUP_COMMIT, 9, "g", in)), 0));
        for (int restarted = 0; restarted < 2; restarted++) {
            const struct offset_fetch_response_group_topic_partition p =
                offsets_fetch_one(r, "g", "t", 1);
            const char *metadata = CASES[i].metadata == NULL ? "" : CASES[i].metadata;
            cr_assert(eq(i64, p.committed_offset, CASES[i].offset));
            cr_assert(eq(i32, p.committed_leader_epoch, CASES[i].epoch));
            cr_assert(slice_equal_string(p.metadata, metadata));
            rig_restart(r);
        }
    }
    rig_free(r);
}

Test(offsets, proposes_nothing_if_nothing_is_right)
{
    static const struct offset_line LINES[] = {{"none", 0, 1, NULL}, {"t", 9, 1, NULL}};
    struct rig *r = rig_with_topics();
    (void)rig_answer(commit(r, 9, LINES, 2));
    (void)rig_answer(commit(r, 9, LINES, 0));
    cr_assert(eq(sz, r->batches_count, 0));
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    rig_free(r);
}

/* The empty group id is a group like any other for offsets. */
Test(offsets, takes_an_empty_group_id)
{
    struct rig *r = rig_with_topics();
    offsets_commit_one(r, "", "t", 0, 5);
    cr_assert(eq(i64, offsets_fetch_one(r, "", "t", 0).committed_offset, 5));
    rig_restart(r);
    cr_assert(eq(i64, offsets_fetch_one(r, "", "t", 0).committed_offset, 5));
    rig_free(r);
}

/* The last of a partition in one request wins, and of overlapping requests that of the log. */
Test(offsets, the_later_in_the_log_wins)
{
    static const struct offset_line TWICE[] = {{"t", 0, 7, NULL}, {"t", 0, 6, NULL}};
    struct rig *r = rig_with_topics();
    (void)rig_answer(commit(r, 9, TWICE, 2));
    cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 0).committed_offset, 6));
    r->is_holding = true;
    const struct offset_line first = {"t", 0, 100, NULL};
    const struct offset_line second = {"t", 0, 50, NULL};
    const struct rig_call *calls[] = {commit(r, 9, &first, 1), commit(r, 9, &second, 1)};
    cr_assert(eq(sz, r->proposals_count, 2), "commits do not wait for each other");
    cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 0).committed_offset, 6), "not committed yet");
    rig_commit(r, 1);
    cr_assert(calls[0]->is_answered);
    cr_assert(not(calls[1]->is_answered));
    cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 0).committed_offset, 100));
    rig_commit_all(r);
    cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 0).committed_offset, 50));
    rig_free(r);
}

/* What failed to be appended was not committed, and the client hears what to do. */
Test(offsets, says_why_a_commit_failed)
{
    static const struct {
        enum err e;
        int16_t error;
    } CASES[] = {
        {ERR_NOT_LEADER, KAFKA_NOT_COORDINATOR},
        {ERR_CANCELLED, KAFKA_NOT_COORDINATOR},
        {ERR_FAILED, KAFKA_NOT_COORDINATOR},
        {ERR_NO_SPACE, KAFKA_COORDINATOR_NOT_AVAILABLE},
        {ERR_BUSY, KAFKA_COORDINATOR_NOT_AVAILABLE},
        {ERR_TIMED_OUT, KAFKA_COORDINATOR_NOT_AVAILABLE},
        {ERR_TOO_LARGE, KAFKA_INVALID_COMMIT_OFFSET_SIZE},
    };
    static const struct offset_line LINES[] = {{"t", 0, 7, NULL}, {"none", 0, 1, NULL}};
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct rig *r = rig_with_topics();
        r->append_err = CASES[i].e;
        const struct offset_commit_response *out = rig_answer(commit(r, 9, LINES, 2));
        cr_assert(eq(i16, out->topics[0].partitions[0].error_code, CASES[i].error));
        cr_assert(
            eq(i16, out->topics[1].partitions[0].error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION));
        cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 0).committed_offset, -1));
        cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
        rig_free(r);
    }
}

/* A coordinator that resigns does not know what becomes of the batch: it may still be committed. */
Test(offsets, answers_when_it_resigns)
{
    const struct offset_line line = {"t", 0, 7, NULL};
    struct rig *r = rig_with_topics();
    r->is_holding = true;
    const struct rig_call *call = commit(r, 9, &line, 1);
    rig_resign(r);
    cr_assert(eq(i16, offsets_commit_error(call), KAFKA_NOT_COORDINATOR));
    rig_commit_all(r);
    rig_handover(r);
    cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 0).committed_offset, 7));
    rig_free(r);
}

/* At the limit only what takes no more memory goes; what is refused is to be tried again. */
Test(offsets, asks_for_memory)
{
    struct rig *r = rig_with_topics();
    offsets_commit_one(r, "g", "t", 0, 7);
    r->leader->memory.size_max = r->leader->memory.size;
    static const struct offset_line LINES[] = {
        {"t", 0, 8, NULL}, {"t", 1, 1, NULL}, {"t", 0, 9, "longer"}};
    const struct offset_commit_response *out = rig_answer(commit(r, 9, LINES, 3));
    cr_assert(eq(i16, out->topics[0].partitions[0].error_code, KAFKA_NONE));
    cr_assert(eq(i16, out->topics[0].partitions[1].error_code, KAFKA_COORDINATOR_NOT_AVAILABLE));
    cr_assert(eq(i16, out->topics[0].partitions[2].error_code, KAFKA_COORDINATOR_NOT_AVAILABLE));
    cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 0).committed_offset, 8));
    rig_free(r);
}

/* ---- fetch ---- */

Test(offsets, no_offset_is_no_error)
{
    static const struct offset_line LINES[] = {
        {"t", 0, 0, NULL}, {"t", 9, 0, NULL}, {"t", -1, 0, NULL}, {"none", 0, 0, NULL}};
    struct rig *r = rig_with_topics();
    offsets_commit_one(r, "other", "t", 1, 7);
    for (int16_t version = 8; version <= 10; version++) {
        for (int known = 0; known < 2; known++) {
            const char *group = known == 0 ? "unknown" : "other";
            const struct offset_fetch_response_group *out = rig_answer(
                rig_send(r, GROUP_FETCH, version, group, offsets_fetch_request(r, LINES, 4)));
            cr_assert(eq(i16, out->error_code, KAFKA_NONE));
            cr_assert(slice_equal_string(out->group_id, group));
            cr_assert(eq(sz, out->topics_count, 2));
            for (size_t i = 0; i < 4; i++) {
                const struct offset_fetch_response_group_topic_partition *p =
                    i < 3 ? &out->topics[0].partitions[i] : &out->topics[1].partitions[0];
                cr_assert(eq(i32, p->partition_index, LINES[i].partition));
                cr_assert(eq(i64, p->committed_offset, -1));
                cr_assert(eq(i32, p->committed_leader_epoch, -1));
                cr_assert(slice_equal_string(p->metadata, ""));
                cr_assert(not(slice_is_null(p->metadata)));
                cr_assert(eq(i16,
                             p->error_code,
                             i == 3 && version == 10 ? KAFKA_UNKNOWN_TOPIC_ID : KAFKA_NONE));
            }
        }
    }
    cr_assert(eq(sz, offsets_fetched_count(r, "unknown"), 0));
    cr_assert(eq(sz, r->batches_count, 1));
    rig_free(r);
}

/* No topics are not all topics; what is asked for twice is answered twice. */
Test(offsets, answers_what_was_asked)
{
    static const struct offset_line TWICE[] = {
        {"t", 1, 0, NULL}, {"t", 1, 0, NULL}, {"u", 0, 0, NULL}, {"t", 1, 0, NULL}};
    struct rig *r = rig_with_topics();
    offsets_commit_one(r, "g", "t", 1, 7);
    const struct offset_fetch_response_group *out =
        rig_answer(rig_send(r, GROUP_FETCH, 8, "g", offsets_fetch_request(r, TWICE, 0)));
    cr_assert(eq(sz, out->topics_count, 0));
    out = rig_answer(rig_send(r, GROUP_FETCH, 8, "g", offsets_fetch_request(r, TWICE, 4)));
    cr_assert(eq(sz, out->topics_count, 3));
    cr_assert(eq(i64, out->topics[0].partitions[0].committed_offset, 7));
    cr_assert(eq(i64, out->topics[0].partitions[1].committed_offset, 7));
    cr_assert(eq(i64, out->topics[1].partitions[0].committed_offset, -1));
    cr_assert(eq(i64, out->topics[2].partitions[0].committed_offset, 7));
    rig_free(r);
}

Test(offsets, fetches_everything)
{
    struct rig *r = rig_with_topics();
    for (int32_t i = 39; i >= 0; i--) {
        offsets_commit_one(r, "g", "u", (i * 7) % 40, i);
    }
    offsets_commit_one(r, "g", "t", 2, 99);
    const struct offset_fetch_response_group *out = offsets_fetch_everything(r, "g");
    cr_assert(eq(sz, out->topics_count, 2));
    for (size_t i = 0; i < 2; i++) {
        const struct offset_fetch_response_group_topic *t = &out->topics[i];
        const bool is_u = slice_equal_string(t->name, "u");
        cr_assert(eq(sz, t->partitions_count, is_u ? 40 : 1));
        cr_assert(not(uuid_is_zero(&t->topic_id)));
        for (int32_t j = 0; is_u && j < 40; j++) {
            cr_assert(eq(i32, t->partitions[j].partition_index, j));
            cr_assert(eq(i32, (int32_t)(t->partitions[j].committed_offset * 7 % 40), j));
        }
    }
    rig_free(r);
}

/* ---- topics that go ---- */

/* A topic of the same name does not inherit offsets, also if the coordinator was away meanwhile. */
Test(offsets, a_topic_made_again_starts_afresh)
{
    for (int was_away = 0; was_away < 2; was_away++) {
        struct rig *r = rig_with_topics();
        offsets_commit_one(r, "g", "t", 0, 7);
        offsets_commit_one(r, "g", "u", 0, 8);
        if (was_away) {
            rig_resign(r);
        }
        rig_topic_delete(r, "t");
        rig_topic(r, "t", 4);
        if (was_away) {
            rig_restart(r);
        }
        cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 0).committed_offset, -1));
        cr_assert(eq(sz, offsets_fetched_count(r, "g"), 1));
        const size_t batches_count = r->batches_count;
        rig_pass_ms(r, 1);
        cr_assert(eq(sz, r->batches_count, batches_count + 1), "it is taken away for good");
        offsets_commit_one(r, "g", "t", 0, 1);
        rig_restart(r);
        cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 0).committed_offset, 1));
        cr_assert(eq(i64, offsets_fetch_one(r, "g", "u", 0).committed_offset, 8));
        rig_free(r);
    }
}

/* The offsets of a topic go with it, and the group with its last offset. */
Test(offsets, go_with_their_topic)
{
    struct rig *r = rig_with_topics();
    offsets_commit_one(r, "g", "t", 0, 7);
    offsets_commit_one(r, "g", "u", 0, 8);
    rig_topic_delete(r, "t");
    rig_pass_ms(r, 1);
    cr_assert(eq(sz, offsets_fetched_count(r, "g"), 1));
    r->append_err = ERR_NO_SPACE;
    rig_topic_delete(r, "u");
    rig_pass_ms(r, 1);
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 1));
    r->append_err = ERR_OK;
    rig_pass_ms(r, (uint64_t)r->settings.offsets_check_ms);
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    rig_restart(r);
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    rig_free(r);
}

/* ---- records ---- */

static void apply_record(struct rig *r, struct slice key, struct slice value, enum err expected)
{
    static const struct batch_identity NOBODY = {-1, -1, -1};
    struct batch_builder b;
    struct wbuf w;
    batch_builder_init(&b, 1 << 20);
    wbuf_init(&w, 1 << 20);
    const struct batch_record record = {.timestamp = 1, .key = key, .value = value};
    cr_assert(eq(int, batch_builder_add(&b, &record), ERR_OK));
    cr_assert(eq(int, batch_builder_finish(&b, CODEC_NONE, &NOBODY, &w), ERR_OK));
    cr_assert(eq(int, coordinator_apply(r->leader->c, wbuf_slice(&w)), expected));
    cr_assert(eq(int, coordinator_apply(r->follower->c, wbuf_slice(&w)), expected));
    batch_builder_done(&b);
    wbuf_done(&w);
    rig_check(r);
}

/* What Kafka wrote before it knew of topic ids counts for the topic of that name. */
Test(offsets, reads_every_version_of_the_record)
{
    for (int16_t version = 0; version <= 4; version++) {
        struct rig *r = rig_with_topics();
        struct wbuf key;
        struct wbuf value;
        wbuf_init(&key, 1024);
        wbuf_init(&value, 1024);
        const struct offset_commit_key k = {slice_of_string("g"), slice_of_string("t"), 2};
        const struct legacy_offset_commit_key old = {k.group, k.topic, k.partition};
        struct offset_commit_value v;
        offset_commit_value_init(&v);
        v.offset = 77;
        v.metadata = slice_of_string("m");
        v.commit_timestamp = r->now.wall_ms;
        cr_assert(eq(int,
                     version == 0 ? legacy_offset_commit_key_encode(&key, &old)
                                  : offset_commit_key_encode(&key, &k),
                     ERR_OK));
        cr_assert(eq(int, offset_commit_value_encode(&value, version, &v), ERR_OK));
        apply_record(r, wbuf_slice(&key), wbuf_slice(&value), ERR_OK);
        cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 2).committed_offset, 77));
        cr_assert(slice_equal_string(offsets_fetch_one(r, "g", "t", 2).metadata, "m"));
        apply_record(r, wbuf_slice(&key), (struct slice){0}, ERR_OK);
        apply_record(r, wbuf_slice(&key), (struct slice){0}, ERR_OK);
        cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 2).committed_offset, -1));
        wbuf_done(&key);
        wbuf_done(&value);
        rig_free(r);
    }
}

/* Damaged records are told, and change nothing. */
Test(offsets, refuses_damaged_records)
{
    struct rig *r = rig_with_topics();
    struct wbuf key;
    struct wbuf value;
    wbuf_init(&key, 1024);
    wbuf_init(&value, 1024);
    const struct offset_commit_key k = {slice_of_string("g"), slice_of_string("t"), -1};
    cr_assert(eq(int, offset_commit_key_encode(&key, &k), ERR_OK));
    apply_record(r, wbuf_slice(&key), (struct slice){0}, ERR_CORRUPT);
    for (size_t size = 2; size < key.size; size++) {
        apply_record(r, slice_of(key.data, size), (struct slice){0}, ERR_CORRUPT);
    }
    key.data[key.size - 4] = 0; /* Partition 0x00ffffff. */
    wbuf_i16(&value, 99);
    apply_record(r, wbuf_slice(&key), wbuf_slice(&value), ERR_CORRUPT);
    apply_record(r, wbuf_slice(&key), slice_of(value.data, 1), ERR_CORRUPT);
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    wbuf_done(&key);
    wbuf_done(&value);
    rig_free(r);
}

/* ---- OffsetDelete ---- */

Test(offsets, deletes_what_is_named)
{
    static const struct {
        struct offset_line line;
        int16_t error;
    } CASES[] = {
        {{"t", 0, 0, NULL}, KAFKA_NONE},
        {{"t", 1, 0, NULL}, KAFKA_NONE}, /* Never committed. */
        {{"t", 4, 0, NULL}, KAFKA_UNKNOWN_TOPIC_OR_PARTITION},
        {{"none", 0, 0, NULL}, KAFKA_UNKNOWN_TOPIC_OR_PARTITION},
        {{"u", 3, 0, NULL}, KAFKA_NONE},
    };
    struct rig *r = rig_with_topics();
    offsets_commit_one(r, "g", "t", 0, 7);
    offsets_commit_one(r, "g", "t", 2, 7);
    offsets_commit_one(r, "g", "u", 3, 7);
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        for (int again = 0; again < 2; again++) {
            const struct offset_delete_response *out = rig_answer(rig_send(
                r, GROUP_DELETE_OFFSETS, 0, "g", offsets_delete_request(r, &CASES[i].line, 1)));
            cr_assert(eq(i16, out->error_code, KAFKA_NONE));
            cr_assert(eq(i16, out->topics[0].partitions[0].error_code, CASES[i].error));
            rig_restart(r);
        }
    }
    cr_assert(eq(sz, offsets_fetched_count(r, "g"), 1));
    cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 2).committed_offset, 7));
    rig_free(r);
}

Test(offsets, deletes_no_offsets_of_no_group)
{
    const struct offset_line line = {"t", 0, 0, NULL};
    struct rig *r = rig_with_topics();
    const struct offset_delete_response *out =
        rig_answer(rig_send(r, GROUP_DELETE_OFFSETS, 0, "g", offsets_delete_request(r, &line, 1)));
    cr_assert(eq(i16, out->error_code, KAFKA_GROUP_ID_NOT_FOUND));
    cr_assert(eq(sz, out->topics_count, 0));
    offsets_commit_one(r, "g", "t", 0, 7);
    r->append_err = ERR_NO_SPACE;
    out =
        rig_answer(rig_send(r, GROUP_DELETE_OFFSETS, 0, "g", offsets_delete_request(r, &line, 1)));
    cr_assert(eq(i16, out->error_code, KAFKA_COORDINATOR_NOT_AVAILABLE));
    cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 0).committed_offset, 7));
    rig_free(r);
}

/* ---- DeleteGroups, in pieces ---- */

enum {
    PIECES = 3, /* Of a commit, and of a deletion. */
    PIECES_PARTITIONS = REMOVAL_COUNT_MAX * 2 + 10,
};

static struct offset_line *many_lines(struct rig *r)
{
    struct offset_line *lines = rig_alloc(r, PIECES_PARTITIONS, sizeof(*lines));
    for (int32_t i = 0; i < PIECES_PARTITIONS; i++) {
        lines[i] = (struct offset_line){"big", i, i, NULL};
    }
    return lines;
}

static struct rig *rig_with_many(void)
{
    struct rig *r = rig_new();
    rig_topic(r, "big", PIECES_PARTITIONS);
    (void)rig_answer(commit(r, 9, many_lines(r), PIECES_PARTITIONS));
    cr_assert(eq(sz, r->batches_count, PIECES));
    return r;
}

/* What was committed before one piece failed is, and the answer says which. */
Test(offsets, commits_many_in_pieces)
{
    for (size_t committed = 0; committed < PIECES; committed++) {
        struct rig *r = rig_new();
        rig_topic(r, "big", PIECES_PARTITIONS);
        r->is_holding = true;
        const struct rig_call *call = commit(r, 9, many_lines(r), PIECES_PARTITIONS);
        for (size_t i = 0; i < committed; i++) {
            cr_assert(eq(sz, r->proposals_count, 1));
            rig_commit(r, 1);
        }
        cr_assert(not(call->is_answered));
        rig_fail_all(r, ERR_NO_SPACE);
        const struct offset_commit_response *out = rig_answer(call);
        size_t good = 0;
        for (size_t i = 0; i < PIECES_PARTITIONS; i++) {
            const int16_t error = out->topics[0].partitions[i].error_code;
            cr_assert(error == KAFKA_NONE || error == KAFKA_COORDINATOR_NOT_AVAILABLE);
            good += error == KAFKA_NONE ? 1 : 0;
        }
        cr_assert(eq(sz, good, committed * REMOVAL_COUNT_MAX));
        cr_assert(eq(sz, offsets_fetched_count(r, "g"), good));
        r->is_holding = false;
        rig_free(r);
    }
}

Test(offsets, deletes_a_group)
{
    struct rig *r = rig_with_topics();
    cr_assert(eq(i16, offsets_delete_group_error(r, "g"), KAFKA_GROUP_ID_NOT_FOUND));
    offsets_commit_one(r, "g", "t", 0, 7);
    offsets_commit_one(r, "h", "t", 0, 7);
    r->append_err = ERR_NOT_LEADER;
    cr_assert(eq(i16, offsets_delete_group_error(r, "g"), KAFKA_NOT_COORDINATOR));
    r->append_err = ERR_OK;
    cr_assert(eq(i64, offsets_fetch_one(r, "g", "t", 0).committed_offset, 7));
    cr_assert(eq(i16, offsets_delete_group_error(r, "g"), KAFKA_NONE));
    cr_assert(eq(i16, offsets_delete_group_error(r, "g"), KAFKA_GROUP_ID_NOT_FOUND));
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 1));
    rig_restart(r);
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 1));
    rig_free(r);
}

/* The gate stays closed between the batches; nobody sees half a group but by OffsetFetch. */
Test(offsets, deletes_a_large_group_in_pieces)
{
    struct rig *r = rig_with_many();
    r->is_holding = true;
    const struct rig_call *deleted = rig_send(r, GROUP_DELETE, 2, "g", NULL);
    const struct offset_line line = {"big", 0, 5, NULL};
    const struct rig_call *late = commit(r, 9, &line, 1);
    for (int i = 0; i < 3; i++) {
        cr_assert(not(deleted->is_answered));
        cr_assert(eq(sz, r->proposals_count, 1));
        rig_commit(r, 1);
    }
    cr_assert(deleted->is_answered);
    const struct delete_groups_response_result *out = rig_answer(deleted);
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
    cr_assert(not(late->is_answered));
    rig_commit_all(r);
    cr_assert(eq(i16, offsets_commit_error(late), KAFKA_NONE));
    cr_assert(eq(sz, offsets_fetched_count(r, "g"), 1));
    rig_free(r);
}

/* A crash in the middle leaves a group that can be deleted. */
Test(offsets, a_group_half_deleted_is_deleted_again)
{
    for (size_t committed = 0; committed < 3; committed++) {
        struct rig *r = rig_with_many();
        r->is_holding = true;
        const struct rig_call *deleted = rig_send(r, GROUP_DELETE, 2, "g", NULL);
        rig_commit(r, committed);
        r->is_holding = false;
        rig_resign(r);
        const struct delete_groups_response_result *out = rig_answer(deleted);
        cr_assert(eq(i16, out->error_code, KAFKA_NOT_COORDINATOR));
        rig_handover(r);
        cr_assert(eq(
            sz, offsets_fetched_count(r, "g"), PIECES_PARTITIONS - committed * REMOVAL_COUNT_MAX));
        cr_assert(eq(i16, offsets_delete_group_error(r, "g"), KAFKA_NONE));
        cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
        rig_free(r);
    }
}

Test(offsets, deletes_many_offsets_in_pieces)
{
    struct rig *r = rig_with_many();
    const struct offset_delete_response *out =
        rig_answer(rig_send(r,
                            GROUP_DELETE_OFFSETS,
                            0,
                            "g",
                            offsets_delete_request(r, many_lines(r), PIECES_PARTITIONS - 1)));
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
    cr_assert(eq(sz, r->batches_count, PIECES + PIECES));
    cr_assert(eq(sz, offsets_fetched_count(r, "g"), 1));
    rig_free(r);
}

Test(offsets, of_a_large_topic_go_in_pieces)
{
    struct rig *r = rig_with_many();
    rig_topic_delete(r, "big");
    rig_pass_ms(r, 1);
    cr_assert(eq(sz, r->batches_count, PIECES + PIECES));
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    rig_free(r);
}

/* Goal: records of __consumer_offsets and the data of classic protocols go with the number in front
 * that Kafka puts there, and numbers that are not known are said, or read as what is known. Their
 * bodies are held against Kafka's in test_golden and test_codec.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "core/wbuf.h"
#include "kafka/proto/consumer_group_metadata_record.h"
#include "kafka/proto/consumer_protocol_assignment.h"
#include "kafka/proto/consumer_protocol_subscription.h"
#include "kafka/proto/internal_record.h"
#include "kafka/proto/legacy_offset_commit_record.h"
#include "kafka/proto/offset_commit_record.h"
#include "kafka/proto/record_types.h"

enum {
    SIZE_MAX_OF_TEST = 1 << 20,
};

struct fixture {
    struct arena arena;
    struct wbuf w;
};

static struct fixture begin(void)
{
    struct fixture f;
    arena_init(&f.arena, SIZE_MAX_OF_TEST);
    wbuf_init(&f.w, SIZE_MAX_OF_TEST);
    return f;
}

static void end(struct fixture *f)
{
    wbuf_done(&f->w);
    arena_done(&f->arena);
}

static void expect_bytes(const struct wbuf *w, const void *bytes, size_t size)
{
    cr_assert(slice_equal(wbuf_slice(w), slice_of(bytes, size)));
}

/* Group "g", topic "t", partition 7. */
static const uint8_t key_bytes[] = {0, 1, 0, 1, 'g', 0, 1, 't', 0, 0, 0, 7};

Test(internal_record, a_key_begins_with_its_type)
{
    struct fixture f = begin();
    struct offset_commit_key key = {
        .group = slice_of_string("g"), .topic = slice_of_string("t"), .partition = 7};
    cr_assert(eq(int, offset_commit_key_encode(&f.w, &key), ERR_OK));
    expect_bytes(&f.w, key_bytes, sizeof(key_bytes));

    struct offset_commit_key read;
    struct rbuf r = rbuf_over(key_bytes, sizeof(key_bytes));
    cr_assert(eq(int, offset_commit_key_decode(&r, &f.arena, &read), ERR_OK));
    cr_assert(slice_equal_string(read.group, "g"));
    cr_assert(eq(i32, read.partition, 7));
    struct legacy_offset_commit_key other;
    r = rbuf_over(key_bytes, sizeof(key_bytes));
    cr_assert(eq(int, legacy_offset_commit_key_decode(&r, &f.arena, &other), ERR_UNSUPPORTED));
    r = rbuf_over(key_bytes, 1);
    cr_assert(eq(int, offset_commit_key_decode(&r, &f.arena, &read), ERR_EOF));

    int16_t type = -1;
    cr_assert(eq(int, internal_record_number(wbuf_slice(&f.w), &type), ERR_OK));
    cr_assert(eq(i16, type, RECORD_OFFSET_COMMIT));
    cr_assert(eq(int, internal_record_number(slice_of(key_bytes, 1), &type), ERR_EOF));
    cr_assert(eq(int, internal_record_number((struct slice){0}, &type), ERR_EOF));
    end(&f);
}

Test(internal_record, a_value_begins_with_its_version)
{
    static const uint8_t v3[] = {0, 3, 0, 0,   0, 0, 0, 0, 0, 42, 0, 0, 0,
                                 5, 0, 1, 'm', 0, 0, 0, 0, 0, 0,  0, 9};
    struct fixture f = begin();
    struct offset_commit_value value;
    struct rbuf r = rbuf_over(v3, sizeof(v3));
    cr_assert(eq(int, offset_commit_value_decode(&r, &f.arena, &value), ERR_OK));
    cr_assert(eq(i64, value.offset, 42));
    cr_assert(eq(i32, value.leader_epoch, 5));
    cr_assert(eq(i64, value.commit_timestamp, 9));
    cr_assert(eq(i64, value.expire_timestamp, -1));
    cr_assert(eq(int, offset_commit_value_encode(&f.w, 3, &value), ERR_OK));
    expect_bytes(&f.w, v3, sizeof(v3));
    cr_assert(eq(int, offset_commit_value_encode(&f.w, 5, &value), ERR_UNSUPPORTED));
    cr_assert(eq(int, offset_commit_value_encode(&f.w, -1, &value), ERR_UNSUPPORTED));

    const uint8_t v5[] = {0, 5, 0};
    r = rbuf_over(v5, sizeof(v5));
    cr_assert(eq(int, offset_commit_value_decode(&r, &f.arena, &value), ERR_UNSUPPORTED));
    cr_assert(eq(i64, value.offset, 42), "touched on failure");
    end(&f);
}

/* A later client's subscription: what is known of it counts, as in Kafka. */
Test(internal_record, newer_data_is_read_as_far_as_it_is_known)
{
    static const uint8_t newer[] = {0, 9, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff, 0,
                                    0, 0, 0, 0, 0, 0, 8, 0, 1,   'r',  'n',  'e',  'w'};
    struct fixture f = begin();
    struct consumer_protocol_subscription s;
    struct rbuf r = rbuf_over(newer, sizeof(newer));
    cr_assert(eq(int, consumer_protocol_subscription_decode(&r, &f.arena, &s), ERR_OK));
    cr_assert(eq(sz, s.topics_count, 1));
    cr_assert(eq(i32, s.generation_id, 8));
    cr_assert(slice_equal_string(s.rack_id, "r"));
    cr_assert(slice_is_null(s.user_data));

    static const uint8_t negative[] = {0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    r = rbuf_over(negative, sizeof(negative));
    struct consumer_protocol_assignment a;
    cr_assert(eq(int, consumer_protocol_assignment_decode(&r, &f.arena, &a), ERR_UNSUPPORTED));
    cr_assert(eq(int, consumer_protocol_subscription_encode(&f.w, 9, &s), ERR_UNSUPPORTED));
    end(&f);
}

static const char *text_of(struct fixture *f)
{
    wbuf_i8(&f->w, 0);
    cr_assert(eq(int, wbuf_failure(&f->w), ERR_OK));
    return (const char *)f->w.data;
}

Test(internal_record, dump)
{
    static const uint8_t value[] = {0, 0, 0, 0, 0, 7, 0};
    struct fixture f = begin();
    cr_assert(eq(int,
                 internal_record_dump_key(&f.w, &f.arena, slice_of(key_bytes, sizeof(key_bytes))),
                 ERR_OK));
    cr_assert(
        eq(int,
           internal_record_dump_value(
               &f.w, &f.arena, RECORD_CONSUMER_GROUP_METADATA, slice_of(value, sizeof(value))),
           ERR_OK));
    cr_assert(
        eq(int,
           internal_record_dump_value(&f.w, &f.arena, RECORD_OFFSET_COMMIT, (struct slice){0}),
           ERR_OK));
    cr_assert(eq(str,
                 (char *)(uintptr_t)text_of(&f),
                 "{\"type\":1,\"data\":{\"group\":\"g\",\"topic\":\"t\",\"partition\":7}}"
                 "{\"version\":0,\"data\":{\"epoch\":7}}null"));
    end(&f);
}

Test(internal_record, dump_of_what_is_not_known_or_damaged)
{
    static const uint8_t unknown[] = {0, 99, 1};
    struct fixture f = begin();
    const struct slice unknown_key = slice_of(unknown, sizeof(unknown));
    cr_assert(eq(int, internal_record_dump_key(&f.w, &f.arena, unknown_key), ERR_UNSUPPORTED));
    cr_assert(
        eq(int, internal_record_dump_value(&f.w, &f.arena, 99, unknown_key), ERR_UNSUPPORTED));
    cr_assert(eq(int, internal_record_dump_value(&f.w, &f.arena, 1, unknown_key), ERR_UNSUPPORTED));
    for (size_t cut = 0; cut < sizeof(key_bytes); cut++) {
        const enum err e = internal_record_dump_key(&f.w, &f.arena, slice_of(key_bytes, cut));
        cr_assert(eq(int, e, ERR_EOF), "cut=%zu", cut);
    }
    cr_assert(eq(sz, f.w.size, 0));
    end(&f);
}

/* Goal: every message of every version survives encoding and decoding, and no bytes, however cut or
 * changed, make a decoder read past the end, take much memory or report success for less than the
 * whole. Method: messages filled at random by their schema; the dump and the second encoding are
 * the comparison.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "core/wbuf.h"
#include "kafka/proto/fetch.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/produce.h"

#include "tests/unit/kafka_proto/support.h"

enum {
    MESSAGE_SIZE_MAX = 16 << 20,
    ROUNDS = 8,               /* Random messages per API, direction and version. */
    MEMORY_PER_BYTE_MAX = 32, /* What the codec promises (README, rule 3). */
    MEMORY_FIXED_MAX = 256,   /* Alignment and nullable structs of tiny messages. */
};

/* One buffer per step of a round trip. */
struct trip {
    struct wbuf bytes;
    struct wbuf text;
};

static void trip_init(struct trip *t)
{
    wbuf_init(&t->bytes, MESSAGE_SIZE_MAX);
    wbuf_init(&t->text, MESSAGE_SIZE_MAX);
}

static void trip_done(struct trip *t)
{
    wbuf_done(&t->bytes);
    wbuf_done(&t->text);
}

static void write_out(struct trip *t, const struct sample *s)
{
    trip_init(t);
    cr_assert(eq(int, s->message->encode(&t->bytes, s->version, s->value), ERR_OK), "%s", s->name);
    schema_dump(&t->text, s->message->root, s->version, s->value);
    cr_assert(eq(int, wbuf_failure(&t->text), ERR_OK), "%s", s->name);
}

static bool is_same(const struct wbuf *a, const struct wbuf *b)
{
    return slice_equal(wbuf_slice(a), wbuf_slice(b));
}

/* Encode, decode, and again: bytes and text must be the same both times. */
static void expect_round_trip(struct sample *s)
{
    struct trip first;
    write_out(&first, s);
    uint8_t *copy = NULL;
    cr_assert(eq(int, sample_decode(s, wbuf_slice(&first.bytes), &copy), ERR_OK), "%s", s->name);
    struct trip second;
    write_out(&second, s);
    cr_assert(is_same(&first.text, &second.text),
              "%s:\n%.*s\n%.*s",
              s->name,
              (int)first.text.size,
              (const char *)first.text.data,
              (int)second.text.size,
              (const char *)second.text.data);
    cr_assert(is_same(&first.bytes, &second.bytes), "%s: bytes differ", s->name);
    free(copy);
    trip_done(&second);
    trip_done(&first);
}

static void run_round_trips(struct sample *s)
{
    struct rand random;
    rand_init_seed(&random, 1);
    expect_round_trip(s); /* Defaults. */
    for (int i = 0; i < ROUNDS; i++) {
        sample_fill(s, &random);
        expect_round_trip(s);
    }
}

Test(codec, every_message_survives_a_round_trip)
{
    for_each_sample(run_round_trips);
}

/* Bounded, whatever the bytes declare. */
static void expect_little_memory(const struct sample *s, size_t size)
{
    const size_t limit = MEMORY_PER_BYTE_MAX * size + MEMORY_FIXED_MAX;
    cr_assert(le(sz, s->arena.used_size, limit), "%s", s->name);
}

static void run_truncations(struct sample *s)
{
    struct rand random;
    rand_init_seed(&random, 2);
    sample_fill(s, &random);
    struct trip t;
    write_out(&t, s);
    void *const before = malloc(s->message->root->size);
    memcpy(before, s->value, s->message->root->size);
    for (size_t cut = 0; cut < t.bytes.size; cut++) {
        uint8_t *copy = NULL;
        const enum err e = sample_decode(s, slice_of(t.bytes.data, cut), &copy);
        cr_assert(ne(int, e, ERR_OK), "%s cut=%zu", s->name, cut);
        cr_assert(memcmp(before, s->value, s->message->root->size) == 0,
                  "%s cut=%zu: result touched",
                  s->name,
                  cut);
        expect_little_memory(s, cut);
        free(copy);
    }
    free(before);
    trip_done(&t);
}

Test(codec, every_truncation_fails_and_leaves_the_result_alone)
{
    for_each_sample(run_truncations);
}

static void run_trailing_byte(struct sample *s)
{
    struct trip t;
    write_out(&t, s);
    wbuf_i8(&t.bytes, 0);
    uint8_t *copy = NULL;
    const enum err e = sample_decode(s, wbuf_slice(&t.bytes), &copy);
    cr_assert(eq(int, e, s->ignores_rest ? ERR_OK : ERR_CORRUPT), "%s", s->name);
    free(copy);
    trip_done(&t);
}

/* Kafka's broker does not look behind the last field of a request; some of its clients do behind
 * that of a response. Data in a classic group's protocol may be of a newer version than we know. */
Test(codec, bytes_left_over_are_ignored_in_requests_and_damage_in_responses)
{
    for_each_sample(run_trailing_byte);
}

/* Puts a huge count or length at every position, in both encodings. */
static void run_huge_counts(struct sample *s)
{
    static const uint8_t plain[] = {0x77, 0x35, 0x94, 0x00};         /* int32 2,000,000,000 */
    static const uint8_t compact[] = {0x81, 0xa8, 0xd6, 0xb9, 0x07}; /* The same, plus one. */
    struct rand random;
    rand_init_seed(&random, 3);
    sample_fill(s, &random);
    struct trip t;
    write_out(&t, s);
    for (size_t pos = 0; pos < t.bytes.size; pos++) {
        const uint8_t *huge = s->is_flexible ? compact : plain;
        const size_t size = s->is_flexible ? sizeof(compact) : sizeof(plain);
        struct wbuf changed;
        wbuf_init(&changed, MESSAGE_SIZE_MAX);
        wbuf_bytes(&changed, t.bytes.data, pos);
        wbuf_bytes(&changed, huge, size);
        wbuf_bytes(&changed, t.bytes.data + pos, t.bytes.size - pos);
        uint8_t *copy = NULL;
        (void)sample_decode(s, wbuf_slice(&changed), &copy);
        expect_little_memory(s, changed.size);
        free(copy);
        wbuf_done(&changed);
    }
    trip_done(&t);
}

Test(codec, declared_counts_do_not_take_memory)
{
    for_each_sample(run_huge_counts);
}

static void run_random_changes(struct sample *s)
{
    struct rand random;
    rand_init_seed(&random, 4);
    sample_fill(s, &random);
    struct trip t;
    write_out(&t, s);
    for (int i = 0; i < 50 && t.bytes.size > 0; i++) {
        const size_t pos = rand_below(&random, t.bytes.size);
        const uint8_t kept = t.bytes.data[pos];
        t.bytes.data[pos] = (uint8_t)rand_u64(&random);
        uint8_t *copy = NULL;
        if (sample_decode(s, wbuf_slice(&t.bytes), &copy) == ERR_OK) {
            expect_round_trip(s);
        }
        expect_little_memory(s, t.bytes.size);
        free(copy);
        t.bytes.data[pos] = kept;
    }
    trip_done(&t);
}

Test(codec, changed_bytes_fail_or_decode_to_something_consistent)
{
    for_each_sample(run_random_changes);
}

static void run_small_arena(struct sample *s)
{
    struct rand random;
    rand_init_seed(&random, 5);
    sample_fill(s, &random);
    struct trip t;
    write_out(&t, s);
    arena_done(&s->arena);
    arena_init(&s->arena, 1);
    uint8_t *copy = NULL;
    const enum err e = sample_decode(s, wbuf_slice(&t.bytes), &copy);
    cr_assert(e == ERR_TOO_LARGE || (e == ERR_OK && s->arena.used_size <= 1), "%s", s->name);
    free(copy);
    trip_done(&t);
}

Test(codec, the_arena_limit_is_an_error)
{
    for_each_sample(run_small_arena);
}

static void run_full_buffer(struct sample *s)
{
    struct rand random;
    rand_init_seed(&random, 6);
    sample_fill(s, &random);
    struct trip t;
    write_out(&t, s);
    uint8_t *memory = malloc(t.bytes.size + 1);
    for (size_t size = 0; size < t.bytes.size; size += 1 + t.bytes.size / 40) {
        struct wbuf w;
        wbuf_init_fixed(&w, memory, size);
        cr_assert(ne(int, s->message->encode(&w, s->version, s->value), ERR_OK), "%s", s->name);
    }
    free(memory);
    trip_done(&t);
}

Test(codec, a_full_buffer_is_an_error)
{
    for_each_sample(run_full_buffer);
}

Test(codec, versions_outside_of_the_range_are_unsupported)
{
    struct fetch_request request;
    fetch_request_init(&request);
    struct wbuf w;
    wbuf_init(&w, MESSAGE_SIZE_MAX);
    struct arena a;
    arena_init(&a, SAMPLE_ARENA_SIZE_MAX);
    struct rbuf body = rbuf_over("", 0);
    const int16_t versions[] = {-1, 0, FETCH_VERSION_MIN - 1, FETCH_VERSION_MAX + 1, INT16_MAX};
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        cr_assert(eq(int, fetch_request_encode(&w, versions[i], &request), ERR_UNSUPPORTED));
        cr_assert(eq(int, fetch_request_decode(&body, versions[i], &a, &request), ERR_UNSUPPORTED));
    }
    arena_done(&a);
    wbuf_done(&w);
}

static enum err encode_metadata(int16_t version, const struct metadata_request *request)
{
    struct wbuf w;
    wbuf_init(&w, MESSAGE_SIZE_MAX);
    const enum err e = metadata_request_encode(&w, version, request);
    wbuf_done(&w);
    return e;
}

/* As Kafka: a value that the version cannot carry is dropped if the definition says so or if it is
 * the default, and refused otherwise. */
Test(codec, values_of_other_versions_are_dropped_or_refused)
{
    struct metadata_request_topic topic;
    metadata_request_topic_init(&topic);
    topic.topic_id = (struct uuid){{1}};
    struct metadata_request request;
    metadata_request_init(&request);
    request.topics = &topic;
    request.topics_count = 1;
    cr_assert(eq(int, encode_metadata(9, &request), ERR_OK)); /* topic_id is ignorable. */

    request.allow_auto_topic_creation = false;
    cr_assert(eq(int, encode_metadata(3, &request), ERR_INVALID));
    cr_assert(eq(int, encode_metadata(4, &request), ERR_OK));
    request.include_cluster_authorized_operations = true;
    cr_assert(eq(int, encode_metadata(10, &request), ERR_OK));
    cr_assert(eq(int, encode_metadata(11, &request), ERR_INVALID));
}

Test(codec, null_where_it_is_not_allowed_is_refused)
{
    struct metadata_request request;
    metadata_request_init(&request);
    request.topics = NULL;
    cr_assert(eq(int, encode_metadata(1, &request), ERR_OK));

    struct metadata_request_topic topic = {.name = {0}};
    request.topics = &topic;
    request.topics_count = 1;
    cr_assert(eq(int, encode_metadata(9, &request), ERR_INVALID));
    cr_assert(eq(int, encode_metadata(10, &request), ERR_OK));
}

Test(codec, null_where_it_is_not_allowed_is_damage)
{
    static const uint8_t null_topics[] = {0xff, 0xff, 0xff, 0xff};
    static const uint8_t null_name[] = {0, 0, 0, 1, 0xff, 0xff};
    struct arena a;
    arena_init(&a, SAMPLE_ARENA_SIZE_MAX);
    struct metadata_request request;
    struct rbuf body = rbuf_over(null_topics, sizeof(null_topics));
    cr_assert(eq(int, metadata_request_decode(&body, 0, &a, &request), ERR_CORRUPT));
    body = rbuf_over(null_topics, sizeof(null_topics));
    cr_assert(eq(int, metadata_request_decode(&body, 1, &a, &request), ERR_OK));
    cr_assert(zero(ptr, request.topics));
    body = rbuf_over(null_name, sizeof(null_name));
    cr_assert(eq(int, metadata_request_decode(&body, 1, &a, &request), ERR_CORRUPT));
    arena_done(&a);
}

/* Records by reference: head and references, put together, are the copied encoding. */
Test(codec, records_can_be_left_out_and_sent_by_reference)
{
    struct fetch_response_partition partitions[3];
    for (size_t i = 0; i < 3; i++) {
        fetch_response_partition_init(&partitions[i]);
        partitions[i].partition_index = (int32_t)i;
    }
    partitions[0].records = slice_of_string("first batch");
    partitions[2].records = slice_of_string("second batch");
    struct fetch_response_topic topic;
    fetch_response_topic_init(&topic);
    topic.partitions = partitions;
    topic.partitions_count = 3;
    struct fetch_response response;
    fetch_response_init(&response);
    response.responses = &topic;
    response.responses_count = 1;

    for (int16_t v = FETCH_VERSION_MIN; v <= FETCH_VERSION_MAX; v++) {
        struct wbuf whole;
        struct wbuf head;
        struct wbuf joined;
        wbuf_init(&whole, MESSAGE_SIZE_MAX);
        wbuf_init(&head, MESSAGE_SIZE_MAX);
        wbuf_init(&joined, MESSAGE_SIZE_MAX);
        struct wire_ref places[2];
        struct wire_refs refs = {.refs = places, .refs_count_max = 2};
        cr_assert(eq(int, fetch_response_encode(&whole, v, &response), ERR_OK));
        cr_assert(eq(int, fetch_response_encode_refs(&head, &refs, v, &response), ERR_OK));
        cr_assert(eq(sz, refs.refs_count, 2));
        cr_assert(eq(sz, head.size + refs.size, whole.size));
        size_t from = 0;
        for (size_t i = 0; i < refs.refs_count; i++) {
            wbuf_bytes(&joined, head.data + from, places[i].pos - from);
            wbuf_bytes(&joined, places[i].bytes.data, places[i].bytes.size);
            from = places[i].pos;
        }
        wbuf_bytes(&joined, head.data + from, head.size - from);
        cr_assert(is_same(&whole, &joined), "v%d", v);

        struct wire_refs one = {.refs = places, .refs_count_max = 1};
        wbuf_done(&head);
        wbuf_init(&head, MESSAGE_SIZE_MAX);
        cr_assert(eq(int, fetch_response_encode_refs(&head, &one, v, &response), ERR_TOO_LARGE));
        wbuf_done(&joined);
        wbuf_done(&head);
        wbuf_done(&whole);
    }
}

/* Decoded strings and records lie in the frame; nothing is copied. */
Test(codec, decoding_is_zero_copy)
{
    struct produce_request_partition partition;
    produce_request_partition_init(&partition);
    partition.records = slice_of_string("batch");
    struct produce_request_topic topic;
    produce_request_topic_init(&topic);
    topic.name = slice_of_string("topic");
    topic.partition_data = &partition;
    topic.partition_data_count = 1;
    struct produce_request request;
    produce_request_init(&request);
    request.topic_data = &topic;
    request.topic_data_count = 1;
    struct wbuf w;
    wbuf_init(&w, MESSAGE_SIZE_MAX);
    cr_assert(eq(int, produce_request_encode(&w, 9, &request), ERR_OK));

    struct arena a;
    arena_init(&a, SAMPLE_ARENA_SIZE_MAX);
    struct produce_request read;
    struct rbuf body = rbuf_over(w.data, w.size);
    cr_assert(eq(int, produce_request_decode(&body, 9, &a, &read), ERR_OK));
    const struct slice records = read.topic_data[0].partition_data[0].records;
    cr_assert(slice_equal_string(records, "batch"));
    cr_assert(records.data > w.data && records.data < w.data + w.size);
    cr_assert(slice_is_null(read.transactional_id));
    arena_done(&a);
    wbuf_done(&w);
}

/* The consumer: records in order from whatever a broker may put into an answer. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "client/client_consumer.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/delete_records.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/fetch.h"
#include "kafka/proto/list_offsets.h"
#include "kafka/proto/metadata.h"
#include "storage/batch.h"

#include "tests/unit/client/fake_broker.h"

enum {
    WAIT_MS = 400, /* Less than a request may take: nobody gives up. */
};

static struct fake_broker broker;
static struct client *client;
static struct client_consumer *consumer;

static void setup(void)
{
    fake_broker_init(&broker);
    client = fake_broker_client(&broker);
    consumer = NULL;
}

static void teardown(void)
{
    client_consumer_free(consumer);
    consumer = NULL;
    client_free(client);
    fake_broker_done(&broker);
}

TestSuite(client_consumer, .init = setup, .fini = teardown);

/* Appends a batch of count records "<base + i>" with a header each. */
static void add_batch(struct wbuf *w, int64_t base_offset, int32_t count, enum batch_codec codec)
{
    struct batch_builder b;
    batch_builder_init(&b, 1 << 20);
    for (int32_t i = 0; i < count; i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%d", (int)base_offset + i);
        const struct record_header header = {slice_of_string("h"), slice_of_string(text)};
        const struct batch_record record = {
            .timestamp = 1000 + i,
            .value = slice_of_string(text),
            .headers = &header,
            .headers_count = 1,
        };
        cr_assert(batch_builder_add(&b, &record) == ERR_OK);
    }
    const size_t pos = w->size;
    const struct batch_identity nobody = {-1, -1, -1};
    cr_assert(batch_builder_finish(&b, codec, &nobody, w) == ERR_OK);
    batch_stamp(w->data + pos, base_offset, 1);
    batch_builder_done(&b);
}

static void answer_with(struct fetch_response_partition *p)
{
    struct fetch_response response;
    struct fetch_response_topic topic;
    fetch_response_init(&response);
    fetch_response_topic_init(&topic);
    topic.topic = slice_of_string("t");
    topic.topic_id = (struct uuid){.bytes = {7}};
    topic.partitions = p;
    topic.partitions_count = 1;
    response.responses = &topic;
    response.responses_count = 1;
    fake_broker_answer(&broker, API_FETCH, &response);
}

static void answer_partition(int32_t partition, int16_t code, int64_t end, struct slice records)
{
    struct fetch_response_partition p;
    fetch_response_partition_init(&p);
    p.partition_index = partition;
    p.error_code = code;
    p.high_watermark = end;
    p.records = records;
    answer_with(&p);
}

static void answer_aborted(struct fetch_response_aborted_transaction *aborted,
                           size_t count,
                           int64_t end,
                           struct slice records)
{
    struct fetch_response_partition p;
    fetch_response_partition_init(&p);
    p.high_watermark = end;
    p.records = records;
    p.aborted_transactions = aborted;
    p.aborted_transactions_count = count;
    answer_with(&p);
}

/* Fetching begins with the first poll. */
static void begin_fetching(void)
{
    struct client_record record;
    cr_assert(eq(int, client_consumer_next(consumer, 0, &record), ERR_TIMED_OUT));
}

static void start(int64_t offset)
{
    enum err e = client_consumer_new(client, "t", NULL, &consumer);
    cr_assert(e == ERR_OK, "%s", client_why(client));
    cr_assert(client_consumer_assign(consumer, 0, offset) == ERR_OK);
}

static void expect_record(int64_t offset)
{
    struct client_record record;
    enum err e = client_consumer_next(consumer, WAIT_MS, &record);
    cr_assert(e == ERR_OK, "offset %d: %s", (int)offset, client_why(client));
    char text[32];
    (void)snprintf(text, sizeof(text), "%d", (int)offset);
    cr_assert(eq(i64, record.offset, offset));
    cr_assert(slice_equal_string(record.value, text));
    cr_assert(slice_is_null(record.key));
    cr_assert(eq(sz, record.headers_count, 1));
    cr_assert(slice_equal_string(record.headers[0].key, "h"));
    cr_assert(slice_equal_string(record.headers[0].value, text));
}

static void expect_nothing(enum err wanted)
{
    struct client_record record;
    enum err e = client_consumer_next(consumer, WAIT_MS, &record);
    cr_assert(eq(int, e, wanted), "%s", client_why(client));
}

Test(client_consumer, records_of_all_codecs_come_in_order)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        add_batch(&w, codec * 3, 3, (enum batch_codec)codec);
    }
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_connection(&broker);
    answer_partition(0, KAFKA_NONE, 15, wbuf_slice(&w));
    wbuf_done(&w);
    start(0);
    cr_assert(not(client_consumer_is_at_end(consumer)));
    for (int64_t offset = 0; offset < 15; offset++) {
        cr_assert(not(client_consumer_is_at_end(consumer)));
        expect_record(offset);
    }
    /* With the last record in hand it is known that nothing follows: time to flush output. */
    cr_assert(not(client_consumer_has_buffered(consumer)));
    cr_assert(client_consumer_is_at_end(consumer));
}

/* Brokers send whole batches: what stands before the position is not handed out. */
Test(client_consumer, position_in_the_middle_of_a_batch)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    add_batch(&w, 10, 5, CODEC_ZSTD);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_connection(&broker);
    answer_partition(0, KAFKA_NONE, 15, wbuf_slice(&w));
    answer_partition(0, KAFKA_NONE, 15, (struct slice){0});
    wbuf_done(&w);
    start(13);
    cr_assert(eq(i64, client_consumer_position(consumer, 0), 13));
    expect_record(13);
    cr_assert(eq(i64, client_consumer_position(consumer, 0), 14));
    expect_record(14);
    expect_nothing(ERR_TIMED_OUT);
    cr_assert(eq(i64, client_consumer_position(consumer, 0), 15));
    cr_assert(eq(i64, client_consumer_position(consumer, 1), -1));
    cr_assert(client_consumer_is_at_end(consumer));
}

/* An answer that is cut anywhere in its last batch: the whole ones count, the rest comes next time.
 */
Test(client_consumer, cut_batch_is_fetched_again)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    add_batch(&w, 0, 2, CODEC_NONE);
    const size_t whole = w.size;
    add_batch(&w, 2, 2, CODEC_NONE);
    for (size_t size = whole; size < w.size; size++) {
        teardown();
        setup();
        fake_broker_connection(&broker);
        fake_broker_metadata(&broker, 1);
        fake_broker_connection(&broker);
        answer_partition(0, KAFKA_NONE, 4, slice_of(w.data, size));
        answer_partition(0, KAFKA_NONE, 4, slice_of(w.data + whole, w.size - whole));
        start(0);
        for (int64_t offset = 0; offset < 4; offset++) {
            expect_record(offset);
        }
    }
    wbuf_done(&w);
}

/* No byte of a batch may change unseen, but those that the CRC leaves out. */
Test(client_consumer, damaged_batch_is_an_error)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    add_batch(&w, 0, 2, CODEC_NONE);
    for (size_t at = BATCH_HEAD_SIZE; at < w.size; at++) {
        teardown();
        setup();
        fake_broker_connection(&broker);
        fake_broker_metadata(&broker, 1);
        w.data[at] ^= 0x40;
        fake_broker_connection(&broker);
        answer_partition(0, KAFKA_NONE, 2, wbuf_slice(&w));
        w.data[at] ^= 0x40;
        start(0);
        expect_nothing(ERR_CORRUPT);
        cr_assert(strstr(client_why(client), "t[0] holds a damaged batch at offset 0") != NULL);
    }
    wbuf_done(&w);
}

/* The base offset is outside of the CRC: anything may stand there. */
Test(client_consumer, absurd_base_offset_is_an_error)
{
    static const int64_t bases[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX - 1};
    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        teardown();
        setup();
        struct wbuf w;
        wbuf_init(&w, 1 << 20);
        add_batch(&w, 0, 2, CODEC_NONE);
        batch_stamp(w.data, bases[i], 1);
        fake_broker_connection(&broker);
        fake_broker_metadata(&broker, 1);
        fake_broker_connection(&broker);
        answer_partition(0, KAFKA_NONE, 2, wbuf_slice(&w));
        wbuf_done(&w);
        start(0);
        expect_nothing(ERR_CORRUPT);
    }
}

/* Where a record of a batch of add_batch starts, up to ten of which are not compressed. */
static uint8_t *record_at(uint8_t *batch, int32_t index)
{
    uint8_t *record = batch + BATCH_HEADER_SIZE;
    for (int32_t i = 0; i < index; i++) {
        record += (*record >> 1) + 1; /* A small varint is twice its value. */
    }
    return record;
}

/* Damage in the middle of a batch, under a CRC that matches: the records before it come, and then
 * it is told. None is passed over. */
Test(client_consumer, a_damaged_record_is_not_passed_over)
{
    static const size_t places[] = {3 /* The offset. */, 8 /* The size of a header's key. */};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        teardown();
        setup();
        struct wbuf w;
        struct batch_header h;
        wbuf_init(&w, 1 << 20);
        add_batch(&w, 0, 5, CODEC_NONE);
        record_at(w.data, 2)[places[i]] = 0x7e;
        cr_assert(batch_header_decode(wbuf_slice(&w), &h) == ERR_OK);
        batch_header_encode(&h, batch_records_part(wbuf_slice(&w)), w.data);
        fake_broker_connection(&broker);
        fake_broker_metadata(&broker, 1);
        fake_broker_connection(&broker);
        answer_partition(0, KAFKA_NONE, 5, wbuf_slice(&w));
        wbuf_done(&w);
        start(0);
        expect_record(0);
        expect_record(1);
        expect_nothing(ERR_CORRUPT);
        cr_assert(strstr(client_why(client), "at offset 2") != NULL, "%s", client_why(client));
        expect_nothing(ERR_TIMED_OUT);
    }
}

/* Markers of transactions take offsets, but are nobody's records. */
Test(client_consumer, control_batch_is_passed_over)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    add_batch(&w, 0, 1, CODEC_NONE);
    struct batch_header header;
    cr_assert(batch_header_decode(wbuf_slice(&w), &header) == ERR_OK);
    header.attributes |= BATCH_CONTROL;
    uint8_t encoded[BATCH_HEADER_SIZE];
    batch_header_encode(
        &header, slice_of(w.data + BATCH_HEADER_SIZE, w.size - BATCH_HEADER_SIZE), encoded);
    memcpy(w.data, encoded, sizeof(encoded));
    add_batch(&w, 1, 1, CODEC_NONE);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_connection(&broker);
    answer_partition(0, KAFKA_NONE, 2, wbuf_slice(&w));
    wbuf_done(&w);
    start(0);
    expect_record(1);
    cr_assert(eq(i64, client_consumer_position(consumer, 0), 2));
}

Test(client_consumer, offset_outside_of_the_log_is_final)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_connection(&broker);
    answer_partition(0, KAFKA_OFFSET_OUT_OF_RANGE, -1, (struct slice){0});
    start(99);
    expect_nothing(ERR_OUT_OF_RANGE);
    cr_assert(strstr(client_why(client), "t[0] at offset 99") != NULL, "%s", client_why(client));
}

Test(client_consumer, retriable_error_is_asked_again)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    add_batch(&w, 0, 1, CODEC_NONE);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_connection(&broker);
    answer_partition(0, KAFKA_NOT_LEADER_OR_FOLLOWER, -1, (struct slice){0});
    fake_broker_continue(&broker, 0);
    fake_broker_metadata(&broker, 1);
    fake_broker_continue(&broker, 1);
    answer_partition(0, KAFKA_NONE, 1, wbuf_slice(&w));
    wbuf_done(&w);
    start(0);
    struct client_record record;
    cr_assert(eq(int, client_consumer_next(consumer, 5000, &record), ERR_OK));
}

Test(client_consumer, broken_connection_is_opened_again)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    add_batch(&w, 0, 1, CODEC_NONE);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_metadata(&broker, 1);
    fake_broker_connection(&broker);
    fake_broker_hang_up(&broker);
    fake_broker_connection(&broker);
    answer_partition(0, KAFKA_NONE, 1, wbuf_slice(&w));
    wbuf_done(&w);
    start(0);
    struct client_record record;
    cr_assert(
        eq(int, client_consumer_next(consumer, 5000, &record), ERR_OK), "%s", client_why(client));
}

Test(client_consumer, request_names_position_and_topic)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_connection(&broker);
    answer_partition(0, KAFKA_NONE, 5, (struct slice){0});
    start(5);
    expect_nothing(ERR_TIMED_OUT);
    char memory[256];
    struct fetch_request request;
    struct metadata_request metadata;
    cr_assert(fake_broker_request(&broker, 0, API_API_VERSIONS, memory));
    cr_assert(fake_broker_request(&broker, 0, API_METADATA, &metadata));
    cr_assert(fake_broker_request(&broker, 1, API_API_VERSIONS, memory));
    cr_assert(fake_broker_request(&broker, 1, API_FETCH, &request));
    cr_assert(eq(i64, request.topics[0].partitions[0].fetch_offset, 5));
    cr_assert(eq(int, request.topics[0].topic_id.bytes[0], 7));
    cr_assert(eq(int, request.session_epoch, -1));
}

/* The topic is asked about while nothing is connected, and then its consumer goes. */
Test(client_consumer, a_question_outlives_who_asked)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_end(&broker);
    fake_broker_bare_connection(&broker);
    fake_broker_hold(&broker);
    fake_broker_versions(&broker);
    fake_broker_metadata(&broker, 1);
    start(0);
    fake_broker_run(&broker, client);
    client_lock(client);
    client_topic_want(client, &consumer->topic);
    client_unlock(client);
    fake_broker_run(&broker, client);
    client_consumer_free(consumer);
    consumer = NULL;
    fake_broker_release(&broker, 1);
    fake_broker_run(&broker, client);
    struct metadata_request request;
    fake_broker_skip(&broker, 1, API_API_VERSIONS);
    cr_assert(fake_broker_request(&broker, 1, API_METADATA, &request));
    cr_assert(eq(sz, request.topics_count, 1));
    cr_assert(slice_equal_string(request.topics[0].name, "t"));
}

Test(client_consumer, wrong_assignments_are_refused)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    start(0);
    cr_assert(eq(int, client_consumer_assign(consumer, 1, 0), ERR_INVALID));
    cr_assert(eq(int, client_consumer_assign(consumer, -1, 0), ERR_INVALID));
    cr_assert(eq(int, client_consumer_assign(consumer, 0, 0), ERR_INVALID));
}

/* ---- positions moved ---- */

static void script_opening(int32_t partitions_count)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, partitions_count);
    fake_broker_connection(&broker);
}

static void answer_batch(int32_t partition, int64_t base_offset, int32_t count, int64_t end)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    add_batch(&w, base_offset, count, CODEC_LZ4);
    answer_partition(partition, KAFKA_NONE, end, wbuf_slice(&w));
    wbuf_done(&w);
}

/* The offset that the next fetch on a connection asks of a partition; -1: does not ask. */
static int64_t fetched_offset(size_t connection, int32_t partition)
{
    struct fetch_request request;
    cr_assert(fake_broker_request(&broker, connection, API_FETCH, &request));
    for (size_t i = 0; i < request.topics[0].partitions_count; i++) {
        if (request.topics[0].partitions[i].partition == partition) {
            return request.topics[0].partitions[i].fetch_offset;
        }
    }
    return -1;
}

/* Positions that are set one after the other are asked about together. */
Test(client_consumer, all_assigned_partitions_share_the_first_fetch)
{
    script_opening(3);
    fake_broker_hold(&broker);
    start(0);
    fake_broker_run(&broker, client);
    cr_assert(eq(int, client_consumer_assign(consumer, 1, 5), ERR_OK));
    fake_broker_run(&broker, client);
    cr_assert(eq(sz, broker.dialled_count, 1));
    begin_fetching();
    fake_broker_run(&broker, client);
    fake_broker_skip(&broker, 1, API_API_VERSIONS);
    cr_assert(eq(i64, fetched_offset(1, 1), 5));
}

/* What was read ahead is read ahead no more, and an answer that comes late is nobody's. */
Test(client_consumer, seek_drops_what_was_read_ahead)
{
    script_opening(1);
    answer_batch(0, 0, 3, 100);
    answer_batch(0, 3, 3, 100);
    answer_batch(0, 6, 3, 100);
    answer_batch(0, 50, 3, 100);
    broker.connections[1].steps[3].delay_us = 10000;
    start(0);
    expect_record(0);
    fake_broker_run(&broker, client); /* The second answer is here, the third on its way. */
    cr_assert(eq(int, client_consumer_seek(consumer, 0, 50), ERR_OK));
    cr_assert(eq(i64, client_consumer_position(consumer, 0), 50));
    cr_assert(not(client_consumer_has_buffered(consumer)));
    expect_record(50);
    expect_record(51);
    cr_assert(eq(int, client_consumer_seek(consumer, 7, 0), ERR_INVALID));
    cr_assert(eq(int, client_consumer_seek(consumer, 0, -3), ERR_INVALID));
}

Test(client_consumer, an_answer_to_a_position_that_moved_is_dropped)
{
    script_opening(1);
    fake_broker_hold(&broker);
    answer_batch(0, 0, 3, 100);
    answer_batch(0, 50, 3, 100);
    start(0);
    begin_fetching();
    fake_broker_run(&broker, client);
    cr_assert(eq(int, client_consumer_seek(consumer, 0, 50), ERR_OK));
    fake_broker_release(&broker, 1);
    expect_record(50);
}

Test(client_consumer, paused_partitions_are_neither_fetched_nor_handed_out)
{
    script_opening(2);
    answer_batch(1, 0, 2, 2);
    answer_partition(1, KAFKA_NONE, 2, (struct slice){0});
    broker.connections[1].steps[2].delay_us = 100000;
    answer_batch(0, 0, 2, 2);
    start(0);
    cr_assert(eq(int, client_consumer_assign(consumer, 1, 0), ERR_OK));
    cr_assert(eq(int, client_consumer_pause(consumer, 0), ERR_OK));
    struct client_record record;
    cr_assert(eq(int, client_consumer_pause(consumer, 2), ERR_INVALID));
    begin_fetching();
    fake_broker_pass(&broker, client, 1000);
    cr_assert(eq(int, client_consumer_resume(consumer, 0), ERR_OK));
    cr_assert(eq(int, client_consumer_pause(consumer, 1), ERR_OK));
    fake_broker_pass(&broker, client, 200000);
    for (int i = 0; i < 2; i++) {
        cr_assert(eq(int, client_consumer_next(consumer, WAIT_MS, &record), ERR_OK));
        cr_assert(eq(int, record.partition, 0));
    }
    cr_assert(client_consumer_is_at_end(consumer)); /* Of what is not paused. */
}

/* In the middle of a batch: the rest comes after the pause, and nothing twice. */
Test(client_consumer, pause_within_a_batch)
{
    script_opening(1);
    answer_batch(0, 0, 4, 4);
    answer_partition(0, KAFKA_NONE, 4, (struct slice){0});
    answer_batch(0, 0, 4, 4);
    start(0);
    expect_record(0);
    cr_assert(eq(int, client_consumer_pause(consumer, 0), ERR_OK));
    cr_assert(eq(i64, client_consumer_position(consumer, 0), 1));
    expect_nothing(ERR_TIMED_OUT);
    cr_assert(eq(int, client_consumer_resume(consumer, 0), ERR_OK));
    expect_record(1);
    expect_record(2);
    expect_record(3);
}

/* What was read ahead of a paused partition takes no room that another needs, and comes again. */
Test(client_consumer, a_paused_partition_leaves_its_room)
{
    const struct client_consumer_options options = {.buffer_size = 1};
    script_opening(2);
    answer_batch(0, 0, 2, 2);
    answer_batch(1, 0, 2, 2);
    answer_batch(0, 0, 2, 2);
    cr_assert(client_consumer_new(client, "t", &options, &consumer) == ERR_OK);
    cr_assert(client_consumer_assign(consumer, 0, 0) == ERR_OK);
    begin_fetching();
    fake_broker_run(&broker, client);
    cr_assert(client_consumer_has_buffered(consumer));
    cr_assert(client_consumer_assign(consumer, 1, 0) == ERR_OK);
    cr_assert(eq(int, client_consumer_pause(consumer, 0), ERR_OK));
    struct client_record record;
    for (int i = 0; i < 2; i++) {
        cr_assert(eq(int, client_consumer_next(consumer, WAIT_MS, &record), ERR_OK));
        cr_assert(eq(int, record.partition, 1));
    }
    cr_assert(eq(i64, client_consumer_end(consumer, 0), 2));
    cr_assert(eq(int, client_consumer_resume(consumer, 0), ERR_OK));
    expect_record(0);
    expect_record(1);
}

/* With a fetch on its way: what it brings is dropped. */
Test(client_consumer, a_pause_takes_a_fetch_back)
{
    script_opening(1);
    fake_broker_hold(&broker);
    answer_batch(0, 0, 2, 2);
    start(0);
    begin_fetching();
    fake_broker_run(&broker, client);
    cr_assert(eq(int, client_consumer_pause(consumer, 0), ERR_OK));
    fake_broker_release(&broker, 1);
    fake_broker_run(&broker, client);
    client_lock(client);
    cr_assert(eq(sz, consumer->buffered_size, 0));
    client_unlock(client);
}

Test(client_consumer, unassigned_partitions_may_be_assigned_again)
{
    script_opening(1);
    answer_batch(0, 0, 4, 4);
    answer_partition(0, KAFKA_NONE, 4, (struct slice){0});
    answer_batch(0, 2, 2, 4);
    start(0);
    expect_record(0);
    cr_assert(eq(int, client_consumer_unassign(consumer, 0), ERR_OK));
    cr_assert(eq(i64, client_consumer_position(consumer, 0), -1));
    cr_assert(eq(int, client_consumer_assign(consumer, 0, 2), ERR_OK));
    expect_record(2);
}

/* Records of a poll come together, and stay until the next one. */
Test(client_consumer, poll_hands_out_a_batch)
{
    script_opening(1);
    answer_batch(0, 0, 3, 5);
    answer_batch(0, 3, 2, 5);
    start(0);
    const struct client_record *records = NULL;
    size_t count = 0;
    cr_assert(eq(int, client_consumer_poll(consumer, WAIT_MS, &records, &count), ERR_OK));
    cr_assert(eq(sz, count, 3));
    fake_broker_run(&broker, client); /* Reads ahead. */
    for (size_t i = 0; i < count; i++) {
        cr_assert(eq(i64, records[i].offset, (int64_t)i));
        cr_assert(slice_equal_string(records[i].headers[0].key, "h"));
    }
    cr_assert(eq(i64, client_consumer_position(consumer, 0), 3));
    cr_assert(eq(i64, client_consumer_end(consumer, 0), 5));
    expect_record(3);
    cr_assert(eq(int, client_consumer_poll(consumer, WAIT_MS, &records, &count), ERR_OK));
    cr_assert(eq(sz, count, 1)); /* The rest of the batch. */
    cr_assert(client_consumer_is_at_end(consumer));
}

/* Nothing is asked while there is enough: until the program has taken it. */
Test(client_consumer, reading_ahead_has_a_bound)
{
    const struct client_consumer_options options = {.partition_size_max = 1};
    script_opening(1);
    answer_batch(0, 0, 2, 100);
    answer_batch(0, 2, 2, 100);
    cr_assert(client_consumer_new(client, "t", &options, &consumer) == ERR_OK);
    cr_assert(client_consumer_assign(consumer, 0, 0) == ERR_OK);
    begin_fetching();
    fake_broker_pass(&broker, client, 200000);
    cr_assert(eq(sz, fake_broker_requests_count(&broker, 1), 2));
    expect_record(0);
    fake_broker_pass(&broker, client, 200000);
    cr_assert(eq(sz, fake_broker_requests_count(&broker, 1), 3));
    expect_record(1);
    expect_record(2);
}

/* ---- read committed ---- */

/* A batch of a transaction: one record, or a marker of this type. */
static void add_transactional(struct wbuf *w, int64_t offset, int64_t producer_id, int marker)
{
    const uint8_t key[] = {0, 0, 0, (uint8_t)marker};
    struct batch_builder b;
    batch_builder_init(&b, 1 << 20);
    const struct batch_record record = {
        .timestamp = 1,
        .key = marker >= 0 ? slice_of(key, sizeof(key)) : (struct slice){0},
        .value = slice_of_string("v"),
    };
    cr_assert(batch_builder_add(&b, &record) == ERR_OK);
    const size_t pos = w->size;
    const struct batch_identity identity = {producer_id, 0, 0};
    cr_assert(batch_builder_finish(&b, CODEC_NONE, &identity, w) == ERR_OK);
    struct batch_header h;
    const struct slice batch = slice_of(w->data + pos, w->size - pos);
    cr_assert(batch_header_decode(batch, &h) == ERR_OK);
    h.attributes |= (int16_t)(BATCH_TRANSACTIONAL | (marker >= 0 ? BATCH_CONTROL : 0));
    uint8_t encoded[BATCH_HEADER_SIZE];
    batch_header_encode(&h, batch_records_part(batch), encoded);
    memcpy(w->data + pos, encoded, sizeof(encoded));
    batch_stamp(w->data + pos, offset, 1);
    batch_builder_done(&b);
}

enum {
    RECORD = -1,
    ABORT = 0,
    COMMIT = 1,
};

/* Open transactions are not waited for: who reads what is committed is at the end before them. */
Test(client_consumer, the_end_of_what_is_committed)
{
    const struct client_consumer_options options = {.is_read_committed = true};
    script_opening(1);
    struct wbuf w;
    struct fetch_response_partition p;
    wbuf_init(&w, 1 << 20);
    add_batch(&w, 0, 2, CODEC_NONE);
    fetch_response_partition_init(&p);
    p.high_watermark = 10;
    p.last_stable_offset = 2;
    p.records = wbuf_slice(&w);
    answer_with(&p);
    wbuf_done(&w);
    cr_assert(client_consumer_new(client, "t", &options, &consumer) == ERR_OK);
    cr_assert(client_consumer_assign(consumer, 0, 0) == ERR_OK);
    expect_record(0);
    expect_record(1);
    cr_assert(eq(i64, client_consumer_end(consumer, 0), 2));
    cr_assert(client_consumer_is_at_end(consumer));
}

/* Two producers in turn; what the one aborted is left out, what it commits later is not. */
Test(client_consumer, aborted_transactions_are_passed_over)
{
    static const struct {
        int64_t producer_id;
        int marker;
    } log[] = {{7, RECORD}, {8, RECORD}, {7, ABORT}, {8, COMMIT}, {7, RECORD}, {7, COMMIT}};
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    for (size_t i = 0; i < 6; i++) {
        add_transactional(&w, (int64_t)i, log[i].producer_id, log[i].marker);
    }
    struct fetch_response_aborted_transaction aborted;
    fetch_response_aborted_transaction_init(&aborted);
    aborted.producer_id = 7;
    aborted.first_offset = 0;
    script_opening(1);
    answer_aborted(&aborted, 1, 6, wbuf_slice(&w));
    wbuf_done(&w);
    const struct client_consumer_options options = {.is_read_committed = true};
    cr_assert(client_consumer_new(client, "t", &options, &consumer) == ERR_OK);
    cr_assert(client_consumer_assign(consumer, 0, 0) == ERR_OK);
    static const int64_t wanted[] = {1, 4};
    for (size_t i = 0; i < 2; i++) {
        struct client_record record;
        cr_assert(eq(int, client_consumer_next(consumer, WAIT_MS, &record), ERR_OK));
        cr_assert(eq(i64, record.offset, wanted[i]));
    }
    expect_nothing(ERR_TIMED_OUT);
    cr_assert(client_consumer_is_at_end(consumer));
}

/* ---- offsets by time ---- */

static void answer_offsets(const int16_t *codes, size_t count)
{
    struct list_offsets_response response;
    struct list_offsets_response_topic topic;
    struct list_offsets_response_partition partitions[FAKE_PARTITIONS_MAX];
    list_offsets_response_init(&response);
    list_offsets_response_topic_init(&topic);
    topic.name = slice_of_string("t");
    topic.partitions = partitions;
    topic.partitions_count = count;
    for (size_t i = 0; i < count; i++) {
        list_offsets_response_partition_init(&partitions[i]);
        partitions[i].partition_index = (int32_t)i;
        partitions[i].error_code = codes[i];
        partitions[i].offset = codes[i] == KAFKA_NONE ? (int64_t)i * 10 : -1;
    }
    response.topics = &topic;
    response.topics_count = 1;
    fake_broker_answer(&broker, API_LIST_OFFSETS, &response);
}

static void answer_start(int64_t offset)
{
    struct list_offsets_response response;
    struct list_offsets_response_topic topic;
    struct list_offsets_response_partition partition;
    list_offsets_response_init(&response);
    list_offsets_response_topic_init(&topic);
    list_offsets_response_partition_init(&partition);
    topic.name = slice_of_string("t");
    topic.partitions = &partition;
    topic.partitions_count = 1;
    partition.offset = offset;
    response.topics = &topic;
    response.topics_count = 1;
    fake_broker_answer(&broker, API_LIST_OFFSETS, &response);
}

static int64_t asked_time(size_t connection)
{
    struct list_offsets_request request;
    cr_assert(fake_broker_request(&broker, connection, API_LIST_OFFSETS, &request));
    return request.topics[0].partitions[0].timestamp;
}

/* By name and by time; a time that no record is as young as is the end. */
Test(client_consumer, positions_start_where_they_are_told_to)
{
    static const struct {
        int64_t question;
        bool is_time;
        int64_t found;
    } rows[] = {{CLIENT_OFFSET_START, false, 7},
                {CLIENT_OFFSET_END, false, 7},
                {1234, true, 7},
                {1234, true, -1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        teardown();
        setup();
        fake_broker_connection(&broker);
        fake_broker_metadata(&broker, 1);
        answer_start(rows[i].found);
        if (rows[i].found < 0) {
            answer_start(7);
        }
        fake_broker_connection(&broker);
        answer_batch(0, 7, 1, 8);
        cr_assert(client_consumer_new(client, "t", NULL, &consumer) == ERR_OK);
        enum err e = rows[i].is_time ? client_consumer_assign_time(consumer, 0, rows[i].question)
                                     : client_consumer_assign(consumer, 0, rows[i].question);
        cr_assert(eq(int, e, ERR_OK));
        expect_record(7);
        fake_broker_skip(&broker, 0, API_API_VERSIONS);
        fake_broker_skip(&broker, 0, API_METADATA);
        cr_assert(eq(i64, asked_time(0), rows[i].question));
        if (rows[i].found < 0) {
            cr_assert(eq(i64, asked_time(0), CLIENT_OFFSET_END));
        }
        fake_broker_skip(&broker, 1, API_API_VERSIONS);
        cr_assert(eq(i64, fetched_offset(1, 0), 7));
    }
}

/* The log was cut off behind us: on where the options say, and what was read before stays good. */
Test(client_consumer, out_of_range_goes_on_if_told_to)
{
    static const enum client_reset resets[] = {CLIENT_RESET_START, CLIENT_RESET_END};
    for (size_t i = 0; i < 2; i++) {
        teardown();
        setup();
        fake_broker_connection(&broker);
        fake_broker_metadata(&broker, 1);
        answer_start(3);
        fake_broker_connection(&broker);
        answer_batch(0, 90, 2, 92);
        answer_partition(0, KAFKA_OFFSET_OUT_OF_RANGE, -1, (struct slice){0});
        answer_batch(0, 3, 2, 5);
        const struct client_consumer_options options = {.reset = resets[i]};
        cr_assert(client_consumer_new(client, "t", &options, &consumer) == ERR_OK);
        cr_assert(client_consumer_assign(consumer, 0, 90) == ERR_OK);
        begin_fetching();
        fake_broker_run(&broker, client);
        expect_record(90);
        expect_record(91);
        expect_record(3);
        expect_record(4);
        fake_broker_skip(&broker, 0, API_API_VERSIONS);
        fake_broker_skip(&broker, 0, API_METADATA);
        const int64_t wanted = i == 0 ? CLIENT_OFFSET_START : CLIENT_OFFSET_END;
        cr_assert(eq(i64, asked_time(0), wanted));
    }
}

/* One partition's trouble is told once, with its name, and stops nobody else. */
Test(client_consumer, an_error_is_about_one_partition)
{
    script_opening(2);
    answer_partition(0, KAFKA_OFFSET_OUT_OF_RANGE, -1, (struct slice){0});
    answer_batch(1, 0, 2, 2);
    start(99);
    begin_fetching();
    fake_broker_run(&broker, client);
    cr_assert(eq(int, client_consumer_assign(consumer, 1, 0), ERR_OK));
    expect_nothing(ERR_OUT_OF_RANGE);
    cr_assert(eq(int, client_consumer_failed_partition(consumer), 0));
    struct client_record record;
    cr_assert(eq(int, client_consumer_next(consumer, WAIT_MS, &record), ERR_OK));
    cr_assert(eq(int, record.partition, 1));
    cr_assert(eq(int, client_consumer_failed_partition(consumer), -1));
}

Test(client_consumer, offsets_are_found_and_what_is_missing_asked_again)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 2);
    answer_offsets((int16_t[]){KAFKA_NONE, KAFKA_OFFSET_NOT_AVAILABLE}, 2);
    fake_broker_metadata(&broker, 2);
    answer_offsets((int16_t[]){KAFKA_NONE, KAFKA_NONE}, 2);
    struct client_offset offsets[] = {{0, CLIENT_OFFSET_END, -1}, {1, 1234, -1}};
    enum err e = client_find_offsets(client, "t", offsets, 2);
    cr_assert(eq(int, e, ERR_OK), "%s", client_why(client));
    cr_assert(eq(i64, offsets[0].offset, 0));
    cr_assert(eq(i64, offsets[1].offset, 10));
}

/* What a leader says twice of its disk is believed, long before the time is up. */
Test(client_consumer, a_damaged_partition_hides_no_offset_of_another)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 3);
    answer_offsets((int16_t[]){KAFKA_NONE, KAFKA_KAFKA_STORAGE_ERROR, KAFKA_NONE}, 3);
    fake_broker_metadata(&broker, 3);
    answer_offsets((int16_t[]){KAFKA_NONE, KAFKA_KAFKA_STORAGE_ERROR, KAFKA_NONE}, 3);
    struct client_offset offsets[] = {{0, 7, -1}, {1, 7, -1}, {2, 7, -1}};
    cr_assert(eq(int, client_find_offsets(client, "t", offsets, 3), ERR_FAILED));
    cr_assert(ne(ptr, strstr(client_why(client), "t[1]"), NULL), "%s", client_why(client));
    for (int i = 0; i < 3; i++) {
        const int64_t offset = i == 1 ? -1 : i * 10;
        cr_assert(eq(int, offsets[i].err, i == 1 ? ERR_FAILED : ERR_OK));
        cr_assert(eq(i64, offsets[i].offset, offset));
    }
}

/* A refusal is about one partition: the others are asked for until they answer. */
Test(client_consumer, a_refused_offset_does_not_end_the_search)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 2);
    answer_offsets((int16_t[]){KAFKA_TOPIC_AUTHORIZATION_FAILED, KAFKA_OFFSET_NOT_AVAILABLE}, 2);
    fake_broker_metadata(&broker, 2);
    answer_offsets((int16_t[]){KAFKA_NONE, KAFKA_NONE}, 2);
    struct client_offset offsets[] = {{0, CLIENT_OFFSET_END, -1}, {1, CLIENT_OFFSET_END, -1}};
    cr_assert(eq(int, client_find_offsets(client, "t", offsets, 2), ERR_FAILED));
    cr_assert(ne(ptr, strstr(client_why(client), "denied"), NULL), "%s", client_why(client));
    cr_assert(eq(int, offsets[0].err, ERR_FAILED));
    cr_assert(eq(i64, offsets[1].offset, 10));
}

Test(client_consumer, offsets_of_unknown_partition_change_nothing)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    struct client_offset offsets[] = {{3, CLIENT_OFFSET_END, 77}};
    cr_assert(eq(int, client_find_offsets(client, "t", offsets, 1), ERR_INVALID));
    cr_assert(eq(i64, offsets[0].offset, 77));
}

/* ---- records deleted ---- */

static void answer_deletions(const int16_t *codes, size_t count)
{
    struct delete_records_response response;
    struct delete_records_response_topic topic;
    struct delete_records_response_partition partitions[FAKE_PARTITIONS_MAX];
    delete_records_response_init(&response);
    delete_records_response_topic_init(&topic);
    topic.name = slice_of_string("t");
    topic.partitions = partitions;
    topic.partitions_count = count;
    for (size_t i = 0; i < count; i++) {
        delete_records_response_partition_init(&partitions[i]);
        partitions[i].partition_index = (int32_t)i;
        partitions[i].error_code = codes[i];
        partitions[i].low_watermark = codes[i] == KAFKA_NONE ? 5 : -1;
    }
    response.topics = &topic;
    response.topics_count = 1;
    fake_broker_answer(&broker, API_DELETE_RECORDS, &response);
}

Test(client_consumer, after_a_refused_deletion_it_is_known_which_were_done)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 3);
    answer_deletions((int16_t[]){KAFKA_NONE, KAFKA_OFFSET_OUT_OF_RANGE, KAFKA_NONE}, 3);
    struct client_deletion deletions[] = {{0, 5, 77}, {1, 9, 77}, {2, CLIENT_OFFSET_END, 77}};
    cr_assert(eq(int, client_delete_records(client, "t", deletions, 3), ERR_OUT_OF_RANGE));
    cr_assert(ne(ptr, strstr(client_why(client), "t[1]"), NULL), "%s", client_why(client));
    cr_assert(eq(i64, deletions[0].start, 5));
    cr_assert(eq(i64, deletions[1].start, -1));
    cr_assert(eq(i64, deletions[2].start, 5));
}

Test(client_consumer, a_deletion_is_asked_again_of_a_new_leader)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_deletions((int16_t[]){KAFKA_NOT_LEADER_OR_FOLLOWER}, 1);
    fake_broker_metadata(&broker, 1);
    answer_deletions((int16_t[]){KAFKA_NONE}, 1);
    struct client_deletion deletions[] = {{0, 5, -1}};
    enum err e = client_delete_records(client, "t", deletions, 1);
    cr_assert(eq(int, e, ERR_OK), "%s", client_why(client));
    cr_assert(eq(i64, deletions[0].start, 5));
}

/* Positions are kept in order, however they come and go. */
Test(client_consumer, positions_are_found_whatever_the_order)
{
    static const int32_t order[] = {3, 0, 4, 1, 2};
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 5);
    enum err e = client_consumer_new(client, "t", NULL, &consumer);
    cr_assert(e == ERR_OK, "%s", client_why(client));
    for (size_t i = 0; i < 5; i++) {
        cr_assert(eq(int, client_consumer_assign(consumer, order[i], 10 * order[i]), ERR_OK));
    }
    for (int32_t partition = 0; partition < 5; partition++) {
        cr_assert(eq(i64, client_consumer_position(consumer, partition), 10 * partition));
        cr_assert(eq(int, client_consumer_assign(consumer, partition, 0), ERR_INVALID));
    }
    cr_assert(eq(int, client_consumer_unassign(consumer, 1), ERR_OK));
    cr_assert(eq(i64, client_consumer_position(consumer, 1), -1));
    cr_assert(eq(i64, client_consumer_position(consumer, 0), 0));
    cr_assert(eq(i64, client_consumer_position(consumer, 2), 20));
    cr_assert(eq(int, client_consumer_assign(consumer, 1, 7), ERR_OK));
    cr_assert(eq(i64, client_consumer_position(consumer, 1), 7));
    cr_assert(eq(i64, client_consumer_position(consumer, 4), 40));
}

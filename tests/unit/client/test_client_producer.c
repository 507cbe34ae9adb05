/* The producer: what goes out for what comes in, and what it does with every kind of answer. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "client/client.h"
#include "client/partitioner.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/init_producer_id.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/produce.h"
#include "storage/batch.h"

#include "tests/unit/client/fake_broker.h"
#include "tests/unit/client/produce_rig.h"

enum {
    PRODUCER_ID = 4711,
    PRODUCER_EPOCH = 3,
    FOREVER = 1000000,
};

static struct fake_broker broker;
static struct client *client;
static struct client_producer *producer;

static void setup(void)
{
    fake_broker_init(&broker);
    client = fake_broker_client(&broker);
    producer = NULL;
}

static void teardown(void)
{
    client_producer_free(producer);
    client_free(client);
    fake_broker_done(&broker);
    producer = NULL;
}

TestSuite(client_producer, .init = setup, .fini = teardown);

/* ---- the script ---- */

static void answer_produce(const struct produce_outcome *outcomes, size_t count)
{
    produce_rig_answer(&broker, outcomes, count);
}

static void answer_one(int16_t code)
{
    answer_produce(&(struct produce_outcome){0, code}, 1);
}

static void answer_producer_id(void)
{
    produce_rig_answer_id(&broker, PRODUCER_ID, PRODUCER_EPOCH);
}

/* ---- the client ---- */

static void start(const struct client_producer_options *options)
{
    enum err e = client_producer_new(client, "t", options, &producer);
    cr_assert(e == ERR_OK, "%s", client_why(client));
}

/* Nothing is old: only full batches and flush send. */
static const struct client_producer_options patient = {.linger_ms = 1000000};
static const struct client_producer_options idempotent = {
    .linger_ms = 1000000,
    .is_idempotent = true,
};

static enum err send_text(int32_t partition, const char *key, const char *value)
{
    return client_producer_send(producer,
                                &(struct client_message){
                                    .partition = partition,
                                    .key = slice_of_string(key),
                                    .value = slice_of_string(value),
                                });
}

static void expect_stats(uint64_t acked, uint64_t failed)
{
    struct client_producer_stats stats;
    client_producer_stats(producer, &stats);
    cr_assert(eq(u64, stats.acked_count, acked));
    cr_assert(eq(u64, stats.failed_count, failed));
}

/* ---- what went out ---- */

static struct slice next_batch(size_t connection, struct batch_header *ret_header)
{
    return produce_rig_batch(&broker, connection, ret_header);
}

static void skip_versions(size_t connection)
{
    fake_broker_skip(&broker, connection, API_API_VERSIONS);
}

static void skip_metadata(size_t connection)
{
    fake_broker_skip(&broker, connection, API_METADATA);
}

Test(client_producer, records_of_a_partition_share_a_batch)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_NONE);
    start(&patient);
    cr_assert(eq(int, send_text(-1, "k", "first"), ERR_OK));
    cr_assert(eq(int, send_text(-1, NULL, "second"), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK), "%s", client_why(client));
    expect_stats(2, 0);

    skip_versions(0);
    skip_metadata(0);
    struct batch_header header;
    const struct slice batch = next_batch(0, &header);
    cr_assert(eq(int, header.records_count, 2));
    cr_assert(eq(i64, header.producer_id, -1));
    cr_assert(eq(int, header.base_sequence, -1));
    struct record_cursor cursor;
    record_cursor_init(
        &cursor, &header, slice_of(batch.data + BATCH_HEADER_SIZE, batch.size - BATCH_HEADER_SIZE));
    struct record record;
    cr_assert(record_next(&cursor, &record) == ERR_OK);
    cr_assert(slice_equal_string(record.key, "k"));
    cr_assert(slice_equal_string(record.value, "first"));
    cr_assert(eq(i64, record.timestamp, clock_wall_ms(&broker.clock.clock)));
    cr_assert(record_next(&cursor, &record) == ERR_OK);
    cr_assert(slice_is_null(record.key));
}

/* 0 is now, unless it is meant: a copy of a record of 1970, or of one without a time, is one too.
 */
Test(client_producer, timestamps_are_taken_as_they_are)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_NONE);
    start(&patient);
    const int64_t now_ms = clock_wall_ms(&broker.clock.clock);
    const struct {
        int64_t timestamp;
        bool has_timestamp;
        int64_t wanted;
    } rows[] = {{0, false, now_ms}, {0, true, 0}, {-1, true, -1}, {77, false, 77}, {77, true, 77}};
    const size_t count = sizeof(rows) / sizeof(rows[0]);
    for (size_t i = 0; i < count; i++) {
        const struct client_message m = {.partition = -1,
                                         .timestamp = rows[i].timestamp,
                                         .has_timestamp = rows[i].has_timestamp};
        cr_assert(client_producer_send(producer, &m) == ERR_OK);
    }
    cr_assert(client_producer_flush(producer, FOREVER) == ERR_OK, "%s", client_why(client));
    skip_versions(0);
    skip_metadata(0);
    struct batch_header header;
    const struct slice batch = next_batch(0, &header);
    struct record_cursor cursor;
    record_cursor_init(
        &cursor, &header, slice_of(batch.data + BATCH_HEADER_SIZE, batch.size - BATCH_HEADER_SIZE));
    for (size_t i = 0; i < count; i++) {
        struct record record;
        cr_assert(record_next(&cursor, &record) == ERR_OK);
        cr_assert(eq(i64, record.timestamp, rows[i].wanted));
    }
}

Test(client_producer, keys_choose_partitions_as_java_does)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 4);
    static const char *const keys[] = {"21", "foobar", "abc", "1", "12", "123"};
    bool is_used[4] = {false};
    struct produce_outcome outcomes[4];
    size_t outcomes_count = 0;
    for (size_t i = 0; i < 6; i++) {
        is_used[partitioner_of_key(slice_of_string(keys[i]), 4)] = true;
    }
    for (int32_t i = 0; i < 4; i++) {
        if (is_used[i]) {
            outcomes[outcomes_count++] = (struct produce_outcome){i, KAFKA_NONE};
        }
    }
    answer_produce(outcomes, outcomes_count);
    start(&patient);
    for (size_t i = 0; i < 6; i++) {
        cr_assert(eq(int, send_text(-1, keys[i], "v"), ERR_OK));
    }
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK), "%s", client_why(client));
    expect_stats(6, 0);
}

Test(client_producer, unknown_partition_is_refused_before_it_is_taken)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 2);
    start(&patient);
    cr_assert(eq(int, send_text(2, NULL, "v"), ERR_INVALID));
    cr_assert(strstr(client_why(client), "no partition 2, only 0 to 1") != NULL);
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK));
    expect_stats(0, 0);
}

Test(client_producer, full_batch_goes_at_once)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_NONE);
    start(&(struct client_producer_options){.linger_ms = 1000000, .batch_size = 40});
    cr_assert(eq(int, send_text(0, NULL, "0123456789"), ERR_OK));
    expect_stats(0, 0);
    fake_broker_pass(&broker, client, 999999);
    expect_stats(0, 0);
    cr_assert(eq(int, send_text(0, NULL, "01234567890123456789"), ERR_OK));
    fake_broker_run(&broker, client);
    expect_stats(2, 0);
}

/* A record that does not fit any more starts the next batch, so that batches stay below the limit.
 */
Test(client_producer, large_record_goes_alone)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_NONE);
    answer_one(KAFKA_NONE);
    start(&(struct client_producer_options){.linger_ms = 1000000, .batch_size = 64});
    char large[200];
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    cr_assert(eq(int, send_text(0, NULL, "small"), ERR_OK));
    cr_assert(eq(int, send_text(0, NULL, large), ERR_OK));
    fake_broker_run(&broker, client);
    expect_stats(2, 0);
    skip_versions(0);
    skip_metadata(0);
    struct batch_header header;
    (void)next_batch(0, &header);
    cr_assert(eq(int, header.records_count, 1));
    (void)next_batch(0, &header);
    cr_assert(eq(int, header.records_count, 1));
}

/* Neither sooner nor later than linger_ms after its first record. */
Test(client_producer, old_batch_goes_by_itself)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_NONE);
    start(&(struct client_producer_options){.linger_ms = 10});
    cr_assert(eq(int, send_text(0, NULL, "v"), ERR_OK));
    fake_broker_pass(&broker, client, 5000);
    cr_assert(eq(int, send_text(0, NULL, "v"), ERR_OK));
    fake_broker_pass(&broker, client, 4999);
    cr_assert(eq(sz, fake_broker_requests_count(&broker, 0), 2));
    fake_broker_pass(&broker, client, 1);
    cr_assert(eq(sz, fake_broker_requests_count(&broker, 0), 3));
    expect_stats(2, 0);
}

/* Every error that the protocol calls retriable: asked for metadata, sent again, the same bytes. */
Test(client_producer, retriable_errors_are_retried)
{
    for (int16_t code = 1; code < 134; code++) {
        if (!kafka_error_is_retriable(code)) {
            continue;
        }
        teardown();
        setup();
        fake_broker_connection(&broker);
        fake_broker_metadata(&broker, 1);
        answer_one(code);
        fake_broker_metadata(&broker, 1);
        answer_one(KAFKA_NONE);
        start(&patient);
        cr_assert(eq(int, send_text(0, NULL, "v"), ERR_OK));
        cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK), "%d", code);
        expect_stats(1, 0);
        skip_versions(0);
        skip_metadata(0);
        struct batch_header header;
        const struct slice first = next_batch(0, &header);
        skip_metadata(0);
        const struct slice second = next_batch(0, &header);
        cr_assert(slice_equal(first, second));
    }
}

Test(client_producer, final_error_drops_its_batch_only)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 2);
    answer_produce((struct produce_outcome[]){{0, KAFKA_MESSAGE_TOO_LARGE}, {1, KAFKA_NONE}}, 2);
    answer_one(KAFKA_NONE);
    start(&patient);
    cr_assert(eq(int, send_text(0, NULL, "bad"), ERR_OK));
    cr_assert(eq(int, send_text(1, NULL, "good"), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_TOO_LARGE));
    cr_assert(
        strstr(client_why(client), "t[0] refused 1 record") != NULL, "%s", client_why(client));
    cr_assert(strstr(client_why(client), "max.message.bytes") != NULL);
    expect_stats(1, 1);
    cr_assert(eq(int, send_text(0, NULL, "next"), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK));
    expect_stats(2, 1);
}

/* KIP-98: sequence numbers count records, per partition, and a retry carries the same ones. */
Test(client_producer, idempotent_batches_are_numbered)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_producer_id();
    answer_one(KAFKA_NONE);
    answer_one(KAFKA_NOT_LEADER_OR_FOLLOWER);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_DUPLICATE_SEQUENCE_NUMBER);
    answer_one(KAFKA_NONE);
    start(&idempotent);
    for (int i = 0; i < 3; i++) {
        cr_assert(eq(int, send_text(0, NULL, "v"), ERR_OK));
    }
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK), "%s", client_why(client));
    cr_assert(eq(int, send_text(0, NULL, "v"), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK), "%s", client_why(client));
    cr_assert(eq(int, send_text(0, NULL, "v"), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK), "%s", client_why(client));
    expect_stats(5, 0);
    skip_versions(0);
    skip_metadata(0);
    struct init_producer_id_request init;
    cr_assert(fake_broker_request(&broker, 0, API_INIT_PRODUCER_ID, &init));
    cr_assert(slice_is_null(init.transactional_id));
    static const int32_t sequences[] = {0, 3, 3, 4};
    for (size_t i = 0; i < 4; i++) {
        struct batch_header header;
        (void)next_batch(0, &header);
        cr_assert(eq(i64, header.producer_id, PRODUCER_ID));
        cr_assert(eq(int, header.producer_epoch, PRODUCER_EPOCH));
        cr_assert(eq(int, header.base_sequence, sequences[i]));
        if (i == 1) {
            skip_metadata(0);
        }
    }
}

/* The connection breaks behind the request: nobody knows, so it goes again over a new one. */
Test(client_producer, broken_connection_is_retried)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_producer_id();
    fake_broker_hang_up(&broker);
    fake_broker_refuse(&broker);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_DUPLICATE_SEQUENCE_NUMBER);
    start(&idempotent);
    cr_assert(eq(int, send_text(0, NULL, "v"), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK), "%s", client_why(client));
    expect_stats(1, 0);
}

Test(client_producer, without_acks_nothing_is_awaited)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    start(&(struct client_producer_options){.acks = CLIENT_ACKS_NONE});
    cr_assert(eq(int, send_text(0, NULL, "a"), ERR_OK));
    fake_broker_run(&broker, client);
    cr_assert(eq(int, send_text(0, NULL, "b"), ERR_OK));
    fake_broker_run(&broker, client);
    expect_stats(2, 0);
    skip_versions(0);
    skip_metadata(0);
    struct produce_request request;
    cr_assert(fake_broker_request(&broker, 0, API_PRODUCE, &request));
    cr_assert(eq(int, request.acks, 0));
}

Test(client_producer, codecs_are_applied)
{
    for (enum client_codec codec = CLIENT_CODEC_NONE; codec <= CLIENT_CODEC_ZSTD; codec++) {
        teardown();
        setup();
        fake_broker_connection(&broker);
        fake_broker_metadata(&broker, 1);
        answer_one(KAFKA_NONE);
        start(&(struct client_producer_options){.codec = codec});
        cr_assert(eq(int, send_text(0, NULL, "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"), ERR_OK));
        fake_broker_run(&broker, client);
        skip_versions(0);
        skip_metadata(0);
        struct batch_header header;
        (void)next_batch(0, &header);
        cr_assert(eq(int, (int)batch_codec(&header), (int)codec));
    }
}

/* ---- batches that were encoded before ---- */

struct told {
    int count;
    struct client_delivery last;
};

static void on_told(const struct client_delivery *delivery, void *context)
{
    struct told *told = context;
    told->count++;
    told->last = *delivery;
}

/* Three records, as they would stand in a log at offset 7. */
static struct slice encode_batch(struct wbuf *w)
{
    struct batch_builder b;
    batch_builder_init(&b, 1 << 20);
    for (int i = 0; i < 3; i++) {
        const struct batch_record r = {.timestamp = 1000 + i, .value = slice_of_string("v")};
        cr_assert(batch_builder_add(&b, &r) == ERR_OK);
    }
    const struct batch_identity somebody = {9, 9, 9};
    wbuf_init(w, 1 << 20);
    cr_assert(batch_builder_finish(&b, CODEC_NONE, &somebody, w) == ERR_OK);
    batch_builder_done(&b);
    batch_stamp(w->data, 7, 3);
    return wbuf_slice(w);
}

static enum err send_whole(struct slice bytes)
{
    const struct client_encoded_batch batch = {.bytes = bytes, .opaque = &broker};
    return client_producer_send_batch(producer, &batch);
}

Test(client_producer, encoded_batch_goes_as_it_is_under_our_identity)
{
    for (int is_idempotent = 0; is_idempotent < 2; is_idempotent++) {
        teardown();
        setup();
        struct told told = {0};
        struct wbuf w;
        const struct slice bytes = encode_batch(&w);
        fake_broker_connection(&broker);
        fake_broker_metadata(&broker, 1);
        if (is_idempotent) {
            answer_producer_id();
        }
        answer_produce(&(struct produce_outcome){0, KAFKA_NONE, .base_offset = 40}, 1);
        answer_produce(&(struct produce_outcome){0, KAFKA_NONE, .base_offset = 43}, 1);
        start(&(struct client_producer_options){
            .is_idempotent = is_idempotent, .on_delivery = on_told, .context = &told});
        cr_assert(eq(int, send_whole(bytes), ERR_OK));
        cr_assert(eq(int, send_whole(bytes), ERR_OK));
        cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK));
        expect_stats(6, 0);
        cr_assert(eq(int, told.count, 2));
        cr_assert(eq(int, told.last.records_count, 3));
        cr_assert(eq(i64, told.last.offset, 43));
        cr_assert(eq(i64, told.last.timestamp, 1000));
        cr_assert(eq(ptr, told.last.opaque, &broker));
        skip_versions(0);
        skip_metadata(0);
        if (is_idempotent) {
            fake_broker_skip(&broker, 0, API_INIT_PRODUCER_ID);
        }
        for (int i = 0; i < 2; i++) {
            struct batch_header header;
            const struct slice sent = next_batch(0, &header);
            cr_assert(batch_crc_matches(sent));
            cr_assert(eq(i64, header.base_offset, 0));
            cr_assert(eq(int, header.records_count, 3));
            cr_assert(eq(i64, header.producer_id, is_idempotent ? PRODUCER_ID : -1));
            cr_assert(eq(int, header.base_sequence, is_idempotent ? 3 * i : -1));
            cr_assert(slice_equal(batch_records_part(sent), batch_records_part(bytes)));
        }
        wbuf_done(&w);
    }
}

/* Too large for the topic: its halves would have no marks of their own. */
Test(client_producer, encoded_batch_fails_whole)
{
    struct told told = {0};
    struct wbuf w;
    const struct slice bytes = encode_batch(&w);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_MESSAGE_TOO_LARGE);
    start(&(struct client_producer_options){.on_delivery = on_told, .context = &told});
    cr_assert(eq(int, send_whole(bytes), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_TOO_LARGE));
    expect_stats(0, 3);
    cr_assert(eq(int, told.count, 1));
    cr_assert(eq(int, told.last.records_count, 3));
    wbuf_done(&w);
}

/* The records that were taken before it go before it. */
Test(client_producer, encoded_batch_closes_the_open_one)
{
    struct wbuf w;
    const struct slice bytes = encode_batch(&w);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_NONE);
    answer_one(KAFKA_NONE);
    answer_one(KAFKA_NONE);
    start(&patient);
    cr_assert(eq(int, send_text(0, NULL, "before"), ERR_OK));
    cr_assert(eq(int, send_whole(bytes), ERR_OK));
    cr_assert(eq(int, send_text(0, NULL, "behind"), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK));
    skip_versions(0);
    skip_metadata(0);
    static const int32_t counts[] = {1, 3, 1};
    for (size_t i = 0; i < 3; i++) {
        struct batch_header header;
        (void)next_batch(0, &header);
        cr_assert(eq(int, header.records_count, counts[i]));
    }
    wbuf_done(&w);
}

Test(client_producer, what_is_not_one_batch_is_not_taken)
{
    struct wbuf w;
    const struct slice bytes = encode_batch(&w);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    start(&patient);
    for (size_t size = 0; size < bytes.size; size++) {
        cr_assert(eq(int, send_whole(slice_of(bytes.data, size)), ERR_INVALID), "%zu", size);
    }
    wbuf_i8(&w, 0);
    cr_assert(eq(int, send_whole(wbuf_slice(&w)), ERR_INVALID));
    expect_stats(0, 0);
    wbuf_done(&w);
}

Test(client_producer, idempotence_needs_all_acks)
{
    const struct client_producer_options options = {
        .acks = CLIENT_ACKS_LEADER,
        .is_idempotent = true,
    };
    cr_assert(eq(int, client_producer_new(client, "t", &options, &producer), ERR_INVALID));
}

Test(client_producer, unknown_topic_is_said_at_once)
{
    fake_broker_connection(&broker);
    struct metadata_response response;
    struct metadata_response_topic topic;
    metadata_response_init(&response);
    metadata_response_topic_init(&topic);
    topic.name = slice_of_string("t");
    topic.error_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    response.topics = &topic;
    response.topics_count = 1;
    fake_broker_answer(&broker, API_METADATA, &response);
    cr_assert(eq(int, client_producer_new(client, "t", NULL, &producer), ERR_TOPIC_UNKNOWN));
    cr_assert(eq(str, (char *)client_why(client), (char *)"topic 't' does not exist"));
}

/* An answer that forgets a partition, or tells of another, settles nothing. */
Test(client_producer, answer_about_others_is_not_an_acknowledgement)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 2);
    answer_produce((struct produce_outcome[]){{1, KAFKA_NONE}, {-1, KAFKA_NONE}, {99, KAFKA_NONE}},
                   3);
    fake_broker_metadata(&broker, 2);
    answer_one(KAFKA_NONE);
    start(&patient);
    cr_assert(eq(int, send_text(0, NULL, "v"), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK), "%s", client_why(client));
    expect_stats(1, 0);
    struct client_producer_stats stats;
    client_producer_stats(producer, &stats);
    cr_assert(eq(u64, stats.retries_count, 1));
}

/* ---- the buffer ---- */

/* A client whose buffer has room for one record of this size. */
static void start_small(int32_t max_block_ms)
{
    client_free(client);
    char why[CLIENT_WHY_SIZE];
    const struct client_options small = {
        .brokers = "fake:9092", .timeout_ms = 1000, .buffer_size = 2000};
    cr_assert(client_new_in(&small, &broker.env, why, &client) == ERR_OK);
    start(&(struct client_producer_options){
        .linger_ms = 1000000, .batch_size = 1, .max_block_ms = max_block_ms});
}

Test(client_producer, full_buffer_is_told_at_once_if_so_wanted)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_hold(&broker);
    answer_one(KAFKA_NONE);
    answer_one(KAFKA_NONE);
    start_small(-1);
    const uint64_t before_us = broker.clock.now_us;
    cr_assert(eq(int, send_text(0, NULL, "first"), ERR_OK));
    cr_assert(eq(int, send_text(0, NULL, "second"), ERR_BUSY));
    cr_assert(strstr(client_why(client), "buffer is full") != NULL, "%s", client_why(client));
    cr_assert(eq(u64, broker.clock.now_us, before_us));
    fake_broker_release(&broker, 0);
    fake_broker_run(&broker, client);
    cr_assert(eq(int, send_text(0, NULL, "second"), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK));
    expect_stats(2, 0);
}

/* It is sent then, whatever linger_ms says. */
Test(client_producer, full_buffer_is_waited_for)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_NONE);
    answer_one(KAFKA_NONE);
    broker.connections[0].steps[2].delay_us = 30000;
    start_small(100);
    const uint64_t before_us = broker.clock.now_us;
    cr_assert(eq(int, send_text(0, NULL, "first"), ERR_OK));
    cr_assert(eq(int, send_text(0, NULL, "second"), ERR_OK));
    cr_assert(eq(u64, broker.clock.now_us - before_us, 30000));
}

Test(client_producer, full_buffer_is_not_waited_for_any_longer)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_hold(&broker);
    start_small(100);
    const uint64_t before_us = broker.clock.now_us;
    cr_assert(eq(int, send_text(0, NULL, "first"), ERR_OK));
    cr_assert(eq(int, send_text(0, NULL, "second"), ERR_BUSY));
    cr_assert(eq(u64, broker.clock.now_us - before_us, 100000));
    char large[3000];
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    cr_assert(eq(int, send_text(0, NULL, large), ERR_TOO_LARGE));
}

/* ---- partitions ---- */

/* Where the records of the next Produce went. */
static size_t partitions_of(size_t connection, int32_t partitions[FAKE_PARTITIONS_MAX])
{
    struct produce_request request;
    cr_assert(fake_broker_request(&broker, connection, API_PRODUCE, &request));
    const size_t count = request.topic_data[0].partition_data_count;
    for (size_t i = 0; i < count; i++) {
        partitions[i] = request.topic_data[0].partition_data[i].index;
    }
    return count;
}

Test(client_producer, round_robin_ignores_keys)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 3);
    answer_produce((struct produce_outcome[]){{0}, {1}, {2}}, 3);
    start(&(struct client_producer_options){.linger_ms = 1000000,
                                            .partitioner = CLIENT_PARTITIONER_ROUND_ROBIN});
    for (int i = 0; i < 6; i++) {
        cr_assert(eq(int, send_text(-1, "same", "v"), ERR_OK));
    }
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK));
    expect_stats(6, 0);
    skip_versions(0);
    skip_metadata(0);
    struct produce_request request;
    cr_assert(fake_broker_request(&broker, 0, API_PRODUCE, &request));
    cr_assert(eq(sz, request.topic_data[0].partition_data_count, 3));
    for (size_t i = 0; i < 3; i++) {
        struct batch_header h;
        const struct slice batch = request.topic_data[0].partition_data[i].records;
        cr_assert(batch_header_decode(batch, &h) == ERR_OK);
        cr_assert(eq(int, h.records_count, 2));
    }
}

static int32_t by_length(const struct client_message *m, int32_t partitions_count, void *context)
{
    cr_assert(context == &broker);
    cr_assert(eq(int, partitions_count, 3));
    return (int32_t)m->value.size;
}

Test(client_producer, partitioner_of_the_program)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 3);
    answer_produce((struct produce_outcome[]){{1}, {2}}, 2);
    struct client_producer_options options = {
        .linger_ms = 1000000, .partitioner = CLIENT_PARTITIONER_CUSTOM, .context = &broker};
    cr_assert(eq(int, client_producer_new(client, "t", &options, &producer), ERR_INVALID));
    options.partition_of = by_length;
    start(&options);
    cr_assert(eq(int, send_text(-1, NULL, "1"), ERR_OK));
    cr_assert(eq(int, send_text(-1, NULL, "22"), ERR_OK));
    cr_assert(eq(int, send_text(-1, NULL, "333"), ERR_INVALID));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK));
    skip_versions(0);
    skip_metadata(0);
    int32_t partitions[FAKE_PARTITIONS_MAX];
    cr_assert(eq(sz, partitions_of(0, partitions), 2));
    cr_assert(eq(int, partitions[0], 1));
    cr_assert(eq(int, partitions[1], 2));
}

/* Without keys a partition gets a batch, then the next one. */
Test(client_producer, records_without_a_key_fill_a_batch)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 2);
    answer_produce((struct produce_outcome[]){{0}, {1}}, 2);
    start(&(struct client_producer_options){.linger_ms = 1000000, .batch_size = 40});
    for (int i = 0; i < 8; i++) {
        cr_assert(eq(int, send_text(-1, NULL, "0123456789"), ERR_OK));
    }
    fake_broker_run(&broker, client);
    skip_versions(0);
    skip_metadata(0);
    struct produce_request request;
    cr_assert(fake_broker_request(&broker, 0, API_PRODUCE, &request));
    cr_assert(eq(sz, request.topic_data[0].partition_data_count, 2));
}

Test(client_producer, new_partitions_are_used)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_metadata(&broker, 2);
    answer_produce(&(struct produce_outcome){1, KAFKA_NONE}, 1);
    start(&patient);
    cr_assert(eq(int, send_text(1, NULL, "v"), ERR_INVALID));
    fake_broker_pass(&broker, client, 300000000);
    cr_assert(eq(int, client_producer_partitions_count(producer), 2));
    cr_assert(eq(int, send_text(1, NULL, "v"), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK));
}

/* ---- failures ---- */

static void answer_gone(void)
{
    struct metadata_response response;
    struct metadata_response_topic topic;
    struct metadata_response_broker node;
    metadata_response_init(&response);
    metadata_response_topic_init(&topic);
    metadata_response_broker_init(&node);
    node.node_id = FAKE_NODE_ID;
    node.host = slice_of_string("fake");
    node.port = FAKE_PORT;
    topic.name = slice_of_string("t");
    topic.error_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    response.brokers = &node;
    response.brokers_count = 1;
    response.topics = &topic;
    response.topics_count = 1;
    fake_broker_answer(&broker, API_METADATA, &response);
}

/* Long before delivery_timeout_ms, but not at the first word. */
Test(client_producer, topic_that_is_gone_is_given_up)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    for (int i = 0; i < 5; i++) {
        answer_gone();
    }
    start(&patient);
    cr_assert(eq(int, send_text(0, NULL, "v"), ERR_OK));
    const uint64_t before_us = broker.clock.now_us;
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_TOPIC_UNKNOWN));
    cr_assert(strstr(client_why(client), "does not exist") != NULL, "%s", client_why(client));
    cr_assert(lt(u64, broker.clock.now_us - before_us, 5000000));
    cr_assert(eq(sz, fake_broker_requests_count(&broker, 0), 8));
    expect_stats(0, 1);
}

Test(client_producer, flush_has_a_deadline)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_hold(&broker);
    answer_one(KAFKA_NONE);
    start(&patient);
    cr_assert(eq(int, send_text(0, NULL, "v"), ERR_OK));
    const uint64_t before_us = broker.clock.now_us;
    cr_assert(eq(int, client_producer_flush(producer, 300), ERR_TIMED_OUT));
    cr_assert(eq(u64, broker.clock.now_us - before_us, 300000));
    fake_broker_release(&broker, 0);
    cr_assert(eq(int, client_producer_flush(producer, 300), ERR_OK));
    expect_stats(1, 0);
}

/* A program without a callback is told by its next send, once. */
Test(client_producer, next_send_tells_of_a_failure)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer_one(KAFKA_INVALID_RECORD);
    answer_one(KAFKA_NONE);
    start(&(struct client_producer_options){.batch_size = 1});
    cr_assert(eq(int, send_text(0, NULL, "bad"), ERR_OK));
    fake_broker_run(&broker, client);
    cr_assert(eq(int, send_text(0, NULL, "not taken"), ERR_RECORD_INVALID));
    cr_assert(strstr(client_why(client), "breaks the topic's rules") != NULL);
    cr_assert(eq(int, send_text(0, NULL, "good"), ERR_OK));
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_OK));
    expect_stats(1, 1);
}

struct again {
    int told_count;
    enum err sent; /* What the send in the callback returned. */
};

static void send_again(const struct client_delivery *d, void *context)
{
    struct again *a = context;
    a->told_count++;
    if (d->err != ERR_OK) {
        a->sent = send_text(0, NULL, "again");
    }
}

/* Else nobody would settle it, and freeing never end. */
Test(client_producer, nothing_is_taken_while_it_is_freed, .timeout = 20)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    struct again again = {0};
    start(&(struct client_producer_options){
        .linger_ms = 1000000, .on_delivery = send_again, .context = &again});
    cr_assert(eq(int, send_text(0, NULL, "v"), ERR_OK));
    client_producer_free(producer);
    producer = NULL;
    cr_assert(eq(int, again.told_count, 1));
    cr_assert(eq(int, again.sent, ERR_CANCELLED));
}

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

struct outcome {
    int32_t partition;
    int16_t code;
};

/* Answers Produce for these partitions. */
static void answer_produce(const struct outcome *outcomes, size_t count)
{
    struct produce_response response;
    struct produce_response_topic topic;
    struct produce_response_partition partitions[FAKE_PARTITIONS_MAX];
    produce_response_init(&response);
    produce_response_topic_init(&topic);
    topic.name = slice_of_string("t");
    topic.topic_id = (struct uuid){.bytes = {7}};
    topic.partition_responses = partitions;
    topic.partition_responses_count = count;
    for (size_t i = 0; i < count; i++) {
        produce_response_partition_init(&partitions[i]);
        partitions[i].index = outcomes[i].partition;
        partitions[i].error_code = outcomes[i].code;
    }
    response.responses = &topic;
    response.responses_count = 1;
    fake_broker_answer(&broker, API_PRODUCE, &response);
}

static void answer_one(int16_t code)
{
    answer_produce(&(struct outcome){0, code}, 1);
}

static void answer_producer_id(void)
{
    struct init_producer_id_response response;
    init_producer_id_response_init(&response);
    response.producer_id = PRODUCER_ID;
    response.producer_epoch = PRODUCER_EPOCH;
    fake_broker_answer(&broker, API_INIT_PRODUCER_ID, &response);
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

/* The only batch of the next Produce on a connection. */
static struct slice next_batch(size_t connection, struct batch_header *ret_header)
{
    struct produce_request request;
    cr_assert(fake_broker_request(&broker, connection, API_PRODUCE, &request));
    cr_assert(eq(sz, request.topic_data_count, 1));
    cr_assert(eq(sz, request.topic_data[0].partition_data_count, 1));
    const struct slice batch = request.topic_data[0].partition_data[0].records;
    cr_assert(batch_header_decode(batch, ret_header) == ERR_OK);
    cr_assert(batch_crc_matches(batch));
    return batch;
}

static void skip_versions(size_t connection)
{
    struct {
        char memory[256];
    } request;
    cr_assert(fake_broker_request(&broker, connection, API_API_VERSIONS, &request));
}

static void skip_metadata(size_t connection)
{
    struct metadata_request request;
    cr_assert(fake_broker_request(&broker, connection, API_METADATA, &request));
    cr_assert(not(request.allow_auto_topic_creation));
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
    struct outcome outcomes[4];
    size_t outcomes_count = 0;
    for (size_t i = 0; i < 6; i++) {
        is_used[partitioner_of_key(slice_of_string(keys[i]), 4)] = true;
    }
    for (int32_t i = 0; i < 4; i++) {
        if (is_used[i]) {
            outcomes[outcomes_count++] = (struct outcome){i, KAFKA_NONE};
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
    answer_produce((struct outcome[]){{0, KAFKA_MESSAGE_TOO_LARGE}, {1, KAFKA_NONE}}, 2);
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
    answer_produce((struct outcome[]){{1, KAFKA_NONE}, {-1, KAFKA_NONE}, {99, KAFKA_NONE}}, 3);
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

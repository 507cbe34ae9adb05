/* Order and repetition: whatever answers come, get lost or refuse, the records of a partition are
 * written once, in the order of the sends, and the program is told what became of each. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "client/client.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/produce.h"

#include "tests/unit/client/fake_broker.h"
#include "tests/unit/client/produce_rig.h"

enum {
    ID = 4711,
    EPOCH = 3,
    FOREVER = 1000000,
    RECORDS_MAX = 32,
};

/* What the program was told, in this order. */
struct told {
    size_t number;
    enum err err;
    int64_t offset;
    int64_t timestamp;
};

static struct fake_broker broker;
static struct client *client;
static struct client_producer *producer;
static struct told told[RECORDS_MAX];
static size_t told_count;
static size_t sent_count;

static void setup(void)
{
    fake_broker_init(&broker);
    client = fake_broker_client(&broker);
    producer = NULL;
    told_count = sent_count = 0;
}

static void teardown(void)
{
    client_producer_free(producer);
    client_free(client);
    fake_broker_done(&broker);
}

TestSuite(client_order, .init = setup, .fini = teardown);

static void on_delivery(const struct client_delivery *d, void *context)
{
    cr_assert(context == &told);
    cr_assert(lt(sz, told_count, RECORDS_MAX));
    cr_assert(eq(int, d->err != ERR_OK, strlen(d->why) > 0));
    told[told_count++] = (struct told){(size_t)d->opaque, d->err, d->offset, d->timestamp};
}

/* Every record is a batch of its own. */
static const struct client_producer_options single = {
    .is_idempotent = true,
    .batch_size = 1,
    .linger_ms = 1000000,
    .on_delivery = on_delivery,
    .context = &told,
};

static void start(const struct client_producer_options *options)
{
    enum err e = client_producer_new(client, "t", options, &producer);
    cr_assert(e == ERR_OK, "%s", client_why(client));
}

static enum err send_one(void)
{
    return client_producer_send(producer,
                                &(struct client_message){
                                    .timestamp = 5,
                                    .value = slice_of("v", 1),
                                    .opaque = (void *)sent_count++,
                                });
}

static void send_all(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cr_assert(eq(int, send_one(), ERR_OK));
    }
}

static void answer(int16_t code)
{
    produce_rig_answer(&broker, &(struct produce_outcome){.code = code}, 1);
}

static void answer_offset(int64_t offset)
{
    produce_rig_answer(&broker, &(struct produce_outcome){.base_offset = offset}, 1);
}

/* Told in the order of the sends, with these errors; the last counts for all that follow. */
static void expect_told(const enum err *errs, size_t errs_count, size_t count)
{
    cr_assert(eq(sz, told_count, count));
    for (size_t i = 0; i < count; i++) {
        cr_assert(eq(sz, told[i].number, i));
        cr_assert(eq(int, told[i].err, errs[i < errs_count ? i : errs_count - 1]), "record %zu", i);
    }
}

static void expect_all_written(size_t count)
{
    expect_told((enum err[]){ERR_OK}, 1, count);
}

static void open_script(void)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    produce_rig_answer_id(&broker, ID, EPOCH);
}

static void skip_opening(void)
{
    fake_broker_skip(&broker, 0, API_API_VERSIONS);
    fake_broker_skip(&broker, 0, API_METADATA);
    fake_broker_skip(&broker, 0, API_INIT_PRODUCER_ID);
}

static void expect_batch(size_t connection, int16_t epoch, int32_t sequence)
{
    struct batch_header h;
    (void)produce_rig_batch(&broker, connection, &h);
    cr_assert(eq(i64, h.producer_id, ID));
    cr_assert(eq(int, h.producer_epoch, epoch), "sequence %d", sequence);
    cr_assert(eq(int, h.base_sequence, sequence));
}

static void expect_nothing_more(size_t connection)
{
    struct produce_request request;
    cr_assert(not(fake_broker_request(&broker, connection, API_PRODUCE, &request)));
}

static void flush(enum err wanted);

/* A producer whose first record was written: the broker knows its numbers, and five batches are on
 * their way. What is sent from here on counts from 0 again, but for its sequence numbers. */
static void open_known_script(void)
{
    open_script();
    answer(KAFKA_NONE);
}

static void start_known(const struct client_producer_options *options)
{
    start(options);
    send_all(1);
    flush(ERR_OK);
    expect_all_written(1);
    told_count = sent_count = 0;
}

static void skip_known_opening(void)
{
    skip_opening();
    expect_batch(0, EPOCH, 0);
}

static void flush(enum err wanted)
{
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), wanted), "%s", client_why(client));
}

/* ---- in flight ---- */

Test(client_order, five_batches_are_on_their_way)
{
    open_known_script();
    fake_broker_hold(&broker);
    for (int64_t i = 0; i < 7; i++) {
        answer_offset(100 + i);
    }
    start_known(&single);
    send_all(7);
    fake_broker_run(&broker, client);
    skip_known_opening();
    for (int32_t i = 0; i < 5; i++) {
        expect_batch(0, EPOCH, 1 + i);
    }
    expect_nothing_more(0);
    cr_assert(eq(sz, told_count, 0));
    fake_broker_release(&broker, 0);
    flush(ERR_OK);
    expect_all_written(7);
    for (size_t i = 0; i < 7; i++) {
        cr_assert(eq(i64, told[i].offset, 100 + (int64_t)i));
        cr_assert(eq(i64, told[i].timestamp, 5));
    }
}

/* A broker takes any number of a producer that it does not know. Were there more batches on their
 * way, those behind one that is refused would get in, and stand before it when it goes again. */
Test(client_order, the_first_batch_goes_alone)
{
    open_script();
    fake_broker_hold(&broker);
    answer(KAFKA_NOT_LEADER_OR_FOLLOWER);
    fake_broker_metadata(&broker, 1);
    for (int i = 0; i < 3; i++) {
        answer(KAFKA_NONE);
    }
    start(&single);
    send_all(3);
    fake_broker_run(&broker, client);
    skip_opening();
    expect_batch(0, EPOCH, 0);
    expect_nothing_more(0);
    fake_broker_release(&broker, 0);
    flush(ERR_OK);
    expect_all_written(3);
    fake_broker_skip(&broker, 0, API_METADATA);
    for (int32_t i = 0; i < 3; i++) {
        expect_batch(0, EPOCH, i);
    }
}

/* The same under the next epoch, behind a batch that was given up. */
Test(client_order, the_first_batch_of_an_epoch_goes_alone)
{
    struct client_producer_options options = single;
    options.delivery_timeout_ms = 500;
    open_script();
    answer(KAFKA_REQUEST_TIMED_OUT);
    broker.connections[0].steps[3].delay_us = 600000;
    start(&options);
    send_all(1);
    cr_assert(ne(int, client_producer_flush(producer, FOREVER), ERR_OK));
    fake_broker_hold(&broker);
    for (int i = 0; i < 3; i++) {
        answer(KAFKA_NONE);
    }
    send_all(3);
    fake_broker_run(&broker, client);
    skip_opening();
    expect_batch(0, EPOCH, 0);
    expect_batch(0, EPOCH + 1, 0);
    expect_nothing_more(0);
    fake_broker_release(&broker, 0);
    flush(ERR_OK);
    expect_told((enum err[]){ERR_TIMED_OUT, ERR_OK}, 2, 4);
    expect_batch(0, EPOCH + 1, 1);
    expect_batch(0, EPOCH + 1, 2);
}

Test(client_order, without_idempotence_one_batch_is_on_its_way)
{
    struct client_producer_options options = single;
    options.is_idempotent = false;
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_hold(&broker);
    answer(KAFKA_NONE);
    answer(KAFKA_NONE);
    start(&options);
    send_all(2);
    fake_broker_run(&broker, client);
    cr_assert(eq(sz, fake_broker_requests_count(&broker, 0), 3));
    fake_broker_release(&broker, 0);
    flush(ERR_OK);
    expect_all_written(2);
}

Test(client_order, what_idempotence_does_not_allow_is_refused)
{
    struct client_producer_options options = single;
    options.in_flight_max = 6;
    cr_assert(eq(int, client_producer_new(client, "t", &options, &producer), ERR_INVALID));
    options = single;
    options.acks = CLIENT_ACKS_LEADER;
    cr_assert(eq(int, client_producer_new(client, "t", &options, &producer), ERR_INVALID));
}

/* ---- answers that refuse ---- */

/* The first is refused, the others then come too early: all go again, one at a time, with the
 * numbers that they had. */
Test(client_order, a_retry_keeps_the_order)
{
    open_known_script();
    answer(KAFKA_NOT_LEADER_OR_FOLLOWER);
    for (int i = 0; i < 4; i++) {
        answer(KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER);
    }
    fake_broker_metadata(&broker, 1);
    for (int i = 0; i < 6; i++) {
        answer(KAFKA_NONE);
    }
    start_known(&single);
    send_all(6);
    flush(ERR_OK);
    expect_all_written(6);
    skip_known_opening();
    for (int32_t i = 0; i < 5; i++) {
        expect_batch(0, EPOCH, 1 + i);
    }
    fake_broker_skip(&broker, 0, API_METADATA);
    for (int32_t i = 0; i < 6; i++) {
        expect_batch(0, EPOCH, 1 + i);
    }
}

/* The connection breaks when five are on their way, two of which were written: nobody knows, so all
 * go again with their numbers, and the broker knows them. */
Test(client_order, lost_answers_make_no_record_twice)
{
    open_known_script();
    for (int i = 0; i < 4; i++) {
        fake_broker_answer_bytes(&broker, slice_of("", 0));
    }
    fake_broker_hang_up(&broker);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer(KAFKA_DUPLICATE_SEQUENCE_NUMBER);
    answer(KAFKA_DUPLICATE_SEQUENCE_NUMBER);
    for (int i = 0; i < 4; i++) {
        answer(KAFKA_NONE);
    }
    start_known(&single);
    send_all(6);
    flush(ERR_OK);
    expect_all_written(6);
    skip_known_opening();
    for (int32_t i = 0; i < 5; i++) {
        expect_batch(0, EPOCH, 1 + i);
    }
    fake_broker_skip(&broker, 1, API_API_VERSIONS);
    fake_broker_skip(&broker, 1, API_METADATA);
    for (int32_t i = 0; i < 6; i++) {
        expect_batch(1, EPOCH, 1 + i);
    }
}

/* One is refused for good: those behind it were numbered after it, and are numbered anew. */
Test(client_order, a_refused_batch_leaves_no_gap)
{
    open_known_script();
    answer(KAFKA_NONE);
    answer(KAFKA_INVALID_TIMESTAMP);
    answer(KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER);
    answer(KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER);
    fake_broker_metadata(&broker, 1);
    answer(KAFKA_NONE);
    answer(KAFKA_NONE);
    start_known(&single);
    send_all(4);
    flush(ERR_TIMESTAMP_INVALID);
    expect_told((enum err[]){ERR_OK, ERR_TIMESTAMP_INVALID, ERR_OK}, 3, 4);
    skip_known_opening();
    for (int32_t i = 0; i < 4; i++) {
        expect_batch(0, EPOCH, 1 + i);
    }
    fake_broker_skip(&broker, 0, API_METADATA);
    expect_batch(0, EPOCH, 2);
    expect_batch(0, EPOCH, 3);
}

/* The same, but the answers to those behind it are lost: they cannot have been written, since the
 * one before them was not. */
Test(client_order, what_was_sent_behind_a_refused_batch_is_certain)
{
    open_known_script();
    answer(KAFKA_INVALID_TIMESTAMP);
    fake_broker_hang_up(&broker);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer(KAFKA_NONE);
    answer(KAFKA_NONE);
    start_known(&single);
    send_all(3);
    flush(ERR_TIMESTAMP_INVALID);
    expect_told((enum err[]){ERR_TIMESTAMP_INVALID, ERR_OK}, 2, 3);
    fake_broker_skip(&broker, 1, API_API_VERSIONS);
    fake_broker_skip(&broker, 1, API_METADATA);
    expect_batch(1, EPOCH, 1);
    expect_batch(1, EPOCH, 2);
}

/* The first had no answer that tells, those behind it were written: what comes next is numbered
 * behind them, not behind the first once that is known. */
Test(client_order, an_answer_to_a_repetition_takes_no_number_back)
{
    open_known_script();
    fake_broker_hold(&broker);
    answer(KAFKA_REQUEST_TIMED_OUT);
    answer(KAFKA_NONE);
    answer(KAFKA_NONE);
    answer(KAFKA_NONE);
    fake_broker_metadata(&broker, 1);
    answer(KAFKA_NONE);
    start_known(&single);
    send_all(3);
    fake_broker_run(&broker, client); /* All three are on their way. */
    fake_broker_release(&broker, 0);
    flush(ERR_OK);
    send_all(1);
    flush(ERR_OK);
    cr_assert(eq(sz, told_count, 4));
    skip_known_opening();
    for (int32_t i = 0; i < 3; i++) {
        expect_batch(0, EPOCH, 1 + i);
    }
    expect_batch(0, EPOCH, 1);
    fake_broker_skip(&broker, 0, API_METADATA);
    expect_batch(0, EPOCH, 4);
}

/* A broker that calls a record a duplicate which can only have been sent once means another one. */
Test(client_order, a_duplicate_that_was_never_sent_is_not_written)
{
    open_script();
    answer(KAFKA_DUPLICATE_SEQUENCE_NUMBER);
    fake_broker_metadata(&broker, 1);
    answer(KAFKA_NONE);
    start(&single);
    send_all(1);
    flush(ERR_OK);
    expect_all_written(1);
    skip_opening();
    expect_batch(0, EPOCH, 0);
    fake_broker_skip(&broker, 0, API_METADATA);
    expect_batch(0, EPOCH + 1, 0);
}

static void send_to(int32_t partition)
{
    const struct client_message m = {
        .partition = partition,
        .timestamp = 5,
        .value = slice_of("v", 1),
        .opaque = (void *)sent_count++,
    };
    cr_assert(eq(int, client_producer_send(producer, &m), ERR_OK));
}

/* The leader moves while a batch is on its way to the old one: the next waits, or it could be
 * there before it. */
Test(client_order, batches_of_a_partition_are_at_one_node)
{
    static const int32_t before[] = {FAKE_NODE_ID + 1, FAKE_NODE_ID};
    static const int32_t after[] = {FAKE_NODE_ID, FAKE_NODE_ID};
    fake_broker_connection(&broker);
    fake_broker_metadata_of_two(&broker, before, 2);
    produce_rig_answer_id(&broker, ID, EPOCH);
    produce_rig_answer(
        &broker, &(struct produce_outcome){.partition = 1, .code = KAFKA_NOT_ENOUGH_REPLICAS}, 1);
    fake_broker_metadata_of_two(&broker, after, 2);
    produce_rig_answer(&broker, &(struct produce_outcome){.partition = 1}, 1);
    answer(KAFKA_NONE);
    fake_broker_connection(&broker);
    answer(KAFKA_NONE);
    fake_broker_hold(&broker);
    answer(KAFKA_NONE);
    start(&single);
    send_to(0);
    flush(ERR_OK); /* The broker knows the numbers. */
    send_to(0);
    fake_broker_run(&broker, client);
    send_to(1);
    fake_broker_pass(&broker, client, 200000);
    cr_assert(eq(sz, fake_broker_requests_count(&broker, 0), 6)); /* The leader is known. */
    send_to(0);
    fake_broker_run(&broker, client);
    cr_assert(eq(sz, fake_broker_requests_count(&broker, 0), 6));
    fake_broker_release(&broker, 1);
    flush(ERR_OK);
    cr_assert(eq(sz, told_count, 4));
    fake_broker_skip(&broker, 1, API_API_VERSIONS);
    expect_batch(1, EPOCH, 0);
    expect_batch(1, EPOCH, 1);
    cr_assert(eq(sz, fake_broker_requests_count(&broker, 0), 7));
}

/* ---- numbers that the broker does not know ---- */

/* KIP-360: the broker lost what it knew of us, and refused: on under the next epoch, from 0. */
Test(client_order, unknown_numbers_raise_the_epoch)
{
    static const int16_t codes[] = {KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER, KAFKA_UNKNOWN_PRODUCER_ID};
    for (size_t i = 0; i < 2; i++) {
        teardown();
        setup();
        open_script();
        answer(KAFKA_NONE);
        answer(codes[i]);
        fake_broker_metadata(&broker, 1);
        answer(KAFKA_NONE);
        answer(KAFKA_NONE);
        start(&single);
        send_all(1);
        flush(ERR_OK);
        send_all(1);
        flush(ERR_OK);
        send_all(1);
        flush(ERR_OK);
        expect_all_written(3);
        skip_opening();
        expect_batch(0, EPOCH, 0);
        expect_batch(0, EPOCH, 1);
        fake_broker_skip(&broker, 0, API_METADATA);
        expect_batch(0, EPOCH + 1, 0);
        expect_batch(0, EPOCH + 1, 1);
    }
}

/* Another producer has our id and a newer epoch: another id. */
Test(client_order, a_fenced_epoch_asks_for_another_id)
{
    open_script();
    answer(KAFKA_INVALID_PRODUCER_EPOCH);
    fake_broker_metadata(&broker, 1);
    produce_rig_answer_id(&broker, ID, 0);
    answer(KAFKA_NONE);
    start(&single);
    send_all(1);
    flush(ERR_OK);
    expect_all_written(1);
    skip_opening();
    expect_batch(0, EPOCH, 0);
    fake_broker_skip(&broker, 0, API_METADATA);
    fake_broker_skip(&broker, 0, API_INIT_PRODUCER_ID);
    expect_batch(0, 0, 0);
}

/* An answer was lost, and then the broker finds the number wrong: whether the record was written
 * nobody can say, and to send it again might write it twice. */
Test(client_order, an_uncertain_batch_is_never_renumbered)
{
    open_script();
    fake_broker_hang_up(&broker);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    answer(KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER);
    answer(KAFKA_NONE);
    start(&single);
    send_all(1);
    flush(ERR_SEQUENCE_OUT_OF_ORDER);
    send_all(1);
    flush(ERR_OK);
    expect_told((enum err[]){ERR_SEQUENCE_OUT_OF_ORDER, ERR_OK}, 2, 2);
    fake_broker_skip(&broker, 1, API_API_VERSIONS);
    fake_broker_skip(&broker, 1, API_METADATA);
    expect_batch(1, EPOCH, 0);
    expect_batch(1, EPOCH + 1, 0);
}

/* Errors after which the leader may have written all the same. */
Test(client_order, such_answers_are_uncertain_too)
{
    static const int16_t codes[] = {
        KAFKA_NOT_LEADER_OR_FOLLOWER,
        KAFKA_REQUEST_TIMED_OUT,
        KAFKA_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        teardown();
        setup();
        open_script();
        answer(codes[i]);
        fake_broker_metadata(&broker, 1);
        answer(KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER);
        fake_broker_metadata(&broker, 1);
        answer(KAFKA_NONE); /* What a second copy would get. */
        start(&single);
        send_all(1);
        flush(ERR_SEQUENCE_OUT_OF_ORDER);
    }
}

/* A batch that was given up may be in the log: what follows goes under the next epoch, under which
 * the broker refuses what may still come of the old one. */
Test(client_order, after_a_batch_that_was_given_up_it_goes_on)
{
    struct client_producer_options options = single;
    options.delivery_timeout_ms = 1500;
    open_script();
    fake_broker_answer_bytes(&broker, slice_of("", 0)); /* No answer. */
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_bare_connection(&broker);
    fake_broker_end(&broker);
    start(&options);
    send_all(1);
    const uint64_t before_us = broker.clock.now_us;
    cr_assert(ne(int, client_producer_flush(producer, FOREVER), ERR_OK));
    cr_assert(ne(ptr, strstr(client_why(client), "gave up after"), NULL), "%s", client_why(client));
    cr_assert(ge(u64, broker.clock.now_us - before_us, 1500000));
    cr_assert(lt(u64, broker.clock.now_us - before_us, 5000000));
}

Test(client_order, the_next_epoch_follows_a_gap)
{
    struct client_producer_options options = single;
    options.delivery_timeout_ms = 500;
    open_script();
    answer(KAFKA_REQUEST_TIMED_OUT);
    broker.connections[0].steps[3].delay_us = 600000;
    answer(KAFKA_NONE);
    start(&options);
    send_all(1);
    cr_assert(ne(int, client_producer_flush(producer, FOREVER), ERR_OK));
    send_all(1);
    flush(ERR_OK);
    skip_opening();
    expect_batch(0, EPOCH, 0);
    expect_batch(0, EPOCH + 1, 0);
}

/* Records that never left use no number. */
Test(client_order, what_was_never_sent_leaves_no_gap)
{
    struct client_producer_options options = single;
    options.delivery_timeout_ms = 500;
    open_known_script();
    fake_broker_hold(&broker);
    for (int i = 0; i < 6; i++) {
        answer(KAFKA_NONE);
    }
    start_known(&options);
    send_all(7);
    fake_broker_pass(&broker, client, 500000);
    cr_assert(eq(sz, told_count, 2)); /* Those that wait for one of the five to be answered. */
    fake_broker_release(&broker, 0);
    cr_assert(eq(int, client_producer_flush(producer, FOREVER), ERR_TIMED_OUT));
    cr_assert(eq(sz, told_count, 7));
    send_all(1);
    flush(ERR_OK);
    skip_known_opening();
    for (int32_t i = 0; i < 6; i++) {
        expect_batch(0, EPOCH, 1 + i);
    }
}

/* ---- batches that are too large (KIP-126) ---- */

Test(client_order, too_large_a_batch_goes_in_halves)
{
    struct client_producer_options options = single;
    options.batch_size = 0;
    open_script();
    answer(KAFKA_MESSAGE_TOO_LARGE); /* 0 1 2 3 4 */
    answer(KAFKA_NONE);              /* 0 1 */
    answer(KAFKA_MESSAGE_TOO_LARGE); /* 2 3 4 */
    answer(KAFKA_MESSAGE_TOO_LARGE); /* 2 */
    answer(KAFKA_NONE);              /* 3 4 */
    start(&options);
    send_all(5);
    flush(ERR_TOO_LARGE);
    expect_told((enum err[]){ERR_OK, ERR_OK, ERR_TOO_LARGE, ERR_OK}, 4, 5);
    struct client_producer_stats stats;
    client_producer_stats(producer, &stats);
    cr_assert(eq(u64, stats.splits_count, 2));
    skip_opening();
    static const int32_t sequences[] = {0, 0, 2, 2, 2};
    for (size_t i = 0; i < 5; i++) {
        expect_batch(0, EPOCH, sequences[i]);
    }
}

Test(client_order, halves_hold_the_same_records)
{
    struct client_producer_options options = single;
    options.batch_size = 0;
    options.codec = CLIENT_CODEC_ZSTD;
    open_script();
    answer(KAFKA_MESSAGE_TOO_LARGE);
    answer(KAFKA_NONE);
    answer(KAFKA_NONE);
    start(&options);
    static const char *const keys[] = {"a", NULL};
    for (size_t i = 0; i < 2; i++) {
        const struct client_header header = {slice_of_string("h"), slice_of_string(keys[i])};
        const struct client_message m = {
            .timestamp = 77 + (int64_t)i,
            .key = slice_of_string(keys[i]),
            .headers = &header,
            .headers_count = 1,
            .opaque = (void *)i,
        };
        cr_assert(eq(int, client_producer_send(producer, &m), ERR_OK));
    }
    flush(ERR_OK);
    expect_all_written(2);
    skip_opening();
    expect_batch(0, EPOCH, 0);
    for (size_t i = 0; i < 2; i++) {
        struct batch_header h;
        struct wbuf w;
        struct slice records;
        struct record_cursor cursor;
        struct record record;
        struct record_header header;
        const struct slice batch = produce_rig_batch(&broker, 0, &h);
        wbuf_init(&w, 1 << 20);
        cr_assert(batch_records(batch, 1 << 20, &w, &records) == ERR_OK);
        record_cursor_init(&cursor, &h, records);
        cr_assert(record_next(&cursor, &record) == ERR_OK);
        cr_assert(eq(i64, record.timestamp, 77 + (int64_t)i));
        cr_assert(slice_equal_string(record.key, keys[i]));
        cr_assert(slice_is_null(record.value));
        cr_assert(record_next_header(&record, &header) == ERR_OK);
        cr_assert(slice_equal_string(header.value, keys[i]));
        cr_assert(record_next(&cursor, &record) == ERR_EOF);
        wbuf_done(&w);
    }
}

/* ---- the program is told ---- */

Test(client_order, the_brokers_time_is_told)
{
    open_script();
    produce_rig_answer(
        &broker, &(struct produce_outcome){.base_offset = 9, .append_time_ms = 1234}, 1);
    start(&single);
    send_all(1);
    flush(ERR_OK);
    cr_assert(eq(i64, told[0].offset, 9));
    cr_assert(eq(i64, told[0].timestamp, 1234));
}

Test(client_order, what_is_dropped_is_told)
{
    open_known_script();
    fake_broker_hold(&broker);
    start_known(&single);
    send_all(7);
    fake_broker_run(&broker, client);
    client_producer_free(producer);
    producer = NULL;
    expect_told((enum err[]){ERR_CANCELLED}, 1, 7);
}

Test(client_order, dropped_before_anything_was_sent)
{
    open_script();
    start(&single);
    send_all(2);
    client_producer_free(producer);
    producer = NULL;
    expect_told((enum err[]){ERR_CANCELLED}, 1, 2);
}

static void send_again(const struct client_delivery *d, void *context)
{
    on_delivery(d, context);
    struct client_cluster *cluster = NULL;
    cr_assert(eq(int, client_producer_flush(producer, 1), ERR_INVALID));
    cr_assert(eq(int, client_describe(client, NULL, 0, &cluster), ERR_INVALID));
    if (sent_count < 3) {
        cr_assert(eq(int, send_one(), ERR_OK));
    }
}

Test(client_order, a_callback_may_send_and_must_not_wait)
{
    struct client_producer_options options = single;
    options.on_delivery = send_again;
    open_script();
    for (int i = 0; i < 3; i++) {
        answer(KAFKA_NONE);
    }
    start(&options);
    send_all(1);
    while (told_count < 3) {
        flush(ERR_OK);
    }
    expect_all_written(3);
}

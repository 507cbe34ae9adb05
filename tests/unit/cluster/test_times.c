/* Times of records on a node of one: found by ListOffsets' rules, stamped by the broker, and what
 * they do not decide: how long a producer is known, and which other segments a segment pins. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "tests/support/cluster_rig.h"

static void make_stamped_batch_of(struct batch *b,
                                  const int64_t *timestamps,
                                  int count,
                                  const struct batch_identity *identity)
{
    struct batch_builder builder;
    batch_builder_init(&builder, BATCH_MAX);
    for (int i = 0; i < count; i++) {
        const struct batch_record record = {
            .timestamp = timestamps[i],
            .value = slice_of_string("v"),
        };
        cr_assert(eq(int, batch_builder_add(&builder, &record), ERR_OK));
    }
    struct wbuf w;
    wbuf_init_fixed(&w, b->bytes, sizeof(b->bytes));
    cr_assert(eq(int, batch_builder_finish(&builder, CODEC_NONE, identity, &w), ERR_OK));
    b->size = w.size;
    batch_builder_done(&builder);
}

static void make_stamped_batch(struct batch *b, const int64_t *timestamps, int count)
{
    make_stamped_batch_of(b, timestamps, count, NULL);
}

static struct partition_op
find_time(struct sim_node *n, const struct uuid *topic, int64_t timestamp)
{
    struct partition_op op = {
        .kind = PARTITION_FIND_TIME,
        .id = {*topic, 0},
        .current_leader_epoch = -1,
        .in.find_time.timestamp = timestamp,
    };
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));
    return op;
}

Test(times, offsets_are_found_by_time_also_the_largest)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 1, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    cr_assert(eq(i64, find_time(n, &id, 0).out.find_time.offset, -1));
    cr_assert(eq(i64, find_time(n, &id, PARTITION_TIMESTAMP_MAX).out.find_time.offset, -1));

    const int64_t at = 1700000000000 - 1000;
    const int64_t first[] = {at, at + 5};
    const int64_t second[] = {at + 3, at + 9, at + 7};
    struct batch b;
    make_stamped_batch(&b, first, 2);
    struct partition_op op = produce_op(&id, 0, &b);
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));
    make_stamped_batch(&b, second, 3);
    op = produce_op(&id, 0, &b);
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));

    for (int round = 0; round < 2; round++) { /* Again after a restart. */
        const struct {
            int64_t asked, offset, timestamp;
        } rows[] = {
            {0, 0, at},
            {at + 1, 1, at + 5},
            {at + 6, 3, at + 9},
            {at + 10, -1, -1},
            {PARTITION_TIMESTAMP_MAX, 3, at + 9},
        };
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            const struct partition_op found = find_time(n, &id, rows[i].asked);
            cr_assert(eq(i64, found.out.find_time.offset, rows[i].offset), "row %zu", i);
            cr_assert(eq(i64, found.out.find_time.timestamp, rows[i].timestamp));
            cr_assert(eq(i32, found.out.find_time.leader_epoch, rows[i].offset < 0 ? -1 : 1));
        }
        sim_node_stop(n);
        sim_node_init(n, disk, 2, 4);
        cr_assert(eq(int, sim_node_start(n), ERR_OK));
    }
    end_node(n, disk);
}

/* What record times say is the client's word: the state of a producer lives by the broker's clock
 * (public case C176). */
Test(times, c176_old_and_future_records_keep_their_producers_state)
{
    static const int64_t timestamps[] = {
        978307200000, 4070908800000, 978307200000}; /* 2001, 2099 */
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct topic_config_entry any_time = {"message.timestamp.after.max.ms", "9223372036854775807"};
    struct uuid id;
    sim_node_init(n, disk, 1, 3);
    n->settings.topic_defaults = &any_time;
    n->settings.topic_defaults_count = 1;
    n->settings.producer_expiration_ms = 86400000;
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    for (int32_t i = 0; i < 3; i++) {
        struct batch b;
        make_stamped_batch_of(&b, &timestamps[i], 1, &(struct batch_identity){77, 0, i});
        struct partition_op op = produce_op(&id, 0, &b);
        cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK), "batch %d", i);
        op = produce_op(&id, 0, &b);
        cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));
        cr_assert(eq(i64, op.out.produce.base_offset, i), "a duplicate is known");
        n->clock.now_us += UINT64_C(5) * 1000 * 1000 * (i == 1 ? 3600 : 1); /* 5 s, 5 hours. */
    }
    end_node(n, disk);
}

static void count_segments(void *context, const char *path, uint64_t size)
{
    (void)size;
    *(int *)context += strstr(path, "AAAAAAAAAAAAAAAAAAAAAQ-0/") == NULL && /* Group 0's. */
                       strcmp(path + strlen(path) - 4, ".log") == 0;
}

/* A topic's segment.ms reaches its logs, and public case C172: one record from far ahead pins no
 * segment but its own; by default it is refused. */
Test(times, c172_segments_roll_by_the_topics_time)
{
    const int64_t at = 1700000000000;
    static const int64_t far = 4102444800000;
    struct topic_config_entry defaults[] = {
        {"message.timestamp.after.max.ms", "9223372036854775807"}, {"segment.ms", "2000"}};
    for (uint32_t defaults_count = 0; defaults_count <= 2; defaults_count += 2) {
        struct disk_sim *disk = new_disk();
        struct sim_node *n = calloc(1, sizeof(*n));
        struct uuid id;
        sim_node_init(n, disk, 1, 3);
        n->settings.topic_defaults = defaults;
        n->settings.topic_defaults_count = defaults_count;
        cr_assert(eq(int, sim_node_start(n), ERR_OK));
        cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
        const int64_t timestamps[] = {at, at + 1000, far, at + 1500, at + 2500};
        for (size_t i = 0; i < sizeof(timestamps) / sizeof(timestamps[0]); i++) {
            struct batch b;
            make_stamped_batch(&b, &timestamps[i], 1);
            struct partition_op op = produce_op(&id, 0, &b);
            enum err e = sim_node_partition_op(n, 0, &op);
            bool is_refused = defaults_count == 0 && timestamps[i] == far;
            cr_assert(eq(int, e, is_refused ? ERR_TIMESTAMP_INVALID : ERR_OK), "batch %zu", i);
        }
        int segments = 0;
        sim_node_run(n, 1000);
        disk_sim_each_file(disk, &segments, count_segments);
        /* Rolled before the one from far ahead; those after it are earlier than it. */
        cr_assert(eq(int, segments, defaults_count == 0 ? 1 : 2));
        end_node(n, disk);
    }
}

Test(times, log_append_time_is_stamped_under_a_crc_that_matches)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct topic_config_entry stamped = {"message.timestamp.type", "LogAppendTime"};
    struct uuid id;
    sim_node_init(n, disk, 1, 3);
    n->settings.topic_defaults = &stamped;
    n->settings.topic_defaults_count = 1;
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    struct batch b;
    make_batch_of(&b, 3, 5, 0, 0);
    int64_t answered[2];
    for (int i = 0; i < 2; i++) { /* The second one is a duplicate: the time of the first counts. */
        struct partition_op op = produce_op(&id, 0, &b);
        cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));
        cr_assert(lt(i64, 1700000000000 - 1, op.out.produce.append_time_ms));
        answered[i] = op.out.produce.append_time_ms;
        sim_node_run(n, 1000);
    }
    uint8_t bytes[4096];
    struct partition_op read = {
        .kind = PARTITION_READ,
        .id = {id, 0},
        .current_leader_epoch = -1,
        .in.fetch = {.dst = bytes, .dst_size = sizeof(bytes)},
    };
    cr_assert(eq(int, sim_node_partition_op(n, 0, &read), ERR_OK));
    struct batch_header h;
    const struct slice batch = slice_of(bytes, read.out.fetch.size);
    cr_assert(eq(int, batch_header_decode(batch, &h), ERR_OK));
    cr_assert(eq(sz, batch.size, batch_size(&h))); /* One batch only. */
    cr_assert(batch_crc_matches(batch));
    cr_assert(ne(int, h.attributes &BATCH_LOG_APPEND_TIME, 0));
    cr_assert(eq(i64, h.max_timestamp, answered[0]));
    cr_assert(eq(i64, answered[1], answered[0]));
    end_node(n, disk);
}

Test(times, a_largest_timestamp_that_the_records_contradict_is_not_stored)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 1, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    const int64_t timestamps[] = {1700000000000, 1700000000500};
    struct batch b;
    make_stamped_batch(&b, timestamps, 2);
    struct batch_header h;
    cr_assert(eq(int, batch_header_decode(slice_of(b.bytes, b.size), &h), ERR_OK));
    h.max_timestamp = 1700000009999;
    batch_header_encode(
        &h, slice_of(b.bytes + BATCH_HEADER_SIZE, b.size - BATCH_HEADER_SIZE), b.bytes);
    struct partition_op op = produce_op(&id, 0, &b);
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));
    uint8_t bytes[4096];
    struct partition_op read = {
        .kind = PARTITION_READ,
        .id = {id, 0},
        .current_leader_epoch = -1,
        .in.fetch = {.dst = bytes, .dst_size = sizeof(bytes)},
    };
    cr_assert(eq(int, sim_node_partition_op(n, 0, &read), ERR_OK));
    const struct slice stored = slice_of(bytes, read.out.fetch.size);
    cr_assert(eq(int, batch_header_decode(stored, &h), ERR_OK));
    cr_assert(batch_crc_matches(stored));
    cr_assert(eq(i64, h.max_timestamp, timestamps[1]));
    end_node(n, disk);
}

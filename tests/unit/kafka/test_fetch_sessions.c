/* The cache of fetch sessions by itself: who gets one, who loses it, and what is remembered. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "core/rand.h"
#include "kafka/fetch_sessions.h"

enum {
    SHARD = 5,
    SESSIONS_MAX = 4,
    SECOND_US = 1000 * 1000,
};

static struct rand source;

static struct fetch_sessions *new_sessions(void)
{
    rand_init_seed(&source, 1);
    struct fetch_sessions *fs = fetch_sessions_new(&(struct fetch_sessions_options){
        .shard_id = SHARD,
        .sessions_max = SESSIONS_MAX,
        .eviction_us = UINT64_C(1000) * FETCH_SESSION_EVICTION_MS,
        .hash_seed = 7,
        .rand = &source,
    });
    cr_assert(ne(ptr, fs, NULL));
    return fs;
}

static void put(struct fetch_sessions *fs, struct fetch_session *session, int32_t partition)
{
    const struct fetch_request_topic topic = {.topic = slice_of_string("t")};
    const struct fetch_request_partition in = {.partition = partition};
    cr_assert(ne(ptr, fetch_session_put(fs, session, &topic, &in, 0), NULL));
}

static struct fetch_session *
open_one(struct fetch_sessions *fs, uint32_t parts_count, uint64_t now_us)
{
    struct fetch_session *session = fetch_sessions_open(fs, false, parts_count, now_us);
    for (uint32_t i = 0; session != NULL && i < parts_count; i++) {
        put(fs, session, (int32_t)i);
    }
    fetch_sessions_check(fs);
    return session;
}

Test(fetch_sessions, ids_say_whose_they_are_and_are_found)
{
    struct fetch_sessions *fs = new_sessions();
    int32_t ids[SESSIONS_MAX];
    for (int i = 0; i < SESSIONS_MAX; i++) {
        ids[i] = open_one(fs, 1, 0)->id;
        cr_assert(lt(i32, 0, ids[i]));
        cr_assert(eq(i32, ids[i] % SHARDS_MAX, SHARD));
    }
    for (int i = 0; i < SESSIONS_MAX; i++) {
        struct fetch_session *session = fetch_sessions_find(fs, ids[i]);
        cr_assert(eq(i32, session->id, ids[i]));
        fetch_sessions_close(fs, session);
        fetch_sessions_check(fs);
        cr_assert(eq(ptr, fetch_sessions_find(fs, ids[i]), NULL));
    }
    cr_assert(eq(ptr, fetch_sessions_find(fs, FETCH_SESSION_NONE), NULL));
    fetch_sessions_free(fs);
}

Test(fetch_sessions, who_makes_room)
{
    static const struct {
        const char *what;
        uint64_t seconds; /* Later; the first was used in the middle. */
        uint32_t parts_count;
        bool is_opened;
        uint32_t lost; /* Index of the one that goes; SESSIONS_MAX = none. */
    } rows[] = {
        {"all are young", 60, 100, false, SESSIONS_MAX},
        {"one was not used for long", 130, 1, true, 1},
        {"all were used, and the new one is larger than the smallest", 190, 2, true, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fetch_sessions *fs = new_sessions();
        int32_t ids[SESSIONS_MAX];
        for (uint32_t k = 0; k < SESSIONS_MAX; k++) {
            ids[k] = open_one(fs, k == 1 ? 1 : 10, 0)->id;
        }
        for (uint32_t k = 0; k < SESSIONS_MAX; k++) {
            const bool is_used = k != 1 || i == 2;
            const struct fetch_request in = {.session_epoch = 1};
            if (is_used) {
                (void)fetch_session_update(
                    fs, fetch_sessions_find(fs, ids[k]), &in, false, 100 * SECOND_US);
            }
        }
        struct fetch_session *session =
            open_one(fs, rows[i].parts_count, rows[i].seconds * SECOND_US);
        cr_assert(eq(int, session != NULL, rows[i].is_opened), "%s", rows[i].what);
        for (uint32_t k = 0; k < SESSIONS_MAX; k++) {
            const bool is_there = fetch_sessions_find(fs, ids[k]) != NULL;
            cr_assert(eq(int, is_there, k != rows[i].lost), "%s: %u", rows[i].what, k);
        }
        fetch_sessions_free(fs);
    }
}

Test(fetch_sessions, memory_is_bounded)
{
    struct fetch_sessions *fs = new_sessions();
    struct fetch_session *session = open_one(fs, 1, 0);
    const struct fetch_request_topic topic = {.topic = slice_of_string("t")};
    struct fetch_request_partition in = {.partition = 1};
    while (in.partition < 1000 * 1000 && fetch_session_put(fs, session, &topic, &in, 0) != NULL) {
        in.partition++;
    }
    cr_assert(lt(i32, 50000, in.partition));
    cr_assert(lt(i32, in.partition, 1000 * 1000));
    fetch_sessions_check(fs);
    cr_assert(eq(ptr, fetch_sessions_open(fs, false, 1, SECOND_US), NULL), "no room for others");
    in.partition = 77; /* What is there can still be changed. */
    in.fetch_offset = 5;
    cr_assert(eq(i64, fetch_session_put(fs, session, &topic, &in, 0)->in.fetch_offset, 5));
    /* What nobody used for long gives its memory up, though slots are free. */
    const uint64_t serial = session->serial;
    session = open_one(fs, 1, 130 * (uint64_t)SECOND_US);
    cr_assert(ne(ptr, session, NULL));
    cr_assert(eq(u32, fetch_sessions_count(fs), 1));
    cr_assert(ne(u64, session->serial, serial), "whoever remembers the old one can tell");
    fetch_sessions_free(fs);
}

/* A session grows into the memory of those that nobody used for long, and of nobody else. */
Test(fetch_sessions, a_growing_one_closes_idle_ones)
{
    const uint64_t late_us = 130 * (uint64_t)SECOND_US;
    struct fetch_sessions *fs = new_sessions();
    const struct fetch_session *idle = open_one(fs, 40000, 0);
    const int32_t idle_id = idle->id;
    const int32_t busy_id = open_one(fs, 40000, 20 * (uint64_t)SECOND_US)->id;
    struct fetch_session *session = open_one(fs, 1, 0);
    struct fetch_request_partition parts[60000];
    for (int32_t i = 0; i < 60000; i++) {
        parts[i] = (struct fetch_request_partition){.partition = 10 + i};
    }
    struct fetch_request_topic topic = {
        .topic = slice_of_string("t"), .partitions = parts, .partitions_count = 60000};
    struct fetch_request in = {.session_epoch = 1, .topics = &topic, .topics_count = 1};
    cr_assert(eq(int, fetch_session_update(fs, session, &in, false, late_us), KAFKA_NONE));
    fetch_sessions_check(fs);
    cr_assert(eq(u32, session->parts_count, 60001));
    cr_assert(eq(ptr, fetch_sessions_find(fs, idle_id), NULL));
    cr_assert(ne(ptr, fetch_sessions_find(fs, busy_id), NULL));
    fetch_sessions_free(fs);
}

Test(fetch_sessions, epochs_go_round)
{
    struct fetch_sessions *fs = new_sessions();
    struct fetch_session *session = open_one(fs, 1, 0);
    session->epoch = INT32_MAX;
    struct fetch_request in = {.session_epoch = INT32_MAX};
    cr_assert(eq(int, fetch_session_update(fs, session, &in, false, 0), KAFKA_NONE));
    cr_assert(eq(i32, session->epoch, 1));
    cr_assert(eq(
        int, fetch_session_update(fs, session, &in, false, 0), KAFKA_INVALID_FETCH_SESSION_EPOCH));
    in.session_epoch = 1;
    cr_assert(eq(
        int, fetch_session_update(fs, session, &in, true, 0), KAFKA_FETCH_SESSION_TOPIC_ID_ERROR));
    cr_assert(eq(i32, session->epoch, 1), "a refused request changes nothing");
    fetch_sessions_free(fs);
}

Test(fetch_sessions, nobody_gets_one_where_there_are_none)
{
    struct fetch_sessions *fs = fetch_sessions_new(&(struct fetch_sessions_options){0});
    cr_assert(eq(ptr, fetch_sessions_open(fs, false, 1, 0), NULL));
    fetch_sessions_free(fs);
}

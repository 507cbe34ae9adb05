/* Memory that is not there for a while: nothing is lost, and nobody is stuck. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "client/client.h"
#include "client/client_group.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/fetch.h"
#include "storage/batch.h"

#include "tests/unit/client/fake_broker.h"
#include "tests/unit/client/fake_group.h"

enum {
    RECORDS_COUNT = 100, /* More than fit what is reserved first. */
};

static struct fake_broker broker;
static struct client *client;
static size_t reallocs_left; /* Until there is no memory. */
static size_t polls_count;

/* Stands for realloc in the whole program: see meson.build. */
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size)
{
    if (reallocs_left == 0) {
        return NULL;
    }
    reallocs_left--;
    return __real_realloc(memory, size);
}

static size_t callocs_left = SIZE_MAX;

/* The same for calloc. */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if (callocs_left == 0) {
        return NULL;
    }
    callocs_left--;
    return __real_calloc(count, size);
}

static void setup(void)
{
    callocs_left = SIZE_MAX;
    reallocs_left = SIZE_MAX;
    polls_count = 0;
    fake_broker_init(&broker);
    client = fake_broker_client(&broker);
}

static void teardown(void)
{
    callocs_left = SIZE_MAX;
    reallocs_left = SIZE_MAX;
    client_free(client);
    fake_broker_done(&broker);
}

TestSuite(client_memory, .init = setup, .fini = teardown);

/* One batch of records, compressed, as the next answer to Fetch. */
static void answer_records(void)
{
    struct batch_builder b;
    struct wbuf w;
    const struct batch_identity nobody = {-1, -1, -1};
    wbuf_init(&w, 1 << 20);
    batch_builder_init(&b, 1 << 20);
    for (int i = 0; i < RECORDS_COUNT; i++) {
        const struct record_header header = {slice_of_string("h"), slice_of_string("v")};
        const struct batch_record record = {
            .value = slice_of_string("v"),
            .headers = &header,
            .headers_count = 1,
        };
        cr_assert(batch_builder_add(&b, &record) == ERR_OK);
    }
    cr_assert(batch_builder_finish(&b, CODEC_LZ4, &nobody, &w) == ERR_OK);
    batch_builder_done(&b);
    struct fetch_response_partition p;
    struct fetch_response_topic topic;
    struct fetch_response response;
    fetch_response_partition_init(&p);
    p.high_watermark = RECORDS_COUNT;
    p.records = wbuf_slice(&w);
    fetch_response_topic_init(&topic);
    topic.topic = slice_of_string("t");
    topic.topic_id = (struct uuid){.bytes = {7}};
    topic.partitions = &p;
    topic.partitions_count = 1;
    fetch_response_init(&response);
    response.responses = &topic;
    response.responses_count = 1;
    fake_broker_answer(&broker, API_FETCH, &response);
    wbuf_done(&w);
}

static void count_poll(struct client_env *env, struct pollfd *fds, size_t count, uint64_t deadline)
{
    (void)env;
    cr_assert(eq(sz, count, 1));
    cr_assert(eq(int, fds[0].events, POLLIN));
    cr_assert(le(u64, deadline, broker.clock.now_us + 1000000));
    cr_assert(pthread_mutex_trylock(&client->lock) == 0);
    client_unlock(client);
    polls_count++;
}

/* A turn without room for all descriptors waits all the same, without the lock, and not long. */
Test(client_memory, a_turn_without_memory_leaves_the_lock)
{
    struct client_cluster *cluster = NULL;
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    cr_assert(eq(int, client_describe(client, NULL, 0, &cluster), ERR_OK));
    client_cluster_free(cluster);
    broker.env.poll = count_poll;
    client->fds_capacity = 1;
    reallocs_left = 0;
    client_lock(client);
    client_turn(client, UINT64_MAX);
    client_unlock(client);
    cr_assert(eq(sz, polls_count, 1));
}

/* Wherever reading a batch finds no memory, the records come as soon as there is some. */
Test(client_memory, records_come_when_there_is_memory)
{
    bool has_failed = true;
    for (size_t at = 0; has_failed; at++) {
        teardown();
        setup();
        struct client_consumer *s = NULL;
        struct client_record r;
        fake_broker_connection(&broker);
        fake_broker_metadata(&broker, 1);
        fake_broker_connection(&broker);
        answer_records();
        cr_assert(client_consumer_new(client, "t", NULL, &s) == ERR_OK);
        cr_assert(client_consumer_assign(s, 0, 0) == ERR_OK);
        cr_assert(eq(int, client_consumer_next(s, 0, &r), ERR_TIMED_OUT));
        fake_broker_run(&broker, client); /* The answer is here. */
        int64_t offset = 0;
        has_failed = false;
        reallocs_left = at;
        while (offset < RECORDS_COUNT) {
            enum err e = client_consumer_next(s, 400, &r);
            if (e == ERR_BUSY) {
                cr_assert(not(has_failed));
                cr_assert(eq(int, client_consumer_failed_partition(s), 0));
                has_failed = true;
                reallocs_left = SIZE_MAX;
                continue;
            }
            cr_assert(e == ERR_OK, "%zu %s", at, client_why(client));
            cr_assert(eq(i64, r.offset, offset));
            offset++;
        }
        reallocs_left = SIZE_MAX;
        client_consumer_free(s);
    }
}

static void (*poll_of_broker)(struct client_env *, struct pollfd *, size_t, uint64_t);

/* The broker always has memory. */
static void
poll_in_plenty(struct client_env *env, struct pollfd *fds, size_t count, uint64_t deadline)
{
    const size_t callocs = callocs_left;
    const size_t reallocs = reallocs_left;
    callocs_left = reallocs_left = SIZE_MAX;
    poll_of_broker(env, fds, count, deadline);
    callocs_left = callocs;
    reallocs_left = reallocs;
}

/* Wherever a member finds no memory, from its join to its commit, it goes on as soon as there is
 * some: nothing is passed over, and it does not leave the group. */
Test(client_memory, members_go_on_when_there_is_memory)
{
    static struct fake_group group;
    static const char *const topics[] = {"t"};
    const struct client_member_options options = {
        .group = "g",
        .topics = topics,
        .topics_count = 1,
        .reading.reset = CLIENT_RESET_START,
    };
    for (size_t at = 0; at < 60; at++) {
        for (int is_realloc = 0; is_realloc < 2; is_realloc++) {
            struct client_member *m = NULL;
            struct client_record r;
            fake_group_init(&group);
            struct client *c = fake_group_client(&group);
            fake_group_assign(&group, 1, 1);
            poll_of_broker = group.broker.env.poll;
            group.broker.env.poll = poll_in_plenty;
            cr_assert(client_member_new(c, &options, &m) == ERR_OK);
            *(is_realloc ? &reallocs_left : &callocs_left) = at;
            for (int i = 0; i < 8; i++) {
                (void)client_member_poll(
                    m, 50, &(const struct client_record *){NULL}, &(size_t){0});
            }
            callocs_left = reallocs_left = SIZE_MAX;
            const struct client_topic_partition t0 = {"t", 0};
            for (int i = 0; i < 8 && client_member_position(m, &t0) < 3; i++) {
                (void)client_member_next(m, 2000, &r);
            }
            cr_assert(eq(i64, client_member_position(m, &t0), 3), "at %zu", at);
            cr_assert(client_member_commit(m, NULL, 0, 2000) == ERR_OK, "%s", client_why(c));
            cr_assert(eq(i64, group.committed[0], 3));
            cr_assert(client_member_close(m, 1000) == ERR_OK);
            client_member_free(m);
            client_free(c);
            fake_group_done(&group);
        }
    }
}

/* Goal: no request, however cut, changed or badly timed, does more than cost its connection, and
 * nothing of it stays. Method: requests of every API and version filled at random by their schema,
 * half of them with names and numbers that mean something; a cluster that answers at random.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "core/rand.h"
#include "kafka/api_table.h"
#include "kafka/proto/header.h"
#include "kafka/request.h"

#include "tests/support/kafka_rig.h"
#include "tests/unit/kafka_proto/support.h"

enum {
    ROUNDS = 40, /* Samples of each version. */
    FLIPS = 8,   /* Of each sample. */
    PLAYS = 100, /* Until a request is answered, a second each. */
    FRAME_SIZE_MAX = 64 << 10,
    MEMORY_SIZE_MAX = 12 << 10,
    MEMORY_STEP = 40,
    MEMORY_ROUNDS = 8,
};

static enum err draw_error(struct rand *random, const enum err *errors, size_t count)
{
    return errors[rand_below(random, count)];
}

static void end_op(struct kafka_rig *g, struct rand *random)
{
    static const enum err errors[] = {
        ERR_OK, ERR_NOT_FOUND, ERR_FAILED, ERR_CANCELLED, ERR_LEADER_EPOCH_FENCED};
    struct cluster *c = &g->cluster;
    struct partition_op *op = c->ops[rand_below(random, c->ops_count)];
    if (op->kind == PARTITION_PRODUCE && op->in.produce.on_copied != NULL) {
        op->in.produce.on_copied(op);
    }
    enum err e = draw_error(random, errors, sizeof(errors) / sizeof(errors[0]));
    e = op->kind == PARTITION_READ && e == ERR_OK ? ERR_OUT_OF_RANGE : e;
    fake_cluster_end_op(c, op, e, (int64_t)rand_below(random, 10));
}

static void end_request(struct kafka_rig *g, struct rand *random)
{
    static const enum err errors[] = {ERR_OK,
                                      ERR_TOPIC_UNKNOWN,
                                      ERR_TOPIC_EXISTS,
                                      ERR_CONFIG_INVALID,
                                      ERR_BUSY,
                                      ERR_NO_SPACE,
                                      ERR_CANCELLED,
                                      ERR_FAILED};
    enum err e = draw_error(random, errors, sizeof(errors) / sizeof(errors[0]));
    fake_cluster_end_request(&g->cluster, e);
}

/* The cluster's part, until nothing of the request is left. */
static void play(struct kafka_rig *g, struct rand *random)
{
    for (int i = 0; i < PLAYS; i++) {
        kafka_rig_run(g);
        while (g->cluster.cancels_count > 0) {
            fake_cluster_end_cancel(&g->cluster);
        }
        if (g->cluster.requests_count > 0) {
            end_request(g, random);
        } else if (g->cluster.ops_count > 0 && !rand_one_in(random, 4)) {
            end_op(g, random);
        } else if (g->dispatch->busy_count == 0) {
            return;
        } else {
            kafka_rig_advance(g, 1000 * 1000);
        }
    }
}

static size_t frame_of(const struct sample *s, uint8_t frame[FRAME_SIZE_MAX])
{
    struct wbuf w;
    wbuf_init_fixed(&w, frame, FRAME_SIZE_MAX);
    const struct request_header header = {
        .api_key = s->api->key,
        .api_version = s->version,
        .correlation_id = 1,
        .client_id = slice_of_string("unit"),
    };
    enum err e = request_header_encode(&w, &header);
    cr_assert(eq(int, e, ERR_OK));
    e = s->message->encode(&w, s->version, s->value);
    cr_assert(eq(int, e, ERR_OK), "%s", s->name);
    return w.size;
}

/* One answer that can be read, or the end of the connection, or silence where that was asked for.
 */
static void
expect_end(struct kafka_rig *g, const struct sample *s, struct slice frame, struct rand *random)
{
    kafka_rig_redial(g);
    kafka_rig_send_frame(g, frame);
    play(g, random);
    if (g->dispatch->busy_count > 0) { /* It waits for data, and would for long. */
        fake_peer_close(g->peer, ERR_CLOSED);
        play(g, random);
    }
    cr_assert(eq(u32, g->dispatch->busy_count, 0), "%s", s->name);
    if (fake_peer_received(g->peer).size > 0) {
        (void)kafka_rig_answer(g, s->api, s->version);
        cr_assert(eq(sz, fake_peer_received(g->peer).size, g->read_pos), "%s", s->name);
        fake_peer_forget_received(g->peer);
        g->read_pos = 0;
    }
    arena_reset(&g->arena);
}

static void attack(struct kafka_rig *g, struct sample *s, int round, struct rand *random)
{
    static uint8_t frame[FRAME_SIZE_MAX];
    const size_t size = frame_of(s, frame);
    expect_end(g, s, slice_of(frame, size), random);
    for (size_t cut = 0; cut < size && round < 4; cut++) {
        expect_end(g, s, slice_of(frame, cut), random);
    }
    for (int i = 0; i < FLIPS; i++) {
        /* Not the key and the version, which would be another test. */
        const size_t at = 4 + rand_below(random, size - 4);
        const uint8_t before = frame[at];
        rand_bytes(random, &frame[at], 1);
        expect_end(g, s, slice_of(frame, size), random);
        frame[at] = before;
    }
}

static void begin(struct kafka_rig *g, struct sample *s, const struct api *api, int16_t version)
{
    kafka_rig_init(g);
    fake_cluster_add_topic(&g->cluster, "topic", 3);
    sample_init(s, api->schema, true, version);
    s->word = "topic";
}

static void end(struct kafka_rig *g, struct sample *s)
{
    sample_done(s);
    kafka_rig_redial(g);
    kafka_rig_done(g); /* Asserts that nothing is left. */
}

Test(every_api, requests_of_chance_cost_their_connection_at_most)
{
    struct rand random;
    rand_init_seed(&random, 7);
    for (size_t i = 0; i < API_COUNT; i++) {
        for (int16_t v = API_TABLE[i].served_min; v <= API_TABLE[i].max; v++) {
            struct kafka_rig g;
            struct sample s;
            begin(&g, &s, &API_TABLE[i], v);
            for (int round = 0; round < ROUNDS; round++) {
                sample_fill(&s, &random);
                attack(&g, &s, round, &random);
            }
            end(&g, &s);
        }
    }
}

/* Memory that ends at any byte closes the connection, or goes as far as an answer with an error. */
Test(every_api, memory_may_end_anywhere)
{
    static uint8_t frame[FRAME_SIZE_MAX];
    struct rand random;
    rand_init_seed(&random, 8);
    for (size_t i = 0; i < API_COUNT; i++) {
        struct kafka_rig g;
        struct sample s;
        begin(&g, &s, &API_TABLE[i], API_TABLE[i].max);
        for (int round = 0; round < MEMORY_ROUNDS; round++) {
            sample_fill(&s, &random);
            const struct slice whole = slice_of(frame, frame_of(&s, frame));
            for (size_t size = 0; size < MEMORY_SIZE_MAX; size += MEMORY_STEP) {
                kafka_rig_limit_requests(&g, size);
                expect_end(&g, &s, whole, &random);
            }
        }
        kafka_rig_limit_requests(&g, REQUEST_ARENA_SIZE_MAX);
        end(&g, &s);
    }
}

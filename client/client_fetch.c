/* The thread's side of consumers: what positions lack is asked of their leaders, ahead of the
 * program, as long as there is room. Each consumer has connections of its own: a broker that keeps
 * a fetch waiting for records answers nothing else meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "client/client_consumer.h"
#include "client/client_error.h"
#include "client/client_priv.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/fetch.h"

enum {
    TOPIC_ID_VERSION_MIN = 13,
    FETCH_WAIT_MS = 500,      /* At most, of one request. */
    FETCH_WAIT_SHORT_MS = 50, /* While positions of the same leader are too full to be asked for. */
    FAILING_MS_MAX = 30000,   /* So long trouble that may pass is not told. */
    GONE_ATTEMPTS = 3,        /* So often a topic may be unknown before that is told. */
};

/* ---- requests, of fetches and of starts ---- */

struct client_fetch *client_fetch_new(struct client_consumer *s)
{
    struct client_fetch *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return NULL;
    }
    list_init(&x->link);
    x->client = s->client;
    x->consumer = s;
    arena_init(&x->arena, CLIENT_ARENA_SIZE_MAX);
    x->asked = arena_alloc_array(&x->arena, s->positions_count, sizeof(*x->asked));
    if (x->asked == NULL) {
        client_fetch_free(x);
        return NULL;
    }
    return x;
}

void client_fetch_free(struct client_fetch *x)
{
    client_call_done(&x->call);
    arena_done(&x->arena);
    list_remove(&x->link);
    free(x);
}

void client_fetch_add(struct client_fetch *x, struct client_position *p)
{
    p->is_asked = true;
    x->asked[x->asked_count++] =
        (struct client_asked){p->topic, p->partition, p->serial, p->fetch_offset, p->question};
}

static int by_topic(const void *a, const void *b)
{
    const struct client_asked *left = a;
    const struct client_asked *right = b;
    const int order = strcmp(left->topic->name, right->topic->name);
    return order != 0 ? order : (left->serial > right->serial) - (left->serial < right->serial);
}

void client_fetch_sort(struct client_fetch *x)
{
    if (client_fetch_run(x, 0) < x->asked_count) {
        qsort(x->asked, x->asked_count, sizeof(*x->asked), by_topic);
    }
}

struct slice client_fetch_name(struct client_fetch *x, size_t index)
{
    const char *name = x->asked[index].topic->name;
    const size_t size = strlen(name);
    return slice_of(arena_strndup(&x->arena, name, size), size);
}

size_t client_fetch_run(const struct client_fetch *x, size_t first)
{
    size_t end = first;
    while (end < x->asked_count && x->asked[end].topic == x->asked[first].topic) {
        end++;
    }
    return end - first;
}

struct client_position *client_fetch_take(struct client_fetch *x, size_t index)
{
    const struct client_consumer *s = x->consumer;
    for (size_t i = 0; i < s->positions_count; i++) {
        const size_t at = (x->taken_next + i) % s->positions_count;
        if (s->positions[at]->serial == x->asked[index].serial) {
            s->positions[at]->is_asked = false;
            x->taken_next = at + 1;
            return s->positions[at];
        }
    }
    return NULL;
}

void client_fetch_abandon(struct client_consumer *s)
{
    list_for_each_safe (node, &s->requests) {
        struct client_fetch *x = container_of(node, struct client_fetch, link);
        x->consumer = NULL;
        list_remove(&x->link);
        if (client_cancel(&x->call)) {
            client_fetch_free(x);
        }
    }
}

/* ---- trouble ---- */

void client_position_halt(struct client_position *p, enum err e, const char *why)
{
    p->is_halted = true;
    p->err = e;
    (void)client_say(p->why, e, "%s", why);
}

void client_position_failed(struct client_consumer *s,
                            struct client_position *p,
                            enum err e,
                            const char *why)
{
    struct client *c = s->client;
    const uint64_t now_us = client_now_us(c);
    if (e == ERR_UNSUPPORTED || e == ERR_INVALID) {
        client_position_halt(p, e, why);
        return;
    }
    p->failing_us = p->failures == 0 ? now_us : p->failing_us;
    p->failures++;
    p->retry_us = now_us + client_back_off_us(c, p->failures);
    client_topic_want(c, p->topic);
    if (now_us - p->failing_us >= FAILING_MS_MAX * (uint64_t)1000) {
        p->failing_us = now_us;
        p->err = client_say(p->why, e, "%s", why);
    }
}

/* ---- answers ---- */

static bool copy_aborted(struct client_chunk *chunk, const struct fetch_response_partition *answer)
{
    const size_t count = answer->aborted_transactions_count;
    struct client_walk *w = &chunk->walk;
    if (count == 0) {
        return true;
    }
    w->aborted = calloc(count, sizeof(*w->aborted));
    if (w->aborted == NULL) {
        return false;
    }
    w->aborted_count = count;
    for (size_t i = 0; i < count; i++) {
        w->aborted[i].producer_id = answer->aborted_transactions[i].producer_id;
        w->aborted[i].first_offset = answer->aborted_transactions[i].first_offset;
    }
    return true;
}

/* Puts what came behind the position. */
static void take_records(struct client_consumer *s,
                         struct client_position *p,
                         const struct fetch_response_partition *answer,
                         struct client_frame *frame)
{
    bool is_damaged = false;
    struct slice batches = answer->records;
    const int64_t end = client_walk_end(&batches, p->fetch_offset, &is_damaged);
    if (answer->records.size == 0) {
        return;
    }
    if (batches.size == 0) {
        client_position_failed(s, p, ERR_CORRUPT, "the answer holds no whole batch");
        return;
    }
    struct client_chunk *chunk = calloc(1, sizeof(*chunk));
    if (chunk == NULL) {
        client_position_failed(s, p, ERR_BUSY, "no memory for records");
        return;
    }
    list_init(&chunk->link);
    client_walk_init(&chunk->walk, batches, p->fetch_offset);
    if (!copy_aborted(chunk, answer)) {
        client_walk_done(&chunk->walk);
        free(chunk);
        client_position_failed(s, p, ERR_BUSY, "no memory for records");
        return;
    }
    chunk->frame = frame;
    chunk->size = batches.size;
    frame->refs++;
    list_push_back(&p->chunks, &chunk->link);
    p->chunks_size += chunk->size;
    p->fetch_offset = end;
    /* The program finds the damage behind the records before it; until then nothing is asked. */
    p->is_halted |= is_damaged;
}

void client_position_reset(struct client_consumer *s,
                           struct client_position *p,
                           enum err e,
                           const char *why)
{
    /* What is buffered is still good: only what follows is somewhere else. */
    p->fetch_offset = CLIENT_OFFSET_UNKNOWN;
    switch (s->options.reset) {
    case CLIENT_RESET_NONE:
        client_position_halt(p, e, why);
        break;
    case CLIENT_RESET_START:
        p->question = CLIENT_OFFSET_START;
        break;
    case CLIENT_RESET_END:
        p->question = CLIENT_OFFSET_END;
        break;
    case CLIENT_RESET_AGO: {
        const int64_t time_ms = clock_wall_ms(s->client->env->clock) - s->options.reset_ago_ms;
        p->question = time_ms > 0 ? time_ms : 0;
        break;
    }
    }
}

static void take_partition(struct client_consumer *s,
                           struct client_position *p,
                           const struct fetch_response_partition *answer,
                           struct client_frame *frame)
{
    const int16_t code = answer->error_code;
    if (code == KAFKA_NONE) {
        p->failures = 0;
        p->end = s->options.is_read_committed && answer->last_stable_offset >= 0
                     ? answer->last_stable_offset
                     : answer->high_watermark;
        take_records(s, p, answer, frame);
        return;
    }
    char why[CLIENT_WHY_SIZE];
    enum err e = client_say(why,
                            client_err_of(code),
                            "cannot read %s[%d] at offset %lld: %s",
                            p->topic->name,
                            p->partition,
                            (long long)p->fetch_offset,
                            client_error_text(code));
    if (code == KAFKA_OFFSET_OUT_OF_RANGE) {
        client_position_reset(s, p, ERR_OUT_OF_RANGE, why);
    } else if (kafka_error_is_retriable(code)) {
        client_position_failed(s, p, e, why);
    } else {
        client_position_halt(p, e, why);
    }
}

static bool is_of(const struct client_fetch *x,
                  const struct fetch_response_topic *answer,
                  const struct client_position *p)
{
    return x->call.version >= TOPIC_ID_VERSION_MIN
               ? uuid_equal(&answer->topic_id, &p->topic->id)
               : slice_equal_string(answer->topic, p->topic->name);
}

/* What an answer has for the positions that were asked about. It mostly has them in that order: the
 * search for one begins behind the one before. */
struct answers {
    const struct client_fetch *x;
    size_t topic;
    size_t partition;
};

static const struct fetch_response_partition *
find_partition(struct answers *a, const struct fetch_response_topic *t, int32_t partition)
{
    for (size_t i = 0; i < t->partitions_count; i++) {
        const size_t at = (a->partition + i) % t->partitions_count;
        if (t->partitions[at].partition_index == partition) {
            a->partition = at + 1;
            return &t->partitions[at];
        }
    }
    return NULL;
}

/* A topic may stand in the answer more than once. */
static const struct fetch_response_partition *find_answer(struct answers *a,
                                                          const struct client_position *p)
{
    const struct fetch_response *response = a->x->response;
    for (size_t i = 0; i < response->responses_count; i++) {
        const size_t at = (a->topic + i) % response->responses_count;
        const struct fetch_response_topic *t = &response->responses[at];
        if (!is_of(a->x, t, p)) {
            continue;
        }
        a->partition = at == a->topic ? a->partition : 0;
        a->topic = at;
        const struct fetch_response_partition *found = find_partition(a, t, p->partition);
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

static void
take_answer(struct client_consumer *s, struct client_fetch *x, struct client_frame *frame)
{
    struct answers answers = {.x = x};
    for (size_t i = 0; i < x->asked_count; i++) {
        struct client_position *p = client_fetch_take(x, i);
        const struct fetch_response_partition *answer = p != NULL ? find_answer(&answers, p) : NULL;
        if (p != NULL && answer != NULL) {
            take_partition(s, p, answer, frame);
        } else if (p != NULL) {
            client_position_failed(s, p, ERR_CORRUPT, "the answer leaves out a partition");
        }
    }
}

static void fail_all(struct client_fetch *x, enum err e, const char *why)
{
    for (size_t i = 0; i < x->asked_count; i++) {
        struct client_position *p = client_fetch_take(x, i);
        if (p != NULL) {
            client_position_failed(x->consumer, p, e, why);
        }
    }
}

static void on_fetched(struct client_call *call)
{
    struct client_fetch *x = container_of(call, struct client_fetch, call);
    struct client_consumer *s = x->consumer;
    if (s == NULL) {
        client_fetch_free(x);
        return;
    }
    const struct fetch_response *response = x->response;
    enum err e = call->err;
    if (e == ERR_OK && response->error_code != KAFKA_NONE) {
        e = client_say(call->why,
                       client_err_of(response->error_code),
                       "cannot read from node %d: %s",
                       call->node_id,
                       client_error_text(response->error_code));
    }
    struct client_frame *frame = e == ERR_OK ? calloc(1, sizeof(*frame)) : NULL;
    if (e == ERR_OK && frame == NULL) {
        e = client_say(call->why, ERR_BUSY, "no memory for an answer");
    }
    if (frame == NULL) {
        fail_all(x, e, call->why);
    } else {
        take_answer(s, x, frame);
        frame->size = call->frame_size;
        frame->bytes = call->frame;
        if (frame->refs > 0) {
            s->buffered_size += frame->size;
            call->frame = NULL; /* The chunks have it. */
        } else {
            free(frame);
        }
    }
    client_fetch_free(x);
    client_changed(s->client);
}

/* ---- questions ---- */

bool client_position_is_due(struct client_consumer *s,
                            const struct client_position *p,
                            uint64_t now_us,
                            uint64_t *next_us)
{
    if (p->is_asked || p->is_halted || p->is_paused || p->is_leaving ||
        p->serial > s->polled_serial) {
        return false;
    }
    if (p->failures > 0 && p->topic->is_wanted) {
        return false; /* Who leads is asked first. */
    }
    if (p->retry_us > now_us) {
        *next_us = p->retry_us < *next_us ? p->retry_us : *next_us;
        return false;
    }
    return true;
}

static bool is_full(const struct client_consumer *s, const struct client_position *p)
{
    return p->chunks_size >= s->options.partition_size_max;
}

/* What to ask a node in one fetch; NULL without memory, or for nothing. */
static struct client_fetch *gather(struct client_consumer *s, int32_t node_id, uint64_t now_us)
{
    struct client_fetch *x = client_fetch_new(s);
    uint64_t ignored = 0;
    for (size_t i = 0; x != NULL && i < s->positions_count; i++) {
        struct client_position *p = s->positions[i];
        if (p->topic->leaders[p->partition] == node_id && p->fetch_offset >= 0 && !is_full(s, p) &&
            client_position_is_due(s, p, now_us, &ignored)) {
            client_fetch_add(x, p);
        }
    }
    if (x != NULL && x->asked_count == 0) {
        client_fetch_free(x);
        return NULL;
    }
    return x;
}

static bool has_full(const struct client_consumer *s, int32_t node_id)
{
    for (size_t i = 0; i < s->positions_count; i++) {
        const struct client_position *p = s->positions[i];
        if (p->topic->leaders[p->partition] == node_id && !p->is_paused && is_full(s, p)) {
            return true;
        }
    }
    return false;
}

/* False without memory. */
static bool fill_fetch(struct client_fetch *x, int32_t wait_ms)
{
    struct client_consumer *s = x->consumer;
    struct fetch_request *request = arena_alloc(&x->arena, sizeof(*request));
    struct fetch_response *response = arena_alloc(&x->arena, sizeof(*response));
    struct fetch_request_topic *topics =
        arena_alloc_array(&x->arena, x->asked_count, sizeof(*topics));
    struct fetch_request_partition *partitions =
        arena_alloc_array(&x->arena, x->asked_count, sizeof(*partitions));
    if (request == NULL || response == NULL || topics == NULL || partitions == NULL) {
        return false;
    }
    fetch_response_init(response);
    fetch_request_init(request);
    request->max_wait_ms = wait_ms;
    request->min_bytes = 1;
    request->max_bytes = (int32_t)s->options.fetch_size_max;
    request->isolation_level = s->options.is_read_committed;
    request->topics = topics;
    client_fetch_sort(x);
    for (size_t i = 0; i < x->asked_count; i += client_fetch_run(x, i)) {
        struct fetch_request_topic *t = &topics[request->topics_count++];
        fetch_request_topic_init(t);
        t->topic = client_fetch_name(x, i);
        t->topic_id = x->asked[i].topic->id;
        t->partitions = &partitions[i];
        t->partitions_count = client_fetch_run(x, i);
        if (t->topic.data == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < x->asked_count; i++) {
        fetch_request_partition_init(&partitions[i]);
        partitions[i].partition = x->asked[i].partition;
        partitions[i].fetch_offset = x->asked[i].offset;
        partitions[i].partition_max_bytes = (int32_t)s->options.partition_size_max;
    }
    x->request = request;
    x->response = response;
    return true;
}

static bool has_all_ids(const struct client_fetch *x)
{
    for (size_t i = 0; i < x->asked_count; i++) {
        if (uuid_is_zero(&x->asked[i].topic->id)) {
            return false;
        }
    }
    return true;
}

static void ask(struct client_consumer *s, int32_t node_id, uint64_t now_us)
{
    struct client *c = s->client;
    struct client_fetch *x = gather(s, node_id, now_us);
    if (x == NULL) {
        return;
    }
    const int32_t wait_ms = has_full(s, node_id) ? FETCH_WAIT_SHORT_MS : FETCH_WAIT_MS;
    if (!fill_fetch(x, wait_ms)) {
        fail_all(x, ERR_BUSY, "no memory for the request");
        client_fetch_free(x);
        return;
    }
    x->call = (struct client_call){
        .api_key = API_FETCH,
        .version_max = has_all_ids(x) ? 0 : TOPIC_ID_VERSION_MIN - 1,
        .node_id = node_id,
        .owner = s,
        .timeout_ms = c->timeout_ms + (uint32_t)wait_ms,
        .request = x->request,
        .arena = &x->arena,
        .response = x->response,
        .on_done = on_fetched,
    };
    list_push_back(&s->requests, &x->link);
    client_post(c, &x->call);
}

static bool has_fetch_at(const struct client_consumer *s, int32_t node_id)
{
    list_for_each (node, &s->requests) {
        const struct client_call *call = &container_of(node, struct client_fetch, link)->call;
        if (call->node_id == node_id && call->owner != NULL) {
            return true;
        }
    }
    return false;
}

/* One position that lacks something brings all of its leader's along. */
static void look_at(struct client_consumer *s, struct client_position *p, uint64_t *next_us)
{
    const uint64_t now_us = client_now_us(s->client);
    if (!client_position_is_due(s, p, now_us, next_us)) {
        return;
    }
    const int32_t node_id = p->topic->leaders[p->partition];
    if (node_id < 0 || !client_node_is_known(s->client, node_id)) {
        char why[CLIENT_WHY_SIZE];
        enum err e = client_say(
            why, ERR_NOT_LEADER, "%s[%d] has no leader now", p->topic->name, p->partition);
        client_position_failed(s, p, e, why);
        *next_us = p->retry_us < *next_us ? p->retry_us : *next_us;
    } else if (p->fetch_offset < 0 && p->question != CLIENT_OFFSET_COMMITTED) {
        client_starts_ask(s, node_id, now_us);
    } else if (p->fetch_offset >= 0 && !is_full(s, p) &&
               s->buffered_size < s->options.buffer_size && !has_fetch_at(s, node_id)) {
        ask(s, node_id, now_us);
    }
}

static void turn(struct client_consumer *s, uint64_t *next_us)
{
    for (size_t i = 0; i < s->positions_count; i++) {
        struct client_position *p = s->positions[i];
        if (p->topic->unknown_count >= GONE_ATTEMPTS && !p->is_halted) {
            client_position_halt(p, ERR_TOPIC_UNKNOWN, p->topic->why);
            /* A member need not be told: its group takes the partitions away. */
            p->err = s->member != NULL ? ERR_OK : p->err;
            client_changed(s->client);
        }
        const enum err before = p->err;
        look_at(s, p, next_us);
        if (p->err != before) {
            client_changed(s->client);
        }
    }
}

void client_consumers_turn(struct client *c, uint64_t *next_us)
{
    list_for_each (node, &c->consumers) {
        if (!c->is_stopping) {
            turn(container_of(node, struct client_consumer, link), next_us);
        }
    }
}

#include "kafka/group_asks.h"

#include <string.h>

#include "core/assert.h"
#include "core/shard.h"
#include "kafka/proto/consumer_group_describe.h"
#include "kafka/proto/delete_groups.h"
#include "kafka/proto/describe_groups.h"
#include "kafka/proto/offset_fetch.h"
#include "kafka/request.h"

enum {
    UNDER_WAY_MAX = 64,        /* Deletions, which wait for flushes. */
    UNDER_WAY_READING_MAX = 8, /* Each may take what memory is left. */
};

/* "/127.0.0.1", as Kafka shows a client's host. */
static struct slice host_of(struct request *r)
{
    const char *peer = conn_peer(r->conn);
    const char *port = strrchr(peer, ':');
    const int size = port == NULL ? (int)strlen(peer) : (int)(port - peer);
    return request_text(r, "/%.*s", size, peer);
}

/* Where a request may be of many groups. */
static const size_t RESULT_SIZES[GROUP_CALL_KIND_COUNT] = {
    [GROUP_FETCH] = sizeof(struct offset_fetch_response_group),
    [GROUP_DESCRIBE] = sizeof(struct describe_groups_response_group),
    [GROUP_DELETE] = sizeof(struct delete_groups_response_result),
    [GROUP_CONSUMER_DESCRIBE] = sizeof(struct consumer_group_describe_response_group),
};

bool group_asks_init(struct request *r, enum group_call_kind kind, size_t count)
{
    struct group_asks *all = r->state;
    const struct slice host = host_of(r);
    all->count = count;
    all->asks = request_alloc(r, count, sizeof(*all->asks));
    all->result_size = RESULT_SIZES[kind];
    all->results = request_alloc(r, count, all->result_size);
    if (all->asks == NULL || all->results == NULL || slice_is_null(host)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct group_call *call = &all->asks[i].call;
        group_call_init(call, kind);
        all->asks[i].r = r;
        call->version = r->version;
        call->client_id = slice_is_null(r->client_id) ? slice_of("", 0) : r->client_id;
        call->client_host = host;
        call->is_impatient = conn_client(r->conn) != CLIENT_IS_PATIENT;
    }
    return true;
}

static bool is_memory_lacking(const struct group_asks *all)
{
    for (size_t i = 0; i < all->count; i++) {
        if (group_call_lacks_memory(&all->asks[i].call)) {
            return true;
        }
    }
    return false;
}

static void refuse_missing(struct group_asks *all)
{
    const bool lacks_memory = is_memory_lacking(all);
    for (size_t i = 0; i < all->count; i++) {
        struct group_call *call = &all->asks[i].call;
        if (call->out == NULL) {
            group_call_refuse_missing(call, lacks_memory);
        }
    }
}

static void collect(struct group_asks *all)
{
    uint8_t *to = all->results;
    for (size_t i = 0; i < all->count; i++, to += all->result_size) {
        if (all->asks[i].call.out != NULL && all->result_size > 0) {
            memcpy(to, all->asks[i].call.out, all->result_size);
        }
    }
}

static void finish(struct request *r)
{
    struct group_asks *all = r->state;
    request_unpark(r);
    refuse_missing(all);
    collect(all);
    all->on_all(r);
    for (size_t i = 0; i < all->count; i++) {
        group_call_done(&all->asks[i].call);
    }
}

static void go_on(struct request *r);

static void on_done(struct group_call *call)
{
    struct group_ask *ask = container_of(call, struct group_ask, call);
    struct request *r = ask->r;
    struct group_asks *all = r->state;
    ask->is_under_way = false;
    assert_cmp(all->under_way_count, >, 0);
    all->under_way_count--;
    all->answers_size += group_call_size(call);
    if (call->out == NULL) {
        all->next = all->count; /* Nor would the others have memory. */
    }
    go_on(r);
    request_release(r);
}

static void begin(struct request *r, struct group_ask *ask, size_t index)
{
    struct group_asks *all = r->state;
    const size_t taken = all->answers_size;
    group_call_limit(&ask->call, taken < GROUP_ANSWER_SIZE_MAX ? GROUP_ANSWER_SIZE_MAX - taken : 0);
    all->under_way_count++;
    ask->is_under_way = true;
    ask->call.on_done = on_done;
    request_hold(r);
    if (ask->call.kind == GROUP_LIST) {
        groups_submit_list(r->d->groups, (uint16_t)index, &ask->call);
    } else {
        groups_submit(r->d->groups, &ask->call);
    }
}

static void go_on(struct request *r)
{
    struct group_asks *all = r->state;
    const bool is_reading = all->count > 0 && all->asks[0].call.kind != GROUP_DELETE;
    const size_t under_way_max = is_reading ? UNDER_WAY_READING_MAX : UNDER_WAY_MAX;
    while (all->next < all->count && all->under_way_count < under_way_max) {
        const size_t index = all->next++;
        begin(r, &all->asks[index], index);
    }
    if (all->under_way_count == 0) {
        finish(r);
    }
}

static void on_cancelled(struct group_cancel *cancel)
{
    request_release(container_of(cancel, struct group_ask, cancel)->r);
}

/* Those that are not begun: nobody waits for what they would find out. */
static void refuse_rest(struct group_asks *all)
{
    for (; all->next < all->count; all->next++) {
        group_call_refuse(
            &all->asks[all->next].call, KAFKA_COORDINATOR_NOT_AVAILABLE, (struct slice){0});
    }
}

static void cancel_all(struct request *r)
{
    struct group_asks *all = r->state;
    request_unpark(r);
    if (all->is_cancelled) {
        return;
    }
    all->is_cancelled = true;
    for (size_t i = 0; i < all->next; i++) {
        struct group_ask *ask = &all->asks[i];
        if (ask->is_under_way) {
            ask->cancel = (struct group_cancel){
                .call = &ask->call,
                .is_client_gone = conn_is_ending(r->conn),
                .on_done = on_cancelled,
            };
            request_hold(r);
            groups_cancel(r->d->groups, &ask->cancel);
        }
    }
    /* What was received to be deleted is, also if its client does not wait for the answer. */
    if (all->count > 0 && all->asks[0].call.kind != GROUP_DELETE && !conn_is_half_closed(r->conn)) {
        refuse_rest(all);
    }
}

/* Also of what came while the request was put off for want of memory, and could not be told. */
static bool is_to_be_hurried(const struct request *r)
{
    return conn_is_ending(r->conn) || (r->on_behind != NULL && conn_is_behind(r->conn));
}

void group_asks_begin(struct request *r, void (*on_all)(struct request *r))
{
    struct group_asks *all = r->state;
    all->on_all = on_all;
    /* A heartbeat that waits for news must not keep a commit waiting. */
    r->on_behind =
        all->count > 0 && all->asks[0].call.kind == GROUP_CONSUMER_HEARTBEAT ? cancel_all : NULL;
    const bool is_hurried = is_to_be_hurried(r);
    request_park(r, cancel_all);
    go_on(r);
    if (is_hurried && !request_is_answered(r)) {
        cancel_all(r);
    }
}

void group_ask_each(struct request *r,
                    enum group_call_kind kind,
                    const struct slice *groups,
                    size_t count,
                    void (*on_all)(struct request *r))
{
    r->state = request_alloc(r, 1, sizeof(struct group_asks));
    if (r->state == NULL || !group_asks_init(r, kind, count)) {
        request_abort(r, "too many groups");
        return;
    }
    struct group_asks *all = r->state;
    for (size_t i = 0; i < count; i++) {
        all->asks[i].call.group_id = groups[i];
    }
    group_asks_begin(r, on_all);
}

bool group_asks_are_whole(const struct group_asks *asks)
{
    for (size_t i = 0; i < asks->count; i++) {
        if (asks->asks[i].call.out == NULL) {
            return false;
        }
    }
    return true;
}

enum kafka_error group_asks_error(const struct request *r)
{
    const bool is_for_now = r->arena.is_over_budget || r->arena.is_without_memory;
    return is_for_now ? KAFKA_COORDINATOR_NOT_AVAILABLE : KAFKA_INVALID_REQUEST;
}

static void on_late(struct timer *t)
{
    struct group_asks *all = container_of(t, struct group_asks, timer);
    struct group_ask *ask = &all->asks[0];
    struct group_call refusal;
    group_call_init(&refusal, ask->call.kind);
    refusal.version = ask->call.version;
    refusal.group_id = ask->call.group_id;
    refusal.in = ask->call.in;
    group_call_refuse(&refusal, KAFKA_COORDINATOR_NOT_AVAILABLE, (struct slice){0});
    request_unpark(ask->r);
    if (refusal.out != NULL) {
        request_answer(ask->r, refusal.out);
    } else {
        request_abort(ask->r, "no memory");
    }
    group_call_done(&refusal);
}

static bool is_only_to_be_durable(enum group_call_kind kind)
{
    return kind == GROUP_COMMIT || kind == GROUP_DELETE_OFFSETS || kind == GROUP_LEAVE;
}

static void answer_single(struct request *r)
{
    struct group_asks *all = r->state;
    timer_cancel(&r->d->s->timers, &all->timer);
    if (request_is_answered(r)) {
        return; /* Late. */
    }
    if (group_asks_are_whole(all)) {
        request_answer(r, all->asks[0].call.out);
    } else {
        request_abort(r, "no memory");
    }
}

void group_ask_single(struct request *r, enum group_call_kind kind, struct slice group_id)
{
    r->state = request_alloc(r, 1, sizeof(struct group_asks));
    if (r->state == NULL || !group_asks_init(r, kind, 1)) {
        request_abort(r, "no memory");
        return;
    }
    struct group_asks *all = r->state;
    all->asks[0].call.group_id = group_id;
    all->asks[0].call.in = r->in;
    timer_init(&all->timer, on_late);
    if (is_only_to_be_durable(kind)) {
        shard_timer_arm(r->d->s, &all->timer, groups_commit_timeout_us(r->d->groups));
    }
    group_asks_begin(r, answer_single);
}

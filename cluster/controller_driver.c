#include "cluster/controller_driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/broadcast.h"
#include "cluster/cluster_priv.h"
#include "cluster/controller.h"
#include "cluster/controller_judge.h"
#include "cluster/memory.h"
#include "core/assert.h"
#include "core/logger.h"
#include "core/reached.h"
#include "core/shard.h"
#include "core/sm.h"
#include "storage/log.h"
#include "storage/store.h"

enum driver_state {
    DRIVER_WAIT_LOG,
    DRIVER_WAIT_TERM,
    DRIVER_WAIT_REGISTRATION,
    DRIVER_SERVING,
    DRIVER_FAILED, /* The start or the log failed; requests get ERR_FAILED. */
    DRIVER_STOPPING,
    DRIVER_STOPPED,
    DRIVER_STATE_COUNT,
};

static const struct sm_state driver_states[DRIVER_STATE_COUNT] = {
    [DRIVER_WAIT_LOG] = {"WAIT_LOG", SM_BIT(DRIVER_WAIT_TERM) | SM_BIT(DRIVER_FAILED)},
    [DRIVER_WAIT_TERM] = {"WAIT_TERM", SM_BIT(DRIVER_WAIT_REGISTRATION) | SM_BIT(DRIVER_FAILED)},
    [DRIVER_WAIT_REGISTRATION] = {"WAIT_REGISTRATION",
                                  SM_BIT(DRIVER_SERVING) | SM_BIT(DRIVER_FAILED)},
    [DRIVER_SERVING] = {"SERVING", SM_BIT(DRIVER_FAILED) | SM_BIT(DRIVER_STOPPING)},
    [DRIVER_FAILED] = {"FAILED", SM_BIT(DRIVER_STOPPING)},
    [DRIVER_STOPPING] = {"STOPPING", SM_BIT(DRIVER_STOPPED)},
    [DRIVER_STOPPED] = {"STOPPED", 0},
};

enum change_kind {
    CHANGE_FEATURE_LEVEL,
    CHANGE_NODE,
    CHANGE_TOPIC_CREATE,
    CHANGE_TOPIC_DELETE,
    CHANGE_TOPIC_PURGED,
    CHANGE_PRODUCER_IDS,
    CHANGE_PARTITIONS,
    CHANGE_CONFIGS,
};

/* One change of the state on its way: queued, then appended, then broadcast. */
struct change {
    struct list link;
    struct controller_driver *driver;
    enum change_kind kind;
    struct controller_request *r; /* Who wants it; NULL = we do. */
    struct uuid topic_id;
    int32_t partitions_count;
    uint64_t index;    /* In the log. */
    struct wbuf bytes; /* The command, once it is appended. */
    /* Nothing was appended: only the answer waits, for what it rests on. */
    bool is_verdict;
    enum err verdict;
    uint32_t broadcasts_ahead_count;
};

struct controller_driver {
    struct cluster *c;
    struct controller *engine;
    struct log *log;
    uint8_t state; /* enum driver_state */
    uint64_t term;
    struct store_wait term_wait;
    char why[CLUSTER_WHY_SIZE];

    struct list queue;    /* struct change: not appended yet. */
    struct list appended; /* struct change: not committed yet. */
    struct list verdicts; /* struct change: committed what they rest on, not all shards know yet. */
    struct list removals; /* struct change: deleted topics whose logs are to be removed. */
    bool is_removing;
    uint32_t broadcasts_count;   /* Under way. */
    uint32_t changes_told_count; /* Of those, changes on their way to all shards. */

    struct list id_waiters; /* struct controller_request */
    int64_t id_next;        /* The block: [id_next, id_end). */
    int64_t id_end;
    bool is_block_wanted;
    bool has_given_up; /* A stop waits for nothing any more. */

    struct task ready_task;
    enum err ready_error;
    bool is_closing_log;
    struct task stopped_task;
    void *context;
    controller_ready_fn *on_ready;
    void *stop_context;
    void (*on_stopped)(void *context);
};

static const struct commit_rule commit_rule = {.voters_count = 1};

static void run_queue(struct controller_driver *d);
static void start_next_removal(struct controller_driver *d);

/* Where group 0 is. */
static const struct shard_dir *group_dir(const struct controller_driver *d)
{
    return &d->c->dirs[0];
}

static void move(struct controller_driver *d, enum driver_state next)
{
    sm_move(driver_states, &d->state, (uint8_t)next);
}

static bool is_failed(const struct controller_driver *d)
{
    return d->state == DRIVER_FAILED || (d->log != NULL && log_is_failed(d->log));
}

/* ---- answers ---- */

static void answer(struct controller_driver *d, struct controller_request *r, enum err e)
{
    r->result = e;
    xmsg_forward(d->c->s, &r->msg);
}

static struct change *change_new(struct controller_driver *d, enum change_kind kind)
{
    struct change *change = memory_alloc(sizeof(*change));
    list_init(&change->link);
    change->driver = d;
    change->kind = kind;
    wbuf_init(&change->bytes, COMMAND_SIZE_MAX);
    return change;
}

static void answer_id_waiters(struct controller_driver *d, enum err e)
{
    struct list *node;
    while ((node = list_pop_front(&d->id_waiters)) != NULL) {
        answer(d, container_of(node, struct controller_request, link), e);
    }
}

/* Ends a change: answers who wanted it. */
static void change_finish(struct change *change, enum err e)
{
    struct controller_driver *d = change->driver;
    if (change->r != NULL) {
        answer(d, change->r, e);
    }
    if (change->kind == CHANGE_PRODUCER_IDS) {
        d->is_block_wanted = false;
        if (e != ERR_OK) {
            answer_id_waiters(d, e);
        }
    }
    wbuf_done(&change->bytes);
    free(change);
}

static void finish_all(struct list *changes, enum err e)
{
    struct list *node;
    while ((node = list_pop_front(changes)) != NULL) {
        change_finish(container_of(node, struct change, link), e);
    }
}

/* ---- stopping ---- */

static void run_stopped(struct task *t)
{
    struct controller_driver *d = container_of(t, struct controller_driver, stopped_task);
    move(d, DRIVER_STOPPED);
    d->on_stopped(d->stop_context);
}

static void on_log_closed(void *context)
{
    struct controller_driver *d = context;
    d->log = NULL;
    shard_post(d->c->s, &d->stopped_task);
}

/* Goes on with the stop once nothing is under way any more. */
static void try_stop(struct controller_driver *d)
{
    if (d->state != DRIVER_STOPPING || d->is_closing_log) {
        return;
    }
    if (!list_is_empty(&d->appended) || d->broadcasts_count > 0) {
        return;
    }
    d->is_closing_log = true;
    finish_all(&d->removals, ERR_OK); /* The next start takes them up. */
    if (d->log == NULL) {
        shard_post(d->c->s, &d->stopped_task);
    } else {
        log_close(d->log, d, on_log_closed);
    }
}

void controller_driver_stop(struct controller_driver *d,
                            void *context,
                            void (*on_stopped)(void *context))
{
    move(d, DRIVER_STOPPING);
    d->stop_context = context;
    d->on_stopped = on_stopped;
    finish_all(&d->queue, ERR_CANCELLED);
    answer_id_waiters(d, ERR_CANCELLED);
    try_stop(d);
}

void controller_driver_give_up(struct controller_driver *d)
{
    if (d->state != DRIVER_SERVING && d->state != DRIVER_STOPPING) {
        return; /* The start or the log failed, and all was answered; or there is no more. */
    }
    d->has_given_up = true;
    finish_all(&d->queue, ERR_CANCELLED);
    finish_all(&d->appended, ERR_CANCELLED);
    answer_id_waiters(d, ERR_CANCELLED);
    try_stop(d);
}

/* ---- removing the logs of deleted topics ---- */

static void queue_change(struct controller_driver *d, struct change *change)
{
    if (d->has_given_up) {
        change_finish(change, ERR_CANCELLED);
        return;
    }
    list_push_back(&d->queue, &change->link);
    run_queue(d);
}

static void on_removed(void *context, enum err error, uint32_t failed_count)
{
    struct change *change = context;
    struct controller_driver *d = change->driver;
    d->broadcasts_count--;
    d->is_removing = false;
    const bool is_done = failed_count == 0;
    if (!is_done && error != ERR_CANCELLED) {
        char id[UUID_TEXT_SIZE];
        uuid_format(&change->topic_id, id);
        log_warn(d->c->s->log,
                 "topic_removal_failed",
                 "topic_id=%s partitions=%" PRIu32
                 " error=%s action=\"none: the next start tries again\"",
                 id,
                 failed_count,
                 err_name(error));
    }
    if (is_done && d->state == DRIVER_SERVING) {
        change->kind = CHANGE_TOPIC_PURGED;
        queue_change(d, change);
    } else {
        change_finish(change, ERR_OK);
    }
    start_next_removal(d);
    try_stop(d);
}

static void start_next_removal(struct controller_driver *d)
{
    if (d->is_removing || d->state != DRIVER_SERVING || list_is_empty(&d->removals)) {
        return;
    }
    struct change *change = container_of(list_pop_front(&d->removals), struct change, link);
    d->is_removing = true;
    d->broadcasts_count++;
    broadcast_begin(d->c->set,
                    d->c->s,
                    &(struct broadcast_order){
                        .run = shard_state_remove,
                        .topic_id = change->topic_id,
                        .partitions_count = change->partitions_count,
                        .context = change,
                        .on_done = on_removed,
                    });
}

static void
queue_removal(struct controller_driver *d, const struct uuid *id, int32_t partitions_count)
{
    struct change *change = change_new(d, CHANGE_TOPIC_PURGED);
    change->topic_id = *id;
    change->partitions_count = partitions_count;
    list_push_back(&d->removals, &change->link);
}

void controller_driver_resume_removals(struct controller_driver *d)
{
    for (uint32_t i = 0; i < controller_deleted_count(d->engine); i++) {
        reached(d->c->s, "topic_removal_resumed");
        const struct controller_deleted *deleted = controller_deleted_at(d->engine, i);
        queue_removal(d, &deleted->id, deleted->partitions_count);
    }
    start_next_removal(d);
}

/* ---- producer ids ---- */

static void hand_out_ids(struct controller_driver *d)
{
    while (d->id_next < d->id_end && !list_is_empty(&d->id_waiters)) {
        struct list *node = list_pop_front(&d->id_waiters);
        struct controller_request *r = container_of(node, struct controller_request, link);
        r->out.allocate_producer_id.producer_id = d->id_next++;
        answer(d, r, ERR_OK);
    }
    if (!list_is_empty(&d->id_waiters) && !d->is_block_wanted) {
        d->is_block_wanted = true;
        queue_change(d, change_new(d, CHANGE_PRODUCER_IDS));
    }
}

static void take_block(struct controller_driver *d, const struct change *change)
{
    struct command command;
    enum err e = command_decode(wbuf_slice(&change->bytes), &command);
    assert_cmp(e, ==, ERR_OK); /* We wrote it. */
    assert_cmp(command.producer_ids.first, >=, d->id_end);
    d->id_next = command.producer_ids.first;
    d->id_end = command.producer_ids.first + command.producer_ids.count;
}

/* ---- committed changes ---- */

static void report_ready(struct controller_driver *d, enum err e)
{
    d->ready_error = e;
    shard_post(d->c->s, &d->ready_task);
}

static void run_ready(struct task *t)
{
    struct controller_driver *d = container_of(t, struct controller_driver, ready_task);
    d->on_ready(d->context, d->ready_error, d->why);
}

/* Broadcasts end in the order in which they began. */
static void tell_verdicts(struct controller_driver *d)
{
    list_for_each_safe (node, &d->verdicts) {
        struct change *change = container_of(node, struct change, link);
        change->broadcasts_ahead_count--;
        if (change->broadcasts_ahead_count == 0) {
            list_remove(&change->link);
            change_finish(change, change->verdict);
        }
    }
}

static void verdict_committed(struct controller_driver *d, struct change *change)
{
    change->broadcasts_ahead_count = d->changes_told_count;
    if (d->changes_told_count == 0) {
        change_finish(change, change->verdict);
    } else {
        list_push_back(&d->verdicts, &change->link);
    }
}

/* A request that changes nothing. It was judged by a state that may not be durable yet, nor known
 * to all shards: "exists already" must not be told of a topic that a crash could still take, or
 * that the next question would not find. */
static void settle(struct controller_driver *d, struct change *change, enum err e)
{
    change->is_verdict = true;
    change->verdict = e;
    if (list_is_empty(&d->appended)) {
        verdict_committed(d, change);
        return;
    }
    reached(d->c->s, "controller_verdict_waits");
    change->index = log_last_index(d->log);
    list_push_back(&d->appended, &change->link);
}

static void on_broadcast_done(void *context, enum err error, uint32_t failed_count)
{
    struct change *change = context;
    struct controller_driver *d = change->driver;
    d->broadcasts_count--;
    d->changes_told_count--;
    tell_verdicts(d);
    enum err e = ERR_OK;
    if (failed_count > 0 && change->r != NULL) {
        (void)snprintf(change->r->message,
                       sizeof(change->r->message),
                       "%" PRIu32 " partition(s) could not be opened (%s): see the broker's log",
                       failed_count,
                       err_name(error));
        e = ERR_FAILED;
    }
    if (change->kind == CHANGE_TOPIC_DELETE) {
        queue_removal(d, &change->topic_id, change->partitions_count);
    }
    change_finish(change, e);
    start_next_removal(d);
    try_stop(d);
}

/* Tells all shards: what every image must know. */
static void broadcast_change(struct controller_driver *d, struct change *change)
{
    struct wbuf stream;
    wbuf_init(&stream, COMMAND_SIZE_MAX + 16);
    command_stream_add(&stream, wbuf_slice(&change->bytes));
    if (wbuf_failure(&stream) != ERR_OK) {
        panic("out of memory: a committed command cannot be told to the shards");
    }
    d->broadcasts_count++;
    d->changes_told_count++;
    broadcast_begin(d->c->set,
                    d->c->s,
                    &(struct broadcast_order){
                        .run = shard_state_apply,
                        .bytes = &stream,
                        .term = d->term,
                        .context = change,
                        .on_done = on_broadcast_done,
                    });
}

static void change_committed(struct controller_driver *d, struct change *change)
{
    if (change->is_verdict) {
        verdict_committed(d, change);
        return;
    }
    switch (change->kind) {
    case CHANGE_TOPIC_CREATE:
    case CHANGE_TOPIC_DELETE:
    case CHANGE_PARTITIONS:
    case CHANGE_CONFIGS:
        broadcast_change(d, change);
        return;
    case CHANGE_PRODUCER_IDS:
        take_block(d, change);
        change_finish(change, ERR_OK);
        hand_out_ids(d);
        return;
    case CHANGE_NODE:
        change_finish(change, ERR_OK);
        if (d->state == DRIVER_WAIT_REGISTRATION) {
            move(d, DRIVER_SERVING);
            report_ready(d, ERR_OK);
        }
        return;
    case CHANGE_FEATURE_LEVEL:
    case CHANGE_TOPIC_PURGED:
        change_finish(change, ERR_OK);
        return;
    }
    assert(false && "no such change");
}

/* ---- appending ---- */

/* What a delete leaves to be done stands in its command. */
static enum err propose_delete(struct controller_driver *d, struct change *change)
{
    enum err e = controller_judge(d->c, d->engine, change->r, &change->bytes);
    if (e != ERR_OK) {
        return e;
    }
    struct command command;
    e = command_decode(wbuf_slice(&change->bytes), &command);
    assert_cmp(e, ==, ERR_OK);
    change->topic_id = command.topic_deleted.id;
    change->partitions_count = command.topic_deleted.partitions_count;
    return ERR_OK;
}

static enum err propose(struct controller_driver *d, struct change *change)
{
    const struct cluster_settings *settings = d->c->settings;
    change->bytes.size = 0; /* A retry judges again: the state may have changed meanwhile. */
    switch (change->kind) {
    case CHANGE_TOPIC_CREATE:
    case CHANGE_PARTITIONS:
    case CHANGE_CONFIGS:
        return controller_judge(d->c, d->engine, change->r, &change->bytes);
    case CHANGE_TOPIC_DELETE:
        return propose_delete(d, change);
    case CHANGE_FEATURE_LEVEL:
        (void)controller_propose_feature_level(d->engine, &change->bytes);
        break;
    case CHANGE_NODE:
        controller_judge_node(d->c, &change->bytes);
        break;
    case CHANGE_TOPIC_PURGED:
        controller_propose_purged(&change->topic_id, &change->bytes);
        break;
    case CHANGE_PRODUCER_IDS:
        controller_propose_producer_ids(d->engine, settings->node_id, &change->bytes);
        break;
    }
    return wbuf_failure(&change->bytes);
}

static bool is_nothing_to_append(const struct change *change)
{
    if (change->r != NULL && controller_judge_is_question(change->r)) {
        return true;
    }
    return change->bytes.size == 0; /* The feature level is set already. */
}

static enum err append(struct controller_driver *d, struct change *change)
{
    const struct log_entry entry = {
        .type = ENTRY_CONTROLLER,
        .term = d->term,
        .base_offset = log_next_offset(d->log),
        .next_offset = log_next_offset(d->log),
        .max_timestamp = -1,
        .payload = wbuf_slice(&change->bytes),
    };
    enum err e = log_append(d->log, &entry, &change->index);
    if (e != ERR_OK) {
        return e;
    }
    /* In the log: from here on the next request is judged with it in place. */
    e = controller_apply(d->engine, entry.payload);
    assert_cmp(e, ==, ERR_OK); /* It was proposed by the same engine in the same turn. */
    list_push_back(&d->appended, &change->link);
    return ERR_OK;
}

static void fail_start(struct controller_driver *d, enum err e)
{
    store_wait_cancel(group_dir(d)->store, &d->term_wait);
    move(d, DRIVER_FAILED);
    report_ready(d, e);
}

/* Without its own entries a start cannot go on, and nobody else would ask again for them. */
static void refused(struct controller_driver *d, struct change *change, enum err e)
{
    if (d->state != DRIVER_WAIT_REGISTRATION) {
        settle(d, change, e);
        return;
    }
    (void)snprintf(d->why,
                   sizeof(d->why),
                   "cannot append to the controller's log in %s (%s): %s",
                   group_dir(d)->settings->path,
                   err_name(e),
                   e == ERR_NO_SPACE ? "the disk is full: free some space" : "not enough memory");
    change_finish(change, e);
    fail_start(d, e);
}

/* Appends what is queued, in order, until the log has no room. Only the log's ERR_BUSY is a reason
 * to wait: nobody would tell when there is memory for a proposal. */
static void run_queue(struct controller_driver *d)
{
    const bool may_append = d->state == DRIVER_SERVING || d->state == DRIVER_WAIT_REGISTRATION;
    while (may_append && !is_failed(d) && !list_is_empty(&d->queue)) {
        struct change *change = container_of(d->queue.next, struct change, link);
        list_remove(&change->link);
        enum err e = propose(d, change);
        if (e == ERR_OK && is_nothing_to_append(change)) {
            settle(d, change, ERR_OK);
            continue;
        }
        if (e == ERR_OK) {
            e = append(d, change);
            if (e == ERR_BUSY) {
                reached(d->c->s, "controller_command_waits_for_room");
                list_push_front(&d->queue, &change->link);
                return; /* on_room comes. */
            }
        }
        if (e != ERR_OK) {
            refused(d, change, e);
        }
    }
}

/* ---- callbacks of the log ---- */

static void on_flushed(void *context, uint64_t index)
{
    struct controller_driver *d = context;
    assert_cmp(index, ==, log_flushed_index(d->log));
    const uint64_t commit_index = commit_take(&commit_rule, d->log);
    while (!list_is_empty(&d->appended)) {
        struct change *change = container_of(d->appended.next, struct change, link);
        if (change->index > commit_index) {
            break;
        }
        list_remove(&change->link);
        change_committed(d, change);
    }
    try_stop(d);
}

static void on_room(void *context)
{
    run_queue(context);
}

static void on_failed(void *context, enum err e)
{
    struct controller_driver *d = context;
    log_error(d->c->s->log, "controller_failed", "error=%s", err_name(e));
    finish_all(&d->queue, ERR_FAILED);
    finish_all(&d->appended, ERR_FAILED);
    answer_id_waiters(d, ERR_FAILED);
    if (d->state == DRIVER_WAIT_TERM || d->state == DRIVER_WAIT_REGISTRATION) {
        (void)snprintf(d->why,
                       sizeof(d->why),
                       "cannot write the controller's log in %s: %s",
                       group_dir(d)->settings->path,
                       err_name(e));
        fail_start(d, e);
    } else if (d->state == DRIVER_SERVING) {
        move(d, DRIVER_FAILED);
    }
    try_stop(d);
}

static enum err on_replay(void *context, const struct log_entry *entry)
{
    struct controller_driver *d = context;
    switch (entry->type) {
    case ENTRY_CONTROLLER:
        return controller_apply(d->engine, entry->payload);
    case ENTRY_NOOP:
    case ENTRY_CONFIGURATION:
    case ENTRY_LOG_START:
    case ENTRY_GAP:
        return ERR_OK;
    case ENTRY_NONE:
    case ENTRY_DATA:
    case ENTRY_TYPE_COUNT:
        break;
    }
    return ERR_CORRUPT;
}

/* The engine is as far as the log, ahead of what is committed; the log waits for that. */
static void on_checkpoint(void *context, struct wbuf *out)
{
    struct controller_driver *d = context;
    controller_snapshot(d->engine, out);
}

static enum err on_restore(void *context, struct slice state, uint64_t index)
{
    struct controller_driver *d = context;
    struct controller *engine = controller_new(d->c->settings, d->c->s->hash_seed);
    struct rbuf stream = rbuf_over(state.data, state.size);
    struct slice command;
    enum err e = command_stream_next(&stream, &command);
    while (e == ERR_OK) {
        e = controller_apply(engine, command);
        if (e == ERR_OK) {
            e = command_stream_next(&stream, &command);
        }
    }
    (void)index;
    if (e != ERR_EOF) {
        controller_free(engine);
        return e;
    }
    controller_free(d->engine);
    d->engine = engine;
    return ERR_OK;
}

/* ---- start ---- */

static const struct store_key vote_key = {
    .log = {.topic_id = {.bytes = {[15] = 1}}}, /* CONTROLLER_TOPIC_ID, partition 0 */
    .kind = STORE_VOTE,
    .sub = 0,
};

enum {
    VOTE_SIZE = 12, /* u64 term, i32 voted for */
};

static enum err read_vote(struct controller_driver *d, uint64_t *ret_term)
{
    struct slice value;
    if (!store_get(group_dir(d)->store, &vote_key, &value)) {
        *ret_term = 0;
        return ERR_OK;
    }
    struct rbuf r = rbuf_over(value.data, value.size);
    uint64_t term = rbuf_u64(&r);
    (void)rbuf_i32(&r);
    if (rbuf_finish(&r) != ERR_OK || term >= INT32_MAX) {
        return ERR_CORRUPT; /* A leader epoch has 31 bits. */
    }
    *ret_term = term;
    return ERR_OK;
}

static enum err write_vote(struct controller_driver *d)
{
    uint8_t bytes[VOTE_SIZE];
    struct wbuf w;
    wbuf_init_fixed(&w, bytes, sizeof(bytes));
    wbuf_u64(&w, d->term);
    wbuf_i32(&w, d->c->settings->node_id);
    return store_put(group_dir(d)->store, &vote_key, wbuf_slice(&w));
}

static void on_term_durable(struct store_wait *w)
{
    struct controller_driver *d = container_of(w, struct controller_driver, term_wait);
    if (d->state != DRIVER_WAIT_TERM) {
        return; /* The log failed meanwhile. */
    }
    move(d, DRIVER_WAIT_REGISTRATION);
    list_push_back(&d->queue, &change_new(d, CHANGE_FEATURE_LEVEL)->link);
    list_push_back(&d->queue, &change_new(d, CHANGE_NODE)->link);
    run_queue(d);
}

/* A sole voter elects itself at once. */
static enum err elect_self(struct controller_driver *d)
{
    assert(uuid_equal(&vote_key.log.topic_id, &CONTROLLER_TOPIC_ID));
    uint64_t term;
    enum err e = read_vote(d, &term);
    if (e != ERR_OK) {
        return e;
    }
    if (term == 0 && log_last_index(d->log) > 0) {
        reached(d->c->s, "controller_vote_missing");
        /* Each start's first entry bears its term, so the log alone names every term that anything
         * was served with. */
        log_warn(d->c->s->log,
                 "controller_vote_missing",
                 "log_term=%" PRIu64 " action=\"none: the term goes on from the log\"",
                 log_last_term(d->log));
    }
    if (log_last_term(d->log) > term) {
        term = log_last_term(d->log);
    }
    d->term = term + 1;
    return write_vote(d);
}

static void say_why_not_opened(struct controller_driver *d, enum err e)
{
    const char *what = "check the disk and the permissions, then start again";
    if (e == ERR_CORRUPT) {
        what = "it is damaged: restore the data directory from a copy";
    } else if (e == ERR_NEWER_FORMAT) {
        what = "a newer version of coreflume wrote it: start that version";
    } else if (e == ERR_FOREIGN) {
        what =
            "it is another cluster's than format.json says: put back what belongs together, or use "
            "another --data-dir";
    } else if (e == ERR_NO_SPACE) {
        what = "the disk is full: free some space";
    }
    (void)snprintf(d->why,
                   sizeof(d->why),
                   "cannot open the controller's log in %s/logs (%s): %s",
                   group_dir(d)->settings->path,
                   err_name(e),
                   what);
}

static void on_opened(void *context, enum err e)
{
    struct controller_driver *d = context;
    if (e != ERR_OK) {
        d->log = NULL; /* Gone with the failed open. */
    } else if (cluster_dirs_missing(d->c, d->engine, d->why)) {
        fail_start(d, ERR_NOT_FOUND); /* Before anything is written. */
        return;
    } else {
        e = elect_self(d);
    }
    if (e != ERR_OK) {
        say_why_not_opened(d, e);
        fail_start(d, e);
        return;
    }
    (void)commit_take(&commit_rule, d->log);
    move(d, DRIVER_WAIT_TERM);
    d->term_wait.on_durable = on_term_durable;
    store_wait_durable(group_dir(d)->store, &d->term_wait);
}

static const struct log_callbacks log_callbacks = {
    .on_flushed = on_flushed,
    .on_room = on_room,
    .on_failed = on_failed,
    .on_replay = on_replay,
    .on_checkpoint = on_checkpoint,
    .on_restore = on_restore,
    .on_opened = on_opened,
};

struct controller_driver *
controller_driver_start(struct cluster *c, void *context, controller_ready_fn *on_ready)
{
    struct controller_driver *d = memory_alloc(sizeof(*d));
    d->c = c;
    d->engine = controller_new(c->settings, c->s->hash_seed);
    d->state = DRIVER_WAIT_LOG;
    d->context = context;
    d->on_ready = on_ready;
    list_init(&d->queue);
    list_init(&d->appended);
    list_init(&d->verdicts);
    list_init(&d->removals);
    list_init(&d->id_waiters);
    task_init(&d->ready_task, "controller_ready", run_ready);
    task_init(&d->stopped_task, "controller_stopped", run_stopped);

    const struct log_open open = {
        .env = &c->dirs[0].log_env,
        .id = {.topic_id = CONTROLLER_TOPIC_ID},
        .name = "__cluster_metadata-0",
        .options = c->settings->controller_log,
        .tier = SPACE_CONTROL,
        .callbacks = &log_callbacks,
        .context = d,
        .is_replay_strict = true,
    };
    enum err e = log_open(&open, &d->log);
    if (e != ERR_OK) {
        d->log = NULL;
        say_why_not_opened(d, e);
        fail_start(d, e);
    }
    return d;
}

void controller_driver_free(struct controller_driver *d)
{
    if (d == NULL) {
        return;
    }
    assert(d->log == NULL);
    assert_cmp(d->broadcasts_count, ==, 0);
    assert(list_is_empty(&d->queue));
    assert(list_is_empty(&d->appended));
    assert(list_is_empty(&d->verdicts));
    controller_free(d->engine);
    free(d);
}

/* ---- requests ---- */

static enum change_kind kind_of(enum controller_request_kind kind)
{
    switch (kind) {
    case CONTROLLER_CREATE_TOPIC:
        return CHANGE_TOPIC_CREATE;
    case CONTROLLER_DELETE_TOPIC:
        return CHANGE_TOPIC_DELETE;
    case CONTROLLER_ALLOCATE_PRODUCER_ID:
        return CHANGE_PRODUCER_IDS;
    case CONTROLLER_CREATE_PARTITIONS:
        return CHANGE_PARTITIONS;
    case CONTROLLER_ALTER_CONFIGS:
        return CHANGE_CONFIGS;
    case CONTROLLER_DESCRIBE:
        break;
    }
    panic("not a request for a change");
}

static void describe(struct controller_driver *d, struct controller_request *r)
{
    r->out.describe.term = d->term;
    r->out.describe.last_index = log_last_index(d->log);
    r->out.describe.commit_index = commit_rule_index(&commit_rule, log_flushed_index(d->log));
    r->out.describe.directory = group_dir(d)->settings->id;
    answer(d, r, ERR_OK);
}

void controller_driver_serve(struct controller_driver *d, struct controller_request *r)
{
    if (d->has_given_up || d->state == DRIVER_STOPPING || d->state == DRIVER_STOPPED) {
        answer(d, r, ERR_CANCELLED);
        return;
    }
    if (is_failed(d)) {
        answer(d, r, ERR_FAILED);
        return;
    }
    if (r->kind == CONTROLLER_ALLOCATE_PRODUCER_ID) {
        list_push_back(&d->id_waiters, &r->link);
        hand_out_ids(d);
        return;
    }
    if (r->kind == CONTROLLER_DESCRIBE) {
        describe(d, r);
        return;
    }
    struct change *change = change_new(d, kind_of(r->kind));
    change->r = r;
    queue_change(d, change);
}

bool controller_driver_is_failed(const struct controller_driver *d)
{
    return is_failed(d);
}

uint64_t controller_driver_term(const struct controller_driver *d)
{
    return d->term;
}

const struct controller *controller_driver_engine(const struct controller_driver *d)
{
    return d->engine;
}

#include "cluster/partition.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/memory.h"
#include "cluster/partition_priv.h"
#include "core/assert.h"
#include "core/logger.h"
#include "core/reached.h"
#include "core/shard.h"
#include "storage/flusher.h"
#include "storage/producer_state.h"

uint64_t commit_rule_index(const struct commit_rule *rule, uint64_t flushed_index)
{
    /* DESIGN 6: a sole voter commits whatever is flushed, of any term. */
    assert_cmp(rule->voters_count, ==, 1);
    return flushed_index;
}

uint64_t commit_take(const struct commit_rule *rule, struct log *log)
{
    const uint64_t commit_index = commit_rule_index(rule, log_flushed_index(log));
    log_set_commit(log, commit_index);
    return commit_index;
}

/* ---- answering ---- */

void partition_op_finish(struct shard *s, struct partition_op *op, enum err e)
{
    op->result = e;
    xmsg_forward(s, &op->msg);
}

void partition_finish(struct partition *p, struct partition_op *op, enum err e)
{
    if (op->kind != PARTITION_READ || e != ERR_OK) {
        /* A read's offsets were taken when it began: data and high watermark belong together. */
        partition_offsets(p, &op->offsets);
    }
    partition_op_finish(p->env->s, op, e);
}

static void finish_all(struct partition *p, struct list *ops, enum err e)
{
    struct list *node;
    while ((node = list_pop_front(ops)) != NULL) {
        partition_finish(p, container_of(node, struct partition_op, link), e);
    }
}

/* ---- questions ---- */

int32_t partition_leader_epoch(const struct partition *p)
{
    return (int32_t)p->env->term;
}

const struct partition_id *partition_id(const struct partition *p)
{
    return &p->id;
}

const char *partition_name(const struct partition *p)
{
    return p->name;
}

void partition_offsets(const struct partition *p, struct partition_offsets *ret_offsets)
{
    const bool is_known = p->log != NULL && p->state != PARTITION_OPENING;
    *ret_offsets = (struct partition_offsets){
        .log_start_offset = is_known ? log_start_offset(p->log) : -1,
        .high_watermark = is_known ? p->high_watermark : -1,
        .last_stable_offset = is_known ? p->high_watermark : -1, /* No transactions are open. */
        .log_end_offset = is_known ? log_next_offset(p->log) : -1,
        .leader_epoch = partition_leader_epoch(p),
        .is_end_unknown = is_known && log_is_end_unknown(p->log),
    };
}

uint64_t partition_log_size(const struct partition *p)
{
    return p->log == NULL || p->state == PARTITION_OPENING ? 0 : log_size(p->log);
}

int64_t partition_topic_size_max(const struct partition *p)
{
    return p->settings.is_deleted ? p->settings.topic_size_max : -1;
}

struct list *partition_link(struct partition *p)
{
    return &p->link;
}

struct partition *partition_of_link(struct list *link)
{
    return container_of(link, struct partition, link);
}

/* ---- metrics ---- */

void partition_publish_size(struct partition *p)
{
    assert(p->size_stat == NULL);
    struct partition_size_stat *size = memory_alloc(sizeof(*size));
    const char *dash = strrchr(p->name, '-');
    (void)snprintf(size->labels,
                   sizeof(size->labels),
                   "topic=\"%.*s\",partition=\"%s\"",
                   (int)(dash - p->name),
                   p->name,
                   dash + 1);
    size->stat = (struct stat){
        .kind = STAT_GAUGE,
        .name = "coreflume_partition_log_bytes",
        .labels = size->labels,
        .help = "Bytes of the partition's log on disk.",
        .value = &size->value,
    };
    size->value = partition_log_size(p);
    p->size_stat = size;
    stats_add(&p->env->s->stats, &size->stat);
}

bool partition_has_size_metric(const struct partition *p)
{
    return p->size_stat != NULL;
}

static void retract_size(struct partition *p)
{
    if (p->size_stat != NULL) {
        stats_remove(&p->size_stat->stat);
        free(p->size_stat);
        p->size_stat = NULL;
    }
}

/* ---- commit ---- */

void partition_park(struct partition *p, struct partition_op *op)
{
    if (op->need_offset <= p->high_watermark) {
        partition_produce_committed(p, op);
        return;
    }
    if (p->env->is_drained) {
        partition_finish(p, op, ERR_CANCELLED);
        return;
    }
    list_push_back(&p->parked, &op->link);
}

/* In order, and only the head is looked at: one that needs less than those before it (a duplicate)
 * is answered with them, at most one flush later. */
static void answer_parked(struct partition *p)
{
    while (!list_is_empty(&p->parked)) {
        struct partition_op *op = container_of(p->parked.next, struct partition_op, link);
        if (op->need_offset > p->high_watermark) {
            return;
        }
        list_remove(&op->link);
        partition_produce_committed(p, op);
    }
}

static void answer_waits(struct partition *p)
{
    list_for_each_safe (node, &p->waits) {
        struct partition_op *op = container_of(node, struct partition_op, link);
        if (op->in.wait.high_watermark < p->high_watermark) {
            list_remove(&op->link);
            p->env->counters->waits--;
            partition_finish(p, op, ERR_OK);
        }
    }
}

/* The one place where commit and high watermark move. False if they stayed. */
static bool move_commit(struct partition *p)
{
    const uint64_t old_index = p->commit_index;
    p->commit_index = commit_take(&p->commit_rule, p->log);
    assert_cmp(p->commit_index, >=, old_index);
    assert_cmp(p->commit_index, ==, log_flushed_index(p->log)); /* Else the offset is another's. */
    assert_cmp(log_flushed_offset(p->log), >=, p->high_watermark);
    p->high_watermark = log_flushed_offset(p->log);
    return p->commit_index > old_index;
}

static void advance_commit(struct partition *p)
{
    if (!move_commit(p)) {
        return;
    }
    partition_start_committed(p);
    if (p->size_stat != NULL) {
        p->size_stat->value = log_size(p->log);
    }
    partition_note_flush(p);
    answer_parked(p);
    answer_waits(p);
    /* A segment was closed. What retention.bytes lets go is known now, not at the next check: under
     * load that is the file which the next birth uses again. */
    const uint64_t rolls_count = log_stats(p->log)->rolls;
    if (p->rolls_count != rolls_count) {
        p->rolls_count = rolls_count;
        partition_retain(p);
    }
}

/* ---- end of life ---- */

static void free_partition(struct partition *p)
{
    assert(list_is_empty(&p->early));
    assert(list_is_empty(&p->backlog));
    assert(p->recoding == NULL);
    assert(list_is_empty(&p->parked));
    assert(list_is_empty(&p->waits));
    assert(list_is_empty(&p->start_waits));
    assert_cmp(p->reads_count, ==, 0);
    free(p->moves);
    retract_size(p);
    producer_state_free(p->producers);
    free(p->name);
    free(p);
}

static void on_log_closed(void *context)
{
    struct partition *p = context;
    p->log = NULL;
    p->on_closed(p->end_context, p);
    free_partition(p);
}

static void on_log_deleted(void *context, enum err e)
{
    struct partition *p = context;
    p->log = NULL;
    p->on_deleted(p->end_context, p, e);
    free_partition(p);
}

/* Goes on with a close or delete once nothing is in its way any more. */
static void try_end(struct partition *p)
{
    const bool is_wanted = p->state == PARTITION_CLOSING || p->state == PARTITION_DELETING;
    const bool is_busy =
        p->reads_count > 0 || !list_is_empty(&p->parked) || !list_is_empty(&p->start_waits);
    if (!is_wanted || p->is_ending || is_busy) {
        return;
    }
    p->is_ending = true;
    if (p->log == NULL) {
        shard_post(p->env->s, &p->task); /* run_without_log */
    } else if (p->state == PARTITION_CLOSING) {
        log_close(p->log, p, on_log_closed);
    } else {
        log_delete(p->log, p, on_log_deleted);
    }
}

void partition_read_ended(struct partition *p)
{
    assert_cmp(p->reads_count, >, 0);
    p->reads_count--;
    try_end(p);
}

static void finish_counted(struct partition *p, struct list *ops, uint64_t *counter, enum err e)
{
    list_for_each (node, ops) {
        (*counter)--;
    }
    finish_all(p, ops, e);
}

static void finish_waiting(struct partition *p, enum err e)
{
    partition_drop_recoding(p);
    finish_all(p, &p->early, e);
    finish_counted(p, &p->backlog, &p->env->counters->backlog, e);
    finish_counted(p, &p->waits, &p->env->counters->waits, e);
}

void partition_refuse_backlog(struct partition *p)
{
    assert(p->env->is_quiescing);
    partition_drop_recoding(p);
    finish_counted(p, &p->backlog, &p->env->counters->backlog, ERR_CANCELLED);
}

void partition_give_up_flushes(struct partition *p)
{
    assert(p->env->is_drained);
    if (!list_is_empty(&p->parked) || !list_is_empty(&p->start_waits)) { /* So it is open. */
        finish_all(p, &p->parked, ERR_CANCELLED);
        finish_all(p, &p->start_waits, ERR_CANCELLED);
        try_end(p);
    }
}

/* ---- callbacks of the log ---- */

static void on_flushed(void *context, uint64_t index)
{
    struct partition *p = context;
    assert_cmp(index, ==, log_flushed_index(p->log));
    if (p->state == PARTITION_FAILED || p->is_ending) {
        return;
    }
    advance_commit(p);
    try_end(p);
}

static void on_room(void *context)
{
    partition_drain_backlog(context);
}

void partition_tell_trouble(struct partition *p, bool is_failed)
{
    const bool is_told = is_failed ? p->is_failure_told : p->is_damage_told;
    if (!is_told && p->log_env != NULL && !flusher_is_failed(p->log_env->flusher)) {
        const enum trouble_kind failed = p->is_damage_told ? TROUBLE_WORSE : TROUBLE_FAILED;
        p->is_failure_told |= is_failed;
        p->is_damage_told = true;
        p->env->on_trouble(p->env->trouble_context, p, is_failed ? failed : TROUBLE_DAMAGED);
    }
}

static void on_failed(void *context, enum err e)
{
    struct partition *p = context;
    if (!flusher_is_failed(p->log_env->flusher)) { /* Else one line says so for all of them. */
        log_error(p->env->s->log,
                  "partition_failed",
                  "partition=%s error=%s action=\"see the disk's errors; restart after repair\"",
                  p->name,
                  err_name(e));
    }
    if (p->state == PARTITION_SERVING) {
        p->state = PARTITION_FAILED;
        p->env->counters->failed++;
        partition_tell_trouble(p, true);
    }
    finish_waiting(p, ERR_FAILED);
    finish_all(p, &p->parked, ERR_FAILED);
    finish_all(p, &p->start_waits, ERR_FAILED);
    try_end(p);
}

static enum err on_replay(void *context, const struct log_entry *entry)
{
    return partition_replay(context, entry);
}

static void on_checkpoint(void *context, struct wbuf *out)
{
    partition_encode_state(context, out);
}

static enum err on_restore(void *context, struct slice state, uint64_t index)
{
    return partition_restore_state(context, state, index);
}

/* Terms rise by one per start; a log that is ahead belongs to another history of group 0. */
static enum err check_term(const struct partition *p)
{
    if (log_last_term(p->log) <= p->env->term) {
        return ERR_OK;
    }
    log_error(p->env->s->log,
              "partition_term_ahead",
              "partition=%s log_term=%" PRIu64 " term=%" PRIu64
              " action=\"the controller's log is older than this partition: restore both from the "
              "same copy\"",
              p->name,
              log_last_term(p->log),
              p->env->term);
    return ERR_FOREIGN;
}

static void serve_early(struct partition *p)
{
    struct list early;
    list_init(&early);
    list_splice_back(&early, &p->early);
    struct list *node;
    while ((node = list_pop_front(&early)) != NULL) {
        partition_serve(p, container_of(node, struct partition_op, link));
    }
}

/* A line for each, but for those of a directory that one line is about. */
static void say_not_opened(const struct partition *p, enum err e)
{
    if (p->log_env != NULL && !flusher_is_failed(p->log_env->flusher)) {
        log_error(
            p->env->s->log, "partition_open_failed", "partition=%s error=%s", p->name, err_name(e));
    }
}

static void on_opened(void *context, enum err e)
{
    struct partition *p = context;
    if (e != ERR_OK) {
        p->log = NULL; /* Gone with the failed open. */
    } else {
        e = check_term(p);
    }
    if (e == ERR_OK) {
        (void)move_commit(p);
        partition_start_committed(p);
    } else {
        say_not_opened(p, e);
        p->env->counters->failed++;
    }
    if (e != ERR_OK || log_damage(p->log, NULL, 0) > 0) {
        partition_tell_trouble(p, e != ERR_OK);
    }
    if (p->state == PARTITION_OPENING) {
        p->state = e == ERR_OK ? PARTITION_SERVING : PARTITION_FAILED;
    }
    p->on_opened(p->open_context, p, e);
    serve_early(p);
    if (p->size_stat != NULL) {
        p->size_stat->value = partition_log_size(p);
    }
    try_end(p);
}

/* What a log would have called back. */
static void run_without_log(struct task *task)
{
    struct partition *p = container_of(task, struct partition, task);
    if (!p->is_ending) {
        on_opened(p, p->open_error);
    } else if (p->state == PARTITION_CLOSING) {
        on_log_closed(p);
    } else {
        /* Its files, if any, are still there: the next start tries again. */
        on_log_deleted(p, ERR_FAILED);
    }
}

/* There are no transactions yet, and no other replicas: what is committed is stable, and clean
 * where it is clean here. */
static void on_compacting(void *context, struct log_compaction_bounds *bounds)
{
    const struct partition *p = context;
    bounds->stable_offset = p->high_watermark;
}

static bool is_last_of_producer(void *context, const struct batch_header *h)
{
    const struct partition *p = context;
    return p->producers != NULL && producer_state_is_last(p->producers, h, p->high_watermark);
}

static const struct log_callbacks log_callbacks = {
    .on_flushed = on_flushed,
    .on_room = on_room,
    .on_failed = on_failed,
    .on_replay = on_replay,
    .on_checkpoint = on_checkpoint,
    .on_restore = on_restore,
    .on_compacting = on_compacting,
    .is_last_of_producer = is_last_of_producer,
    .on_opened = on_opened,
};

/* ---- life ---- */

static char *make_name(const char *topic, int32_t partition)
{
    const size_t size = strlen(topic) + 1 + 10 + 1; /* '-', digits, NUL */
    char *name = memory_alloc(size);
    (void)snprintf(name, size, "%s-%" PRId32, topic, partition);
    return name;
}

/* What the topic asks for, within the broker's bounds: at most its sizes and age, and no denser an
 * index. */
static struct log_options log_options_of(const struct cluster_settings *settings,
                                         const struct topic_settings *topic)
{
    struct log_options o = settings->log;
    if (topic->segment_size_max < o.segment_size_max) {
        o.segment_size_max = topic->segment_size_max;
    }
    if (topic->segment_age_ms_max < o.segment_age_ms_max) {
        o.segment_age_ms_max = topic->segment_age_ms_max;
    }
    if (topic->index_size_max < o.index_size_max) {
        o.index_size_max = topic->index_size_max;
    }
    if (topic->index_interval > o.index_interval) {
        o.index_interval = topic->index_interval;
    }
    o.segment_jitter_ms_max = topic->segment_jitter_ms_max;
    return o;
}

struct partition *partition_open(const struct partition_open *how)
{
    const struct topic *t = how->topic;
    struct partition *p = memory_alloc(sizeof(*p));
    p->env = how->env;
    p->log_env = how->log_env;
    p->id = (struct partition_id){.topic_id = t->id, .partition = how->partition};
    p->name = make_name(t->name, how->partition);
    p->settings = t->settings;
    p->state = PARTITION_OPENING;
    p->commit_rule = (struct commit_rule){.voters_count = 1};
    p->open_context = how->context;
    p->on_opened = how->on_opened;
    list_init(&p->link);
    list_init(&p->early);
    list_init(&p->backlog);
    list_init(&p->parked);
    list_init(&p->waits);
    list_init(&p->start_waits);

    struct log_open open = {
        .env = how->log_env,
        .id = p->id,
        .name = p->name,
        .options = log_options_of(how->env->settings, &t->settings),
        .tier = t->is_internal ? SPACE_INTERNAL : SPACE_DATA,
        .callbacks = &log_callbacks,
        .context = p,
    };
    task_init(&p->task, "partition", run_without_log);
    p->open_error = how->log_env == NULL ? ERR_FAILED : log_open(&open, &p->log);
    if (p->open_error == ERR_OK) {
        log_set_compaction(p->log, &p->settings.compaction);
    } else {
        /* Its directory, or memory, is missing: the answers are the same as for a log that turns
         * out unreadable. */
        p->log = NULL;
        shard_post(p->env->s, &p->task);
    }
    return p;
}

void partition_alter(struct partition *p, const struct topic *t)
{
    p->settings = t->settings;
    if (p->state != PARTITION_SERVING) {
        return; /* It never opened, or is on its way out. */
    }
    const struct log_options options = log_options_of(p->env->settings, &t->settings);
    log_set_options(p->log, &options);
    log_set_compaction(p->log, &p->settings.compaction);
    partition_retain(p);
}

void partition_close(struct partition *p,
                     void *context,
                     void (*on_closed)(void *context, struct partition *p))
{
    assert(p->on_closed == NULL);
    assert(p->on_deleted == NULL);
    const bool is_opening = p->state == PARTITION_OPENING;
    p->state = PARTITION_CLOSING;
    p->end_context = context;
    p->on_closed = on_closed;
    finish_waiting(p, ERR_CANCELLED);
    if (!is_opening) {
        try_end(p); /* Else on_opened goes on. */
    }
}

void partition_delete(struct partition *p,
                      void *context,
                      void (*on_deleted)(void *context, struct partition *p, enum err e))
{
    assert(p->on_closed == NULL);
    assert(p->on_deleted == NULL);
    const bool is_opening = p->state == PARTITION_OPENING;
    p->state = PARTITION_DELETING;
    p->end_context = context;
    p->on_deleted = on_deleted;
    finish_waiting(p, ERR_NOT_FOUND);
    finish_all(p, &p->parked, ERR_NOT_FOUND);
    finish_all(p, &p->start_waits, ERR_NOT_FOUND);
    if (!is_opening) {
        try_end(p);
    }
}

/* ---- operations ---- */

static enum err check_leader_epoch(const struct partition *p, int32_t known)
{
    if (known == -1) {
        return ERR_OK;
    }
    if (known < partition_leader_epoch(p)) {
        return ERR_LEADER_EPOCH_FENCED;
    }
    return known > partition_leader_epoch(p) ? ERR_LEADER_EPOCH_UNKNOWN : ERR_OK;
}

/* Whether an operation may go on, by the partition's state. */
static enum err check_state(const struct partition *p, const struct partition_op *op)
{
    switch (p->state) {
    case PARTITION_OPENING:
    case PARTITION_SERVING:
        return check_leader_epoch(p, op->current_leader_epoch);
    case PARTITION_FAILED:
        return ERR_FAILED;
    case PARTITION_CLOSING:
        return ERR_CANCELLED;
    case PARTITION_DELETING:
        return ERR_NOT_FOUND;
    }
    assert(false && "no such state");
    return ERR_FAILED;
}

void partition_serve(struct partition *p, struct partition_op *op)
{
    if (p->state == PARTITION_OPENING) {
        reached(p->env->s, "partition_op_waits_for_open");
        list_push_back(&p->early, &op->link);
        return;
    }
    enum err e = check_state(p, op);
    if (e != ERR_OK) {
        partition_finish(p, op, e);
        return;
    }
    op->server = p;
    switch (op->kind) {
    case PARTITION_PRODUCE:
        partition_produce(p, op);
        return;
    case PARTITION_OFFSETS:
        partition_finish(p, op, ERR_OK);
        return;
    case PARTITION_PEEK:
        partition_peek(p, op);
        return;
    case PARTITION_WAIT:
        partition_wait(p, op);
        return;
    case PARTITION_READ:
        partition_read(p, op);
        return;
    case PARTITION_FIND_TIME:
        partition_find_time(p, op);
        return;
    case PARTITION_TERM_END:
        partition_term_end(p, op);
        return;
    case PARTITION_SIZE:
        op->out.size.log_size = partition_log_size(p);
        partition_finish(p, op, ERR_OK);
        return;
    case PARTITION_PRODUCERS:
        partition_producers(p, op);
        return;
    case PARTITION_DELETE_RECORDS:
        partition_append(p, op);
        return;
    }
    assert(false && "no such operation");
}

void partition_cancel_op(struct partition *p, const struct partition_op *op)
{
    struct list *const queues[] = {&p->waits, &p->backlog, &p->early, &p->start_waits};
    for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
        list_for_each (node, queues[i]) {
            if (node != &op->link) {
                continue;
            }
            struct partition_op *found = container_of(node, struct partition_op, link);
            list_remove(node);
            p->env->counters->waits -= queues[i] == &p->waits;
            p->env->counters->backlog -= queues[i] == &p->backlog;
            const bool was_recoding = p->recoding != NULL && p->recoding->op == found;
            if (was_recoding) {
                partition_drop_recoding(p);
            }
            partition_finish(p, found, ERR_CANCELLED);
            if (was_recoding) {
                partition_drain_backlog(p); /* Those behind waited for it alone. */
            }
            return;
        }
    }
}

void partition_check(const struct partition *p)
{
    if (p->log == NULL || p->state == PARTITION_OPENING) {
        return;
    }
    assert_cmp(p->commit_index, <=, log_flushed_index(p->log));
    assert_cmp(log_flushed_index(p->log), <=, log_last_index(p->log));
    assert_cmp(p->high_watermark, <=, log_next_offset(p->log));
    assert_cmp(log_start_offset(p->log), <=, p->high_watermark);
    list_for_each (node, &p->parked) {
        const struct partition_op *op = container_of(node, struct partition_op, link);
        assert_cmp(op->need_offset, <=, log_next_offset(p->log));
    }
    list_for_each (node, &p->waits) {
        const struct partition_op *op = container_of(node, struct partition_op, link);
        assert_cmp(op->in.wait.high_watermark, >=, p->high_watermark);
    }
}

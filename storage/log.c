#include "storage/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "storage/log_priv.h"

const struct log_options LOG_OPTIONS_DEFAULT = {
    .segment_size_max = (uint64_t)1 << 30,
    .fill_step_min = 16 << 10,
    .fill_step_max = 16 << 20,
    .index_interval = 64 << 10,
    .checkpoint_size = 64 << 20,
    .index_size_max = 10 << 20,
    .segment_age_ms_max = INT64_MAX,
};

enum {
    DIR_NAME_SIZE = 40, /* "<topic id>-<partition>" */
    TERMS_CAPACITY_MIN = 4,
};

static void on_task(struct task *t);

/* ---- names ---- */

char *log_path(const char *dir, const char *name)
{
    size_t size = strlen(dir) + 1 + strlen(name) + 1;
    char *path = malloc(size);
    if (path != NULL) {
        (void)snprintf(path, size, "%s/%s", dir, name);
    }
    return path;
}

void log_segment_name(const struct log_segment *seg, const char *suffix, char *ret_name)
{
    const struct segment_name n = {.base_index = seg->base.index, .version = seg->file_version};
    segment_name_format(&n, suffix, ret_name);
}

char *log_segment_path(const struct log_segment *seg, const char *suffix)
{
    char name[SEGMENT_NAME_SIZE];
    log_segment_name(seg, suffix, name);
    return log_path(seg->log->dir, name);
}

static char *partition_dir(const struct log_open *how)
{
    char topic[UUID_TEXT_SIZE];
    uuid_format(&how->id.topic_id, topic);
    char name[sizeof("logs/") + DIR_NAME_SIZE];
    (void)snprintf(name, sizeof(name), "logs/%s-%d", topic, (int)how->id.partition);
    return log_path(how->env->dir, name);
}

struct store_key log_store_key(const struct log *l, enum store_kind kind, uint64_t sub)
{
    return (struct store_key){.log = l->id, .kind = (uint32_t)kind, .sub = sub};
}

enum err log_store_wait(struct log *l, struct store_wait *w)
{
    if (flusher_is_failed(l->env.flusher)) {
        return ERR_FAILED;
    }
    store_wait_durable(l->env.store, w);
    return ERR_OK;
}

/* ---- segments ---- */

/* Kafka's segment.ms less its jitter, which keeps logs that began together from rolling together.
 */
static int64_t draw_age_max(struct log *l)
{
    const int64_t age_max = l->options.segment_age_ms_max;
    int64_t jitter_max = l->options.segment_jitter_ms_max;
    jitter_max = jitter_max < age_max ? jitter_max : age_max;
    if (jitter_max == 0) {
        return age_max;
    }
    return age_max - (int64_t)rand_below(&log_shard(l)->rand, (uint64_t)jitter_max);
}

static void check_options(const struct log_options *options)
{
    assert_cmp(options->fill_step_min % ENTRY_BLOCK_SIZE, ==, 0);
    assert_cmp(options->fill_step_min, >, 0);
    assert_cmp(options->fill_step_max, >=, options->fill_step_min);
    assert_cmp(options->segment_size_max, >, SEGMENT_HEADER_SIZE);
    assert_cmp(options->index_size_max, >, 0);
    assert_cmp(options->segment_age_ms_max, >, 0);
    assert_cmp(options->segment_jitter_ms_max, >=, 0);
}

void log_set_options(struct log *l, const struct log_options *options)
{
    assert(l->state != LOG_OPENING);
    assert_cmp(options->fill_step_min, ==, l->options.fill_step_min);
    assert_cmp(options->fill_step_max, ==, l->options.fill_step_max);
    assert_cmp(options->checkpoint_size, ==, l->options.checkpoint_size);
    check_options(options);
    const bool is_age_new = options->segment_age_ms_max != l->options.segment_age_ms_max ||
                            options->segment_jitter_ms_max != l->options.segment_jitter_ms_max;
    l->options = *options;
    list_for_each (node, &l->segments) {
        struct log_segment *seg = container_of(node, struct log_segment, link);
        if (is_age_new) {
            seg->age_ms_max = draw_age_max(l);
        }
    }
}

struct log_segment *log_segment_new(struct log *l, const struct segment_base *base, uint64_t salt)
{
    struct log_segment *seg = calloc(1, sizeof(*seg));
    if (seg == NULL) {
        return NULL;
    }
    seg->log = l;
    seg->base = *base;
    seg->salt = salt;
    seg->generation = l->generation;
    seg->has_points = true;
    seg->filled_to = SEGMENT_HEADER_SIZE;
    seg->written_to = SEGMENT_HEADER_SIZE;
    seg->tail_pos = SEGMENT_HEADER_SIZE;
    seg->end_pos = SEGMENT_HEADER_SIZE;
    seg->point_next_pos = SEGMENT_HEADER_SIZE;
    seg->max_timestamp = -1;
    seg->first_timestamp = LOG_TIMESTAMP_UNKNOWN;
    seg->created_ms = log_shard(l)->wall_ms;
    seg->age_ms_max = draw_age_max(l);
    list_init(&seg->link);
    list_init(&seg->index_link);
    list_init(&seg->index_waiters);
    segment_file_init(&seg->file);
    return seg;
}

void log_segment_free(struct log_segment *seg)
{
    assert(seg->file.state == SEGMENT_FILE_CLOSED);
    assert(seg->file.users_count == 0);
    assert(seg->index_task == NULL);
    assert_cmp(seg->holds_count, ==, 0);
    list_remove(&seg->link);
    log_index_forget(seg);
    log_segment_cut_jumps(seg, 0);
    free(seg->jumps);
    free(seg);
}

void log_segment_note(struct log_segment *seg, uint64_t pos, const struct entry_header *h)
{
    const struct segment_point p = {
        .pos = pos,
        .index = h->index,
        .offset = h->base_offset,
        .max_timestamp = h->max_timestamp,
    };
    seg->entries_size += entry_size(h->payload_size);
    segment_points_note(&seg->points, &p, &seg->point_next_pos, seg->log->options.index_interval);
    if (h->max_timestamp > seg->max_timestamp) {
        seg->max_timestamp = h->max_timestamp;
    }
    if (h->type == ENTRY_DATA && seg->first_timestamp == LOG_TIMESTAMP_UNKNOWN) {
        seg->first_timestamp = h->max_timestamp;
    }
}

enum err log_segment_add_jump(struct log_segment *seg, const struct segment_jump *j)
{
    struct segment_jump *jumps =
        realloc(seg->jumps, (seg->jumps_count + 1) * sizeof(seg->jumps[0]));
    if (jumps == NULL) {
        return ERR_BUSY;
    }
    seg->jumps = jumps;
    uint32_t at = seg->jumps_count;
    while (at > 0 && jumps[at - 1].pos > j->pos) {
        jumps[at] = jumps[at - 1];
        at--;
    }
    jumps[at] = *j;
    seg->jumps_count++;
    seg->log->env.shared->stats.losses += j->is_accepted;
    return ERR_OK;
}

void log_segment_cut_jumps(struct log_segment *seg, uint64_t pos)
{
    uint32_t kept_count = 0;
    for (uint32_t i = 0; i < seg->jumps_count; i++) {
        const struct segment_jump *j = &seg->jumps[i];
        if (j->pos < pos && (!j->is_damage || j->resume_pos <= pos)) {
            seg->jumps[kept_count++] = *j;
        } else {
            seg->log->env.shared->stats.losses -= j->is_accepted;
        }
    }
    seg->jumps_count = kept_count;
}

void log_segment_scan(const struct log_segment *seg, struct segment_scan *ret_scan)
{
    *ret_scan = (struct segment_scan){
        .salt = seg->salt,
        .generation_min = seg->generation,
        .generation_max = seg->log->generation,
        .limit_pos = seg->filled_to,
        .jumps = seg->jumps,
        .jumps_count = seg->jumps_count,
        .skip_offset = INT64_MIN,
        .has_previous = true,
        .pos = SEGMENT_HEADER_SIZE,
        .index = seg->base.index,
        .offset = seg->base.offset,
        .previous_id = seg->base.previous_id,
        .term = seg->base.term,
    };
}

enum err log_segment_put(struct log_segment *seg, uint64_t filled_to)
{
    struct segment_record r = {
        .generation = seg->generation,
        .salt = seg->salt,
        .base = seg->base,
        .filled_to = filled_to,
        .written_to = filled_to > seg->written_to ? filled_to : seg->written_to,
        .end_index = seg->end_index,
        .end_pos = seg->is_end_put ? seg->end_pos : 0,
        .max_timestamp = seg->is_end_put ? seg->max_timestamp : -1,
        .entries_size = seg->is_end_put ? seg->entries_size : 0,
        .file_version = seg->file_version,
    };
    struct store_key key = log_store_key(seg->log, STORE_SEGMENT, seg->base.index);
    enum err e = store_put(seg->log->env.store, &key, segment_record_encode(&r));
    if (e == ERR_OK) {
        seg->filled_to_put = filled_to;
    }
    return e;
}

void log_recount(struct log *l)
{
    l->sealed_size = 0;
    list_for_each (n, &l->segments) {
        if (n->next != &l->segments) {
            l->sealed_size += container_of(n, struct log_segment, link)->tail_pos;
        }
    }
}

/* ---- terms ---- */

void log_terms_add(struct log *l, uint64_t term, uint64_t index, int64_t offset)
{
    if (l->terms_count == l->terms_capacity) {
        uint32_t capacity = l->terms_capacity == 0 ? TERMS_CAPACITY_MIN : l->terms_capacity * 2;
        struct log_term *terms = realloc(l->terms, capacity * sizeof(terms[0]));
        if (terms == NULL) {
            panic("no memory for the terms of a log");
        }
        l->terms = terms;
        l->terms_capacity = capacity;
    }
    l->terms[l->terms_count++] = (struct log_term){term, index, offset};
}

void log_terms_cut(struct log *l, uint64_t index)
{
    while (l->terms_count > 0 && l->terms[l->terms_count - 1].index >= index) {
        l->terms_count--;
    }
}

uint64_t log_term_at(const struct log *l, uint64_t index)
{
    for (uint32_t i = l->terms_count; i > 0; i--) {
        if (l->terms[i - 1].index <= index) {
            return l->terms[i - 1].term;
        }
    }
    return 0;
}

bool log_term_end(const struct log *l, uint64_t term, uint64_t *ret_term, int64_t *ret_offset)
{
    for (uint32_t i = l->terms_count; i > 0; i--) {
        if (l->terms[i - 1].term <= term) {
            *ret_term = l->terms[i - 1].term;
            *ret_offset = i == l->terms_count ? l->next_offset : l->terms[i].offset;
            return true;
        }
    }
    return false;
}

/* ---- life ---- */

static struct log *log_new(const struct log_open *how)
{
    struct log *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return NULL;
    }
    l->env = *how->env;
    l->id = how->id;
    l->options = how->options;
    l->tier = how->tier;
    l->callbacks = how->callbacks;
    l->context = how->context;
    l->is_replay_strict = how->is_replay_strict;
    l->is_all_read = how->is_all_read;
    l->accepts_loss = how->accepts_loss;
    l->name = strdup(how->name);
    l->dir = partition_dir(how);
    if (l->name == NULL || l->dir == NULL) {
        free(l->name);
        free(l->dir);
        free(l);
        return NULL;
    }
    l->state = LOG_OPENING;
    l->generation = 1;
    l->appended_ms = how->env->s->wall_ms; /* At the latest. */
    l->page_size = LOG_PAGE_SIZE_MIN;
    l->fill_step = l->options.fill_step_min;
    list_init(&l->segments);
    list_init(&l->retired);
    list_init(&l->pages);
    list_init(&l->walks);
    list_init(&l->parked);
    list_init(&l->ahead_streams);
    list_init(&l->quiet_link);
    list_init(&l->shared_link);
    log_checkpoint_init(l);
    list_init(&l->compact_link);
    flush_client_init(&l->client, &LOG_FLUSH_CLIENT_OPS);
    task_init(&l->task, "log", on_task);
    timer_init(&l->retry, log_room_on_retry);
    l->memory.on_memory = log_room_on_memory;
    return l;
}

enum err log_open(const struct log_open *how, struct log **ret_log)
{
    assert(how->env->shared != NULL);
    check_options(&how->options);

    struct log *l = log_new(how);
    if (l == NULL) {
        return ERR_BUSY;
    }
    list_push_back(&l->env.shared->logs, &l->shared_link);
    log_recovery_start(l);
    *ret_log = l;
    return ERR_OK;
}

void log_free(struct log *l)
{
    assert(list_is_empty(&l->walks));
    assert(list_is_empty(&l->parked));
    assert(l->birth == NULL);
    assert(l->fill == NULL);
    assert(l->rounds_count == 0 || flusher_is_failed(l->env.flusher));
    assert(list_is_empty(&l->pages));
    assert(list_is_empty(&l->segments));
    assert(l->retirer == NULL);
    log_room_promise(l);
    flusher_withdraw(l->env.flusher, &l->client);
    timer_cancel(&log_shard(l)->timers, &l->retry);
    log_checkpoint_done(l);
    buf_pool_cancel_wait(log_shard(l)->bufs, &l->memory);
    list_remove(&l->task.link);
    list_remove(&l->quiet_link);
    list_remove(&l->shared_link);
    list_remove(&l->compact_link);
    free(l->terms);
    free(l->damages);
    free(l->lost_end);
    free(l->name);
    free(l->dir);
    free(l);
}

void log_fail(struct log *l, enum err e, const char *what)
{
    if (l->is_failed) {
        return;
    }
    l->is_failed = true;
    log_room_promise(l);
    timer_cancel(&log_shard(l)->timers, &l->retry);
    log_checkpoint_cancel(l);
    log_error(
        log_shard(l)->log, "log_failed", "log=%s while=\"%s\" err=%s", l->name, what, err_name(e));
    if (l->state == LOG_OPEN || l->state == LOG_CUTTING) {
        l->callbacks->on_failed(l->context, e);
    }
    log_poke(l);
}

void log_poke(struct log *l)
{
    shard_post(log_shard(l), &l->task);
}

bool log_is_quiet(const struct log *l)
{
    list_for_each (n, &l->pages) {
        if (container_of(n, struct log_page, link)->is_writing) {
            return false;
        }
    }
    bool has_round = l->rounds_count > 0 && !flusher_is_failed(l->env.flusher);
    return !has_round && l->fill == NULL && l->index_tasks_count == 0 &&
           log_checkpoint_is_quiet(l) && list_is_empty(&l->walks);
}

static void on_task(struct task *t)
{
    struct log *l = container_of(t, struct log, task);
    if (l->recovery != NULL) {
        log_recovery_poke(l);
        return;
    }
    if (l->state != LOG_CUTTING) {
        /* Only those that are there now: a walk may end at once and its owner begin another. */
        struct list parked;
        list_init(&parked);
        list_splice_back(&parked, &l->parked);
        while (!list_is_empty(&parked)) {
            struct log_walk *w = container_of(list_pop_front(&parked), struct log_walk, link);
            list_push_back(&l->walks, &w->link);
            w->on_start(w);
        }
    }
    log_retire_poke(l);
    if (l->is_checkpoint_asked) {
        log_checkpoint_check(l);
    }
    if (l->cut != NULL) {
        log_cut_poke(l);
    } else if (l->end != NULL) {
        log_end_poke(l); /* May free l. */
    }
}

/* ---- state ---- */

uint64_t log_first_index(const struct log *l)
{
    return list_is_empty(&l->segments)
               ? l->last_index + 1
               : container_of(l->segments.next, struct log_segment, link)->base.index;
}

uint64_t log_last_index(const struct log *l)
{
    return l->last_index;
}

uint64_t log_last_term(const struct log *l)
{
    return l->last_term;
}

uint64_t log_flushed_index(const struct log *l)
{
    return l->flushed_index;
}

int64_t log_start_offset(const struct log *l)
{
    if (list_is_empty(&l->segments)) {
        return l->next_offset;
    }
    const int64_t base_offset =
        container_of(l->segments.next, struct log_segment, link)->base.offset;
    return base_offset > l->start_offset ? base_offset : l->start_offset;
}

int64_t log_next_offset(const struct log *l)
{
    return l->next_offset;
}

int64_t log_flushed_offset(const struct log *l)
{
    return l->flushed_offset;
}

uint64_t log_size(const struct log *l)
{
    const struct log_segment *tail = log_tail_segment(l);
    return tail == NULL ? 0 : l->sealed_size + tail->tail_pos;
}

bool log_is_failed(const struct log *l)
{
    return l->is_failed;
}

bool log_is_end_unknown(const struct log *l)
{
    return l->is_end_unknown;
}

size_t log_damage(const struct log *l, struct log_damage *ret_ranges, size_t count_max)
{
    size_t count = l->damages_count < count_max ? l->damages_count : count_max;
    if (count > 0) {
        memcpy(ret_ranges, l->damages, count * sizeof(ret_ranges[0]));
    }
    return l->damages_count;
}

const struct log_stats *log_stats(const struct log *l)
{
    return &l->stats;
}

void log_set_commit(struct log *l, uint64_t index)
{
    assert_cmp(index, <=, l->last_index);
    if (index > l->commit_index) {
        l->commit_index = index;
        log_shared_touch(l->env.shared, l);
        if (l->checkpoint != NULL) {
            log_checkpoint_check(l);
        }
        log_trim(l);
    }
}

/* ---- segments as seen from outside ---- */

void log_each_segment(const struct log *l,
                      void *context,
                      bool (*on_segment)(void *context, const struct log_segment_info *info))
{
    list_for_each (n, &l->segments) {
        const struct log_segment *seg = container_of(n, struct log_segment, link);
        const struct log_segment *next = log_segment_after(seg);
        const struct log_segment_info info = {
            .size = block_align_up(seg->tail_pos),
            .next_offset = next == NULL ? l->next_offset : next->base.offset,
            .max_timestamp = seg->max_timestamp,
            .changed_ms = next == NULL ? l->appended_ms : next->created_ms,
            .is_last = next == NULL,
        };
        if (!on_segment(context, &info)) {
            return;
        }
    }
}

void log_roll_next(struct log *l)
{
    l->is_roll_wanted = true;
}

/* ---- log start ---- */

/* Whether seg, the first segment, may go. The one behind it must be able to stand alone: named by
 * the store, and not beginning with what a cut may still remove. */
static bool is_below_start(const struct log *l, const struct log_segment *seg)
{
    const struct log_segment *next = log_segment_after(seg);
    return next != NULL && next->base.offset <= l->start_offset && next->is_usable &&
           next->base.index - 1 <= l->commit_index && next->base.index - 1 <= l->flushed_index;
}

void log_forget_below(struct log *l, uint64_t first_index)
{
    uint32_t count = 0;
    while (count + 1 < l->terms_count && l->terms[count + 1].index <= first_index) {
        count++;
    }
    l->terms_count -= count;
    if (count > 0) {
        memmove(l->terms, l->terms + count, l->terms_count * sizeof(l->terms[0]));
    }

    for (count = 0; count < l->damages_count && l->damages[count].last_index < first_index;) {
        count++;
    }
    l->damages_count -= count;
    if (count > 0) { /* Else there may be no array. */
        memmove(l->damages, l->damages + count, l->damages_count * sizeof(l->damages[0]));
    }
}

void log_trim(struct log *l)
{
    /* Entries that take no offset, those of group 0 above all, are not below a start of 0. */
    const bool has_start = l->start_offset > 0;
    if (!has_start || l->state != LOG_OPEN || l->is_failed || list_is_empty(&l->segments)) {
        return;
    }
    struct log_segment *seg = container_of(l->segments.next, struct log_segment, link);
    while (is_below_start(l, seg)) {
        if (log_compact_needs(seg)) {
            (void)log_compact_stop(l); /* And comes back here. */
            return;
        }
        struct log_segment *next = log_segment_after(seg);
        if (!log_checkpoint_covers(seg)) {
            log_checkpoint_ask(l); /* What its owner knows of it must not go with it. */
            return;
        }
        if (log_retire(seg, LOG_RETIRE_REMOVED) != ERR_OK) {
            return; /* For want of memory: the next call tries again. */
        }
        log_forget_below(l, next->base.index);
        seg = next;
    }
}

void log_set_start(struct log *l, int64_t offset)
{
    assert(l->state != LOG_OPENING);
    assert_cmp(offset, <=, l->next_offset);
    if (offset > l->start_offset) {
        l->start_offset = offset;
        log_trim(l);
    }
}

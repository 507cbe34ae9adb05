/* Descriptors of segment files: opened when somebody needs one, closed when too many are idle, or
 * one for long.
 *
 *   CLOSED -> WAIT_OPEN -> OPEN -> WAIT_CLOSE -> CLOSED
 *
 * A file that is wanted again while it closes is opened right afterwards. When the process has no
 * descriptor left, idle files give theirs back and the open waits in WAIT_OPEN until it gets one:
 * others close, too.
 */
#include <stdlib.h>

#include "core/shard.h"
#include "storage/log_priv.h"

enum {
    STARVED_RETRY_US = 10 * 1000,
    OPENING_SHARE = 16,
    IDLE_CLOSED_MAX = 64, /* In one turn. */
    IDLE_PAUSE_US = 10 * 1000,
};

static void on_op_done(struct io_op *op);

static struct log_segment *segment_of(struct segment_file *f)
{
    return container_of(f, struct log_segment, file);
}

void segment_file_init(struct segment_file *f)
{
    *f = (struct segment_file){.state = SEGMENT_FILE_CLOSED, .fd = -1};
    list_init(&f->waiters);
    list_init(&f->idle_link);
}

static void tell(struct segment_file *f, enum err e)
{
    struct list waiters;
    list_init(&waiters);
    list_splice_back(&waiters, &f->waiters);
    for (struct list *n = list_pop_front(&waiters); n != NULL; n = list_pop_front(&waiters)) {
        struct segment_wait *w = container_of(n, struct segment_wait, link);
        w->on_ready(w, e);
    }
}

static void submit_open(struct log_segment *seg)
{
    struct segment_file *f = &seg->file;
    f->op = (struct io_op){
        .kind = IO_OPEN,
        .path = f->path,
        .open_flags = IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_DIRECT,
        .on_done = on_op_done,
    };
    io_submit(&log_shard(seg->log)->io, &f->op);
}

static void start_open(struct log_segment *seg)
{
    struct segment_file *f = &seg->file;
    assert(f->state == SEGMENT_FILE_CLOSED);
    f->path = log_segment_path(seg, ".log");
    if (f->path == NULL) {
        panic("no memory for a path");
    }
    f->state = SEGMENT_FILE_WAIT_OPEN;
    submit_open(seg);
}

static void start_close(struct log_segment *seg)
{
    struct segment_file *f = &seg->file;
    assert(f->state == SEGMENT_FILE_OPEN);
    assert(f->users_count == 0);
    list_remove(&f->idle_link);
    f->state = SEGMENT_FILE_WAIT_CLOSE;
    f->op = (struct io_op){.kind = IO_CLOSE, .fd = f->fd, .on_done = on_op_done};
    seg->log->env.shared->stats.files_open--;
    io_submit(&log_shard(seg->log)->io, &f->op);
}

/* A start opens every file once; few are used right afterwards. */
static uint32_t idle_files_max(const struct log *l)
{
    const uint32_t files_max = l->env.shared->options.files_max;
    return l->state == LOG_OPENING ? files_max / OPENING_SHARE : files_max;
}

static void become_idle(struct log_segment *seg)
{
    struct log_shared *ls = seg->log->env.shared;
    seg->file.idle_since_us = ls->s->now_us;
    list_push_back(&ls->idle_files, &seg->file.idle_link);
    while (ls->stats.files_open > idle_files_max(seg->log) && !list_is_empty(&ls->idle_files)) {
        start_close(segment_of(container_of(ls->idle_files.next, struct segment_file, idle_link)));
    }
    bool may_rest = !list_is_empty(&ls->idle_files) && ls->options.files_idle_us > 0;
    if (may_rest && !timer_is_armed(&ls->idle_timer)) {
        shard_timer_arm(ls->s, &ls->idle_timer, ls->options.files_idle_us);
    }
}

/* No descriptor was left. */
static void starve(struct log_segment *seg)
{
    struct log_shared *ls = seg->log->env.shared;
    list_push_back(&ls->starved_files, &seg->file.idle_link);
    if (!list_is_empty(&ls->idle_files)) {
        start_close(segment_of(container_of(ls->idle_files.next, struct segment_file, idle_link)));
    }
    if (!timer_is_armed(&ls->starved_timer)) {
        shard_timer_arm(ls->s, &ls->starved_timer, STARVED_RETRY_US);
    }
}

void segment_file_on_starved_timer(struct timer *t)
{
    struct log_shared *ls = container_of(t, struct log_shared, starved_timer);
    struct list files;
    list_init(&files);
    list_splice_back(&files, &ls->starved_files);
    for (struct list *n = list_pop_front(&files); n != NULL; n = list_pop_front(&files)) {
        submit_open(segment_of(container_of(n, struct segment_file, idle_link)));
    }
}

static void on_op_done(struct io_op *op)
{
    struct segment_file *f = container_of(op, struct segment_file, op);
    struct log_segment *seg = segment_of(f);
    struct log *l = seg->log;

    if (f->state == SEGMENT_FILE_WAIT_CLOSE) {
        f->state = SEGMENT_FILE_CLOSED;
        f->fd = -1;
        if (f->users_count > 0) {
            start_open(seg);
        } else {
            tell(f, ERR_OK);
        }
        return;
    }
    assert(f->state == SEGMENT_FILE_WAIT_OPEN);
    if (op->result == ERR_BUSY) {
        starve(seg);
        return;
    }
    free(f->path);
    f->path = NULL;
    if (op->result != ERR_OK) {
        f->state = SEGMENT_FILE_CLOSED;
        tell(f, op->result);
        if (f->users_count > 0 && l->state != LOG_OPENING) {
            log_fail(l, op->result, "open a segment");
        }
        return;
    }
    f->state = SEGMENT_FILE_OPEN;
    f->fd = op->result_fd;
    l->env.shared->stats.files_open++;
    if (f->is_unwanted && f->users_count == 0) {
        start_close(seg);
        return;
    }
    tell(f, ERR_OK);
    if (f->users_count == 0 && f->state == SEGMENT_FILE_OPEN && list_is_empty(&f->idle_link)) {
        become_idle(seg);
    }
    log_kick(l);
}

/* Partitions that rest have no descriptor. */
void segment_file_on_idle_timer(struct timer *t)
{
    struct log_shared *ls = container_of(t, struct log_shared, idle_timer);
    for (uint32_t i = 0; i < IDLE_CLOSED_MAX && !list_is_empty(&ls->idle_files); i++) {
        struct segment_file *f = container_of(ls->idle_files.next, struct segment_file, idle_link);
        uint64_t due_us = f->idle_since_us + ls->options.files_idle_us;
        if (due_us > ls->s->now_us) {
            timer_arm(&ls->s->timers, t, due_us);
            return;
        }
        start_close(segment_of(f));
    }
    if (!list_is_empty(&ls->idle_files)) {
        shard_timer_arm(ls->s, t, IDLE_PAUSE_US);
    }
}

void segment_file_born(struct log_segment *seg)
{
    if (seg->file.users_count == 0) {
        become_idle(seg);
    }
}

void segment_file_use(struct log_segment *seg)
{
    struct segment_file *f = &seg->file;
    assert(!f->is_unwanted);
    f->users_count++;
    if (f->state == SEGMENT_FILE_OPEN) {
        list_remove(&f->idle_link);
    }
    if (f->state == SEGMENT_FILE_CLOSED && seg->is_usable) {
        start_open(seg);
    }
}

void segment_file_unuse(struct log_segment *seg)
{
    struct segment_file *f = &seg->file;
    assert(f->users_count > 0);
    f->users_count--;
    if (f->users_count == 0 && f->state == SEGMENT_FILE_OPEN) {
        become_idle(seg);
    }
}

void segment_file_wait(struct log_segment *seg, struct segment_wait *w)
{
    assert(seg->file.users_count > 0);
    assert(seg->file.state != SEGMENT_FILE_OPEN);
    list_push_back(&seg->file.waiters, &w->link);
}

bool segment_file_close(struct log_segment *seg, struct segment_wait *w)
{
    struct segment_file *f = &seg->file;
    assert(f->users_count == 0);
    if (f->state == SEGMENT_FILE_CLOSED) {
        return false;
    }
    f->is_unwanted = true;
    if (f->state == SEGMENT_FILE_OPEN) {
        start_close(seg);
    }
    list_push_back(&f->waiters, &w->link);
    return true;
}

#include "storage/recycle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/logger.h"
#include "core/reached.h"
#include "core/shard.h"
#include "storage/flusher.h"
#include "storage/space.h"

enum {
    LOOK_US = 1000 * 1000, /* Other shards, and other processes, fill the same disk. */
    DISK_SHARE = 10,
    NAME_SIZE = 64,
};

struct recycled {
    struct list link; /* In recycle.kept or recycle.doomed. */
    struct recycle_file file;
    char *name; /* Of a file that an earlier start left; NULL: file.number says it. */
};

static void remove_next(struct recycle *rc);
static void look_later(struct recycle *rc);

/* A small disk is not to be full of what nobody needs. */
uint64_t recycle_size_max(uint64_t asked_size, uint64_t fs_size, uint32_t shards_count)
{
    const uint64_t share_size = fs_size / DISK_SHARE / shards_count;
    return asked_size < share_size ? asked_size : share_size;
}

/* ---- names ---- */

static char *path_of(const struct recycle *rc, const char *name)
{
    const size_t size = strlen(rc->path) + 1 + strlen(name) + 1;
    char *path = malloc(size);
    if (path == NULL) {
        panic("no memory for a path");
    }
    (void)snprintf(path, size, "%s/%s", rc->path, name);
    return path;
}

char *recycle_path(const struct recycle *rc, uint64_t number)
{
    char name[NAME_SIZE];
    (void)snprintf(
        name, sizeof(name), "%u-%016" PRIx64 "-%" PRIu64, (unsigned)rc->s->id, rc->start, number);
    return path_of(rc, name);
}

/* A shard removes what it left itself, and the first one what shards left that are no more. */
static bool owns(const struct recycle *rc, const char *name)
{
    char *end;
    const unsigned long shard = strtoul(name, &end, 10);
    if (end == name || *end != '-') {
        return false; /* Not of this module: people may put things anywhere. */
    }
    return shard == rc->s->id || (rc->s->id == 0 && shard >= rc->s->shards_count);
}

/* ---- removing ---- */

static struct recycled *recycled_new(const struct recycle_file *file, const char *name)
{
    struct recycled *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return NULL;
    }
    r->file = *file;
    if (name != NULL) {
        r->name = strdup(name);
        if (r->name == NULL) {
            free(r);
            return NULL;
        }
    }
    return r;
}

static void recycled_free(struct recycled *r)
{
    list_remove(&r->link);
    free(r->name);
    free(r);
}

static void doom(struct recycle *rc, struct recycled *r)
{
    list_push_back(&rc->doomed, &r->link);
    rc->stats.waiting++;
    look_later(rc);
    remove_next(rc);
}

static bool is_tight(const struct recycle *rc)
{
    return rc->options.space != NULL && space_is_tight(rc->options.space);
}

static void on_synced(struct io_op *op)
{
    struct recycle *rc = container_of(op, struct recycle, op);
    flusher_sync_done(rc->options.flusher, op);
    rc->state = RECYCLE_IDLE;
    remove_next(rc);
}

static void on_unlinked(struct io_op *op)
{
    struct recycle *rc = container_of(op, struct recycle, op);
    if (op->result != ERR_OK && op->result != ERR_NOT_FOUND) {
        log_warn(rc->s->log,
                 "recycled_file_not_removed",
                 "file=%s err=%s action=\"the next start tries again\"",
                 rc->unlink_path,
                 err_name(op->result));
    }
    free(rc->unlink_path);
    rc->unlink_path = NULL;
    rc->stats.removed++;
    if (list_is_empty(&rc->doomed) && is_tight(rc)) {
        rc->state = RECYCLE_WAIT_SYNC;
        rc->op = (struct io_op){.kind = IO_FSYNC_DIR, .path = rc->path, .on_done = on_synced};
        io_submit(&rc->s->io, &rc->op);
        return;
    }
    rc->state = RECYCLE_IDLE;
    remove_next(rc);
}

static void submit_unlink(struct recycle *rc)
{
    struct recycled *r = container_of(rc->doomed.next, struct recycled, link);
    rc->unlink_path = r->name != NULL ? path_of(rc, r->name) : recycle_path(rc, r->file.number);
    rc->stats.waiting--;
    recycled_free(r);
    rc->state = RECYCLE_WAIT_UNLINK;
    rc->op = (struct io_op){.kind = IO_UNLINK, .path = rc->unlink_path, .on_done = on_unlinked};
    io_submit(&rc->s->io, &rc->op);
}

static void on_turn(struct pace_wait *w, enum err e)
{
    struct recycle *rc = container_of(w, struct recycle, pace_wait);
    rc->state = RECYCLE_IDLE;
    if (e == ERR_OK && !rc->is_stopped) {
        submit_unlink(rc);
    } /* Else the background stops: the next start removes them. */
}

static void remove_next(struct recycle *rc)
{
    if (rc->state != RECYCLE_IDLE || rc->is_stopped || list_is_empty(&rc->doomed)) {
        return;
    }
    if (is_tight(rc)) {
        reached(rc->s, "recycle_removes_at_once");
        submit_unlink(rc);
        return;
    }
    rc->state = RECYCLE_WAIT_PACE;
    pace_ask(rc->options.pace, &rc->pace_wait, 1, 0);
}

/* Whoever waits for a turn does not need one any more. */
static void hurry(struct recycle *rc)
{
    if (rc->state == RECYCLE_WAIT_PACE && !rc->is_stopped) {
        pace_cancel(rc->options.pace, &rc->pace_wait);
        rc->state = RECYCLE_IDLE;
        remove_next(rc);
    }
}

/* ---- keeping ---- */

static bool is_wanted(const struct recycle *rc, uint64_t written_size)
{
    return written_size >= rc->options.file_size_min && written_size <= rc->options.size_max &&
           !is_tight(rc);
}

static void drop_kept(struct recycle *rc, struct recycled *r)
{
    rc->stats.kept_size -= r->file.written_size;
    rc->stats.kept_count--;
    list_remove(&r->link);
}

static void doom_oldest(struct recycle *rc)
{
    struct recycled *r = container_of(rc->kept.next, struct recycled, link);
    drop_kept(rc, r);
    doom(rc, r);
}

static void on_tight(void *context)
{
    struct recycle *rc = context;
    while (!list_is_empty(&rc->kept)) {
        reached(rc->s, "recycle_given_back");
        doom_oldest(rc);
    }
    hurry(rc);
}

static void on_look_timer(struct timer *t)
{
    struct recycle *rc = container_of(t, struct recycle, look_timer);
    space_sample(rc->options.space);
    if (!rc->is_stopped && (!list_is_empty(&rc->kept) || !list_is_empty(&rc->doomed))) {
        shard_timer_arm(rc->s, t, LOOK_US);
    }
}

static void look_later(struct recycle *rc)
{
    if (rc->options.space != NULL && !rc->is_stopped && !timer_is_armed(&rc->look_timer)) {
        shard_timer_arm(rc->s, &rc->look_timer, LOOK_US);
    }
}

static void keep(struct recycle *rc, struct recycled *r)
{
    list_push_back(&rc->kept, &r->link);
    rc->stats.kept_size += r->file.written_size;
    rc->stats.kept_count++;
    look_later(rc);
    while (rc->stats.kept_size > rc->options.size_max || rc->stats.kept_count > RECYCLE_COUNT_MAX) {
        reached(rc->s, "recycle_oldest_removed");
        doom_oldest(rc);
    }
}

static void take_in(struct recycle *rc, const struct recycle_file *file)
{
    struct recycled *r = recycled_new(file, NULL);
    if (r == NULL) {
        return; /* No memory: the next start removes it. */
    }
    if (is_wanted(rc, file->written_size)) {
        reached(rc->s, "recycle_kept");
        keep(rc, r);
    } else {
        reached(rc->s, "recycle_removes_later");
        doom(rc, r);
    }
}

uint64_t recycle_size_of(const struct recycle *rc, const char *path)
{
    uint64_t size;
    const bool is_small = rc->is_ready && io_file_size(&rc->s->io, path, &size) == ERR_OK &&
                          size < rc->options.file_size_min;
    return is_small ? RECYCLE_SIZE_SMALL : RECYCLE_SIZE_UNKNOWN;
}

bool recycle_takes(const struct recycle *rc, uint64_t written_size)
{
    const bool is_small =
        written_size != RECYCLE_SIZE_UNKNOWN && written_size < rc->options.file_size_min;
    return rc->is_ready && !rc->is_stopped && !is_small;
}

static void on_dir_made(struct io_op *op)
{
    struct recycle *rc = container_of(op, struct recycle, mkdir_op);
    rc->is_making_dir = false;
    rc->is_ready = op->result == ERR_OK || op->result == ERR_EXISTS;
    if (!rc->is_ready) {
        /* Files are removed where they are. */
        log_warn(rc->s->log, "recycle_dir", "dir=%s err=%s", rc->path, err_name(op->result));
    }
}

/* Its name need not be durable: nothing in it is missed. */
static void make_dir(struct recycle *rc)
{
    rc->is_making_dir = true;
    rc->mkdir_op = (struct io_op){.kind = IO_MKDIR, .path = rc->path, .on_done = on_dir_made};
    io_submit(&rc->s->io, &rc->mkdir_op);
}

/* Somebody removed it, and what was kept there with it; another shard may have made it again. */
static void dir_lost(struct recycle *rc)
{
    if (!rc->is_ready || rc->is_stopped) {
        return; /* Known. */
    }
    reached(rc->s, "recycle_dir_lost");
    log_warn(rc->s->log, "recycle_dir_lost", "dir=%s action=\"it is made again\"", rc->path);
    rc->is_ready = false;
    while (!list_is_empty(&rc->kept)) {
        doom_oldest(rc);
    }
    make_dir(rc);
}

/* ---- out of a log ---- */

static void on_discard_unlinked(struct io_op *op)
{
    struct recycle_discard *d = container_of(op, struct recycle_discard, op);
    if (d->is_rename_lost && op->result == ERR_OK) {
        dir_lost(d->rc); /* Since the file was there. */
    }
    d->on_done(d, op->result);
}

static void discard_by_unlink(struct recycle_discard *d)
{
    d->op = (struct io_op){.kind = IO_UNLINK, .path = d->path, .on_done = on_discard_unlinked};
    io_submit(&d->rc->s->io, &d->op);
}

static void on_discard_renamed(struct io_op *op)
{
    struct recycle_discard *d = container_of(op, struct recycle_discard, op);
    free(d->new_path);
    d->new_path = NULL;
    if (op->result == ERR_OK) {
        take_in(d->rc, &(struct recycle_file){d->number, d->written_size});
        d->on_done(d, ERR_OK);
        return;
    }
    d->is_rename_lost = op->result == ERR_NOT_FOUND;
    discard_by_unlink(d);
}

void recycle_discard(struct recycle *rc, struct recycle_discard *d)
{
    d->rc = rc;
    d->is_rename_lost = false;
    if (!recycle_takes(rc, d->written_size)) {
        discard_by_unlink(d);
        return;
    }
    d->number = rc->number_next++;
    d->new_path = recycle_path(rc, d->number);
    d->op = (struct io_op){
        .kind = IO_RENAME,
        .path = d->path,
        .new_path = d->new_path,
        .on_done = on_discard_renamed,
    };
    io_submit(&rc->s->io, &d->op);
}

bool recycle_take(struct recycle *rc, uint64_t size_max, struct recycle_file *ret_file)
{
    if (rc->options.size_max == 0 || !rc->is_ready) {
        return false;
    }
    struct recycled *best = NULL;
    list_for_each (n, &rc->kept) {
        struct recycled *r = container_of(n, struct recycled, link);
        const uint64_t size = r->file.written_size;
        if (size <= size_max && size >= size_max / 2 &&
            (best == NULL || size > best->file.written_size)) {
            best = r;
        }
    }
    if (best == NULL) {
        rc->stats.misses++;
        return false;
    }
    rc->stats.hits++;
    *ret_file = best->file;
    drop_kept(rc, best);
    recycled_free(best);
    return true;
}

/* ---- life ---- */

void recycle_init(struct recycle *rc, struct shard *s)
{
    *rc = (struct recycle){.s = s, .state = RECYCLE_IDLE};
    list_init(&rc->kept);
    list_init(&rc->doomed);
    pace_wait_init(&rc->pace_wait, on_turn);
    timer_init(&rc->look_timer, on_look_timer);
}

static void on_leftover(void *context, const char *name)
{
    struct recycle *rc = context;
    if (!owns(rc, name)) {
        return;
    }
    const struct recycle_file unknown = {0};
    struct recycled *r = recycled_new(&unknown, name);
    if (r != NULL) { /* Else the next start removes it. */
        reached(rc->s, "recycle_leftover");
        doom(rc, r);
    }
}

enum err recycle_start(struct recycle *rc, const struct recycle_options *options)
{
    assert(rc->path == NULL);
    const size_t size = strlen(options->dir) + sizeof("/recycle");
    rc->path = malloc(size);
    if (rc->path == NULL) {
        return ERR_BUSY;
    }
    (void)snprintf(rc->path, size, "%s/recycle", options->dir);
    rc->options = *options;
    rc->start = rand_u64(&rc->s->rand);
    if (options->space != NULL) {
        options->space->on_tight = on_tight;
        options->space->tight_context = rc;
    }
    enum err e = io_list_dir(&rc->s->io, rc->path, rc, on_leftover);
    rc->is_ready = e == ERR_OK;
    if (e == ERR_NOT_FOUND) {
        make_dir(rc);
    } else if (e != ERR_OK) {
        log_warn(rc->s->log, "recycle_dir", "dir=%s err=%s", rc->path, err_name(e));
    }
    return ERR_OK;
}

void recycle_stop(struct recycle *rc)
{
    rc->is_stopped = true;
}

bool recycle_is_busy(const struct recycle *rc)
{
    return rc->is_making_dir || rc->state == RECYCLE_WAIT_UNLINK || rc->state == RECYCLE_WAIT_SYNC;
}

static void forget(struct list *files)
{
    while (!list_is_empty(files)) {
        recycled_free(container_of(files->next, struct recycled, link));
    }
}

void recycle_done(struct recycle *rc)
{
    assert(!recycle_is_busy(rc));
    if (rc->path == NULL) {
        return;
    }
    if (rc->options.space != NULL) {
        rc->options.space->on_tight = NULL;
    }
    timer_cancel(&rc->s->timers, &rc->look_timer);
    if (rc->state == RECYCLE_WAIT_PACE) {
        pace_cancel(rc->options.pace, &rc->pace_wait);
    }
    forget(&rc->kept);
    forget(&rc->doomed);
    free(rc->path);
}

/* The birth of a segment file (DESIGN 4.3). Nothing refers to the file before all of it is durable.
 *
 *   QUEUED -> START
 *   START -> [WAIT_MKDIR_LOGS -> WAIT_MKDIR] -> WAIT_CREATE -> WAIT_ZEROS ... -> SPARE
 *   START -> WAIT_TAKE -> WAIT_CREATE -> [WAIT_ZEROS ... ->] SPARE     of a recycled file
 *   SPARE -> WAIT_HEADER -> WAIT_FSYNC -> WAIT_RENAME -> [WAIT_LINK -> WAIT_LINK_RENAME]
 *         -> WAIT_FSYNC_DIR -> [WAIT_FSYNC_LOGS -> WAIT_FSYNC_DATA] -> WAIT_MANIFEST -> born
 *   any   -> RETRY (disk full) -> [QUEUED ->] START
 *   SPARE, RETRY, QUEUED, a spare that failed -> WAIT_STOP_CLOSE -> WAIT_STOP_DISCARD -> gone
 *   [..] of names: only for the first segment of a log
 *
 * The file has the name "next.tmp" until its header, which needs to know the first index, is
 * written. So one can be filled with zeros before the current segment is full, and a roll then
 * costs one block, one fsync and three names. Such a spare is unborn in every sense: after a crash
 * it is a leftover and is removed. Entries that arrive while their segment is being born gather in
 * tail pages; there is at most one birth per log, and only so many at once have their turn: each
 * may hold two descriptors.
 *
 * A recycled file (recycle.h) brings its blocks along. What they hold is of another salt and so of
 * no meaning here, before the header is overwritten and after: until the manifest names the file,
 * with the new salt, nobody reads it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "core/reached.h"
#include "storage/log_priv.h"

enum {
    RECYCLE_STEPS = 64,  /* Of filling, in a segment. */
    LINK_NAME_SIZE = 64, /* ".<topic id>-<partition>.link" */
    TURNS_MIN = 4,
};

enum birth_state {
    BIRTH_QUEUED,
    BIRTH_START,
    BIRTH_WAIT_TAKE,
    BIRTH_WAIT_MKDIR_LOGS,
    BIRTH_WAIT_MKDIR,
    BIRTH_WAIT_CREATE,
    BIRTH_WAIT_ZEROS,
    BIRTH_SPARE,
    BIRTH_WAIT_HEADER,
    BIRTH_WAIT_FSYNC,
    BIRTH_WAIT_RENAME,
    BIRTH_WAIT_LINK,
    BIRTH_WAIT_LINK_RENAME,
    BIRTH_WAIT_FSYNC_DIR,
    BIRTH_WAIT_FSYNC_LOGS,
    BIRTH_WAIT_FSYNC_DATA,
    BIRTH_WAIT_MANIFEST,
    BIRTH_RETRY,
    BIRTH_WAIT_STOP_CLOSE,
    BIRTH_WAIT_STOP_DISCARD,
};

struct log_birth {
    struct log *log;
    struct log_segment *seg; /* NULL: a spare. */
    enum birth_state state;
    bool is_stopping;
    bool has_turn;
    struct list queue_link; /* In log_shared.births. */
    int fd;
    uint64_t recycled_size; /* Blocks below were written by an earlier life of the file; 0: new. */
    uint64_t zeroed_to;
    uint64_t zeros_end;
    struct buf *header;
    char *logs_dir;
    char *tmp_path;
    char *recycled_path; /* In WAIT_TAKE. */
    struct recycle_discard discard;
    char *path; /* Of the segment, once seg is known. */
    char *link_target;
    char *link_tmp_path;
    char *link_path;
    struct io_op op;
    struct iovec iov[LOG_ZERO_IOV_MAX];
    struct store_wait wait;
};

static void birth_run(struct log_birth *b);
static void submit(struct log_birth *b, enum birth_state next);
static void on_op_done(struct io_op *op);

/* ---- turns ---- */

/* On a first try, or the next one. */
static void begin_turn(struct log_birth *b)
{
    struct log_shared *ls = b->log->env.shared;
    b->has_turn = true;
    ls->births_count++;
    if (b->fd != -1) {
        /* O_TRUNC on the next try; the old descriptor has no further use. */
        b->op = (struct io_op){.kind = IO_CLOSE, .fd = b->fd, .on_done = on_op_done};
        b->fd = -1;
        b->state = BIRTH_START;
        io_submit(&ls->s->io, &b->op);
        return;
    }
    b->state = BIRTH_START;
    birth_run(b);
}

/* At most half of the descriptors that files may have; the other half is for directories. */
static bool has_free_turn(const struct log_shared *ls)
{
    const uint32_t turns = ls->options.files_max / 2;
    return ls->births_count < (turns > TURNS_MIN ? turns : TURNS_MIN);
}

static void ask_for_turn(struct log_birth *b)
{
    struct log_shared *ls = b->log->env.shared;
    if (has_free_turn(ls) && list_is_empty(&ls->births)) {
        begin_turn(b);
        return;
    }
    reached(ls->s, "segment_birth_queued");
    b->state = BIRTH_QUEUED;
    list_push_back(&ls->births, &b->queue_link);
}

static void end_turn(struct log_birth *b)
{
    struct log_shared *ls = b->log->env.shared;
    if (!b->has_turn) {
        return;
    }
    b->has_turn = false;
    assert_cmp(ls->births_count, >, 0);
    ls->births_count--;
    while (has_free_turn(ls) && !list_is_empty(&ls->births)) {
        struct log_birth *next =
            container_of(list_pop_front(&ls->births), struct log_birth, queue_link);
        if (next->log->is_failed) {
            next->state = BIRTH_RETRY; /* Never tried again: it is stopped. */
        } else {
            begin_turn(next);
        }
    }
}

static void birth_free(struct log_birth *b)
{
    buf_unref(b->header);
    free(b->logs_dir);
    free(b->tmp_path);
    free(b->recycled_path);
    free(b->path);
    free(b->link_target);
    free(b->link_tmp_path);
    free(b->link_path);
    free(b);
}

static void on_op_done(struct io_op *op)
{
    struct log_birth *b = container_of(op, struct log_birth, op);
    flusher_sync_done(b->log->env.flusher, op);
    birth_run(b);
}

static void on_manifest_durable(struct store_wait *w)
{
    birth_run(container_of(w, struct log_birth, wait));
}

static void submit(struct log_birth *b, enum birth_state next)
{
    b->state = next;
    b->op.on_done = on_op_done;
    io_submit(&log_shard(b->log)->io, &b->op);
}

static void
submit_path(struct log_birth *b, enum io_kind kind, const char *path, enum birth_state next)
{
    b->op = (struct io_op){.kind = kind, .path = path};
    submit(b, next);
}

static void submit_paths(struct log_birth *b,
                         enum io_kind kind,
                         const char *path,
                         const char *new_path,
                         enum birth_state next)
{
    b->op = (struct io_op){.kind = kind, .path = path, .new_path = new_path};
    submit(b, next);
}

static void submit_create(struct log_birth *b)
{
    b->op = (struct io_op){
        .kind = IO_OPEN,
        .path = b->tmp_path,
        .open_flags =
            IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_TRUNCATE | IO_OPEN_DIRECT,
    };
    submit(b, BIRTH_WAIT_CREATE);
}

static void submit_open_recycled(struct log_birth *b)
{
    b->op = (struct io_op){
        .kind = IO_OPEN,
        .path = b->tmp_path,
        .open_flags = IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_DIRECT,
    };
    submit(b, BIRTH_WAIT_CREATE);
}

static void submit_zeros(struct log_birth *b)
{
    struct log *l = b->log;
    b->op = (struct io_op){.fd = b->fd};
    b->zeroed_to += log_shared_zero_op(l->env.shared, &b->op, b->iov, b->zeroed_to, b->zeros_end);
    submit(b, BIRTH_WAIT_ZEROS);
}

static void submit_header(struct log_birth *b)
{
    struct log *l = b->log;
    struct segment_header h = {
        .salt = b->seg->salt,
        .base = b->seg->base,
        .partition = l->id.partition,
        .generation = b->seg->generation,
    };
    memcpy(h.topic_id, l->id.topic_id.bytes, sizeof(h.topic_id));
    segment_header_encode(&h, b->header->data);
    b->op = (struct io_op){
        .kind = IO_WRITE,
        .fd = b->fd,
        .buf = b->header->data,
        .size = SEGMENT_HEADER_SIZE,
    };
    submit(b, BIRTH_WAIT_HEADER);
}

static void stop_close(struct log_birth *b)
{
    b->op = (struct io_op){.kind = IO_CLOSE, .fd = b->fd};
    b->fd = -1;
    submit(b, BIRTH_WAIT_STOP_CLOSE);
}

static void on_discarded(struct recycle_discard *d, enum err e)
{
    (void)e; /* A leftover: the next start, or the next birth, takes care of it. */
    birth_run(container_of(d, struct log_birth, discard));
}

/* What was recycled goes back; nothing else of the file is worth keeping. */
static void stop_discard(struct log_birth *b)
{
    b->state = BIRTH_WAIT_STOP_DISCARD;
    b->discard = (struct recycle_discard){
        .path = b->tmp_path,
        .written_size = b->recycled_size > 0 ? b->recycled_size : RECYCLE_SIZE_SMALL,
        .on_done = on_discarded,
    };
    recycle_discard(&b->log->env.shared->recycle, &b->discard);
}

static void stop(struct log_birth *b)
{
    b->is_stopping = true;
    if (b->fd != -1) {
        stop_close(b);
    } else {
        stop_discard(b);
    }
}

static void gone(struct log_birth *b)
{
    struct log *l = b->log;
    l->birth = NULL;
    end_turn(b);
    birth_free(b);
    log_room_resume(l); /* A roll that met the dying spare left its segment without a file. */
    log_poke(l);
}

static void failed(struct log_birth *b, enum err e)
{
    struct log *l = b->log;
    if (b->is_stopping || b->seg == NULL) {
        l->spare_due_us = log_shard(l)->now_us + LOG_RETRY_US;
        stop(b); /* A spare that cannot be had is no trouble yet. */
        return;
    }
    b->state = BIRTH_RETRY;
    end_turn(b);
    if (e == ERR_NO_SPACE || e == ERR_BUSY) {
        log_room_set_full(l, "birth");
    } else {
        log_fail(l, e, "segment birth");
    }
    log_poke(l);
}

static void born(struct log_birth *b)
{
    struct log *l = b->log;
    struct log_segment *seg = b->seg;
    struct segment_file *f = &seg->file;

    assert(!seg->is_usable);
    assert(f->state == SEGMENT_FILE_CLOSED);
    seg->is_usable = true;
    seg->filled_to = b->zeros_end;
    f->state = SEGMENT_FILE_OPEN;
    f->fd = b->fd;
    l->env.shared->stats.files_open++;
    segment_file_born(seg);
    l->has_dir = true;
    l->is_full = false;
    log_room_promise(l);
    l->birth = NULL;
    end_turn(b);
    birth_free(b);

    log_fill_check(l);
    log_kick(l);
    log_poke(l);
    log_trim(l);
    log_room_offer(l);
}

static void put_manifest(struct log_birth *b)
{
    b->wait.on_durable = on_manifest_durable;
    b->seg->written_to = b->recycled_size > b->zeros_end ? b->recycled_size : b->zeros_end;
    enum err e = log_segment_put(b->seg, b->zeros_end);
    if (e == ERR_OK) {
        e = log_store_wait(b->log, &b->wait);
    }
    if (e != ERR_OK) {
        failed(b, e);
    } else {
        b->state = BIRTH_WAIT_MANIFEST;
    }
}

/* The segment that the new one follows. */
static const struct log_segment *segment_before(const struct log_birth *b)
{
    const struct list *segments = &b->log->segments;
    const struct list *n = b->seg == NULL ? segments->prev : b->seg->link.prev;
    return n == segments ? NULL : container_of(n, struct log_segment, link);
}

/* A whole file is taken for a log that will use it: it filled the last one, and fills this one
 * within half an hour or so if it goes on like that. Others would keep space from those who need
 * it; they are given theirs in steps. */
static bool is_worth_a_file(const struct log_birth *b)
{
    const struct log *l = b->log;
    const struct log_segment *before = segment_before(b);
    const uint64_t step_min = l->options.segment_size_max / RECYCLE_STEPS;
    const uint64_t step = step_min < l->options.fill_step_max ? step_min : l->options.fill_step_max;
    return before != NULL && before->tail_pos >= l->options.segment_size_max / 2 &&
           l->fill_step >= step;
}

/* True: a file is on its way. */
static bool take_recycled(struct log_birth *b)
{
    struct log *l = b->log;
    struct recycle *rc = &l->env.shared->recycle;
    struct recycle_file file;
    if (!l->has_dir || !is_worth_a_file(b) ||
        !recycle_take(rc, block_align_up(l->options.segment_size_max), &file)) {
        return false;
    }
    free(b->recycled_path);
    b->recycled_path = recycle_path(rc, file.number);
    b->recycled_size = file.written_size;
    submit_paths(b, IO_RENAME, b->recycled_path, b->tmp_path, BIRTH_WAIT_TAKE);
    return true;
}

static void begin_new(struct log_birth *b)
{
    b->recycled_size = 0;
    space_take(b->log->env.space, b->zeros_end);
    if (b->log->has_dir) {
        submit_create(b);
    } else {
        submit_path(b, IO_MKDIR, b->logs_dir, BIRTH_WAIT_MKDIR_LOGS);
    }
}

static void begin(struct log_birth *b)
{
    assert(b->has_turn);
    assert_cmp(b->state, ==, BIRTH_START);
    b->zeroed_to = SEGMENT_HEADER_SIZE;
    b->zeros_end = SEGMENT_HEADER_SIZE + b->log->fill_step;
    if (!space_has_spare(b->log->env.space, b->log->tier, b->log->fill_step)) {
        b->zeros_end = SEGMENT_HEADER_SIZE + b->log->options.fill_step_min;
    }
    if (!take_recycled(b)) {
        begin_new(b);
    }
}

static void taken(struct log_birth *b)
{
    if (b->op.result != ERR_OK) {
        begin_new(b); /* Somebody removed it: a file like any other. */
        return;
    }
    reached(log_shard(b->log), "segment_recycled");
    if (b->recycled_size > b->zeroed_to) {
        b->zeroed_to = b->recycled_size;
    }
    submit_open_recycled(b);
}

/* The header needs a segment; without one the file waits. */
static void zeros_done(struct log_birth *b)
{
    if (b->zeroed_to < b->zeros_end) {
        submit_zeros(b);
    } else if (b->is_stopping) {
        stop(b);
    } else if (b->seg == NULL) {
        b->state = BIRTH_SPARE;
        end_turn(b);
        log_poke(b->log);
    } else {
        submit_header(b);
    }
}

/* What may be wrong without harm in the state that just ended. */
static enum err result_of(const struct log_birth *b)
{
    switch (b->state) {
    case BIRTH_WAIT_MKDIR_LOGS:
    case BIRTH_WAIT_MKDIR:
        return b->op.result == ERR_EXISTS ? ERR_OK : b->op.result;
    case BIRTH_WAIT_LINK:
    case BIRTH_WAIT_LINK_RENAME: /* The name-link is for people; the log lives without. */
    case BIRTH_WAIT_STOP_CLOSE:
    case BIRTH_WAIT_STOP_DISCARD:
    case BIRTH_WAIT_TAKE: /* taken() looks. */
    case BIRTH_QUEUED:
    case BIRTH_START:
    case BIRTH_SPARE:
    case BIRTH_RETRY:
    case BIRTH_WAIT_MANIFEST:
        return ERR_OK;
    case BIRTH_WAIT_CREATE:
    case BIRTH_WAIT_ZEROS:
    case BIRTH_WAIT_HEADER:
    case BIRTH_WAIT_FSYNC:
    case BIRTH_WAIT_RENAME:
    case BIRTH_WAIT_FSYNC_DIR:
    case BIRTH_WAIT_FSYNC_LOGS:
    case BIRTH_WAIT_FSYNC_DATA:
        return b->op.result;
    }
    return b->op.result;
}

/* The first segment of a log also needs the name for people. */
static void renamed(struct log_birth *b)
{
    if (b->log->has_dir) {
        submit_path(b, IO_FSYNC_DIR, b->log->dir, BIRTH_WAIT_FSYNC_DIR);
    } else {
        submit_paths(b, IO_SYMLINK, b->link_target, b->link_tmp_path, BIRTH_WAIT_LINK);
    }
}

/* The first one also made the directory. */
static void dir_synced(struct log_birth *b)
{
    if (b->log->has_dir) {
        put_manifest(b);
    } else {
        submit_path(b, IO_FSYNC_DIR, b->logs_dir, BIRTH_WAIT_FSYNC_LOGS);
    }
}

static void birth_run(struct log_birth *b)
{
    struct log *l = b->log;
    enum err e = result_of(b);
    if (e != ERR_OK) {
        failed(b, e);
        return;
    }
    switch (b->state) {
    case BIRTH_QUEUED:
    case BIRTH_RETRY:
    case BIRTH_START:
        begin(b);
        break;
    case BIRTH_WAIT_TAKE:
        taken(b);
        break;
    case BIRTH_WAIT_MKDIR_LOGS:
        submit_path(b, IO_MKDIR, l->dir, BIRTH_WAIT_MKDIR);
        break;
    case BIRTH_WAIT_MKDIR:
        submit_create(b);
        break;
    case BIRTH_WAIT_CREATE:
        b->fd = b->op.result_fd;
        zeros_done(b);
        break;
    case BIRTH_WAIT_ZEROS:
        zeros_done(b);
        break;
    case BIRTH_SPARE:
        reached(log_shard(l), "segment_spare_used");
        submit_header(b);
        break;
    case BIRTH_WAIT_HEADER:
        b->op = (struct io_op){.kind = IO_FSYNC, .fd = b->fd};
        submit(b, BIRTH_WAIT_FSYNC);
        break;
    case BIRTH_WAIT_FSYNC:
        submit_paths(b, IO_RENAME, b->tmp_path, b->path, BIRTH_WAIT_RENAME);
        break;
    case BIRTH_WAIT_RENAME:
        renamed(b);
        break;
    case BIRTH_WAIT_LINK:
        /* By rename, since a link of that name may be there from a deleted topic. */
        submit_paths(b, IO_RENAME, b->link_tmp_path, b->link_path, BIRTH_WAIT_LINK_RENAME);
        break;
    case BIRTH_WAIT_LINK_RENAME:
        submit_path(b, IO_FSYNC_DIR, l->dir, BIRTH_WAIT_FSYNC_DIR);
        break;
    case BIRTH_WAIT_FSYNC_DIR:
        dir_synced(b);
        break;
    case BIRTH_WAIT_FSYNC_LOGS:
        submit_path(b, IO_FSYNC_DIR, l->env.dir, BIRTH_WAIT_FSYNC_DATA);
        break;
    case BIRTH_WAIT_FSYNC_DATA:
        put_manifest(b);
        break;
    case BIRTH_WAIT_MANIFEST:
        born(b);
        break;
    case BIRTH_WAIT_STOP_CLOSE:
        stop_discard(b);
        break;
    case BIRTH_WAIT_STOP_DISCARD:
        gone(b);
        break;
    }
}

static struct log_birth *birth_new(struct log *l)
{
    struct log_birth *b = calloc(1, sizeof(*b));
    if (b == NULL) {
        panic("no memory for a segment birth");
    }
    b->log = l;
    b->fd = -1;
    b->state = BIRTH_START;
    list_init(&b->queue_link);
    b->header = log_shared_alloc(l->env.shared, SEGMENT_HEADER_SIZE, BUF_RESERVED);
    if (b->header == NULL) {
        birth_free(b);
        return NULL;
    }
    const char *dir_name = strrchr(l->dir, '/') + 1;
    char link_tmp_name[LINK_NAME_SIZE];
    (void)snprintf(link_tmp_name, sizeof(link_tmp_name), ".%s.link", dir_name);
    b->logs_dir = log_path(l->env.dir, "logs");
    b->tmp_path = log_path(l->dir, "next.tmp");
    b->link_target = strdup(dir_name);
    b->link_tmp_path = log_path(b->logs_dir, link_tmp_name);
    b->link_path = log_path(b->logs_dir, l->name);
    return b;
}

enum err log_birth_start(struct log *l, struct log_segment *seg)
{
    struct log_birth *b = l->birth;
    if (b == NULL) {
        b = birth_new(l);
        if (b == NULL) {
            return ERR_BUSY;
        }
        l->birth = b;
    }
    assert(b->seg == NULL);
    if (b->is_stopping) {
        return ERR_OK; /* log_resume comes when it is gone. */
    }
    if (seg != NULL) {
        b->seg = seg;
        b->path = log_segment_path(seg, ".log");
    }
    if (b->state == BIRTH_SPARE) {
        birth_run(b);
    } else if (b->state == BIRTH_START && !b->has_turn) {
        ask_for_turn(b);
    }
    return ERR_OK;
}

void log_birth_retry(struct log *l)
{
    if (l->birth != NULL && l->birth->state == BIRTH_RETRY && !l->is_failed) {
        ask_for_turn(l->birth);
    }
}

bool log_birth_stop(struct log *l)
{
    struct log_birth *b = l->birth;
    if (b == NULL) {
        return true;
    }
    const bool is_of_use = b->seg != NULL && !l->is_failed && l->state != LOG_DELETING;
    if (b->state == BIRTH_QUEUED && !is_of_use) {
        list_remove(&b->queue_link);
        stop(b);
    } else if (b->state == BIRTH_SPARE || b->state == BIRTH_RETRY) {
        stop(b);
    } else if (b->seg == NULL) {
        b->is_stopping = true;
    }
    return false;
}

void log_birth_abandon(struct log *l)
{
    if (l->birth != NULL && l->birth->state == BIRTH_WAIT_MANIFEST) {
        store_wait_cancel(l->env.store, &l->birth->wait);
        l->birth->state = BIRTH_RETRY;
        end_turn(l->birth);
    }
}

#include "storage/flusher.h"

#include <stdlib.h>

#include "core/assert.h"
#include "core/io.h"
#include "core/shard.h"

enum {
    FILE_FLUSHES_MAX = 64, /* In flight at once, where every file needs its own. */
    FDS_CAPACITY_MIN = 64,
    STATS_COUNT = 4,
};

/* Clients and what they touched. There are two, which swap roles: one writes while the other
 * flushes. */
struct round {
    struct list clients;   /* By round_links[index of this round]. */
    uint32_t writes_count; /* In flight; the pass over the clients holds one, too. */
    int *fds;              /* Touched files; only the first one when the flush is shared. */
    size_t fds_count;
    size_t fds_capacity;
};

struct file_flush {
    struct io_op op;
    struct flusher *flusher;
};

struct flusher {
    struct shard *s;
    bool is_shared;
    int quiet_fd; /* 0 = none. */
    bool is_failed;
    bool is_flushing; /* rounds[!writing] is on its way to the disk. */
    uint8_t writing;  /* Index of the round that takes clients in. */
    void *context;
    void (*on_failed)(void *context, enum err e);
    struct list asking; /* By ask_link, in the order they asked. */
    struct round rounds[2];
    struct task advance_task;

    size_t fds_next;        /* In the flushing round: the next file to flush. */
    uint32_t flushes_count; /* In flight. */
    uint64_t flush_start_us;
    struct flusher_stats stats;
    struct stat exported[STATS_COUNT];
    size_t ops_count;
    struct file_flush ops[]; /* One, or FILE_FLUSHES_MAX. */
};

void flush_client_init(struct flush_client *c, const struct flush_client_ops *ops)
{
    c->ops = ops;
    list_init(&c->ask_link);
    list_init(&c->round_links[0]);
    list_init(&c->round_links[1]);
}

static void on_advance(struct task *t);

static void export_stats(struct flusher *f, const char *labels)
{
    const struct stat described[STATS_COUNT] = {
        {.kind = STAT_COUNTER,
         .name = "coreflume_flush_rounds_total",
         .help = "Rounds of the shared flush.",
         .value = &f->stats.rounds},
        {.kind = STAT_COUNTER,
         .name = "coreflume_flush_clients_total",
         .help = "Logs and stores in rounds of the shared flush.",
         .value = &f->stats.clients},
        {.kind = STAT_COUNTER,
         .name = "coreflume_flush_calls_total",
         .help = "Flushes of a file or of the device.",
         .value = &f->stats.flushes},
        {.kind = STAT_HISTOGRAM,
         .name = "coreflume_flush_seconds",
         .help = "Time from the end of a round's writes until they are durable.",
         .value = &f->stats.flush_us},
    };
    for (size_t i = 0; i < STATS_COUNT; i++) {
        f->exported[i] = described[i];
        f->exported[i].labels = labels == NULL ? f->s->stats_label : labels;
        stats_add(&f->s->stats, &f->exported[i]);
    }
}

enum err flusher_new(struct shard *s, const struct flusher_options *o, struct flusher **ret_flusher)
{
    size_t ops_count = o->is_shared ? 1 : FILE_FLUSHES_MAX;
    struct flusher *f = calloc(1, sizeof(*f) + ops_count * sizeof(f->ops[0]));
    if (f == NULL) {
        return ERR_BUSY;
    }
    f->s = s;
    f->is_shared = o->is_shared;
    f->quiet_fd = o->is_shared ? o->quiet_fd : 0;
    f->context = o->context;
    f->on_failed = o->on_failed;
    f->ops_count = ops_count;
    list_init(&f->asking);
    list_init(&f->rounds[0].clients);
    list_init(&f->rounds[1].clients);
    task_init(&f->advance_task, "flusher", on_advance);
    for (size_t i = 0; i < ops_count; i++) {
        f->ops[i].flusher = f;
    }
    export_stats(f, o->stats_labels);
    *ret_flusher = f;
    return ERR_OK;
}

void flusher_free(struct flusher *f)
{
    if (f == NULL) {
        return;
    }
    assert(flusher_is_idle(f));
    list_remove(&f->advance_task.link);
    for (size_t i = 0; i < STATS_COUNT; i++) {
        stats_remove(&f->exported[i]);
    }
    free(f->rounds[0].fds);
    free(f->rounds[1].fds);
    free(f);
}

bool flusher_is_idle(const struct flusher *f)
{
    return list_is_empty(&f->asking) && list_is_empty(&f->rounds[0].clients) &&
           list_is_empty(&f->rounds[1].clients) && f->rounds[0].writes_count == 0 &&
           f->rounds[1].writes_count == 0 && f->flushes_count == 0;
}

bool flusher_is_failed(const struct flusher *f)
{
    return f->is_failed;
}

const struct flusher_stats *flusher_stats(const struct flusher *f)
{
    return &f->stats;
}

static struct round *writing_round(struct flusher *f)
{
    return &f->rounds[f->writing];
}

static struct round *flushing_round(struct flusher *f)
{
    return &f->rounds[!f->writing];
}

static struct flush_client *client_of_round(struct flusher *f, const struct round *r)
{
    size_t index = (size_t)(r - f->rounds);
    struct list *links = r->clients.next - index;
    return container_of(links, struct flush_client, round_links);
}

static void drop_client(struct flush_client *c)
{
    list_remove(&c->ask_link);
    list_remove(&c->round_links[0]);
    list_remove(&c->round_links[1]);
    if (c->ops->on_failed != NULL) {
        c->ops->on_failed(c); /* May be the end of c. */
    }
}

/* Once a write or flush failed, nothing is known about what the disk holds, and the kernel may
 * report success for the same pages next time: there is no way on from here. */
static void fail(struct flusher *f, enum err e)
{
    if (f->is_failed) {
        return;
    }
    f->is_failed = true;
    while (!list_is_empty(&f->asking)) {
        drop_client(container_of(f->asking.next, struct flush_client, ask_link));
    }
    for (size_t i = 0; i < 2; i++) {
        while (!list_is_empty(&f->rounds[i].clients)) {
            drop_client(client_of_round(f, &f->rounds[i]));
        }
    }
    f->on_failed(f->context, e);
}

void flusher_fail(struct flusher *f, enum err e)
{
    assert(e != ERR_OK);
    fail(f, e);
}

void flusher_sync_done(struct flusher *f, const struct io_op *op)
{
    bool is_sync = op->kind == IO_FSYNC || op->kind == IO_FDATASYNC || op->kind == IO_FSYNC_DIR;
    bool is_harmless =
        op->result == ERR_OK || op->result == ERR_NO_SPACE ||
        (op->kind == IO_FSYNC_DIR && (op->result == ERR_NOT_FOUND || op->result == ERR_BUSY));
    if (f != NULL && is_sync && !is_harmless) {
        fail(f, op->result);
    }
}

/* ---- flush --------------------------------------------------------------------------------- */

static void tell_clients(struct flusher *f)
{
    struct round *r = flushing_round(f);
    while (!list_is_empty(&r->clients)) {
        struct flush_client *c = client_of_round(f, r);
        list_pop_front(&r->clients);
        c->ops->on_flushed(c); /* May ask again; may be the end of c. */
    }
}

static void end_flush(struct flusher *f)
{
    assert(f->is_flushing);
    assert(f->flushes_count == 0);
    if (flushing_round(f)->fds_count > 0) {
        histogram_record(&f->stats.flush_us, f->s->now_us - f->flush_start_us);
    }
    tell_clients(f);
    flushing_round(f)->fds_count = 0;
    f->is_flushing = false;
}

static void on_file_flushed(struct io_op *op);

static void flush_next_file(struct flusher *f, struct file_flush *free_op)
{
    struct round *r = flushing_round(f);
    free_op->op =
        (struct io_op){.kind = IO_FDATASYNC, .fd = r->fds[f->fds_next], .on_done = on_file_flushed};
    f->fds_next++;
    f->flushes_count++;
    f->stats.flushes++;
    io_submit(&f->s->io, &free_op->op);
}

static void advance(struct flusher *f);

static void on_file_flushed(struct io_op *op)
{
    struct file_flush *free_op = container_of(op, struct file_flush, op);
    struct flusher *f = free_op->flusher;
    f->flushes_count--;
    if (op->result != ERR_OK) {
        fail(f, op->result);
    }
    if (f->is_failed) {
        return;
    }
    if (f->fds_next < flushing_round(f)->fds_count) {
        flush_next_file(f, free_op);
    } else if (f->flushes_count == 0) {
        end_flush(f);
        advance(f);
    }
}

static int compare_fds(const void *a, const void *b)
{
    const int *fd_a = a;
    const int *fd_b = b;
    return (*fd_a > *fd_b) - (*fd_a < *fd_b);
}

static void drop_double_fds(struct round *r)
{
    qsort(r->fds, r->fds_count, sizeof(r->fds[0]), compare_fds);
    size_t kept = 1;
    for (size_t i = 1; i < r->fds_count; i++) {
        if (r->fds[i] != r->fds[kept - 1]) {
            r->fds[kept++] = r->fds[i];
        }
    }
    r->fds_count = kept;
}

static void begin_flush(struct flusher *f)
{
    f->writing = !f->writing;
    f->is_flushing = true;
    f->stats.rounds++;
    f->fds_next = 0;
    f->flush_start_us = f->s->now_us;
    struct round *r = flushing_round(f);
    if (r->fds_count == 0) {
        end_flush(f); /* Nobody had anything to write after all. */
        return;
    }
    if (r->fds_count > 1) {
        drop_double_fds(r);
    }
    for (size_t i = 0; i < f->ops_count && i < r->fds_count; i++) {
        flush_next_file(f, &f->ops[i]);
    }
}

/* ---- write --------------------------------------------------------------------------------- */

/* Takes in those who ask, and are not in the round already. */
static void begin_writes(struct flusher *f)
{
    struct round *r = writing_round(f);
    struct list again;
    list_init(&again);
    r->writes_count++; /* Until the pass is over: a write could end, and the round with it. */
    struct list *link;
    while ((link = list_pop_front(&f->asking)) != NULL) {
        struct flush_client *c = container_of(link, struct flush_client, ask_link);
        struct list *round_link = &c->round_links[f->writing];
        if (!list_is_empty(round_link)) {
            list_push_back(&again, link);
            continue;
        }
        list_push_back(&r->clients, round_link);
        f->stats.clients++;
        c->ops->write(c);
        if (f->is_failed) {
            break;
        }
    }
    r->writes_count--;
    if (f->is_failed) {
        while (list_pop_front(&again) != NULL) {
        }
        return;
    }
    list_splice_back(&again, &f->asking);
    list_splice_back(&f->asking, &again);
}

/* Does whatever can be done now: flush what is written, write what is asked for. */
static void advance(struct flusher *f)
{
    struct round *r = writing_round(f);
    if (f->is_failed || r->writes_count > 0) {
        return;
    }
    if (!list_is_empty(&r->clients) && !f->is_flushing) {
        begin_flush(f);
    }
    begin_writes(f);
    r = writing_round(f);
    if (r->writes_count == 0 && !list_is_empty(&r->clients) && !f->is_flushing) {
        /* Nobody wrote anything: no completion will come, yet the round has to end. From the loop,
         * so that clients who always ask again do not keep us here. */
        shard_post(f->s, &f->advance_task);
    }
}

static void on_advance(struct task *t)
{
    advance(container_of(t, struct flusher, advance_task));
}

void flusher_ask(struct flusher *f, struct flush_client *c)
{
    if (f->is_failed || !list_is_empty(&c->ask_link)) {
        return;
    }
    list_push_back(&f->asking, &c->ask_link);
    /* Not now: more clients will ask in this turn, and they should share the flush. */
    shard_post(f->s, &f->advance_task);
}

void flusher_withdraw(struct flusher *f, struct flush_client *c)
{
    (void)f;
    list_remove(&c->ask_link);
}

static enum err remember_fd(struct flusher *f, struct round *r, int fd)
{
    if (r->fds_count > 0 && (f->is_shared || r->fds[r->fds_count - 1] == fd)) {
        return ERR_OK;
    }
    if (r->fds_count == r->fds_capacity) {
        size_t capacity = r->fds_capacity == 0 ? FDS_CAPACITY_MIN : r->fds_capacity * 2;
        int *fds = realloc(r->fds, capacity * sizeof(fds[0]));
        if (fds == NULL) {
            return ERR_BUSY;
        }
        r->fds = fds;
        r->fds_capacity = capacity;
    }
    r->fds[r->fds_count++] = f->quiet_fd > 0 ? f->quiet_fd : fd;
    return ERR_OK;
}

void flusher_write_started(struct flusher *f, int fd)
{
    struct round *r = writing_round(f);
    r->writes_count++;
    enum err e = remember_fd(f, r, fd);
    if (e != ERR_OK) {
        fail(f, e); /* A file would miss its flush. */
    }
}

void flusher_write_done(struct flusher *f, enum err result)
{
    struct round *r = writing_round(f);
    assert(r->writes_count > 0);
    r->writes_count--;
    if (result != ERR_OK) {
        fail(f, result);
    } else if (r->writes_count == 0) {
        advance(f);
    }
}

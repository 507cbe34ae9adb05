#include "core/io_sim.h"

#include <errno.h>
#include <stdlib.h>

#include "core/assert.h"
#include "core/ids.h"

struct sim_op {
    struct list link;
    struct timer due;
    struct io_sim *backend;
    struct io_op *op;
    struct disk_sim_op *disk_op; /* NULL: a socket op or a cancel. */
    int64_t result;              /* Of an op without disk_op. */
    bool fails;
};

static struct io_sim *sim_of(struct io_backend *b)
{
    return container_of(b, struct io_sim, backend);
}

static void on_due(struct timer *t)
{
    struct sim_op *so = container_of(t, struct sim_op, due);
    list_push_back(&so->backend->ready, &so->link);
}

static struct sim_op *sim_op_new(struct io_sim *b, struct io_op *op)
{
    struct list *link = list_pop_front(&b->spare);
    struct sim_op *so = link != NULL ? container_of(link, struct sim_op, link) : NULL;
    if (so == NULL) {
        so = malloc(sizeof(*so));
        assert(so != NULL);
    }
    *so = (struct sim_op){.backend = b, .op = op};
    list_init(&so->link);
    timer_init(&so->due, on_due);
    op->backend_data = so;
    return so;
}

static bool draw(struct io_sim *b, uint32_t one_in)
{
    return one_in != 0 && rand_one_in(&b->rand, one_in);
}

static bool is_disk_op(enum io_kind kind)
{
    switch (kind) {
    case IO_READ:
    case IO_WRITE:
    case IO_FSYNC:
    case IO_FDATASYNC:
    case IO_ALLOCATE:
    case IO_OPEN:
    case IO_CLOSE:
    case IO_RENAME:
    case IO_UNLINK:
    case IO_MKDIR:
    case IO_SYMLINK:
    case IO_FSYNC_DIR:
        return true;
    case IO_ACCEPT:
    case IO_CONNECT:
    case IO_RECV:
    case IO_SEND:
    case IO_CANCEL:
    case IO_KIND_COUNT:
        return false;
    }
    return false;
}

static uint64_t draw_latency_us(struct io_sim *b, enum io_kind kind)
{
    const struct io_sim_options *o = &b->options;
    bool is_sync = kind == IO_FSYNC || kind == IO_FDATASYNC || kind == IO_FSYNC_DIR;
    bool is_transfer = kind == IO_READ || kind == IO_WRITE;
    const struct io_sim_latency *l = is_sync ? &o->sync : is_transfer ? &o->transfer : &o->other;
    uint64_t us = l->min_us + rand_below(&b->rand, (uint64_t)l->max_us - l->min_us + 1);
    if (draw(b, o->slow_one_in) || (kind == IO_READ && draw(b, o->slow_read_one_in))) {
        b->stats.slow++;
        us += o->slow_us;
    }
    return us;
}

static bool draw_failure(struct io_sim *b, enum io_kind kind)
{
    const struct io_sim_options *o = &b->options;
    if (kind == IO_READ) {
        return draw(b, o->read_fail_one_in);
    }
    if (kind == IO_WRITE) {
        return draw(b, o->write_fail_one_in);
    }
    if (kind == IO_FSYNC || kind == IO_FDATASYNC || kind == IO_FSYNC_DIR) {
        return draw(b, o->sync_fail_one_in);
    }
    return false;
}

/* A read in flight may be given up; a device does not take back anything else it was told. */
static void start_cancel(struct io_sim *b, struct sim_op *so)
{
    struct sim_op *target = so->op->target->backend_data;
    so->result = -ENOENT;
    bool is_read = so->op->target->kind == IO_READ && target != NULL && target->disk_op != NULL;
    if (is_read && rand_one_in(&b->rand, 2)) {
        disk_sim_drop(target->disk_op);
        target->disk_op = NULL;
        target->result = -ECANCELED;
        so->result = 0;
    }
}

static void sim_start(struct io_backend *backend, struct io_op *op)
{
    struct io_sim *b = sim_of(backend);
    struct sim_op *so = sim_op_new(b, op);
    if (op->kind == IO_CANCEL) {
        start_cancel(b, so);
    } else if (is_disk_op(op->kind)) {
        so->disk_op = disk_sim_start(b->options.disk, op);
        so->fails = draw_failure(b, op->kind);
    } else {
        so->result = -ENOSYS;
    }
    uint64_t now_us = clock_now_us(b->options.clock);
    timer_arm(&b->due, &so->due, now_us + draw_latency_us(b, op->kind));
}

static void sim_flush(struct io_backend *backend)
{
    (void)backend; /* start has given everything to the disk. */
}

/* How much of a transfer happens at once. Direct transfers stay aligned, or nobody could go on. */
static uint64_t draw_size_max(struct io_sim *b, const struct io_op *op)
{
    bool is_transfer = op->kind == IO_READ || op->kind == IO_WRITE;
    uint64_t left = op->size - op->done_size;
    if (!is_transfer || left <= IO_ALIGN || !draw(b, b->options.short_one_in)) {
        return UINT64_MAX;
    }
    b->stats.shortened++;
    return IO_ALIGN * (1 + rand_below(&b->rand, (left - 1) / IO_ALIGN));
}

static int64_t come_to_result(struct io_sim *b, struct sim_op *so)
{
    if (so->disk_op == NULL) {
        return so->result;
    }
    const bool is_broken = disk_sim_op_is_broken(so->disk_op);
    if (so->fails || is_broken) {
        b->stats.broken += is_broken;
        b->stats.failed += !is_broken;
        disk_sim_fail(so->disk_op, &b->rand);
        return -EIO;
    }
    bool is_transfer = so->op->kind == IO_READ || so->op->kind == IO_WRITE;
    if (is_transfer && b->options.on_transfer != NULL) {
        b->options.on_transfer(b->options.context, so->op, so->disk_op);
    }
    return disk_sim_finish(so->disk_op, draw_size_max(b, so->op));
}

static void trace(struct io_sim *b, const struct io_op *op, uint64_t now_us)
{
    bool is_transfer = op->kind == IO_READ || op->kind == IO_WRITE;
    const uint64_t event[] = {
        now_us,
        (uint64_t)op->kind,
        (uint64_t)op->backend_result,
        is_transfer ? op->pos : 0, /* Not set by the owners of other ops. */
        is_transfer ? op->size : 0,
    };
    b->trace = hash_bytes(b->trace, event, sizeof(event));
}

static size_t sim_reap(struct io_backend *backend, size_t budget)
{
    struct io_sim *b = sim_of(backend);
    uint64_t now_us = clock_now_us(b->options.clock);
    (void)timers_run(&b->due, now_us, SIZE_MAX);

    size_t count = 0;
    while (count < budget) {
        struct list *link = list_pop_front(&b->ready);
        if (link == NULL) {
            break;
        }
        struct sim_op *so = container_of(link, struct sim_op, link);
        struct io_op *op = so->op;
        op->backend_result = come_to_result(b, so);
        op->backend_data = NULL;
        trace(b, op, now_us);
        list_push_back(&b->spare, &so->link);
        count++;
        io_complete(op); /* May start the next part of a short transfer. */
    }
    return count;
}

static void sim_wait(struct io_backend *backend, uint64_t deadline_us)
{
    struct io_sim *b = sim_of(backend);
    assert(b->options.on_wait != NULL && "only start-up code may block in a simulation");
    uint64_t next_us = io_sim_next_us(b);
    b->options.on_wait(b->options.context, next_us < deadline_us ? next_us : deadline_us);
}

static void sim_wake(struct io_backend *self, struct io_backend *other)
{
    (void)self; /* Nobody sleeps: the simulator turns every shard. */
    (void)other;
}

static void sim_recv_buffer_return(struct io_backend *backend, void *buf)
{
    (void)backend;
    (void)buf;
    assert(false && "there are no sockets here");
}

static enum err sim_list_dir(struct io_backend *backend,
                             const char *path,
                             void *context,
                             void (*on_name)(void *context, const char *name))
{
    return disk_sim_list_dir(sim_of(backend)->options.disk, path, context, on_name);
}

static enum err
sim_fs_info(struct io_backend *backend, const char *path, struct io_fs_info *ret_info)
{
    disk_sim_fs_info(sim_of(backend)->options.disk, path, ret_info);
    return ERR_OK;
}

static enum err sim_lock(struct io_backend *backend, const char *path, int *ret_handle)
{
    return disk_sim_lock(sim_of(backend)->options.disk, path, ret_handle);
}

static void sim_unlock(struct io_backend *backend, int handle)
{
    disk_sim_unlock(sim_of(backend)->options.disk, handle);
}

static enum err sim_file_size(struct io_backend *backend, const char *path, uint64_t *ret_size)
{
    return disk_sim_file_size(sim_of(backend)->options.disk, path, ret_size);
}

static enum err sim_available(struct io_backend *backend, const char *path, uint64_t *ret_size)
{
    struct io_fs_info info;
    enum err e = sim_fs_info(backend, path, &info);
    if (e == ERR_OK) {
        *ret_size = info.available;
    }
    return e;
}

static const struct io_backend_ops sim_ops = {
    .start = sim_start,
    .flush = sim_flush,
    .reap = sim_reap,
    .wait = sim_wait,
    .wake = sim_wake,
    .recv_buffer_return = sim_recv_buffer_return,
    .list_dir = sim_list_dir,
    .fs_info = sim_fs_info,
    .lock = sim_lock,
    .unlock = sim_unlock,
    .file_size = sim_file_size,
    .available = sim_available,
};

void io_sim_init(struct io_sim *b, const struct io_sim_options *o)
{
    assert(o->disk != NULL);
    assert(o->clock != NULL);
    assert_cmp(o->transfer.min_us, <=, o->transfer.max_us);
    assert_cmp(o->sync.min_us, <=, o->sync.max_us);
    assert_cmp(o->other.min_us, <=, o->other.max_us);
    *b = (struct io_sim){.backend = {.ops = &sim_ops}, .options = *o};
    rand_init_seed(&b->rand, o->rand_seed);
    timers_init(&b->due);
    list_init(&b->ready);
    list_init(&b->spare);
}

static void free_ops(struct list *ops)
{
    struct list *link;
    while ((link = list_pop_front(ops)) != NULL) {
        free(container_of(link, struct sim_op, link));
    }
}

void io_sim_done(struct io_sim *b)
{
    assert(list_is_empty(&b->ready));
    assert_cmp(timers_next_deadline_us(&b->due), ==, UINT64_MAX);
    free_ops(&b->spare);
    timers_done(&b->due);
}

void io_sim_abandon(struct io_sim *b)
{
    (void)timers_run(&b->due, UINT64_MAX, SIZE_MAX);
    free_ops(&b->ready);
    io_sim_done(b);
}

uint64_t io_sim_next_us(const struct io_sim *b)
{
    return list_is_empty(&b->ready) ? timers_next_deadline_us(&b->due) : 0;
}

#include "core/io_fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

/* An op that a rule acts on. */
struct fault_op {
    struct list link;
    struct io_fault *backend;
    struct io_op *op;
    struct io_op proxy; /* IO_FAULT_SHORT: what the inner backend moves instead. */
    struct iovec iov[IO_IOV_MAX];
    int code;
    uint64_t start_us;
};

struct fault_file {
    struct list link;
    int fd;
    char *path;
};

/* An open on its way down, to learn which descriptor a path got. */
struct fault_open {
    struct io_fault *backend;
    struct io_op *op;
    struct io_op proxy;
};

static struct io_fault *fault_of(struct io_backend *b)
{
    return container_of(b, struct io_fault, backend);
}

static const char *path_of(const struct io_fault *b, const struct io_op *op)
{
    if (op->kind == IO_OPEN || op->kind == IO_RENAME || op->kind == IO_UNLINK ||
        op->kind == IO_MKDIR || op->kind == IO_FSYNC_DIR) {
        return op->path;
    }
    if (op->kind == IO_SYMLINK) {
        return op->new_path;
    }
    list_for_each (node, &b->opened) {
        const struct fault_file *f = container_of(node, struct fault_file, link);
        if (f->fd == op->fd) {
            return f->path;
        }
    }
    return NULL;
}

static bool
is_match(const struct io_fault *b, const struct io_fault_rule *r, const struct io_op *op)
{
    if (r->kind != IO_FAULT_ANY && r->kind != (int)op->kind) {
        return false;
    }
    if (r->fd != IO_FAULT_ANY && r->fd != op->fd) {
        return false;
    }
    if (r->path_part == NULL) {
        return true;
    }
    const char *path = path_of(b, op);
    return path != NULL && strstr(path, r->path_part) != NULL;
}

/* Every rule counts; the first one that is due acts. */
static const struct io_fault_rule *find_rule(struct io_fault *b, const struct io_op *op)
{
    const struct io_fault_rule *found = NULL;
    for (uint32_t i = 0; i < b->rules_count; i++) {
        struct io_fault_rule *r = &b->rules[i];
        if (!is_match(b, r, op)) {
            continue;
        }
        r->seen++;
        uint64_t count = r->count == 0 ? 1 : r->count;
        if (found == NULL && r->seen >= r->at && r->seen - r->at < count) {
            found = r;
        }
    }
    return found;
}

static void remember_file(struct io_fault *b, int fd, const char *path)
{
    struct fault_file *f = malloc(sizeof(*f));
    assert(f != NULL);
    *f = (struct fault_file){.fd = fd, .path = strdup(path)};
    assert(f->path != NULL);
    list_push_front(&b->opened, &f->link);
}

static void forget_file(struct io_fault *b, int fd)
{
    list_for_each_safe (node, &b->opened) {
        struct fault_file *f = container_of(node, struct fault_file, link);
        if (f->fd == fd) {
            list_remove(&f->link);
            free(f->path);
            free(f);
        }
    }
}

static void on_open_done(struct io_op *proxy)
{
    struct fault_open *fo = container_of(proxy, struct fault_open, proxy);
    struct io_op *op = fo->op;
    op->backend_result = proxy->backend_result;
    if (proxy->result == ERR_OK) {
        remember_file(fo->backend, proxy->result_fd, op->path);
    }
    free(fo);
    io_complete(op);
}

static void pass_down(struct io_fault *b, struct io_op *op)
{
    if (op->kind == IO_CLOSE) {
        forget_file(b, op->fd);
    }
    if (op->kind != IO_OPEN) {
        b->inner->ops->start(b->inner, op);
        return;
    }
    struct fault_open *fo = malloc(sizeof(*fo));
    assert(fo != NULL);
    *fo = (struct fault_open){.backend = b, .op = op};
    fo->proxy = (struct io_op){
        .kind = IO_OPEN, .path = op->path, .open_flags = op->open_flags, .on_done = on_open_done};
    io_submit(&b->front, &fo->proxy);
}

static void on_short_done(struct io_op *proxy)
{
    struct fault_op *fo = container_of(proxy, struct fault_op, proxy);
    struct io_op *op = fo->op;
    /* What came before an error counts; the next attempt meets the error by itself. */
    if (proxy->done_size > 0 || proxy->result == ERR_EOF) {
        op->backend_result = (int64_t)proxy->done_size;
    } else {
        op->backend_result = proxy->backend_result;
    }
    free(fo);
    io_complete(op);
}

static void start_short(struct fault_op *fo, uint64_t size_max)
{
    struct io_op *op = fo->op;
    assert(size_max > 0);
    uint32_t count = 0;
    uint64_t size = 0;
    while (count < op->rest_count && size < size_max) {
        struct iovec piece = op->rest[count];
        if (piece.iov_len > size_max - size) {
            piece.iov_len = (size_t)(size_max - size);
        }
        fo->iov[count++] = piece;
        size += piece.iov_len;
    }
    fo->proxy = (struct io_op){
        .kind = op->kind,
        .fd = op->fd,
        .flags = op->flags,
        .iov = fo->iov,
        .iov_count = count,
        .size = size,
        .pos = op->pos + op->done_size,
        .on_done = on_short_done,
    };
    io_submit(&fo->backend->front, &fo->proxy);
}

static void delay(struct io_fault *b, struct fault_op *fo, uint64_t delay_us)
{
    assert(b->clock != NULL);
    fo->start_us = clock_now_us(b->clock) + delay_us;
    struct list *place = b->delayed.prev;
    while (place != &b->delayed &&
           container_of(place, struct fault_op, link)->start_us > fo->start_us) {
        place = place->prev;
    }
    list_insert(place, &fo->link);
}

static void act(struct io_fault *b, const struct io_fault_rule *r, struct io_op *op)
{
    struct fault_op *fo = malloc(sizeof(*fo));
    assert(fo != NULL);
    *fo = (struct fault_op){.backend = b, .op = op, .code = r->code};
    list_init(&fo->link);
    b->injected++;
    switch (r->action) {
    case IO_FAULT_FAIL:
        assert(r->code > 0);
        list_push_back(&b->failed, &fo->link);
        break;
    case IO_FAULT_SHORT:
        start_short(fo, r->size);
        break;
    case IO_FAULT_DELAY:
        delay(b, fo, r->delay_us);
        break;
    case IO_FAULT_HANG:
        list_push_back(&b->hung, &fo->link);
        break;
    }
}

/* Takes op off a list of those that did not start. NULL if it is not there. */
static struct fault_op *take_from(struct list *waiting, const struct io_op *op)
{
    list_for_each (node, waiting) {
        struct fault_op *fo = container_of(node, struct fault_op, link);
        if (fo->op == op) {
            list_remove(&fo->link);
            return fo;
        }
    }
    return NULL;
}

/* True if the target was still here; both it and the cancel then end with the next reap. */
static bool cancel_waiting(struct io_fault *b, struct io_op *op)
{
    struct fault_op *target = take_from(&b->hung, op->target);
    if (target == NULL) {
        target = take_from(&b->delayed, op->target);
    }
    if (target == NULL) {
        return false;
    }
    struct fault_op *fo = malloc(sizeof(*fo));
    assert(fo != NULL);
    *fo = (struct fault_op){.backend = b, .op = op};
    target->code = ECANCELED;
    list_push_back(&b->failed, &target->link);
    list_push_back(&b->failed, &fo->link);
    return true;
}

static void fault_start(struct io_backend *backend, struct io_op *op)
{
    struct io_fault *b = fault_of(backend);
    if (op->kind == IO_CANCEL && cancel_waiting(b, op)) {
        return;
    }
    const struct io_fault_rule *r = find_rule(b, op);
    if (r == NULL) {
        pass_down(b, op);
    } else {
        act(b, r, op);
    }
}

static void fault_flush(struct io_backend *backend)
{
    struct io_fault *b = fault_of(backend);
    b->inner->ops->flush(b->inner);
}

static void start_delayed(struct io_fault *b)
{
    while (!list_is_empty(&b->delayed)) {
        struct fault_op *fo = container_of(b->delayed.next, struct fault_op, link);
        if (fo->start_us > clock_now_us(b->clock)) {
            break;
        }
        list_remove(&fo->link);
        pass_down(b, fo->op);
        free(fo);
    }
}

static size_t fault_reap(struct io_backend *backend, size_t budget)
{
    struct io_fault *b = fault_of(backend);
    start_delayed(b);
    size_t count = 0;
    struct list *link;
    while (count < budget && (link = list_pop_front(&b->failed)) != NULL) {
        struct fault_op *fo = container_of(link, struct fault_op, link);
        struct io_op *op = fo->op;
        op->backend_result = -fo->code;
        free(fo);
        count++;
        io_complete(op);
    }
    /* Ops that passed unchanged complete at their own io inside of this call. */
    return count + io_run_completions(&b->front, budget - count);
}

static void fault_wait(struct io_backend *backend, uint64_t deadline_us)
{
    struct io_fault *b = fault_of(backend);
    uint64_t next_us = io_fault_next_us(b);
    b->inner->ops->wait(b->inner, next_us < deadline_us ? next_us : deadline_us);
}

static void fault_wake(struct io_backend *self, struct io_backend *other)
{
    struct io_fault *b = fault_of(self);
    b->inner->ops->wake(b->inner, fault_of(other)->inner);
}

static void fault_recv_buffer_return(struct io_backend *backend, void *buf)
{
    struct io_fault *b = fault_of(backend);
    b->inner->ops->recv_buffer_return(b->inner, buf);
}

static void fault_register_memory(struct io_backend *backend, void *base, size_t size)
{
    struct io_fault *b = fault_of(backend);
    if (b->inner->ops->register_memory != NULL) {
        b->inner->ops->register_memory(b->inner, base, size);
    }
}

static enum err fault_list_dir(struct io_backend *backend,
                               const char *path,
                               void *context,
                               void (*on_name)(void *context, const char *name))
{
    struct io_fault *b = fault_of(backend);
    return b->inner->ops->list_dir(b->inner, path, context, on_name);
}

static enum err
fault_fs_info(struct io_backend *backend, const char *path, struct io_fs_info *ret_info)
{
    struct io_fault *b = fault_of(backend);
    return b->inner->ops->fs_info(b->inner, path, ret_info);
}

static enum err fault_lock(struct io_backend *backend, const char *path, int *ret_handle)
{
    struct io_fault *b = fault_of(backend);
    return b->inner->ops->lock(b->inner, path, ret_handle);
}

static void fault_unlock(struct io_backend *backend, int handle)
{
    struct io_fault *b = fault_of(backend);
    b->inner->ops->unlock(b->inner, handle);
}

static enum err fault_file_size(struct io_backend *backend, const char *path, uint64_t *ret_size)
{
    struct io_fault *b = fault_of(backend);
    return b->inner->ops->file_size(b->inner, path, ret_size);
}

static enum err fault_available(struct io_backend *backend, const char *path, uint64_t *ret_size)
{
    struct io_fault *b = fault_of(backend);
    return b->inner->ops->available(b->inner, path, ret_size);
}

static const struct io_backend_ops fault_ops = {
    .start = fault_start,
    .flush = fault_flush,
    .reap = fault_reap,
    .wait = fault_wait,
    .wake = fault_wake,
    .recv_buffer_return = fault_recv_buffer_return,
    .register_memory = fault_register_memory,
    .list_dir = fault_list_dir,
    .fs_info = fault_fs_info,
    .lock = fault_lock,
    .unlock = fault_unlock,
    .file_size = fault_file_size,
    .available = fault_available,
};

void io_fault_init(struct io_fault *b, struct io_backend *inner, struct clock *clock)
{
    *b = (struct io_fault){.backend = {.ops = &fault_ops}, .inner = inner, .clock = clock};
    io_init(&b->front, inner);
    list_init(&b->failed);
    list_init(&b->delayed);
    list_init(&b->hung);
    list_init(&b->opened);
}

void io_fault_done(struct io_fault *b)
{
    assert(list_is_empty(&b->failed));
    assert(list_is_empty(&b->delayed));
    assert(list_is_empty(&b->hung));
    while (!list_is_empty(&b->opened)) {
        forget_file(b, container_of(b->opened.next, struct fault_file, link)->fd);
    }
    io_done(&b->front);
}

void io_fault_add(struct io_fault *b, const struct io_fault_rule *rule)
{
    assert_cmp(b->rules_count, <, IO_FAULT_RULES_MAX);
    assert(rule->at > 0);
    struct io_fault_rule *r = &b->rules[b->rules_count++];
    *r = *rule;
    r->seen = 0;
}

void io_fault_clear(struct io_fault *b)
{
    b->rules_count = 0;
}

uint32_t io_fault_seen(const struct io_fault *b, uint32_t index)
{
    assert_cmp(index, <, b->rules_count);
    return b->rules[index].seen;
}

void io_fault_release(struct io_fault *b)
{
    struct list *link;
    while ((link = list_pop_front(&b->hung)) != NULL) {
        struct fault_op *fo = container_of(link, struct fault_op, link);
        pass_down(b, fo->op);
        free(fo);
    }
}

uint64_t io_fault_next_us(const struct io_fault *b)
{
    if (!list_is_empty(&b->failed)) {
        return 0;
    }
    if (list_is_empty(&b->delayed)) {
        return UINT64_MAX;
    }
    return container_of(b->delayed.next, struct fault_op, link)->start_us;
}

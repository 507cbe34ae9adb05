/* The simulated disk: ops from start to finish, crashes, and the doors for tests. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/disk_sim_priv.h"

enum {
    FD_FIRST = 3,
    PATH_SIZE_MAX = 1024,
};

struct disk_sim_op {
    struct list link; /* disk_sim.in_flight */
    struct disk_sim *disk;
    const struct io_op *op; /* Its rest is what there is to move. Not to be touched after a crash:
                               its memory may be gone. */
    enum io_kind kind;
    int error;               /* -errno found at start, or 0. */
    struct node *node;       /* Of fd, or of the directory to sync; referenced. May be NULL. */
    struct content *content; /* A write holds its blocks in flight. */
    bool is_direct;
    uint64_t start_sequence;
    uint64_t start_size; /* Of the file, for a sync. */
    uint64_t pos;
    uint64_t size;
    uint8_t *bytes;                /* A write's data. */
    struct content *stray_content; /* Where it goes instead; NULL = where it was meant for. */
    uint64_t stray_pos;
    int fd;
    uint32_t open_flags;
    char *path;
    char *new_path;
};

void *disk_sim_alloc(size_t size)
{
    void *p = calloc(1, size);
    assert(p != NULL);
    return p;
}

void *disk_sim_grow(void *array, size_t count, size_t count_new, size_t element_size)
{
    uint8_t *p = realloc(array, count_new * element_size);
    assert(p != NULL);
    memset(p + count * element_size, 0, (count_new - count) * element_size);
    return p;
}

uint8_t *disk_sim_block_alloc(struct disk_sim *d)
{
    uint8_t *data = d->spare;
    if (data != NULL) {
        memcpy(&d->spare, data, sizeof(d->spare));
        return data;
    }
    data = aligned_alloc(BLOCK_SIZE, BLOCK_SIZE);
    assert(data != NULL);
    return data;
}

void disk_sim_block_free(struct disk_sim *d, uint8_t *data)
{
    if (data != NULL) {
        memcpy(data, &d->spare, sizeof(d->spare));
        d->spare = data;
    }
}

struct disk_sim *disk_sim_new(const struct disk_sim_options *o)
{
    struct disk_sim *d = disk_sim_alloc(sizeof(*d));
    d->options = *o;
    list_init(&d->nodes);
    list_init(&d->garbage);
    list_init(&d->unsynced);
    list_init(&d->name_changes);
    list_init(&d->in_flight);
    volumes_init(d);
    d->root = node_new(d, NODE_DIR);
    d->root->volume = &d->volumes[0];
    node_ref(d->root);
    return d;
}

static void close_all(struct disk_sim *d)
{
    for (size_t i = 0; i < d->files_count; i++) {
        if (d->files[i].node != NULL) {
            node_unref(d, d->files[i].node);
            d->files[i].node = NULL;
        }
    }
    list_for_each (node, &d->nodes) {
        container_of(node, struct node, link)->is_locked = false;
    }
    disk_sim_collect(d);
}

void disk_sim_free(struct disk_sim *d)
{
    if (d == NULL) {
        return;
    }
    assert(list_is_empty(&d->in_flight));
    close_all(d);
    names_free(d);
    assert(list_is_empty(&d->nodes));
    assert(disk_sim_used_size(d) == 0);
    free(d->files);
    ghosts_free(d);
    while (d->spare != NULL) {
        uint8_t *data = d->spare;
        memcpy(&d->spare, data, sizeof(d->spare));
        free(data);
    }
    free(d);
}

static struct open_file *file_of(struct disk_sim *d, int fd)
{
    if (fd < FD_FIRST || (size_t)(fd - FD_FIRST) >= d->files_count) {
        return NULL;
    }
    struct open_file *f = &d->files[fd - FD_FIRST];
    return f->node != NULL ? f : NULL;
}

/* The lowest free number, as the kernel has it: a stale descriptor soon means another file. */
static int file_add(struct disk_sim *d, struct node *n, uint32_t open_flags)
{
    size_t i = 0;
    while (i < d->files_count && d->files[i].node != NULL) {
        i++;
    }
    if (i == d->files_count) {
        size_t count = d->files_count == 0 ? 16 : d->files_count * 2;
        d->files = disk_sim_grow(d->files, d->files_count, count, sizeof(*d->files));
        d->files_count = count;
    }
    d->files[i] = (struct open_file){.node = n, .open_flags = open_flags};
    node_ref(n);
    return (int)i + FD_FIRST;
}

static bool is_aligned(const struct disk_sim_op *o)
{
    const struct io_op *op = o->op;
    uint64_t sum = o->pos | o->size;
    for (uint32_t i = 0; i < op->rest_count; i++) {
        sum |= (uintptr_t)op->rest[i].iov_base | op->rest[i].iov_len;
    }
    return sum % IO_ALIGN == 0;
}

static void gather(const struct io_op *op, uint8_t *dst)
{
    for (uint32_t i = 0; i < op->rest_count; i++) {
        memcpy(dst, op->rest[i].iov_base, op->rest[i].iov_len);
        dst += op->rest[i].iov_len;
    }
}

static void scatter(const struct io_op *op, const struct content *c, uint64_t pos, uint64_t size)
{
    for (uint32_t i = 0; i < op->rest_count && size > 0; i++) {
        size_t n = op->rest[i].iov_len < size ? op->rest[i].iov_len : (size_t)size;
        content_read(c, pos, op->rest[i].iov_base, n);
        pos += n;
        size -= n;
    }
    assert(size == 0);
}

static bool is_same(const struct io_op *op, const uint8_t *bytes)
{
    for (uint32_t i = 0; i < op->rest_count; i++) {
        if (memcmp(bytes, op->rest[i].iov_base, op->rest[i].iov_len) != 0) {
            return false;
        }
        bytes += op->rest[i].iov_len;
    }
    return true;
}

/* Counts the write's blocks as in flight (by 1) or not any more (by -1). */
static void mark_in_flight(struct disk_sim_op *o, int by)
{
    struct content *c = o->content;
    c->in_flight_count += (uint32_t)by;
    if (!o->is_direct) {
        return;
    }
    for (uint64_t i = o->pos / BLOCK_SIZE; i * BLOCK_SIZE < o->pos + o->size; i++) {
        if (by > 0 && c->blocks[i].in_flight_count > 0) {
            panic("disk_sim: two writes in flight on one block: block=%llu pos=%llu size=%llu",
                  (unsigned long long)i,
                  (unsigned long long)o->pos,
                  (unsigned long long)o->size);
        }
        c->blocks[i].in_flight_count += (uint32_t)by;
    }
}

static int start_transfer(struct disk_sim_op *o, const struct open_file *f)
{
    bool is_write = o->kind == IO_WRITE;
    o->is_direct = (f->open_flags & IO_OPEN_DIRECT) != 0;
    if ((f->open_flags & (is_write ? IO_OPEN_WRITE : IO_OPEN_READ)) == 0) {
        return -EBADF;
    }
    if (o->node->kind != NODE_FILE) {
        return -EISDIR;
    }
    if (o->size == 0 || (o->is_direct && !is_aligned(o))) {
        return -EINVAL;
    }
    if (is_write) {
        o->content = o->node->now;
        content_reserve(o->content, o->pos, o->size);
        mark_in_flight(o, 1);
        o->bytes = malloc((size_t)o->size);
        assert(o->bytes != NULL);
        gather(o->op, o->bytes);
    }
    return 0;
}

static int start_on_file(struct disk_sim_op *o)
{
    struct open_file *f = file_of(o->disk, o->fd);
    if (f == NULL) {
        return -EBADF;
    }
    o->node = f->node;
    node_ref(o->node);
    if (o->kind == IO_READ || o->kind == IO_WRITE) {
        return start_transfer(o, f);
    }
    o->start_size = o->node->kind == NODE_FILE ? o->node->now->size : 0;
    return 0;
}

static int start_sync_dir(struct disk_sim_op *o)
{
    struct node *n;
    int e = names_resolve(o->disk, o->path, &n);
    if (e != 0) {
        return e;
    }
    if (n->kind != NODE_DIR) {
        return -ENOTDIR;
    }
    o->node = n;
    node_ref(n);
    return 0;
}

static char *copy_string(const char *text)
{
    if (text == NULL) {
        return NULL;
    }
    char *copy = strdup(text);
    assert(copy != NULL);
    return copy;
}

struct disk_sim_op *disk_sim_start(struct disk_sim *d, const struct io_op *op)
{
    struct disk_sim_op *o = disk_sim_alloc(sizeof(*o));
    o->disk = d;
    o->op = op;
    o->kind = op->kind;
    o->fd = op->fd;
    o->open_flags = op->open_flags;
    o->pos = op->pos + op->done_size;
    if (op->kind == IO_ALLOCATE) {
        o->size = op->size;
    }
    for (uint32_t i = 0; i < op->rest_count; i++) {
        o->size += op->rest[i].iov_len;
    }
    o->path = copy_string(op->path);
    o->new_path = copy_string(op->new_path);
    o->start_sequence = d->sequence;
    list_push_back(&d->in_flight, &o->link);
    d->in_flight_count++;
    if (o->kind == IO_READ || o->kind == IO_WRITE || o->kind == IO_FSYNC ||
        o->kind == IO_FDATASYNC || o->kind == IO_ALLOCATE) {
        o->error = start_on_file(o);
    } else if (o->kind == IO_FSYNC_DIR) {
        o->error = start_sync_dir(o);
    }
    return o;
}

void disk_sim_drop(struct disk_sim_op *o)
{
    if (o->content != NULL) {
        mark_in_flight(o, -1);
    }
    if (o->node != NULL) {
        node_unref(o->disk, o->node);
    }
    list_remove(&o->link);
    o->disk->in_flight_count--;
    disk_sim_collect(o->disk);
    free(o->bytes);
    free(o->path);
    free(o->new_path);
    free(o);
}

static int64_t finish_read(struct disk_sim_op *o, uint64_t size_max)
{
    const struct content *c = o->node->now;
    if (o->pos >= c->size) {
        return 0;
    }
    uint64_t size = o->size < size_max ? o->size : size_max;
    size = c->size - o->pos < size ? c->size - o->pos : size;
    if (o->stray_content != NULL) {
        scatter(o->op, o->stray_content, o->stray_pos, size);
    } else {
        scatter(o->op, c, o->pos, size);
    }
    return (int64_t)size;
}

/* The bytes go astray, and what stood at their place is written there once more: so the blocks are
 * allocated. */
static void write_astray(struct disk_sim_op *o)
{
    (void)content_write(
        o->stray_content,
        &(struct write_what){
            .bytes = o->bytes, .pos = o->stray_pos, .size = o->size, .is_direct = o->is_direct});
    memset(o->bytes, 0, (size_t)o->size);
    uint64_t end = o->content->size;
    if (o->pos < end) {
        uint64_t size = end - o->pos < o->size ? end - o->pos : o->size;
        content_read(o->content, o->pos, o->bytes, (size_t)size);
    }
}

static int64_t write_masked(struct disk_sim_op *o, uint64_t size, const uint8_t *mask)
{
    return content_write(o->content,
                         &(struct write_what){
                             .bytes = o->bytes,
                             .pos = o->pos,
                             .size = size,
                             .is_direct = o->is_direct,
                             .mask = mask,
                         });
}

static int64_t finish_write(struct disk_sim_op *o, uint64_t size_max)
{
    if (!is_same(o->op, o->bytes)) {
        panic("disk_sim: a buffer changed while its write was in flight: pos=%llu size=%llu",
              (unsigned long long)o->pos,
              (unsigned long long)o->size);
    }
    if (o->stray_content != NULL) {
        write_astray(o);
        size_max = o->size;
    }
    return write_masked(o, o->size < size_max ? o->size : size_max, NULL);
}

/* Only the size counts here: room that was promised may still be missing when it is written, which
 * real file systems allow themselves too. */
static int64_t finish_allocate(struct disk_sim_op *o)
{
    if (o->node->kind != NODE_FILE || o->size == 0) {
        return -EINVAL;
    }
    struct content *c = o->node->now;
    content_reserve(c, o->pos, o->size);
    if (o->pos + o->size > c->size) {
        c->size = o->pos + o->size;
    }
    return 0;
}

static int64_t finish_sync(struct disk_sim_op *o)
{
    struct disk_sim *d = o->disk;
    if (o->node->kind == NODE_DIR) {
        names_sync(d, o->node, o->start_sequence);
        return 0;
    }
    node_sync(o->node, o->start_sequence, o->start_size);
    if (o->kind == IO_FDATASYNC && d->options.is_flush_shared) {
        disk_sim_flush_device(d, o->node->volume, o->start_sequence);
    }
    return 0;
}

static int64_t open_existing(struct disk_sim *d, struct node *n, uint32_t flags)
{
    const uint32_t exclusive = IO_OPEN_CREATE | IO_OPEN_EXCLUSIVE;
    if ((flags & exclusive) == exclusive) {
        return -EEXIST;
    }
    if (n->kind == NODE_LINK) {
        return -ELOOP;
    }
    if (n->kind == NODE_DIR && (flags & IO_OPEN_WRITE) != 0) {
        return -EISDIR;
    }
    if (n->kind != NODE_DIR && (flags & IO_OPEN_DIRECTORY) != 0) {
        return -ENOTDIR;
    }
    if ((flags & IO_OPEN_TRUNCATE) != 0 && n->now->size > 0) {
        node_truncate(d, n);
    }
    return file_add(d, n, flags);
}

/* What a link at path leads to: one step, and targets are relative. */
static int follow(struct disk_sim *d, const char *path, struct node **link)
{
    const char *name = strrchr(path, '/');
    size_t dir_size = name == NULL ? 0 : (size_t)(name + 1 - path);
    char *target = NULL;
    if (asprintf(&target, "%.*s%s", (int)dir_size, path, (*link)->target) < 0) {
        panic("out of memory");
    }
    int e = names_resolve(d, target, link);
    free(target);
    return e;
}

static int64_t finish_open(struct disk_sim_op *o)
{
    struct disk_sim *d = o->disk;
    struct node *dir;
    struct node *n;
    const char *name;
    if ((o->open_flags & IO_OPEN_DIRECT) != 0 && !d->options.is_direct_capable) {
        return -EINVAL;
    }
    int e = names_resolve(d, o->path, &n);
    if (e == 0 && n->kind == NODE_LINK) {
        e = follow(d, o->path, &n);
        return e == 0 ? open_existing(d, n, o->open_flags) : e;
    }
    if (e == 0) {
        return open_existing(d, n, o->open_flags);
    }
    if (e != -ENOENT || (o->open_flags & IO_OPEN_CREATE) == 0) {
        return e;
    }
    e = names_resolve_parent(d, o->path, &dir, &name);
    if (e != 0) {
        return e;
    }
    n = node_new(d, NODE_FILE);
    names_add(d, dir, name, n);
    return file_add(d, n, o->open_flags);
}

static int64_t finish_close(struct disk_sim_op *o)
{
    struct open_file *f = file_of(o->disk, o->fd);
    if (f == NULL) {
        return -EBADF;
    }
    node_unref(o->disk, f->node);
    f->node = NULL;
    return 0;
}

/* IO_MKDIR and IO_SYMLINK. */
static int64_t finish_make(struct disk_sim_op *o)
{
    struct disk_sim *d = o->disk;
    const char *path = o->kind == IO_MKDIR ? o->path : o->new_path;
    struct node *dir;
    struct node *n;
    const char *name;
    int e = names_resolve(d, path, &n);
    if (e == 0) {
        return -EEXIST;
    }
    if (e == -ENOENT) {
        e = names_resolve_parent(d, path, &dir, &name);
    }
    if (e != 0) {
        return e;
    }
    n = node_new(d, o->kind == IO_MKDIR ? NODE_DIR : NODE_LINK);
    if (o->kind == IO_SYMLINK) {
        n->target = copy_string(o->path);
    }
    names_add(d, dir, name, n);
    return 0;
}

bool disk_sim_op_is_broken(const struct disk_sim_op *o)
{
    if (o->kind == IO_CLOSE) {
        return false; /* Nothing of it is the device's. */
    }
    if (o->node != NULL) {
        return o->node->volume->is_broken;
    }
    const char *path = o->kind == IO_SYMLINK ? o->new_path : o->path;
    return path != NULL && volume_of_path(o->disk, path)->is_broken;
}

static int64_t perform(struct disk_sim_op *o, uint64_t size_max)
{
    if (o->error != 0) {
        return o->error;
    }
    switch (o->kind) {
    case IO_READ:
        return finish_read(o, size_max);
    case IO_WRITE:
        return finish_write(o, size_max);
    case IO_FSYNC:
    case IO_FDATASYNC:
    case IO_FSYNC_DIR:
        return finish_sync(o);
    case IO_ALLOCATE:
        return finish_allocate(o);
    case IO_OPEN:
        return finish_open(o);
    case IO_CLOSE:
        return finish_close(o);
    case IO_RENAME:
        return names_rename(o->disk, o->path, o->new_path);
    case IO_UNLINK:
        return names_unlink(o->disk, o->path, (o->open_flags & IO_OPEN_DIRECTORY) != 0);
    case IO_MKDIR:
    case IO_SYMLINK:
        return finish_make(o);
    case IO_ACCEPT:
    case IO_CONNECT:
    case IO_RECV:
    case IO_SEND:
    case IO_CANCEL:
    case IO_KIND_COUNT:
        break;
    }
    assert(false && "not an op of a disk");
    return -ENOSYS;
}

int64_t disk_sim_finish(struct disk_sim_op *o, uint64_t size_max)
{
    int64_t result = perform(o, size_max);
    disk_sim_drop(o);
    return result;
}

/* Any subset of the write's sectors arrives. */
static void write_partly(struct disk_sim_op *o, struct rand *r)
{
    uint64_t count = (o->pos + o->size - 1) / IO_TORN_SIZE - o->pos / IO_TORN_SIZE + 1;
    uint8_t *mask = disk_sim_alloc((size_t)count);
    uint64_t pattern = rand_below(r, 4);
    for (uint64_t i = 0; i < count; i++) {
        mask[i] = pattern == 0 ? 0 : pattern == 1 ? 1 : rand_one_in(r, 2);
    }
    /* A full disk only means that fewer of them do. */
    (void)write_masked(o, o->size, mask);
    free(mask);
}

void disk_sim_fail(struct disk_sim_op *o, struct rand *r)
{
    if (o->error == 0 && o->kind == IO_WRITE) {
        write_partly(o, r);
    }
    bool is_sync = o->kind == IO_FSYNC || o->kind == IO_FDATASYNC;
    if (o->error == 0 && is_sync && o->node->kind == NODE_FILE) {
        content_abandon(o->node->now, o->start_sequence);
    }
    disk_sim_drop(o);
}

struct disk_sim_crash disk_sim_crash_draw(struct rand *r)
{
    struct disk_sim_crash how = {.is_power_loss = !rand_one_in(r, 4)};
    how.are_names_ordered = rand_one_in(r, 2);
    switch (rand_below(r, 5)) {
    case 0: /* Nothing that was not asked for. */
        how.mangle_sector = rand_one_in(r, 2) ? 0 : 10;
        break;
    case 1: /* All of it. */
        how.keep_sector = how.keep_extent = how.keep_name = 100;
        break;
    case 2: /* The journal is written, the data is not. */
        how.keep_extent = how.keep_name = 100;
        how.keep_sector = (uint32_t)rand_below(r, 50);
        how.mangle_sector = (uint32_t)rand_below(r, 30);
        break;
    default:
        how.keep_sector = (uint32_t)rand_below(r, 101);
        how.mangle_sector = (uint32_t)rand_below(r, 30);
        how.keep_extent = (uint32_t)rand_below(r, 101);
        how.keep_name = (uint32_t)rand_below(r, 101);
        break;
    }
    return how;
}

/* Finishes or forgets an op of the dead process. Its memory must not be touched. */
static void resolve_in_flight(struct disk_sim_op *o, struct rand *r)
{
    if (o->error != 0 || o->kind == IO_READ || o->kind == IO_CLOSE) {
        disk_sim_drop(o);
    } else if (o->kind == IO_WRITE) {
        write_partly(o, r);
        disk_sim_drop(o);
    } else if (rand_one_in(r, 2)) {
        (void)disk_sim_finish(o, UINT64_MAX);
    } else {
        disk_sim_drop(o);
    }
}

void disk_sim_crash(struct disk_sim *d, struct rand *r, const struct disk_sim_crash *how)
{
    while (!list_is_empty(&d->in_flight)) {
        /* Either end of the queue: what was started last may have happened first. */
        struct list *link = rand_one_in(r, 2) ? d->in_flight.next : d->in_flight.prev;
        resolve_in_flight(container_of(link, struct disk_sim_op, link), r);
    }
    close_all(d);
    if (!how->is_power_loss) {
        return;
    }
    names_lose_power(d, r, how);
    list_for_each (node, &d->nodes) {
        struct node *n = container_of(node, struct node, link);
        if (n->kind == NODE_FILE) {
            node_lose_power(n, r, how);
        }
    }
    assert(list_is_empty(&d->unsynced));
}

enum err disk_sim_list_dir(struct disk_sim *d,
                           const char *path,
                           void *context,
                           void (*on_name)(void *context, const char *name))
{
    struct node *n;
    int e = names_resolve(d, path, &n);
    if (e != 0 || n->kind != NODE_DIR) {
        return e != 0 ? io_err_of(e) : ERR_IO;
    }
    for (size_t i = 0; i < n->entries_count; i++) {
        if (n->entries[i].current != NULL) {
            on_name(context, n->entries[i].name);
        }
    }
    return ERR_OK;
}

enum err disk_sim_lock(struct disk_sim *d, const char *path, int *ret_handle)
{
    struct node *n;
    int e = names_resolve(d, path, &n);
    if (e == -ENOENT) {
        struct node *dir;
        const char *name;
        e = names_resolve_parent(d, path, &dir, &name);
        if (e == 0) {
            n = node_new(d, NODE_FILE);
            names_add(d, dir, name, n);
        }
    }
    if (e != 0) {
        return io_err_of(e);
    }
    if (n->is_locked) {
        return ERR_LOCKED;
    }
    n->is_locked = true;
    *ret_handle = file_add(d, n, 0);
    return ERR_OK;
}

void disk_sim_unlock(struct disk_sim *d, int handle)
{
    struct open_file *f = file_of(d, handle);
    assert(f != NULL);
    assert(f->node->is_locked);
    f->node->is_locked = false;
    node_unref(d, f->node);
    f->node = NULL;
    disk_sim_collect(d);
}

/* NULL if path is no file. */
static struct content *find_content(struct disk_sim *d, const char *path)
{
    struct node *n;
    int e = names_resolve(d, path, &n);
    return e == 0 && n->kind == NODE_FILE ? n->now : NULL;
}

enum err disk_sim_file_size(struct disk_sim *d, const char *path, uint64_t *ret_size)
{
    const struct content *c = find_content(d, path);
    if (c == NULL) {
        return ERR_NOT_FOUND;
    }
    *ret_size = c->size;
    return ERR_OK;
}

enum err disk_sim_misdirect(struct disk_sim_op *o, const char *path, uint64_t pos)
{
    assert(o->kind == IO_READ || o->kind == IO_WRITE);
    assert(pos % BLOCK_SIZE == 0);
    struct content *c = find_content(o->disk, path);
    if (c == NULL) {
        return ERR_NOT_FOUND;
    }
    if (pos + o->size > c->size) {
        return ERR_EOF;
    }
    o->stray_content = c;
    o->stray_pos = pos;
    return ERR_OK;
}

static void damage_version(struct content *c, uint8_t **data, uint64_t in_block, const uint8_t *v)
{
    if (*data == NULL) {
        *data = disk_sim_block_alloc(c->disk);
        memset(*data, 0, BLOCK_SIZE);
    }
    (*data)[in_block] = *v;
}

enum err
disk_sim_damage(struct disk_sim *d, const char *path, uint64_t pos, const void *data, size_t size)
{
    struct content *c = find_content(d, path);
    if (c == NULL) {
        return ERR_NOT_FOUND;
    }
    if (pos + size > c->size) {
        return ERR_EOF;
    }
    content_reserve(c, pos, size); /* A size may stand beyond the last block written. */
    for (size_t i = 0; i < size; i++) {
        struct block *b = &c->blocks[(pos + i) / BLOCK_SIZE];
        const uint8_t *byte = (const uint8_t *)data + i;
        damage_version(c, &b->durable, (pos + i) % BLOCK_SIZE, byte);
        for (struct version *v = b->newest; v != NULL; v = v->older) {
            damage_version(c, &v->data, (pos + i) % BLOCK_SIZE, byte);
        }
    }
    return ERR_OK;
}

enum err disk_sim_flip_bit(struct disk_sim *d, const char *path, uint64_t pos, uint32_t bit)
{
    uint8_t byte;
    enum err e = disk_sim_peek(d, path, pos, &byte, 1);
    if (e != ERR_OK) {
        return e;
    }
    byte = (uint8_t)(byte ^ (1u << (bit % 8)));
    return disk_sim_damage(d, path, pos, &byte, 1);
}

enum err disk_sim_peek(struct disk_sim *d, const char *path, uint64_t pos, void *dst, size_t size)
{
    struct content *c = find_content(d, path);
    if (c == NULL) {
        return ERR_NOT_FOUND;
    }
    if (pos + size > c->size) {
        return ERR_EOF;
    }
    content_read(c, pos, dst, size);
    return ERR_OK;
}

uint32_t disk_sim_open_count(const struct disk_sim *d)
{
    uint32_t count = 0;
    for (size_t i = 0; i < d->files_count; i++) {
        count += d->files[i].node != NULL;
    }
    return count;
}

uint32_t disk_sim_in_flight_count(const struct disk_sim *d)
{
    return d->in_flight_count;
}

struct walk {
    void *context;
    void (*on_file)(void *context, const char *path, uint64_t size);
    void (*on_node)(void *context, const char *path, const struct node *n);
    char path[PATH_SIZE_MAX];
};

static void walk_dir(struct walk *w, const struct node *dir, size_t path_size)
{
    for (size_t i = 0; i < dir->entries_count; i++) {
        const struct dir_entry *e = &dir->entries[i];
        const struct node *n = e->current;
        if (n == NULL) {
            continue;
        }
        int size = snprintf(w->path + path_size, PATH_SIZE_MAX - path_size, "/%s", e->name);
        assert(size > 0);
        assert((size_t)size < PATH_SIZE_MAX - path_size);
        if (w->on_node != NULL) {
            w->on_node(w->context, w->path, n);
        }
        if (w->on_file != NULL && n->kind == NODE_FILE) {
            w->on_file(w->context, w->path, n->now->size);
        }
        walk_dir(w, n, path_size + (size_t)size);
    }
}

void disk_sim_each_file(const struct disk_sim *d,
                        void *context,
                        void (*on_file)(void *context, const char *path, uint64_t size))
{
    struct walk w = {.context = context, .on_file = on_file};
    walk_dir(&w, d->root, 0);
}

struct node_search {
    const struct node *node;
    char *path;
    size_t size;
    bool is_found;
};

static void match_node(void *context, const char *path, const struct node *n)
{
    struct node_search *s = context;
    if (n == s->node && strlen(path) < s->size) {
        (void)snprintf(s->path, s->size, "%s", path);
        s->is_found = true;
    }
}

bool disk_sim_op_path(const struct disk_sim_op *o, char *ret_path, size_t size)
{
    struct node_search s = {.node = o->node, .path = ret_path, .size = size};
    struct walk w = {.context = &s, .on_node = match_node};
    walk_dir(&w, o->disk->root, 0);
    return s.is_found;
}

static void hash_node(void *context, const char *path, const struct node *n)
{
    uint64_t *hash = context;
    *hash = hash_bytes(*hash, path, strlen(path));
    if (n->kind != NODE_FILE) {
        return;
    }
    *hash = hash_bytes(*hash, &n->now->size, sizeof(n->now->size));
    for (size_t i = 0; i < n->now->blocks_count; i++) {
        const struct block *b = &n->now->blocks[i];
        const uint8_t *data = b->newest != NULL ? b->newest->data : b->durable;
        if (data != NULL) {
            *hash = hash_bytes(*hash + i, data, BLOCK_SIZE);
        }
    }
}

uint64_t disk_sim_hash(const struct disk_sim *d)
{
    uint64_t hash = 0;
    struct walk w = {.context = &hash, .on_node = hash_node};
    walk_dir(&w, d->root, 0);
    return hash;
}

#include "storage/store_merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/assert.h"
#include "core/reached.h"
#include "core/shard.h"
#include "storage/store.h"
#include "storage/store_file.h"
#include "storage/store_map.h"

enum {
    FILES_MAX = SHARDS_MAX * 2, /* More are not ours. */
    RUN_BUDGET = 64,
};

char *store_merge_path(const char *dir)
{
    char *path = NULL;
    return asprintf(&path, "%s/store.merge", dir) < 0 ? NULL : path;
}

/* ---- blocking ------------------------------------------------------------------------------ */

/* Waits for a task that ends by setting *is_done. Before the loop runs, nothing else is in flight.
 */
static void run_until(struct shard *s, const bool *is_done)
{
    io_flush(&s->io);
    while (!*is_done) {
        if (io_run_completions(&s->io, RUN_BUDGET) == 0) {
            s->io.backend->ops->wait(s->io.backend, UINT64_MAX);
        }
        io_flush(&s->io);
    }
}

struct wait {
    bool is_done;
    enum err result;
};

static void on_step(void *context, enum err e)
{
    struct wait *w = context;
    w->is_done = true;
    w->result = e;
}

static enum err wait_for(struct shard *s, struct wait *w)
{
    run_until(s, &w->is_done);
    w->is_done = false;
    return w->result;
}

static enum err close_file(struct shard *s, int fd)
{
    return io_call(&s->io, &(struct io_op){.kind = IO_CLOSE, .fd = fd});
}

/* ---- looking ------------------------------------------------------------------------------- */

/* What stands in the directory. */
struct listing {
    struct uuid directory_id;
    bool has_merge_file;
    bool has_temporary[FILES_MAX];
    bool has_store[FILES_MAX];
};

/* "shard-<number>.store<suffix>" with number < FILES_MAX, as store_path writes it. */
static bool parse_name(const char *name, const char *suffix, unsigned *ret_shard)
{
    char expected[64];
    if (sscanf(name, "shard-%3u.store", ret_shard) != 1 || *ret_shard >= FILES_MAX) {
        return false;
    }
    (void)snprintf(expected, sizeof(expected), "shard-%u.store%s", *ret_shard, suffix);
    return strcmp(name, expected) == 0;
}

static void on_name(void *context, const char *name)
{
    struct listing *l = context;
    unsigned shard;
    if (parse_name(name, "", &shard)) {
        l->has_store[shard] = true;
    } else if (parse_name(name, ".new", &shard)) {
        l->has_temporary[shard] = true;
    } else if (strcmp(name, "store.merge") == 0) {
        l->has_merge_file = true;
    }
}

/* The refusal of the start points here. */
static void log_corrupt(struct shard *s, const char *path, uint64_t pos)
{
    log_error(s->log, "store_corrupt", "path=%s pos=%" PRIu64, path, pos);
}

/* A store that came here from elsewhere names none of the logs that are here: they would look as if
 * nothing had ever been written to them, and their files as leftovers. */
static enum err check_belongs(const struct store_superblock *sb, const struct uuid *directory_id)
{
    const struct store_owner owner = store_superblock_owner(sb);
    return uuid_equal(&owner.directory_id, directory_id) ? ERR_OK : ERR_FOREIGN;
}

static enum err read_superblock(struct shard *s, const char *path, struct store_superblock *ret_sb)
{
    uint64_t size;
    enum err e = io_file_size(&s->io, path, &size);
    if (e != ERR_OK) {
        return e;
    }
    struct io_op open = {
        .kind = IO_OPEN, .path = path, .open_flags = IO_OPEN_READ | IO_OPEN_DIRECT};
    e = io_call(&s->io, &open);
    if (e != ERR_OK) {
        return e;
    }
    struct io_op read = {
        .kind = IO_READ, .fd = open.result_fd, .buf = ret_sb, .size = STORE_BLOCK_SIZE};
    e = io_call(&s->io, &read);
    enum err e_close = close_file(s, open.result_fd);
    e = e == ERR_OK ? e_close : e;
    e = e == ERR_EOF ? ERR_CORRUPT : e;
    return e == ERR_OK ? store_superblock_check(ret_sb, size) : e;
}

/* What the superblocks of all store files say together. */
struct layout {
    bool is_current;       /* Each is for its shard of as many shards as there are today. */
    uint32_t shards_count; /* That they were made for; today's if there are none. */
};

static enum err check_files(struct shard *s,
                            const char *dir,
                            const struct listing *l,
                            char **ret_path,
                            struct layout *ret_layout)
{
    struct store_superblock *sb = aligned_alloc(IO_ALIGN, sizeof(*sb));
    enum err e = sb == NULL ? ERR_BUSY : ERR_OK;
    struct layout layout = {.is_current = !l->has_merge_file};
    for (uint16_t i = 0; i < FILES_MAX && e == ERR_OK; i++) {
        if (!l->has_store[i]) {
            continue;
        }
        char *path = store_path(dir, i, "");
        e = path == NULL ? ERR_BUSY : read_superblock(s, path, sb);
        e = e == ERR_OK ? check_belongs(sb, &l->directory_id) : e;
        if (e == ERR_OK) {
            layout.is_current &=
                sb->shard == i && i < s->shards_count && sb->shards_count == s->shards_count;
            layout.shards_count =
                sb->shards_count > layout.shards_count ? sb->shards_count : layout.shards_count;
            free(path);
        } else {
            *ret_path = path;
        }
        if (e == ERR_CORRUPT) {
            log_corrupt(s, path, 0);
        }
    }
    free(sb);
    if (layout.shards_count == 0) {
        layout.shards_count = s->shards_count;
    }
    *ret_layout = layout;
    return e;
}

static void on_log_name(void *context, const char *name)
{
    (void)name;
    *(bool *)context = true;
}

/* Logs are made only when all shards have opened their stores. Where there are logs, a store file
 * that is not there was lost, and its logs would look as if nothing had ever been written to them.
 */
static enum err check_none_missing(struct shard *s,
                                   const char *dir,
                                   const struct listing *l,
                                   const struct layout *layout,
                                   char **ret_path)
{
    char *logs = NULL;
    if (asprintf(&logs, "%s/logs", dir) < 0) {
        return ERR_BUSY;
    }
    bool has_logs = false;
    enum err e = io_list_dir(&s->io, logs, &has_logs, on_log_name);
    free(logs);
    if (e != ERR_OK && e != ERR_NOT_FOUND) {
        return e;
    }
    for (uint16_t i = 0; has_logs && i < layout->shards_count && i < FILES_MAX; i++) {
        if (!l->has_store[i]) {
            *ret_path = store_path(dir, i, "");
            return ERR_NOT_FOUND;
        }
    }
    return ERR_OK;
}

/* ---- merging ------------------------------------------------------------------------------- */

static enum err take_contents(struct shard *s, struct store_load *ld, struct store_map *m)
{
    struct store_contents c;
    uint64_t bad_pos = 0;
    enum err e = store_contents_find(ld->superblock, ld->blocks, &c, &bad_pos);
    if (e != ERR_OK) {
        log_corrupt(s, ld->path, bad_pos);
        return e;
    }
    struct store_map found;
    e = store_map_init(&found, s->hash_seed);
    found.keeps_deleted_logs = true;
    if (e == ERR_OK) {
        e = store_map_load(&found, c.stream);
    }
    if (e == ERR_CORRUPT) {
        log_corrupt(s, ld->path, store_area_pos(ld->superblock->area_blocks, c.area));
    }
    if (e == ERR_OK) {
        store_map_take(m, &found, NULL, NULL);
    }
    store_map_done(&found);
    return e;
}

static enum err
take_file(struct shard *s, const char *path, const struct uuid *directory_id, struct store_map *m)
{
    struct wait w = {0};
    struct store_load ld = {.s = s, .path = path, .context = &w, .on_loaded = on_step};
    store_load_begin(&ld);
    enum err e = wait_for(s, &w);
    if (e == ERR_OK) {
        e = check_belongs(ld.superblock, directory_id);
        e = e == ERR_OK ? take_contents(s, &ld, m) : e;
        enum err e_close = close_file(s, ld.fd);
        e = e == ERR_OK ? e_close : e;
    } else if (e == ERR_CORRUPT) {
        log_corrupt(s, path, 0);
    }
    store_load_done(&ld);
    return e;
}

static enum err take_files(
    struct shard *s, const char *dir, const struct listing *l, struct store_map *m, char **ret_path)
{
    for (uint32_t i = 0; i <= FILES_MAX; i++) {
        bool is_merge_file = i == FILES_MAX;
        if (is_merge_file ? !l->has_merge_file : !l->has_store[i]) {
            continue;
        }
        char *path = is_merge_file ? store_merge_path(dir) : store_path(dir, (uint16_t)i, "");
        enum err e = path == NULL ? ERR_BUSY : take_file(s, path, &l->directory_id, m);
        if (e != ERR_OK) {
            *ret_path = path;
            return e;
        }
        free(path);
    }
    return ERR_OK;
}

/* Writes the snapshot of m to a file that is WRITABLE, and flushes it. */
static enum err write_map(struct shard *s, const struct store_birth *b, const struct store_map *m)
{
    struct wbuf stream;
    wbuf_init(&stream, SIZE_MAX);
    store_map_snapshot(m, &stream);
    enum err e = wbuf_failure(&stream);
    uint8_t *blocks =
        e == ERR_OK ? aligned_alloc(IO_ALIGN, (size_t)b->area_blocks * STORE_BLOCK_SIZE) : NULL;
    if (blocks == NULL) {
        wbuf_done(&stream);
        return ERR_BUSY;
    }
    const struct store_stamp stamp = {
        .salt = b->salt, .epoch = 1, .snapshot_blocks = b->area_blocks};
    uint32_t count = store_blocks_encode(&stamp, wbuf_slice(&stream), blocks);
    assert_cmp(count, ==, b->area_blocks);
    struct io_op write = {
        .kind = IO_WRITE,
        .fd = b->fd,
        .buf = blocks,
        .size = (uint64_t)count * STORE_BLOCK_SIZE,
        .pos = store_area_pos(b->area_blocks, 0),
    };
    e = io_call(&s->io, &write);
    if (e == ERR_OK) {
        e = io_call(&s->io, &(struct io_op){.kind = IO_FSYNC, .fd = b->fd});
    }
    free(blocks);
    wbuf_done(&stream);
    return e;
}

static enum err write_merge_file(struct shard *s,
                                 const char *dir,
                                 const struct listing *l,
                                 const struct store_map *m)
{
    struct wait w = {0};
    uint64_t area_blocks = store_blocks_of(m->live_size);
    char *path = store_merge_path(dir);
    char *path_new = NULL;
    enum err e = ERR_BUSY;
    if (path == NULL || asprintf(&path_new, "%s.new", path) < 0) {
        path_new = NULL;
        goto out_free_paths;
    }
    struct store_birth b = {
        .s = s,
        .dir = dir,
        .path = path,
        .path_new = path_new,
        .owner = {l->directory_id, STORE_SHARD_NONE, s->shards_count},
        .area_blocks = area_blocks == 0 ? 1 : (uint32_t)area_blocks,
        .context = &w,
        .on_step = on_step,
    };
    if (area_blocks > STORE_AREA_BLOCKS_MAX) {
        e = ERR_NO_SPACE;
        goto out_free_paths;
    }
    store_birth_begin(&b);
    e = wait_for(s, &w);
    if (e != ERR_OK) {
        goto out_free_paths;
    }
    e = write_map(s, &b, m);
    if (e != ERR_OK) {
        store_birth_abandon(&b);
        (void)wait_for(s, &w);
        goto out_free_paths;
    }
    store_birth_install(&b);
    e = wait_for(s, &w);
    if (e == ERR_OK) {
        e = close_file(s, b.fd);
    }

out_free_paths:
    free(path);
    free(path_new);
    return e;
}

static enum err unlink_path(struct shard *s, char *path)
{
    if (path == NULL) {
        return ERR_BUSY;
    }
    enum err e = io_call(&s->io, &(struct io_op){.kind = IO_UNLINK, .path = path});
    free(path);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err
unlink_files(struct shard *s, const char *dir, const bool is_there[FILES_MAX], const char *suffix)
{
    enum err e = ERR_OK;
    for (uint16_t i = 0; i < FILES_MAX && e == ERR_OK; i++) {
        if (is_there[i]) {
            e = unlink_path(s, store_path(dir, i, suffix));
        }
    }
    return e;
}

/* All names as they are now, for good. */
static enum err sync_dir(struct shard *s, const char *dir)
{
    return io_call(&s->io, &(struct io_op){.kind = IO_FSYNC_DIR, .path = dir});
}

static enum err
merge_files(struct shard *s, const char *dir, const struct listing *l, char **ret_path)
{
    struct store_map map;
    enum err e = store_map_init(&map, s->hash_seed);
    map.keeps_deleted_logs = true;
    if (e == ERR_OK) {
        e = take_files(s, dir, l, &map, ret_path);
    }
    if (e == ERR_OK) {
        e = write_merge_file(s, dir, l, &map);
    }
    if (e == ERR_OK) {
        e = unlink_files(s, dir, l->has_store, "");
    }
    if (e == ERR_OK) {
        e = sync_dir(s, dir);
    }
    if (e == ERR_OK) {
        reached(s, "stores_merged");
        if (l->has_merge_file) {
            reached(s, "stores_merged_again");
        }
        log_info(s->log,
                 "stores_merged",
                 "dir=%s logs=%zu shards=%u",
                 dir,
                 map.logs_count,
                 (unsigned)s->shards_count);
    }
    store_map_done(&map);
    return e;
}

enum err
store_merge(struct shard *s, const char *dir, const struct uuid *directory_id, char **ret_path)
{
    struct listing l = {.directory_id = *directory_id};
    struct layout layout;
    *ret_path = NULL;
    /* A store that finds no merge file forgets which logs were deleted: the file must not come back
     * with a power loss, when only its removal was lost. */
    enum err e = sync_dir(s, dir);
    if (e == ERR_OK) {
        e = io_list_dir(&s->io, dir, &l, on_name);
    }
    if (e == ERR_OK) {
        e = unlink_files(s, dir, l.has_temporary, ".new");
    }
    if (e == ERR_OK) {
        e = check_files(s, dir, &l, ret_path, &layout);
    }
    if (e == ERR_OK && !l.has_merge_file) {
        e = check_none_missing(s, dir, &l, &layout, ret_path);
    }
    return e != ERR_OK || layout.is_current ? e : merge_files(s, dir, &l, ret_path);
}

/* ---- dropping ------------------------------------------------------------------------------ */

/* UNLINK, then FSYNC_DIR; the second wait is the state. */
struct dropping {
    struct shard *s;
    char *dir;
    char *path;
    struct io_op op;
};

static void end_dropping(struct dropping *d)
{
    if (d->op.result != ERR_OK && d->op.result != ERR_NOT_FOUND) {
        log_warn(d->s->log,
                 "store_merge_file_stays",
                 "path=%s error=%s",
                 d->path,
                 err_name(d->op.result));
    }
    free(d->dir);
    free(d->path);
    free(d);
}

static void on_dir_synced(struct io_op *op)
{
    end_dropping(container_of(op, struct dropping, op));
}

static void on_unlinked(struct io_op *op)
{
    struct dropping *d = container_of(op, struct dropping, op);
    if (op->result != ERR_OK) {
        end_dropping(d);
        return;
    }
    d->op = (struct io_op){.kind = IO_FSYNC_DIR, .path = d->dir, .on_done = on_dir_synced};
    io_submit(&d->s->io, &d->op);
}

void store_drop_stale(struct shard *s, const char *dir)
{
    struct dropping *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        return; /* The next start does it. */
    }
    d->s = s;
    d->dir = strdup(dir);
    d->path = store_merge_path(dir);
    if (d->dir == NULL || d->path == NULL) {
        end_dropping(d);
        return;
    }
    d->op = (struct io_op){.kind = IO_UNLINK, .path = d->path, .on_done = on_unlinked};
    io_submit(&s->io, &d->op);
}

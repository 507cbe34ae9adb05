#include <inttypes.h>
#include <stdlib.h>

#include "core/assert.h"
#include "core/sm.h"
#include "storage/store_merge.h"
#include "storage/store_priv.h"

/* Opening a store.
 *
 *   START -> WAIT_OWN -> WAIT_SETTLE -> WAIT_SETTLE_DIR -> WAIT_MERGED
 *                |                                            ^   |
 *                +------------- there is none yet ------------+   |
 *        +--------------------------------------------------------+
 *        +-> WAIT_WRITE -> WAIT_SYNC -> DONE
 *        +-> WAIT_BIRTH -> WAIT_WRITE -> WAIT_SYNC -> WAIT_INSTALL -> DONE      there is none yet
 *   any error: -> WAIT_CLOSE -> DONE
 *
 * WAIT_SETTLE, WAIT_SETTLE_DIR: a process that died may have left writes that can be read but were
 * never flushed, and a file whose name is not durable. What counts has to be durable before the
 * other area is overwritten, and before anything in it is called durable.
 *
 * Every open begins a new epoch with a snapshot in the area that does not count. So appends never
 * go behind a torn tail, whose remains could look valid again after the next crash. It takes no
 * space: a store can be opened on a full disk.
 */
enum open_state {
    OPEN_START,
    OPEN_WAIT_OWN,
    OPEN_WAIT_SETTLE,
    OPEN_WAIT_SETTLE_DIR,
    OPEN_WAIT_MERGED,
    OPEN_WAIT_BIRTH,
    OPEN_WAIT_WRITE,
    OPEN_WAIT_SYNC,
    OPEN_WAIT_INSTALL,
    OPEN_WAIT_CLOSE,
    OPEN_DONE,
    OPEN_STATE_COUNT,
};

static const struct sm_state open_states[OPEN_STATE_COUNT] = {
    [OPEN_START] = {"START", SM_BIT(OPEN_WAIT_OWN)},
    [OPEN_WAIT_OWN] = {"WAIT_OWN",
                       SM_BIT(OPEN_WAIT_SETTLE) | SM_BIT(OPEN_WAIT_MERGED) |
                           SM_BIT(OPEN_WAIT_CLOSE) | SM_BIT(OPEN_DONE)},
    [OPEN_WAIT_SETTLE] = {"WAIT_SETTLE", SM_BIT(OPEN_WAIT_SETTLE_DIR) | SM_BIT(OPEN_WAIT_CLOSE)},
    [OPEN_WAIT_SETTLE_DIR] = {"WAIT_SETTLE_DIR",
                              SM_BIT(OPEN_WAIT_MERGED) | SM_BIT(OPEN_WAIT_CLOSE)},
    [OPEN_WAIT_MERGED] = {"WAIT_MERGED",
                          SM_BIT(OPEN_WAIT_WRITE) | SM_BIT(OPEN_WAIT_BIRTH) |
                              SM_BIT(OPEN_WAIT_CLOSE) | SM_BIT(OPEN_DONE)},
    [OPEN_WAIT_BIRTH] = {"WAIT_BIRTH", SM_BIT(OPEN_WAIT_WRITE) | SM_BIT(OPEN_DONE)},
    [OPEN_WAIT_WRITE] = {"WAIT_WRITE", SM_BIT(OPEN_WAIT_SYNC) | SM_BIT(OPEN_WAIT_CLOSE)},
    [OPEN_WAIT_SYNC] = {"WAIT_SYNC",
                        SM_BIT(OPEN_WAIT_INSTALL) | SM_BIT(OPEN_WAIT_CLOSE) | SM_BIT(OPEN_DONE)},
    [OPEN_WAIT_INSTALL] = {"WAIT_INSTALL", SM_BIT(OPEN_DONE)},
    [OPEN_WAIT_CLOSE] = {"WAIT_CLOSE", SM_BIT(OPEN_DONE)},
    [OPEN_DONE] = {"DONE", 0},
};

struct opening {
    struct store *st;
    struct store_open how;
    char *merge_path;
    struct store_load load;
    uint8_t state; /* enum open_state */
    bool is_birth;
    enum err result;
};

static void finish(struct opening *o)
{
    sm_move(open_states, &o->state, OPEN_DONE);
    struct store *st = o->st;
    struct store_open how = o->how;
    enum err e = o->result;
    free(o->merge_path);
    free(o);
    if (e == ERR_OK) {
        store_start(st);
    } else {
        store_delete_memory(st);
        st = NULL;
    }
    how.on_opened(how.context, e, st);
}

static void on_closed(struct io_op *op)
{
    struct store *st = container_of(op, struct store, op);
    finish(st->birth.context);
}

static void fail(struct opening *o, enum err e)
{
    assert(e != ERR_OK);
    struct store *st = o->st;
    o->result = e;
    if (st->fd == -1) {
        finish(o);
        return;
    }
    sm_move(open_states, &o->state, OPEN_WAIT_CLOSE);
    st->op = (struct io_op){.kind = IO_CLOSE, .fd = st->fd, .on_done = on_closed};
    io_submit(&st->s->io, &st->op);
}

/* ---- reading ------------------------------------------------------------------------------- */

static void log_damage(const struct opening *o, const char *path, uint64_t pos)
{
    log_error(o->st->s->log, "store_corrupt", "path=%s pos=%" PRIu64, path, pos);
}

/* Adds what a loaded file holds to the map, where it is newer. */
static enum err take_loaded(struct opening *o, struct store_contents *ret_contents)
{
    struct store *st = o->st;
    uint64_t bad_pos = 0;
    enum err e = store_contents_find(o->load.superblock, o->load.blocks, ret_contents, &bad_pos);
    if (e != ERR_OK) {
        log_damage(o, o->load.path, bad_pos);
        return e;
    }
    struct store_map map;
    e = store_map_init(&map, st->s->hash_seed);
    map.keeps_deleted_logs = st->map.keeps_deleted_logs;
    if (e == ERR_OK) {
        e = store_map_load(&map, ret_contents->stream);
    }
    if (e == ERR_CORRUPT) {
        log_damage(
            o, o->load.path, store_area_pos(o->load.superblock->area_blocks, ret_contents->area));
    }
    if (e == ERR_OK) {
        store_map_take(&st->map, &map, o->how.context, o->how.owns);
    }
    store_map_done(&map);
    return e;
}

static enum err take_own(struct opening *o)
{
    struct store *st = o->st;
    const struct store_superblock *sb = o->load.superblock;
    const struct store_owner owner = store_superblock_owner(sb);
    st->fd = o->load.fd;
    if (owner.shard != st->owner.shard || owner.shards_count != st->owner.shards_count ||
        !uuid_equal(&owner.directory_id, &st->owner.directory_id)) {
        char directory[UUID_TEXT_SIZE];
        uuid_format(&owner.directory_id, directory);
        log_error(st->s->log,
                  "store_foreign",
                  "path=%s made_for_shard=%u of=%u directory_id=%s",
                  st->path,
                  (unsigned)owner.shard,
                  (unsigned)owner.shards_count,
                  directory);
        return ERR_FOREIGN;
    }
    st->salt = sb->salt;
    st->area_blocks = sb->area_blocks;
    struct store_contents c;
    enum err e = take_loaded(o, &c);
    if (e == ERR_OK) {
        uint64_t epoch_max =
            c.areas[0].epoch > c.areas[1].epoch ? c.areas[0].epoch : c.areas[1].epoch;
        st->area = 1 - c.area;
        st->epoch = epoch_max + 1;
    }
    return e;
}

static void on_merged_loaded(void *context, enum err e);

static void load_merged(struct opening *o)
{
    sm_move(open_states, &o->state, OPEN_WAIT_MERGED);
    o->load.path = o->merge_path;
    o->load.on_loaded = on_merged_loaded;
    store_load_begin(&o->load);
}

static void on_settled(struct io_op *op)
{
    struct store *st = container_of(op, struct store, op);
    struct opening *o = st->birth.context;
    flusher_sync_done(st->flusher, op);
    if (op->result != ERR_OK) {
        fail(o, op->result);
    } else if (o->state == OPEN_WAIT_SETTLE_DIR) {
        load_merged(o);
    } else {
        sm_move(open_states, &o->state, OPEN_WAIT_SETTLE_DIR);
        st->op = (struct io_op){.kind = IO_FSYNC_DIR, .path = st->dir, .on_done = on_settled};
        io_submit(&st->s->io, &st->op);
    }
}

static void on_own_loaded(void *context, enum err e)
{
    struct opening *o = context;
    if (e == ERR_OK) {
        e = take_own(o);
    } else if (e == ERR_NOT_FOUND) {
        o->is_birth = true;
        e = ERR_OK;
    } else if (e == ERR_CORRUPT) {
        log_damage(o, o->st->path, 0);
    }
    store_load_done(&o->load);
    if (e != ERR_OK) {
        fail(o, e);
    } else if (o->is_birth) {
        load_merged(o);
    } else {
        sm_move(open_states, &o->state, OPEN_WAIT_SETTLE);
        o->st->op = (struct io_op){.kind = IO_FSYNC, .fd = o->st->fd, .on_done = on_settled};
        io_submit(&o->st->s->io, &o->st->op);
    }
}

static void write_snapshot(struct opening *o);
static void on_birth_step(void *context, enum err e);

static void begin_birth(struct opening *o)
{
    struct store *st = o->st;
    uint32_t area_blocks_min =
        o->how.area_blocks_min == 0 ? STORE_AREA_BLOCKS_MIN : o->how.area_blocks_min;
    sm_move(open_states, &o->state, OPEN_WAIT_BIRTH);
    st->birth = (struct store_birth){
        .s = st->s,
        .flusher = st->flusher,
        .dir = st->dir,
        .path = st->path,
        .path_new = st->path_new,
        .owner = st->owner,
        .area_blocks = store_area_blocks_for(st, area_blocks_min),
        .context = o,
        .on_step = on_birth_step,
    };
    store_birth_begin(&st->birth);
}

static void on_merged_closed(struct io_op *op)
{
    struct opening *o = container_of(op, struct opening, load.op);
    if (o->result != ERR_OK) {
        fail(o, o->result);
    } else if (o->is_birth) {
        begin_birth(o);
    } else {
        write_snapshot(o);
    }
}

static void on_merged_loaded(void *context, enum err e)
{
    struct opening *o = context;
    struct store *st = o->st;
    int merged_fd = e == ERR_OK ? o->load.fd : -1;
    if (e == ERR_OK) {
        struct store_contents c;
        e = take_loaded(o, &c);
    } else if (e == ERR_NOT_FOUND) {
        store_map_forget_deleted_logs(&st->map); /* Nothing is left that could bring them back. */
        e = ERR_OK;
    } else if (e == ERR_CORRUPT) {
        log_damage(o, o->merge_path, 0);
    }
    store_load_done(&o->load);
    if (e != ERR_OK && merged_fd == -1) {
        fail(o, e);
    } else if (merged_fd == -1) {
        on_merged_closed(&o->load.op);
    } else {
        o->result = e;
        o->load.op = (struct io_op){.kind = IO_CLOSE, .fd = merged_fd, .on_done = on_merged_closed};
        io_submit(&st->s->io, &o->load.op);
    }
}

/* ---- writing ------------------------------------------------------------------------------- */

static void on_birth_step(void *context, enum err e)
{
    struct opening *o = context;
    struct store *st = o->st;
    if (e != ERR_OK) {
        st->fd = -1; /* The birth closed it. */
        o->result = e;
        finish(o);
    } else if (o->state == OPEN_WAIT_INSTALL) {
        finish(o);
    } else {
        st->fd = st->birth.fd;
        st->salt = st->birth.salt;
        st->area_blocks = st->birth.area_blocks;
        st->area = 0;
        st->epoch = 1;
        write_snapshot(o);
    }
}

static void on_synced(struct io_op *op)
{
    struct store *st = container_of(op, struct store, op);
    struct opening *o = st->birth.context;
    flusher_sync_done(st->flusher, op);
    if (op->result != ERR_OK) {
        fail(o, op->result);
    } else if (o->is_birth) {
        sm_move(open_states, &o->state, OPEN_WAIT_INSTALL);
        store_birth_install(&st->birth);
    } else {
        finish(o);
    }
}

static void on_snapshot_written(struct io_op *op)
{
    struct store *st = container_of(op, struct store, op);
    struct opening *o = st->birth.context;
    if (op->result != ERR_OK) {
        fail(o, op->result);
        return;
    }
    sm_move(open_states, &o->state, OPEN_WAIT_SYNC);
    st->op = (struct io_op){.kind = IO_FSYNC, .fd = st->fd, .on_done = on_synced};
    io_submit(&st->s->io, &st->op);
}

static void write_snapshot(struct opening *o)
{
    struct store *st = o->st;
    enum err e = store_encode_snapshot(st);
    if (e != ERR_OK) {
        fail(o, e);
        return;
    }
    sm_move(open_states, &o->state, OPEN_WAIT_WRITE);
    st->op = (struct io_op){
        .kind = IO_WRITE,
        .fd = st->fd,
        .buf = st->image,
        .size = (uint64_t)st->snapshot_blocks * STORE_BLOCK_SIZE,
        .pos = store_area_pos(st->area_blocks, st->area),
        .on_done = on_snapshot_written,
    };
    io_submit(&st->s->io, &st->op);
}

enum err store_open_begin(struct shard *s, const struct store_open *how)
{
    struct opening *o = calloc(1, sizeof(*o));
    struct store *st = o == NULL ? NULL : store_new(s, how);
    char *merge_path = st == NULL ? NULL : store_merge_path(how->dir);
    if (merge_path == NULL) {
        if (st != NULL) {
            store_delete_memory(st);
        }
        free(o);
        return ERR_BUSY;
    }
    o->st = st;
    o->how = *how;
    o->merge_path = merge_path;
    st->map.keeps_deleted_logs = true;
    st->birth.context = o; /* So that completions of st->op find their way here. */
    o->load =
        (struct store_load){.s = s, .path = st->path, .context = o, .on_loaded = on_own_loaded};
    sm_move(open_states, &o->state, OPEN_WAIT_OWN);
    store_load_begin(&o->load);
    return ERR_OK;
}

#include "storage/store_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/assert.h"
#include "core/shard.h"
#include "core/sm.h"
#include "storage/flusher.h"

enum {
    PIECE_SIZE = 256 << 10, /* Read or zeroed at once: submitting more stalls the loop. */
};

char *store_path(const char *dir, uint16_t shard, const char *suffix)
{
    char *path = NULL;
    int size = asprintf(&path, "%s/shard-%u.store%s", dir, (unsigned)shard, suffix);
    return size < 0 ? NULL : path;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- birth --------------------------------------------------------------------------------- */

static const struct sm_state birth_states[STORE_BIRTH_STATE_COUNT] = {
    [STORE_BIRTH_START] = {"START", SM_BIT(STORE_BIRTH_WAIT_OPEN)},
    [STORE_BIRTH_WAIT_OPEN] = {"WAIT_OPEN",
                               SM_BIT(STORE_BIRTH_WAIT_ZEROS) | SM_BIT(STORE_BIRTH_WAIT_CLOSE) |
                                   SM_BIT(STORE_BIRTH_DONE)},
    [STORE_BIRTH_WAIT_ZEROS] = {"WAIT_ZEROS",
                                SM_BIT(STORE_BIRTH_WAIT_ZEROS) | SM_BIT(STORE_BIRTH_WAIT_SYNC) |
                                    SM_BIT(STORE_BIRTH_WAIT_CLOSE)},
    [STORE_BIRTH_WAIT_SYNC] = {"WAIT_SYNC",
                               SM_BIT(STORE_BIRTH_WRITABLE) | SM_BIT(STORE_BIRTH_WAIT_CLOSE)},
    [STORE_BIRTH_WRITABLE] = {"WRITABLE",
                              SM_BIT(STORE_BIRTH_WAIT_RENAME) | SM_BIT(STORE_BIRTH_WAIT_CLOSE)},
    [STORE_BIRTH_WAIT_RENAME] = {"WAIT_RENAME",
                                 SM_BIT(STORE_BIRTH_WAIT_SYNC_DIR) |
                                     SM_BIT(STORE_BIRTH_WAIT_CLOSE)},
    [STORE_BIRTH_WAIT_SYNC_DIR] = {"WAIT_SYNC_DIR",
                                   SM_BIT(STORE_BIRTH_DONE) | SM_BIT(STORE_BIRTH_WAIT_CLOSE)},
    [STORE_BIRTH_WAIT_CLOSE] = {"WAIT_CLOSE", SM_BIT(STORE_BIRTH_DONE)},
    [STORE_BIRTH_DONE] = {"DONE", 0},
};

static void on_birth_op(struct io_op *op);

static void birth_submit(struct store_birth *b, const struct io_op *op, uint8_t next_state)
{
    sm_move(birth_states, &b->state, next_state);
    b->op = *op;
    b->op.on_done = on_birth_op;
    io_submit(&b->s->io, &b->op);
}

static void birth_end(struct store_birth *b)
{
    sm_move(birth_states, &b->state, STORE_BIRTH_DONE);
    free(b->blocks);
    b->blocks = NULL;
    b->on_step(b->context, b->result); /* May be the end of b. */
}

static void birth_close(struct store_birth *b, enum err result)
{
    b->result = result;
    if (b->fd == -1) {
        birth_end(b);
        return;
    }
    birth_submit(b, &(struct io_op){.kind = IO_CLOSE, .fd = b->fd}, STORE_BIRTH_WAIT_CLOSE);
    b->fd = -1;
}

/* The superblock goes with the first piece; every other block is zeros, which no reader takes for a
 * block of an epoch. */
static void birth_write(struct store_birth *b)
{
    const struct io_op op = {
        .kind = IO_WRITE,
        .fd = b->fd,
        .buf = b->blocks,
        .size = min_u64(PIECE_SIZE, store_file_size(b->area_blocks) - b->pos),
        .pos = b->pos,
    };
    b->pos += op.size;
    birth_submit(b, &op, STORE_BIRTH_WAIT_ZEROS);
}

static void birth_begin_write(struct store_birth *b)
{
    b->fd = b->op.result_fd;
    b->blocks = aligned_alloc(IO_ALIGN, PIECE_SIZE);
    if (b->blocks == NULL) {
        birth_close(b, ERR_BUSY);
        return;
    }
    memset(b->blocks, 0, PIECE_SIZE);
    b->salt = rand_u64(&b->s->rand);
    store_superblock_encode(
        (struct store_superblock *)b->blocks, b->salt, b->area_blocks, &b->owner);
    birth_write(b);
}

static void birth_go_on_write(struct store_birth *b)
{
    memset(b->blocks, 0, STORE_BLOCK_SIZE);
    if (b->pos < store_file_size(b->area_blocks)) {
        birth_write(b);
    } else {
        birth_submit(b, &(struct io_op){.kind = IO_FSYNC, .fd = b->fd}, STORE_BIRTH_WAIT_SYNC);
    }
}

static void on_birth_op(struct io_op *op)
{
    struct store_birth *b = container_of(op, struct store_birth, op);
    flusher_sync_done(b->flusher, op);
    if (b->state == STORE_BIRTH_WAIT_CLOSE) {
        birth_end(b);
        return;
    }
    if (op->result != ERR_OK) {
        birth_close(b, op->result);
        return;
    }
    switch ((enum store_birth_state)b->state) {
    case STORE_BIRTH_WAIT_OPEN:
        birth_begin_write(b);
        break;
    case STORE_BIRTH_WAIT_ZEROS:
        birth_go_on_write(b);
        break;
    case STORE_BIRTH_WAIT_SYNC:
        sm_move(birth_states, &b->state, STORE_BIRTH_WRITABLE);
        free(b->blocks);
        b->blocks = NULL;
        b->on_step(b->context, ERR_OK);
        break;
    case STORE_BIRTH_WAIT_RENAME:
        birth_submit(
            b, &(struct io_op){.kind = IO_FSYNC_DIR, .path = b->dir}, STORE_BIRTH_WAIT_SYNC_DIR);
        break;
    case STORE_BIRTH_WAIT_SYNC_DIR:
        birth_end(b);
        break;
    case STORE_BIRTH_START:
    case STORE_BIRTH_WRITABLE:
    case STORE_BIRTH_WAIT_CLOSE:
    case STORE_BIRTH_DONE:
    case STORE_BIRTH_STATE_COUNT:
        assert(false && "no op is in flight in these states");
    }
}

void store_birth_begin(struct store_birth *b)
{
    b->fd = -1;
    b->state = STORE_BIRTH_START;
    b->result = ERR_OK;
    b->blocks = NULL;
    b->pos = 0;
    const struct io_op op = {
        .kind = IO_OPEN,
        .path = b->path_new,
        .open_flags =
            IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_TRUNCATE | IO_OPEN_DIRECT,
    };
    birth_submit(b, &op, STORE_BIRTH_WAIT_OPEN);
}

void store_birth_install(struct store_birth *b)
{
    const struct io_op op = {.kind = IO_RENAME, .path = b->path_new, .new_path = b->path};
    birth_submit(b, &op, STORE_BIRTH_WAIT_RENAME);
}

void store_birth_abandon(struct store_birth *b)
{
    assert(b->state == STORE_BIRTH_WRITABLE);
    birth_close(b, ERR_CANCELLED);
}

/* ---- load ---------------------------------------------------------------------------------- */

static const struct sm_state load_states[STORE_LOAD_STATE_COUNT] = {
    [STORE_LOAD_START] = {"START", SM_BIT(STORE_LOAD_WAIT_OPEN)},
    [STORE_LOAD_WAIT_OPEN] = {"WAIT_OPEN",
                              SM_BIT(STORE_LOAD_WAIT_SUPERBLOCK) | SM_BIT(STORE_LOAD_WAIT_CLOSE) |
                                  SM_BIT(STORE_LOAD_DONE)},
    [STORE_LOAD_WAIT_SUPERBLOCK] = {"WAIT_SUPERBLOCK",
                                    SM_BIT(STORE_LOAD_WAIT_AREAS) | SM_BIT(STORE_LOAD_WAIT_CLOSE)},
    [STORE_LOAD_WAIT_AREAS] = {"WAIT_AREAS",
                               SM_BIT(STORE_LOAD_WAIT_AREAS) | SM_BIT(STORE_LOAD_WAIT_CLOSE) |
                                   SM_BIT(STORE_LOAD_DONE)},
    [STORE_LOAD_WAIT_CLOSE] = {"WAIT_CLOSE", SM_BIT(STORE_LOAD_DONE)},
    [STORE_LOAD_DONE] = {"DONE", 0},
};

static void on_load_op(struct io_op *op);

static void load_submit(struct store_load *ld, const struct io_op *op, uint8_t next_state)
{
    sm_move(load_states, &ld->state, next_state);
    ld->op = *op;
    ld->op.on_done = on_load_op;
    io_submit(&ld->s->io, &ld->op);
}

static void load_end(struct store_load *ld)
{
    sm_move(load_states, &ld->state, STORE_LOAD_DONE);
    ld->on_loaded(ld->context, ld->result); /* May be the end of ld. */
}

static void load_fail(struct store_load *ld, enum err result)
{
    ld->result = result;
    if (ld->fd == -1) {
        load_end(ld);
        return;
    }
    load_submit(ld, &(struct io_op){.kind = IO_CLOSE, .fd = ld->fd}, STORE_LOAD_WAIT_CLOSE);
    ld->fd = -1;
}

static void load_read_superblock(struct store_load *ld)
{
    ld->fd = ld->op.result_fd;
    enum err e = io_file_size(&ld->s->io, ld->path, &ld->size);
    if (e != ERR_OK) {
        load_fail(ld, e);
        return;
    }
    ld->superblock = aligned_alloc(IO_ALIGN, STORE_BLOCK_SIZE);
    if (ld->superblock == NULL) {
        load_fail(ld, ERR_BUSY);
        return;
    }
    const struct io_op op = {
        .kind = IO_READ, .fd = ld->fd, .buf = ld->superblock, .size = STORE_BLOCK_SIZE};
    load_submit(ld, &op, STORE_LOAD_WAIT_SUPERBLOCK);
}

static void load_read_areas(struct store_load *ld)
{
    uint64_t left = ld->size - STORE_BLOCK_SIZE - ld->pos;
    if (left == 0) {
        load_end(ld);
        return;
    }
    const struct io_op op = {
        .kind = IO_READ,
        .fd = ld->fd,
        .buf = ld->blocks + ld->pos,
        .size = min_u64(PIECE_SIZE, left),
        .pos = STORE_BLOCK_SIZE + ld->pos,
    };
    ld->pos += op.size;
    load_submit(ld, &op, STORE_LOAD_WAIT_AREAS);
}

static void load_begin_areas(struct store_load *ld)
{
    enum err e = store_superblock_check(ld->superblock, ld->size);
    if (e != ERR_OK) {
        load_fail(ld, e);
        return;
    }
    ld->blocks = aligned_alloc(IO_ALIGN, ld->size - STORE_BLOCK_SIZE);
    if (ld->blocks == NULL) {
        load_fail(ld, ERR_BUSY);
        return;
    }
    load_read_areas(ld);
}

static void on_load_op(struct io_op *op)
{
    struct store_load *ld = container_of(op, struct store_load, op);
    if (ld->state == STORE_LOAD_WAIT_CLOSE) {
        load_end(ld);
        return;
    }
    if (op->result != ERR_OK) {
        /* Only a file cut short by somebody else ends before its size. */
        load_fail(ld, op->result == ERR_EOF ? ERR_CORRUPT : op->result);
        return;
    }
    switch ((enum store_load_state)ld->state) {
    case STORE_LOAD_WAIT_OPEN:
        load_read_superblock(ld);
        break;
    case STORE_LOAD_WAIT_SUPERBLOCK:
        load_begin_areas(ld);
        break;
    case STORE_LOAD_WAIT_AREAS:
        load_read_areas(ld);
        break;
    case STORE_LOAD_START:
    case STORE_LOAD_WAIT_CLOSE:
    case STORE_LOAD_DONE:
    case STORE_LOAD_STATE_COUNT:
        assert(false && "no op is in flight in these states");
    }
}

void store_load_begin(struct store_load *ld)
{
    ld->fd = -1;
    ld->state = STORE_LOAD_START;
    ld->result = ERR_OK;
    ld->superblock = NULL;
    ld->blocks = NULL;
    ld->pos = 0;
    const struct io_op op = {
        .kind = IO_OPEN,
        .path = ld->path,
        .open_flags = IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_DIRECT,
    };
    load_submit(ld, &op, STORE_LOAD_WAIT_OPEN);
}

void store_load_done(struct store_load *ld)
{
    free(ld->superblock);
    free(ld->blocks);
    ld->superblock = NULL;
    ld->blocks = NULL;
}

/* ---- contents ------------------------------------------------------------------------------ */

enum err store_contents_find(const struct store_superblock *sb,
                             uint8_t *blocks,
                             struct store_contents *ret_contents,
                             uint64_t *ret_bad_pos)
{
    struct store_contents c = {.area = 0};
    uint64_t area_size = (uint64_t)sb->area_blocks * STORE_BLOCK_SIZE;
    for (uint32_t i = 0; i < 2; i++) {
        c.areas[i] = store_area_scan(blocks + i * area_size, sb->area_blocks, sb->salt);
    }
    uint32_t bad_block = 0;
    enum err e = store_area_choose(c.areas, &c.area, &bad_block);
    if (e != ERR_OK) {
        *ret_bad_pos =
            store_area_pos(sb->area_blocks, c.area) + (uint64_t)bad_block * STORE_BLOCK_SIZE;
        return e;
    }
    uint8_t *area = blocks + c.area * area_size;
    c.stream = slice_of(area, store_area_join(area, c.areas[c.area].valid_blocks));
    *ret_contents = c;
    return ERR_OK;
}

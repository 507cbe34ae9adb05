/* Transfers that meet another place than they were meant for.
 *
 * A misdirected write takes away what it should have written and destroys what it hits. They come
 * in lives that get quiet: then D covers everything flushed, and all of it has to be there
 * afterwards, or to be reported as damaged, and never to be cut. Misdirected reads pass by
 * themselves: they come at any time once everything is open, and must never be served.
 *
 * Not in these runs: a full disk and failing operations, which end a life before it gets quiet.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "storage/segment_format.h"
#include "storage/store_format.h"

#include "tests/sim/storage_mode.h"

enum {
    WRITES_BEFORE_MAX = 300, /* Of segments, in that life, before one is misdirected. */
    FILES_MAX = 256,
    TRIES_MAX = 8,
    WRITES_MAX = 4, /* Misdirected in one run. */
    NEAR_BLOCKS = 4,
};

static bool has_suffix(const char *path, const char *suffix)
{
    size_t size = strlen(path);
    size_t suffix_size = strlen(suffix);
    return size > suffix_size && strcmp(path + size - suffix_size, suffix) == 0;
}

/* ---- where to ---- */

struct target {
    char path[MISDIRECTED_PATH_SIZE];
    uint64_t size;
};

struct targets {
    struct target all[FILES_MAX];
    size_t count;
    bool has_stores;
};

static void on_file(void *context, const char *path, uint64_t size)
{
    struct targets *t = context;
    bool is_kind = has_suffix(path, ".log") || has_suffix(path, ".index") ||
                   (t->has_stores && has_suffix(path, ".store"));
    if (is_kind && size >= ENTRY_BLOCK_SIZE && t->count < FILES_MAX &&
        strlen(path) < MISDIRECTED_PATH_SIZE) {
        struct target *one = &t->all[t->count++];
        (void)snprintf(one->path, sizeof(one->path), "%s", path);
        one->size = size;
    }
}

/* Blocks of a store that it knows to be durable: what it wrote last cannot be told from a write
 * that a crash tore. */
static bool is_fair_in_store(struct sim *sim, const char *path, uint64_t pos, uint64_t size)
{
    for (uint64_t at = pos; at < pos + size; at += STORE_BLOCK_SIZE) {
        uint8_t block[STORE_BLOCK_SIZE];
        struct store_block_header h;
        enum err e = disk_sim_peek(sim->disk, path, at, block, sizeof(block));
        assert(e == ERR_OK);
        memcpy(&h, block, sizeof(h));
        if (at > 0 && h.index >= h.durable_blocks) {
            return false;
        }
    }
    return true;
}

/* Of a file of size bytes. Half of those in the own file are near misses, where the log is. */
static uint64_t draw_pos(struct sim *sim, uint64_t size, uint64_t near_pos)
{
    uint64_t blocks = size / ENTRY_BLOCK_SIZE;
    uint64_t near = near_pos / ENTRY_BLOCK_SIZE;
    if (near_pos == 0 || rand_one_in(&sim->rand, 2)) {
        return ENTRY_BLOCK_SIZE * rand_below(&sim->rand, blocks);
    }
    uint64_t low = near > NEAR_BLOCKS ? near - NEAR_BLOCKS : 0;
    return ENTRY_BLOCK_SIZE * sim_between(sim, low, near + NEAR_BLOCKS);
}

/* Draws a place of the same file, or of another one. False: none was found. */
static bool draw_place(struct storage_run *run,
                       const char *own_path,
                       const struct io_op *op,
                       struct misdirected *ret)
{
    struct sim *sim = run->sim;
    struct targets *t = calloc(1, sizeof(*t));
    assert(t != NULL);
    t->has_stores = op->kind == IO_WRITE;
    disk_sim_each_file(sim->disk, t, on_file);
    bool is_found = false;
    for (uint32_t i = 0; i < TRIES_MAX && t->count > 0 && !is_found; i++) {
        const struct target *one = &t->all[rand_below(&sim->rand, t->count)];
        const char *path = rand_one_in(&sim->rand, 3) ? one->path : own_path;
        uint64_t size;
        enum err e = disk_sim_file_size(sim->disk, path, &size);
        assert(e == ERR_OK);
        bool is_own = strcmp(path, own_path) == 0;
        uint64_t pos = draw_pos(sim, size, is_own ? op->pos : 0);
        is_found = !(is_own && pos == op->pos) && pos + op->size <= size &&
                   (!has_suffix(path, ".store") || is_fair_in_store(sim, path, pos, op->size));
        if (is_found) {
            (void)snprintf(ret->to, sizeof(ret->to), "%s", path);
            ret->to_pos = pos;
        }
    }
    free(t);
    return is_found;
}

/* ---- the transfers ---- */

static void misdirect(struct storage_run *run, const struct io_op *op, struct disk_sim_op *disk_op)
{
    struct sim *sim = run->sim;
    struct misdirected *m = &run->misdirected;
    if (!disk_sim_op_path(disk_op, m->from, sizeof(m->from)) || !has_suffix(m->from, ".log") ||
        !draw_place(run, m->from, op, m)) {
        return;
    }
    enum err e = disk_sim_misdirect(disk_op, m->to, m->to_pos);
    assert(e == ERR_OK);
    sim_trace(sim, "misdirected", op->pos, m->to_pos);
    sim_say(sim,
            "misdirected %s: from=%s pos=%" PRIu64 " size=%zu to=%s pos=%" PRIu64,
            op->kind == IO_WRITE ? "write" : "read",
            m->from,
            op->pos,
            (size_t)op->size,
            m->to,
            m->to_pos);
    if (op->kind == IO_READ) {
        sim_mark(sim, "sim_misdirected_read");
        return;
    }
    m->count++;
    m->is_now = true;
    bool is_same = strcmp(m->from, m->to) == 0;
    sim_mark(sim, is_same ? "sim_misdirected_write_same_file" : "sim_misdirected_write");
    m->is_store_hit = has_suffix(m->to, ".store");
}

/* Once everything is open: a start that reads wrong bytes may take an entry that nobody knows to be
 * durable for a torn one. */
static bool may_read(const struct storage_run *run)
{
    bool is_disturbed = run->opening_count > 0 || run->misdirected.is_now;
    return !is_disturbed && run->life.end != LIFE_IS_LAST && run->sim->swarm.misread_one_in != 0;
}

static void
on_transfer(struct machine *machine, const struct io_op *op, struct disk_sim_op *disk_op)
{
    struct life *l = container_of(machine, struct life, machine);
    struct storage_run *run = container_of(l, struct storage_run, life);
    struct sim *sim = run->sim;
    struct misdirected *m = &run->misdirected;
    if (op->kind == IO_READ) {
        if (may_read(run) && rand_one_in(&sim->rand, sim->swarm.misread_one_in)) {
            misdirect(run, op, disk_op);
        }
        return;
    }
    if (m->writes_left > 1) {
        m->writes_left--;
    } else if (m->writes_left == 1 && run->opening_count == 0) {
        misdirect(run, op, disk_op);
        m->writes_left = m->is_now ? 0 : 1; /* Else the next one. */
    }
}

void misdirect_begin_life(struct storage_run *run)
{
    struct sim *sim = run->sim;
    struct misdirected *m = &run->misdirected;
    m->is_now = false;
    m->writes_left = 0;
    run->life.machine.on_transfer = on_transfer;
    if (m->count < WRITES_MAX && run->life.end == LIFE_GETS_QUIET &&
        sim_chance(sim, sim->swarm.misdirect_percent)) {
        m->writes_left = (uint32_t)sim_log_between(sim, 1, WRITES_BEFORE_MAX);
    }
}

void misdirect_on_failure(struct storage_run *run)
{
    /* A cut that was under way met what was just destroyed. Nobody knows what of it is done. */
    run->life.is_over |= run->misdirected.is_now;
}

bool misdirect_explains(const struct storage_run *run, enum err e)
{
    return e == ERR_CORRUPT && (run->misdirected.is_now || run->sim->swarm.misread_one_in != 0);
}

bool misdirect_hit_store(const struct storage_run *run)
{
    return run->misdirected.is_store_hit;
}

/* ---- what is lost ---- */

static void wound(struct storage_run *run, const char *path)
{
    for (uint32_t i = 0; i < run->parts_count; i++) {
        struct part *p = &run->parts[i];
        char topic[UUID_TEXT_SIZE];
        uuid_format(&p->id.topic_id, topic);
        if (strstr(path, topic) != NULL) {
            p->model.is_wounded = true;
            sim_say(run->sim, "%s: wounded", p->name);
        }
    }
}

void misdirect_end_life(struct storage_run *run)
{
    struct misdirected *m = &run->misdirected;
    if (!m->is_now) {
        return;
    }
    m->is_now = false;
    sim_check(run->sim,
              run->life.is_quiet || run->life.is_over,
              "a life with a misdirected write did not get quiet");
    wound(run, m->from);
    wound(run, m->to);
}

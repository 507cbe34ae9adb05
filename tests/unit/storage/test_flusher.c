/* The shared flush: who is told what, and when. Goal: nobody is told "durable" without a flush that
 * began after his writes ended; rounds overlap, flushes do not; the first failure is the last thing
 * that happens. Method: clients that write blocks of one file on the simulated disk.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>

#include "storage/flusher.h"

#include "tests/support/sim_shard.h"

enum {
    CLIENTS_MAX = 8,
    BLOCK = 4096,
};

struct rig;

struct client {
    struct flush_client base;
    struct rig *rig;
    int fd;
    struct io_op op;
    uint8_t *block;
    uint64_t pos;
    bool is_lazy;   /* Has nothing to write when it is called. */
    int asks_again; /* So many times, from on_flushed. */
    int writes;
    int flushed;
};

struct rig {
    struct sim_shard ss;
    struct disk_sim *disk;
    struct flusher *f;
    int failures;
    enum err failure;
    int quiet_fd;
    int files[CLIENTS_MAX];
    struct client clients[CLIENTS_MAX];
};

static void on_failed(void *context, enum err e)
{
    struct rig *r = context;
    r->failures++;
    r->failure = e;
}

static void on_written(struct io_op *op)
{
    struct client *c = container_of(op, struct client, op);
    flusher_write_done(c->rig->f, op->result);
}

static void on_write(struct flush_client *base)
{
    struct client *c = container_of(base, struct client, base);
    c->writes++;
    if (c->is_lazy) {
        return;
    }
    c->op = (struct io_op){
        .kind = IO_WRITE,
        .fd = c->fd,
        .buf = c->block,
        .size = BLOCK,
        .pos = c->pos,
        .on_done = on_written,
    };
    flusher_write_started(c->rig->f, c->fd);
    io_submit(&c->rig->ss.s->io, &c->op);
}

static void on_flushed(struct flush_client *base)
{
    struct client *c = container_of(base, struct client, base);
    c->flushed++;
    if (c->asks_again > 0) {
        c->asks_again--;
        flusher_ask(c->rig->f, base);
    }
}

static const struct flush_client_ops CLIENT_OPS = {.write = on_write, .on_flushed = on_flushed};

static int open_file(struct rig *r, const char *path)
{
    static uint8_t zeros[BLOCK * CLIENTS_MAX] __attribute__((aligned(BLOCK)));
    struct io *io = &r->ss.s->io;
    struct io_op op = {
        .kind = IO_OPEN,
        .path = path,
        .open_flags = IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_DIRECT,
    };
    cr_assert(eq(int, io_call(io, &op), ERR_OK));
    int fd = op.result_fd;
    op = (struct io_op){.kind = IO_WRITE, .fd = fd, .buf = zeros, .size = sizeof(zeros)};
    cr_assert(eq(int, io_call(io, &op), ERR_OK));
    op = (struct io_op){.kind = IO_FSYNC, .fd = fd};
    cr_assert(eq(int, io_call(io, &op), ERR_OK));
    op = (struct io_op){.kind = IO_FSYNC_DIR, .path = "/"};
    cr_assert(eq(int, io_call(io, &op), ERR_OK));
    return fd;
}

static struct rig *rig_new(bool is_shared, uint64_t seed)
{
    struct rig *r = calloc(1, sizeof(*r));
    r->disk = sim_disk_new();
    sim_shard_init(&r->ss, r->disk, seed);
    cr_assert(eq(int, io_lock(&r->ss.s->io, "/LOCK", &r->quiet_fd), ERR_OK));
    cr_assert(eq(int,
                 flusher_new(r->ss.s,
                             &(struct flusher_options){.is_shared = is_shared,
                                                       .quiet_fd = r->quiet_fd,
                                                       .context = r,
                                                       .on_failed = on_failed},
                             &r->f),
                 ERR_OK));
    for (int i = 0; i < CLIENTS_MAX; i++) {
        struct client *c = &r->clients[i];
        char path[] = {'/', 'f', (char)('0' + i / 2), 0};
        r->files[i] = i % 2 == 0 ? open_file(r, path) : r->files[i - 1];
        c->rig = r;
        c->fd = r->files[i];
        c->pos = (uint64_t)i * BLOCK;
        c->block = aligned_alloc(BLOCK, BLOCK);
        memset(c->block, 'a' + i, BLOCK);
        flush_client_init(&c->base, &CLIENT_OPS);
    }
    return r;
}

static void rig_free(struct rig *r)
{
    sim_shard_settle(&r->ss);
    flusher_free(r->f);
    for (int i = 0; i < CLIENTS_MAX; i++) {
        free(r->clients[i].block);
        if (i % 2 == 0) {
            struct io_op op = {.kind = IO_CLOSE, .fd = r->files[i]};
            cr_assert(eq(int, io_call(&r->ss.s->io, &op), ERR_OK));
        }
    }
    io_unlock(&r->ss.s->io, r->quiet_fd);
    sim_shard_done(&r->ss);
    disk_sim_free(r->disk);
    free(r);
}

static void ask(struct rig *r, int i)
{
    flusher_ask(r->f, &r->clients[i].base);
}

Test(flusher, clients_of_one_turn_share_one_flush)
{
    struct rig *r = rig_new(true, 1);
    for (int i = 0; i < CLIENTS_MAX; i++) {
        ask(r, i);
        ask(r, i); /* Harmless. */
    }
    cr_assert(eq(int, r->clients[0].writes, 0), "callbacks come from the loop");
    sim_shard_settle(&r->ss);
    for (int i = 0; i < CLIENTS_MAX; i++) {
        cr_assert(eq(int, r->clients[i].writes, 1));
        cr_assert(eq(int, r->clients[i].flushed, 1));
    }
    cr_assert(eq(u64, flusher_stats(r->f)->rounds, 1));
    cr_assert(eq(u64, flusher_stats(r->f)->flushes, 1));
    cr_assert(eq(u64, flusher_stats(r->f)->clients, CLIENTS_MAX));
    cr_assert(flusher_is_idle(r->f));
    rig_free(r);
}

/* A shared flush is of the quiet file alone; a flush for each file is never of it. */
Test(flusher, the_quiet_file_is_flushed_in_place_of_those_written)
{
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        struct rig *r = rig_new(is_shared != 0, 11);
        io_fault_add(&r->ss.io_fault,
                     &(struct io_fault_rule){.kind = IO_FDATASYNC,
                                             .fd = r->quiet_fd,
                                             .at = 2,
                                             .action = IO_FAULT_FAIL,
                                             .code = EIO});
        io_fault_add(
            &r->ss.io_fault,
            &(struct io_fault_rule){.kind = IO_FDATASYNC, .fd = IO_FAULT_ANY, .at = UINT32_MAX});
        for (int i = 0; i < CLIENTS_MAX; i++) {
            ask(r, i);
        }
        sim_shard_settle(&r->ss);
        cr_assert(eq(u32, io_fault_seen(&r->ss.io_fault, 0), is_shared != 0 ? 1 : 0));
        cr_assert(eq(u32, io_fault_seen(&r->ss.io_fault, 1), is_shared != 0 ? 1 : CLIENTS_MAX / 2));
        ask(r, 0);
        sim_shard_settle(&r->ss);
        cr_assert(eq(int, flusher_is_failed(r->f), is_shared != 0), "its failure is the disk's");
        cr_assert(eq(int, r->clients[0].flushed, is_shared != 0 ? 1 : 2));
        rig_free(r);
    }
}

Test(flusher, every_touched_file_is_flushed_once_where_flushes_are_not_shared)
{
    struct rig *r = rig_new(false, 2);
    for (int i = 0; i < CLIENTS_MAX; i++) {
        ask(r, i);
    }
    sim_shard_settle(&r->ss);
    cr_assert(eq(u64, flusher_stats(r->f)->flushes, CLIENTS_MAX / 2));
    cr_assert(eq(int, r->clients[7].flushed, 1));
    rig_free(r);
}

/* What on_flushed promises, with every kind of power loss right after it. */
Test(flusher, what_was_flushed_survives_a_power_loss)
{
    const struct disk_sim_crash nothing_kept = {.is_power_loss = true};
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        struct rig *r = rig_new(is_shared != 0, 3);
        for (int i = 0; i < CLIENTS_MAX; i++) {
            ask(r, i);
        }
        while (r->clients[0].flushed == 0) {
            cr_assert(sim_shard_step(&r->ss));
        }
        disk_sim_crash(r->disk, &r->ss.rand, &nothing_kept);
        for (int i = 0; i < CLIENTS_MAX; i++) {
            uint8_t first;
            char path[] = {'/', 'f', (char)('0' + i / 2), 0};
            cr_assert(eq(int, disk_sim_peek(r->disk, path, (uint64_t)i * BLOCK, &first, 1), 0));
            cr_assert(eq(int, first, 'a' + i));
        }
        /* The descriptors are gone with the crash: nothing left to close. */
        flusher_free(r->f);
        for (int i = 0; i < CLIENTS_MAX; i++) {
            free(r->clients[i].block);
        }
        sim_shard_done(&r->ss);
        disk_sim_free(r->disk);
        free(r);
    }
}

/* While a flush runs the next round writes, and waits; who comes meanwhile joins it. */
Test(flusher, rounds_overlap_and_a_waiting_round_takes_in_late_clients)
{
    struct rig *r = rig_new(true, 4);
    io_fault_add(&r->ss.io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_FDATASYNC, .fd = IO_FAULT_ANY, .at = 1, .action = IO_FAULT_HANG});
    ask(r, 0);
    sim_shard_settle(&r->ss); /* Client 0 is in the hanging flush. */
    ask(r, 1);
    ask(r, 0);
    sim_shard_settle(&r->ss);
    cr_assert(eq(int, r->clients[0].writes, 2));
    cr_assert(eq(int, r->clients[1].writes, 1));
    ask(r, 2);
    ask(r, 1); /* Is in the waiting round: next one. */
    sim_shard_settle(&r->ss);
    cr_assert(eq(int, r->clients[2].writes, 1));
    cr_assert(eq(int, r->clients[1].writes, 1));
    cr_assert(eq(int, r->clients[0].flushed, 0));
    cr_assert(not(flusher_is_idle(r->f)));

    io_fault_release(&r->ss.io_fault);
    sim_shard_settle(&r->ss);
    cr_assert(eq(int, r->clients[0].flushed, 2));
    cr_assert(eq(int, r->clients[1].flushed, 2));
    cr_assert(eq(int, r->clients[2].flushed, 1));
    cr_assert(eq(u64, flusher_stats(r->f)->flushes, 3));
    rig_free(r);
}

Test(flusher, an_ask_while_a_round_writes_is_in_the_next_round)
{
    struct rig *r = rig_new(true, 5);
    io_fault_add(&r->ss.io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_WRITE, .fd = IO_FAULT_ANY, .at = 1, .action = IO_FAULT_HANG});
    ask(r, 0);
    sim_shard_settle(&r->ss);
    ask(r, 1);
    sim_shard_settle(&r->ss);
    cr_assert(eq(int, r->clients[1].writes, 0));
    io_fault_release(&r->ss.io_fault);
    sim_shard_settle(&r->ss);
    cr_assert(eq(int, r->clients[1].flushed, 1));
    cr_assert(eq(u64, flusher_stats(r->f)->rounds, 2));
    rig_free(r);
}

Test(flusher, a_client_with_nothing_to_write_is_told_without_a_flush)
{
    struct rig *r = rig_new(true, 6);
    r->clients[0].is_lazy = true;
    r->clients[0].asks_again = 3;
    ask(r, 0);
    sim_shard_settle(&r->ss);
    cr_assert(eq(int, r->clients[0].flushed, 4));
    cr_assert(eq(u64, flusher_stats(r->f)->flushes, 0));
    rig_free(r);
}

Test(flusher, asking_from_on_flushed_runs_rounds_back_to_back)
{
    struct rig *r = rig_new(true, 7);
    for (int i = 0; i < CLIENTS_MAX; i++) {
        r->clients[i].asks_again = i;
        ask(r, i);
    }
    sim_shard_settle(&r->ss);
    for (int i = 0; i < CLIENTS_MAX; i++) {
        cr_assert(eq(int, r->clients[i].flushed, i + 1));
    }
    cr_assert(eq(u64, flusher_stats(r->f)->rounds, CLIENTS_MAX));
    rig_free(r);
}

Test(flusher, a_withdrawn_ask_is_not_served)
{
    struct rig *r = rig_new(true, 8);
    ask(r, 0);
    ask(r, 1);
    flusher_withdraw(r->f, &r->clients[0].base);
    flusher_withdraw(r->f, &r->clients[2].base); /* Never asked. */
    sim_shard_settle(&r->ss);
    cr_assert(eq(int, r->clients[0].writes, 0));
    cr_assert(eq(int, r->clients[1].flushed, 1));
    rig_free(r);
}

/* A sync of somebody's own that failed may have dropped what a round counts on; a full disk drops
 * nothing, and what is no sync is no business of the flusher. */
Test(flusher, a_failed_sync_of_somebody_else_is_fatal)
{
    static const struct {
        const char *name;
        enum io_kind kind;
        enum err result;
        bool is_fatal;
    } cases[] = {
        {"fsync", IO_FSYNC, ERR_IO, true},
        {"fdatasync", IO_FDATASYNC, ERR_IO, true},
        {"fsync_dir", IO_FSYNC_DIR, ERR_IO, true},
        {"no room", IO_FSYNC, ERR_NO_SPACE, false},
        {"no directory", IO_FSYNC_DIR, ERR_NOT_FOUND, false},
        {"good", IO_FSYNC, ERR_OK, false},
        {"write", IO_WRITE, ERR_IO, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig *r = rig_new(true, i + 1);
        ask(r, 0);
        const struct io_op op = {.kind = cases[i].kind, .result = cases[i].result};
        flusher_sync_done(r->f, &op);
        flusher_sync_done(r->f, &op);
        sim_shard_settle(&r->ss);
        cr_assert(eq(int, r->failures, cases[i].is_fatal ? 1 : 0), "%s", cases[i].name);
        cr_assert(eq(int, flusher_is_failed(r->f), cases[i].is_fatal), "%s", cases[i].name);
        cr_assert(eq(int, r->clients[0].flushed, cases[i].is_fatal ? 0 : 1), "%s", cases[i].name);
        rig_free(r);
    }
}

/* Whichever op fails: reported once, nobody of that round or later is told, nothing is retried. */
Test(flusher, the_first_failure_is_the_last_thing_that_happens)
{
    static const enum io_kind kinds[] = {IO_WRITE, IO_FDATASYNC};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (uint32_t at = 1;; at++) {
            struct rig *r = rig_new(at % 2 == 0, at);
            io_fault_add(&r->ss.io_fault,
                         &(struct io_fault_rule){.kind = (int)kinds[k],
                                                 .fd = IO_FAULT_ANY,
                                                 .at = at,
                                                 .action = IO_FAULT_FAIL,
                                                 .code = EIO});
            for (int i = 0; i < 4; i++) {
                r->clients[i].asks_again = 1;
                ask(r, i);
            }
            sim_shard_settle(&r->ss);
            bool is_hit = r->ss.io_fault.injected > 0;
            cr_assert(eq(int, r->failures, is_hit ? 1 : 0));
            cr_assert(eq(int, flusher_is_failed(r->f), is_hit));
            int flushed = 0;
            for (int i = 0; i < 4; i++) {
                flushed += r->clients[i].flushed;
            }
            if (is_hit) {
                cr_assert(eq(int, r->failure, ERR_IO));
                cr_assert(eq(int, flushed % 4, 0));
                cr_assert(lt(int, flushed, 8));
                uint64_t flushes = flusher_stats(r->f)->flushes;
                ask(r, 5);
                sim_shard_settle(&r->ss);
                cr_assert(eq(int, r->clients[5].writes, 0));
                cr_assert(eq(u64, flusher_stats(r->f)->flushes, flushes));
            } else {
                cr_assert(eq(int, flushed, 8));
            }
            cr_assert(flusher_is_idle(r->f));
            rig_free(r);
            if (!is_hit) {
                break;
            }
        }
    }
}

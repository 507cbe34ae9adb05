/* The store against a plain model: what was reported durable survives every crash, and what
 * survives is the state after some prefix of the changes. Method: the simulated disk, a crash at
 * every step of a run, areas of a few blocks so that snapshots and growth happen all the time.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "storage/flusher.h"
#include "storage/store.h"
#include "storage/store_format.h"
#include "storage/store_merge.h"

#include "tests/support/sim_shard.h"

/* A crash leaves memory behind, as the end of a process would. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

enum {
    LOGS = 4,
    KINDS = 3,
    SUBS = 4,
    CHANGES_MAX = 20000,
};

struct rig {
    struct sim_shard ss;
    struct disk_sim *disk;
    struct flusher *f;
    struct store *st;
    bool is_opened;
    enum err opened;
    int failures;
    enum err failure;
    uint32_t area_blocks;
};

static void on_failed(void *context, enum err e)
{
    struct rig *r = context;
    r->failures++;
    r->failure = e;
}

static void on_opened(void *context, enum err e, struct store *st)
{
    struct rig *r = context;
    r->is_opened = true;
    r->opened = e;
    r->st = st;
}

static void rig_boot(struct rig *r, uint64_t seed)
{
    sim_shard_init(&r->ss, r->disk, seed);
    cr_assert(eq(int,
                 flusher_new(r->ss.s,
                             &(struct flusher_options){
                                 .is_shared = seed % 4 != 0, .context = r, .on_failed = on_failed},
                             &r->f),
                 ERR_OK));
}

static void rig_begin_open(struct rig *r)
{
    r->is_opened = false;
    r->st = NULL;
    struct store_open how = {
        .dir = "",
        .flusher = r->f,
        .context = r,
        .on_opened = on_opened,
        .area_blocks_min = r->area_blocks,
    };
    cr_assert(eq(int, store_open_begin(r->ss.s, &how), ERR_OK));
    cr_assert(not(r->is_opened));
}

static enum err rig_open(struct rig *r)
{
    rig_begin_open(r);
    cr_assert(sim_shard_run_until(&r->ss, &r->is_opened));
    return r->opened;
}

static struct rig *rig_new(uint64_t seed, uint32_t area_blocks)
{
    struct rig *r = calloc(1, sizeof(*r));
    r->disk = sim_disk_new();
    r->area_blocks = area_blocks;
    rig_boot(r, seed);
    return r;
}

static void rig_stop(struct rig *r)
{
    sim_shard_settle(&r->ss);
    store_free(r->st);
    sim_shard_settle(&r->ss);
    flusher_free(r->f);
    cr_assert(eq(u32, disk_sim_open_count(r->disk), 0), "a file stayed open");
    sim_shard_done(&r->ss);
}

static void rig_free(struct rig *r)
{
    rig_stop(r);
    disk_sim_free(r->disk);
    free(r);
}

static struct store_key key_of(int log, uint32_t kind, uint64_t sub)
{
    struct store_key k = {.log.partition = log % 2, .kind = kind, .sub = sub};
    k.log.topic_id.bytes[3] = (uint8_t)(log + 1);
    return k;
}

static void put(struct rig *r, int log, uint32_t kind, uint64_t sub, const char *value)
{
    struct store_key k = key_of(log, kind, sub);
    cr_assert(eq(int, store_put(r->st, &k, slice_of_string(value)), ERR_OK));
}

static void expect(struct rig *r, int log, uint32_t kind, uint64_t sub, const char *value)
{
    struct store_key k = key_of(log, kind, sub);
    struct slice found;
    cr_assert(eq(int, store_get(r->st, &k, &found), value != NULL));
    if (value != NULL) {
        cr_assert(slice_equal_string(found, value), "%s", value);
    }
}

struct waiter {
    struct store_wait wait;
    bool is_durable;
    int order;
    int *counter;
};

static void on_durable(struct store_wait *w)
{
    struct waiter *me = container_of(w, struct waiter, wait);
    me->is_durable = true;
    if (me->counter != NULL) {
        me->order = (*me->counter)++;
    }
}

static void wait_durable(struct rig *r)
{
    struct waiter w = {.wait.on_durable = on_durable};
    store_wait_durable(r->st, &w.wait);
    cr_assert(not(w.is_durable), "never inside the call");
    cr_assert(sim_shard_run_until(&r->ss, &w.is_durable));
}

/* ---- values -------------------------------------------------------------------------------- */

struct seen {
    uint64_t subs[16];
    int count;
};

static void on_value(void *context, uint64_t sub, struct slice value)
{
    struct seen *s = context;
    cr_assert(lt(sz, 0, value.size));
    s->subs[s->count++] = sub;
}

static void on_log(void *context, const struct partition_id *log)
{
    int *count = context;
    cr_assert(lt(int, 0, log->topic_id.bytes[3]));
    (*count)++;
}

Test(store, values_are_found_by_log_kind_and_sub_in_order)
{
    struct rig *r = rig_new(1, 4);
    cr_assert(eq(int, rig_open(r), ERR_OK));
    expect(r, 0, STORE_VOTE, 0, NULL);
    put(r, 0, STORE_SEGMENT, 30, "c");
    put(r, 0, STORE_SEGMENT, 10, "a");
    put(r, 0, STORE_VOTE, 0, "vote");
    put(r, 0, STORE_SEGMENT, 20, "b");
    put(r, 1, STORE_SEGMENT, 99, "other log");
    put(r, 0, STORE_CUT, 1, "cut");
    put(r, 0, STORE_SEGMENT, 20, "bb");
    expect(r, 0, STORE_SEGMENT, 20, "bb");
    expect(r, 0, STORE_SEGMENT, 40, NULL);
    struct seen s = {.count = 0};
    struct store_key k = key_of(0, STORE_SEGMENT, 0);
    store_each(r->st, &k.log, STORE_SEGMENT, &s, on_value);
    cr_assert(eq(int, s.count, 3));
    for (int i = 0; i < 3; i++) {
        cr_assert(eq(u64, s.subs[i], (uint64_t)(i + 1) * 10));
    }
    int logs = 0;
    store_each_log(r->st, &logs, on_log);
    cr_assert(eq(int, logs, 2));

    k.sub = 20;
    cr_assert(eq(int, store_delete(r->st, &k), ERR_OK));
    cr_assert(eq(int, store_delete(r->st, &k), ERR_OK));
    expect(r, 0, STORE_SEGMENT, 20, NULL);
    cr_assert(eq(int, store_delete_log(r->st, &k.log), ERR_OK));
    expect(r, 0, STORE_VOTE, 0, NULL);
    expect(r, 1, STORE_SEGMENT, 99, "other log");
    logs = 0;
    store_each_log(r->st, &logs, on_log);
    cr_assert(eq(int, logs, 1));
    rig_free(r);
}

Test(store, values_survive_a_restart_and_limits_hold)
{
    struct rig *r = rig_new(2, 4);
    static char big[STORE_VALUE_SIZE_MAX + 1];
    struct store_key k = key_of(3, STORE_CHECKPOINT, 1);
    cr_assert(eq(int, rig_open(r), ERR_OK));
    memset(big, 'x', sizeof(big));
    cr_assert(eq(int, store_put(r->st, &k, slice_of(big, sizeof(big))), ERR_TOO_LARGE));
    cr_assert(eq(int, store_put(r->st, &k, slice_of(big, sizeof(big) - 1)), ERR_OK));
    put(r, 0, STORE_VOTE, 0, "one");
    k.sub = 2;
    cr_assert(eq(int, store_put(r->st, &k, slice_of(big, 0)), ERR_OK)); /* Empty, not absent. */
    rig_stop(r);
    rig_boot(r, 3);
    cr_assert(eq(int, rig_open(r), ERR_OK));
    struct slice found;
    cr_assert(store_get(r->st, &k, &found));
    cr_assert(eq(sz, found.size, 0));
    k.sub = 1;
    cr_assert(store_get(r->st, &k, &found));
    cr_assert(slice_equal(found, slice_of(big, sizeof(big) - 1)));
    expect(r, 0, STORE_VOTE, 0, "one");
    rig_free(r);
}

Test(store, waiters_are_told_in_order_and_not_before_the_flush)
{
    struct rig *r = rig_new(5, 4);
    cr_assert(eq(int, rig_open(r), ERR_OK));
    struct waiter w[4];
    int counter = 0;
    uint64_t flushes = flusher_stats(r->f)->flushes;
    for (int i = 0; i < 4; i++) {
        w[i] = (struct waiter){.wait.on_durable = on_durable, .counter = &counter};
        char value[] = {(char)('a' + i), 0};
        put(r, i, STORE_VOTE, 0, value);
        store_wait_durable(r->st, &w[i].wait);
    }
    sim_shard_settle(&r->ss);
    for (int i = 0; i < 4; i++) {
        cr_assert(w[i].is_durable);
        cr_assert(eq(int, w[i].order, i));
    }
    cr_assert(eq(u64, flusher_stats(r->f)->flushes, flushes + 1), "many values, one flush");
    /* Nothing new: no flush, but from the loop. */
    wait_durable(r);
    cr_assert(eq(u64, flusher_stats(r->f)->flushes, flushes + 1));
    /* A value that is there already needs none either. */
    put(r, 0, STORE_VOTE, 0, "a");
    wait_durable(r);
    cr_assert(eq(u64, flusher_stats(r->f)->flushes, flushes + 1));

    struct waiter taken_back = {.wait.on_durable = on_durable};
    put(r, 0, STORE_VOTE, 0, "b");
    store_wait_durable(r->st, &taken_back.wait);
    store_wait_cancel(r->st, &taken_back.wait);
    sim_shard_settle(&r->ss);
    cr_assert(not(taken_back.is_durable));
    rig_free(r);
}

/* ---- crashes ------------------------------------------------------------------------------- */

/* The history of a run: every change, and for each point what the map looked like. Small enough to
 * replay from the start. */
struct change {
    int log;
    uint32_t kind;
    uint64_t sub;
    uint32_t size; /* Of the value; 0 = deleted, UINT32_MAX = the whole log is. */
    uint32_t fill;
};

struct model {
    uint32_t size[LOGS][KINDS][SUBS]; /* 0 = none. */
    uint32_t fill[LOGS][KINDS][SUBS];
};

struct history {
    struct change changes[CHANGES_MAX];
    int count;
    int durable; /* So many first ones were reported durable. */
    struct model base;
};

static void model_apply(struct model *m, const struct change *c)
{
    if (c->size == UINT32_MAX) {
        memset(m->size[c->log], 0, sizeof(m->size[c->log]));
        memset(m->fill[c->log], 0, sizeof(m->fill[c->log]));
        return;
    }
    m->size[c->log][c->kind - 1][c->sub] = c->size;
    m->fill[c->log][c->kind - 1][c->sub] = c->size == 0 ? 0 : c->fill;
}

/* A value that says what it is. */
static void make_value(uint8_t *value, uint32_t size, uint32_t fill)
{
    for (uint32_t i = 0; i < size; i++) {
        value[i] = (uint8_t)(fill >> (8 * (i % 4)));
    }
}

static void model_of_store(struct rig *r, struct model *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (int log = 0; log < LOGS; log++) {
        for (uint32_t kind = 1; kind <= KINDS; kind++) {
            for (uint64_t sub = 0; sub < SUBS; sub++) {
                struct store_key k = key_of(log, kind, sub);
                struct slice found;
                if (!store_get(r->st, &k, &found)) {
                    continue;
                }
                static uint8_t expected[STORE_VALUE_SIZE_MAX];
                uint32_t fill = 0;
                cr_assert(ge(sz, found.size, 4));
                memcpy(&fill, found.data, 4);
                make_value(expected, (uint32_t)found.size, fill);
                cr_assert(slice_equal(found, slice_of(expected, found.size)), "a mixed value");
                ret->size[log][kind - 1][sub] = (uint32_t)found.size;
                ret->fill[log][kind - 1][sub] = fill;
            }
        }
    }
}

static void make_change(struct rig *r, struct history *h, uint32_t size_max)
{
    static uint8_t value[STORE_VALUE_SIZE_MAX];
    struct rand *rand = &r->ss.rand;
    struct change c = {
        .log = (int)rand_below(rand, LOGS),
        .kind = 1 + (uint32_t)rand_below(rand, KINDS),
        .sub = rand_below(rand, SUBS),
        .size = 4 + (uint32_t)rand_below(rand, rand_one_in(rand, 10) ? size_max : 60),
        .fill = (uint32_t)rand_u64(rand),
    };
    struct store_key k = key_of(c.log, c.kind, c.sub);
    enum err e = ERR_OK;
    if (rand_one_in(rand, 30)) {
        c.size = UINT32_MAX;
        e = store_delete_log(r->st, &k.log);
    } else if (rand_one_in(rand, 8)) {
        c.size = 0;
        e = store_delete(r->st, &k);
    } else {
        make_value(value, c.size, c.fill);
        e = store_put(r->st, &k, slice_of(value, c.size));
    }
    cr_assert(eq(int, e, ERR_OK));
    cr_assert(lt(int, h->count, CHANGES_MAX));
    h->changes[h->count++] = c;
}

struct durable_report {
    struct store_wait wait;
    struct history *h;
    int count;
};

static void on_report(struct store_wait *w)
{
    struct durable_report *d = container_of(w, struct durable_report, wait);
    cr_assert(ge(int, d->count, d->h->durable));
    d->h->durable = d->count;
    free(d);
}

/* What the store holds is the base with some number of changes, at least the durable ones. The
 * history starts anew from there. */
static void expect_a_prefix(struct rig *r, struct history *h, uint64_t seed)
{
    struct model found;
    struct model m = h->base;
    model_of_store(r, &found);
    int match = -1;
    for (int i = 0; i <= h->count; i++) {
        if (memcmp(&m, &found, sizeof(m)) == 0 && i >= h->durable) {
            match = i;
        }
        if (i < h->count) {
            model_apply(&m, &h->changes[i]);
        }
    }
    cr_assert(match >= 0, "seed=%lu: %d durable of %d", (unsigned long)seed, h->durable, h->count);
    h->base = found;
    h->count = 0;
    h->durable = 0;
}

/* One life of the store: open, change, crash at some step; the crash may hit the open, too. */
static void live_and_crash(struct rig *r, struct history *h, uint64_t seed, uint32_t size_max)
{
    rig_boot(r, seed);
    uint64_t steps = 1 + rand_below(&r->ss.rand, rand_one_in(&r->ss.rand, 3) ? 30 : 3000);
    rig_begin_open(r);
    bool is_checked = false;
    for (uint64_t i = 0; i < steps; i++) {
        (void)sim_shard_step(&r->ss);
        if (!r->is_opened) {
            continue;
        }
        if (!is_checked) {
            cr_assert(eq(int, r->opened, ERR_OK), "seed=%lu", (unsigned long)seed);
            expect_a_prefix(r, h, seed);
            is_checked = true;
        }
        if (rand_one_in(&r->ss.rand, 4)) {
            make_change(r, h, size_max);
        }
        if (rand_one_in(&r->ss.rand, 16)) {
            struct durable_report *d = calloc(1, sizeof(*d));
            *d = (struct durable_report){.wait.on_durable = on_report, .h = h, .count = h->count};
            store_wait_durable(r->st, &d->wait);
        }
        cr_assert(eq(int, r->failures, 0));
    }
    sim_shard_crash(&r->ss, NULL);
}

static void crash_loop(uint64_t seed, uint32_t area_blocks, uint32_t size_max)
{
    struct rig *r = calloc(1, sizeof(*r));
    struct history *h = calloc(1, sizeof(*h));
    r->disk = sim_disk_new();
    r->area_blocks = area_blocks;
    for (uint64_t life = 0; life < 12; life++) {
        live_and_crash(r, h, seed * 1000 + life, size_max);
    }
    rig_boot(r, seed);
    cr_assert(eq(int, rig_open(r), ERR_OK));
    expect_a_prefix(r, h, seed);
    for (int i = 0; i < 50; i++) {
        make_change(r, h, size_max);
    }
    wait_durable(r);
    h->durable = h->count;
    rig_stop(r);
    rig_boot(r, seed + 1);
    cr_assert(eq(int, rig_open(r), ERR_OK));
    expect_a_prefix(r, h, seed);
    rig_free(r);
    free(h);
}

Test(store, crashes_leave_a_prefix_with_all_that_was_durable)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        crash_loop(seed, 16, 2000);
    }
}

/* Areas of two blocks: snapshots all the time, and growth. */
Test(store, crashes_during_snapshots_and_growth)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        crash_loop(1000 + seed, 2, 200);
        crash_loop(2000 + seed, 2, 6000);
    }
}

/* ---- failures ------------------------------------------------------------------------------ */

/* Whatever op fails: the open ends with that error and everything closed, or the flusher fails once
 * and for all; and what had been durable before is there at the next start. */
static bool fail_op(uint32_t at)
{
    struct rig *r = calloc(1, sizeof(*r));
    struct history *h = calloc(1, sizeof(*h));
    r->disk = sim_disk_new();
    r->area_blocks = 2;
    /* Even runs find a store, odd ones found one. */
    if (at % 2 == 0) {
        rig_boot(r, at);
        cr_assert(eq(int, rig_open(r), ERR_OK));
        expect_a_prefix(r, h, at);
        for (int i = 0; i < 30; i++) {
            make_change(r, h, 300);
        }
        wait_durable(r);
        h->durable = h->count;
        rig_stop(r);
    }
    rig_boot(r, at + 1);
    io_fault_add(&r->ss.io_fault,
                 &(struct io_fault_rule){.kind = IO_FAULT_ANY,
                                         .fd = IO_FAULT_ANY,
                                         .at = 1 + at / 2,
                                         .action = IO_FAULT_FAIL,
                                         .code = EIO});
    enum err e = rig_open(r);
    if (e == ERR_OK) {
        expect_a_prefix(r, h, at);
        for (int i = 0; i < 300 && r->failures == 0; i++) {
            make_change(r, h, 300);
            if (i % 10 == 0) {
                struct durable_report *d = calloc(1, sizeof(*d));
                *d = (struct durable_report){
                    .wait.on_durable = on_report, .h = h, .count = h->count};
                store_wait_durable(r->st, &d->wait);
                sim_shard_settle(&r->ss);
            }
        }
        sim_shard_settle(&r->ss);
    }
    bool is_hit = r->ss.io_fault.injected > 0;
    bool is_reported = e != ERR_OK || r->failures == 1;
    /* Ops nobody depends on: closing, and making a larger file, which is tried again. */
    cr_assert(is_hit || !is_reported);
    cr_assert(le(int, r->failures, 1));
    io_fault_clear(&r->ss.io_fault);
    rig_stop(r);

    rig_boot(r, at + 2);
    cr_assert(eq(int, rig_open(r), ERR_OK));
    expect_a_prefix(r, h, at);
    rig_free(r);
    free(h);
    return is_hit;
}

Test(store, whatever_op_fails_nothing_durable_is_lost)
{
    uint32_t at = 0;
    while (fail_op(at) || fail_op(at + 1)) {
        at++;
    }
    cr_assert(lt(u32, 100, at));
}

static void fill(struct rig *r, int count, char c)
{
    static char value[300];
    memset(value, c, sizeof(value));
    for (int i = 0; i < count; i++) {
        struct store_key k = key_of(i % LOGS, STORE_SEGMENT, (uint64_t)i);
        cr_assert(eq(int, store_put(r->st, &k, slice_of(value, sizeof(value))), ERR_OK));
    }
}

/* A full disk: the store opens and takes what does not add; growth comes when there is room. */
Test(store, a_full_disk_stops_growth_only)
{
    struct rig *r = rig_new(1, 2);
    struct store_stats stats;
    cr_assert(eq(int, rig_open(r), ERR_OK));
    fill(r, 5, 'a');
    wait_durable(r);
    rig_stop(r);
    disk_sim_set_capacity(r->disk, disk_sim_used_size(r->disk));
    rig_boot(r, 2);
    cr_assert(eq(int, rig_open(r), ERR_OK), "opening takes no space");

    struct waiter w = {.wait.on_durable = on_durable};
    fill(r, 40, 'b'); /* More than the areas hold. */
    store_wait_durable(r->st, &w.wait);
    for (int i = 0; i < 3000; i++) {
        (void)sim_shard_step(&r->ss); /* Never settles: it tries to grow again and again. */
    }
    cr_assert(not(w.is_durable));
    struct store_key k = key_of(0, STORE_CHECKPOINT, 1);
    cr_assert(eq(int, store_put(r->st, &k, slice_of_string("more")), ERR_NO_SPACE));
    k = key_of(0, STORE_SEGMENT, 0);
    cr_assert(eq(int, store_put(r->st, &k, slice_of_string("less")), ERR_OK));
    cr_assert(strstr(r->ss.log_text, "store_not_grown") != NULL);
    cr_assert(eq(int, r->failures, 0));

    disk_sim_set_capacity(r->disk, 0);
    cr_assert(sim_shard_run_until(&r->ss, &w.is_durable));
    store_stats(r->st, &stats);
    cr_assert(lt(u64, 0, stats.growths));
    k = key_of(0, STORE_CHECKPOINT, 1);
    cr_assert(eq(int, store_put(r->st, &k, slice_of_string("more")), ERR_OK));
    rig_free(r);
}

/* ---- damage -------------------------------------------------------------------------------- */

static void on_file(void *context, const char *path, uint64_t size)
{
    (void)path;
    *(uint64_t *)context = size;
}

/* Any flipped bit of a store that was quiet for a while: ERR_CORRUPT, with a line that says where,
 * or it hit nothing that counts. Never silence about something lost. */
Test(store, damage_below_what_was_durable_is_reported)
{
    int reported = 0;
    struct rand rand;
    rand_init_seed(&rand, 3);
    for (int round = 0; round < 400; round++) {
        struct rig *r = rig_new(4, 4);
        struct history *h = calloc(1, sizeof(*h));
        uint64_t size = 0;
        cr_assert(eq(int, rig_open(r), ERR_OK));
        expect_a_prefix(r, h, 4);
        for (int i = 0; i < 40; i++) {
            make_change(r, h, 100);
        }
        wait_durable(r);
        h->durable = h->count;
        rig_stop(r); /* Settles: the confirming block is written. */
        disk_sim_each_file(r->disk, &size, on_file);
        uint64_t pos = rand_below(&rand, size);
        cr_assert(
            eq(int,
               disk_sim_flip_bit(r->disk, "/shard-0.store", pos, (uint32_t)rand_below(&rand, 8)),
               ERR_OK));
        rig_boot(r, 5);
        if (rig_open(r) == ERR_OK) {
            expect_a_prefix(r, h, 5);
            rig_stop(r);
        } else {
            cr_assert(eq(int, r->opened, ERR_CORRUPT));
            cr_assert(strstr(r->ss.log_text, "store_corrupt: path=/shard-0.store pos=") != NULL);
            reported++;
            rig_stop(r);
        }
        disk_sim_free(r->disk);
        free(r);
        free(h);
    }
    cr_assert(lt(int, 50, reported));
}

/* Bytes of anything at all are refused or read, never believed. */
Test(store, arbitrary_bytes_are_survived)
{
    struct rand rand;
    rand_init_seed(&rand, 8);
    for (int round = 0; round < 300; round++) {
        struct rig *r = rig_new((uint64_t)round + 1, 4);
        cr_assert(eq(int, rig_open(r), ERR_OK));
        fill(r, 10, 'x');
        wait_durable(r);
        rig_stop(r);
        uint8_t bytes[64];
        for (uint64_t i = 0; i <= rand_below(&rand, 4); i++) {
            rand_bytes(&rand, bytes, sizeof(bytes));
            uint64_t block = rand_below(&rand, 9);
            uint64_t pos =
                block * STORE_BLOCK_SIZE + (rand_one_in(&rand, 2) ? 0 : rand_below(&rand, 4000));
            (void)disk_sim_damage(
                r->disk, "/shard-0.store", pos, bytes, 1 + rand_below(&rand, sizeof(bytes)));
        }
        rig_boot(r, 5);
        enum err e = rig_open(r);
        cr_assert(e == ERR_OK || e == ERR_CORRUPT || e == ERR_NEWER_FORMAT, "%s", err_name(e));
        rig_free(r);
    }
}

/* ---- closing ------------------------------------------------------------------------------- */

static void on_closed(void *context)
{
    *(bool *)context = true;
}

/* A store closed with changes outstanding makes them durable first; after a failed flush it waits
 * for nothing but its own ops. */
Test(store, closing_ends_what_was_begun)
{
    for (int fails = 0; fails < 2; fails++) {
        struct rig *r = rig_new(7, 2);
        bool is_closed = false;
        struct waiter w = {.wait.on_durable = on_durable};
        cr_assert(eq(int, rig_open(r), ERR_OK));
        if (fails == 1) {
            io_fault_add(&r->ss.io_fault,
                         &(struct io_fault_rule){.kind = IO_FDATASYNC,
                                                 .fd = IO_FAULT_ANY,
                                                 .at = 1,
                                                 .action = IO_FAULT_FAIL,
                                                 .code = EIO});
        }
        fill(r, 40, 'a'); /* Needs a larger file, too. */
        store_wait_durable(r->st, &w.wait);
        store_close(r->st, &is_closed, on_closed);
        cr_assert(not(is_closed));
        sim_shard_settle(&r->ss);
        cr_assert(is_closed);
        cr_assert(eq(int, w.is_durable, fails == 0));
        cr_assert(eq(int, r->failures, fails));
        r->st = NULL;
        rig_stop(r);
        rig_boot(r, 8);
        cr_assert(eq(int, rig_open(r), ERR_OK));
        struct store_key k = key_of(3, STORE_SEGMENT, 39);
        struct slice found;
        cr_assert(fails == 1 || store_get(r->st, &k, &found));
        rig_free(r);
    }
}

/* The reserve of a disk in tiers: who may take what is left, when the file system is asked, and
 * what a log makes of it. On the simulated disk.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/space.h"

#include "tests/support/log_rig.h"
#include "tests/support/sim_shard.h"

enum {
    KIB = 1 << 10,
    RESERVE = 64 * KIB,
    MIB = 1 << 20,
};

static void set_free(struct disk_sim *disk, uint64_t size)
{
    disk_sim_set_capacity(disk, disk_sim_used_size(disk) + size);
}

struct rig {
    struct disk_sim *disk;
    struct sim_shard ss;
    struct space space;
};

static struct rig *start(uint64_t reserve_size)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    rig->disk = sim_disk_new();
    sim_shard_init(&rig->ss, rig->disk, 3);
    struct io_op op = {.kind = IO_OPEN,
                       .path = "/file",
                       .open_flags = IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE};
    cr_assert(eq(int, io_call(&rig->ss.s->io, &op), ERR_OK));
    op = (struct io_op){.kind = IO_CLOSE, .fd = op.result_fd};
    cr_assert(eq(int, io_call(&rig->ss.s->io, &op), ERR_OK));
    space_init(&rig->space, rig->ss.s, "/", reserve_size);
    return rig;
}

static void end(struct rig *rig)
{
    sim_shard_done(&rig->ss);
    disk_sim_free(rig->disk);
    free(rig);
}

/* The next turn's time. */
static void pass(struct rig *rig, uint64_t us)
{
    rig->ss.clock.now_us += us;
    (void)shard_turn(rig->ss.s);
}

Test(space, tiers_end_one_after_the_other)
{
    static const struct {
        uint64_t available;
        bool may[SPACE_TIERS_COUNT]; /* 4 KiB. */
    } rows[] = {
        {RESERVE + 4 * KIB, {true, true, true}},
        {RESERVE + 4 * KIB - 1, {false, true, true}},
        {RESERVE / 2 + 4 * KIB, {false, true, true}},
        {RESERVE / 2, {false, false, true}},
        {1, {false, false, true}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig *rig = start(RESERVE);
        set_free(rig->disk, rows[i].available);
        for (int tier = 0; tier < SPACE_TIERS_COUNT; tier++) {
            bool may = space_may_take(&rig->space, (enum space_tier)tier, 4 * KIB);
            cr_assert(eq(int, may, rows[i].may[tier]), "row %zu tier %d", i, tier);
        }
        cr_assert(eq(int, space_is_short(&rig->space), !rows[i].may[SPACE_DATA]));
        end(rig);
    }
}

Test(space, what_is_taken_counts_until_the_file_system_is_asked_again)
{
    struct rig *rig = start(RESERVE);
    set_free(rig->disk, RESERVE + 100 * KIB);
    cr_assert(space_may_take(&rig->space, SPACE_DATA, 100 * KIB));
    space_take(&rig->space, 60 * KIB);
    cr_assert(not(space_may_take(&rig->space, SPACE_DATA, 50 * KIB)));
    pass(rig, SPACE_SAMPLE_US);
    cr_assert(space_may_take(&rig->space, SPACE_DATA, 50 * KIB), "nobody wrote it after all");
    set_free(rig->disk, RESERVE);
    cr_assert(space_may_take(&rig->space, SPACE_DATA, 50 * KIB), "not asked every time");
    pass(rig, SPACE_SAMPLE_US);
    cr_assert(not(space_may_take(&rig->space, SPACE_DATA, 1)));
    end(rig);
}

static int count_lines(const struct rig *rig, const char *event)
{
    int count = 0;
    for (const char *at = rig->ss.log_text; (at = strstr(at, event)) != NULL; at++) {
        count++;
    }
    return count;
}

Test(space, it_is_said_once_and_some_more_has_to_come_back)
{
    struct rig *rig = start(RESERVE);
    set_free(rig->disk, RESERVE);
    for (int i = 0; i < 5; i++) {
        cr_assert(not(space_may_take(&rig->space, SPACE_DATA, 1)));
        pass(rig, SPACE_SAMPLE_US);
    }
    cr_assert(eq(int, count_lines(rig, "disk_full: dir=/ available="), 1), "%s", rig->ss.log_text);
    set_free(rig->disk, RESERVE + 4 * KIB);
    pass(rig, SPACE_SAMPLE_US);
    cr_assert(not(space_may_take(&rig->space, SPACE_DATA, 1)), "or it would be short in turns");
    cr_assert(space_may_take(&rig->space, SPACE_INTERNAL, 1));
    set_free(rig->disk, RESERVE + RESERVE / 8 + 1);
    pass(rig, SPACE_SAMPLE_US);
    cr_assert(space_may_take(&rig->space, SPACE_DATA, 1));
    cr_assert(not(space_is_short(&rig->space)));
    cr_assert(eq(int, count_lines(rig, "disk_has_space: "), 1));
    end(rig);
}

Test(space, without_reserve_only_the_disk_says_no)
{
    struct rig *rig = start(0);
    set_free(rig->disk, 0);
    cr_assert(space_may_take(&rig->space, SPACE_DATA, MIB));
    cr_assert(not(space_is_short(&rig->space)));
    space_exhausted(&rig->space, "fill");
    cr_assert(space_is_short(&rig->space));
    set_free(rig->disk, MIB);
    space_sample(&rig->space);
    cr_assert(not(space_is_short(&rig->space)));
    cr_assert(space_may_take(NULL, SPACE_DATA, UINT64_MAX));
    end(rig);
}

Test(space, default_reserve)
{
    const uint64_t gib = (uint64_t)1 << 30;
    cr_assert(eq(u64, space_reserve_default(64 * MIB), 16 * MIB));
    cr_assert(eq(u64, space_reserve_default(gib), 32 * MIB));
    cr_assert(eq(u64, space_reserve_default(10 * gib), 10 * gib / 50));
    cr_assert(eq(u64, space_reserve_default(1000 * gib), gib));
}

/* ---- a log ---- */

struct log_space {
    struct log_rig rig;
    struct space space;
};

static struct log_space *open_log(enum space_tier tier)
{
    struct log_space *ls = calloc(1, sizeof(*ls));
    log_rig_init(&ls->rig, 5);
    ls->rig.tier = tier;
    log_rig_start(&ls->rig);
    space_init(&ls->space, ls->rig.ss.s, "/data", RESERVE);
    ls->rig.env.space = &ls->space;
    cr_assert(eq(int, log_rig_open(&ls->rig), ERR_OK));
    return ls;
}

static void close_log(struct log_space *ls)
{
    log_rig_stop(&ls->rig);
    log_rig_done(&ls->rig);
    free(ls);
}

/* Appends and lets each become durable, until one is refused. */
static enum err fill_up(struct log_space *ls)
{
    enum err e = ERR_OK;
    for (int i = 0; i < 1000 && e == ERR_OK; i++) {
        e = log_rig_append(&ls->rig, 1, 3000, 1000);
        log_rig_settle(&ls->rig);
        ls->rig.ss.clock.now_us += SPACE_SAMPLE_US;
    }
    return e;
}

Test(space, a_log_stops_at_its_tier_and_goes_on_when_there_is_some_again)
{
    for (int tier = SPACE_DATA; tier <= SPACE_INTERNAL; tier++) {
        struct log_space *ls = open_log((enum space_tier)tier);
        const uint64_t kept = tier == SPACE_DATA ? RESERVE : RESERVE / 2;
        set_free(ls->rig.disk, RESERVE + 200 * KIB);
        const uint64_t capacity = disk_sim_used_size(ls->rig.disk) + RESERVE + 200 * KIB;
        cr_assert(eq(int, fill_up(ls), ERR_NO_SPACE));
        const uint64_t left = capacity - disk_sim_used_size(ls->rig.disk);
        cr_assert(ge(u64, left + 8 * KIB, kept), "tier %d: %lu left", tier, (unsigned long)left);
        cr_assert(le(u64, left, kept + 40 * KIB), "tier %d: %lu left", tier, (unsigned long)left);
        cr_assert(eq(u64, ls->rig.flushed_index, log_last_index(ls->rig.log)), "none is stuck");
        cr_assert(eq(int, ls->rig.failure, ERR_OK));
        disk_sim_set_capacity(ls->rig.disk, 0);
        ls->rig.ss.clock.now_us += SPACE_SAMPLE_US;
        (void)sim_shard_step(&ls->rig.ss);
        cr_assert(eq(int, log_rig_append(&ls->rig, 1, 3000, 1000), ERR_OK), "by itself");
        log_rig_settle(&ls->rig);
        log_rig_expect_readable(&ls->rig, 16 * KIB);
        close_log(ls);
    }
}

/* What was admitted is written, also into the reserve: an append is refused, or becomes durable. */
Test(space, what_was_taken_is_written_however_little_is_left)
{
    for (uint64_t free_kib = 0; free_kib < 60; free_kib += 4) {
        struct log_space *ls = open_log(SPACE_DATA);
        cr_assert(eq(int, log_rig_append(&ls->rig, 1, 100, 1000), ERR_OK));
        log_rig_settle(&ls->rig);
        set_free(ls->rig.disk, RESERVE + free_kib * KIB);
        ls->rig.ss.clock.now_us += SPACE_SAMPLE_US;
        (void)sim_shard_step(&ls->rig.ss);
        enum err e = ERR_OK;
        for (int i = 0; i < 40 && e == ERR_OK; i++) {
            e = log_rig_append(&ls->rig, 1, 5000, 1000);
        }
        for (int i = 0; i < 5000 && ls->rig.flushed_index < log_last_index(ls->rig.log); i++) {
            (void)sim_shard_step(&ls->rig.ss);
        }
        cr_assert(eq(u64, ls->rig.flushed_index, log_last_index(ls->rig.log)),
                  "%lu KiB",
                  (unsigned long)free_kib);
        close_log(ls);
    }
}

/* A segment that is due by its age stays while there is no space for another: what it has room for
 * is taken. */
Test(space, no_roll_by_age_into_the_reserve)
{
    struct log_space *ls = calloc(1, sizeof(*ls));
    log_rig_init(&ls->rig, 5);
    ls->rig.options.segment_age_ms_max = 100;
    log_rig_start(&ls->rig);
    space_init(&ls->space, ls->rig.ss.s, "/data", RESERVE);
    ls->rig.env.space = &ls->space;
    cr_assert(eq(int, log_rig_open(&ls->rig), ERR_OK));
    cr_assert(eq(int, log_rig_append(&ls->rig, 1, 100, 1000), ERR_OK));
    log_rig_settle(&ls->rig);
    set_free(ls->rig.disk, RESERVE);
    ls->rig.ss.clock.now_us += SPACE_SAMPLE_US;
    (void)sim_shard_step(&ls->rig.ss);
    cr_assert(eq(int, log_rig_append(&ls->rig, 1, 100, 1101), ERR_OK));
    cr_assert(eq(u64, log_stats(ls->rig.log)->rolls, 0));
    disk_sim_set_capacity(ls->rig.disk, 0);
    ls->rig.ss.clock.now_us += SPACE_SAMPLE_US;
    (void)sim_shard_step(&ls->rig.ss);
    cr_assert(eq(int, log_rig_append(&ls->rig, 1, 100, 1102), ERR_OK));
    cr_assert(eq(u64, log_stats(ls->rig.log)->rolls, 1));
    log_rig_settle(&ls->rig);
    close_log(ls);
}

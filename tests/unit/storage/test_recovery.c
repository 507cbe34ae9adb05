/* Recovery on a disk that lies like a disk. A naive model knows what was appended and what was
 * acknowledged; after any crash the log must hold a prefix of the former that covers the latter.
 *
 *  - random lives: appends, cuts, reads, rolls, crashes at random moments, also while recovering;
 *  - planted damage at and below D, torn tails above it;
 *  - what recovery refuses.
 * A life that a crash ends leaks its memory, as it does when a process dies.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/segment_format.h"

#include "tests/support/log_rig.h"

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static struct log_rig *rig_new(uint64_t seed)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    return rig;
}

static struct log_rig *rig_open(uint64_t seed)
{
    struct log_rig *rig = rig_new(seed);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    return rig;
}

static void rig_close(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

static void steps(struct log_rig *rig, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        (void)sim_shard_step(&rig->ss);
    }
}

/* ---- random lives ---- */

static void random_append(struct log_rig *rig)
{
    struct rand *r = &rig->ss.rand;
    enum err e;
    if (rand_one_in(r, 10)) {
        e = log_rig_append_other(
            rig, ENTRY_NOOP + (enum entry_type)rand_below(r, 3), rand_below(r, 200));
    } else {
        size_t size = rand_one_in(r, 20) ? rand_below(r, 40 << 10) : rand_below(r, 1500);
        int64_t timestamp = 1000 + (int64_t)rand_below(r, 1000);
        e = log_rig_append(rig, 1 + (uint32_t)rand_below(r, 3), size, timestamp);
    }
    cr_assert(e == ERR_OK || e == ERR_BUSY, "%s", err_name(e));
}

static void random_cut(struct log_rig *rig)
{
    uint64_t last_index = log_last_index(rig->log);
    uint64_t count = rand_below(&rig->ss.rand, last_index < 20 ? last_index + 1 : 20);
    uint64_t index = last_index + 1 - count;
    if (index <= 1 && rand_one_in(&rig->ss.rand, 2)) {
        return;
    }
    cr_assert(eq(int, log_rig_cut(rig, index == 0 ? 1 : index), ERR_OK), "%s", rig->ss.log_text);
    rig->term++;
}

/* Some moves of one life. */
static void live(struct log_rig *rig)
{
    struct rand *r = &rig->ss.rand;
    uint64_t moves = rand_below(r, 60);
    for (uint64_t i = 0; i < moves; i++) {
        switch (rand_below(r, 8)) {
        case 0:
            log_rig_flush(rig);
            break;
        case 1:
            if (rand_one_in(r, 4)) {
                random_cut(rig);
            }
            break;
        case 2:
            steps(rig, rand_below(r, 300));
            break;
        case 3:
            if (rand_one_in(r, 5)) {
                log_rig_settle(rig);
            }
            break;
        default:
            random_append(rig);
            steps(rig, rand_below(r, 8));
            break;
        }
        cr_assert(eq(int, rig->failure, ERR_OK), "%s", rig->ss.log_text);
    }
}

/* Opens, perhaps with crashes on the way. */
static void recover(struct log_rig *rig)
{
    for (int tries = 0; tries < 3; tries++) {
        log_rig_start(rig);
        if (!rand_one_in(&rig->ss.rand, 3)) {
            break;
        }
        log_rig_open_begin(rig);
        steps(rig, rand_below(&rig->ss.rand, 400));
        log_rig_crash(rig, NULL);
        if (tries == 2) {
            log_rig_start(rig);
        }
    }
    cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
    log_rig_expect_recovered(rig);
    cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0), "%s", rig->ss.log_text);
    log_rig_expect_readable(rig, 1 + rand_below(&rig->ss.rand, 100 << 10));
    rig->term++;
}

static void random_lives(uint64_t seed, int lives_count)
{
    struct log_rig *rig = rig_new(seed * 1000);
    struct rand r;
    rand_init_seed(&r, seed);
    rig->shared_options.cache_size_max = rand_one_in(&r, 2) ? 0 : 64 << 20;
    rig->has_decoy = !rand_one_in(&r, 3);
    rig->options.index_interval = rand_one_in(&r, 2) ? 512 : 16 << 10;
    rig->options.segment_size_max = rand_one_in(&r, 2) ? 24 << 10 : 200 << 10;
    rig->options.fill_step_min = rand_one_in(&r, 2) ? 4 << 10 : 32 << 10;
    for (int life = 0; life < lives_count; life++) {
        recover(rig);
        live(rig);
        if (rand_one_in(&r, 5)) {
            log_rig_stop(rig);
            rig->acked_index = rig->model_count;
        } else {
            log_rig_crash(rig, NULL);
        }
    }
    recover(rig);
    rig_close(rig);
}

Test(recovery, random_lives_keep_what_was_acknowledged)
{
    const char *only = getenv("SEED");
    if (only != NULL) {
        random_lives(strtoull(only, NULL, 10), 12);
        return;
    }
    for (uint64_t seed = 1; seed <= 60; seed++) {
        fprintf(stderr, "# seed=%llu\n", (unsigned long long)seed);
        random_lives(seed, 12);
    }
}

/* ---- damage ---- */

enum {
    ENTRIES_COUNT = 10,
};

/* Ten entries of two records each, entry i alone in the block at 4096 * i, all known durable. */
static struct log_rig *rig_with_blocks(uint64_t seed)
{
    struct log_rig *rig = rig_open(seed);
    for (int i = 0; i < ENTRIES_COUNT; i++) {
        cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
        log_rig_flush(rig);
    }
    log_rig_settle(rig);
    log_rig_stop(rig);
    return rig;
}

static void spoil(struct log_rig *rig, uint64_t first_index, uint64_t last_index, uint64_t at)
{
    char path[256];
    log_rig_path(1, ".log", path);
    for (uint64_t index = first_index; index <= last_index; index++) {
        enum err e = disk_sim_flip_bit(rig->disk, path, 4096 * index + at, 3);
        cr_assert(eq(int, e, ERR_OK));
    }
}

/* Block i of the segment has entry i: damage of some begins behind the entry before, and ends where
 * the next one stands. */
static void expect_place(struct log_rig *rig, const struct log_damage *d, const char *event)
{
    const uint64_t block = ENTRY_BLOCK_SIZE;
    cr_assert(eq(u64, d->file.base_index, 1));
    cr_assert(eq(u64, d->file.version, 0));
    cr_assert(lt(u64, (d->first_index - 1) * block, d->pos));
    cr_assert(le(u64, d->pos, d->first_index * block));
    cr_assert(eq(u64, d->end_pos, (d->last_index + 1) * block));
    char path[256];
    char line[512];
    log_rig_path(1, ".log", path);
    (void)snprintf(line,
                   sizeof(line),
                   "%s: log=topic-0 file=%s pos=%llu end_pos=%llu",
                   event,
                   path,
                   (unsigned long long)d->pos,
                   (unsigned long long)d->end_pos);
    cr_assert(strstr(rig->ss.log_text, line) != NULL, "no %s in %s", line, rig->ss.log_text);
}

/* Damage at or below D is never cut: the rest is served and stays, over restarts, too. */
Test(recovery, damage_below_d_is_kept_and_the_rest_is_served)
{
    static const struct {
        const char *what;
        uint64_t first_index;
        uint64_t last_index;
        uint64_t at;
    } rows[] = {
        {"payload", 4, 4, 200},
        {"batch head", 4, 4, 96 + 5},
        {"header", 4, 4, 30},
        {"salt", 4, 4, 8},
        {"first entry", 1, 1, 40},
        {"several", 3, 6, 50},
        {"last but one", 9, 9, 250},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct log_rig *rig = rig_with_blocks(200 + i);
        spoil(rig, rows[i].first_index, rows[i].last_index, rows[i].at);
        uint64_t damaged = rows[i].last_index - rows[i].first_index + 1;
        for (int life = 0; life < 2; life++) {
            log_rig_start(rig);
            cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rows[i].what);
            struct log_damage d;
            cr_assert(eq(sz, log_damage(rig->log, &d, 1), 1), "%s", rows[i].what);
            cr_assert(eq(u64, d.first_index, rows[i].first_index), "%s", rows[i].what);
            cr_assert(eq(u64, d.last_index, rows[i].last_index), "%s", rows[i].what);
            expect_place(rig, &d, "log_damaged");
            cr_assert(eq(u64, rig->replayed_count, rig->model_count - damaged));
            cr_assert(eq(u64, log_last_index(rig->log), rig->model_count));
            for (size_t m = 0; m < rig->model_count; m++) {
                uint8_t dst[4096];
                size_t size;
                const struct rig_entry *e = &rig->model[m];
                enum err expected =
                    e->index >= d.first_index && e->index <= d.last_index ? ERR_CORRUPT : ERR_OK;
                enum err got =
                    log_rig_read(rig, e->base_offset, e->next_offset, dst, sizeof(dst), &size);
                cr_assert(eq(int, got, expected), "%s: index=%d", rows[i].what, (int)e->index);
                cr_assert(expected != ERR_OK || memcmp(dst, e->payload, e->payload_size) == 0);
            }
            cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
            log_rig_flush(rig);
            log_rig_stop(rig);
        }
        log_rig_done(rig);
        free(rig);
    }
}

/* Two entries share a block; the second one gets lost while the log is open, and the third is in
 * memory only. What is read from the disk ends with zeros, as a write does, and memory does not go
 * on from there. */
Test(recovery, a_lost_entry_in_front_of_memory_is_damage)
{
    struct log_rig *rig = rig_open(250);
    cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
    cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
    log_rig_stop(rig);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    char path[256];
    log_rig_path(1, ".log", path);
    const struct rig_entry *first = &rig->model[0];
    uint64_t pos = SEGMENT_HEADER_SIZE + entry_size((uint32_t)first->payload_size);
    static const uint8_t zeros[ENTRY_BLOCK_SIZE];
    uint64_t left = ENTRY_BLOCK_SIZE - pos % ENTRY_BLOCK_SIZE;
    cr_assert(eq(int, disk_sim_damage(rig->disk, path, pos, zeros, left), ERR_OK));
    cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));

    uint8_t dst[4096];
    size_t size;
    const int64_t end = log_next_offset(rig->log);
    cr_assert(eq(int, log_rig_read(rig, 0, end, dst, sizeof(dst), &size), ERR_OK));
    cr_assert(eq(sz, size, first->payload_size), "what comes before the damage");
    enum err e = log_rig_read(rig, first->next_offset, end, dst, sizeof(dst), &size);
    cr_assert(eq(int, e, ERR_CORRUPT));
    rig_close(rig);
}

/* Blocks from on go one down, as one write that goes astray brings them; the last one is as it was
 * before that write. */
static void shift_down(struct log_rig *rig, uint64_t first_block, uint64_t last_block)
{
    uint8_t block[ENTRY_BLOCK_SIZE];
    char path[256];
    log_rig_path(1, ".log", path);
    for (uint64_t b = first_block; b <= last_block; b++) {
        const uint64_t pos = b * ENTRY_BLOCK_SIZE;
        cr_assert(eq(int, disk_sim_peek(rig->disk, path, pos, block, sizeof(block)), ERR_OK));
        const uint64_t to = pos - ENTRY_BLOCK_SIZE;
        cr_assert(eq(int, disk_sim_damage(rig->disk, path, to, block, sizeof(block)), ERR_OK));
    }
    memset(block, 0, sizeof(block));
    const uint64_t last_pos = last_block * ENTRY_BLOCK_SIZE;
    cr_assert(eq(int, disk_sim_damage(rig->disk, path, last_pos, block, sizeof(block)), ERR_OK));
}

/* The last entries in front of a cut stand lower than where they were cut: the log ends there, in
 * front of the cut. What is appended then has to be found by the next start, whether D was
 * persisted meanwhile or not. */
Test(recovery, a_log_that_ends_in_front_of_a_cut_keeps_what_is_appended)
{
    static const struct {
        uint64_t count;
        bool is_quiet;
    } rows[] = {{1, false}, {2, false}, {2, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct log_rig *rig = rig_open(260 + i);
        rig->shared_options.cache_size_max = 0;
        for (int n = 0; n < ENTRIES_COUNT; n++) {
            cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
            log_rig_flush(rig);
        }
        cr_assert(eq(int, log_rig_cut(rig, 9), ERR_OK));
        log_rig_settle(rig);
        log_rig_stop(rig);
        shift_down(rig, 7, 8);

        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        cr_assert(eq(u64, log_last_index(rig->log), 8), "%s", rig->ss.log_text);
        rig->term++;
        for (uint64_t n = 0; n < rows[i].count; n++) {
            cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
            log_rig_flush(rig);
        }
        if (rows[i].is_quiet) {
            log_rig_settle(rig);
        }
        log_rig_crash(rig, &(struct disk_sim_crash){.is_power_loss = true});

        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        struct log_damage d[2];
        cr_assert(eq(u64, log_last_index(rig->log), 8 + rows[i].count), "%s", rig->ss.log_text);
        cr_assert(eq(sz, log_damage(rig->log, d, 2), 1), "%s", rig->ss.log_text);
        cr_assert(eq(u64, d[0].first_index, 6));
        cr_assert(eq(u64, d[0].last_index, 6));
        cr_assert(eq(u64, rig->replayed_count, rig->model_count - 1));
        for (size_t m = 6; m < rig->model_count; m++) {
            uint8_t dst[4096];
            size_t size;
            const struct rig_entry *e = &rig->model[m];
            enum err got =
                log_rig_read(rig, e->base_offset, e->next_offset, dst, sizeof(dst), &size);
            cr_assert(eq(int, got, ERR_OK), "index=%d", (int)e->index);
            cr_assert(memcmp(dst, e->payload, e->payload_size) == 0, "index=%d", (int)e->index);
        }
        rig_close(rig);
    }
}

Test(recovery, damage_of_the_last_entry_refuses_appends)
{
    struct log_rig *rig = rig_with_blocks(300);
    spoil(rig, ENTRIES_COUNT, ENTRIES_COUNT, 20);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    struct log_damage d;
    cr_assert(eq(sz, log_damage(rig->log, &d, 1), 1));
    cr_assert(eq(u64, d.first_index, ENTRIES_COUNT));
    cr_assert(eq(u64, d.last_index, UINT64_MAX));
    cr_assert(eq(u64, log_last_index(rig->log), ENTRIES_COUNT - 1));
    cr_assert(le(u64, d.pos, (uint64_t)ENTRIES_COUNT * ENTRY_BLOCK_SIZE));
    cr_assert(lt(u64, (uint64_t)ENTRIES_COUNT * ENTRY_BLOCK_SIZE, d.end_pos), "what was filled");
    log_rig_expect_readable(rig, 4096);
    cr_assert(eq(int, log_rig_append(rig, 1, 1, 1), ERR_FAILED));
    rig_close(rig);
}

/* ---- accepted losses ---- */

static void keep_last(void *context, const struct log_damage *lost)
{
    *(struct log_damage *)context = *lost;
}

/* A life that accepts what is damaged; then rig is as before. The first index of the end that it
 * cut; 0: it cut none. */
static uint64_t accept_loss(struct log_rig *rig)
{
    rig->is_all_read = true;
    rig->accepts_loss = true;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
    cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0));
    struct log_damage end = {.last_index = UINT64_MAX};
    const bool is_cut = log_lost_end(rig->log, &end);
    cr_assert(eq(u64, end.last_index, UINT64_MAX));
    log_rig_stop(rig);
    rig->is_all_read = false;
    rig->accepts_loss = false;
    return is_cut ? end.first_index : 0;
}

/* Readers at and in front of what is lost get what is behind it, at the next readable batch. */
static void expect_passed(struct log_rig *rig, uint64_t first_index, uint64_t last_index)
{
    for (size_t m = 0; m < rig->model_count; m++) {
        const struct rig_entry *e = &rig->model[m];
        const bool is_lost = e->index >= first_index && e->index <= last_index;
        const struct rig_entry *next = is_lost ? &rig->model[last_index] : e;
        uint8_t dst[4096];
        size_t size;
        enum err got =
            log_rig_read(rig, e->base_offset, next->next_offset, dst, sizeof(dst), &size);
        cr_assert(eq(int, got, ERR_OK), "index=%d", (int)e->index);
        cr_assert(eq(sz, size, next->payload_size), "index=%d", (int)e->index);
        cr_assert(memcmp(dst, next->payload, size) == 0, "index=%d", (int)e->index);
    }
}

Test(recovery, an_accepted_loss_is_passed_by_readers_and_remembered)
{
    static const struct {
        const char *what;
        uint64_t first_index;
        uint64_t last_index;
        uint64_t at;
    } rows[] = {
        {"payload", 4, 4, 200},
        {"header", 4, 4, 30},
        {"first entry", 1, 1, 40},
        {"several", 3, 6, 50},
        {"last but one", 9, 9, 250},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct log_rig *rig = rig_with_blocks(400 + i);
        spoil(rig, rows[i].first_index, rows[i].last_index, rows[i].at);
        cr_assert(eq(u64, accept_loss(rig), 0));
        for (int life = 0; life < 2; life++) {
            log_rig_start(rig);
            cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rows[i].what);
            cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0), "%s", rows[i].what);
            struct log_damage lost = {0};
            log_each_loss(rig->log, &lost, keep_last);
            cr_assert(eq(u64, lost.first_index, rows[i].first_index), "%s", rows[i].what);
            cr_assert(eq(u64, lost.last_index, rows[i].last_index), "%s", rows[i].what);
            expect_place(rig, &lost, "log_loss_accepted");
            cr_assert(eq(u64, log_shared_stats(rig->shared)->losses, 1), "%s", rows[i].what);
            cr_assert(strstr(rig->ss.log_text, "log_loss_accepted") != NULL);
            cr_assert(strstr(rig->ss.log_text, "log_damaged") == NULL);
            expect_passed(rig, rows[i].first_index, rows[i].last_index);
            cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
            log_rig_flush(rig);
            log_rig_stop(rig);
        }
        log_rig_done(rig);
        free(rig);
    }
}

/* What rots after that was never accepted: behind the loss, or in front of it. There the walk comes
 * back to a header inside of the loss, which is told again. */
Test(recovery, damage_beside_an_accepted_loss_is_refused_again)
{
    static const struct {
        uint64_t index;
        size_t damages_count;
    } rows[] = {{3, 2}, {5, 1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct log_rig *rig = rig_with_blocks(420 + i);
        spoil(rig, 4, 4, 200);
        (void)accept_loss(rig);
        spoil(rig, rows[i].index, rows[i].index, 200);
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        struct log_damage d;
        cr_assert(eq(sz, log_damage(rig->log, &d, 1), rows[i].damages_count));
        cr_assert(eq(u64, d.first_index, rows[i].index));
        uint8_t dst[4096];
        size_t size;
        const struct rig_entry *e = &rig->model[rows[i].index - 1];
        cr_assert(eq(int,
                     log_rig_read(rig, e->base_offset, e->next_offset, dst, sizeof(dst), &size),
                     ERR_CORRUPT));
        log_rig_stop(rig);
        (void)accept_loss(rig);
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0));
        rig_close(rig);
    }
}

/* Nothing can be read behind the damage: accepted, the log ends in front of it, and goes on. */
Test(recovery, an_accepted_hidden_end_is_cut)
{
    struct log_rig *rig = rig_with_blocks(430);
    spoil(rig, ENTRIES_COUNT - 1, ENTRIES_COUNT, 20);
    cr_assert(eq(u64, accept_loss(rig), ENTRIES_COUNT - 1));
    cr_assert(eq(u64, accept_loss(rig), 0), "it is done");
    log_rig_model_cut(rig, ENTRIES_COUNT - 1);
    rig->acked_index = ENTRIES_COUNT - 2;
    rig->term++;
    for (int life = 0; life < 2; life++) {
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
        cr_assert(eq(int, log_is_end_unknown(rig->log), false));
        cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0));
        log_rig_expect_readable(rig, 4096);
        cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
        log_rig_flush(rig);
        log_rig_expect_readable(rig, 4096);
        log_rig_stop(rig);
    }
    log_rig_done(rig);
    free(rig);
}

/* A hidden end in front of an older loss takes that with it: what is appended then may stand where
 * the old one was. */
Test(recovery, a_cut_in_front_of_an_accepted_loss_forgets_it)
{
    struct log_rig *rig = rig_with_blocks(440);
    spoil(rig, 5, 5, 20);
    (void)accept_loss(rig);
    spoil(rig, 3, ENTRIES_COUNT, 24);
    (void)accept_loss(rig);
    log_rig_model_cut(rig, 3);
    rig->acked_index = 2;
    rig->term++;
    for (int life = 0; life < 2; life++) {
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
        cr_assert(eq(u64, log_shared_stats(rig->shared)->losses, 0));
        for (int n = 0; n < 8; n++) {
            cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
            log_rig_flush(rig);
        }
        log_rig_expect_readable(rig, 4096);
        log_rig_stop(rig);
    }
    log_rig_done(rig);
    free(rig);
}

/* A cut just behind a loss keeps all of that, and what is appended then is not jumped over. */
Test(recovery, a_cut_behind_an_accepted_loss_keeps_it)
{
    struct log_rig *rig = rig_with_blocks(445);
    spoil(rig, 4, 4, 200);
    (void)accept_loss(rig);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
    cr_assert(eq(int, log_rig_cut(rig, 5), ERR_OK));
    for (int life = 0; life < 2; life++) {
        for (int n = 0; n < 4; n++) {
            cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
            log_rig_flush(rig);
        }
        const uint64_t last_index = log_last_index(rig->log);
        cr_assert(eq(u64, last_index, rig->model_count));
        cr_assert(eq(u64, log_shared_stats(rig->shared)->losses, 1));
        expect_passed(rig, 4, 4);
        log_rig_stop(rig);
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
        cr_assert(eq(u64, log_last_index(rig->log), last_index), "life=%d", life);
    }
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

/* Only a look: what is damaged stays so. */
Test(recovery, reading_all_accepts_nothing)
{
    struct log_rig *rig = rig_with_blocks(450);
    spoil(rig, 4, 4, 200);
    for (int life = 0; life < 2; life++) {
        rig->is_all_read = life == 0;
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 1));
        log_rig_stop(rig);
    }
    log_rig_done(rig);
    free(rig);
}

/* A hole whose first bytes were told again stands over the place of a cut: it goes with what was
 * cut, and hides nothing that is appended there. */
Test(recovery, an_accepted_loss_that_reaches_over_a_cut_is_forgotten)
{
    struct log_rig *rig = rig_with_blocks(440);
    rig->options.index_interval = 1;
    spoil(rig, 8, 8, 200);
    cr_assert(eq(u64, accept_loss(rig), 0));
    spoil(rig, 7, 7, 200);
    spoil(rig, 9, ENTRIES_COUNT, 20);
    cr_assert(eq(u64, accept_loss(rig), 8));
    log_rig_model_cut(rig, 8);
    rig->acked_index = 7;
    rig->term++;
    for (int life = 0; life < 2; life++) {
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
        cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0));
        struct log_damage lost = {0};
        log_each_loss(rig->log, &lost, keep_last);
        cr_assert(eq(u64, lost.first_index, 7));
        cr_assert(eq(u64, lost.last_index, 7));
        cr_assert(eq(u64, log_shared_stats(rig->shared)->losses, 1));
        cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
        log_rig_flush(rig);
        expect_passed(rig, 7, 7);
        log_rig_stop(rig);
    }
    log_rig_done(rig);
    free(rig);
}

/* A read that meets damage that no start has seen says where it is. */
static void expect_read_refused(struct log_rig *rig, uint64_t index)
{
    const struct rig_entry *e = &rig->model[index - 1];
    uint8_t dst[4096];
    size_t size;
    const enum err got = log_rig_read(rig, e->base_offset, e->next_offset, dst, sizeof(dst), &size);
    cr_assert(eq(int, got, ERR_CORRUPT));
    char path[256];
    char line[512];
    log_rig_path(1, ".log", path);
    (void)snprintf(line,
                   sizeof(line),
                   "log_read_corrupt: log=topic-0 file=%s pos=%llu fault=payload index=%llu "
                   "first_offset=%lld next_offset=%lld",
                   path,
                   (unsigned long long)index * ENTRY_BLOCK_SIZE,
                   (unsigned long long)index,
                   (long long)e->base_offset,
                   (long long)e->next_offset);
    cr_assert(strstr(rig->ss.log_text, line) != NULL, "no %s in %s", line, rig->ss.log_text);
}

/* A start does not read what a checkpoint covers; the life that accepts does. The checkpoint stays
 * good, and what was accepted is known without reading it. */
Test(recovery, a_loss_below_a_checkpoint_is_found_and_passed)
{
    struct log_rig *rig = rig_new(460);
    rig->options.checkpoint_size = 1 << 20;
    rig->shared_options.cache_size_max = 0;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    for (int i = 0; i < ENTRIES_COUNT; i++) {
        cr_assert(eq(int, log_rig_append(rig, 2, 100, 1000), ERR_OK));
        log_rig_flush(rig);
    }
    log_set_commit(rig->log, log_flushed_index(rig->log));
    log_checkpoint_ask(rig->log);
    log_rig_settle(rig);
    const uint64_t covered = log_checkpoint_index(rig->log);
    cr_assert(lt(u64, 4, covered), "%s", rig->ss.log_text);
    log_rig_stop(rig);
    spoil(rig, 4, 4, 200);
    for (int life = 0; life < 2; life++) {
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0), "nobody looked");
        cr_assert(eq(u64, rig->restored_index, covered));
        if (life == 1) {
            expect_passed(rig, 4, 4);
        } else {
            expect_read_refused(rig, 4);
        }
        log_rig_stop(rig);
        (void)accept_loss(rig);
    }
    log_rig_done(rig);
    free(rig);
}

Test(recovery, state_that_must_be_replayed_is_not_opened_across_damage)
{
    struct log_rig *rig = rig_with_blocks(301);
    spoil(rig, 4, 4, 200);
    rig->is_replay_strict = true;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_CORRUPT));
    cr_assert(eq(u64, rig->replayed_count, 3));
    rig_close(rig);
}

/* The same bad bytes, but nobody knew the entry to be durable: a torn write. It goes, with what
 * follows it, and never comes back. */
Test(recovery, a_bad_entry_above_d_is_cut)
{
    for (uint64_t at = 8; at < 300; at += 60) {
        struct log_rig *rig = rig_with_blocks(400 + at);
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        /* Entries that are written but never flushed: their headers name D = 10. */
        io_fault_add(&rig->ss.io_fault,
                     &(struct io_fault_rule){
                         .kind = IO_FDATASYNC,
                         .fd = IO_FAULT_ANY,
                         .at = 1,
                         .count = UINT32_MAX,
                         .action = IO_FAULT_HANG,
                     });
        for (int i = 0; i < 3; i++) {
            cr_assert(eq(int, log_rig_append(rig, 1, 3900, 1000), ERR_OK));
        }
        steps(rig, 300);
        uint64_t flushed_index = log_flushed_index(rig->log);
        log_rig_crash(rig, &(struct disk_sim_crash){.is_power_loss = true, .keep_sector = 100});
        cr_assert(eq(u64, flushed_index, ENTRIES_COUNT));
        spoil(rig, ENTRIES_COUNT + 1, ENTRIES_COUNT + 1, at);
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        log_rig_expect_recovered(rig);
        cr_assert(eq(u64, log_last_index(rig->log), ENTRIES_COUNT));
        cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0));
        cr_assert(eq(u64, log_stats(rig->log)->cuts, 1), "%s", rig->ss.log_text);
        cr_assert(eq(int, log_rig_append(rig, 1, 10, 1000), ERR_OK));
        log_rig_flush(rig);
        log_rig_stop(rig);
        log_rig_start(rig);
        rig->acked_index = rig->model_count;
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        log_rig_expect_recovered(rig);
        log_rig_expect_readable(rig, 8192);
        rig_close(rig);
    }
}

/* The manifest says the same as the header block, so that a bad one is only worth a line. */
Test(recovery, a_bad_header_block_is_reported_and_survived)
{
    struct log_rig *rig = rig_with_blocks(304);
    char path[256];
    log_rig_path(1, ".log", path);
    cr_assert(eq(int, disk_sim_flip_bit(rig->disk, path, 17, 1), ERR_OK));
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    log_rig_expect_recovered(rig);
    cr_assert(strstr(rig->ss.log_text, "log_segment_header_bad") != NULL);
    rig_close(rig);
}

Test(recovery, a_missing_segment_is_refused)
{
    struct log_rig *rig = rig_with_blocks(302);
    log_rig_start(rig);
    char path[256];
    log_rig_path(1, ".log", path);
    struct io_op op = {.kind = IO_UNLINK, .path = path};
    cr_assert(eq(int, io_call(&rig->ss.s->io, &op), ERR_OK));
    cr_assert(eq(int, log_rig_open(rig), ERR_CORRUPT));
    cr_assert(strstr(rig->ss.log_text, "log_segment_missing") != NULL);
    rig_close(rig);
}

/* D without a manifest: a log that was written, and whose files must not be taken for leftovers. */
Test(recovery, a_missing_manifest_is_refused_and_removes_nothing)
{
    struct log_rig *rig = rig_with_blocks(303);
    log_rig_start(rig);
    struct store_key key = {.log = log_rig_id(), .kind = STORE_SEGMENT, .sub = 1};
    cr_assert(eq(int, store_delete(rig->store, &key), ERR_OK));
    cr_assert(eq(int, log_rig_open(rig), ERR_CORRUPT));
    cr_assert(strstr(rig->ss.log_text, "log_manifest_missing") != NULL);
    char path[256];
    uint64_t size;
    log_rig_path(1, ".log", path);
    cr_assert(eq(int, disk_sim_file_size(rig->disk, path, &size), ERR_OK));
    rig_close(rig);
}

static void make_file(struct log_rig *rig, const char *path)
{
    struct io_op op = {
        .kind = IO_OPEN,
        .path = path,
        .open_flags = IO_OPEN_WRITE | IO_OPEN_CREATE,
    };
    cr_assert(eq(int, io_call(&rig->ss.s->io, &op), ERR_OK));
    op = (struct io_op){.kind = IO_CLOSE, .fd = op.result_fd};
    cr_assert(eq(int, io_call(&rig->ss.s->io, &op), ERR_OK));
}

Test(recovery, leftovers_are_removed)
{
    struct log_rig *rig = rig_with_blocks(303);
    log_rig_start(rig);
    char segment[256];
    char index[256];
    char tmp[256];
    log_rig_path(77, ".log", segment);
    log_rig_path(77, ".index", index);
    log_rig_path(1, ".log", tmp);
    strcpy(strrchr(tmp, '/'), "/next.tmp");
    const char *paths[] = {segment, index, tmp};
    for (size_t i = 0; i < 3; i++) {
        make_file(rig, paths[i]);
    }
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    log_rig_expect_recovered(rig);
    for (size_t i = 0; i < 3; i++) {
        uint64_t size;
        enum err e = disk_sim_file_size(rig->disk, paths[i], &size);
        cr_assert(eq(int, e, ERR_NOT_FOUND), "%s", paths[i]);
    }
    rig_close(rig);
}

/* {D, commit} of a quiet log is in the store within 10 ms. */
Test(recovery, a_quiet_logs_d_is_persisted)
{
    struct log_rig *rig = rig_open(11);
    cr_assert(eq(int, log_rig_append(rig, 1, 10, 1000), ERR_OK));
    cr_assert(eq(int, log_rig_append(rig, 1, 10, 1000), ERR_OK));
    log_rig_flush(rig);
    log_set_commit(rig->log, 2);
    log_rig_settle(rig);
    cr_assert(ge(u64, log_shared_stats(rig->shared)->quiet_persisted, 1));
    log_rig_crash(rig, &(struct disk_sim_crash){.is_power_loss = true});
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    log_rig_expect_recovered(rig);
    cr_assert(eq(u64, log_shared_stats(rig->shared)->quiet_persisted, 0), "nothing new to persist");
    rig_close(rig);
}

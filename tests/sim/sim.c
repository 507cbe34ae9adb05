#include "tests/sim/sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/ids.h"

const char *sim_mode_name(enum sim_mode mode)
{
    static const char *const names[] = {
        [SIM_ANY] = "any",
        [SIM_BROKER] = "broker",
        [SIM_STORAGE] = "storage",
        [SIM_GROUPS] = "groups",
    };
    return names[mode];
}

static void on_mark(struct reached *r, const char *name)
{
    struct sim *sim = (struct sim *)((char *)r - offsetof(struct sim, reached));
    if (sim_has_mark(sim, name)) {
        return;
    }
    assert(sim->marks_count < SIM_MARKS_MAX);
    sim->marks[sim->marks_count++] = name;
}

void sim_init(struct sim *sim, uint64_t seed, enum sim_mode mode)
{
    memset(sim, 0, sizeof(*sim));
    sim->seed = seed;
    rand_init_seed(&sim->rand, seed);
    enum sim_mode drawn = rand_one_in(&sim->rand, 4) ? SIM_STORAGE : SIM_BROKER;
    sim->mode = mode == SIM_ANY ? drawn : mode;
    sim->reached.hit = on_mark;
    sim->crash_at_step = UINT64_MAX;
    sim_draw_swarm(sim);
    clock_init_sim(&sim->clock, 1000 * 1000, 1700000000000);
    sim->disk =
        disk_sim_new(&(struct disk_sim_options){.is_direct_capable = true,
                                                .is_flush_shared = sim->swarm.is_flush_shared,
                                                .are_roots_volumes = true});
}

void sim_done(struct sim *sim)
{
    sim->trace = hash_bytes(sim->trace, &sim->clock.now_us, sizeof(sim->clock.now_us));
    uint64_t disk = disk_sim_hash(sim->disk);
    sim->trace = hash_bytes(sim->trace, &disk, sizeof(disk));
    disk_sim_free(sim->disk);
}

bool sim_chance(struct sim *sim, uint32_t percent)
{
    return rand_below(&sim->rand, 100) < percent;
}

uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high)
{
    assert_cmp(low, <=, high);
    return low + rand_below(&sim->rand, high - low + 1);
}

uint64_t sim_log_between(struct sim *sim, uint64_t low, uint64_t high)
{
    assert(low <= high);
    uint64_t range = high - low;
    uint64_t bits = range == 0 ? 0 : (uint64_t)(64 - __builtin_clzll(range));
    uint64_t exponent = rand_below(&sim->rand, bits + 1);
    uint64_t top = exponent >= bits ? range : (UINT64_C(1) << exponent) - 1;
    return sim_between(sim, low, low + top);
}

static uint64_t pick(struct sim *sim, const uint64_t *values, size_t count)
{
    return values[rand_below(&sim->rand, count)];
}

#define PICK(sim, ...)                    \
    pick((sim),                           \
         (const uint64_t[]){__VA_ARGS__}, \
         sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void draw_faults(struct sim *sim)
{
    struct sim_swarm *w = &sim->swarm;
    w->is_flush_shared = sim_chance(sim, 85);
    w->short_one_in = (uint32_t)PICK(sim, 0, 0, 50);
    w->slow_one_in = (uint32_t)PICK(sim, 0, 0, 100);
    w->sync_fail_one_in = sim_chance(sim, 10) ? 300 : 0;
    w->write_fail_one_in = sim_chance(sim, 5) ? 1000 : 0;
    w->read_fail_one_in = sim_chance(sim, 10) ? 100 : 0;
    w->sync_us_max = (uint32_t)PICK(sim, 100, 1000, 1000, 5000);
    w->transfer_us_max = (uint32_t)PICK(sim, 50, 200, 1000);
    w->index_rot_percent = sim_chance(sim, 50) ? 40 : 0;
    w->vote_loss_percent = sim_chance(sim, 5) ? 30 : 0;
    w->rot_percent = sim_chance(sim, 20) ? 100 : 0;
    w->capacity_size = sim_chance(sim, 10) ? sim_between(sim, 1 << 20, 4 << 20) : 0;
}

/* Many cuts and deletions, and power losses that mangle what is written over their leftovers. */
static void seek_leftovers(struct sim_swarm *w)
{
    w->cut_weight = 80;
    w->delete_weight = 20;
    w->crash_soon_percent = 80;
    w->mangle_percent = 80;
    w->steps_per_life /= 3; /* Such lives are short, and there are many of them. */
    w->crashes_max *= 4;
}

/* Files that are used again at once, and reads that take so long that they see it if their file was
 * not kept for them. */
static void seek_reuse(struct sim_swarm *w)
{
    w->segment_size_max = 32 << 10;
    w->recycle_size_max = 1 << 20;
    w->cache_size_max = 0;
    w->ahead_size_max = 0;
    w->checkpoint_size = 0;
    w->slow_one_in = 0;
    w->slow_read_one_in = 4;
    w->start_weight = 40;
    w->cut_weight = 0;
    w->compacted_percent = 0;
    w->record_size_max = 300;
    w->pause_us_max = 5000;
    w->capacity_size = 0;
}

/* Misdirected writes in lives that get quiet, which only misdirected transfers may disturb. */
static void seek_wrong_places(struct sim_swarm *w)
{
    w->misdirect_percent = 100;
    w->quiet_percent = 40;
    w->sync_fail_one_in = 0;
    w->write_fail_one_in = 0;
    w->read_fail_one_in = 0;
    w->capacity_size = 0;
}

/* Logs that are compacted again and again, over few keys: tombstones and markers see several runs,
 * and live long enough to be dropped. */
static void seek_compaction(struct sim_swarm *w)
{
    w->compacted_percent = 100;
    w->keys_count = SIM_KEYS_MAX; /* What they end stays for a while. */
    w->keys_size_max = 1 << 20;
    w->tombstone_percent = 30;
    w->transaction_percent = 30;
    w->segment_age_ms = 20;
    w->segment_jitter_ms = 0;
    w->cut_weight = 0;
    w->commit_weight = 48;
    w->start_weight /= 4;
    w->record_size_max = 20;
    w->batch_records_max = 5;
    w->partitions = 1;
    w->pause_us_max = 5000;
    w->crashes_max = 3;
}

static void draw_clients(struct sim *sim)
{
    struct sim_swarm *w = &sim->swarm;
    w->overtake_one_in = (uint32_t)PICK(sim, 0, 0, 5, 20);
    w->cut_connection_one_in = (uint32_t)PICK(sim, 0, 50, 300);
    w->alter_percent = (uint32_t)PICK(sim, 0, 10, 30, 60);
    w->grow_percent = (uint32_t)PICK(sim, 0, 10, 30);
    w->defaults_percent = (uint32_t)PICK(sim, 0, 0, 10, 30);
    w->session_percent = (uint32_t)PICK(sim, 0, 50, 95, 100);
    w->sessions_max = (uint32_t)PICK(sim, 0, 1, 2, 1000, 1000, 1000);
}

void sim_draw_swarm(struct sim *sim)
{
    struct sim_swarm *w = &sim->swarm;
    draw_faults(sim);
    w->shards_max = (uint16_t)sim_between(sim, 1, 3);
    w->crashes_max = (uint32_t)sim_between(sim, 3, 10);
    w->steps_per_life = PICK(sim, 1500, 3000, 3000, 5000);
    w->clean_stop_percent = (uint32_t)PICK(sim, 0, 10, 30, 60);
    w->segment_size_max = PICK(sim, 32 << 10, 64 << 10, 64 << 10, 256 << 10);
    w->fill_step_min = (uint32_t)PICK(sim, 4 << 10, 8 << 10, 16 << 10);
    w->fill_step_max = w->fill_step_min * (uint32_t)PICK(sim, 1, 4);
    w->index_interval = (uint32_t)PICK(sim, 4 << 10, 8 << 10);
    w->memory_size = (size_t)PICK(sim, 16 << 20, 64 << 20);
    w->cache_size_max = (size_t)PICK(sim, 0, 64 << 10, 1 << 20);
    w->partitions_extra = sim_chance(sim, 4) ? 250 : 0;
    w->crowd_size = sim_chance(sim, 10) ? 24 : 0;
    w->partitions = (uint32_t)sim_between(sim, 1, 5);
    w->record_size_max = (uint32_t)PICK(sim, 20, 60, 60, 300);
    w->batch_records_max = (uint32_t)PICK(sim, 20, 60, 60, 150);
    w->large_one_in = (uint32_t)PICK(sim, 0, 200);
    w->cut_weight = (uint32_t)PICK(sim, 0, 12, 40);
    w->delete_weight = (uint32_t)PICK(sim, 0, 0, 2);
    w->commit_weight = (uint32_t)PICK(sim, 6, 48, 48);
    w->start_weight = (uint32_t)PICK(sim, 0, 4, 20);
    w->compacted_percent = (uint32_t)PICK(sim, 0, 0, 50, 100);
    w->keys_count = (uint32_t)PICK(sim, 2, 10, SIM_KEYS_MAX);
    w->keys_size_max = (uint32_t)PICK(sim, 24 * 16, 1 << 20);
    w->tombstone_percent = (uint32_t)PICK(sim, 5, 30);
    w->transaction_percent = (uint32_t)PICK(sim, 0, 30);
    w->pause_us_max = PICK(sim, 100, 1000, 5000);
    draw_clients(sim);
    w->store_area_blocks = (uint32_t)PICK(sim, 0, 2, 4, 16);
    w->mangle_percent = (uint32_t)PICK(sim, 0, 0, 80);
    if (sim->mode == SIM_STORAGE) {
        w->quiet_percent = w->rot_percent / 2;
        w->repair_percent = w->rot_percent > 0 ? (uint32_t)PICK(sim, 0, 50, 90) : 0;
        if (sim_chance(sim, 25)) {
            seek_wrong_places(w);
        }
        w->misread_one_in = sim_chance(sim, 15) ? 50 : 0;
        if (rand_one_in(&sim->rand, 2)) {
            seek_leftovers(w);
        }
    }
    w->index_size_max = (uint32_t)PICK(sim, 0, 1 << 10, 64 << 10);
    w->checkpoint_size = (uint32_t)PICK(sim, 0, 2 << 10, 16 << 10, 64 << 10);
    w->state_size_max = (uint32_t)PICK(sim, 0, 30 << 10);
    w->missing_percent = (uint32_t)PICK(sim, 0, 0, 0, 0, 50);
    w->points_size_max = (uint32_t)PICK(sim, 64, 1 << 20, 1 << 20);
    w->segment_age_ms = (int64_t)PICK(sim, 20, 200, INT64_MAX, INT64_MAX);
    w->segment_jitter_ms = (int64_t)PICK(sim, 0, 10);
    w->timestamp_spread_ms = (uint32_t)PICK(sim, 1, 20, 20, 2000);
    w->timestamp_none_percent = (uint32_t)PICK(sim, 0, 0, 30);
    w->compressed_percent = (uint32_t)PICK(sim, 5, 5, 50);
    if (sim->mode == SIM_STORAGE && w->misdirect_percent == 0 && sim_chance(sim, 20)) {
        seek_compaction(w);
    }
    w->ahead_size_max = (size_t)PICK(sim, 0, 64 << 10, 1 << 20, 1 << 20);
    w->ahead_chunk_size_max = (uint32_t)PICK(sim, 4 << 10, 16 << 10, 64 << 10);
    w->recycle_size_max = PICK(sim, 0, 256 << 10, 1 << 20, 4 << 20);
    w->pinned_size_max = (size_t)PICK(sim, 0, 64 << 10, 2 << 20, 2 << 20);
    w->piece_size_min = (uint32_t)PICK(sim, 1, 500, 2000);
    if (sim->mode == SIM_STORAGE && sim_chance(sim, 20)) {
        seek_reuse(w);
    }
    w->dirs_count = (uint32_t)PICK(sim, 1, 1, 2, 3);
    w->are_dirs_breaking = w->dirs_count > 1 && sim_chance(sim, 60);
    w->are_dirs_filling = w->dirs_count > 1 && sim_chance(sim, 20);
}

#define FIELD(name)                                                                       \
    {                                                                                     \
#name, offsetof(struct sim_swarm, name), sizeof(((struct sim_swarm *)NULL)->name) \
    }

static const struct {
    const char *name;
    size_t offset;
    size_t size;
} fields[] = {
    /* clang-format off */
    FIELD(shards_max),
    FIELD(dirs_count),
    FIELD(are_dirs_breaking),
    FIELD(are_dirs_filling),
    FIELD(is_flush_shared),
    FIELD(crashes_max),
    FIELD(steps_per_life),
    FIELD(clean_stop_percent),
    FIELD(quiet_percent),
    FIELD(segment_size_max),
    FIELD(fill_step_min),
    FIELD(fill_step_max),
    FIELD(index_interval),
    FIELD(memory_size),
    FIELD(cache_size_max),
    FIELD(ahead_size_max),
    FIELD(ahead_chunk_size_max),
    FIELD(recycle_size_max),
    FIELD(pinned_size_max),
    FIELD(piece_size_min),
    FIELD(partitions),
    FIELD(partitions_extra),
    FIELD(crowd_size),
    FIELD(record_size_max),
    FIELD(batch_records_max),
    FIELD(large_one_in),
    FIELD(cut_weight),
    FIELD(delete_weight),
    FIELD(commit_weight),
    FIELD(start_weight),
    FIELD(compacted_percent),
    FIELD(keys_count),
    FIELD(keys_size_max),
    FIELD(tombstone_percent),
    FIELD(transaction_percent),
    FIELD(rot_percent),
    FIELD(repair_percent),
    FIELD(mangle_percent),
    FIELD(crash_soon_percent),
    FIELD(index_size_max),
    FIELD(checkpoint_size),
    FIELD(state_size_max),
    FIELD(missing_percent),
    FIELD(misdirect_percent),
    FIELD(misread_one_in),
    FIELD(index_rot_percent),
    FIELD(vote_loss_percent),
    FIELD(capacity_size),
    FIELD(sync_fail_one_in),
    FIELD(write_fail_one_in),
    FIELD(read_fail_one_in),
    FIELD(short_one_in),
    FIELD(slow_one_in),
    FIELD(slow_read_one_in),
    FIELD(sync_us_max),
    FIELD(transfer_us_max),
    FIELD(pause_us_max),
    FIELD(overtake_one_in),
    FIELD(cut_connection_one_in),
    FIELD(alter_percent),
    FIELD(grow_percent),
    FIELD(defaults_percent),
    FIELD(session_percent),
    FIELD(sessions_max),
    FIELD(store_area_blocks),
    FIELD(points_size_max),
    FIELD(segment_age_ms),
    FIELD(segment_jitter_ms),
    FIELD(timestamp_spread_ms),
    FIELD(timestamp_none_percent),
    FIELD(compressed_percent),
    /* clang-format on */
};

void sim_print_swarm(const struct sim *sim, FILE *out)
{
    (void)fprintf(out, "seed=%" PRIu64 " mode=%s", sim->seed, sim_mode_name(sim->mode));
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        uint64_t value = 0; /* Little-endian, as the formats of the product are. */
        memcpy(&value, (const char *)&sim->swarm + fields[i].offset, fields[i].size);
        (void)fprintf(out, " %s=%" PRIu64, fields[i].name, value);
    }
    (void)fputc('\n', out);
}

bool sim_has_mark(const struct sim *sim, const char *name)
{
    for (size_t i = 0; i < sim->marks_count; i++) {
        if (strcmp(sim->marks[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void sim_mark(struct sim *sim, const char *name)
{
    on_mark(&sim->reached, name);
}

void sim_trace(struct sim *sim, const char *what, uint64_t a, uint64_t b)
{
    const uint64_t event[] = {sim->clock.now_us, a, b};
    sim->trace = hash_bytes(sim->trace, what, strlen(what));
    sim->trace = hash_bytes(sim->trace, event, sizeof(event));
}

void sim_say(struct sim *sim, const char *format, ...)
{
    if (!sim->is_verbose) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "[%" PRIu64 " %" PRIu64 "] ", sim->clock.now_us, sim->steps);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fprintf(
        stderr, "FAILED seed=%" PRIu64 " now_us=%" PRIu64 ": ", sim->seed, sim->clock.now_us);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    (void)fflush(NULL);
    _exit(1);
}

struct disk_sim_crash sim_draw_crash(struct sim *sim)
{
    struct disk_sim_crash how = disk_sim_crash_draw(&sim->rand);
    if (sim->swarm.mangle_percent > 0) {
        how.is_power_loss = true;
        how.keep_sector /= 2; /* Or nothing would be left to be mangled. */
        how.mangle_sector = sim->swarm.mangle_percent;
    }
    return how;
}

void sim_crash_soon(struct sim *sim, uint64_t steps_max)
{
    if (sim->crash_at_step == UINT64_MAX || !sim_chance(sim, sim->swarm.crash_soon_percent)) {
        return;
    }
    uint64_t at_step = sim->steps + sim_between(sim, 1, steps_max);
    if (at_step < sim->crash_at_step) {
        sim->crash_at_step = at_step;
    }
}

bool sim_step(struct sim *sim)
{
    sim->steps++;
    sim_check(sim, sim->steps < SIM_STEPS_MAX, "no end in sight: steps=%" PRIu64, sim->steps);
    return sim->steps >= sim->crash_at_step;
}

/* The pace of background work. Goal: no more than the limits over any stretch of time, turns in
 * order, nothing armed while nobody waits, a stop tells everybody. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "storage/pace.h"

#include "tests/support/sim_shard.h"

enum {
    WAITS_MAX = 64,
};

struct rig;

struct waiter {
    struct pace_wait wait;
    struct rig *rig;
    int id;
    int turns;
    int again; /* Asks so many times more, from its turn. */
    enum err result;
    uint64_t turn_us;
};

struct rig {
    struct sim_shard ss;
    struct disk_sim *disk;
    struct pace pace;
    struct waiter all[WAITS_MAX];
    int order[WAITS_MAX * 4];
    int order_count;
};

static void on_turn(struct pace_wait *w, enum err e)
{
    struct waiter *who = container_of(w, struct waiter, wait);
    who->turns++;
    who->result = e;
    who->turn_us = who->rig->ss.s->now_us;
    who->rig->order[who->rig->order_count++] = who->id;
    if (who->again > 0) {
        who->again--;
        pace_ask(&who->rig->pace, w, w->ops, w->bytes);
    }
}

static struct rig *rig_new(struct pace_limits limits)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    rig->disk = sim_disk_new();
    sim_shard_init(&rig->ss, rig->disk, 1);
    pace_init(&rig->pace, rig->ss.s, &limits);
    for (int i = 0; i < WAITS_MAX; i++) {
        rig->all[i].rig = rig;
        rig->all[i].id = i;
        pace_wait_init(&rig->all[i].wait, on_turn);
    }
    return rig;
}

static void rig_free(struct rig *rig)
{
    cr_assert(not(timer_is_armed(&rig->pace.timer)), "costs nothing while nobody waits");
    pace_done(&rig->pace);
    sim_shard_done(&rig->ss);
    disk_sim_free(rig->disk);
    free(rig);
}

static uint64_t ask_all(struct rig *rig, int count, uint64_t ops, uint64_t bytes)
{
    const uint64_t from_us = rig->ss.s->now_us;
    for (int i = 0; i < count; i++) {
        pace_ask(&rig->pace, &rig->all[i].wait, ops, bytes);
        cr_assert(eq(int, rig->all[i].turns, 0), "never inside the ask");
    }
    sim_shard_settle(&rig->ss);
    for (int i = 0; i < count; i++) {
        cr_assert(eq(int, rig->all[i].turns, 1));
        cr_assert(eq(int, rig->all[i].result, ERR_OK));
        cr_assert(eq(int, rig->order[i], i), "in order");
    }
    return rig->all[count - 1].turn_us - from_us;
}

Test(pace, limits_hold_over_time)
{
    static const struct {
        const char *what;
        struct pace_limits limits;
        uint64_t ops;
        uint64_t bytes;
        uint64_t us_min; /* For 50 turns. */
        uint64_t us_max;
    } rows[] = {
        {"no limits: at once", {0}, 1, 1 << 20, 0, 1000},
        {"operations", {.ops_per_s = 100}, 1, 0, 480 * 1000, 500 * 1000},
        {"bytes", {.bytes_per_s = 1 << 20}, 1, 1 << 16, 3050 * 1000, 3100 * 1000},
        {"the slower of both counts",
         {.ops_per_s = 10, .bytes_per_s = 1 << 30},
         1,
         1,
         4890 * 1000,
         4910 * 1000},
        {"after a rest a burst is free",
         {.ops_per_s = 100, .burst_ms = 200},
         1,
         0,
         280 * 1000,
         300 * 1000},
        {"larger than the bucket: one turn each, then the debt is paid",
         {.bytes_per_s = 1000, .burst_ms = 1},
         1,
         1000,
         48 * 1000 * 1000,
         50 * 1000 * 1000},
        {"numbers at their limits",
         {.ops_per_s = 1ull << 32, .bytes_per_s = 1ull << 36, .burst_ms = 1000},
         1,
         1 << 30,
         0,
         1000 * 1000},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig *rig = rig_new(rows[i].limits);
        uint64_t took_us = ask_all(rig, 50, rows[i].ops, rows[i].bytes);
        cr_assert(ge(u64, took_us, rows[i].us_min), "%s", rows[i].what);
        cr_assert(le(u64, took_us, rows[i].us_max), "%s", rows[i].what);
        rig_free(rig);
    }
}

Test(pace, a_long_rest_gives_no_more_than_a_burst)
{
    struct rig *rig = rig_new((struct pace_limits){.ops_per_s = 100, .burst_ms = 100});
    rig->all[0].again = 29;
    pace_ask(&rig->pace, &rig->all[0].wait, 1, 0);
    sim_shard_settle(&rig->ss);
    struct timer nothing;
    timer_init(&nothing, NULL);
    rig->ss.clock.now_us += 3600ull * 1000 * 1000;
    (void)sim_shard_step(&rig->ss);
    uint64_t from_us = rig->ss.s->now_us;
    rig->all[0].again = 29;
    pace_ask(&rig->pace, &rig->all[0].wait, 1, 0);
    sim_shard_settle(&rig->ss);
    cr_assert(eq(int, rig->all[0].turns, 60));
    cr_assert(ge(u64, rig->all[0].turn_us - from_us, 180 * 1000));
    rig_free(rig);
}

Test(pace, an_ask_can_be_taken_back)
{
    struct rig *rig = rig_new((struct pace_limits){.ops_per_s = 10});
    for (int i = 0; i < 3; i++) {
        pace_ask(&rig->pace, &rig->all[i].wait, 1, 0);
    }
    pace_cancel(&rig->pace, &rig->all[1].wait);
    pace_cancel(&rig->pace, &rig->all[1].wait);
    sim_shard_settle(&rig->ss);
    cr_assert(eq(int, rig->all[0].turns, 1));
    cr_assert(eq(int, rig->all[1].turns, 0));
    cr_assert(eq(int, rig->all[2].turns, 1));
    pace_ask(&rig->pace, &rig->all[1].wait, 1, 0);
    pace_cancel(&rig->pace, &rig->all[1].wait); /* The last one: nothing stays armed. */
    rig_free(rig);
}

Test(pace, a_stop_tells_those_that_wait_and_those_that_ask)
{
    struct rig *rig = rig_new((struct pace_limits){.ops_per_s = 1});
    for (int i = 0; i < 40; i++) {
        pace_ask(&rig->pace, &rig->all[i].wait, 1, 0);
    }
    uint64_t from_us = rig->ss.s->now_us;
    pace_stop(&rig->pace);
    cr_assert(eq(int, rig->all[0].turns, 0), "from the loop");
    pace_ask(&rig->pace, &rig->all[40].wait, 1, 0);
    sim_shard_settle(&rig->ss);
    for (int i = 0; i <= 40; i++) {
        cr_assert(eq(int, rig->all[i].turns, 1));
        cr_assert(eq(int, rig->all[i].result, ERR_CANCELLED));
    }
    cr_assert(le(u64, rig->ss.s->now_us - from_us, 1000));
    rig_free(rig);
}

Test(pace, new_limits_hold_at_once)
{
    struct rig *rig = rig_new((struct pace_limits){.ops_per_s = 1});
    for (int i = 0; i < 20; i++) {
        pace_ask(&rig->pace, &rig->all[i].wait, 1, 0);
    }
    (void)sim_shard_step(&rig->ss);
    uint64_t from_us = rig->ss.s->now_us;
    pace_set_limits(&rig->pace, &(struct pace_limits){0});
    sim_shard_settle(&rig->ss);
    cr_assert(eq(int, rig->all[19].turns, 1));
    cr_assert(le(u64, rig->ss.s->now_us - from_us, 1000));
    rig_free(rig);
}

/* The gate before reads from disk. Goal: reads in flight are bounded, make way for writers without
 * starving, those that a reader waits for go first, and everybody gets a turn. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "storage/log_gate.h"

#include "tests/support/sim_shard.h"

enum {
    READERS = 8,
};

struct reader {
    struct gate_wait wait;
    uint64_t at_us; /* Of its turn; 0 = not yet. */
    uint32_t order;
    struct rig *rig;
};

struct rig {
    struct disk_sim *disk;
    struct sim_shard ss;
    struct log_gate gate;
    struct reader readers[READERS];
    uint32_t turns;
    uint32_t told;
};

static void on_turn(struct gate_wait *w)
{
    struct reader *r = container_of(w, struct reader, wait);
    r->at_us = r->rig->ss.s->now_us;
    r->order = ++r->rig->turns;
}

static void on_writing(void *context)
{
    ((struct rig *)context)->told++;
}

static struct rig *rig_new(void)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    rig->disk = sim_disk_new();
    sim_shard_init(&rig->ss, rig->disk, 1);
    (void)sim_shard_step(&rig->ss);
    log_gate_init(&rig->gate, rig->ss.s);
    rig->gate.context = rig;
    rig->gate.on_writing = on_writing;
    for (int i = 0; i < READERS; i++) {
        gate_wait_init(&rig->readers[i].wait, on_turn);
        rig->readers[i].rig = rig;
    }
    return rig;
}

static void rig_free(struct rig *rig)
{
    log_gate_done(&rig->gate);
    sim_shard_done(&rig->ss);
    disk_sim_free(rig->disk);
    free(rig);
}

static bool enter(struct rig *rig, int i, uint64_t size, bool is_urgent)
{
    return log_gate_enter(&rig->gate, &rig->readers[i].wait, size, is_urgent);
}

static void run(struct rig *rig)
{
    shard_turn(rig->ss.s);
}

Test(log_gate, in_flight_is_bounded_by_bytes)
{
    struct rig *rig = rig_new();
    const uint64_t half = LOG_GATE_SIZE_CALM / 2;
    cr_assert(enter(rig, 0, half, true));
    cr_assert(enter(rig, 1, half, true));
    cr_assert(not(enter(rig, 2, 4096, true)));
    run(rig);
    cr_assert(eq(u32, rig->turns, 0));
    log_gate_leave(&rig->gate, half);
    run(rig);
    cr_assert(eq(u32, rig->readers[2].order, 1));
    log_gate_leave(&rig->gate, half);
    log_gate_leave(&rig->gate, 4096);
    /* One of any size may go when none is under way. */
    cr_assert(enter(rig, 3, 64 << 20, true));
    cr_assert(not(enter(rig, 4, 4096, true)));
    log_gate_leave(&rig->gate, 64 << 20);
    run(rig);
    log_gate_leave(&rig->gate, 4096);
    rig_free(rig);
}

Test(log_gate, the_urgent_go_first_and_anybody_may_give_up)
{
    struct rig *rig = rig_new();
    cr_assert(enter(rig, 0, LOG_GATE_SIZE_CALM, true));
    cr_assert(not(enter(rig, 1, 4096, false)));
    cr_assert(not(enter(rig, 2, 4096, false)));
    cr_assert(not(enter(rig, 3, 4096, true)));
    cr_assert(not(enter(rig, 4, 4096, true)));
    log_gate_hurry(&rig->gate, &rig->readers[2].wait);
    log_gate_cancel(&rig->gate, &rig->readers[4].wait);
    log_gate_leave(&rig->gate, LOG_GATE_SIZE_CALM);
    run(rig);
    cr_assert(eq(u32, rig->readers[3].order, 1));
    cr_assert(eq(u32, rig->readers[2].order, 2));
    cr_assert(eq(u32, rig->readers[1].order, 3));
    cr_assert(eq(u32, rig->readers[4].order, 0));
    for (int i = 0; i < 3; i++) {
        log_gate_leave(&rig->gate, 4096);
    }
    rig_free(rig);
}

Test(log_gate, a_round_of_the_flush_holds_reads_up)
{
    struct rig *rig = rig_new();
    log_gate_round_begun(&rig->gate);
    cr_assert(not(enter(rig, 0, 4096, true)));
    run(rig);
    cr_assert(eq(u32, rig->turns, 0));
    log_gate_round_ended(&rig->gate);
    run(rig);
    cr_assert(eq(u32, rig->turns, 1));
    log_gate_leave(&rig->gate, 4096);
    rig_free(rig);
}

/* Rounds that never rest. */
Test(log_gate, nobody_is_held_up_for_long)
{
    struct rig *rig = rig_new();
    log_gate_round_begun(&rig->gate);
    const uint64_t asked_us = rig->ss.s->now_us;
    cr_assert(not(enter(rig, 0, 4096, true)));
    cr_assert(not(enter(rig, 1, 4096, false)));
    while (rig->turns < 2) {
        cr_assert(sim_shard_step(&rig->ss));
    }
    cr_assert(eq(u64, rig->readers[0].at_us, asked_us + LOG_GATE_HOLD_US));
    log_gate_leave(&rig->gate, 4096);
    log_gate_leave(&rig->gate, 4096);
    log_gate_round_ended(&rig->gate);
    rig_free(rig);
}

Test(log_gate, less_while_somebody_writes)
{
    for (int is_other = 0; is_other < 2; is_other++) {
        struct rig *rig = rig_new();
        cr_assert(eq(u64, log_gate_size(&rig->gate), LOG_GATE_READ_SIZE));
        if (is_other) {
            log_gate_others_write(&rig->gate);
        } else {
            log_gate_round_begun(&rig->gate);
            log_gate_round_ended(&rig->gate);
        }
        cr_assert(eq(u64, log_gate_size(&rig->gate), LOG_GATE_SIZE_BUSY));
        cr_assert(enter(rig, 0, LOG_GATE_SIZE_BUSY, true));
        cr_assert(not(enter(rig, 1, LOG_GATE_SIZE_BUSY, true)));
        log_gate_leave(&rig->gate, LOG_GATE_SIZE_BUSY);
        run(rig);
        cr_assert(eq(u32, rig->turns, 1));
        log_gate_leave(&rig->gate, LOG_GATE_SIZE_BUSY);
        rig->ss.clock.now_us += LOG_GATE_BUSY_US;
        shard_post(rig->ss.s, &rig->gate.task);
        run(rig);
        cr_assert(eq(u64, log_gate_size(&rig->gate), LOG_GATE_READ_SIZE));
        rig_free(rig);
    }
}

Test(log_gate, others_are_told_now_and_then)
{
    struct rig *rig = rig_new();
    for (int i = 0; i < 100; i++) {
        log_gate_round_begun(&rig->gate);
        log_gate_round_ended(&rig->gate);
    }
    cr_assert(eq(u32, rig->told, 1));
    rig->ss.clock.now_us += LOG_GATE_TELL_US;
    shard_post(rig->ss.s, &rig->gate.task);
    run(rig);
    log_gate_round_begun(&rig->gate);
    log_gate_round_ended(&rig->gate);
    cr_assert(eq(u32, rig->told, 2));
    rig_free(rig);
}

/* A flusher that failed ends no round any more. */
Test(log_gate, a_failed_flusher_holds_nobody_up)
{
    struct rig *rig = rig_new();
    log_gate_round_begun(&rig->gate);
    cr_assert(not(enter(rig, 0, 4096, true)));
    log_gate_flusher_failed(&rig->gate);
    run(rig);
    cr_assert(eq(u32, rig->turns, 1));
    log_gate_leave(&rig->gate, 4096);
    log_gate_round_ended(&rig->gate);
    rig_free(rig);
}

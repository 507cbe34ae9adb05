/* A process without free descriptors: opens wait, births wait for their turn, nothing fails for
 * good and nothing is lost. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>

#include "tests/support/log_rig.h"

static struct log_rig *rig_open(uint64_t seed)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    rig->shared_options.files_max = 1;      /* Files close and open all the time. */
    rig->shared_options.cache_size_max = 0; /* Reads need them. */
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    return rig;
}

static void run_steps(struct log_rig *rig, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)sim_shard_step(&rig->ss);
    }
}

static void take_descriptors(struct log_rig *rig, enum io_kind kind, uint32_t at, uint32_t count)
{
    io_fault_add(&rig->ss.io_fault,
                 &(struct io_fault_rule){
                     .kind = (int)kind,
                     .fd = IO_FAULT_ANY,
                     .path_part = "/logs",
                     .at = at,
                     .count = count,
                     .action = IO_FAULT_FAIL,
                     .code = EMFILE,
                 });
}

/* For some ops from the n-th on there is no descriptor; then there are some again. */
Test(starved, no_descriptor_is_no_damage)
{
    static const enum io_kind kinds[] = {IO_OPEN, IO_FSYNC_DIR};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (uint32_t at = 1; at < 20; at++) {
            struct log_rig *rig = rig_open(900 + at);
            take_descriptors(rig, kinds[k], at, 3);
            for (int i = 0; i < 120; i++) {
                (void)log_rig_append(rig, 1, 1000, 1000);
                run_steps(rig, 20);
            }
            io_fault_clear(&rig->ss.io_fault);
            log_rig_flush(rig);
            cr_assert(eq(int, rig->failure, ERR_OK), "kind=%d at=%u", (int)kinds[k], at);
            cr_assert(not(flusher_is_failed(rig->flusher)));
            cr_assert(eq(u64, log_flushed_index(rig->log), log_last_index(rig->log)));
            log_rig_expect_readable(rig, 4000);
            log_rig_stop(rig);
            log_rig_start(rig);
            cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
            log_rig_expect_recovered(rig);
            log_rig_stop(rig);
            log_rig_done(rig);
            free(rig);
        }
    }
}

/* A read that needs a file waits for a descriptor, and is answered. */
Test(starved, a_read_waits_for_a_descriptor)
{
    struct log_rig *rig = rig_open(7);
    for (int i = 0; i < 60; i++) {
        (void)log_rig_append(rig, 1, 1000, 1000);
        log_rig_flush(rig);
    }
    for (uint32_t at = 1; at < 6; at++) {
        take_descriptors(rig, IO_OPEN, at, 2);
        log_rig_expect_readable(rig, 3000);
        io_fault_clear(&rig->ss.io_fault);
    }
    cr_assert(eq(int, rig->failure, ERR_OK));
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

/* A disk that refuses reads (EIO): the read ends with the error and nothing else does; an open that
 * cannot read ends with it, takes nothing for torn, and the next open has everything.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>

#include "tests/support/log_rig.h"

enum {
    BATCHES = 30,
    DST_SIZE = 64 << 10,
};

/* A log of several segments, nothing of which is in memory; the rig's next life is open. */
static struct log_rig *start(uint64_t seed)
{
    struct log_rig *rig = calloc(1, sizeof(*rig));
    log_rig_init(rig, seed);
    rig->shared_options.cache_size_max = 0;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    for (int i = 0; i < BATCHES; i++) {
        cr_assert(eq(int, log_rig_append(rig, 2, 3000, 1000 + i), ERR_OK));
        log_rig_settle(rig);
    }
    log_rig_stop(rig);
    log_rig_start(rig);
    return rig;
}

static void end(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

static void fail_reads(struct log_rig *rig, uint32_t at, uint32_t count)
{
    io_fault_add(&rig->ss.io_fault,
                 &(struct io_fault_rule){.kind = IO_READ,
                                         .fd = IO_FAULT_ANY,
                                         .path_part = "/logs/",
                                         .at = at,
                                         .count = count,
                                         .action = IO_FAULT_FAIL,
                                         .code = EIO});
}

Test(read_faults, a_read_that_fails_ends_with_the_error_and_the_next_one_reads)
{
    struct log_rig *rig = start(3);
    uint8_t *dst = malloc(DST_SIZE);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    const int64_t end_offset = log_next_offset(rig->log);
    uint32_t failed_count = 0;
    for (int64_t offset = 0; offset < end_offset; offset += 7) {
        fail_reads(rig, 1, 1);
        size_t size;
        enum err e = log_rig_read(rig, offset, end_offset, dst, DST_SIZE, &size);
        cr_assert(e == ERR_OK || e == ERR_IO, "offset=%ld: %s", (long)offset, err_name(e));
        failed_count += e == ERR_IO;
        io_fault_clear(&rig->ss.io_fault);
        e = log_rig_read(rig, offset, end_offset, dst, DST_SIZE, &size);
        cr_assert(eq(int, e, ERR_OK));
        cr_assert(lt(sz, 0, size));
    }
    cr_assert(lt(u32, 0, failed_count));
    cr_assert(not(log_is_failed(rig->log)), "no write is in doubt");
    cr_assert(eq(u64, log_damage(rig->log, NULL, 0), 0), "it is not damage either");
    cr_assert(eq(int, log_rig_append(rig, 1, 10, 5000), ERR_OK));
    log_rig_settle(rig);
    log_rig_expect_readable(rig, DST_SIZE);
    free(dst);
    end(rig);
}

/* Whichever read of a recovery fails, also for good. */
Test(read_faults, an_open_that_cannot_read_takes_nothing_for_torn)
{
    uint32_t failed_count = 0;
    uint64_t injected = 1;
    for (uint32_t at = 1; injected > 0; at++) {
        struct log_rig *rig = start(4);
        fail_reads(rig, at, at % 2 == 0 ? UINT32_MAX : 1);
        enum err e = log_rig_open(rig);
        injected = rig->ss.io_fault.injected;
        io_fault_clear(&rig->ss.io_fault);
        cr_assert(e == ERR_OK || e == ERR_IO, "at=%u: %s", at, err_name(e));
        failed_count += e != ERR_OK;
        log_rig_stop(rig);

        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK), "at=%u", at);
        cr_assert(eq(i64, log_next_offset(rig->log), 2 * BATCHES), "at=%u", at);
        cr_assert(eq(u64, log_damage(rig->log, NULL, 0), 0), "at=%u", at);
        log_rig_expect_readable(rig, DST_SIZE);
        end(rig);
    }
    cr_assert(lt(u32, 0, failed_count));
}

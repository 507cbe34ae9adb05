/* The fault shim: each kind of rule, on the simulated backend. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>

#include "core/io_fault.h"

#include "tests/support/io_rig.h"

/* The rig with the shim between its io and its backend. */
static void start(struct io_rig *r, struct io_fault *fault)
{
    rig_init(r, &RIG_DISK, 1);
    io_fault_init(fault, &r->sim.backend, &r->clock.clock);
    r->io.backend = &fault->backend;
}

static void finish(struct io_rig *r, struct io_fault *fault)
{
    io_fault_done(fault);
    rig_done(r);
}

/* As rig_run, but the shim has its own times. */
static void run(struct io_rig *r, struct io_fault *fault)
{
    for (int turns = 0; r->io.in_flight_count > 0 && turns < 1000; turns++) {
        uint64_t next_us = io_sim_next_us(&r->sim);
        uint64_t fault_us = io_fault_next_us(fault);
        next_us = fault_us < next_us ? fault_us : next_us;
        if (next_us == UINT64_MAX) {
            return; /* All that is left hangs. */
        }
        if (next_us > r->clock.now_us) {
            r->clock.now_us = next_us;
        }
        (void)io_run_completions(&r->io, 100);
    }
}

static struct io_op call(struct io_rig *r, struct io_fault *fault, struct io_op op)
{
    struct rig_op o = {.op = op};
    rig_submit(r, &o);
    run(r, fault);
    assert(o.is_done);
    return o.op;
}

static int open_file(struct io_rig *r, struct io_fault *fault, const char *path)
{
    return call(r, fault, (struct io_op){.kind = IO_OPEN, .path = path, .open_flags = RIG_CREATE})
        .result_fd;
}

/* Whichever op of a flow fails, the caller sees just that one fail; the loop ends by itself when n
 * is beyond the flow. */
Test(io_fault, fails_the_nth_op)
{
    char text[] = "abc";
    for (uint32_t n = 1;; n++) {
        struct io_rig r;
        struct io_fault fault;
        start(&r, &fault);
        io_fault_add(&fault,
                     &(struct io_fault_rule){.kind = IO_FAULT_ANY,
                                             .fd = IO_FAULT_ANY,
                                             .at = n,
                                             .action = IO_FAULT_FAIL,
                                             .code = ENOSPC});
        uint32_t failed = 0;
        int fd = open_file(&r, &fault, "/f");
        failed += fd < 0;
        struct io_op write = {.kind = IO_WRITE, .fd = 3, .buf = text, .size = 3};
        failed += call(&r, &fault, write).result == ERR_NO_SPACE;
        failed +=
            call(&r, &fault, (struct io_op){.kind = IO_FSYNC, .fd = 3}).result == ERR_NO_SPACE;
        uint32_t seen = io_fault_seen(&fault, 0);
        cr_assert(eq(u64, fault.injected, n <= 3));
        finish(&r, &fault);
        if (n > seen) {
            cr_assert(eq(u32, failed, 0));
            break;
        }
        cr_assert(ge(u32, failed, 1));
    }
}

Test(io_fault, matches_by_path_and_descriptor)
{
    struct io_rig r;
    struct io_fault fault;
    start(&r, &fault);
    int a = open_file(&r, &fault, "/a.log");
    int b = open_file(&r, &fault, "/b.idx");
    struct io_fault_rule rule = {.kind = IO_FSYNC,
                                 .fd = IO_FAULT_ANY,
                                 .path_part = ".log",
                                 .at = 2,
                                 .count = UINT32_MAX,
                                 .action = IO_FAULT_FAIL,
                                 .code = EIO};
    io_fault_add(&fault, &rule);
    struct io_op sync_a = {.kind = IO_FSYNC, .fd = a};
    struct io_op sync_b = {.kind = IO_FSYNC, .fd = b};
    cr_assert(eq(int, call(&r, &fault, sync_b).result, ERR_OK));
    cr_assert(eq(int, call(&r, &fault, sync_a).result, ERR_OK));
    cr_assert(eq(int, call(&r, &fault, sync_a).result, ERR_IO));
    cr_assert(eq(int, call(&r, &fault, sync_b).result, ERR_OK));
    struct io_op failed = call(&r, &fault, sync_a);
    cr_assert(eq(int, failed.raw_errno, EIO));
    io_fault_clear(&fault);
    cr_assert(eq(int, call(&r, &fault, sync_a).result, ERR_OK));
    rule = (struct io_fault_rule){
        .kind = IO_FAULT_ANY, .fd = b, .at = 1, .action = IO_FAULT_FAIL, .code = EIO};
    io_fault_add(&fault, &rule);
    cr_assert(eq(int, call(&r, &fault, sync_a).result, ERR_OK));
    cr_assert(eq(int, call(&r, &fault, sync_b).result, ERR_IO));
    cr_assert(eq(int, call(&r, &fault, sync_b).result, ERR_OK));
    finish(&r, &fault);
}

Test(io_fault, short_transfers_are_continued)
{
    struct io_rig r;
    struct io_fault fault;
    start(&r, &fault);
    int fd = open_file(&r, &fault, "/f");
    struct io_fault_rule rule = {
        .kind = IO_FAULT_ANY, .fd = fd, .at = 1, .count = 3, .action = IO_FAULT_SHORT, .size = 2};
    io_fault_add(&fault, &rule);
    char head[] = "hel";
    char tail[] = "lo world";
    struct iovec iov[2] = {{head, 3}, {tail, 8}};
    struct io_op write = {.kind = IO_WRITE, .fd = fd, .iov = iov, .iov_count = 2, .size = 11};
    cr_assert(eq(int, call(&r, &fault, write).result, ERR_OK));
    cr_assert(eq(u64, r.io.stats.continued, 3));
    char back[12] = {0};
    struct io_op read = {.kind = IO_READ, .fd = fd, .buf = back, .size = 11};
    cr_assert(eq(int, call(&r, &fault, read).result, ERR_OK));
    cr_assert(eq(str, back, "hello world"));
    io_fault_clear(&fault);
    io_fault_add(&fault, &rule);
    read.pos = 10;
    read.size = 5;
    read = call(&r, &fault, read);
    cr_assert(eq(int, read.result, ERR_EOF));
    cr_assert(eq(u64, read.done_size, 1));
    finish(&r, &fault);
}

Test(io_fault, delays_hangs_and_cancels)
{
    struct io_rig r;
    struct io_fault fault;
    start(&r, &fault);
    int fd = open_file(&r, &fault, "/f");
    struct io_fault_rule slow = {.kind = IO_FSYNC,
                                 .fd = IO_FAULT_ANY,
                                 .at = 1,
                                 .action = IO_FAULT_DELAY,
                                 .delay_us = 1000000};
    io_fault_add(&fault, &slow);
    uint64_t before_us = r.clock.now_us;
    cr_assert(eq(int, call(&r, &fault, (struct io_op){.kind = IO_FSYNC, .fd = fd}).result, ERR_OK));
    cr_assert(ge(u64, r.clock.now_us - before_us, 1000000));

    struct io_fault_rule hang = {
        .kind = IO_FDATASYNC, .fd = IO_FAULT_ANY, .at = 1, .count = 2, .action = IO_FAULT_HANG};
    io_fault_add(&fault, &hang);
    struct rig_op first = {.op = {.kind = IO_FDATASYNC, .fd = fd}};
    struct rig_op second = first;
    rig_submit(&r, &first);
    rig_submit(&r, &second);
    run(&r, &fault);
    cr_assert(not(first.is_done));
    struct rig_op cancel = {.op = {.kind = IO_CANCEL, .target = &second.op}};
    rig_submit(&r, &cancel);
    run(&r, &fault);
    cr_assert(second.is_done);
    cr_assert(eq(int, second.op.result, ERR_CANCELLED));
    cr_assert(eq(int, cancel.op.result, ERR_OK));
    cr_assert(not(first.is_done));
    io_fault_release(&fault);
    run(&r, &fault);
    cr_assert(first.is_done);
    cr_assert(eq(int, first.op.result, ERR_OK));
    finish(&r, &fault);
}

/* The simulated backend behaves like direct I/O on a kernel: alignment, ends of files, short
 * transfers, latencies in simulated time, errors. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>

#include "tests/support/io_rig.h"

struct transfer_row {
    const char *what;
    size_t buf_shift;
    uint64_t size;
    uint64_t pos;
    enum err result;
};

Test(io_sim, direct_transfers_must_be_aligned)
{
    const struct transfer_row rows[] = {
        {"all aligned", 0, IO_ALIGN, IO_ALIGN, ERR_OK},
        {"memory", 512, IO_ALIGN, 0, ERR_IO},
        {"size", 0, 512, 0, ERR_IO},
        {"position", 0, IO_ALIGN, 512, ERR_IO},
    };
    uint8_t *buf = aligned_alloc(IO_ALIGN, (size_t)2 * IO_ALIGN);
    memset(buf, 'a', (size_t)2 * IO_ALIGN);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct io_rig r;
        rig_init(&r, &RIG_DISK, 1);
        int fd = rig_open(&r, "/f", RIG_CREATE_DIRECT);
        struct io_op op = rig_call(&r,
                                   (struct io_op){
                                       .kind = IO_WRITE,
                                       .fd = fd,
                                       .buf = buf + rows[i].buf_shift,
                                       .size = rows[i].size,
                                       .pos = rows[i].pos,
                                   });
        cr_assert(eq(int, op.result, rows[i].result), "%s", rows[i].what);
        cr_assert(eq(int, op.raw_errno, op.result == ERR_OK ? 0 : EINVAL), "%s", rows[i].what);
        rig_done(&r);
    }
    free(buf);
}

Test(io_sim, buffered_files_take_any_position)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = rig_open(&r, "/f", RIG_CREATE);
    char text[] = "hello";
    char back[8] = {0};
    struct io_op op = {.kind = IO_WRITE, .fd = fd, .buf = text, .size = 5, .pos = IO_ALIGN - 2};
    cr_assert(eq(int, rig_call(&r, op).result, ERR_OK));
    op = (struct io_op){.kind = IO_READ, .fd = fd, .buf = back, .size = 6, .pos = IO_ALIGN - 3};
    op = rig_call(&r, op);
    cr_assert(eq(int, op.result, ERR_OK));
    cr_assert(eq(int, back[0], 0));
    cr_assert(eq(str, back + 1, "hello"));
    op.size = 7;
    op = rig_call(&r, op);
    cr_assert(eq(int, op.result, ERR_EOF));
    cr_assert(eq(u64, op.done_size, 6));
    rig_done(&r);
}

Test(io_sim, short_transfers_are_continued)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    r.sim.options.short_one_in = 1;
    int fd = rig_open(&r, "/f", RIG_CREATE_DIRECT);
    const size_t size = (size_t)8 * IO_ALIGN;
    uint8_t *buf = aligned_alloc(IO_ALIGN, size);
    for (size_t i = 0; i < size; i++) {
        buf[i] = (uint8_t)(i / 100);
    }
    struct iovec iov[2] = {{buf, (size_t)3 * IO_ALIGN},
                           {buf + (size_t)3 * IO_ALIGN, (size_t)5 * IO_ALIGN}};
    struct io_op write = {.kind = IO_WRITE, .fd = fd, .iov = iov, .iov_count = 2, .size = size};
    cr_assert(eq(int, rig_call(&r, write).result, ERR_OK));
    cr_assert(lt(u64, 0, r.io.stats.continued));
    uint8_t *back = aligned_alloc(IO_ALIGN, size);
    struct io_op read = {.kind = IO_READ, .fd = fd, .buf = back, .size = size};
    cr_assert(eq(int, rig_call(&r, read).result, ERR_OK));
    cr_assert(eq(int, memcmp(buf, back, size), 0));
    free(buf);
    free(back);
    rig_done(&r);
}

/* Nothing completes before its time, and two ops in flight may finish in either order. */
Test(io_sim, ops_finish_in_simulated_time_in_any_order)
{
    bool was_first = false;
    bool was_second = false;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct io_rig r;
        rig_init(&r, &RIG_DISK, seed);
        struct rig_op a = {.op = {.kind = IO_OPEN, .path = "/a", .open_flags = RIG_CREATE}};
        struct rig_op b = {.op = {.kind = IO_OPEN, .path = "/b", .open_flags = RIG_CREATE}};
        rig_submit(&r, &a);
        rig_submit(&r, &b);
        cr_assert(eq(sz, io_run_completions(&r.io, 10), 0));
        r.clock.now_us = io_sim_next_us(&r.sim);
        (void)io_run_completions(&r.io, 1);
        was_first |= a.is_done;
        was_second |= b.is_done;
        rig_run(&r);
        rig_done(&r);
    }
    cr_assert(was_first);
    cr_assert(was_second);
}

Test(io_sim, errors_on_demand)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = rig_open(&r, "/f", RIG_CREATE_DIRECT);
    cr_assert(eq(int, rig_write_block(&r, fd, 0, 'a'), ERR_OK));
    r.sim.options.write_fail_one_in = 1;
    cr_assert(eq(int, rig_write_block(&r, fd, 0, 'b'), ERR_IO));
    r.sim.options.write_fail_one_in = 0;
    r.sim.options.read_fail_one_in = 1;
    void *buf = aligned_alloc(IO_ALIGN, IO_ALIGN);
    struct io_op read = {.kind = IO_READ, .fd = fd, .buf = buf, .size = IO_ALIGN};
    cr_assert(eq(int, rig_call(&r, read).result, ERR_IO));
    free(buf);
    cr_assert(eq(int, rig_fd_call(&r, IO_FSYNC, 99), ERR_IO));
    cr_assert(eq(int, rig_fd_call(&r, IO_CLOSE, fd), ERR_OK));
    cr_assert(eq(int, rig_fd_call(&r, IO_CLOSE, fd), ERR_IO));
    struct io_op accept = rig_call(&r, (struct io_op){.kind = IO_ACCEPT, .fd = 3});
    cr_assert(eq(int, accept.raw_errno, ENOSYS));
    rig_done(&r);
}

static void count_name(void *context, const char *name)
{
    (void)name;
    ++*(int *)context;
}

Test(io_sim, start_up_helpers)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    cr_assert(eq(int, rig_path_call(&r, IO_MKDIR, "/data", NULL), ERR_OK));
    int lock = -1;
    int again = -1;
    cr_assert(eq(int, io_lock(&r.io, "/data/LOCK", &lock), ERR_OK));
    cr_assert(eq(int, io_lock(&r.io, "/data/LOCK", &again), ERR_LOCKED));
    io_unlock(&r.io, lock);
    cr_assert(eq(int, io_lock(&r.io, "/data/LOCK", &lock), ERR_OK));
    rig_crash(&r, &RIG_KEEP_ALL); /* The death of the process gives it back. */
    cr_assert(eq(int, io_lock(&r.io, "/data/LOCK", &lock), ERR_OK));
    int names = 0;
    cr_assert(eq(int, io_list_dir(&r.io, "/data", &names, count_name), ERR_OK));
    cr_assert(eq(int, names, 1));
    cr_assert(eq(int, io_list_dir(&r.io, "/nowhere", &names, count_name), ERR_NOT_FOUND));
    struct io_fs_info info;
    cr_assert(eq(int, io_fs_info(&r.io, "/data", &info), ERR_OK));
    cr_assert(info.is_direct_capable);
    cr_assert(info.is_flush_shared);
    uint64_t size = 1;
    cr_assert(eq(int, io_file_size(&r.io, "/data/LOCK", &size), ERR_OK));
    cr_assert(eq(u64, size, 0));
    cr_assert(eq(int, io_file_size(&r.io, "/data/x", &size), ERR_NOT_FOUND));
    cr_assert(eq(int, rig_path_call(&r, IO_SYMLINK, "LOCK", "/data/link"), ERR_OK));
    cr_assert(eq(int, rig_path_call(&r, IO_UNLINK, "/data/link", NULL), ERR_OK));
    io_unlock(&r.io, lock);
    cr_assert(eq(int, rig_path_call(&r, IO_UNLINK, "/data/LOCK", NULL), ERR_OK));
    struct io_op rmdir = {.kind = IO_UNLINK, .path = "/data", .open_flags = IO_OPEN_DIRECTORY};
    cr_assert(eq(int, rig_call(&r, rmdir).result, ERR_OK));
    rig_done(&r);
}

/* The same seed gives the same trace. */
Test(io_sim, the_trace_is_deterministic)
{
    uint64_t traces[2];
    for (int i = 0; i < 2; i++) {
        struct io_rig r;
        rig_init(&r, &RIG_DISK, 3);
        r.sim.options.slow_one_in = 5;
        r.sim.options.slow_us = 100000;
        int fd = rig_open(&r, "/f", RIG_CREATE_DIRECT);
        for (uint64_t block = 0; block < 50; block++) {
            cr_assert(eq(int, rig_write_block(&r, fd, block, 'a'), ERR_OK));
        }
        cr_assert(lt(u64, 0, r.sim.stats.slow));
        traces[i] = r.sim.trace;
        rig_done(&r);
    }
    cr_assert(eq(u64, traces[0], traces[1]));
}

/* The front of io: short transfers go on where they stopped, errors map, callbacks never run inside
 * submit. The backend is a script. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

#include "core/io.h"

#include "tests/support/fake_backend.h"

struct rig {
    struct fake_backend fake;
    struct io io;
};

static void rig_init(struct rig *r)
{
    fake_backend_init(&r->fake);
    io_init(&r->io, &r->fake.backend);
}

static void rig_done(struct rig *r)
{
    io_done(&r->io);
    fake_backend_done(&r->fake);
}

static int calls;

static void on_done(struct io_op *op)
{
    (void)op;
    calls++;
}

/* Submits op against a script of results and returns when it is done. */
static struct io_op run(struct rig *r, struct io_op op, const int64_t *script, size_t script_size)
{
    calls = 0;
    op.on_done = on_done;
    r->fake.script = script;
    r->fake.script_size = script_size;
    r->fake.script_next = 0;
    r->fake.starts_count = 0;
    io_submit(&r->io, &op);
    cr_assert(eq(int, calls, 0), "never inside of submit");
    while (calls == 0) {
        size_t next = r->fake.script_next;
        size_t ran = io_run_completions(&r->io, 100);
        cr_assert(ran > 0 || r->fake.script_next > next, "the script is too short");
    }
    cr_assert(eq(int, calls, 1));
    cr_assert(eq(u32, r->io.in_flight_count, 0));
    cr_assert(eq(sz, r->fake.script_next, script_size), "no attempt too few");
    return op;
}

struct transfer_row {
    const char *what;
    enum io_kind kind;
    uint32_t flags;
    int64_t results[4];
    size_t results_count;
    enum err result;
    int raw_errno;
    uint64_t done_size;
};

Test(io, transfers_of_100_bytes)
{
    const struct transfer_row rows[] = {
        {"in one go", IO_READ, 0, {100}, 1, ERR_OK, 0, 100},
        {"in three", IO_READ, 0, {1, 98, 1}, 3, ERR_OK, 0, 100},
        {"write in two", IO_WRITE, 0, {60, 40}, 2, ERR_OK, 0, 100},
        {"send in two", IO_SEND, 0, {60, 40}, 2, ERR_OK, 0, 100},
        {"the file ends", IO_READ, 0, {60, 0}, 2, ERR_EOF, 0, 60},
        {"an empty file", IO_READ, 0, {0}, 1, ERR_EOF, 0, 0},
        {"a write that stands still", IO_WRITE, 0, {60, 0}, 2, ERR_IO, EIO, 60},
        {"an error at once", IO_READ, 0, {-EIO}, 1, ERR_IO, EIO, 0},
        {"an error later", IO_WRITE, 0, {60, -ENOSPC}, 2, ERR_NO_SPACE, ENOSPC, 60},
        {"receive what is there", IO_RECV, 0, {7}, 1, ERR_OK, 0, 7},
        {"receive all", IO_RECV, IO_FLAG_ALL, {7, 93}, 2, ERR_OK, 0, 100},
        {"the peer closed", IO_RECV, 0, {0}, 1, ERR_EOF, 0, 0},
        {"the peer closed in the middle", IO_RECV, IO_FLAG_ALL, {7, 0}, 2, ERR_EOF, 0, 7},
        {"the peer is gone", IO_SEND, 0, {-EPIPE}, 1, ERR_CLOSED, 0, 0},
    };
    char data[100];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig r;
        rig_init(&r);
        struct io_op op = {
            .kind = rows[i].kind, .flags = rows[i].flags, .buf = data, .size = sizeof(data)};
        op = run(&r, op, rows[i].results, rows[i].results_count);
        cr_assert(eq(int, op.result, rows[i].result), "%s", rows[i].what);
        cr_assert(eq(int, op.raw_errno, rows[i].raw_errno), "%s", rows[i].what);
        cr_assert(eq(u64, op.done_size, rows[i].done_size), "%s", rows[i].what);
        cr_assert(eq(sz, r.fake.starts_count, rows[i].results_count), "%s", rows[i].what);
        cr_assert(eq(u64, r.io.stats.failed, rows[i].result == ERR_OK ? 0 : 1));
        rig_done(&r);
    }
}

/* Whatever the first attempt moved, the rest names exactly the bytes behind it. */
Test(io, vectors_go_on_at_every_byte)
{
    char a[3];
    char b[5];
    char c[4];
    const struct iovec iov[] = {{.iov_base = a, .iov_len = 3},
                                {.iov_base = b, .iov_len = 5},
                                {.iov_base = c, .iov_len = 4}};
    for (int64_t first = 1; first < 12; first++) {
        struct rig r;
        rig_init(&r);
        struct io_op op = {
            .kind = IO_WRITE, .iov = iov, .iov_count = 3, .size = 12, .on_done = on_done};
        io_submit(&r.io, &op);
        cr_assert(eq(u32, op.rest_count, 3));
        fake_complete(&r.fake, first);
        uint64_t moved = 0;
        while (op.done_size < op.size) {
            uint64_t pos = op.done_size;
            const char *expected = pos < 3 ? a + pos : pos < 8 ? b + (pos - 3) : c + (pos - 8);
            cr_assert(eq(ptr, op.rest[0].iov_base, (void *)expected), "first=%ld", (long)first);
            uint64_t attempt = 0;
            for (uint32_t i = 0; i < op.rest_count; i++) {
                attempt += op.rest[i].iov_len;
            }
            cr_assert(le(u64, attempt, op.size - pos));
            moved = attempt;
            fake_complete(&r.fake, (int64_t)attempt);
        }
        cr_assert(lt(u64, 0, moved));
        cr_assert(eq(sz, io_run_completions(&r.io, 1), 1));
        cr_assert(eq(int, op.result, ERR_OK));
        rig_done(&r);
    }
}

Test(io, nothing_to_move_succeeds_without_the_backend)
{
    struct rig r;
    rig_init(&r);
    struct io_op op = run(&r, (struct io_op){.kind = IO_WRITE}, NULL, 0);
    cr_assert(eq(int, op.result, ERR_OK));
    cr_assert(eq(sz, r.fake.starts_count, 0));
    rig_done(&r);
}

Test(io, descriptors_come_back)
{
    struct rig r;
    rig_init(&r);
    const int64_t script[] = {42};
    struct io_op op = run(&r, (struct io_op){.kind = IO_OPEN, .path = "f"}, script, 1);
    cr_assert(eq(int, op.result_fd, 42));
    const int64_t refused[] = {-ENOENT};
    op = run(&r, (struct io_op){.kind = IO_OPEN, .path = "f"}, refused, 1);
    cr_assert(eq(int, op.result, ERR_NOT_FOUND));
    cr_assert(eq(int, op.result_fd, -1));
    rig_done(&r);
}

Test(io, a_cancelled_transfer_is_not_continued)
{
    struct rig r;
    rig_init(&r);
    char data[100];
    struct io_op send = {.kind = IO_SEND, .buf = data, .size = sizeof(data), .on_done = on_done};
    struct io_op cancel = {.kind = IO_CANCEL, .target = &send, .on_done = on_done};
    io_submit(&r.io, &send);
    io_submit(&r.io, &cancel);
    fake_complete(&r.fake, 60);
    fake_complete(&r.fake, -ENOENT); /* The backend had nothing left to cancel. */
    cr_assert(eq(sz, io_run_completions(&r.io, 10), 2));
    cr_assert(eq(int, send.result, ERR_CANCELLED));
    cr_assert(eq(u64, send.done_size, 60));
    cr_assert(eq(int, cancel.result, ERR_OK));
    rig_done(&r);
}

Test(io, the_budget_bounds_completions)
{
    struct rig r;
    rig_init(&r);
    struct io_op ops[5];
    const int64_t script[] = {0, 0, 0, 0, 0};
    r.fake.script = script;
    r.fake.script_size = 5;
    for (size_t i = 0; i < 5; i++) {
        ops[i] = (struct io_op){.kind = IO_FSYNC, .on_done = on_done};
        io_submit(&r.io, &ops[i]);
    }
    cr_assert(eq(sz, io_run_completions(&r.io, 3), 3));
    cr_assert(eq(u32, r.io.in_flight_count, 2));
    cr_assert(eq(sz, io_run_completions(&r.io, 3), 2));
    cr_assert(eq(u64, r.io.stats.ops[IO_FSYNC], 5));
    rig_done(&r);
}

static void submit_again(struct io_op *op)
{
    if (++calls < 3) {
        io_submit(op->io, op);
    }
}

Test(io, a_callback_may_submit_its_op_again)
{
    struct rig r;
    rig_init(&r);
    const int64_t script[] = {0, 0, 0};
    r.fake.script = script;
    r.fake.script_size = 3;
    calls = 0;
    struct io_op op = {.kind = IO_FSYNC, .on_done = submit_again};
    io_submit(&r.io, &op);
    for (int i = 1; i <= 3; i++) {
        cr_assert(eq(sz, io_run_completions(&r.io, 10), 1));
        cr_assert(eq(int, calls, i));
    }
    rig_done(&r);
}

struct errno_row {
    int64_t negative_errno;
    enum err e;
};

Test(io, errno_table)
{
    const struct errno_row rows[] = {
        {0, ERR_OK},
        {12, ERR_OK},
        {-ENOSPC, ERR_NO_SPACE},
        {-EDQUOT, ERR_NO_SPACE},
        {-ENOENT, ERR_NOT_FOUND},
        {-EEXIST, ERR_EXISTS},
        {-ECANCELED, ERR_CANCELLED},
        {-ECONNRESET, ERR_CLOSED},
        {-EPIPE, ERR_CLOSED},
        {-ENOBUFS, ERR_BUSY},
        {-EINVAL, ERR_IO},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_assert(eq(int, io_err_of(rows[i].negative_errno), rows[i].e));
    }
}

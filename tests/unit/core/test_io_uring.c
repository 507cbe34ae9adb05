/* The io_uring backend against the real kernel: files in the build directory, socket pairs, and two
 * rings that wake each other. Each test skips, and says so, where io_uring or direct I/O is
 * missing.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/io.h"
#include "core/io_uring.h"

struct rig {
    struct io_backend *backend;
    struct io io;
    char dir[64];
    char path[100];
};

static void rig_init(struct rig *r)
{
    char why[IO_URING_WHY_SIZE];
    if (io_uring_backend_new(&r->backend, why) != ERR_OK) {
        cr_skip_test("SKIPPED, NOTHING WAS TESTED: %s", why);
    }
    io_init(&r->io, r->backend);
    (void)snprintf(r->dir, sizeof(r->dir), "test_io_uring.XXXXXX");
    cr_assert(ne(ptr, mkdtemp(r->dir), NULL));
    (void)snprintf(r->path, sizeof(r->path), "%s/file", r->dir);
}

static void rig_done(struct rig *r)
{
    (void)unlink(r->path);
    (void)rmdir(r->dir);
    io_done(&r->io);
    io_uring_backend_free(r->backend);
}

/* Runs the loop until op is done. on_done of these tests needs nothing but the knowledge that it
 * ran, so the op's in-flight count says it all. */
static void rig_run_until(struct rig *r, uint32_t in_flight_count)
{
    while (r->io.in_flight_count > in_flight_count) {
        io_flush(&r->io);
        if (io_run_completions(&r->io, 16) == 0) {
            r->backend->ops->wait(r->backend, UINT64_MAX);
        }
    }
}

static void on_done(struct io_op *op)
{
    (void)op;
}

static struct io_op rig_call(struct rig *r, struct io_op op)
{
    op.on_done = on_done;
    uint32_t before = r->io.in_flight_count;
    io_submit(&r->io, &op);
    rig_run_until(r, before);
    return op;
}

static int rig_open(struct rig *r, uint32_t flags)
{
    struct io_op op =
        rig_call(r, (struct io_op){.kind = IO_OPEN, .path = r->path, .open_flags = flags});
    if ((flags & IO_OPEN_DIRECT) != 0 && op.raw_errno == EINVAL) {
        cr_skip_test("SKIPPED, NOTHING WAS TESTED: no O_DIRECT in the build directory");
    }
    cr_assert(eq(int, op.result, ERR_OK), "errno=%d", op.raw_errno);
    return op.result_fd;
}

static void rig_close(struct rig *r, int fd)
{
    cr_assert(eq(int, rig_call(r, (struct io_op){.kind = IO_CLOSE, .fd = fd}).result, ERR_OK));
}

static void check_round_trip(struct rig *r, int fd, uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        data[i] = (uint8_t)(i * 7 + i / 4096);
    }
    struct io_op op = {.kind = IO_WRITE, .fd = fd, .buf = data, .size = size, .pos = IO_ALIGN};
    op = rig_call(r, op);
    cr_assert(eq(int, op.result, ERR_OK), "errno=%d", op.raw_errno);
    cr_assert(eq(u64, op.done_size, size));
    cr_assert(eq(int, rig_call(r, (struct io_op){.kind = IO_FDATASYNC, .fd = fd}).result, ERR_OK));

    memset(data, 0, size);
    op = (struct io_op){.kind = IO_READ, .fd = fd, .buf = data, .size = size, .pos = IO_ALIGN};
    cr_assert(eq(int, rig_call(r, op).result, ERR_OK));
    for (size_t i = 0; i < size; i++) {
        cr_assert(eq(u8, data[i], (uint8_t)(i * 7 + i / 4096)), "at %zu", i);
    }
}

Test(io_uring, direct_files_with_plain_and_with_registered_memory)
{
    struct rig r;
    rig_init(&r);
    int fd = rig_open(&r, IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_DIRECT);

    uint8_t *plain = aligned_alloc(IO_ALIGN, 1 << 16);
    check_round_trip(&r, fd, plain, 1 << 16);
    free(plain);

    struct buf_pool *pool = NULL;
    cr_assert(eq(int, buf_pool_new(16 << 20, 0, &r.io, &pool), ERR_OK));
    const size_t sizes[] = {4096, 1 << 20, 4 << 20}; /* The last one spans two registered pieces. */
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buf *b = buf_alloc(pool, sizes[i], BUF_CLIENT);
        cr_assert(ne(ptr, b, NULL));
        check_round_trip(&r, fd, b->data, sizes[i]);
        buf_unref(b);
    }
    rig_close(&r, fd);
    buf_pool_free(pool);
    rig_done(&r);
}

Test(io_uring, allocated_room_reads_as_zeros)
{
    struct rig r;
    rig_init(&r);
    int fd = rig_open(&r, IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE);
    struct io_op op = {.kind = IO_ALLOCATE, .fd = fd, .pos = 4096, .size = 8192};
    op = rig_call(&r, op);
    if (op.result == ERR_UNSUPPORTED) {
        cr_skip_test("SKIPPED, NOTHING WAS TESTED: no fallocate in the build directory");
    }
    cr_assert(eq(int, op.result, ERR_OK), "errno=%d", op.raw_errno);
    uint64_t size = 0;
    cr_assert(eq(int, io_file_size(&r.io, r.path, &size), ERR_OK));
    cr_assert(eq(u64, size, 12288));
    char bytes[16] = "not zero";
    op = (struct io_op){.kind = IO_READ, .fd = fd, .buf = bytes, .size = 16, .pos = 8192};
    cr_assert(eq(int, rig_call(&r, op).result, ERR_OK));
    cr_assert(eq(int, memcmp(bytes, (char[16]){0}, 16), 0));
    rig_close(&r, fd);
    rig_done(&r);
}

Test(io_uring, vectors_and_the_end_of_a_file)
{
    struct rig r;
    rig_init(&r);
    int fd = rig_open(&r, IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE);
    char a[] = "abc";
    char b[] = "defgh";
    struct iovec iov[] = {{.iov_base = a, .iov_len = 3}, {.iov_base = b, .iov_len = 5}};
    struct io_op op = {.kind = IO_WRITE, .fd = fd, .iov = iov, .iov_count = 2, .size = 8};
    cr_assert(eq(int, rig_call(&r, op).result, ERR_OK));

    uint64_t size = 0;
    cr_assert(eq(int, io_file_size(&r.io, r.path, &size), ERR_OK));
    cr_assert(eq(u64, size, 8));

    char back[16] = {0};
    op = (struct io_op){.kind = IO_READ, .fd = fd, .buf = back, .size = 12};
    op = rig_call(&r, op);
    cr_assert(eq(int, op.result, ERR_EOF));
    cr_assert(eq(u64, op.done_size, 8));
    cr_assert(eq(str, back, "abcdefgh"));
    rig_close(&r, fd);
    rig_done(&r);
}

struct name_list {
    int count;
    char last[32];
};

static void on_name(void *context, const char *name)
{
    struct name_list *names = context;
    names->count++;
    (void)snprintf(names->last, sizeof(names->last), "%s", name);
}

Test(io_uring, names)
{
    struct rig r;
    rig_init(&r);
    char sub[128];
    char other[160];
    char link[160];
    (void)snprintf(sub, sizeof(sub), "%s/sub", r.dir);
    (void)snprintf(other, sizeof(other), "%s/other", sub);
    (void)snprintf(link, sizeof(link), "%s/link", sub);

    struct io_op op = {.kind = IO_MKDIR, .path = sub};
    cr_assert(eq(int, rig_call(&r, op).result, ERR_OK));
    cr_assert(eq(int, rig_call(&r, op).result, ERR_EXISTS));
    rig_close(&r, rig_open(&r, IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_EXCLUSIVE));
    op = (struct io_op){.kind = IO_OPEN,
                        .path = r.path,
                        .open_flags = IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_EXCLUSIVE};
    cr_assert(eq(int, rig_call(&r, op).result, ERR_EXISTS));
    op = (struct io_op){.kind = IO_RENAME, .path = r.path, .new_path = other};
    cr_assert(eq(int, rig_call(&r, op).result, ERR_OK));
    cr_assert(eq(int, rig_call(&r, op).result, ERR_NOT_FOUND));
    op = (struct io_op){.kind = IO_FSYNC_DIR, .path = sub};
    cr_assert(eq(int, rig_call(&r, op).result, ERR_OK));
    op = (struct io_op){.kind = IO_FSYNC_DIR, .path = r.path};
    cr_assert(eq(int, rig_call(&r, op).result, ERR_NOT_FOUND));

    struct name_list names = {0};
    cr_assert(eq(int, io_list_dir(&r.io, sub, &names, on_name), ERR_OK));
    cr_assert(eq(int, names.count, 1));
    cr_assert(eq(str, names.last, "other"));
    cr_assert(eq(int, io_list_dir(&r.io, r.path, &names, on_name), ERR_NOT_FOUND));

    op = (struct io_op){.kind = IO_SYMLINK, .path = "other", .new_path = link};
    cr_assert(eq(int, rig_call(&r, op).result, ERR_OK));
    const char *const gone[] = {link, other};
    for (size_t i = 0; i < 2; i++) {
        op = (struct io_op){.kind = IO_UNLINK, .path = gone[i]};
        cr_assert(eq(int, rig_call(&r, op).result, ERR_OK));
    }
    op = (struct io_op){.kind = IO_UNLINK, .path = sub, .open_flags = IO_OPEN_DIRECTORY};
    cr_assert(eq(int, rig_call(&r, op).result, ERR_OK));
    rig_done(&r);
}

/* More ops than the queue has entries: the rest waits in ours, and all come back. */
Test(io_uring, more_ops_than_entries)
{
    enum { OPS_COUNT = 5000 };
    struct rig r;
    rig_init(&r);
    int fd = rig_open(&r, IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE);
    struct io_op *ops = calloc(OPS_COUNT, sizeof(*ops));
    for (uint64_t i = 0; i < OPS_COUNT; i++) {
        ops[i] = (struct io_op){
            .kind = IO_WRITE, .fd = fd, .buf = "x", .size = 1, .pos = i, .on_done = on_done};
        io_submit(&r.io, &ops[i]);
    }
    rig_run_until(&r, 0);
    uint64_t size = 0;
    cr_assert(eq(int, io_file_size(&r.io, r.path, &size), ERR_OK));
    cr_assert(eq(u64, size, OPS_COUNT));
    for (size_t i = 0; i < OPS_COUNT; i++) {
        cr_assert(eq(int, ops[i].result, ERR_OK));
    }
    free(ops);
    rig_close(&r, fd);
    rig_done(&r);
}

Test(io_uring, lock_keeps_others_out)
{
    struct rig r;
    rig_init(&r);
    int first = -1;
    int second = -1;
    cr_assert(eq(int, io_lock(&r.io, r.path, &first), ERR_OK));
    cr_assert(eq(int, io_lock(&r.io, r.path, &second), ERR_LOCKED));
    io_unlock(&r.io, first);
    cr_assert(eq(int, io_lock(&r.io, r.path, &second), ERR_OK));
    io_unlock(&r.io, second);
    rig_done(&r);
}

static void socket_pair(int fds[2])
{
    cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0));
}

/* A transfer larger than any socket buffer, received in one op and sent from many vectors. */
Test(io_uring, sockets_move_everything)
{
    enum { PIECE_SIZE = 64 * 1024, PIECES_COUNT = 32, TOTAL_SIZE = PIECE_SIZE * PIECES_COUNT };
    struct rig r;
    rig_init(&r);
    int fds[2];
    socket_pair(fds);
    uint8_t *out = malloc(TOTAL_SIZE);
    uint8_t *in = calloc(TOTAL_SIZE, 1);
    struct iovec iov[PIECES_COUNT];
    for (size_t i = 0; i < TOTAL_SIZE; i++) {
        out[i] = (uint8_t)(i * 31 + i / 1000);
    }
    for (size_t i = 0; i < PIECES_COUNT; i++) {
        iov[i] = (struct iovec){.iov_base = out + i * PIECE_SIZE, .iov_len = PIECE_SIZE};
    }
    struct io_op recv = {.kind = IO_RECV,
                         .fd = fds[1],
                         .buf = in,
                         .size = TOTAL_SIZE,
                         .flags = IO_FLAG_ALL,
                         .on_done = on_done};
    struct io_op send = {.kind = IO_SEND,
                         .fd = fds[0],
                         .iov = iov,
                         .iov_count = PIECES_COUNT,
                         .size = TOTAL_SIZE,
                         .on_done = on_done};
    io_submit(&r.io, &recv);
    io_submit(&r.io, &send);
    rig_run_until(&r, 0);
    cr_assert(eq(int, recv.result, ERR_OK));
    cr_assert(eq(int, send.result, ERR_OK));
    cr_assert(eq(int, memcmp(in, out, TOTAL_SIZE), 0));

    (void)close(fds[0]);
    recv.flags = 0;
    cr_assert(eq(int, rig_call(&r, recv).result, ERR_EOF));
    struct io_op late = {.kind = IO_SEND, .fd = fds[1], .buf = out, .size = 1};
    cr_assert(eq(int, rig_call(&r, late).result, ERR_CLOSED));
    (void)close(fds[1]);
    free(in);
    free(out);
    rig_done(&r);
}

Test(io_uring, pooled_receives_wait_for_a_buffer)
{
    enum { RECVS_COUNT = 80 }; /* More than there are buffers. */
    struct rig r;
    rig_init(&r);
    int fds[RECVS_COUNT][2];
    struct io_op ops[RECVS_COUNT];
    for (size_t i = 0; i < RECVS_COUNT; i++) {
        socket_pair(fds[i]);
        cr_assert(eq(long, write(fds[i][0], &(char){'x'}, 1), 1));
        ops[i] = (struct io_op){
            .kind = IO_RECV, .fd = fds[i][1], .flags = IO_FLAG_POOLED, .on_done = on_done};
        io_submit(&r.io, &ops[i]);
    }
    rig_run_until(&r, RECVS_COUNT - 64);
    for (size_t turn = 0; turn < 10; turn++) {
        io_flush(&r.io);
        (void)io_run_completions(&r.io, 16);
    }
    cr_assert(eq(u32, r.io.in_flight_count, RECVS_COUNT - 64));

    bool is_returned[RECVS_COUNT] = {false};
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < RECVS_COUNT; i++) {
            if (ops[i].done_size == 1 && !is_returned[i]) {
                cr_assert(eq(u64, ops[i].size, 1));
                cr_assert(eq(chr, *(char *)ops[i].buf, 'x'));
                io_recv_buffer_return(&r.io, ops[i].buf);
                is_returned[i] = true;
            }
        }
        rig_run_until(&r, 0);
    }
    for (size_t i = 0; i < RECVS_COUNT; i++) {
        cr_assert(eq(int, ops[i].result, ERR_OK));
        cr_assert(is_returned[i]);
        (void)close(fds[i][0]);
        struct io_op op = {.kind = IO_RECV, .fd = fds[i][1], .flags = IO_FLAG_POOLED};
        cr_assert(eq(int, rig_call(&r, op).result, ERR_EOF));
        (void)close(fds[i][1]);
    }
    rig_done(&r);
}

static struct io *returns_to;

static void return_buffer(struct io_op *op)
{
    if (op->result == ERR_OK) {
        io_recv_buffer_return(returns_to, op->buf);
    }
}

/* More than there are buffers, and few completions a turn: all buffers are back before it is seen
 * that somebody had found none. Every third peer resets its connection meanwhile: what that ends
 * holds no buffer, and gives none back. */
Test(io_uring, a_pooled_receive_finds_the_buffers_that_came_back_before_it_was_heard)
{
    enum { RECVS_COUNT = 200, TURNS_MAX = 1000 };
    struct rig r;
    rig_init(&r);
    returns_to = &r.io;
    int fds[RECVS_COUNT][2];
    struct io_op ops[RECVS_COUNT];
    for (size_t i = 0; i < RECVS_COUNT; i++) {
        socket_pair(fds[i]);
        cr_assert(eq(long, write(fds[i][0], &(char){'x'}, 1), 1));
        ops[i] = (struct io_op){
            .kind = IO_RECV, .fd = fds[i][1], .flags = IO_FLAG_POOLED, .on_done = return_buffer};
        io_submit(&r.io, &ops[i]);
    }
    io_flush(&r.io);
    for (size_t i = 0; i < RECVS_COUNT; i += 3) {
        /* With unread data here, closing resets the other end. */
        cr_assert(eq(long, write(fds[i][1], &(char){'y'}, 1), 1));
        (void)close(fds[i][0]);
    }
    for (size_t turn = 0; turn < TURNS_MAX && r.io.in_flight_count > 0; turn++) {
        io_flush(&r.io);
        (void)io_run_completions(&r.io, 16);
    }
    cr_assert(eq(u32, r.io.in_flight_count, 0));
    for (size_t i = 0; i < RECVS_COUNT; i++) {
        if (i % 3 != 0) {
            cr_assert(eq(int, ops[i].result, ERR_OK));
            (void)close(fds[i][0]);
        }
        (void)close(fds[i][1]);
    }
    rig_done(&r);
}

/* Two receives are a turn of the loop and a call to the kernel more. */
Test(io_uring, a_batch_of_64_kib_and_its_request_come_in_one_pooled_receive)
{
    enum { REQUEST_SIZE = (64 << 10) + 1024 };
    static uint8_t request[REQUEST_SIZE];
    struct rig r;
    rig_init(&r);
    int fds[2];
    socket_pair(fds);
    cr_assert(eq(long, write(fds[0], request, REQUEST_SIZE), REQUEST_SIZE));
    struct io_op op =
        rig_call(&r, (struct io_op){.kind = IO_RECV, .fd = fds[1], .flags = IO_FLAG_POOLED});
    cr_assert(eq(u64, op.done_size, REQUEST_SIZE));
    io_recv_buffer_return(&r.io, op.buf);
    (void)close(fds[0]);
    (void)close(fds[1]);
    rig_done(&r);
}

Test(io_uring, cancel_ends_a_wait)
{
    struct rig r;
    rig_init(&r);
    int fds[2];
    socket_pair(fds);
    char c;
    struct io_op recv = {.kind = IO_RECV, .fd = fds[0], .buf = &c, .size = 1, .on_done = on_done};
    io_submit(&r.io, &recv);
    io_flush(&r.io);
    struct io_op cancel = {.kind = IO_CANCEL, .target = &recv, .on_done = on_done};
    io_submit(&r.io, &cancel);
    rig_run_until(&r, 0);
    cr_assert(eq(int, recv.result, ERR_CANCELLED));
    cr_assert(eq(int, cancel.result, ERR_OK));

    /* In one go, before the kernel saw the receive. */
    io_submit(&r.io, &recv);
    io_submit(&r.io, &cancel);
    rig_run_until(&r, 0);
    cr_assert(eq(int, recv.result, ERR_CANCELLED));
    (void)close(fds[0]);
    (void)close(fds[1]);
    rig_done(&r);
}

Test(io_uring, wait_ends_at_the_deadline)
{
    struct rig r;
    rig_init(&r);
    struct clock clock;
    clock_init_real(&clock);
    uint64_t before_us = clock_now_us(&clock);
    r.backend->ops->wait(r.backend, before_us + 2000);
    cr_assert(ge(u64, clock_now_us(&clock), before_us + 2000));
    rig_done(&r);
}

Test(io_uring, wake_ends_the_wait_of_another_ring)
{
    struct rig r;
    rig_init(&r);
    char why[IO_URING_WHY_SIZE];
    struct io_backend *other = NULL;
    cr_assert(eq(int, io_uring_backend_new(&other, why), ERR_OK));
    other->ops->wake(other, r.backend);
    other->ops->wake(other, r.backend); /* Once is enough, twice is harmless. */
    other->ops->flush(other);
    r.backend->ops->wait(r.backend, UINT64_MAX); /* Would hang without the wake. */
    cr_assert(eq(sz, io_run_completions(&r.io, 16), 0));
    io_uring_backend_free(other);
    rig_done(&r);
}

Test(io_uring, fs_info_of_the_build_directory)
{
    struct rig r;
    rig_init(&r);
    struct io_fs_info info;
    cr_assert(eq(int, io_fs_info(&r.io, r.dir, &info), ERR_OK));
    cr_assert(lt(u64, 0, info.size));
    cr_assert(ge(u64, info.size, info.available));
    cr_assert(ne(str, info.type, ""));
    if (info.is_flush_shared) {
        cr_assert(info.is_direct_capable);
    }
    cr_assert(eq(int, io_fs_info(&r.io, r.path, &info), ERR_NOT_FOUND));
    rig_done(&r);
}

Test(io_uring, tmpfs_is_not_direct_capable)
{
    struct rig r;
    rig_init(&r);
    struct io_fs_info info;
    if (io_fs_info(&r.io, "/dev/shm", &info) != ERR_OK || strcmp(info.type, "tmpfs") != 0) {
        rig_done(&r);
        cr_skip_test("SKIPPED, NOTHING WAS TESTED: no tmpfs here");
    }
    cr_assert(not(info.is_direct_capable));
    cr_assert(not(info.is_flush_shared));
    rig_done(&r);
}

/* Refuses one system call in this process; each test has one of its own. */
static bool refuse_system_call(uint32_t number, uint32_t error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {
        .len = sizeof(filter) / sizeof(filter[0]),
        .filter = filter,
    };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct refusal_row {
    uint32_t error;
    enum err e;
    const char *hint;
};

Test(io_uring, refusals_name_the_fix)
{
    const struct refusal_row rows[] = {
        {EPERM, ERR_UNSUPPORTED, "seccomp"},
        {ENOSYS, ERR_UNSUPPORTED, "seccomp"},
        {EINVAL, ERR_UNSUPPORTED, "Linux 6.1"},
        {EMFILE, ERR_BUSY, "ulimit -n"},
        {ENOMEM, ERR_BUSY, "ulimit -l"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pid_t pid = fork(); /* A filter stays for good. */
        cr_assert(ne(int, pid, -1));
        if (pid == 0) {
            char why[IO_URING_WHY_SIZE] = "";
            struct io_backend *b = NULL;
            if (!refuse_system_call(SYS_io_uring_setup, rows[i].error)) {
                _exit(2);
            }
            enum err e = io_uring_backend_new(&b, why);
            _exit(e == rows[i].e && b == NULL && strstr(why, rows[i].hint) != NULL ? 0 : 1);
        }
        int status = 0;
        cr_assert(eq(int, waitpid(pid, &status, 0), pid));
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
            cr_skip_test("SKIPPED, NOTHING WAS TESTED: no seccomp filters here");
        }
        cr_assert(eq(int, status, 0), "errno %u", rows[i].error);
    }
}

/* Without the privilege, the limit counts. */
Test(io_uring, memlock_is_checked_against_the_limit)
{
    char why[IO_URING_WHY_SIZE] = "";
    struct rlimit limit;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    cr_assert(eq(int, getrlimit(RLIMIT_MEMLOCK, &limit), 0));
    limit.rlim_cur = limit.rlim_max < 1 << 20 ? limit.rlim_max : 1 << 20;
    cr_assert(eq(int, setrlimit(RLIMIT_MEMLOCK, &limit), 0));
    cr_assert(eq(long, syscall(SYS_capset, &header, none), 0));
    cr_assert(eq(int, io_uring_check_memlock(limit.rlim_cur, why, sizeof(why)), ERR_OK));
    cr_assert(eq(int, io_uring_check_memlock(limit.rlim_cur + 1, why, sizeof(why)), ERR_NO_SPACE));
    cr_assert(ne(ptr, strstr(why, "ulimit -l"), NULL), "%s", why);
}

Test(io_uring, accept_and_connect)
{
    struct rig r;
    rig_init(&r);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", r.path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(eq(int, bind(listener, (struct sockaddr *)&address, sizeof(address)), 0));
    cr_assert(eq(int, listen(listener, 1), 0));
    struct io_op accepted = {.kind = IO_ACCEPT, .fd = listener, .on_done = on_done};
    io_submit(&r.io, &accepted);
    struct io_op connected = {
        .kind = IO_CONNECT, .fd = client, .buf = &address, .size = sizeof(address)};
    cr_assert(eq(int, rig_call(&r, connected).result, ERR_OK));
    rig_run_until(&r, 0);
    cr_assert(eq(int, accepted.result, ERR_OK));
    struct io_op sent = {.kind = IO_SEND, .fd = client, .buf = "hi", .size = 2};
    cr_assert(eq(int, rig_call(&r, sent).result, ERR_OK));
    char text[3] = "";
    struct io_op received = {
        .kind = IO_RECV, .fd = accepted.result_fd, .buf = text, .size = 2, .flags = IO_FLAG_ALL};
    cr_assert(eq(int, rig_call(&r, received).result, ERR_OK));
    cr_assert(eq(str, text, "hi"));
    (void)close(client);
    (void)close(listener);
    rig_close(&r, accepted.result_fd);
    rig_done(&r);
}

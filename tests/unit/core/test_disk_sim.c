/* The simulated disk keeps exactly what its rules promise: each test makes one kind of change,
 * syncs in one way, loses power in the meanest way, and looks at what is left. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>

#include "tests/support/io_rig.h"

/* A file with `blocks` durable blocks of 'a' and a durable name. */
static int make_durable_file(struct io_rig *r, const char *path, uint64_t blocks)
{
    int fd = rig_open(r, path, RIG_CREATE_DIRECT);
    cr_assert(ge(int, fd, 0));
    for (uint64_t i = 0; i < blocks; i++) {
        cr_assert(eq(int, rig_write_block(r, fd, i, 'a'), ERR_OK));
    }
    cr_assert(eq(int, rig_fd_call(r, IO_FSYNC, fd), ERR_OK));
    cr_assert(eq(int, rig_path_call(r, IO_FSYNC_DIR, "/", NULL), ERR_OK));
    return fd;
}

/* Rule 1: fsync covers data and size, and not the name. */
Test(disk_sim, fsync_does_not_cover_the_name)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = rig_open(&r, "/f", RIG_CREATE_DIRECT);
    cr_assert(eq(int, rig_write_block(&r, fd, 0, 'a'), ERR_OK));
    cr_assert(eq(int, rig_fd_call(&r, IO_FSYNC, fd), ERR_OK));
    rig_crash(&r, &RIG_LOSE_ALL);
    cr_assert(eq(int, rig_block(&r, "/f", 0), -2));
    rig_done(&r);
}

Test(disk_sim, the_name_does_not_cover_the_data)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = rig_open(&r, "/f", RIG_CREATE_DIRECT);
    cr_assert(eq(int, rig_write_block(&r, fd, 0, 'a'), ERR_OK));
    cr_assert(eq(int, rig_path_call(&r, IO_FSYNC_DIR, "/", NULL), ERR_OK));
    rig_crash(&r, &RIG_LOSE_ALL);
    uint64_t size = 1;
    cr_assert(eq(int, disk_sim_file_size(r.disk, "/f", &size), ERR_OK));
    cr_assert(eq(u64, size, 0));
    rig_done(&r);
}

/* Allocated room reads as zeros, and is nothing before a sync of its file. */
Test(disk_sim, allocating_only_makes_the_file_longer)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = make_durable_file(&r, "/f", 2);
    uint64_t size = 0;
    for (uint64_t pos = 0; pos <= 4; pos += 4) { /* What is there stays, what is missing comes. */
        struct io_op op = {.kind = IO_ALLOCATE, .fd = fd, .pos = pos * 4096, .size = 4096};
        cr_assert(eq(int, rig_call(&r, op).result, ERR_OK));
        cr_assert(eq(int, disk_sim_file_size(r.disk, "/f", &size), ERR_OK));
        cr_assert(eq(u64, size, pos == 0 ? 8192 : 20480));
    }
    cr_assert(eq(int, rig_block(&r, "/f", 1), 'a'));
    cr_assert(eq(int, rig_block(&r, "/f", 4), 0));
    rig_crash(&r, &RIG_LOSE_ALL);
    cr_assert(eq(int, disk_sim_file_size(r.disk, "/f", &size), ERR_OK));
    cr_assert(eq(u64, size, 8192));
    rig_done(&r);
}

struct flush_row {
    const char *what;
    bool is_shared;
    bool is_direct; /* The write before the flush. */
    uint64_t block; /* 0 and 1 are durable extents, 2 is new. */
    enum io_kind sync;
    int left; /* In the block after the loss. */
};

/* Rule 2: a flush of another file covers direct overwrites of durable extents, and nothing else. */
Test(disk_sim, what_a_flush_of_another_file_covers)
{
    const struct flush_row rows[] = {
        {"direct overwrite", true, true, 1, IO_FDATASYNC, 'b'},
        {"buffered overwrite", true, false, 1, IO_FDATASYNC, 'a'},
        {"new extent", true, true, 2, IO_FDATASYNC, -2},
        {"fsync promises nothing", true, true, 1, IO_FSYNC, 'a'},
        {"no shared flush here", false, true, 1, IO_FDATASYNC, 'a'},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct flush_row *row = &rows[i];
        struct io_rig r;
        rig_init(&r,
                 &(struct disk_sim_options){.is_direct_capable = true,
                                            .is_flush_shared = row->is_shared},
                 1);
        int other = make_durable_file(&r, "/other", 1);
        make_durable_file(&r, "/f", 2);
        int fd = rig_open(&r, "/f", row->is_direct ? RIG_CREATE_DIRECT : RIG_CREATE);
        cr_assert(eq(int, rig_write_block(&r, fd, row->block, 'b'), ERR_OK));
        cr_assert(eq(int, rig_fd_call(&r, row->sync, other), ERR_OK));
        rig_crash(&r, &RIG_LOSE_ALL);
        cr_assert(eq(int, rig_block(&r, "/f", row->block), row->left), "%s", row->what);
        rig_done(&r);
    }
}

/* Each directory of the root on a device of its own: no flush covers another's files, each fills up
 * by itself, and one that breaks leaves the others alone. */
Test(disk_sim, file_systems_are_apart)
{
    struct io_rig r;
    rig_init(&r,
             &(struct disk_sim_options){
                 .is_direct_capable = true, .is_flush_shared = true, .are_roots_volumes = true},
             1);
    cr_assert(eq(int, rig_path_call(&r, IO_MKDIR, "/a", NULL), ERR_OK));
    cr_assert(eq(int, rig_path_call(&r, IO_MKDIR, "/b", NULL), ERR_OK));
    cr_assert(eq(int, rig_path_call(&r, IO_FSYNC_DIR, "/", NULL), ERR_OK));
    int a = make_durable_file(&r, "/a/f", 1);
    int b = make_durable_file(&r, "/b/f", 1);
    cr_assert(eq(int, rig_path_call(&r, IO_FSYNC_DIR, "/a", NULL), ERR_OK));
    cr_assert(eq(int, rig_path_call(&r, IO_FSYNC_DIR, "/b", NULL), ERR_OK));
    int a_direct = rig_open(&r, "/a/f", RIG_CREATE_DIRECT);
    int b_direct = rig_open(&r, "/b/f", RIG_CREATE_DIRECT);
    cr_assert(eq(int, rig_write_block(&r, a_direct, 0, 'A'), ERR_OK));
    cr_assert(eq(int, rig_write_block(&r, b_direct, 0, 'B'), ERR_OK));
    cr_assert(eq(int, rig_fd_call(&r, IO_FDATASYNC, a), ERR_OK));
    rig_crash(&r, &RIG_LOSE_ALL);
    cr_assert(eq(int, rig_block(&r, "/a/f", 0), 'A'));
    cr_assert(eq(int, rig_block(&r, "/b/f", 0), 'a'));

    struct io_fs_info info_a;
    struct io_fs_info info_b;
    disk_sim_set_capacity_at(r.disk, "/b", 4096);
    disk_sim_fs_info(r.disk, "/a", &info_a);
    disk_sim_fs_info(r.disk, "/b/f", &info_b);
    cr_assert(ne(u64, info_a.device_id, info_b.device_id));
    cr_assert(eq(u64, info_b.available, 0));
    b = rig_open(&r, "/b/f", RIG_CREATE_DIRECT);
    a = rig_open(&r, "/a/f", RIG_CREATE_DIRECT);
    cr_assert(eq(int, rig_write_block(&r, b, 1, 'B'), ERR_NO_SPACE));
    cr_assert(eq(int, rig_write_block(&r, a, 1, 'A'), ERR_OK));

    disk_sim_set_broken(r.disk, "/b", true);
    cr_assert(eq(int, rig_write_block(&r, b, 0, 'B'), ERR_IO));
    cr_assert(eq(int, rig_fd_call(&r, IO_FDATASYNC, b), ERR_IO));
    cr_assert(eq(int, rig_fd_call(&r, IO_CLOSE, b), ERR_OK));
    cr_assert(eq(int, rig_write_block(&r, a, 0, 'A'), ERR_OK));
    disk_sim_set_broken(r.disk, "/b", false);
    rig_done(&r);
}

/* A sync counts from its start: what completes while it runs is not covered. */
Test(disk_sim, a_sync_covers_what_completed_before_it_started)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = make_durable_file(&r, "/f", 2);
    void *buf = aligned_alloc(IO_ALIGN, IO_ALIGN);
    memset(buf, 'b', IO_ALIGN);
    struct rig_op write = {
        .op = {.kind = IO_WRITE, .fd = fd, .buf = buf, .size = IO_ALIGN, .pos = IO_ALIGN}};
    struct rig_op sync = {.op = {.kind = IO_FDATASYNC, .fd = fd}};
    rig_submit(&r, &write);
    rig_submit(&r, &sync);
    rig_run(&r);
    cr_assert(eq(int, write.op.result, ERR_OK));
    cr_assert(eq(int, sync.op.result, ERR_OK));
    cr_assert(eq(int, rig_block(&r, "/f", 1), 'b'));
    rig_crash(&r, &RIG_LOSE_ALL);
    cr_assert(eq(int, rig_block(&r, "/f", 1), 'a'));
    free(buf);
    rig_done(&r);
}

/* Rule 3: a rename is old or new, never both and never neither. */
Test(disk_sim, a_rename_is_atomic)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct io_rig r;
        rig_init(&r, &RIG_DISK, seed);
        make_durable_file(&r, "/old", 1);
        cr_assert(eq(int, rig_path_call(&r, IO_RENAME, "/old", "/new"), ERR_OK));
        cr_assert(eq(int, rig_block(&r, "/new", 0), 'a'));
        rig_crash(&r, &(struct disk_sim_crash){.is_power_loss = true, .keep_name = 50});
        bool has_old = rig_block(&r, "/old", 0) == 'a';
        bool has_new = rig_block(&r, "/new", 0) == 'a';
        cr_assert(ne(int, has_old, has_new), "seed=%d", (int)seed);
        rig_done(&r);
    }
}

Test(disk_sim, a_synced_rename_and_unlink_stay)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    make_durable_file(&r, "/a", 1);
    make_durable_file(&r, "/b", 2);
    cr_assert(eq(int, rig_path_call(&r, IO_RENAME, "/a", "/b"), ERR_OK));
    cr_assert(eq(int, rig_path_call(&r, IO_FSYNC_DIR, "/", NULL), ERR_OK));
    rig_crash(&r, &RIG_LOSE_ALL);
    cr_assert(eq(int, rig_block(&r, "/a", 0), -2));
    cr_assert(eq(int, rig_block(&r, "/b", 0), 'a'));
    cr_assert(eq(int, rig_block(&r, "/b", 1), -2));
    cr_assert(eq(int, rig_path_call(&r, IO_UNLINK, "/b", NULL), ERR_OK));
    rig_crash(&r, &RIG_LOSE_ALL); /* Not synced: it is back. */
    cr_assert(eq(int, rig_block(&r, "/b", 0), 'a'));
    cr_assert(eq(int, rig_path_call(&r, IO_UNLINK, "/b", NULL), ERR_OK));
    cr_assert(eq(int, rig_path_call(&r, IO_FSYNC_DIR, "/", NULL), ERR_OK));
    rig_crash(&r, &RIG_LOSE_ALL);
    cr_assert(eq(int, rig_block(&r, "/b", 0), -2));
    cr_assert(eq(u64, disk_sim_used_size(r.disk), 0));
    rig_done(&r);
}

Test(disk_sim, a_lost_directory_takes_its_files_along)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    cr_assert(eq(int, rig_path_call(&r, IO_MKDIR, "/d", NULL), ERR_OK));
    cr_assert(eq(int, rig_path_call(&r, IO_MKDIR, "/d", NULL), ERR_EXISTS));
    int fd = rig_open(&r, "/d/f", RIG_CREATE_DIRECT);
    cr_assert(eq(int, rig_write_block(&r, fd, 0, 'a'), ERR_OK));
    cr_assert(eq(int, rig_fd_call(&r, IO_FSYNC, fd), ERR_OK));
    cr_assert(eq(int, rig_path_call(&r, IO_FSYNC_DIR, "/d", NULL), ERR_OK));
    rig_crash(&r, &RIG_LOSE_ALL);
    cr_assert(eq(int, rig_path_call(&r, IO_FSYNC_DIR, "/d", NULL), ERR_NOT_FOUND));
    cr_assert(eq(u64, disk_sim_used_size(r.disk), 0));
    rig_done(&r);
}

/* Rule 4: what a dead process completed is there, and a power loss may still take it. */
Test(disk_sim, a_dead_process_leaves_undurable_data)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = make_durable_file(&r, "/f", 1);
    cr_assert(eq(int, rig_write_block(&r, fd, 0, 'b'), ERR_OK));
    rig_crash(&r, &(struct disk_sim_crash){0});
    cr_assert(eq(int, rig_block(&r, "/f", 0), 'b'));
    cr_assert(eq(int, (int)disk_sim_open_count(r.disk), 0));
    rig_crash(&r, &RIG_LOSE_ALL);
    cr_assert(eq(int, rig_block(&r, "/f", 0), 'a'));
    rig_done(&r);
}

Test(disk_sim, keeping_all_keeps_all)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = rig_open(&r, "/f", RIG_CREATE_DIRECT);
    cr_assert(eq(int, rig_write_block(&r, fd, 3, 'a'), ERR_OK));
    cr_assert(eq(int, rig_write_block(&r, fd, 0, 'b'), ERR_OK));
    uint64_t hash = disk_sim_hash(r.disk);
    rig_crash(&r, &RIG_KEEP_ALL);
    cr_assert(eq(int, rig_block(&r, "/f", 0), 'b'));
    cr_assert(eq(int, rig_block(&r, "/f", 1), 0));
    cr_assert(eq(int, rig_block(&r, "/f", 3), 'a'));
    cr_assert(eq(u64, disk_sim_hash(r.disk), hash));
    rig_done(&r);
}

/* Sectors of one unsynced write have different fates; durable neighbours are not touched. */
Test(disk_sim, writes_are_torn_at_the_sector)
{
    bool was_old = false;
    bool was_new = false;
    bool was_mixed = false;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct io_rig r;
        rig_init(&r, &RIG_DISK, seed);
        int fd = make_durable_file(&r, "/f", 3);
        cr_assert(eq(int, rig_write_block(&r, fd, 1, 'b'), ERR_OK));
        rig_crash(&r, &(struct disk_sim_crash){.is_power_loss = true, .keep_sector = 50});
        int left = rig_block(&r, "/f", 1);
        was_old |= left == 'a';
        was_new |= left == 'b';
        was_mixed |= left == -1;
        cr_assert(eq(int, rig_block(&r, "/f", 0), 'a'));
        cr_assert(eq(int, rig_block(&r, "/f", 2), 'a'));
        rig_done(&r);
    }
    cr_assert(was_old);
    cr_assert(was_new);
    cr_assert(was_mixed);
}

/* A write in flight at the crash happened in any subset of its sectors; its memory is not read. */
Test(disk_sim, writes_in_flight_happen_in_part)
{
    bool was_old = false;
    bool was_new = false;
    bool was_mixed = false;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct io_rig r;
        rig_init(&r, &RIG_DISK, seed);
        int fd = make_durable_file(&r, "/f", 1);
        void *buf = aligned_alloc(IO_ALIGN, IO_ALIGN);
        memset(buf, 'b', IO_ALIGN);
        struct rig_op *write = malloc(sizeof(*write));
        *write = (struct rig_op){.op = {.kind = IO_WRITE, .fd = fd, .buf = buf, .size = IO_ALIGN}};
        rig_submit(&r, write);
        free(write);
        free(buf);
        rig_crash(&r, &(struct disk_sim_crash){0});
        int left = rig_block(&r, "/f", 0);
        was_old |= left == 'a';
        was_new |= left == 'b';
        was_mixed |= left == -1;
        cr_assert(eq(int, (int)disk_sim_in_flight_count(r.disk), 0));
        rig_done(&r);
    }
    cr_assert(was_old);
    cr_assert(was_new);
    cr_assert(was_mixed);
}

/* Rule 5: after a failed sync no later one covers what the first should have written. */
Test(disk_sim, a_failed_sync_abandons_its_data)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = make_durable_file(&r, "/f", 2);
    cr_assert(eq(int, rig_write_block(&r, fd, 0, 'b'), ERR_OK));
    r.sim.options.sync_fail_one_in = 1;
    cr_assert(eq(int, rig_fd_call(&r, IO_FDATASYNC, fd), ERR_IO));
    r.sim.options.sync_fail_one_in = 0;
    cr_assert(eq(int, rig_write_block(&r, fd, 1, 'c'), ERR_OK));
    cr_assert(eq(int, rig_fd_call(&r, IO_FDATASYNC, fd), ERR_OK));
    rig_crash(&r, &RIG_LOSE_ALL);
    cr_assert(eq(int, rig_block(&r, "/f", 0), 'a'));
    cr_assert(eq(int, rig_block(&r, "/f", 1), 'c'));
    rig_done(&r);
}

Test(disk_sim, a_truncation_is_undone_or_done)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct io_rig r;
        rig_init(&r, &RIG_DISK, seed);
        make_durable_file(&r, "/f", 2);
        int fd = rig_open(&r, "/f", RIG_CREATE_DIRECT | IO_OPEN_TRUNCATE);
        cr_assert(eq(int, rig_write_block(&r, fd, 0, 'b'), ERR_OK));
        cr_assert(eq(u64, disk_sim_used_size(r.disk), IO_ALIGN));
        bool is_synced = seed % 2 == 0;
        if (is_synced) {
            cr_assert(eq(int, rig_fd_call(&r, IO_FSYNC, fd), ERR_OK));
        }
        rig_crash(&r, &RIG_LOSE_ALL);
        cr_assert(eq(int, rig_block(&r, "/f", 0), is_synced ? 'b' : 'a'));
        cr_assert(eq(int, rig_block(&r, "/f", 1), is_synced ? -2 : 'a'));
        rig_done(&r);
    }
}

Test(disk_sim, a_full_disk_refuses_new_blocks_only)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    disk_sim_set_capacity(r.disk, (uint64_t)2 * IO_ALIGN);
    int fd = make_durable_file(&r, "/f", 2);
    cr_assert(eq(int, rig_write_block(&r, fd, 2, 'b'), ERR_NO_SPACE));
    cr_assert(eq(int, rig_write_block(&r, fd, 1, 'b'), ERR_OK));
    int other = rig_open(&r, "/other", RIG_CREATE_DIRECT);
    cr_assert(eq(int, rig_write_block(&r, other, 0, 'c'), ERR_NO_SPACE));
    cr_assert(eq(int, rig_fd_call(&r, IO_CLOSE, fd), ERR_OK));
    cr_assert(eq(int, rig_path_call(&r, IO_UNLINK, "/f", NULL), ERR_OK));
    struct io_fs_info info;
    disk_sim_fs_info(r.disk, "/", &info);
    cr_assert(eq(u64, info.size, (uint64_t)2 * IO_ALIGN));
    rig_done(&r);
}

Test(disk_sim, damage_reaches_every_version)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = make_durable_file(&r, "/f", 1);
    cr_assert(eq(int, rig_write_block(&r, fd, 0, 'b'), ERR_OK));
    cr_assert(eq(int, disk_sim_flip_bit(r.disk, "/f", 100, 0), ERR_OK));
    cr_assert(eq(int, disk_sim_flip_bit(r.disk, "/f", IO_ALIGN, 0), ERR_EOF));
    cr_assert(eq(int, disk_sim_flip_bit(r.disk, "/g", 0, 0), ERR_NOT_FOUND));
    uint8_t byte;
    cr_assert(eq(int, disk_sim_peek(r.disk, "/f", 100, &byte, 1), ERR_OK));
    cr_assert(eq(int, byte, 'b' ^ 1));
    rig_crash(&r, &RIG_LOSE_ALL);
    cr_assert(eq(int, disk_sim_peek(r.disk, "/f", 100, &byte, 1), ERR_OK));
    cr_assert(eq(int, byte, 'b' ^ 1));
    rig_done(&r);
}

/* A block of 'b' that is written to /f with a detour: its own place keeps what it had, and all the
 * same counts as written. */
Test(disk_sim, a_misdirected_write_hits_another_place)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = make_durable_file(&r, "/f", 2);
    make_durable_file(&r, "/other", 2);
    uint8_t *buf = aligned_alloc(IO_ALIGN, IO_ALIGN);
    memset(buf, 'b', IO_ALIGN);
    const struct {
        uint64_t block; /* Of /f, where it was meant for. */
        int left;       /* What stands there afterwards. */
    } rows[] = {{0, 'a'}, {2, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct iovec rest = {.iov_base = buf, .iov_len = IO_ALIGN};
        const struct io_op op = {.kind = IO_WRITE,
                                 .fd = fd,
                                 .buf = buf,
                                 .size = IO_ALIGN,
                                 .pos = rows[i].block * IO_ALIGN,
                                 .rest = &rest,
                                 .rest_count = 1};
        struct disk_sim_op *o = disk_sim_start(r.disk, &op);
        char path[16];
        cr_assert(disk_sim_op_path(o, path, sizeof(path)));
        cr_assert(eq(str, path, "/f"));
        cr_assert(eq(int, disk_sim_misdirect(o, "/none", 0), ERR_NOT_FOUND));
        cr_assert(eq(int, disk_sim_misdirect(o, "/other", (uint64_t)2 * IO_ALIGN), ERR_EOF));
        cr_assert(eq(int, disk_sim_misdirect(o, "/other", i * IO_ALIGN), ERR_OK));
        cr_assert(eq(i64, disk_sim_finish(o, UINT64_MAX), IO_ALIGN));
        cr_assert(eq(int, rig_block(&r, "/other", i), 'b'));
        cr_assert(eq(int, rig_block(&r, "/f", rows[i].block), rows[i].left));
    }
    free(buf);
    rig_done(&r);
}

static void two_writes_on_one_block(void)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = make_durable_file(&r, "/f", 1);
    void *buf = aligned_alloc(IO_ALIGN, IO_ALIGN);
    memset(buf, 'b', IO_ALIGN);
    struct io_op op = {.kind = IO_WRITE, .fd = fd, .buf = buf, .size = IO_ALIGN};
    struct rig_op first = {.op = op};
    struct rig_op second = {.op = op};
    rig_submit(&r, &first);
    rig_submit(&r, &second);
}

Test(disk_sim, overlapping_direct_writes_are_a_bug, .signal = SIGABRT)
{
    two_writes_on_one_block();
}

Test(disk_sim, a_buffer_must_not_change_in_flight, .signal = SIGABRT)
{
    struct io_rig r;
    rig_init(&r, &RIG_DISK, 1);
    int fd = make_durable_file(&r, "/f", 1);
    uint8_t *buf = aligned_alloc(IO_ALIGN, IO_ALIGN);
    memset(buf, 'b', IO_ALIGN);
    struct rig_op write = {.op = {.kind = IO_WRITE, .fd = fd, .buf = buf, .size = IO_ALIGN}};
    rig_submit(&r, &write);
    buf[17] = 'x';
    rig_run(&r);
}

/* The same seed gives the same disk, whatever happened to it. */
Test(disk_sim, a_crash_is_deterministic)
{
    uint64_t hashes[2];
    for (int i = 0; i < 2; i++) {
        struct io_rig r;
        rig_init(&r, &RIG_DISK, 7);
        for (uint64_t round = 0; round < 20; round++) {
            int fd = rig_open(&r, round % 2 == 0 ? "/f" : "/g", RIG_CREATE_DIRECT);
            for (uint64_t block = 0; block < 8; block++) {
                (void)rig_write_block(&r, fd, block, (uint8_t)(round * 8 + block));
            }
            struct disk_sim_crash how = disk_sim_crash_draw(&r.rand);
            rig_crash(&r, &how);
        }
        hashes[i] = disk_sim_hash(r.disk);
        rig_done(&r);
    }
    cr_assert(eq(u64, hashes[0], hashes[1]));
}

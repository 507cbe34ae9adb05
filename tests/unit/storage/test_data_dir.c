/* Data directories: founding one, every refusal with the line that names the fix, crashes while it
 * is founded, and the merge of stores when the number of shards changes.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/data_dir.h"
#include "storage/flusher.h"
#include "storage/store.h"
#include "storage/store_format.h"

#include "tests/support/sim_shard.h"

static const char DIR[] = "/data";

static enum err
open_dir(struct sim_shard *ss, int32_t node_id, char why[DATA_WHY_SIZE], struct data_dir *ret_dir)
{
    why[0] = 0;
    enum err e = data_dir_open(ss->s, DIR, node_id, why, ret_dir);
    cr_assert(eq(int, e == ERR_OK, why[0] == 0), "%s", why);
    cr_assert(strchr(why, '\n') == NULL, "one line");
    return e;
}

static void write_file(struct sim_shard *ss, const char *path, const char *text)
{
    struct io *io = &ss->s->io;
    struct io_op op = {
        .kind = IO_OPEN,
        .path = path,
        .open_flags = IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_TRUNCATE,
    };
    cr_assert(eq(int, io_call(io, &op), ERR_OK));
    int fd = op.result_fd;
    op = (struct io_op){
        .kind = IO_WRITE, .fd = fd, .buf = (void *)(uintptr_t)text, .size = strlen(text)};
    cr_assert(eq(int, io_call(io, &op), ERR_OK));
    op = (struct io_op){.kind = IO_CLOSE, .fd = fd};
    cr_assert(eq(int, io_call(io, &op), ERR_OK));
}

static void make_dir(struct sim_shard *ss, const char *path)
{
    struct io_op op = {.kind = IO_MKDIR, .path = path};
    cr_assert(eq(int, io_call(&ss->s->io, &op), ERR_OK));
}

Test(data_dir, is_founded_once_and_found_again)
{
    struct sim_shard ss;
    struct data_dir first;
    struct data_dir again;
    char why[DATA_WHY_SIZE];
    struct disk_sim *disk = sim_disk_new();
    sim_shard_init(&ss, disk, 1);
    cr_assert(eq(int, open_dir(&ss, 3, why, &first), ERR_OK));
    cr_assert(first.is_new);
    cr_assert(eq(int, first.node_id, 3));
    cr_assert(not(uuid_is_zero(&first.cluster_id)));
    cr_assert(not(uuid_equal(&first.cluster_id, &first.directory_id)));
    cr_assert(eq(str, first.path, (char *)DIR));
    struct data_dir copy = first;
    data_dir_close(ss.s, &first);
    cr_assert(eq(int, open_dir(&ss, 3, why, &again), ERR_OK));
    cr_assert(not(again.is_new));
    cr_assert(uuid_equal(&again.cluster_id, &copy.cluster_id));
    cr_assert(uuid_equal(&again.directory_id, &copy.directory_id));
    data_dir_close(ss.s, &again);
    sim_shard_done(&ss);
    disk_sim_free(disk);
}

/* Each row: what is there before, and what the refusal must say. */
Test(data_dir, refusals_name_the_fix)
{
#define IDS                                                                                      \
    "\"cluster_id\": \"AAAAAAAAAAAAAAAAAAAAAQ\", \"directory_id\": \"AAAAAAAAAAAAAAAAAAAAAg\", " \
    "\"controller_directory_id\": \"AAAAAAAAAAAAAAAAAAAAAg\""
    static const struct {
        const char *name;
        const char *format;  /* Text of format.json. */
        const char *foreign; /* A file that is there. */
        enum err expected;
        const char *says;
    } rows[] = {
        {"all is well", "{\"version\": 1, \"node_id\": 3, " IDS "}", NULL, ERR_OK, ""},
        {"another node",
         "{\"version\": 1, \"node_id\": 4, " IDS "}",
         NULL,
         ERR_FOREIGN,
         "belongs to node 4 of cluster AAAAAAAAAAAAAAAAAAAAAQ; start with --node-id 4 or use "
         "another --data-dir"},
        {"newer",
         "{\"version\": 2, \"node_id\": 3, " IDS "}",
         NULL,
         ERR_NEWER_FORMAT,
         "start the newer version again"},
        {"no version", "{\"node_id\": 3, " IDS "}", NULL, ERR_CORRUPT, "has no version"},
        {"no node", "{\"version\": 1, " IDS "}", NULL, ERR_CORRUPT, "restore it from a backup"},
        {"no ids", "{\"version\": 1, \"node_id\": 3}", NULL, ERR_CORRUPT, "lacks cluster_id"},
        {"node id out of range",
         "{\"version\": 1, \"node_id\": -1, " IDS "}",
         NULL,
         ERR_CORRUPT,
         "lacks"},
        {"not JSON", "version 1", NULL, ERR_CORRUPT, "is not valid JSON"},
        {"empty", "", NULL, ERR_CORRUPT, "is not valid JSON"},
        {"not an object", "[1]", NULL, ERR_CORRUPT, "is not valid JSON"},
        {"somebody else's", NULL, "/data/passwords.txt", ERR_FOREIGN, "use an empty one"},
        {"format.json lost", NULL, "/data/shard-0.store", ERR_CORRUPT, "is missing though"},
        {"a file system's own", NULL, "/data/lost+found", ERR_OK, ""},
        {"founding was interrupted", NULL, "/data/format.json.new", ERR_OK, ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sim_shard ss;
        struct data_dir d;
        char why[DATA_WHY_SIZE];
        struct disk_sim *disk = sim_disk_new();
        sim_shard_init(&ss, disk, i + 1);
        make_dir(&ss, DIR);
        if (rows[i].format != NULL) {
            write_file(&ss, "/data/format.json", rows[i].format);
        }
        if (rows[i].foreign != NULL) {
            write_file(&ss, rows[i].foreign, "x");
        }
        enum err e = open_dir(&ss, 3, why, &d);
        cr_assert(eq(int, e, rows[i].expected), "%s: %s", rows[i].name, why);
        cr_assert(strstr(why, rows[i].says) != NULL, "%s: %s", rows[i].name, why);
        if (e == ERR_OK) {
            data_dir_close(ss.s, &d);
        }
        cr_assert(eq(u32, disk_sim_open_count(disk), 0));
        sim_shard_done(&ss);
        disk_sim_free(disk);
    }
#undef IDS
}

/* Several: which files are there, which directories are given, what comes of it. */
struct set_row {
    const char *name;
    const char *formats[3]; /* "cluster directory controller" ids, one letter each; NULL = empty. */
    const char *given;      /* Numbers of directories. */
    enum err expected;
    const char *says; /* Or, when all is well, the numbers in the order of the result. */
};

static const char *const SET_DIRS[] = {"/data0", "/data1", "/data2"};

static void write_format_of(struct sim_shard *ss, int number, const char *letters)
{
    char path[64];
    char text[512];
    (void)snprintf(path, sizeof(path), "%s/format.json", SET_DIRS[number]);
    (void)snprintf(text,
                   sizeof(text),
                   "{\"version\": 1, \"node_id\": 3, \"cluster_id\": \"AAAAAAAAAAAAAAAAAAAA%cQ\", "
                   "\"directory_id\": \"AAAAAAAAAAAAAAAAAAAA%cQ\", "
                   "\"controller_directory_id\": \"AAAAAAAAAAAAAAAAAAAA%cQ\"}",
                   letters[0],
                   letters[1],
                   letters[2]);
    write_file(ss, path, text);
}

static enum err open_set(struct sim_shard *ss,
                         const char *given,
                         char why[DATA_WHY_SIZE],
                         struct data_dir *ret_dirs)
{
    const char *paths[3];
    uint32_t count = 0;
    for (; given[count] != '\0'; count++) {
        paths[count] = SET_DIRS[given[count] - '0'];
    }
    why[0] = '\0';
    const struct data_dirs_open how = {.paths = paths, .count = count, .node_id = 3};
    return data_dirs_open(ss->s, &how, why, ret_dirs);
}

Test(data_dir, several_are_told_apart_by_their_ids)
{
    static const struct set_row rows[] = {
        {"all are new", {NULL, NULL, NULL}, "201", ERR_OK, "201"},
        {"as they were", {"axx", "ayx", "azx"}, "012", ERR_OK, "012"},
        {"in another order", {"axx", "ayx", "azx"}, "210", ERR_OK, "021"},
        {"one more", {"axx", "ayx", NULL}, "210", ERR_OK, "021"},
        {"a crash after the first was founded", {NULL, "ayy", NULL}, "012", ERR_OK, "102"},
        {"without the controller's",
         {"aww", "ayx", "azx"},
         "12",
         ERR_NOT_FOUND,
         "with directory_id AAAAAAAAAAAAAAAAAAAAxQ, which has the controller's log"},
        {"an empty one instead of the controller's",
         {NULL, "ayx", NULL},
         "01",
         ERR_NOT_FOUND,
         "not mounted; mount it"},
        {"another cluster's",
         {"axx", "bzx", NULL},
         "01",
         ERR_FOREIGN,
         "/data1 belongs to cluster AAAAAAAAAAAAAAAAAAAAbQ, and /data0 to"},
        {"a copy",
         {"axx", "ayx", "ayx"},
         "012",
         ERR_FOREIGN,
         "/data2 and /data1 have the same directory_id AAAAAAAAAAAAAAAAAAAAyQ"},
        {"of two sets", {"axx", "ayw", NULL}, "01", ERR_FOREIGN, "do not belong together"},
        {"twice", {"axx", NULL, NULL}, "00", ERR_LOCKED, "or given twice"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct set_row *row = &rows[i];
        struct sim_shard ss;
        struct data_dir dirs[3];
        char why[DATA_WHY_SIZE];
        struct disk_sim *disk = sim_disk_new();
        sim_shard_init(&ss, disk, i + 1);
        for (int n = 0; n < 3; n++) {
            make_dir(&ss, SET_DIRS[n]);
            if (row->formats[n] != NULL) {
                write_format_of(&ss, n, row->formats[n]);
            }
        }
        enum err e = open_set(&ss, row->given, why, dirs);
        cr_assert(eq(int, e, row->expected), "%s: %s", row->name, why);
        if (e != ERR_OK) {
            cr_assert(strstr(why, row->says) != NULL, "%s: %s", row->name, why);
        } else {
            for (size_t n = 0; row->says[n] != '\0'; n++) {
                cr_assert(
                    eq(str, dirs[n].path, (char *)SET_DIRS[row->says[n] - '0']), "%s", row->name);
                cr_assert(uuid_equal(&dirs[n].cluster_id, &dirs[0].cluster_id));
                cr_assert(uuid_equal(&dirs[n].controller_directory_id, &dirs[0].directory_id));
                cr_assert(
                    eq(int, n > 0 && uuid_equal(&dirs[n].directory_id, &dirs[0].directory_id), 0));
            }
            const struct uuid first = dirs[0].directory_id;
            data_dirs_close(ss.s, dirs, (uint32_t)strlen(row->given));
            struct data_dir again[3];
            e = open_set(&ss, row->given, why, again);
            cr_assert(eq(int, e, ERR_OK), "%s: %s", row->name, why);
            cr_assert(uuid_equal(&again[0].directory_id, &first));
            data_dirs_close(ss.s, again, (uint32_t)strlen(row->given));
        }
        cr_assert(eq(u32, disk_sim_open_count(disk), 0), "%s", row->name);
        sim_shard_done(&ss);
        disk_sim_free(disk);
    }
}

Test(data_dir, a_live_process_holds_it)
{
    struct sim_shard ss;
    struct data_dir d;
    struct data_dir second;
    char why[DATA_WHY_SIZE];
    struct disk_sim *disk = sim_disk_new();
    sim_shard_init(&ss, disk, 1);
    cr_assert(eq(int, open_dir(&ss, 0, why, &d), ERR_OK));
    cr_assert(eq(int, open_dir(&ss, 0, why, &second), ERR_LOCKED));
    cr_assert(strstr(why, "in use by another process") != NULL);
    data_dir_close(ss.s, &d);
    cr_assert(eq(int, open_dir(&ss, 0, why, &d), ERR_OK), "a refusal keeps no lock");
    data_dir_close(ss.s, &d);
    sim_shard_done(&ss);
    disk_sim_free(disk);
}

Test(data_dir, a_file_system_without_direct_io_is_refused)
{
    struct sim_shard ss;
    struct data_dir d;
    char why[DATA_WHY_SIZE];
    struct disk_sim *disk = disk_sim_new(&(struct disk_sim_options){.is_direct_capable = false});
    sim_shard_init(&ss, disk, 1);
    cr_assert(eq(int, open_dir(&ss, 0, why, &d), ERR_UNSUPPORTED));
    cr_assert(strstr(why, "ext4 or XFS") != NULL, "%s", why);
    sim_shard_done(&ss);
    disk_sim_free(disk);
}

/* One flush serves only what lies on one file system. Here each directory of the root has its own.
 */
Test(data_dir, logs_on_another_file_system_share_no_flush)
{
    struct sim_shard ss;
    struct data_dir d;
    char why[DATA_WHY_SIZE] = {0};
    struct disk_sim *disk = disk_sim_new(&(struct disk_sim_options){
        .is_direct_capable = true, .is_flush_shared = true, .are_roots_volumes = true});
    sim_shard_init(&ss, disk, 1);
    cr_assert(eq(int, data_dir_open(ss.s, "/", 3, why, &d), ERR_OK), "%s", why);
    cr_assert(d.fs.is_flush_shared, "they will be made where the directory is");
    cr_assert(ne(int, d.quiet_fd, d.lock_handle), "a flush under way keeps no lock");
    data_dir_close(ss.s, &d);
    make_dir(&ss, "/logs");
    cr_assert(eq(int, data_dir_open(ss.s, "/", 3, why, &d), ERR_OK), "%s", why);
    cr_assert(not(d.fs.is_flush_shared));
    data_dir_close(ss.s, &d);

    cr_assert(eq(int, open_dir(&ss, 3, why, &d), ERR_OK));
    data_dir_close(ss.s, &d);
    make_dir(&ss, "/data/logs");
    cr_assert(eq(int, open_dir(&ss, 3, why, &d), ERR_OK));
    cr_assert(d.fs.is_flush_shared);
    data_dir_close(ss.s, &d);
    sim_shard_done(&ss);
    disk_sim_free(disk);
}

Test(data_dir, a_missing_parent_is_named)
{
    struct sim_shard ss;
    struct data_dir d;
    char why[DATA_WHY_SIZE];
    struct disk_sim *disk = sim_disk_new();
    sim_shard_init(&ss, disk, 1);
    cr_assert(eq(int, data_dir_open(ss.s, "/no/such", 0, why, &d), ERR_NOT_FOUND));
    cr_assert(strstr(why, "create it first") != NULL, "%s", why);
    sim_shard_done(&ss);
    disk_sim_free(disk);
}

/* Every op of the founding fails once, and a crash follows: the next start founds it or finds it
 * whole. */
Test(data_dir, founding_survives_failures_and_crashes)
{
    for (uint32_t at = 1;; at++) {
        struct sim_shard ss;
        struct data_dir d;
        char why[DATA_WHY_SIZE];
        struct disk_sim *disk = sim_disk_new();
        sim_shard_init(&ss, disk, at);
        io_fault_add(&ss.io_fault,
                     &(struct io_fault_rule){.kind = IO_FAULT_ANY,
                                             .fd = IO_FAULT_ANY,
                                             .at = at,
                                             .action = IO_FAULT_FAIL,
                                             .code = EIO});
        enum err e = open_dir(&ss, 5, why, &d);
        bool is_hit = ss.io_fault.injected > 0;
        if (e == ERR_OK) {
            data_dir_close(ss.s, &d);
        }
        struct disk_sim_crash how = disk_sim_crash_draw(&ss.rand);
        disk_sim_crash(disk, &ss.rand, &how);
        sim_shard_done(&ss);
        sim_shard_init(&ss, disk, at + 1000);
        cr_assert(eq(int, open_dir(&ss, 5, why, &d), ERR_OK), "at=%u: %s", at, why);
        cr_assert(not(e == ERR_OK && d.is_new), "what was reported founded stays");
        data_dir_close(ss.s, &d);
        sim_shard_done(&ss);
        disk_sim_free(disk);
        if (!is_hit) {
            cr_assert(lt(u32, 8, at));
            break;
        }
    }
}

/* A start that dies at any op leaves names that are there and not durable. What the next start
 * reports as opened has to outlive the loss of everything that nobody flushed. */
Test(data_dir, what_a_dead_start_left_becomes_durable)
{
    for (uint32_t at = 1;; at++) {
        struct sim_shard ss;
        struct data_dir d;
        char why[DATA_WHY_SIZE];
        struct disk_sim *disk = sim_disk_new();
        sim_shard_init(&ss, disk, at);
        io_fault_add(&ss.io_fault,
                     &(struct io_fault_rule){.kind = IO_FAULT_ANY,
                                             .fd = IO_FAULT_ANY,
                                             .at = at,
                                             .action = IO_FAULT_FAIL,
                                             .code = EIO});
        enum err e = open_dir(&ss, 5, why, &d);
        bool is_hit = ss.io_fault.injected > 0;
        if (e == ERR_OK) {
            data_dir_close(ss.s, &d);
        }
        disk_sim_crash(disk, &ss.rand, &(struct disk_sim_crash){.is_power_loss = false});
        sim_shard_done(&ss);
        sim_shard_init(&ss, disk, at + 1000);
        cr_assert(eq(int, open_dir(&ss, 5, why, &d), ERR_OK), "at=%u: %s", at, why);
        struct uuid id = d.directory_id;
        data_dir_close(ss.s, &d);
        disk_sim_crash(disk, &ss.rand, &(struct disk_sim_crash){.is_power_loss = true});
        sim_shard_done(&ss);
        sim_shard_init(&ss, disk, at + 2000);
        cr_assert(eq(int, open_dir(&ss, 5, why, &d), ERR_OK), "at=%u: %s", at, why);
        cr_assert(not(d.is_new), "at=%u", at);
        cr_assert(uuid_equal(&d.directory_id, &id), "at=%u", at);
        data_dir_close(ss.s, &d);
        sim_shard_done(&ss);
        disk_sim_free(disk);
        if (!is_hit) {
            break;
        }
    }
}

/* ---- stores of another number of shards ---------------------------------------------------- */

enum {
    LOGS = 20,
};

/* A machine that lives through changes of its number of shards. versions: what each log's value
 * has to be; 0 = deleted. */
struct machine {
    struct disk_sim *disk;
    uint64_t seed;
    uint32_t values[LOGS];
    uint32_t next_value;
};

struct shard_store {
    struct sim_shard ss;
    struct flusher *f;
    struct store *st;
    struct uuid directory_id;
    bool is_opened;
    enum err opened;
};

static void on_failed(void *context, enum err e)
{
    (void)context;
    cr_assert(eq(int, e, ERR_OK));
}

static void on_opened(void *context, enum err e, struct store *st)
{
    struct shard_store *x = context;
    x->is_opened = true;
    x->opened = e;
    x->st = st;
}

static struct store_key key_of(int log)
{
    struct store_key k = {.log.partition = log, .kind = STORE_VOTE};
    k.log.topic_id.bytes[0] = 9;
    return k;
}

static uint16_t shard_of(int log, uint16_t shards_count)
{
    return (uint16_t)(log % shards_count);
}

static bool owns(void *context, const struct partition_id *log)
{
    struct shard_store *x = context;
    return shard_of(log->partition, x->ss.s->shards_count) == x->ss.s->id;
}

static void boot(struct machine *m, struct shard_store *x, uint16_t id, uint16_t count)
{
    memset(x, 0, sizeof(*x));
    sim_shard_init_as(&x->ss, m->disk, ++m->seed, id, count);
    cr_assert(eq(int,
                 flusher_new(x->ss.s,
                             &(struct flusher_options){
                                 .is_shared = true, .context = x, .on_failed = on_failed},
                             &x->f),
                 ERR_OK));
}

static enum err open_store(struct shard_store *x)
{
    struct store_open how = {.dir = DIR,
                             .directory_id = x->directory_id,
                             .flusher = x->f,
                             .context = x,
                             .owns = owns,
                             .on_opened = on_opened,
                             .area_blocks_min = 4};
    cr_assert(eq(int, store_open_begin(x->ss.s, &how), ERR_OK));
    cr_assert(sim_shard_run_until(&x->ss, &x->is_opened));
    return x->opened;
}

static void stop(struct shard_store *x)
{
    sim_shard_settle(&x->ss);
    store_free(x->st);
    sim_shard_settle(&x->ss);
    flusher_free(x->f);
    sim_shard_done(&x->ss);
}

/* Checks the values of this shard's logs, changes some, some are deleted. */
static void live(struct machine *m, struct shard_store *x)
{
    for (int log = 0; log < LOGS; log++) {
        if (shard_of(log, x->ss.s->shards_count) != x->ss.s->id) {
            continue;
        }
        struct store_key k = key_of(log);
        struct slice found;
        bool is_there = store_get(x->st, &k, &found);
        cr_assert(eq(int, is_there, m->values[log] != 0), "log=%d", log);
        if (is_there) {
            uint32_t value;
            cr_assert(eq(sz, found.size, sizeof(value)));
            memcpy(&value, found.data, sizeof(value));
            cr_assert(eq(u32, value, m->values[log]), "log=%d", log);
        }
        if (rand_one_in(&x->ss.rand, 3)) {
            m->values[log] = 0;
            cr_assert(eq(int, store_delete_log(x->st, &k.log), ERR_OK));
        } else if (rand_one_in(&x->ss.rand, 2)) {
            m->values[log] = ++m->next_value;
            struct slice value = slice_of(&m->values[log], sizeof(m->values[log]));
            cr_assert(eq(int, store_put(x->st, &k, value), ERR_OK));
        }
    }
    sim_shard_settle(&x->ss);
}

/* One life with count shards, ending early after `shards_opened` of them, with or without the
 * removal of what the merge left; `failing_op`: the data directory's open is cut short there. */
static void
life(struct machine *m, uint16_t count, uint16_t shards_opened, bool drops, uint32_t failing_op)
{
    struct shard_store x;
    struct data_dir d;
    char why[DATA_WHY_SIZE];
    boot(m, &x, 0, count);
    if (failing_op > 0) {
        io_fault_add(&x.ss.io_fault,
                     &(struct io_fault_rule){.kind = IO_FAULT_ANY,
                                             .fd = IO_FAULT_ANY,
                                             .at = failing_op,
                                             .action = IO_FAULT_FAIL,
                                             .code = EIO});
    }
    enum err e = open_dir(&x.ss, 0, why, &d);
    bool is_hit = x.ss.io_fault.injected > 0;
    io_fault_clear(&x.ss.io_fault);
    if (e != ERR_OK) {
        cr_assert(is_hit, "%s", why);
        stop(&x);
    } else {
        for (uint16_t id = 0; id < shards_opened; id++) {
            if (id > 0) {
                boot(m, &x, id, count);
            }
            x.directory_id = d.directory_id;
            cr_assert(eq(int, open_store(&x), ERR_OK));
            live(m, &x);
            if (drops && id + 1 == count) {
                store_drop_stale(x.ss.s, DIR);
            }
            stop(&x);
        }
        io_unlock(&(struct io){.backend = &x.ss.io_sim.backend}, d.lock_handle);
        free(d.path);
    }
    struct rand rand;
    rand_init_seed(&rand, m->seed);
    struct disk_sim_crash how = disk_sim_crash_draw(&rand);
    disk_sim_crash(m->disk, &rand, &how);
}

Test(data_dir, values_follow_their_logs_through_changes_of_the_number_of_shards)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct machine m = {.disk = sim_disk_new(), .seed = seed * 1000};
        struct rand rand;
        rand_init_seed(&rand, seed);
        for (int i = 0; i < 12; i++) {
            uint16_t count = (uint16_t)(1 + rand_below(&rand, 4));
            bool is_whole = rand_one_in(&rand, 2);
            uint16_t opened = is_whole ? count : (uint16_t)(1 + rand_below(&rand, count));
            uint32_t failing_op = rand_one_in(&rand, 3) ? 1 + (uint32_t)rand_below(&rand, 80) : 0;
            life(&m, count, opened, rand_one_in(&rand, 2), failing_op);
        }
        disk_sim_free(m.disk);
    }
}

/* The merge runs before there is a flusher: a sync of it that fails ends the start, and the next
 * one merges again. */
Test(data_dir, a_merge_whose_sync_fails_ends_the_start)
{
    static const enum io_kind kinds[] = {IO_FSYNC, IO_FDATASYNC, IO_FSYNC_DIR};
    uint64_t injected = 0;
    for (size_t i = 0; i < 3 * sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct machine m = {.disk = sim_disk_new(), .seed = 700 + i};
        life(&m, 2, 2, true, 0);
        struct shard_store x;
        struct data_dir d;
        char why[DATA_WHY_SIZE];
        boot(&m, &x, 0, 3);
        io_fault_add(&x.ss.io_fault,
                     &(struct io_fault_rule){
                         .kind = (int)kinds[i / 3],
                         .fd = IO_FAULT_ANY,
                         /* The first one of a directory is the parent's, which may fail. */
                         .at = 1 + (uint32_t)i % 3 + (kinds[i / 3] == IO_FSYNC_DIR),
                         .action = IO_FAULT_FAIL,
                         .code = EIO,
                     });
        enum err e = open_dir(&x.ss, 0, why, &d);
        cr_assert(eq(int, e != ERR_OK, x.ss.io_fault.injected > 0), "%s", why);
        injected += x.ss.io_fault.injected;
        if (e == ERR_OK) {
            data_dir_close(x.ss.s, &d);
        }
        io_fault_clear(&x.ss.io_fault);
        sim_shard_settle(&x.ss);
        flusher_free(x.f);
        sim_shard_done(&x.ss);
        disk_sim_crash(m.disk, &x.ss.rand, &(struct disk_sim_crash){.is_power_loss = true});
        life(&m, 3, 3, true, 0);
        disk_sim_free(m.disk);
    }
    cr_assert(lt(u64, 2, injected));
}

/* Nobody shall have to free space on a disk that only this node could empty. */
Test(data_dir, a_merge_without_space_says_how_to_start_all_the_same)
{
    struct machine m = {.disk = sim_disk_new(), .seed = 5};
    struct shard_store x;
    struct data_dir d;
    char why[DATA_WHY_SIZE];
    life(&m, 2, 2, true, 0);
    boot(&m, &x, 0, 3);
    io_fault_add(&x.ss.io_fault,
                 &(struct io_fault_rule){.kind = IO_WRITE,
                                         .fd = IO_FAULT_ANY,
                                         .at = 1,
                                         .action = IO_FAULT_FAIL,
                                         .code = ENOSPC});
    cr_assert(eq(int, open_dir(&x.ss, 0, why, &d), ERR_NO_SPACE), "%s", why);
    cr_assert(strstr(why, "or start with as many cores as before") != NULL, "%s", why);
    io_fault_clear(&x.ss.io_fault);
    sim_shard_settle(&x.ss);
    flusher_free(x.f);
    sim_shard_done(&x.ss);
    life(&m, 2, 2, true, 0); /* So it does. */
    disk_sim_free(m.disk);
}

/* A lost store file would make its logs look as if they had never been written to. */
Test(data_dir, a_missing_store_is_not_taken_for_an_empty_one)
{
    struct machine m = {.disk = sim_disk_new(), .seed = 5};
    struct shard_store x;
    struct data_dir d;
    char why[DATA_WHY_SIZE];
    life(&m, 2, 2, true, 0);
    for (int has_logs = 0; has_logs < 2; has_logs++) {
        boot(&m, &x, 0, 2);
        struct io_op op = {.kind = IO_UNLINK, .path = "/data/shard-1.store"};
        (void)io_call(&x.ss.s->io, &op);
        if (has_logs == 1) {
            make_dir(&x.ss, "/data/logs");
            make_dir(&x.ss, "/data/logs/some-log");
        }
        enum err e = open_dir(&x.ss, 0, why, &d);
        cr_assert(eq(int, e, has_logs == 1 ? ERR_CORRUPT : ERR_OK), "%s", why);
        if (e == ERR_OK) {
            data_dir_close(x.ss.s, &d);
        } else {
            cr_assert(strstr(why, "/data/shard-1.store is missing though") != NULL, "%s", why);
        }
        flusher_free(x.f);
        sim_shard_done(&x.ss);
    }
    disk_sim_free(m.disk);
}

/* The refusal says that the log says where: so it must, whoever comes upon the damage. */
Test(data_dir, a_damaged_store_is_reported_with_its_place)
{
    static const struct {
        const char *name;
        const char *text; /* What is in the file. */
        int64_t flip_pos; /* Or this byte is flipped. */
        uint16_t shards;  /* 1: as the stores were made, 2: they are merged. */
    } rows[] = {
        {"empty", "", -1, 1},
        {"empty, merged", "", -1, 2},
        {"superblock", NULL, 20, 1},
        {"superblock, merged", NULL, 20, 2},
        {"contents, merged", NULL, STORE_BLOCK_SIZE + 100, 2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct machine m = {.disk = sim_disk_new(), .seed = 5};
        struct shard_store x;
        struct data_dir d;
        char why[DATA_WHY_SIZE];
        life(&m, 1, 1, true, 0);
        boot(&m, &x, 0, rows[i].shards);
        if (rows[i].text != NULL) {
            write_file(&x.ss, "/data/shard-0.store", rows[i].text);
        } else {
            cr_assert(
                eq(int,
                   disk_sim_flip_bit(m.disk, "/data/shard-0.store", (uint64_t)rows[i].flip_pos, 3),
                   ERR_OK));
        }
        cr_assert(eq(int, open_dir(&x.ss, 0, why, &d), ERR_CORRUPT), "%s: %s", rows[i].name, why);
        cr_assert(strstr(why, "/data/shard-0.store is damaged (the log says where)") != NULL);
        cr_assert(strstr(x.ss.log_text, "store_corrupt: path=/data/shard-0.store pos=") != NULL,
                  "%s",
                  rows[i].name);
        flusher_free(x.f);
        sim_shard_done(&x.ss);
        disk_sim_free(m.disk);
    }
}

/* Without data_dir_open a store does not guess. */
Test(data_dir, a_store_of_another_number_of_shards_is_refused)
{
    struct machine m = {.disk = sim_disk_new(), .seed = 5};
    life(&m, 2, 2, true, 0);
    struct shard_store x;
    boot(&m, &x, 0, 3);
    cr_assert(eq(int, open_store(&x), ERR_FOREIGN));
    cr_assert(strstr(x.ss.log_text, "store_foreign") != NULL);
    flusher_free(x.f);
    sim_shard_done(&x.ss);
    disk_sim_free(m.disk);
}

/* A store brought from another directory, by a restore or a mixed-up mount, names none of the logs
 * that are here: their files would be removed as leftovers. */
Test(data_dir, a_store_of_another_directory_is_refused)
{
    struct machine m = {.disk = sim_disk_new(), .seed = 5};
    struct data_dir d;
    char why[DATA_WHY_SIZE];
    life(&m, 1, 1, true, 0);
    for (uint16_t count = 1; count <= 2; count++) {
        struct shard_store x;
        boot(&m, &x, 0, count);
        struct io_op op = {
            .kind = IO_RENAME, .path = "/data/format.json", .new_path = "/kept.json"};
        cr_assert(eq(int, io_call(&x.ss.s->io, &op), ERR_OK));
        write_file(&x.ss,
                   "/data/format.json",
                   "{\"version\": 1, \"node_id\": 0, \"cluster_id\": \"AAAAAAAAAAAAAAAAAAAAAQ\", "
                   "\"directory_id\": \"AAAAAAAAAAAAAAAAAAAABQ\", "
                   "\"controller_directory_id\": \"AAAAAAAAAAAAAAAAAAAABQ\"}");
        cr_assert(eq(int, open_dir(&x.ss, 0, why, &d), ERR_FOREIGN), "%s", why);
        cr_assert(strstr(why, "/data/shard-0.store was made in another data directory") != NULL,
                  "%s",
                  why);
        x.directory_id.bytes[0] = 1;
        op = (struct io_op){
            .kind = IO_RENAME, .path = "/kept.json", .new_path = "/data/format.json"};
        cr_assert(eq(int, io_call(&x.ss.s->io, &op), ERR_OK));
        cr_assert(eq(int, open_store(&x), ERR_FOREIGN));
        cr_assert(strstr(x.ss.log_text, "store_foreign") != NULL);
        flusher_free(x.f);
        sim_shard_done(&x.ss);
    }
    life(&m, 1, 1, true, 0); /* With its own it is as before. */
    disk_sim_free(m.disk);
}

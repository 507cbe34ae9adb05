/* Checks that ask the kernel: its version, io_uring, limits, the file system of the data. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/cli_check.h"
#include "core/io.h"
#include "core/io_uring.h"

enum {
    KERNEL_MAJOR_MIN = 6,
    KERNEL_MINOR_MIN = 1,
    NOFILE_GOOD = 262144, /* Descriptors for many partitions and clients. */
    NOFILE_MIN = 1024,
    PATH_SIZE = 512,
};

static const uint64_t GIB = 1 << 30;

static void check_version(struct cli_check *x)
{
    struct utsname name;
    int major = 0;
    int minor = 0;
    (void)uname(&name);
    const bool is_read = sscanf(name.release, "%d.%d", &major, &minor) == 2;
    const bool is_new =
        major > KERNEL_MAJOR_MIN || (major == KERNEL_MAJOR_MIN && minor >= KERNEL_MINOR_MIN);
    struct cli_check_result *r =
        cli_check_add(x, "kernel", is_read && is_new ? CLI_CHECK_PASS : CLI_CHECK_FAIL);
    cli_check_value(r, "%.80s", name.release);
    if (r->status != CLI_CHECK_PASS) {
        cli_check_advice(r, "Linux 6.1 or newer is needed: install a newer kernel");
    }
}

static struct io_backend *check_uring(struct cli_check *x)
{
    char why[IO_URING_WHY_SIZE] = "";
    struct io_backend *backend = NULL;
    const bool is_ok = io_uring_backend_new(&backend, why) == ERR_OK;
    struct cli_check_result *r =
        cli_check_add(x, "io_uring", is_ok ? CLI_CHECK_PASS : CLI_CHECK_FAIL);
    cli_check_value(r, is_ok ? "usable" : "not usable");
    cli_check_advice(r, "%s", why);
    return is_ok ? backend : NULL;
}

/* What the broker takes if nobody says otherwise: 256 MiB per core, at most a quarter of all. */
static uint64_t memory_wanted(const struct cli_check *x)
{
    const uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t wanted = (uint64_t)x->cores_count * (GIB / 4);
    return wanted < all / 4 ? wanted : all / 4;
}

static void check_memlock(struct cli_check *x)
{
    char why[CLI_CHECK_ADVICE_SIZE];
    char why_not_all[CLI_CHECK_ADVICE_SIZE];
    const uint64_t rings = (uint64_t)x->cores_count * IO_URING_LOCKED_SIZE;
    enum cli_check_status status = CLI_CHECK_PASS;
    const char *advice = "";
    if (io_uring_check_memlock(rings, why, sizeof(why)) != ERR_OK) {
        status = CLI_CHECK_FAIL;
        advice = why;
    } else if (io_uring_check_memlock(rings + memory_wanted(x), why_not_all, sizeof(why_not_all)) !=
               ERR_OK) {
        status = CLI_CHECK_WARN;
        advice = why_not_all;
    }
    struct cli_check_result *r = cli_check_add(x, "locked memory", status);
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        cli_check_value(r,
                        "limit %llu KiB%s",
                        (unsigned long long)limit.rlim_cur / 1024,
                        status == CLI_CHECK_PASS && rings + memory_wanted(x) > limit.rlim_cur
                            ? ", CAP_IPC_LOCK lifts it"
                            : "");
    } else {
        cli_check_value(r, "unlimited");
    }
    cli_check_advice(r, "%s", advice);
}

static void check_nofile(struct cli_check *x)
{
    struct rlimit limit = {0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    enum cli_check_status status = CLI_CHECK_PASS;
    if (limit.rlim_max < NOFILE_GOOD) {
        status = limit.rlim_max < NOFILE_MIN ? CLI_CHECK_FAIL : CLI_CHECK_WARN;
    }
    struct cli_check_result *r = cli_check_add(x, "open files", status);
    cli_check_value(r,
                    "limit %llu (hard %llu)",
                    (unsigned long long)limit.rlim_cur,
                    (unsigned long long)limit.rlim_max);
    if (status != CLI_CHECK_PASS) {
        cli_check_advice(r,
                         "connections and partitions need descriptors: raise the hard limit to %d "
                         "(LimitNOFILE= of systemd, /etc/security/limits.conf)",
                         NOFILE_GOOD);
    }
}

/* The directory itself, or the nearest above it that exists: there it will be made. */
static void find_existing(const char *path, char ret_path[PATH_SIZE])
{
    (void)snprintf(ret_path, PATH_SIZE, "%s", path);
    while (access(ret_path, F_OK) != 0) {
        char *slash = strrchr(ret_path, '/');
        if (slash == NULL) {
            (void)snprintf(ret_path, PATH_SIZE, ".");
            return;
        }
        if (slash == ret_path) {
            slash[1] = '\0';
            return;
        }
        *slash = '\0';
    }
}

static void check_space(struct cli_check *x, const struct io_fs_info *fs)
{
    const uint64_t wanted = 10 * GIB;
    struct cli_check_result *r =
        cli_check_add(x, "free space", fs->available >= wanted ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(
        r, "%.1f of %.1f GiB", (double)fs->available / (double)GIB, (double)fs->size / (double)GIB);
    if (r->status != CLI_CHECK_PASS) {
        cli_check_advice(r, "less than 10 GiB are free: a full disk stops producers");
    }
}

static void check_fs(struct cli_check *x, const struct io_fs_info *fs, const char *path)
{
    struct cli_check_result *r =
        cli_check_add(x, "direct I/O", fs->is_direct_capable ? CLI_CHECK_PASS : CLI_CHECK_FAIL);
    cli_check_value(r, "%s on %.60s", fs->type, path);
    if (!fs->is_direct_capable) {
        cli_check_advice(
            r, "%s cannot do direct I/O: put the data on ext4 or XFS (--data-dir)", fs->type);
        return;
    }
    r = cli_check_add(x, "shared flush", fs->is_flush_shared ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(r, fs->is_flush_shared ? "one flush for all files" : "a flush for each file");
    if (!fs->is_flush_shared) {
        cli_check_advice(r,
                         "every partition pays for its own flush: put the data on a single-device "
                         "ext4 or XFS with barriers and without data=journal");
    }
}

static void check_data_dir(struct cli_check *x, struct io_backend *backend, uint64_t *ret_device)
{
    char path[PATH_SIZE];
    find_existing(x->data_dir, path);
    const bool is_writable = access(path, W_OK | X_OK) == 0;
    struct cli_check_result *r =
        cli_check_add(x, "data directory", is_writable ? CLI_CHECK_PASS : CLI_CHECK_FAIL);
    cli_check_value(
        r, "%.60s%s", x->data_dir, strcmp(path, x->data_dir) == 0 ? "" : " (to be made)");
    if (!is_writable) {
        cli_check_advice(r, "%.200s cannot be written: choose another with --data-dir", path);
    }
    if (backend == NULL) {
        return;
    }
    struct io io;
    struct io_fs_info fs;
    io_init(&io, backend);
    const bool is_known = io_fs_info(&io, path, &fs) == ERR_OK;
    io_done(&io);
    if (is_known) {
        check_fs(x, &fs, path);
        check_space(x, &fs);
        *ret_device = fs.device_id;
    }
}

static void check_time(struct cli_check *x)
{
    struct timex now = {0};
    const int state = adjtimex(&now);
    if (state == -1) {
        return; /* Not allowed here: nothing is known. */
    }
    const bool is_synced = state != TIME_ERROR && (now.status & STA_UNSYNC) == 0;
    struct cli_check_result *r =
        cli_check_add(x, "wall clock", is_synced ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(r, is_synced ? "synchronised" : "not synchronised");
    if (!is_synced) {
        cli_check_advice(r,
                         "timestamps and retention by time follow the wall clock: run chrony or "
                         "systemd-timesyncd");
    }
}

void cli_check_kernel(struct cli_check *x, uint64_t *ret_device)
{
    check_version(x);
    struct io_backend *backend = check_uring(x);
    check_memlock(x);
    check_nofile(x);
    check_data_dir(x, backend, ret_device);
    check_time(x);
    io_uring_backend_free(backend);
}

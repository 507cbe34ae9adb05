#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/io_posix_priv.h"

enum err io_posix_list_dir(struct io_backend *b,
                           const char *path,
                           void *context,
                           void (*on_name)(void *context, const char *name))
{
    (void)b;
    DIR *d = opendir(path);
    if (d == NULL) {
        return io_err_of(-errno);
    }
    enum err e = ERR_OK;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(d);
        if (entry == NULL) {
            e = io_err_of(-errno);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            on_name(context, entry->d_name);
        }
    }
    (void)closedir(d);
    return e;
}

enum err io_posix_lock(struct io_backend *b, const char *path, int *ret_handle)
{
    (void)b;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (fd == -1) {
        return io_err_of(-errno);
    }
    /* flock, not fcntl: it belongs to the open file, so a second broker in the same process (tests)
     * is kept out too, and closing another descriptor of the file does not drop it. */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        enum err e = errno == EWOULDBLOCK ? ERR_LOCKED : io_err_of(-errno);
        (void)close(fd);
        return e;
    }
    *ret_handle = fd;
    return ERR_OK;
}

void io_posix_unlock(struct io_backend *b, int handle)
{
    (void)b;
    (void)close(handle);
}

enum err io_posix_file_size(struct io_backend *b, const char *path, uint64_t *ret_size)
{
    (void)b;
    struct stat st;
    if (stat(path, &st) != 0) {
        return io_err_of(-errno);
    }
    *ret_size = (uint64_t)st.st_size;
    return ERR_OK;
}

/* True if word stands in the comma-separated text. */
static bool has_option(const char *text, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = text; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strncmp(at, word, size) == 0 && (at[size] == ',' || at[size] == '\0')) {
            return true;
        }
    }
    return false;
}

/* True if an option begins with start, as in "journal_path=...". */
static bool has_option_like(const char *text, const char *start)
{
    size_t size = strlen(start);
    for (const char *at = text; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strncmp(at, start, size) == 0) {
            return true;
        }
    }
    return false;
}

bool io_posix_is_flush_shared(const struct io_fs_mount *m)
{
    bool has_barriers =
        !has_option(m->options, "nobarrier") && !has_option(m->options, "barrier=0");
    if (strcmp(m->type, "ext4") == 0) {
        return has_barriers && !has_option(m->options, "data=journal") &&
               !has_option_like(m->options, "journal_dev=") &&
               !has_option_like(m->options, "journal_path=");
    }
    if (strcmp(m->type, "xfs") == 0) {
        return has_barriers && !has_option_like(m->options, "logdev=") &&
               !has_option_like(m->options, "rtdev=");
    }
    return false;
}

/* Fields, see proc(5): id parent major:minor root mountpoint options [tags...] - type source
 * options-of-the-file-system. Spaces inside of fields are written as octal escapes. */
bool io_posix_parse_mount(const char *line, uint64_t id, struct io_fs_mount *ret_mount)
{
    char *end;
    uint64_t line_id = strtoull(line, &end, 10);
    if (end == line || line_id != id) {
        return false;
    }
    char mount_options[256];
    if (sscanf(line, "%*s %*s %*s %*s %*s %255s", mount_options) != 1) {
        return false;
    }
    const char *separator = strstr(line, " - ");
    char type[sizeof(ret_mount->type)];
    char fs_options[256];
    if (separator == NULL || sscanf(separator + 3, "%15s %*s %255s", type, fs_options) != 2) {
        return false;
    }
    memcpy(ret_mount->type, type, sizeof(type));
    (void)snprintf(
        ret_mount->options, sizeof(ret_mount->options), "%s,%s", mount_options, fs_options);
    return true;
}

static bool find_mount(uint64_t id, struct io_fs_mount *ret_mount)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    if (f == NULL) {
        return false;
    }
    char *line = NULL;
    size_t line_capacity = 0;
    bool is_found = false;
    while (!is_found && getline(&line, &line_capacity, f) != -1) {
        line[strcspn(line, "\n")] = '\0';
        is_found = io_posix_parse_mount(line, id, ret_mount);
    }
    free(line);
    (void)fclose(f);
    return is_found;
}

/* A file without a name on the file system of path, opened for direct I/O; -1 if there is no such
 * thing. The kernel tells alignments for files only, not for directories. */
static int open_probe_file(const char *path)
{
    int fd = open(path, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
    if (fd != -1) {
        return fd;
    }
    char name[PATH_MAX];
    int size = snprintf(name, sizeof(name), "%s/.coreflume-probe-%d", path, (int)getpid());
    if (size < 0 || (size_t)size >= sizeof(name)) {
        return -1;
    }
    fd = open(name, O_CREAT | O_EXCL | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
    if (fd != -1) {
        (void)unlink(name);
    }
    return fd;
}

static bool has_direct_io(int fd)
{
    struct statx stx;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) != 0) {
        return false;
    }
    if ((stx.stx_mask & STATX_DIOALIGN) == 0 || stx.stx_dio_offset_align == 0) {
        return false;
    }
    return stx.stx_dio_mem_align <= IO_ALIGN && stx.stx_dio_offset_align <= IO_ALIGN;
}

/* Files may inherit the journalling of data from their directory (chattr +j). */
static bool has_journalled_data(int fd)
{
    int flags = 0;
    return ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && (flags & FS_JOURNAL_DATA_FL) != 0;
}

/* True unless the block device is known to be made of exactly one other or none: a flush of a
 * multi-disk device depends on a driver that nobody checked. */
static bool is_multi_device(dev_t device)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/slaves", major(device), minor(device));
    DIR *d = opendir(path);
    if (d == NULL) {
        /* A partition has no such directory of its own; a device that is not there at all (btrfs,
         * overlay) was ruled out by its type. */
        return false;
    }
    int count = 0;
    for (struct dirent *entry = readdir(d); entry != NULL; entry = readdir(d)) {
        count += entry->d_name[0] != '.' ? 1 : 0;
    }
    (void)closedir(d);
    return count > 1;
}

/* Appends all options of an ext4: mountinfo hides those that are the file system's own defaults,
 * and data=journal may be one. False if they cannot be had. */
static bool add_ext4_options(dev_t device, struct io_fs_mount *m)
{
    char link[64];
    char target[PATH_MAX];
    (void)snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(device), minor(device));
    ssize_t size = readlink(link, target, sizeof(target) - 1);
    if (size <= 0) {
        return false;
    }
    target[size] = '\0';
    const char *name = strrchr(target, '/');
    char path[PATH_MAX];
    (void)snprintf(
        path, sizeof(path), "/proc/fs/ext4/%.255s/options", name == NULL ? target : name + 1);
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return false;
    }
    char line[128];
    while (fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        size_t used = strlen(m->options);
        (void)snprintf(m->options + used, sizeof(m->options) - used, ",%s", line);
    }
    (void)fclose(f);
    return true;
}

/* Opens name of the whole disk that device is, or is a partition of. */
static FILE *open_disk_file(dev_t device, const char *name)
{
    char path[128];
    int size = snprintf(
        path, sizeof(path), "/sys/dev/block/%u:%u/partition", major(device), minor(device));
    /* Behind the link of a partition, the parent is its disk. */
    const char *parent = access(path, F_OK) == 0 ? "../" : "";
    size -= (int)strlen("partition");
    (void)snprintf(path + size, sizeof(path) - (size_t)size, "%s%s", parent, name);
    return fopen(path, "re");
}

/* The number in field index (from 0) of a file of the disk; -1 if there is none. */
static int64_t read_disk_number(dev_t device, const char *name, int index)
{
    FILE *f = open_disk_file(device, name);
    if (f == NULL) {
        return -1;
    }
    int64_t number = -1;
    for (int i = 0; i <= index; i++) {
        if (fscanf(f, "%" SCNd64, &number) != 1) {
            number = -1;
            break;
        }
    }
    (void)fclose(f);
    return number;
}

/* Whether the disk must be told to flush, and would count it. */
static bool are_flushes_counted(dev_t device)
{
    char mode[32] = "";
    FILE *f = open_disk_file(device, "queue/write_cache");
    if (f == NULL) {
        return false;
    }
    bool has_cache = fgets(mode, sizeof(mode), f) != NULL && strcmp(mode, "write back\n") == 0;
    (void)fclose(f);
    return has_cache && read_disk_number(device, "queue/iostats", 0) == 1;
}

/* The proof, where the disk counts: a sync of a file that has nothing to write must reach the
 * device as a flush. False only if it did not. Other traffic may make a missing flush look present,
 * so this stands beside the checks of type and options, not in their place. */
static bool may_sync_flush_device(dev_t device, int fd)
{
    enum { FLUSHES_FIELD = 15 };
    if (!are_flushes_counted(device)) {
        return true;
    }
    /* The first one may have the file's own metadata to write. */
    if (fdatasync(fd) != 0) {
        return false;
    }
    int64_t before = read_disk_number(device, "stat", FLUSHES_FIELD);
    if (fdatasync(fd) != 0) {
        return false;
    }
    int64_t after = read_disk_number(device, "stat", FLUSHES_FIELD);
    return before < 0 || after > before;
}

/* fd: a probe file on it. Whatever is doubtful counts as no. */
static bool is_flush_shared_on(dev_t device, int fd, struct io_fs_mount *m)
{
    if (strcmp(m->type, "ext4") == 0 && !add_ext4_options(device, m)) {
        return false;
    }
    return io_posix_is_flush_shared(m) && !has_journalled_data(fd) && !is_multi_device(device) &&
           may_sync_flush_device(device, fd);
}

enum err io_posix_fs_info(struct io_backend *b, const char *path, struct io_fs_info *ret_info)
{
    (void)b;
    struct statvfs fs;
    struct stat st;
    struct statx stx;
    if (statvfs(path, &fs) != 0 || stat(path, &st) != 0 ||
        statx(AT_FDCWD, path, 0, STATX_MNT_ID, &stx) != 0) {
        return io_err_of(-errno);
    }
    struct io_fs_info info = {
        .type = "unknown",
        .device_id = (uint64_t)st.st_dev,
        .size = (uint64_t)fs.f_blocks * fs.f_frsize,
        .available = (uint64_t)fs.f_bavail * fs.f_frsize,
    };
    struct io_fs_mount mount = {0};
    if ((stx.stx_mask & STATX_MNT_ID) != 0 && find_mount(stx.stx_mnt_id, &mount)) {
        memcpy(info.type, mount.type, sizeof(info.type));
    }
    int fd = open_probe_file(path);
    if (fd == -1 && errno != EINVAL && errno != EOPNOTSUPP) {
        return io_err_of(-errno); /* Not writable: no answer about direct I/O. */
    }
    if (fd != -1) {
        info.is_direct_capable = has_direct_io(fd);
        info.is_flush_shared = info.is_direct_capable && is_flush_shared_on(st.st_dev, fd, &mount);
        (void)close(fd);
    }
    *ret_info = info;
    return ERR_OK;
}

enum err io_posix_available(struct io_backend *b, const char *path, uint64_t *ret_size)
{
    (void)b;
    struct statvfs fs;
    if (statvfs(path, &fs) != 0) {
        return io_err_of(-errno);
    }
    *ret_size = (uint64_t)fs.f_bavail * fs.f_frsize;
    return ERR_OK;
}

/* Which file systems may share a flush: anything doubtful may not. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "core/io_posix_priv.h"

struct mount_row {
    const char *what;
    const char *line;
    const char *type;
    bool is_flush_shared;
};

Test(io_posix, mounts)
{
    const struct mount_row rows[] = {
        {"plain ext4", "31 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw", "ext4", true},
        {"no tags", "31 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw,discard", "ext4", true},
        {"two tags",
         "31 1 8:1 / / rw shared:1 master:2 - ext4 /dev/sda1 rw,errors=remount-ro",
         "ext4",
         true},
        {"ordered data", "31 1 8:1 / / rw - ext4 /dev/sda1 rw,data=ordered", "ext4", true},
        {"journalled data", "31 1 8:1 / / rw - ext4 /dev/sda1 rw,data=journal", "ext4", false},
        {"no barriers", "31 1 8:1 / / rw - ext4 /dev/sda1 rw,nobarrier", "ext4", false},
        {"no barriers, spelled out",
         "31 1 8:1 / / rw - ext4 /dev/sda1 barrier=0,rw",
         "ext4",
         false},
        {"journal elsewhere",
         "31 1 8:1 / / rw - ext4 /dev/sda1 rw,journal_path=/dev/sdb",
         "ext4",
         false},
        {"xfs", "31 1 8:1 / / rw - xfs /dev/sda1 rw,attr2,inode64,noquota", "xfs", true},
        {"xfs with a log device", "31 1 8:1 / / rw - xfs /dev/sda1 rw,logdev=/dev/b", "xfs", false},
        {"btrfs", "31 1 0:30 / / rw - btrfs /dev/sda1 rw", "btrfs", false},
        {"tmpfs", "31 1 0:31 / /tmp rw - tmpfs tmpfs rw", "tmpfs", false},
        {"overlay",
         "31 1 0:32 / / rw - overlay overlay rw,lowerdir=/a,upperdir=/b",
         "overlay",
         false},
        {"a name with a dash", "31 1 8:1 / /a\\040-\\040b rw - ext4 /dev/sda1 rw", "ext4", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct io_fs_mount m;
        cr_assert(io_posix_parse_mount(rows[i].line, 31, &m), "%s", rows[i].what);
        cr_assert(eq(str, m.type, (char *)rows[i].type), "%s", rows[i].what);
        cr_assert(
            eq(int, io_posix_is_flush_shared(&m), rows[i].is_flush_shared), "%s", rows[i].what);
    }
}

Test(io_posix, other_lines_are_not_taken)
{
    struct io_fs_mount m;
    const char *const lines[] = {
        "",
        "x",
        "31",
        "31 1 8:1 / / rw",
        "31 1 8:1 / / rw - ext4",
        "311 1 8:1 / / rw - ext4 /dev/sda1 rw",
        "32 1 8:1 / / rw - ext4 /dev/sda1 rw",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        cr_assert(not(io_posix_parse_mount(lines[i], 31, &m)), "%s", lines[i]);
    }
}

/* The blocking start-up helpers of io.h on the real file system, for io backends.
 *
 * Shard: any; nothing is shared. They block: never called once a loop serves.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/io.h"

struct io_fs_mount {
    char type[16];
    char options[2048]; /* Per mount and per file system, comma separated. */
};

enum err io_posix_list_dir(struct io_backend *b,
                           const char *path,
                           void *context,
                           void (*on_name)(void *context, const char *name));
enum err io_posix_fs_info(struct io_backend *b, const char *path, struct io_fs_info *ret_info);
enum err io_posix_lock(struct io_backend *b, const char *path, int *ret_handle);
void io_posix_unlock(struct io_backend *b, int handle);
enum err io_posix_file_size(struct io_backend *b, const char *path, uint64_t *ret_size);
enum err io_posix_available(struct io_backend *b, const char *path, uint64_t *ret_size);

/* The mount of line, one line of /proc/self/mountinfo, if its number is id. */
bool io_posix_parse_mount(const char *line, uint64_t id, struct io_fs_mount *ret_mount);

/* Whether one flush covers completed overwrites in all files, by type and options alone. */
bool io_posix_is_flush_shared(const struct io_fs_mount *m);

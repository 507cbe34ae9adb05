/* coreflume log dump, by kind of file: segments entry by entry, stores value by value, checkpoints.
 *
 * One thread, no shard.
 */
#pragma once

#include "cli/cli_command.h"
#include "core/err.h"

struct io;

/* Each prints one file: lines for people, or with --json a line of JSON per item. An error is about
 * the whole file, for cli_log_dump to say; *ret_bad_pos: what of it is damaged. */
enum err cli_dump_segment(struct cli *cli, struct io *io, const char *path, uint64_t *ret_bad_pos);
enum err cli_dump_store(struct cli *cli, struct io *io, const char *path, uint64_t *ret_bad_pos);
enum err
cli_dump_checkpoint(struct cli *cli, struct io *io, const char *path, uint64_t *ret_bad_pos);

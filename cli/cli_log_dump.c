/* coreflume log dump: what is in the files of a data directory. */
#include <inttypes.h>
#include <string.h>

#include "cli/cli_dump.h"
#include "cli/cli_parse.h"
#include "core/io.h"
#include "core/io_uring.h"

struct file_kind {
    const char *suffix;
    const char *name;
    enum err (*dump)(struct cli *cli, struct io *io, const char *path, uint64_t *ret_bad_pos);
};

/* By name: what a damaged file was can only be told from that. Any other is taken for a segment. */
static const struct file_kind kinds[] = {
    {".log", "segment", cli_dump_segment},
    {".store", "store", cli_dump_store},
    {".checkpoint", "checkpoint", cli_dump_checkpoint},
};

static const struct file_kind *kind_of(const char *path)
{
    const size_t size = strlen(path);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const size_t suffix_size = strlen(kinds[i].suffix);
        if (size > suffix_size && strcmp(path + size - suffix_size, kinds[i].suffix) == 0) {
            return &kinds[i];
        }
    }
    return &kinds[0];
}

static int say_unreadable(struct cli *cli, const char *path, enum err e)
{
    const char *why = err_name(e);
    if (e == ERR_NOT_FOUND) {
        why = "no such file";
    } else if (e == ERR_NEWER_FORMAT) {
        why = "written by a newer version of coreflume";
    } else if (e == ERR_IO) {
        why = "it cannot be read";
    } else if (e == ERR_BUSY) {
        why = "no memory";
    }
    return cli_fail(cli, CLI_FAILED, "%s: %s", path, why);
}

static int dump_file(struct cli *cli, struct io *io, const char *path)
{
    const struct file_kind *kind = kind_of(path);
    uint64_t bad_pos = 0;
    const enum err e = kind->dump(cli, io, path, &bad_pos);
    if (e == ERR_OK) {
        return CLI_OK;
    }
    if (e != ERR_CORRUPT) {
        return say_unreadable(cli, path, e);
    }
    if (bad_pos != 0) {
        return cli_fail(cli, CLI_FAILED, "%s: damaged at position %" PRIu64, path, bad_pos);
    }
    return cli_fail(cli,
                    CLI_FAILED,
                    "%s: not a %s file: its header is damaged or of something else (segments are "
                    "<data>/logs/<topic-id>-<partition>/*.log, stores <data>/*.store)",
                    path,
                    kind->name);
}

int cli_log_dump(struct cli *cli)
{
    char why[IO_URING_WHY_SIZE];
    struct io_backend *backend = NULL;
    if (io_uring_backend_new(&backend, why) != ERR_OK) {
        return cli_fail(cli, CLI_FAILED, "%s", why);
    }
    struct io io;
    io_init(&io, backend);
    int code = CLI_OK;
    for (int i = 0; i < cli->operands_count; i++) {
        const int result = dump_file(cli, &io, cli->operands[i]);
        code = result == CLI_OK ? code : result;
    }
    io_done(&io);
    io_uring_backend_free(backend);
    return code;
}

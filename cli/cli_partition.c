#include "cli/cli_partition.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_command.h"
#include "core/edit_distance.h"
#include "core/io.h"

enum {
    PATH_SIZE = 4096,
    NAME_SIZE = 512,
};

struct nearest {
    const char *wanted;
    size_t distance; /* Less than this. */
    char name[NAME_SIZE];
};

static void on_log(void *context, const char *name)
{
    struct nearest *n = context;
    const size_t distance = strlen(name) < NAME_SIZE ? edit_distance(n->wanted, name) : SIZE_MAX;
    if (distance > 0 && distance < n->distance) {
        n->distance = distance;
        (void)snprintf(n->name, sizeof(n->name), "%s", name);
    }
}

static int refuse_unknown(struct cli *cli, struct io *io, const char *dir, const char *name)
{
    char logs[PATH_SIZE];
    struct nearest nearest = {.wanted = name, .distance = strlen(name) / 3 + 2};
    (void)snprintf(logs, sizeof(logs), "%s/logs", dir);
    if (io_list_dir(io, logs, &nearest, on_log) != ERR_OK) {
        return cli_fail(
            cli, CLI_FAILED, "%s has no logs: give its node's data directory with --data-dir", dir);
    }
    if (nearest.name[0] != '\0') {
        return cli_fail(
            cli, CLI_FAILED, "no partition %s in %s: did you mean '%s'?", name, dir, nearest.name);
    }
    return cli_fail(cli,
                    CLI_FAILED,
                    "no partition %s in %s: give it as TOPIC-PARTITION, and its node's data "
                    "directory with --data-dir",
                    name,
                    dir);
}

/* "<topic id>-<partition>", perhaps behind a path. */
static bool parse_target(char *target, struct partition_id *ret_id)
{
    char *slash = strrchr(target, '/');
    char *name = slash == NULL ? target : slash + 1;
    char *dash = strrchr(name, '-');
    if (dash == NULL) {
        return false;
    }
    char *end;
    *dash = '\0';
    errno = 0;
    const long partition = strtol(dash + 1, &end, 10);
    if (end == dash + 1 || *end != '\0' || errno != 0 || partition < 0 || partition > INT32_MAX) {
        return false;
    }
    ret_id->partition = (int32_t)partition;
    return uuid_parse(name, &ret_id->topic_id);
}

int cli_find_partition(
    struct cli *cli, struct io *io, const char *dir, const char *name, struct partition_id *ret_id)
{
    char path[PATH_SIZE];
    char target[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/logs/%s", dir, name);
    const ssize_t size = readlink(path, target, sizeof(target) - 1);
    if (size < 0 && errno != ENOENT && errno != ENOTDIR && errno != EINVAL) {
        return cli_fail(cli,
                        CLI_FAILED,
                        "cannot read %s: %s%s",
                        path,
                        strerror(errno),
                        errno == EACCES ? ": run this as the user that the node runs as" : "");
    }
    target[size < 0 ? 0 : size] = '\0';
    if (!parse_target(target, ret_id)) { /* No link, or one of nobody's. */
        return refuse_unknown(cli, io, dir, name);
    }
    if (uuid_equal(&ret_id->topic_id, &CONTROLLER_TOPIC_ID)) {
        return cli_fail(cli,
                        CLI_FAILED,
                        "%s: the log of topics and configs cannot do without any entry: restore "
                        "the data directory from a backup",
                        name);
    }
    return CLI_OK;
}

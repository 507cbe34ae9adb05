/* What the commands about groups share: offsets with what is left to read behind them, and who is
 * in the way of a change.
 *
 * One thread, no shard.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli_client.h"
#include "client/client.h"
#include "client/client_group.h"

/* One partition that a group reads. -1: not known, or none. */
struct cli_group_row {
    char *topic;
    int32_t partition;
    int64_t committed;
    int64_t start;
    int64_t end;
    int64_t lag;    /* Records: the end minus the committed offset, as Kafka's tools say it. */
    int64_t gone;   /* Those of them that the log has no more. */
    int64_t lag_ms; /* From the time of the next record to read until now. */
    int64_t to;     /* Of group seek. */
    enum err err;   /* Why start or end is not known. */
};

struct cli_group_rows {
    struct cli_group_row *rows;
    size_t count;
    size_t capacity;
    char why[CLIENT_WHY_SIZE]; /* What hides figures, in words: the first, but no absence. */
};

/* Adds a row; a partition may be added more than once. False without memory. */
bool cli_group_rows_add(struct cli_group_rows *rows,
                        struct slice topic,
                        int32_t partition,
                        int64_t committed);
/* By topic and partition, each once: with its offset, if it was added with one. */
void cli_group_rows_sort(struct cli_group_rows *rows);
void cli_group_rows_done(struct cli_group_rows *rows);
/* How many rows from first on are of one topic. */
size_t cli_group_rows_run(const struct cli_group_rows *rows, size_t first);

/* Fills start, end and lag, and with has_times lag_ms. What cannot be known stays -1, partition by
 * partition: the topic may be gone, or damaged. ERR_OK also then; else the client's error. */
enum err cli_group_rows_find(struct cli_group_rows *rows, struct client *c, bool has_times);

/* "2 members: a (client-1, /10.0.0.1), b (...)"; text for people. */
void cli_group_print_members(const struct client_group *g, FILE *out);

/* Says that there is no such group, and which is near. Returns CLI_FAILED. */
int cli_group_fail(struct cli *cli, struct client *c, enum err e, const char *group);

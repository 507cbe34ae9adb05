/* coreflume log repair: what of a partition is damaged, and, with --accept-loss, the end of it. The
 * first pass only looks; the second accepts what it finds, as the node's next start would refuse
 * it, and that is what is told. The node cannot start between them.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli_client.h"
#include "cli/cli_parse.h"
#include "cli/cli_partition.h"
#include "cli/cli_text.h"
#include "core/clock.h"
#include "core/io_uring.h"
#include "storage/stopped_log.h"

enum {
    RANGES_MAX = 64, /* As many as a log tells apart before they are accepted. */
    PATH_SIZE = 4096,
};

struct ranges {
    struct log_damage *list;
    size_t count;
    bool is_short; /* Memory was. */
};

struct repair {
    struct cli *cli;
    const char *dir;
    const char *name;
    bool accepts_loss;
    struct ranges damaged; /* Or just given up, */
    struct ranges before;  /* or earlier. */
};

static void add_range(void *context, const struct log_damage *d)
{
    struct ranges *r = context;
    struct log_damage *grown = realloc(r->list, (r->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        r->is_short = true;
        return;
    }
    r->list = grown;
    r->list[r->count++] = *d;
}

static int check_memory(struct repair *x)
{
    const bool is_short = x->damaged.is_short || x->before.is_short;
    return is_short ? cli_fail(x->cli, CLI_FAILED, "no memory to tell the damage") : CLI_OK;
}

static int look(struct repair *x, const struct log *l)
{
    struct log_damage found[RANGES_MAX];
    const size_t count = log_damage(l, found, RANGES_MAX);
    for (size_t i = 0; i < count && i < RANGES_MAX; i++) {
        add_range(&x->damaged, &found[i]);
    }
    log_each_loss(l, &x->before, add_range);
    return check_memory(x);
}

static bool is_in(const struct ranges *all, const struct log_damage *d)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].first_index == d->first_index &&
            all->list[i].last_index == d->last_index) {
            return true;
        }
    }
    return false;
}

/* What the second pass gave up: it may have found more than the first, and tells all apart. */
static int look_again(struct repair *x, const struct log *l)
{
    struct ranges after = {0};
    log_each_loss(l, &after, add_range);
    x->damaged.count = 0;
    x->damaged.is_short = after.is_short;
    for (size_t i = 0; i < after.count; i++) {
        if (!is_in(&x->before, &after.list[i])) {
            add_range(&x->damaged, &after.list[i]);
        }
    }
    free(after.list);
    struct log_damage end;
    if (log_lost_end(l, &end)) {
        add_range(&x->damaged, &end);
    }
    return check_memory(x);
}

static int work(struct repair *x, struct stopped_log *sl)
{
    char why[STOPPED_LOG_WHY_SIZE];
    const int code = look(x, stopped_log_get(sl));
    if (code != CLI_OK || !x->accepts_loss || x->damaged.count == 0) {
        return code;
    }
    enum err e = stopped_log_accept_loss(sl, why);
    return e == ERR_OK ? look_again(x, stopped_log_get(sl))
                       : cli_fail(x->cli, CLI_FAILED, "%s", why);
}

static bool is_to_the_end(const struct log_damage *d)
{
    return d->last_index == UINT64_MAX;
}

/* By the link that bears the partition's name. */
static void
format_path(const struct repair *x, const struct log_damage *d, char ret_path[PATH_SIZE])
{
    char file[SEGMENT_NAME_SIZE];
    segment_name_format(&d->file, ".log", file);
    (void)snprintf(ret_path, PATH_SIZE, "%s/logs/%s/%s", x->dir, x->name, file);
}

static json_t *ranges_json(const struct repair *x, const struct ranges *all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < all->count; i++) {
        const struct log_damage *d = &all->list[i];
        const bool is_end = is_to_the_end(d);
        const uint64_t entries = d->last_index - d->first_index + 1;
        char path[PATH_SIZE];
        format_path(x, d, path);
        (void)json_array_append_new(
            list,
            json_pack("{s:I, s:o, s:o, s:o, s:I, s:I}",
                      "first_offset",
                      (json_int_t)d->first_offset,
                      "next_offset",
                      is_end ? json_null() : json_integer(d->next_offset),
                      "entries",
                      is_end ? json_null() : json_integer((json_int_t)entries),
                      "file",
                      cli_json_slice(slice_of_string(path)),
                      "pos",
                      (json_int_t)d->pos,
                      "end_pos",
                      (json_int_t)d->end_pos));
    }
    return list;
}

static void print_offsets(FILE *out, const struct log_damage *d)
{
    if (is_to_the_end(d)) {
        (void)fprintf(
            out, "offset %" PRId64 " and all behind it; how many, nobody knows", d->first_offset);
    } else if (d->first_offset == d->next_offset) {
        (void)fputs("no records, only entries of the broker's own", out);
    } else if (d->first_offset + 1 == d->next_offset) {
        (void)fprintf(out, "offset %" PRId64, d->first_offset);
    } else {
        (void)fprintf(out, "offsets %" PRId64 " to %" PRId64, d->first_offset, d->next_offset - 1);
    }
}

static void print_ranges(const struct repair *x, const char *what, const struct ranges *all)
{
    FILE *out = x->cli->out;
    for (size_t i = 0; i < all->count; i++) {
        const struct log_damage *d = &all->list[i];
        char path[PATH_SIZE];
        format_path(x, d, path);
        cli_put(out, "%s %s: ", x->name, what);
        print_offsets(out, d);
        cli_put_line(
            out, " (%s, position %" PRIu64 " up to %" PRIu64 ")", path, d->pos, d->end_pos);
    }
}

static int print(const struct repair *x)
{
    const int code = x->damaged.count > 0 && !x->accepts_loss ? CLI_DAMAGED : CLI_OK;
    FILE *out = x->cli->out;
    if (cli_has(x->cli, "json")) {
        const int printed = cli_print_json(x->cli,
                                           json_pack("{s:s, s:b, s:o, s:o}",
                                                     "partition",
                                                     x->name,
                                                     "accepted",
                                                     x->accepts_loss,
                                                     "damaged",
                                                     ranges_json(x, &x->damaged),
                                                     "accepted_before",
                                                     ranges_json(x, &x->before)));
        return printed == CLI_OK ? code : printed;
    }
    print_ranges(x, "was given up before", &x->before);
    print_ranges(x, x->accepts_loss ? "is given up" : "is damaged", &x->damaged);
    if (x->damaged.count == 0) {
        cli_put_line(out, "%s: no damage", x->name);
    } else if (x->accepts_loss) {
        (void)fprintf(out, "the node can be started\n");
    } else {
        if (x->damaged.count == RANGES_MAX) {
            (void)fprintf(out, "the last of these may hold good records, which stay\n");
        }
        (void)fprintf(out,
                      "nothing was changed but what any start would: put the files back from a "
                      "copy, or give this up for good with --accept-loss\n");
    }
    return code;
}

static int repair(struct repair *x, struct io_backend *backend, const struct partition_id *id)
{
    char why[STOPPED_LOG_WHY_SIZE];
    struct clock clock;
    clock_init_real(&clock);
    const struct stopped_log_open how = {
        .backend = backend, .clock = &clock, .dir = x->dir, .name = x->name, .id = *id};
    struct stopped_log *sl = NULL;
    if (stopped_log_open(&how, why, &sl) != ERR_OK) {
        return cli_fail(x->cli, CLI_FAILED, "%s", why);
    }
    const int code = work(x, sl);
    if (stopped_log_close(sl, why) != ERR_OK && code == CLI_OK) {
        return cli_fail(x->cli, CLI_FAILED, "%s", why);
    }
    return code == CLI_OK ? print(x) : code;
}

int cli_log_repair(struct cli *cli)
{
    struct repair x = {.cli = cli,
                       .dir = cli_text(cli, "data-dir", "./data"),
                       .name = cli->operands[0],
                       .accepts_loss = cli_has(cli, "accept-loss")};
    char why[IO_URING_WHY_SIZE];
    struct io_backend *backend = NULL;
    if (io_uring_backend_new(&backend, why) != ERR_OK) {
        return cli_fail(cli, CLI_FAILED, "%s", why);
    }
    struct io io;
    struct partition_id id;
    io_init(&io, backend);
    int code = cli_find_partition(cli, &io, x.dir, x.name, &id);
    io_done(&io);
    if (code == CLI_OK) {
        code = repair(&x, backend, &id);
    }
    io_uring_backend_free(backend);
    free(x.damaged.list);
    free(x.before.list);
    return code;
}

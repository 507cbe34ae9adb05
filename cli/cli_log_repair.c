/* coreflume log repair: what of a partition is damaged, and, with --accept-loss, the end of it. The
 * first pass only looks; the second accepts what it finds, as the node's next start would refuse
 * it.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli_client.h"
#include "cli/cli_parse.h"
#include "cli/cli_stopped_log.h"

enum {
    RANGES_MAX = 64, /* As many as a log tells apart. */
};

struct repair {
    struct cli *cli;
    const char *name;
    const char *dir;
    struct log_damage damaged[RANGES_MAX];
    size_t damaged_count;
    struct log_damage before[RANGES_MAX]; /* Accepted earlier; the first of them, */
    size_t before_count;                  /* and how many there are. */
};

static void add_before(void *context, const struct log_damage *lost)
{
    struct repair *x = context;
    if (x->before_count < RANGES_MAX) {
        x->before[x->before_count] = *lost;
    }
    x->before_count++;
}

static int pass(struct repair *x, bool accepts_loss)
{
    char why[CLI_STOPPED_WHY_SIZE];
    struct cli_stopped_log *sl = NULL;
    const struct cli_stopped_log_open how = {
        .dir = x->dir, .name = x->name, .accepts_loss = accepts_loss};
    enum err e = cli_stopped_log_open(&how, why, &sl);
    if (e != ERR_OK) {
        return cli_fail(x->cli, CLI_FAILED, "%s", why);
    }
    if (!accepts_loss) {
        struct log *l = cli_stopped_log_get(sl);
        x->damaged_count = log_damage(l, x->damaged, RANGES_MAX);
        log_each_loss(l, x, add_before);
    }
    e = cli_stopped_log_close(sl, why);
    return e == ERR_OK ? CLI_OK : cli_fail(x->cli, CLI_FAILED, "%s", why);
}

static bool is_to_the_end(const struct log_damage *d)
{
    return d->last_index == UINT64_MAX;
}

static json_t *ranges_json(const struct log_damage *all, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count && i < RANGES_MAX; i++) {
        const struct log_damage *d = &all[i];
        const bool is_end = is_to_the_end(d);
        const uint64_t entries = d->last_index - d->first_index + 1;
        (void)json_array_append_new(
            list,
            json_pack("{s:I, s:o, s:o}",
                      "first_offset",
                      (json_int_t)d->first_offset,
                      "next_offset",
                      is_end ? json_null() : json_integer(d->next_offset),
                      "entries",
                      is_end ? json_null() : json_integer((json_int_t)entries)));
    }
    return list;
}

static void
print_ranges(const struct repair *x, const char *what, const struct log_damage *all, size_t count)
{
    FILE *out = x->cli->out;
    for (size_t i = 0; i < count && i < RANGES_MAX; i++) {
        const struct log_damage *d = &all[i];
        (void)fprintf(out, "%s %s: ", x->name, what);
        if (is_to_the_end(d)) {
            (void)fprintf(out,
                          "offset %" PRId64 " and all behind it; how many, nobody knows\n",
                          d->first_offset);
        } else if (d->first_offset == d->next_offset) {
            (void)fprintf(out, "no records, only entries of the broker's own\n");
        } else if (d->first_offset + 1 == d->next_offset) {
            (void)fprintf(out, "offset %" PRId64 "\n", d->first_offset);
        } else {
            (void)fprintf(
                out, "offsets %" PRId64 " to %" PRId64 "\n", d->first_offset, d->next_offset - 1);
        }
    }
}

static int print(const struct repair *x, bool is_accepted)
{
    if (cli_has(x->cli, "json")) {
        return cli_print_json(x->cli,
                              json_pack("{s:s, s:b, s:o, s:o}",
                                        "partition",
                                        x->name,
                                        "accepted",
                                        is_accepted,
                                        "damaged",
                                        ranges_json(x->damaged, x->damaged_count),
                                        "accepted_before",
                                        ranges_json(x->before, x->before_count)));
    }
    print_ranges(x, "was given up before", x->before, x->before_count);
    print_ranges(x, is_accepted ? "is given up" : "is damaged", x->damaged, x->damaged_count);
    if (x->damaged_count == 0) {
        (void)fprintf(x->cli->out, "%s: no damage\n", x->name);
    } else if (is_accepted) {
        (void)fprintf(x->cli->out, "the node can be started\n");
    } else {
        (void)fprintf(x->cli->out,
                      "nothing was changed: put the files back from a copy, or give this up for "
                      "good with --accept-loss\n");
    }
    return CLI_OK;
}

int cli_log_repair(struct cli *cli)
{
    struct repair *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    x->cli = cli;
    x->name = cli->operands[0];
    x->dir = cli_text(cli, "data-dir", "./data");
    const bool accepts_loss = cli_has(cli, "accept-loss");
    int code = pass(x, false);
    if (code == CLI_OK && accepts_loss && x->damaged_count == 0) {
        code = cli_fail(cli, CLI_FAILED, "%s has no damage: there is nothing to accept", x->name);
    } else if (code == CLI_OK && accepts_loss) {
        code = pass(x, true);
    }
    if (code == CLI_OK) {
        code = print(x, accepts_loss);
    }
    free(x);
    return code;
}

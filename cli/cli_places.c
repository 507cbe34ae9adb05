#include "cli/cli_places.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli_client.h"
#include "cli/cli_parse.h"
#include "core/assert.h"
#include "core/clock.h"

/* ---- which partitions ---- */

struct range {
    int32_t first;
    int32_t last;
};

/* Digits at the front of text. Returns behind them; NULL if there are none, or too many. */
static const char *read_number(const char *text, int32_t *ret_number)
{
    int64_t number = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && number <= INT32_MAX; p++) {
        number = number * 10 + (*p - '0');
    }
    *ret_number = (int32_t)number;
    return p == text || number > INT32_MAX ? NULL : p;
}

/* The first of "0,2,4-7". Returns behind it and its comma; NULL if it is none. */
static const char *read_range(const char *text, struct range *ret_range)
{
    const char *p = read_number(text, &ret_range->first);
    ret_range->last = ret_range->first;
    if (p != NULL && *p == '-') {
        p = read_number(p + 1, &ret_range->last);
    }
    if (p == NULL || ret_range->last < ret_range->first || (*p != '\0' && *p != ',')) {
        return NULL;
    }
    return *p == ',' && p[1] != '\0' ? p + 1 : *p == ',' ? NULL : p;
}

static int check_partitions(struct cli *cli)
{
    const char *list = cli_text(cli, "partition", NULL);
    const char *p = list;
    struct range r;
    do {
        p = p == NULL ? NULL : read_range(p, &r);
    } while (p != NULL && *p != '\0');
    if (list == NULL || p != NULL) {
        return CLI_OK;
    }
    return cli_fail(
        cli, CLI_USAGE, "option '--partition': '%s' is no list of partitions: 0,2,4-7", list);
}

/* list: checked; NULL: all. */
static bool is_listed(const char *list, int32_t partition)
{
    struct range r;
    for (const char *p = list; p != NULL && *p != '\0';) {
        p = read_range(p, &r);
        if (partition >= r.first && partition <= r.last) {
            return true;
        }
    }
    return list == NULL;
}

static int check_highest(struct cli *cli, const char *topic, int32_t partitions_count)
{
    struct range r;
    for (const char *p = cli_text(cli, "partition", ""); *p != '\0';) {
        p = read_range(p, &r);
        assert(p != NULL); /* It was checked. */
        if (r.last >= partitions_count) {
            return cli_fail(cli,
                            CLI_FAILED,
                            "topic '%s' has no partition %" PRId32 ", only 0 to %" PRId32,
                            topic,
                            r.last,
                            partitions_count - 1);
        }
    }
    return CLI_OK;
}

int cli_places_init(struct cli_places *p,
                    struct cli *cli,
                    const char *topic,
                    int32_t partitions_count)
{
    *p = (struct cli_places){.places = calloc((size_t)partitions_count + 1, sizeof(*p->places))};
    if (p->places == NULL) {
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    const char *list = cli_text(cli, "partition", NULL);
    for (int32_t i = 0; i < partitions_count; i++) {
        if (is_listed(list, i)) {
            p->places[p->count++].partition = i;
        }
    }
    return check_highest(cli, topic, partitions_count);
}

void cli_places_done(struct cli_places *p)
{
    free(p->places);
    p->places = NULL;
}

/* ---- where in them ---- */

int cli_places_option(struct cli *cli,
                      const char *option,
                      const char *fallback,
                      struct cli_where *ret_where)
{
    struct clock clock;
    clock_init_real(&clock);
    const char *text = cli_text(cli, option, fallback);
    if (cli_where_parse(text, clock_wall_ms(&clock), ret_where)) {
        return check_partitions(cli);
    }
    return cli_fail(cli,
                    CLI_USAGE,
                    "option '--%s': '%s' is none of start, end, N, -N, @TIME (see 'coreflume help "
                    "%s')",
                    option,
                    text,
                    cli->command->name);
}

static int64_t offset_of(const struct cli_where *where, const struct cli_place *p, int64_t found)
{
    switch (where->kind) {
    case CLI_WHERE_START:
        return p->start;
    case CLI_WHERE_END:
        return p->end;
    case CLI_WHERE_OFFSET:
        return where->number;
    case CLI_WHERE_LAST:
        return where->number < p->end - p->start ? p->end - where->number : p->start;
    case CLI_WHERE_TIME:
        break;
    }
    return found >= 0 ? found : p->end; /* Nothing so young. */
}

/* Asks for the offset of timestamp in every partition. */
static enum err find(struct client *c,
                     const char *topic,
                     int64_t timestamp,
                     struct client_offset *offsets,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        offsets[i].timestamp = timestamp;
        offsets[i].offset = -1;
    }
    return client_find_offsets(c, topic, offsets, count);
}

static enum err fill(struct client *c,
                     const char *topic,
                     const struct cli_where *where,
                     struct client_offset *offsets,
                     struct cli_places *p)
{
    enum err e = find(c, topic, CLIENT_OFFSET_START, offsets, p->count);
    for (size_t i = 0; e == ERR_OK && i < p->count; i++) {
        p->places[i].start = offsets[i].offset;
    }
    if (e == ERR_OK) {
        e = find(c, topic, CLIENT_OFFSET_END, offsets, p->count);
    }
    for (size_t i = 0; e == ERR_OK && i < p->count; i++) {
        p->places[i].end = offsets[i].offset;
    }
    if (e == ERR_OK && where->kind == CLI_WHERE_TIME) {
        e = find(c, topic, where->number, offsets, p->count);
    }
    for (size_t i = 0; e == ERR_OK && i < p->count; i++) {
        p->places[i].offset = offset_of(where, &p->places[i], offsets[i].offset);
    }
    return e;
}

int cli_places_find(struct cli_places *p,
                    struct cli *cli,
                    struct client *c,
                    const char *topic,
                    const struct cli_where *where)
{
    struct client_offset *offsets = calloc(p->count + 1, sizeof(*offsets));
    if (offsets == NULL) {
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    for (size_t i = 0; i < p->count; i++) {
        offsets[i].partition = p->places[i].partition;
    }
    enum err e = fill(c, topic, where, offsets, p);
    free(offsets);
    return e == ERR_OK ? CLI_OK : cli_client_fail(cli, c, e, topic);
}

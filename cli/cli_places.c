#include "cli/cli_places.h"

#include <stdlib.h>

#include "cli/cli_client.h"
#include "cli/cli_parse.h"
#include "core/clock.h"

int cli_places_option(struct cli *cli, const char *fallback, struct cli_where *ret_where)
{
    struct clock clock;
    clock_init_real(&clock);
    const char *text = cli_text(cli, "offset", fallback);
    if (cli_where_parse(text, clock_wall_ms(&clock), ret_where)) {
        return CLI_OK;
    }
    return cli_fail(cli,
                    CLI_USAGE,
                    "option '--offset': '%s' is none of start, end, N, -N, @TIME (see "
                    "'coreflume help %s')",
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

int cli_places_find(struct cli *cli,
                    struct client *c,
                    const char *topic,
                    const struct cli_where *where,
                    struct cli_places *p)
{
    const int32_t only = (int32_t)cli_number(cli, "partition", -1);
    p->count = only >= 0 ? 1 : p->count;
    p->places = calloc(p->count + 1, sizeof(*p->places));
    struct client_offset *offsets = calloc(p->count + 1, sizeof(*offsets));
    int code = CLI_OK;
    if (p->places == NULL || offsets == NULL) {
        code = cli_fail(cli, CLI_FAILED, "no memory");
    } else {
        for (size_t i = 0; i < p->count; i++) {
            p->places[i].partition = only >= 0 ? only : (int32_t)i;
            offsets[i].partition = p->places[i].partition;
        }
        enum err e = fill(c, topic, where, offsets, p);
        code = e == ERR_OK ? CLI_OK : cli_client_fail(cli, c, e, topic);
    }
    free(offsets);
    if (code != CLI_OK) {
        cli_places_done(p);
    }
    return code;
}

void cli_places_done(struct cli_places *p)
{
    free(p->places);
    p->places = NULL;
}

/* coreflume consume: the records of a topic, printed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_client.h"
#include "cli/cli_format.h"
#include "cli/cli_parse.h"
#include "cli/cli_places.h"
#include "cli/cli_record_json.h"
#include "client/client.h"

enum {
    WAIT_MS = 1000,
};

struct consume {
    struct cli *cli;
    struct client *client;
    struct client_consumer *consumer;
    const char *topic;
    bool is_json;
    struct cli_format format; /* Unless is_json. */
};

/* ---- where to start ---- */

static int assign(struct consume *x, const struct cli_places *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct cli_place *place = &p->places[i];
        if (place->offset < place->start || place->offset > place->end) {
            return cli_fail(x->cli,
                            CLI_FAILED,
                            "offset %" PRId64 " is not in %s[%" PRId32 "], which holds %" PRId64
                            " to %" PRId64 ": use -o start, -o end, or one of these",
                            place->offset,
                            x->topic,
                            place->partition,
                            place->start,
                            place->end);
        }
        enum err e = client_consumer_assign(x->consumer, place->partition, place->offset);
        if (e != ERR_OK) {
            return cli_client_fail(x->cli, x->client, e, x->topic);
        }
    }
    return CLI_OK;
}

static int assign_places(struct consume *x, const struct cli_where *where)
{
    struct cli_places places = {
        .count = (size_t)client_consumer_partitions_count(x->consumer),
    };
    int code = cli_places_find(x->cli, x->client, x->topic, where, &places);
    if (code == CLI_OK) {
        code = assign(x, &places);
        cli_places_done(&places);
    }
    return code;
}

/* ---- printing ---- */

static int print_record(struct consume *x, const struct client_record *r)
{
    if (x->is_json) {
        return cli_print_json(x->cli, cli_record_to_json(x->topic, r));
    }
    cli_format_print(&x->format, r, x->cli->out);
    return CLI_OK;
}

/* ---- the loop ---- */

static int run(struct consume *x)
{
    struct cli *cli = x->cli;
    const bool is_ending = cli_has(cli, "exit");
    int64_t left = cli_number(cli, "count", INT64_MAX);
    while (left > 0) {
        struct client_record record;
        enum err e = client_consumer_next(x->consumer, is_ending ? 0 : WAIT_MS, &record);
        if (e == ERR_TIMED_OUT) {
            if (is_ending && client_consumer_is_at_end(x->consumer)) {
                return CLI_OK;
            }
            continue;
        }
        if (e != ERR_OK) {
            return cli_client_fail(cli, x->client, e, x->topic);
        }
        const int code = print_record(x, &record);
        if (code != CLI_OK) {
            return code;
        }
        left--;
        /* Before a wait everything is out; while there is more, output is collected. */
        const bool is_shown = client_consumer_has_buffered(x->consumer) || fflush(cli->out) == 0;
        if (!is_shown || ferror(cli->out)) {
            return CLI_FAILED; /* cli_main says why. */
        }
    }
    return CLI_OK;
}

static int prepare_output(struct consume *x)
{
    x->is_json = cli_has(x->cli, "json");
    if (x->is_json && (cli_has(x->cli, "format") || cli_has(x->cli, "null"))) {
        return cli_fail(x->cli,
                        CLI_USAGE,
                        "--json and --%s exclude each other",
                        cli_has(x->cli, "format") ? "format" : "null");
    }
    if (x->is_json) {
        return CLI_OK;
    }
    char why[CLI_FORMAT_WHY_SIZE];
    enum err e = cli_format_init(&x->format, cli_text(x->cli, "format", "%v\\n"), x->topic, why);
    if (e == ERR_OK) {
        x->format.null_text = slice_of_string(cli_text(x->cli, "null", NULL));
        return CLI_OK;
    }
    return cli_fail(
        x->cli, e == ERR_INVALID ? CLI_USAGE : CLI_FAILED, "option '--format': %s", why);
}

int cli_consume(struct cli *cli)
{
    struct consume x = {.cli = cli, .topic = cli->operands[0]};
    struct cli_where where;
    int code = cli_places_option(cli, "start", &where);
    if (code == CLI_OK) {
        code = prepare_output(&x);
    }
    if (code == CLI_OK) {
        code = cli_client_new(cli, &x.client);
    }
    if (code == CLI_OK) {
        enum err e = client_consumer_new(x.client, x.topic, NULL, &x.consumer);
        code = e == ERR_OK ? assign_places(&x, &where) : cli_client_fail(cli, x.client, e, x.topic);
    }
    if (code == CLI_OK) {
        code = run(&x);
    }
    client_consumer_free(x.consumer);
    client_free(x.client);
    cli_format_done(&x.format);
    return code;
}

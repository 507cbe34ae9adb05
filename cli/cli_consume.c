/* coreflume consume: the records of a topic, printed. */
#include "cli/cli_consume.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_client.h"
#include "cli/cli_parse.h"
#include "cli/cli_places.h"
#include "cli/cli_record_json.h"
#include "client/client.h"
#include "core/clock.h"

enum {
    WAIT_MS = 1000,
    WAIT_MS_ENDING = 100, /* Markers behind the last record are seen only by asking once more. */
};

struct consume {
    struct cli *cli;
    struct client *client;
    struct client_consumer *consumer;
    const char *topic;
    struct cli_output output;
    struct cli_places places; /* Where each partition begins. */
    int64_t *limits;          /* By partition: where it ends. INT64_MAX: nowhere; 0: it ended. */
    size_t open_count;        /* Partitions that did not end. */
};

/* ---- where to start, and where to end ---- */

static int say_out_of_log(const struct consume *x, const struct cli_place *place)
{
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

static int assign(struct consume *x)
{
    for (size_t i = 0; i < x->places.count; i++) {
        const struct cli_place *place = &x->places.places[i];
        if (place->offset < place->start || place->offset > place->end) {
            return say_out_of_log(x, place);
        }
        if (place->offset >= x->limits[place->partition]) {
            continue;
        }
        enum err e = client_consumer_assign(x->consumer, place->partition, place->offset);
        if (e != ERR_OK) {
            return cli_client_fail(x->cli, x->client, e, x->topic);
        }
        x->open_count++;
    }
    return CLI_OK;
}

/* -e: the end that there is now; else a topic that is written to might have none. */
static int find_limits(struct consume *x, const struct cli_where *until)
{
    struct cli_places ends = {0};
    const bool has_until = cli_has(x->cli, "until");
    int code = CLI_OK;
    if (has_until) {
        const int32_t count = client_consumer_partitions_count(x->consumer);
        code = cli_places_init(&ends, x->cli, x->topic, count);
    }
    if (has_until && code == CLI_OK) {
        code = cli_places_find(&ends, x->cli, x->client, x->topic, until);
    }
    for (size_t i = 0; code == CLI_OK && i < x->places.count; i++) {
        const struct cli_place *place = &x->places.places[i];
        const int64_t limit = has_until ? ends.places[i].offset : INT64_MAX;
        const bool is_sooner = cli_has(x->cli, "exit") && place->end < limit;
        x->limits[place->partition] = is_sooner ? place->end : limit;
    }
    cli_places_done(&ends);
    return code;
}

static int
find_places(struct consume *x, const struct cli_where *where, const struct cli_where *until)
{
    const int32_t count = client_consumer_partitions_count(x->consumer);
    x->limits = calloc((size_t)count + 1, sizeof(*x->limits));
    if (x->limits == NULL) {
        return cli_fail(x->cli, CLI_FAILED, "no memory");
    }
    int code = cli_places_init(&x->places, x->cli, x->topic, count);
    if (code == CLI_OK) {
        code = cli_places_find(&x->places, x->cli, x->client, x->topic, where);
    }
    if (code == CLI_OK) {
        code = find_limits(x, until);
    }
    return code == CLI_OK ? assign(x) : code;
}

/* No more of it is asked for. */
static void end_partition(struct consume *x, int32_t partition)
{
    (void)client_consumer_unassign(x->consumer, partition);
    x->limits[partition] = 0;
    x->open_count--;
}

/* Behind a partition's last record there may be offsets without any, up to its limit. */
static void look_for_ends(struct consume *x)
{
    for (size_t i = 0; i < x->places.count; i++) {
        const int32_t partition = x->places.places[i].partition;
        if (x->limits[partition] > 0 &&
            client_consumer_position(x->consumer, partition) >= x->limits[partition]) {
            end_partition(x, partition);
        }
    }
}

/* ---- printing ---- */

int cli_output_init(struct cli_output *o, struct cli *cli)
{
    *o = (struct cli_output){.is_json = cli_has(cli, "json")};
    if (o->is_json && (cli_has(cli, "format") || cli_has(cli, "null"))) {
        return cli_fail(cli,
                        CLI_USAGE,
                        "--json and --%s exclude each other",
                        cli_has(cli, "format") ? "format" : "null");
    }
    if (o->is_json) {
        return CLI_OK;
    }
    char why[CLI_FORMAT_WHY_SIZE];
    enum err e = cli_format_init(&o->format, cli_text(cli, "format", "%v\\n"), NULL, why);
    if (e == ERR_OK) {
        o->format.null_text = slice_of_string(cli_text(cli, "null", NULL));
        return CLI_OK;
    }
    return cli_fail(cli, e == ERR_INVALID ? CLI_USAGE : CLI_FAILED, "option '--format': %s", why);
}

void cli_output_done(struct cli_output *o)
{
    cli_format_done(&o->format);
}

int cli_output_print(struct cli_output *o, struct cli *cli, const struct client_record *r)
{
    if (o->is_json) {
        return cli_print_json(cli, cli_record_to_json(r->topic, r));
    }
    o->format.topic = r->topic;
    cli_format_print(&o->format, r, cli->out);
    return CLI_OK;
}

/* ---- the loop ---- */

/* The record is printed, unless its partition ends before it. */
static int take(struct consume *x, const struct client_record *r, int64_t *left)
{
    const int32_t partition = r->partition;
    const int64_t offset = r->offset;
    const bool is_in = offset < x->limits[partition];
    const int code = is_in ? cli_output_print(&x->output, x->cli, r) : CLI_OK;
    *left -= is_in;
    if (x->limits[partition] > 0 && offset >= x->limits[partition] - 1) {
        end_partition(x, partition);
    }
    return code;
}

static int run(struct consume *x)
{
    struct cli *cli = x->cli;
    const bool is_ending = cli_has(cli, "exit") || cli_has(cli, "until");
    int64_t left = cli_number(cli, "count", INT64_MAX);
    while (left > 0 && x->open_count > 0) {
        struct client_record record;
        enum err e =
            client_consumer_next(x->consumer, is_ending ? WAIT_MS_ENDING : WAIT_MS, &record);
        if (e != ERR_OK && e != ERR_TIMED_OUT) {
            return cli_client_fail(cli, x->client, e, x->topic);
        }
        const int code = e == ERR_OK ? take(x, &record, &left) : CLI_OK;
        if (code != CLI_OK) {
            return code;
        }
        /* Before a wait everything is out; while there is more, output is collected. */
        const bool has_more = client_consumer_has_buffered(x->consumer);
        if (ferror(cli->out) || (!has_more && fflush(cli->out) != 0)) {
            return CLI_FAILED; /* cli_main says why. */
        }
        if (is_ending && !has_more) {
            look_for_ends(x);
        }
    }
    return CLI_OK;
}

/* WHERE of --until. A time to come would be the end that there is now, which nobody means. */
static int read_until(struct cli *cli, struct cli_where *ret_until)
{
    struct clock clock;
    clock_init_real(&clock);
    int code = cli_places_option(cli, "until", "end", ret_until);
    if (code == CLI_OK && ret_until->kind == CLI_WHERE_TIME &&
        ret_until->number > clock_wall_ms(&clock)) {
        code = cli_fail(cli,
                        CLI_USAGE,
                        "option '--until': '%s' is still to come; 'timeout 60 coreflume consume "
                        "...' ends by the clock",
                        cli_text(cli, "until", ""));
    }
    return code;
}

static int consume_alone(struct cli *cli)
{
    struct consume x = {.cli = cli, .topic = cli->operands[0]};
    struct cli_where where;
    struct cli_where until;
    int code = cli_places_option(cli, "offset", "start", &where);
    if (code == CLI_OK) {
        code = read_until(cli, &until);
    }
    if (code == CLI_OK) {
        code = cli_output_init(&x.output, cli);
    }
    if (code == CLI_OK) {
        code = cli_client_new(cli, &x.client);
    }
    if (code == CLI_OK) {
        enum err e = client_consumer_new(x.client, x.topic, NULL, &x.consumer);
        code = e == ERR_OK ? find_places(&x, &where, &until)
                           : cli_client_fail(cli, x.client, e, x.topic);
    }
    if (code == CLI_OK) {
        code = run(&x);
    }
    client_consumer_free(x.consumer);
    client_free(x.client);
    cli_output_done(&x.output);
    cli_places_done(&x.places);
    free(x.limits);
    return code;
}

int cli_consume(struct cli *cli)
{
    if (cli_has(cli, "group")) {
        return cli_consume_group(cli);
    }
    if (cli->operands_count > 1) {
        return cli_fail(cli, CLI_USAGE, "several topics are read by members of groups: -g GROUP");
    }
    if (cli_has(cli, "instance")) {
        return cli_fail(cli, CLI_USAGE, "--instance is for members of groups: -g GROUP");
    }
    return consume_alone(cli);
}

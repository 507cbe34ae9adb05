/* coreflume topic trim: the records below a place are deleted, in each partition or one. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_client.h"
#include "cli/cli_parse.h"
#include "cli/cli_places.h"
#include "cli/cli_table.h"
#include "client/client.h"

struct trim {
    struct cli *cli;
    struct client *client;
    const char *topic;
    struct cli_places places;
    struct client_deletion *deletions; /* One for each place. */
};

static enum err count_partitions(struct trim *x, int32_t *ret_count)
{
    struct client_cluster *cluster = NULL;
    enum err e = client_describe(x->client, &x->topic, 1, &cluster);
    if (e == ERR_OK && cluster->topics_count == 1) {
        *ret_count = (int32_t)cluster->topics[0].partitions_count;
        e = client_topic_why(x->client, &cluster->topics[0]);
    }
    client_cluster_free(cluster);
    return e;
}

/* A place that is out of the log is refused before anything is deleted anywhere. A place below the
 * start is none: those records are gone already. */
static int check(struct trim *x)
{
    for (size_t i = 0; i < x->places.count; i++) {
        const struct cli_place *p = &x->places.places[i];
        if (p->offset > p->end) {
            return cli_fail(x->cli,
                            CLI_FAILED,
                            "offset %" PRId64 " is behind the end of %s[%" PRId32
                            "], which holds %" PRId64 " to %" PRId64 ": nothing was deleted",
                            p->offset,
                            x->topic,
                            p->partition,
                            p->start,
                            p->end);
        }
        x->deletions[i] = (struct client_deletion){.partition = p->partition, .before = p->offset};
    }
    return CLI_OK;
}

static bool is_done(const struct trim *x, size_t i)
{
    return x->deletions[i].start >= 0;
}

static int print_json(struct trim *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->places.count; i++) {
        const struct cli_place *p = &x->places.places[i];
        (void)json_array_append_new(
            list,
            json_pack("{s:i, s:b, s:I, s:o}",
                      "partition",
                      p->partition,
                      "trimmed",
                      is_done(x, i),
                      "before",
                      (json_int_t)p->start,
                      "start",
                      is_done(x, i) ? json_integer(x->deletions[i].start) : json_null()));
    }
    return cli_print_json(x->cli, json_pack("{s:s, s:o}", "name", x->topic, "partitions", list));
}

static void print_table(struct trim *x)
{
    static const char *const heading[] = {"PARTITION", "STARTED AT", "STARTS AT", "END"};
    struct cli_table table;
    cli_table_init(&table, 4, heading);
    for (size_t i = 0; i < x->places.count; i++) {
        const struct cli_place *p = &x->places.places[i];
        cli_table_cell(&table, "%" PRId32, p->partition);
        cli_table_cell(&table, "%" PRId64, p->start);
        if (is_done(x, i)) {
            cli_table_cell(&table, "%" PRId64, x->deletions[i].start);
        } else {
            cli_table_cell(&table, "not trimmed");
        }
        cli_table_cell(&table, "%" PRId64, p->end);
    }
    cli_table_print(&table, x->cli->out);
    cli_table_done(&table);
}

static int trim(struct trim *x)
{
    int code = check(x);
    if (code != CLI_OK) {
        return code;
    }
    enum err e = client_delete_records(x->client, x->topic, x->deletions, x->places.count);
    if (e == ERR_POLICY) {
        code =
            cli_fail(x->cli,
                     CLI_FAILED,
                     "%s: its cleanup.policy is compact; topics with delete in it can be trimmed",
                     client_why(x->client));
    } else if (e != ERR_OK) {
        code = cli_client_fail(x->cli, x->client, e, x->topic);
    }
    if (cli_has(x->cli, "json")) {
        const int printed = print_json(x);
        return printed != CLI_OK ? printed : code;
    }
    if (code == CLI_OK || x->places.count > 1) {
        print_table(x);
    }
    return code;
}

int cli_topic_trim(struct cli *cli)
{
    struct trim x = {.cli = cli, .topic = cli->operands[0]};
    if (!cli_has(cli, "offset")) {
        return cli_fail(cli,
                        CLI_USAGE,
                        "'topic trim' deletes the records below a place: name it with -o (end, N, "
                        "-N to keep the last N, @TIME)");
    }
    struct cli_where where;
    int code = cli_places_option(cli, "offset", "", &where);
    if (code == CLI_OK) {
        code = cli_client_new(cli, &x.client);
    }
    if (code != CLI_OK) {
        return code;
    }
    int32_t count = 0;
    enum err e = count_partitions(&x, &count);
    code = e == ERR_OK ? cli_places_init(&x.places, cli, x.topic, count)
                       : cli_client_fail(cli, x.client, e, x.topic);
    if (code == CLI_OK) {
        code = cli_places_find(&x.places, cli, x.client, x.topic, &where);
    }
    if (code == CLI_OK) {
        x.deletions = calloc(x.places.count + 1, sizeof(*x.deletions));
        code = x.deletions != NULL ? trim(&x) : cli_fail(cli, CLI_FAILED, "no memory");
    }
    free(x.deletions);
    cli_places_done(&x.places);
    client_free(x.client);
    return code;
}

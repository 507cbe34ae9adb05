/* coreflume group describe: state, members, and how far the group is behind, in records and time.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_group.h"
#include "cli/cli_parse.h"
#include "cli/cli_table.h"
#include "cli/cli_text.h"
#include "cli/cli_time.h"

enum {
    COUNT_TEXT_SIZE = 32,
    PARTITIONS_TEXT_SIZE = 512,
};

struct describe {
    struct cli *cli;
    struct client *client;
    struct client_group *group;
    struct cli_group_rows rows;
};

/* ---- what there is ---- */

/* What is committed, and what is assigned without a commit. False without memory. */
static bool fill_rows(struct describe *x, const struct client_group_offsets *offsets)
{
    bool is_whole = true;
    for (size_t i = 0; is_whole && i < offsets->offsets_count; i++) {
        const struct client_committed *o = &offsets->offsets[i];
        is_whole = cli_group_rows_add(&x->rows, o->topic, o->partition, o->offset);
    }
    for (size_t i = 0; is_whole && i < x->group->members_count; i++) {
        const struct client_group_member *m = &x->group->members[i];
        for (size_t j = 0; is_whole && j < m->partitions_count; j++) {
            is_whole = cli_group_rows_add(
                &x->rows, m->partitions[j].topic, m->partitions[j].partition, -1);
        }
    }
    cli_group_rows_sort(&x->rows);
    return is_whole;
}

static enum err find(struct describe *x)
{
    const char *name = x->cli->operands[0];
    struct client_group_offsets *offsets = NULL;
    enum err e = client_describe_group(x->client, name, &x->group);
    if (e == ERR_OK) {
        e = client_group_offsets(x->client, name, &offsets);
    }
    if (e == ERR_OK && !fill_rows(x, offsets)) {
        e = ERR_BUSY;
    }
    if (e == ERR_OK) {
        e = cli_group_rows_find(&x->rows, x->client, true);
    }
    client_group_offsets_free(offsets);
    return e;
}

/* ---- JSON ---- */

/* {"topic","partitions"} for each topic; a member's partitions stand topic by topic. */
static json_t *assignments_json(const struct client_group_member *m)
{
    json_t *list = json_array();
    json_t *partitions = NULL;
    for (size_t i = 0; i < m->partitions_count; i++) {
        const struct client_group_partition *p = &m->partitions[i];
        if (i == 0 || !slice_equal(p->topic, m->partitions[i - 1].topic)) {
            partitions = json_array();
            (void)json_array_append_new(
                list,
                json_pack(
                    "{s:o, s:o}", "topic", cli_json_slice(p->topic), "partitions", partitions));
        }
        (void)json_array_append_new(partitions, json_integer(p->partition));
    }
    return list;
}

static json_t *members_json(const struct client_group *g)
{
    json_t *list = json_array();
    for (size_t i = 0; i < g->members_count; i++) {
        const struct client_group_member *m = &g->members[i];
        (void)json_array_append_new(list,
                                    json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}",
                                              "member_id",
                                              cli_json_slice(m->id),
                                              "instance_id",
                                              cli_json_slice(m->instance_id),
                                              "client_id",
                                              cli_json_slice(m->client_id),
                                              "host",
                                              cli_json_slice(m->host),
                                              "epoch",
                                              m->epoch < 0 ? json_null() : json_integer(m->epoch),
                                              "assignments",
                                              assignments_json(m)));
    }
    return list;
}

static json_t *number_json(int64_t number)
{
    return number < 0 ? json_null() : json_integer(number);
}

static json_t *offsets_json(const struct cli_group_rows *rows)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rows->count; i++) {
        const struct cli_group_row *r = &rows->rows[i];
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o}",
                                              "topic",
                                              r->topic,
                                              "partition",
                                              r->partition,
                                              "committed",
                                              number_json(r->committed),
                                              "end",
                                              number_json(r->end),
                                              "lag",
                                              number_json(r->lag),
                                              "gone",
                                              number_json(r->gone),
                                              "lag_ms",
                                              number_json(r->lag_ms)));
    }
    return list;
}

static int print_json(struct describe *x)
{
    const struct client_group *g = x->group;
    return cli_print_json(x->cli,
                          json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}",
                                    "group",
                                    cli_json_slice(g->name),
                                    "state",
                                    cli_json_slice(g->state),
                                    "type",
                                    cli_json_slice(g->type),
                                    "assignor",
                                    cli_json_slice(g->assignor),
                                    "members",
                                    members_json(g),
                                    "offsets",
                                    offsets_json(&x->rows)));
}

/* ---- for people ---- */

static const char *count_text(int64_t count, char text[COUNT_TEXT_SIZE])
{
    if (count < 0) {
        return "-";
    }
    (void)snprintf(text, COUNT_TEXT_SIZE, "%" PRId64, count);
    return text;
}

static const char *length_text(int64_t ms, char text[COUNT_TEXT_SIZE])
{
    if (ms < 0) {
        return "-";
    }
    cli_length_format(ms, text, COUNT_TEXT_SIZE);
    return text;
}

static const char *
member_of(const struct client_group *g, const struct cli_group_row *r, int *ret_size)
{
    for (size_t i = 0; i < g->members_count; i++) {
        const struct client_group_member *m = &g->members[i];
        for (size_t j = 0; j < m->partitions_count; j++) {
            if (m->partitions[j].partition == r->partition &&
                slice_equal_string(m->partitions[j].topic, r->topic)) {
                *ret_size = (int)m->id.size;
                return (const char *)m->id.data;
            }
        }
    }
    *ret_size = 1;
    return "-";
}

static void print_offsets(const struct describe *x)
{
    static const char *const heading[] = {
        "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BEHIND", "MEMBER"};
    struct cli_table table;
    cli_table_init(&table, 7, heading);
    for (size_t i = 0; i < x->rows.count; i++) {
        const struct cli_group_row *r = &x->rows.rows[i];
        char text[COUNT_TEXT_SIZE];
        int size = 0;
        cli_table_cell(&table, "%s", r->topic);
        cli_table_cell(&table, "%" PRId32, r->partition);
        cli_table_cell(&table, "%s", count_text(r->committed, text));
        cli_table_cell(&table, "%s", count_text(r->end, text));
        cli_table_cell(&table, "%s", count_text(r->lag, text));
        cli_table_cell(&table, "%s", length_text(r->lag_ms, text));
        const char *member = member_of(x->group, r, &size);
        cli_table_cell(&table, "%.*s", size, member);
    }
    cli_table_print(&table, x->cli->out);
    cli_table_done(&table);
}

/* "orders 0-2,5; payments 1" */
static void partitions_text(const struct client_group_member *m, char text[PARTITIONS_TEXT_SIZE])
{
    size_t size = 0;
    text[0] = '\0';
    for (size_t i = 0; i < m->partitions_count && size < PARTITIONS_TEXT_SIZE - 1;) {
        const struct client_group_partition *p = &m->partitions[i];
        const bool is_first = i == 0 || !slice_equal(p->topic, m->partitions[i - 1].topic);
        size_t end = i + 1;
        while (end < m->partitions_count && slice_equal(m->partitions[end].topic, p->topic) &&
               m->partitions[end].partition == m->partitions[end - 1].partition + 1) {
            end++;
        }
        size += (size_t)snprintf(text + size,
                                 PARTITIONS_TEXT_SIZE - size,
                                 is_first ? "%s%.*s %" PRId32 : "%s%.*s%" PRId32,
                                 i == 0     ? ""
                                 : is_first ? "; "
                                            : ",",
                                 is_first ? (int)p->topic.size : 0,
                                 (const char *)p->topic.data,
                                 p->partition);
        if (end > i + 1 && size < PARTITIONS_TEXT_SIZE) {
            size += (size_t)snprintf(text + size,
                                     PARTITIONS_TEXT_SIZE - size,
                                     "-%" PRId32,
                                     m->partitions[end - 1].partition);
        }
        i = end;
    }
}

static void print_members(const struct describe *x)
{
    static const char *const heading[] = {"MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"};
    struct cli_table table;
    cli_table_init(&table, 5, heading);
    for (size_t i = 0; i < x->group->members_count; i++) {
        const struct client_group_member *m = &x->group->members[i];
        char text[PARTITIONS_TEXT_SIZE];
        partitions_text(m, text);
        cli_table_cell(&table, "%.*s", (int)m->id.size, (const char *)m->id.data);
        cli_table_cell(&table,
                       "%.*s",
                       m->instance_id.size == 0 ? 1 : (int)m->instance_id.size,
                       m->instance_id.size == 0 ? "-" : (const char *)m->instance_id.data);
        cli_table_cell(&table, "%.*s", (int)m->client_id.size, (const char *)m->client_id.data);
        cli_table_cell(&table, "%.*s", (int)m->host.size, (const char *)m->host.data);
        cli_table_cell(&table, "%s", text[0] == '\0' ? "-" : text);
    }
    cli_table_print(&table, x->cli->out);
    cli_table_done(&table);
}

/* Of all partitions. */
struct sum {
    int64_t lag;
    int64_t gone;
    int64_t lag_ms; /* -1: not known of any. */
    size_t unknown_count;
    size_t timeless_count;
};

static struct sum sum_of(const struct cli_group_rows *rows)
{
    struct sum sum = {.lag_ms = -1};
    for (size_t i = 0; i < rows->count; i++) {
        const struct cli_group_row *r = &rows->rows[i];
        sum.lag += r->lag > 0 ? r->lag : 0;
        sum.gone += r->gone > 0 ? r->gone : 0;
        sum.lag_ms = r->lag_ms > sum.lag_ms ? r->lag_ms : sum.lag_ms;
        sum.unknown_count += r->committed >= 0 && r->lag < 0;
        sum.timeless_count += r->lag > 0 && r->lag_ms < 0;
    }
    return sum;
}

static void print_unknown(FILE *out, const char *what, size_t count)
{
    if (count > 0) {
        (void)fprintf(out, "; %s not known of %zu partition%s", what, count, count == 1 ? "" : "s");
    }
}

/* "1234 records, 2m3s at most; 34 of them are gone; their time is not known of 2 partitions" */
static void print_lag(const struct describe *x)
{
    FILE *out = x->cli->out;
    const struct sum sum = sum_of(&x->rows);
    (void)fprintf(out, "lag       %" PRId64 " record%s", sum.lag, sum.lag == 1 ? "" : "s");
    if (sum.lag > 0 && sum.lag_ms >= 0) {
        char text[COUNT_TEXT_SIZE];
        (void)fprintf(out, ", %s at most", length_text(sum.lag_ms, text));
    }
    if (sum.gone > 0) {
        (void)fprintf(out, "; %" PRId64 " of them %s gone", sum.gone, sum.gone == 1 ? "is" : "are");
    }
    print_unknown(out, "it is", sum.unknown_count);
    print_unknown(out, "their time is", sum.timeless_count);
    (void)fputc('\n', out);
}

static void print_field(FILE *out, const char *name, struct slice text)
{
    cli_put_line(out, "%-9s %.*s", name, (int)text.size, (const char *)text.data);
}

static void print(const struct describe *x)
{
    const struct client_group *g = x->group;
    FILE *out = x->cli->out;
    print_field(out, "group", g->name);
    print_field(out, "type", g->type);
    print_field(out, "state", g->state);
    if (g->assignor.size > 0) {
        print_field(out, "assignor", g->assignor);
    }
    if (x->rows.count > 0) {
        print_lag(x);
    }
    (void)fputc('\n', out);
    if (x->rows.count > 0) {
        print_offsets(x);
    } else {
        (void)fputs("no offsets are committed\n", out);
    }
    if (g->members_count > 0) {
        (void)fputc('\n', out);
        print_members(x);
    } else {
        (void)fputs("\nno members\n", out);
    }
}

int cli_group_describe(struct cli *cli)
{
    struct describe x = {.cli = cli};
    int code = cli_client_new(cli, &x.client);
    if (code != CLI_OK) {
        return code;
    }
    enum err e = find(&x);
    if (e != ERR_OK) {
        code = cli_group_fail(cli, x.client, e, cli->operands[0]);
    } else if (cli_has(cli, "json")) {
        code = print_json(&x);
    } else {
        print(&x);
    }
    if (code == CLI_OK && x.rows.why[0] != '\0') {
        cli_put_line(cli->err, "coreflume: %s", x.rows.why);
    }
    cli_group_rows_done(&x.rows);
    client_group_free(x.group);
    client_free(x.client);
    return code;
}

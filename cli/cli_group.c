/* coreflume group list, delete; and what the commands about groups share. */
#include "cli/cli_group.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_parse.h"
#include "cli/cli_table.h"
#include "cli/cli_text.h"
#include "core/clock.h"
#include "core/edit_distance.h"

enum {
    ROWS_MIN = 16,
    TIMES_MS_MAX = 5000, /* Of one topic. */
    MEMBERS_SHOWN_MAX = 5,
    NAME_SIZE_MAX = 256, /* Of group names that are compared. */
};

/* ---- rows ---- */

static bool make_room(struct cli_group_rows *rows)
{
    if (rows->count < rows->capacity) {
        return true;
    }
    const size_t capacity = rows->capacity * 2 + ROWS_MIN;
    struct cli_group_row *grown = realloc(rows->rows, capacity * sizeof(*grown));
    if (grown == NULL) {
        return false;
    }
    rows->rows = grown;
    rows->capacity = capacity;
    return true;
}

bool cli_group_rows_add(struct cli_group_rows *rows,
                        struct slice topic,
                        int32_t partition,
                        int64_t committed)
{
    char *name = make_room(rows) ? strndup((const char *)topic.data, topic.size) : NULL;
    if (name == NULL) {
        return false;
    }
    rows->rows[rows->count++] = (struct cli_group_row){
        .topic = name,
        .partition = partition,
        .committed = committed,
        .start = -1,
        .end = -1,
        .lag = -1,
        .gone = -1,
        .lag_ms = -1,
        .to = -1,
    };
    return true;
}

static int by_partition(const void *a, const void *b)
{
    const struct cli_group_row *left = a;
    const struct cli_group_row *right = b;
    const int order = strcmp(left->topic, right->topic);
    return order != 0 ? order
                      : (left->partition > right->partition) - (left->partition < right->partition);
}

/* With the offset in front. */
static int by_row(const void *a, const void *b)
{
    const struct cli_group_row *left = a;
    const struct cli_group_row *right = b;
    const int order = by_partition(a, b);
    return order != 0 ? order
                      : (left->committed < right->committed) - (left->committed > right->committed);
}

void cli_group_rows_sort(struct cli_group_rows *rows)
{
    if (rows->count == 0) {
        return;
    }
    qsort(rows->rows, rows->count, sizeof(*rows->rows), by_row);
    size_t kept = 1;
    for (size_t i = 1; i < rows->count; i++) {
        if (by_partition(&rows->rows[kept - 1], &rows->rows[i]) == 0) {
            free(rows->rows[i].topic);
        } else {
            rows->rows[kept++] = rows->rows[i];
        }
    }
    rows->count = kept;
}

void cli_group_rows_done(struct cli_group_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->rows[i].topic);
    }
    free(rows->rows);
    *rows = (struct cli_group_rows){0};
}

size_t cli_group_rows_run(const struct cli_group_rows *rows, size_t first)
{
    size_t end = first + 1;
    while (end < rows->count && strcmp(rows->rows[end].topic, rows->rows[first].topic) == 0) {
        end++;
    }
    return end - first;
}

/* ---- what is left to read ---- */

/* Asks for one offset of those rows that nothing is in the way of yet. */
static enum err find(struct client *c,
                     struct cli_group_row *rows,
                     struct client_offset *offsets,
                     size_t count,
                     int64_t timestamp)
{
    size_t asked_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].err == ERR_OK) {
            offsets[asked_count++] =
                (struct client_offset){.partition = rows[i].partition, .timestamp = timestamp};
        }
    }
    if (asked_count == 0) {
        return ERR_OK;
    }
    enum err e = client_find_offsets(c, rows[0].topic, offsets, asked_count);
    const struct client_offset *o = offsets;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].err != ERR_OK) {
            continue;
        }
        rows[i].err = o->err;
        if (o->err == ERR_OK) {
            *(timestamp == CLIENT_OFFSET_START ? &rows[i].start : &rows[i].end) = o->offset;
        }
        o++;
    }
    return e;
}

/* The first error of a partition; the client has its words. */
static enum err find_ends(struct client *c, struct cli_group_row *rows, size_t count)
{
    struct client_offset *offsets = calloc(count, sizeof(*offsets));
    if (offsets == NULL) {
        return ERR_BUSY;
    }
    enum err e = find(c, rows, offsets, count, CLIENT_OFFSET_START);
    const enum err e_of_ends = find(c, rows, offsets, count, CLIENT_OFFSET_END);
    free(offsets);
    for (size_t i = 0; i < count; i++) {
        struct cli_group_row *r = &rows[i];
        if (r->err == ERR_OK && r->committed >= 0) {
            r->lag = r->end > r->committed ? r->end - r->committed : 0;
            r->gone = r->start > r->committed ? r->start - r->committed : 0;
        }
    }
    return e_of_ends != ERR_OK ? e_of_ends : e;
}

static enum err find_times(struct client *c, struct cli_group_row *rows, size_t count)
{
    struct clock clock;
    clock_init_real(&clock);
    struct client_time *times = calloc(count, sizeof(*times));
    size_t asked_count = 0;
    for (size_t i = 0; times != NULL && i < count; i++) {
        rows[i].lag_ms = rows[i].lag == 0 ? 0 : -1;
        if (rows[i].lag > 0) {
            times[asked_count++] =
                (struct client_time){.partition = rows[i].partition, .offset = rows[i].committed};
        }
    }
    enum err e = times == NULL ? ERR_BUSY
                 : asked_count == 0
                     ? ERR_OK
                     : client_find_times(c, rows[0].topic, times, asked_count, TIMES_MS_MAX);
    const int64_t now_ms = clock_wall_ms(&clock);
    asked_count = 0;
    for (size_t i = 0; e == ERR_OK && i < count; i++) {
        if (rows[i].lag <= 0) {
            continue;
        }
        const struct client_time *t = &times[asked_count++];
        if (t->err == ERR_NOT_FOUND) {
            rows[i].lag_ms = 0; /* None of them is there. */
        } else if (t->err == ERR_OK && t->timestamp >= 0) {
            rows[i].lag_ms = now_ms > t->timestamp ? now_ms - t->timestamp : 0;
        }
    }
    free(times);
    return e;
}

/* A topic that is gone, a partition that nobody leads. */
static bool is_absence(enum err e)
{
    return e == ERR_TOPIC_UNKNOWN || e == ERR_INVALID || e == ERR_NOT_LEADER;
}

/* Whether an error is about some partitions, and no reason to say nothing of the others. */
static bool is_about_some(const struct cli_group_row *rows, size_t count, enum err e)
{
    bool is_any_known = is_absence(e) || e == ERR_FAILED || e == ERR_CORRUPT;
    for (size_t i = 0; i < count; i++) {
        is_any_known |= rows[i].start >= 0;
    }
    return is_any_known;
}

enum err cli_group_rows_find(struct cli_group_rows *rows, struct client *c, bool has_times)
{
    for (size_t i = 0; i < rows->count; i += cli_group_rows_run(rows, i)) {
        const size_t count = cli_group_rows_run(rows, i);
        enum err e = find_ends(c, &rows->rows[i], count);
        if (e != ERR_OK && !is_about_some(&rows->rows[i], count, e)) {
            return e;
        }
        if (e != ERR_OK && !is_absence(e) && rows->why[0] == '\0') {
            (void)snprintf(rows->why, sizeof(rows->why), "%s", client_why(c));
        }
        e = has_times ? find_times(c, &rows->rows[i], count) : ERR_OK;
        if (e != ERR_OK && !is_absence(e)) {
            return e;
        }
    }
    return ERR_OK;
}

/* ---- what is said ---- */

void cli_group_print_members(const struct client_group *g, FILE *out)
{
    (void)fprintf(out, "%zu member%s: ", g->members_count, g->members_count == 1 ? "" : "s");
    for (size_t i = 0; i < g->members_count && i < MEMBERS_SHOWN_MAX; i++) {
        const struct client_group_member *m = &g->members[i];
        cli_put(out,
                "%s%.*s (%.*s on %.*s)",
                i == 0 ? "" : ", ",
                (int)m->id.size,
                (const char *)m->id.data,
                (int)m->client_id.size,
                (const char *)m->client_id.data,
                (int)m->host.size,
                (const char *)m->host.data);
    }
    if (g->members_count > MEMBERS_SHOWN_MAX) {
        (void)fputs(", ...", out);
    }
}

static bool find_nearest(struct client *c, const char *group, char ret_name[NAME_SIZE_MAX])
{
    struct client_group_list *list = NULL;
    if (client_list_groups(c, &list) != ERR_OK) {
        return false;
    }
    size_t best = strlen(group) / 3 + 2;
    bool is_found = false;
    for (size_t i = 0; i < list->groups_count; i++) {
        const struct slice name = list->groups[i].name;
        char text[NAME_SIZE_MAX];
        (void)snprintf(text, sizeof(text), "%.*s", (int)name.size, (const char *)name.data);
        const size_t distance = name.size < NAME_SIZE_MAX ? edit_distance(group, text) : best;
        if (distance < best) {
            best = distance;
            is_found = true;
            memcpy(ret_name, text, sizeof(text));
        }
    }
    client_group_list_free(list);
    return is_found;
}

int cli_group_fail(struct cli *cli, struct client *c, enum err e, const char *group)
{
    char nearest[NAME_SIZE_MAX];
    if (e != ERR_NOT_FOUND) {
        return cli_client_fail(cli, c, e, NULL);
    }
    if (strlen(group) < NAME_SIZE_MAX && find_nearest(c, group, nearest)) {
        return cli_fail(cli,
                        CLI_FAILED,
                        "group '%s' does not exist: did you mean '%s'? see 'coreflume group list'",
                        group,
                        nearest);
    }
    return cli_fail(
        cli, CLI_FAILED, "group '%s' does not exist: see 'coreflume group list'", group);
}

/* ---- group list ---- */

static const char *or_dash(struct slice s)
{
    return s.size == 0 ? "-" : (const char *)s.data;
}

static int shown(struct slice s)
{
    return s.size == 0 ? 1 : (int)s.size;
}

static int print_list_json(struct cli *cli, const struct client_group_list *list)
{
    json_t *groups = json_array();
    for (size_t i = 0; i < list->groups_count; i++) {
        const struct client_listed_group *g = &list->groups[i];
        (void)json_array_append_new(groups,
                                    json_pack("{s:o, s:o, s:o, s:o}",
                                              "group",
                                              cli_json_slice(g->name),
                                              "type",
                                              cli_json_slice(g->type),
                                              "state",
                                              cli_json_slice(g->state),
                                              "protocol_type",
                                              cli_json_slice(g->protocol_type)));
    }
    return cli_print_json(cli, json_pack("{s:o}", "groups", groups));
}

static void print_list(struct cli *cli, const struct client_group_list *list)
{
    static const char *const heading[] = {"GROUP", "TYPE", "STATE", "PROTOCOL"};
    if (list->groups_count == 0) {
        (void)fputs("no groups: they come with their first member or commit\n", cli->out);
        return;
    }
    struct cli_table table;
    cli_table_init(&table, 4, heading);
    for (size_t i = 0; i < list->groups_count; i++) {
        const struct client_listed_group *g = &list->groups[i];
        cli_table_cell(&table, "%.*s", shown(g->name), or_dash(g->name));
        cli_table_cell(&table, "%.*s", shown(g->type), or_dash(g->type));
        cli_table_cell(&table, "%.*s", shown(g->state), or_dash(g->state));
        cli_table_cell(&table, "%.*s", shown(g->protocol_type), or_dash(g->protocol_type));
    }
    cli_table_print(&table, cli->out);
    cli_table_done(&table);
}

int cli_group_list(struct cli *cli)
{
    struct client *c = NULL;
    struct client_group_list *list = NULL;
    int code = cli_client_new(cli, &c);
    if (code != CLI_OK) {
        return code;
    }
    enum err e = client_list_groups(c, &list);
    if (e != ERR_OK) {
        code = cli_client_fail(cli, c, e, NULL);
    } else if (cli_has(cli, "json")) {
        code = print_list_json(cli, list);
    } else {
        print_list(cli, list);
    }
    client_group_list_free(list);
    client_free(c);
    return code;
}

/* ---- group delete ---- */

/* One that still has members is not deleted, and it is said who they are. */
static int say_not_deleted(struct cli *cli,
                           struct client *c,
                           const char *name,
                           const struct client_topic_result *result)
{
    struct client_group *g = NULL;
    if (result->err == ERR_NOT_FOUND) {
        return cli_group_fail(cli, c, ERR_NOT_FOUND, name);
    }
    if (result->err != ERR_POLICY || client_describe_group(c, name, &g) != ERR_OK) {
        return cli_fail(cli, CLI_FAILED, "%s: %s", name, result->why);
    }
    cli_put(cli->err, "coreflume: %s: the group has ", name);
    cli_group_print_members(g, cli->err);
    (void)fputs(": stop them first\n", cli->err);
    client_group_free(g);
    return CLI_FAILED;
}

static int
print_deleted(struct cli *cli, struct client *c, const struct client_topic_result *results)
{
    json_t *list = json_array();
    int code = CLI_OK;
    for (int i = 0; i < cli->operands_count; i++) {
        const struct client_topic_result *r = &results[i];
        const bool is_deleted = r->err == ERR_OK;
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:b, s:s?}",
                                              "group",
                                              cli->operands[i],
                                              "deleted",
                                              is_deleted,
                                              "error",
                                              is_deleted ? NULL : r->why));
        if (is_deleted && !cli_has(cli, "json")) {
            cli_put_line(cli->out, "deleted %s", cli->operands[i]);
        }
        if (!is_deleted) {
            code = say_not_deleted(cli, c, cli->operands[i], r);
        }
    }
    if (!cli_has(cli, "json")) {
        json_decref(list);
        return code;
    }
    const int printed = cli_print_json(cli, json_pack("{s:o}", "groups", list));
    return printed == CLI_OK ? code : printed;
}

int cli_group_delete(struct cli *cli)
{
    struct client *c = NULL;
    const size_t count = (size_t)cli->operands_count;
    int code = cli_client_new(cli, &c);
    if (code != CLI_OK) {
        return code;
    }
    struct client_topic_result *results = calloc(count, sizeof(*results));
    if (results == NULL) {
        code = cli_fail(cli, CLI_FAILED, "no memory");
    } else {
        enum err e = client_delete_groups(c, cli->operands, count, results);
        code = e == ERR_OK ? print_deleted(cli, c, results) : cli_client_fail(cli, c, e, NULL);
    }
    free(results);
    client_free(c);
    return code;
}

/* coreflume group seek: where a group is to go on reading. Shows what it would do, and does it with
 * --execute. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_group.h"
#include "cli/cli_parse.h"
#include "cli/cli_places.h"
#include "cli/cli_table.h"
#include "cli/cli_text.h"
#include "core/clock.h"

enum {
    TIMES_MS_MAX = 60 * 1000, /* Of one topic. */
};

static const char IN_THE_WAY[] = "nothing was changed, stop them first";

/* --by: from where the group is, in records or in time. */
struct step {
    bool is_given;
    bool is_time;
    int64_t number; /* Records, or ms. */
};

struct seek {
    struct cli *cli;
    struct client *client;
    const char *group;
    struct cli_where where; /* Unless step is given. */
    struct step step;
    struct client_group *description; /* NULL: there is no such group yet. */
    struct cli_group_rows rows;
    struct client_topic_result *results; /* One for each row, once it was tried. */
    int64_t now_ms;
};

/* ---- the command line ---- */

static int read_step(struct cli *cli, struct step *ret_step)
{
    const char *text = cli_text(cli, "by", NULL);
    int64_t number = 0;
    if (text == NULL) {
        return CLI_OK;
    }
    if (cli_length_parse(text, &number)) {
        *ret_step = (struct step){true, true, number};
        return CLI_OK;
    }
    if (cli_parse_number(text + (text[0] == '+'), &number)) {
        *ret_step = (struct step){true, false, number};
        return CLI_OK;
    }
    return cli_fail(cli,
                    CLI_USAGE,
                    "option '--by': '%s' is neither a number of records nor a time: -100, 100, "
                    "-90m, 2h",
                    text);
}

static int read_options(struct seek *x)
{
    struct cli *cli = x->cli;
    if (cli_has(cli, "offset") == cli_has(cli, "by")) {
        return cli_fail(cli,
                        CLI_USAGE,
                        "'group seek' needs either a place (-o start, end, N, -N, @TIME) or a way "
                        "from where the group is (--by -90m, --by 100)");
    }
    if (cli_has(cli, "partition") && !cli_has(cli, "topic")) {
        return cli_fail(cli, CLI_USAGE, "--partition needs the topic: -t TOPIC");
    }
    const int code = cli_places_option(cli, "offset", "start", &x->where);
    return code == CLI_OK ? read_step(cli, &x->step) : code;
}

/* The index-th -t; NULL behind the last. */
static const char *topic_at(const struct cli *cli, int index)
{
    for (int i = 0; i < cli->values_count; i++) {
        if (strcmp(cli->values[i].option->name, "topic") == 0 && index-- == 0) {
            return cli->values[i].text;
        }
    }
    return NULL;
}

/* ---- which partitions ---- */

/* All partitions of a topic, or those of -p, also those without an offset yet. */
static int add_topic(struct seek *x, const char *topic, const struct client_group_offsets *offsets)
{
    struct client_cluster *cluster = NULL;
    struct cli_places places = {0};
    enum err e = client_describe(x->client, &topic, 1, &cluster);
    if (e == ERR_OK && cluster->topics_count == 1) {
        e = client_topic_why(x->client, &cluster->topics[0]);
    }
    int code =
        e == ERR_OK
            ? cli_places_init(&places, x->cli, topic, (int32_t)cluster->topics[0].partitions_count)
            : cli_client_fail(x->cli, x->client, e, topic);
    for (size_t i = 0; code == CLI_OK && i < places.count; i++) {
        const int32_t partition = places.places[i].partition;
        const struct client_committed *o = client_group_offsets_find(offsets, topic, partition);
        if (!cli_group_rows_add(
                &x->rows, slice_of_string(topic), partition, o == NULL ? -1 : o->offset)) {
            code = cli_fail(x->cli, CLI_FAILED, "no memory");
        }
    }
    cli_places_done(&places);
    client_cluster_free(cluster);
    return code;
}

static int add_rows(struct seek *x, const struct client_group_offsets *offsets)
{
    int code = CLI_OK;
    for (int i = 0; code == CLI_OK && topic_at(x->cli, i) != NULL; i++) {
        code = add_topic(x, topic_at(x->cli, i), offsets);
    }
    if (code != CLI_OK || cli_has(x->cli, "topic")) {
        return code;
    }
    for (size_t i = 0; i < offsets->offsets_count; i++) {
        const struct client_committed *o = &offsets->offsets[i];
        if (!cli_group_rows_add(&x->rows, o->topic, o->partition, o->offset)) {
            return cli_fail(x->cli, CLI_FAILED, "no memory");
        }
    }
    if (x->rows.count == 0) {
        return cli_fail(x->cli,
                        CLI_FAILED,
                        "group '%s' has no committed offsets: name the topics with -t",
                        x->group);
    }
    return CLI_OK;
}

static int find_rows(struct seek *x)
{
    struct client_group_offsets *offsets = NULL;
    enum err e = client_describe_group(x->client, x->group, &x->description);
    if (e != ERR_OK && (e != ERR_NOT_FOUND || !cli_has(x->cli, "topic"))) {
        return cli_group_fail(x->cli, x->client, e, x->group);
    }
    e = client_group_offsets(x->client, x->group, &offsets);
    int code = e == ERR_OK ? add_rows(x, offsets) : cli_client_fail(x->cli, x->client, e, NULL);
    client_group_offsets_free(offsets);
    cli_group_rows_sort(&x->rows);
    if (code == CLI_OK) {
        e = cli_group_rows_find(&x->rows, x->client, false);
        code = e == ERR_OK ? CLI_OK : cli_client_fail(x->cli, x->client, e, NULL);
    }
    return code;
}

/* ---- where to ---- */

/* A step may be longer than there are offsets. */
static int64_t add(int64_t a, int64_t b)
{
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) {
        return b < 0 ? INT64_MIN : INT64_MAX;
    }
    return sum;
}

static int64_t within(const struct cli_group_row *r, int64_t offset)
{
    offset = offset < r->start ? r->start : offset;
    return offset > r->end ? r->end : offset;
}

static int say_not_in_log(struct seek *x, const struct cli_group_row *r, int64_t offset)
{
    return cli_fail(x->cli,
                    CLI_FAILED,
                    "offset %" PRId64 " is not in %s[%" PRId32 "], which holds %" PRId64
                    " to %" PRId64 ": nothing was changed",
                    offset,
                    r->topic,
                    r->partition,
                    r->start,
                    r->end);
}

static int say_no_time(struct seek *x, const char *topic, const struct client_time *t)
{
    return cli_fail(x->cli,
                    CLI_FAILED,
                    "%s[%" PRId32 "]: the record at offset %" PRId64 " %s: nothing was changed",
                    topic,
                    t->partition,
                    t->offset,
                    t->err == ERR_OK ? "has no time: go by a number of records, or to a place (-o)"
                    : t->err == ERR_TIMED_OUT
                        ? "was not read in time: seek in fewer partitions at once (-t, -p)"
                        : "cannot be read");
}

/* From the time of the next record to read, or from now where there is none. A time that is not
 * known is no place to start from: now might be days behind it. */
static int step_from(struct seek *x,
                     const char *topic,
                     const struct client_time *t,
                     struct client_offset *ret_offset)
{
    const bool is_known = t != NULL && t->err == ERR_OK && t->timestamp >= 0;
    if (t != NULL && !is_known && t->err != ERR_NOT_FOUND) {
        return say_no_time(x, topic, t);
    }
    const int64_t time_ms = add(is_known ? t->timestamp : x->now_ms, x->step.number);
    ret_offset->timestamp = time_ms < 0 ? 0 : time_ms;
    return CLI_OK;
}

/* Each partition's own time to look for. */
static int find_times(struct seek *x,
                      const struct cli_group_row *rows,
                      size_t count,
                      struct client_offset *offsets)
{
    struct client_time *times = calloc(count, sizeof(*times));
    if (times == NULL) {
        return cli_fail(x->cli, CLI_FAILED, "no memory");
    }
    size_t asked_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].committed < rows[i].end) {
            times[asked_count++] =
                (struct client_time){.partition = rows[i].partition, .offset = rows[i].committed};
        }
    }
    enum err e =
        asked_count == 0
            ? ERR_OK
            : client_find_times(x->client, rows[0].topic, times, asked_count, TIMES_MS_MAX);
    int code = e == ERR_OK ? CLI_OK : cli_client_fail(x->cli, x->client, e, rows[0].topic);
    size_t at = 0; /* Times stand in the order of rows. */
    for (size_t i = 0; code == CLI_OK && i < count; i++) {
        const bool is_asked = at < asked_count && times[at].partition == rows[i].partition;
        code = step_from(x, rows[i].topic, is_asked ? &times[at++] : NULL, &offsets[i]);
    }
    free(times);
    return code;
}

static int place_by_time(struct seek *x, struct cli_group_row *rows, size_t count)
{
    struct client_offset *offsets = calloc(count, sizeof(*offsets));
    if (offsets == NULL) {
        return cli_fail(x->cli, CLI_FAILED, "no memory");
    }
    for (size_t i = 0; i < count; i++) {
        offsets[i].partition = rows[i].partition;
        offsets[i].timestamp = x->where.number;
    }
    int code = x->step.is_given ? find_times(x, rows, count, offsets) : CLI_OK;
    if (code == CLI_OK) {
        enum err e = client_find_offsets(x->client, rows[0].topic, offsets, count);
        code = e == ERR_OK ? CLI_OK : cli_client_fail(x->cli, x->client, e, rows[0].topic);
    }
    for (size_t i = 0; code == CLI_OK && i < count; i++) {
        rows[i].to = offsets[i].offset < 0 ? rows[i].end : offsets[i].offset;
    }
    free(offsets);
    return code;
}

static int place(struct seek *x, struct cli_group_row *r)
{
    if (x->step.is_given) {
        r->to = within(r, add(r->committed, x->step.number));
        return CLI_OK;
    }
    switch (x->where.kind) {
    case CLI_WHERE_START:
        r->to = r->start;
        break;
    case CLI_WHERE_END:
        r->to = r->end;
        break;
    case CLI_WHERE_LAST:
        r->to = within(r, r->end - x->where.number);
        break;
    case CLI_WHERE_OFFSET:
        r->to = x->where.number;
        break;
    case CLI_WHERE_TIME:
        break; /* By topic. */
    }
    return r->to == within(r, r->to) ? CLI_OK : say_not_in_log(x, r, r->to);
}

/* Why a row has no end. */
static const char *reason_of(enum err e)
{
    if (e == ERR_FAILED || e == ERR_CORRUPT) {
        return "a disk failed, or damage hides them (see /healthz of its node): name the others "
               "with -t and -p";
    }
    if (e == ERR_NOT_LEADER || e == ERR_CLOSED || e == ERR_TIMED_OUT) {
        return "it has no leader that answers: name the others with -t and -p";
    }
    return "is the topic gone? name those to seek in with -t";
}

static int check_row(struct seek *x, const struct cli_group_row *r)
{
    if (r->end < 0) {
        return cli_fail(x->cli,
                        CLI_FAILED,
                        "%s[%" PRId32 "] cannot be asked for its offsets: %s",
                        r->topic,
                        r->partition,
                        reason_of(r->err));
    }
    if (x->step.is_given && r->committed < 0) {
        return cli_fail(x->cli,
                        CLI_FAILED,
                        "group '%s' has no offset in %s[%" PRId32 "] to go from: use -o",
                        x->group,
                        r->topic,
                        r->partition);
    }
    return CLI_OK;
}

static int find_places(struct seek *x)
{
    const bool is_by_time = x->step.is_given ? x->step.is_time : x->where.kind == CLI_WHERE_TIME;
    int code = CLI_OK;
    for (size_t i = 0; code == CLI_OK && i < x->rows.count; i++) {
        code = check_row(x, &x->rows.rows[i]);
        if (code == CLI_OK && !is_by_time) {
            code = place(x, &x->rows.rows[i]);
        }
    }
    for (size_t i = 0; code == CLI_OK && is_by_time && i < x->rows.count;) {
        const size_t count = cli_group_rows_run(&x->rows, i);
        code = place_by_time(x, &x->rows.rows[i], count);
        i += count;
    }
    return code;
}

/* ---- what is done, and said ---- */

static bool has_members(const struct seek *x)
{
    return x->description != NULL && x->description->members_count > 0;
}

/* Members go on from their own positions, and commit those. */
static void say_members(struct seek *x, const char *consequence)
{
    cli_put(x->cli->err, "coreflume: %s: the group has ", x->group);
    cli_group_print_members(x->description, x->cli->err);
    (void)fprintf(x->cli->err, ": %s\n", consequence);
}

static bool is_failed(const struct seek *x, size_t i)
{
    return x->results != NULL && x->results[i].err != ERR_OK;
}

static int print_json(struct seek *x, bool is_executed)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->rows.count; i++) {
        const struct cli_group_row *r = &x->rows.rows[i];
        (void)json_array_append_new(
            list,
            json_pack("{s:s, s:i, s:o, s:I, s:s?}",
                      "topic",
                      r->topic,
                      "partition",
                      r->partition,
                      "from",
                      r->committed < 0 ? json_null() : json_integer(r->committed),
                      "to",
                      (json_int_t)r->to,
                      "error",
                      is_failed(x, i) ? x->results[i].why : NULL));
    }
    return cli_print_json(
        x->cli,
        json_pack("{s:s, s:b, s:o}", "group", x->group, "executed", is_executed, "offsets", list));
}

static void print_table(const struct seek *x)
{
    static const char *const heading[] = {"TOPIC", "PARTITION", "FROM", "TO", "LEFT TO READ"};
    struct cli_table table;
    cli_table_init(&table, 5, heading);
    for (size_t i = 0; i < x->rows.count; i++) {
        const struct cli_group_row *r = &x->rows.rows[i];
        cli_table_cell(&table, "%s", r->topic);
        cli_table_cell(&table, "%" PRId32, r->partition);
        if (r->committed < 0) {
            cli_table_cell(&table, "-");
        } else {
            cli_table_cell(&table, "%" PRId64, r->committed);
        }
        cli_table_cell(&table, "%" PRId64, r->to);
        cli_table_cell(&table, "%" PRId64, r->end - r->to);
    }
    cli_table_print(&table, x->cli->out);
    cli_table_done(&table);
}

/* Those that came between the look at the group and the change: without them it would not have been
 * refused as a whole. */
static bool are_members_in_the_way(struct seek *x)
{
    for (size_t i = 0; i < x->rows.count; i++) {
        if (!is_failed(x, i)) {
            return false;
        }
    }
    client_group_free(x->description);
    x->description = NULL;
    return client_describe_group(x->client, x->group, &x->description) == ERR_OK && has_members(x);
}

/* Each partition that was refused is said, or why all were. */
static int say_refused(struct seek *x)
{
    int code = CLI_OK;
    if (are_members_in_the_way(x)) {
        say_members(x, IN_THE_WAY);
        return CLI_FAILED;
    }
    for (size_t i = 0; i < x->rows.count; i++) {
        const struct cli_group_row *r = &x->rows.rows[i];
        if (is_failed(x, i)) {
            code = cli_fail(x->cli,
                            CLI_FAILED,
                            "%s[%" PRId32 "]: %s",
                            r->topic,
                            r->partition,
                            x->results[i].why);
        }
    }
    return code;
}

static int execute(struct seek *x)
{
    struct client_group_offset *offsets = calloc(x->rows.count, sizeof(*offsets));
    x->results = calloc(x->rows.count, sizeof(*x->results));
    if (offsets == NULL || x->results == NULL) {
        free(offsets);
        return cli_fail(x->cli, CLI_FAILED, "no memory");
    }
    for (size_t i = 0; i < x->rows.count; i++) {
        const struct cli_group_row *r = &x->rows.rows[i];
        offsets[i] = (struct client_group_offset){r->topic, r->partition, r->to, NULL};
    }
    enum err e =
        client_alter_group_offsets(x->client, x->group, offsets, x->rows.count, x->results);
    free(offsets);
    return e == ERR_OK ? say_refused(x) : cli_client_fail(x->cli, x->client, e, NULL);
}

static int seek(struct seek *x)
{
    const bool is_execution = cli_has(x->cli, "execute");
    int code = find_rows(x);
    code = code == CLI_OK ? find_places(x) : code;
    if (code != CLI_OK) {
        return code;
    }
    if (is_execution && has_members(x)) {
        say_members(x, IN_THE_WAY);
        return CLI_FAILED;
    }
    code = is_execution ? execute(x) : CLI_OK;
    if (cli_has(x->cli, "json")) {
        const int printed = print_json(x, is_execution);
        code = printed == CLI_OK ? code : printed;
    } else if (code == CLI_OK) {
        print_table(x);
    }
    if (!is_execution && has_members(x)) {
        say_members(x, "stop them before --execute");
    }
    if (!is_execution && !cli_has(x->cli, "json")) {
        (void)fputs("\nnothing was changed: --execute does it\n", x->cli->out);
    }
    return code;
}

int cli_group_seek(struct cli *cli)
{
    struct clock clock;
    clock_init_real(&clock);
    struct seek x = {.cli = cli, .group = cli->operands[0], .now_ms = clock_wall_ms(&clock)};
    int code = read_options(&x);
    if (code == CLI_OK) {
        code = cli_client_new(cli, &x.client);
    }
    if (code == CLI_OK) {
        code = seek(&x);
    }
    cli_group_rows_done(&x.rows);
    client_group_free(x.description);
    free(x.results);
    client_free(x.client);
    return code;
}

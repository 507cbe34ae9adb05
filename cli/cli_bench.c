/* coreflume bench: load at a rate, and what it does to latencies. */
#include "cli/cli_bench.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_client.h"
#include "cli/cli_configs.h"
#include "cli/cli_parse.h"
#include "cli/cli_stop.h"
#include "cli/cli_text.h"
#include "client/client.h"
#include "core/rand.h"

#include "perf/bench/report.h"

enum {
    PARTITIONS_DEFAULT = 4,
    LEADERS_TIMEOUT_MS = 30000,
    NAME_SIZE = 300,
};

struct bench {
    struct cli *cli;
    struct client *client;
    struct bench_options options;
    char made_topic[NAME_SIZE]; /* "": the topic was there, and stays. */
    FILE *hlog;
    FILE *rows; /* Where people read; NULL: nobody does. */
    json_t *windows;
    json_t *series;
    bool has_losses;
    bool is_unread; /* Who read the rows has gone. */
};

static bool is_search(const struct bench *x)
{
    return x->options.mode == BENCH_SEARCH;
}

static bool is_reading(const struct bench *x)
{
    return x->options.mode == BENCH_READ;
}

/* ---- the topic ---- */

static int create_topic(struct bench *x, const struct client_config *configs, size_t configs_count)
{
    struct client_topic_result result;
    struct rand rand;
    rand_init_real(&rand);
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof(name), "bench-%08x", (unsigned)(rand_u64(&rand) >> 32));
    const struct client_new_topic topic = {
        .name = name,
        .partitions_count = (int32_t)cli_number(x->cli, "partitions", PARTITIONS_DEFAULT),
        .replication_factor = (int16_t)cli_number(x->cli, "replicas", -1),
        .configs = configs,
        .configs_count = configs_count,
    };
    enum err e = client_create_topics(x->client, &topic, 1, &result);
    if (e != ERR_OK) {
        return cli_client_fail(x->cli, x->client, e, NULL);
    }
    if (result.err != ERR_OK) {
        return cli_result_fail(x->cli, x->client, name, &result);
    }
    memcpy(x->made_topic, name, sizeof(name));
    x->options.topic = x->made_topic;
    x->options.is_new_topic = true;
    e = client_wait_for_leaders(x->client, name, LEADERS_TIMEOUT_MS);
    return e == ERR_OK ? CLI_OK : cli_client_fail(x->cli, x->client, e, name);
}

static int open_topic(struct bench *x)
{
    struct cli *cli = x->cli;
    if (cli->operands_count > 0) {
        const bool has_shape =
            cli_has(cli, "partitions") || cli_has(cli, "replicas") || cli_has(cli, "config");
        x->options.topic = cli->operands[0];
        return has_shape ? cli_fail(cli,
                                    CLI_USAGE,
                                    "-p, -r and -c are for the topic that bench makes itself: "
                                    "without %s",
                                    cli->operands[0])
                         : CLI_OK;
    }
    size_t configs_count = 0;
    struct client_config *configs = calloc((size_t)cli->values_count + 1, sizeof(*configs));
    if (configs == NULL) {
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    int code = cli_read_configs(cli, configs, &configs_count);
    if (code == CLI_OK) {
        code = create_topic(x, configs, configs_count);
    }
    cli_free_configs(configs, configs_count);
    return code;
}

static int count_partitions(struct bench *x)
{
    struct client_cluster *cluster = NULL;
    enum err e = client_describe(x->client, &x->options.topic, 1, &cluster);
    if (e == ERR_OK) {
        e = client_topic_why(x->client, &cluster->topics[0]);
        x->options.partitions_count = (int32_t)cluster->topics[0].partitions_count;
        client_cluster_free(cluster);
    }
    if (e != ERR_OK) {
        return cli_client_fail(x->cli, x->client, e, x->options.topic);
    }
    const size_t consumers = x->options.consumers_count;
    if (x->options.groups_count == 0 && consumers > (size_t)x->options.partitions_count) {
        return cli_fail(x->cli,
                        CLI_USAGE,
                        "%zu consumers, but %s has %d partitions: without -g each needs one",
                        consumers,
                        x->options.topic,
                        x->options.partitions_count);
    }
    return CLI_OK;
}

/* What is not the broker's any more is no failure of the run. */
static int drop_topic(struct bench *x)
{
    const char *name = x->made_topic;
    struct client_topic_result result = {0};
    if (name[0] == '\0') {
        return CLI_OK;
    }
    enum err e = client_delete_topics(x->client, &name, 1, &result);
    if (e == ERR_OK && (result.err == ERR_OK || result.err == ERR_NOT_FOUND)) {
        return CLI_OK;
    }
    return cli_fail(x->cli,
                    CLI_FAILED,
                    "topic %s could not be deleted and is left: %s",
                    name,
                    e == ERR_OK ? result.why : client_why(x->client));
}

/* ---- what is told ---- */

static void print_rate(const struct bench *x, FILE *out)
{
    char a[REPORT_TEXT_SIZE];
    char b[REPORT_TEXT_SIZE];
    const struct bench_options *o = &x->options;
    switch (o->mode) {
    case BENCH_RATE:
        (void)fprintf(out, "%s records/s", report_count(o->rate, a));
        break;
    case BENCH_RAMP:
        (void)fprintf(
            out, "%s to %s records/s", report_count(o->rate, a), report_count(o->rate_to, b));
        break;
    case BENCH_SEARCH:
        (void)fprintf(out, "%s and more records/s", report_count(o->rate, a));
        break;
    case BENCH_READ:
        (void)fprintf(out,
                      "reads from the %s%s",
                      o->from == BENCH_FROM_END ? "end" : "start",
                      o->from == BENCH_FROM_START_AGAIN ? ", again and again" : "");
        break;
    }
}

static void print_sizes(const struct bench *x, FILE *out)
{
    char a[REPORT_TEXT_SIZE];
    char b[REPORT_TEXT_SIZE];
    const struct workload_options *w = &x->options.workload;
    (void)fprintf(out, " of %s", report_count(w->value_size_min, a));
    if (w->value_size_max != w->value_size_min) {
        (void)fprintf(out, " to %s", report_count(w->value_size_max, b));
    }
    (void)fprintf(out, " bytes");
}

static void print_load(const struct bench *x, FILE *out)
{
    const struct bench_options *o = &x->options;
    print_sizes(x, out);
    (void)fprintf(out,
                  ", acks %s%s%s",
                  cli_text(x->cli, "acks", "all"),
                  o->producer.is_idempotent ? ", idempotent" : "",
                  o->is_replay ? ", replayed" : "");
}

/* What is about to be done, in two lines. */
static void on_ready(void *context)
{
    struct bench *x = context;
    const struct bench_options *o = &x->options;
    FILE *out = x->rows;
    if (out == NULL) {
        return;
    }
    cli_put(out, "%s: ", o->topic);
    print_rate(x, out);
    if (!is_reading(x)) {
        print_load(x, out);
    }
    (void)fputc('\n', out);
    (void)fprintf(out,
                  "%d partition%s, %zu producer%s, %zu consumer%s",
                  x->options.partitions_count,
                  x->options.partitions_count == 1 ? "" : "s",
                  o->producers_count,
                  o->producers_count == 1 ? "" : "s",
                  o->consumers_count,
                  o->consumers_count == 1 ? "" : "s");
    if (o->groups_count > 0) {
        (void)fprintf(
            out, " in each of %zu group%s", o->groups_count, o->groups_count == 1 ? "" : "s");
    }
    if (o->idle_count > 0) {
        (void)fprintf(out, ", %zu idle connections", o->idle_count);
    }
    (void)fprintf(out,
                  "; %s%.0f s after %.0f s of warm-up\n\n",
                  is_search(x) ? "steps of " : "",
                  (double)o->duration_us / 1e6,
                  (double)o->warmup_us / 1e6);
    if (is_search(x)) {
        report_steps_heading(out);
    } else if (is_reading(x)) {
        report_reading_heading(out);
    } else {
        report_heading(out, o->consumers_count > 0);
    }
    (void)fflush(out);
}

/* Without any it ends as it does when somebody asks for it. */
static void look_for_readers(struct bench *x)
{
    if (x->rows != NULL && ferror(x->rows) && !x->is_unread) {
        x->is_unread = true;
        (void)kill(getpid(), SIGINT);
    }
}

static void on_interval(const struct bench_interval *i, void *context)
{
    struct bench *x = context;
    const bool has_consumers = x->options.consumers_count > 0;
    if (x->rows != NULL && !is_search(x)) {
        report_row(x->rows, i, has_consumers);
    }
    look_for_readers(x);
    if (x->series != NULL) {
        (void)json_array_append_new(x->series, report_row_json(i, has_consumers));
    }
}

/* With the rows it had. */
static void add_window(struct bench *x, json_t *window)
{
    (void)json_object_set_new(window, "series", x->series);
    (void)json_array_append_new(x->windows, window);
    x->series = json_array();
}

static void on_window(const struct bench_window *w, void *context)
{
    struct bench *x = context;
    const bool has_consumers = x->options.consumers_count > 0;
    x->has_losses = w->failed_count + w->unsent_count + w->unanswered_count + w->missing_count > 0;
    if (x->rows != NULL && is_search(x)) {
        report_step(x->rows, w);
    } else if (x->rows != NULL && x->rows == x->cli->out) {
        report_window(x->rows, w, has_consumers);
    }
    if (x->windows != NULL) {
        add_window(x, report_window_json(w, has_consumers));
    }
}

static void on_row(const struct bench_reading *row, void *context)
{
    struct bench *x = context;
    if (x->rows != NULL) {
        report_reading_row(x->rows, row);
        look_for_readers(x);
    }
    if (x->series != NULL) {
        (void)json_array_append_new(x->series, report_reading_row_json(row));
    }
}

static void on_reading(const struct bench_reading *all, void *context)
{
    struct bench *x = context;
    x->has_losses = all->failure[0] != '\0';
    if (x->rows != NULL && x->rows == x->cli->out) {
        report_reading(x->rows, all);
    }
    if (x->windows != NULL) {
        add_window(x, report_reading_json(all));
    }
}

static json_t *load_json(const struct bench *x)
{
    const struct bench_options *o = &x->options;
    const struct client_producer_options *p = &o->producer;
    return json_pack("{s:I, s:I, s:s, s:i, s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:f, s:f}",
                     "value_size_min",
                     (json_int_t)o->workload.value_size_min,
                     "value_size_max",
                     (json_int_t)o->workload.value_size_max,
                     "keys",
                     cli_text(x->cli, "keys", "none"),
                     "compressible",
                     o->workload.compressible,
                     "acks",
                     cli_text(x->cli, "acks", "all"),
                     "codec",
                     cli_text(x->cli, "codec", "none"),
                     "idempotent",
                     (int)p->is_idempotent,
                     "replay",
                     (int)o->is_replay,
                     "batch_size", /* 0 here and below: the client's default. */
                     (json_int_t)(o->is_replay ? o->replay_batch_size : p->batch_size),
                     "linger_ms",
                     (json_int_t)p->linger_ms,
                     "in_flight",
                     (json_int_t)p->in_flight_max,
                     "timeout_s",
                     (double)o->patience_us / 1e6,
                     "p99_max_ms",
                     (double)o->p99_us_max / 1e3);
}

static json_t *reading_json(const struct bench *x)
{
    const enum bench_from from = x->options.from;
    return json_pack("{s:s, s:b}",
                     "from",
                     from == BENCH_FROM_END ? "end" : "start",
                     "again",
                     (int)(from == BENCH_FROM_START_AGAIN));
}

static json_t *settings_json(const struct bench *x)
{
    const struct bench_options *o = &x->options;
    json_t *settings = json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:f, s:f}",
                                 "version",
                                 COREFLUME_VERSION,
                                 "partitions",
                                 x->options.partitions_count,
                                 "producers",
                                 (json_int_t)o->producers_count,
                                 "consumers",
                                 (json_int_t)o->consumers_count,
                                 "groups",
                                 (json_int_t)o->groups_count,
                                 "idle_connections",
                                 (json_int_t)o->idle_count,
                                 "warmup_s",
                                 (double)o->warmup_us / 1e6,
                                 "duration_s",
                                 (double)o->duration_us / 1e6);
    (void)json_object_update_new(settings, is_reading(x) ? reading_json(x) : load_json(x));
    return settings;
}

static int print_json(struct bench *x, const struct bench_result *result)
{
    static const char *const modes[] = {
        [BENCH_RATE] = "rate",
        [BENCH_RAMP] = "ramp",
        [BENCH_SEARCH] = "search",
        [BENCH_READ] = "read",
    };
    json_t *windows = x->windows;
    x->windows = NULL; /* It goes with the object. */
    return cli_print_json(
        x->cli,
        json_pack("{s:o, s:s, s:o, s:o, s:o, s:o}",
                  "topic",
                  cli_json_slice(slice_of_string(x->options.topic)),
                  "mode",
                  modes[x->options.mode],
                  "settings",
                  settings_json(x),
                  "windows",
                  windows,
                  "found_rate",
                  is_search(x) ? json_real(result->found_rate) : json_null(),
                  "complete",
                  is_search(x) ? json_boolean(result->is_complete) : json_null()));
}

static void print_found(const struct bench *x, const struct bench_result *result)
{
    char text[REPORT_TEXT_SIZE];
    FILE *out = x->cli->out;
    (void)report_count(result->found_rate, text);
    if (result->is_complete) {
        (void)fprintf(out,
                      "\n%s records/s is the highest rate that held, within %.0f %%\n",
                      text,
                      SEARCH_PRECISION * 100);
    } else if (result->found_rate > 0) {
        (void)fprintf(out, "\n%s records/s held; the search was not finished\n", text);
    } else {
        (void)fprintf(out, "\nno rate held\n");
    }
}

/* ---- the run ---- */

static int open_hlog(struct bench *x)
{
    const char *path = cli_text(x->cli, "hlog", NULL);
    if (path != NULL) {
        x->hlog = fopen(path, "we");
        if (x->hlog == NULL) {
            return cli_fail(x->cli, CLI_FAILED, "%s: %s", path, strerror(errno));
        }
        x->options.hlog = x->hlog;
    }
    return CLI_OK;
}

static int close_hlog(struct bench *x)
{
    if (x->hlog == NULL) {
        return CLI_OK;
    }
    const bool is_bad = ferror(x->hlog) != 0;
    if (fclose(x->hlog) != 0 || is_bad) {
        return cli_fail(
            x->cli, CLI_FAILED, "%s could not be written", cli_text(x->cli, "hlog", ""));
    }
    return CLI_OK;
}

static int run(struct bench *x)
{
    char why[CLIENT_WHY_SIZE];
    struct bench_result result;
    const bool is_json = cli_has(x->cli, "json");
    const bool is_watched = isatty(STDERR_FILENO) == 1;
    x->rows = !is_json ? x->cli->out : is_watched ? x->cli->err : NULL;
    x->windows = is_json ? json_array() : NULL;
    x->series = is_json ? json_array() : NULL;
    const struct bench_callbacks callbacks = {
        .on_ready = on_ready,
        .on_interval = on_interval,
        .on_window = on_window,
        .on_row = on_row,
        .on_reading = on_reading,
        .context = x,
    };
    enum err e = bench_run(&x->options, &callbacks, why, &result);
    if (e != ERR_OK) {
        return cli_fail(x->cli, e == ERR_INVALID ? CLI_USAGE : CLI_FAILED, "%s", why);
    }
    if (is_json) {
        const int printed = print_json(x, &result);
        if (printed != CLI_OK) {
            return printed;
        }
    } else if (is_search(x)) {
        print_found(x, &result);
    }
    const bool is_good = is_search(x) ? result.found_rate > 0 : !x->has_losses;
    return is_good || x->options.mode == BENCH_RAMP ? CLI_OK : CLI_FAILED;
}

int cli_bench(struct cli *cli)
{
    struct bench x = {.cli = cli, .options = {.stop_fd = -1}};
    int code = cli_bench_options(cli, &x.options);
    if (code == CLI_OK) {
        code = open_hlog(&x);
    }
    if (code == CLI_OK) {
        /* A reader of the output that leaves is noticed when writing: the topic must not stay. */
        (void)signal(SIGPIPE, SIG_IGN);
        x.options.stop_fd = cli_stop_hear();
        x.options.take_stop = cli_stop_take;
        code = cli_client_new(cli, &x.client);
    }
    if (code == CLI_OK) {
        code = open_topic(&x);
    }
    if (code == CLI_OK) {
        code = count_partitions(&x);
    }
    if (code == CLI_OK) {
        code = run(&x);
    }
    if (x.client != NULL) {
        const int dropped = drop_topic(&x);
        code = code == CLI_OK ? dropped : code;
    }
    client_free(x.client);
    const int closed = close_hlog(&x);
    json_decref(x.windows);
    json_decref(x.series);
    free((void *)x.options.groups);
    if (x.options.stop_fd >= 0) {
        (void)close(x.options.stop_fd);
    }
    return code == CLI_OK ? closed : code;
}

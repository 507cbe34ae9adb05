#include <stdlib.h>
#include <string.h>

#include "cli/cli_bench.h"
#include "cli/cli_client.h"
#include "cli/cli_parse.h"
#include "core/config.h"

enum {
    RATE_DEFAULT = 10000,
    SEARCH_RATE_DEFAULT = 1000,
    PRODUCERS_DEFAULT = 4,
    CONSUMERS_DEFAULT = 1,
    VALUE_SIZE_DEFAULT = 1024,
    REPLAY_BATCH_SIZE_DEFAULT = 64 << 10,
    DURATION_S_DEFAULT = 10,
    WARMUP_S_DEFAULT = 2,
    STEP_S_DEFAULT = 5,
    STEP_WARMUP_S_DEFAULT = 1,
    TIMEOUT_S_DEFAULT = 30,
    COMPRESSIBLE_DEFAULT = 50,
    KEY_SIZE_DEFAULT = 16,
    IN_FLIGHT_REPLAY = 5,
};

static const struct config_option size_option = {
    .type = CONFIG_SIZE,
    .min = 0,
    .max = WORKLOAD_VALUE_SIZE_MAX,
};

static bool parse_size(const char *text, uint32_t *ret_size)
{
    int64_t size = 0;
    if (config_parse(&size_option, text, &size) != ERR_OK || size < size_option.min ||
        size > size_option.max) {
        return false;
    }
    *ret_size = (uint32_t)size;
    return true;
}

/* Cuts text in two at the first separator; false without one, or if it is too long. */
static bool cut(const char *text, char separator, char ret_head[64], const char **ret_tail)
{
    const char *at = strchr(text, separator);
    if (at == NULL || at - text >= 64) {
        return false;
    }
    memcpy(ret_head, text, (size_t)(at - text));
    ret_head[at - text] = '\0';
    *ret_tail = at + 1;
    return true;
}

/* A positive number with a point, or not. */
static bool parse_positive(const char *text, double *ret_number)
{
    char *end = NULL;
    const double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number > 0) || number > 1e9) {
        return false;
    }
    *ret_number = number;
    return true;
}

/* SIZE, or MIN-MAX. */
static int read_size(struct cli *cli, struct workload_options *w)
{
    w->value_size_min = w->value_size_max = VALUE_SIZE_DEFAULT;
    const char *text = cli_text(cli, "size", NULL);
    if (text == NULL) {
        return CLI_OK;
    }
    char min[64];
    const char *max = NULL;
    const bool is_range = cut(text, '-', min, &max);
    const bool is_good = parse_size(is_range ? min : text, &w->value_size_min) &&
                         parse_size(is_range ? max : text, &w->value_size_max) &&
                         w->value_size_min <= w->value_size_max;
    return is_good ? CLI_OK
                   : cli_fail(cli,
                              CLI_USAGE,
                              "option '--size': '%s' is not SIZE or MIN-MAX, up to 64MiB",
                              text);
}

/* none, or KIND:COUNT; of zipf KIND:COUNT:EXPONENT too. */
static int read_keys(struct cli *cli, struct workload_options *w)
{
    static const struct {
        const char *name;
        enum workload_keys keys;
    } kinds[] = {
        {"uniform", WORKLOAD_KEYS_UNIFORM},
        {"zipf", WORKLOAD_KEYS_ZIPF},
        {"round", WORKLOAD_KEYS_ROUND},
    };
    const char *text = cli_text(cli, "keys", "none");
    w->key_size = KEY_SIZE_DEFAULT;
    w->zipf_exponent = 1;
    if (strcmp(text, "none") == 0) {
        return CLI_OK;
    }
    char kind[64];
    char number[64];
    const char *rest = "";
    const char *exponent = NULL;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (cut(text, ':', kind, &rest) && strcmp(kind, kinds[i].name) == 0) {
            w->keys = kinds[i].keys;
        }
    }
    const bool has_exponent = w->keys == WORKLOAD_KEYS_ZIPF && cut(rest, ':', number, &exponent);
    int64_t count = 0;
    if (w->keys == WORKLOAD_KEYS_NONE || !cli_parse_number(has_exponent ? number : rest, &count) ||
        count < 1 || (has_exponent && !parse_positive(exponent, &w->zipf_exponent))) {
        return cli_fail(cli,
                        CLI_USAGE,
                        "option '--keys': '%s' is not none, uniform:N, round:N, zipf:N or "
                        "zipf:N:EXPONENT",
                        text);
    }
    w->keys_count = (uint64_t)count;
    return CLI_OK;
}

static int read_mode(struct cli *cli, struct bench_options *o)
{
    const bool is_search = cli_has(cli, "search");
    const char *ramp = cli_text(cli, "ramp", NULL);
    if (ramp != NULL && (is_search || cli_has(cli, "rate"))) {
        return cli_fail(cli, CLI_USAGE, "--ramp has its own rates: without --rate and --search");
    }
    o->mode = ramp != NULL ? BENCH_RAMP : is_search ? BENCH_SEARCH : BENCH_RATE;
    o->rate = (double)cli_number(cli, "rate", is_search ? SEARCH_RATE_DEFAULT : RATE_DEFAULT);
    if (ramp != NULL) {
        char from[64];
        const char *to = NULL;
        if (!cut(ramp, '-', from, &to) || !parse_positive(from, &o->rate) ||
            !parse_positive(to, &o->rate_to)) {
            return cli_fail(cli, CLI_USAGE, "option '--ramp': '%s' is not FROM-TO", ramp);
        }
    }
    const int64_t duration_s =
        cli_number(cli, "duration", is_search ? STEP_S_DEFAULT : DURATION_S_DEFAULT);
    const int64_t warmup_s =
        cli_number(cli, "warmup", is_search ? STEP_WARMUP_S_DEFAULT : WARMUP_S_DEFAULT);
    o->duration_us = (uint64_t)duration_s * 1000000;
    o->warmup_us = (uint64_t)warmup_s * 1000000;
    o->patience_us = (uint64_t)cli_number(cli, "timeout", TIMEOUT_S_DEFAULT) * 1000000;
    o->p99_us_max = (uint64_t)cli_number(cli, "p99-max", 0) * 1000;
    return CLI_OK;
}

static int read_producers(struct cli *cli, struct bench_options *o)
{
    uint32_t batch_size = 0;
    const char *batch = cli_text(cli, "batch", NULL);
    if (batch != NULL && (!parse_size(batch, &batch_size) || batch_size == 0)) {
        return cli_fail(cli, CLI_USAGE, "option '--batch': '%s' is not a size up to 64MiB", batch);
    }
    o->producers_count = (size_t)cli_number(cli, "producers", PRODUCERS_DEFAULT);
    o->is_replay = cli_has(cli, "replay");
    o->replay_batch_size = batch_size == 0 ? REPLAY_BATCH_SIZE_DEFAULT : batch_size;
    o->producer = (struct client_producer_options){
        .acks = cli_acks(cli),
        .codec = cli_codec(cli),
        .is_idempotent = cli_has(cli, "idempotent"),
        .in_flight_max =
            (uint32_t)cli_number(cli, "in-flight", o->is_replay ? IN_FLIGHT_REPLAY : 0),
        .batch_size = batch_size,
        .linger_ms = (uint32_t)cli_number(cli, "linger", 0),
        .partitioner = o->is_replay ? CLIENT_PARTITIONER_ROUND_ROBIN : CLIENT_PARTITIONER_DEFAULT,
    };
    return CLI_OK;
}

static int read_consumers(struct cli *cli, struct bench_options *o)
{
    const char **groups = calloc((size_t)cli->values_count + 1, sizeof(*groups));
    if (groups == NULL) {
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    o->groups = groups;
    for (int i = 0; i < cli->values_count; i++) {
        if (strcmp(cli->values[i].option->name, "group") == 0) {
            groups[o->groups_count++] = cli->values[i].text;
        }
    }
    o->consumers_count = (size_t)cli_number(cli, "consumers", CONSUMERS_DEFAULT);
    if (o->groups_count > 0 && o->consumers_count == 0) {
        return cli_fail(cli, CLI_USAGE, "a group needs consumers: without --consumers 0");
    }
    return CLI_OK;
}

/* Without producers there is nothing that these could be about. */
static const char *find_unused(const struct cli *cli)
{
    static const char *const names[] = {"rate",
                                        "ramp",
                                        "search",
                                        "p99-max",
                                        "timeout",
                                        "size",
                                        "keys",
                                        "compressible",
                                        "codec",
                                        "acks",
                                        "idempotent",
                                        "batch",
                                        "linger",
                                        "in-flight",
                                        "replay",
                                        "hlog"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (cli_has(cli, names[i])) {
            return names[i];
        }
    }
    return NULL;
}

static int read_reading(struct cli *cli, struct bench_options *o)
{
    const bool is_end = strcmp(cli_text(cli, "from", "start"), "end") == 0;
    const bool is_again = cli_has(cli, "again");
    if (o->producers_count > 0) {
        return cli_has(cli, "from") || is_again
                   ? cli_fail(cli, CLI_USAGE, "--from and --again are for --producers 0")
                   : CLI_OK;
    }
    const char *unused = find_unused(cli);
    if (unused != NULL) {
        return cli_fail(cli, CLI_USAGE, "--%s is for producers: without --producers 0", unused);
    }
    if (cli->operands_count == 0) {
        return cli_fail(cli, CLI_USAGE, "--producers 0 reads a TOPIC that is there: which?");
    }
    if (is_end && is_again) {
        return cli_fail(cli, CLI_USAGE, "--again goes back to the start: without --from end");
    }
    o->mode = BENCH_READ;
    o->from = is_end ? BENCH_FROM_END : is_again ? BENCH_FROM_START_AGAIN : BENCH_FROM_START;
    if (o->from == BENCH_FROM_START && !cli_has(cli, "warmup")) {
        o->warmup_us = 0; /* All of it counts. */
    }
    return CLI_OK;
}

int cli_bench_options(struct cli *cli, struct bench_options *o)
{
    o->brokers = cli_brokers(cli);
    o->idle_count = (size_t)cli_number(cli, "idle-connections", 0);
    o->workload.compressible = (int)cli_number(cli, "compressible", COMPRESSIBLE_DEFAULT);
    int code = read_size(cli, &o->workload);
    if (code == CLI_OK) {
        code = read_keys(cli, &o->workload);
    }
    if (code == CLI_OK) {
        code = read_mode(cli, o);
    }
    if (code == CLI_OK) {
        code = read_producers(cli, o);
    }
    if (code == CLI_OK) {
        code = read_consumers(cli, o);
    }
    return code == CLI_OK ? read_reading(cli, o) : code;
}

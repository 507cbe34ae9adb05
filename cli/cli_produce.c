/* coreflume produce: lines of standard input become records. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_client.h"
#include "cli/cli_lines.h"
#include "cli/cli_parse.h"
#include "client/client.h"

enum {
    /* While lines keep coming batches fill; when they pause, what is there goes out. */
    LINGER_MS = 100,
    PAUSE_MS = 5,
    TIMEOUT_S_DEFAULT = 30,
};

/* What every record of the call has. */
struct pattern {
    int32_t partition;
    struct slice key;
    struct slice separator; /* Null: the line is the value. */
    struct client_header *headers;
    size_t headers_count;
};

static const char *const codecs[] = {
    [CLIENT_CODEC_NONE] = "none",
    [CLIENT_CODEC_GZIP] = "gzip",
    [CLIENT_CODEC_SNAPPY] = "snappy",
    [CLIENT_CODEC_LZ4] = "lz4",
    [CLIENT_CODEC_ZSTD] = "zstd",
};

static enum client_codec codec_of(const char *name)
{
    enum client_codec codec = CLIENT_CODEC_NONE;
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        if (strcmp(codecs[i], name) == 0) {
            codec = (enum client_codec)i;
        }
    }
    return codec;
}

static enum client_acks acks_of(const char *text)
{
    if (strcmp(text, "0") == 0) {
        return CLIENT_ACKS_NONE;
    }
    return strcmp(text, "1") == 0 ? CLIENT_ACKS_LEADER : CLIENT_ACKS_ALL;
}

static int read_options(struct cli *cli, struct client_producer_options *ret_options)
{
    *ret_options = (struct client_producer_options){
        .acks = acks_of(cli_text(cli, "acks", "all")),
        .codec = codec_of(cli_text(cli, "codec", "none")),
        .is_idempotent = cli_has(cli, "idempotent"),
        .linger_ms = LINGER_MS,
        .delivery_timeout_ms = (uint32_t)cli_number(cli, "timeout", TIMEOUT_S_DEFAULT) * 1000,
    };
    if (ret_options->is_idempotent && ret_options->acks != CLIENT_ACKS_ALL) {
        return cli_fail(cli, CLI_USAGE, "--idempotent needs --acks all");
    }
    return CLI_OK;
}

/* NAME=VALUE of each -H; NAME alone has the null value. */
static int read_pattern(struct cli *cli, struct pattern *p)
{
    *p = (struct pattern){
        .partition = (int32_t)cli_number(cli, "partition", -1),
        .key = slice_of_string(cli_text(cli, "key", NULL)),
        .separator = slice_of_string(cli_text(cli, "key-separator", NULL)),
        .headers = calloc((size_t)cli->values_count + 1, sizeof(*p->headers)),
    };
    if (p->headers == NULL) {
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    if (!slice_is_null(p->separator) && (p->separator.size == 0 || !slice_is_null(p->key))) {
        return cli_fail(cli,
                        CLI_USAGE,
                        p->separator.size == 0 ? "--key-separator must not be empty"
                                               : "--key and --key-separator exclude each other");
    }
    for (int i = 0; i < cli->values_count; i++) {
        const struct cli_value *v = &cli->values[i];
        if (strcmp(v->option->name, "header") != 0) {
            continue;
        }
        const size_t name_size = strcspn(v->text, "=");
        const bool has_value = v->text[name_size] == '=';
        p->headers[p->headers_count++] = (struct client_header){
            .key = slice_of(v->text, name_size),
            .value = slice_of_string(has_value ? v->text + name_size + 1 : NULL),
        };
    }
    return CLI_OK;
}

/* A line without the separator is a value without a key. */
static struct client_message message_of(const struct pattern *p, struct slice line)
{
    struct client_message m = {
        .partition = p->partition,
        .key = p->key,
        .value = line,
        .headers = p->headers,
        .headers_count = p->headers_count,
    };
    const uint8_t *found = slice_is_null(p->separator)
                               ? NULL
                               : memmem(line.data, line.size, p->separator.data, p->separator.size);
    if (found != NULL) {
        const size_t key_size = (size_t)(found - line.data);
        const size_t skipped = key_size + p->separator.size;
        m.key = slice_of(line.data, key_size);
        m.value = slice_of(line.data + skipped, line.size - skipped);
    }
    return m;
}

static int say_input(struct cli *cli, enum err e)
{
    if (e == ERR_TOO_LARGE) {
        return cli_fail(cli, CLI_FAILED, "a line is longer than %d MiB", CLI_LINE_SIZE_MAX >> 20);
    }
    return cli_fail(cli,
                    CLI_FAILED,
                    "cannot read the input (%s)",
                    e == ERR_BUSY ? "no memory" : strerror(errno));
}

/* Sends all lines. CLI_OK when the input ended and everything was acknowledged. */
static int send_lines(struct cli *cli,
                      struct client *c,
                      struct client_producer *producer,
                      const struct pattern *pattern)
{
    struct cli_lines lines;
    cli_lines_init(&lines, cli->in_fd);
    enum err e = ERR_OK;     /* Of the producer. */
    enum err input = ERR_OK; /* Of the input. */
    bool has_unsent = false;
    while (e == ERR_OK && input == ERR_OK) {
        struct slice line = {0};
        enum err got = cli_lines_next(&lines, has_unsent ? PAUSE_MS : -1, &line);
        if (got == ERR_OK) {
            const struct client_message m = message_of(pattern, line);
            e = client_producer_send(producer, &m);
            has_unsent = true;
        } else if (got == ERR_TIMED_OUT) {
            e = client_producer_flush(producer);
            has_unsent = false;
        } else {
            input = got;
        }
    }
    cli_lines_done(&lines);
    /* What was read before the trouble counts. */
    if (e == ERR_OK) {
        e = client_producer_flush(producer);
    }
    if (e != ERR_OK) {
        return cli_client_fail(cli, c, e, cli->operands[0]);
    }
    return input == ERR_EOF ? CLI_OK : say_input(cli, input);
}

static int print_stats(struct cli *cli, const struct client_producer *producer, int code)
{
    struct client_producer_stats stats;
    client_producer_stats(producer, &stats);
    if (cli_has(cli, "json")) {
        const int printed = cli_print_json(cli,
                                           json_pack("{s:s, s:I, s:I}",
                                                     "topic",
                                                     cli->operands[0],
                                                     "produced",
                                                     (json_int_t)stats.acked_count,
                                                     "failed",
                                                     (json_int_t)stats.failed_count));
        return printed == CLI_OK ? code : printed;
    }
    (void)fprintf(cli->out,
                  "produced %" PRIu64 " record%s to %s\n",
                  stats.acked_count,
                  stats.acked_count == 1 ? "" : "s",
                  cli->operands[0]);
    return code;
}

int cli_produce(struct cli *cli)
{
    struct client_producer_options options;
    struct pattern pattern = {0};
    struct client *c = NULL;
    struct client_producer *producer = NULL;
    int code = read_options(cli, &options);
    if (code == CLI_OK) {
        code = read_pattern(cli, &pattern);
    }
    if (code == CLI_OK) {
        code = cli_client_new(cli, &c);
    }
    if (code == CLI_OK) {
        enum err e = client_producer_new(c, cli->operands[0], &options, &producer);
        code = e == ERR_OK ? CLI_OK : cli_client_fail(cli, c, e, cli->operands[0]);
    }
    if (code == CLI_OK) {
        code = send_lines(cli, c, producer, &pattern);
        code = print_stats(cli, producer, code);
    }
    client_producer_free(producer);
    client_free(c);
    free(pattern.headers);
    return code;
}

#include "cli/cli_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_parse.h"
#include "cli/cli_time.h"
#include "core/clock.h"

/* ---- options ---- */

/* Options that say the same in two ways, or what the other has no use for. */
static int check_options(struct cli *cli)
{
    static const struct {
        const char *one;
        const char *other;
    } rows[] = {
        {"json", "format"},
        {"json", "key"},
        {"json", "key-separator"},
        {"json", "null"},
        {"format", "key-separator"},
        {"key", "key-separator"},
        {"partition", "keep-partitions"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (cli_has(cli, rows[i].one) && cli_has(cli, rows[i].other)) {
            return cli_fail(
                cli, CLI_USAGE, "--%s and --%s exclude each other", rows[i].one, rows[i].other);
        }
    }
    if (cli_has(cli, "key-separator") && cli_text(cli, "key-separator", "")[0] == '\0') {
        return cli_fail(cli, CLI_USAGE, "--key-separator must not be empty");
    }
    if (cli_has(cli, "keep-partitions") && !cli_has(cli, "json") && !cli_has(cli, "format")) {
        return cli_fail(
            cli, CLI_USAGE, "--keep-partitions needs input that has them: --json, or %%p in -f");
    }
    return CLI_OK;
}

/* NAME=VALUE of each -H; NAME alone has the null value. */
static int read_headers(struct cli_source *s, struct cli *cli)
{
    s->headers_capacity = (size_t)cli->values_count + 1;
    s->headers = calloc(s->headers_capacity, sizeof(*s->headers));
    if (s->headers == NULL) {
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    for (int i = 0; i < cli->values_count; i++) {
        const struct cli_value *v = &cli->values[i];
        if (strcmp(v->option->name, "header") != 0) {
            continue;
        }
        const size_t name_size = strcspn(v->text, "=");
        const bool has_value = v->text[name_size] == '=';
        s->headers[s->pattern.headers_count++] = (struct client_header){
            .key = slice_of(v->text, name_size),
            .value = slice_of_string(has_value ? v->text + name_size + 1 : NULL),
        };
    }
    return CLI_OK;
}

static int read_separator(struct cli_source *s, struct cli *cli)
{
    const char *text = cli_text(cli, "key-separator", NULL);
    if (text == NULL) {
        return CLI_OK;
    }
    char why[CLI_FORMAT_WHY_SIZE];
    size_t size = 0;
    s->separator_memory = malloc(strlen(text) + 1);
    if (s->separator_memory == NULL) {
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    if (cli_unescape(text, s->separator_memory, &size, why) != ERR_OK) {
        return cli_fail(cli, CLI_USAGE, "option '--key-separator': %s", why);
    }
    s->separator = slice_of(s->separator_memory, size);
    return CLI_OK;
}

static int read_timestamp(struct cli_source *s, struct cli *cli)
{
    const char *text = cli_text(cli, "timestamp", NULL);
    if (text == NULL) {
        return CLI_OK;
    }
    struct clock clock;
    clock_init_real(&clock);
    if (!cli_time_parse(text, clock_wall_ms(&clock), &s->pattern.timestamp)) {
        return cli_fail(cli,
                        CLI_USAGE,
                        "option '--timestamp': '%s' is no time: milliseconds since 1970, "
                        "2026-11-29T19:00:00Z, or -90m (ago)",
                        text);
    }
    s->pattern.has_timestamp = true;
    return CLI_OK;
}

static bool has_letter(const struct cli_format *f, char letter)
{
    for (size_t i = 0; i < f->parts_count; i++) {
        if (f->parts[i].letter == letter) {
            return true;
        }
    }
    return false;
}

static int read_format(struct cli_source *s, struct cli *cli)
{
    char why[CLI_FORMAT_WHY_SIZE];
    enum err e = cli_format_init(&s->format, cli_text(cli, "format", ""), cli->operands[0], why);
    if (e == ERR_OK) {
        s->format.null_text = s->null_text;
        e = cli_format_reader_init(&s->reader, &s->format);
        memcpy(why, s->reader.why, sizeof(why));
    }
    if (e != ERR_OK) {
        return cli_fail(
            cli, e == ERR_INVALID ? CLI_USAGE : CLI_FAILED, "option '--format': %s", why);
    }
    if (cli_has(cli, "key") && has_letter(&s->format, 'k')) {
        return cli_fail(cli, CLI_USAGE, "--key and %%k in --format exclude each other");
    }
    if (s->keeps_partitions && !has_letter(&s->format, 'p')) {
        return cli_fail(cli, CLI_USAGE, "--keep-partitions needs %%p in --format");
    }
    return CLI_OK;
}

static int open_input(struct cli_source *s, struct cli *cli)
{
    s->name = cli_text(cli, "input", NULL);
    int fd = cli->in_fd;
    if (s->name != NULL) {
        fd = open(s->name, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            return cli_fail(cli, CLI_FAILED, "cannot open '%s' (%s)", s->name, strerror(errno));
        }
    }
    cli_input_init(&s->input, fd, -1);
    return CLI_OK;
}

int cli_source_init(struct cli_source *s, struct cli *cli)
{
    *s = (struct cli_source){
        .kind = cli_has(cli, "json")     ? CLI_SOURCE_JSON
                : cli_has(cli, "format") ? CLI_SOURCE_FORMAT
                                         : CLI_SOURCE_LINES,
        .input = {.fd = -1},
        .pattern = {.partition = (int32_t)cli_number(cli, "partition", -1),
                    .key = slice_of_string(cli_text(cli, "key", NULL))},
        .null_text = slice_of_string(cli_text(cli, "null", NULL)),
        .keeps_partitions = cli_has(cli, "keep-partitions"),
    };
    int code = check_options(cli);
    if (code == CLI_OK) {
        code = read_headers(s, cli);
    }
    if (code == CLI_OK) {
        code = read_separator(s, cli);
    }
    if (code == CLI_OK) {
        code = read_timestamp(s, cli);
    }
    if (code == CLI_OK && s->kind == CLI_SOURCE_FORMAT) {
        code = read_format(s, cli);
    }
    return code == CLI_OK ? open_input(s, cli) : code;
}

void cli_source_done(struct cli_source *s)
{
    if (s->name != NULL && s->input.fd >= 0) {
        (void)close(s->input.fd);
    }
    cli_input_done(&s->input);
    cli_record_json_done(&s->json);
    cli_format_reader_done(&s->reader);
    cli_format_done(&s->format);
    free(s->separator_memory);
    free(s->headers);
}

/* ---- records ---- */

[[gnu::format(printf, 3, 4)]] static enum err
refuse(struct cli_source *s, enum err e, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(s->why, sizeof(s->why), format, arguments);
    va_end(arguments);
    return e;
}

/* What the input could not give, in words. */
static enum err say_input(struct cli_source *s, enum err e)
{
    if (e == ERR_TOO_LARGE) {
        return refuse(s,
                      e,
                      "line %" PRIu64 ": the record is larger than %d MiB",
                      s->input.lines + 1,
                      CLI_INPUT_PIECE_MAX >> 20);
    }
    if (e == ERR_BUSY) {
        return refuse(s, e, "no memory for the next record");
    }
    if (e == ERR_IO) {
        const char *name = s->name != NULL ? s->name : "the input";
        return refuse(s, e, "cannot read %s (%s)", name, strerror(errno));
    }
    return e;
}

static struct slice or_null(const struct cli_source *s, struct slice bytes)
{
    const bool is_null = !slice_is_null(s->null_text) && slice_equal(bytes, s->null_text);
    return is_null ? (struct slice){0} : bytes;
}

/* A line without the separator is a value without a key. */
static enum err next_line(struct cli_source *s, int timeout_ms, struct client_message *m)
{
    struct slice line;
    enum err e = cli_input_line(&s->input, timeout_ms, &line);
    if (e != ERR_OK) {
        return say_input(s, e);
    }
    const uint8_t *found = slice_is_null(s->separator)
                               ? NULL
                               : memmem(line.data, line.size, s->separator.data, s->separator.size);
    m->value = line;
    if (found != NULL) {
        const size_t key_size = (size_t)(found - line.data);
        const size_t skipped = key_size + s->separator.size;
        m->key = or_null(s, slice_of(line.data, key_size));
        m->value = slice_rest(line, skipped);
    }
    m->value = or_null(s, m->value);
    return ERR_OK;
}

static bool is_blank(struct slice line)
{
    for (size_t i = 0; i < line.size; i++) {
        if (strchr(" \t\r", line.data[i]) == NULL || line.data[i] == '\0') {
            return false;
        }
    }
    return true;
}

static enum err next_json(struct cli_source *s, int timeout_ms, struct client_message *m)
{
    struct slice line;
    enum err e = ERR_OK;
    do {
        e = cli_input_line(&s->input, timeout_ms, &line);
    } while (e == ERR_OK && is_blank(line));
    if (e != ERR_OK) {
        return say_input(s, e);
    }
    char why[CLI_RECORD_WHY_SIZE];
    e = cli_record_from_json(&s->json, line, m, why);
    return e == ERR_INVALID ? refuse(s, e, "line %" PRIu64 ": %s", s->input.lines, why)
                            : say_input(s, e);
}

static enum err next_formatted(struct cli_source *s, int timeout_ms, struct client_message *m)
{
    for (;;) {
        const struct slice rest = cli_input_rest(&s->input);
        const bool is_all = s->input.is_at_end;
        size_t size = 0;
        if (rest.size == 0 && is_all) {
            return ERR_EOF;
        }
        enum err e = rest.size == 0 ? ERR_EOF : cli_format_read(&s->reader, rest, is_all, m, &size);
        if (e == ERR_OK) {
            cli_input_take(&s->input, size);
            return ERR_OK;
        }
        if (e == ERR_INVALID) {
            return refuse(s, e, "line %" PRIu64 ": %s", s->input.lines + 1, s->reader.why);
        }
        if (e == ERR_EOF) {
            e = cli_input_more(&s->input, timeout_ms);
        }
        if (e != ERR_OK && !(e == ERR_TIMED_OUT && timeout_ms < 0)) {
            return say_input(s, e);
        }
    }
}

/* The headers of -H, then its own. */
static enum err add_headers(struct cli_source *s, struct client_message *m)
{
    const size_t first = s->pattern.headers_count;
    const size_t own = m->headers_count;
    if (first + own > s->headers_capacity) {
        struct client_header *grown = realloc(s->headers, (first + own) * sizeof(*grown));
        if (grown == NULL) {
            return say_input(s, ERR_BUSY);
        }
        s->headers = grown;
        s->headers_capacity = first + own;
    }
    if (own > 0) {
        memcpy(s->headers + first, m->headers, own * sizeof(*s->headers));
    }
    m->headers = s->headers;
    m->headers_count = first + own;
    return ERR_OK;
}

enum err cli_source_next(struct cli_source *s, int timeout_ms, struct client_message *ret_message)
{
    struct client_message m = {.partition = -1, .key = s->pattern.key};
    enum err e = ERR_OK;
    switch (s->kind) {
    case CLI_SOURCE_LINES:
        e = next_line(s, timeout_ms, &m);
        break;
    case CLI_SOURCE_JSON:
        e = next_json(s, timeout_ms, &m);
        break;
    case CLI_SOURCE_FORMAT:
        e = next_formatted(s, timeout_ms, &m);
        break;
    }
    if (e == ERR_OK) {
        e = add_headers(s, &m);
    }
    if (e != ERR_OK) {
        return e;
    }
    m.partition = s->keeps_partitions ? m.partition : s->pattern.partition;
    m.key = s->kind == CLI_SOURCE_FORMAT && !slice_is_null(s->pattern.key) ? s->pattern.key : m.key;
    if (!m.has_timestamp) {
        m.timestamp = s->pattern.timestamp;
        m.has_timestamp = s->pattern.has_timestamp;
    }
    *ret_message = m;
    return ERR_OK;
}

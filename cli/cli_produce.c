/* coreflume produce: records of the input go to a topic. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_client.h"
#include "cli/cli_parse.h"
#include "cli/cli_source.h"
#include "cli/cli_stop.h"
#include "cli/cli_text.h"
#include "client/client.h"
#include "core/clock.h"

enum {
    LINGER_MS = 5,
    STEP_MS = 100, /* So long nothing but the client is listened to. */
    PROGRESS_US = 1000000,
    TIMEOUT_S_DEFAULT = 30,
};

struct produce {
    struct cli *cli;
    const char *topic;
    struct client *client;
    struct client_producer *producer;
    struct cli_source source;
    int stop_fd;          /* Readable once somebody wants it to end: Ctrl-C. -1: none. */
    uint64_t taken_count; /* Records of the input that were handed to the producer. */
    struct clock clock;
    bool shows_progress;
    uint64_t shown_us; /* When progress was. */
};

static int read_options(struct cli *cli, struct client_producer_options *ret_options)
{
    *ret_options = (struct client_producer_options){
        .acks = cli_acks(cli),
        .codec = cli_codec(cli),
        .is_idempotent = cli_has(cli, "idempotent"),
        .linger_ms = LINGER_MS,
        .delivery_timeout_ms = (uint32_t)cli_number(cli, "timeout", TIMEOUT_S_DEFAULT) * 1000,
        .max_block_ms = STEP_MS,
    };
    if (ret_options->is_idempotent && ret_options->acks != CLIENT_ACKS_ALL) {
        return cli_fail(cli, CLI_USAGE, "--idempotent needs --acks all");
    }
    return CLI_OK;
}

/* From now on the signals that end a program end the input, and then the waiting: what was sent is
 * counted in any case. */
static void hear_signals(struct produce *x)
{
    x->stop_fd = cli_stop_hear();
    x->source.input.stop_fd = x->stop_fd;
}

static bool take_stop(struct produce *x)
{
    return cli_stop_take(x->stop_fd);
}

/* ---- sending ---- */

static bool is_settled(const struct client_producer_stats *s)
{
    return s->acked_count + s->failed_count == s->sent_count;
}

/* Once a second, for whoever watches a long input go by. */
static void show_progress(struct produce *x)
{
    if (!x->shows_progress || clock_now_us(&x->clock) < x->shown_us + PROGRESS_US) {
        return;
    }
    struct client_producer_stats stats;
    client_producer_stats(x->producer, &stats);
    (void)fprintf(x->cli->err, "\r%" PRIu64 " records acknowledged", stats.acked_count);
    (void)fflush(x->cli->err);
    x->shown_us = clock_now_us(&x->clock);
}

static void hide_progress(struct produce *x)
{
    if (x->shows_progress) {
        (void)fputs("\r\033[K", x->cli->err);
        x->shows_progress = false;
    }
}

/* Waits until it is known what became of all that was sent. The first failure; ERR_CANCELLED if
 * somebody does not want to wait. */
static enum err settle(struct produce *x)
{
    for (;;) {
        struct client_producer_stats stats;
        enum err e = client_producer_flush(x->producer, STEP_MS);
        if (e != ERR_TIMED_OUT) {
            return e;
        }
        show_progress(x);
        client_producer_stats(x->producer, &stats);
        if (is_settled(&stats)) {
            /* Either a record's time was over, or all came right after ours was. */
            enum err failure = client_producer_flush(x->producer, 0);
            return failure != ERR_OK || stats.failed_count == 0 ? failure : e;
        }
        if (take_stop(x)) {
            return ERR_CANCELLED;
        }
    }
}

/* Hands a record over; waits while there is no room. ERR_CANCELLED if somebody wants the input to
 * end meanwhile: the record was not taken. */
static enum err send_record(struct produce *x, const struct client_message *m)
{
    bool was_settled = false;
    for (;;) {
        struct client_producer_stats stats;
        enum err e = client_producer_send(x->producer, m);
        if (e != ERR_BUSY) {
            x->taken_count++;
            return e;
        }
        client_producer_stats(x->producer, &stats);
        if (is_settled(&stats) && was_settled) {
            return e; /* Not for room: there is no memory. */
        }
        was_settled = is_settled(&stats); /* The last answers may have come right after the send. */
        if (take_stop(x)) {
            return ERR_CANCELLED;
        }
    }
}

/* A failure is told soon, not with the next record, which may be long in coming. */
static enum err check_failures(struct produce *x, bool *ret_has_unsettled)
{
    struct client_producer_stats stats;
    client_producer_stats(x->producer, &stats);
    *ret_has_unsettled = !is_settled(&stats);
    return stats.failed_count > 0 ? settle(x) : ERR_OK;
}

/* Until the input ends (*ret_input says how), or a record cannot be written. */
static enum err send_all(struct produce *x, enum err *ret_input)
{
    bool has_unsettled = false;
    enum err e = ERR_OK;
    while (e == ERR_OK) {
        struct client_message m;
        enum err got = cli_source_next(&x->source, has_unsettled ? STEP_MS : -1, &m);
        if (got == ERR_OK) {
            e = send_record(x, &m);
            has_unsettled = true;
            show_progress(x);
        } else if (got == ERR_TIMED_OUT) {
            e = check_failures(x, &has_unsettled);
        }
        if (e == ERR_CANCELLED) {
            got = e;
        }
        if (got != ERR_OK && got != ERR_TIMED_OUT) {
            *ret_input = got;
            return ERR_OK;
        }
    }
    return e;
}

static int say_input(struct produce *x, enum err e)
{
    hide_progress(x);
    if (e == ERR_EOF) {
        return CLI_OK;
    }
    if (e == ERR_CANCELLED) {
        const bool has_more = cli_input_rest(&x->source.input).size > 0;
        return cli_fail(x->cli,
                        CLI_FAILED,
                        "interrupted: only what was read so far was sent%s",
                        has_more ? ", not the record that was being read" : "");
    }
    return cli_fail(x->cli, CLI_FAILED, "%s: nothing from there on was sent", x->source.why);
}

static int say_failure(struct produce *x, enum err e)
{
    hide_progress(x);
    if (e != ERR_CANCELLED) {
        return cli_client_fail(x->cli, x->client, e, x->topic);
    }
    struct client_producer_stats stats;
    client_producer_stats(x->producer, &stats);
    return cli_fail(x->cli,
                    CLI_FAILED,
                    "interrupted: of %" PRIu64
                    " record%s it is not known whether they were written",
                    x->taken_count - stats.acked_count,
                    x->taken_count - stats.acked_count == 1 ? "" : "s");
}

/* Sends all records. CLI_OK when the input ended and everything was acknowledged. */
static int send_records(struct produce *x)
{
    enum err input = ERR_OK;
    enum err e = send_all(x, &input);
    if (e == ERR_OK) {
        (void)take_stop(x); /* The one that ended the input; another ends the waiting. */
        e = settle(x);
        return e == ERR_OK ? say_input(x, input) : say_failure(x, e);
    }
    const int code = say_failure(x, e);
    (void)settle(x); /* What was read before the trouble counts. */
    return code;
}

static int print_stats(struct produce *x, int code)
{
    struct client_producer_stats stats;
    client_producer_stats(x->producer, &stats);
    const uint64_t failed = x->taken_count - stats.acked_count;
    if (cli_has(x->cli, "json")) {
        const int printed = cli_print_json(x->cli,
                                           json_pack("{s:s, s:I, s:I}",
                                                     "topic",
                                                     x->topic,
                                                     "produced",
                                                     (json_int_t)stats.acked_count,
                                                     "failed",
                                                     (json_int_t)failed));
        return printed == CLI_OK ? code : printed;
    }
    cli_put(x->cli->out,
            "produced %" PRIu64 " record%s to %s",
            stats.acked_count,
            stats.acked_count == 1 ? "" : "s",
            x->topic);
    if (failed > 0) {
        (void)fprintf(x->cli->out, ", %" PRIu64 " not acknowledged", failed);
    }
    (void)fputc('\n', x->cli->out);
    return code;
}

/* Who types is told what to do; who has a file sent, how far it is. */
static void greet(struct produce *x)
{
    const bool is_typed = x->source.name == NULL && isatty(x->cli->in_fd) == 1;
    const bool is_seen = isatty(STDERR_FILENO) == 1;
    if (is_typed && is_seen) {
        (void)fputs("a line is a record; Ctrl-D ends the input\n", x->cli->err);
    }
    clock_init_real(&x->clock);
    x->shown_us = clock_now_us(&x->clock);
    x->shows_progress = is_seen && !is_typed;
}

int cli_produce(struct cli *cli)
{
    struct produce x = {.cli = cli, .topic = cli->operands[0], .stop_fd = -1};
    struct client_producer_options options;
    int code = read_options(cli, &options);
    if (code != CLI_OK) {
        return code;
    }
    code = cli_source_init(&x.source, cli);
    if (code == CLI_OK) {
        code = cli_client_new(cli, &x.client);
    }
    if (code == CLI_OK) {
        enum err e = client_producer_new(x.client, x.topic, &options, &x.producer);
        code = e == ERR_OK ? CLI_OK : cli_client_fail(cli, x.client, e, x.topic);
    }
    if (code == CLI_OK) {
        hear_signals(&x);
        greet(&x);
        code = print_stats(&x, send_records(&x));
    }
    client_producer_free(x.producer);
    client_free(x.client);
    cli_source_done(&x.source);
    if (x.stop_fd >= 0) {
        (void)close(x.stop_fd);
    }
    return code;
}

/* coreflume consume -g: as a member of a group. What was printed and flushed is committed; a crash
 * in between prints it again, here or at another member. So is where a partition starts that the
 * group has no offset for: what comes there is printed by whoever has it then. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "cli/cli_client.h"
#include "cli/cli_consume.h"
#include "cli/cli_group.h"
#include "cli/cli_parse.h"
#include "cli/cli_places.h"
#include "cli/cli_stop.h"
#include "core/clock.h"
#include "core/ids.h"

enum {
    WAIT_MS = 200, /* Then signals are looked for. */
    COMMIT_MS = 10000,
    CLOSE_MS = 10000,
    COMMIT_EVERY_US = 1000000,
    LOOK_EVERY_US = 100000,       /* For signals, while records come. */
    UNASSIGNED_US_MAX = 10000000, /* With -e, for who gets no partition. */
};

struct consume {
    struct cli *cli;
    struct client *client;
    struct client_member *member;
    struct cli_output output;
    struct clock clock;
    int stop_fd;
    uint64_t started_us;
    uint64_t committed_us;
    uint64_t looked_us;
    bool is_committing; /* Until on_committed. */
    bool has_failed;    /* A commit did, and it was said. */
};

/* ---- options ---- */

static int refuse_options(struct cli *cli)
{
    static const char *const others[] = {"partition", "until"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (cli_has(cli, others[i])) {
            return cli_fail(cli,
                            CLI_USAGE,
                            "--%s and --group exclude each other: the group says what is read",
                            others[i]);
        }
    }
    return CLI_OK;
}

/* -o: where to begin in partitions that the group has no offset for. */
static int read_reset(struct consume *x, struct client_consumer_options *ret_options)
{
    struct cli_where where;
    const int code = cli_places_option(x->cli, "offset", "start", &where);
    if (code != CLI_OK) {
        return code;
    }
    switch (where.kind) {
    case CLI_WHERE_START:
        ret_options->reset = CLIENT_RESET_START;
        return CLI_OK;
    case CLI_WHERE_END:
        ret_options->reset = CLIENT_RESET_END;
        return CLI_OK;
    case CLI_WHERE_TIME:
        ret_options->reset = CLIENT_RESET_AGO;
        ret_options->reset_ago_ms = clock_wall_ms(&x->clock) - where.number;
        return CLI_OK;
    case CLI_WHERE_OFFSET:
    case CLI_WHERE_LAST:
        break;
    }
    return cli_fail(x->cli,
                    CLI_USAGE,
                    "with --group, --offset says where to begin without a committed offset: start, "
                    "end, @TIME; to move a group: coreflume group seek");
}

/* ---- commits ---- */

static void take_commit(struct consume *x, enum err e, const char *why)
{
    /* Who was put out of the group reads again, or another does: no error. */
    if (e != ERR_OK && e != ERR_CANCELLED && !x->has_failed) {
        x->has_failed = true;
        (void)cli_fail(x->cli, CLI_FAILED, "%s", why);
    }
}

static void on_committed(enum err e, const char *why, void *context)
{
    struct consume *x = context;
    x->is_committing = false;
    take_commit(x, e, why);
}

/* What was printed is out; only then it is done. */
static bool flush(struct consume *x)
{
    return fflush(x->cli->out) == 0 && !ferror(x->cli->out);
}

static void on_revoked(struct client_member *m,
                       const struct client_topic_partition *partitions,
                       size_t count,
                       void *context)
{
    struct consume *x = context;
    (void)partitions;
    (void)count;
    if (flush(x)) {
        const enum err e = client_member_commit(m, NULL, 0, COMMIT_MS);
        take_commit(x, e, client_why(x->client));
    }
}

/* Before a wait everything is out, and committed unless a commit is under way; while there is more,
 * once a second. Costs nothing if the group has it all. */
static int commit(struct consume *x, bool has_more)
{
    const uint64_t now_us = clock_now_us(&x->clock);
    if (ferror(x->cli->out)) {
        return CLI_FAILED; /* cli_main says why. */
    }
    if (has_more && now_us < x->committed_us + COMMIT_EVERY_US) {
        return CLI_OK;
    }
    if (!flush(x)) {
        return CLI_FAILED;
    }
    if (!x->is_committing) {
        /* What cannot be committed now is the next time. */
        x->is_committing =
            client_member_commit_async(x->member, NULL, 0, on_committed, x) == ERR_OK;
        x->committed_us = now_us;
    }
    return CLI_OK;
}

/* ---- the loop ---- */

/* Of a pipe. Without a look a member would keep its partitions until the next record. */
static bool is_reader_gone(const struct consume *x)
{
    struct pollfd out = {.fd = fileno(x->cli->out)};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

static bool is_at_end(struct consume *x)
{
    const struct client_topic_partition *partitions = NULL;
    size_t count = 0;
    client_member_assignment(x->member, &partitions, &count);
    for (size_t i = 0; i < count; i++) {
        const int64_t position = client_member_position(x->member, &partitions[i]);
        const int64_t end = client_member_end(x->member, &partitions[i]);
        if (position < 0 || end < 0 || position < end) {
            return false;
        }
    }
    return count > 0 || clock_now_us(&x->clock) > x->started_us + UNASSIGNED_US_MAX;
}

/* Somebody wants it to end. */
static bool is_over(struct consume *x)
{
    const uint64_t now_us = clock_now_us(&x->clock);
    if (x->has_failed) {
        return true;
    }
    if (now_us < x->looked_us + LOOK_EVERY_US) {
        return false;
    }
    x->looked_us = now_us;
    return cli_stop_take(x->stop_fd) || is_reader_gone(x);
}

/* What could not be printed is not done. */
static int print(struct consume *x, const struct client_record *r)
{
    const int code = cli_output_print(&x->output, x->cli, r);
    if (code != CLI_OK) {
        (void)client_member_seek(
            x->member, &(struct client_topic_partition){r->topic, r->partition}, r->offset);
    }
    return code;
}

static int run(struct consume *x)
{
    struct cli *cli = x->cli;
    int64_t left = cli_number(cli, "count", INT64_MAX);
    while (left > 0 && !is_over(x)) {
        struct client_record record;
        const enum err e = client_member_next(x->member, WAIT_MS, &record);
        if (e != ERR_OK && e != ERR_TIMED_OUT && e != ERR_BUSY) {
            return cli_client_fail(cli, x->client, e, NULL);
        }
        int code = CLI_OK;
        if (e == ERR_OK) {
            code = print(x, &record);
            left--;
        } else if (cli_has(cli, "exit") && is_at_end(x)) {
            return CLI_OK;
        }
        if (code == CLI_OK) {
            code = commit(x, client_member_has_buffered(x->member));
        }
        if (code != CLI_OK) {
            return code;
        }
    }
    return x->has_failed ? CLI_FAILED : CLI_OK;
}

/* ---- there and back ---- */

/* A member may wait for topics that are to come; a person has mistyped. */
static int check_topics(struct consume *x)
{
    struct client_cluster *cluster = NULL;
    struct cli *cli = x->cli;
    enum err e = client_describe(x->client, cli->operands, (size_t)cli->operands_count, &cluster);
    int code = e == ERR_OK ? CLI_OK : cli_client_fail(cli, x->client, e, NULL);
    for (size_t i = 0; code == CLI_OK && i < cluster->topics_count; i++) {
        const struct client_topic_info *t = &cluster->topics[i];
        if (t->err != ERR_OK) {
            char name[TOPIC_NAME_SIZE_MAX + 1];
            (void)snprintf(
                name, sizeof(name), "%.*s", (int)t->name.size, (const char *)t->name.data);
            code = cli_client_fail(cli, x->client, client_topic_why(x->client, t), name);
        }
    }
    client_cluster_free(cluster);
    return code;
}

static int join(struct consume *x)
{
    const struct cli *cli = x->cli;
    struct client_member_options options = {
        .group = cli_text(cli, "group", ""),
        .topics = cli->operands,
        .topics_count = (size_t)cli->operands_count,
        .instance_id = cli_text(cli, "instance", NULL),
        .on_revoked = on_revoked,
        .context = x,
    };
    int code = read_reset(x, &options.reading);
    if (code == CLI_OK) {
        code = cli_client_new(x->cli, &x->client);
    }
    if (code == CLI_OK) {
        code = check_topics(x);
    }
    if (code == CLI_OK) {
        enum err e = client_member_new(x->client, &options, &x->member);
        code = e == ERR_OK ? CLI_OK : cli_client_fail(x->cli, x->client, e, NULL);
    }
    return code;
}

int cli_consume_group(struct cli *cli)
{
    struct consume x = {.cli = cli, .stop_fd = -1};
    clock_init_real(&x.clock);
    int code = refuse_options(cli);
    if (code == CLI_OK) {
        code = cli_output_init(&x.output, cli);
    }
    if (code == CLI_OK) {
        code = join(&x);
    }
    if (code == CLI_OK) {
        /* A reader of the output that leaves is noticed when writing, so that the group is left. */
        (void)signal(SIGPIPE, SIG_IGN);
        x.stop_fd = cli_stop_hear();
        x.started_us = clock_now_us(&x.clock);
        code = run(&x);
        enum err e = client_member_close(x.member, CLOSE_MS);
        if (e != ERR_OK && code == CLI_OK) {
            code = cli_client_fail(cli, x.client, e, NULL);
        }
        code = code == CLI_OK && x.has_failed ? CLI_FAILED : code;
    }
    client_member_free(x.member);
    client_free(x.client);
    cli_output_done(&x.output);
    if (x.stop_fd >= 0) {
        (void)close(x.stop_fd);
    }
    return code;
}

/* One process that serves: reads the command line, starts a thread for each shard, and waits for
 * them. Shard 0's thread starts and stops the broker, and listens for signals.
 *
 *   main                         shard threads
 *   read options, block signals
 *   start threads            ->  make ring and shard; all wait for all
 *                                shard 0: broker_start; loops run
 *                                shard 0: ready line; a signal: broker_stop; loops end
 *   join, free all           <-  threads end
 */
#include "broker/start.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "broker/arguments.h"
#include "broker/cores.h"
#include "broker/descriptors.h"
#include "broker/options.h"
#include "broker/settings.h"
#include "broker/wiring.h"
#include "core/assert.h"
#include "core/io_uring.h"
#include "core/shard.h"
#include "core/thread.h"
#include "core/utf8.h"
#include "core/xmsg.h"
#include "net/notify.h"
#include "net/transport_kernel.h"

enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    WHY_SIZE = 1024,
    /* A stop that takes longer is ended by SIGALRM: what was acknowledged is durable anyway. */
    STOP_SECONDS_MAX = 10,
};

struct start;

/* What one shard's thread has. */
struct runner {
    struct start *start;
    uint16_t id;
    struct thread thread;
    struct clock clock;
    struct io_backend *backend;
    struct shard shard;
    bool has_shard;
    enum err result; /* Of making ring and shard. */
    char why[WHY_SIZE];

    /* To end its loop. */
    struct xmsg msg;
    struct xmsg_hop route[2];
};

struct start {
    struct config_table *options;
    struct config *config;
    struct cores cores;
    size_t memory_size; /* Per shard. */
    struct broker_settings settings;
    bool has_settings;
    struct logger log;

    struct shard_group *group;
    struct broker *broker;
    struct runner *runners;
    uint16_t runners_count;
    struct thread_barrier barrier;

    /* Shard 0's, as what follows. */
    int signal_fd;
    struct signalfd_siginfo signal_info;
    struct io_op signal_op;
    struct io_op cancel_op;
    bool is_listening; /* For signals. */
    bool is_started;   /* on_started came. */
    bool is_stop_asked;
    bool is_stopping;
    bool is_stopped; /* on_broker_stopped came. */
    uint16_t loops_pending;
    int exit_code;
};

/* One line on stderr: the last word of a start that failed. */
static void complain(const char *why)
{
    char line[2 * WHY_SIZE];
    (void)snprintf(line, sizeof(line), "%s", why);
    utf8_make_printable(line);
    (void)fprintf(stderr, "coreflume: %s\n", line);
}

/* ---- stopping: shard 0 ---- */

static void run_end_loop(struct shard *here, struct xmsg *m)
{
    shard_stop_loop(here);
    xmsg_forward(here, m);
}

static void on_loop_ended(struct shard *here, struct xmsg *m)
{
    struct runner *r = container_of(m, struct runner, msg);
    struct start *st = r->start;
    assert_cmp(st->loops_pending, >, 0);
    st->loops_pending--;
    if (st->loops_pending == 0) {
        shard_stop_loop(here);
    }
}

/* All loops but our own, which ends when the others have said goodbye. */
static void end_loops(struct start *st)
{
    struct shard *s = &st->runners[0].shard;
    st->loops_pending = (uint16_t)(st->runners_count - 1);
    if (st->loops_pending == 0) {
        shard_stop_loop(s);
        return;
    }
    for (uint16_t i = 1; i < st->runners_count; i++) {
        struct runner *r = &st->runners[i];
        r->route[0] = (struct xmsg_hop){.shard = i, .run = run_end_loop};
        r->route[1] = (struct xmsg_hop){.shard = 0, .run = on_loop_ended};
        r->msg.next_hop = r->route;
        xmsg_send(s, &r->msg);
    }
}

static void end_if_quiet(struct start *st)
{
    if (st->is_stopped && !st->is_listening) {
        end_loops(st);
    }
}

static void on_signal_cancelled(struct io_op *op)
{
    (void)op; /* The cancelled op says the rest. */
}

static void on_broker_stopped(void *context)
{
    struct start *st = context;
    st->is_stopped = true;
    log_info(&st->log, "stopped", "node_id=%d", st->settings.cluster.node_id);
    if (st->is_listening) {
        st->cancel_op = (struct io_op){
            .kind = IO_CANCEL,
            .target = &st->signal_op,
            .on_done = on_signal_cancelled,
        };
        io_submit(&st->runners[0].shard.io, &st->cancel_op);
    }
    end_if_quiet(st);
}

static void stop(struct start *st)
{
    if (st->is_stopping || !st->is_started) {
        return; /* on_broker_started comes back to it. */
    }
    st->is_stopping = true;
    broker_stop(st->broker, st, on_broker_stopped);
}

static void on_signal(struct io_op *op)
{
    struct start *st = container_of(op, struct start, signal_op);
    st->is_listening = false;
    if (st->is_stopping) {
        end_if_quiet(st); /* Cancelled, or a signal for what goes on already. */
        return;
    }
    (void)alarm(STOP_SECONDS_MAX);
    st->is_stop_asked = true;
    if (op->result == ERR_OK) {
        log_info(&st->log, "stopping", "signal=%" PRIu32, st->signal_info.ssi_signo);
    } else {
        /* Deaf to signals, the process could only be killed. */
        log_error(&st->log, "stopping", "error=%s errno=%d", err_name(op->result), op->raw_errno);
        st->exit_code = EXIT_FAILED;
    }
    stop(st);
}

static void listen_for_signals(struct start *st)
{
    st->signal_op = (struct io_op){
        .kind = IO_READ,
        .fd = st->signal_fd,
        .buf = &st->signal_info,
        .size = sizeof(st->signal_info),
        .on_done = on_signal,
    };
    st->is_listening = true;
    io_submit(&st->runners[0].shard.io, &st->signal_op);
}

/* ---- starting: shard 0 ---- */

static void tell_ready(struct start *st)
{
    char kafka[NET_HOST_SIZE + 8];
    char admin[NET_HOST_SIZE + 8] = "-";
    net_address_format(broker_kafka_address(st->broker, 0), kafka);
    if (broker_admin_address(st->broker) != NULL) {
        net_address_format(broker_admin_address(st->broker), admin);
    }
    (void)printf("ready kafka=%s admin=%s\n", kafka, admin);
    (void)fflush(stdout);

    const char *socket_path = getenv("NOTIFY_SOCKET");
    if (socket_path != NULL) {
        enum err e = notify_send(socket_path, "READY=1");
        if (e != ERR_OK) {
            log_warn(&st->log, "notify_failed", "socket=%s error=%s", socket_path, err_name(e));
        }
    }
}

static void on_broker_started(void *context, enum err e, const char *why)
{
    struct start *st = context;
    st->is_started = true;
    if (e != ERR_OK) {
        complain(why);
        st->exit_code = EXIT_FAILED;
        stop(st);
    } else if (st->is_stop_asked) {
        stop(st);
    } else {
        tell_ready(st);
    }
}

/* ---- the threads ---- */

static enum err make_shard(struct runner *r)
{
    struct start *st = r->start;
    clock_init_real(&r->clock);
    char why[IO_URING_WHY_SIZE];
    enum err e = io_uring_backend_new(&r->backend, why);
    if (e != ERR_OK) {
        (void)snprintf(r->why, sizeof(r->why), "%s", why);
        return e;
    }
    e = shard_init(&r->shard,
                   st->group,
                   r->id,
                   &(struct shard_options){
                       .backend = r->backend,
                       .clock = &r->clock,
                       .log = &st->log,
                       .memory_size = st->memory_size,
                       .memory_reserve_size = st->memory_size / 4,
                       .stall_us_max = (uint64_t)config_number(st->config, OPTION_STALL),
                   });
    r->has_shard = e == ERR_OK;
    if (e != ERR_OK) {
        (void)snprintf(r->why,
                       sizeof(r->why),
                       "not enough memory for core %u: %s; lower --memory",
                       r->id,
                       err_name(e));
    }
    return e;
}

static const struct runner *find_failed(const struct start *st)
{
    for (uint16_t i = 0; i < st->runners_count; i++) {
        if (st->runners[i].result != ERR_OK) {
            return &st->runners[i];
        }
    }
    return NULL;
}

static void run_shard(void *context)
{
    struct runner *r = context;
    struct start *st = r->start;
    r->result = make_shard(r);
    thread_barrier_wait(&st->barrier);
    if (find_failed(st) != NULL) {
        return;
    }
    if (r->id == 0) {
        listen_for_signals(st);
        broker_start(st->broker, st, on_broker_started);
    }
    shard_run(&r->shard);
}

/* The threads that run already wait at the barrier for all: without one of them there is no way on
 * and, before anything was opened, nothing to clean up. */
_Noreturn static void end_without_thread(int cpu, enum err e)
{
    char why[WHY_SIZE];
    (void)snprintf(why,
                   sizeof(why),
                   "no thread for CPU %d (%s): choose CPUs that this process may use with --cores",
                   cpu,
                   err_name(e));
    complain(why);
    _exit(EXIT_FAILED);
}

static void run_threads(struct start *st)
{
    for (uint16_t i = 0; i < st->runners_count; i++) {
        struct runner *r = &st->runners[i];
        const int cpu = st->cores.cpus[i];
        char name[16];
        (void)snprintf(name, sizeof(name), "shard-%u", i);
        r->start = st;
        r->id = i;
        enum err e = thread_start(&r->thread, name, cpu, run_shard, r);
        if (e != ERR_OK) {
            end_without_thread(cpu, e);
        }
    }
    for (uint16_t i = 0; i < st->runners_count; i++) {
        thread_join(&st->runners[i].thread);
    }
    const struct runner *failed = find_failed(st);
    if (failed != NULL) {
        complain(failed->why);
        st->exit_code = EXIT_FAILED;
    }
}

/* ---- before the threads ---- */

static enum err read_options(struct start *st,
                             int argc,
                             char *const *argv,
                             enum arguments_action *ret_action,
                             char why[WHY_SIZE])
{
    (void)snprintf(why, WHY_SIZE, "out of memory");
    enum err e = options_new(&st->options);
    if (e == ERR_OK) {
        e = config_new(st->options, &st->config);
    }
    if (e == ERR_OK) {
        e = arguments_read(st->config, argc, argv, ret_action, why);
    }
    if (e != ERR_OK || *ret_action != ARGUMENTS_START) {
        return e;
    }
    e = cores_choose(&st->cores, config_text(st->config, OPTION_CORES), why);
    if (e == ERR_OK) {
        e = settings_from_config(&st->settings, st->config, st->cores.count, why);
        st->has_settings = e == ERR_OK;
    }
    return e;
}

/* A batch needs memory twice, in its request and in its log, each in one piece: with more than a
 * quarter of the memory the second might never be found. */
static void lower_request_size(struct start *st)
{
    struct conn_limits *limits = &st->settings.kafka_limits;
    if (limits->frame_size_max > st->memory_size / 4) {
        log_info(&st->log,
                 "request_size_max_lowered",
                 "configured=%u used=%zu hint=\"raise --memory\"",
                 limits->frame_size_max,
                 st->memory_size / 4);
        limits->frame_size_max = (uint32_t)(st->memory_size / 4);
    }
}

/* What is read ahead and what answers refer to are in the same memory, too. An eighth each is a
 * lot; and of the reserve, a quarter, answers must leave appends most. */
static void lower_read_sizes(struct start *st)
{
    struct log_shared_options *o = &st->settings.cluster.log_shared;
    const size_t size_max = st->memory_size / 8;
    o->ahead_size_max = o->ahead_size_max < size_max ? o->ahead_size_max : size_max;
    o->pinned_size_max = o->pinned_size_max < size_max ? o->pinned_size_max : size_max;
}

static enum err check_memory(struct start *st, char why[WHY_SIZE])
{
    const uint64_t asked_size = (uint64_t)config_number(st->config, OPTION_MEMORY);
    enum err e = memory_per_shard(asked_size, st->cores.count, &st->memory_size, why);
    if (e != ERR_OK) {
        return e;
    }
    /* The cache of log tails lives in the same pool as requests: a quarter, beside the reserve's
     * quarter, leaves them half. */
    st->settings.cluster.log_shared.cache_size_max = st->memory_size / 4;
    lower_read_sizes(st);
    lower_request_size(st);
    if (!config_bool(st->config, OPTION_MEMORY_LOCK)) {
        return ERR_OK;
    }
    char what[IO_URING_WHY_SIZE];
    e = io_uring_check_memlock((uint64_t)st->memory_size * st->cores.count, what, sizeof(what));
    if (e != ERR_OK) {
        (void)snprintf(
            why, WHY_SIZE, "%s, or do without (--set " OPTION_MEMORY_LOCK "=false, slower)", what);
    }
    return e;
}

/* Signals reach shard 0 as bytes to read; every thread started from here on has them blocked. */
static enum err open_signals(struct start *st, char why[WHY_SIZE])
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP); /* The terminal is gone; nohup has it ignored. */
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    st->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (st->signal_fd == -1) {
        (void)snprintf(why, WHY_SIZE, "no descriptor for signals: raise ulimit -n");
        return ERR_BUSY;
    }
    return ERR_OK;
}

/* Partitions and connections take descriptors by the thousands, and the soft limit is low for the
 * sake of programs that use select. */
static void raise_files_limit(struct start *st)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) {
        return;
    }
    const rlim_t old = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        log_warn(&st->log,
                 "files_limit_not_raised",
                 "limit=%ju errno=%d hint=\"ulimit -n, LimitNOFILE=\"",
                 (uintmax_t)old,
                 errno);
    }
}

static enum err divide_files(struct start *st, char why[WHY_SIZE])
{
    struct rlimit limit;
    struct conn_limits *conns = &st->settings.kafka_limits;
    struct log_shared_options *files = &st->settings.cluster.log_shared;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return ERR_OK;
    }
    struct descriptors d;
    char what[DESCRIPTORS_WHY_SIZE];
    enum err e = descriptors_divide(
        &(struct descriptors_asked){
            .limit = limit.rlim_cur,
            .shards_count = st->cores.count,
            .listeners_count = st->settings.listeners_count,
            .dirs_count = st->settings.data_dirs_count,
            .conns_max = conns->conns_max,
            .files_max = files->files_max,
        },
        &d,
        what);
    if (e != ERR_OK) {
        (void)snprintf(why, WHY_SIZE, "%s", what);
        return e;
    }
    if (d.conns_max < conns->conns_max) {
        log_info(&st->log,
                 "connections_max_lowered",
                 "per_core=%u configured=%u files_limit=%ju hint=\"ulimit -n, LimitNOFILE=\"",
                 d.conns_max,
                 conns->conns_max,
                 (uintmax_t)limit.rlim_cur);
    }
    conns->conns_max = d.conns_max;
    files->files_max = d.files_max;
    return ERR_OK;
}

static enum err transport_new(void *context, struct shard *s, struct transport **ret_transport)
{
    (void)context;
    return transport_kernel_new(s, ret_transport);
}

static enum err make_broker(struct start *st, char why[WHY_SIZE])
{
    (void)snprintf(why, WHY_SIZE, "out of memory");
    st->runners_count = st->cores.count;
    st->runners = calloc(st->runners_count, sizeof(*st->runners));
    if (st->runners == NULL) {
        return ERR_BUSY;
    }
    enum err e = shard_group_new(st->runners_count, &st->group);
    if (e != ERR_OK) {
        return e;
    }
    return broker_new(
        &(struct broker_options){
            .version = COREFLUME_VERSION,
            .settings = &st->settings,
            .group = st->group,
            .transport_new = transport_new,
        },
        &st->broker);
}

static void free_all(struct start *st)
{
    broker_free(st->broker);
    for (uint16_t i = 0; i < st->runners_count && st->runners != NULL; i++) {
        if (st->runners[i].has_shard) {
            shard_done(&st->runners[i].shard);
        }
        io_uring_backend_free(st->runners[i].backend);
    }
    shard_group_free(st->group);
    free(st->runners);
    if (st->has_settings) {
        settings_done(&st->settings);
    }
    if (st->signal_fd != -1) {
        (void)close(st->signal_fd);
    }
    logger_done(&st->log);
    config_free(st->config);
    options_free(st->options);
}

/* Everything before the threads; then they run. */
static enum err serve(struct start *st, char why[WHY_SIZE])
{
    logger_init_stderr(&st->log, (enum log_level)config_number(st->config, OPTION_LOG_LEVEL));
    enum err e = open_signals(st, why); /* Before the first line to a log that may be closed. */
    raise_files_limit(st);
    if (e == ERR_OK) {
        e = divide_files(st, why);
    }
    if (e == ERR_OK) {
        e = check_memory(st, why);
    }
    if (e == ERR_OK) {
        e = make_broker(st, why);
    }
    if (e == ERR_OK) {
        (void)snprintf(why, WHY_SIZE, "out of memory");
        e = thread_barrier_init(&st->barrier, st->runners_count);
    }
    if (e == ERR_OK) {
        run_threads(st);
        thread_barrier_done(&st->barrier);
    }
    return e;
}

int start_main(int argc, char *const *argv)
{
    struct start st = {.signal_fd = -1};
    char why[WHY_SIZE] = "";
    enum arguments_action action = ARGUMENTS_START;
    enum err e = read_options(&st, argc, argv, &action, why);
    if (e == ERR_OK && action == ARGUMENTS_HELP) {
        (void)fputs(ARGUMENTS_USAGE, stdout);
    } else if (e == ERR_OK && action == ARGUMENTS_OPTIONS) {
        config_print_markdown(st.options, stdout);
    } else if (e == ERR_OK) {
        e = serve(&st, why);
    }
    if (e != ERR_OK) {
        complain(why);
        st.exit_code = e == ERR_INVALID ? EXIT_USAGE : EXIT_FAILED;
    }
    const int exit_code = st.exit_code;
    free_all(&st);
    return exit_code;
}

#include "cli/cli_stopped_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/edit_distance.h"
#include "core/io_uring.h"
#include "core/shard.h"
#include "storage/dump_values.h"
#include "storage/flusher.h"
#include "storage/log_shared.h"
#include "storage/store.h"

enum {
    MEMORY_SIZE = 512 << 20, /* Taken only as far as it is used: one entry may be large. */
    LINE_SIZE = 512,
    NAME_SIZE = 512,
};

struct cli_stopped_log {
    struct cli_stopped_log_open how;
    char *why;
    struct partition_id id;
    uint16_t shard_id; /* That has its values, */
    uint16_t shards_count;
    struct uuid directory_id;
    int lock;
    bool is_locked;
    bool has_shard;
    bool accepts_loss;
    char trouble[LINE_SIZE]; /* The first error that storage logged; "" = none. */

    struct io_backend *backend;
    struct io io; /* Until there is a shard. */
    struct clock clock;
    struct logger logger;
    struct shard_group *group;
    struct shard s;
    struct flusher *flusher;
    struct store *store;
    struct log_env env;
    struct log *log;

    bool is_done; /* What is waited for. */
    enum err result;
    bool is_failed; /* The disk is: nothing more becomes durable. */
};

[[gnu::format(printf, 3, 4)]] static enum err
refuse(struct cli_stopped_log *sl, enum err e, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sl->why, CLI_STOPPED_WHY_SIZE, format, arguments);
    va_end(arguments);
    return e;
}

static void keep_error(struct logger *l, enum log_level level, const char *line, size_t size)
{
    struct cli_stopped_log *sl = l->context;
    if (level == LOG_ERROR && sl->trouble[0] == '\0') {
        (void)snprintf(sl->trouble, sizeof(sl->trouble), "%.*s", (int)size, line);
    }
}

/* ---- which log ---- */

static enum err refuse_controller(struct cli_stopped_log *sl)
{
    if (!uuid_equal(&sl->id.topic_id, &CONTROLLER_TOPIC_ID)) {
        return ERR_OK;
    }
    return refuse(sl,
                  ERR_POLICY,
                  "%s: the log of topics and configs cannot do without any entry: restore the data "
                  "directory from a backup",
                  sl->how.name);
}

struct nearest {
    const char *wanted;
    size_t distance; /* Less than this. */
    char name[NAME_SIZE];
};

static void on_log(void *context, const char *name)
{
    struct nearest *n = context;
    const size_t distance = strlen(name) < NAME_SIZE ? edit_distance(n->wanted, name) : SIZE_MAX;
    if (distance > 0 && distance < n->distance) {
        n->distance = distance;
        (void)snprintf(n->name, sizeof(n->name), "%s", name);
    }
}

/* error: why logs/<name> is no link that can be read; EINVAL: it is none. */
static enum err refuse_name(struct cli_stopped_log *sl, const char *path, int error)
{
    const char *name = sl->how.name;
    if (error != ENOENT && error != ENOTDIR && error != EINVAL) {
        return refuse(sl,
                      ERR_IO,
                      "cannot read %s: %s%s",
                      path,
                      strerror(error),
                      error == EACCES ? ": run this as the user that the node runs as" : "");
    }
    char logs[CLI_STOPPED_PATH_SIZE];
    struct nearest nearest = {.wanted = name, .distance = strlen(name) / 3 + 2};
    (void)snprintf(logs, sizeof(logs), "%s/logs", sl->how.dir);
    enum err e = error == EINVAL ? ERR_OK : io_list_dir(&sl->io, logs, &nearest, on_log);
    if (e != ERR_OK) {
        return refuse(
            sl, e, "%s has no logs: give its node's data directory with --data-dir", sl->how.dir);
    }
    if (nearest.name[0] != '\0') {
        return refuse(sl,
                      ERR_NOT_FOUND,
                      "no partition %s in %s: did you mean '%s'?",
                      name,
                      sl->how.dir,
                      nearest.name);
    }
    return refuse(sl,
                  ERR_NOT_FOUND,
                  "no partition %s in %s: give it as TOPIC-PARTITION, and its node's data "
                  "directory with --data-dir",
                  name,
                  sl->how.dir);
}

/* logs/<name> is a link to <topic id>-<partition>. */
static enum err find_id(struct cli_stopped_log *sl)
{
    char path[CLI_STOPPED_PATH_SIZE];
    char target[CLI_STOPPED_PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/logs/%s", sl->how.dir, sl->how.name);
    const ssize_t size = readlink(path, target, sizeof(target) - 1);
    if (size > 0) {
        target[size] = '\0';
        char *slash = strrchr(target, '/');
        char *name = slash == NULL ? target : slash + 1;
        char *dash = strrchr(name, '-');
        if (dash != NULL) {
            *dash = '\0';
            sl->id.partition = (int32_t)strtol(dash + 1, NULL, 10);
            if (uuid_parse(name, &sl->id.topic_id)) {
                return refuse_controller(sl);
            }
        }
    }
    return refuse_name(sl, path, size < 0 ? errno : EINVAL);
}

static enum err lock_dir(struct cli_stopped_log *sl)
{
    char path[CLI_STOPPED_PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/LOCK", sl->how.dir);
    const enum err e = io_lock(&sl->io, path, &sl->lock);
    sl->is_locked = e == ERR_OK;
    if (e == ERR_LOCKED) {
        return refuse(sl, e, "%s is in use by another process: stop the node first", sl->how.dir);
    }
    return e == ERR_OK ? e : refuse(sl, e, "cannot lock %s: %s", path, err_name(e));
}

struct store_search {
    struct cli_stopped_log *sl;
    uint32_t owners_count;
    enum err result;
};

static void on_file(void *context, const char *name)
{
    struct store_search *search = context;
    struct cli_stopped_log *sl = search->sl;
    unsigned shard;
    int end = 0;
    if (search->result != ERR_OK || sscanf(name, "shard-%u.store%n", &shard, &end) != 1 ||
        end == 0 || name[end] != '\0') {
        return;
    }
    char path[CLI_STOPPED_PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/%s", sl->how.dir, name);
    struct store_dump d;
    const enum err e = store_dump_load(&sl->io, path, &d);
    if (e != ERR_OK) {
        search->result = refuse(sl, e, "%s: %s", path, err_name(e));
        return;
    }
    const struct store_log *values = store_map_find(&d.map, &sl->id);
    if (values != NULL && values->values_count > 0) {
        search->owners_count++;
        sl->shard_id = d.shard;
        sl->shards_count = d.shards_count;
        sl->directory_id = d.directory_id;
    }
    store_dump_done(&d);
}

static enum err find_store(struct cli_stopped_log *sl)
{
    struct store_search search = {.sl = sl};
    enum err e = io_list_dir(&sl->io, sl->how.dir, &search, on_file);
    if (e != ERR_OK) {
        return refuse(sl, e, "cannot list %s: %s", sl->how.dir, err_name(e));
    }
    if (search.result == ERR_OK && search.owners_count != 1) {
        return refuse(sl,
                      ERR_NOT_FOUND,
                      "%s: %s store names %s: start and stop the node once, then try again",
                      sl->how.dir,
                      search.owners_count == 0 ? "no" : "more than one",
                      sl->how.name);
    }
    return search.result;
}

/* ---- running ---- */

static void turn(struct cli_stopped_log *sl)
{
    if (!shard_turn(&sl->s)) {
        sl->backend->ops->wait(sl->backend, shard_next_us(&sl->s));
    }
}

/* Until is_done. */
static enum err run(struct cli_stopped_log *sl)
{
    while (!sl->is_done && !sl->is_failed) {
        turn(sl);
    }
    return sl->is_failed ? ERR_FAILED : ERR_OK;
}

static void on_flush_failed(void *context, enum err e)
{
    struct cli_stopped_log *sl = context;
    sl->result = e;
    sl->is_failed = true;
}

static void on_store_opened(void *context, enum err e, struct store *st)
{
    struct cli_stopped_log *sl = context;
    sl->store = st;
    sl->result = e;
    sl->is_done = true;
}

static enum err on_replay(void *context, const struct log_entry *entry)
{
    (void)context;
    (void)entry;
    return ERR_OK;
}

static void on_flushed(void *context, uint64_t index)
{
    (void)context;
    (void)index;
}

static void on_room(void *context)
{
    (void)context;
}

static void on_opened(void *context, enum err e)
{
    struct cli_stopped_log *sl = context;
    sl->result = e;
    sl->is_done = true;
}

static const struct log_callbacks CALLBACKS = {
    .on_flushed = on_flushed,
    .on_room = on_room,
    .on_failed = on_flush_failed,
    .on_replay = on_replay,
    .on_opened = on_opened,
};

static enum err start_shard(struct cli_stopped_log *sl)
{
    clock_init_real(&sl->clock);
    sl->logger = (struct logger){.level = LOG_ERROR, .sink = keep_error, .context = sl};
    enum err e = shard_group_new(sl->shards_count, &sl->group);
    if (e == ERR_OK) {
        e = shard_init(&sl->s,
                       sl->group,
                       sl->shard_id,
                       &(struct shard_options){
                           .backend = sl->backend,
                           .clock = &sl->clock,
                           .log = &sl->logger,
                           .memory_size = MEMORY_SIZE,
                           .memory_reserve_size = MEMORY_SIZE / 4,
                       });
    }
    sl->has_shard = e == ERR_OK;
    return e == ERR_OK ? e : refuse(sl, e, "no memory");
}

static enum err open_store(struct cli_stopped_log *sl)
{
    enum err e = flusher_new(&sl->s,
                             &(struct flusher_options){.context = sl, .on_failed = on_flush_failed},
                             &sl->flusher);
    if (e == ERR_OK) {
        e = store_open_begin(&sl->s,
                             &(struct store_open){
                                 .dir = sl->how.dir,
                                 .directory_id = sl->directory_id,
                                 .flusher = sl->flusher,
                                 .context = sl,
                                 .on_opened = on_store_opened,
                             });
    }
    if (e == ERR_OK) {
        e = run(sl);
    }
    e = e == ERR_OK ? sl->result : e;
    return e == ERR_OK ? e : refuse(sl, e, "its store does not open (%s)", err_name(e));
}

static enum err open_log(struct cli_stopped_log *sl)
{
    sl->env = (struct log_env){
        .s = &sl->s, .dir = sl->how.dir, .store = sl->store, .flusher = sl->flusher};
    struct log_shared_options shared = LOG_SHARED_OPTIONS_DEFAULT;
    struct log_options options = LOG_OPTIONS_DEFAULT;
    shared.is_compaction_off = true;
    options.checkpoint_size = 0; /* The state of the log's owner is not here. */
    enum err e = log_shared_new(&sl->s, sl->store, &shared, &sl->env.shared);
    sl->is_done = false;
    if (e == ERR_OK) {
        e = log_open(
            &(struct log_open){
                .env = &sl->env,
                .id = sl->id,
                .name = sl->how.name,
                .options = options,
                .callbacks = &CALLBACKS,
                .context = sl,
                .is_all_read = true,
                .accepts_loss = sl->accepts_loss,
            },
            &sl->log);
    }
    if (e == ERR_OK) {
        e = run(sl);
    }
    e = e == ERR_OK ? sl->result : e;
    if (e != ERR_OK) {
        sl->log = NULL;
        return refuse(sl,
                      e,
                      "%s cannot be opened, and not be repaired: %s",
                      sl->how.name,
                      sl->trouble[0] != '\0' ? sl->trouble : err_name(e));
    }
    return ERR_OK;
}

/* ---- the end ---- */

static void on_closed(void *context)
{
    ((struct cli_stopped_log *)context)->is_done = true;
}

/* Work in the background of the log that is over ends by itself. */
static bool is_busy(const struct cli_stopped_log *sl)
{
    return (sl->env.shared != NULL && log_shared_is_busy(sl->env.shared)) ||
           !flusher_is_idle(sl->flusher) || sl->s.io.in_flight_count > 0;
}

static enum err close_log(struct cli_stopped_log *sl)
{
    enum err e = sl->is_failed ? ERR_FAILED : ERR_OK;
    if (e == ERR_OK && sl->log != NULL) {
        sl->is_done = false;
        log_close(sl->log, sl, on_closed);
        sl->log = NULL;
        e = run(sl);
    }
    while (e == ERR_OK && sl->flusher != NULL && is_busy(sl)) {
        turn(sl);
        e = sl->is_failed ? ERR_FAILED : ERR_OK;
    }
    if (e == ERR_OK) {
        log_shared_free(sl->env.shared);
        sl->env.shared = NULL;
    }
    return e;
}

static enum err close_store(struct cli_stopped_log *sl)
{
    if (sl->store == NULL) {
        return ERR_OK;
    }
    sl->is_done = false;
    store_close(sl->store, sl, on_closed);
    sl->store = NULL;
    return run(sl);
}

static enum err refuse_disk(struct cli_stopped_log *sl, enum err e)
{
    return refuse(sl, e, "the disk of %s fails: see the kernel's log", sl->how.dir);
}

/* After a failure of the disk what is in flight stays so: the process ends soon. */
static enum err end(struct cli_stopped_log *sl)
{
    enum err e = close_log(sl);
    if (e == ERR_OK) {
        e = close_store(sl);
    }
    if (e != ERR_OK) {
        return refuse_disk(sl, e);
    }
    flusher_free(sl->flusher);
    if (sl->has_shard) {
        shard_done(&sl->s);
    }
    shard_group_free(sl->group);
    if (sl->is_locked) {
        io_unlock(&sl->io, sl->lock);
    }
    if (sl->backend != NULL) {
        io_done(&sl->io);
        io_uring_backend_free(sl->backend);
    }
    free(sl);
    return ERR_OK;
}

enum err cli_stopped_log_close(struct cli_stopped_log *sl, char why[CLI_STOPPED_WHY_SIZE])
{
    sl->why = why;
    return end(sl);
}

static enum err open_backend(struct cli_stopped_log *sl)
{
    char why[IO_URING_WHY_SIZE];
    const enum err e = io_uring_backend_new(&sl->backend, why);
    if (e != ERR_OK) {
        return refuse(sl, e, "%s", why);
    }
    io_init(&sl->io, sl->backend);
    return ERR_OK;
}

enum err cli_stopped_log_open(const struct cli_stopped_log_open *how,
                              char why[CLI_STOPPED_WHY_SIZE],
                              struct cli_stopped_log **ret_log)
{
    struct cli_stopped_log *sl = calloc(1, sizeof(*sl));
    if (sl == NULL) {
        (void)snprintf(why, CLI_STOPPED_WHY_SIZE, "no memory");
        return ERR_BUSY;
    }
    sl->how = *how;
    sl->why = why;
    static enum err (*const steps[])(struct cli_stopped_log *) = {
        open_backend, find_id, lock_dir, find_store, start_shard, open_store, open_log};
    enum err e = ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < sizeof(steps) / sizeof(steps[0]); i++) {
        e = steps[i](sl);
    }
    if (e != ERR_OK) {
        (void)end(sl);
        return e;
    }
    *ret_log = sl;
    return ERR_OK;
}

struct log *cli_stopped_log_get(struct cli_stopped_log *sl)
{
    return sl->log;
}

enum err cli_stopped_log_accept_loss(struct cli_stopped_log *sl, char why[CLI_STOPPED_WHY_SIZE])
{
    sl->why = why;
    enum err e = close_log(sl);
    if (e != ERR_OK) {
        return refuse_disk(sl, e);
    }
    sl->trouble[0] = '\0'; /* That was the damage. */
    sl->accepts_loss = true;
    return open_log(sl);
}

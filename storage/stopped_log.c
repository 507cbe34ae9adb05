#include "storage/stopped_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/io.h"
#include "core/logger.h"
#include "core/shard.h"
#include "storage/dump_values.h"
#include "storage/flusher.h"
#include "storage/log_shared.h"
#include "storage/store.h"

enum {
    PATH_SIZE = 4096,
    MEMORY_SIZE = 512 << 20, /* Taken only as far as it is used: one entry may be large. */
    LINE_SIZE = 512,
};

struct stopped_log {
    struct stopped_log_open how;
    char *why;
    struct uuid directory_id;
    uint16_t shard_id; /* That has its values, */
    uint16_t shards_count;
    int lock;
    bool is_locked;
    bool has_shard;
    bool accepts_loss;
    char trouble[LINE_SIZE]; /* The first error that storage logged; "" = none. */

    struct io io; /* Until there is a shard. */
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
refuse(struct stopped_log *sl, enum err e, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sl->why, STOPPED_LOG_WHY_SIZE, format, arguments);
    va_end(arguments);
    return e;
}

static void keep_error(struct logger *l, enum log_level level, const char *line, size_t size)
{
    struct stopped_log *sl = l->context;
    if (level == LOG_ERROR && sl->trouble[0] == '\0') {
        (void)snprintf(sl->trouble, sizeof(sl->trouble), "%.*s", (int)size, line);
    }
}

/* ---- which store ---- */

static enum err lock_dir(struct stopped_log *sl)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/LOCK", sl->how.dir);
    const enum err e = io_lock(&sl->io, path, &sl->lock);
    sl->is_locked = e == ERR_OK;
    if (e == ERR_LOCKED) {
        return refuse(sl, e, "%s is in use by another process: stop the node first", sl->how.dir);
    }
    return e == ERR_OK ? e : refuse(sl, e, "cannot lock %s: %s", path, err_name(e));
}

struct store_search {
    struct stopped_log *sl;
    uint32_t owners_count;
    enum err result;
};

static void on_file(void *context, const char *name)
{
    struct store_search *search = context;
    struct stopped_log *sl = search->sl;
    unsigned shard;
    int end = 0;
    if (search->result != ERR_OK || sscanf(name, "shard-%u.store%n", &shard, &end) != 1 ||
        end == 0 || name[end] != '\0') {
        return;
    }
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/%s", sl->how.dir, name);
    struct store_dump d;
    const enum err e = store_dump_load(&sl->io, path, &d);
    if (e != ERR_OK) {
        search->result = refuse(sl, e, "%s: %s", path, err_name(e));
        return;
    }
    const struct store_log *values = store_map_find(&d.map, &sl->how.id);
    if (values != NULL && values->values_count > 0) {
        search->owners_count++;
        sl->shard_id = d.shard;
        sl->shards_count = d.shards_count;
        sl->directory_id = d.directory_id;
    }
    store_dump_done(&d);
}

static enum err find_store(struct stopped_log *sl)
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

static void turn(struct stopped_log *sl)
{
    if (!shard_turn(&sl->s)) {
        sl->how.backend->ops->wait(sl->how.backend, shard_next_us(&sl->s));
    }
}

/* Until is_done. */
static enum err run(struct stopped_log *sl)
{
    while (!sl->is_done && !sl->is_failed) {
        turn(sl);
    }
    return sl->is_failed ? ERR_FAILED : ERR_OK;
}

static void on_flush_failed(void *context, enum err e)
{
    struct stopped_log *sl = context;
    sl->result = e;
    sl->is_failed = true;
}

static void on_store_opened(void *context, enum err e, struct store *st)
{
    struct stopped_log *sl = context;
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
    struct stopped_log *sl = context;
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

static enum err start_shard(struct stopped_log *sl)
{
    sl->logger = (struct logger){.level = LOG_ERROR, .sink = keep_error, .context = sl};
    enum err e = shard_group_new(sl->shards_count, &sl->group);
    if (e == ERR_OK) {
        e = shard_init(&sl->s,
                       sl->group,
                       sl->shard_id,
                       &(struct shard_options){
                           .backend = sl->how.backend,
                           .clock = sl->how.clock,
                           .log = &sl->logger,
                           .rand_seed = sl->how.rand_seed,
                           .memory_size = MEMORY_SIZE,
                           .memory_reserve_size = MEMORY_SIZE / 4,
                       });
    }
    sl->has_shard = e == ERR_OK;
    if (e != ERR_OK) {
        return refuse(sl, e, "no memory");
    }
    sl->s.reached = sl->how.reached;
    return ERR_OK;
}

static enum err open_store(struct stopped_log *sl)
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

static enum err open_log(struct stopped_log *sl)
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
                .id = sl->how.id,
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
    ((struct stopped_log *)context)->is_done = true;
}

/* Work in the background of the log that is over ends by itself. */
static bool is_busy(const struct stopped_log *sl)
{
    return (sl->env.shared != NULL && log_shared_is_busy(sl->env.shared)) ||
           !flusher_is_idle(sl->flusher) || sl->s.io.in_flight_count > 0;
}

static enum err close_log(struct stopped_log *sl)
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

static enum err close_store(struct stopped_log *sl)
{
    if (sl->store == NULL) {
        return ERR_OK;
    }
    sl->is_done = false;
    store_close(sl->store, sl, on_closed);
    sl->store = NULL;
    return run(sl);
}

/* Gives everything back. After a failure of the disk what is in flight stays so, and its memory. */
static enum err end(struct stopped_log *sl)
{
    enum err e = close_log(sl);
    if (e == ERR_OK) {
        e = close_store(sl);
    }
    if (e != ERR_OK) {
        return e;
    }
    flusher_free(sl->flusher);
    if (sl->has_shard) {
        shard_done(&sl->s);
    }
    shard_group_free(sl->group);
    if (sl->is_locked) {
        io_unlock(&sl->io, sl->lock);
    }
    io_done(&sl->io);
    free(sl);
    return ERR_OK;
}

static enum err refuse_disk(const char *dir, enum err e, char why[STOPPED_LOG_WHY_SIZE])
{
    (void)snprintf(why, STOPPED_LOG_WHY_SIZE, "the disk of %s fails: see the kernel's log", dir);
    return e;
}

enum err stopped_log_close(struct stopped_log *sl, char why[STOPPED_LOG_WHY_SIZE])
{
    const char *dir = sl->how.dir;
    const enum err e = end(sl);
    return e == ERR_OK ? e : refuse_disk(dir, e, why);
}

enum err stopped_log_open(const struct stopped_log_open *how,
                          char why[STOPPED_LOG_WHY_SIZE],
                          struct stopped_log **ret_log)
{
    struct stopped_log *sl = calloc(1, sizeof(*sl));
    if (sl == NULL) {
        (void)snprintf(why, STOPPED_LOG_WHY_SIZE, "no memory");
        return ERR_BUSY;
    }
    sl->how = *how;
    sl->why = why;
    io_init(&sl->io, how->backend);
    static enum err (*const steps[])(struct stopped_log *) = {
        lock_dir, find_store, start_shard, open_store, open_log};
    enum err e = ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < sizeof(steps) / sizeof(steps[0]); i++) {
        e = steps[i](sl);
    }
    if (e != ERR_OK) {
        (void)end(sl); /* The first reason is the one to tell. */
        return e;
    }
    *ret_log = sl;
    return ERR_OK;
}

struct log *stopped_log_get(struct stopped_log *sl)
{
    return sl->log;
}

enum err stopped_log_accept_loss(struct stopped_log *sl, char why[STOPPED_LOG_WHY_SIZE])
{
    sl->why = why;
    const enum err e = close_log(sl);
    if (e != ERR_OK) {
        return refuse_disk(sl->how.dir, e, why);
    }
    sl->trouble[0] = '\0'; /* That was the damage. */
    sl->accepts_loss = true;
    return open_log(sl);
}

/* Start and stop of all shards' clusters, one task on shard 0.
 *
 *   WAIT_STORES -> WAIT_CONTROLLER -> WAIT_IMAGES -> SERVING
 *        |               |                              |
 *        +---------------+-------> FAILED               |
 *                                     |                 |
 *   WAIT_QUIET <----------------------+-----------------+
 *        |
 *   WAIT_CONTROLLER_STOP -> WAIT_PARTITIONS -> WAIT_STORES_CLOSED -> STOPPED
 *
 * Stores are open on every shard before anything is written to one: with another core count a store
 * takes its logs over from what the merge left (store_merge.h), which goes only when all have done
 * that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/broadcast.h"
#include "cluster/cluster_priv.h"
#include "cluster/controller.h"
#include "cluster/controller_driver.h"
#include "cluster/memory.h"
#include "cluster/topic_configs.h"
#include "core/assert.h"
#include "core/logger.h"
#include "core/sm.h"
#include "storage/store.h"

enum life_state {
    LIFE_CHECK,
    LIFE_WAIT_STORES,
    LIFE_WAIT_CONTROLLER,
    LIFE_WAIT_IMAGES,
    LIFE_SERVING,
    LIFE_FAILED,
    LIFE_WAIT_QUIET,
    LIFE_WAIT_CONTROLLER_STOP,
    LIFE_WAIT_PARTITIONS,
    LIFE_WAIT_STORES_CLOSED,
    LIFE_STOPPED,
    LIFE_STATE_COUNT,
};

static const struct sm_state life_states[LIFE_STATE_COUNT] = {
    [LIFE_CHECK] = {"CHECK", SM_BIT(LIFE_WAIT_STORES) | SM_BIT(LIFE_FAILED)},
    [LIFE_WAIT_STORES] = {"WAIT_STORES", SM_BIT(LIFE_WAIT_CONTROLLER) | SM_BIT(LIFE_FAILED)},
    [LIFE_WAIT_CONTROLLER] = {"WAIT_CONTROLLER", SM_BIT(LIFE_WAIT_IMAGES) | SM_BIT(LIFE_FAILED)},
    [LIFE_WAIT_IMAGES] = {"WAIT_IMAGES", SM_BIT(LIFE_SERVING)},
    [LIFE_SERVING] = {"SERVING", SM_BIT(LIFE_WAIT_QUIET)},
    [LIFE_FAILED] = {"FAILED", SM_BIT(LIFE_WAIT_QUIET) | SM_BIT(LIFE_STOPPED)},
    [LIFE_WAIT_QUIET] = {"WAIT_QUIET",
                         SM_BIT(LIFE_WAIT_CONTROLLER_STOP) | SM_BIT(LIFE_WAIT_PARTITIONS)},
    [LIFE_WAIT_CONTROLLER_STOP] = {"WAIT_CONTROLLER_STOP", SM_BIT(LIFE_WAIT_PARTITIONS)},
    [LIFE_WAIT_PARTITIONS] = {"WAIT_PARTITIONS", SM_BIT(LIFE_WAIT_STORES_CLOSED)},
    [LIFE_WAIT_STORES_CLOSED] = {"WAIT_STORES_CLOSED", SM_BIT(LIFE_STOPPED)},
    [LIFE_STOPPED] = {"STOPPED", 0},
};

struct cluster_life {
    struct cluster_set *set;
    struct cluster *c; /* Shard 0's. */
    struct shard *s;
    uint8_t state;    /* enum life_state */
    struct task task; /* Reports what is known inside a call. */
    uint64_t started_us;
    enum err error;
    char why[CLUSTER_WHY_SIZE];
    void *context;
    cluster_started_fn *on_started;
    void *stop_context;
    cluster_stopped_fn *on_stopped;
};

static void move(struct cluster_life *life, enum life_state next)
{
    sm_move(life_states, &life->state, (uint8_t)next);
}

static void start_failed(struct cluster_life *life, enum err e)
{
    assert(e != ERR_OK);
    move(life, LIFE_FAILED);
    life->error = e;
    life->on_started(life->context, e, life->why);
}

static void begin(struct cluster_life *life, const struct broadcast_order *order)
{
    broadcast_begin(life->set, life->s, order);
}

/* ---- directories nobody knows ---- */

struct orphan_search {
    const struct controller *engine;
    const struct shard_dir *dir;
    uint32_t count;
    char first[UUID_TEXT_SIZE + 16];
};

/* A log of a topic that is there is known in its own directory only: elsewhere it is a copy that
 * somebody made. */
static bool is_known(const struct orphan_search *search, const struct uuid *id, int32_t partition)
{
    const struct controller *engine = search->engine;
    const struct topic *t = metadata_topic_by_id(controller_metadata(engine), id);
    if (t != NULL) {
        return cluster_dirs_is_home(search->dir, t, partition);
    }
    if (uuid_equal(id, &CONTROLLER_TOPIC_ID)) {
        return search->dir->index == 0;
    }
    for (uint32_t i = 0; i < controller_deleted_count(engine); i++) {
        if (uuid_equal(&controller_deleted_at(engine, i)->id, id)) {
            return true;
        }
    }
    return false;
}

/* "<topic id>-<partition>"; everything else, the name-links among it, is none of ours. */
static void look_at_directory(void *context, const char *name)
{
    struct orphan_search *search = context;
    char text[UUID_TEXT_SIZE];
    struct uuid id;
    if (strlen(name) < UUID_TEXT_SIZE || name[UUID_TEXT_SIZE - 1] != '-') {
        return;
    }
    memcpy(text, name, UUID_TEXT_SIZE - 1);
    text[UUID_TEXT_SIZE - 1] = '\0';
    const char *digits = name + UUID_TEXT_SIZE;
    if (!uuid_parse(text, &id) || digits[strspn(digits, "0123456789")] != '\0') {
        return;
    }
    if (!is_known(search, &id, (int32_t)strtol(digits, NULL, 10))) {
        if (search->count == 0) {
            (void)snprintf(search->first, sizeof(search->first), "%s", name);
        }
        search->count++;
    }
}

/* They are left alone: an old copy of the controller's log must not cost data. */
static void report_orphans(struct cluster_life *life, const struct shard_dir *dir)
{
    struct orphan_search search = {
        .engine = controller_driver_engine(life->c->controller),
        .dir = dir,
    };
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/logs", dir->settings->path);
    enum err e = io_list_dir(&life->s->io, path, &search, look_at_directory);
    if (e == ERR_OK && search.count > 0) {
        log_warn(
            life->s->log,
            "orphan_logs",
            "dir=%s count=%" PRIu32
            " first=%s action=\"no topic has these ids here; remove them by hand if they are not "
            "wanted\"",
            path,
            search.count,
            search.first);
    }
}

/* ---- start ---- */

static void on_images(void *context, enum err error, uint32_t failed_count)
{
    struct cluster_life *life = context;
    struct controller_driver *d = life->c->controller;
    if (failed_count > 0) {
        /* The others are served: one bad partition must not keep all down. */
        log_error(life->s->log,
                  "partitions_not_opened",
                  "count=%" PRIu32 " error=%s",
                  failed_count,
                  err_name(error));
    }
    move(life, LIFE_SERVING);
    const struct controller *engine = controller_driver_engine(d);
    log_info(life->s->log,
             "cluster_started",
             "node=%" PRId32 " term=%" PRIu64 " topics=%" PRIu32 " partitions=%" PRIu64
             " shards=%u us=%" PRIu64,
             life->set->settings->node_id,
             controller_driver_term(d),
             metadata_topics_count(controller_metadata(engine)),
             controller_partitions_count(engine),
             life->set->shards_count,
             life->s->now_us - life->started_us);
    controller_driver_resume_removals(d);
    life->on_started(life->context, ERR_OK, "");
}

static void on_controller_ready(void *context, enum err e, const char *why)
{
    struct cluster_life *life = context;
    if (e != ERR_OK) {
        (void)snprintf(life->why, sizeof(life->why), "%s", why);
        start_failed(life, e);
        return;
    }
    for (uint32_t i = 0; i < life->c->dirs_count; i++) {
        report_orphans(life, &life->c->dirs[i]);
    }
    struct wbuf stream;
    wbuf_init(&stream, SIZE_MAX);
    controller_snapshot(controller_driver_engine(life->c->controller), &stream);
    if (wbuf_failure(&stream) != ERR_OK) {
        panic("out of memory: the controller's state cannot be told to the shards");
    }
    move(life, LIFE_WAIT_IMAGES);
    begin(life,
          &(struct broadcast_order){
              .run = shard_state_apply,
              .bytes = &stream,
              .term = controller_driver_term(life->c->controller),
              .context = life,
              .on_done = on_images,
          });
}

/* What to do about it. Only new files take space: of a new directory, or for another core count. */
static const char *stores_fix(enum err e)
{
    if (e == ERR_CORRUPT) {
        return "one is damaged (the log says where); restore the data directory from a replica or "
               "a backup";
    }
    return e == ERR_NO_SPACE
               ? "free some (its recycle/ may be emptied), or start with as many cores as before"
               : "see the log lines above";
}

static void on_stores_opened(void *context, enum err error, uint32_t failed_count)
{
    struct cluster_life *life = context;
    const struct cluster_settings *settings = life->set->settings;
    if (failed_count > 0) {
        (void)snprintf(life->why,
                       sizeof(life->why),
                       "cannot open the shard stores in %s%s (%s): %s",
                       settings->data_dirs[0].path,
                       settings->data_dirs_count > 1 ? " or another data directory" : "",
                       err_name(error),
                       stores_fix(error));
        start_failed(life, error);
        return;
    }
    for (uint32_t i = 0; i < settings->data_dirs_count; i++) {
        store_drop_stale(life->s, settings->data_dirs[i].path);
    }
    move(life, LIFE_WAIT_CONTROLLER);
    life->c->controller = controller_driver_start(life->c, life, on_controller_ready);
}

static enum err check_defaults(const struct cluster_settings *settings, char *why, size_t size)
{
    char what[TOPIC_CONFIG_WHY_SIZE];
    for (uint32_t i = 0; i < settings->topic_defaults_count; i++) {
        const struct config_pair pair = {
            .name = slice_of_string(settings->topic_defaults[i].name),
            .value = slice_of_string(settings->topic_defaults[i].value),
        };
        enum err e = topic_config_check(&pair, what);
        if (e != ERR_OK) {
            (void)snprintf(why, size, "topic default: %s", what);
            return e;
        }
    }
    const struct topic_config_set set = {
        .defaults = settings->topic_defaults,
        .defaults_count = settings->topic_defaults_count,
    };
    enum err e = topic_config_check_set(&set, what);
    if (e != ERR_OK) {
        (void)snprintf(why, size, "topic defaults: %s", what);
    }
    return e;
}

static enum err check_settings(const struct cluster_settings *settings, char *why, size_t size)
{
    if (settings->data_dirs_count == 0 || settings->data_dirs_count > CLUSTER_DATA_DIRS_MAX) {
        (void)snprintf(why,
                       size,
                       "%" PRIu32 " data directories given: name 1 to %d with --data-dir",
                       settings->data_dirs_count,
                       CLUSTER_DATA_DIRS_MAX);
        return ERR_UNSUPPORTED;
    }
    return check_defaults(settings, why, size);
}

static void run_life(struct task *t)
{
    struct cluster_life *life = container_of(t, struct cluster_life, task);
    if (life->state == LIFE_CHECK) {
        start_failed(life, life->error);
    } else {
        cluster_stopped_fn *on_stopped = life->on_stopped;
        void *context = life->stop_context;
        assert_cmp(life->state, ==, LIFE_STOPPED);
        life->c->life = NULL;
        free(life);
        on_stopped(context);
    }
}

void cluster_start(struct cluster_set *set,
                   struct shard *s,
                   void *context,
                   cluster_started_fn *on_started)
{
    assert_cmp(s->id, ==, 0);
    struct cluster *c = set->clusters[0];
    assert(c->life == NULL);
    struct cluster_life *life = memory_alloc(sizeof(*life));
    c->life = life;
    life->set = set;
    life->c = c;
    life->s = s;
    life->started_us = s->now_us;
    life->context = context;
    life->on_started = on_started;
    task_init(&life->task, "cluster_life", run_life);
    life->error = check_settings(set->settings, life->why, sizeof(life->why));
    if (life->error != ERR_OK) {
        shard_post(s, &life->task);
        return;
    }
    move(life, LIFE_WAIT_STORES);
    begin(life,
          &(struct broadcast_order){
              .run = shard_state_open,
              .context = life,
              .on_done = on_stores_opened,
          });
}

/* ---- stop ---- */

static void stopped(struct cluster_life *life)
{
    move(life, LIFE_STOPPED);
    shard_post(life->s, &life->task);
}

static void on_stores_closed(void *context, enum err error, uint32_t failed_count)
{
    assert_cmp(error, ==, ERR_OK);
    assert_cmp(failed_count, ==, 0);
    struct cluster_life *life = context;
    controller_driver_free(life->c->controller);
    life->c->controller = NULL;
    stopped(life);
}

static void on_partitions_closed(void *context, enum err error, uint32_t failed_count)
{
    assert_cmp(error, ==, ERR_OK);
    assert_cmp(failed_count, ==, 0);
    struct cluster_life *life = context;
    move(life, LIFE_WAIT_STORES_CLOSED);
    begin(life,
          &(struct broadcast_order){
              .run = shard_state_close_store,
              .context = life,
              .on_done = on_stores_closed,
          });
}

static void on_controller_stopped(void *context)
{
    struct cluster_life *life = context;
    move(life, LIFE_WAIT_PARTITIONS);
    begin(life,
          &(struct broadcast_order){
              .run = shard_state_close_partitions,
              .context = life,
              .on_done = on_partitions_closed,
          });
}

static void on_quiet(void *context, enum err error, uint32_t failed_count)
{
    assert_cmp(error, ==, ERR_OK);
    assert_cmp(failed_count, ==, 0);
    struct cluster_life *life = context;
    if (life->c->controller == NULL) {
        on_controller_stopped(life); /* The start did not come so far. */
        return;
    }
    move(life, LIFE_WAIT_CONTROLLER_STOP);
    controller_driver_stop(life->c->controller, life, on_controller_stopped);
}

void cluster_stop(struct cluster_set *set,
                  struct shard *s,
                  void *context,
                  cluster_stopped_fn *on_stopped)
{
    struct cluster_life *life = set->clusters[0]->life;
    assert_cmp(s->id, ==, 0);
    assert(life != NULL);
    life->stop_context = context;
    life->on_stopped = on_stopped;
    if (life->c->s == NULL) {
        stopped(life); /* Refused before any shard was told. */
        return;
    }
    move(life, LIFE_WAIT_QUIET);
    begin(life,
          &(struct broadcast_order){
              .run = shard_state_quiesce,
              .context = life,
              .on_done = on_quiet,
          });
}

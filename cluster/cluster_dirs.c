/* The data directories of a node, as its shards use them.
 *
 * Group 0 says which partition is in which; each shard has its part of each (shard_dir.h). One that
 * fails takes down its partitions, on all shards, and nothing else:
 *
 *   the shard that met it -> shard 0, which says so in one line -> all shards
 *
 * What fails for one directory fails for all on the same file system: a flush that was lost may
 * have been theirs. A failure of the one that has group 0 ends the process.
 *
 * Between the first failure and the word of it, another shard may still be told that its own flush
 * of the same disk went well. That is as true as the device said it was, and no different from two
 * shards of which one ends the process.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cluster/broadcast.h"
#include "cluster/cluster_priv.h"
#include "cluster/controller.h"
#include "cluster/controller_driver.h"
#include "core/assert.h"
#include "core/logger.h"
#include "core/reached.h"

static_assert(CLUSTER_DATA_DIRS_MAX <= 64, "a bit each in dirs_announced");

/* ---- which is whose ---- */

static struct shard_dir *find(const struct cluster *c, const struct uuid *id)
{
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        if (uuid_equal(&c->dirs[i].settings->id, id)) {
            return &c->dirs[i];
        }
    }
    return NULL;
}

struct shard_dir *cluster_dirs_find(const struct cluster *c, const struct uuid *id)
{
    struct shard_dir *dir = find(c, id);
    return dir == NULL || dir->is_failed ? NULL : dir;
}

bool cluster_dirs_has_failed(const struct cluster *c, const struct uuid *id)
{
    const struct shard_dir *dir = find(c, id);
    return dir != NULL && dir->is_failed;
}

bool cluster_dirs_is_home(const struct shard_dir *dir, const struct topic *t, int32_t partition)
{
    return partition < t->partitions_count &&
           uuid_equal(topic_directory(t, partition), &dir->settings->id);
}

/* ---- missing ---- */

static const struct cluster_lost_dir *find_lost(const struct cluster_settings *settings,
                                                const struct uuid *id)
{
    for (uint32_t i = 0; i < settings->lost_dirs_count; i++) {
        if (uuid_equal(&settings->lost_dirs[i].id, id)) {
            return &settings->lost_dirs[i];
        }
    }
    return NULL;
}

/* A partition that is there, for a line that people read. */
static void name_partition(const struct controller *engine,
                           const struct uuid *id,
                           char ret_name[TOPIC_NAME_SIZE_MAX + 16])
{
    const struct metadata *m = controller_metadata(engine);
    for (uint32_t i = 0; i < metadata_topics_count(m); i++) {
        const struct topic *t = metadata_topic_at(m, i);
        for (int32_t p = 0; p < t->partitions_count; p++) {
            if (uuid_equal(topic_directory(t, p), id)) {
                (void)snprintf(ret_name,
                               TOPIC_NAME_SIZE_MAX + 16,
                               "%.*s-%" PRId32,
                               TOPIC_NAME_SIZE_MAX,
                               t->name,
                               p);
                return;
            }
        }
    }
    ret_name[0] = '\0';
}

static void refuse_missing(const struct controller *engine,
                           const struct controller_directory *d,
                           uint32_t more,
                           char why[CLUSTER_WHY_SIZE])
{
    char id[UUID_TEXT_SIZE];
    char name[TOPIC_NAME_SIZE_MAX + 16];
    char others[48] = "";
    uuid_format(&d->id, id);
    name_partition(engine, &d->id, name);
    if (more > 0) {
        (void)snprintf(others, sizeof(others), " (and %" PRIu32 " more directories)", more);
    }
    (void)snprintf(
        why,
        CLUSTER_WHY_SIZE,
        "the data directory with directory_id %s%s is not given, or not mounted, and has "
        "%" PRIu64 " partition(s), %.80s among them: mount it and add it with "
        "--data-dir; if it is gone for good, add --set coreflume.log.dirs.lost=%s",
        id,
        others,
        d->partitions_count,
        name,
        id);
}

bool cluster_dirs_missing(const struct cluster *c,
                          const struct controller *engine,
                          char why[CLUSTER_WHY_SIZE])
{
    const struct controller_directory *first = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < controller_directories_count(engine); i++) {
        const struct controller_directory *d = controller_directory_at(engine, i);
        if (d->partitions_count == 0 || find(c, &d->id) != NULL) {
            continue;
        }
        const struct cluster_lost_dir *lost = find_lost(c->settings, &d->id);
        if (lost == NULL) {
            first = first == NULL ? d : first;
            count++;
            continue;
        }
        reached(c->s, "data_dir_lost");
        log_warn(c->s->log,
                 "data_dir_lost",
                 "directory_id=%s partitions=%" PRIu64
                 " action=\"their records are gone: delete their topics\"",
                 lost->text,
                 d->partitions_count);
    }
    if (count > 0) {
        refuse_missing(engine, first, count - 1, why);
    }
    return count > 0;
}

/* ---- failing ---- */

static bool share_device(const struct shard_dir *a, const struct shard_dir *b)
{
    return a->settings->device_id == b->settings->device_id;
}

static void fail_with(struct cluster *c, const struct shard_dir *failed, enum err e)
{
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        if (share_device(&c->dirs[i], failed)) {
            shard_dir_fail(&c->dirs[i], e);
        }
    }
}

static void run_fail(struct shard *here, struct broadcast_leg *leg)
{
    struct cluster *c = leg->cluster;
    assert(c->s == here);
    fail_with(c, &c->dirs[leg->order->dir_index], leg->order->error);
    broadcast_leg_done(here, leg);
}

static void on_all_told(void *context, enum err error, uint32_t failed_count)
{
    (void)context;
    (void)error;
    (void)failed_count;
}

static uint64_t partitions_of(const struct cluster *c, const struct uuid *id)
{
    if (c->controller == NULL) {
        return 0; /* It is not known yet who is where. */
    }
    return controller_directory_partitions(controller_driver_engine(c->controller), id);
}

/* On shard 0. */
static void announce(struct shard *here, struct xmsg *m)
{
    struct shard_dir *dir = container_of(m, struct shard_dir, failed_msg);
    const struct cluster *sender = dir->owner->context;
    struct cluster *c = sender->set->clusters[0];
    const uint64_t bit = (uint64_t)1 << dir->index;
    if ((c->dirs_announced & bit) == 0) {
        c->dirs_announced |= bit;
        reached(here, "data_dir_failed");
        log_error(here->log,
                  "data_dir_failed",
                  "dir=%s error=%s partitions=%" PRIu64
                  " action=\"see the kernel's log, repair or replace the disk, then restart; a "
                  "failed flush is never retried\"",
                  dir->settings->path,
                  err_name(dir->failure),
                  partitions_of(c, &dir->settings->id));
        broadcast_begin(c->set,
                        here,
                        &(struct broadcast_order){
                            .run = run_fail,
                            .dir_index = dir->index,
                            .error = dir->failure,
                            .on_done = on_all_told,
                        });
    }
    xmsg_forward(here, m);
}

static void announced(struct shard *here, struct xmsg *m)
{
    (void)here;
    (void)m;
}

static bool has_group_0(const struct cluster *c, const struct shard_dir *dir)
{
    return dir->index == 0 || share_device(dir, &c->dirs[0]);
}

static void end_process(struct cluster *c, const struct shard_dir *dir, enum err e)
{
    log_error(c->s->log,
              "flush_failed",
              "dir=%s error=%s action=\"replace the disk; a failed flush is never retried\"",
              dir->settings->path,
              err_name(e));
    if (c->settings->on_fatal == NULL) {
        panic("flush failed: dir=%s error=%s", dir->settings->path, err_name(e));
    }
    c->settings->on_fatal(c->settings->fatal_context, e, "flush failed");
}

void cluster_dirs_on_failed(void *context, struct shard_dir *dir, enum err e)
{
    struct cluster *c = context;
    fail_with(c, dir, e);
    if (has_group_0(c, dir)) {
        end_process(c, dir, e);
        return;
    }
    if (c->is_stopping) {
        return; /* Others are told nothing any more: they may be closed when it comes. */
    }
    dir->failure = e;
    dir->failed_route[0] = (struct xmsg_hop){.shard = 0, .run = announce};
    dir->failed_route[1] = (struct xmsg_hop){.shard = c->s->id, .run = announced};
    dir->failed_msg.next_hop = dir->failed_route;
    xmsg_send(c->s, &dir->failed_msg);
}

/* ---- problems ---- */

static uint32_t
add_problem(struct cluster_problem *ret, uint32_t count, const struct cluster_problem *problem)
{
    if (count == CLUSTER_PROBLEMS_MAX) {
        return count;
    }
    ret[count] = *problem;
    return count + 1;
}

static uint32_t add_problem_of(struct shard_dir *dir, struct cluster_problem *ret, uint32_t count)
{
    if (dir->is_failed) {
        const struct cluster_problem failed = {
            .code = "data_dir_failed",
            .subject = dir->settings->path,
            .action =
                "a write or flush failed, and its partitions are not served: see the kernel's "
                "log, repair or replace the disk, then restart",
        };
        return add_problem(ret, count, &failed);
    }
    space_sample(&dir->space);
    if (!space_is_short(&dir->space)) {
        return count;
    }
    const struct cluster_problem full = {
        .code = "disk_full",
        .subject = dir->settings->path,
        .action = "free some space: delete topics or records, or shorten retention; records are "
                  "taken again by themselves then",
    };
    return add_problem(ret, count, &full);
}

static struct cluster_log_dir describe_dir(struct shard_dir *dir)
{
    struct cluster_log_dir log_dir = {
        .id = dir->settings->id,
        .path = dir->settings->path,
        .is_failed = dir->is_failed,
        .total_size = -1,
        .usable_size = -1,
    };
    if (!dir->is_failed) {
        space_sample(&dir->space);
        log_dir.total_size = (int64_t)dir->settings->total_size;
        if (dir->space.has_sample) {
            log_dir.usable_size = (int64_t)space_left(&dir->space, SPACE_DATA);
        }
    }
    return log_dir;
}

uint32_t cluster_log_dirs(struct cluster *c, struct cluster_log_dir ret[CLUSTER_LOG_DIRS_MAX])
{
    static_assert((int)CLUSTER_LOG_DIRS_MAX == (int)CLUSTER_DATA_DIRS_MAX);
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        ret[i] = describe_dir(&c->dirs[i]);
    }
    return c->dirs_count;
}

bool cluster_serves_directory(const struct cluster *c, const struct uuid *id)
{
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        if (uuid_equal(&c->dirs[i].settings->id, id)) {
            return !c->dirs[i].is_failed;
        }
    }
    return false;
}

uint32_t cluster_problems(struct cluster *c, struct cluster_problem ret[CLUSTER_PROBLEMS_MAX])
{
    assert_cmp(c->s->id, ==, 0);
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        count = add_problem_of(&c->dirs[i], ret, count);
    }
    if (c->controller != NULL && controller_driver_is_failed(c->controller)) {
        const struct cluster_problem failed = {
            .code = "controller_failed",
            .subject = c->dirs[0].settings->path,
            .action =
                "the controller's log could not be written, so topics can be neither made nor "
                "deleted: see the kernel's log, repair the disk, then restart",
        };
        count = add_problem(ret, count, &failed);
    }
    for (uint32_t i = 0; i < c->settings->lost_dirs_count; i++) {
        const struct cluster_lost_dir *lost = &c->settings->lost_dirs[i];
        if (find(c, &lost->id) == NULL && partitions_of(c, &lost->id) > 0) {
            const struct cluster_problem problem = {
                .code = "data_dir_lost",
                .subject = lost->text,
                .action = "the records of its partitions are gone: delete their topics",
            };
            count = add_problem(ret, count, &problem);
        }
    }
    return troubles_list(c, ret, count, CLUSTER_PROBLEMS_MAX);
}

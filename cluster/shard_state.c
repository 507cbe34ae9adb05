/* What each shard does when shard 0 says so: open its store, apply commands to its image and open
 * the partitions it owns, remove logs of deleted topics, close everything.
 *
 * Streams of commands are applied one after the other, each command whole: a created topic's
 * partitions are open before the next command is looked at. Removals run beside.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cluster/broadcast.h"
#include "cluster/cluster_priv.h"
#include "cluster/controller_driver.h"
#include "cluster/memory.h"
#include "cluster/placement.h"
#include "core/assert.h"
#include "core/logger.h"
#include "core/reached.h"
#include "storage/log_purge.h"

enum {
    OPENS_MAX = 64,        /* Partitions of one shard that recover at the same time. */
    REMOVALS_MAX = 16,     /* Logs of one shard that are removed at the same time. */
    DERIVES_PER_TURN = 16, /* Topics and partitions told what an altered broker gives them. */
    FLUSHER_IDLE_CHECK_US = 200,
};

static bool owns(const struct cluster *c, const struct partition_id *id)
{
    return placement_shard(id, c->set->shards_count) == c->s->id;
}

/* ---- metrics ---- */

static void add_stat(
    struct cluster *c, uint32_t *index, enum stat_kind kind, const char *name, const void *value)
{
    assert_cmp(*index, <, CLUSTER_STATS_COUNT);
    struct stat *st = &c->stats[(*index)++];
    st->kind = kind;
    st->name = name;
    st->labels = c->s->stats_label;
    st->value = value;
}

static void add_stats(struct cluster *c)
{
    const struct partition_counters *n = &c->counters;
    uint32_t i = 0;
    add_stat(c, &i, STAT_COUNTER, "coreflume_produced_batches_total", &n->produced_batches);
    add_stat(c, &i, STAT_COUNTER, "coreflume_produced_records_total", &n->produced_records);
    add_stat(c, &i, STAT_COUNTER, "coreflume_produced_bytes_total", &n->produced_bytes);
    add_stat(c, &i, STAT_COUNTER, "coreflume_duplicate_batches_total", &n->duplicate_batches);
    add_stat(c, &i, STAT_COUNTER, "coreflume_refused_batches_total", &n->refused_batches);
    add_stat(c, &i, STAT_COUNTER, "coreflume_fetched_bytes_total", &n->fetched_bytes);
    add_stat(c, &i, STAT_GAUGE, "coreflume_fetch_waits", &n->waits);
    add_stat(c, &i, STAT_GAUGE, "coreflume_produce_backlog", &n->backlog);
    add_stat(c, &i, STAT_COUNTER, "coreflume_failed_partitions_total", &n->failed);
    add_stat(c, &i, STAT_GAUGE, "coreflume_partitions", &c->partitions_count);
    add_stat(c, &i, STAT_COUNTER, "coreflume_retention_moves_total", &n->retained_moves);
    add_stat(c, &i, STAT_HISTOGRAM, "coreflume_produce_commit_seconds", &n->produce_us);
    add_stat(c, &i, STAT_COUNTER, "coreflume_produce_early_answers_total", &n->early_answers);
    add_stat(c, &i, STAT_COUNTER, "coreflume_recoded_batches_total", &c->recoder.recoded_batches);
    if (c->s->id == 0) { /* Once: it is not a sum over shards. */
        c->partitions_max = c->settings->partitions_max;
        add_stat(c, &i, STAT_GAUGE, "coreflume_partitions_max", &c->partitions_max);
    }
    static const char *const helps[] = {
        "Batches appended.",
        "Records appended.",
        "Bytes of batches appended.",
        "Batches that an idempotent producer sent again, answered without an append.",
        "Batches refused with an error.",
        "Bytes of batches read for clients.",
        "Fetches waiting for new data.",
        "Batches waiting for room in their log.",
        "Partitions that failed: unreadable at start, or stopped by a failed write.",
        "Partitions open on the shard.",
        "Log starts that retention proposed to move.",
        "From the arrival of a batch at its partition until it is committed.",
        "Batches answered before their flush, on topics with coreflume.ack=memory.",
        "Batches stored in another codec than they came in, by compression.type.",
        "Partitions that all shards together may have (coreflume.partitions.max).",
    };
    assert_cmp(i, <=, sizeof(helps) / sizeof(helps[0]));
    for (uint32_t j = 0; j < i; j++) {
        c->stats[j].help = helps[j];
        stats_add(&c->s->stats, &c->stats[j]);
    }
}

static void remove_stats(struct cluster *c)
{
    for (uint32_t i = 0; i < CLUSTER_STATS_COUNT; i++) {
        if (c->stats[i].name != NULL) {
            stats_remove(&c->stats[i]);
            c->stats[i] = (struct stat){0};
        }
    }
}

/* ---- open ---- */

static void run_derive(struct task *t);

static bool owns_log(void *context, const struct partition_id *log)
{
    return owns(context, log);
}

/* One directory more is open, or never will be. */
static void dir_opened(struct cluster *c, enum err e)
{
    struct broadcast_leg *leg = c->leg;
    if (e != ERR_OK) {
        leg->error = e;
        leg->failed_count++;
    }
    assert_cmp(c->dirs_pending_count, >, 0);
    c->dirs_pending_count--;
    if (c->dirs_pending_count > 0) {
        return;
    }
    if (leg->failed_count == 0) {
        c->retention = retention_new(c);
    }
    c->leg = NULL;
    broadcast_leg_done(c->s, leg);
}

static void on_dir_opened(void *context, struct shard_dir *dir, enum err e)
{
    (void)dir;
    dir_opened(context, e);
}

static void on_dir_closed(void *context, struct shard_dir *dir);

static void on_trouble(void *context, const struct partition *p, enum trouble_kind kind)
{
    troubles_tell(context, partition_id(p), partition_name(p), kind);
}

void shard_state_open(struct shard *here, struct broadcast_leg *leg)
{
    struct cluster *c = leg->cluster;
    assert(c->s == NULL);
    c->s = here;
    c->metadata = metadata_new(c->settings, here->hash_seed, c->set->shards_count);
    partition_table_init(&c->partitions, here->hash_seed);
    c->partition_env = (struct partition_env){
        .s = here,
        .settings = c->settings,
        .counters = &c->counters,
        .recoder = &c->recoder,
        .producer_expiration_ms = c->settings->producer_expiration_ms,
        .on_trouble = on_trouble,
        .trouble_context = c,
    };
    recoder_init(&c->recoder, here);
    task_init(&c->derive_task, "derive_topics", run_derive);
    add_stats(c);
    c->dir_owner = (struct shard_dir_owner){
        .context = c,
        .owns = owns_log,
        .on_opened = on_dir_opened,
        .on_failed = cluster_dirs_on_failed,
        .on_closed = on_dir_closed,
    };
    c->dirs_count = c->settings->data_dirs_count;
    c->dirs = memory_alloc_array(c->dirs_count, sizeof(*c->dirs));
    c->leg = leg;
    c->dirs_pending_count = c->dirs_count;
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        shard_dir_init(&c->dirs[i], here, c->settings, i, &c->dir_owner);
        enum err e = shard_dir_open(&c->dirs[i]);
        if (e != ERR_OK) {
            dir_opened(c, e);
        }
    }
}

/* ---- apply ---- */

static void apply_run(struct cluster *c);

static void on_partition_opened(void *context, struct partition *p, enum err e)
{
    struct cluster *c = context;
    struct broadcast_leg *leg = c->opener;
    (void)p;
    assert(leg != NULL);
    assert_cmp(leg->in_flight_count, >, 0);
    leg->in_flight_count--;
    if (e != ERR_OK) {
        leg->error = e;
        leg->failed_count++;
    }
    apply_run(c);
}

static void open_partition(struct cluster *c, const struct topic *t, int32_t partition)
{
    const struct shard_dir *dir = cluster_dirs_find(c, topic_directory(t, partition));
    struct partition *p = partition_open(&(struct partition_open){
        .env = &c->partition_env,
        .log_env = dir == NULL ? NULL : &dir->log_env,
        .topic = t,
        .partition = partition,
        .context = c,
        .on_opened = on_partition_opened,
    });
    partition_table_insert(&c->partitions, p);
    c->partitions_count = c->partitions.count;
    if (c->partition_stats_count < c->settings->partition_stats_max) {
        c->partition_stats_count++;
        partition_publish_size(p);
    }
}

/* True once all partitions of the topic that the leg is at are open. */
static bool open_more(struct cluster *c, struct broadcast_leg *leg)
{
    const struct topic *t = metadata_topic_by_id(c->metadata, &leg->topic_id);
    while (leg->next_partition < leg->partitions_count && leg->in_flight_count < OPENS_MAX) {
        const struct partition_id id = {
            .topic_id = leg->topic_id,
            .partition = leg->next_partition++,
        };
        if (owns(c, &id)) {
            leg->in_flight_count++;
            open_partition(c, t, id.partition);
        }
    }
    return leg->in_flight_count == 0;
}

static void alter_partition(struct cluster *c, const struct topic *t, int32_t partition)
{
    const struct partition_id id = {.topic_id = t->id, .partition = partition};
    struct partition *p = partition_table_find(&c->partitions, &id);
    if (p != NULL) {
        partition_alter(p, t);
    }
}

/* One step of an altered topic: its next partition told. False: there is none left. */
static bool alter_step(struct cluster *c, struct broadcast_leg *leg)
{
    const struct topic *t = metadata_topic_by_id(c->metadata, &leg->topic_id);
    if (t == NULL || leg->next_partition == t->partitions_count) {
        return false;
    }
    alter_partition(c, t, leg->next_partition++);
    return true;
}

/* One step of an altered broker: a topic's settings anew, or its next partition told. False: there
 * is nothing left. */
static bool derive_step(struct cluster *c, struct broadcast_leg *leg)
{
    if (leg->next_topic == metadata_topics_count(c->metadata)) {
        return false;
    }
    if (leg->next_partition == 0) {
        (void)metadata_derive_topic(c->metadata, leg->next_topic);
    }
    const struct topic *t = metadata_topic_at(c->metadata, leg->next_topic);
    alter_partition(c, t, leg->next_partition++);
    if (leg->next_partition == t->partitions_count) {
        leg->next_topic++;
        leg->next_partition = 0;
    }
    return true;
}

/* True once all partitions have what was altered of their topic, or of the broker. No other command
 * is applied meanwhile: the topics stay the same ones. */
static bool derive_more(struct cluster *c, struct broadcast_leg *leg)
{
    for (uint32_t i = 0; leg->is_deriving && i < DERIVES_PER_TURN; i++) {
        leg->is_deriving =
            !c->is_stopping && (leg->is_of_topic ? alter_step(c, leg) : derive_step(c, leg));
    }
    if (leg->is_deriving) {
        shard_post(c->s, &c->derive_task);
    } else {
        leg->next_partition = leg->partitions_count; /* Nothing to open. */
    }
    return !leg->is_deriving;
}

/* The broker's own, beside what topics take from it. */
static void apply_broker_configs(struct cluster *c)
{
    c->partition_env.producer_expiration_ms =
        cluster_broker_number(c, "producer.id.expiration.ms", c->settings->producer_expiration_ms);
    const uint64_t rest_us = c->settings->log_shared.compact_interval_us;
    const int64_t rest_ms =
        cluster_broker_number(c, "log.cleaner.backoff.ms", (int64_t)(rest_us / 1000));
    const uint64_t keys_size = c->settings->log_shared.compact_keys_size_max;
    const int64_t keys_size_all = cluster_broker_number(c, "log.cleaner.dedupe.buffer.size", 0);
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        shard_dir_set_compaction(&c->dirs[i],
                                 rest_ms > 0 ? (uint64_t)rest_ms * 1000 : 1000,
                                 keys_size_all > 0 ? (size_t)keys_size_all / c->set->shards_count
                                                   : keys_size);
    }
    if (c->settings->on_broker_altered != NULL) {
        c->settings->on_broker_altered(c->settings->broker_context, c->s, c);
    }
}

static void begin_deriving(struct broadcast_leg *leg, bool is_of_topic)
{
    leg->is_deriving = true;
    leg->is_of_topic = is_of_topic;
    leg->next_topic = 0;
    leg->next_partition = 0;
}

static void
apply_configs(struct cluster *c, struct broadcast_leg *leg, const struct command *command)
{
    const struct command_configs_altered *altered = &command->configs_altered;
    if (altered->resource == CONFIG_RESOURCE_TOPIC) {
        (void)metadata_alter_topic(c->metadata, altered);
        leg->topic_id = altered->topic_id;
        begin_deriving(leg, true);
        return;
    }
    metadata_alter_resource(c->metadata, altered);
    if (altered->resource == CONFIG_RESOURCE_BROKER) {
        apply_broker_configs(c);
        begin_deriving(leg, false);
    }
}

/* Shard 0 has applied the same command to its engine before it told us: nothing can be wrong with
 * it but our own bug. */
static void apply_command(struct cluster *c, struct broadcast_leg *leg, struct slice bytes)
{
    struct command command;
    enum err e = command_decode(bytes, &command);
    assert_cmp(e, ==, ERR_OK);
    const struct topic *t;
    switch (command.kind) {
    case COMMAND_TOPIC_CREATED:
        e = metadata_add_topic(c->metadata, &command.topic_created, &t);
        assert_cmp(e, ==, ERR_OK);
        leg->topic_id = t->id;
        leg->next_partition = 0;
        leg->partitions_count = t->partitions_count;
        return;
    case COMMAND_PARTITIONS_ADDED:
        e = metadata_add_partitions(c->metadata, &command.partitions_added, &t);
        assert_cmp(e, ==, ERR_OK);
        leg->topic_id = t->id;
        leg->next_partition = command.partitions_added.first;
        leg->partitions_count = t->partitions_count;
        return;
    case COMMAND_TOPIC_DELETED:
        /* The name goes at once; the logs go when shard 0 orders it. */
        (void)metadata_remove_topic(c->metadata, &command.topic_deleted.id);
        return;
    case COMMAND_CONFIGS_ALTERED:
        apply_configs(c, leg, &command);
        return;
    case COMMAND_FEATURE_LEVEL:
    case COMMAND_NODE_REGISTERED:
    case COMMAND_TOPIC_PURGED:
    case COMMAND_PRODUCER_IDS:
        return; /* Shard 0's own business. */
    }
    assert(false && "no such command");
}

/* Goes as far as it can with the streams that have arrived. */
static void apply_run(struct cluster *c)
{
    while (!list_is_empty(&c->applying)) {
        struct broadcast_leg *leg = container_of(c->applying.next, struct broadcast_leg, link);
        c->opener = leg;
        if (leg->is_deriving ? !derive_more(c, leg) : !open_more(c, leg)) {
            return; /* derive_task or on_partition_opened goes on. */
        }
        struct slice command;
        enum err e = command_stream_next(&leg->stream, &command);
        if (e == ERR_OK) {
            apply_command(c, leg, command);
            continue;
        }
        assert_cmp(e, ==, ERR_EOF);
        c->opener = NULL;
        list_remove(&leg->link);
        if (c->settings->on_metadata != NULL) {
            c->settings->on_metadata(c->settings->broker_context, c->s);
        }
        broadcast_leg_done(c->s, leg);
    }
}

static void run_derive(struct task *t)
{
    apply_run(container_of(t, struct cluster, derive_task));
}

void shard_state_apply(struct shard *here, struct broadcast_leg *leg)
{
    struct cluster *c = leg->cluster;
    assert(c->s == here);
    c->partition_env.term = leg->order->term;
    metadata_set_leader_epoch(c->metadata, (int32_t)leg->order->term);
    leg->stream = rbuf_over(leg->bytes.data, leg->bytes.size);
    list_push_back(&c->applying, &leg->link);
    if (c->opener == NULL) {
        apply_run(c);
    }
}

/* ---- remove ---- */

static void remove_more(struct cluster *c, struct broadcast_leg *leg);

static void removal_ended(struct cluster *c, struct broadcast_leg *leg, enum err e)
{
    if (e != ERR_OK) {
        leg->error = e;
        leg->failed_count++;
    }
    assert_cmp(leg->in_flight_count, >, 0);
    leg->in_flight_count--;
    remove_more(c, leg);
}

static void on_purged(void *context, enum err e)
{
    struct broadcast_leg *leg = context;
    removal_ended(leg->cluster, leg, e);
}

/* Which directory it was in went with its topic. What a lost one had is lost. */
static void
purge_everywhere(struct cluster *c, struct broadcast_leg *leg, const struct partition_id *id)
{
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        leg->in_flight_count++;
        log_purge_begin(&c->dirs[i].log_env, id, leg, on_purged);
    }
}

static void on_partition_deleted(void *context, struct partition *p, enum err e)
{
    struct broadcast_leg *leg = context;
    struct cluster *c = leg->cluster;
    const struct partition_id id = *partition_id(p);
    if (partition_has_size_metric(p)) {
        c->partition_stats_count--;
    }
    partition_table_remove(&c->partitions, p);
    c->partitions_count = c->partitions.count;
    if (e == ERR_FAILED) {
        purge_everywhere(c, leg, &id); /* It was never open. */
        leg->in_flight_count--;
    } else {
        removal_ended(c, leg, e);
    }
}

/* Removes the logs of a topic: those that are open, and what a crash left of others. */
static void remove_more(struct cluster *c, struct broadcast_leg *leg)
{
    if (c->is_stopping && leg->next_partition < leg->partitions_count) {
        /* The next start goes on: a stop does not wait for thousands of files. */
        leg->next_partition = leg->partitions_count;
        leg->error = ERR_CANCELLED;
        leg->failed_count++;
    }
    while (leg->next_partition < leg->partitions_count && leg->in_flight_count < REMOVALS_MAX) {
        const struct partition_id id = {
            .topic_id = leg->topic_id,
            .partition = leg->next_partition++,
        };
        if (!owns(c, &id)) {
            continue;
        }
        struct partition *p = partition_table_find(&c->partitions, &id);
        if (p != NULL) {
            leg->in_flight_count++;
            partition_delete(p, leg, on_partition_deleted);
        } else {
            reached(c->s, "log_purged_unopened");
            purge_everywhere(c, leg, &id);
        }
    }
    if (leg->in_flight_count == 0) {
        broadcast_leg_done(c->s, leg);
    }
}

void shard_state_remove(struct shard *here, struct broadcast_leg *leg)
{
    struct cluster *c = leg->cluster;
    assert(c->s == here);
    leg->topic_id = leg->order->topic_id;
    leg->next_partition = 0;
    leg->partitions_count = leg->order->partitions_count;
    remove_more(c, leg);
}

/* ---- close ---- */

static void on_partition_closed(void *context, struct partition *p)
{
    struct cluster *c = context;
    partition_table_remove(&c->partitions, p);
    c->partitions_count = c->partitions.count;
    c->closing_count--;
    if (c->closing_count == 0) {
        struct broadcast_leg *leg = c->leg;
        c->leg = NULL;
        broadcast_leg_done(c->s, leg);
    }
}

static void close_partition(void *context, struct partition *p)
{
    struct cluster *c = context;
    c->closing_count++;
    partition_close(p, c, on_partition_closed);
}

static void refuse_backlog(void *context, struct partition *p)
{
    (void)context;
    partition_refuse_backlog(p);
}

void cluster_quiesce(struct cluster *c)
{
    if (c->s == NULL || c->is_quiescing) {
        return; /* The start did not come so far, or we were here before. */
    }
    c->is_quiescing = true;
    c->partition_env.is_quiescing = true;
    shard_timer_arm(c->s, &c->drain_timer, CLUSTER_DRAIN_US);
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        shard_dir_stop_background(&c->dirs[i]);
    }
    partition_table_each(&c->partitions, NULL, refuse_backlog);
}

static void give_up_flushes(void *context, struct partition *p)
{
    (void)context;
    partition_give_up_flushes(p);
}

void shard_state_drained(struct timer *t)
{
    struct cluster *c = container_of(t, struct cluster, drain_timer);
    c->partition_env.is_drained = true;
    partition_table_each(&c->partitions, NULL, give_up_flushes);
    if (c->controller != NULL) {
        controller_driver_give_up(c->controller);
    }
}

void shard_state_quiesce(struct shard *here, struct broadcast_leg *leg)
{
    assert(leg->cluster->s == here);
    struct cluster *c = leg->cluster;
    cluster_quiesce(c);
    c->is_stopping = true;
    if (c->retention != NULL) {
        retention_stop(c->retention);
    }
    broadcast_leg_done(here, leg);
}

void shard_state_close_partitions(struct shard *here, struct broadcast_leg *leg)
{
    struct cluster *c = leg->cluster;
    assert(c->s == here);
    assert(list_is_empty(&c->applying));
    assert(c->is_stopping);
    if (c->partitions.count == 0) {
        broadcast_leg_done(here, leg);
        return;
    }
    c->leg = leg;
    partition_table_each(&c->partitions, c, close_partition);
}

static void on_dir_closed(void *context, struct shard_dir *dir)
{
    struct cluster *c = context;
    struct broadcast_leg *leg = c->leg;
    shard_dir_done(dir);
    assert_cmp(c->dirs_pending_count, >, 0);
    c->dirs_pending_count--;
    if (c->dirs_pending_count > 0) {
        return;
    }
    c->leg = NULL;
    free(c->dirs);
    c->dirs = NULL;
    c->dirs_count = 0;
    timer_cancel(&c->s->timers, &c->drain_timer);
    recoder_done(&c->recoder);
    remove_stats(c);
    metadata_free(c->metadata);
    c->metadata = NULL;
    broadcast_leg_done(c->s, leg);
}

static bool may_close_dirs(const struct cluster *c)
{
    bool is_idle = c->retention == NULL || !retention_is_busy(c->retention);
    for (uint32_t i = 0; i < c->dirs_count && is_idle; i++) {
        is_idle = shard_dir_is_idle(&c->dirs[i]);
    }
    return is_idle;
}

static void try_close_dirs(struct timer *t)
{
    struct cluster *c = container_of(t, struct cluster, close_timer);
    if (!may_close_dirs(c)) {
        shard_timer_arm(c->s, t, FLUSHER_IDLE_CHECK_US);
        return;
    }
    retention_free(c->retention);
    c->retention = NULL;
    struct shard_dir *dirs = c->dirs;
    const uint32_t count = c->dirs_count;
    c->dirs_pending_count = count;
    for (uint32_t i = 0; i < count; i++) {
        shard_dir_close(&dirs[i]); /* With the last one, dirs may be gone. */
    }
}

void shard_state_close_store(struct shard *here, struct broadcast_leg *leg)
{
    struct cluster *c = leg->cluster;
    assert(c->s == here);
    c->leg = leg;
    timer_init(&c->close_timer, try_close_dirs);
    shard_timer_arm(here, &c->close_timer, 0);
}

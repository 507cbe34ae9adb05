#include "cluster/controller_judge.h"

#include <stdio.h>

#include "cluster/cluster_priv.h"
#include "cluster/controller.h"
#include "cluster/internal_topics.h"
#include "core/assert.h"
#include "core/shard.h"

/* Where new partitions may go: data directories that work and have space for records. */
struct places {
    struct placement_directory directories[CLUSTER_DATA_DIRS_MAX];
    uint32_t count;
    bool is_full; /* There is none, and the one listed only lets all else be judged first. */
};

static void add_place(struct places *places, const struct shard_dir *dir, enum space_tier tier)
{
    places->directories[places->count++] = (struct placement_directory){
        .id = dir->settings->id,
        .free_size = space_left(&dir->space, tier),
    };
}

static void find_places(const struct cluster *c, enum space_tier tier, struct places *places)
{
    places->count = 0;
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        if (shard_dir_takes_new(&c->dirs[i], tier)) {
            add_place(places, &c->dirs[i], tier);
        }
    }
    places->is_full = places->count == 0;
    if (places->is_full) {
        add_place(places, &c->dirs[0], tier);
    }
}

/* New partitions want space for records: they are refused with them. Deletes, and what the broker
 * needs itself, go on. */
static enum err refuse_for_space(struct cluster *c, struct controller_request *r)
{
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        (void)space_may_take(&c->dirs[i].space, SPACE_DATA, 1); /* Counted as refused. */
    }
    (void)snprintf(r->message,
                   sizeof(r->message),
                   "The broker's disk is full; free space, or delete topics, and try again.");
    return ERR_NO_SPACE;
}

static enum err judge_create(struct cluster *c,
                             const struct controller *engine,
                             struct controller_request *r,
                             struct wbuf *bytes)
{
    const bool is_internal = internal_topic_find(c->settings, r->in.create_topic.name) != NULL;
    struct places places;
    find_places(c, is_internal ? SPACE_INTERNAL : SPACE_DATA, &places);
    struct controller_topic topic = {
        .id = rand_uuid(&c->s->rand),
        .name = r->in.create_topic.name,
        .partitions_count = r->in.create_topic.partitions_count,
        .replication_factor = r->in.create_topic.replication_factor,
        .configs = r->in.create_topic.configs,
        .configs_count = r->in.create_topic.configs_count,
        .directories = places.directories,
        .directories_count = places.count,
    };
    enum err e = controller_propose_topic(engine, &topic, bytes, r->message);
    if (e == ERR_OK && places.is_full && !r->in.create_topic.is_validate_only) {
        e = refuse_for_space(c, r);
    }
    if (e != ERR_OK) {
        return e;
    }
    r->out.create_topic.id = r->in.create_topic.is_validate_only ? (struct uuid){0} : topic.id;
    r->out.create_topic.partitions_count = topic.partitions_count;
    r->out.create_topic.replication_factor = topic.replication_factor;
    return ERR_OK;
}

static enum err judge_partitions(struct cluster *c,
                                 const struct controller *engine,
                                 struct controller_request *r,
                                 struct wbuf *bytes)
{
    struct places places;
    find_places(c, SPACE_DATA, &places);
    const struct controller_growth growth = {
        .name = r->in.create_partitions.name,
        .partitions_count = r->in.create_partitions.partitions_count,
        .assignments_count = r->in.create_partitions.assignments_count,
        .directories = places.directories,
        .directories_count = places.count,
    };
    enum err e = controller_propose_partitions(engine, &growth, bytes, r->message);
    if (e == ERR_OK && places.is_full && !r->in.create_partitions.is_validate_only) {
        e = refuse_for_space(c, r);
    }
    return e;
}

enum err controller_judge(struct cluster *c,
                          const struct controller *engine,
                          struct controller_request *r,
                          struct wbuf *bytes)
{
    switch (r->kind) {
    case CONTROLLER_CREATE_TOPIC:
        return judge_create(c, engine, r, bytes);
    case CONTROLLER_CREATE_PARTITIONS:
        return judge_partitions(c, engine, r, bytes);
    case CONTROLLER_DELETE_TOPIC:
        return controller_propose_delete(
            engine, &r->in.delete_topic.id, r->in.delete_topic.name, bytes, r->message);
    case CONTROLLER_ALTER_CONFIGS:
        return controller_propose_configs(
            engine, r->in.alter_configs.name, &r->in.alter_configs.changes, bytes, r->message);
    case CONTROLLER_ALLOCATE_PRODUCER_ID:
    case CONTROLLER_DESCRIBE:
        break;
    }
    panic("not a request that is judged");
}

bool controller_judge_is_question(const struct controller_request *r)
{
    switch (r->kind) {
    case CONTROLLER_CREATE_TOPIC:
        return r->in.create_topic.is_validate_only;
    case CONTROLLER_CREATE_PARTITIONS:
        return r->in.create_partitions.is_validate_only;
    case CONTROLLER_ALTER_CONFIGS:
        return r->in.alter_configs.is_validate_only;
    case CONTROLLER_DELETE_TOPIC:
    case CONTROLLER_ALLOCATE_PRODUCER_ID:
    case CONTROLLER_DESCRIBE:
        return false;
    }
    panic("no such request of the controller");
}

void controller_judge_node(struct cluster *c, struct wbuf *bytes)
{
    const struct cluster_settings *settings = c->settings;
    const struct uuid incarnation = rand_uuid(&c->s->rand);
    struct uuid directories[CLUSTER_DATA_DIRS_MAX];
    for (uint32_t i = 0; i < settings->data_dirs_count; i++) {
        directories[i] = settings->data_dirs[i].id;
    }
    controller_propose_node(settings->node_id,
                            &incarnation,
                            settings->rack,
                            slice_of(directories, settings->data_dirs_count * UUID_SIZE),
                            bytes);
}

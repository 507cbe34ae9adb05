#include "cluster/controller.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/internal_topics.h"
#include "cluster/memory.h"
#include "cluster/metadata_edit.h"
#include "cluster/topic_name.h"
#include "cluster/topic_places.h"
#include "core/assert.h"

struct node {
    int32_t id;
    struct uuid incarnation;
    char *rack; /* "" = none. */
    struct uuid *directories;
    uint32_t directories_count;
};

struct controller {
    const struct cluster_settings *settings;
    struct metadata *image;
    uint64_t partitions_count;
    uint16_t feature_level; /* 0 = never set. */
    int64_t producer_id_next;
    struct node *nodes;
    uint32_t nodes_count;
    struct controller_directory *directories; /* In the order they were heard of. */
    uint32_t directories_count;
    struct controller_deleted *deleted;
    uint32_t deleted_count;
    uint32_t deleted_capacity;
};

struct controller *controller_new(const struct cluster_settings *settings, uint64_t hash_seed)
{
    struct controller *ct = memory_alloc(sizeof(*ct));
    ct->settings = settings;
    ct->image = metadata_new(settings, hash_seed, 1);
    return ct;
}

void controller_free(struct controller *ct)
{
    if (ct == NULL) {
        return;
    }
    for (uint32_t i = 0; i < ct->nodes_count; i++) {
        free(ct->nodes[i].rack);
        free(ct->nodes[i].directories);
    }
    free(ct->nodes);
    free(ct->directories);
    free(ct->deleted);
    metadata_free(ct->image);
    free(ct);
}

/* ---- apply ---- */

static enum err
apply_feature_level(struct controller *ct, uint16_t level, const struct uuid *cluster_id)
{
    if (level > FEATURE_LEVEL) {
        return ERR_NEWER_FORMAT;
    }
    if (!uuid_equal(cluster_id, metadata_cluster_id(ct->image))) {
        return ERR_FOREIGN;
    }
    if (level < ct->feature_level) {
        return ERR_CORRUPT; /* A level never falls. */
    }
    ct->feature_level = level;
    return ERR_OK;
}

static struct node *find_node(const struct controller *ct, int32_t id)
{
    for (uint32_t i = 0; i < ct->nodes_count; i++) {
        if (ct->nodes[i].id == id) {
            return &ct->nodes[i];
        }
    }
    return NULL;
}

/* ---- directories ---- */

/* directories_count if there is none. */
static uint32_t find_directory(const struct controller *ct, const struct uuid *id)
{
    uint32_t i = 0;
    while (i < ct->directories_count && !uuid_equal(&ct->directories[i].id, id)) {
        i++;
    }
    return i;
}

/* The entry of a directory, made if there is none. */
static struct controller_directory *add_directory(struct controller *ct, const struct uuid *id)
{
    const uint32_t i = find_directory(ct, id);
    if (i == ct->directories_count) {
        ct->directories = memory_realloc_array(
            ct->directories, ct->directories_count + 1, sizeof(*ct->directories));
        ct->directories[ct->directories_count++] = (struct controller_directory){.id = *id};
    }
    return &ct->directories[i];
}

/* Those that nobody has any more, and nothing is in. */
static void forget_directories(struct controller *ct)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < ct->directories_count; i++) {
        const struct controller_directory d = ct->directories[i];
        if (d.is_registered || d.partitions_count > 0) {
            ct->directories[kept++] = d;
        }
    }
    ct->directories_count = kept;
}

static void count_partitions(struct controller *ct, const struct topic *t, bool is_added)
{
    for (uint32_t i = 0; i < t->directories_count; i++) {
        struct controller_directory *d = add_directory(ct, &t->directories[i]);
        for (int32_t p = 0; p < t->partitions_count; p++) {
            if (topic_directory(t, p) == &t->directories[i]) {
                d->partitions_count += is_added ? 1 : UINT64_MAX;
            }
        }
    }
    forget_directories(ct);
}

/* Before there is more than one node, all directories are the node's. */
static void register_directories(struct controller *ct, struct node *node, struct slice directories)
{
    free(node->directories);
    node->directories_count = (uint32_t)(directories.size / UUID_SIZE);
    node->directories = memory_alloc(directories.size);
    memcpy(node->directories, directories.data, directories.size);
    for (uint32_t i = 0; i < ct->directories_count; i++) {
        ct->directories[i].is_registered = false;
    }
    for (uint32_t n = 0; n < ct->nodes_count; n++) {
        for (uint32_t i = 0; i < ct->nodes[n].directories_count; i++) {
            add_directory(ct, &ct->nodes[n].directories[i])->is_registered = true;
        }
    }
    forget_directories(ct);
}

static enum err apply_node(struct controller *ct, const struct command *command)
{
    struct node *node = find_node(ct, command->node.node_id);
    if (node == NULL) {
        if (ct->nodes_count == CONTROLLER_NODES_MAX) {
            return ERR_CORRUPT;
        }
        ct->nodes = memory_realloc_array(ct->nodes, ct->nodes_count + 1, sizeof(*ct->nodes));
        node = &ct->nodes[ct->nodes_count++];
        *node = (struct node){.id = command->node.node_id};
    }
    node->incarnation = command->node.incarnation;
    free(node->rack);
    node->rack = memory_copy_text(command->node.rack);
    register_directories(ct, node, command->node.directories);
    return ERR_OK;
}

static uint32_t find_deleted(const struct controller *ct, const struct uuid *id)
{
    uint32_t i = 0;
    while (i < ct->deleted_count && !uuid_equal(&ct->deleted[i].id, id)) {
        i++;
    }
    return i;
}

static enum err apply_topic_created(struct controller *ct,
                                    const struct command_topic_created *created)
{
    const struct topic *t;
    char why[CONTROLLER_WHY_SIZE];
    if (topic_name_check(created->name, why) != ERR_OK ||
        find_deleted(ct, &created->id) != ct->deleted_count ||
        metadata_add_topic(ct->image, created, &t) != ERR_OK) {
        return ERR_CORRUPT;
    }
    ct->partitions_count += (uint64_t)t->partitions_count;
    count_partitions(ct, t, true);
    return ERR_OK;
}

static enum err apply_partitions_added(struct controller *ct,
                                       const struct command_partitions_added *added)
{
    const struct topic *t;
    if (metadata_add_partitions(ct->image, added, &t) != ERR_OK) {
        return ERR_CORRUPT;
    }
    for (int32_t p = added->first; p < t->partitions_count; p++) {
        add_directory(ct, topic_directory(t, p))->partitions_count++;
    }
    ct->partitions_count += (uint64_t)(t->partitions_count - added->first);
    return ERR_OK;
}

/* In a snapshot the topic was never created: only its memory is left. */
static enum err apply_topic_deleted(struct controller *ct, const struct command *command)
{
    const struct uuid *id = &command->topic_deleted.id;
    if (find_deleted(ct, id) != ct->deleted_count) {
        return ERR_CORRUPT;
    }
    const struct topic *t = metadata_topic_by_id(ct->image, id);
    if (t != NULL) {
        ct->partitions_count -= (uint64_t)t->partitions_count;
        count_partitions(ct, t, false);
        (void)metadata_remove_topic(ct->image, id);
    }
    if (ct->deleted_count == ct->deleted_capacity) {
        ct->deleted_capacity = ct->deleted_capacity == 0 ? 8 : ct->deleted_capacity * 2;
        ct->deleted = memory_realloc_array(ct->deleted, ct->deleted_capacity, sizeof(*ct->deleted));
    }
    ct->deleted[ct->deleted_count++] = (struct controller_deleted){
        .id = *id,
        .partitions_count = command->topic_deleted.partitions_count,
    };
    return ERR_OK;
}

static enum err apply_topic_purged(struct controller *ct, const struct uuid *id)
{
    uint32_t index = find_deleted(ct, id);
    if (index == ct->deleted_count) {
        return ERR_CORRUPT;
    }
    ct->deleted_count--;
    memmove(&ct->deleted[index],
            &ct->deleted[index + 1],
            (ct->deleted_count - index) * sizeof(*ct->deleted));
    return ERR_OK;
}

static enum err apply_producer_ids(struct controller *ct, const struct command *command)
{
    const int64_t first = command->producer_ids.first;
    const int64_t count = command->producer_ids.count;
    if (first < ct->producer_id_next || first > INT64_MAX - count) {
        return ERR_CORRUPT; /* An id would be handed out twice. */
    }
    ct->producer_id_next = first + count;
    return ERR_OK;
}

/* The settings of topics stay what they were in this image: nobody looks at them here. */
static enum err apply_configs_altered(struct controller *ct,
                                      const struct command_configs_altered *altered)
{
    if (altered->resource != CONFIG_RESOURCE_TOPIC) {
        metadata_alter_resource(ct->image, altered);
        return ERR_OK;
    }
    return metadata_alter_topic(ct->image, altered) == NULL ? ERR_CORRUPT : ERR_OK;
}

enum err controller_apply(struct controller *ct, struct slice bytes)
{
    struct command command;
    enum err e = command_decode(bytes, &command);
    if (e == ERR_NEWER_FORMAT) {
        return e;
    }
    if (e != ERR_OK) {
        return ERR_CORRUPT;
    }
    switch (command.kind) {
    case COMMAND_FEATURE_LEVEL:
        return apply_feature_level(
            ct, command.feature_level.level, &command.feature_level.cluster_id);
    case COMMAND_NODE_REGISTERED:
        return apply_node(ct, &command);
    case COMMAND_TOPIC_CREATED:
        return apply_topic_created(ct, &command.topic_created);
    case COMMAND_TOPIC_DELETED:
        return apply_topic_deleted(ct, &command);
    case COMMAND_TOPIC_PURGED:
        return apply_topic_purged(ct, &command.topic_purged.id);
    case COMMAND_PRODUCER_IDS:
        return apply_producer_ids(ct, &command);
    case COMMAND_PARTITIONS_ADDED:
        return apply_partitions_added(ct, &command.partitions_added);
    case COMMAND_CONFIGS_ALTERED:
        return apply_configs_altered(ct, &command.configs_altered);
    }
    return ERR_NEWER_FORMAT;
}

/* ---- names that are taken ---- */

static uint8_t metric_character(uint8_t c)
{
    return c == '.' ? '_' : c;
}

static bool names_collide(struct slice a, struct slice b)
{
    if (a.size != b.size) {
        return false;
    }
    for (size_t i = 0; i < a.size; i++) {
        if (metric_character(a.data[i]) != metric_character(b.data[i])) {
            return false;
        }
    }
    return true;
}

static enum err check_name_is_free(const struct controller *ct, struct slice name, char *why)
{
    const bool is_own = internal_topic_find(ct->settings, name) != NULL;
    if (metadata_topic_by_name(ct->image, name) != NULL) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "Topic '%.*s' already exists.",
                       slice_shown(name, TOPIC_NAME_SIZE_MAX),
                       (const char *)name.data);
        return ERR_TOPIC_EXISTS;
    }
    if (is_own ||
        (memchr(name.data, '.', name.size) == NULL && memchr(name.data, '_', name.size) == NULL)) {
        return ERR_OK;
    }
    /* Kafka's metric names cannot tell '.' from '_'. */
    for (uint32_t i = 0; i < metadata_topics_count(ct->image); i++) {
        const char *other = metadata_topic_at(ct->image, i)->name;
        if (names_collide(name, slice_of_string(other))) {
            (void)snprintf(why,
                           CONTROLLER_WHY_SIZE,
                           "Topic '%.*s' collides with existing topic: %s",
                           slice_shown(name, TOPIC_NAME_SIZE_MAX),
                           (const char *)name.data,
                           other);
            return ERR_TOPIC_NAME_INVALID;
        }
    }
    return ERR_OK;
}

/* ---- counts ---- */

static enum err check_partitions(const struct controller *ct, int32_t count, char *why)
{
    if (count <= 0) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "Number of partitions was set to an invalid non-positive value.");
        return ERR_PARTITIONS_INVALID;
    }
    if ((uint32_t)count > ct->settings->partitions_per_topic_max) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "Number of partitions is %" PRId32 ", a topic may have %" PRIu32
                       " (coreflume.topic.partitions.max)",
                       count,
                       ct->settings->partitions_per_topic_max);
        return ERR_PARTITIONS_INVALID;
    }
    return ERR_OK;
}

/* On the node, with so many more. */
static enum err check_all_partitions(const struct controller *ct, int32_t added, char *why)
{
    if (ct->partitions_count + (uint64_t)added > ct->settings->partitions_max) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "The cluster has %" PRIu64 " of at most %" PRIu32
                       " partitions (coreflume.partitions.max): delete topics or ask for fewer",
                       ct->partitions_count,
                       ct->settings->partitions_max);
        return ERR_PARTITIONS_INVALID;
    }
    return ERR_OK;
}

/* Of the whole node: what the broker makes for itself counts for none. */
static enum err check_limits(const struct controller *ct, int32_t added, char *why)
{
    enum err e = check_all_partitions(ct, added, why);
    if (e == ERR_OK && metadata_topics_count(ct->image) >= ct->settings->topics_max) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "The cluster has %" PRIu32 " of at most %" PRIu32
                       " topics (coreflume.topics.max): delete some first",
                       metadata_topics_count(ct->image),
                       ct->settings->topics_max);
        e = ERR_PARTITIONS_INVALID;
    }
    return e;
}

static int32_t partitions_default(const struct controller *ct, const struct internal_topic *own)
{
    return own == NULL ? ct->settings->partitions_count_default : own->partitions_count;
}

static int16_t replication_default(const struct controller *ct, const struct internal_topic *own)
{
    if (own == NULL) {
        return ct->settings->replication_factor_default;
    }
    const bool are_enough = ct->nodes_count >= (uint32_t)own->replication_factor_max;
    return are_enough ? own->replication_factor_max : (int16_t)ct->nodes_count;
}

static enum err check_replication(const struct controller *ct, int16_t factor, char *why)
{
    if (factor <= 0) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "Replication factor must be larger than 0, or -1 to use the default value.");
        return ERR_REPLICATION_INVALID;
    }
    if ((uint32_t)factor > ct->nodes_count) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "Unable to replicate the partition %d time(s): The target replication "
                       "factor of %d cannot be reached because only %" PRIu32
                       " broker(s) are registered.",
                       factor,
                       factor,
                       ct->nodes_count);
        return ERR_REPLICATION_INVALID;
    }
    return ERR_OK;
}

/* ---- topic configs ---- */

/* Of a name given twice the last value counts, as in Kafka's map of them. */
static bool is_given_again(const struct controller_topic *topic, uint32_t index)
{
    for (uint32_t i = index + 1; i < topic->configs_count; i++) {
        if (slice_equal(topic->configs[i].name, topic->configs[index].name)) {
            return true;
        }
    }
    return false;
}

/* Checks the whole set on copies with ends, which is what parsing needs. */
static enum err check_config_set(const struct controller *ct,
                                 struct slice name,
                                 const struct config_pair *pairs,
                                 uint32_t count,
                                 char *why)
{
    struct topic_config_entry *own = memory_alloc_array(count, sizeof(*own));
    for (uint32_t i = 0; i < count; i++) {
        own[i].name = memory_copy_text(pairs[i].name);
        own[i].value = memory_copy_text(pairs[i].value);
    }
    struct topic_config_set set = metadata_topic_configs(ct->image, NULL);
    set.own = own;
    set.own_count = count;
    enum err e = topic_config_check_set(&set, why);
    if (e == ERR_OK) {
        e = internal_topic_check_configs(ct->settings, name, &set, why);
    }
    for (uint32_t i = 0; i < count; i++) {
        free(own[i].name);
        free(own[i].value);
    }
    free(own);
    return e;
}

/* The names in pairs are legal and different: *ret_count is at most topic_configs_count. */
static enum err collect_configs(const struct controller_topic *topic,
                                struct config_pair *pairs,
                                uint32_t *ret_count,
                                char *why)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < topic->configs_count; i++) {
        enum err e = topic_config_check(&topic->configs[i], why);
        if (e != ERR_OK) {
            return e;
        }
        if (!is_given_again(topic, i)) {
            pairs[count++] = topic->configs[i];
        }
    }
    *ret_count = count;
    return ERR_OK;
}

static bool is_among(const struct config_pair *pairs, uint32_t count, struct slice name)
{
    uint32_t i = 0;
    while (i < count && !slice_equal(pairs[i].name, name)) {
        i++;
    }
    return i < count;
}

static void
add_internal_configs(const struct internal_topic *own, struct config_pair *pairs, uint32_t *count)
{
    for (uint32_t i = 0; own != NULL && i < own->configs_count; i++) {
        if (!is_among(pairs, *count, own->configs[i].name)) {
            pairs[(*count)++] = own->configs[i];
        }
    }
}

static enum err encode_configs(const struct controller *ct,
                               const struct controller_topic *topic,
                               struct wbuf *configs,
                               uint32_t *ret_count,
                               char *why)
{
    struct config_pair *pairs = memory_alloc_array(topic_configs_count(), sizeof(*pairs));
    uint32_t count = 0;
    enum err e = collect_configs(topic, pairs, &count, why);
    if (e == ERR_OK) {
        add_internal_configs(internal_topic_find(ct->settings, topic->name), pairs, &count);
        e = check_config_set(ct, topic->name, pairs, count, why);
    }
    if (e == ERR_OK) {
        command_encode_configs(pairs, count, configs);
        *ret_count = count;
        e = wbuf_failure(configs);
    }
    free(pairs);
    return e;
}

/* ---- proposals ---- */

enum err controller_propose_topic(const struct controller *ct,
                                  struct controller_topic *topic,
                                  struct wbuf *w,
                                  char why[CONTROLLER_WHY_SIZE])
{
    enum err e = topic_name_check(topic->name, why);
    if (e != ERR_OK) {
        return e;
    }
    e = internal_topic_check_name(ct->settings, topic->name, why);
    if (e == ERR_OK) {
        e = check_name_is_free(ct, topic->name, why);
    }
    if (e != ERR_OK) {
        return e;
    }
    const struct internal_topic *internal = internal_topic_find(ct->settings, topic->name);
    const int32_t partitions_count =
        topic->partitions_count == -1 ? partitions_default(ct, internal) : topic->partitions_count;
    if (internal == NULL || topic->partitions_count != -1) {
        e = check_partitions(ct, partitions_count, why);
    }
    if (e == ERR_OK && internal == NULL) {
        e = check_limits(ct, partitions_count, why);
    }
    if (e != ERR_OK) {
        return e;
    }
    const int16_t replication_factor = topic->replication_factor == -1
                                           ? replication_default(ct, internal)
                                           : topic->replication_factor;
    e = check_replication(ct, replication_factor, why);
    if (e != ERR_OK) {
        return e;
    }

    struct wbuf configs;
    wbuf_init(&configs, COMMAND_SIZE_MAX);
    uint32_t configs_count = 0;
    e = encode_configs(ct, topic, &configs, &configs_count, why);
    if (e != ERR_OK) {
        goto out_done_configs;
    }
    struct topic_places places;
    topic_places_pick(ct, topic->directories, topic->directories_count, partitions_count, &places);
    const struct command command = {
        .kind = COMMAND_TOPIC_CREATED,
        .topic_created =
            {
                .id = topic->id,
                .name = topic->name,
                .partitions_count = partitions_count,
                .replication_factor = replication_factor,
                .is_internal = internal != NULL,
                .configs_count = configs_count,
                .configs = wbuf_slice(&configs),
                .directories = topic_places_directories(&places),
                .directory_of = topic_places_directory_of(&places),
            },
    };
    command_encode(&command, w);
    topic_places_done(&places);
    e = wbuf_failure(w);
    if (e == ERR_OK) {
        topic->partitions_count = partitions_count;
        topic->replication_factor = replication_factor;
    }
out_done_configs:
    wbuf_done(&configs);
    return e;
}

static enum err
check_growth(const struct controller *ct, const struct topic *t, int32_t count, char *why)
{
    if (count == t->partitions_count) {
        (void)snprintf(
            why, CONTROLLER_WHY_SIZE, "Topic already has %" PRId32 " partition(s).", count);
        return ERR_PARTITIONS_INVALID;
    }
    if (count < t->partitions_count) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "The topic %s currently has %" PRId32 " partition(s); %" PRId32
                       " would not be an increase.",
                       t->name,
                       t->partitions_count,
                       count);
        return ERR_PARTITIONS_INVALID;
    }
    enum err e = check_partitions(ct, count, why);
    return e == ERR_OK ? check_all_partitions(ct, count - t->partitions_count, why) : e;
}

static enum err check_assignments(const struct controller_growth *growth, int32_t added, char *why)
{
    if (growth->assignments_count != CONTROLLER_NO_ASSIGNMENTS &&
        growth->assignments_count != added) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "Attempted to add %" PRId32 " additional partition(s), but only %" PRId32
                       " assignment(s) were specified.",
                       added,
                       growth->assignments_count);
        return ERR_ASSIGNMENT_INVALID;
    }
    return ERR_OK;
}

enum err controller_propose_partitions(const struct controller *ct,
                                       const struct controller_growth *growth,
                                       struct wbuf *w,
                                       char why[CONTROLLER_WHY_SIZE])
{
    const struct topic *t = metadata_topic_by_name(ct->image, growth->name);
    if (t == NULL) {
        (void)snprintf(why, CONTROLLER_WHY_SIZE, "This server does not host this topic-partition.");
        return ERR_TOPIC_UNKNOWN;
    }
    enum err e = internal_topic_refuse(t, "given more partitions", why);
    if (e == ERR_OK) {
        e = check_growth(ct, t, growth->partitions_count, why);
    }
    if (e != ERR_OK) {
        return e;
    }
    const int32_t added = growth->partitions_count - t->partitions_count;
    e = check_assignments(growth, added, why);
    if (e != ERR_OK) {
        return e;
    }
    struct topic_places places;
    topic_places_pick(ct, growth->directories, growth->directories_count, added, &places);
    const struct command command = {
        .kind = COMMAND_PARTITIONS_ADDED,
        .partitions_added =
            {
                .id = t->id,
                .first = t->partitions_count,
                .partitions_count = growth->partitions_count,
                .directories = topic_places_directories(&places),
                .directory_of = topic_places_directory_of(&places),
            },
    };
    if (metadata_directories_with(t, command.partitions_added.directories) <=
        COMMAND_DIRECTORIES_MAX) {
        command_encode(&command, w);
        e = wbuf_failure(w);
    } else {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "Its partitions would be in more than %d data directories: create another "
                       "topic instead.",
                       COMMAND_DIRECTORIES_MAX);
        e = ERR_PARTITIONS_INVALID;
    }
    topic_places_done(&places);
    return e;
}

enum err controller_propose_delete(const struct controller *ct,
                                   const struct uuid *id,
                                   struct slice name,
                                   struct wbuf *w,
                                   char why[CONTROLLER_WHY_SIZE])
{
    const struct topic *t = uuid_is_zero(id) ? metadata_topic_by_name(ct->image, name)
                                             : metadata_topic_by_id(ct->image, id);
    if (t == NULL) {
        (void)snprintf(why, CONTROLLER_WHY_SIZE, "This server does not host this topic-partition.");
        return ERR_TOPIC_UNKNOWN;
    }
    enum err e = internal_topic_refuse(t, "deleted", why);
    if (e != ERR_OK) {
        return e;
    }
    const struct command command = {
        .kind = COMMAND_TOPIC_DELETED,
        .topic_deleted = {.id = t->id, .partitions_count = t->partitions_count},
    };
    command_encode(&command, w);
    return wbuf_failure(w);
}

void controller_propose_purged(const struct uuid *id, struct wbuf *w)
{
    const struct command command = {.kind = COMMAND_TOPIC_PURGED, .topic_purged = {.id = *id}};
    command_encode(&command, w);
}

void controller_propose_producer_ids(const struct controller *ct, int32_t node_id, struct wbuf *w)
{
    const struct command command = {
        .kind = COMMAND_PRODUCER_IDS,
        .producer_ids =
            {
                .node_id = node_id,
                .first = ct->producer_id_next,
                .count = PRODUCER_IDS_PER_BLOCK,
            },
    };
    command_encode(&command, w);
}

void controller_propose_node(int32_t node_id,
                             const struct uuid *incarnation,
                             const char *rack,
                             struct slice directories,
                             struct wbuf *w)
{
    const struct command command = {
        .kind = COMMAND_NODE_REGISTERED,
        .node =
            {
                .node_id = node_id,
                .incarnation = *incarnation,
                .rack = slice_of_string(rack == NULL ? "" : rack),
                .directories = directories,
            },
    };
    command_encode(&command, w);
}

bool controller_propose_feature_level(const struct controller *ct, struct wbuf *w)
{
    if (ct->feature_level == FEATURE_LEVEL) {
        return false;
    }
    const struct command command = {
        .kind = COMMAND_FEATURE_LEVEL,
        .feature_level = {.level = FEATURE_LEVEL, .cluster_id = *metadata_cluster_id(ct->image)},
    };
    command_encode(&command, w);
    return true;
}

/* ---- questions ---- */

const struct cluster_settings *controller_settings(const struct controller *ct)
{
    return ct->settings;
}

const struct metadata *controller_metadata(const struct controller *ct)
{
    return ct->image;
}

uint32_t controller_nodes_count(const struct controller *ct)
{
    return ct->nodes_count;
}

uint64_t controller_partitions_count(const struct controller *ct)
{
    return ct->partitions_count;
}

int64_t controller_producer_id_next(const struct controller *ct)
{
    return ct->producer_id_next;
}

uint32_t controller_directories_count(const struct controller *ct)
{
    return ct->directories_count;
}

const struct controller_directory *controller_directory_at(const struct controller *ct,
                                                           uint32_t index)
{
    assert_cmp(index, <, ct->directories_count);
    return &ct->directories[index];
}

uint64_t controller_directory_partitions(const struct controller *ct, const struct uuid *id)
{
    const uint32_t i = find_directory(ct, id);
    return i == ct->directories_count ? 0 : ct->directories[i].partitions_count;
}

uint32_t controller_deleted_count(const struct controller *ct)
{
    return ct->deleted_count;
}

const struct controller_deleted *controller_deleted_at(const struct controller *ct, uint32_t index)
{
    assert_cmp(index, <, ct->deleted_count);
    return &ct->deleted[index];
}

/* ---- snapshot ---- */

static void snapshot_add(struct wbuf *stream, struct wbuf *scratch, const struct command *command)
{
    scratch->size = 0;
    command_encode(command, scratch);
    command_stream_add(stream, wbuf_slice(scratch));
}

/* Cut short they would be a command like any other. */
static void snapshot_configs(struct wbuf *stream,
                             struct wbuf *configs,
                             const struct topic_config_entry *entries,
                             uint32_t count)
{
    wbuf_init(configs, COMMAND_SIZE_MAX);
    command_encode_entries(entries, count, configs);
    if (wbuf_failure(configs) != ERR_OK) {
        stream->failure = wbuf_failure(configs);
    }
}

static void snapshot_topic(struct wbuf *stream, struct wbuf *scratch, const struct topic *t)
{
    struct wbuf configs;
    snapshot_configs(stream, &configs, t->configs, t->configs_count);
    const struct command command = {
        .kind = COMMAND_TOPIC_CREATED,
        .topic_created =
            {
                .id = t->id,
                .name = slice_of_string(t->name),
                .partitions_count = t->partitions_count,
                .replication_factor = t->replication_factor,
                .is_internal = t->is_internal,
                .configs_count = t->configs_count,
                .configs = wbuf_slice(&configs),
                .directories = slice_of(t->directories, (size_t)t->directories_count * UUID_SIZE),
                .directory_of = slice_of(t->directory_of,
                                         t->directory_of == NULL ? 0 : (size_t)t->partitions_count),
            },
    };
    snapshot_add(stream, scratch, &command);
    wbuf_done(&configs);
}

static void
snapshot_resource(struct wbuf *stream, struct wbuf *scratch, const struct config_resource_entry *e)
{
    struct wbuf configs;
    snapshot_configs(stream, &configs, e->configs, e->configs_count);
    const struct command command = {
        .kind = COMMAND_CONFIGS_ALTERED,
        .configs_altered =
            {
                .resource = e->kind,
                .name = slice_of_string(e->name),
                .configs_count = e->configs_count,
                .configs = wbuf_slice(&configs),
            },
    };
    snapshot_add(stream, scratch, &command);
    wbuf_done(&configs);
}

static void snapshot_nodes(const struct controller *ct, struct wbuf *stream, struct wbuf *scratch)
{
    for (uint32_t i = 0; i < ct->nodes_count; i++) {
        scratch->size = 0;
        const struct node *node = &ct->nodes[i];
        controller_propose_node(
            node->id,
            &node->incarnation,
            node->rack,
            slice_of(node->directories, (size_t)node->directories_count * UUID_SIZE),
            scratch);
        command_stream_add(stream, wbuf_slice(scratch));
    }
}

void controller_snapshot(const struct controller *ct, struct wbuf *stream)
{
    struct wbuf scratch;
    wbuf_init(&scratch, COMMAND_SIZE_MAX);
    struct command command = {
        .kind = COMMAND_FEATURE_LEVEL,
        .feature_level =
            {
                .level = ct->feature_level,
                .cluster_id = *metadata_cluster_id(ct->image),
            },
    };
    snapshot_add(stream, &scratch, &command);
    snapshot_nodes(ct, stream, &scratch);
    if (ct->producer_id_next > 0) {
        /* One id is enough to say how far the blocks went. */
        command = (struct command){
            .kind = COMMAND_PRODUCER_IDS,
            .producer_ids = {.first = ct->producer_id_next - 1, .count = 1},
        };
        snapshot_add(stream, &scratch, &command);
    }
    /* Before the topics, whose settings follow from them. */
    const struct config_resources *resources = metadata_config_resources(ct->image);
    for (uint32_t i = 0; i < resources->count; i++) {
        snapshot_resource(stream, &scratch, &resources->entries[i]);
    }
    for (uint32_t i = 0; i < metadata_topics_count(ct->image); i++) {
        snapshot_topic(stream, &scratch, metadata_topic_at(ct->image, i));
    }
    for (uint32_t i = 0; i < ct->deleted_count; i++) {
        command = (struct command){
            .kind = COMMAND_TOPIC_DELETED,
            .topic_deleted =
                {
                    .id = ct->deleted[i].id,
                    .partitions_count = ct->deleted[i].partitions_count,
                },
        };
        snapshot_add(stream, &scratch, &command);
    }
    if (wbuf_failure(&scratch) != ERR_OK) {
        stream->failure = wbuf_failure(&scratch);
    }
    wbuf_done(&scratch);
}

void controller_check(const struct controller *ct)
{
    metadata_check(ct->image);
    uint64_t partitions_count = 0;
    uint64_t placed_count = 0;
    for (uint32_t i = 0; i < metadata_topics_count(ct->image); i++) {
        const struct topic *t = metadata_topic_at(ct->image, i);
        partitions_count += (uint64_t)t->partitions_count;
        assert_cmp(find_deleted(ct, &t->id), ==, ct->deleted_count);
    }
    assert_cmp(partitions_count, ==, ct->partitions_count);
    for (uint32_t i = 0; i < ct->directories_count; i++) {
        placed_count += ct->directories[i].partitions_count;
    }
    assert_cmp(placed_count, ==, ct->partitions_count);
    assert_cmp(ct->producer_id_next, >=, 0);
    assert_cmp(ct->feature_level, <=, FEATURE_LEVEL);
}

/* Two indexes over the same topics: an array sorted by name, because listings go in that order, and
 * an open-addressing table by id, because fetches ask by id. The table is kept at most half full.
 */
#include "cluster/metadata.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/internal_topics.h"
#include "cluster/memory.h"
#include "cluster/metadata_edit.h"
#include "cluster/placement.h"
#include "core/assert.h"

enum {
    TABLE_CAPACITY_MIN = 16,
    NODE_NAME_SIZE = 12,
};

struct metadata {
    const struct cluster_settings *settings;
    uint64_t hash_seed;
    uint16_t shards_count;
    int32_t leader_epoch;
    struct topic **by_name;
    uint32_t count;
    uint32_t by_name_capacity;
    struct topic **by_id; /* NULL = free slot. */
    uint32_t by_id_capacity;
    struct config_resources resources;
    char node_name[NODE_NAME_SIZE]; /* As its resource is called. */
};

struct metadata *
metadata_new(const struct cluster_settings *settings, uint64_t hash_seed, uint16_t shards_count)
{
    struct metadata *m = memory_alloc(sizeof(*m));
    *m = (struct metadata){
        .settings = settings,
        .hash_seed = hash_seed,
        .shards_count = shards_count,
        .by_name_capacity = TABLE_CAPACITY_MIN,
        .by_id_capacity = TABLE_CAPACITY_MIN,
    };
    (void)snprintf(m->node_name, sizeof(m->node_name), "%" PRId32, settings->node_id);
    m->by_name = memory_alloc_array(m->by_name_capacity, sizeof(struct topic *));
    m->by_id = memory_alloc_array(m->by_id_capacity, sizeof(struct topic *));
    return m;
}

static void drop_configs(struct topic *t)
{
    for (uint32_t i = 0; i < t->configs_count; i++) {
        free(t->configs[i].name);
        free(t->configs[i].value);
    }
    free(t->configs);
}

static void topic_free(struct topic *t)
{
    drop_configs(t);
    free(t->directories);
    free(t->directory_of);
    free(t);
}

void metadata_free(struct metadata *m)
{
    if (m == NULL) {
        return;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        topic_free(m->by_name[i]);
    }
    free(m->by_name);
    free(m->by_id);
    config_resources_done(&m->resources);
    free(m);
}

/* ---- by name ---- */

static int compare_name(const struct topic *t, struct slice name)
{
    return slice_compare(slice_of_string(t->name), name);
}

/* Index of the first topic whose name is not below. */
static uint32_t name_position(const struct metadata *m, struct slice name)
{
    uint32_t low = 0;
    uint32_t high = m->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_name(m->by_name[middle], name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct topic *metadata_topic_by_name(const struct metadata *m, struct slice name)
{
    if (name.size == 0) {
        return NULL;
    }
    uint32_t position = name_position(m, name);
    if (position == m->count || compare_name(m->by_name[position], name) != 0) {
        return NULL;
    }
    return m->by_name[position];
}

static void insert_by_name(struct metadata *m, struct topic *t)
{
    if (m->count == m->by_name_capacity) {
        m->by_name_capacity *= 2;
        m->by_name = memory_realloc_array(m->by_name, m->by_name_capacity, sizeof(struct topic *));
    }
    uint32_t position = name_position(m, slice_of_string(t->name));
    struct topic **at = &m->by_name[position];
    memmove(at + 1, at, (m->count - position) * sizeof(*at));
    *at = t;
    m->count++;
}

static void remove_by_name(struct metadata *m, const struct topic *t)
{
    uint32_t position = name_position(m, slice_of_string(t->name));
    struct topic **at = &m->by_name[position];
    assert(*at == t);
    m->count--;
    memmove(at, at + 1, (m->count - position) * sizeof(*at));
}

/* ---- by id ---- */

/* Ids are drawn by the controller, so that nobody can choose those that meet: mixing them a little
 * is enough. */
static uint32_t id_slot(const struct metadata *m, const struct uuid *id)
{
    uint64_t words[UUID_SIZE / sizeof(uint64_t)];
    memcpy(words, id->bytes, sizeof(words));
    const uint64_t hash = (words[0] ^ words[1] ^ m->hash_seed) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32) & (m->by_id_capacity - 1);
}

/* The slot that holds id, or the free one where it belongs. */
static uint32_t find_slot(const struct metadata *m, const struct uuid *id)
{
    uint32_t slot = id_slot(m, id);
    while (m->by_id[slot] != NULL && !uuid_equal(&m->by_id[slot]->id, id)) {
        slot = (slot + 1) & (m->by_id_capacity - 1);
    }
    return slot;
}

const struct topic *metadata_topic_by_id(const struct metadata *m, const struct uuid *id)
{
    return m->by_id[find_slot(m, id)];
}

static void insert_by_id(struct metadata *m, struct topic *t)
{
    if ((m->count + 1) * 2 > m->by_id_capacity) {
        free(m->by_id);
        m->by_id_capacity *= 2;
        m->by_id = memory_alloc_array(m->by_id_capacity, sizeof(struct topic *));
        for (uint32_t i = 0; i < m->count; i++) {
            m->by_id[find_slot(m, &m->by_name[i]->id)] = m->by_name[i];
        }
    }
    m->by_id[find_slot(m, &t->id)] = t;
}

/* Closes the gap by moving back what would no longer be found (Knuth, 6.4, algorithm R). */
static void remove_by_id(struct metadata *m, const struct uuid *id)
{
    const uint32_t mask = m->by_id_capacity - 1;
    uint32_t gap = find_slot(m, id);
    assert(m->by_id[gap] != NULL);
    uint32_t next = (gap + 1) & mask;
    while (m->by_id[next] != NULL) {
        uint32_t wanted = id_slot(m, &m->by_id[next]->id);
        bool can_move = ((next - wanted) & mask) >= ((next - gap) & mask);
        if (can_move) {
            m->by_id[gap] = m->by_id[next];
            gap = next;
        }
        next = (next + 1) & mask;
    }
    m->by_id[gap] = NULL;
}

/* ---- changes ---- */

void metadata_set_leader_epoch(struct metadata *m, int32_t leader_epoch)
{
    assert_cmp(leader_epoch, >=, m->leader_epoch);
    m->leader_epoch = leader_epoch;
}

static struct topic_config_entry *copy_configs(uint32_t count, struct slice bytes)
{
    struct rbuf configs = rbuf_over(bytes.data, bytes.size);
    struct topic_config_entry *entries = memory_alloc_array(count, sizeof(*entries));
    for (uint32_t i = 0; i < count; i++) {
        struct config_pair pair = command_next_config(&configs);
        entries[i].name = memory_copy_text(pair.name);
        entries[i].value = memory_copy_text(pair.value);
    }
    return entries;
}

/* Takes the configurations of a command, and what follows from them. */
static void
set_configs(const struct metadata *m, struct topic *t, uint32_t count, struct slice bytes)
{
    t->configs_count = count;
    t->configs = copy_configs(count, bytes);
    const struct topic_config_set set = metadata_topic_configs(m, t);
    topic_settings_derive(&set, &t->settings);
}

static void copy_directories(struct topic *t, const struct command_topic_created *created)
{
    t->directories_count = (uint32_t)(created->directories.size / UUID_SIZE);
    t->directories = memory_alloc_array(t->directories_count, sizeof(*t->directories));
    if (t->directories_count > 0) {
        memcpy(t->directories, created->directories.data, created->directories.size);
    }
    if (t->directories_count > 1) {
        assert_cmp(created->directory_of.size, ==, (size_t)t->partitions_count);
        t->directory_of = memory_alloc(created->directory_of.size);
        memcpy(t->directory_of, created->directory_of.data, created->directory_of.size);
    }
}

enum err metadata_add_topic(struct metadata *m,
                            const struct command_topic_created *created,
                            const struct topic **ret_topic)
{
    assert_cmp(created->name.size, <=, TOPIC_NAME_SIZE_MAX);
    if (metadata_topic_by_id(m, &created->id) != NULL ||
        metadata_topic_by_name(m, created->name) != NULL) {
        return ERR_EXISTS;
    }
    struct topic *t = memory_alloc(sizeof(*t));
    t->id = created->id;
    memcpy(t->name, created->name.data, created->name.size);
    t->is_internal =
        created->is_internal || internal_topic_find(m->settings, created->name) != NULL;
    t->partitions_count = created->partitions_count;
    t->replication_factor = created->replication_factor;
    set_configs(m, t, created->configs_count, created->configs);
    copy_directories(t, created);
    insert_by_id(m, t);
    insert_by_name(m, t);
    *ret_topic = t;
    return ERR_OK;
}

/* The number of a directory among the topic's, with which it may become one of them. */
static uint8_t number_directory(struct topic *t, const struct uuid *id)
{
    uint32_t i = 0;
    while (i < t->directories_count && !uuid_equal(&t->directories[i], id)) {
        i++;
    }
    if (i == t->directories_count) {
        assert_cmp(i, <, COMMAND_DIRECTORIES_MAX);
        t->directories = memory_realloc_array(t->directories, i + 1, sizeof(*t->directories));
        t->directories[i] = *id;
        t->directories_count++;
    }
    return (uint8_t)i;
}

static void add_directories(struct topic *t, const struct command_partitions_added *added)
{
    const uint32_t count = (uint32_t)(added->directories.size / UUID_SIZE);
    uint8_t numbers[COMMAND_DIRECTORIES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        struct uuid id;
        memcpy(&id, added->directories.data + (size_t)i * UUID_SIZE, UUID_SIZE);
        numbers[i] = number_directory(t, &id);
    }
    if (t->directories_count == 1) {
        return;
    }
    uint8_t *directory_of = memory_alloc((size_t)added->partitions_count);
    if (t->directory_of != NULL) {
        memcpy(directory_of, t->directory_of, (size_t)added->first);
    }
    for (int32_t p = added->first; p < added->partitions_count; p++) {
        directory_of[p] = numbers[count == 1 ? 0 : added->directory_of.data[p - added->first]];
    }
    free(t->directory_of);
    t->directory_of = directory_of;
}

uint32_t metadata_directories_with(const struct topic *t, struct slice directories)
{
    const uint32_t count = (uint32_t)(directories.size / UUID_SIZE);
    uint32_t all = t->directories_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = 0;
        const uint8_t *id = directories.data + (size_t)i * UUID_SIZE;
        while (j < t->directories_count && memcmp(t->directories[j].bytes, id, UUID_SIZE) != 0) {
            j++;
        }
        all += j == t->directories_count;
    }
    return all;
}

enum err metadata_add_partitions(struct metadata *m,
                                 const struct command_partitions_added *added,
                                 const struct topic **ret_topic)
{
    struct topic *t = m->by_id[find_slot(m, &added->id)];
    if (t == NULL) {
        return ERR_NOT_FOUND;
    }
    if (added->first != t->partitions_count ||
        metadata_directories_with(t, added->directories) > COMMAND_DIRECTORIES_MAX) {
        return ERR_INVALID;
    }
    add_directories(t, added);
    t->partitions_count = added->partitions_count;
    *ret_topic = t;
    return ERR_OK;
}

const struct topic *metadata_alter_topic(struct metadata *m,
                                         const struct command_configs_altered *altered)
{
    struct topic *t = m->by_id[find_slot(m, &altered->topic_id)];
    if (t != NULL) {
        drop_configs(t);
        set_configs(m, t, altered->configs_count, altered->configs);
    }
    return t;
}

void metadata_alter_resource(struct metadata *m, const struct command_configs_altered *altered)
{
    config_resources_set(&m->resources,
                         altered->resource,
                         altered->name,
                         copy_configs(altered->configs_count, altered->configs),
                         altered->configs_count);
}

const struct topic *metadata_derive_topic(struct metadata *m, uint32_t index)
{
    assert_cmp(index, <, m->count);
    struct topic *t = m->by_name[index];
    const struct topic_config_set set = metadata_topic_configs(m, t);
    topic_settings_derive(&set, &t->settings);
    return t;
}

bool metadata_remove_topic(struct metadata *m, const struct uuid *id)
{
    struct topic *t = m->by_id[find_slot(m, id)];
    if (t == NULL) {
        return false;
    }
    remove_by_id(m, id);
    remove_by_name(m, t);
    topic_free(t);
    return true;
}

/* ---- questions ---- */

const struct uuid *topic_directory(const struct topic *t, int32_t partition)
{
    assert_cmp(partition, >=, 0);
    assert_cmp(partition, <, t->partitions_count);
    return &t->directories[t->directory_of == NULL ? 0 : t->directory_of[partition]];
}

uint32_t metadata_topics_count(const struct metadata *m)
{
    return m->count;
}

const struct topic *metadata_topic_at(const struct metadata *m, uint32_t index)
{
    assert_cmp(index, <, m->count);
    return m->by_name[index];
}

uint16_t metadata_partition_shard(const struct metadata *m, const struct partition_id *id)
{
    return placement_shard(id, m->shards_count);
}

int32_t metadata_node_id(const struct metadata *m)
{
    return m->settings->node_id;
}

const struct uuid *metadata_cluster_id(const struct metadata *m)
{
    return &m->settings->cluster_id;
}

int32_t metadata_leader_epoch(const struct metadata *m)
{
    return m->leader_epoch;
}

struct topic_config_set metadata_topic_configs(const struct metadata *m, const struct topic *t)
{
    const struct config_resource_entry *own =
        config_resources_find(&m->resources, CONFIG_RESOURCE_BROKER, slice_of_string(m->node_name));
    const struct config_resource_entry *all =
        config_resources_find(&m->resources, CONFIG_RESOURCE_BROKER, slice_of_string(""));
    return (struct topic_config_set){
        .own = t == NULL ? NULL : t->configs,
        .own_count = t == NULL ? 0 : t->configs_count,
        .broker = own == NULL ? NULL : own->configs,
        .broker_count = own == NULL ? 0 : own->configs_count,
        .brokers = all == NULL ? NULL : all->configs,
        .brokers_count = all == NULL ? 0 : all->configs_count,
        .defaults = m->settings->topic_defaults,
        .defaults_count = m->settings->topic_defaults_count,
    };
}

const struct config_resources *metadata_config_resources(const struct metadata *m)
{
    return &m->resources;
}

const char *metadata_broker_config(const struct metadata *m, const char *name)
{
    const struct topic_config_set set = metadata_topic_configs(m, NULL);
    const char *value = topic_config_find(set.broker, set.broker_count, name);
    return value != NULL ? value : topic_config_find(set.brokers, set.brokers_count, name);
}

void metadata_check(const struct metadata *m)
{
    config_resources_check(&m->resources);
    for (uint32_t i = 0; i < m->count; i++) {
        const struct topic *t = m->by_name[i];
        assert(metadata_topic_by_id(m, &t->id) == t);
        assert(metadata_topic_by_name(m, slice_of_string(t->name)) == t);
        if (i > 0) {
            assert_cmp(compare_name(m->by_name[i - 1], slice_of_string(t->name)), <, 0);
        }
    }
    uint32_t used = 0;
    for (uint32_t slot = 0; slot < m->by_id_capacity; slot++) {
        used += m->by_id[slot] != NULL;
    }
    assert_cmp(used, ==, m->count);
}

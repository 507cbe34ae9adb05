#include "cluster/commands.h"

#include <string.h>

#include "core/assert.h"

enum {
    CONFIGS_MAX = 1024, /* Per topic; the table has far fewer. */
    RACK_SIZE_MAX = 1024,
    PARTITIONS_MAX = 1 << 20, /* Per topic; settings allow far fewer. */
};

static void put_text(struct wbuf *w, struct slice text)
{
    wbuf_uvarint(w, (uint32_t)text.size);
    wbuf_bytes(w, text.data, text.size);
}

static struct slice take_text(struct rbuf *r, uint32_t size_max)
{
    uint32_t size = rbuf_uvarint(r);
    if (size > size_max) {
        rbuf_fail(r, ERR_TOO_LARGE);
        size = 0;
    }
    struct slice text = rbuf_bytes(r, size);
    if (text.size > 0 && memchr(text.data, '\0', text.size) != NULL) {
        rbuf_fail(r, ERR_CORRUPT); /* It is kept as a C string. */
    }
    return text;
}

static int32_t take_partitions_count(struct rbuf *r)
{
    int32_t count = rbuf_i32(r);
    if (count <= 0 || count > PARTITIONS_MAX) {
        rbuf_fail(r, ERR_CORRUPT);
        return 0;
    }
    return count;
}

/* ---- configs ---- */

void command_encode_configs(const struct config_pair *pairs, uint32_t count, struct wbuf *w)
{
    for (uint32_t i = 0; i < count; i++) {
        put_text(w, pairs[i].name);
        put_text(w, pairs[i].value);
    }
}

void command_encode_entries(const struct topic_config_entry *entries,
                            uint32_t count,
                            struct wbuf *w)
{
    for (uint32_t i = 0; i < count; i++) {
        put_text(w, slice_of_string(entries[i].name));
        put_text(w, slice_of_string(entries[i].value));
    }
}

struct config_pair command_next_config(struct rbuf *configs)
{
    struct config_pair pair;
    pair.name = take_text(configs, TOPIC_NAME_SIZE_MAX);
    pair.value = take_text(configs, TOPIC_CONFIG_VALUE_SIZE_MAX);
    return pair;
}

static void put_configs(struct wbuf *w, uint32_t count, struct slice configs)
{
    wbuf_uvarint(w, count);
    wbuf_bytes(w, configs.data, configs.size);
}

static struct slice take_configs(struct rbuf *r, uint32_t *ret_count)
{
    const uint32_t count = rbuf_uvarint(r);
    if (count > CONFIGS_MAX) {
        rbuf_fail(r, ERR_TOO_LARGE);
        return (struct slice){0};
    }
    const uint8_t *configs = r->cursor;
    for (uint32_t i = 0; i < count; i++) {
        (void)command_next_config(r);
    }
    *ret_count = count;
    if (r->failure != ERR_OK) {
        return (struct slice){0};
    }
    return slice_of(configs, (size_t)(r->cursor - configs));
}

/* ---- directories ---- */

static void put_directories(struct wbuf *w, struct slice directories)
{
    assert_cmp(directories.size % UUID_SIZE, ==, 0);
    wbuf_uvarint(w, (uint32_t)(directories.size / UUID_SIZE));
    wbuf_bytes(w, directories.data, directories.size);
}

static struct slice take_directories(struct rbuf *r)
{
    uint32_t count = rbuf_uvarint(r);
    if (count == 0 || count > COMMAND_DIRECTORIES_MAX) {
        rbuf_fail(r, ERR_CORRUPT);
        count = 0;
    }
    return rbuf_bytes(r, (size_t)count * UUID_SIZE);
}

static struct slice
take_directory_of(struct rbuf *r, struct slice directories, int32_t partitions_count)
{
    const size_t count = directories.size / UUID_SIZE;
    if (r->failure != ERR_OK || count <= 1) {
        return (struct slice){0};
    }
    struct slice directory_of = rbuf_bytes(r, (size_t)partitions_count);
    for (size_t i = 0; i < directory_of.size; i++) {
        if (directory_of.data[i] >= count) {
            rbuf_fail(r, ERR_CORRUPT);
        }
    }
    return directory_of;
}

/* ---- topic created ---- */

static void encode_topic_created(const struct command_topic_created *topic, struct wbuf *w)
{
    wbuf_uuid(w, &topic->id);
    put_text(w, topic->name);
    wbuf_i32(w, topic->partitions_count);
    wbuf_i16(w, topic->replication_factor);
    wbuf_bool(w, topic->is_internal);
    put_directories(w, topic->directories);
    wbuf_bytes(w, topic->directory_of.data, topic->directory_of.size);
    put_configs(w, topic->configs_count, topic->configs);
}

static void decode_topic_created(struct rbuf *r, struct command_topic_created *topic)
{
    topic->id = rbuf_uuid(r);
    topic->name = take_text(r, TOPIC_NAME_SIZE_MAX);
    topic->partitions_count = take_partitions_count(r);
    topic->replication_factor = rbuf_i16(r);
    topic->is_internal = rbuf_bool(r);
    topic->directories = take_directories(r);
    topic->directory_of = take_directory_of(r, topic->directories, topic->partitions_count);
    topic->configs = take_configs(r, &topic->configs_count);
    if (topic->name.size == 0 || topic->replication_factor <= 0) {
        rbuf_fail(r, ERR_CORRUPT);
    }
}

/* ---- configs altered ---- */

static void encode_configs_altered(const struct command_configs_altered *altered, struct wbuf *w)
{
    wbuf_i8(w, (int8_t)altered->resource);
    if (altered->resource == CONFIG_RESOURCE_TOPIC) {
        wbuf_uuid(w, &altered->topic_id);
    } else {
        put_text(w, altered->name);
    }
    put_configs(w, altered->configs_count, altered->configs);
}

static void decode_configs_altered(struct rbuf *r, struct command_configs_altered *altered)
{
    altered->resource = (enum config_resource)rbuf_i8(r);
    switch (altered->resource) {
    case CONFIG_RESOURCE_TOPIC:
        altered->topic_id = rbuf_uuid(r);
        break;
    case CONFIG_RESOURCE_BROKER:
    case CONFIG_RESOURCE_CLIENT_METRICS:
    case CONFIG_RESOURCE_GROUP:
        altered->name = take_text(r, COMMAND_RESOURCE_NAME_SIZE_MAX);
        break;
    case CONFIG_RESOURCE_BROKER_LOGGER:
    default:
        if (r->failure == ERR_OK) {
            rbuf_fail(r, ERR_NEWER_FORMAT);
        }
    }
    altered->configs = take_configs(r, &altered->configs_count);
}

/* ---- partitions added ---- */

static void encode_partitions_added(const struct command_partitions_added *added, struct wbuf *w)
{
    wbuf_uuid(w, &added->id);
    wbuf_i32(w, added->first);
    wbuf_i32(w, added->partitions_count);
    put_directories(w, added->directories);
    wbuf_bytes(w, added->directory_of.data, added->directory_of.size);
}

static void decode_partitions_added(struct rbuf *r, struct command_partitions_added *added)
{
    added->id = rbuf_uuid(r);
    added->first = take_partitions_count(r);
    added->partitions_count = take_partitions_count(r);
    added->directories = take_directories(r);
    if (r->failure == ERR_OK && added->partitions_count <= added->first) {
        rbuf_fail(r, ERR_CORRUPT);
    }
    added->directory_of =
        take_directory_of(r, added->directories, added->partitions_count - added->first);
}

/* ---- commands ---- */

void command_encode(const struct command *command, struct wbuf *w)
{
    wbuf_i8(w, (int8_t)command->kind);
    wbuf_i8(w, COMMAND_VERSION);
    switch (command->kind) {
    case COMMAND_FEATURE_LEVEL:
        wbuf_u16(w, command->feature_level.level);
        wbuf_uuid(w, &command->feature_level.cluster_id);
        return;
    case COMMAND_NODE_REGISTERED:
        wbuf_i32(w, command->node.node_id);
        wbuf_uuid(w, &command->node.incarnation);
        put_text(w, command->node.rack);
        put_directories(w, command->node.directories);
        return;
    case COMMAND_TOPIC_CREATED:
        encode_topic_created(&command->topic_created, w);
        return;
    case COMMAND_TOPIC_DELETED:
        wbuf_uuid(w, &command->topic_deleted.id);
        wbuf_i32(w, command->topic_deleted.partitions_count);
        return;
    case COMMAND_TOPIC_PURGED:
        wbuf_uuid(w, &command->topic_purged.id);
        return;
    case COMMAND_PRODUCER_IDS:
        wbuf_i32(w, command->producer_ids.node_id);
        wbuf_i64(w, command->producer_ids.first);
        wbuf_i32(w, command->producer_ids.count);
        return;
    case COMMAND_PARTITIONS_ADDED:
        encode_partitions_added(&command->partitions_added, w);
        return;
    case COMMAND_CONFIGS_ALTERED:
        encode_configs_altered(&command->configs_altered, w);
        return;
    }
    assert(false && "no such command");
}

static void decode_fields(struct rbuf *r, struct command *command)
{
    switch (command->kind) {
    case COMMAND_FEATURE_LEVEL:
        command->feature_level.level = rbuf_u16(r);
        command->feature_level.cluster_id = rbuf_uuid(r);
        return;
    case COMMAND_NODE_REGISTERED:
        command->node.node_id = rbuf_i32(r);
        command->node.incarnation = rbuf_uuid(r);
        command->node.rack = take_text(r, RACK_SIZE_MAX);
        command->node.directories = take_directories(r);
        return;
    case COMMAND_TOPIC_CREATED:
        decode_topic_created(r, &command->topic_created);
        return;
    case COMMAND_TOPIC_DELETED:
        command->topic_deleted.id = rbuf_uuid(r);
        command->topic_deleted.partitions_count = take_partitions_count(r);
        return;
    case COMMAND_TOPIC_PURGED:
        command->topic_purged.id = rbuf_uuid(r);
        return;
    case COMMAND_PRODUCER_IDS:
        command->producer_ids.node_id = rbuf_i32(r);
        command->producer_ids.first = rbuf_i64(r);
        command->producer_ids.count = rbuf_i32(r);
        if (command->producer_ids.first < 0 || command->producer_ids.count <= 0) {
            rbuf_fail(r, ERR_CORRUPT);
        }
        return;
    case COMMAND_PARTITIONS_ADDED:
        decode_partitions_added(r, &command->partitions_added);
        return;
    case COMMAND_CONFIGS_ALTERED:
        decode_configs_altered(r, &command->configs_altered);
        return;
    }
    rbuf_fail(r, ERR_NEWER_FORMAT);
}

enum err command_decode(struct slice bytes, struct command *ret_command)
{
    struct rbuf r = rbuf_over(bytes.data, bytes.size);
    struct command command = {.kind = (enum command_kind)rbuf_i8(&r)};
    int8_t version = rbuf_i8(&r);
    if (r.failure == ERR_OK && version != COMMAND_VERSION) {
        return ERR_NEWER_FORMAT;
    }
    if (r.failure == ERR_OK) {
        decode_fields(&r, &command);
    }
    enum err e = rbuf_finish(&r);
    if (e == ERR_OK) {
        *ret_command = command;
    }
    return e;
}

/* ---- streams ---- */

void command_stream_add(struct wbuf *stream, struct slice command)
{
    wbuf_u32(stream, (uint32_t)command.size);
    wbuf_bytes(stream, command.data, command.size);
}

enum err command_stream_next(struct rbuf *stream, struct slice *ret_command)
{
    if (rbuf_left(stream) == 0) {
        return ERR_EOF;
    }
    uint32_t size = rbuf_u32(stream);
    struct slice command = rbuf_bytes(stream, size);
    if (stream->failure != ERR_OK) {
        return ERR_CORRUPT;
    }
    *ret_command = command;
    return ERR_OK;
}

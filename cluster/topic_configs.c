#include "cluster/topic_configs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/assert.h"
#include "core/edit_distance.h"
#include "storage/batch.h"

enum {
    NAME_SIZE_MAX = 64,          /* Of names compared for likeness. */
    MEMBER_SIZE_MAX = 64,        /* Of words shown in error texts. */
    MESSAGE_BYTES_MAX = 1 << 30, /* Above any entry: ENTRY_PAYLOAD_SIZE_MAX decides. */
};

#define NUMBER(name, type, effect, value, min, max, broker)                                       \
    {                                                                                             \
        (name), TOPIC_CONFIG_##type, TOPIC_CONFIG_##effect, (value), (min), (max), NULL, (broker) \
    }
#define WORDS(name, type, effect, value, choices, broker)                                      \
    {                                                                                          \
        (name), TOPIC_CONFIG_##type, TOPIC_CONFIG_##effect, (value), 0, 0, (choices), (broker) \
    }

#define LONG_MAX_TEXT "9223372036854775807"
#define CODECS        "uncompressed,zstd,lz4,snappy,gzip,producer"

/* CONFIGS.md, section 5, and ours, by name. coreflume.ack has no broker synonym: a topic is made
 * less safe by its own name only. Columns: default, range or words, broker synonym. A line each:
 * clang-format would break the rows apart. */
/* clang-format off */
static const struct topic_config table[] = {
    WORDS("cleanup.policy", LIST, HONOURED, "delete", "compact,delete", "log.cleanup.policy"),
    NUMBER("compression.gzip.level", INT, HONOURED, "-1", -1, 9, "compression.gzip.level"),
    NUMBER("compression.lz4.level", INT, HONOURED, "9", 1, 17, "compression.lz4.level"),
    WORDS("compression.type", STRING, HONOURED, "producer", CODECS, "compression.type"),
    NUMBER("compression.zstd.level", INT, HONOURED, "3", -131072, 22, "compression.zstd.level"),
    WORDS("coreflume.ack", STRING, HONOURED, "durable", "durable,memory", NULL),
    NUMBER("coreflume.retention.topic.bytes", LONG, HONOURED, "-1", -1, INT64_MAX, NULL),
    NUMBER("delete.retention.ms", LONG, HONOURED, "86400000", 0, INT64_MAX, "log.cleaner.delete.retention.ms"),
    NUMBER("file.delete.delay.ms", LONG, POINTLESS, "60000", 0, INT64_MAX, "log.segment.delete.delay.ms"),
    NUMBER("flush.messages", LONG, HONOURED, LONG_MAX_TEXT, 1, INT64_MAX, "log.flush.interval.messages"),
    NUMBER("flush.ms", LONG, HONOURED, LONG_MAX_TEXT, 0, INT64_MAX, "log.flush.interval.ms"),
    WORDS("follower.replication.throttled.replicas", LIST, PENDING, "", NULL, NULL),
    NUMBER("index.interval.bytes", INT, HONOURED, "4096", 0, INT32_MAX, "log.index.interval.bytes"),
    WORDS("leader.replication.throttled.replicas", LIST, PENDING, "", NULL, NULL),
    NUMBER("local.retention.bytes", LONG, PENDING, "-2", -2, INT64_MAX, "log.local.retention.bytes"),
    NUMBER("local.retention.ms", LONG, PENDING, "-2", -2, INT64_MAX, "log.local.retention.ms"),
    NUMBER("max.compaction.lag.ms", LONG, HONOURED, LONG_MAX_TEXT, 1, INT64_MAX, "log.cleaner.max.compaction.lag.ms"),
    NUMBER("max.message.bytes", INT, HONOURED, "1048588", 0, INT32_MAX, "message.max.bytes"),
    NUMBER("message.timestamp.after.max.ms", LONG, HONOURED, "3600000", 0, INT64_MAX, "log.message.timestamp.after.max.ms"),
    NUMBER("message.timestamp.before.max.ms", LONG, HONOURED, LONG_MAX_TEXT, 0, INT64_MAX, "log.message.timestamp.before.max.ms"),
    WORDS("message.timestamp.type", STRING, HONOURED, "CreateTime", "CreateTime,LogAppendTime", "log.message.timestamp.type"),
    WORDS("min.cleanable.dirty.ratio", DOUBLE, HONOURED, "0.5", NULL, "log.cleaner.min.cleanable.ratio"),
    NUMBER("min.compaction.lag.ms", LONG, HONOURED, "0", 0, INT64_MAX, "log.cleaner.min.compaction.lag.ms"),
    NUMBER("min.insync.replicas", INT, HONOURED, "1", 1, INT32_MAX, "min.insync.replicas"),
    WORDS("preallocate", BOOLEAN, POINTLESS, "false", NULL, "log.preallocate"),
    WORDS("remote.log.copy.disable", BOOLEAN, PENDING, "false", NULL, NULL),
    WORDS("remote.log.delete.on.disable", BOOLEAN, PENDING, "false", NULL, NULL),
    WORDS("remote.storage.enable", BOOLEAN, PENDING, "false", NULL, NULL),
    NUMBER("retention.bytes", LONG, HONOURED, "-1", INT64_MIN, INT64_MAX, "log.retention.bytes"),
    NUMBER("retention.ms", LONG, HONOURED, "604800000", -1, INT64_MAX, "log.retention.ms"),
    NUMBER("segment.bytes", INT, HONOURED, "1073741824", 1 << 20, INT32_MAX, "log.segment.bytes"),
    NUMBER("segment.index.bytes", INT, HONOURED, "10485760", 4, INT32_MAX, "log.index.size.max.bytes"),
    NUMBER("segment.jitter.ms", LONG, HONOURED, "0", 0, INT64_MAX, "log.roll.jitter.ms"),
    NUMBER("segment.ms", LONG, HONOURED, "604800000", 1, INT64_MAX, "log.roll.ms"),
    WORDS("unclean.leader.election.enable", BOOLEAN, POINTLESS, "false", NULL, "unclean.leader.election.enable"),
};
/* clang-format on */

enum { TABLE_COUNT = sizeof(table) / sizeof(table[0]) };

#define HOURS_MS   (INT64_C(3600) * 1000)
#define MINUTES_MS (INT64_C(60) * 1000)

/* clang-format off */
static const struct topic_config_secondary secondaries[] = {
    {"log.retention.ms", "log.retention.minutes", MINUTES_MS, TOPIC_CONFIG_INT, -1, INT32_MAX, NULL},
    {"log.retention.ms", "log.retention.hours", HOURS_MS, TOPIC_CONFIG_INT, -1, INT32_MAX, "168"},
    {"log.roll.ms", "log.roll.hours", HOURS_MS, TOPIC_CONFIG_INT, 1, INT32_MAX, "168"},
    {"log.roll.jitter.ms", "log.roll.jitter.hours", HOURS_MS, TOPIC_CONFIG_INT, 0, INT32_MAX, "0"},
    {"log.flush.interval.ms", "log.flush.scheduler.interval.ms", 1, TOPIC_CONFIG_LONG, 0, INT64_MAX, LONG_MAX_TEXT},
};
/* clang-format on */

const struct topic_config_secondary *topic_config_secondary(const char *broker_name, uint32_t index)
{
    for (size_t i = 0; i < sizeof(secondaries) / sizeof(secondaries[0]); i++) {
        if (strcmp(secondaries[i].broker_name, broker_name) == 0 && index-- == 0) {
            return &secondaries[i];
        }
    }
    return NULL;
}

const char *topic_config_primary(const char *name)
{
    for (size_t i = 0; i < sizeof(secondaries) / sizeof(secondaries[0]); i++) {
        if (strcmp(secondaries[i].name, name) == 0) {
            return secondaries[i].broker_name;
        }
    }
    return NULL;
}

uint32_t topic_configs_count(void)
{
    return TABLE_COUNT;
}

const struct topic_config *topic_config_at(uint32_t index)
{
    assert_cmp(index, <, TABLE_COUNT);
    return &table[index];
}

const struct topic_config *topic_config_by_name(struct slice name)
{
    uint32_t low = 0;
    uint32_t high = TABLE_COUNT;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = slice_compare(name, slice_of_string(table[middle].name));
        if (order == 0) {
            return &table[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

const char *
topic_config_find(const struct topic_config_entry *entries, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(entries[i].name, name) == 0) {
            return entries[i].value;
        }
    }
    return NULL;
}

const char *topic_config_effective(const struct topic_config_set *set,
                                   const struct topic_config *config,
                                   enum topic_config_source *ret_source)
{
    const char *value = topic_config_find(set->own, set->own_count, config->name);
    if (value != NULL) {
        *ret_source = TOPIC_CONFIG_SOURCE_TOPIC;
        return value;
    }
    if (config->broker_name != NULL) {
        value = topic_config_find(set->broker, set->broker_count, config->broker_name);
        if (value != NULL) {
            *ret_source = TOPIC_CONFIG_SOURCE_BROKER;
            return value;
        }
        value = topic_config_find(set->brokers, set->brokers_count, config->broker_name);
        if (value != NULL) {
            *ret_source = TOPIC_CONFIG_SOURCE_BROKERS;
            return value;
        }
    }
    value = topic_config_find(set->defaults, set->defaults_count, config->name);
    if (value != NULL) {
        *ret_source = TOPIC_CONFIG_SOURCE_BROKER_FILE;
        return value;
    }
    *ret_source = TOPIC_CONFIG_SOURCE_DEFAULT;
    return config->default_value;
}

/* ---- parsing ---- */

struct slice topic_config_trim(struct slice s)
{
    while (s.size > 0 && s.data[0] <= ' ') {
        s.data++;
        s.size--;
    }
    while (s.size > 0 && s.data[s.size - 1] <= ' ') {
        s.size--;
    }
    return s;
}

/* Decimal digits behind an optional sign, as Java's parser takes them. */
static bool parse_integer(struct slice text, int64_t *ret_number)
{
    bool is_negative = false;
    size_t i = 0;
    if (text.size > 0 && (text.data[0] == '-' || text.data[0] == '+')) {
        is_negative = text.data[0] == '-';
        i = 1;
    }
    if (i == text.size) {
        return false;
    }
    int64_t number = 0;
    for (; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        int64_t digit = text.data[i] - '0';
        /* Built up below zero: there is one more negative number than positive ones. */
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, digit, &number)) {
            return false;
        }
    }
    if (!is_negative && __builtin_sub_overflow(0, number, &number)) {
        return false;
    }
    *ret_number = number;
    return true;
}

bool topic_config_parse_number(struct slice text, int64_t *ret_number)
{
    return parse_integer(topic_config_trim(text), ret_number);
}

static bool parse_boolean(struct slice text, bool *ret_value)
{
    if (text.size == 4 && strncasecmp((const char *)text.data, "true", 4) == 0) {
        *ret_value = true;
        return true;
    }
    if (text.size == 5 && strncasecmp((const char *)text.data, "false", 5) == 0) {
        *ret_value = false;
        return true;
    }
    return false;
}

static bool parse_ratio(struct slice text, double *ret_value)
{
    char copy[32];
    if (text.size == 0 || text.size >= sizeof(copy)) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (memchr("0123456789+-.eE", text.data[i], 15) == NULL) {
            return false; /* strtod also takes hexadecimal, infinities and blanks. */
        }
    }
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    char *end;
    double value = strtod(copy, &end);
    if (*end != '\0') {
        return false;
    }
    *ret_value = value;
    return true;
}

bool topic_config_next_member(struct slice *list, struct slice *ret_member)
{
    if (list->data == NULL) {
        return false;
    }
    const uint8_t *comma = memchr(list->data, ',', list->size);
    if (comma == NULL) {
        *ret_member = topic_config_trim(*list);
        *list = (struct slice){0};
        return true;
    }
    size_t size = (size_t)(comma - list->data);
    *ret_member = topic_config_trim(slice_of(list->data, size));
    *list = slice_of(comma + 1, list->size - size - 1);
    return true;
}

bool topic_config_has_member(struct slice list, struct slice word)
{
    struct slice member;
    while (topic_config_next_member(&list, &member)) {
        if (slice_equal(member, word)) {
            return true;
        }
    }
    return false;
}

static bool is_choice(const char *choices, struct slice word)
{
    return topic_config_has_member(slice_of_string(choices), word);
}

static bool list_contains(const char *text, const char *word)
{
    return is_choice(text, slice_of_string(word));
}

/* ---- error texts ---- */

static enum err
say_invalid(const struct topic_config *config, struct slice value, const char *what, char *why)
{
    (void)snprintf(why,
                   TOPIC_CONFIG_WHY_SIZE,
                   "Invalid value %.*s for configuration %s: %s",
                   slice_shown(value, MEMBER_SIZE_MAX),
                   value.size == 0 ? "" : (const char *)value.data,
                   config->name,
                   what);
    return ERR_CONFIG_INVALID;
}

/* NULL if nothing is near enough to be meant. */
static const char *nearest_name(struct slice name)
{
    char text[NAME_SIZE_MAX + 1] = "";
    if (name.size > NAME_SIZE_MAX) {
        return NULL;
    }
    if (name.size > 0) {
        memcpy(text, name.data, name.size);
    }
    const char *nearest = NULL;
    size_t distance_min = name.size / 3 + 2;
    for (uint32_t i = 0; i < TABLE_COUNT; i++) {
        const size_t distance = edit_distance(text, table[i].name);
        if (distance < distance_min) {
            distance_min = distance;
            nearest = table[i].name;
        }
    }
    return nearest;
}

static enum err say_unknown(struct slice name, char *why)
{
    const char *nearest = nearest_name(name);
    (void)snprintf(why,
                   TOPIC_CONFIG_WHY_SIZE,
                   "Unknown topic config name: %.*s%s%s%s",
                   slice_shown(name, MEMBER_SIZE_MAX),
                   name.size == 0 ? "" : (const char *)name.data,
                   nearest == NULL ? "" : " (did you mean ",
                   nearest == NULL ? "" : nearest,
                   nearest == NULL ? "" : "?)");
    return ERR_CONFIG_INVALID;
}

/* ---- validation ---- */

static enum err check_integer(const struct topic_config *config, struct slice value, char *why)
{
    const bool is_int = config->type == TOPIC_CONFIG_INT;
    int64_t number;
    if (!parse_integer(value, &number) || (is_int && (number < INT32_MIN || number > INT32_MAX))) {
        return say_invalid(
            config, value, is_int ? "Not a number of type INT" : "Not a number of type LONG", why);
    }
    const bool is_in_range = number >= config->min && number <= config->max;
    if ((!is_in_range || number == 0) && strcmp(config->name, "compression.gzip.level") == 0) {
        return say_invalid(config, value, "Value must be between 1 and 9 or equal to -1", why);
    }
    char what[64];
    if (number < config->min) {
        (void)snprintf(what, sizeof(what), "Value must be at least %" PRId64, config->min);
        return say_invalid(config, value, what, why);
    }
    if (number > config->max) {
        (void)snprintf(what, sizeof(what), "Value must be no more than %" PRId64, config->max);
        return say_invalid(config, value, what, why);
    }
    return ERR_OK;
}

static enum err check_word(const struct topic_config *config, struct slice value, char *why)
{
    if (config->choices == NULL || is_choice(config->choices, value)) {
        return ERR_OK;
    }
    char what[128] = "String must be one of: ";
    size_t size = strlen(what);
    for (const char *at = config->choices; *at != '\0' && size + 2 < sizeof(what); at++) {
        what[size++] = *at;
        if (*at == ',') {
            what[size++] = ' ';
        }
    }
    what[size] = '\0';
    return say_invalid(config, value, what, why);
}

static bool is_digits(struct slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
    }
    return text.size > 0;
}

/* partition:broker */
static bool is_throttled_replica(struct slice member)
{
    const uint8_t *colon = memchr(member.data, ':', member.size);
    if (colon == NULL) {
        return false;
    }
    size_t size = (size_t)(colon - member.data);
    return is_digits(slice_of(member.data, size)) &&
           is_digits(slice_of(colon + 1, member.size - size - 1));
}

static enum err check_list(const struct topic_config *config, struct slice value, char *why)
{
    if (value.size == 0 || (config->choices == NULL && slice_equal_string(value, "*"))) {
        return ERR_OK;
    }
    struct slice list = value;
    struct slice member;
    while (topic_config_next_member(&list, &member)) {
        if (member.size == 0) {
            (void)snprintf(why,
                           TOPIC_CONFIG_WHY_SIZE,
                           "Configuration '%s' values must not be empty.",
                           config->name);
            return ERR_CONFIG_INVALID;
        }
        if (config->choices != NULL && config->choices[0] != '\0') {
            enum err e = check_word(config, member, why);
            if (e != ERR_OK) {
                return e;
            }
        } else if (config->choices == NULL && !is_throttled_replica(member)) {
            (void)snprintf(why,
                           TOPIC_CONFIG_WHY_SIZE,
                           "Invalid value [%.*s] for configuration %s: %s must be the literal '*' "
                           "or a list of replicas in the following format: "
                           "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
                           slice_shown(value, MEMBER_SIZE_MAX),
                           (const char *)value.data,
                           config->name,
                           config->name);
            return ERR_CONFIG_INVALID;
        }
    }
    return ERR_OK;
}

static enum err check_ratio(const struct topic_config *config, struct slice value, char *why)
{
    double ratio;
    if (!parse_ratio(value, &ratio)) {
        return say_invalid(config, value, "Not a number of type DOUBLE", why);
    }
    if (ratio < 0) {
        return say_invalid(config, value, "Value must be at least 0", why);
    }
    if (ratio > 1 && config->max == 0) {
        return say_invalid(config, value, "Value must be no more than 1", why);
    }
    return ERR_OK;
}

enum err topic_config_check(const struct config_pair *pair, char why[TOPIC_CONFIG_WHY_SIZE])
{
    const struct topic_config *config = topic_config_by_name(pair->name);
    if (config == NULL) {
        return say_unknown(pair->name, why);
    }
    if (slice_is_null(pair->value)) {
        (void)snprintf(why,
                       TOPIC_CONFIG_WHY_SIZE,
                       "Null value not supported for topic configs: %s",
                       config->name);
        return ERR_CONFIG_INVALID;
    }
    return topic_config_check_value(config, pair->value, why);
}

enum err topic_config_check_value(const struct topic_config *config,
                                  struct slice given,
                                  char why[TOPIC_CONFIG_WHY_SIZE])
{
    if (given.size > TOPIC_CONFIG_VALUE_SIZE_MAX) {
        return say_invalid(config, given, "Longer than 32767 characters", why);
    }
    if (given.size > 0 && memchr(given.data, '\0', given.size) != NULL) {
        return say_invalid(config, slice_of_string(""), "Contains a NUL character", why);
    }
    const struct slice value = topic_config_trim(given);
    bool flag;
    switch (config->type) {
    case TOPIC_CONFIG_BOOLEAN:
        return parse_boolean(value, &flag)
                   ? ERR_OK
                   : say_invalid(config, value, "Expected value to be either true or false", why);
    case TOPIC_CONFIG_INT:
    case TOPIC_CONFIG_LONG:
        return check_integer(config, value, why);
    case TOPIC_CONFIG_DOUBLE:
        return check_ratio(config, value, why);
    case TOPIC_CONFIG_STRING:
        return check_word(config, value, why);
    case TOPIC_CONFIG_LIST:
        return check_list(config, value, why);
    }
    assert(false && "the table has no other type");
    return ERR_CONFIG_INVALID;
}

/* ---- values in effect ---- */

static const struct topic_config *known(const char *name)
{
    const struct topic_config *config = topic_config_by_name(slice_of_string(name));
    assert(config != NULL);
    return config;
}

static const char *effective_text(const struct topic_config_set *set, const char *name)
{
    enum topic_config_source source;
    return topic_config_effective(set, known(name), &source);
}

/* A value was checked when it was set, but it came back from a disk: what cannot be parsed counts
 * as not set. */
int64_t topic_config_number(const struct topic_config *config, const char *value)
{
    char why[TOPIC_CONFIG_WHY_SIZE];
    int64_t number = 0;
    struct slice text = topic_config_trim(slice_of_string(value));
    if (check_integer(config, text, why) != ERR_OK) {
        text = slice_of_string(config->default_value);
    }
    bool is_number = parse_integer(text, &number);
    assert(is_number);
    return number;
}

static int64_t effective_integer(const struct topic_config_set *set, const char *name)
{
    return topic_config_number(known(name), effective_text(set, name));
}

static bool effective_boolean(const struct topic_config_set *set, const char *name)
{
    bool value = false;
    (void)parse_boolean(topic_config_trim(slice_of_string(effective_text(set, name))), &value);
    return value;
}

enum err topic_config_check_set(const struct topic_config_set *set, char why[TOPIC_CONFIG_WHY_SIZE])
{
    int64_t lag_min = effective_integer(set, "min.compaction.lag.ms");
    int64_t lag_max = effective_integer(set, "max.compaction.lag.ms");
    if (lag_min > lag_max) {
        (void)snprintf(why,
                       TOPIC_CONFIG_WHY_SIZE,
                       "conflict topic config setting min.compaction.lag.ms (%" PRId64
                       ") > max.compaction.lag.ms (%" PRId64 ")",
                       lag_min,
                       lag_max);
        return ERR_CONFIG_INVALID;
    }
    if (effective_boolean(set, "remote.storage.enable")) {
        (void)snprintf(why,
                       TOPIC_CONFIG_WHY_SIZE,
                       "Tiered Storage functionality is disabled in the broker. Topic cannot be "
                       "configured with remote log storage.");
        return ERR_CONFIG_INVALID;
    }
    return ERR_OK;
}

/* compression.type and the level that belongs to it. */
static void derive_codec(const struct topic_config_set *set, struct topic_settings *settings)
{
    static const struct {
        const char *word;
        enum batch_codec codec;
        const char *level;
    } codecs[] = {
        {"uncompressed", CODEC_NONE, NULL},
        {"gzip", CODEC_GZIP, "compression.gzip.level"},
        {"snappy", CODEC_SNAPPY, NULL},
        {"lz4", CODEC_LZ4, "compression.lz4.level"},
        {"zstd", CODEC_ZSTD, "compression.zstd.level"},
    };
    const struct slice word =
        topic_config_trim(slice_of_string(effective_text(set, "compression.type")));
    settings->codec = TOPIC_CODEC_PRODUCER;
    settings->codec_level = 0;
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        if (slice_equal_string(word, codecs[i].word)) {
            settings->codec = (int8_t)codecs[i].codec;
            if (codecs[i].level != NULL) {
                settings->codec_level = (int32_t)effective_integer(set, codecs[i].level);
            }
        }
    }
}

static void derive_compaction(const struct topic_config_set *set, struct compaction_config *config)
{
    const char *name = "min.cleanable.dirty.ratio";
    double ratio;
    if (!parse_ratio(topic_config_trim(slice_of_string(effective_text(set, name))), &ratio)) {
        bool is_ratio = parse_ratio(slice_of_string(known(name)->default_value), &ratio);
        assert(is_ratio);
    }
    *config = (struct compaction_config){
        .is_compacted = list_contains(effective_text(set, "cleanup.policy"), "compact"),
        .dirty_ratio_min = ratio,
        .lag_ms_min = effective_integer(set, "min.compaction.lag.ms"),
        .lag_ms_max = effective_integer(set, "max.compaction.lag.ms"),
        .delete_retention_ms = effective_integer(set, "delete.retention.ms"),
    };
}

/* What is to be compacted by then has to be in a closed segment by then. */
static int64_t derive_segment_age(const struct topic_config_set *set)
{
    const int64_t age_max = effective_integer(set, "segment.ms");
    const int64_t lag_max = effective_integer(set, "max.compaction.lag.ms");
    const bool is_compacted = list_contains(effective_text(set, "cleanup.policy"), "compact");
    return is_compacted && lag_max < age_max ? lag_max : age_max;
}

void topic_settings_derive(const struct topic_config_set *set, struct topic_settings *ret_settings)
{
    int64_t message_size_max = effective_integer(set, "max.message.bytes");
    if (message_size_max > MESSAGE_BYTES_MAX) {
        message_size_max = MESSAGE_BYTES_MAX;
    }
    const char *timestamp_type = effective_text(set, "message.timestamp.type");
    *ret_settings = (struct topic_settings){
        .message_size_max = (uint32_t)message_size_max,
        .is_compacted = list_contains(effective_text(set, "cleanup.policy"), "compact"),
        .is_deleted = list_contains(effective_text(set, "cleanup.policy"), "delete"),
        .retention_ms = effective_integer(set, "retention.ms"),
        .retention_size_max = effective_integer(set, "retention.bytes"),
        .topic_size_max = effective_integer(set, "coreflume.retention.topic.bytes"),
        .is_log_append_time = list_contains(timestamp_type, "LogAppendTime"),
        .timestamp_before_ms_max = effective_integer(set, "message.timestamp.before.max.ms"),
        .timestamp_after_ms_max = effective_integer(set, "message.timestamp.after.max.ms"),
        .replicas_min = (uint32_t)effective_integer(set, "min.insync.replicas"),
        .segment_size_max = (uint64_t)effective_integer(set, "segment.bytes"),
        .segment_age_ms_max = derive_segment_age(set),
        .segment_jitter_ms_max = effective_integer(set, "segment.jitter.ms"),
        .index_size_max = (uint64_t)effective_integer(set, "segment.index.bytes"),
        .index_interval = (uint32_t)effective_integer(set, "index.interval.bytes"),
        .is_ack_memory = list_contains(effective_text(set, "coreflume.ack"), "memory"),
        .unflushed_records_max = effective_integer(set, "flush.messages"),
        .unflushed_ms_max = effective_integer(set, "flush.ms"),
    };
    derive_codec(set, ret_settings);
    derive_compaction(set, &ret_settings->compaction);
}

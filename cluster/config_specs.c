#include "cluster/config_specs.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "core/pattern.h"

#define NUMBER(name, type, value, min, max)                                                  \
    {                                                                                        \
        (name), TOPIC_CONFIG_##type, TOPIC_CONFIG_PENDING, (value), (min), (max), NULL, NULL \
    }
#define WORDS(name, type, value, choices)                                                         \
    {                                                                                             \
        (name), TOPIC_CONFIG_##type, TOPIC_CONFIG_PENDING, (value), 0, INT64_MAX, (choices), NULL \
    }
#define GROUP(name, type, value, min, max, choices)                                          \
    {                                                                                        \
        (name), TOPIC_CONFIG_##type, TOPIC_CONFIG_PENDING, (value), (min), (max), (choices), \
            "group." name                                                                    \
    }

#define LONG_MAX_TEXT   "9223372036854775807"
#define DOUBLE_MAX_TEXT "1.7976931348623157E308"

/* clang-format off */
/* A broker's, beside the synonyms of topics' configurations. */
static const struct topic_config of_broker[] = {
    NUMBER("background.threads", INT, "10", 1, INT32_MAX),
    WORDS("config.providers", LIST, "", ""),
    WORDS("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false", NULL),
    NUMBER("follower.replication.throttled.rate", LONG, LONG_MAX_TEXT, 0, INT64_MAX),
    NUMBER("group.consumer.assignment.interval.ms", INT, "1000", 0, INT32_MAX),
    NUMBER("group.coordinator.cached.buffer.max.bytes", INT, "1048588", 524288, INT32_MAX),
    NUMBER("group.share.assignment.interval.ms", INT, "1000", 0, INT32_MAX),
    NUMBER("group.streams.assignment.interval.ms", INT, "1000", 0, INT32_MAX),
    NUMBER("leader.replication.throttled.rate", LONG, LONG_MAX_TEXT, 0, INT64_MAX),
    NUMBER("log.cleaner.backoff.ms", LONG, "15000", 0, INT64_MAX / 1000 / 100),
    NUMBER("log.cleaner.dedupe.buffer.size", LONG, "134217728", 1 << 20, INT64_MAX),
    WORDS("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9", NULL),
    NUMBER("log.cleaner.io.buffer.size", INT, "524288", 0, INT32_MAX),
    WORDS("log.cleaner.io.max.bytes.per.second", DOUBLE, DOUBLE_MAX_TEXT, NULL),
    NUMBER("log.cleaner.threads", INT, "1", 1, INT32_MAX),
    NUMBER("max.connection.creation.rate", INT, "2147483647", 0, INT32_MAX),
    NUMBER("max.connections", INT, "100000", 1, INT32_MAX),
    NUMBER("max.connections.per.ip", INT, "2147483647", 0, INT32_MAX),
    WORDS("max.connections.per.ip.overrides", STRING, "", NULL),
    WORDS("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", ""),
    NUMBER("num.io.threads", INT, "8", 1, INT32_MAX),
    NUMBER("num.network.threads", INT, "3", 1, INT32_MAX),
    NUMBER("num.recovery.threads.per.data.dir", INT, "2", 1, INT32_MAX),
    NUMBER("num.replica.fetchers", INT, "1", 1, INT32_MAX),
    NUMBER("producer.id.expiration.ms", INT, "86400000", 1, INT32_MAX),
    NUMBER("remote.fetch.max.wait.ms", INT, "500", 1, INT32_MAX),
    NUMBER("remote.list.offsets.request.timeout.ms", LONG, "30000", 1, INT64_MAX),
    NUMBER("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824", 1, INT64_MAX),
    NUMBER("remote.log.manager.copier.thread.pool.size", INT, "10", 1, INT32_MAX),
    NUMBER("remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX_TEXT, 1, INT64_MAX),
    NUMBER("remote.log.manager.expiration.thread.pool.size", INT, "10", 1, INT32_MAX),
    NUMBER("remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX_TEXT, 1, INT64_MAX),
    NUMBER("remote.log.manager.follower.thread.pool.size", INT, "2", 1, INT32_MAX),
    NUMBER("remote.log.reader.threads", INT, "10", 1, INT32_MAX),
    NUMBER("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX_TEXT, 0, INT64_MAX),
    NUMBER("share.coordinator.cached.buffer.max.bytes", INT, "1048588", 524288, INT32_MAX),
    WORDS("transaction.partition.verification.enable", BOOLEAN, "true", NULL),
};

static const struct topic_config of_group[] = {
    GROUP("consumer.assignment.interval.ms", INT, "1000", 0, INT32_MAX, NULL),
    GROUP("consumer.heartbeat.interval.ms", INT, "5000", 1, INT32_MAX, NULL),
    GROUP("consumer.session.timeout.ms", INT, "45000", 1, INT32_MAX, NULL),
    GROUP("share.assignment.interval.ms", INT, "1000", 0, INT32_MAX, NULL),
    GROUP("share.auto.offset.reset", STRING, "latest", 0, 0, NULL),
    GROUP("share.delivery.count.limit", INT, "5", 2, INT32_MAX, NULL),
    GROUP("share.heartbeat.interval.ms", INT, "5000", 1, INT32_MAX, NULL),
    {"share.isolation.level", TOPIC_CONFIG_STRING, TOPIC_CONFIG_PENDING, "read_uncommitted", 0, 0, "read_committed,read_uncommitted", "share.isolation.level"},
    GROUP("share.partition.max.record.locks", INT, "2000", 100, INT32_MAX, NULL),
    GROUP("share.record.lock.duration.ms", INT, "30000", 1000, INT32_MAX, NULL),
    GROUP("share.renew.acknowledge.enable", BOOLEAN, "true", 0, 0, NULL),
    GROUP("share.session.timeout.ms", INT, "45000", 1, INT32_MAX, NULL),
    GROUP("streams.assignment.interval.ms", INT, "1000", 0, INT32_MAX, NULL),
    GROUP("streams.heartbeat.interval.ms", INT, "5000", 1, INT32_MAX, NULL),
    GROUP("streams.initial.rebalance.delay.ms", INT, "3000", 0, INT32_MAX, NULL),
    GROUP("streams.num.standby.replicas", INT, "0", 0, INT32_MAX, NULL),
    GROUP("streams.session.timeout.ms", INT, "45000", 1, INT32_MAX, NULL),
};

static const struct topic_config of_client_metrics[] = {
    NUMBER("interval.ms", INT, "300000", INT32_MIN, INT32_MAX),
    WORDS("match", LIST, "", ""),
    WORDS("metrics", LIST, "", ""),
};

/* What the broker lets groups ask for: the defaults of Kafka's group.*.min.* and group.*.max.*. */
static const struct group_limit {
    const char *name;
    int64_t min;
    const char *min_name; /* NULL = there is none. */
    int64_t max;
    const char *max_name;
} group_limits[] = {
    {"consumer.assignment.interval.ms", 0, "group.consumer.min.assignment.interval.ms", 15000, "group.consumer.max.assignment.interval.ms"},
    {"consumer.heartbeat.interval.ms", 5000, "group.consumer.min.heartbeat.interval.ms", 15000, "group.consumer.max.heartbeat.interval.ms"},
    {"consumer.session.timeout.ms", 45000, "group.consumer.min.session.timeout.ms", 60000, "group.consumer.max.session.timeout.ms"},
    {"share.assignment.interval.ms", 0, NULL, 15000, "group.share.max.assignment.interval.ms"},
    {"share.delivery.count.limit", 2, NULL, 10, "group.share.max.delivery.count.limit"},
    {"share.heartbeat.interval.ms", 5000, "group.share.min.heartbeat.interval.ms", 15000, "group.share.max.heartbeat.interval.ms"},
    {"share.partition.max.record.locks", 100, NULL, 4000, "group.share.max.partition.max.record.locks"},
    {"share.record.lock.duration.ms", 15000, "group.share.min.record.lock.duration.ms", 60000, "group.share.max.record.lock.duration.ms"},
    {"share.session.timeout.ms", 45000, "group.share.min.session.timeout.ms", 60000, "group.share.max.session.timeout.ms"},
    {"streams.assignment.interval.ms", 0, NULL, 15000, "group.streams.max.assignment.interval.ms"},
    {"streams.heartbeat.interval.ms", 5000, "group.streams.min.heartbeat.interval.ms", 15000, "group.streams.max.heartbeat.interval.ms"},
    {"streams.num.standby.replicas", 0, NULL, 2, "group.streams.max.standby.replicas"},
    {"streams.session.timeout.ms", 45000, "group.streams.min.session.timeout.ms", 60000, "group.streams.max.session.timeout.ms"},
};

/* Where Kafka says more than "at least" of a broker's number below the range of topics. */
static const struct {
    const char *name;
    int64_t min;
    const char *text;
} requirements[] = {
    {"log.cleaner.dedupe.buffer.size", 1 << 20, "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."},
    {"log.roll.jitter.ms", 0, "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"},
    {"log.roll.ms", 1, "requirement failed: log.roll.ms must be greater than or equal to 1"},
};
/* clang-format on */

#define COUNT(table) ((uint32_t)(sizeof(table) / sizeof((table)[0])))

/* ---- names ---- */

static const struct topic_config *table_of(enum config_resource kind, uint32_t *ret_count)
{
    switch (kind) {
    case CONFIG_RESOURCE_BROKER:
        *ret_count = COUNT(of_broker);
        return of_broker;
    case CONFIG_RESOURCE_GROUP:
        *ret_count = COUNT(of_group);
        return of_group;
    case CONFIG_RESOURCE_CLIENT_METRICS:
        *ret_count = COUNT(of_client_metrics);
        return of_client_metrics;
    case CONFIG_RESOURCE_TOPIC:
    case CONFIG_RESOURCE_BROKER_LOGGER:
        break;
    }
    *ret_count = 0;
    return NULL;
}

uint32_t config_specs_count(enum config_resource kind)
{
    uint32_t count;
    (void)table_of(kind, &count);
    return count;
}

const struct topic_config *config_spec_at(enum config_resource kind, uint32_t index)
{
    uint32_t count;
    const struct topic_config *table = table_of(kind, &count);
    assert_cmp(index, <, count);
    return &table[index];
}

/* A topic's configuration by its broker synonym, with the name and the default of that. */
static bool find_synonym(struct slice name, struct topic_config *ret_spec)
{
    for (uint32_t i = 0; i < topic_configs_count(); i++) {
        const struct topic_config *c = topic_config_at(i);
        if (c->broker_name != NULL && slice_equal_string(name, c->broker_name)) {
            *ret_spec = *c;
            ret_spec->name = c->broker_name;
            ret_spec->broker_name = NULL;
            if (topic_config_secondary(c->broker_name, 0) != NULL) {
                ret_spec->default_value = NULL;
            }
            return true;
        }
    }
    return false;
}

bool config_spec_find(enum config_resource kind, struct slice name, struct topic_config *ret_spec)
{
    if (kind == CONFIG_RESOURCE_TOPIC) {
        const struct topic_config *c = topic_config_by_name(name);
        if (c != NULL) {
            *ret_spec = *c;
        }
        return c != NULL;
    }
    uint32_t count;
    const struct topic_config *table = table_of(kind, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (slice_equal_string(name, table[i].name)) {
            *ret_spec = table[i];
            return true;
        }
    }
    return kind == CONFIG_RESOURCE_BROKER && find_synonym(name, ret_spec);
}

/* ---- values ---- */

[[gnu::format(printf, 3, 4)]] static enum err
say(enum err e, char why[TOPIC_CONFIG_WHY_SIZE], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, TOPIC_CONFIG_WHY_SIZE, format, args);
    va_end(args);
    return e;
}

static bool has_nul(struct slice text)
{
    return text.size > 0 && memchr(text.data, '\0', text.size) != NULL;
}

/* False: it is none, which others say. */
static bool parse(const struct topic_config *spec, struct slice value, int64_t *ret_number)
{
    const bool is_number = spec->type == TOPIC_CONFIG_INT || spec->type == TOPIC_CONFIG_LONG;
    return is_number && topic_config_parse_number(value, ret_number);
}

static enum err check_broker_value(const struct topic_config *spec, struct slice value, char *why)
{
    int64_t number;
    if (parse(spec, value, &number)) {
        for (uint32_t i = 0; i < COUNT(requirements); i++) {
            if (strcmp(requirements[i].name, spec->name) == 0 && number < requirements[i].min) {
                return say(ERR_INVALID, why, "%s", requirements[i].text);
            }
        }
        if (strcmp(spec->name, "log.retention.ms") == 0 && (number < -1 || number == 0)) {
            return say(ERR_INVALID,
                       why,
                       "requirement failed: log.retention.ms must be unlimited (-1) or, greater "
                       "than or equal to 1");
        }
    }
    return topic_config_check_value(spec, value, why) == ERR_OK ? ERR_OK : ERR_INVALID;
}

static enum err check_broker(const struct config_pair *pair, char *why)
{
    struct topic_config spec;
    if (config_spec_find(CONFIG_RESOURCE_BROKER, pair->name, &spec)) {
        return check_broker_value(&spec, pair->value, why);
    }
    if (has_nul(pair->name) || has_nul(pair->value) || pair->name.size > TOPIC_NAME_SIZE_MAX) {
        return say(ERR_INVALID,
                   why,
                   "A name of a configuration has at most %d characters, and no NUL.",
                   TOPIC_NAME_SIZE_MAX);
    }
    return ERR_OK;
}

/* ISO 8601 as java.time.Duration has it, without a sign: PnDTnHnMn.nS, each part optional, one at
 * least, and one behind the T if there is a T. */
static bool is_duration(struct slice text)
{
    static const char units[] = "DTHMS";
    const char *at = (const char *)text.data;
    const char *end = at + text.size;
    if (text.size < 2 || *at++ != 'P') {
        return false;
    }
    size_t from = 0; /* In units. */
    bool is_part_due = true;
    while (at < end) {
        if (*at == 'T') {
            if (from > 1) {
                return false;
            }
            from = 2;
            is_part_due = true;
            at++;
            continue;
        }
        const char *digits = at;
        bool has_point = false;
        while (at < end && ((*at >= '0' && *at <= '9') || (*at == '.' && !has_point))) {
            has_point = has_point || *at == '.';
            at++;
        }
        if (at == digits || *digits == '.' || at == end) {
            return false;
        }
        const char *unit = strchr(units + from, *at);
        const bool is_misplaced = from < 2 && *at != 'D';
        if (unit == NULL || *at == '\0' || is_misplaced || (has_point && *at != 'S')) {
            return false;
        }
        from = (size_t)(unit - units) + 1;
        is_part_due = false;
        at++;
    }
    return !is_part_due;
}

static enum err check_offset_reset(struct slice value, char *why)
{
    static const char by_duration[] = "by_duration:";
    const size_t size = strlen(by_duration);
    if (slice_equal_string(value, "latest") || slice_equal_string(value, "earliest")) {
        return ERR_OK;
    }
    if (value.size > size && memcmp(value.data, by_duration, size) == 0 &&
        is_duration(slice_rest(value, size))) {
        return ERR_OK;
    }
    return say(ERR_CONFIG_INVALID,
               why,
               "Invalid value %.*s for configuration share.auto.offset.reset: The value must be "
               "either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
               slice_shown(value, SLICE_SHOWN_MAX),
               value.size == 0 ? "" : (const char *)value.data);
}

static enum err check_group(const struct config_pair *pair, char *why)
{
    struct topic_config spec;
    if (!config_spec_find(CONFIG_RESOURCE_GROUP, pair->name, &spec)) {
        return say(ERR_CONFIG_INVALID,
                   why,
                   "Unknown group config name: %.*s",
                   slice_shown(pair->name, SLICE_SHOWN_MAX),
                   pair->name.size == 0 ? "" : (const char *)pair->name.data);
    }
    enum err e = topic_config_check_value(&spec, pair->value, why);
    if (e == ERR_OK && strcmp(spec.name, "share.auto.offset.reset") == 0) {
        return check_offset_reset(topic_config_trim(pair->value), why);
    }
    return e;
}

static int64_t bound_of(const struct config_bounds *bounds, const char *name, int64_t otherwise)
{
    for (uint32_t i = 0; name != NULL && i < bounds->count; i++) {
        if (strcmp(bounds->bounds[i].name, name) == 0) {
            return bounds->bounds[i].value;
        }
    }
    return otherwise;
}

static enum err check_limit(const struct group_limit *limit,
                            const struct config_bounds *bounds,
                            int64_t number,
                            char *why)
{
    if (number < bound_of(bounds, limit->min_name, limit->min)) {
        return say(ERR_CONFIG_INVALID,
                   why,
                   "%s must be greater than or equal to %s",
                   limit->name,
                   limit->min_name);
    }
    if (number > bound_of(bounds, limit->max_name, limit->max)) {
        return say(ERR_CONFIG_INVALID,
                   why,
                   "%s must be less than or equal to %s",
                   limit->name,
                   limit->max_name);
    }
    return ERR_OK;
}

/* The group's number, or the broker's. */
static int64_t number_in_effect(const struct topic_config_entry *entries,
                                uint32_t count,
                                const struct config_bounds *bounds,
                                const char *name)
{
    struct topic_config spec;
    const bool is_known = config_spec_find(CONFIG_RESOURCE_GROUP, slice_of_string(name), &spec);
    assert(is_known);
    const char *value = topic_config_find(entries, count, name);
    return value != NULL
               ? topic_config_number(&spec, value)
               : bound_of(bounds, spec.broker_name, topic_config_number(&spec, spec.default_value));
}

enum err config_check_group(const struct topic_config_entry *entries,
                            uint32_t count,
                            const struct config_bounds *bounds,
                            char why[TOPIC_CONFIG_WHY_SIZE])
{
    static const char *const kinds[] = {"consumer", "share", "streams"};
    for (uint32_t i = 0; i < COUNT(group_limits); i++) {
        const char *value = topic_config_find(entries, count, group_limits[i].name);
        int64_t number;
        if (value != NULL && topic_config_parse_number(slice_of_string(value), &number)) {
            enum err e = check_limit(&group_limits[i], bounds, number, why);
            if (e != ERR_OK) {
                return e;
            }
        }
    }
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char session[TOPIC_CONFIG_WHY_SIZE];
        char heartbeat[TOPIC_CONFIG_WHY_SIZE];
        (void)snprintf(session, sizeof(session), "%s.session.timeout.ms", kinds[i]);
        (void)snprintf(heartbeat, sizeof(heartbeat), "%s.heartbeat.interval.ms", kinds[i]);
        if (number_in_effect(entries, count, bounds, session) <=
            number_in_effect(entries, count, bounds, heartbeat)) {
            return say(ERR_CONFIG_INVALID, why, "%s must be greater than %s", session, heartbeat);
        }
    }
    return ERR_OK;
}

/* ---- client metrics ---- */

/* name=pattern. Nobody matches anything by it here: of the pattern only what no regular expression
 * can be is refused. */
static bool is_pattern(struct slice member)
{
    static const char *const names[] = {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    };
    const uint8_t *equals = memchr(member.data, '=', member.size);
    if (equals == NULL) {
        return false;
    }
    const size_t name_size = (size_t)(equals - member.data);
    size_t i = 0;
    while (i < COUNT(names) && !slice_equal_string(slice_of(member.data, name_size), names[i])) {
        i++;
    }
    const struct slice pattern = slice_of(equals + 1, member.size - name_size - 1);
    return i < COUNT(names) && pattern_is_balanced(pattern);
}

static enum err check_patterns(struct slice value, char *why)
{
    struct slice list = value;
    struct slice member;
    while (value.size > 0 && topic_config_next_member(&list, &member)) {
        if (!is_pattern(member)) {
            return say(ERR_CONFIG_INVALID,
                       why,
                       "Illegal client matching pattern: %.*s",
                       slice_shown(member, SLICE_SHOWN_MAX),
                       (const char *)member.data);
        }
    }
    return ERR_OK;
}

static enum err check_client_metrics(const struct config_pair *pair, char *why)
{
    struct topic_config spec;
    int64_t number;
    if (!config_spec_find(CONFIG_RESOURCE_CLIENT_METRICS, pair->name, &spec)) {
        return say(ERR_INVALID,
                   why,
                   "Unknown client metrics configuration: %.*s",
                   slice_shown(pair->name, SLICE_SHOWN_MAX),
                   pair->name.size == 0 ? "" : (const char *)pair->name.data);
    }
    enum err e = topic_config_check_value(&spec, pair->value, why);
    if (e == ERR_OK && strcmp(spec.name, "match") == 0) {
        return check_patterns(pair->value, why);
    }
    if (e == ERR_OK && parse(&spec, pair->value, &number) && (number < 100 || number > 3600000)) {
        return say(ERR_INVALID,
                   why,
                   "Invalid value %" PRId64 " for interval.ms, interval must be between 100 and "
                   "3600000 (1 hour)",
                   number);
    }
    return e;
}

enum err config_spec_check(enum config_resource kind,
                           const struct config_pair *pair,
                           char why[TOPIC_CONFIG_WHY_SIZE])
{
    if (slice_is_null(pair->value)) {
        return say(ERR_INVALID,
                   why,
                   "Null value not supported for : %.*s",
                   slice_shown(pair->name, SLICE_SHOWN_MAX),
                   pair->name.size == 0 ? "" : (const char *)pair->name.data);
    }
    if (pair->value.size > TOPIC_CONFIG_VALUE_SIZE_MAX) {
        return say(ERR_CONFIG_INVALID,
                   why,
                   "A value of a configuration has at most %d characters.",
                   TOPIC_CONFIG_VALUE_SIZE_MAX);
    }
    switch (kind) {
    case CONFIG_RESOURCE_TOPIC:
        return topic_config_check(pair, why);
    case CONFIG_RESOURCE_BROKER:
        return check_broker(pair, why);
    case CONFIG_RESOURCE_GROUP:
        return check_group(pair, why);
    case CONFIG_RESOURCE_CLIENT_METRICS:
        return check_client_metrics(pair, why);
    case CONFIG_RESOURCE_BROKER_LOGGER:
        break;
    }
    assert(false && "nothing of it is stored");
    return ERR_INVALID;
}

/* Kafka's topic configurations: names, types, defaults and validation as Kafka 4.3 has them, and
 * the few effective values that the produce path needs (struct topic_settings).
 *
 * The text a client gave is stored and returned unchanged; it is parsed where it is used. What
 * takes effect in this program is a column of the table (docs/configuration.md lists it).
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/metadata.h"
#include "core/err.h"
#include "core/slice.h"

/* One configuration of a request. */
struct config_pair {
    struct slice name;
    struct slice value; /* Null is refused with ERR_CONFIG_INVALID, as Kafka does. */
};

/* Kafka's numbers (DescribeConfigs v3+). */
enum topic_config_type {
    TOPIC_CONFIG_BOOLEAN = 1,
    TOPIC_CONFIG_STRING = 2,
    TOPIC_CONFIG_INT = 3,
    TOPIC_CONFIG_LONG = 5,
    TOPIC_CONFIG_DOUBLE = 6,
    TOPIC_CONFIG_LIST = 7,
};

enum topic_config_effect {
    TOPIC_CONFIG_HONOURED,  /* Does what Kafka's documentation says. */
    TOPIC_CONFIG_PENDING,   /* Stored and returned; its feature does not exist yet. */
    TOPIC_CONFIG_POINTLESS, /* Stored and returned; has nothing to act on in this design. */
};

/* Kafka's numbers (DescribeConfigs v1+, CreateTopics v5+). */
enum topic_config_source {
    TOPIC_CONFIG_SOURCE_TOPIC = 1,
    TOPIC_CONFIG_SOURCE_BROKER_FILE = 4,
    TOPIC_CONFIG_SOURCE_DEFAULT = 5,
};

struct topic_config {
    const char *name;
    enum topic_config_type type;
    enum topic_config_effect effect;
    const char *default_value;
    int64_t min; /* INT and LONG. */
    int64_t max;
    const char *choices;     /* STRING and LIST: legal words, comma-separated; NULL = any. */
    const char *broker_name; /* First broker synonym of the same unit; NULL = none. */
};

enum {
    TOPIC_CONFIG_VALUE_SIZE_MAX = 32767,
    TOPIC_CONFIG_WHY_SIZE = 256,
};

/* In order of name; index < count. */
uint32_t topic_configs_count(void);
const struct topic_config *topic_config_at(uint32_t index);
/* NULL if Kafka has no such name. */
const struct topic_config *topic_config_by_name(struct slice name);

/* A set of explicit values over the broker's defaults over Kafka's. Owns nothing. */
struct topic_config_set {
    const struct topic_config_entry *own;
    uint32_t own_count;
    const struct topic_config_entry *defaults;
    uint32_t defaults_count;
};

/* The value of that name; NULL if there is none. */
const char *
topic_config_find(const struct topic_config_entry *entries, uint32_t count, const char *name);
/* The value in effect; never NULL. */
const char *topic_config_effective(const struct topic_config_set *set,
                                   const struct topic_config *config,
                                   enum topic_config_source *ret_source);

/* One name and value. ERR_CONFIG_INVALID: why then says what is wrong, in Kafka's words where it
 * has them, and names the nearest name for an unknown one. */
enum err topic_config_check(const struct config_pair *pair, char why[TOPIC_CONFIG_WHY_SIZE]);
/* What a whole set must obey once each of its values is legal. */
enum err topic_config_check_set(const struct topic_config_set *set,
                                char why[TOPIC_CONFIG_WHY_SIZE]);

/* Cuts the next member, without blanks around it, off a comma list; false at its end. */
bool topic_config_next_member(struct slice *list, struct slice *ret_member);
bool topic_config_has_member(struct slice list, struct slice word);

/* Of a set that passed both checks. */
void topic_settings_derive(const struct topic_config_set *set, struct topic_settings *ret_settings);

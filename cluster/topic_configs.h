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
    TOPIC_CONFIG_SOURCE_BROKER = 2,  /* Altered while it runs, for this broker. */
    TOPIC_CONFIG_SOURCE_BROKERS = 3, /* Likewise, for all brokers. */
    TOPIC_CONFIG_SOURCE_BROKER_FILE = 4,
    TOPIC_CONFIG_SOURCE_DEFAULT = 5,
    TOPIC_CONFIG_SOURCE_LOGGER = 6,
    TOPIC_CONFIG_SOURCE_CLIENT_METRICS = 7,
    TOPIC_CONFIG_SOURCE_GROUP = 8,
};

struct topic_config {
    const char *name;
    enum topic_config_type type;
    enum topic_config_effect effect;
    const char *default_value;
    int64_t min; /* INT and LONG. */
    int64_t max;
    /* STRING and LIST: legal words, comma-separated. NULL: any; of a LIST, replicas. "" of a LIST:
     * any. */
    const char *choices;
    const char *broker_name; /* First broker synonym of the same unit; NULL = none. */
};

enum {
    TOPIC_CONFIG_VALUE_SIZE_MAX = 32767,
    TOPIC_CONFIG_WHY_SIZE = 400,
};

/* Kafka's other names for a broker's configuration: each counts if those before it are not set. */
enum {
    TOPIC_CONFIG_SECONDARIES_MAX = 2,
};
struct topic_config_secondary {
    const char *broker_name; /* struct topic_config's. */
    const char *name;
    int64_t unit; /* Times its value is a value of broker_name. */
    enum topic_config_type type;
    int64_t min;
    int64_t max;
    const char *default_value; /* NULL: it has none. */
};
/* The one of that index; NULL if there is none. */
const struct topic_config_secondary *topic_config_secondary(const char *broker_name,
                                                            uint32_t index);

/* The broker_name that a secondary name stands behind; NULL if it is none. */
const char *topic_config_primary(const char *name);

/* In order of name; index < count. */
uint32_t topic_configs_count(void);
const struct topic_config *topic_config_at(uint32_t index);
/* NULL if Kafka has no such name. */
const struct topic_config *topic_config_by_name(struct slice name);

/* A set of explicit values over what was altered for this broker, over what was altered for all,
 * over the broker's file, over Kafka's defaults. Owns nothing. */
struct topic_config_set {
    const struct topic_config_entry *own;
    uint32_t own_count;
    const struct topic_config_entry *broker; /* By the broker's names, as the next. */
    uint32_t broker_count;
    const struct topic_config_entry *brokers;
    uint32_t brokers_count;
    const struct topic_config_entry *defaults; /* By the topic's names. */
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
/* A value for a configuration that config describes, which need not be in the table. */
enum err topic_config_check_value(const struct topic_config *config,
                                  struct slice value,
                                  char why[TOPIC_CONFIG_WHY_SIZE]);
/* A whole number as Kafka takes them, blanks around it included. */
bool topic_config_parse_number(struct slice text, int64_t *ret_number);
/* Its number, if it was checked; else that of the default. INT and LONG. */
int64_t topic_config_number(const struct topic_config *config, const char *value);
/* What a whole set must obey once each of its values is legal. */
enum err topic_config_check_set(const struct topic_config_set *set,
                                char why[TOPIC_CONFIG_WHY_SIZE]);

/* Without the blanks around it. */
struct slice topic_config_trim(struct slice text);
/* Cuts the next member, without blanks around it, off a comma list; false at its end. */
bool topic_config_next_member(struct slice *list, struct slice *ret_member);
bool topic_config_has_member(struct slice list, struct slice word);

/* Of a set that passed both checks. */
void topic_settings_derive(const struct topic_config_set *set, struct topic_settings *ret_settings);

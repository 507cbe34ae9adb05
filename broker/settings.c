#include "broker/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/broker_configs.h"
#include "broker/data_paths.h"
#include "broker/groups_options.h"
#include "broker/options.h"
#include "cluster/topic_configs.h"
#include "core/assert.h"
#include "core/config.h"
#include "kafka/fetch_sessions.h"

enum {
    LISTENER_TEXT_SIZE = LISTENER_NAME_SIZE + NET_HOST_SIZE + 16,
    CONNECTIONS_DEFAULT = 100000,
    /* Filled ahead in group 0's log, half of it at least at any time: deletes have room there, each
     * a block, also when others took the whole disk. */
    CONTROLLER_FILL_STEP = 1 << 20,
};

void settings_init(struct broker_settings *settings)
{
    *settings = (struct broker_settings){
        .kafka_limits =
            {
                .frame_size_max = 104857600,
                .requests_max = 64,
                .conns_max = CONNECTIONS_DEFAULT,
                .idle_timeout_us = UINT64_C(600000) * 1000,
                .frames_size_max = 32 << 20,
            },
        .is_auto_create = true,
        .is_delete_enabled = true,
        .fetch_size_max = 57671680,
        .fetch_sessions_max = 1000,
        .fetch_session_eviction_us = UINT64_C(1000) * FETCH_SESSION_EVICTION_MS,
    };
    cluster_settings_init(&settings->cluster);
    groups_settings_init(&settings->groups);
    settings->cluster.controller_log.fill_step_min = CONTROLLER_FILL_STEP;
    settings->cluster.node_id = 1;
}

/* ---- listeners ---- */

static bool is_wildcard(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* "NAME://HOST:PORT"; without a host, all addresses. */
static bool
parse_listener(const char *text, char ret_name[LISTENER_NAME_SIZE], struct net_address *ret_address)
{
    const char *separator = strstr(text, "://");
    const size_t name_size = separator == NULL ? 0 : (size_t)(separator - text);
    if (name_size == 0 || name_size >= LISTENER_NAME_SIZE) {
        return false;
    }
    const char *address = separator + strlen("://");
    char with_host[LISTENER_TEXT_SIZE];
    (void)snprintf(
        with_host, sizeof(with_host), "%s%s", address[0] == ':' ? "0.0.0.0" : "", address);
    if (net_address_parse(with_host, ret_address) != ERR_OK) {
        return false;
    }
    memcpy(ret_name, text, name_size);
    ret_name[name_size] = '\0';
    return true;
}

static struct listener_settings *find_listener(struct broker_settings *settings, const char *name)
{
    for (uint32_t i = 0; i < settings->listeners_count; i++) {
        if (strcmp(settings->listeners[i].name, name) == 0) {
            return &settings->listeners[i];
        }
    }
    return NULL;
}

/* What clients are told if the configuration does not say. A wildcard is no address to connect to:
 * the machine's name stands for it, as in Kafka. */
static void advertise_by_itself(struct listener_settings *l)
{
    l->advertised = l->bind;
    if (!is_wildcard(l->bind.host)) {
        return;
    }
    if (gethostname(l->advertised.host, sizeof(l->advertised.host)) != 0) {
        (void)snprintf(l->advertised.host, sizeof(l->advertised.host), "localhost");
    }
    l->advertised.host[sizeof(l->advertised.host) - 1] = '\0';
}

static enum err read_listeners(struct broker_settings *settings,
                               const struct config *config,
                               char why[SETTINGS_WHY_SIZE])
{
    const char *origin = config_origin(config, OPTION_LISTENERS);
    const size_t count = config_list_count(config, OPTION_LISTENERS);
    if (count == 0 || count > LISTENERS_MAX) {
        (void)snprintf(why,
                       SETTINGS_WHY_SIZE,
                       "%s: " OPTION_LISTENERS " takes 1 to %d listeners",
                       origin,
                       LISTENERS_MAX);
        return ERR_CONFIG_INVALID;
    }
    for (size_t i = 0; i < count; i++) {
        struct listener_settings *l = &settings->listeners[i];
        char text[LISTENER_TEXT_SIZE];
        (void)config_list_item(config, OPTION_LISTENERS, i, text, sizeof(text));
        if (!parse_listener(text, l->name, &l->bind)) {
            (void)snprintf(why,
                           SETTINGS_WHY_SIZE,
                           "%s: listener '%s' is not of the form NAME://HOST:PORT",
                           origin,
                           text);
            return ERR_CONFIG_INVALID;
        }
        if (find_listener(settings, l->name) != NULL) {
            (void)snprintf(
                why, SETTINGS_WHY_SIZE, "%s: listener name '%s' is used twice", origin, l->name);
            return ERR_CONFIG_INVALID;
        }
        advertise_by_itself(l);
        settings->listeners_count++;
    }
    return ERR_OK;
}

static enum err read_advertised(struct broker_settings *settings,
                                const struct config *config,
                                char why[SETTINGS_WHY_SIZE])
{
    const char *origin = config_origin(config, OPTION_ADVERTISED_LISTENERS);
    const size_t count = config_list_count(config, OPTION_ADVERTISED_LISTENERS);
    for (size_t i = 0; i < count; i++) {
        char text[LISTENER_TEXT_SIZE];
        char name[LISTENER_NAME_SIZE];
        struct net_address address;
        (void)config_list_item(config, OPTION_ADVERTISED_LISTENERS, i, text, sizeof(text));
        if (!parse_listener(text, name, &address) || is_wildcard(address.host)) {
            (void)snprintf(why,
                           SETTINGS_WHY_SIZE,
                           "%s: advertised listener '%s' is not of the form NAME://HOST:PORT with "
                           "a host that clients can connect to",
                           origin,
                           text);
            return ERR_CONFIG_INVALID;
        }
        struct listener_settings *l = find_listener(settings, name);
        if (l == NULL) {
            (void)snprintf(
                why,
                SETTINGS_WHY_SIZE,
                "%s: advertised listener '%s' has no listener of that name in " OPTION_LISTENERS,
                origin,
                name);
            return ERR_CONFIG_INVALID;
        }
        l->advertised = address;
    }
    return ERR_OK;
}

/* Each pair says PLAINTEXT, or names a listener that is not there. */
static enum err check_protocols(struct broker_settings *settings,
                                const struct config *config,
                                char why[SETTINGS_WHY_SIZE])
{
    const size_t count = config_list_count(config, OPTION_PROTOCOL_MAP);
    for (size_t i = 0; i < count; i++) {
        char text[LISTENER_TEXT_SIZE];
        (void)config_list_item(config, OPTION_PROTOCOL_MAP, i, text, sizeof(text));
        char *colon = strchr(text, ':');
        if (colon == NULL) {
            (void)snprintf(why,
                           SETTINGS_WHY_SIZE,
                           "%s: '%s' is not of the form NAME:PROTOCOL",
                           config_origin(config, OPTION_PROTOCOL_MAP),
                           text);
            return ERR_CONFIG_INVALID;
        }
        *colon = '\0';
        if (find_listener(settings, text) != NULL && strcmp(colon + 1, "PLAINTEXT") != 0) {
            (void)snprintf(why,
                           SETTINGS_WHY_SIZE,
                           "%s: listener '%s' asks for %s; PLAINTEXT is the only protocol so far",
                           config_origin(config, OPTION_PROTOCOL_MAP),
                           text,
                           colon + 1);
            return ERR_CONFIG_INVALID;
        }
    }
    return ERR_OK;
}

static enum err read_admin(struct broker_settings *settings,
                           const struct config *config,
                           char why[SETTINGS_WHY_SIZE])
{
    const char *text = config_text(config, OPTION_ADMIN_LISTENER);
    settings->has_admin = text[0] != '\0';
    if (!settings->has_admin || net_address_parse(text, &settings->admin) == ERR_OK) {
        return ERR_OK;
    }
    (void)snprintf(why,
                   SETTINGS_WHY_SIZE,
                   "%s: admin address '%s' is not of the form HOST:PORT",
                   config_origin(config, OPTION_ADMIN_LISTENER),
                   text);
    return ERR_CONFIG_INVALID;
}

/* ---- the broker's values for topic configurations ---- */

/* The name that the broker's value for a topic configuration was set by: its synonym, or the first
 * secondary one. NULL: none was. */
static const char *find_given(const struct config *config,
                              const struct topic_config *c,
                              const struct topic_config_secondary **ret_secondary)
{
    *ret_secondary = NULL;
    if (strcmp(config_origin(config, c->broker_name), "default") != 0) {
        return c->broker_name;
    }
    const struct topic_config_secondary *s;
    for (uint32_t i = 0; (s = topic_config_secondary(c->broker_name, i)) != NULL; i++) {
        if (strcmp(config_origin(config, s->name), "default") != 0) {
            *ret_secondary = s;
            return s->name;
        }
    }
    return NULL;
}

/* A number in the plain form that topics have; other values as they are. NULL without memory. */
static char *plain_value(const struct config *config,
                         const struct topic_config *c,
                         const char *given,
                         const struct topic_config_secondary *s)
{
    if (c->type != TOPIC_CONFIG_INT && c->type != TOPIC_CONFIG_LONG) {
        return strdup(config_text(config, given));
    }
    char *text = NULL;
    int64_t number = config_number(config, given);
    if (s != NULL) {
        number = number < 0 ? -1 : number * s->unit; /* Hours of 32 bits: no overflow. */
    }
    return asprintf(&text, "%" PRId64, number) < 0 ? NULL : text;
}

static enum err add_topic_default(struct broker_settings *settings,
                                  const struct config *config,
                                  const struct topic_config *c,
                                  char why[SETTINGS_WHY_SIZE])
{
    const struct topic_config_secondary *secondary;
    const char *given = find_given(config, c, &secondary);
    if (given == NULL) {
        return ERR_OK;
    }
    struct topic_config_entry *entries =
        (struct topic_config_entry *)settings->cluster.topic_defaults;
    struct topic_config_entry *entry = &entries[settings->cluster.topic_defaults_count];
    entry->name = strdup(c->name);
    entry->value = plain_value(config, c, given, secondary);
    settings->cluster.topic_defaults_count++;
    if (entry->name == NULL || entry->value == NULL) {
        (void)snprintf(why, SETTINGS_WHY_SIZE, "out of memory");
        return ERR_BUSY;
    }
    const struct config_pair pair = {
        .name = slice_of_string(entry->name),
        .value = slice_of_string(entry->value),
    };
    char what[TOPIC_CONFIG_WHY_SIZE];
    enum err e = topic_config_check(&pair, what);
    if (e != ERR_OK) {
        (void)snprintf(
            why, SETTINGS_WHY_SIZE, "%s: %s: %s", config_origin(config, given), given, what);
    }
    return e;
}

static enum err read_topic_defaults(struct broker_settings *settings,
                                    const struct config *config,
                                    char why[SETTINGS_WHY_SIZE])
{
    settings->cluster.topic_defaults =
        calloc(topic_configs_count(), sizeof(*settings->cluster.topic_defaults));
    if (settings->cluster.topic_defaults == NULL) {
        (void)snprintf(why, SETTINGS_WHY_SIZE, "out of memory");
        return ERR_BUSY;
    }
    for (uint32_t i = 0; i < topic_configs_count(); i++) {
        const struct topic_config *c = topic_config_at(i);
        if (c->broker_name == NULL) {
            continue;
        }
        enum err e = add_topic_default(settings, config, c, why);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

/* ---- all ---- */

static void
read_limits(struct broker_settings *settings, const struct config *config, uint16_t shards_count)
{
    struct cluster_settings *cluster = &settings->cluster;
    cluster->node_id = (int32_t)config_number(config, OPTION_NODE_ID);
    const char *rack = config_text(config, OPTION_RACK);
    cluster->rack = rack[0] == '\0' ? NULL : rack;
    cluster->partitions_count_default = (int32_t)config_number(config, OPTION_PARTITIONS_DEFAULT);
    cluster->replication_factor_default =
        (int16_t)config_number(config, OPTION_REPLICATION_DEFAULT);
    cluster->topics_max = (uint32_t)config_number(config, OPTION_TOPICS_MAX);
    cluster->partitions_max = (uint32_t)config_number(config, OPTION_PARTITIONS_MAX);
    cluster->partitions_per_topic_max =
        (uint32_t)config_number(config, OPTION_TOPIC_PARTITIONS_MAX);
    settings->space_reserve_size = (uint64_t)config_number(config, OPTION_DISK_RESERVE);
    settings->recycle_size_max = (uint64_t)config_number(config, OPTION_RECYCLE);
    cluster->producers_max = (uint32_t)config_number(config, OPTION_PRODUCERS_MAX);
    cluster->producer_expiration_ms = config_number(config, OPTION_PRODUCER_EXPIRATION);
    cluster->log.checkpoint_size = (uint64_t)config_number(config, OPTION_CHECKPOINT);
    cluster->retention_check_us = (uint64_t)config_number(config, OPTION_RETENTION_INTERVAL) * 1000;
    cluster->log_shared.ahead_size_max = (size_t)config_number(config, OPTION_READAHEAD);
    cluster->log_shared.pinned_size_max = (size_t)config_number(config, OPTION_PINNED);
    cluster->log_shared.background.bytes_per_s =
        (uint64_t)config_number(config, OPTION_BACKGROUND_BYTES);
    cluster->log_shared.background.ops_per_s =
        (uint64_t)config_number(config, OPTION_BACKGROUND_OPS);
    cluster->log_shared.is_compaction_off = !config_bool(config, OPTION_CLEANER_ENABLED);
    const uint64_t backoff_ms = (uint64_t)config_number(config, OPTION_CLEANER_BACKOFF);
    cluster->log_shared.compact_interval_us = backoff_ms > 0 ? backoff_ms * 1000 : 1000;
    cluster->log_shared.compact_keys_size_max =
        (size_t)config_number(config, OPTION_CLEANER_KEYS_MAX) / shards_count;

    struct conn_limits *limits = &settings->kafka_limits;
    const uint64_t conns_max = (uint64_t)config_number(config, OPTION_CONNECTIONS_MAX);
    limits->frame_size_max = (uint32_t)config_number(config, OPTION_REQUEST_SIZE_MAX);
    limits->requests_max = (uint32_t)config_number(config, OPTION_CONN_REQUESTS_MAX);
    limits->conns_max = (uint32_t)((conns_max + shards_count - 1) / shards_count);
    limits->idle_timeout_us = (uint64_t)config_number(config, OPTION_CONNECTIONS_IDLE) * 1000;
    limits->frames_size_max = (uint64_t)config_number(config, OPTION_CONN_FRAMES_MAX);

    settings->is_auto_create = config_bool(config, OPTION_AUTO_CREATE);
    settings->is_delete_enabled = config_bool(config, OPTION_DELETE_ENABLED);
    settings->fetch_size_max = (uint32_t)config_number(config, OPTION_FETCH_MAX);
    settings->fetch_sessions_max =
        (uint32_t)((config_number(config, OPTION_FETCH_SESSIONS_MAX) + shards_count - 1) /
                   shards_count);
}

/* ---- data directories ---- */

/* The items of a list that is in text, split in place. False: more than fit. */
static bool split(char *text, const char **items, uint32_t count_max, uint32_t *ret_count)
{
    uint32_t count = 0;
    char *rest = text;
    char *item;
    while ((item = strsep(&rest, ",")) != NULL) {
        item += strspn(item, " ");
        for (size_t size = strlen(item); size > 0 && item[size - 1] == ' '; size--) {
            item[size - 1] = '\0';
        }
        if (count == count_max) {
            return false;
        }
        items[count++] = item;
    }
    *ret_count = count;
    return true;
}

static enum err read_data_dirs(struct broker_settings *settings,
                               const struct config *config,
                               char why[SETTINGS_WHY_SIZE])
{
    settings->data_dirs_text = strdup(config_text(config, OPTION_DATA_DIRS));
    if (settings->data_dirs_text == NULL) {
        (void)snprintf(why, SETTINGS_WHY_SIZE, "out of memory");
        return ERR_BUSY;
    }
    if (config_list_count(config, OPTION_DATA_DIRS) == 0 || !split(settings->data_dirs_text,
                                                                   settings->data_dirs,
                                                                   CLUSTER_DATA_DIRS_MAX,
                                                                   &settings->data_dirs_count)) {
        (void)snprintf(why,
                       SETTINGS_WHY_SIZE,
                       "%s: " OPTION_DATA_DIRS " names 1 to %d directories",
                       config_origin(config, OPTION_DATA_DIRS),
                       CLUSTER_DATA_DIRS_MAX);
        return ERR_CONFIG_INVALID;
    }
    char what[DATA_PATHS_WHY_SIZE];
    enum err e = data_paths_check(settings->data_dirs, settings->data_dirs_count, what);
    if (e != ERR_OK) {
        (void)snprintf(
            why, SETTINGS_WHY_SIZE, "%s: %.400s", config_origin(config, OPTION_DATA_DIRS), what);
        return e == ERR_INVALID ? ERR_CONFIG_INVALID : e;
    }
    char *absolute = data_paths_absolute(settings->data_dirs, settings->data_dirs_count);
    if (absolute == NULL) {
        (void)snprintf(why, SETTINGS_WHY_SIZE, "out of memory");
        return ERR_BUSY;
    }
    free(settings->data_dirs_text);
    settings->data_dirs_text = absolute;
    return ERR_OK;
}

static enum err read_lost_dirs(struct broker_settings *settings,
                               const struct config *config,
                               char why[SETTINGS_WHY_SIZE])
{
    const size_t count = config_list_count(config, OPTION_LOST_DIRS);
    settings->lost_dirs = calloc(count + 1, sizeof(*settings->lost_dirs));
    if (settings->lost_dirs == NULL) {
        (void)snprintf(why, SETTINGS_WHY_SIZE, "out of memory");
        return ERR_BUSY;
    }
    for (size_t i = 0; i < count; i++) {
        struct cluster_lost_dir *lost = &settings->lost_dirs[i];
        char text[UUID_TEXT_SIZE + 1];
        (void)config_list_item(config, OPTION_LOST_DIRS, i, text, sizeof(text));
        if (!uuid_parse(text, &lost->id)) {
            (void)snprintf(why,
                           SETTINGS_WHY_SIZE,
                           "%s: " OPTION_LOST_DIRS ": '%s' is no directory_id as format.json and "
                           "the refusal of a start have it",
                           config_origin(config, OPTION_LOST_DIRS),
                           text);
            return ERR_CONFIG_INVALID;
        }
        uuid_format(&lost->id, lost->text);
    }
    settings->cluster.lost_dirs = settings->lost_dirs;
    settings->cluster.lost_dirs_count = (uint32_t)count;
    return ERR_OK;
}

enum err settings_from_config(struct broker_settings *settings,
                              const struct config *config,
                              uint16_t shards_count,
                              char why[SETTINGS_WHY_SIZE])
{
    assert_cmp(shards_count, >, 0);
    settings_init(settings);
    read_limits(settings, config, shards_count);
    enum err e = read_data_dirs(settings, config, why);
    if (e == ERR_OK) {
        e = read_lost_dirs(settings, config, why);
    }
    if (e == ERR_OK) {
        e = read_listeners(settings, config, why);
    }
    if (e == ERR_OK) {
        e = read_advertised(settings, config, why);
    }
    if (e == ERR_OK) {
        e = check_protocols(settings, config, why);
    }
    if (e == ERR_OK) {
        e = read_admin(settings, config, why);
    }
    if (e == ERR_OK) {
        e = read_topic_defaults(settings, config, why);
    }
    if (e == ERR_OK) {
        e = groups_options_read(config, &settings->groups, why);
    }
    if (e == ERR_OK) {
        (void)snprintf(why, SETTINGS_WHY_SIZE, "out of memory"); /* The one way to fail. */
        e = broker_configs_new(config, &settings->configs, &settings->configs_count);
    }
    if (e != ERR_OK) {
        settings_done(settings);
    }
    return e;
}

void settings_done(struct broker_settings *settings)
{
    const struct topic_config_entry *entries = settings->cluster.topic_defaults;
    for (uint32_t i = 0; i < settings->cluster.topic_defaults_count; i++) {
        free(entries[i].name);
        free(entries[i].value);
    }
    free((void *)entries);
    settings->cluster.topic_defaults = NULL;
    settings->cluster.topic_defaults_count = 0;
    free(settings->data_dirs_text);
    settings->data_dirs_text = NULL;
    free(settings->lost_dirs);
    settings->lost_dirs = NULL;
    broker_configs_free(settings->configs, settings->configs_count);
    settings->configs = NULL;
    settings->configs_count = 0;
}

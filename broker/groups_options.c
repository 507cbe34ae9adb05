#include "broker/groups_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker/options.h"
#include "core/config.h"

enum {
    WORD_SIZE = 64,
};

static int32_t number32(const struct config *config, const char *name)
{
    return (int32_t)config_number(config, name);
}

static void read_numbers(const struct config *config, struct groups_settings *s)
{
    s->topic_partitions_count = number32(config, OPTION_OFFSETS_PARTITIONS);
    s->topic_replication_factor_max = (int16_t)config_number(config, OPTION_OFFSETS_REPLICATION);
    s->topic_segment_size_max = number32(config, OPTION_OFFSETS_SEGMENT);
    s->offsets_retention_ms = config_number(config, OPTION_OFFSETS_RETENTION) * 60 * 1000;
    s->offsets_check_ms = config_number(config, OPTION_OFFSETS_CHECK);
    s->offset_metadata_size_max = number32(config, OPTION_OFFSETS_METADATA_MAX);
    s->commit_timeout_ms = config_number(config, OPTION_OFFSETS_TIMEOUT);
    s->session_timeout_ms_min = number32(config, OPTION_SESSION_MIN);
    s->session_timeout_ms_max = number32(config, OPTION_SESSION_MAX);
    s->initial_delay_ms = number32(config, OPTION_GROUP_DELAY);
    s->members_max = number32(config, OPTION_GROUP_MEMBERS_MAX);
    s->consumer_members_max = number32(config, OPTION_GROUP_SIZE_MAX);
    s->is_heartbeat_held = config_bool(config, OPTION_GROUP_HOLD);
    s->migration = (enum groups_migration)config_number(config, OPTION_GROUP_MIGRATION);
    s->groups_max = (uint32_t)config_number(config, OPTION_GROUPS_MAX);
    s->all_members_max = (uint32_t)config_number(config, OPTION_GROUPS_MEMBERS_MAX);
    s->state_size_max = (uint64_t)config_number(config, OPTION_GROUPS_STATE_MAX);
}

static enum err refuse(const struct config *config, const char *name, const char *what, char *why)
{
    (void)snprintf(
        why, GROUPS_OPTIONS_WHY_SIZE, "%s: %s %s", config_origin(config, name), name, what);
    return ERR_CONFIG_INVALID;
}

/* left may not be above right. */
static enum err
check_order(const struct config *config, const char *left, const char *right, char *why)
{
    const int64_t left_value = config_number(config, left);
    const int64_t right_value = config_number(config, right);
    if (left_value <= right_value) {
        return ERR_OK;
    }
    const bool is_left_given = strcmp(config_origin(config, left), "default") != 0;
    (void)snprintf(why,
                   GROUPS_OPTIONS_WHY_SIZE,
                   "%s: %s (%" PRId64 ") must not be above %s (%" PRId64 ")",
                   config_origin(config, is_left_given ? left : right),
                   left,
                   left_value,
                   right,
                   right_value);
    return ERR_CONFIG_INVALID;
}

static enum err check_orders(const struct config *config, char *why)
{
    static const char *const pairs[][2] = {
        {OPTION_SESSION_MIN, OPTION_SESSION_MAX},
        {OPTION_GROUP_SESSION_MIN, OPTION_GROUP_SESSION},
        {OPTION_GROUP_SESSION, OPTION_GROUP_SESSION_MAX},
        {OPTION_GROUP_HEARTBEAT_MIN, OPTION_GROUP_HEARTBEAT},
        {OPTION_GROUP_HEARTBEAT, OPTION_GROUP_HEARTBEAT_MAX},
        {OPTION_GROUP_INTERVAL_MIN, OPTION_GROUP_INTERVAL},
        {OPTION_GROUP_INTERVAL, OPTION_GROUP_INTERVAL_MAX},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        enum err e = check_order(config, pairs[i][0], pairs[i][1], why);
        if (e != ERR_OK) {
            return e;
        }
    }
    if (config_number(config, OPTION_GROUP_HEARTBEAT) >=
        config_number(config, OPTION_GROUP_SESSION)) {
        return refuse(config,
                      OPTION_GROUP_HEARTBEAT,
                      "must be below " OPTION_GROUP_SESSION ", or members time out",
                      why);
    }
    return ERR_OK;
}

static void read_limited(const struct config *config,
                         const char *const names[3],
                         struct groups_limited *ret_limited)
{
    ret_limited->value = number32(config, names[0]);
    ret_limited->min = number32(config, names[1]);
    ret_limited->max = number32(config, names[2]);
}

static enum err read_assignors(const struct config *config, struct groups_settings *s, char *why)
{
    static const char *const known[GROUPS_ASSIGNORS_MAX] = {"uniform", "range"};
    const size_t count = config_list_count(config, OPTION_GROUP_ASSIGNORS);
    s->consumer_assignors_count = 0;
    for (size_t i = 0; i < count && i <= GROUPS_ASSIGNORS_MAX; i++) {
        char word[WORD_SIZE];
        (void)config_list_item(config, OPTION_GROUP_ASSIGNORS, i, word, sizeof(word));
        size_t k = 0;
        while (k < GROUPS_ASSIGNORS_MAX && strcmp(known[k], word) != 0) {
            k++;
        }
        for (uint32_t j = 0; j < s->consumer_assignors_count; j++) {
            k = k < GROUPS_ASSIGNORS_MAX && s->consumer_assignors[j] == known[k]
                    ? GROUPS_ASSIGNORS_MAX
                    : k;
        }
        if (k == GROUPS_ASSIGNORS_MAX) {
            return refuse(
                config, OPTION_GROUP_ASSIGNORS, "takes uniform and range, each once", why);
        }
        s->consumer_assignors[s->consumer_assignors_count++] = known[k];
    }
    return count > 0 ? ERR_OK
                     : refuse(config, OPTION_GROUP_ASSIGNORS, "names at least one assignor", why);
}

static enum err read_protocols(const struct config *config, struct groups_settings *s, char *why)
{
    bool has_classic = false;
    s->is_consumer_enabled = false;
    for (size_t i = 0; i < config_list_count(config, OPTION_GROUP_PROTOCOLS); i++) {
        char word[WORD_SIZE];
        (void)config_list_item(config, OPTION_GROUP_PROTOCOLS, i, word, sizeof(word));
        if (strcmp(word, "classic") == 0) {
            has_classic = true;
        } else if (strcmp(word, "consumer") == 0) {
            s->is_consumer_enabled = true;
        } else {
            return refuse(config,
                          OPTION_GROUP_PROTOCOLS,
                          "takes classic and consumer; there are no other protocols so far",
                          why);
        }
    }
    return has_classic ? ERR_OK : refuse(config, OPTION_GROUP_PROTOCOLS, "must name classic", why);
}

enum err groups_options_read(const struct config *config,
                             struct groups_settings *settings,
                             char why[GROUPS_OPTIONS_WHY_SIZE])
{
    static const char *const session[3] = {
        OPTION_GROUP_SESSION, OPTION_GROUP_SESSION_MIN, OPTION_GROUP_SESSION_MAX};
    static const char *const heartbeat[3] = {
        OPTION_GROUP_HEARTBEAT, OPTION_GROUP_HEARTBEAT_MIN, OPTION_GROUP_HEARTBEAT_MAX};
    static const char *const interval[3] = {
        OPTION_GROUP_INTERVAL, OPTION_GROUP_INTERVAL_MIN, OPTION_GROUP_INTERVAL_MAX};
    read_numbers(config, settings);
    read_limited(config, session, &settings->consumer_session_timeout_ms);
    read_limited(config, heartbeat, &settings->consumer_heartbeat_interval_ms);
    read_limited(config, interval, &settings->consumer_assignment_interval_ms);
    enum err e = check_orders(config, why);
    if (e == ERR_OK) {
        e = read_assignors(config, settings, why);
    }
    if (e == ERR_OK) {
        e = read_protocols(config, settings, why);
    }
    return e;
}

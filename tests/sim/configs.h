/* The configuration of a topic, as a client knows it: the few names that the simulator sets, and
 * what they make of the promises of its partitions (history.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/history.h"

enum sim_config {
    CONFIG_CODEC,
    CONFIG_ACK,
    CONFIG_POLICY,
    CONFIG_DIRTY_RATIO,
    CONFIG_TOMBSTONES_MS,
    CONFIG_RETENTION_MS,
    CONFIG_RETENTION_BYTES,
    CONFIG_TOPIC_BYTES,
    CONFIG_MESSAGE_BYTES,
    CONFIG_FLUSH_MESSAGES,
    CONFIG_SEGMENT_BYTES,
    CONFIG_SEGMENT_MS,
    CONFIG_INDEX_INTERVAL,
    SIM_CONFIGS_COUNT,
};

enum {
    CONFIG_VALUE_SIZE = 24,
};

struct sim_configs {
    char values[SIM_CONFIGS_COUNT][CONFIG_VALUE_SIZE]; /* "" = not set. */
};

enum sim_level {
    LEVEL_BROKER,  /* Of this broker: before ... */
    LEVEL_CLUSTER, /* ... those of all brokers. */
    SIM_LEVELS_COUNT,
};

/* Altered configurations of brokers: for topics that have no value of their own. */
struct sim_defaults {
    struct sim_configs levels[SIM_LEVELS_COUNT];
};

/* What a topic is for good: decided when it is created. */
struct topic_kind {
    bool is_keyed;   /* Its records have keys, its policy may be to compact. */
    bool is_trimmed; /* Its records are deleted: by clients, and by retention. */
    bool is_recoded; /* It may have a codec of its own. */
};

const char *sim_config_name(enum sim_config config);
/* As brokers call it; NULL = here they do not. */
const char *sim_config_broker_name(enum sim_config config);

struct topic_kind topic_kind_draw(struct sim *sim);
/* Of a new topic. */
void sim_configs_draw(struct sim *sim, const struct topic_kind *kind, struct sim_configs *configs);
/* Some of them anew, at least one. */
void sim_configs_redraw(struct sim *sim,
                        const struct topic_kind *kind,
                        struct sim_configs *configs);
/* Those of a broker, likewise. */
void sim_configs_redraw_defaults(struct sim *sim, struct sim_configs *configs);
/* With what is not set taken from the defaults. */
struct sim_configs sim_configs_over(const struct sim_configs *own,
                                    const struct sim_defaults *defaults);

/* The rules while these are in force, and no others. */
void sim_configs_rules(const struct topic_kind *kind,
                       const struct sim_configs *configs,
                       struct history_rules *ret_rules);
/* Both a and b may be in force: what either allows is allowed. */
void history_rules_join(struct history_rules *a, const struct history_rules *b);
/* Their policy lets retention, and clients, delete records. */
bool sim_configs_delete(const struct sim_configs *configs);

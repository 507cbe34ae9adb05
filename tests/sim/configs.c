#include "tests/sim/configs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "storage/batch.h"

enum {
    MESSAGE_SIZE_DEFAULT = 1048588,
    CHANGES_MAX = 3,
};

static const char *const names[SIM_CONFIGS_COUNT] = {
    [CONFIG_CODEC] = "compression.type",
    [CONFIG_ACK] = "coreflume.ack",
    [CONFIG_POLICY] = "cleanup.policy",
    [CONFIG_DIRTY_RATIO] = "min.cleanable.dirty.ratio",
    [CONFIG_TOMBSTONES_MS] = "delete.retention.ms",
    [CONFIG_RETENTION_MS] = "retention.ms",
    [CONFIG_RETENTION_BYTES] = "retention.bytes",
    [CONFIG_TOPIC_BYTES] = "coreflume.retention.topic.bytes",
    [CONFIG_MESSAGE_BYTES] = "max.message.bytes",
    [CONFIG_FLUSH_MESSAGES] = "flush.messages",
    [CONFIG_SEGMENT_BYTES] = "segment.bytes",
    [CONFIG_SEGMENT_MS] = "segment.ms",
    [CONFIG_INDEX_INTERVAL] = "index.interval.bytes",
};

static const char *const broker_names[SIM_CONFIGS_COUNT] = {
    [CONFIG_TOMBSTONES_MS] = "log.cleaner.delete.retention.ms",
    [CONFIG_RETENTION_MS] = "log.retention.ms",
    [CONFIG_RETENTION_BYTES] = "log.retention.bytes",
    [CONFIG_MESSAGE_BYTES] = "message.max.bytes",
    [CONFIG_FLUSH_MESSAGES] = "log.flush.interval.messages",
    [CONFIG_SEGMENT_BYTES] = "log.segment.bytes",
    [CONFIG_SEGMENT_MS] = "log.roll.ms",
    [CONFIG_INDEX_INTERVAL] = "log.index.interval.bytes",
};

static const char *const codecs[CODEC_COUNT] = {"uncompressed", "gzip", "snappy", "lz4", "zstd"};

const char *sim_config_name(enum sim_config config)
{
    return names[config];
}

const char *sim_config_broker_name(enum sim_config config)
{
    return broker_names[config];
}

/* ---- drawing ---- */

static void set_text(struct sim_configs *c, enum sim_config config, const char *text)
{
    (void)snprintf(c->values[config], CONFIG_VALUE_SIZE, "%s", text);
}

static void set_number(
    struct sim *sim, struct sim_configs *c, enum sim_config config, uint64_t low, uint64_t high)
{
    (void)snprintf(
        c->values[config], CONFIG_VALUE_SIZE, "%" PRIu64, sim_log_between(sim, low, high));
}

struct topic_kind topic_kind_draw(struct sim *sim)
{
    return (struct topic_kind){
        .is_keyed = sim_chance(sim, sim->swarm.compacted_percent),
        .is_trimmed = sim->swarm.start_weight > 0 &&
                      (sim->swarm.defaults_percent > 0 || !rand_one_in(&sim->rand, 3)),
        .is_recoded = rand_one_in(&sim->rand, 3),
    };
}

static void draw_policy(struct sim *sim, const struct topic_kind *kind, struct sim_configs *c)
{
    static const char *const policies[] = {"compact", "compact,delete", "delete,compact", "delete"};
    if (!kind->is_keyed) {
        return;
    }
    set_text(c, CONFIG_POLICY, policies[rand_below(&sim->rand, 4)]);
}

static void draw_one(struct sim *sim,
                     const struct topic_kind *kind,
                     enum sim_config config,
                     struct sim_configs *c)
{
    switch (config) {
    case CONFIG_CODEC:
        if (kind->is_recoded) {
            set_text(c, config, codecs[rand_below(&sim->rand, CODEC_COUNT)]);
        }
        return;
    case CONFIG_POLICY:
        draw_policy(sim, kind, c);
        return;
    case CONFIG_RETENTION_MS:
        if (kind->is_trimmed) {
            set_number(sim, c, config, 50, 5000);
        }
        return;
    case CONFIG_RETENTION_BYTES:
        if (kind->is_trimmed) {
            set_number(sim, c, config, 1, 256 << 10);
        }
        return;
    case CONFIG_TOPIC_BYTES:
        if (kind->is_trimmed) {
            set_number(sim, c, config, 1, 512 << 10);
        }
        return;
    case CONFIG_MESSAGE_BYTES:
        set_number(sim, c, config, 600, 1 << 20);
        return;
    case CONFIG_FLUSH_MESSAGES:
        set_number(sim, c, config, 1, 1000);
        return;
    case CONFIG_SEGMENT_BYTES:
        set_number(sim, c, config, 1 << 20, 4 << 20);
        return;
    case CONFIG_SEGMENT_MS:
        set_number(sim, c, config, 20, 2000);
        return;
    case CONFIG_INDEX_INTERVAL:
        set_number(sim, c, config, 0, 8 << 10);
        return;
    case CONFIG_TOMBSTONES_MS:
        set_text(c, config, "100");
        return;
    case CONFIG_DIRTY_RATIO:
        set_text(c, config, "0");
        return;
    case CONFIG_ACK: /* Decided at creation, see redraw. */
    case SIM_CONFIGS_COUNT:
        return;
    }
}

void sim_configs_draw(struct sim *sim, const struct topic_kind *kind, struct sim_configs *configs)
{
    static const struct {
        enum sim_config config;
        uint32_t one_in;
    } rows[] = {
        {CONFIG_CODEC, 2},
        {CONFIG_FLUSH_MESSAGES, 3},
        {CONFIG_RETENTION_MS, 3},
        {CONFIG_RETENTION_BYTES, 4},
        {CONFIG_TOPIC_BYTES, 4},
        {CONFIG_TOMBSTONES_MS, 2},
    };
    *configs = (struct sim_configs){0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rand_one_in(&sim->rand, rows[i].one_in)) {
            draw_one(sim, kind, rows[i].config, configs);
        }
    }
    if (kind->is_keyed) {
        set_text(configs, CONFIG_POLICY, kind->is_trimmed ? "compact,delete" : "compact");
        set_text(configs, CONFIG_DIRTY_RATIO, "0");
    } else if (rand_one_in(&sim->rand, 4)) {
        set_text(configs, CONFIG_ACK, "memory");
    }
}

static void redraw_one(struct sim *sim, const struct topic_kind *kind, struct sim_configs *configs)
{
    const enum sim_config config = (enum sim_config)rand_below(&sim->rand, SIM_CONFIGS_COUNT);
    if (config == CONFIG_ACK) {
        /* Never back: what an idempotent producer has sent since would be taken by a crash. */
        if (configs->values[config][0] != '\0') {
            set_text(configs, config, "durable");
        }
        return;
    }
    const char *value = configs->values[config];
    if (value[0] != '\0' && rand_one_in(&sim->rand, 3)) {
        set_text(configs, config, "");
    } else {
        draw_one(sim, kind, config, configs);
    }
}

void sim_configs_redraw(struct sim *sim, const struct topic_kind *kind, struct sim_configs *configs)
{
    for (uint64_t i = sim_between(sim, 1, CHANGES_MAX); i > 0; i--) {
        redraw_one(sim, kind, configs);
    }
}

void sim_configs_redraw_defaults(struct sim *sim, struct sim_configs *configs)
{
    /* Where defaults are altered, records of every topic may be deleted. */
    const struct topic_kind kind = {.is_trimmed = sim->swarm.start_weight > 0};
    for (uint64_t i = sim_between(sim, 1, CHANGES_MAX); i > 0; i--) {
        const enum sim_config config = (enum sim_config)rand_below(&sim->rand, SIM_CONFIGS_COUNT);
        if (broker_names[config] == NULL) {
            continue;
        }
        if (rand_one_in(&sim->rand, 3)) {
            set_text(configs, config, "");
        } else {
            draw_one(sim, &kind, config, configs);
        }
    }
}

struct sim_configs sim_configs_over(const struct sim_configs *own,
                                    const struct sim_defaults *defaults)
{
    struct sim_configs all = *own;
    for (uint32_t level = 0; level < SIM_LEVELS_COUNT; level++) {
        for (uint32_t i = 0; i < SIM_CONFIGS_COUNT; i++) {
            if (all.values[i][0] == '\0') {
                set_text(&all, i, defaults->levels[level].values[i]);
            }
        }
    }
    return all;
}

/* ---- what they mean ---- */

static int64_t number_of(const struct sim_configs *c, enum sim_config config, int64_t value_default)
{
    const char *value = c->values[config];
    return value[0] == '\0' ? value_default : strtoll(value, NULL, 10);
}

static uint32_t codec_bit_of(const char *value)
{
    for (uint32_t i = 0; i < CODEC_COUNT; i++) {
        if (strcmp(value, codecs[i]) == 0) {
            return UINT32_C(1) << i;
        }
    }
    return HISTORY_CODEC_AS_SENT;
}

bool sim_configs_delete(const struct sim_configs *configs)
{
    const char *policy = configs->values[CONFIG_POLICY];
    return policy[0] == '\0' || strstr(policy, "delete") != NULL;
}

void sim_configs_rules(const struct topic_kind *kind,
                       const struct sim_configs *configs,
                       struct history_rules *ret_rules)
{
    const bool is_deleted = sim_configs_delete(configs);
    *ret_rules = (struct history_rules){
        .is_keyed = kind->is_keyed,
        .is_trimmed = kind->is_trimmed,
        .is_recoded = kind->is_recoded,
        .codecs = codec_bit_of(configs->values[CONFIG_CODEC]),
        .is_ack_memory = strcmp(configs->values[CONFIG_ACK], "memory") == 0,
        .is_compacted = strstr(configs->values[CONFIG_POLICY], "compact") != NULL,
        .are_tombstones_dropped = configs->values[CONFIG_TOMBSTONES_MS][0] != '\0',
        .retention_ms = is_deleted ? number_of(configs, CONFIG_RETENTION_MS, -1) : -1,
        .is_retained_by_size = is_deleted && (number_of(configs, CONFIG_RETENTION_BYTES, -1) >= 0 ||
                                              number_of(configs, CONFIG_TOPIC_BYTES, -1) >= 0),
        .batch_size_low = number_of(configs, CONFIG_MESSAGE_BYTES, MESSAGE_SIZE_DEFAULT),
    };
    ret_rules->batch_size_high = ret_rules->batch_size_low;
}

static int64_t least_limit(int64_t a, int64_t b)
{
    if (a < 0 || b < 0) {
        return a < 0 ? b : a;
    }
    return a < b ? a : b;
}

void history_rules_join(struct history_rules *a, const struct history_rules *b)
{
    a->codecs |= b->codecs;
    a->is_ack_memory |= b->is_ack_memory;
    a->is_compacted |= b->is_compacted;
    a->are_tombstones_dropped |= b->are_tombstones_dropped;
    a->retention_ms = least_limit(a->retention_ms, b->retention_ms);
    a->is_retained_by_size |= b->is_retained_by_size;
    a->batch_size_low = least_limit(a->batch_size_low, b->batch_size_low);
    if (b->batch_size_high > a->batch_size_high) {
        a->batch_size_high = b->batch_size_high;
    }
}

/* Topic configurations: Kafka's table, validation row by row, and what is in effect. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "cluster/topic_configs.h"
#include "storage/batch.h"

struct row {
    const char *name;
    const char *value;
    const char *why; /* NULL = legal; else what the text must contain. */
};

static const struct row rows[] = {
    {"cleanup.policy", "delete", NULL},
    {"cleanup.policy", "compact , delete", NULL},
    {"cleanup.policy", "", NULL},
    {"cleanup.policy", "compact,,delete", "must not be empty"},
    {"cleanup.policy", "compact,keep", "String must be one of: compact, delete"},
    {"retention.ms", "-1", NULL},
    {"retention.ms", " 5 ", NULL},
    {"retention.ms", "-2", "Value must be at least -1"},
    {"retention.ms", "1.5", "Not a number of type LONG"},
    {"retention.ms", "", "Not a number of type LONG"},
    {"retention.ms", "0x10", "Not a number of type LONG"},
    {"retention.ms", "9223372036854775807", NULL},
    {"retention.ms", "9223372036854775808", "Not a number of type LONG"},
    {"retention.bytes", "-9223372036854775808", NULL},
    {"retention.bytes", "-9223372036854775809", "Not a number of type LONG"},
    {"segment.bytes", "1048576", NULL},
    {"segment.bytes", "1048575", "Value must be at least 1048576"},
    {"segment.bytes", "2147483648", "Not a number of type INT"},
    {"max.message.bytes", "0", NULL},
    {"compression.type", "zstd", NULL},
    {"compression.type", "none", "String must be one of"},
    {"compression.gzip.level", "0", "between 1 and 9 or equal to -1"},
    {"compression.gzip.level", "9", NULL},
    {"compression.gzip.level", "10", "between 1 and 9 or equal to -1"},
    {"compression.lz4.level", "18", "no more than 17"},
    {"compression.zstd.level", "-131072", NULL},
    {"coreflume.ack", "memory", NULL},
    {"coreflume.ack", "none", "String must be one of: durable, memory"},
    {"coreflume.akc", "memory", "did you mean coreflume.ack?"},
    {"flush.messages", "0", "Value must be at least 1"},
    {"flush.ms", "-1", "Value must be at least 0"},
    {"message.timestamp.type", "LogAppendTime", NULL},
    {"message.timestamp.type", "logappendtime", "String must be one of"},
    {"min.cleanable.dirty.ratio", "0.5", NULL},
    {"min.cleanable.dirty.ratio", "1e-1", NULL},
    {"min.cleanable.dirty.ratio", "1.01", "no more than 1"},
    {"min.cleanable.dirty.ratio", "-0.1", "at least 0"},
    {"min.cleanable.dirty.ratio", "nan", "Not a number of type DOUBLE"},
    {"min.cleanable.dirty.ratio", "0.5.", "Not a number of type DOUBLE"},
    {"preallocate", "TRUE", NULL},
    {"preallocate", "yes", "either true or false"},
    {"leader.replication.throttled.replicas", "*", NULL},
    {"leader.replication.throttled.replicas", "0:1,1:2", NULL},
    {"leader.replication.throttled.replicas", "0-1", "literal '*'"},
    {"retention.msec",
     "1",
     "Unknown topic config name: retention.msec (did you mean retention.ms?)"},
    {"log.retention.ms", "1", "Unknown topic config name: log.retention.ms"},
    {"zzzzzzzzzz", "1", "Unknown topic config name: zzzzzzzzzz"},
    {"", "1", "Unknown topic config name: "},
};

Test(topic_configs, values_are_judged_as_kafka_judges_them)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        const struct config_pair pair = {slice_of_string(row->name), slice_of_string(row->value)};
        char why[TOPIC_CONFIG_WHY_SIZE] = "";
        enum err e = topic_config_check(&pair, why);
        if (row->why == NULL) {
            cr_assert(eq(int, e, ERR_OK), "%s=%s: %s", row->name, row->value, why);
        } else {
            cr_assert(eq(int, e, ERR_CONFIG_INVALID), "%s=%s", row->name, row->value);
            cr_assert(strstr(why, row->why) != NULL, "%s=%s: %s", row->name, row->value, why);
        }
    }
}

Test(topic_configs, null_and_oversized_values_are_refused)
{
    char why[TOPIC_CONFIG_WHY_SIZE];
    struct config_pair pair = {.name = slice_of_string("retention.ms")};
    cr_assert(eq(int, topic_config_check(&pair, why), ERR_CONFIG_INVALID));
    cr_assert(eq(str, why, "Null value not supported for topic configs: retention.ms"));

    static char large[TOPIC_CONFIG_VALUE_SIZE_MAX + 2];
    memset(large, '1', sizeof(large) - 1);
    pair.value = slice_of(large, sizeof(large) - 1);
    cr_assert(eq(int, topic_config_check(&pair, why), ERR_CONFIG_INVALID));

    pair.value = slice_of("1\0", 2); /* Would be cut where it is stored. */
    cr_assert(eq(int, topic_config_check(&pair, why), ERR_CONFIG_INVALID));
}

Test(topic_configs, table_is_sorted_and_its_defaults_are_legal)
{
    for (uint32_t i = 0; i < topic_configs_count(); i++) {
        const struct topic_config *config = topic_config_at(i);
        const struct config_pair pair = {
            slice_of_string(config->name),
            slice_of_string(config->default_value),
        };
        char why[TOPIC_CONFIG_WHY_SIZE] = "";
        cr_assert(eq(int, topic_config_check(&pair, why), ERR_OK), "%s", why);
        if (i > 0) {
            cr_assert(lt(int, strcmp(topic_config_at(i - 1)->name, config->name), 0));
        }
    }
}

Test(topic_configs, own_value_goes_before_broker_default_before_kafkas)
{
    struct topic_config_entry own[] = {{"retention.ms", "1"}};
    struct topic_config_entry defaults[] = {{"retention.ms", "2"}, {"segment.ms", "3"}};
    struct topic_config_entry broker[] = {{"log.retention.ms", "4"},
                                          {"log.index.size.max.bytes", "5"}};
    struct topic_config_entry brokers[] = {{"log.index.size.max.bytes", "6"},
                                           {"log.roll.jitter.ms", "7"}};
    const struct topic_config_set set = {
        .own = own,
        .own_count = 1,
        .broker = broker,
        .broker_count = 2,
        .brokers = brokers,
        .brokers_count = 2,
        .defaults = defaults,
        .defaults_count = 2,
    };
    enum topic_config_source source;

    const struct topic_config *c = topic_config_by_name(slice_of_string("retention.ms"));
    cr_assert(eq(str, (char *)topic_config_effective(&set, c, &source), "1"));
    cr_assert(eq(int, source, TOPIC_CONFIG_SOURCE_TOPIC));
    c = topic_config_by_name(slice_of_string("segment.index.bytes"));
    cr_assert(eq(str, (char *)topic_config_effective(&set, c, &source), "5"));
    cr_assert(eq(int, source, TOPIC_CONFIG_SOURCE_BROKER));
    c = topic_config_by_name(slice_of_string("segment.jitter.ms"));
    cr_assert(eq(str, (char *)topic_config_effective(&set, c, &source), "7"));
    cr_assert(eq(int, source, TOPIC_CONFIG_SOURCE_BROKERS));
    c = topic_config_by_name(slice_of_string("segment.ms"));
    cr_assert(eq(str, (char *)topic_config_effective(&set, c, &source), "3"));
    cr_assert(eq(int, source, TOPIC_CONFIG_SOURCE_BROKER_FILE));
    c = topic_config_by_name(slice_of_string("segment.bytes"));
    cr_assert(eq(str, (char *)topic_config_effective(&set, c, &source), "1073741824"));
    cr_assert(eq(int, source, TOPIC_CONFIG_SOURCE_DEFAULT));
}

Test(topic_configs, sets_are_checked_across_values)
{
    char why[TOPIC_CONFIG_WHY_SIZE];
    struct topic_config_entry lag[] = {
        {"min.compaction.lag.ms", "10"},
        {"max.compaction.lag.ms", "9"},
    };
    const struct topic_config_set bad = {.own = lag, .own_count = 2};
    cr_assert(eq(int, topic_config_check_set(&bad, why), ERR_CONFIG_INVALID));
    const struct topic_config_set good = {.own = lag, .own_count = 1};
    cr_assert(eq(int, topic_config_check_set(&good, why), ERR_OK));

    struct topic_config_entry remote[] = {{"remote.storage.enable", "true"}};
    const struct topic_config_set tiered = {.own = remote, .own_count = 1};
    cr_assert(eq(int, topic_config_check_set(&tiered, why), ERR_CONFIG_INVALID));
}

/* What has to be compacted by then must not stand in the open segment any more. */
Test(topic_configs, the_compaction_lag_rolls_segments_of_compacted_topics)
{
    static const struct {
        char *policy;
        char *lag_ms;
        int64_t age_ms_max;
    } lags[] = {
        {"compact", "5000", 5000},
        {"compact,delete", "5000", 5000},
        {"compact", "70000", 60000},
        {"delete", "5000", 60000},
    };
    for (size_t i = 0; i < sizeof(lags) / sizeof(lags[0]); i++) {
        struct topic_config_entry own[] = {
            {"cleanup.policy", lags[i].policy},
            {"max.compaction.lag.ms", lags[i].lag_ms},
            {"segment.ms", "60000"},
        };
        struct topic_settings settings;
        topic_settings_derive(&(struct topic_config_set){.own = own, .own_count = 3}, &settings);
        cr_assert(eq(i64, settings.segment_age_ms_max, lags[i].age_ms_max), "row %zu", i);
    }
}

Test(topic_configs, settings_follow_the_values_in_effect)
{
    struct topic_settings settings;
    topic_settings_derive(&(struct topic_config_set){0}, &settings);
    cr_assert(eq(u32, settings.message_size_max, 1048588));
    cr_assert(not(settings.is_compacted));
    cr_assert(not(settings.is_log_append_time));
    cr_assert(eq(i64, settings.timestamp_before_ms_max, INT64_MAX));
    cr_assert(eq(i64, settings.timestamp_after_ms_max, 3600000));
    cr_assert(eq(u32, settings.replicas_min, 1));
    cr_assert(eq(u64, settings.segment_size_max, 1 << 30));
    cr_assert(eq(i8, settings.codec, TOPIC_CODEC_PRODUCER));
    cr_assert(not(settings.is_ack_memory));
    cr_assert(eq(i64, settings.unflushed_records_max, INT64_MAX));
    cr_assert(eq(i64, settings.unflushed_ms_max, INT64_MAX));

    struct topic_config_entry own[] = {
        {"cleanup.policy", "delete, compact"},
        {"message.timestamp.type", " LogAppendTime"},
        {"max.message.bytes", " 100 "},
    };
    topic_settings_derive(&(struct topic_config_set){.own = own, .own_count = 3}, &settings);
    cr_assert(settings.is_compacted);
    cr_assert(settings.is_log_append_time);
    cr_assert(eq(u32, settings.message_size_max, 100));
}

Test(topic_configs, codec_and_level_go_together)
{
    static const struct {
        const char *word;
        int8_t codec;
        int32_t level; /* Own one, set below; 0 where the codec has none. */
    } codec_rows[] = {
        {"producer", TOPIC_CODEC_PRODUCER, 0},
        {"uncompressed", CODEC_NONE, 0},
        {"gzip", CODEC_GZIP, 4},
        {"snappy", CODEC_SNAPPY, 0},
        {"lz4", CODEC_LZ4, 5},
        {"zstd", CODEC_ZSTD, -6},
    };
    for (size_t i = 0; i < sizeof(codec_rows) / sizeof(codec_rows[0]); i++) {
        struct topic_config_entry own[] = {
            {"compression.gzip.level", "4"},
            {"compression.lz4.level", "5"},
            {"compression.zstd.level", "-6"},
            {"compression.type", (char *)codec_rows[i].word},
        };
        struct topic_settings settings;
        topic_settings_derive(&(struct topic_config_set){.own = own, .own_count = 4}, &settings);
        cr_assert(eq(i8, settings.codec, codec_rows[i].codec), "%s", codec_rows[i].word);
        cr_assert(eq(i32, settings.codec_level, codec_rows[i].level), "%s", codec_rows[i].word);
    }
}

Test(topic_configs, a_relaxed_topic_is_so_by_its_own_name_only)
{
    cr_assert(topic_config_by_name(slice_of_string("coreflume.ack"))->broker_name == NULL);
    struct topic_config_entry own[] = {
        {"coreflume.ack", "memory"},
        {"flush.messages", "3"},
        {"flush.ms", "5"},
    };
    struct topic_settings settings;
    topic_settings_derive(&(struct topic_config_set){.own = own, .own_count = 3}, &settings);
    cr_assert(settings.is_ack_memory);
    cr_assert(eq(i64, settings.unflushed_records_max, 3));
    cr_assert(eq(i64, settings.unflushed_ms_max, 5));
}

/* From options to values: listeners and their advertised addresses, topic defaults. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "broker/options.h"
#include "broker/settings.h"
#include "cluster/config_specs.h"

enum { PAIRS_MAX = 4 };

struct fixture {
    struct config_table *table;
    struct config *config;
    struct broker_settings settings;
    char why[SETTINGS_WHY_SIZE];
};

static enum err read(struct fixture *f, const char *const *pairs)
{
    *f = (struct fixture){0};
    cr_assert(eq(int, options_new(&f->table), ERR_OK));
    cr_assert(eq(int, config_new(f->table, &f->config), ERR_OK));
    for (size_t i = 0; pairs[i] != NULL; i++) {
        cr_assert(eq(int, config_set_pair(f->config, pairs[i], f->why), ERR_OK), "%s", f->why);
    }
    return settings_from_config(&f->settings, f->config, 3, f->why);
}

static void done(struct fixture *f, enum err e)
{
    if (e == ERR_OK) {
        settings_done(&f->settings);
    }
    config_free(f->config);
    options_free(f->table);
}

/* What may be altered while the broker runs stands in the engine's table too, which judges it: what
 * the file may say and what a client may say is the same. */
Test(settings, what_is_dynamic_is_what_the_controller_judges)
{
    struct config_table *table;
    cr_assert(eq(int, options_new(&table), ERR_OK));
    int dynamic_count = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct config_option *o = &table->options[i];
        struct topic_config spec;
        const bool is_known =
            config_spec_find(CONFIG_RESOURCE_BROKER, slice_of_string(o->name), &spec);
        cr_assert(eq(int, o->is_dynamic, is_known), "%s", o->name);
        if (!is_known) {
            continue;
        }
        dynamic_count++;
        cr_assert(eq(i64, o->min, spec.min), "%s", o->name);
        cr_assert(eq(i64, o->max, spec.max), "%s", o->name);
        cr_assert(eq(int, o->fallback == NULL, spec.default_value == NULL), "%s", o->name);
        if (o->fallback != NULL) {
            cr_assert(eq(str, (char *)o->fallback, (char *)spec.default_value), "%s", o->name);
        }
    }
    cr_assert(lt(int, 20, dynamic_count));
    options_free(table);
}

/* DescribeLogDirs and the log name directories so that they are found from anywhere. */
static bool is_below_here(const char *path, const char *name)
{
    char *here = realpath(".", NULL);
    const size_t size = here == NULL ? 0 : strlen(here);
    const bool is_below = here != NULL && strncmp(path, here, size) == 0 && path[size] == '/' &&
                          strcmp(path + size + 1, name) == 0;
    free(here);
    return is_below;
}

Test(settings, defaults)
{
    struct fixture f;
    enum err e = read(&f, (const char *const[]){NULL});
    cr_assert(eq(int, e, ERR_OK), "%s", f.why);
    const struct broker_settings *s = &f.settings;
    cr_assert(eq(u32, s->listeners_count, 1));
    cr_assert(eq(str, (char *)s->listeners[0].name, "PLAINTEXT"));
    cr_assert(eq(str, (char *)s->listeners[0].bind.host, "127.0.0.1"));
    cr_assert(eq(int, s->listeners[0].advertised.port, 9092));
    cr_assert(eq(u32, s->data_dirs_count, 1));
    cr_assert(is_below_here(s->data_dirs[0], "data"), "%s", s->data_dirs[0]);
    cr_assert(s->has_admin);
    cr_assert(eq(u32, s->cluster.topic_defaults_count, 0));
    cr_assert(eq(u32, s->kafka_limits.conns_max, 33334), "a share of 100000 for each of 3");
    cr_assert(eq(ptr, (void *)s->cluster.rack, NULL));
    done(&f, e);
}

static void expect_same_limits(const struct groups_limited *a, const struct groups_limited *b)
{
    cr_assert(eq(i32, a->value, b->value));
    cr_assert(eq(i32, a->min, b->min));
    cr_assert(eq(i32, a->max, b->max));
}

/* Field by field: what is between them may be anything. */
static void expect_same_groups(const struct groups_settings *a, const struct groups_settings *b)
{
    cr_assert(eq(i32, a->topic_partitions_count, b->topic_partitions_count));
    cr_assert(eq(i16, a->topic_replication_factor_max, b->topic_replication_factor_max));
    cr_assert(eq(i32, a->topic_segment_size_max, b->topic_segment_size_max));
    cr_assert(eq(i64, a->offsets_retention_ms, b->offsets_retention_ms));
    cr_assert(eq(i64, a->offsets_check_ms, b->offsets_check_ms));
    cr_assert(eq(i32, a->offset_metadata_size_max, b->offset_metadata_size_max));
    cr_assert(eq(i64, a->commit_timeout_ms, b->commit_timeout_ms));
    cr_assert(eq(int, a->is_consumer_enabled, b->is_consumer_enabled));
    cr_assert(eq(i32, a->session_timeout_ms_min, b->session_timeout_ms_min));
    cr_assert(eq(i32, a->session_timeout_ms_max, b->session_timeout_ms_max));
    cr_assert(eq(i32, a->initial_delay_ms, b->initial_delay_ms));
    cr_assert(eq(i32, a->members_max, b->members_max));
    expect_same_limits(&a->consumer_session_timeout_ms, &b->consumer_session_timeout_ms);
    expect_same_limits(&a->consumer_heartbeat_interval_ms, &b->consumer_heartbeat_interval_ms);
    expect_same_limits(&a->consumer_assignment_interval_ms, &b->consumer_assignment_interval_ms);
    cr_assert(eq(i32, a->consumer_members_max, b->consumer_members_max));
    cr_assert(eq(int, a->is_heartbeat_held, b->is_heartbeat_held));
    cr_assert(eq(u32, a->consumer_assignors_count, b->consumer_assignors_count));
    cr_assert(eq(int, a->migration, b->migration));
    cr_assert(eq(u32, a->groups_max, b->groups_max));
    cr_assert(eq(u32, a->all_members_max, b->all_members_max));
    cr_assert(eq(u64, a->state_size_max, b->state_size_max));
}

/* The table's defaults and those of the coordinators are the same. */
Test(settings, groups)
{
    struct fixture f;
    enum err e = read(&f, (const char *const[]){NULL});
    cr_assert(eq(int, e, ERR_OK), "%s", f.why);
    struct groups_settings fresh;
    groups_settings_init(&fresh);
    cr_assert(eq(int, f.settings.groups.consumer_assignors_count, 2));
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(eq(str,
                     (char *)f.settings.groups.consumer_assignors[i],
                     (char *)fresh.consumer_assignors[i]));
    }
    expect_same_groups(&f.settings.groups, &fresh);
    done(&f, e);

    e = read(&f,
             (const char *const[]){
                 "group.consumer.assignors=range",
                 "group.coordinator.rebalance.protocols=classic",
                 "group.max.size=7",
                 "group.consumer.max.size=9",
                 "offsets.retention.minutes=2",
                 "group.consumer.migration.policy=downgrade",
                 NULL,
             });
    cr_assert(eq(int, e, ERR_OK), "%s", f.why);
    const struct groups_settings *s = &f.settings.groups;
    cr_assert(eq(u32, s->consumer_assignors_count, 1));
    cr_assert(eq(str, (char *)s->consumer_assignors[0], "range"));
    cr_assert(not(s->is_consumer_enabled));
    cr_assert(eq(i32, s->members_max, 7));
    cr_assert(eq(i32, s->consumer_members_max, 9));
    cr_assert(eq(i64, s->offsets_retention_ms, 120000));
    cr_assert(eq(int, s->migration, GROUPS_MIGRATION_DOWNGRADE));
    done(&f, e);
}

Test(settings, several_data_directories_and_lost_ones)
{
    struct fixture f;
    enum err e = read(&f,
                      (const char *const[]){
                          "log.dirs=a, /b/c ,d",
                          "coreflume.log.dirs.lost=AAAAAAAAAAAAAAAAAAAAAg",
                          NULL,
                      });
    cr_assert(eq(int, e, ERR_OK), "%s", f.why);
    const struct broker_settings *s = &f.settings;
    cr_assert(eq(u32, s->data_dirs_count, 3));
    cr_assert(is_below_here(s->data_dirs[0], "a"), "%s", s->data_dirs[0]);
    cr_assert(eq(str, (char *)s->data_dirs[1], "/b/c"));
    cr_assert(is_below_here(s->data_dirs[2], "d"), "%s", s->data_dirs[2]);
    cr_assert(eq(u32, s->cluster.lost_dirs_count, 1));
    cr_assert(eq(str, (char *)s->cluster.lost_dirs[0].text, "AAAAAAAAAAAAAAAAAAAAAg"));
    done(&f, e);
}

Test(settings, each_listener_has_its_own_advertised_address)
{
    struct fixture f;
    enum err e = read(&f,
                      (const char *const[]){
                          "listeners=IN://10.0.0.1:1,OUT://0.0.0.0:2,SIX://[::1]:3,ALL://:4",
                          "advertised.listeners=OUT://example.org:9",
                          NULL,
                      });
    cr_assert(eq(int, e, ERR_OK), "%s", f.why);
    const struct listener_settings *l = f.settings.listeners;
    cr_assert(eq(u32, f.settings.listeners_count, 4));
    cr_assert(eq(str, (char *)l[0].advertised.host, "10.0.0.1"));
    cr_assert(eq(str, (char *)l[1].bind.host, "0.0.0.0"));
    cr_assert(eq(str, (char *)l[1].advertised.host, "example.org"));
    cr_assert(eq(int, l[1].advertised.port, 9));
    cr_assert(eq(str, (char *)l[2].advertised.host, "::1"));
    cr_assert(eq(str, (char *)l[3].bind.host, "0.0.0.0"));
    cr_assert(ne(str, (char *)l[3].advertised.host, "0.0.0.0"), "nobody can connect to that");
    done(&f, e);
}

Test(settings, what_contradicts_itself_is_refused)
{
    static const struct {
        const char *pairs[3];
        const char *text;
    } rows[] = {
        {{"listeners=9092", NULL}, "NAME://HOST:PORT"},
        {{"listeners=://h:1", NULL}, "NAME://HOST:PORT"},
        {{"listeners=A://h:1,A://h:2", NULL}, "twice"},
        {{"listeners=A://h:99999", NULL}, "NAME://HOST:PORT"},
        {{"advertised.listeners=B://h:1", NULL}, "'B'"},
        {{"advertised.listeners=PLAINTEXT://0.0.0.0:1", NULL}, "clients can connect"},
        {{"listener.security.protocol.map=PLAINTEXT:SASL_SSL", NULL}, "SASL_SSL"},
        {{"listener.security.protocol.map=PLAINTEXT", NULL}, "NAME:PROTOCOL"},
        {{"log.dirs=", NULL}, "names 1 to 64 directories"},
        {{"log.dirs=a,b,a/", NULL}, "a/ is given twice (as a too)"},
        {{"log.dirs=/tmp/x,/tmp/x/y", NULL}, "/tmp/x/y lies inside of data directory /tmp/x:"},
        {{"log.dirs=/tmp/x,/", NULL}, "/tmp/x lies inside of data directory /:"},
        {{"coreflume.log.dirs.lost=AAAAAAAAAAAAAAAAAAAAAg,x", NULL}, "'x' is no directory_id"},
        {{"coreflume.admin.listener=nothing", NULL}, "HOST:PORT"},
        {{"log.cleanup.policy=keep", NULL}, "log.cleanup.policy"},
        {{"group.consumer.assignors=uniform,uniform", NULL}, "each once"},
        {{"group.consumer.assignors=sticky", NULL}, "takes uniform and range"},
        {{"group.consumer.assignors=", NULL}, "at least one"},
        {{"group.coordinator.rebalance.protocols=consumer", NULL}, "must name classic"},
        {{"group.coordinator.rebalance.protocols=classic,share", NULL}, "no other protocols"},
        {{"group.min.session.timeout.ms=30m", "group.max.session.timeout.ms=1m", NULL},
         "group.min.session.timeout.ms (1800000) must not be above"},
        {{"group.consumer.session.timeout.ms=61s", NULL}, "group.consumer.max.session.timeout.ms"},
        {{"group.consumer.min.heartbeat.interval.ms=6s", NULL},
         "must not be above group.consumer.heartbeat.interval.ms (5000)"},
        {{"group.consumer.assignment.interval.ms=16s", NULL}, "(16000) must not be above"},
        {{"log.cleaner.min.cleanable.ratio=2", NULL}, "log.cleaner.min.cleanable.ratio"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        enum err e = read(&f, rows[i].pairs);
        cr_assert(eq(int, e, ERR_CONFIG_INVALID), "row %zu", i);
        cr_assert(strstr(f.why, rows[i].text) != NULL, "row %zu: %s", i, f.why);
        cr_assert(strstr(f.why, "--set") != NULL, "row %zu says where: %s", i, f.why);
        done(&f, e);
    }
}

/* Values come with a unit, topics want plain numbers; only what was said counts as set. */
Test(settings, topic_defaults_are_plain)
{
    struct fixture f;
    enum err e = read(&f,
                      (const char *const[]){
                          "log.segment.bytes=64MiB",
                          "log.retention.ms=7d",
                          "log.cleanup.policy=compact",
                          NULL,
                      });
    cr_assert(eq(int, e, ERR_OK), "%s", f.why);
    static const char *const wanted[][2] = {
        {"cleanup.policy", "compact"},
        {"retention.ms", "604800000"},
        {"segment.bytes", "67108864"},
    };
    cr_assert(eq(u32, f.settings.cluster.topic_defaults_count, 3));
    for (size_t i = 0; i < 3; i++) {
        const struct topic_config_entry *entry = &f.settings.cluster.topic_defaults[i];
        cr_assert(eq(str, entry->name, (char *)wanted[i][0]));
        cr_assert(eq(str, entry->value, (char *)wanted[i][1]));
    }
    done(&f, e);
}

/* Kafka's precedence: milliseconds before minutes before hours. */
Test(settings, secondary_names_count_where_the_first_is_not_set)
{
    static const struct {
        const char *pairs[4];
        const char *name; /* NULL: nothing is set. */
        const char *value;
    } rows[] = {
        {{"log.retention.hours=24"}, "retention.ms", "86400000"},
        {{"log.retention.hours=24", "log.retention.minutes=60"}, "retention.ms", "3600000"},
        {{"log.retention.minutes=60", "log.retention.ms=5"}, "retention.ms", "5"},
        {{"log.retention.hours=-1"}, "retention.ms", "-1"},
        {{"log.retention.hours=2147483647"}, "retention.ms", "7730941129200000"},
        {{"log.roll.hours=1"}, "segment.ms", "3600000"},
        {{"log.roll.jitter.hours=2"}, "segment.jitter.ms", "7200000"},
        {{"log.flush.scheduler.interval.ms=7s"}, "flush.ms", "7000"},
        {{"log.retention.check.interval.ms=1s"}, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        enum err e = read(&f, rows[i].pairs);
        cr_assert(eq(int, e, ERR_OK), "row %zu: %s", i, f.why);
        cr_assert(eq(u32, f.settings.cluster.topic_defaults_count, rows[i].name == NULL ? 0 : 1));
        for (uint32_t j = 0; j < f.settings.cluster.topic_defaults_count; j++) {
            const struct topic_config_entry *entry = &f.settings.cluster.topic_defaults[j];
            cr_assert(eq(str, entry->name, (char *)rows[i].name), "row %zu", i);
            cr_assert(eq(str, entry->value, (char *)rows[i].value), "row %zu", i);
        }
        done(&f, e);
    }
}

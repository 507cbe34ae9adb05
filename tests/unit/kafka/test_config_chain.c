/* Where a value comes from: what was altered, the file and the defaults, in Kafka's order. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/metadata_edit.h"
#include "kafka/broker_config.h"
#include "kafka/config_chain.h"
#include "kafka/request.h"

#include "tests/support/kafka_rig.h"

enum { TEXT_SIZE = 512 };

static const struct broker_config rows[] = {
    {.name = "log.cleanup.policy", .default_value = "delete"},
    {.name = "log.retention.hours", .value = "24", .default_value = "168"},
    {.name = "log.retention.minutes"},
    {.name = "log.retention.ms"},
    {.name = "log.roll.hours", .default_value = "168"},
    {.name = "log.roll.ms", .value = "9"},
    {.name = "message.max.bytes", .value = "5", .default_value = "1048588"},
};

struct altering {
    const char *broker; /* NULL: nothing was altered. */
    const char *name;
    const char *value;
};

struct row {
    struct altering alterings[2];
    const char *name;
    const char *wanted; /* name=value/source; in order */
};

static const struct row chains[] = {
    {{{0}}, "message.max.bytes", "message.max.bytes=5/4;message.max.bytes=1048588/5;"},
    {{{0}}, "log.retention.ms", ""},
    {{{0}}, "log.retention.minutes", ""},
    {{{0}}, "log.retention.hours", "log.retention.hours=24/4;log.retention.hours=168/5;"},
    {{{0}}, "log.roll.ms", "log.roll.ms=9/4;log.roll.hours=168/5;"},
    {{{0}}, "log.roll.hours", "log.roll.hours=168/5;"},
    {{{0}},
     "group.consumer.assignment.interval.ms",
     "group.consumer.assignment.interval.ms=1000/5;"},
    {{{0}}, "no.such", ""},
    {{{"", "log.retention.ms", "7"}},
     "log.retention.ms",
     "log.retention.ms=7/3;log.retention.hours=24/4;log.retention.hours=168/5;"},
    {{{"", "log.retention.ms", "7"}, {"1", "log.retention.ms", "8"}},
     "log.retention.ms",
     "log.retention.ms=8/2;log.retention.ms=7/3;log.retention.hours=24/4;log.retention.hours=168/"
     "5;"},
    {{{"1", "log.retention.ms", "8"}},
     "log.retention.hours",
     "log.retention.hours=24/4;log.retention.hours=168/5;"},
    {{{"", "no.such", "x"}}, "no.such", "no.such=x/3;"},
    {{{"2", "no.such", "x"}}, "no.such", ""}, /* Another broker's. */
};

static void alter(struct kafka_rig *g, const struct altering *a)
{
    if (a->broker == NULL) {
        return;
    }
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    const struct config_pair pair = {slice_of_string(a->name), slice_of_string(a->value)};
    command_encode_configs(&pair, 1, &w);
    const struct command_configs_altered altered = {
        .resource = CONFIG_RESOURCE_BROKER,
        .name = slice_of_string(a->broker),
        .configs_count = 1,
        .configs = wbuf_slice(&w),
    };
    metadata_alter_resource(g->cluster.metadata, &altered);
    wbuf_done(&w);
}

static void print(const struct config_chain *chain, char text[TEXT_SIZE])
{
    size_t size = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct config_link *l = &chain->links[i];
        size += (size_t)snprintf(
            text + size, TEXT_SIZE - size, "%s=%s/%d;", l->name, l->value, (int)l->source);
    }
}

static void set_up(struct kafka_rig *g)
{
    kafka_rig_init(g);
    g->settings.configs = rows;
    g->settings.configs_count = sizeof(rows) / sizeof(rows[0]);
}

static struct dispatch dispatch_of(struct kafka_rig *g)
{
    return (struct dispatch){.cluster = &g->cluster, .settings = &g->settings};
}

Test(config_chain, of_brokers)
{
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        struct kafka_rig g;
        set_up(&g);
        alter(&g, &chains[i].alterings[0]);
        alter(&g, &chains[i].alterings[1]);
        const struct dispatch d = dispatch_of(&g);
        struct config_chain chain;
        char text[TEXT_SIZE];
        config_chain_of_broker(&d, chains[i].name, &chain);
        print(&chain, text);
        cr_assert(eq(str, text, (char *)chains[i].wanted), "row %zu: %s", i, chains[i].name);
        kafka_rig_done(&g);
    }
}

/* Its own value first; the source is that of the chain, also where a secondary name decides. */
Test(config_chain, of_topics)
{
    struct kafka_rig g;
    set_up(&g);
    char own_name[] = "retention.ms";
    char own_value[] = "3";
    char file_value[] = "86400000";
    const struct topic_config_entry own = {own_name, own_value};
    const struct topic_config_entry file = {own_name, file_value};
    const struct topic_config *c = topic_config_by_name(slice_of_string("retention.ms"));
    const struct dispatch d = dispatch_of(&g);
    struct topic_config_set set = {.defaults = &file, .defaults_count = 1};
    enum topic_config_source source;
    cr_assert(eq(str, (char *)config_chain_topic_value(&d, &set, c, &source), file_value));
    cr_assert(eq(int, source, TOPIC_CONFIG_SOURCE_DEFAULT)); /* From log.retention.hours. */
    set.own = &own;
    set.own_count = 1;
    cr_assert(eq(str, (char *)config_chain_topic_value(&d, &set, c, &source), own_value));
    cr_assert(eq(int, source, TOPIC_CONFIG_SOURCE_TOPIC));
    struct config_chain chain;
    char text[TEXT_SIZE];
    config_chain_of_topic(&d, &set, c, &chain);
    print(&chain, text);
    cr_assert(eq(str, text, "retention.ms=3/1;"));
    c = topic_config_by_name(slice_of_string("remote.storage.enable"));
    config_chain_of_topic(&d, &set, c, &chain);
    cr_assert(eq(u32, chain.count, 0));
    kafka_rig_done(&g);
}

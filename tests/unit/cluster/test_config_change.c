/* What altering makes of configurations: operations one by one, lists, replacing, and what is
 * refused of topics, brokers, groups and subscriptions. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/config_change.h"

enum { TEXT_SIZE = 256 };

struct step {
    enum config_operation operation;
    const char *name;
    const char *value;
};

struct altering {
    const char *what;
    bool is_replacing;
    struct step steps[3];
    enum err wanted_error;
    const char *wanted; /* name=value; in order */
};

/* On top of retention.ms=5 and cleanup.policy=compact. */
static const struct altering alterings[] = {
    {"nothing", false, {{0}}, ERR_OK, "retention.ms=5;cleanup.policy=compact;"},
    {"replaced by nothing", true, {{0}}, ERR_OK, ""},
    {"replaced", true, {{CONFIG_SET, "segment.ms", "7"}}, ERR_OK, "segment.ms=7;"},
    {"set anew",
     false,
     {{CONFIG_SET, "retention.ms", " 6 "}},
     ERR_OK,
     "retention.ms= 6 ;cleanup.policy=compact;"},
    {"deleted",
     false,
     {{CONFIG_DELETE, "retention.ms", NULL}, {CONFIG_DELETE, "no.such", NULL}},
     ERR_OK,
     "cleanup.policy=compact;"},
    {"appended",
     false,
     {{CONFIG_APPEND, "cleanup.policy", " delete , compact,delete"}},
     ERR_OK,
     "retention.ms=5;cleanup.policy=compact,delete;"},
    {"appended to the default",
     true,
     {{CONFIG_APPEND, "cleanup.policy", "compact"}},
     ERR_OK,
     "cleanup.policy=delete,compact;"},
    {"nothing appended",
     false,
     {{CONFIG_APPEND, "cleanup.policy", ""}},
     ERR_OK,
     "retention.ms=5;cleanup.policy=compact;"},
    {"subtracted, all of it",
     false,
     {{CONFIG_SUBTRACT, "cleanup.policy", "compact,delete"}},
     ERR_OK,
     "retention.ms=5;cleanup.policy=;"},
    {"not a list", false, {{CONFIG_APPEND, "retention.ms", "5"}}, ERR_CONFIG_INVALID, NULL},
    {"unknown", false, {{CONFIG_SET, "no.such", "5"}}, ERR_CONFIG_INVALID, NULL},
    {"unknown list", false, {{CONFIG_APPEND, "no.such", "5"}}, ERR_CONFIG_INVALID, NULL},
    {"null", false, {{CONFIG_SET, "retention.ms", NULL}}, ERR_INVALID, NULL},
    {"bad member", false, {{CONFIG_APPEND, "cleanup.policy", "x"}}, ERR_CONFIG_INVALID, NULL},
    {"no operation", false, {{9, "retention.ms", "5"}}, ERR_CONFIG_INVALID, NULL},
};

static uint32_t take_steps(const struct altering *a, struct config_change *changes)
{
    uint32_t count = 0;
    while (count < 3 && a->steps[count].name != NULL) {
        const struct step *s = &a->steps[count];
        changes[count++] = (struct config_change){
            .operation = s->operation,
            .name = slice_of_string(s->name),
            .value = s->value == NULL ? (struct slice){0} : slice_of_string(s->value),
        };
    }
    return count;
}

Test(config_change, table)
{
    char retention[] = "retention.ms";
    char five[] = "5";
    char policy[] = "cleanup.policy";
    char compact[] = "compact";
    const struct topic_config_entry before[] = {{retention, five}, {policy, compact}};
    for (size_t i = 0; i < sizeof(alterings) / sizeof(alterings[0]); i++) {
        const struct altering *a = &alterings[i];
        struct config_change changes[3];
        const struct config_changes all = {
            .kind = CONFIG_RESOURCE_TOPIC,
            .is_replacing = a->is_replacing,
            .changes = changes,
            .count = take_steps(a, changes),
        };
        struct config_list list;
        char why[TOPIC_CONFIG_WHY_SIZE] = "";
        config_list_copy(&list, before, 2);
        cr_assert(eq(int, config_list_change(&list, &all, why), a->wanted_error), "%s", a->what);
        if (a->wanted_error != ERR_OK) {
            cr_assert(ne(int, why[0], '\0'), "%s", a->what);
        } else {
            char text[TEXT_SIZE] = "";
            for (uint32_t j = 0; j < list.count; j++) {
                const size_t used = strlen(text);
                (void)snprintf(text + used,
                               sizeof(text) - used,
                               "%s=%s;",
                               list.entries[j].name,
                               list.entries[j].value);
            }
            cr_assert(eq(str, text, (char *)a->wanted), "%s", a->what);
        }
        config_list_done(&list);
    }
}

struct setting {
    enum config_resource kind;
    enum config_operation operation;
    const char *name;
    const char *value;
    enum err wanted_error;
    const char *wanted; /* The value, or a part of what is said. */
};

static const struct setting settings[] = {
    {4, CONFIG_SET, "log.retention.ms", "5", ERR_OK, "5"},
    {4, CONFIG_SET, "log.retention.ms", "-1", ERR_OK, "-1"},
    {4, CONFIG_SET, "log.retention.ms", "0", ERR_INVALID, "requirement failed: log.retention.ms"},
    {4, CONFIG_SET, "log.retention.ms", "-2", ERR_INVALID, "requirement failed: log.retention.ms"},
    {4, CONFIG_SET, "log.retention.ms", "", ERR_INVALID, "Not a number of type LONG"},
    {4, CONFIG_SET, "log.roll.ms", "0", ERR_INVALID, "requirement failed: log.roll.ms must be"},
    {4, CONFIG_SET, "log.segment.bytes", "1", ERR_INVALID, "log.segment.bytes: Value must be at"},
    {4, CONFIG_SET, "compression.type", "x", ERR_INVALID, "uncompressed, zstd, lz4, snappy, gzip,"},
    {4, CONFIG_SET, "node.id", "2", ERR_INVALID, "Cannot update these configs dynamically: [node"},
    {4, CONFIG_SET, "log.retention.hours", "2", ERR_INVALID, "dynamically: [log.retention.hours]"},
    {4, CONFIG_SET, "coreflume.cores", "2", ERR_INVALID, "dynamically: [coreflume.cores]"},
    {4, CONFIG_SET, "listener.name.x.ssl.key.password", "2", ERR_INVALID, "dynamically: [listener"},
    {4, CONFIG_SET, "some.plugin", "secret", ERR_OK, "secret"},
    {4, CONFIG_DELETE, "node.id", NULL, ERR_OK, NULL},
    {4, CONFIG_APPEND, "log.cleanup.policy", "compact", ERR_OK, "delete,compact"},
    {4, CONFIG_APPEND, "log.retention.ms", "5", ERR_CONFIG_INVALID, "Config value append is not"},
    {4, CONFIG_SUBTRACT, "node.id", "5", ERR_CONFIG_INVALID, "Config value subtract is not"},
    {4,
     CONFIG_APPEND,
     "metric.reporters",
     "a",
     ERR_OK,
     "org.apache.kafka.common.metrics.JmxReporter,a"},
    {4, CONFIG_SET, "log.cleaner.io.max.bytes.per.second", "1e6", ERR_OK, "1e6"},
    {32, CONFIG_SET, "consumer.session.timeout.ms", "45000", ERR_OK, "45000"},
    {32,
     CONFIG_SET,
     "consumer.session.timeout.ms",
     " 1 ",
     ERR_CONFIG_INVALID,
     "or equal to group.consumer.min.session.timeout.ms"},
    {32,
     CONFIG_SET,
     "consumer.session.timeout.ms",
     "00000000000000000000000000001",
     ERR_CONFIG_INVALID,
     "group.consumer.min"},
    {32,
     CONFIG_SET,
     "consumer.session.timeout.ms",
     "60001",
     ERR_CONFIG_INVALID,
     "less than or equal to group.consumer.max.session.timeout.ms"},
    {32,
     CONFIG_SET,
     "consumer.session.timeout.ms",
     "0",
     ERR_CONFIG_INVALID,
     "Value must be at least 1"},
    {32,
     CONFIG_SET,
     "streams.num.standby.replicas",
     "3",
     ERR_CONFIG_INVALID,
     "group.streams.max.standby.replicas"},
    {32,
     CONFIG_SET,
     "share.delivery.count.limit",
     "11",
     ERR_CONFIG_INVALID,
     "group.share.max.delivery.count.limit"},
    {32,
     CONFIG_SET,
     "retention.ms",
     "5",
     ERR_CONFIG_INVALID,
     "Unknown group config name: retention.ms"},
    {32, CONFIG_SET, "share.auto.offset.reset", " latest ", ERR_OK, " latest "},
    {32,
     CONFIG_SET,
     "share.auto.offset.reset",
     "by_duration:P1DT2H3.5S",
     ERR_OK,
     "by_duration:P1DT2H3.5S"},
    {32, CONFIG_SET, "share.auto.offset.reset", "by_duration:PT0S", ERR_OK, "by_duration:PT0S"},
    {32,
     CONFIG_SET,
     "share.auto.offset.reset",
     "by_duration:-PT1H",
     ERR_CONFIG_INVALID,
     "must be either"},
    {32,
     CONFIG_SET,
     "share.auto.offset.reset",
     "by_duration:P1DT",
     ERR_CONFIG_INVALID,
     "must be either"},
    {32,
     CONFIG_SET,
     "share.auto.offset.reset",
     "by_duration:P1H",
     ERR_CONFIG_INVALID,
     "must be either"},
    {32,
     CONFIG_SET,
     "share.auto.offset.reset",
     "by_duration:PT1M1H",
     ERR_CONFIG_INVALID,
     "must be either"},
    {32,
     CONFIG_SET,
     "share.auto.offset.reset",
     "by_duration:PT1.5H",
     ERR_CONFIG_INVALID,
     "must be either"},
    {32,
     CONFIG_SET,
     "share.auto.offset.reset",
     "by_duration:P",
     ERR_CONFIG_INVALID,
     "must be either"},
    {32, CONFIG_SET, "share.auto.offset.reset", "none", ERR_CONFIG_INVALID, "must be either"},
    {32,
     CONFIG_APPEND,
     "share.isolation.level",
     "x",
     ERR_CONFIG_INVALID,
     "Can't APPEND to key share.isolation.level"},
    {16, CONFIG_SET, "interval.ms", "100", ERR_OK, "100"},
    {16, CONFIG_SET, "interval.ms", "99", ERR_INVALID, "interval must be between 100 and 3600000"},
    {16, CONFIG_SET, "interval.ms", "x", ERR_CONFIG_INVALID, "Not a number of type INT"},
    {16,
     CONFIG_SET,
     "match",
     "client_id=a.*,client_source_port=[0-9]+",
     ERR_OK,
     "client_id=a.*,client_source_port=[0-9]+"},
    {16,
     CONFIG_SET,
     "match",
     "client_id=[",
     ERR_CONFIG_INVALID,
     "Illegal client matching pattern: client_id=["},
    {16,
     CONFIG_SET,
     "match",
     "who=a",
     ERR_CONFIG_INVALID,
     "Illegal client matching pattern: who=a"},
    {16, CONFIG_SET, "metrics", "*", ERR_OK, "*"},
    {16, CONFIG_SET, "metrics", "a,,b", ERR_CONFIG_INVALID, "values must not be empty"},
    {16, CONFIG_SET, "nope", "a", ERR_INVALID, "Unknown client metrics configuration: nope"},
};

Test(config_change, of_brokers_groups_and_subscriptions)
{
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const struct setting *s = &settings[i];
        const struct config_change change = {
            .operation = s->operation,
            .name = slice_of_string(s->name),
            .value = slice_of_string(s->value),
        };
        const struct config_changes all = {.kind = s->kind, .changes = &change, .count = 1};
        struct config_list list = {0};
        char why[TOPIC_CONFIG_WHY_SIZE] = "";
        enum err e = config_list_change(&list, &all, why);
        if (e == ERR_OK && s->kind == CONFIG_RESOURCE_GROUP) {
            const struct config_bounds kafkas = {0};
            e = config_check_group(list.entries, list.count, &kafkas, why);
        }
        cr_assert(eq(int, e, s->wanted_error), "%s=%s: %s", s->name, s->value, why);
        if (e != ERR_OK) {
            cr_assert(strstr(why, s->wanted) != NULL, "%s=%s: %s", s->name, s->value, why);
        } else if (s->wanted == NULL) {
            cr_assert(eq(u32, list.count, 0));
        } else {
            cr_assert(eq(str, list.entries[0].value, (char *)s->wanted), "%s", s->name);
        }
        config_list_done(&list);
    }
}

/* Bytes from outside: names are as long as they say, whatever is in them. */
Test(config_change, names_are_no_c_strings)
{
    static const char names[][24] = {"node.id", "node.id\0and much more", "\0", "node.i"};
    static const size_t sizes[] = {7, 21, 1, 6};
    for (size_t i = 0; i < 4; i++) {
        const struct slice name = slice_of(names[i], sizes[i]);
        const struct config_change change = {CONFIG_SET, name, slice_of_string("5")};
        const struct config_changes all = {
            .kind = CONFIG_RESOURCE_BROKER, .changes = &change, .count = 1};
        struct config_list list = {0};
        char why[TOPIC_CONFIG_WHY_SIZE] = "";
        cr_assert(eq(int, config_is_fixed(name), i == 0));
        const enum err e = config_list_change(&list, &all, why);
        cr_assert(eq(int, e, i == 3 ? ERR_OK : ERR_INVALID), "%zu", i);
        config_list_done(&list);
    }
}

Test(config_change, one_resource_has_so_many_at_most)
{
    struct config_list list = {0};
    char why[TOPIC_CONFIG_WHY_SIZE] = "";
    enum err e = ERR_OK;
    int count = 0;
    for (; count < 1000 && e == ERR_OK; count++) {
        char name[24];
        (void)snprintf(name, sizeof(name), "plugin.%d", count);
        const struct config_change change = {
            CONFIG_SET, slice_of_string(name), slice_of_string("x")};
        const struct config_changes all = {
            .kind = CONFIG_RESOURCE_BROKER, .changes = &change, .count = 1};
        e = config_list_change(&list, &all, why);
    }
    cr_assert(eq(int, e, ERR_INVALID));
    cr_assert(eq(int, count, 257));
    config_list_done(&list);
}

/* In the time of sorting: with every member compared with every other this takes seconds. */
Test(config_change, long_lists_are_joined_in_no_time)
{
    enum { MEMBERS = 5000, SIZE = 7 * MEMBERS };
    static char left[SIZE];
    static char right[SIZE];
    size_t left_size = 0;
    size_t right_size = 0;
    for (int i = 0; i < MEMBERS - 500; i++) {
        left_size += (size_t)snprintf(left + left_size, 8, "%s%d:1", i == 0 ? "" : ",", i);
        right_size += (size_t)snprintf(right + right_size, 8, "%s%d:1", i == 0 ? "" : ",", i / 2);
    }
    char name[] = "leader.replication.throttled.replicas";
    const struct topic_config_entry before = {name, left};
    for (enum config_operation o = CONFIG_APPEND; o <= CONFIG_SUBTRACT; o++) {
        struct config_list list;
        config_list_copy(&list, &before, 1);
        const struct config_change change = {o, slice_of_string(name), slice_of(right, right_size)};
        const struct config_changes all = {
            .kind = CONFIG_RESOURCE_TOPIC, .changes = &change, .count = 1};
        char why[TOPIC_CONFIG_WHY_SIZE] = "";
        cr_assert(eq(int, config_list_change(&list, &all, why), ERR_OK), "%s", why);
        const char *first_kept = o == CONFIG_APPEND ? "0:1," : "2250:1,";
        cr_assert(strncmp(list.entries[0].value, first_kept, strlen(first_kept)) == 0);
        cr_assert(o == CONFIG_SUBTRACT || strcmp(list.entries[0].value, left) == 0);
        config_list_done(&list);
    }
}

/* What is in effect for a group: its own values, the broker's of now, within the broker's bounds of
 * today, whatever was stored before they were. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "groups/settings.h"

#include "tests/support/cluster_rig.h"

static void on_altered(struct controller_request *r)
{
    *(bool *)r->context = true;
}

static enum err alter_group(struct sim_node *n, const char *name, const char *value)
{
    bool is_done = false;
    const struct config_change change = {
        .operation = value == NULL ? CONFIG_DELETE : CONFIG_SET,
        .name = slice_of_string(name),
        .value = slice_of_string(value),
    };
    struct controller_request r = {
        .kind = CONTROLLER_ALTER_CONFIGS,
        .on_done = on_altered,
        .context = &is_done,
        .in.alter_configs =
            {
                .name = slice_of_string("g"),
                .changes = {.kind = CONFIG_RESOURCE_GROUP, .changes = &change, .count = 1},
            },
    };
    controller_submit(sim_node_cluster(n, 0), &r);
    cr_assert(sim_node_run_until(n, &is_done));
    return r.result;
}

static struct groups_intervals
intervals_of(struct sim_node *n, const struct groups_settings *settings, const char *group)
{
    return groups_intervals_of(settings, sim_node_cluster(n, 0), slice_of_string(group));
}

Test(settings, what_is_in_effect_for_a_group)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct groups_settings settings;
    groups_settings_init(&settings);
    settings.consumer_session_timeout_ms = (struct groups_limited){30000, 1000, 60000};
    sim_node_init(n, disk, 1, 1);
    groups_settings_bind(&settings, &n->settings);
    cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s", n->why);

    struct groups_intervals i = intervals_of(n, &settings, "g");
    cr_assert(eq(i32, i.session_timeout_ms, 30000), "the file's");
    cr_assert(eq(i32, i.heartbeat_interval_ms, 5000));
    cr_assert(eq(i32, i.assignment_interval_ms, 1000));

    cr_assert(eq(int, alter_group(n, "consumer.session.timeout.ms", "999"), ERR_CONFIG_INVALID));
    cr_assert(eq(int, alter_group(n, "consumer.session.timeout.ms", "9000"), ERR_OK));
    cr_assert(eq(i32, intervals_of(n, &settings, "g").session_timeout_ms, 9000), "its own");
    cr_assert(eq(i32, intervals_of(n, &settings, "h").session_timeout_ms, 30000));
    settings.consumer_session_timeout_ms.min = 10000;
    cr_assert(eq(i32, intervals_of(n, &settings, "g").session_timeout_ms, 10000), "not below");
    settings.consumer_session_timeout_ms = (struct groups_limited){800, 100, 900};
    cr_assert(eq(i32, intervals_of(n, &settings, "g").session_timeout_ms, 900), "nor above");

    const char *name = "group.consumer.assignment.interval.ms";
    cr_assert(eq(int, sim_node_alter_broker(n, 0, "", name, "20"), ERR_OK));
    cr_assert(eq(i32, intervals_of(n, &settings, "g").assignment_interval_ms, 20), "of now");
    cr_assert(eq(int, sim_node_alter_broker(n, 0, "", name, "70000"), ERR_OK));
    cr_assert(eq(i32, intervals_of(n, &settings, "g").assignment_interval_ms, 15000), "bounded");
    cr_assert(eq(int, alter_group(n, "consumer.assignment.interval.ms", "7"), ERR_OK));
    cr_assert(eq(i32, intervals_of(n, &settings, "g").assignment_interval_ms, 7), "its own first");
    end_node(n, disk);
}

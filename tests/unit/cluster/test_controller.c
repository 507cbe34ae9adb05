/* The controller engine: every rule of a request is a row; what is applied is in the snapshot; a
 * command that contradicts the state is refused. No I/O. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/config_resources.h"
#include "cluster/controller.h"
#include "core/rand.h"

struct fixture {
    struct cluster_settings settings;
    struct controller *ct;
    struct rand rand;
    char why[CONTROLLER_WHY_SIZE];
    bool has_changed; /* The last alteration was an entry. */
};

static void apply(struct fixture *f, struct wbuf *w)
{
    cr_assert(eq(int, controller_apply(f->ct, wbuf_slice(w)), ERR_OK));
    controller_check(f->ct);
    wbuf_done(w);
    wbuf_init(w, COMMAND_SIZE_MAX);
}

static const struct uuid DIRS[] = {{{1}}, {{2}}, {{3}}};

static void set_up(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    cluster_settings_init(&f->settings);
    f->settings.partitions_max = 100;
    f->settings.partitions_per_topic_max = 50;
    f->settings.partitions_count_default = 6;
    rand_init_seed(&f->rand, 1);
    f->ct = controller_new(&f->settings, 5);
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    cr_assert(controller_propose_feature_level(f->ct, &w));
    apply(f, &w);
    const struct uuid incarnation = rand_uuid(&f->rand);
    controller_propose_node(1, &incarnation, NULL, slice_of(DIRS, sizeof(DIRS)), &w);
    apply(f, &w);
    wbuf_done(&w);
}

static void tear_down(struct fixture *f)
{
    controller_check(f->ct);
    controller_free(f->ct);
}

static enum err create_with(struct fixture *f, struct controller_topic *topic)
{
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    const struct placement_directory only = {.id = DIRS[0], .free_size = 1};
    topic->id = rand_uuid(&f->rand);
    if (topic->directories_count == 0) {
        topic->directories = &only;
        topic->directories_count = 1;
    }
    f->why[0] = '\0';
    enum err e = controller_propose_topic(f->ct, topic, &w, f->why);
    if (e == ERR_OK) {
        apply(f, &w);
    }
    wbuf_done(&w);
    return e;
}

static enum err create(struct fixture *f, const char *name, int32_t partitions, int16_t factor)
{
    struct controller_topic topic = {
        .name = slice_of_string(name),
        .partitions_count = partitions,
        .replication_factor = factor,
    };
    return create_with(f, &topic);
}

static char name_249[250];
static char name_250[251];

Test(controller, create_is_judged_by_kafkas_rules)
{
    memset(name_249, 'x', 249);
    memset(name_250, 'x', 250);
    const struct {
        const char *name;
        int32_t partitions;
        int16_t factor;
        enum err e;
        const char *why;
    } rows[] = {
        {"orders", 3, 1, ERR_OK, ""},
        {"orders", 3, 1, ERR_TOPIC_EXISTS, "already exists"},
        {"", 1, 1, ERR_TOPIC_NAME_INVALID, "empty string"},
        {".", 1, 1, ERR_TOPIC_NAME_INVALID, "not allowed"},
        {"..", 1, 1, ERR_TOPIC_NAME_INVALID, "not allowed"},
        {"...", 1, 1, ERR_OK, ""},
        {"a/b", 1, 1, ERR_TOPIC_NAME_INVALID, "ASCII alphanumerics"},
        {"a\xc3\xa4", 1, 1, ERR_TOPIC_NAME_INVALID, "ASCII alphanumerics"},
        {name_249, 1, 1, ERR_OK, ""},
        {name_250, 1, 1, ERR_TOPIC_NAME_INVALID, "max allowed length 249"},
        {"a.b", 1, 1, ERR_OK, ""},
        {"a_b", 1, 1, ERR_TOPIC_NAME_INVALID, "'a_b' collides with existing topic: a.b"},
        {"a-b", 1, 1, ERR_OK, ""},
        {"none", 0, 1, ERR_PARTITIONS_INVALID, "non-positive"},
        {"negative", -2, 1, ERR_PARTITIONS_INVALID, "non-positive"},
        {"many",
         51,
         1,
         ERR_PARTITIONS_INVALID,
         "a topic may have 50 (coreflume.topic.partitions.max)"},
        {"factor0", 1, 0, ERR_REPLICATION_INVALID, "larger than 0"},
        {"factor3", 1, 3, ERR_REPLICATION_INVALID, "only 1 broker(s)"},
        {"default", -1, -1, ERR_OK, ""},
        {"most", 50, 1, ERR_OK, ""},
        {"all", 50, 1, ERR_PARTITIONS_INVALID, "partitions (coreflume.partitions.max): delete"},
    };
    struct fixture f;
    set_up(&f);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum err e = create(&f, rows[i].name, rows[i].partitions, rows[i].factor);
        cr_assert(eq(int, e, rows[i].e), "%s: %s", rows[i].name, f.why);
        cr_assert(strstr(f.why, rows[i].why) != NULL, "%s: %s", rows[i].name, f.why);
    }
    const struct topic *t =
        metadata_topic_by_name(controller_metadata(f.ct), slice_of_string("default"));
    cr_assert(eq(i32, t->partitions_count, 6));
    cr_assert(eq(i16, t->replication_factor, 1));
    tear_down(&f);
}

Test(controller, topic_count_is_bounded)
{
    struct fixture f;
    set_up(&f);
    f.settings.topics_max = 2;
    cr_assert(eq(int, create(&f, "a", 1, 1), ERR_OK));
    cr_assert(eq(int, create(&f, "b", 1, 1), ERR_OK));
    cr_assert(eq(int, create(&f, "c", 1, 1), ERR_PARTITIONS_INVALID));
    cr_assert(
        strstr(f.why, "has 2 of at most 2 topics (coreflume.topics.max)") != NULL, "%s", f.why);
    tear_down(&f);
}

Test(controller, configs_are_checked_and_the_last_of_a_name_counts)
{
    struct fixture f;
    set_up(&f);
    const struct config_pair pairs[] = {
        {slice_of_string("retention.ms"), slice_of_string("1")},
        {slice_of_string("cleanup.policy"), slice_of_string("compact")},
        {slice_of_string("retention.ms"), slice_of_string("2")},
    };
    struct controller_topic topic = {
        .name = slice_of_string("c"),
        .partitions_count = 1,
        .replication_factor = 1,
        .configs = pairs,
        .configs_count = 3,
    };
    cr_assert(eq(int, create_with(&f, &topic), ERR_OK), "%s", f.why);
    const struct topic *t = metadata_topic_by_name(controller_metadata(f.ct), topic.name);
    cr_assert(eq(u32, t->configs_count, 2));
    cr_assert(eq(str, t->configs[0].name, "cleanup.policy"));
    cr_assert(eq(str, t->configs[1].value, "2"));
    cr_assert(t->settings.is_compacted);

    const struct config_pair bad = {slice_of_string("retention.sm"), slice_of_string("1")};
    topic = (struct controller_topic){
        .name = slice_of_string("d"),
        .partitions_count = 1,
        .replication_factor = 1,
        .configs = &bad,
        .configs_count = 1,
    };
    cr_assert(eq(int, create_with(&f, &topic), ERR_CONFIG_INVALID));
    cr_assert(strstr(f.why, "retention.ms") != NULL, "%s", f.why);
    cr_assert(metadata_topic_by_name(controller_metadata(f.ct), topic.name) == NULL);
    tear_down(&f);
}

static enum err drop(struct fixture *f, const struct uuid *id, const char *name)
{
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    enum err e = controller_propose_delete(f->ct, id, slice_of_string(name), &w, f->why);
    if (e == ERR_OK) {
        apply(f, &w);
    }
    wbuf_done(&w);
    return e;
}

Test(controller, a_deleted_topic_is_remembered_until_it_is_purged)
{
    struct fixture f;
    set_up(&f);
    cr_assert(eq(int, create(&f, "t", 7, 1), ERR_OK));
    const struct uuid id =
        metadata_topic_by_name(controller_metadata(f.ct), slice_of_string("t"))->id;
    const struct uuid none = {{0}};
    cr_assert(eq(int, drop(&f, &none, "other"), ERR_TOPIC_UNKNOWN));
    cr_assert(eq(int, drop(&f, &id, "ignored"), ERR_OK));
    cr_assert(eq(int, drop(&f, &id, "t"), ERR_TOPIC_UNKNOWN));
    cr_assert(eq(u64, controller_partitions_count(f.ct), 0));
    cr_assert(eq(u32, controller_deleted_count(f.ct), 1));
    cr_assert(eq(i32, controller_deleted_at(f.ct, 0)->partitions_count, 7));

    cr_assert(eq(int, create(&f, "t", 1, 1), ERR_OK)); /* Another incarnation. */
    cr_assert(eq(int, drop(&f, &none, "t"), ERR_OK));
    cr_assert(eq(u32, controller_deleted_count(f.ct), 2));

    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    controller_propose_purged(&id, &w);
    cr_assert(eq(int, controller_apply(f.ct, wbuf_slice(&w)), ERR_OK));
    cr_assert(eq(int, controller_apply(f.ct, wbuf_slice(&w)), ERR_CORRUPT));
    cr_assert(eq(u32, controller_deleted_count(f.ct), 1));
    wbuf_done(&w);
    tear_down(&f);
}

Test(controller, producer_id_blocks_never_overlap)
{
    struct fixture f;
    set_up(&f);
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    controller_propose_producer_ids(f.ct, 1, &w);
    cr_assert(eq(int, controller_apply(f.ct, wbuf_slice(&w)), ERR_OK));
    cr_assert(eq(i64, controller_producer_id_next(f.ct), 1000));
    /* The same block again would hand the same ids out twice. */
    cr_assert(eq(int, controller_apply(f.ct, wbuf_slice(&w)), ERR_CORRUPT));
    wbuf_done(&w);
    tear_down(&f);
}

Test(controller, a_newer_feature_level_is_not_served)
{
    struct fixture f;
    set_up(&f);
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    cr_assert(not(controller_propose_feature_level(f.ct, &w)));
    const struct command newer = {COMMAND_FEATURE_LEVEL, .feature_level = {FEATURE_LEVEL + 1}};
    command_encode(&newer, &w);
    cr_assert(eq(int, controller_apply(f.ct, wbuf_slice(&w)), ERR_NEWER_FORMAT));
    wbuf_done(&w);
    tear_down(&f);
}

Test(controller, the_log_of_another_cluster_is_not_served)
{
    struct fixture f;
    set_up(&f);
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    const struct command foreign = {
        COMMAND_FEATURE_LEVEL,
        .feature_level = {FEATURE_LEVEL, {.bytes = {9, 9, 9}}},
    };
    command_encode(&foreign, &w);
    cr_assert(eq(int, controller_apply(f.ct, wbuf_slice(&w)), ERR_FOREIGN));
    wbuf_done(&w);
    tear_down(&f);
}

Test(controller, a_node_registers_again_under_a_new_incarnation)
{
    struct fixture f;
    set_up(&f);
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    const struct uuid incarnation = rand_uuid(&f.rand);
    controller_propose_node(1, &incarnation, "r", slice_of(DIRS, sizeof(DIRS)), &w);
    apply(&f, &w);
    cr_assert(eq(u32, controller_nodes_count(f.ct), 1));
    controller_propose_node(2, &incarnation, "r", slice_of(DIRS, sizeof(DIRS)), &w);
    apply(&f, &w);
    cr_assert(eq(u32, controller_nodes_count(f.ct), 2));
    wbuf_done(&w);
    cr_assert(eq(int, create(&f, "two", 1, 2), ERR_OK));
    tear_down(&f);
}

Test(controller, directories_are_counted_and_forgotten)
{
    struct fixture f;
    set_up(&f);
    const struct placement_directory places[] = {
        {.id = DIRS[0], .free_size = 1000000},
        {.id = DIRS[1], .free_size = 3000000},
        {.id = DIRS[2], .free_size = 0},
    };
    struct controller_topic topic = {
        .name = slice_of_string("t"),
        .partitions_count = 8,
        .replication_factor = 1,
        .directories = places,
        .directories_count = 3,
    };
    cr_assert(eq(int, create_with(&f, &topic), ERR_OK));
    cr_assert(eq(u64, controller_directory_partitions(f.ct, &DIRS[0]), 2));
    cr_assert(eq(u64, controller_directory_partitions(f.ct, &DIRS[1]), 6));
    cr_assert(eq(u64, controller_directory_partitions(f.ct, &DIRS[2]), 0));
    cr_assert(eq(u32, controller_directories_count(f.ct), 3));
    const struct topic *t = metadata_topic_by_name(controller_metadata(f.ct), slice_of_string("t"));
    cr_assert(eq(u32, t->directories_count, 2), "those without partitions are not kept");

    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    const struct uuid incarnation = rand_uuid(&f.rand);
    controller_propose_node(1, &incarnation, "r", slice_of(DIRS, sizeof(DIRS[0])), &w);
    apply(&f, &w);
    wbuf_done(&w);
    cr_assert(eq(u32, controller_directories_count(f.ct), 2), "one has partitions, one is there");
    cr_assert(not(controller_directory_at(f.ct, 1)->is_registered));
    const struct uuid none = {{0}};
    cr_assert(eq(int, drop(&f, &none, "t"), ERR_OK));
    cr_assert(eq(u32, controller_directories_count(f.ct), 1));
    tear_down(&f);
}

static enum err grow(struct fixture *f, struct controller_growth *growth)
{
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    const struct placement_directory only = {.id = DIRS[0], .free_size = 1};
    if (growth->directories_count == 0) {
        growth->directories = &only;
        growth->directories_count = 1;
    }
    f->why[0] = '\0';
    enum err e = controller_propose_partitions(f->ct, growth, &w, f->why);
    if (e == ERR_OK) {
        apply(f, &w);
    }
    wbuf_done(&w);
    return e;
}

Test(controller, growth_is_judged_by_kafkas_rules)
{
    static const struct {
        const char *name;
        int32_t partitions;
        int32_t assignments;
        enum err e;
        const char *why;
    } rows[] = {
        {"absent", 9, -1, ERR_TOPIC_UNKNOWN, "does not host"},
        {"t", 4, -1, ERR_PARTITIONS_INVALID, "already has 4 partition(s)"},
        {"t",
         3,
         -1,
         ERR_PARTITIONS_INVALID,
         "The topic t currently has 4 partition(s); 3 would not be an increase"},
        {"t", 0, -1, ERR_PARTITIONS_INVALID, "not be an increase"},
        {"t", INT32_MIN, -1, ERR_PARTITIONS_INVALID, "not be an increase"},
        {"t", 51, -1, ERR_PARTITIONS_INVALID, "a topic may have 50"},
        {"t", 8, 3, ERR_ASSIGNMENT_INVALID, "add 4 additional partition(s), but only 3"},
        {"t", 8, 0, ERR_ASSIGNMENT_INVALID, "but only 0 assignment(s)"},
        {"t", 8, 4, ERR_OK, ""},
        {"t", 50, -1, ERR_OK, ""},
        {"u", 50, -1, ERR_OK, ""},
        {"v", 2, -1, ERR_PARTITIONS_INVALID, "delete topics or ask for fewer"},
    };
    struct fixture f;
    set_up(&f);
    f.settings.partitions_max = 101;
    cr_assert(eq(int, create(&f, "t", 4, 1), ERR_OK));
    cr_assert(eq(int, create(&f, "u", 49, 1), ERR_OK));
    cr_assert(eq(int, create(&f, "v", 1, 1), ERR_OK));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct controller_growth growth = {
            .name = slice_of_string(rows[i].name),
            .partitions_count = rows[i].partitions,
            .assignments_count = rows[i].assignments,
        };
        cr_assert(eq(int, grow(&f, &growth), rows[i].e), "row %zu: %s", i, f.why);
        cr_assert(strstr(f.why, rows[i].why) != NULL, "row %zu: %s", i, f.why);
    }
    cr_assert(eq(u64, controller_partitions_count(f.ct), 101));
    tear_down(&f);
}

/* What the old ones are in stays, whatever the new ones bring along. */
Test(controller, new_partitions_may_be_in_other_directories)
{
    struct fixture f;
    set_up(&f);
    cr_assert(eq(int, create(&f, "t", 2, 1), ERR_OK));
    static const int order[][2] = {{0, 0}, {1, 1}, {2, 0}};
    for (int32_t i = 0; i < 3; i++) {
        const struct placement_directory places[] = {
            {.id = DIRS[order[i][0]], .free_size = 1000},
            {.id = DIRS[order[i][1]], .free_size = 1000},
        };
        struct controller_growth growth = {
            .name = slice_of_string("t"),
            .partitions_count = 4 + 2 * i,
            .assignments_count = CONTROLLER_NO_ASSIGNMENTS,
            .directories = places,
            .directories_count = order[i][0] == order[i][1] ? 1 : 2,
        };
        cr_assert(eq(int, grow(&f, &growth), ERR_OK), "%s", f.why);
    }
    const struct topic *t = metadata_topic_by_name(controller_metadata(f.ct), slice_of_string("t"));
    static const int expected[] = {0, 0, 0, 0, 1, 1, 2, 2};
    cr_assert(eq(i32, t->partitions_count, 8));
    for (int32_t p = 0; p < 8; p++) {
        cr_assert(uuid_equal(topic_directory(t, p), &DIRS[expected[p]]), "partition %d", p);
    }
    cr_assert(eq(u64, controller_directory_partitions(f.ct, &DIRS[0]), 4));
    cr_assert(eq(u64, controller_directory_partitions(f.ct, &DIRS[1]), 2));
    cr_assert(eq(u64, controller_directory_partitions(f.ct, &DIRS[2]), 2));
    tear_down(&f);
}

Test(controller, growth_that_is_not_about_the_topic_as_it_is_is_corrupt)
{
    struct fixture f;
    set_up(&f);
    cr_assert(eq(int, create(&f, "t", 4, 1), ERR_OK));
    const struct topic *t = metadata_topic_by_name(controller_metadata(f.ct), slice_of_string("t"));
    const struct uuid other = {{77}};
    const struct command_partitions_added rows[] = {
        {t->id, 3, 6, slice_of(DIRS, UUID_SIZE), {0}},
        {t->id, 5, 6, slice_of(DIRS, UUID_SIZE), {0}},
        {other, 4, 6, slice_of(DIRS, UUID_SIZE), {0}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wbuf w;
        wbuf_init(&w, COMMAND_SIZE_MAX);
        const struct command c = {.kind = COMMAND_PARTITIONS_ADDED, .partitions_added = rows[i]};
        command_encode(&c, &w);
        cr_assert(eq(int, controller_apply(f.ct, wbuf_slice(&w)), ERR_CORRUPT), "row %zu", i);
        wbuf_done(&w);
    }
    cr_assert(eq(i32, t->partitions_count, 4));
    tear_down(&f);
}

/* A topic may not get into more directories than a command can name. */
Test(controller, growth_into_too_many_directories_is_refused)
{
    struct fixture f;
    set_up(&f);
    f.settings.partitions_max = 1000;
    f.settings.partitions_per_topic_max = 1000;
    cr_assert(eq(int, create(&f, "t", 1, 1), ERR_OK));
    for (int32_t i = 1; i <= COMMAND_DIRECTORIES_MAX; i++) {
        const struct placement_directory place = {.id = {{9, (uint8_t)i}}, .free_size = 1};
        struct controller_growth growth = {
            .name = slice_of_string("t"),
            .partitions_count = 1 + i,
            .assignments_count = CONTROLLER_NO_ASSIGNMENTS,
            .directories = &place,
            .directories_count = 1,
        };
        enum err e = grow(&f, &growth);
        const bool fits = i < COMMAND_DIRECTORIES_MAX;
        cr_assert(eq(int, e, fits ? ERR_OK : ERR_PARTITIONS_INVALID), "%d: %s", i, f.why);
    }
    tear_down(&f);
}

static enum err alter_of(struct fixture *f,
                         enum config_resource kind,
                         const char *resource,
                         const char *name,
                         const char *value)
{
    const struct config_change change = {
        .operation = value == NULL ? CONFIG_DELETE : CONFIG_SET,
        .name = slice_of_string(name),
        .value = slice_of_string(value),
    };
    const struct config_changes changes = {.kind = kind, .changes = &change, .count = 1};
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    enum err e = controller_propose_configs(f->ct, slice_of_string(resource), &changes, &w, f->why);
    f->has_changed = w.size > 0;
    if (e == ERR_OK && f->has_changed) {
        apply(f, &w);
    }
    wbuf_done(&w);
    return e;
}

static enum err alter(struct fixture *f, const char *topic, const char *name, const char *value)
{
    return alter_of(f, CONFIG_RESOURCE_TOPIC, topic, name, value);
}

Test(controller, altered_configs_are_judged_as_a_whole_and_in_effect)
{
    struct fixture f;
    set_up(&f);
    cr_assert(eq(int, create(&f, "t", 1, 1), ERR_OK));
    cr_assert(eq(int, alter(&f, "t", "max.message.bytes", "7"), ERR_OK));
    cr_assert(eq(int, alter(&f, "t", "max.compaction.lag.ms", "5"), ERR_OK));
    cr_assert(eq(int, alter(&f, "t", "min.compaction.lag.ms", "6"), ERR_CONFIG_INVALID));
    cr_assert(eq(int, alter(&f, "no", "retention.ms", "5"), ERR_TOPIC_UNKNOWN));
    const struct topic *t = metadata_topic_by_name(controller_metadata(f.ct), slice_of_string("t"));
    cr_assert(eq(u32, t->configs_count, 2));
    cr_assert(eq(u32, t->settings.message_size_max, 7));
    tear_down(&f);
}

static const struct internal_topic *give_internal_topic(struct fixture *f)
{
    static const struct config_pair configs[] = {
        {{(const uint8_t *)"cleanup.policy", 14}, {(const uint8_t *)"compact", 7}},
        {{(const uint8_t *)"segment.bytes", 13}, {(const uint8_t *)"8388608", 7}},
    };
    static const struct internal_topic internal = {
        .name = "__consumer_offsets",
        .partitions_count = 60,
        .replication_factor_max = 3,
        .configs = configs,
        .configs_count = 2,
    };
    f->settings.internal_topics = &internal;
    f->settings.internal_topics_count = 1;
    return &internal;
}

/* Whatever a request leaves out comes from the table, and no limit is in its way. */
Test(controller, an_internal_topic_is_made_as_the_broker_wants_it)
{
    struct fixture f;
    set_up(&f);
    const struct internal_topic *internal = give_internal_topic(&f);
    f.settings.topics_max = 1;
    cr_assert(eq(int, create(&f, "__consumer.offsets", 50, 1), ERR_OK), "of a metric's name");
    cr_assert(eq(int, create(&f, "more", 1, 1), ERR_PARTITIONS_INVALID));
    cr_assert(eq(int, create(&f, internal->name, -1, -1), ERR_OK), "%s", f.why);
    const struct topic *t =
        metadata_topic_by_name(controller_metadata(f.ct), slice_of_string(internal->name));
    cr_assert(t->is_internal);
    cr_assert(eq(i32, t->partitions_count, 60));
    cr_assert(eq(i16, t->replication_factor, 1), "there is one node");
    cr_assert(t->settings.is_compacted);
    cr_assert(eq(u64, t->settings.segment_size_max, 8388608));
    cr_assert(eq(int, create(&f, internal->name, -1, -1), ERR_TOPIC_EXISTS));
    tear_down(&f);
}

/* A client may make it first, as it may at Kafka's, if nothing is lost by how it is made. */
Test(controller, what_an_internal_topic_may_not_suffer_is_refused)
{
    static const struct {
        const char *policy;
        enum err e;
    } rows[] = {
        {"delete", ERR_CONFIG_INVALID},
        {"compact,delete", ERR_CONFIG_INVALID},
        {"", ERR_CONFIG_INVALID},
        {" compact ", ERR_OK},
    };
    struct fixture f;
    set_up(&f);
    const char *name = give_internal_topic(&f)->name;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct config_pair policy = {slice_of_string("cleanup.policy"),
                                           slice_of_string(rows[i].policy)};
        struct controller_topic topic = {
            .name = slice_of_string(name),
            .partitions_count = 3,
            .replication_factor = 1,
            .configs = &policy,
            .configs_count = 1,
        };
        cr_assert(eq(int, create_with(&f, &topic), rows[i].e), "%s: %s", rows[i].policy, f.why);
    }
    const struct uuid none = {{0}};
    cr_assert(eq(int, drop(&f, &none, name), ERR_POLICY));
    cr_assert(strstr(f.why, "cannot be deleted") != NULL, "%s", f.why);
    struct controller_growth growth = {
        .name = slice_of_string(name),
        .partitions_count = 4,
        .assignments_count = CONTROLLER_NO_ASSIGNMENTS,
    };
    cr_assert(eq(int, grow(&f, &growth), ERR_POLICY));
    cr_assert(strstr(f.why, "cannot be given more partitions") != NULL, "%s", f.why);
    cr_assert(eq(int, alter(&f, name, "cleanup.policy", "delete"), ERR_CONFIG_INVALID));
    cr_assert(eq(int, alter(&f, name, "cleanup.policy", NULL), ERR_CONFIG_INVALID));
    cr_assert(eq(int, alter(&f, name, "segment.bytes", "16777216"), ERR_OK));
    /* What is set for brokers is altered without a look at it. */
    const char *of_broker = "log.cleanup.policy";
    cr_assert(eq(int, alter_of(&f, CONFIG_RESOURCE_BROKER, "", of_broker, "compact"), ERR_OK));
    cr_assert(eq(int, alter(&f, name, "cleanup.policy", NULL), ERR_CONFIG_INVALID));
    tear_down(&f);
}

Test(controller, names_of_what_there_is_not_are_reserved)
{
    static const char *const names[] = {
        "__cluster_metadata", "__transaction_state", "__share_group_state", "__consumer_offsets"};
    struct fixture f;
    set_up(&f);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        cr_assert(eq(int, create(&f, names[i], 1, 1), ERR_INVALID), "%s", names[i]);
        cr_assert(strstr(f.why, "prohibited") != NULL, "%s", f.why);
    }
    cr_assert(eq(int, create(&f, "__other", 1, 1), ERR_OK));
    tear_down(&f);
}

/* Data of a version without groups may have one that a client made. */
Test(controller, a_topic_of_that_name_is_internal_whoever_made_it)
{
    struct fixture f;
    set_up(&f);
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    const struct command command = {
        .kind = COMMAND_TOPIC_CREATED,
        .topic_created =
            {
                .id = rand_uuid(&f.rand),
                .name = slice_of_string("__consumer_offsets"),
                .partitions_count = 1,
                .replication_factor = 1,
                .directories = slice_of(&DIRS[0], sizeof(DIRS[0])),
            },
    };
    const char *name = give_internal_topic(&f)->name;
    command_encode(&command, &w);
    apply(&f, &w);
    wbuf_done(&w);
    cr_assert(
        metadata_topic_by_name(controller_metadata(f.ct), slice_of_string(name))->is_internal);
    const struct uuid none = {{0}};
    cr_assert(eq(int, drop(&f, &none, name), ERR_POLICY));
    cr_assert(eq(int, alter(&f, name, "cleanup.policy", "compact"), ERR_OK));
    tear_down(&f);
}

/* Clients may set the same values in a loop: no entry of the log comes of it. */
Test(controller, what_changes_nothing_is_no_command)
{
    static const struct {
        enum config_resource kind;
        const char *resource;
        const char *name;
        const char *values[2];
    } rows[] = {
        {CONFIG_RESOURCE_TOPIC, "t", "retention.ms", {"5", "6"}},
        {CONFIG_RESOURCE_BROKER, "", "log.retention.ms", {"5", "6"}},
        {CONFIG_RESOURCE_BROKER, "1", "nobody.knows.it", {"a", "b"}},
        {CONFIG_RESOURCE_GROUP, "g", "consumer.session.timeout.ms", {"45000", "46000"}},
        {CONFIG_RESOURCE_CLIENT_METRICS, "s", "interval.ms", {"900", "901"}},
    };
    struct fixture f;
    set_up(&f);
    cr_assert(eq(int, create(&f, "t", 1, 1), ERR_OK));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *values[] = {NULL, rows[i].values[0], rows[i].values[1], NULL};
        for (size_t v = 0; v < 4; v++) {
            for (int again = 0; again < 2; again++) {
                enum err e = alter_of(&f, rows[i].kind, rows[i].resource, rows[i].name, values[v]);
                cr_assert(eq(int, e, ERR_OK), "%zu: %s", i, f.why);
                cr_assert(eq(int, f.has_changed, v > 0 && again == 0), "%zu %zu", i, v);
            }
        }
    }
    tear_down(&f);
}

Test(controller, configs_of_others_are_bounded_and_kept_by_kind_and_name)
{
    struct fixture f;
    set_up(&f);
    const struct config_resources *all = metadata_config_resources(controller_metadata(f.ct));
    static char blanks[TOPIC_CONFIG_VALUE_SIZE_MAX + 1];
    memset(blanks, ' ', sizeof(blanks) - 1);
    memcpy(blanks, "45000", 5);
    enum err e = ERR_OK;
    int count = 0;
    for (; count < 1000 && e == ERR_OK; count++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "g%d", count);
        e = alter_of(&f, CONFIG_RESOURCE_GROUP, name, "consumer.session.timeout.ms", blanks);
    }
    cr_assert(eq(int, e, ERR_CONFIG_INVALID));
    cr_assert(strstr(f.why, "1048576 bytes") != NULL, "%s", f.why);
    cr_assert(lt(u64, all->size, CONFIG_RESOURCES_SIZE_MAX));
    cr_assert(eq(u32, all->count, (uint32_t)count - 1));
    /* Less is never refused. */
    cr_assert(eq(int,
                 alter_of(&f, CONFIG_RESOURCE_GROUP, "g6", "consumer.session.timeout.ms", "45000"),
                 ERR_OK));
    cr_assert(eq(int,
                 alter_of(&f, CONFIG_RESOURCE_GROUP, "g7", "consumer.session.timeout.ms", NULL),
                 ERR_OK));
    cr_assert(eq(int, alter_of(&f, CONFIG_RESOURCE_BROKER, "1", "log.retention.ms", "9"), ERR_OK));
    cr_assert(
        eq(int, alter_of(&f, CONFIG_RESOURCE_CLIENT_METRICS, "g8", "interval.ms", "900"), ERR_OK));
    cr_assert(config_resources_find(all, CONFIG_RESOURCE_GROUP, slice_of_string("g7")) == NULL);
    cr_assert(config_resources_find(all, CONFIG_RESOURCE_GROUP, slice_of_string("g8")) != NULL);
    cr_assert(config_resources_find(all, CONFIG_RESOURCE_BROKER, slice_of_string("")) == NULL);
    controller_check(f.ct);
    tear_down(&f);
}

/* Kafka's defaults, where the broker's file says nothing else. */
Test(controller, groups_keep_to_the_brokers_bounds)
{
    static const struct config_bound bounds[] = {
        {"group.consumer.min.session.timeout.ms", 1000},
        {"group.consumer.max.session.timeout.ms", 50000},
        {"group.consumer.min.heartbeat.interval.ms", 100},
    };
    static const char session[] = "consumer.session.timeout.ms";
    static const struct {
        const char *name;
        const char *value; /* NULL: the value is taken away. */
        enum err before;   /* With Kafka's bounds. */
        enum err e;
        const char *why;
    } rows[] = {
        {session, "44999", ERR_CONFIG_INVALID, ERR_OK, ""},
        {session, "999", ERR_CONFIG_INVALID, ERR_CONFIG_INVALID, "group.consumer.min.session"},
        {session, "55000", ERR_OK, ERR_CONFIG_INVALID, "equal to group.consumer.max.session"},
        {session,
         "5000",
         ERR_CONFIG_INVALID,
         ERR_CONFIG_INVALID,
         "must be greater than consumer.h"},
        {"consumer.heartbeat.interval.ms", "200", ERR_CONFIG_INVALID, ERR_OK, ""},
        {session, "5000", ERR_CONFIG_INVALID, ERR_OK, ""},
        {"consumer.heartbeat.interval.ms",
         NULL,
         ERR_OK,
         ERR_CONFIG_INVALID,
         "greater than consumer.h"},
        {"consumer.assignment.interval.ms",
         "15001",
         ERR_CONFIG_INVALID,
         ERR_CONFIG_INVALID,
         "max.as"},
    };
    struct fixture f;
    for (int is_bound = 0; is_bound < 2; is_bound++) {
        set_up(&f);
        if (is_bound) {
            f.settings.group_bounds = (struct config_bounds){bounds, 3};
        }
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            const enum err wanted = is_bound ? rows[i].e : rows[i].before;
            const enum err e =
                alter_of(&f, CONFIG_RESOURCE_GROUP, "g", rows[i].name, rows[i].value);
            cr_assert(eq(int, e, wanted), "row %zu: %s", i, f.why);
            const bool is_said = strstr(f.why, rows[i].why) != NULL;
            cr_assert(is_said || is_bound == 0, "row %zu: %s", i, f.why);
        }
        tear_down(&f);
    }
}

Test(controller, configs_of_one_are_bounded)
{
    struct fixture f;
    set_up(&f);
    static char blanks[TOPIC_CONFIG_VALUE_SIZE_MAX + 1];
    memset(blanks, ' ', sizeof(blanks) - 1);
    enum err e = ERR_OK;
    int count = 0;
    for (; count < 100 && e == ERR_OK; count++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", count);
        e = alter_of(&f, CONFIG_RESOURCE_BROKER, "", name, blanks);
    }
    cr_assert(eq(int, e, ERR_CONFIG_INVALID));
    cr_assert(strstr(f.why, "262144 bytes") != NULL, "%s", f.why);
    cr_assert(eq(int, count, 8));
    cr_assert(eq(int, alter_of(&f, CONFIG_RESOURCE_BROKER, "1", "n0", blanks), ERR_OK));
    tear_down(&f);
}

/* Out of memory, or too large, it is no snapshot: half of it must not count as one. */
Test(controller, a_snapshot_with_configurations_cut_short_fails)
{
    static const enum config_resource kinds[] = {CONFIG_RESOURCE_BROKER, CONFIG_RESOURCE_TOPIC};
    static char value[TOPIC_CONFIG_VALUE_SIZE_MAX + 1];
    memset(value, 'x', sizeof(value) - 1);
    struct topic_config_entry entries[70];
    char names[70][8];
    for (size_t i = 0; i < 70; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "n%zu", i);
        entries[i] = (struct topic_config_entry){.name = names[i], .value = value};
    }
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        set_up(&f);
        cr_assert(eq(int, create(&f, "t", 1, 1), ERR_OK));
        const struct metadata *m = controller_metadata(f.ct);
        struct wbuf configs;
        struct wbuf w;
        struct wbuf stream;
        wbuf_init(&configs, SIZE_MAX);
        wbuf_init(&w, SIZE_MAX);
        wbuf_init(&stream, SIZE_MAX);
        command_encode_entries(entries, 70, &configs);
        const struct command command = {
            .kind = COMMAND_CONFIGS_ALTERED,
            .configs_altered =
                {
                    .resource = kinds[i],
                    .name = slice_of_string(i == 0 ? "1" : "t"),
                    .topic_id = metadata_topic_by_name(m, slice_of_string("t"))->id,
                    .configs_count = 70,
                    .configs = wbuf_slice(&configs),
                },
        };
        command_encode(&command, &w);
        cr_assert(eq(int, controller_apply(f.ct, wbuf_slice(&w)), ERR_OK));
        controller_snapshot(f.ct, &stream);
        cr_assert(eq(int, wbuf_failure(&stream), ERR_TOO_LARGE));
        wbuf_done(&stream);
        wbuf_done(&w);
        wbuf_done(&configs);
        tear_down(&f);
    }
}

Test(controller, a_snapshot_rebuilds_the_state)
{
    struct fixture f;
    set_up(&f);
    for (int i = 0; i < 20; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "t%d", i);
        cr_assert(eq(int, create(&f, name, 1 + i % 3, 1), ERR_OK));
    }
    const struct placement_directory places[] = {
        {.id = DIRS[1], .free_size = 1000},
        {.id = DIRS[2], .free_size = 1000},
    };
    struct controller_growth growth = {
        .name = slice_of_string("t4"),
        .partitions_count = 9,
        .assignments_count = CONTROLLER_NO_ASSIGNMENTS,
        .directories = places,
        .directories_count = 2,
    };
    cr_assert(eq(int, grow(&f, &growth), ERR_OK));
    cr_assert(eq(int, alter(&f, "t4", "retention.ms", "5"), ERR_OK));
    cr_assert(eq(int, alter_of(&f, CONFIG_RESOURCE_BROKER, "", "log.retention.ms", "9"), ERR_OK));
    cr_assert(
        eq(int,
           alter_of(&f, CONFIG_RESOURCE_GROUP, "g", "share.isolation.level", "read_committed"),
           ERR_OK));
    const struct uuid none = {{0}};
    cr_assert(eq(int, drop(&f, &none, "t3"), ERR_OK));
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    controller_propose_producer_ids(f.ct, 1, &w);
    apply(&f, &w);
    wbuf_done(&w);

    struct wbuf first;
    wbuf_init(&first, SIZE_MAX);
    controller_snapshot(f.ct, &first);
    struct controller *copy = controller_new(&f.settings, 99);
    struct rbuf r = rbuf_over(first.data, first.size);
    struct slice command;
    while (command_stream_next(&r, &command) == ERR_OK) {
        cr_assert(eq(int, controller_apply(copy, command), ERR_OK));
    }
    controller_check(copy);
    cr_assert(eq(i64, controller_producer_id_next(copy), 1000));
    cr_assert(eq(u32, controller_deleted_count(copy), 1));

    struct wbuf second;
    wbuf_init(&second, SIZE_MAX);
    controller_snapshot(copy, &second);
    cr_assert(slice_equal(wbuf_slice(&first), wbuf_slice(&second)));
    wbuf_done(&first);
    wbuf_done(&second);
    controller_free(copy);
    tear_down(&f);
}

Test(controller, bytes_that_are_no_command_are_corrupt)
{
    struct fixture f;
    set_up(&f);
    cr_assert(eq(int, controller_apply(f.ct, slice_of_string("")), ERR_CORRUPT));
    const uint8_t cut[] = {COMMAND_TOPIC_PURGED, COMMAND_VERSION, 1, 2};
    cr_assert(eq(int, controller_apply(f.ct, slice_of(cut, sizeof(cut))), ERR_CORRUPT));
    tear_down(&f);
}

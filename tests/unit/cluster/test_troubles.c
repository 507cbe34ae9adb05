/* What the health page names, and what it only counts. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/cluster_priv.h"
#include "cluster/metadata_edit.h"

#include "tests/support/test_shard.h"

struct fixture {
    struct test_shard ts;
    struct cluster_settings settings;
    struct cluster_set *set;
    struct cluster *c;
    struct cluster_problem problems[CLUSTER_PROBLEMS_MAX];
};

static struct uuid topic_id(uint8_t number)
{
    struct uuid id;
    memset(id.bytes, 1 + number, sizeof(id.bytes));
    return id;
}

static void set_up(struct fixture *f, uint8_t topics_count)
{
    test_shard_init(&f->ts, 1 << 20);
    cluster_settings_init(&f->settings);
    cr_assert(eq(int, cluster_set_new(&f->settings, 1, &f->set), ERR_OK));
    f->c = cluster_set_get(f->set, 0);
    f->c->s = &f->ts.shard;
    f->c->metadata = metadata_new(&f->settings, 1, 1);
    for (uint8_t i = 0; i < topics_count; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "topic%u", i);
        const struct command_topic_created created = {
            .id = topic_id(i),
            .name = slice_of_string(name),
            .partitions_count = 1,
            .replication_factor = 1,
        };
        const struct topic *t;
        cr_assert(eq(int, metadata_add_topic(f->c->metadata, &created, &t), ERR_OK));
    }
}

static void tear_down(struct fixture *f)
{
    metadata_free(f->c->metadata);
    f->c->metadata = NULL;
    cluster_set_free(f->set);
    test_shard_done(&f->ts);
}

static void tell(struct fixture *f, uint8_t number, enum trouble_kind kind)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "topic%u-0", number);
    const struct partition_id id = {.topic_id = topic_id(number)};
    troubles_tell(f->c, &id, name, kind);
    test_shard_run(&f->ts);
}

static uint32_t list(struct fixture *f)
{
    return troubles_list(f->c, f->problems, 0, CLUSTER_PROBLEMS_MAX);
}

/* Whoever was only counted as damaged is not counted again when it fails. */
Test(troubles, a_partition_counts_once)
{
    struct fixture f;
    set_up(&f, TROUBLES_MAX + 2);
    for (uint8_t i = 0; i < TROUBLES_MAX + 2; i++) {
        tell(&f, i, TROUBLE_DAMAGED);
    }
    tell(&f, 0, TROUBLE_WORSE);
    tell(&f, TROUBLES_MAX, TROUBLE_WORSE);
    tell(&f, TROUBLES_MAX + 1, TROUBLE_WORSE);
    cr_assert(eq(u32, list(&f), TROUBLES_MAX + 1));
    cr_assert(eq(str, (char *)f.problems[0].code, "partition_failed"));
    cr_assert(eq(str, (char *)f.problems[1].code, "partition_damaged"));
    cr_assert(eq(str, (char *)f.problems[TROUBLES_MAX].subject, "2 more partitions"));
    tear_down(&f);
}

/* Though nobody looked at the page: deleted topics leave their places to others. */
Test(troubles, deleted_topics_make_room)
{
    struct fixture f;
    set_up(&f, TROUBLES_MAX + 2);
    for (uint8_t i = 0; i <= TROUBLES_MAX; i++) {
        tell(&f, i, TROUBLE_DAMAGED);
    }
    for (uint8_t i = 0; i < TROUBLES_MAX; i++) {
        const struct uuid id = topic_id(i);
        cr_assert(metadata_remove_topic(f.c->metadata, &id));
    }
    tell(&f, TROUBLES_MAX + 1, TROUBLE_FAILED);
    tell(&f, TROUBLES_MAX, TROUBLE_WORSE); /* It was counted; now it has a name. */
    cr_assert(eq(u32, list(&f), 2));
    cr_assert(eq(str, (char *)f.problems[0].subject, "topic17-0"));
    cr_assert(eq(str, (char *)f.problems[1].subject, "topic16-0"));
    cr_assert(eq(str, (char *)f.problems[1].code, "partition_failed"));
    tear_down(&f);
}

/* A write may fail before the flush that fails its whole directory: one line is enough then. */
Test(troubles, a_failed_directory_stands_for_its_partitions)
{
    struct fixture f;
    set_up(&f, 2);
    const struct cluster_data_dir settings = {.path = "d"};
    struct shard_dir dir = {.settings = &settings};
    f.c->dirs = &dir;
    f.c->dirs_count = 1;
    tell(&f, 0, TROUBLE_FAILED);
    tell(&f, 1, TROUBLE_DAMAGED);
    cr_assert(eq(u32, list(&f), 2));
    dir.is_failed = true;
    cr_assert(eq(u32, list(&f), 1));
    cr_assert(eq(str, (char *)f.problems[0].code, "partition_damaged"));
    f.c->dirs = NULL;
    f.c->dirs_count = 0;
    tear_down(&f);
}

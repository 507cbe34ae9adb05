/* The image: both indexes against a naive model over random adds and removes. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/metadata_edit.h"
#include "core/rand.h"

enum { NAMES = 64 };

static struct cluster_settings settings;

static enum err add(struct metadata *m, const char *name, struct uuid id)
{
    const struct command_topic_created created = {
        .id = id,
        .name = slice_of_string(name),
        .partitions_count = 1,
        .replication_factor = 1,
    };
    const struct topic *t;
    return metadata_add_topic(m, &created, &t);
}

Test(metadata, agrees_with_a_naive_model)
{
    cluster_settings_init(&settings);
    struct metadata *m = metadata_new(&settings, 42, 4);
    struct rand r;
    rand_init_seed(&r, 7);
    struct uuid ids[NAMES];
    bool is_there[NAMES] = {false};
    uint32_t count = 0;
    for (int step = 0; step < 5000; step++) {
        const size_t i = rand_below(&r, NAMES);
        char name[16];
        (void)snprintf(name, sizeof(name), "topic%zu", i);
        if (rand_one_in(&r, 2)) {
            const struct uuid fresh = rand_uuid(&r);
            enum err e = add(m, name, fresh);
            cr_assert(eq(int, e, is_there[i] ? ERR_EXISTS : ERR_OK));
            if (!is_there[i]) {
                ids[i] = fresh;
                is_there[i] = true;
                count++;
            }
        } else if (is_there[i]) {
            cr_assert(metadata_remove_topic(m, &ids[i]));
            cr_assert(not(metadata_remove_topic(m, &ids[i])));
            is_there[i] = false;
            count--;
        }
        cr_assert(eq(u32, metadata_topics_count(m), count));
        const struct topic *t = metadata_topic_by_name(m, slice_of_string(name));
        cr_assert(eq(int, t != NULL, is_there[i]));
        if (t != NULL) {
            cr_assert(metadata_topic_by_id(m, &ids[i]) == t);
        }
        metadata_check(m);
    }
    metadata_free(m);
}

Test(metadata, listing_is_in_order_of_name)
{
    cluster_settings_init(&settings);
    struct metadata *m = metadata_new(&settings, 1, 1);
    struct rand r;
    rand_init_seed(&r, 1);
    const char *names[] = {"b", "a", "ab", "B", "a.b", "a-"};
    for (size_t i = 0; i < 6; i++) {
        cr_assert(eq(int, add(m, names[i], rand_uuid(&r)), ERR_OK));
    }
    const char *sorted[] = {"B", "a", "a-", "a.b", "ab", "b"};
    for (uint32_t i = 0; i < 6; i++) {
        cr_assert(eq(str, (char *)metadata_topic_at(m, i)->name, (char *)sorted[i]));
    }
    cr_assert(metadata_topic_by_name(m, (struct slice){0}) == NULL);
    cr_assert(metadata_topic_by_name(m, slice_of_string("abc")) == NULL);
    metadata_free(m);
}

Test(metadata, leader_epoch_is_what_was_set)
{
    cluster_settings_init(&settings);
    settings.node_id = 3;
    struct metadata *m = metadata_new(&settings, 1, 2);
    metadata_set_leader_epoch(m, 9);
    cr_assert(eq(i32, metadata_leader_epoch(m), 9));
    cr_assert(eq(i32, metadata_node_id(m), 3));
    metadata_free(m);
}

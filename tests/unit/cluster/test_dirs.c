/* One node with several data directories, each on a simulated disk of its own: what goes where, one
 * that fails, fills up, is missing, or is gone for good. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/cluster_rig.h"

enum {
    PARTITIONS = 12,
    STEPS = 20000,
};

/* Failed starts and fatal ends leave what was in flight, like a process that exits. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static struct disk_sim *new_disks(void)
{
    return disk_sim_new(&(struct disk_sim_options){
        .is_direct_capable = true, .is_flush_shared = true, .are_roots_volumes = true});
}

static void init(struct sim_node *n, struct disk_sim *disk, uint16_t shards, uint32_t dirs)
{
    sim_node_init(n, disk, shards, shards * 10u + dirs); /* Other lives draw other ids. */
    n->settings.data_dirs_count = dirs;
}

static struct sim_node *start(struct disk_sim *disk, uint16_t shards, uint32_t dirs)
{
    struct sim_node *n = calloc(1, sizeof(*n));
    init(n, disk, shards, dirs);
    cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s", n->why);
    return n;
}

static void stop(struct sim_node *n)
{
    sim_node_stop(n);
    free(n);
}

static const char *path_of(struct sim_node *n, const struct uuid *topic, int32_t partition)
{
    const struct topic *t = metadata_topic_by_id(cluster_metadata(sim_node_cluster(n, 0)), topic);
    cr_assert(t != NULL);
    for (uint32_t i = 0; i < SIM_NODE_DIRS_MAX; i++) {
        if (uuid_equal(topic_directory(t, partition), &n->data_dirs[i].id)) {
            return n->data_dirs[i].path;
        }
    }
    return "";
}

static uint32_t count_in(struct sim_node *n, const struct uuid *topic, const char *path)
{
    uint32_t count = 0;
    for (int32_t p = 0; p < PARTITIONS; p++) {
        count += strcmp(path_of(n, topic, p), path) == 0;
    }
    return count;
}

static enum err try_produce(struct sim_node *n, const struct uuid *topic, int32_t partition)
{
    struct batch b;
    make_batch_of(&b, 1, -1, -1, -1);
    struct partition_op op = produce_op(topic, partition, &b);
    return sim_node_partition_op(n, 0, &op);
}

static enum err try_peek(struct sim_node *n, const struct uuid *topic, int32_t partition)
{
    struct partition_op op = {
        .kind = PARTITION_PEEK,
        .id = {*topic, partition},
        .current_leader_epoch = -1,
        .in.fetch = {.offset = 0, .size_max = 100},
    };
    return sim_node_partition_op(n, 0, &op);
}

static struct uuid make_topic(struct sim_node *n)
{
    struct uuid id;
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", PARTITIONS, &id), ERR_OK));
    for (int32_t p = 0; p < PARTITIONS; p++) {
        cr_assert(eq(i64, produce(n, 0, &id, p, 1), 0));
    }
    return id;
}

static void expect_ends(struct sim_node *n, const struct uuid *id, int64_t end)
{
    for (int32_t p = 0; p < PARTITIONS; p++) {
        cr_assert(eq(i64, offsets_of(n, id, p).high_watermark, end), "partition %d", p);
    }
}

static uint32_t count_lines(const struct sim_node *n, const char *text)
{
    uint32_t count = 0;
    for (const char *at = n->log_text; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

static bool has_problem(struct sim_node *n, const char *code, const char *subject)
{
    struct cluster_problem problems[CLUSTER_PROBLEMS_MAX];
    const uint32_t count = cluster_problems(sim_node_cluster(n, 0), problems);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(problems[i].code, code) == 0 && strcmp(problems[i].subject, subject) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- what goes where ---- */

Test(dirs, partitions_spread_and_are_found_again_in_any_order_on_any_number_of_shards)
{
    struct disk_sim *disk = new_disks();
    struct sim_node *n = start(disk, 2, 3);
    struct uuid id = make_topic(n);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(eq(u32, count_in(n, &id, n->data_dirs[i].path), PARTITIONS / 3));
    }
    stop(n);

    n = calloc(1, sizeof(*n));
    init(n, disk, 3, 3);
    const struct cluster_data_dir second = n->data_dirs[1];
    n->data_dirs[1] = n->data_dirs[2];
    n->data_dirs[2] = second;
    cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s", n->why);
    expect_ends(n, &id, 1);
    cr_assert(eq(i64, produce(n, 0, &id, 0, 1), 1));
    stop(n);
    disk_sim_free(disk);
}

Test(dirs, one_that_is_added_gets_new_partitions)
{
    struct disk_sim *disk = new_disks();
    struct sim_node *n = start(disk, 1, 1);
    struct uuid id = make_topic(n);
    cr_assert(eq(u32, count_in(n, &id, "/data"), PARTITIONS));
    stop(n);
    n = start(disk, 1, 2);
    struct uuid other;
    cr_assert(eq(int, sim_node_create_topic(n, 0, "other", PARTITIONS, &other), ERR_OK));
    cr_assert(eq(u32, count_in(n, &other, "/more"), PARTITIONS));
    stop(n);
    disk_sim_free(disk);
}

/* The old partitions stay where they are; new ones go where there is most room, for good. */
Test(dirs, a_topic_grows_into_one_that_is_added)
{
    struct disk_sim *disk = new_disks();
    struct sim_node *n = start(disk, 2, 1);
    struct uuid id;
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", PARTITIONS / 2, &id), ERR_OK));
    for (int32_t p = 0; p < PARTITIONS / 2; p++) {
        cr_assert(eq(i64, produce(n, 0, &id, p, 1), 0));
    }
    stop(n);
    n = start(disk, 2, 2);
    cr_assert(eq(int, sim_node_create_partitions(n, 1, "t", PARTITIONS), ERR_OK));
    for (int32_t p = PARTITIONS / 2; p < PARTITIONS; p++) {
        cr_assert(eq(i64, produce(n, 1, &id, p, 1), 0));
        cr_assert(eq(str, (char *)path_of(n, &id, p), "/more"));
    }
    stop(n);
    n = start(disk, 3, 2);
    expect_ends(n, &id, 1);
    cr_assert(eq(u32, count_in(n, &id, "/data"), PARTITIONS / 2));
    cr_assert(eq(u32, count_in(n, &id, "/more"), PARTITIONS / 2));
    cr_assert(eq(int, sim_node_delete_topic(n, 0, "t"), ERR_OK));
    sim_node_run(n, 3000);
    stop(n);
    n = start(disk, 1, 2);
    cr_assert(not(sim_node_has_logged(n, "orphan")), "%s", n->log_text);
    stop(n);
    disk_sim_free(disk);
}

/* ---- failing ---- */

Test(dirs, one_that_fails_takes_down_its_partitions_only)
{
    struct disk_sim *disk = new_disks();
    struct sim_node *n = start(disk, 2, 3);
    struct uuid id = make_topic(n);
    disk_sim_set_broken(disk, "/more", true);
    uint32_t failed_count = 0;
    for (int round = 0; round < 2; round++) {
        for (int32_t p = 0; p < PARTITIONS; p++) {
            const bool is_there = strcmp(path_of(n, &id, p), "/more") == 0;
            const enum err e = try_produce(n, &id, p);
            cr_assert(eq(int, e, is_there ? ERR_FAILED : ERR_OK), "partition %d", p);
            failed_count += e != ERR_OK;
        }
    }
    cr_assert(eq(u32, failed_count, 2 * PARTITIONS / 3));
    sim_node_run(n, STEPS);
    for (int32_t p = 0; p < PARTITIONS; p++) {
        const bool is_there = strcmp(path_of(n, &id, p), "/more") == 0;
        cr_assert(eq(int, try_peek(n, &id, p), is_there ? ERR_FAILED : ERR_OK));
    }
    cr_assert(not(n->has_fatal));
    cr_assert(eq(u32, count_lines(n, "data_dir_failed: dir=/more"), 1), "%s", n->log_text);
    cr_assert(eq(u32, count_lines(n, "partition_failed"), 0), "%s", n->log_text);
    cr_assert(has_problem(n, "data_dir_failed", "/more"));
    struct uuid other;
    cr_assert(eq(int, sim_node_create_topic(n, 0, "other", PARTITIONS, &other), ERR_OK));
    cr_assert(eq(u32, count_in(n, &other, "/more"), 0));
    cr_assert(eq(i64, produce(n, 1, &other, 3, 1), 0));
    stop(n);

    disk_sim_set_broken(disk, "/more", false); /* Repaired. */
    n = start(disk, 1, 3);
    for (int32_t p = 0; p < PARTITIONS; p++) {
        const bool was_there = strcmp(path_of(n, &id, p), "/more") == 0;
        const int64_t end = offsets_of(n, &id, p).high_watermark;
        cr_assert(was_there ? end >= 1 : end == 3, "partition %d end %d", p, (int)end);
        cr_assert(eq(int, try_produce(n, &id, p), ERR_OK));
    }
    cr_assert(not(has_problem(n, "data_dir_failed", "/more")));
    stop(n);
    disk_sim_free(disk);
}

/* The shards that have nothing to write to it learn it all the same. */
Test(dirs, a_failure_on_one_shard_holds_on_all)
{
    struct disk_sim *disk = new_disks();
    struct sim_node *n = start(disk, 4, 2);
    struct uuid id = make_topic(n);
    disk_sim_set_broken(disk, "/more", true);
    int32_t first = 0;
    while (strcmp(path_of(n, &id, first), "/more") != 0) {
        first++;
    }
    cr_assert(eq(int, try_produce(n, &id, first), ERR_FAILED));
    disk_sim_set_broken(disk, "/more", false);
    sim_node_run(n, STEPS);
    for (int32_t p = 0; p < PARTITIONS; p++) {
        const bool is_there = strcmp(path_of(n, &id, p), "/more") == 0;
        cr_assert(eq(int, try_produce(n, &id, p), is_there ? ERR_FAILED : ERR_OK));
    }
    stop(n);
    disk_sim_free(disk);
}

Test(dirs, the_controllers_ends_the_process_and_so_does_its_disk)
{
    for (int row = 0; row < 2; row++) {
        struct disk_sim *disk = new_disks();
        struct sim_node *n = calloc(1, sizeof(*n));
        init(n, disk, 2, 2);
        n->data_dirs[1].device_id = row == 1 ? n->data_dirs[0].device_id : 9;
        cr_assert(eq(int, sim_node_start(n), ERR_OK));
        struct uuid id = make_topic(n);
        const char *path = row == 0 ? "/data" : "/more";
        disk_sim_set_broken(disk, path, true);
        for (int32_t p = 0; p < PARTITIONS; p++) {
            (void)try_produce(n, &id, p);
        }
        cr_assert(n->has_fatal, "row %d", row);
        stop(n);
        disk_sim_free(disk);
    }
}

Test(dirs, a_topic_with_a_failed_one_can_be_deleted_and_the_rest_goes_with_the_next_start)
{
    struct disk_sim *disk = new_disks();
    struct sim_node *n = start(disk, 2, 2);
    struct uuid id = make_topic(n);
    disk_sim_set_broken(disk, "/more", true);
    for (int32_t p = 0; p < PARTITIONS; p++) {
        (void)try_produce(n, &id, p);
    }
    cr_assert(eq(int, sim_node_delete_topic(n, 1, "t"), ERR_OK));
    sim_node_run(n, STEPS);
    stop(n);
    disk_sim_set_broken(disk, "/more", false);
    n = start(disk, 2, 2);
    sim_node_run(n, STEPS);
    stop(n);
    n = start(disk, 2, 1); /* Nothing of it is needed any more. */
    cr_assert(not(sim_node_has_logged(n, "orphan_logs")));
    stop(n);
    disk_sim_free(disk);
}

/* ---- full ---- */

Test(dirs, a_full_one_refuses_its_records_and_new_topics_go_elsewhere)
{
    enum { RESERVE = 128 << 10 };
    struct disk_sim *disk = new_disks();
    struct sim_node *n = calloc(1, sizeof(*n));
    init(n, disk, 1, 2);
    n->settings.log.segment_size_max = 64 << 10;
    n->settings.log.fill_step_min = 16 << 10;
    n->settings.log.fill_step_max = 16 << 10;
    n->data_dirs[0].space_reserve_size = RESERVE;
    n->data_dirs[1].space_reserve_size = RESERVE;
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    struct uuid id = make_topic(n);
    const uint64_t used_before = disk_sim_used_size_at(disk, "/more");
    disk_sim_set_capacity_at(disk, "/more", used_before + RESERVE / 2);
    n->clock.now_us += 10 * SPACE_SAMPLE_US;
    bool was_refused = false;
    for (int round = 0; round < 200 && !was_refused; round++) {
        for (int32_t p = 0; p < PARTITIONS; p++) {
            const enum err e = try_produce(n, &id, p);
            cr_assert(e == ERR_OK || e == ERR_NO_SPACE);
            if (e == ERR_NO_SPACE) {
                cr_assert(eq(str, (char *)path_of(n, &id, p), "/more"));
                was_refused = true;
            }
        }
    }
    cr_assert(was_refused);
    cr_assert(lt(u64, disk_sim_used_size_at(disk, "/more"), used_before + RESERVE / 4),
              "what is reserved there was used up");
    cr_assert(has_problem(n, "disk_full", "/more"));
    cr_assert(not(has_problem(n, "disk_full", "/data")));
    struct uuid other;
    cr_assert(eq(int, sim_node_create_topic(n, 0, "other", PARTITIONS, &other), ERR_OK));
    cr_assert(eq(u32, count_in(n, &other, "/data"), PARTITIONS));
    cr_assert(eq(i64, produce(n, 0, &other, 0, 1), 0));
    stop(n);
    disk_sim_free(disk);
}

/* ---- missing ---- */

Test(dirs, a_missing_one_is_refused_unless_it_is_said_to_be_lost)
{
    struct disk_sim *disk = new_disks();
    struct sim_node *n = start(disk, 2, 2);
    struct uuid id = make_topic(n);
    char lost_id[UUID_TEXT_SIZE];
    uuid_format(&n->data_dirs[1].id, lost_id);
    stop(n);

    n = calloc(1, sizeof(*n));
    init(n, disk, 2, 1);
    cr_assert(eq(int, sim_node_start(n), ERR_NOT_FOUND));
    cr_assert(strstr(n->why, lost_id) != NULL, "%s", n->why);
    cr_assert(strstr(n->why, "has 6 partition(s), t-") != NULL, "%s", n->why);
    cr_assert(strstr(n->why, "mount it and add it with --data-dir") != NULL, "%s", n->why);
    cr_assert(strstr(n->why, "--set coreflume.log.dirs.lost=") != NULL, "%s", n->why);
    stop(n);

    struct cluster_lost_dir lost;
    (void)snprintf(lost.text, sizeof(lost.text), "%s", lost_id);
    cr_assert(uuid_parse(lost_id, &lost.id));
    n = calloc(1, sizeof(*n));
    init(n, disk, 2, 1);
    n->settings.lost_dirs = &lost;
    n->settings.lost_dirs_count = 1;
    cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s", n->why);
    cr_assert(eq(u32, count_lines(n, "data_dir_lost"), 1));
    cr_assert(eq(u32, count_lines(n, "partition_open_failed"), 0));
    cr_assert(has_problem(n, "data_dir_lost", lost_id));
    for (int32_t p = 0; p < PARTITIONS; p++) {
        const bool is_lost = strcmp(path_of(n, &id, p), "/data") != 0;
        cr_assert(eq(int, try_produce(n, &id, p), is_lost ? ERR_FAILED : ERR_OK));
        cr_assert(eq(int, try_peek(n, &id, p), is_lost ? ERR_FAILED : ERR_OK));
    }
    cr_assert(eq(int, sim_node_delete_topic(n, 0, "t"), ERR_OK));
    sim_node_run(n, STEPS);
    cr_assert(not(has_problem(n, "data_dir_lost", lost_id)));
    stop(n);

    n = start(disk, 2, 1); /* It is forgotten. */
    stop(n);
    n = start(disk, 2, 2); /* It comes back after all: its logs are nobody's. */
    cr_assert(sim_node_has_logged(n, "orphan_logs: dir=/more/logs count=6"), "%s", n->log_text);
    stop(n);
    disk_sim_free(disk);
}

#include <inttypes.h>

#include "core/assert.h"

#include "tests/sim/groups_mode.h"

/* The data directory of all partitions. */
static const uint8_t DIRECTORY[UUID_SIZE] = {1};

const char *groups_topic_name(uint32_t topic)
{
    static const char *const NAMES[GROUPS_TOPICS] = {"apples", "bananas", "avocados", "cherries"};
    return NAMES[topic];
}

/* ---- lives ---- */

struct uuid groups_life_id(uint32_t life)
{
    struct uuid id = {0};
    id.bytes[UUID_SIZE - 1] = (uint8_t)(life + 1);
    return id;
}

int32_t groups_life_of(const struct groups_run *run, const struct uuid *id)
{
    const int32_t life = (int32_t)id->bytes[UUID_SIZE - 1] - 1;
    sim_check(run->sim, life >= 0 && (uint32_t)life < run->lives_count, "the id of no topic");
    return life;
}

int32_t groups_life_now(const struct groups_run *run, uint32_t topic)
{
    for (uint32_t i = 0; i < run->lives_count; i++) {
        if (run->lives[i].is_alive && run->lives[i].topic == topic) {
            return (int32_t)i;
        }
    }
    return -1;
}

static void create(struct groups_run *run, uint32_t topic)
{
    if (run->lives_count == GROUPS_LIVES_MAX) {
        return;
    }
    const uint32_t life = run->lives_count++;
    const int32_t count = (int32_t)sim_between(run->sim, 1, 5);
    run->lives[life] = (struct groups_life){topic, count, true};
    const struct command_topic_created created = {
        .id = groups_life_id(life),
        .name = slice_of_string(groups_topic_name(topic)),
        .partitions_count = count,
        .replication_factor = 1,
        .directories = slice_of(DIRECTORY, sizeof(DIRECTORY)),
    };
    const struct topic *t = NULL;
    const enum err e = metadata_add_topic(run->metadata, &created, &t);
    assert(e == ERR_OK);
    sim_say(run->sim, "topic %s: life %u of %d partitions", groups_topic_name(topic), life, count);
}

static void grow(struct groups_run *run, uint32_t life)
{
    struct groups_life *l = &run->lives[life];
    if (l->partitions_count == GROUPS_PARTITIONS_MAX) {
        return;
    }
    const struct command_partitions_added added = {
        .id = groups_life_id(life),
        .first = l->partitions_count,
        .partitions_count = l->partitions_count + 1,
        .directories = slice_of(DIRECTORY, sizeof(DIRECTORY)),
    };
    const struct topic *t = NULL;
    const enum err e = metadata_add_partitions(run->metadata, &added, &t);
    assert(e == ERR_OK);
    l->partitions_count++;
    sim_say(run->sim, "topic %s grows to %d", groups_topic_name(l->topic), l->partitions_count);
}

static void delete (struct groups_run *run, uint32_t life)
{
    const struct uuid id = groups_life_id(life);
    const bool was_there = metadata_remove_topic(run->metadata, &id);
    assert(was_there);
    run->lives[life].is_alive = false;
    sim_say(run->sim, "topic %s goes", groups_topic_name(run->lives[life].topic));
}

void groups_topics_act(struct groups_run *run)
{
    const uint32_t topic = (uint32_t)sim_between(run->sim, 0, GROUPS_TOPICS - 1);
    const int32_t life = groups_life_now(run, topic);
    if (life < 0) {
        create(run, topic);
    } else if (sim_chance(run->sim, 50)) {
        grow(run, (uint32_t)life);
    } else {
        delete (run, (uint32_t)life);
        if (sim_chance(run->sim, 60)) {
            create(run, topic);
        }
    }
    groups_log_metadata(run);
}

void groups_topics_start(struct groups_run *run)
{
    for (uint32_t i = 0; i + 1 < GROUPS_TOPICS; i++) {
        create(run, i);
    }
}

void groups_topics_grow(struct groups_run *run)
{
    for (uint32_t topic = 0; topic < GROUPS_TOPICS; topic++) {
        const int32_t life = groups_life_now(run, topic);
        if (life >= 0) {
            grow(run, (uint32_t)life);
        }
    }
    groups_log_metadata(run);
}

void groups_config_act(struct groups_run *run)
{
    struct groups_group *g = &run->groups[sim_between(run->sim, 0, run->swarm.groups_count - 1)];
    g->session_ms = (int32_t)sim_between(run->sim, 45000, 60000);
    g->heartbeat_ms = (int32_t)sim_between(run->sim, 5000, 15000);
    g->assignment_ms = sim_chance(run->sim, 50) ? 0 : (int32_t)sim_between(run->sim, 0, 3000);
    if (run->swarm.is_limiting) {
        run->settings.members_max =
            sim_chance(run->sim, 50) ? (int32_t)sim_between(run->sim, 1, 3) : INT32_MAX;
    }
    groups_log_metadata(run);
}

/* ---- sets of partitions ---- */

bool groups_parts_is_empty(const struct groups_parts *p)
{
    for (uint32_t i = 0; i < GROUPS_LIVES_MAX; i++) {
        if (p->of[i] != 0) {
            return false;
        }
    }
    return true;
}

bool groups_parts_has(const struct groups_parts *p, uint32_t life, uint32_t partition)
{
    return (p->of[life] >> partition & 1) != 0;
}

struct groups_parts groups_parts_minus(const struct groups_parts *a, const struct groups_parts *b)
{
    struct groups_parts ret;
    for (uint32_t i = 0; i < GROUPS_LIVES_MAX; i++) {
        ret.of[i] = (uint8_t)(a->of[i] & ~b->of[i]);
    }
    return ret;
}

struct groups_parts groups_parts_both(const struct groups_parts *a, const struct groups_parts *b)
{
    struct groups_parts ret;
    for (uint32_t i = 0; i < GROUPS_LIVES_MAX; i++) {
        ret.of[i] = a->of[i] & b->of[i];
    }
    return ret;
}

struct groups_parts groups_parts_or(const struct groups_parts *a, const struct groups_parts *b)
{
    struct groups_parts ret;
    for (uint32_t i = 0; i < GROUPS_LIVES_MAX; i++) {
        ret.of[i] = a->of[i] | b->of[i];
    }
    return ret;
}

struct groups_parts groups_parts_of_topics(const struct groups_run *run, uint32_t topics)
{
    struct groups_parts ret = {0};
    for (uint32_t i = 0; i < run->lives_count; i++) {
        const struct groups_life *l = &run->lives[i];
        if (l->is_alive && (topics >> l->topic & 1) != 0) {
            ret.of[i] = (uint8_t)((1U << (uint32_t)l->partitions_count) - 1);
        }
    }
    return ret;
}

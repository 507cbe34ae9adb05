#include <inttypes.h>

#include "core/assert.h"
#include "core/rbuf.h"
#include "kafka/proto/consumer_protocol_assignment.h"
#include "kafka/proto/consumer_protocol_subscription.h"

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
    if (g->kind == GROUPS_OF_BOTH) {
        static const enum groups_migration POLICIES[] = {GROUPS_MIGRATION_BIDIRECTIONAL,
                                                         GROUPS_MIGRATION_BIDIRECTIONAL,
                                                         GROUPS_MIGRATION_BIDIRECTIONAL,
                                                         GROUPS_MIGRATION_UPGRADE,
                                                         GROUPS_MIGRATION_DOWNGRADE,
                                                         GROUPS_MIGRATION_DISABLED};
        run->settings.migration = POLICIES[sim_between(run->sim, 0, 5)];
    }
    groups_log_metadata(run);
}

/* ---- what classic members say and hear ---- */

static void add_named(const struct groups_run *run,
                      struct slice name,
                      const int32_t *partitions,
                      size_t count,
                      struct groups_parts *to)
{
    for (uint32_t topic = 0; topic < GROUPS_TOPICS; topic++) {
        const bool is_it = slice_equal_string(name, groups_topic_name(topic));
        const int32_t life = is_it ? groups_life_now(run, topic) : -1;
        for (size_t i = 0; life >= 0 && i < count; i++) {
            to->of[life] |= (uint8_t)(1U << (uint32_t)partitions[i]);
        }
    }
}

struct groups_subscription groups_subscription_of(struct groups_run *run, struct slice metadata)
{
    struct groups_subscription ret = {0};
    struct consumer_protocol_subscription s;
    struct rbuf in = rbuf_over(metadata.data, metadata.size);
    const enum err e = consumer_protocol_subscription_decode(&in, &run->arena, &s);
    sim_check(run->sim, e == ERR_OK, "a leader gets metadata that nobody sent");
    for (size_t i = 0; i < s.topics_count; i++) {
        for (uint32_t t = 0; t < GROUPS_TOPICS; t++) {
            ret.topics |= slice_equal_string(s.topics[i], groups_topic_name(t)) ? 1U << t : 0;
        }
    }
    for (size_t i = 0; i < s.owned_partitions_count; i++) {
        const struct consumer_protocol_subscription_topic *t = &s.owned_partitions[i];
        add_named(run, t->topic, t->partitions, t->partitions_count, &ret.owned);
    }
    return ret;
}

struct groups_parts groups_parts_given(struct groups_run *run, struct slice assignment)
{
    struct groups_parts ret = {0};
    if (assignment.size == 0) {
        return ret;
    }
    struct consumer_protocol_assignment v;
    struct rbuf in = rbuf_over(assignment.data, assignment.size);
    const enum err e = consumer_protocol_assignment_decode(&in, &run->arena, &v);
    sim_check(run->sim, e == ERR_OK, "an assignment that cannot be read");
    for (size_t i = 0; i < v.assigned_partitions_count; i++) {
        const struct consumer_protocol_assignment_topic *t = &v.assigned_partitions[i];
        add_named(run, t->topic, t->partitions, t->partitions_count, &ret);
    }
    return ret;
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

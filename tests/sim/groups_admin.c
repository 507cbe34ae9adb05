/* Who is no member: commits of groups without members, reads, deletes, removals. */
#include <stdio.h>

#include "core/assert.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_delete.h"
#include "kafka/proto/offset_fetch.h"

#include "tests/sim/groups_mode.h"

/* ---- commits ---- */

static void put_partition(struct groups_run *run, struct offset_commit_request_topic *t, uint32_t p)
{
    const uint32_t number = ++run->commits_count;
    struct offset_commit_request_partition *to = &t->partitions[t->partitions_count++];
    offset_commit_request_partition_init(to);
    char text[32];
    (void)snprintf(text, sizeof(text), "c%u", number);
    to->partition_index = (int32_t)p;
    to->committed_offset = number;
    to->committed_leader_epoch = (int32_t)(number % 1000);
    to->committed_metadata = groups_copy(run, slice_of_string(text));
}

/* Some of these partitions; NULL if there are none. */
static struct groups_call *commit_new(struct groups_run *run,
                                      uint32_t group,
                                      const struct groups_parts *parts,
                                      int16_t version)
{
    struct offset_commit_request *in = groups_alloc(run, 1, sizeof(*in));
    offset_commit_request_init(in);
    in->group_id = slice_of_string(run->groups[group].name);
    in->topics = groups_alloc(run, GROUPS_TOPICS, sizeof(*in->topics));
    const uint32_t first = run->commits_count + 1;
    for (uint32_t topic = 0; topic < GROUPS_TOPICS; topic++) {
        const int32_t life = groups_life_now(run, topic);
        if (life < 0 || parts->of[life] == 0) {
            continue;
        }
        struct offset_commit_request_topic *t = &in->topics[in->topics_count++];
        offset_commit_request_topic_init(t);
        if (version >= 10) {
            t->topic_id = groups_life_id((uint32_t)life);
        } else {
            t->name = slice_of_string(groups_topic_name(topic));
        }
        t->partitions = groups_alloc(run, GROUPS_PARTITIONS_MAX, sizeof(*t->partitions));
        for (uint32_t p = 0; p < GROUPS_PARTITIONS_MAX; p++) {
            if (groups_parts_has(parts, (uint32_t)life, p) && sim_chance(run->sim, 60)) {
                put_partition(run, t, p);
            }
        }
    }
    if (run->commits_count < first) {
        return NULL;
    }
    struct groups_call *call = groups_call_new(run, GROUP_COMMIT, version, group, in);
    call->number = first;
    return call;
}

static int16_t draw_version(struct groups_run *run)
{
    return sim_chance(run->sim, 50) ? 10 : 9;
}

static void commit_simple(struct groups_run *run, uint32_t group)
{
    const struct groups_parts parts = groups_parts_of_topics(run, (1U << GROUPS_TOPICS) - 1);
    struct groups_call *call = commit_new(run, group, &parts, draw_version(run));
    if (call != NULL) {
        groups_call_send(call, NULL);
    }
}

void groups_actor_commit(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    if (a->owner == NULL || a->epoch <= 0 || groups_parts_is_empty(&a->owned)) {
        return;
    }
    struct groups_call *call = commit_new(run, a->group, &a->owned, draw_version(run));
    if (call == NULL) {
        return;
    }
    struct offset_commit_request *in = (struct offset_commit_request *)call->call.in;
    in->member_id = a->owner->id;
    in->generation_id_or_member_epoch = a->epoch;
    in->group_instance_id = slice_of_string(a->instance[0] == '\0' ? NULL : a->instance);
    call->owner = a->owner;
    groups_call_send(call, NULL);
    if (a->call != NULL && a->call->state == GROUPS_CALL_IS_THERE && sim_chance(run->sim, 50)) {
        sim_mark(run->sim, "sim_groups_heartbeat_hurried");
        coordinator_cancel(run->leader->c, &a->call->call, groups_now(run));
    }
}

/* ---- reads ---- */

static void fetch(struct groups_run *run, uint32_t group, bool is_all)
{
    struct offset_fetch_request_group *in = groups_alloc(run, 1, sizeof(*in));
    offset_fetch_request_group_init(in);
    in->group_id = slice_of_string(run->groups[group].name);
    in->topics = NULL;
    if (!is_all) {
        in->topics = groups_alloc(run, GROUPS_TOPICS, sizeof(*in->topics));
        for (uint32_t topic = 0; topic < GROUPS_TOPICS; topic++) {
            const int32_t life = groups_life_now(run, topic);
            if (life < 0) {
                continue;
            }
            struct offset_fetch_request_group_topic *t = &in->topics[in->topics_count++];
            offset_fetch_request_group_topic_init(t);
            t->name = slice_of_string(groups_topic_name(topic));
            t->partition_indexes_count = (size_t)run->lives[life].partitions_count;
            t->partition_indexes = groups_alloc(run, t->partition_indexes_count, sizeof(int32_t));
            for (size_t p = 0; p < t->partition_indexes_count; p++) {
                t->partition_indexes[p] = (int32_t)p;
            }
        }
    }
    struct groups_call *call = groups_call_new(run, GROUP_FETCH, 9, group, in);
    call->state = GROUPS_CALL_IS_THERE; /* Reads are served at once: none is ever on its way. */
    call->there_us = run->sim->clock.now_us;
    coordinator_call(run->leader->c, &call->call, groups_now(run));
    sim_check(run->sim, call->state == GROUPS_CALL_IS_OVER, "a fetch is not answered at once");
}

void groups_fetch_all(struct groups_run *run)
{
    for (uint32_t g = 0; g < run->swarm.groups_count; g++) {
        fetch(run, g, false);
        fetch(run, g, true);
    }
}

static void describe(struct groups_run *run, uint32_t group)
{
    groups_call_send(groups_call_new(run, GROUP_DESCRIBE, 6, group, NULL), NULL);
    groups_call_send(groups_call_new(run, GROUP_CONSUMER_DESCRIBE, 1, group, NULL), NULL);
}

/* ---- deletes ---- */

static void delete_offsets(struct groups_run *run, uint32_t group)
{
    struct offset_delete_request *in = groups_alloc(run, 1, sizeof(*in));
    offset_delete_request_init(in);
    in->group_id = slice_of_string(run->groups[group].name);
    in->topics = groups_alloc(run, 1, sizeof(*in->topics));
    in->topics_count = 1;
    struct offset_delete_request_topic *t = in->topics;
    offset_delete_request_topic_init(t);
    t->name =
        slice_of_string(groups_topic_name((uint32_t)sim_between(run->sim, 0, GROUPS_TOPICS - 1)));
    t->partitions = groups_alloc(run, GROUPS_PARTITIONS_MAX, sizeof(*t->partitions));
    for (int32_t p = 0; p < GROUPS_PARTITIONS_MAX; p++) {
        if (sim_chance(run->sim, 50)) {
            t->partitions[t->partitions_count++].partition_index = p;
        }
    }
    groups_call_send(groups_call_new(run, GROUP_DELETE_OFFSETS, 0, group, in), NULL);
}

static void remove_member(struct groups_run *run, uint32_t group)
{
    const struct groups_actor *a =
        &run->actors[sim_between(run->sim, 0, run->swarm.actors_count - 1)];
    if (a->group != group || a->owner == NULL) {
        return;
    }
    struct leave_group_request *in = groups_alloc(run, 1, sizeof(*in));
    leave_group_request_init(in);
    in->group_id = slice_of_string(run->groups[group].name);
    in->members = groups_alloc(run, 1, sizeof(*in->members));
    in->members_count = 1;
    leave_group_request_member_init(in->members);
    in->members->member_id = a->owner->id;
    groups_call_send(groups_call_new(run, GROUP_LEAVE, 4, group, in), NULL);
}

void groups_admin_act(struct groups_run *run)
{
    const uint32_t group = (uint32_t)sim_between(run->sim, 0, run->swarm.groups_count - 1);
    const uint64_t what = sim_between(run->sim, 0, 99);
    if (what < 40) {
        if (run->leader != NULL) {
            fetch(run, group, what < 20);
        }
    } else if (what < 60) {
        commit_simple(run, group);
    } else if (what < 80) {
        groups_actor_commit(&run->actors[sim_between(run->sim, 0, run->swarm.actors_count - 1)]);
    } else if (what < 90) {
        describe(run, group);
    } else if (what < 94) {
        delete_offsets(run, group);
    } else if (what < 97) {
        groups_call_send(groups_call_new(run, GROUP_DELETE, 2, group, NULL), NULL);
    } else {
        remove_member(run, group);
    }
}

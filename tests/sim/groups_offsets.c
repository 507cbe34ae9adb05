/* Committed offsets. Of each partition the model knows which commits may be what is stored now: the
 * last that was acknowledged, those that nobody knows of, those under way. What is read has to be
 * one of them, and then it is that one. Nothing stored is one of them, too: after a delete, or when
 * it may expire.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/assert.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_delete.h"
#include "kafka/proto/offset_fetch.h"

#include "tests/sim/groups_mode.h"

enum {
    NOTHING = 0,
};

/* ---- one partition ---- */

static bool has(const uint32_t *values, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] == value) {
            return true;
        }
    }
    return false;
}

static void take_off(struct groups_values *v, uint32_t value)
{
    for (uint32_t i = 0; i < v->flying_count; i++) {
        if (v->flying[i] == value) {
            v->flying[i] = v->flying[--v->flying_count];
            return;
        }
    }
}

static void fly(struct groups_values *v, uint32_t value)
{
    assert_cmp(v->flying_count, <, GROUPS_VALUES_MAX);
    v->flying[v->flying_count++] = value;
}

static void settle(struct groups_values *v, uint32_t value)
{
    v->could[0] = value;
    v->could_count = 1;
}

static void doubt(struct groups_values *v, uint32_t value)
{
    if (v->could_count == 0) {
        settle(v, NOTHING);
    }
    if (!has(v->could, v->could_count, value)) {
        assert_cmp(v->could_count, <, GROUPS_VALUES_MAX);
        v->could[v->could_count++] = value;
    }
}

/* What became of one: error says. */
static void land(struct groups_values *v, uint32_t value, int16_t error)
{
    take_off(v, value);
    if (error == KAFKA_NONE) {
        settle(v, value);
    } else if (groups_is_unsure(error)) {
        doubt(v, value);
    }
}

static bool may_have_expired(const struct groups_run *run, const struct groups_values *v)
{
    const uint64_t age_us = (uint64_t)run->settings.offsets_retention_ms * 1000;
    return run->sim->clock.now_us >= v->young_us + age_us &&
           v->unprotected_us >= v->young_us + age_us;
}

static void
check_read(struct groups_run *run, uint32_t group, uint32_t life, int32_t p, uint32_t value)
{
    struct groups_values *v = &run->groups[group].values[life][p];
    const bool is_legal = has(v->could, v->could_count, value) ||
                          has(v->flying, v->flying_count, value) ||
                          (value == NOTHING && (v->could_count == 0 || may_have_expired(run, v)));
    sim_check(run->sim,
              is_legal,
              "%s %s-%d: offset %u was read, acknowledged is %u (of %u)",
              run->groups[group].name,
              groups_topic_name(run->lives[life].topic),
              p,
              value,
              v->could_count == 0 ? 0 : v->could[0],
              v->could_count);
    settle(v, value);
}

/* ---- commits ---- */

static int32_t life_of_topic(const struct groups_run *run,
                             const struct offset_commit_request_topic *t,
                             int16_t version)
{
    if (version >= 10) {
        const int32_t life = groups_life_of(run, &t->topic_id);
        return run->lives[life].is_alive ? life : -1;
    }
    for (uint32_t topic = 0; topic < GROUPS_TOPICS; topic++) {
        if (slice_equal_string(t->name, groups_topic_name(topic))) {
            return groups_life_now(run, topic);
        }
    }
    return -1;
}

/* What others were told, and this member was not. */
static struct groups_parts foreign_of(struct groups_run *run, const struct groups_owner *o)
{
    struct groups_parts ret = {0};
    for (uint32_t i = 0; o != NULL && !o->is_classic && i < run->owners_count; i++) {
        const struct groups_owner *other = run->owners[i];
        if (other != o && other->group == o->group && other->is_in) {
            ret = groups_parts_or(&ret, &other->held);
        }
    }
    return o == NULL ? ret : groups_parts_minus(&ret, &o->held);
}

static void commit_there(struct groups_call *call)
{
    struct groups_run *run = call->run;
    const struct offset_commit_request *in = call->call.in;
    call->foreign = foreign_of(run, call->owner);
    uint32_t number = call->number;
    for (size_t i = 0; i < in->topics_count; i++) {
        const int32_t life = life_of_topic(run, &in->topics[i], call->call.version);
        call->lives[i] = life;
        for (size_t j = 0; j < in->topics[i].partitions_count; j++, number++) {
            const int32_t p = in->topics[i].partitions[j].partition_index;
            if (life >= 0) {
                struct groups_values *v = &run->groups[call->group].values[life][p];
                fly(v, number);
            }
        }
    }
}

static int16_t error_of(const struct groups_run *run,
                        const struct offset_commit_response *out,
                        const struct offset_commit_request_topic *t,
                        int32_t partition)
{
    for (size_t i = 0; i < out->topics_count; i++) {
        const struct offset_commit_response_topic *o = &out->topics[i];
        if (!slice_equal(o->name, t->name) || !uuid_equal(&o->topic_id, &t->topic_id)) {
            continue;
        }
        for (size_t j = 0; j < o->partitions_count; j++) {
            if (o->partitions[j].partition_index == partition) {
                return o->partitions[j].error_code;
            }
        }
    }
    sim_fail(run->sim, "the answer to a commit leaves a partition out");
}

static void check_committer(const struct groups_call *call, int32_t life, int32_t p)
{
    const struct groups_run *run = call->run;
    const struct groups_owner *o = call->owner;
    const struct offset_commit_request *in = call->call.in;
    const struct groups_group *g = &run->groups[call->group];
    /* In its own epoch a member may commit for anything. */
    if ((g->kind == GROUPS_OF_CONSUMERS || g->kind == GROUPS_OF_BOTH) && o != NULL &&
        !o->is_classic && in->generation_id_or_member_epoch != o->epoch) {
        sim_check(run->sim,
                  !groups_parts_has(&call->foreign, (uint32_t)life, (uint32_t)p),
                  "%.*s commits for a partition that another has: %s-%d",
                  (int)o->id.size,
                  (const char *)o->id.data,
                  groups_topic_name(run->lives[life].topic),
                  p);
    }
    if (o != NULL && o->is_classic) {
        sim_check(run->sim,
                  in->generation_id_or_member_epoch >= call->floor,
                  "a commit of generation %d is taken, %d is durable",
                  in->generation_id_or_member_epoch,
                  call->floor);
    }
}

static void land_commit(struct groups_call *call, size_t topic, int32_t p, uint32_t number)
{
    struct groups_run *run = call->run;
    struct groups_group *g = &run->groups[call->group];
    const struct offset_commit_request *in = call->call.in;
    const int16_t error = error_of(run, call->call.out, &in->topics[topic], p);
    const int32_t before = call->lives[topic];
    const int32_t now = life_of_topic(run, &in->topics[topic], call->call.version);
    if (before >= 0) {
        land(&g->values[before][p], number, error);
        if (error == KAFKA_NONE && before == now) {
            g->values[before][p].young_us = call->there_us;
            check_committer(call, before, p);
        }
    }
    /* It waited while the topic came anew: nobody knows which of the two it is for. */
    if (before != now && (error == KAFKA_NONE || groups_is_unsure(error))) {
        for (int i = 0; i < 2; i++) {
            const int32_t life = i == 0 ? before : now;
            if (life >= 0) {
                doubt(&g->values[life][p], number);
                doubt(&g->values[life][p], NOTHING);
            }
        }
    }
}

static void judge_commit(struct groups_call *call)
{
    const struct offset_commit_request *in = call->call.in;
    uint32_t number = call->number;
    for (size_t i = 0; i < in->topics_count; i++) {
        for (size_t j = 0; j < in->topics[i].partitions_count; j++, number++) {
            land_commit(call, i, in->topics[i].partitions[j].partition_index, number);
        }
    }
}

/* ---- fetches ---- */

static uint32_t value_of(const struct groups_run *run,
                         const struct offset_fetch_response_group_topic_partition *p)
{
    if (p->committed_offset == -1) {
        sim_check(run->sim,
                  p->committed_leader_epoch == -1 && p->metadata.size == 0,
                  "no offset, but an epoch or metadata");
        return NOTHING;
    }
    char text[32];
    (void)snprintf(text, sizeof(text), "c%" PRId64, p->committed_offset);
    sim_check(run->sim,
              p->committed_leader_epoch == (int32_t)(p->committed_offset % 1000) &&
                  slice_equal_string(p->metadata, text),
              "offset, epoch and metadata are not of one commit: %" PRId64,
              p->committed_offset);
    return (uint32_t)p->committed_offset;
}

static void judge_fetch(struct groups_call *call)
{
    struct groups_run *run = call->run;
    const struct offset_fetch_response_group *out = call->call.out;
    struct groups_parts seen = {0};
    for (size_t i = 0; out->error_code == 0 && i < out->topics_count; i++) {
        int32_t life = -1;
        for (uint32_t t = 0; t < GROUPS_TOPICS; t++) {
            if (slice_equal_string(out->topics[i].name, groups_topic_name(t))) {
                life = groups_life_now(run, t);
            }
        }
        sim_check(run->sim, life >= 0, "offsets of a topic that does not exist");
        for (size_t j = 0; j < out->topics[i].partitions_count; j++) {
            const struct offset_fetch_response_group_topic_partition *p =
                &out->topics[i].partitions[j];
            sim_check(run->sim, p->error_code == 0, "a partition says %d", p->error_code);
            seen.of[life] |= (uint8_t)(1U << (uint32_t)p->partition_index);
            check_read(run, call->group, (uint32_t)life, p->partition_index, value_of(run, p));
        }
    }
    const struct offset_fetch_request_group *in = call->call.in;
    for (uint32_t life = 0; out->error_code == 0 && in->topics == NULL && life < run->lives_count;
         life++) {
        for (int32_t p = 0; run->lives[life].is_alive && p < run->lives[life].partitions_count;
             p++) {
            if (!groups_parts_has(&seen, life, (uint32_t)p)) {
                check_read(run, call->group, life, p, NOTHING);
            }
        }
    }
}

/* ---- deletes ---- */

static void delete_there(struct groups_call *call)
{
    struct groups_run *run = call->run;
    for (uint32_t life = 0; life < run->lives_count; life++) {
        for (uint32_t p = 0; p < GROUPS_PARTITIONS_MAX; p++) {
            fly(&run->groups[call->group].values[life][p], NOTHING);
        }
    }
}

static bool is_deleted(const struct groups_call *call, uint32_t life, int32_t partition)
{
    if (call->call.kind == GROUP_DELETE) {
        return true;
    }
    const struct offset_delete_response *out = call->call.out;
    for (size_t i = 0; i < out->topics_count; i++) {
        const struct offset_delete_response_topic *t = &out->topics[i];
        for (size_t j = 0; j < t->partitions_count; j++) {
            if (slice_equal_string(t->name, groups_topic_name(call->run->lives[life].topic)) &&
                t->partitions[j].partition_index == partition) {
                return t->partitions[j].error_code == 0;
            }
        }
    }
    return false;
}

static void judge_delete(struct groups_call *call)
{
    struct groups_run *run = call->run;
    const int16_t error = groups_call_error(call);
    for (uint32_t life = 0; life < run->lives_count; life++) {
        for (int32_t p = 0; p < GROUPS_PARTITIONS_MAX; p++) {
            struct groups_values *v = &run->groups[call->group].values[life][p];
            take_off(v, NOTHING);
            if (groups_is_unsure(error)) {
                doubt(v, NOTHING);
            } else if (error == 0 && run->lives[life].is_alive && is_deleted(call, life, p)) {
                settle(v, NOTHING);
            }
        }
    }
}

/* ---- events ---- */

void groups_offsets_there(struct groups_call *call)
{
    const struct groups_group *g = &call->run->groups[call->group];
    call->floor = g->synced_max;
    if (g->kind == GROUPS_OF_BOTH) { /* Its members are not all in the same epoch. */
        call->floor = call->owner == NULL ? 0 : call->owner->synced;
    }
    if (call->call.kind == GROUP_COMMIT) {
        commit_there(call);
    } else if (call->call.kind == GROUP_DELETE || call->call.kind == GROUP_DELETE_OFFSETS) {
        delete_there(call);
    }
}

void groups_offsets_judge(struct groups_call *call)
{
    switch ((int)call->call.kind) {
    case GROUP_COMMIT:
        judge_commit(call);
        break;
    case GROUP_FETCH:
        judge_fetch(call);
        break;
    case GROUP_DELETE:
    case GROUP_DELETE_OFFSETS:
        judge_delete(call);
        break;
    default:
        break;
    }
}

/* A member that subscribes keeps offsets from expiring. */
static bool is_protected(const struct groups_run *run, uint32_t group, uint32_t topic)
{
    for (uint32_t i = 0; i < run->owners_count; i++) {
        const struct groups_owner *o = run->owners[i];
        const bool is_there = o->group == group && (!o->is_classic || o->synced > 0) &&
                              !groups_owner_may_be_gone(run, o);
        if (is_there && (o->subscribed >> topic & 1) != 0) {
            return true;
        }
    }
    return false;
}

void groups_offsets_stepped(struct groups_run *run)
{
    for (uint32_t g = 0; g < run->swarm.groups_count; g++) {
        for (uint32_t topic = 0; topic < GROUPS_TOPICS; topic++) {
            const int32_t life = groups_life_now(run, topic);
            if (life < 0 || is_protected(run, g, topic)) {
                continue;
            }
            for (uint32_t p = 0; p < GROUPS_PARTITIONS_MAX; p++) {
                run->groups[g].values[life][p].unprotected_us = run->sim->clock.now_us;
            }
        }
    }
}

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "kafka/proto/consumer_group_describe.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/delete_groups.h"
#include "kafka/proto/describe_groups.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_delete.h"
#include "kafka/proto/offset_fetch.h"
#include "kafka/proto/sync_group.h"

#include "tests/sim/groups_mode.h"

enum {
    COPY_US_MAX = 40 * 1000 * 1000, /* How late the copy of a request may come. */
};

struct groups_call *groups_call_new(struct groups_run *run,
                                    enum group_call_kind kind,
                                    int16_t version,
                                    uint32_t group,
                                    const void *in)
{
    struct groups_call *call = groups_alloc(run, 1, sizeof(*call));
    group_call_init(&call->call, kind);
    call->call.version = version;
    call->call.group_id = slice_of_string(run->groups[group].name);
    call->call.client_id = slice_of_string("client");
    call->call.client_host = slice_of_string("/127.0.0.1");
    call->call.in = in;
    call->run = run;
    call->group = group;
    call->order = ++run->calls_count;
    list_init(&call->link);
    return call;
}

static uint64_t net_us(struct groups_run *run)
{
    return sim_log_between(run->sim, 0, run->is_quiet ? 1000 : run->swarm.net_us_max);
}

static void copy_call(const struct groups_call *call)
{
    struct groups_run *run = call->run;
    struct groups_call *copy =
        groups_call_new(run, call->call.kind, call->call.version, call->group, call->call.in);
    copy->is_copy = true;
    copy->is_lost = true;
    copy->owner = call->owner;
    copy->number = call->number;
    copy->due_us = run->sim->clock.now_us + sim_log_between(run->sim, 0, COPY_US_MAX);
    list_push_back(&run->calls, &copy->link);
    sim_mark(run->sim, "sim_groups_request_repeated");
}

void groups_call_send(struct groups_call *call, struct groups_actor *actor)
{
    struct groups_run *run = call->run;
    const bool has_faults = !run->is_quiet;
    call->actor = actor;
    if (actor != NULL) {
        actor->call = call;
    }
    if (has_faults && sim_chance(run->sim, run->swarm.copy_percent)) {
        copy_call(call);
    }
    if (has_faults && sim_chance(run->sim, run->swarm.lose_percent)) {
        call->state = GROUPS_CALL_IS_OVER;
        return;
    }
    call->is_lost = has_faults && sim_chance(run->sim, run->swarm.lose_percent);
    call->due_us = run->sim->clock.now_us + net_us(run);
    list_push_back(&run->calls, &call->link);
}

void groups_call_abandon(struct groups_call *call)
{
    struct groups_run *run = call->run;
    call->actor = NULL;
    if (call->state == GROUPS_CALL_IS_THERE && sim_chance(run->sim, run->swarm.cancel_percent)) {
        sim_mark(run->sim, "sim_groups_call_cancelled");
        coordinator_cancel(run->leader->c, &call->call, groups_now(run));
    }
}

/* ---- answers ---- */

/* The first. */
static int16_t partition_error(const struct offset_commit_response *out)
{
    for (size_t i = 0; i < out->topics_count; i++) {
        if (out->topics[i].partitions_count > 0) {
            return out->topics[i].partitions[0].error_code;
        }
    }
    return -1; /* No topics: it says nothing. */
}

/* Where the error stands in an answer, but for those that have one per partition. */
static const size_t ERROR_AT[GROUP_CALL_KIND_COUNT] = {
    [GROUP_JOIN] = offsetof(struct join_group_response, error_code),
    [GROUP_SYNC] = offsetof(struct sync_group_response, error_code),
    [GROUP_HEARTBEAT] = offsetof(struct heartbeat_response, error_code),
    [GROUP_LEAVE] = offsetof(struct leave_group_response, error_code),
    [GROUP_FETCH] = offsetof(struct offset_fetch_response_group, error_code),
    [GROUP_DELETE_OFFSETS] = offsetof(struct offset_delete_response, error_code),
    [GROUP_DESCRIBE] = offsetof(struct describe_groups_response_group, error_code),
    [GROUP_DELETE] = offsetof(struct delete_groups_response_result, error_code),
    [GROUP_CONSUMER_HEARTBEAT] = offsetof(struct consumer_group_heartbeat_response, error_code),
    [GROUP_CONSUMER_DESCRIBE] = offsetof(struct consumer_group_describe_response_group, error_code),
};

int16_t groups_call_error(const struct groups_call *call)
{
    if (call->call.kind == GROUP_COMMIT) {
        return partition_error(call->call.out);
    }
    int16_t error = 0;
    memcpy(&error, (const char *)call->call.out + ERROR_AT[call->call.kind], sizeof(error));
    return error;
}

bool groups_is_unsure(int16_t error)
{
    return error == KAFKA_NOT_COORDINATOR || error == KAFKA_COORDINATOR_NOT_AVAILABLE ||
           error == KAFKA_COORDINATOR_LOAD_IN_PROGRESS || error == KAFKA_REQUEST_TIMED_OUT;
}

/* What an answer to that kind may say at all. */
static const int16_t MAY_SAY[GROUP_CALL_KIND_COUNT][16] = {
    [GROUP_JOIN] = {0, 15, 16, 22, 23, 24, 25, 26, 27, 69, 79, 81, 82},
    [GROUP_SYNC] = {0, 15, 16, 22, 23, 25, 27, 82},
    [GROUP_HEARTBEAT] = {0, 15, 16, 22, 25, 27, 82},
    [GROUP_LEAVE] = {0, 15, 16},
    [GROUP_COMMIT] = {0, -1, 3, 15, 16, 22, 25, 27, 69, 82, 100, 110, 113},
    [GROUP_FETCH] = {0, 15, 16, 25, 113},
    [GROUP_DELETE_OFFSETS] = {0, 15, 16, 68, 69},
    [GROUP_DELETE] = {0, 15, 16, 68, 69},
    [GROUP_DESCRIBE] = {0, 15, 16, 69},
    [GROUP_CONSUMER_DESCRIBE] = {0, 15, 16, 69},
    [GROUP_CONSUMER_HEARTBEAT] = {0, 15, 16, 25, 69, 81, 82, 110, 111},
};

static void check_error(const struct groups_call *call)
{
    const int16_t error = groups_call_error(call);
    const int16_t *may = MAY_SAY[call->call.kind];
    bool is_legal = error == 0;
    for (size_t i = 1; i < 16 && may[i] != 0; i++) {
        is_legal |= may[i] == error;
    }
    sim_check(call->run->sim, is_legal, "a call of kind %d is answered %d", call->call.kind, error);
}

void groups_call_answered(struct group_call *answered)
{
    struct groups_call *call = container_of(answered, struct groups_call, call);
    struct groups_run *run = call->run;
    sim_check(
        run->sim, call->state == GROUPS_CALL_IS_THERE, "a call is answered that is not there");
    sim_check(run->sim, answered->out != NULL, "an answer that is nothing");
    check_error(call);
    sim_trace(run->sim, "answer", answered->kind, (uint64_t)groups_call_error(call));
    sim_say(run->sim,
            "%s kind=%d member=%.*s copy=%d answered %d",
            run->groups[call->group].name,
            answered->kind,
            call->owner == NULL ? 1 : (int)call->owner->id.size,
            call->owner == NULL ? "-" : (const char *)call->owner->id.data,
            call->is_copy,
            groups_call_error(call));
    groups_owners_judge(call);
    groups_generations_judge(call);
    groups_both_judge(call);
    groups_offsets_judge(call);
    run->sim->acked += groups_call_error(call) == 0;
    list_remove(&call->link);
    if (call->actor == NULL || call->is_lost || run->is_crashing) {
        call->state = GROUPS_CALL_IS_OVER;
        return;
    }
    call->state = GROUPS_CALL_RETURNS;
    call->due_us = run->sim->clock.now_us + net_us(run);
    list_push_back(&run->calls, &call->link);
}

/* ---- turns ---- */

static void arrive(struct groups_call *call)
{
    struct groups_run *run = call->run;
    if (run->leader == NULL) {
        /* As the driver: no coordinator here. Clients ask again as if it were lost. */
        list_remove(&call->link);
        call->state = GROUPS_CALL_IS_OVER;
        return;
    }
    call->state = GROUPS_CALL_IS_THERE;
    call->there_us = run->sim->clock.now_us;
    call->term = run->term;
    sim_say(run->sim,
            "%s kind=%d member=%.*s copy=%d arrives",
            run->groups[call->group].name,
            (int)call->call.kind,
            call->owner == NULL ? 1 : (int)call->owner->id.size,
            call->owner == NULL ? "-" : (const char *)call->owner->id.data,
            call->is_copy);
    groups_owners_there(call);
    groups_generations_there(call);
    groups_both_there(call);
    groups_offsets_there(call);
    coordinator_call(run->leader->c, &call->call, groups_now(run));
}

static void come_home(struct groups_call *call)
{
    struct groups_actor *a = call->actor;
    list_remove(&call->link);
    call->state = GROUPS_CALL_IS_OVER;
    if (a != NULL) {
        a->call = NULL;
        groups_actor_hear(a, call);
    }
}

void groups_calls_drop_copies(struct groups_run *run)
{
    list_for_each_safe (link, &run->calls) {
        struct groups_call *call = container_of(link, struct groups_call, link);
        if (call->is_copy && call->state == GROUPS_CALL_GOES) {
            list_remove(&call->link);
            call->state = GROUPS_CALL_IS_OVER;
        }
    }
}

static struct groups_call *first_due(const struct groups_run *run)
{
    struct groups_call *first = NULL;
    list_for_each (link, &run->calls) {
        struct groups_call *call = container_of(link, struct groups_call, link);
        if (call->state != GROUPS_CALL_IS_THERE &&
            (first == NULL || call->due_us < first->due_us)) {
            first = call;
        }
    }
    return first;
}

uint64_t groups_calls_deadline_us(const struct groups_run *run)
{
    const struct groups_call *first = first_due(run);
    return first == NULL ? UINT64_MAX : first->due_us;
}

void groups_calls_turn(struct groups_run *run)
{
    struct groups_call *call = NULL;
    while ((call = first_due(run)) != NULL && call->due_us <= run->sim->clock.now_us) {
        if (call->state == GROUPS_CALL_GOES) {
            arrive(call);
        } else {
            come_home(call);
        }
    }
}

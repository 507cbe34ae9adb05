/* CreatePartitions, as an admin sends it: a topic gets more partitions, over crashes; its old ones
 * stay what they are, and clients use the new ones. Fewer are refused. */
#include <stdio.h>

#include "kafka/proto/create_partitions.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/schema.h"

#include "tests/sim/broker_mode.h"

enum {
    TIMEOUT_MS = 30000,
    CRASH_STEPS_MAX = 300,
};

static void end_growing(struct admin *a)
{
    struct sim *sim = a->actor.run->sim;
    struct sim_topic *t = a->topic;
    while (t->partitions_count < t->partitions_wanted) {
        topic_add_partition(sim, t);
    }
    t->partitions_wanted = 0;
    sim_mark(sim, "sim_topic_grown");
    sim_trace(sim, "grown", t->life, (uint64_t)t->partitions_count);
    admin_crash_soon(a, CRASH_STEPS_MAX);
}

static void on_grown(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct kafka_caller *caller = kafka_caller_end(call, body);
    if (caller == NULL) {
        return;
    }
    struct admin *a = container_of(caller, struct admin, caller);
    struct sim *sim = a->actor.run->sim;
    struct create_partitions_response response;
    enum err e = create_partitions_response_decode(body, call->version, arena, &response);
    sim_check(sim, e == ERR_OK && response.results_count == 1, "CreatePartitions: %s", err_name(e));
    const int16_t code = response.results[0].error_code;
    sim_say(sim, "grows %s: error_code=%d trial=%d", a->topic->name, code, (int)a->trial);
    if (admin_is_retriable(a, code)) {
        return;
    }
    if (a->trial != TRIAL_NONE) {
        const int16_t expected = a->trial == TRIAL_INVALID ? KAFKA_INVALID_PARTITIONS : KAFKA_NONE;
        sim_check(sim, code == expected, "a trial to grow %s: error_code=%d", a->topic->name, code);
        return;
    }
    sim_check(sim,
              code == KAFKA_NONE || (code == KAFKA_INVALID_PARTITIONS && a->caller.was_uncertain),
              "growing %s: error_code=%d",
              a->topic->name,
              code);
    end_growing(a);
}

static void send_count(struct admin *a, int32_t count)
{
    struct create_partitions_request_topic topic;
    struct create_partitions_request request;
    create_partitions_request_init(&request);
    create_partitions_request_topic_init(&topic);
    topic.name = slice_of_string(a->topic->name);
    topic.count = count;
    topic.assignments = NULL;
    request.topics = &topic;
    request.topics_count = 1;
    request.timeout_ms = TIMEOUT_MS;
    request.validate_only = a->trial == TRIAL_VALIDATE;
    struct wbuf w;
    kafka_caller_begin(&a->caller,
                       &w,
                       CREATE_PARTITIONS_API.key,
                       CREATE_PARTITIONS_VERSION_MIN,
                       CREATE_PARTITIONS_VERSION_MAX);
    kafka_caller_send(&a->caller,
                      &w,
                      create_partitions_request_encode(&w, a->caller.call.version, &request),
                      on_grown);
    admin_crash_soon(a, CRASH_STEPS_MAX);
}

void admin_send_grow(struct admin *a)
{
    a->trial = TRIAL_NONE;
    send_count(a, a->topic->partitions_wanted + (int32_t)a->actor.run->sim->swarm.partitions_extra);
}

void admin_begin_grow(struct admin *a)
{
    struct sim *sim = a->actor.run->sim;
    struct sim_topic *t = a->topic;
    const int32_t extra = (int32_t)sim->swarm.partitions_extra;
    const int32_t wanted =
        (int32_t)sim_between(sim, (uint64_t)t->partitions_count + 1, TOPIC_PARTITIONS_MAX);
    a->caller.was_uncertain = false;
    if (!rand_one_in(&sim->rand, 6)) {
        t->partitions_wanted = wanted;
        admin_send_grow(a);
        return;
    }
    a->trial = rand_one_in(&sim->rand, 2) ? TRIAL_INVALID : TRIAL_VALIDATE;
    send_count(a,
               a->trial == TRIAL_VALIDATE
                   ? wanted + extra
                   : (int32_t)sim_between(sim, 1, (uint64_t)(t->partitions_count + extra)));
}

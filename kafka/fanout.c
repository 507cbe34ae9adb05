#include "kafka/fanout.h"

#include <string.h>

#include "core/assert.h"
#include "kafka/request.h"

static bool is_at_end(const struct fanout *f)
{
    return f->at.index == f->topics_count;
}

static void end_if_all_done(struct fanout *f)
{
    if (is_at_end(f) && list_is_empty(&f->busy)) {
        timer_cancel(&f->request->d->s->timers, &f->timer);
        f->kind->on_all(f);
    }
}

/* In the next turn, or later in this one. */
static void post_walk(struct fanout *f)
{
    if (!f->is_posted) {
        f->is_posted = true;
        request_hold(f->request);
        shard_post(f->request->d->s, &f->walk);
    }
}

static void on_done(struct partition_op *op)
{
    struct fanout_part *part = container_of(op, struct fanout_part, op);
    struct fanout *f = op->context;
    struct request *r = f->request;
    if (!part->is_done) {
        part->is_done = true;
        list_remove(&part->link);
        f->kind->on_part(f, part, op->result);
        if (part->is_done) { /* It was not asked again. */
            list_push_back(&f->idle, &part->link);
        }
        if (!is_at_end(f)) {
            post_walk(f);
        }
        end_if_all_done(f);
    }
    request_release(r);
}

void fanout_ask(struct fanout *f, struct fanout_part *part)
{
    if (f->is_late) {
        f->kind->on_part(f, part, ERR_TIMED_OUT);
        return;
    }
    part->op.on_done = on_done;
    part->op.context = f;
    part->is_done = false;
    list_remove(&part->link);
    list_push_back(&f->busy, &part->link);
    request_hold(f->request);
    cluster_partition_submit(f->request->d->cluster, &part->op);
}

enum kafka_error
fanout_find(const struct fanout_topic *t, int32_t partition, struct fanout_part *part)
{
    return lookup_partition(t->error, t->topic, partition, &part->op.id);
}

static void describe(const struct fanout *f, size_t index, struct fanout_topic *ret)
{
    *ret = (struct fanout_topic){.index = index};
    f->kind->describe_topic(f, index, ret);
}

static void look_up(struct fanout *f)
{
    struct fanout_topic *t = &f->at;
    t->topic = NULL;
    t->error = lookup_topic(f->request, &t->how, &t->topic);
}

/* To the first topic from index on that has partitions, or to the end. */
static void go_to_topic(struct fanout *f, size_t index)
{
    f->at = (struct fanout_topic){.index = index};
    f->at_number = 0;
    while (!is_at_end(f)) {
        describe(f, f->at.index, &f->at);
        if (f->at.partitions_count > 0) {
            look_up(f);
            return;
        }
        f->at = (struct fanout_topic){.index = f->at.index + 1};
    }
}

static void begin_next(struct fanout *f, struct fanout_part *part)
{
    list_remove(&part->link);
    memset(part, 0, f->kind->part_size);
    list_init(&part->link);
    part->answer = f->answer_next;
    part->op.current_leader_epoch = -1;
    f->kind->begin_part(f, &f->at, f->at_number, part);
    f->answer_next += f->kind->answer_size;
    f->at_number++;
    if (f->at_number == f->at.partitions_count) {
        go_to_topic(f, f->at.index + 1);
    }
}

/* Begins what comes next, as far as parts and budget go. The topic it is at was looked up in this
 * callback. */
static void walk(struct fanout *f, size_t budget)
{
    for (; budget > 0 && !is_at_end(f) && !list_is_empty(&f->idle); budget--) {
        struct fanout_part *part = container_of(f->idle.next, struct fanout_part, link);
        begin_next(f, part);
        if (list_is_empty(&part->link)) { /* It was not asked. */
            list_push_front(&f->idle, &part->link);
        }
    }
    if (!is_at_end(f) && !list_is_empty(&f->idle)) {
        post_walk(f);
    }
    end_if_all_done(f);
}

/* Time is up: what was not asked yet is answered without. */
static void walk_late(struct fanout *f)
{
    if (!is_at_end(f)) {
        look_up(f);
    }
    for (int budget = FANOUT_IN_FLIGHT_MAX; budget > 0 && !is_at_end(f); budget--) {
        begin_next(f, f->late);
    }
    if (is_at_end(f)) {
        f->is_answered = true;
        f->kind->on_all(f);
    } else {
        post_walk(f);
    }
}

static void on_walk(struct task *t)
{
    struct fanout *f = container_of(t, struct fanout, walk);
    struct request *r = f->request;
    f->is_posted = false;
    if (!f->is_late) {
        if (!is_at_end(f)) {
            look_up(f);
        }
        walk(f, FANOUT_IN_FLIGHT_MAX);
    } else if (!f->is_answered) {
        walk_late(f);
    }
    request_release(r);
}

static void on_cancelled(struct partition_cancel *cancel)
{
    const struct fanout *f = cancel->target->context;
    request_release(f->request);
}

static void on_timeout(struct timer *timer)
{
    struct fanout *f = container_of(timer, struct fanout, timer);
    struct request *r = f->request;
    request_hold(r);
    f->is_late = true;
    list_for_each (n, &f->busy) {
        struct fanout_part *part = container_of(n, struct fanout_part, link);
        part->is_done = true;
        f->kind->on_part(f, part, ERR_TIMED_OUT);
        part->cancel = (struct partition_cancel){.target = &part->op, .on_done = on_cancelled};
        request_hold(r);
        cluster_partition_cancel(r->d->cluster, &part->cancel);
    }
    walk_late(f);
    request_release(r);
}

static bool alloc_parts(struct fanout *f)
{
    const struct fanout_kind *kind = f->kind;
    const size_t max = kind->in_flight_max;
    const size_t count = max == FANOUT_ALL_AT_ONCE || f->parts_count < max ? f->parts_count : max;
    uint8_t *parts = request_alloc(f->request, count + 1, kind->part_size);
    f->answers = request_alloc(f->request, f->parts_count, kind->answer_size);
    if (parts == NULL || f->answers == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct fanout_part *part = (void *)(parts + i * kind->part_size);
        list_push_back(&f->idle, &part->link);
    }
    f->late = (void *)(parts + count * kind->part_size);
    list_init(&f->late->link);
    return true;
}

static bool prepare(struct fanout *f)
{
    if (!f->kind->begin(f)) {
        return false;
    }
    struct fanout_topic t;
    for (size_t i = 0; i < f->topics_count; i++) {
        describe(f, i, &t);
        f->parts_count += t.partitions_count;
    }
    if (!alloc_parts(f)) {
        return false;
    }
    uint8_t *answers = f->answers;
    for (size_t i = 0; i < f->topics_count && f->kind->begin_topic != NULL; i++) {
        describe(f, i, &t);
        if (!f->kind->begin_topic(f, &t, answers)) {
            return false;
        }
        answers += t.partitions_count * f->kind->answer_size;
    }
    return true;
}

void fanout_handle(struct request *r, const struct fanout_kind *kind, int32_t timeout_ms)
{
    struct fanout *f = request_alloc(r, 1, kind->state_size);
    r->state = f;
    if (f == NULL) {
        request_abort(r, "no memory");
        return;
    }
    f->request = r;
    f->kind = kind;
    list_init(&f->idle);
    list_init(&f->busy);
    task_init(&f->walk, "fanout", on_walk);
    timer_init(&f->timer, on_timeout);
    if (!prepare(f)) {
        request_abort(r, "too many partitions");
        return;
    }
    if (timeout_ms != FANOUT_NO_TIMEOUT) {
        const int32_t at_least = FANOUT_TIMEOUT_MS_MIN;
        const uint64_t wait_ms = (uint64_t)(timeout_ms > at_least ? timeout_ms : at_least);
        shard_timer_arm(r->d->s, &f->timer, wait_ms * 1000);
    }
    f->answer_next = f->answers;
    go_to_topic(f, 0);
    walk(f, kind->in_flight_max == FANOUT_ALL_AT_ONCE ? SIZE_MAX : FANOUT_IN_FLIGHT_MAX);
}

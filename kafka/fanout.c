#include "kafka/fanout.h"

#include "core/assert.h"
#include "core/shard.h"
#include "kafka/request.h"

static void on_done(struct partition_op *op)
{
    struct fanout_part *part = container_of(op, struct fanout_part, op);
    struct fanout *f = op->context;
    struct request *r = f->request;
    assert_cmp(f->pending_count, >, 0);
    f->pending_count--;
    if (!part->is_done) {
        part->is_done = true;
        f->on_part(f, part, op->result);
        if (f->pending_count == 0) {
            timer_cancel(&r->d->s->timers, &f->timer);
            f->on_all(f);
        }
    }
    request_release(r);
}

static void on_cancelled(struct partition_cancel *cancel)
{
    const struct fanout *f = cancel->target->context;
    request_release(f->request);
}

static void on_timeout(struct timer *t)
{
    struct fanout *f = container_of(t, struct fanout, timer);
    struct request *r = f->request;
    request_hold(r);
    list_for_each (n, &f->parts) {
        struct fanout_part *part = container_of(n, struct fanout_part, link);
        if (part->is_done) {
            continue;
        }
        part->is_done = true;
        f->on_part(f, part, ERR_TIMED_OUT);
        part->cancel = (struct partition_cancel){.target = &part->op, .on_done = on_cancelled};
        request_hold(r);
        cluster_partition_cancel(r->d->cluster, &part->cancel);
    }
    f->on_all(f);
    request_release(r);
}

void fanout_init(struct fanout *f, struct request *r)
{
    f->request = r;
    f->pending_count = 0;
    list_init(&f->parts);
    timer_init(&f->timer, on_timeout);
}

void fanout_add(struct fanout *f, struct fanout_part *part)
{
    part->op.on_done = on_done;
    part->op.context = f;
    part->is_done = false;
    list_push_back(&f->parts, &part->link);
    f->pending_count++;
}

void fanout_run(struct fanout *f, int32_t timeout_ms)
{
    struct request *r = f->request;
    if (f->pending_count == 0) {
        f->on_all(f);
        return;
    }
    if (timeout_ms != FANOUT_NO_TIMEOUT) {
        const int32_t at_least = FANOUT_TIMEOUT_MS_MIN;
        const uint64_t wait_ms = (uint64_t)(timeout_ms > at_least ? timeout_ms : at_least);
        shard_timer_arm(r->d->s, &f->timer, wait_ms * 1000);
    }
    list_for_each (n, &f->parts) {
        request_hold(r);
        cluster_partition_submit(r->d->cluster, &container_of(n, struct fanout_part, link)->op);
    }
}

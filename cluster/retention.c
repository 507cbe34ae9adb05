#include "cluster/retention.h"

#include <stdlib.h>

#include "cluster/cluster_priv.h"
#include "cluster/memory.h"
#include "cluster/placement.h"
#include "core/assert.h"
#include "core/reached.h"

enum {
    FIRST_CHECK_US_MAX = 30 * 1000 * 1000, /* As Kafka does. */
    PARTITIONS_PER_TURN = 64,
    ROUNDS_MAX = 256, /* Segments that one topic's cap takes in one check. */
};

enum retention_state {
    RETENTION_RESTING,
    RETENTION_CHECKING,
    RETENTION_CAPPING,
    RETENTION_NEXT_ROUND,
    RETENTION_WAIT_TALLY,
    RETENTION_WAIT_DROP,
};

struct retention {
    struct cluster *c;
    enum retention_state state;
    bool is_stopping;
    struct timer timer;
    struct task task;
    uint32_t cursor;    /* In the table of partitions. */
    uint32_t caps_met;  /* Of the buckets at the cursor: topics with a cap, this time ... */
    uint32_t caps_done; /* ... and those that were added up before. */

    /* The topic being added up. */
    struct uuid topic_id;
    uint64_t size_max;
    uint32_t rounds_count;
    bool is_stuck; /* The oldest segment could not go. */
    struct partition_tally tally;
    struct xmsg msg;
    struct xmsg_hop route[SHARDS_MAX + 1];
};

static void rest(struct retention *t)
{
    t->state = RETENTION_RESTING;
    shard_timer_arm(t->c->s, &t->timer, t->c->settings->retention_check_us);
}

static void on_timer(struct timer *timer)
{
    struct retention *t = container_of(timer, struct retention, timer);
    assert_cmp(t->state, ==, RETENTION_RESTING);
    t->state = RETENTION_CHECKING;
    t->cursor = 0;
    shard_post(t->c->s, &t->task);
}

/* ---- every partition on its own ---- */

static void check_partition(void *context, struct partition *p)
{
    (void)context;
    partition_retain(p);
}

/* ---- a topic as a whole ---- */

static void tally_home(struct shard *here, struct xmsg *m);

/* The partitions of a topic on one shard. */
static void visit(struct shard *here, struct xmsg *m)
{
    struct retention *t = container_of(m, struct retention, msg);
    struct cluster *c = t->c->set->clusters[here->id];
    const struct topic *topic =
        c->is_stopping ? NULL : metadata_topic_by_id(c->metadata, &t->topic_id);
    const int32_t count = topic == NULL ? 0 : topic->partitions_count;
    for (int32_t i = 0; i < count; i++) {
        const struct partition_id id = {.topic_id = t->topic_id, .partition = i};
        if (placement_shard(&id, c->set->shards_count) == here->id) {
            const struct partition *p = partition_table_find(&c->partitions, &id);
            if (p != NULL) {
                partition_add_to_tally(p, &t->tally);
            }
        }
    }
    xmsg_forward(here, m);
}

static void drop(struct shard *here, struct xmsg *m)
{
    struct retention *t = container_of(m, struct retention, msg);
    struct cluster *c = t->c->set->clusters[here->id];
    struct partition *p =
        c->is_stopping ? NULL : partition_table_find(&c->partitions, &t->tally.oldest);
    /* It may have been altered since the adding up began. */
    const int64_t size_max = p == NULL ? -1 : partition_topic_size_max(p);
    if (size_max >= 0 && (uint64_t)size_max <= t->size_max) {
        reached(here, "retention_cap_drops_segment");
        t->is_stuck = !partition_drop_oldest(p, &t->tally);
    }
    xmsg_forward(here, m);
}

static void send(struct retention *t, enum retention_state next)
{
    t->state = next;
    t->msg.next_hop = t->route;
    xmsg_send(t->c->s, &t->msg);
}

static void begin_round(struct retention *t)
{
    const uint16_t shards_count = t->c->set->shards_count;
    t->tally = (struct partition_tally){0};
    t->is_stuck = false;
    for (uint16_t i = 0; i < shards_count; i++) {
        t->route[i] = (struct xmsg_hop){.shard = i, .run = visit};
    }
    t->route[shards_count] = (struct xmsg_hop){.shard = t->c->s->id, .run = tally_home};
    send(t, RETENTION_WAIT_TALLY);
}

/* In another turn: where one shard is all there are, a round has been in this one. */
static void go_on(struct retention *t, enum retention_state next)
{
    t->state = next;
    shard_post(t->c->s, &t->task);
}

static void drop_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    struct retention *t = container_of(m, struct retention, msg);
    /* It would be the oldest again: the next check comes. */
    const bool is_again = !t->is_stuck && ++t->rounds_count < ROUNDS_MAX;
    go_on(t, is_again ? RETENTION_NEXT_ROUND : RETENTION_CAPPING);
}

static void tally_home(struct shard *here, struct xmsg *m)
{
    struct retention *t = container_of(m, struct retention, msg);
    const struct partition_tally *tally = &t->tally;
    const bool is_over =
        tally->has_oldest && tally->size - tally->oldest_size >= t->size_max && !t->is_stopping;
    if (!is_over) {
        go_on(t, RETENTION_CAPPING);
        return;
    }
    const uint16_t owner = placement_shard(&tally->oldest, t->c->set->shards_count);
    t->route[0] = (struct xmsg_hop){.shard = owner, .run = drop};
    t->route[1] = (struct xmsg_hop){.shard = here->id, .run = drop_home};
    send(t, RETENTION_WAIT_DROP);
}

/* One at a time: the others of its bucket are met again when it is done. */
static void look_for_cap(void *context, struct partition *p)
{
    struct retention *t = context;
    const int64_t size_max = partition_topic_size_max(p);
    if (partition_id(p)->partition != 0 || size_max < 0) {
        return;
    }
    t->caps_met++;
    if (t->caps_met != t->caps_done + 1) {
        return;
    }
    t->topic_id = partition_id(p)->topic_id;
    t->size_max = (uint64_t)size_max;
    t->rounds_count = 0;
    begin_round(t);
}

/* False at the end of the table. */
static bool look_for_caps(struct retention *t)
{
    bool has_more = true;
    for (uint32_t i = 0; i < PARTITIONS_PER_TURN && has_more; i++) {
        const uint32_t cursor = t->cursor;
        t->caps_met = 0;
        has_more = partition_table_some(&t->c->partitions, &t->cursor, 1, t, look_for_cap);
        if (t->state == RETENTION_WAIT_TALLY) {
            t->caps_done++;
            t->cursor = cursor;
            return true;
        }
        t->caps_done = 0;
    }
    return has_more;
}

/* ---- turns ---- */

static void on_task(struct task *task)
{
    struct retention *t = container_of(task, struct retention, task);
    struct partition_table *pt = &t->c->partitions;
    if (t->is_stopping) {
        t->state = RETENTION_RESTING;
        return;
    }
    bool has_more = false;
    if (t->state == RETENTION_CHECKING) {
        has_more = partition_table_some(pt, &t->cursor, PARTITIONS_PER_TURN, t, check_partition);
        if (!has_more) {
            t->state = RETENTION_CAPPING;
            t->cursor = 0;
            has_more = true;
        }
    } else if (t->state == RETENTION_NEXT_ROUND) {
        begin_round(t);
    } else {
        assert_cmp(t->state, ==, RETENTION_CAPPING);
        has_more = look_for_caps(t);
    }
    if (t->state == RETENTION_WAIT_TALLY) {
        return; /* Its home-coming goes on. */
    }
    if (has_more) {
        shard_post(t->c->s, &t->task);
    } else {
        rest(t);
    }
}

/* ---- life ---- */

struct retention *retention_new(struct cluster *c)
{
    struct retention *t = memory_alloc(sizeof(*t));
    t->c = c;
    t->state = RETENTION_RESTING;
    timer_init(&t->timer, on_timer);
    task_init(&t->task, "retention", on_task);
    const uint64_t interval_us = c->settings->retention_check_us;
    if (interval_us > 0) {
        shard_timer_arm(
            c->s, &t->timer, interval_us < FIRST_CHECK_US_MAX ? interval_us : FIRST_CHECK_US_MAX);
    }
    return t;
}

void retention_stop(struct retention *t)
{
    t->is_stopping = true;
    timer_cancel(&t->c->s->timers, &t->timer);
}

bool retention_is_busy(const struct retention *t)
{
    return t->state == RETENTION_WAIT_TALLY || t->state == RETENTION_WAIT_DROP;
}

void retention_free(struct retention *t)
{
    if (t == NULL) {
        return;
    }
    assert(!retention_is_busy(t));
    timer_cancel(&t->c->s->timers, &t->timer);
    list_remove(&t->task.link);
    free(t);
}

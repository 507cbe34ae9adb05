#include "cluster/partition_follow.h"

#include <stdlib.h>

#include "cluster/cluster_priv.h"
#include "core/assert.h"
#include "core/sm.h"

enum {
    RETRY_US = 10 * 1000,
};

enum follow_state {
    FOLLOW_WAIT_STATE, /* Where the partition stands. */
    FOLLOW_WAIT_READ,
    FOLLOW_HANDING,
    FOLLOW_WAIT_DATA,
    FOLLOW_WAIT_MEMORY,
    FOLLOW_ENDING, /* What is away comes home. */
    FOLLOW_ENDED,
    FOLLOW_STATE_COUNT,
};

#define TO(state) SM_BIT(FOLLOW_##state)

static const struct sm_state follow_states[FOLLOW_STATE_COUNT] = {
    [FOLLOW_WAIT_STATE] = {"WAIT_STATE",
                           TO(WAIT_READ) | TO(WAIT_DATA) | TO(WAIT_MEMORY) | TO(ENDING)},
    [FOLLOW_WAIT_READ] = {"WAIT_READ",
                          TO(HANDING) | TO(WAIT_DATA) | TO(WAIT_MEMORY) | TO(ENDING) |
                              TO(WAIT_READ)},
    [FOLLOW_HANDING] = {"HANDING", TO(WAIT_READ) | TO(WAIT_DATA) | TO(WAIT_MEMORY) | TO(ENDING)},
    [FOLLOW_WAIT_DATA] = {"WAIT_DATA", TO(WAIT_READ) | TO(WAIT_MEMORY) | TO(ENDING)},
    [FOLLOW_WAIT_MEMORY] = {"WAIT_MEMORY", TO(WAIT_READ) | TO(WAIT_MEMORY) | TO(ENDING)},
    [FOLLOW_ENDING] = {"ENDING", TO(ENDED)},
    [FOLLOW_ENDED] = {"ENDED", 0},
};

static void move(struct partition_follow *f, enum follow_state to)
{
    sm_move(follow_states, &f->state, (uint8_t)to);
}

static void drop_memory(struct partition_follow *f)
{
    free(f->bytes);
    f->bytes = NULL;
    f->capacity = 0;
}

/* ---- the end ---- */

static void try_end(struct partition_follow *f)
{
    if (f->state == FOLLOW_ENDING && !f->is_op_away && !f->is_cancel_away) {
        shard_post(f->c->s, &f->task);
    }
}

static void end(struct partition_follow *f, enum err e)
{
    f->end = e;
    drop_memory(f);
    timer_cancel(&f->c->s->timers, &f->timer);
    move(f, FOLLOW_ENDING);
    try_end(f);
}

static void on_cancelled(struct partition_cancel *cancel)
{
    struct partition_follow *f = container_of(cancel, struct partition_follow, cancel);
    f->is_cancel_away = false;
    try_end(f);
}

void partition_follow_stop(struct partition_follow *f)
{
    if (f->is_stopping || f->state == FOLLOW_ENDING) {
        return;
    }
    f->is_stopping = true;
    switch ((enum follow_state)f->state) {
    case FOLLOW_WAIT_MEMORY:
        end(f, ERR_CANCELLED);
        return;
    case FOLLOW_WAIT_STATE: /* The partition may still open: for long. */
    case FOLLOW_WAIT_DATA:
        if (!f->is_op_away) {
            return; /* It is home, and the caller is called by it. */
        }
        f->is_cancel_away = true;
        f->cancel.target = &f->op;
        f->cancel.on_done = on_cancelled;
        cluster_partition_cancel(f->c, &f->cancel);
        return;
    case FOLLOW_WAIT_READ: /* Soon over. */
    case FOLLOW_HANDING:   /* The task, or who is in it, sees it. */
    case FOLLOW_ENDING:
        return;
    case FOLLOW_ENDED:
    case FOLLOW_STATE_COUNT:
        break;
    }
    panic("a follow that is over cannot be stopped");
}

/* ---- reading ---- */

static void submit(struct partition_follow *f, enum partition_op_kind kind);

static void wait_for_memory(struct partition_follow *f)
{
    drop_memory(f);
    move(f, FOLLOW_WAIT_MEMORY);
    timer_arm(&f->c->s->timers, &f->timer, f->c->s->now_us + RETRY_US);
}

static bool reserve(struct partition_follow *f)
{
    const size_t wanted = f->size_needed > FOLLOW_READ_SIZE ? f->size_needed : FOLLOW_READ_SIZE;
    if (f->capacity != wanted) {
        drop_memory(f);
        f->bytes = malloc(wanted);
        f->capacity = f->bytes == NULL ? 0 : wanted;
    }
    return f->bytes != NULL;
}

/* False if the follow has ended. */
static bool tell_if_current(struct partition_follow *f)
{
    if (!f->is_current && f->offset >= f->current_offset) {
        f->is_current = true;
        f->on_current(f);
    }
    return !f->is_stopping;
}

/* From what the last answer said. */
static void go_on(struct partition_follow *f)
{
    if (!tell_if_current(f)) {
        end(f, ERR_CANCELLED);
        return;
    }
    if (f->offset >= f->high_watermark) {
        drop_memory(f);
        f->op.in.wait.high_watermark = f->high_watermark;
        move(f, FOLLOW_WAIT_DATA);
        submit(f, PARTITION_WAIT);
        return;
    }
    if (!reserve(f)) {
        wait_for_memory(f);
        return;
    }
    f->op.in.fetch.offset = f->offset;
    f->op.in.fetch.dst = f->bytes;
    f->op.in.fetch.dst_size = f->capacity;
    f->op.in.fetch.pieces_max = 0;
    f->op.in.fetch.is_read_committed = false;
    move(f, FOLLOW_WAIT_READ);
    submit(f, PARTITION_READ);
}

static void on_state(struct partition_follow *f)
{
    const struct partition_offsets *o = &f->op.offsets;
    if (f->op.result != ERR_OK) {
        end(f, f->op.result);
        return;
    }
    if (o->is_end_unknown) {
        end(f, ERR_CORRUPT); /* What is there is not all that was committed. */
        return;
    }
    if (f->offset == FOLLOW_FROM_START) {
        f->offset = o->log_start_offset;
    }
    f->current_offset = o->high_watermark;
    go_on(f);
}

static void on_read(struct partition_follow *f)
{
    const enum err e = f->op.result;
    if (f->is_stopping) {
        end(f, ERR_CANCELLED);
    } else if (e == ERR_BUSY) {
        wait_for_memory(f);
    } else if (e == ERR_TOO_LARGE) {
        f->size_needed = f->op.out.fetch.size_needed;
        go_on(f);
    } else if (e != ERR_OK) {
        end(f, e);
    } else if (f->op.out.fetch.size == 0) {
        /* All up to there was compacted away. */
        f->offset = f->high_watermark;
        go_on(f);
    } else {
        f->size = f->op.out.fetch.size;
        f->pos = 0;
        f->size_needed = 0;
        move(f, FOLLOW_HANDING);
        shard_post(f->c->s, &f->task);
    }
}

static void on_waited(struct partition_follow *f)
{
    if (f->op.result == ERR_OK && !f->is_stopping) {
        go_on(f);
    } else {
        end(f, f->op.result == ERR_OK ? ERR_CANCELLED : f->op.result);
    }
}

static void on_done(struct partition_op *op)
{
    struct partition_follow *f = container_of(op, struct partition_follow, op);
    f->is_op_away = false;
    f->high_watermark = op->offsets.high_watermark;
    if (f->is_stopping && f->state == FOLLOW_WAIT_STATE) {
        end(f, ERR_CANCELLED);
    } else if (f->state == FOLLOW_WAIT_STATE) {
        on_state(f);
    } else if (f->state == FOLLOW_WAIT_READ) {
        on_read(f);
    } else {
        assert_cmp(f->state, ==, FOLLOW_WAIT_DATA);
        on_waited(f);
    }
}

static void submit(struct partition_follow *f, enum partition_op_kind kind)
{
    f->op.kind = kind;
    f->op.id = f->id;
    f->op.current_leader_epoch = -1;
    f->op.on_done = on_done;
    f->is_op_away = true;
    cluster_partition_submit(f->c, &f->op);
}

/* ---- handing over ---- */

/* The next batch of what was read. The log has checked each of them. */
static enum err hand_over_one(struct partition_follow *f)
{
    const struct slice rest = slice_of(f->bytes + f->pos, f->size - f->pos);
    struct batch_header h;
    enum err e = batch_header_decode(rest, &h);
    if (e != ERR_OK) {
        return ERR_CORRUPT;
    }
    f->pos += batch_size(&h);
    f->offset = h.base_offset + h.last_offset_delta + 1;
    return f->on_batch(f, slice_of(rest.data, batch_size(&h)));
}

static void hand_over(struct partition_follow *f)
{
    const size_t begin = f->pos;
    enum err e = ERR_OK;
    while (e == ERR_OK && !f->is_stopping && f->pos < f->size &&
           f->pos - begin < FOLLOW_TURN_SIZE) {
        e = hand_over_one(f);
    }
    if (e != ERR_OK || f->is_stopping) {
        end(f, e != ERR_OK ? e : ERR_CANCELLED);
    } else if (f->pos < f->size) {
        shard_post(f->c->s, &f->task);
    } else {
        go_on(f);
    }
}

static void run(struct task *t)
{
    struct partition_follow *f = container_of(t, struct partition_follow, task);
    if (f->state == FOLLOW_HANDING) {
        hand_over(f);
    } else {
        move(f, FOLLOW_ENDED);
        f->on_end(f, f->end);
    }
}

static void on_timer(struct timer *t)
{
    struct partition_follow *f = container_of(t, struct partition_follow, timer);
    go_on(f);
}

void partition_follow_begin(struct cluster *c, struct partition_follow *f)
{
    f->c = c;
    f->state = FOLLOW_WAIT_STATE;
    f->is_stopping = false;
    f->is_current = false;
    f->current_offset = INT64_MAX;
    f->is_op_away = false;
    f->is_cancel_away = false;
    f->bytes = NULL;
    f->capacity = 0;
    f->size_needed = 0;
    task_init(&f->task, "follow", run);
    timer_init(&f->timer, on_timer);
    submit(f, PARTITION_OFFSETS);
}

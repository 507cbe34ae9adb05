/* What a request asks coordinators of groups: one call per group (or per shard, to list), a bounded
 * number at a time, and the handler answers when all are home.
 *
 * A request whose connection ends, or that waits when the broker stops, has its calls cancelled and
 * is answered all the same; calls that are not begun yet, and only read, are refused then, unless
 * the client only half-closed, and waits.
 *
 * Shard: the request's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/slice.h"
#include "core/timer.h"
#include "groups/groups.h"

struct request;

struct group_ask {
    struct request *r;
    struct group_call call;
    struct group_cancel cancel;
    bool is_under_way;
};

struct group_asks {
    struct group_ask *asks;
    size_t count;
    size_t next; /* The first that is not begun. */
    size_t under_way_count;
    void *results; /* All the calls' `out`, one after the other, where groups may be many. */
    size_t result_size;
    size_t answers_size; /* Of those that are home: together they are bounded as one is. */
    bool is_cancelled;
    struct timer timer; /* Of a single call. */
    /* Answers the request from results, or from the calls' `out`, which may be NULL
     * (group_asks_are_whole). */
    void (*on_all)(struct request *r);
};

/* Room for count calls of that kind and their results, in r->state's beginning: the handler's state
 * must begin with a struct group_asks. False at the request's memory limit. The handler then fills
 * in group_id and `in` of asks[].call. */
bool group_asks_init(struct request *r, enum group_call_kind kind, size_t count);
/* One call for each of these groups, without an `in`; aborts the request at its memory limit. */
void group_ask_each(struct request *r,
                    enum group_call_kind kind,
                    const struct slice *groups,
                    size_t count,
                    void (*on_all)(struct request *r));
/* on_all comes from the loop, or at once if there is nothing to ask. */
void group_asks_begin(struct request *r, void (*on_all)(struct request *r));
/* False if there was not even memory to refuse what has no answer: what does not fit, or had no
 * memory, and what was not asked for then, is refused. */
bool group_asks_are_whole(const struct group_asks *asks);

/* What to answer when the request's own memory did not hold the answer: too large, or try again. */
enum kafka_error group_asks_error(const struct request *r);

/* The whole request is one call, whose answer is the request's. What only has to become durable is
 * answered COORDINATOR_NOT_AVAILABLE after offsets.commit.timeout.ms, and may still happen. */
void group_ask_single(struct request *r, enum group_call_kind kind, struct slice group_id);

/* What offsets*.c share. */
#pragma once

#include "groups/group.h"
#include "groups/offsets_table.h"

struct topic;

struct offsets {
    struct offset_table table; /* Never empty. */
};

/* NULL = nothing is committed. */
static inline const struct offset_table *offsets_table(const struct group *g)
{
    return g->offsets == NULL ? NULL : &g->offsets->table;
}

/* The topic of that name today; NULL if there is none. */
const struct topic *offsets_topic_now(const struct group *g, struct slice name);
/* Whether e is of that topic, which may be NULL, and not of one that had its name before. */
bool offsets_is_alive(const struct topic *now, const struct offset_entry *e);

/* What is to go of a group: some offsets, and then perhaps itself. */
struct removal {
    struct proposal *proposal;
    struct wbuf key;
    uint32_t count; /* Tombstones so far. */
};
enum {
    /* Offsets that one batch takes away: a turn's work stays below a millisecond, and what is under
     * way far below what a partition takes. */
    REMOVAL_COUNT_MAX = 2000,
};
/* False without memory. */
bool removal_begin(struct removal *r,
                   struct group *g,
                   void (*on_applied)(struct proposal *p, enum err e));
/* False if the batch is full: that offset is not in it. */
bool removal_put(struct removal *r, struct slice topic, int32_t partition);
/* Hands over the proposal, which has to be submitted or freed. */
struct proposal *removal_end(struct removal *r);

/* The inside of the engine: a coordinator and its groups, for the modules that make up a group.
 *
 *   coordinator.c  the table of groups, the gate, proposals, records to modules
 *   offsets*.c     committed offsets: commit, fetch, delete, expiry
 *   classic*.c     members of the classic protocol
 *   consumer*.c    members of the new protocol (KIP-848), and the way from one to the other
 *
 * The gate. Whatever may change a group's members or take away offsets ("exclusive") runs alone: it
 * may propose one batch, and then nothing else of the group runs until that is applied. Offset
 * commits ("shared") run beside each other, but not beside those. Who finds the gate closed waits,
 * in order: calls and timers by when they came and were due, so that a member that spoke in time is
 * not taken for silent. Reading calls do not ask the gate.
 *
 * A group object exists while anything of it does (group_exists): each event gets one, made for it
 * if there was none, and one that is still unused afterwards is dropped.
 *
 * Shard: the coordinator's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "core/timer.h"
#include "groups/coordinator.h"
#include "groups/expiry.h"
#include "groups/memory.h"
#include "groups/name_table.h"
#include "groups/proposal.h"

struct classic;
struct consumer;
struct offsets;

struct coordinator {
    const struct coordinator_env *env;
    int32_t partition;
    bool is_active;
    bool is_broken;
    struct group_time time; /* Of the event that runs. */
    int64_t record_ms;      /* Timestamp of the record that is applied. */
    struct timers timers;
    struct expiry expiry;
    struct name_table groups; /* struct group, by_id */
    /* The next bucket whose groups are told of the metadata; groups.buckets_count: all were. */
    uint32_t metadata_bucket;
    bool is_metadata_newer;    /* It changed again meanwhile. */
    uint64_t metadata_changes; /* How often it did. */
    struct list proposals;     /* In flight, in order. */
};

/* A deadline of a group. on_due runs alone (the gate is open), and may propose. */
struct group_timer {
    struct timer timer;
    struct group *g;
    struct list due_link; /* group.due, or before that a lane of the shard's struct matching. */
    void (*on_due)(struct group_timer *t);
};

/* Of offsets.c: offsets that expired, or whose topic is gone, go when this is due. Volatile. */
struct group_cleaning {
    struct group_timer timer;
    uint32_t expired_count; /* Since the last line in the log. */
    uint32_t orphans_count;
    bool has_more;       /* Of the batch under way: another has to follow. */
    bool is_whole_group; /* Of it: takes the group, too. */
};

struct group {
    struct coordinator *c;
    struct name_link by_id; /* coordinator.groups */

    /* The gate. */
    struct list waiting;    /* struct group_call, by link. */
    struct list due;        /* struct group_timer, by due_link. */
    uint32_t commits_count; /* Shared proposals in flight. */
    bool is_changing;       /* An exclusive proposal is in flight. */
    bool is_running;        /* Its turn is further up the stack. */

    struct offsets *offsets;   /* NULL = none committed. */
    struct classic *classic;   /* NULL = no classic members, and no generation remembered. */
    struct consumer *consumer; /* NULL = not a group of the new protocol. Never beside classic. */

    struct group_cleaning cleaning;

    uint32_t id_size;
    char id[]; /* NUL-terminated for log lines. */
};

static inline struct slice group_id(const struct group *g)
{
    return slice_of(g->id, g->id_size);
}

/* Of a bucket of coordinator.groups. */
static inline struct group *group_at(struct list *link)
{
    return container_of(name_link_at(link), struct group, by_id);
}

/* Epochs and generations go round: behind the greatest comes 1, and never what is below zero, where
 * numbers mean other things. (Kafka's overflow.) */
static inline int32_t group_next_epoch(int32_t epoch)
{
    return epoch < 0 || epoch == INT32_MAX ? 1 : epoch + 1;
}

/* a comes behind b, half of the way round apart at most. */
static inline bool group_epoch_is_later(int32_t a, int32_t b)
{
    const int64_t way = ((int64_t)a - b) % INT32_MAX;
    const int64_t ahead = way < 0 ? way + INT32_MAX : way;
    return ahead > 0 && ahead <= INT32_MAX / 2;
}

/* NULL if there is none. */
struct group *group_find(const struct coordinator *c, struct slice id);
/* Finds or makes it. NULL without memory, or for an id longer than INT16_MAX. */
struct group *group_get(struct coordinator *c, struct slice id);
/* It has members, a generation, or offsets: clients may see it. */
bool group_exists(const struct group *g);
/* Drops g if nothing of it is left. Modules call it after they applied a record that took something
 * away outside of an event of the group. */
void group_drop_unused(struct group *g);

void group_timer_init(struct group_timer *t,
                      struct group *g,
                      void (*on_due)(struct group_timer *t));
void group_timer_arm(struct group_timer *t, uint64_t deadline_us);
/* Also if it is due and waits for the gate. */
void group_timer_cancel(struct group_timer *t);

/* Ends a call with the answer in call->out. */
void group_answer(struct coordinator *c, struct group_call *call);
/* Ends it with an error: group_call_refuse. text may be NULL. */
void group_refuse(struct coordinator *c,
                  struct group_call *call,
                  enum kafka_error e,
                  const char *text);

/* A module keeps a call that waits for others. on_cancel answers it, as does whoever ends the wait;
 * both take it off the module's list first. */
void group_keep(struct group_call *call, void (*on_cancel)(struct group_call *call));
/* A kept call is judged anew, behind those that wait at the gate, and must be answered then:
 * was_kept. */
void group_requeue(struct group *g, struct group_call *call);

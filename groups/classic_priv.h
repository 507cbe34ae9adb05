/* The inside of the classic protocol, for its files:
 *
 *   classic.c           life, and what the other modules ask
 *   classic_member.c    members, ids that were given out, what they speak
 *   classic_phases.c    the states: how a rebalance goes
 *   classic_join.c      JoinGroup
 *   classic_sync.c      SyncGroup, Heartbeat, LeaveGroup, whether a member may commit
 *   classic_records.c   what is durable
 *   classic_describe.c  DescribeGroups
 *   classic_topics.c    what members subscribe to
 *
 * Two halves. `durable` is the last record that was applied, as it came: the same on every replica.
 * All else is live: only the active coordinator has it, made from the record when it becomes
 * active. A member's assignment is only in the record; so is its metadata for the protocol that was
 * chosen, but live members have that of all protocols they speak.
 *
 * Shard: the coordinator's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/list.h"
#include "core/reached.h"
#include "groups/classic.h"
#include "groups/group.h"
#include "groups/name_table.h"
#include "kafka/proto/group_metadata_record.h"
#include "kafka/proto/join_group.h"

enum {
    CLASSIC_NEW_MEMBER_MS = 5 * 60 * 1000, /* How long a new member is kept in its first join. */
    CLASSIC_RETRY_MS = 1000,               /* After a record that could not be written. */
    CLASSIC_PROTOCOLS_MAX = 100,           /* Of a member: each is compared with all others'. */
    /* Of all members of a group, for all protocols: its leader gets it in one answer. */
    CLASSIC_METADATA_SIZE_MAX = 32 << 20,
};

enum classic_state {
    CLASSIC_EMPTY,
    CLASSIC_PREPARING,  /* Waits for members to join. */
    CLASSIC_COMPLETING, /* Waits for the leader's assignment. */
    CLASSIC_STABLE,
};

struct classic_record {
    struct group_metadata_value value; /* Points into bytes, and into the arena. */
    struct group_metadata_value_member **by_id;
    struct arena arena;
    size_t charged; /* Of the shard's memory for groups. */
    size_t bytes_size;
    uint8_t bytes[];
};

/* What a member speaks, in its order. One allocation. */
struct classic_protocols {
    size_t charged;
    size_t said_size; /* Of all names and metadata. */
    size_t count;
    struct join_group_request_protocol items[];
};

/* Who a member is. One allocation. */
struct classic_identity {
    size_t charged;
    struct slice member_id;
    struct slice instance_id; /* Null = a dynamic member. */
    struct slice client_id;
    struct slice client_host;
};

struct classic_member {
    struct list link;             /* Of classic.members, in the order they came. */
    struct name_link by_id;       /* classic.by_id */
    struct name_link by_instance; /* classic.by_instance, if it is static. */
    struct classic *classic;
    struct classic_identity *identity;
    struct classic_protocols *protocols;
    int32_t session_timeout_ms;
    int32_t rebalance_timeout_ms;
    struct group_timer session;
    /* What it waits for. The call may be gone while it still waits: as if the answer were lost. */
    bool is_joining;
    bool is_syncing;
    struct group_call *join;
    struct group_call *sync;
    bool is_new;      /* No join of it was answered yet. */
    bool is_sync_due; /* It got this generation, and has not yet asked for its assignment. */
};

/* A member id that was given out with MEMBER_ID_REQUIRED. */
struct classic_pending {
    struct name_link by_id; /* classic.pending */
    struct classic *classic;
    struct group_timer timer;
    struct slice id;
};

/* What a record in flight is for: at most one per group. */
struct classic_write {
    void (*on_done)(struct classic *c, enum err e);
    struct group_call *call; /* To be answered then, or NULL. */
    struct classic_member *replaced;
    struct classic_identity *identity; /* Who takes its place, and */
    struct classic_protocols *protocols;
};

struct classic {
    struct group *g;
    struct classic_record *durable; /* NULL = nothing is, or was taken away. */

    bool is_live;
    enum classic_state state;
    int32_t generation;
    struct slice protocol_type; /* Owned; null = none yet. */
    struct slice protocol;      /* Owned; what was chosen; null = nothing. */
    struct list members;        /* struct classic_member */
    struct name_table by_id;
    struct name_table by_instance;
    uint32_t members_count;
    uint32_t joining_count;
    struct classic_member *leader; /* NULL without members. */
    struct name_table pending;     /* struct classic_pending */
    /* PREPARING: the end of the phase. Later: who has not asked for its assignment goes. */
    struct group_timer timer;
    bool is_initial;            /* PREPARING began with an empty group: more may come. */
    bool is_member_added;       /* One came in this part of the initial delay, */
    int32_t initial_left_ms;    /* which may be prolonged by so much. */
    struct group_call *leaving; /* A LEAVE under way: if it empties the group it waits for that. */
    struct classic_write write;
};

static inline struct coordinator *classic_coordinator(const struct classic *c)
{
    return c->g->c;
}

static inline struct classic_member *classic_member_at(struct list *link)
{
    return container_of(link, struct classic_member, link);
}

/* ---- classic.c ---- */

/* The group's, made if there is none. NULL without memory. */
struct classic *classic_get(struct group *g);
/* Frees it if there is nothing in it. */
void classic_drop_unused(struct classic *c);
/* Makes live what is durable. */
void classic_go_live(struct classic *c);
/* Takes the live half away; who waits gets e. */
void classic_forget_live(struct classic *c, enum kafka_error e);
/* Sets *to to a copy of text. False without memory. */
bool classic_text_set(struct classic *c, struct slice *to, struct slice text);

/* ---- classic_member.c ---- */

/* The member goes by another id from now on: takes identity over. What it had before is returned,
 * and to be freed. */
struct classic_identity *classic_member_rename(struct classic_member *m,
                                               struct classic_identity *identity);
/* NULL without memory. */
struct classic_identity *classic_identity_new(struct classic *c, const struct classic_identity *of);
void classic_identity_free(struct classic *c, struct classic_identity *i);
size_t classic_said_size(const struct join_group_request_protocol *items, size_t count);
struct classic_protocols *classic_protocols_new(struct classic *c,
                                                const struct join_group_request_protocol *items,
                                                size_t count);
void classic_protocols_free(struct classic *c, struct classic_protocols *p);
/* The metadata for that protocol; null if it is not spoken. */
struct slice classic_protocols_metadata(const struct classic_protocols *p, struct slice name);
/* The same in the same order. */
bool classic_protocols_match(const struct classic_protocols *p,
                             const struct join_group_request *in);

struct classic_member *classic_member_find(const struct classic *c, struct slice member_id);
struct classic_member *classic_member_find_instance(const struct classic *c, struct slice instance);
/* Takes both over, also when it fails: NULL without memory. */
struct classic_member *classic_member_add(struct classic *c,
                                          struct classic_identity *identity,
                                          struct classic_protocols *protocols);
/* What it waits for gets e. */
void classic_member_remove(struct classic_member *m, enum kafka_error e);
/* What Heartbeat, SyncGroup, commits and leaves check alike. */
enum kafka_error classic_member_check(const struct classic *c,
                                      struct slice member_id,
                                      struct slice instance_id,
                                      struct classic_member **ret_member);
/* It was heard of: its session begins anew. */
void classic_member_touch(struct classic_member *m);
/* What it waits for gets e. */
void classic_member_refuse(struct classic_member *m, enum kafka_error e);
void classic_member_keep_join(struct classic_member *m, struct group_call *call);
void classic_member_keep_sync(struct classic_member *m, struct group_call *call);
/* It does not wait any more; the call, or NULL if that is gone. */
struct group_call *classic_member_take_join(struct classic_member *m);
struct group_call *classic_member_take_sync(struct classic_member *m);

struct classic_pending *classic_pending_find(const struct classic *c, struct slice member_id);
/* False without memory. */
bool classic_pending_add(struct classic *c, struct slice member_id, int32_t session_timeout_ms);
void classic_pending_remove(struct classic_pending *p);
void classic_pending_clear(struct classic *c);

/* ---- classic_phases.c ---- */

/* Whether the group may be joined with these: of its type, and one that all members speak. */
bool classic_fits(const struct classic *c, const struct join_group_request *in);
/* What most members prefer of that which all speak. Null without members. */
struct slice classic_select_protocol(const struct classic *c);
/* A rebalance begins, and ends at once if all are there. */
void classic_prepare(struct classic *c);
/* A member came, changed or went: a rebalance begins, or the one under way may go on. */
void classic_on_changed(struct classic *c);
void classic_on_timer(struct group_timer *t);
/* If nobody has to ask for its assignment any more. */
void classic_stop_waiting_for_syncs(struct classic *c);

/* ---- classic_join.c ---- */

/* How the answer of a join differs from member to member. */
struct classic_joined {
    const struct classic_member *member;
    struct slice leader;
    bool has_members; /* For the leader. */
    bool is_skipping; /* It gives no assignment. */
};
/* With the current generation. */
void classic_answer_join(struct classic *c,
                         struct group_call *call,
                         const struct classic_joined *joined);

/* ---- classic_sync.c ---- */

/* All that wait for an assignment get e. */
void classic_refuse_syncs(struct classic *c, enum kafka_error e);

/* ---- classic_records.c ---- */

/* A record in the making. */
struct classic_draft {
    struct arena arena;
    struct group_metadata_value value;
};
/* Of the group's generation, with room for so many members. False without memory. */
bool classic_draft_init(struct classic_draft *d, const struct classic *c, size_t members_count);
void classic_draft_done(struct classic_draft *d);
/* Proposes it, then write.on_done; on_done comes at once if that is not possible. Ends d. */
void classic_write_draft(struct classic *c,
                         struct classic_draft *d,
                         const struct classic_write *write);
/* Puts it into a batch that takes a group from the other protocol to this one. */
void classic_put_record(const struct group *g,
                        struct proposal *p,
                        const struct group_metadata_value *value);
/* Proposes that the group is empty in its next generation. */
void classic_write_empty(struct classic *c, const struct classic_write *write);

void classic_record_free(struct classic *c);
/* The members of v by their ids; the array is the arena's, NULL at its limit. */
struct group_metadata_value_member **classic_sort_by_id(const struct group_metadata_value *v,
                                                        struct arena *a);
/* NULL if none of them is that. */
struct group_metadata_value_member *classic_find_by_id(
    struct group_metadata_value_member *const *by_id, size_t count, struct slice member_id);
/* What is durable of a member; NULL if nothing is. */
struct group_metadata_value_member *classic_record_member(const struct classic *c,
                                                          struct slice member_id);

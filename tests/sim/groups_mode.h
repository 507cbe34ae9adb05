/* Mode groups: the coordinators of groups/, as they are, on three brokers over a simulated log that
 * is replicated. Members of both protocols, committers and admins speak to whoever leads, over a
 * net that delays, repeats and loses; and a model that was written from the protocol, not from the
 * engine, judges what they are told.
 *
 *   groups_log.c      brokers, the log: appends, leader changes, restarts from it, also compacted
 *   groups_calls.c    requests and answers on their way
 *   groups_topics.c   topics that come, grow, go and come again; configurations; sets of partitions
 *   groups_member.c   a member of KIP-848         groups_owners.c       judges: who owns what
 *   groups_classic.c  a member of the old kind    groups_generations.c  judges: generations
 *   groups_admin.c    commits, fetches, deletes   groups_offsets.c      judges: committed offsets
 *                                                 groups_both.c         judges: going over
 *
 * The judges hear of a call when it reaches the coordinator and when that answers, in the order of
 * the coordinator; what becomes of the answer on its way is the client's matter.
 */
#pragma once

#include "cluster/metadata_edit.h"
#include "cluster/settings.h"
#include "core/arena.h"
#include "core/logger.h"
#include "groups/coordinator.h"
#include "groups/matching.h"
#include "groups/memory.h"
#include "groups/proposal.h"
#include "groups/settings.h"

#include "tests/sim/sim.h"

struct consumer_group_heartbeat_request;
struct consumer_group_heartbeat_response_assignment;
struct join_group_response;
struct sync_group_request;

enum {
    GROUPS_NODES = 3,
    GROUPS_COUNT_MAX = 4,
    GROUPS_TOPICS = 4,
    GROUPS_LIVES_MAX = 64, /* Of all topics: a topic that comes again begins another life. */
    GROUPS_PARTITIONS_MAX = 8,
    GROUPS_ACTORS_MAX = 16,
    GROUPS_PROPOSALS_MAX = 256,
    GROUPS_VALUES_MAX = 64,
    GROUPS_GENERATIONS_MAX = 8,
    GROUPS_NAME_SIZE = 64,
    GROUPS_REBALANCE_MS_MIN = 20000, /* Of members. */
};

enum groups_kind {
    GROUPS_OF_CONSUMERS, /* KIP-848 */
    GROUPS_OF_CLASSICS,
    GROUPS_OF_BOTH, /* It changes from one to the other. */
    GROUPS_WITHOUT_MEMBERS,
};

/* Partitions by life of topic. */
struct groups_parts {
    uint8_t of[GROUPS_LIVES_MAX];
};

struct groups_node {
    struct groups_run *run;
    struct coordinator_env env;
    struct group_memory memory;
    struct group_counters counters;
    struct matching matching;
    struct rand rand;
    struct coordinator *c;
    size_t applied; /* Of the log. */
    uint64_t apply_at_us;
};

struct groups_entry {
    struct slice batch;
    uint64_t digest; /* Of who applied all up to it. */
    bool is_digest_known;
};

struct groups_append {
    struct proposal *p;
    uint64_t due_us;
};

/* One life of a topic. */
struct groups_life {
    uint32_t topic;
    int32_t partitions_count;
    bool is_alive;
};

/* Who a coordinator knows by one member id: what the model knows. */
struct groups_owner {
    uint32_t group;
    struct slice id;
    struct slice instance; /* Null = none. */
    bool is_classic;
    bool is_in;          /* An answer said so, and nothing yet that ended it. */
    bool is_away;        /* Left for a while (-2). */
    bool is_tainted;     /* A late copy of one of its requests was served. */
    bool is_unsure;      /* It does not know what became of a request. */
    bool may_have_moved; /* To an epoch that it was not told, nor perhaps anybody. */
    bool may_have_left;
    bool is_slow;         /* To give something up: it does so late, or its process is gone. */
    bool is_content;      /* It was told what it has: there is nothing that it should answer. */
    bool may_be_fenced;   /* By a leader that is gone, who could not say so. */
    bool was_given_away;  /* Its partitions are others'. */
    bool is_led;          /* Classic: one of them leads, and it has what that one planned. */
    uint64_t contact_us;  /* From here on its session counts at the earliest. */
    uint64_t revoke_us;   /* It was told to give something up; 0 = it has none to give. */
    uint64_t calm_us;     /* Classic: last answered without any error. */
    uint64_t replaced_us; /* Its instance came under another id, in that term. */
    uint32_t replaced_term;
    uint64_t order; /* Of the last of its requests that came there. */
    int32_t session_ms;
    int32_t rebalance_ms;
    int32_t epoch;            /* The highest it was told: epoch or generation. */
    int32_t previous_epoch;   /* Told before that. */
    int32_t synced;           /* Classic: the generation that is durable with it. */
    uint32_t term;            /* Of the leader who told it last. */
    struct groups_parts told; /* Its assignment as last told. */
    struct groups_parts held; /* Told, and not given back. */
    uint32_t topics;          /* Ever subscribed, a bit each. */
    uint32_t subscribed;      /* Now, by what was served last. */
};

/* Which owner was told a partition last, and in what epoch. */
struct groups_deed {
    struct groups_owner *owner;
    int32_t epoch;
};

struct groups_values {
    uint32_t
        could[GROUPS_VALUES_MAX]; /* Numbers of commits that may be what is stored; 0 = none. */
    uint32_t could_count;
    uint32_t flying[GROUPS_VALUES_MAX]; /* At the coordinator, not answered. */
    uint32_t flying_count;
    uint64_t young_us;       /* Of the last commit. */
    uint64_t unprotected_us; /* A member was last not there to keep it from expiring. */
};

struct groups_plan {
    struct groups_plan *next;
    const struct sync_group_request *in;
};

struct groups_generation {
    int32_t id;
    uint32_t term;
    bool is_synced;      /* Somebody was told: it is durable. */
    bool may_be_durable; /* Nobody was, because its coordinator went. */
    struct slice leader;
    struct slice protocol;
    struct groups_plan *plans; /* What its leader sent, also again and again. */
};

struct groups_group {
    enum groups_kind kind;
    char name[16];
    int32_t session_ms;
    int32_t heartbeat_ms;
    int32_t assignment_ms;
    int32_t epoch_max;        /* Told to any member. */
    int32_t synced_max;       /* Of generations, or epochs in a group of both, that are durable. */
    bool is_cooperative;      /* Of both: its classic members keep what they have in a rebalance. */
    bool may_be_modern;       /* Of both: it was of KIP-848 when last heard of, or perhaps since. */
    uint32_t classic_percent; /* Of both: of the processes that start. */
    struct groups_deed deeds[GROUPS_LIVES_MAX][GROUPS_PARTITIONS_MAX];
    struct groups_values values[GROUPS_LIVES_MAX][GROUPS_PARTITIONS_MAX];
    struct groups_generation generations[GROUPS_GENERATIONS_MAX];
    uint32_t generations_next;
};

enum groups_call_state {
    GROUPS_CALL_GOES,
    GROUPS_CALL_IS_THERE,
    GROUPS_CALL_RETURNS,
    GROUPS_CALL_IS_OVER,
};

struct groups_actor;

struct groups_call {
    struct group_call call;
    struct list link;
    struct groups_run *run;
    enum groups_call_state state;
    uint32_t group;
    uint64_t due_us;
    uint64_t there_us;
    uint64_t order; /* Of all that were sent. */
    uint32_t term;  /* Of the leader it came to. */
    bool is_copy;
    bool is_late;               /* Its member had said something since. */
    bool is_lost;               /* The answer will be. */
    struct groups_actor *actor; /* Who waits; NULL = nobody any more. */
    struct groups_owner *owner; /* Whose it is, for the model. */
    uint32_t number; /* Of a commit: its first value; of a heartbeat: it lists what it owns. */
    int32_t lives[GROUPS_TOPICS]; /* Of the request's topics when it came there; -1 = none. */
    int32_t floor;                /* The generation that was durable then. */
    struct groups_parts foreign;  /* Of a commit: what others held then, and its member did not. */
};

/* A process that is, or was, a member. */
struct groups_actor {
    struct groups_run *run;
    uint32_t group;
    bool is_classic;
    bool is_alive;
    char instance[16]; /* "" = dynamic */
    uint64_t next_us;  /* Of its next act. */
    uint64_t gives_up_us;
    uint64_t kept_us; /* How long the last answer took. */
    uint64_t sent_us;
    struct groups_call *call;   /* It waits for it. */
    struct groups_owner *owner; /* NULL = it has no id yet. */
    int32_t epoch;              /* Or generation; 0 = it is not in. */
    uint32_t topics;
    bool is_by_regex;
    const char *assignor;
    int32_t rebalance_ms;
    int32_t session_ms;
    int32_t interval_ms;
    bool must_report;    /* What it owns changed. */
    bool must_subscribe; /* What it wants did. */
    bool must_say_all;   /* Nobody knows what was heard. */
    bool was_told;
    struct groups_parts told;
    struct groups_parts owned;
    uint64_t revoked_us; /* When it will have given up what it must; 0 = nothing. */
    /* Classic. */
    enum { GROUPS_JOINS, GROUPS_SYNCS, GROUPS_BEATS } step;
    bool is_leader;
    struct groups_parts given; /* By the last SyncGroup. */
    int16_t version;
    const struct join_group_response *joined; /* The leader's: who is in. */
    struct slice protocol;
    uint32_t commits_refused;
};

/* What this run is like. */
struct groups_swarm {
    uint32_t actors_count;
    uint32_t groups_count;
    uint32_t lose_percent; /* Of requests and answers each. */
    uint32_t copy_percent;
    uint64_t net_us_max;
    uint64_t append_us_max;
    uint32_t fail_percent;    /* Of appends. */
    uint32_t handover_one_in; /* Of turns, as those below; 0 = never. */
    uint32_t restart_one_in;
    uint32_t topic_one_in;
    uint32_t config_one_in;
    uint32_t jump_one_in;
    uint32_t crash_one_in; /* Of acts of a member. */
    uint32_t leave_percent;
    uint32_t cancel_percent;
    uint32_t slow_revoke_percent;
    bool is_limiting; /* group.max.size may be less than there are: some are thrown out. */
    uint64_t turns;
};

struct groups_run {
    struct sim *sim;
    struct groups_swarm swarm;
    struct cluster_settings cluster;
    struct groups_settings settings;
    struct metadata *metadata;
    struct logger log;
    struct arena arena; /* What lives as long as the run. */
    int64_t wall_jump_ms;
    bool is_quiet;     /* No faults any more, */
    uint64_t quiet_us; /* from then on. */

    struct groups_node nodes[GROUPS_NODES];
    struct groups_node *leader; /* NULL = nobody. */
    uint64_t elect_at_us;
    uint64_t activated_us;
    uint32_t term;
    bool is_crashing; /* Answers do not leave. */
    struct groups_entry *entries;
    size_t entries_count;
    size_t entries_capacity;
    struct groups_append appends[GROUPS_PROPOSALS_MAX];
    size_t appends_count;

    struct groups_life lives[GROUPS_LIVES_MAX];
    uint32_t lives_count;
    struct groups_group groups[GROUPS_COUNT_MAX];
    struct groups_actor actors[GROUPS_ACTORS_MAX];
    struct groups_owner *owners[1024];
    uint32_t owners_count;
    struct list calls;
    uint64_t admin_at_us;
    uint32_t commits_count;
    uint64_t calls_count;
};

static inline struct group_time groups_now(const struct groups_run *run)
{
    const uint64_t now_us = run->sim->clock.now_us;
    return (struct group_time){
        now_us, INT64_C(1700000000000) + (int64_t)(now_us / 1000) + run->wall_jump_ms};
}

void *groups_alloc(struct groups_run *run, size_t count, size_t size);
struct slice groups_copy(struct groups_run *run, struct slice text);

/* ---- groups_log.c ---- */

void groups_log_start(struct groups_run *run);
uint64_t groups_log_deadline_us(const struct groups_run *run);
/* Whatever is due: appends, followers, the leader's timers, an election. */
void groups_log_turn(struct groups_run *run);
/* The leader is gone; some of what it proposed survives. is_crash: nobody hears of it. */
void groups_log_depose(struct groups_run *run, bool is_crash);
/* A broker that does not lead starts again from the log. */
void groups_log_restart(struct groups_run *run);
void groups_log_metadata(struct groups_run *run);
/* Everybody applies everything, all have one digest, and everything is given back. */
void groups_log_finish(struct groups_run *run);

/* ---- groups_calls.c ---- */

struct groups_call *groups_call_new(struct groups_run *run,
                                    enum group_call_kind kind,
                                    int16_t version,
                                    uint32_t group,
                                    const void *in);
void groups_call_send(struct groups_call *call, struct groups_actor *actor);
/* Its actor waits no longer. */
void groups_call_abandon(struct groups_call *call);
/* Those that are still on their way. */
void groups_calls_drop_copies(struct groups_run *run);
uint64_t groups_calls_deadline_us(const struct groups_run *run);
void groups_calls_turn(struct groups_run *run);
void groups_call_answered(struct group_call *call); /* From the engine. */
int16_t groups_call_error(const struct groups_call *call);
/* The answer says nothing about what became of the request. */
bool groups_is_unsure(int16_t error);

/* ---- groups_topics.c ---- */

void groups_topics_start(struct groups_run *run);
void groups_topics_act(struct groups_run *run);
/* Each topic gets a partition more. */
void groups_topics_grow(struct groups_run *run);
void groups_config_act(struct groups_run *run);
const char *groups_topic_name(uint32_t topic);
/* -1 = there is none of that name. */
int32_t groups_life_now(const struct groups_run *run, uint32_t topic);
int32_t groups_life_of(const struct groups_run *run, const struct uuid *id);
struct uuid groups_life_id(uint32_t life);
struct groups_parts groups_parts_said(const struct groups_run *run,
                                      const struct consumer_group_heartbeat_request *in);
struct groups_parts groups_parts_told(const struct groups_run *run,
                                      const struct consumer_group_heartbeat_response_assignment *a);
/* What classic members tell each other. Names are those of the topics that are there now. */
struct groups_subscription {
    uint32_t topics; /* A bit each. */
    struct groups_parts owned;
};
struct groups_subscription groups_subscription_of(struct groups_run *run, struct slice metadata);
struct groups_parts groups_parts_given(struct groups_run *run, struct slice assignment);
bool groups_parts_is_empty(const struct groups_parts *p);
bool groups_parts_has(const struct groups_parts *p, uint32_t life, uint32_t partition);
/* a and not b. */
struct groups_parts groups_parts_minus(const struct groups_parts *a, const struct groups_parts *b);
struct groups_parts groups_parts_both(const struct groups_parts *a, const struct groups_parts *b);
struct groups_parts groups_parts_or(const struct groups_parts *a, const struct groups_parts *b);
/* All partitions of the topics that exist. */
struct groups_parts groups_parts_of_topics(const struct groups_run *run, uint32_t topics);

/* ---- members ---- */

void groups_actor_start(struct groups_run *run, struct groups_actor *a, uint32_t group);
uint64_t groups_actor_deadline_us(const struct groups_actor *a);
void groups_actor_turn(struct groups_actor *a);
/* Its call came back: answer NULL = it did not. */
void groups_actor_hear(struct groups_actor *a, struct groups_call *call);
void groups_actor_commit(struct groups_actor *a);
/* Whether it is to end its process now, in order. */
bool groups_actor_leaves(const struct groups_actor *a);
/* The process is no more. The next one may speak the other protocol, if its group goes over. */
void groups_actor_end(struct groups_actor *a);
void groups_member_act(struct groups_actor *a);
void groups_member_hear(struct groups_actor *a, struct groups_call *call);
void groups_classic_act(struct groups_actor *a);
void groups_classic_hear(struct groups_actor *a, struct groups_call *call);
void groups_classic_forget(struct groups_actor *a);
/* In JoinGroup below v9 a static member that takes the place of a leader does not hear that it
 * leads, and nobody looks after the topics then. So they come again, and speak v9. */
void groups_classics_leave_old_versions(struct groups_run *run);
void groups_admin_act(struct groups_run *run);
/* Why a group is not where members that were left in peace bring it; NULL = it is. */
const char *groups_unrest(const struct groups_run *run, uint32_t group);
/* Reads every offset. */
void groups_fetch_all(struct groups_run *run);

/* ---- the judges ---- */

struct groups_owner *groups_owner_new(struct groups_run *run, uint32_t group, struct slice id);
struct groups_owner *groups_owner_find(struct groups_run *run, uint32_t group, struct slice id);
/* Its session, or the time it has to give something up, may be over. */
bool groups_owner_may_be_gone(const struct groups_run *run, const struct groups_owner *o);
void groups_owner_left(struct groups_owner *o);
/* A leader comes: what the one before it may have done to members is not known. */
void groups_owners_activate(struct groups_run *run);
void groups_owners_there(struct groups_call *call);
void groups_owners_judge(struct groups_call *call);
void groups_owners_reset(struct groups_run *run, uint32_t group);
/* It may use these from now on, in the epoch it has. is_planned: so says a leader of the classic
 * protocol, whose generation fences those who had them before, whether they know it or not. */
void groups_owner_tell(struct groups_run *run,
                       struct groups_owner *o,
                       const struct groups_parts *told,
                       bool is_planned);
/* o has the place of all others of its instance. */
void groups_owner_take_place(struct groups_run *run, struct groups_owner *o);
bool groups_group_may_be_empty(const struct groups_run *run,
                               uint32_t group,
                               const struct groups_owner *but);
void groups_generations_there(struct groups_call *call);
void groups_generations_judge(struct groups_call *call);
void groups_both_there(struct groups_call *call);
/* A member of KIP-848 joined, or may have. */
void groups_both_is_modern(struct groups_run *run, uint32_t group);
void groups_both_judge(struct groups_call *call);
void groups_offsets_there(struct groups_call *call);
void groups_offsets_judge(struct groups_call *call);
void groups_offsets_stepped(struct groups_run *run);

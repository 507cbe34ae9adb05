/* The inside of the new consumer protocol:
 *
 *   consumer.c            the group object: members by id, states, what other modules ask
 *   consumer_member.c     one member: what it says of itself, its sets, its deadlines
 *   consumer_topics.c     the topics that members subscribe to, and their hash
 *   consumer_records.c    records: applying and putting
 *   consumer_reconcile.c  the member's way to its target
 *   consumer_target.c     when a target assignment is computed, and what of it is written
 *   consumer_draft.c      the assignor's input and output
 *   consumer_heartbeat.c  ConsumerGroupHeartbeat: what is checked, the answer
 *   consumer_steps.c      the batches of one
 *   consumer_hold.c       heartbeats that wait for news
 *   consumer_leave.c      members that leave or are fenced
 *   consumer_regex.c      patterns of the group, and the topics they match
 *   consumer_resolve.c    finding those
 *   consumer_describe.c   ConsumerGroupDescribe
 *   consumer_migrate.c    a group from the classic protocol to this one, and back
 *   consumer_classic.c    JoinGroup and so on from members of the classic protocol
 *   consumer_embedded.c   what those say and hear within such requests
 *
 * Everything in a struct consumer but what is marked volatile is a function of the records.
 *
 * Shard: the coordinator's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "groups/assignor.h"
#include "groups/consumer.h"
#include "groups/group.h"
#include "groups/name_table.h"
#include "groups/partition_owners.h"
#include "groups/partition_set.h"
#include "groups/settings.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/consumer_group_member_metadata_record.h"
#include "kafka/proto/consumer_group_regular_expression_record.h"

enum {
    MEMBER_EPOCH_LEAVES = -1,
    MEMBER_EPOCH_AWAY = -2, /* A static member that will be back. */
    CONSUMER_SCRATCH_SIZE_MAX = 256 << 20,
    /* What is said in one request is sorted in one turn of the loop, and a group's topics are gone
     * through whenever any topic changes. */
    CONSUMER_NAMES_MAX = 50000,    /* Topics that a group names. */
    CONSUMER_OWNED_FREELY = 10000, /* Partitions that one may name though there are less. */
};

/* As in the records (Kafka's MemberState). */
enum member_state {
    MEMBER_STABLE = 0,
    MEMBER_UNREVOKED = 1,  /* Has to give back `pending`, and stays in its epoch until then. */
    MEMBER_UNRELEASED = 2, /* Waits for what others hold. */
};

/* What a member says of itself: the value of its record, decoded, in one piece of memory. */
struct member_metadata {
    struct consumer_group_member_metadata_value v;
    size_t size; /* Of all of it. */
    struct slice bytes;
};

/* From a record's value, its version in front. ERR_CORRUPT, ERR_BUSY. */
enum err member_metadata_new(struct slice value, struct member_metadata **ret_metadata);

/* Its topics: sorted, each once, so that subscriptions can be compared. False at the arena's limit.
 */
[[nodiscard]] bool consumer_set_names(struct consumer_group_member_metadata_value *v,
                                      const struct slice *names,
                                      size_t count,
                                      struct arena *a);

/* Where a member is; volatile copies of it are what reconciling takes and gives. */
struct member_progress {
    int32_t epoch;
    int32_t previous_epoch;
    enum member_state state;
    struct partition_set assigned; /* What it may use. */
    struct partition_set pending;  /* What it is asked to give back. */
};

struct consumer_member {
    struct name_link by_id;       /* consumer.members */
    struct name_link by_instance; /* consumer.instances, if it has one. */
    struct consumer *consumer;
    struct member_metadata *metadata; /* NULL: no such record (yet). */
    struct member_progress progress;
    struct partition_set target;
    bool has_progress; /* Record type 8. */
    bool has_target;   /* Record type 7. */
    uint64_t charged;  /* bytes */

    /* Volatile. */
    bool is_going;          /* Scratch: among those that a batch in the making takes away. */
    bool has_heard;         /* It has said that it has what it may use. */
    uint8_t given_up_count; /* Heartbeats of it that were kept when its client went. */
    uint8_t hurried_count;  /* Heartbeats in a row that could hardly be kept. */
    uint32_t to_wait_count; /* Heartbeats that it is impatient for yet. */
    struct group_timer session;
    struct group_timer revocation;
    int32_t told_interval_ms; /* How long it waits, as it was told; 0 = it may not have heard. */
    struct group_call *held;  /* Its heartbeat that waits for news; or NULL. */
    struct group_timer hold;  /* How long. */

    uint32_t id_size;
    char id[];
};

static inline struct slice member_id(const struct consumer_member *m)
{
    return slice_of(m->id, m->id_size);
}

static inline struct slice member_instance_id(const struct consumer_member *m)
{
    return m->metadata == NULL ? (struct slice){0} : m->metadata->v.instance_id;
}

/* It speaks the old protocol, while its group is migrated. */
static inline bool member_is_classic(const struct consumer_member *m)
{
    return m->metadata != NULL && m->metadata->v.classic_member_metadata != NULL;
}

/* Topics as the assignor counts them. Scratch, in the arena of the target under computation. */
struct topic_indexes {
    const uint32_t *items; /* Ascending, each once. */
    size_t count;
};

/* A topic that somebody subscribes to. */
struct consumer_topic {
    struct name_link by_name;   /* consumer.topics */
    uint32_t subscribers_count; /* Members by name, and patterns. */
    uint32_t index;             /* Scratch, as struct topic_indexes. */
    uint32_t name_size;
    char name[];
};

/* A pattern, and what it matched: record type 16. */
struct consumer_regex {
    struct list link; /* consumer.regexes */
    struct name_link by_text;
    bool is_resolved; /* There is a record. */
    bool is_stale;    /* Volatile: this look at the topics has not come to it. */
    uint32_t members_count;
    int64_t version;
    int64_t timestamp_ms;
    struct slice text;
    struct slice *topics; /* Sorted. */
    uint32_t topics_count;
    void *memory; /* Of topics and their bytes. */
    uint64_t charged;

    struct topic_indexes indexes; /* Scratch. */
    uint32_t going_count;         /* Scratch: members that a batch in the making takes away. */
};

/* Where the group is with matching its patterns. */
enum resolve_state {
    RESOLVE_IDLE,
    RESOLVE_PAUSED,  /* It looked a moment ago. */
    RESOLVE_AGAIN,   /* Waits for its turn because topics changed, */
    RESOLVE_FIRST,   /* or because a member waits; or in its turn for the gate. */
    RESOLVE_WRITING, /* What a pattern matches is on its way to the log. */
};

struct consumer_resolver;

struct consumer {
    struct group *g;
    bool has_epoch; /* Record type 3. */
    int32_t epoch;
    int64_t epoch_ms;    /* Wall time, of its record. */
    int64_t topics_hash; /* Of the topics that the group's epoch stands for. */
    bool has_target;     /* Record type 6. */
    int32_t target_epoch;
    int64_t target_ms;           /* Wall time. */
    struct name_table members;   /* struct consumer_member */
    struct name_table instances; /* Those of them that are static. */
    uint32_t classic_count;      /* Members of the classic protocol. */
    struct name_table topics;    /* struct consumer_topic */
    struct list regexes;
    struct name_table regexes_by_text;
    struct partition_owners owners; /* Of struct consumer_member. */
    uint64_t charged;

    /* Volatile. */
    int32_t woken_epoch;        /* Of the target that held heartbeats were told of. */
    bool is_paced;              /* target_us is set. */
    uint64_t target_us;         /* When the last target was computed. */
    struct group_timer assign;  /* The next target is due. */
    struct group_timer refresh; /* Topics changed: look whether that concerns the group. */
    bool is_released;           /* Somebody gave partitions back since the last look. */
    uint64_t next_release_us;   /* Not before that for who waits for them. */
    struct group_timer release; /* The look for who waits for them. */
    enum resolve_state resolve_state;
    bool is_outdated;                   /* Topics changed since this look at them began. */
    struct group_timer resolve;         /* Its turn to match patterns, or the end of a pause. */
    struct consumer_resolver *resolver; /* The pattern under way; or NULL. */
};

/* ---- consumer.c ---- */

/* Makes it if there is none. ERR_BUSY. */
enum err consumer_get(struct group *g, struct consumer **ret_consumer);
/* Frees it if no record of it is left. */
void consumer_drop_unused(struct consumer *c);
struct consumer_member *consumer_find_member(const struct consumer *c, struct slice id);
struct consumer_member *consumer_find_instance(const struct consumer *c, struct slice instance_id);
/* Calls visit for every member, in no order that means anything; visit must not remove any. */
void consumer_for_each_member(const struct consumer *c,
                              void (*visit)(void *context, struct consumer_member *m),
                              void *context);
struct groups_intervals consumer_intervals(const struct consumer *c);
/* It has reached the target of today. */
bool consumer_is_settled(const struct consumer *c, const struct consumer_member *m);
/* How long a member should wait until its next heartbeat. */
int32_t consumer_heartbeat_interval_ms(const struct consumer *c, const struct consumer_member *m);
void consumer_charge(struct consumer *c, uint64_t *charged, uint64_t size);

/* ---- consumer_member.c ---- */

enum err
consumer_get_member(struct consumer *c, struct slice id, struct consumer_member **ret_member);
/* Frees it if no record of it is left. */
void consumer_drop_member(struct consumer_member *m);
void member_free(struct consumer_member *m);
/* Replaces; takes over metadata, also if it fails. */
enum err member_set_metadata(struct consumer_member *m, struct member_metadata *metadata);
void member_clear_metadata(struct consumer_member *m);
enum err member_set_progress(struct consumer_member *m, const struct member_progress *progress);
void member_clear_progress(struct consumer_member *m);
enum err member_set_target(struct consumer_member *m, const struct partition_set *target);
void member_clear_target(struct consumer_member *m);
/* Its session starts afresh; its revocation deadline follows its state. */
void member_touch(struct consumer_member *m);
void member_arm_revocation(struct consumer_member *m);
void member_cancel_timers(struct consumer_member *m);

/* ---- consumer_topics.c ---- */

enum err consumer_topics_add(struct consumer *c, const struct slice *names, size_t count);
void consumer_topics_remove(struct consumer *c, const struct slice *names, size_t count);
void consumer_topics_done(struct consumer *c);
struct consumer_topic *consumer_topics_find(const struct consumer *c, struct slice name);
/* Over those that exist, with their ids and numbers of partitions. 0 = none. */
int64_t consumer_topics_hash(const struct consumer *c);

/* ---- consumer_records.c ---- */

void consumer_put_epoch(const struct group *g, struct proposal *p, int32_t epoch, int64_t hash);
void consumer_put_metadata(const struct group *g,
                           struct proposal *p,
                           struct slice member_id,
                           const struct consumer_group_member_metadata_value *v);
void consumer_put_progress(const struct group *g,
                           struct proposal *p,
                           struct slice member_id,
                           const struct member_progress *progress);
void consumer_put_target(const struct group *g,
                         struct proposal *p,
                         struct slice member_id,
                         const struct partition_set *target);
void consumer_put_target_epoch(const struct group *g, struct proposal *p, int32_t epoch);
void consumer_put_member_tombstones(struct proposal *p, const struct consumer_member *m);
void consumer_put_regex(const struct group *g,
                        struct proposal *p,
                        struct slice text,
                        const struct consumer_group_regular_expression_value *v);
void consumer_put_regex_tombstone(const struct group *g, struct proposal *p, struct slice text);

/* ---- consumer_regex.c ---- */

/* A member subscribes to it, or does not any more. Null or "" is none. */
enum err consumer_regex_take(struct consumer *c, struct slice text);
void consumer_regex_release(struct consumer *c, struct slice text);
/* What a record says it matches. ERR_BUSY. */
enum err consumer_regex_set(struct consumer *c,
                            struct slice text,
                            const struct consumer_group_regular_expression_value *v);
void consumer_regex_clear(struct consumer *c, struct slice text);
void consumer_regexes_done(struct consumer *c);
uint64_t consumer_regexes_digest(const struct consumer *c);
struct consumer_regex *consumer_regex_find(const struct consumer *c, struct slice text);

/* ---- consumer_resolve.c ---- */

void consumer_resolve_init(struct consumer *c);
void consumer_resolve_done(struct consumer *c);
/* Puts what the pattern matches, if it is not known and does not take long; false if it did not. */
bool consumer_put_resolved(const struct group *g, struct proposal *p, struct slice text);
/* A member goes that subscribed to it: puts its tombstone if that was the only one. */
void consumer_put_regex_unused(const struct consumer *c, struct proposal *p, struct slice text);
/* Sees to patterns that a member waits for. */
void consumer_schedule_resolve(struct consumer *c);
void consumer_resolve_on_metadata(struct consumer *c);

/* ---- consumer_hold.c ---- */

void consumer_hold_init(struct consumer_member *m);
void consumer_hold_init_group(struct consumer *c);
void consumer_hold_done_group(struct consumer *c); /* Cancels its timer. */
/* How long a heartbeat of it may be kept; 0 = not at all. */
int32_t consumer_hold_ms(const struct consumer_member *m, const struct group_call *call);
/* Keeps the heartbeat of a member of which none is kept, for so long, or until there is news for
 * it, or its client wants something else. */
void consumer_hold(struct consumer_member *m, struct group_call *call);
/* False: every heartbeat is answered at once. */
bool consumer_may_hold(const struct coordinator_env *env);
/* When the next heartbeat is wanted, told in the answer to call: soon, to be kept again; less soon
 * each time, if it hardly ever can be (members that share a connection). */
int32_t consumer_hold_rest_ms(struct consumer_member *m, const struct group_call *call);
/* Has it judged anew, if there is one: the member is no more, or its client is back. */
void consumer_unhold(struct consumer_member *m);
/* Answers it, if there is one. */
void consumer_hold_refuse(struct consumer_member *m, enum kafka_error e);

/* ---- consumer_leave.c ---- */

/* ConsumerGroupHeartbeat with an epoch below zero. */
void consumer_leave(struct group *g, struct group_call *call);
/* Puts what it takes for these members to be gone, and the group's new epoch. */
void consumer_put_removal(struct consumer *c,
                          struct proposal *p,
                          struct consumer_member *const *members,
                          size_t count);

/* Out with it, and logged; deadline, which it missed, is armed again if that fails. */
void consumer_fence(struct consumer_member *m, struct group_timer *deadline, const char *reason);

/* ---- consumer_steps.c ---- */

/* A heartbeat, or a classic member's join, on its way. Lies in the call's arena, as all it points
 * to. */
struct consumer_beat {
    struct group *g;
    struct group_call *call;
    struct slice member_id;
    bool is_shown;             /* The answer has the assignment. */
    bool has_news;             /* A batch was applied for it. */
    bool is_resolved;          /* What its new pattern matches is in the batch, */
    uint64_t metadata_changes; /* found after so many of the coordinator's. */
    bool has_owned;
    struct partition_set owned;
    void (*answer)(struct consumer_beat *b); /* All is applied. */
};

/* Who speaks, and in whose place. */
struct consumer_speaker {
    struct consumer_member *member; /* NULL: it joins. */
    struct consumer_member *former; /* Had the instance before it; or NULL. */
};

bool consumer_is_subscription_equal(const struct consumer_group_member_metadata_value *a,
                                    const struct consumer_group_member_metadata_value *b);
/* For what it says of itself: more than before needs room. */
bool consumer_has_room(const struct group *g,
                       const struct consumer_speaker *who,
                       const struct consumer_group_member_metadata_value *v);
/* Whether the group names no more than CONSUMER_NAMES_MAX topics then, or no more than before. */
bool consumer_has_room_for_names(const struct group *g,
                                 const struct consumer_speaker *who,
                                 const struct consumer_group_member_metadata_value *v);
/* It says v of itself: makes it so, takes the next step, answers. */
void consumer_say(struct consumer_beat *b,
                  const struct consumer_speaker *who,
                  const struct consumer_group_member_metadata_value *v);

/* ---- consumer_classic.c ---- */

/* What a classic member says in that protocol; null if it does not speak it. */
struct slice consumer_classic_metadata(const struct consumer_group_member_metadata_value *v,
                                       struct slice protocol);
/* All classic members do, but those that are going. */
bool consumer_classic_do_all_speak(const struct consumer *c, struct slice protocol);
/* Of a classic member that neither leads nor is told of others. */
void consumer_answer_join(struct consumer_beat *b, int32_t generation, struct slice protocol);

/* ---- consumer_migrate.c ---- */

/* The members of a classic group become members of this protocol; then goes on, or refuses. */
void consumer_upgrade(struct consumer_beat *b, void (*then)(struct consumer_beat *b));
bool consumer_may_downgrade(const struct consumer *c);
/* Whether the group is to be classic again when these are gone. */
bool consumer_is_downgrade(const struct consumer *c,
                           struct consumer_member *const *members,
                           size_t count);
/* Puts what it takes: tombstones of all, and the classic group of those that are not going. */
void consumer_put_downgrade(struct consumer *c, struct proposal *p);
/* A classic member says v of itself, in the place of the last of the new protocol: the group is
 * classic with it. Ends the call. */
void consumer_downgrade(struct consumer_beat *b,
                        struct consumer_member *former,
                        const struct consumer_group_member_metadata_value *v);
/* It was applied: if the group is classic now, its members have to join again. */
void consumer_on_removed(struct group *g);

/* ---- consumer_embedded.c ---- */

/* What a classic member says in its first protocol: topics, rack, what it owns. Slices are of the
 * metadata, arrays of the arena. ERR_CORRUPT; ERR_TOO_LARGE at the arena's limit, as what follows.
 */
struct consumer_protocol_subscription;
enum err consumer_read_subscription(struct slice metadata,
                                    struct arena *a,
                                    struct consumer_protocol_subscription *ret_value);
/* Whether a member that says it has so many partitions cannot be right: there are not so many. */
bool consumer_owns_too_many(const struct coordinator_env *env, size_t count);
/* By the topics' names: those that are there. ERR_CORRUPT if they are too many. */
enum err consumer_read_owned(const struct coordinator_env *env,
                             const struct consumer_protocol_subscription *from,
                             struct arena *a,
                             struct partition_set *ret_set);
enum err consumer_read_assignment(const struct coordinator_env *env,
                                  struct slice assignment,
                                  struct arena *a,
                                  struct partition_set *ret_set);
/* What of it a member's record holds. ERR_CORRUPT if it names more than CONSUMER_NAMES_MAX topics.
 */
enum err consumer_set_subscription(struct consumer_group_member_metadata_value *v,
                                   const struct consumer_protocol_subscription *from,
                                   struct arena *a);
/* What a member has, as its assignment, in the version that it speaks. Null at a limit. */
struct slice consumer_write_assignment(const struct coordinator_env *env,
                                       const struct partition_set *set,
                                       struct slice subscription,
                                       struct arena *a);

/* ---- consumer_reconcile.c ---- */

/* What a member's next step depends on. */
struct reconcile_input {
    const struct member_progress *from;
    int32_t target_epoch;
    struct partition_set target;       /* Of topics that it subscribes to. */
    struct partition_set dropped;      /* Of from's assigned: those of topics it does not. */
    const struct partition_set *owned; /* What it says it has; NULL = it does not say. */
    /* For "held by somebody else". */
    const struct partition_owners *owners;
    const void *holder;
};
/* For the target that there is, nothing said. What m has unsubscribed from since is no more its
 * than what the target takes away: records of it must not come while the next target is waited
 * for. Sets may be those of m. False at the arena's limit. */
[[nodiscard]] bool consumer_reconcile_begin(const struct consumer_member *m,
                                            struct arena *a,
                                            struct reconcile_input *ret_input);
/* False at the arena's limit. ret_progress's sets may be those of from. */
[[nodiscard]] bool consumer_reconcile(const struct reconcile_input *in,
                                      struct arena *a,
                                      struct member_progress *ret_progress);
/* There is something of m's target that nobody has. */
bool consumer_is_any_free(const struct consumer_member *m);
bool member_progress_equal(const struct member_progress *a, const struct member_progress *b);

/* ---- consumer_draft.c ---- */

/* A target assignment under computation. */
struct target_draft {
    struct consumer *c;
    struct arena *a;
    struct assignor_group group;
    struct consumer_member **members;   /* As group.members. */
    const struct consumer_member *last; /* Whose subscription was resolved last. */
};

/* Of the assignor that most members ask for. */
const char *consumer_assignor_name(const struct consumer *c);
/* Computes: targets are in draft->group.members.
 * ERR_TOO_LARGE: the arena's limit. */
enum err target_draft_make(struct target_draft *draft, struct consumer *c, struct arena *a);
/* The target of members[index]; false at the arena's limit. */
[[nodiscard]] bool
target_draft_result(struct target_draft *draft, size_t index, struct partition_set *ret_set);

/* ---- consumer_target.c ---- */

void consumer_target_init(struct consumer *c);
/* Cancels its timers. */
void consumer_target_done(struct consumer *c);
/* Arms the timer for the next target if one is needed. */
void consumer_schedule_target(struct consumer *c);
/* Looks soon whether the group needs a new epoch for its topics. */
void consumer_on_topics_changed(struct consumer *c);
bool consumer_is_target_due(const struct consumer *c, int32_t epoch);
/* Computes the target for the group's epoch and puts its records. ret_target: of m (may be NULL),
 * in the arena. ERR_BUSY. */
enum err consumer_put_new_target(struct consumer *c,
                                 struct proposal *p,
                                 struct arena *a,
                                 const struct consumer_member *m,
                                 struct partition_set *ret_target);

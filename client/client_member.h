/* A member of a consumer group from inside (client_group.h says what it promises).
 *
 *   client_member.c          life, and the program's small calls
 *   client_member_poll.c     the program's side: what the group decided is carried out, records
 *                            handed out, the end
 *   client_membership.c      the thread's side: the coordinator, heartbeats
 *   client_member_topics.c   names of the topics that were assigned by their ids
 *   client_commits.c         offsets stored, and fetched for new partitions
 *
 *          poll                 answer                   fenced, or too slow
 *   LOST --------> JOINING ---------------> IN --------------------------------> LOST
 *    ^                |  \____________________________________________________/
 *    +-- (at first)   +---- refused for good, or closed (from anywhere) -----> OUT
 *
 * The thread keeps the membership alive and learns what is assigned (target). It never touches
 * positions: only the program's thread, within its own calls, gives partitions up and takes new
 * ones, and says so by the next heartbeat. In LOST nothing is sent: the program is told first.
 *
 * Private to client/. With the client's lock held.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client_consumer.h"
#include "client/client_group.h"
#include "client/client_priv.h"
#include "core/arena.h"
#include "core/list.h"
#include "core/uuid.h"

enum client_member_state {
    CLIENT_MEMBER_LOST,
    CLIENT_MEMBER_JOINING,
    CLIENT_MEMBER_IN,
    CLIENT_MEMBER_OUT,
};

enum {
    CLIENT_COMMITS_MAX =
        100, /* On their way, or not told of yet: before the program may make one. */
};

/* A partition as the broker names it. */
struct client_share {
    struct uuid topic_id;
    int32_t partition;
};

/* A topic of which a partition is, or is to be, the member's. */
struct client_member_topic {
    struct list link; /* member.topics */
    struct uuid id;
    bool is_known; /* topic is there, and followed. */
    bool is_asked;
    uint32_t failures;
    uint64_t retry_us;
    struct client_topic topic;
};

/* A request of a member's; outlives it if need be. */
struct client_member_request {
    struct list link; /* member.requests */
    struct client *client;
    struct client_member *member; /* NULL: it was freed. */
    struct client_call call;
    struct arena arena;
    uint64_t serial; /* Of a commit; of a heartbeat the member's life. */
    void (*on_answer)(struct client_member *m, struct client_member_request *x);
};

struct client_commit_item {
    struct slice topic; /* All in the commit's arena. */
    struct uuid topic_id;
    int32_t partition;
    int64_t offset;
    struct slice metadata;
    int16_t code;     /* Of the last answer. */
    bool is_given_up; /* Its partition was, in this epoch. */
    int32_t given_up_epoch;
};

struct client_commit {
    struct list link;   /* member.commits, oldest first, or member.done_commits */
    struct arena arena; /* Of the items. */
    struct client_commit_item *items;
    size_t items_count;
    bool is_automatic;
    bool is_of_positions; /* The client chose the partitions, not the program. */
    bool is_sent;
    uint64_t serial; /* Of the member's commits, as they were made; from 1 on. */
    bool is_over;
    uint32_t failures;
    uint64_t retry_us;
    uint64_t deadline_us; /* Not sent again behind it. */
    enum err err;         /* Before it is over: of the first item that was dropped. */
    char why[CLIENT_WHY_SIZE];
    void (*on_done)(enum err e, const char *why, void *context);
    void *context;
};

struct client_member {
    struct list link; /* client.members */
    struct client *client;
    struct client_member_options options; /* Defaults filled in; texts in arena. */
    struct arena arena;
    struct client_consumer *reader;
    char id[UUID_TEXT_SIZE];
    struct list requests;

    /* The membership; the thread's. */
    enum client_member_state state;
    int32_t epoch;
    int32_t coordinator_id; /* -1: to be asked for. */
    bool is_seeking;        /* That is on its way. */
    uint32_t beats_count;   /* Heartbeats on their way: one, and a goodbye. */
    uint64_t life;          /* Answers to what was said in an earlier one mean nothing. */
    bool is_fetching_offsets;
    bool is_known;     /* A join was sent: the group may know the member. */
    bool is_leave_due; /* Before anything else. */
    bool is_full;      /* The next heartbeat says everything. */
    bool is_owned_due; /* ... what is owned, at once. */
    uint32_t interval_ms;
    uint64_t beaten_us; /* When the latest heartbeat was sent. */
    uint32_t failures;
    uint64_t failing_us;
    uint64_t retry_us;
    uint64_t polled_us; /* When the program was last seen. */
    enum err err;       /* To be told by poll; for good in OUT. */
    char why[CLIENT_WHY_SIZE];

    /* What is to be the member's, as the latest answer told; sorted. */
    struct client_share *target;
    size_t target_count;
    bool is_target_new; /* To be acknowledged once what goes has gone. */
    bool is_unsettled;  /* Positions are not what target says. */
    struct list topics;

    struct list commits; /* The oldest one is sent. */
    struct list done_commits;
    size_t commits_count; /* Of both. */
    uint64_t commit_serial;

    /* The program's alone. */
    bool is_polling; /* Within a call that counts as a poll; read by the thread. */
    bool is_calling_back;
    bool is_closed;
    uint64_t auto_commit_us; /* The next one. */
    uint64_t leaving_us;     /* Until then commits are waited for; UINT64_MAX: nothing goes. */
    struct client_topic_partition failed;
    struct client_topic_partition *told;   /* For callbacks, with room for all positions, */
    struct client_topic_partition *listed; /* and so for client_member_assignment. */
};

/* ---- client_member.c ---- */

/* NULL without memory. To be filled and sent. */
struct client_member_request *client_member_request_new(struct client_member *m);
void client_member_request_free(struct client_member_request *x);
/* Sends it: to the coordinator, over the member's connection, or to anybody. x->call has api_key,
 * request, response and fit. */
void client_member_request_send(struct client_member_request *x, int32_t node_id);
struct client_position *client_member_find(struct client_member *m,
                                           const struct client_topic_partition *partition);
/* Fills ret with the positions of which is_told says so; returns how many. */
size_t client_member_tell(const struct client_member *m,
                          bool (*is_told)(const struct client_position *p),
                          struct client_topic_partition *ret);

/* ---- client_membership.c ---- */

void client_members_turn(struct client *c, uint64_t *next_us);
/* The coordinator is somewhere else, or was never known. */
void client_member_forget_coordinator(struct client_member *m);
/* The group does not count on the member any more. */
void client_member_lose(struct client_member *m);
/* Says goodbye, at once: a heartbeat that the coordinator keeps is answered then. */
void client_member_leave(struct client_member *m);
/* Out for good, with what poll tells. */
void client_member_fail(struct client_member *m, enum err e, const char *why);

/* ---- client_member_topics.c ---- */

struct client_member_topic *client_member_topic_of(const struct client_member *m,
                                                   const struct uuid *id);
/* For qsort. */
int client_share_compare(const void *a, const void *b);
/* Makes places for the topics of a target. False without memory. */
bool client_member_topics_add(struct client_member *m,
                              const struct client_share *shares,
                              size_t count);
/* Forgets topics that nothing is left of. The program's thread: it has their names. */
void client_member_topics_forget(struct client_member *m);
/* Asks for names. */
void client_member_topics_turn(struct client_member *m, uint64_t *next_us);
void client_member_topic_free(struct client_member_topic *t);
bool client_member_target_has(const struct client_member *m, const struct client_position *p);
const struct client_member_topic *client_member_topic_at(const struct client_position *p);

/* ---- client_commits.c ---- */

/* Sends the oldest commit, and asks for the offsets of new positions. */
void client_commits_turn(struct client_member *m, uint64_t *next_us);
/* A commit of these, behind those on the list: also one of nothing, which is over when they are, or
 * at once. NULL without memory. */
struct client_commit *client_commit_new(struct client_member *m,
                                        const struct client_group_offset *offsets,
                                        size_t offsets_count);
/* Of positions as the program left them, if is_wanted says so, but for those that the group surely
 * has. NULL without memory. */
struct client_commit *client_commit_positions(struct client_member *m,
                                              bool (*is_wanted)(const struct client_position *p));
void client_commit_free(struct client_member *m, struct client_commit *commit);
/* Partitions are given up that is_gone is true of: their offsets are sent again in this epoch only.
 * The coordinator takes no commit of it once it let others have them, but one of the next. */
void client_commits_give_up(struct client_member *m,
                            bool (*is_gone)(const struct client_position *p));
/* All that are not over end so. */
void client_commits_fail(struct client_member *m, enum err e, const char *why);

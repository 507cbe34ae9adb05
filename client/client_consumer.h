/* The consumer from inside: partitions of one topic that the program assigns, or of many that a
 * group does (client_member.h).
 *
 *   client_consumer.c   the program's side: positions, records handed out
 *   client_records.h    walking the batches of an answer
 *   client_fetch.c      the thread's side: answers asked for ahead, within a bounded memory
 *   client_starts.c     where positions start that are not given as an offset
 *
 * The thread puts chunks behind positions, the program takes them off: a chunk that was taken is
 * the program's alone, so records are decoded without the lock.
 *
 * Private to client/. With the client's lock held.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/client_records.h"
#include "client/client_topic.h"
#include "core/list.h"

enum {
    CLIENT_OFFSET_UNKNOWN = -3,
    CLIENT_OFFSET_COMMITTED = -4, /* As a question: where the group is. Its member asks. */
};

/* The bytes of one answer, shared by its chunks. */
struct client_frame {
    size_t refs;
    size_t size;
    uint8_t *bytes;
};

/* What one answer held of one partition. */
struct client_chunk {
    struct list link; /* position.chunks */
    struct client_frame *frame;
    size_t size; /* Of its batches. */
    struct client_walk walk;
};

struct client_position {
    struct client_topic *topic; /* The owner's, and followed; outlives the position. */
    int32_t partition;
    uint64_t serial;      /* Of the assignment or seek: answers from before are dropped. */
    int64_t offset;       /* Of the next record to hand out, or unknown. */
    int64_t fetch_offset; /* Of the next record to ask for, or unknown. */
    int64_t question;     /* How to find it then: a time, CLIENT_OFFSET_..., or the one below. */
    int64_t end;          /* As the latest answer told, or unknown. */
    struct list chunks;
    size_t chunks_size;
    bool is_paused;
    bool is_asked;          /* A request about it is on its way. */
    bool is_halted;         /* Nothing is fetched until it is moved. */
    bool is_leaving;        /* Of a member: about to be given up, nothing is fetched any more. */
    bool is_revoked;        /* ... and the program was told: it comes back as a new one only. */
    bool is_new;            /* Of a member: the program was not told yet. */
    int64_t committed;      /* Of a member: what the group surely has, or unknown. */
    uint64_t commit_serial; /* Of the latest commit that names it; 0: none yet. */
    uint32_t failures;      /* In a row. */
    uint64_t failing_us;    /* Since when. */
    uint64_t retry_us;
    enum err err; /* To be told. */
    char why[CLIENT_WHY_SIZE];
};

struct client_consumer {
    struct list link; /* client.consumers */
    struct client *client;
    struct client_member *member;           /* NULL: the program assigns. */
    struct client_consumer_options options; /* Defaults filled in. */
    struct client_topic topic;          /* Without a name: positions are of its member's topics. */
    struct client_position **positions; /* Of each topic ascending. */
    size_t positions_count;
    struct list requests; /* On their way; struct client_fetch. */
    uint64_t serial;
    /* Positions that are newer are not asked about yet: those that are set one after the other are
     * asked about together, and none waits for the answer of another. */
    uint64_t polled_serial;
    size_t buffered_size; /* Of frames. */

    /* The program's alone. */
    size_t turn; /* Index of the position to look at first. */
    struct client_position *current_position;
    struct client_chunk *current; /* Taken off its position. */
    struct client_records records;
    size_t records_next;      /* Of client_consumer_next. */
    int32_t failed_partition; /* -1: none. */
    const char *failed_topic;
};

/* A consumer of no topic, in the client's list; without the lock. NULL without memory. */
struct client_consumer *client_consumer_create(struct client *c,
                                               const struct client_consumer_options *options);
/* For the program's thread: fills s->records with what is here; ERR_TIMED_OUT: nothing is. Leaves
 * the lock meanwhile. Other errors are about one partition. */
enum err client_consumer_read(struct client_consumer *s, char why[CLIENT_WHY_SIZE]);
/* What was set up since the last poll may be asked about. */
void client_consumer_begin(struct client_consumer *s);
/* What was handed out before is the consumer's again. */
void client_consumer_release(struct client_consumer *s);

/* Asks for what is missing. Lowers *next_us to when it has to run again. */
void client_consumers_turn(struct client *c, uint64_t *next_us);

struct client_position *client_position_find(const struct client_consumer *s,
                                             const struct client_topic *topic,
                                             int32_t partition);
/* Nothing is asked yet: to be moved. NULL without memory. */
struct client_position *
client_position_add(struct client_consumer *s, struct client_topic *topic, int32_t partition);
void client_position_remove(struct client_consumer *s, struct client_position *p);
/* Where the program is: before records that it did not get yet. May be unknown. */
int64_t client_position_offset(const struct client_consumer *s, const struct client_position *p);
/* Records in hand or buffered come first; without any the position is where it is fetched. */
void client_position_follow(const struct client_consumer *s, struct client_position *p);
/* What is paused must not take room that others need: it is read ahead of again when it goes on.
 */
void client_position_pause(struct client_consumer *s, struct client_position *p, bool is_paused);
/* Drops what was read ahead, and what comes of a fetch that is on its way. */
void client_position_drop_ahead(struct client_consumer *s, struct client_position *p);
/* Goes on where the options' reset says; halts with e if they say nothing. */
void client_position_reset(struct client_consumer *s,
                           struct client_position *p,
                           enum err e,
                           const char *why);
/* True if the thread may ask something about it now; else *next_us may be lowered. */
bool client_position_is_due(struct client_consumer *s,
                            const struct client_position *p,
                            uint64_t now_us,
                            uint64_t *next_us);
/* Trouble that may pass: again after a pause, told after a while. */
void client_position_failed(struct client_consumer *s,
                            struct client_position *p,
                            enum err e,
                            const char *why);
/* Trouble that does not: told, and nothing is fetched any more. */
void client_position_halt(struct client_position *p, enum err e, const char *why);
/* Drops what is buffered, and asks from here on: an offset, or unknown and a question. */
void client_position_move(struct client_consumer *s,
                          struct client_position *p,
                          int64_t offset,
                          int64_t question);

/* For chunks that are over. */
void client_chunk_free(struct client_consumer *s, struct client_chunk *chunk);

/* ---- client_starts.c ---- */

/* Asks for the offsets of positions that a node leads. */
void client_starts_ask(struct client_consumer *s, int32_t node_id, uint64_t now_us);

/* ---- requests of a consumer, of both kinds ---- */

/* Which positions a request is about; they may have moved or gone when the answer comes. */
struct client_asked {
    struct client_topic *topic; /* Gone when the position is. */
    int32_t partition;
    uint64_t serial;
    int64_t offset;
    int64_t question;
};

struct client_fetch {
    struct list link; /* consumer.requests */
    struct client *client;
    struct client_consumer *consumer; /* NULL: it was freed. */
    struct client_call call;
    struct arena arena;
    void *request;
    void *response;
    struct client_asked *asked;
    size_t asked_count;
    size_t taken_next; /* Where the position after the one that was taken stands, most likely. */
};

/* NULL without memory; with room for all positions in asked. */
struct client_fetch *client_fetch_new(struct client_consumer *s);
void client_fetch_free(struct client_fetch *x);
void client_fetch_add(struct client_fetch *x, struct client_position *p);
/* Topic by topic, as requests have it. */
void client_fetch_sort(struct client_fetch *x);
/* The topic's name, which may go before the request does; null without memory. */
struct slice client_fetch_name(struct client_fetch *x, size_t index);
/* How many from first on are of one topic. */
size_t client_fetch_run(const struct client_fetch *x, size_t first);
/* The position that was asked for, unless it has moved since; is_asked is taken back. */
struct client_position *client_fetch_take(struct client_fetch *x, size_t index);
/* For client_consumer_free: what is on its way is nobody's any more. */
void client_fetch_abandon(struct client_consumer *s);

/* Consumer groups: a member that shares topics with others, and what operators ask of groups.
 *
 *     struct client_member *m;
 *     const char *const topics[] = {"orders"};
 *     e = client_member_new(c, &(struct client_member_options){
 *         .group = "billing", .topics = topics, .topics_count = 1,
 *         .reading = {.reset = CLIENT_RESET_START}, .auto_commit_ms = 5000}, &m);
 *     while (e == ERR_OK || e == ERR_TIMED_OUT) {
 *         e = client_member_poll(m, 1000, &records, &count);
 *         ...
 *     }
 *     e = client_member_close(m, 10000);
 *     client_member_free(m);
 *
 * Members are of the consumer group protocol (KIP-848): brokers of Kafka 4.0 or newer, or
 * Coreflume. The broker decides who reads what; partitions come and go one by one, and the others
 * are read on meanwhile.
 *
 * Rules of use
 * 1. A member's functions are for one thread at a time, but for the commits of other members.
 * 2. Partitions come and go within client_member_poll, client_member_next and client_member_close,
 *    and nowhere else. So between two calls everything that was handed out is still the member's,
 *    unless it was put out of the group; then its commits fail.
 * 3. Callbacks are called by these functions, on the program's thread. They may call everything
 *    of the member but these three and client_member_free.
 * 4. A record counts as done when the next record or the next records are asked for: that is what a
 *    commit of positions commits. A crash in between gives it to somebody again: at least once.
 * 5. Who does not poll for poll_interval_ms_max leaves the group, so that others get his
 *    partitions, and is back with his next poll.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/client.h"

struct client_member;

struct client_topic_partition {
    const char *topic;
    int32_t partition;
};

/* Valid during the callback. */
typedef void (*client_partitions_callback)(struct client_member *m,
                                           const struct client_topic_partition *partitions,
                                           size_t partitions_count,
                                           void *context);

struct client_member_options {
    const char *group;
    const char *const *topics; /* They need not exist yet. */
    size_t topics_count;
    const char *pattern; /* Also the topics whose whole name this matches: RE2, on the broker. */
    const char *instance_id; /* A static member: a restart with the same one gets the same
                                partitions back, without others moving. */
    const char *rack;
    const char *assignor;          /* "uniform", "range"; NULL: the broker's choice. */
    uint32_t poll_interval_ms_max; /* Rule 5, and how long giving up partitions may take. 0: 300000.
                                    */
    uint32_t auto_commit_ms;       /* Positions are committed so often by poll and next, also while
                                      they wait, when partitions are given up, and at the end. 0: the
                                      program commits. */
    struct client_consumer_options reading; /* Its reset also says where to start without a
                                               committed offset; none: ERR_NOT_FOUND. */
    /* All optional. What was lost is read by others already; without on_lost, on_revoked tells. */
    client_partitions_callback on_assigned; /* Before their first record: time to seek. */
    client_partitions_callback on_revoked;  /* They are still the member's: time to commit, also
                                               without waiting. They go when that is over. */
    client_partitions_callback on_lost;
    void *context;
};

/* Joins with the first poll. ERR_INVALID: no group, or nothing subscribed. */
enum err client_member_new(struct client *c,
                           const struct client_member_options *options,
                           struct client_member **ret_member);

/* Records as client_consumer_poll hands them out, of the partitions that are the member's now.
 *   ERR_TIMED_OUT     nothing came within timeout_ms; ask again
 *   ERR_NOT_FOUND     the group has no offset for a partition, and reset does not say where to
 *                     start: nothing comes from it until client_member_seek
 *   ERR_OUT_OF_RANGE, ERR_CORRUPT, ERR_BUSY   about a partition, as client_consumer_poll
 *   ERR_UNSUPPORTED   the broker does not offer the consumer group protocol
 *   ERR_EXISTS        the instance id is another living member's; it is tried on and on
 *   ERR_INVALID       the group is used by clients of another kind, the pattern or the assignor is
 *                     none, in a callback
 *   others            no answer that helps for 30 s: told again and again, and asked meanwhile
 * ERR_UNSUPPORTED, ERR_INVALID and what the broker refuses for good are told by each poll from then
 * on: such a member is out. */
enum err client_member_poll(struct client_member *m,
                            uint32_t timeout_ms,
                            const struct client_record **ret_records,
                            size_t *ret_count);
/* The same, one record at a time. */
enum err
client_member_next(struct client_member *m, uint32_t timeout_ms, struct client_record *ret_record);
/* True if the next record is here already. */
bool client_member_has_buffered(struct client_member *m);
/* What the latest error of poll or next was about; NULL: about no partition. Valid until the next
 * call. */
const struct client_topic_partition *client_member_failed(struct client_member *m);

/* Commits (with auto_commit_ms: positions), gives up all partitions, leaves the group (a static
 * member keeps its place until the session timeout) and waits for that. The first error, if one
 * went wrong; the member is out in any case. With timeout_ms 0 nothing is waited for, and the group
 * may notice only by its session timeout. */
enum err client_member_close(struct client_member *m, uint32_t timeout_ms);
/* Closes first, with 5 s, what was not closed. Accepts NULL. */
void client_member_free(struct client_member *m);

/* ---- commits ---- */

struct client_group_offset {
    const char *topic;
    int32_t partition;
    int64_t offset;       /* Of the next record to read. -1: none is committed, or forget it. */
    const char *metadata; /* Any text that goes with it, or NULL. */
};

/* Commits one after the other, an older never behind a newer one; but if a connection breaks, a
 * broker may carry out late what came over it. offsets NULL: the positions of all partitions that
 * are the member's, but those of deleted topics, and those that the group has. Waits for the
 * answer, and for the commits before it, also if nothing is left to commit. An error is the first
 * one: the other partitions' offsets are stored.
 *   ERR_CANCELLED  the member was put out of the group, or has given up a partition: others may
 *                  read it already
 *   ERR_TIMED_OUT  no answer within timeout_ms; it may still happen */
enum err client_member_commit(struct client_member *m,
                              const struct client_group_offset *offsets,
                              size_t offsets_count,
                              uint32_t timeout_ms);
/* The same without waiting. on_done, if there is one, is called by a later call of poll, next,
 * commit or close, also if there was nothing to commit. ERR_BUSY: a hundred are on their way, or
 * not told of, already. */
enum err client_member_commit_async(struct client_member *m,
                                    const struct client_group_offset *offsets,
                                    size_t offsets_count,
                                    void (*on_done)(enum err e, const char *why, void *context),
                                    void *context);

/* ---- partitions ---- */

/* ERR_INVALID for a partition that is not the member's now. */
enum err client_member_seek(struct client_member *m,
                            const struct client_topic_partition *partition,
                            int64_t offset); /* Or CLIENT_OFFSET_START, CLIENT_OFFSET_END. */
/* Until it is resumed or given up, whatever happens to others. */
enum err client_member_pause(struct client_member *m,
                             const struct client_topic_partition *partition);
enum err client_member_resume(struct client_member *m,
                              const struct client_topic_partition *partition);

/* As client_consumer_position and client_consumer_end. */
int64_t client_member_position(struct client_member *m,
                               const struct client_topic_partition *partition);
int64_t client_member_end(struct client_member *m, const struct client_topic_partition *partition);

/* The partitions that are the member's; valid until its next call. */
void client_member_assignment(struct client_member *m,
                              const struct client_topic_partition **ret_partitions,
                              size_t *ret_count);
/* As others see it in the group. */
const char *client_member_id(const struct client_member *m);

/* ---- groups, for operators: of any protocol ---- */

struct client_listed_group {
    struct slice name;
    struct slice type;          /* "consumer", "classic", ...; empty from old brokers. */
    struct slice state;         /* "Stable", "Empty", ...; empty from old brokers. */
    struct slice protocol_type; /* "consumer", "connect", ..., or empty. */
};

struct client_group_list {
    struct client_listed_group *groups; /* By name. */
    size_t groups_count;
};

/* The groups of all brokers. Freed by client_group_list_free. */
enum err client_list_groups(struct client *c, struct client_group_list **ret_list);
/* Accepts NULL. */
void client_group_list_free(struct client_group_list *list);

struct client_group_partition {
    struct slice topic;
    int32_t partition;
};

struct client_group_member {
    struct slice id;
    struct slice instance_id; /* Null: it is not static. */
    struct slice client_id;
    struct slice host;
    int32_t epoch; /* -1: of the classic protocol. */
    struct client_group_partition *partitions;
    size_t partitions_count;
};

struct client_group {
    struct slice name;
    struct slice type;  /* "consumer" or "classic". */
    struct slice state; /* "Stable", "Empty", ... */
    struct slice protocol_type;
    struct slice assignor; /* Or the classic protocol that was chosen. */
    int32_t epoch;         /* -1: of the classic protocol. */
    struct client_group_member *members;
    size_t members_count;
};

/* ERR_NOT_FOUND: there is no such group. Freed by client_group_free. */
enum err
client_describe_group(struct client *c, const char *group, struct client_group **ret_group);
/* Accepts NULL. */
void client_group_free(struct client_group *group);

struct client_committed {
    struct slice topic;
    int32_t partition;
    int64_t offset;
    struct slice metadata;
};

struct client_group_offsets {
    struct client_committed *offsets; /* By topic and partition. */
    size_t offsets_count;
};

/* All offsets that a group has; none also if there is no such group. Freed by
 * client_group_offsets_free. */
enum err
client_group_offsets(struct client *c, const char *group, struct client_group_offsets **ret);
/* NULL if it has none there. */
const struct client_committed *client_group_offsets_find(const struct client_group_offsets *offsets,
                                                         const char *topic,
                                                         int32_t partition);
/* Accepts NULL. */
void client_group_offsets_free(struct client_group_offsets *offsets);

/* Sets offsets of a group that has no members, and makes the group if there is none; those with
 * offset -1 are forgotten. Each succeeds or fails by itself, and is named once; ret_results has a
 * place for each.
 * Returns ERR_OK once the coordinator answered, whatever the results say. */
enum err client_alter_group_offsets(struct client *c,
                                    const char *group,
                                    const struct client_group_offset *offsets,
                                    size_t offsets_count,
                                    struct client_topic_result *ret_results);

/* Deletes groups without members, with their offsets. As above. ERR_POLICY: it has members;
 * ERR_NOT_FOUND. */
enum err client_delete_groups(struct client *c,
                              const char *const *names,
                              size_t names_count,
                              struct client_topic_result *ret_results);

struct client_time {
    int32_t partition;
    int64_t offset;    /* In. */
    int64_t timestamp; /* Of the first record at or behind offset that is there; -1: it was written
                          without one, or err. Out. */
    /* Out:
     *   ERR_NOT_FOUND  no record is there or behind
     *   ERR_TIMED_OUT  not told within timeout_ms
     *   others         why it cannot be read */
    enum err err;
};

/* When records were written, by reading them. ERR_OK however single ones ended. */
enum err client_find_times(struct client *c,
                           const char *topic,
                           struct client_time *times,
                           size_t times_count,
                           uint32_t timeout_ms);

/* The program's side of a member: what the group decided is carried out here, between the program's
 * calls, and records are handed out. */
#include <stdlib.h>
#include <string.h>

#include "client/client_member.h"
#include "core/assert.h"

enum {
    LATER_MS = 100, /* Before a partition that the topic seems not to have is looked for again. */
};

/* Which positions a callback is about. */
typedef bool (*position_test)(const struct client_position *p);

static bool is_any(const struct client_position *p)
{
    (void)p;
    return true;
}

/* As far as the program knows. */
static bool is_held(const struct client_position *p)
{
    return !p->is_revoked;
}

static bool is_to_be_revoked(const struct client_position *p)
{
    return p->is_leaving && !p->is_revoked;
}

static bool is_leaving(const struct client_position *p)
{
    return p->is_leaving;
}

static bool is_staying(const struct client_position *p)
{
    return !p->is_leaving;
}

static bool is_new(const struct client_position *p)
{
    return p->is_new;
}

/* ---- telling the program ---- */

/* Without the lock meanwhile. */
static void
call_back(struct client_member *m, client_partitions_callback callback, position_test is_told)
{
    const size_t count = client_member_tell(m, is_told, m->told);
    if (callback == NULL || count == 0) {
        return;
    }
    m->is_calling_back = true;
    client_unlock(m->client);
    callback(m, m->told, count, m->options.context);
    client_lock(m->client);
    m->is_calling_back = false;
}

static void tell_commit(struct client_member *m, struct client_commit *commit)
{
    if (commit->is_automatic && commit->err != ERR_OK && commit->err != ERR_CANCELLED &&
        m->err == ERR_OK) {
        m->err = client_say(m->why, commit->err, "%s", commit->why);
    }
    if (commit->on_done != NULL) {
        m->is_calling_back = true;
        client_unlock(m->client);
        commit->on_done(commit->err, commit->why, commit->context);
        client_lock(m->client);
        m->is_calling_back = false;
    }
    client_commit_free(m, commit);
}

/* Commits that are over. What callbacks commit is told the next time: it may be over at once. */
static void tell_commits(struct client_member *m)
{
    struct list over;
    list_init(&over);
    list_splice_back(&over, &m->done_commits);
    while (!list_is_empty(&over)) {
        tell_commit(m, container_of(list_pop_front(&over), struct client_commit, link));
    }
}

static void remove_positions(struct client_member *m, position_test is_gone)
{
    struct client_consumer *s = m->reader;
    for (size_t i = s->positions_count; i > 0; i--) {
        struct client_position *p = s->positions[i - 1];
        if (is_gone(p)) {
            client_position_remove(s, p);
        }
    }
}

/* ---- what the group decided ---- */

/* The group went on without the member. Nothing is left but to join again. */
static void lose(struct client_member *m)
{
    const struct client_member_options *o = &m->options;
    client_commits_fail(m,
                        ERR_CANCELLED,
                        "the member was put out of the group, or has left it, before the offsets "
                        "were stored");
    call_back(m, o->on_lost != NULL ? o->on_lost : o->on_revoked, is_held);
    remove_positions(m, is_any);
    m->leaving_us = UINT64_MAX;
    m->target_count = 0;
    m->is_unsettled = false;
    m->is_target_new = false;
    if (m->state == CLIENT_MEMBER_LOST) {
        m->state = CLIENT_MEMBER_JOINING;
        m->failures = 0;
        m->epoch = 0;
        client_wake(m->client, 0);
    }
}

/* What it comes to, poll tells. */
static void commit_automatically(struct client_member *m, position_test is_wanted)
{
    struct client_commit *commit =
        m->options.auto_commit_ms > 0 ? client_commit_positions(m, is_wanted) : NULL;
    if (commit != NULL) {
        commit->is_automatic = true;
    } else if (m->options.auto_commit_ms > 0 && m->err == ERR_OK) {
        m->err = client_say(m->why, ERR_BUSY, "no memory for an automatic commit");
    }
}

/* Marks what goes; from here on nothing of it is handed out or fetched. */
static bool mark_leaving(struct client_member *m)
{
    struct client_consumer *s = m->reader;
    bool is_any_new = false;
    bool is_any_leaving = false;
    for (size_t i = 0; i < s->positions_count; i++) {
        struct client_position *p = s->positions[i];
        const bool is_out = p->is_revoked || !client_member_target_has(m, p);
        if (is_out && !p->is_leaving) {
            client_position_drop_ahead(s, p);
            is_any_new = true;
        }
        p->is_leaving = is_out;
        is_any_leaving |= is_out;
    }
    if (is_any_new) {
        m->leaving_us = client_after_us(m->client, m->options.poll_interval_ms_max);
        commit_automatically(m, is_leaving);
    } else if (!is_any_leaving) {
        m->leaving_us = UINT64_MAX;
    }
    return is_any_leaving;
}

/* Or not waited for any more. */
static bool are_commits_over(const struct client_member *m)
{
    return list_is_empty(&m->commits) || client_now_us(m->client) >= m->leaving_us;
}

/* Partitions that are not the member's any more. False: commits have to be over first, also those
 * that the program made when it was told. */
static bool give_up(struct client_member *m)
{
    struct client_consumer *s = m->reader;
    if (!mark_leaving(m)) {
        return true;
    }
    if (!are_commits_over(m)) {
        return false;
    }
    call_back(m, m->options.on_revoked, is_to_be_revoked);
    for (size_t i = 0; i < s->positions_count; i++) {
        s->positions[i]->is_revoked |= s->positions[i]->is_leaving;
    }
    if (!are_commits_over(m)) {
        return false;
    }
    client_commits_give_up(m, is_leaving);
    remove_positions(m, is_leaving);
    m->leaving_us = UINT64_MAX;
    m->is_owned_due = true;
    return true;
}

static bool grow(struct client_topic_partition **partitions, size_t count)
{
    struct client_topic_partition *grown = realloc(*partitions, count * sizeof(*grown));
    *partitions = grown != NULL ? grown : *partitions;
    return grown != NULL;
}

/* A place for one partition, to start where the group is. False: not yet. */
static bool take_share(struct client_member *m, const struct client_share *share)
{
    struct client *c = m->client;
    struct client_member_topic *t = client_member_topic_of(m, &share->topic_id);
    if (t == NULL || !t->is_known || share->partition < 0) {
        return false;
    }
    if (share->partition >= t->topic.partitions_count) {
        if (t->retry_us <= client_now_us(c)) {
            t->retry_us = client_after_us(c, LATER_MS);
            client_topic_want(c, &t->topic);
            client_wake(c, 0);
        }
        return false;
    }
    if (client_position_find(m->reader, &t->topic, share->partition) != NULL) {
        return true;
    }
    const size_t count = m->reader->positions_count + 1;
    struct client_position *p = grow(&m->told, count) && grow(&m->listed, count)
                                    ? client_position_add(m->reader, &t->topic, share->partition)
                                    : NULL;
    if (p == NULL) {
        return false;
    }
    p->is_new = true;
    client_position_move(m->reader, p, CLIENT_OFFSET_UNKNOWN, CLIENT_OFFSET_COMMITTED);
    return true;
}

static void take_new(struct client_member *m)
{
    struct client_consumer *s = m->reader;
    size_t missing_count = 0;
    for (size_t i = 0; i < m->target_count; i++) {
        missing_count += !take_share(m, &m->target[i]);
    }
    m->is_unsettled |= missing_count > 0;
    m->is_owned_due |=
        m->is_target_new; /* Also what is missing, which will be there in a moment. */
    m->is_target_new = false;
    call_back(m, m->options.on_assigned, is_new);
    for (size_t i = 0; i < s->positions_count; i++) {
        s->positions[i]->is_new = false;
    }
    client_member_topics_forget(m);
    client_wake(m->client, 0);
}

static void settle(struct client_member *m)
{
    if (m->state == CLIENT_MEMBER_LOST) {
        lose(m);
    }
    if (m->state == CLIENT_MEMBER_IN && m->is_unsettled) {
        m->is_unsettled = false; /* Until the target changes again, also while callbacks run. */
        if (!give_up(m)) {
            m->is_unsettled = true;
        } else if (m->state == CLIENT_MEMBER_IN) {
            take_new(m);
        }
    }
    tell_commits(m);
}

/* ---- records ---- */

/* By itself, when it is time. */
static bool may_commit(const struct client_member *m)
{
    return m->options.auto_commit_ms > 0 && m->state == CLIENT_MEMBER_IN &&
           list_is_empty(&m->commits);
}

static void commit_if_due(struct client_member *m)
{
    if (may_commit(m) && client_now_us(m->client) >= m->auto_commit_us) {
        m->auto_commit_us = client_after_us(m->client, m->options.auto_commit_ms);
        commit_automatically(m, is_staying);
    }
}

/* When a poll has to look again even if nothing comes. */
static uint64_t next_look_us(const struct client_member *m, uint64_t deadline_us)
{
    uint64_t next_us = deadline_us < m->leaving_us ? deadline_us : m->leaving_us;
    if (may_commit(m) && m->auto_commit_us < next_us) {
        next_us = m->auto_commit_us;
    }
    return next_us;
}

/* An error of the member as a whole that the program was not told of. */
static enum err take_error(struct client_member *m, char why[CLIENT_WHY_SIZE])
{
    const enum err e = m->err;
    if (e != ERR_OK) {
        memcpy(why, m->why, CLIENT_WHY_SIZE);
    }
    if (m->state != CLIENT_MEMBER_OUT) {
        m->err = ERR_OK;
    }
    return e;
}

static enum err
wait_for_records(struct client_member *m, uint32_t timeout_ms, char why[CLIENT_WHY_SIZE])
{
    struct client *c = m->client;
    struct client_consumer *s = m->reader;
    const uint64_t deadline_us = client_after_us(c, timeout_ms);
    for (;;) {
        settle(m);
        client_consumer_begin(s); /* Callbacks may have moved positions. */
        commit_if_due(m);
        enum err e = take_error(m, why);
        if (e != ERR_OK) {
            return e;
        }
        const bool has_left = s->records_next < s->records.records_count;
        e = has_left ? ERR_OK : client_consumer_read(s, why);
        if (e != ERR_TIMED_OUT || client_now_us(c) >= deadline_us) {
            return e;
        }
        client_wait(c, next_look_us(m, deadline_us));
    }
}

/* ERR_INVALID where it may not be called. With the lock. */
static enum err enter(struct client_member *m, char why[CLIENT_WHY_SIZE])
{
    if (m->is_calling_back || !client_can_wait(m->client)) {
        return client_say(why, ERR_INVALID, "a callback must not wait for records, nor close");
    }
    if (m->is_closed) {
        return client_say(why, ERR_INVALID, "the member was closed");
    }
    m->is_polling = true;
    m->failed = (struct client_topic_partition){0};
    return ERR_OK;
}

static void leave(struct client_member *m)
{
    m->is_polling = false;
    m->polled_us = client_now_us(m->client);
    client_wake(m->client, m->polled_us + m->options.poll_interval_ms_max * (uint64_t)1000);
    if (m->reader->failed_partition >= 0) {
        m->failed =
            (struct client_topic_partition){m->reader->failed_topic, m->reader->failed_partition};
    }
}

/* Has records in hand afterwards, or says why not. With the lock. */
static enum err poll(struct client_member *m, uint32_t timeout_ms, char why[CLIENT_WHY_SIZE])
{
    struct client_consumer *s = m->reader;
    enum err e = enter(m, why);
    if (e != ERR_OK) {
        return e;
    }
    if (s->records_next == s->records.records_count) {
        client_consumer_release(s);
    }
    e = wait_for_records(m, timeout_ms, why);
    leave(m);
    return e;
}

enum err client_member_poll(struct client_member *m,
                            uint32_t timeout_ms,
                            const struct client_record **ret_records,
                            size_t *ret_count)
{
    char why[CLIENT_WHY_SIZE];
    struct client_consumer *s = m->reader;
    client_lock(m->client);
    enum err e = poll(m, timeout_ms, why);
    if (e == ERR_OK) {
        *ret_records = &s->records.records[s->records_next];
        *ret_count = s->records.records_count - s->records_next;
        s->records_next = s->records.records_count;
    }
    client_unlock(m->client);
    return e == ERR_OK ? ERR_OK : client_fail(m->client, e, "%s", why);
}

enum err
client_member_next(struct client_member *m, uint32_t timeout_ms, struct client_record *ret_record)
{
    char why[CLIENT_WHY_SIZE];
    struct client_consumer *s = m->reader;
    client_lock(m->client);
    enum err e = poll(m, timeout_ms, why);
    if (e == ERR_OK) {
        *ret_record = s->records.records[s->records_next++];
    }
    client_unlock(m->client);
    return e == ERR_OK ? ERR_OK : client_fail(m->client, e, "%s", why);
}

/* ---- commits by the program ---- */

/* With the lock. */
static enum err new_commit(struct client_member *m,
                           const struct client_group_offset *offsets,
                           size_t count,
                           struct client_commit **ret_commit,
                           char why[CLIENT_WHY_SIZE])
{
    *ret_commit = NULL;
    if (m->state != CLIENT_MEMBER_IN) {
        return client_say(why,
                          ERR_CANCELLED,
                          "this is no member of group '%s' now: it was put out, or has not polled "
                          "yet",
                          m->options.group);
    }
    if (m->commits_count < CLIENT_COMMITS_MAX) {
        *ret_commit = offsets == NULL ? client_commit_positions(m, is_held)
                                      : client_commit_new(m, offsets, count);
    }
    return *ret_commit != NULL
               ? ERR_OK
               : client_say(why,
                            ERR_BUSY,
                            "no room for one more commit: %zu are on their way, or not polled for "
                            "yet",
                            m->commits_count);
}

/* The commits so far are over, or it is too late. */
static void wait_for_commits(struct client_member *m, uint64_t deadline_us)
{
    struct client *c = m->client;
    while (!list_is_empty(&m->commits) && m->state == CLIENT_MEMBER_IN &&
           client_now_us(c) < deadline_us) {
        client_wait(c, deadline_us);
    }
}

/* What became of the latest commit. */
static enum err wait_for_commit(struct client_member *m,
                                struct client_commit *commit,
                                uint64_t deadline_us,
                                char why[CLIENT_WHY_SIZE])
{
    commit->deadline_us = deadline_us;
    wait_for_commits(m, deadline_us);
    if (commit->is_over) {
        enum err e = client_say(why, commit->err, "%s", commit->why);
        client_commit_free(m, commit);
        return e;
    }
    /* It goes on by itself. */
    if (m->state != CLIENT_MEMBER_IN) {
        return client_say(why,
                          ERR_CANCELLED,
                          "the member was put out of group '%s' before the offsets were stored",
                          m->options.group);
    }
    return client_say(why, ERR_TIMED_OUT, "the coordinator did not store the offsets in time");
}

enum err client_member_commit(struct client_member *m,
                              const struct client_group_offset *offsets,
                              size_t offsets_count,
                              uint32_t timeout_ms)
{
    char why[CLIENT_WHY_SIZE];
    struct client *c = m->client;
    struct client_commit *commit = NULL;
    client_lock(c);
    enum err e = client_can_wait(c) ? new_commit(m, offsets, offsets_count, &commit, why)
                                    : client_say(why, ERR_INVALID, "a callback must not wait");
    if (commit != NULL) {
        e = wait_for_commit(m, commit, client_after_us(c, timeout_ms), why);
    }
    if (!m->is_calling_back) {
        tell_commits(m);
    }
    client_unlock(c);
    return e == ERR_OK ? ERR_OK : client_fail(c, e, "%s", why);
}

enum err client_member_commit_async(struct client_member *m,
                                    const struct client_group_offset *offsets,
                                    size_t offsets_count,
                                    void (*on_done)(enum err e, const char *why, void *context),
                                    void *context)
{
    char why[CLIENT_WHY_SIZE];
    struct client_commit *commit = NULL;
    client_lock(m->client);
    enum err e = new_commit(m, offsets, offsets_count, &commit, why);
    if (commit != NULL) {
        commit->on_done = on_done;
        commit->context = context;
    }
    client_unlock(m->client);
    return e == ERR_OK ? ERR_OK : client_fail(m->client, e, "%s", why);
}

/* ---- the end ---- */

/* The last commits, and what they came to. With the lock. */
static enum err
finish_commits(struct client_member *m, uint64_t deadline_us, char why[CLIENT_WHY_SIZE])
{
    if (m->options.auto_commit_ms == 0) {
        wait_for_commits(m, deadline_us);
        return ERR_OK;
    }
    struct client_commit *commit = client_commit_positions(m, is_held);
    return commit == NULL ? client_say(why, ERR_BUSY, "no memory for the last commit")
                          : wait_for_commit(m, commit, deadline_us, why);
}

/* With the lock. */
static enum err
close_member(struct client_member *m, uint64_t deadline_us, char why[CLIENT_WHY_SIZE])
{
    const struct client_member_options *o = &m->options;
    struct client *c = m->client;
    enum err e = ERR_OK;
    if (m->state == CLIENT_MEMBER_IN) {
        e = finish_commits(m, deadline_us, why);
    }
    const bool is_lost = m->state != CLIENT_MEMBER_IN;
    call_back(m, is_lost && o->on_lost != NULL ? o->on_lost : o->on_revoked, is_held);
    wait_for_commits(m, deadline_us); /* Of the callback's. */
    client_commits_fail(m, ERR_CANCELLED, "the member was closed before the offsets were stored");
    remove_positions(m, is_any);
    if (m->state != CLIENT_MEMBER_LOST) {
        client_member_leave(m);
    }
    m->state = CLIENT_MEMBER_OUT;
    client_wake(c, 0);
    tell_commits(m); /* Callbacks make no new ones now. */
    while ((m->is_leave_due || m->beats_count > 0) && client_now_us(c) < deadline_us) {
        client_wait(c, deadline_us);
    }
    if (e == ERR_OK && (m->is_leave_due || m->beats_count > 0)) {
        e = client_say(why, ERR_TIMED_OUT, "the coordinator did not answer in time");
    }
    return e;
}

enum err client_member_close(struct client_member *m, uint32_t timeout_ms)
{
    char why[CLIENT_WHY_SIZE];
    struct client *c = m->client;
    client_lock(c);
    enum err e = enter(m, why);
    if (e == ERR_OK) {
        e = close_member(m, client_after_us(c, timeout_ms), why);
        m->is_closed = true;
        m->is_polling = false;
    }
    client_unlock(c);
    return e == ERR_OK ? ERR_OK : client_fail(c, e, "%s", why);
}

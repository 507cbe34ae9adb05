/* Offsets of a member: stored one commit after the other, so that none overtakes a newer one, and
 * fetched for partitions that are new to it. */
#include <stdlib.h>
#include <string.h>

#include "client/client_error.h"
#include "client/client_member.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_fetch.h"

enum {
    IDS_VERSION_MIN = 10, /* Of both: topics by id. */
    COMMIT_SIZE_MAX = 64 << 20,
};

/* ---- what the group has ---- */

/* Items mostly stand in the order of positions: each is looked for behind the one before, whose
 * index is *at. */
static struct client_position *
position_of(const struct client_member *m, const struct client_commit_item *item, size_t *at)
{
    const size_t count = m->reader->positions_count;
    for (size_t i = 1; i <= count; i++) {
        const size_t index = (*at + i) % count;
        struct client_position *p = m->reader->positions[index];
        if (p->partition == item->partition && slice_equal_string(item->topic, p->topic->name)) {
            *at = index;
            return p;
        }
    }
    return NULL;
}

/* The group will have something else of these, or not: unknown until the commit is answered. */
static void note_made(const struct client_member *m, const struct client_commit *commit)
{
    size_t at = m->reader->positions_count - 1;
    for (size_t i = 0; i < commit->items_count; i++) {
        struct client_position *p = position_of(m, &commit->items[i], &at);
        if (p != NULL) {
            p->commit_serial = commit->serial;
            p->committed = CLIENT_OFFSET_UNKNOWN;
        }
    }
}

/* As the answer to a commit says, or (serial 0) to a fetch. Behind a newer commit it says nothing.
 */
static void note_stored(struct client_position *p, uint64_t serial, int64_t offset)
{
    if (p->commit_serial == serial) {
        p->committed = offset;
    }
}

/* ---- commits: made by the program's thread ---- */

/* As commit->err says. */
static void finish(struct client_member *m, struct client_commit *commit)
{
    commit->is_over = true;
    list_remove(&commit->link);
    list_push_back(&m->done_commits, &commit->link);
    client_changed(m->client);
}

static struct slice copy(struct arena *arena, const char *text)
{
    const size_t size = strlen(text);
    return slice_of(arena_strndup(arena, text, size), size);
}

static struct uuid id_of(const struct client_member *m, const char *name)
{
    list_for_each (node, &m->topics) {
        const struct client_member_topic *t = container_of(node, struct client_member_topic, link);
        if (t->is_known && strcmp(t->topic.name, name) == 0) {
            return t->id;
        }
    }
    return (struct uuid){0};
}

/* False without memory. */
static bool fill_items(const struct client_member *m,
                       struct client_commit *commit,
                       const struct client_group_offset *offsets,
                       size_t count)
{
    commit->items = arena_alloc_array(&commit->arena, count, sizeof(*commit->items));
    for (size_t i = 0; commit->items != NULL && i < count; i++) {
        struct client_commit_item *item = &commit->items[i];
        /* Those of a topic mostly stand together. */
        const bool is_same = i > 0 && slice_equal_string(item[-1].topic, offsets[i].topic);
        item->topic = is_same ? item[-1].topic : copy(&commit->arena, offsets[i].topic);
        item->topic_id = is_same ? item[-1].topic_id : id_of(m, offsets[i].topic);
        item->metadata = offsets[i].metadata == NULL ? (struct slice){0}
                                                     : copy(&commit->arena, offsets[i].metadata);
        item->partition = offsets[i].partition;
        item->offset = offsets[i].offset;
        if (item->topic.data == NULL ||
            (offsets[i].metadata != NULL && item->metadata.data == NULL)) {
            return false;
        }
    }
    commit->items_count = count;
    return commit->items != NULL;
}

struct client_commit *client_commit_new(struct client_member *m,
                                        const struct client_group_offset *offsets,
                                        size_t offsets_count)
{
    struct client_commit *commit = calloc(1, sizeof(*commit));
    if (commit == NULL) {
        return NULL;
    }
    arena_init(&commit->arena, COMMIT_SIZE_MAX);
    if (!fill_items(m, commit, offsets, offsets_count)) {
        arena_done(&commit->arena);
        free(commit);
        return NULL;
    }
    const bool is_first = list_is_empty(&m->commits);
    commit->serial = ++m->commit_serial;
    commit->deadline_us = client_after_us(m->client, m->client->timeout_ms);
    note_made(m, commit);
    list_init(&commit->link);
    list_push_back(&m->commits, &commit->link);
    m->commits_count++;
    if (is_first && offsets_count == 0) {
        finish(m, commit);
    }
    client_wake(m->client, 0);
    return commit;
}

struct client_commit *client_commit_positions(struct client_member *m,
                                              bool (*is_wanted)(const struct client_position *p))
{
    const struct client_consumer *s = m->reader;
    struct client_group_offset *offsets = calloc(s->positions_count + 1, sizeof(*offsets));
    if (offsets == NULL) {
        return NULL;
    }
    size_t count = 0;
    for (size_t i = 0; i < s->positions_count; i++) {
        const struct client_position *p = s->positions[i];
        const int64_t offset = client_position_offset(s, p);
        if (is_wanted(p) && offset >= 0 && offset != p->committed) {
            offsets[count++] = (struct client_group_offset){
                .topic = p->topic->name, .partition = p->partition, .offset = offset};
        }
    }
    struct client_commit *commit = client_commit_new(m, offsets, count);
    if (commit != NULL) {
        commit->is_of_positions = true;
    }
    free(offsets);
    return commit;
}

void client_commit_free(struct client_member *m, struct client_commit *commit)
{
    list_remove(&commit->link);
    m->commits_count--;
    arena_done(&commit->arena);
    free(commit);
}

/* ---- the end of one ---- */

static void end(struct client_member *m, struct client_commit *commit, enum err e, const char *why)
{
    commit->err = client_say(commit->why, e, "%s", why);
    finish(m, commit);
}

void client_commits_fail(struct client_member *m, enum err e, const char *why)
{
    while (!list_is_empty(&m->commits)) {
        end(m, container_of(m->commits.next, struct client_commit, link), e, why);
    }
}

static void
again(struct client_member *m, struct client_commit *commit, enum err e, const char *why)
{
    const uint64_t now_us = client_now_us(m->client);
    commit->is_sent = false;
    commit->failures++;
    commit->retry_us = now_us + client_back_off_us(m->client, commit->failures);
    if (now_us >= commit->deadline_us) {
        end(m, commit, e, why);
    }
}

/* ---- answers ---- */

/* Answers mostly keep the order of the request: each item is looked for behind the one before,
 * whose index is *at. */
static struct client_commit_item *find_item(struct client_commit *commit,
                                            const struct offset_commit_response_topic *t,
                                            int32_t partition,
                                            int16_t version,
                                            size_t *at)
{
    for (size_t i = 1; i <= commit->items_count; i++) {
        const size_t index = (*at + i) % commit->items_count;
        struct client_commit_item *item = &commit->items[index];
        if (item->partition == partition &&
            (version >= IDS_VERSION_MIN ? uuid_equal(&item->topic_id, &t->topic_id)
                                        : slice_equal(item->topic, t->name))) {
            *at = index;
            return item;
        }
    }
    return NULL;
}

/* Partitions that the answer leaves out count as refused. */
static void take_codes(struct client_commit *commit, const struct client_call *call)
{
    const struct offset_commit_response *response = call->response;
    size_t at = commit->items_count - 1;
    for (size_t i = 0; i < commit->items_count; i++) {
        commit->items[i].code = KAFKA_UNKNOWN_SERVER_ERROR;
    }
    for (size_t i = 0; i < response->topics_count; i++) {
        const struct offset_commit_response_topic *t = &response->topics[i];
        for (size_t j = 0; j < t->partitions_count; j++) {
            struct client_commit_item *item =
                find_item(commit, t, t->partitions[j].partition_index, call->version, &at);
            if (item != NULL) {
                item->code = t->partitions[j].error_code;
            }
        }
    }
}

static bool is_of_unknown_topic(int16_t code)
{
    return code == KAFKA_UNKNOWN_TOPIC_OR_PARTITION || code == KAFKA_UNKNOWN_TOPIC_ID;
}

/* Says nothing of the other partitions. */
static bool is_of_partition(int16_t code)
{
    return is_of_unknown_topic(code) || code == KAFKA_TOPIC_AUTHORIZATION_FAILED ||
           code == KAFKA_OFFSET_METADATA_TOO_LARGE || code == KAFKA_INVALID_COMMIT_OFFSET_SIZE ||
           code == KAFKA_UNKNOWN_SERVER_ERROR;
}

static enum err say_code(const struct client_member *m,
                         const struct client_commit_item *item,
                         char why[CLIENT_WHY_SIZE])
{
    const int16_t code = item->code;
    const bool is_lost = code == KAFKA_UNKNOWN_MEMBER_ID || code == KAFKA_FENCED_INSTANCE_ID ||
                         code == KAFKA_FENCED_MEMBER_EPOCH;
    return client_say(why,
                      is_lost ? ERR_CANCELLED : client_err_of(code),
                      "group '%s' does not take the offset of %.*s[%d]: %s",
                      m->options.group,
                      slice_shown(item->topic, SLICE_SHOWN_MAX),
                      (const char *)item->topic.data,
                      item->partition,
                      client_error_text(code));
}

/* Whether another try may help where only this partition was refused: a coordinator may hear of a
 * topic later than the member. One that is deleted must not keep the others, nor new partitions,
 * waiting: an automatic commit comes again anyway. */
static bool is_worth_a_try(const struct client_member *m,
                           const struct client_commit *commit,
                           const struct client_commit_item *item,
                           const struct client_position *p)
{
    return kafka_error_is_retriable(item->code) && !commit->is_automatic && p != NULL &&
           client_member_target_has(m, p);
}

/* A deleted topic has nothing to be stored of: an error only for who named it. */
static void note_refused(const struct client_member *m,
                         struct client_commit *commit,
                         const struct client_commit_item *item)
{
    const bool is_quiet = commit->is_of_positions && is_of_unknown_topic(item->code);
    if (commit->err == ERR_OK && !is_quiet) {
        commit->err = say_code(m, item, commit->why);
    }
}

/* What is stored, and what never will be, leaves the commit. */
static void drop_answered(struct client_member *m, struct client_commit *commit)
{
    size_t kept = 0;
    size_t at = m->reader->positions_count - 1;
    for (size_t i = 0; i < commit->items_count; i++) {
        const struct client_commit_item item = commit->items[i];
        struct client_position *p = position_of(m, &item, &at);
        if (item.code == KAFKA_NONE) {
            if (p != NULL) {
                note_stored(p, commit->serial, item.offset);
            }
        } else if (is_of_partition(item.code) && !is_worth_a_try(m, commit, &item, p)) {
            note_refused(m, commit, &item);
        } else {
            commit->items[kept++] = item;
        }
    }
    commit->items_count = kept;
}

/* What is left decides about it: first of all what is said of the group. */
static const struct client_commit_item *deciding_item(const struct client_commit *commit)
{
    for (size_t i = 0; i < commit->items_count; i++) {
        if (!is_of_partition(commit->items[i].code)) {
            return &commit->items[i];
        }
    }
    return &commit->items[0];
}

static void take_refusal(struct client_member *m, struct client_commit *commit)
{
    const struct client_commit_item *item = deciding_item(commit);
    const int16_t code = item->code;
    char why[CLIENT_WHY_SIZE];
    enum err e = say_code(m, item, why);
    if (code == KAFKA_NOT_COORDINATOR || code == KAFKA_COORDINATOR_NOT_AVAILABLE) {
        client_member_forget_coordinator(m);
    }
    /* The epoch moved while the commit was on its way: the next heartbeat brings the new one. */
    if (code == KAFKA_STALE_MEMBER_EPOCH || kafka_error_is_retriable(code)) {
        again(m, commit, e, why);
    } else {
        end(m, commit, e, why);
    }
}

static struct client_commit *first_commit(const struct client_member *m)
{
    return list_is_empty(&m->commits) ? NULL
                                      : container_of(m->commits.next, struct client_commit, link);
}

static void on_committed(struct client_member *m, struct client_member_request *x)
{
    /* Only the oldest one is sent, and it may be over meanwhile. */
    struct client_commit *commit = first_commit(m);
    if (commit == NULL || !commit->is_sent || commit->serial != x->serial) {
        return;
    }
    if (x->call.err == ERR_UNSUPPORTED || x->call.err == ERR_INVALID) {
        end(m, commit, x->call.err, x->call.why);
        return;
    }
    if (x->call.err != ERR_OK) {
        client_member_forget_coordinator(m);
        again(m, commit, x->call.err, x->call.why);
        return;
    }
    take_codes(commit, &x->call);
    drop_answered(m, commit);
    if (commit->items_count == 0) {
        finish(m, commit);
    } else {
        take_refusal(m, commit);
    }
}

/* ---- sent ---- */

static size_t run_of(const struct client_commit *commit, size_t first)
{
    size_t end = first + 1;
    while (end < commit->items_count &&
           slice_equal(commit->items[end].topic, commit->items[first].topic)) {
        end++;
    }
    return end - first;
}

static bool has_all_ids(const struct client_commit *commit)
{
    for (size_t i = 0; i < commit->items_count; i++) {
        if (uuid_is_zero(&commit->items[i].topic_id)) {
            return false;
        }
    }
    return true;
}

/* False without memory. */
static bool fill_commit(struct client_member *m,
                        const struct client_commit *commit,
                        struct client_member_request *x)
{
    const size_t count = commit->items_count;
    struct offset_commit_request *request = arena_alloc(&x->arena, sizeof(*request));
    struct offset_commit_response *response = arena_alloc(&x->arena, sizeof(*response));
    struct offset_commit_request_topic *topics =
        arena_alloc_array(&x->arena, count, sizeof(*topics));
    struct offset_commit_request_partition *partitions =
        arena_alloc_array(&x->arena, count, sizeof(*partitions));
    if (request == NULL || response == NULL || topics == NULL || partitions == NULL) {
        return false;
    }
    offset_commit_request_init(request);
    offset_commit_response_init(response);
    request->group_id = slice_of_string(m->options.group);
    request->member_id = slice_of_string(m->id);
    request->generation_id_or_member_epoch = m->epoch;
    request->group_instance_id = slice_of_string(m->options.instance_id);
    request->topics = topics;
    for (size_t i = 0; i < count; i += run_of(commit, i)) {
        struct offset_commit_request_topic *t = &topics[request->topics_count++];
        offset_commit_request_topic_init(t);
        /* The items end in their own arena, which may end before the call does. */
        t->name = slice_of(arena_strndup(&x->arena,
                                         (const char *)commit->items[i].topic.data,
                                         commit->items[i].topic.size),
                           commit->items[i].topic.size);
        t->topic_id = commit->items[i].topic_id;
        t->partitions = &partitions[i];
        t->partitions_count = run_of(commit, i);
        if (t->name.data == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct slice metadata = commit->items[i].metadata;
        offset_commit_request_partition_init(&partitions[i]);
        partitions[i].partition_index = commit->items[i].partition;
        partitions[i].committed_offset = commit->items[i].offset;
        partitions[i].committed_metadata =
            metadata.data == NULL
                ? slice_of_string("")
                : slice_of(arena_strndup(&x->arena, (const char *)metadata.data, metadata.size),
                           metadata.size);
        if (partitions[i].committed_metadata.data == NULL) {
            return false;
        }
    }
    x->call.api_key = API_OFFSET_COMMIT;
    x->call.version_max = has_all_ids(commit) ? 0 : IDS_VERSION_MIN - 1;
    x->call.request = request;
    x->call.response = response;
    x->on_answer = on_committed;
    return true;
}

void client_commits_give_up(struct client_member *m,
                            bool (*is_gone)(const struct client_position *p))
{
    size_t at = m->reader->positions_count - 1;
    list_for_each (node, &m->commits) {
        struct client_commit *commit = container_of(node, struct client_commit, link);
        for (size_t i = 0; i < commit->items_count; i++) {
            struct client_commit_item *item = &commit->items[i];
            const struct client_position *p = position_of(m, item, &at);
            if (!item->is_given_up && p != NULL && is_gone(p)) {
                item->is_given_up = true;
                item->given_up_epoch = m->epoch;
            }
        }
    }
}

/* What others may read by now: an offset of this member's would go back behind theirs. */
static void drop_given_up(struct client_member *m, struct client_commit *commit)
{
    size_t kept = 0;
    for (size_t i = 0; i < commit->items_count; i++) {
        const struct client_commit_item item = commit->items[i];
        if (!item.is_given_up || item.given_up_epoch == m->epoch) {
            commit->items[kept++] = item;
        } else if (commit->err == ERR_OK) {
            commit->err = client_say(commit->why,
                                     ERR_CANCELLED,
                                     "%.*s[%d] was given up before its offset was stored",
                                     slice_shown(item.topic, SLICE_SHOWN_MAX),
                                     (const char *)item.topic.data,
                                     item.partition);
        }
    }
    commit->items_count = kept;
}

static void send_commit(struct client_member *m, uint64_t *next_us)
{
    struct client_commit *commit = first_commit(m);
    const uint64_t now_us = client_now_us(m->client);
    if (commit == NULL || commit->is_sent) {
        return;
    }
    drop_given_up(m, commit);
    if (commit->items_count == 0) {
        finish(m, commit);
        *next_us = now_us; /* For the next one. */
        return;
    }
    if (now_us >= commit->deadline_us) {
        end(m, commit, ERR_TIMED_OUT, "no coordinator took the offsets in time");
        return;
    }
    const uint64_t when_us = commit->retry_us > now_us ? commit->retry_us : commit->deadline_us;
    *next_us = when_us < *next_us ? when_us : *next_us;
    if (commit->retry_us > now_us || m->coordinator_id < 0 || m->state != CLIENT_MEMBER_IN) {
        return;
    }
    struct client_member_request *x = client_member_request_new(m);
    if (x == NULL || !fill_commit(m, commit, x)) {
        if (x != NULL) {
            client_member_request_free(x);
        }
        again(m, commit, ERR_BUSY, "no memory for a commit");
        return;
    }
    commit->is_sent = true;
    x->serial = commit->serial;
    client_member_request_send(x, m->coordinator_id);
}

/* ---- offsets of new positions ---- */

static void take_offset(struct client_member *m,
                        struct client_position *p,
                        const struct offset_fetch_response_group_topic_partition *answer)
{
    const int16_t code = answer->error_code;
    char why[CLIENT_WHY_SIZE];
    if (code == KAFKA_NONE && answer->committed_offset >= 0) {
        p->failures = 0;
        note_stored(p, 0, answer->committed_offset);
        p->fetch_offset = p->offset = answer->committed_offset;
        return;
    }
    if (code == KAFKA_NONE) {
        p->failures = 0;
        (void)client_say(why,
                         ERR_NOT_FOUND,
                         "group '%s' has no offset for %s[%d], and no reset says where to start",
                         m->options.group,
                         p->topic->name,
                         p->partition);
        client_position_reset(m->reader, p, ERR_NOT_FOUND, why);
        return;
    }
    enum err e = client_say(why,
                            client_err_of(code),
                            "cannot fetch the offset of group '%s' in %s[%d]: %s",
                            m->options.group,
                            p->topic->name,
                            p->partition,
                            client_error_text(code));
    client_position_failed(m->reader, p, e, why);
}

static const struct offset_fetch_response_group_topic_partition *
find_offset(const struct client_call *call, const struct client_position *p)
{
    const struct offset_fetch_response *response = call->response;
    if (response->groups_count != 1) {
        return NULL;
    }
    const struct offset_fetch_response_group *g = &response->groups[0];
    for (size_t i = 0; i < g->topics_count; i++) {
        const struct offset_fetch_response_group_topic *t = &g->topics[i];
        const bool is_it = call->version >= IDS_VERSION_MIN
                               ? uuid_equal(&t->topic_id, &p->topic->id)
                               : slice_equal_string(t->name, p->topic->name);
        for (size_t j = 0; is_it && j < t->partitions_count; j++) {
            if (t->partitions[j].partition_index == p->partition) {
                return &t->partitions[j];
            }
        }
    }
    return NULL;
}

/* What is wrong with the answer as a whole. */
static enum err check_offsets(struct client_member *m, struct client_call *call)
{
    const struct offset_fetch_response *response = call->response;
    if (call->err != ERR_OK) {
        client_member_forget_coordinator(m);
        return call->err;
    }
    const int16_t code =
        response->groups_count == 1 ? response->groups[0].error_code : KAFKA_UNKNOWN_SERVER_ERROR;
    if (code == KAFKA_NONE) {
        return ERR_OK;
    }
    if (code == KAFKA_NOT_COORDINATOR || code == KAFKA_COORDINATOR_NOT_AVAILABLE) {
        client_member_forget_coordinator(m);
    }
    return client_say(call->why,
                      client_err_of(code) == ERR_OK ? ERR_FAILED : client_err_of(code),
                      "cannot fetch the offsets of group '%s': %s",
                      m->options.group,
                      client_error_text(code));
}

static void on_offsets(struct client_call *call)
{
    struct client_fetch *x = container_of(call, struct client_fetch, call);
    struct client_consumer *s = x->consumer;
    enum err e = s != NULL ? check_offsets(s->member, call) : ERR_OK;
    for (size_t i = 0; s != NULL && i < x->asked_count; i++) {
        struct client_position *p = client_fetch_take(x, i);
        const struct offset_fetch_response_group_topic_partition *answer =
            p != NULL && e == ERR_OK ? find_offset(call, p) : NULL;
        if (answer != NULL) {
            take_offset(s->member, p, answer);
        } else if (p != NULL) {
            client_position_failed(s,
                                   p,
                                   e == ERR_OK ? ERR_CORRUPT : e,
                                   e == ERR_OK ? "the answer leaves out a partition" : call->why);
        }
    }
    if (s != NULL) {
        s->member->is_fetching_offsets = false;
        client_changed(s->client);
    }
    client_fetch_free(x);
}

/* The versions before members had epochs have other fields; there are no such members then. */
static bool fill_offsets(struct client_member *m, struct client_fetch *x)
{
    struct offset_fetch_request *request = arena_alloc(&x->arena, sizeof(*request));
    struct offset_fetch_response *response = arena_alloc(&x->arena, sizeof(*response));
    struct offset_fetch_request_group *group = arena_alloc(&x->arena, sizeof(*group));
    struct offset_fetch_request_group_topic *topics =
        arena_alloc_array(&x->arena, x->asked_count, sizeof(*topics));
    int32_t *partitions = arena_alloc_array(&x->arena, x->asked_count, sizeof(*partitions));
    if (request == NULL || response == NULL || group == NULL || topics == NULL ||
        partitions == NULL) {
        return false;
    }
    offset_fetch_request_init(request);
    offset_fetch_response_init(response);
    offset_fetch_request_group_init(group);
    request->groups = group;
    request->groups_count = 1;
    /* Offsets that a transaction is about to set are worth waiting for. */
    request->require_stable = true;
    group->group_id = slice_of_string(m->options.group);
    group->member_id = slice_of_string(m->id);
    group->member_epoch = m->epoch;
    group->topics = topics;
    client_fetch_sort(x);
    for (size_t i = 0; i < x->asked_count; i += client_fetch_run(x, i)) {
        struct offset_fetch_request_group_topic *t = &topics[group->topics_count++];
        offset_fetch_request_group_topic_init(t);
        t->name = client_fetch_name(x, i);
        t->topic_id = x->asked[i].topic->id;
        t->partition_indexes = &partitions[i];
        t->partition_indexes_count = client_fetch_run(x, i);
        if (t->name.data == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < x->asked_count; i++) {
        partitions[i] = x->asked[i].partition;
    }
    x->request = request;
    x->response = response;
    return true;
}

/* All positions that are to start where the group is. NULL without memory, or for none. */
static struct client_fetch *gather(struct client_member *m, uint64_t *next_us)
{
    struct client_consumer *s = m->reader;
    const uint64_t now_us = client_now_us(m->client);
    struct client_fetch *x = NULL;
    for (size_t i = 0; i < s->positions_count; i++) {
        struct client_position *p = s->positions[i];
        if (p->fetch_offset >= 0 || p->question != CLIENT_OFFSET_COMMITTED ||
            !client_position_is_due(s, p, now_us, next_us)) {
            continue;
        }
        x = x == NULL ? client_fetch_new(s) : x;
        if (x == NULL) {
            client_position_failed(s, p, ERR_BUSY, "no memory for a request");
            return NULL;
        }
        client_fetch_add(x, p);
    }
    return x;
}

static void ask_offsets(struct client_member *m, uint64_t *next_us)
{
    struct client_consumer *s = m->reader;
    if (m->state != CLIENT_MEMBER_IN || m->coordinator_id < 0 || m->is_fetching_offsets) {
        return;
    }
    struct client_fetch *x = gather(m, next_us);
    if (x == NULL) {
        return;
    }
    if (!fill_offsets(m, x)) {
        for (size_t i = 0; i < x->asked_count; i++) {
            client_position_failed(
                s, client_fetch_take(x, i), ERR_BUSY, "no memory for the request");
        }
        client_fetch_free(x);
        return;
    }
    x->call = (struct client_call){
        .api_key = API_OFFSET_FETCH,
        .node_id = m->coordinator_id,
        .owner = m,
        .timeout_ms = m->client->timeout_ms,
        .request = x->request,
        .arena = &x->arena,
        .response = x->response,
        .on_done = on_offsets,
    };
    list_push_back(&s->requests, &x->link);
    m->is_fetching_offsets = true;
    client_post(m->client, &x->call);
}

void client_commits_turn(struct client_member *m, uint64_t *next_us)
{
    send_commit(m, next_us);
    ask_offsets(m, next_us);
}

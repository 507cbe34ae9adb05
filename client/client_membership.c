/* The thread's side of a member: who coordinates its group, and the heartbeats, which are all that
 * the two say to each other about membership. */
#include <stdlib.h>
#include <string.h>

#include "client/client_coordinator.h"
#include "client/client_error.h"
#include "client/client_member.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/find_coordinator.h"

enum {
    EPOCH_JOIN = 0,
    EPOCH_LEAVE = -1,
    EPOCH_LEAVE_STATIC = -2,
    PATTERN_VERSION_MIN = 1,
    KEYS_VERSION_MIN = 4,       /* Of FindCoordinator, with a list of keys. */
    FAILING_MS_MAX = 30000,     /* So long trouble that may pass is not told. */
    INTERVAL_MS_MAX = 600000,   /* No broker means a longer one, */
    INTERVAL_MS_DEFAULT = 5000, /* nor none. */
};

/* ---- what goes wrong ---- */

void client_member_forget_coordinator(struct client_member *m)
{
    m->coordinator_id = -1;
}

/* May pass: again after a pause, told after a while. */
static void note_failure(struct client_member *m, enum err e, const char *why)
{
    const uint64_t now_us = client_now_us(m->client);
    m->failing_us = m->failures == 0 ? now_us : m->failing_us;
    m->failures++;
    m->retry_us = now_us + client_back_off_us(m->client, m->failures);
    if (now_us - m->failing_us >= FAILING_MS_MAX * (uint64_t)1000) {
        m->failing_us = now_us;
        m->err = client_say(m->why, e, "%s", why);
    }
}

void client_member_lose(struct client_member *m)
{
    if (m->state == CLIENT_MEMBER_IN || m->state == CLIENT_MEMBER_JOINING) {
        m->state = CLIENT_MEMBER_LOST;
        m->life++;
        client_changed(m->client);
    }
}

void client_member_leave(struct client_member *m)
{
    m->is_leave_due = m->is_known;
    m->failures = 0;
}

void client_member_fail(struct client_member *m, enum err e, const char *why)
{
    if (m->state != CLIENT_MEMBER_OUT) {
        m->state = CLIENT_MEMBER_OUT;
        m->err = client_say(m->why, e, "%s", why);
        client_commits_fail(m, e, why);
        client_changed(m->client);
    }
}

/* ---- the coordinator ---- */

static void take_coordinator(struct client_member *m,
                             const struct find_coordinator_response_coordinator *found)
{
    char why[CLIENT_WHY_SIZE];
    const char *group = m->options.group;
    const int16_t code = found->error_code;
    enum err e = client_err_of(code);
    if (code == KAFKA_NONE) {
        e = client_learn_node(m->client, found->node_id, found->host, found->port, why);
        if (e == ERR_OK) {
            m->coordinator_id = found->node_id;
        } else {
            note_failure(m, e, why);
        }
        return;
    }
    (void)client_say(why, e, "no coordinator for group '%s': %s", group, client_error_text(code));
    if (kafka_error_is_retriable(code)) {
        note_failure(m, e, why);
    } else {
        client_member_fail(m, e, why);
    }
}

static void on_coordinator(struct client_member *m, struct client_member_request *x)
{
    m->is_seeking = false;
    if (x->call.err != ERR_OK) {
        note_failure(m, x->call.err, x->call.why);
        return;
    }
    const struct find_coordinator_response *response = x->call.response;
    if (x->call.version >= KEYS_VERSION_MIN && response->coordinators_count != 1) {
        note_failure(m, ERR_CORRUPT, "the answer names no coordinator");
        return;
    }
    const struct find_coordinator_response_coordinator old = {
        .node_id = response->node_id,
        .host = response->host,
        .port = response->port,
        .error_code = response->error_code,
    };
    take_coordinator(m, x->call.version >= KEYS_VERSION_MIN ? &response->coordinators[0] : &old);
}

static void seek_coordinator(struct client_member *m)
{
    struct client_member_request *x = client_member_request_new(m);
    if (x == NULL || !client_coordinator_fill(&x->call, &x->arena, m->options.group)) {
        if (x != NULL) {
            client_member_request_free(x);
        }
        note_failure(m, ERR_BUSY, "no memory for a request");
        return;
    }
    x->on_answer = on_coordinator;
    m->is_seeking = true;
    client_member_request_send(x, CLIENT_NODE_ANY);
}

/* ---- answers to heartbeats ---- */

/* False without memory. */
static bool take_target(struct client_member *m,
                        const struct consumer_group_heartbeat_response_assignment *a)
{
    size_t count = 0;
    for (size_t i = 0; i < a->topic_partitions_count; i++) {
        count += a->topic_partitions[i].partitions_count;
    }
    struct client_share *target = calloc(count + 1, sizeof(*target));
    if (target == NULL) {
        return false;
    }
    count = 0;
    for (size_t i = 0; i < a->topic_partitions_count; i++) {
        for (size_t j = 0; j < a->topic_partitions[i].partitions_count; j++) {
            target[count++] = (struct client_share){a->topic_partitions[i].topic_id,
                                                    a->topic_partitions[i].partitions[j]};
        }
    }
    if (!client_member_topics_add(m, target, count)) {
        free(target);
        return false;
    }
    qsort(target, count, sizeof(*target), client_share_compare);
    free(m->target);
    m->target = target;
    m->target_count = count;
    m->is_target_new = true;
    m->is_unsettled = true;
    return true;
}

/* What the answer lacked, or what could not be kept of it, comes again with an answer to a whole
 * heartbeat. */
static void try_again(struct client_member *m, enum err e, const char *why)
{
    m->is_full = true;
    note_failure(m, e, why);
}

static void take_place(struct client_member *m, const struct consumer_group_heartbeat_response *r)
{
    if (r->member_epoch <= 0) {
        try_again(m, ERR_CORRUPT, "the coordinator gives the member no epoch");
        return;
    }
    if (r->assignment != NULL && !take_target(m, r->assignment)) {
        try_again(m, ERR_BUSY, "no memory for what is assigned");
        return;
    }
    m->epoch = r->member_epoch;
    m->state = CLIENT_MEMBER_IN;
    m->failures = 0;
    const int32_t interval_ms = r->heartbeat_interval_ms;
    m->interval_ms = interval_ms > 0 ? (uint32_t)interval_ms : INTERVAL_MS_DEFAULT;
    m->interval_ms = m->interval_ms < INTERVAL_MS_MAX ? m->interval_ms : INTERVAL_MS_MAX;
}

/* Broker's own words, if it has some, say more: which pattern, which assignor. */
static const char *words(const struct consumer_group_heartbeat_response *r,
                         struct client_member_request *x)
{
    const char *said =
        r->error_message.size == 0
            ? NULL
            : arena_strndup(&x->arena, (const char *)r->error_message.data, r->error_message.size);
    return said == NULL ? client_error_text(r->error_code) : said;
}

static void refuse(struct client_member *m,
                   const struct consumer_group_heartbeat_response *r,
                   struct client_member_request *x)
{
    const int16_t code = r->error_code;
    char why[CLIENT_WHY_SIZE];
    enum err e =
        client_say(why, client_err_of(code), "group '%s': %s", m->options.group, words(r, x));
    switch (code) {
    case KAFKA_UNKNOWN_MEMBER_ID:
    case KAFKA_FENCED_MEMBER_EPOCH:
        m->is_known = false;
        if (m->state == CLIENT_MEMBER_JOINING) {
            try_again(m, e, why); /* Nothing to lose yet. */
        } else {
            client_member_lose(m);
        }
        break;
    case KAFKA_NOT_COORDINATOR:
    case KAFKA_COORDINATOR_NOT_AVAILABLE:
        client_member_forget_coordinator(m);
        try_again(m, e, why);
        break;
    case KAFKA_UNRELEASED_INSTANCE_ID:
        /* A process that died is let go of only by its session timeout: worth waiting for, and
         * worth a word. */
        if (m->failures == 0) {
            m->err = client_say(m->why,
                                ERR_EXISTS,
                                "group '%s': instance id '%s' is another member's, which lives, or "
                                "has died a moment ago and keeps its place for the session timeout",
                                m->options.group,
                                m->options.instance_id == NULL ? "" : m->options.instance_id);
        }
        try_again(m, ERR_EXISTS, why);
        break;
    case KAFKA_TOPIC_AUTHORIZATION_FAILED:
        try_again(m, e, why);
        break;
    default:
        if (kafka_error_is_retriable(code)) {
            try_again(m, e, why);
        } else {
            client_member_fail(m, e == ERR_NOT_FOUND ? ERR_INVALID : e, why);
        }
    }
}

static void no_answer(struct client_member *m, const struct client_call *call)
{
    const struct client_member_options *o = &m->options;
    char why[CLIENT_WHY_SIZE];
    if (call->err == ERR_UNSUPPORTED) {
        client_member_fail(m,
                           client_say(why,
                                      ERR_UNSUPPORTED,
                                      "%s: members need the consumer group protocol (KIP-848), as "
                                      "brokers of Kafka 4.0 have it",
                                      call->why),
                           why);
    } else if (call->err == ERR_INVALID && o->pattern != NULL &&
               call->version < PATTERN_VERSION_MIN) {
        client_member_fail(m, ERR_UNSUPPORTED, "the broker knows no patterns of topics");
    } else {
        client_member_forget_coordinator(m);
        try_again(m, call->err, call->why);
    }
}

static void on_beat(struct client_member *m, struct client_member_request *x)
{
    const struct consumer_group_heartbeat_request *request = x->call.request;
    const struct consumer_group_heartbeat_response *response = x->call.response;
    m->beats_count--;
    if (request->member_epoch < 0) {
        return; /* Left, or as good as. */
    }
    if (x->serial != m->life || m->state == CLIENT_MEMBER_OUT) {
        return; /* It is over meanwhile, whatever the answer is. */
    }
    if (x->call.err != ERR_OK) {
        no_answer(m, &x->call);
    } else if (response->error_code == KAFKA_NONE) {
        take_place(m, response);
    } else {
        refuse(m, response, x);
    }
}

/* ---- heartbeats ---- */

static bool fill_names(struct client_member *m,
                       struct arena *arena,
                       struct consumer_group_heartbeat_request *request)
{
    const struct client_member_options *o = &m->options;
    request->subscribed_topic_names =
        arena_alloc_array(arena, o->topics_count, sizeof(struct slice));
    if (request->subscribed_topic_names == NULL) {
        return false;
    }
    request->subscribed_topic_names_count = o->topics_count;
    for (size_t i = 0; i < o->topics_count; i++) {
        request->subscribed_topic_names[i] = slice_of_string(o->topics[i]);
    }
    request->subscribed_topic_regex = slice_of_string(o->pattern);
    return true;
}

/* Partitions by topic, in a heartbeat. A topic may have several entries: brokers add them up. */
struct owned {
    struct consumer_group_heartbeat_request_topic_partition *entries;
    size_t entries_count;
    int32_t *partitions;
    size_t partitions_count;
};

static void add_owned(struct owned *o, const struct uuid *topic_id, int32_t partition)
{
    struct consumer_group_heartbeat_request_topic_partition *entry =
        &o->entries[o->entries_count == 0 ? 0 : o->entries_count - 1];
    if (o->entries_count == 0 || !uuid_equal(&entry->topic_id, topic_id)) {
        entry = &o->entries[o->entries_count++];
        consumer_group_heartbeat_request_topic_partition_init(entry);
        entry->topic_id = *topic_id;
        entry->partitions = &o->partitions[o->partitions_count];
    }
    o->partitions[o->partitions_count++] = partition;
    entry->partitions_count++;
}

/* What the program has until it gives it up, and what it will take as soon as it polls: the
 * coordinator lets others have whatever is not named. */
static bool fill_owned(struct client_member *m,
                       struct arena *arena,
                       struct consumer_group_heartbeat_request *request)
{
    const struct client_consumer *s = m->reader;
    const size_t room = m->target_count + s->positions_count;
    struct owned o = {
        .entries = arena_alloc_array(arena, room, sizeof(*o.entries)),
        .partitions = arena_alloc_array(arena, room, sizeof(*o.partitions)),
    };
    if (o.entries == NULL || o.partitions == NULL) {
        return false;
    }
    for (size_t i = 0; i < m->target_count; i++) {
        add_owned(&o, &m->target[i].topic_id, m->target[i].partition);
    }
    for (size_t i = 0; i < s->positions_count; i++) {
        const struct client_position *p = s->positions[i];
        if (!client_member_target_has(m, p)) {
            add_owned(&o, &client_member_topic_at(p)->id, p->partition);
        }
    }
    request->topic_partitions = o.entries;
    request->topic_partitions_count = o.entries_count;
    return true;
}

static int32_t epoch_to_say(const struct client_member *m)
{
    if (m->is_leave_due) {
        return m->options.instance_id != NULL ? EPOCH_LEAVE_STATIC : EPOCH_LEAVE;
    }
    return m->state == CLIENT_MEMBER_JOINING ? EPOCH_JOIN : m->epoch;
}

/* False without memory. */
static bool fill_beat(struct client_member *m, struct client_member_request *x)
{
    const struct client_member_options *o = &m->options;
    struct consumer_group_heartbeat_request *request = arena_alloc(&x->arena, sizeof(*request));
    struct consumer_group_heartbeat_response *response = arena_alloc(&x->arena, sizeof(*response));
    if (request == NULL || response == NULL) {
        return false;
    }
    consumer_group_heartbeat_request_init(request);
    consumer_group_heartbeat_response_init(response);
    request->group_id = slice_of_string(o->group);
    request->member_id = slice_of_string(m->id);
    request->member_epoch = epoch_to_say(m);
    request->instance_id = slice_of_string(o->instance_id);
    const bool is_join = request->member_epoch == EPOCH_JOIN;
    const bool is_full = request->member_epoch >= 0 && (is_join || m->is_full);
    if (is_full) {
        request->rack_id = slice_of_string(o->rack);
        request->rebalance_timeout_ms =
            (int32_t)(o->poll_interval_ms_max > INT32_MAX ? INT32_MAX : o->poll_interval_ms_max);
        request->server_assignor = slice_of_string(o->assignor);
    }
    x->call.api_key = API_CONSUMER_GROUP_HEARTBEAT;
    x->call.request = request;
    x->call.response = response;
    x->on_answer = on_beat;
    const bool has_owned = is_full || (request->member_epoch > 0 && m->is_owned_due);
    return (!is_full || fill_names(m, &x->arena, request)) &&
           (!has_owned || fill_owned(m, &x->arena, request));
}

static void beat(struct client_member *m)
{
    struct client_member_request *x = client_member_request_new(m);
    if (x == NULL || !fill_beat(m, x)) {
        if (x != NULL) {
            client_member_request_free(x);
        }
        note_failure(m, ERR_BUSY, "no memory for a heartbeat");
        return;
    }
    if (m->is_leave_due) {
        m->is_leave_due = false;
        m->is_known = false;
    } else {
        m->is_known = true;
        m->is_full = false;
        m->is_owned_due = false;
    }
    m->beats_count++;
    x->serial = m->life;
    m->beaten_us = client_now_us(m->client);
    client_member_request_send(x, m->coordinator_id);
}

/* ---- a turn ---- */

static uint64_t poll_deadline_us(const struct client_member *m)
{
    const bool is_bound = m->state == CLIENT_MEMBER_IN || m->state == CLIENT_MEMBER_JOINING;
    return is_bound && !m->is_polling
               ? m->polled_us + m->options.poll_interval_ms_max * (uint64_t)1000
               : UINT64_MAX;
}

/* When something is to be said; UINT64_MAX: not before something changes. */
static uint64_t due_us(const struct client_member *m)
{
    if (m->is_leave_due) {
        return m->failures > 0 ? UINT64_MAX : 0;
    }
    if (m->beats_count > 0) {
        return UINT64_MAX;
    }
    if (m->state != CLIENT_MEMBER_IN && m->state != CLIENT_MEMBER_JOINING) {
        return UINT64_MAX;
    }
    if (m->failures > 0) {
        return m->retry_us;
    }
    if (m->state == CLIENT_MEMBER_JOINING || m->is_owned_due || m->is_full) {
        return 0;
    }
    return m->beaten_us + m->interval_ms * (uint64_t)1000;
}

static bool needs_coordinator(const struct client_member *m, uint64_t now_us)
{
    const bool is_bound = m->state == CLIENT_MEMBER_IN || m->state == CLIENT_MEMBER_JOINING;
    return !m->is_seeking && (is_bound || m->is_leave_due) &&
           (m->failures == 0 || m->retry_us <= now_us);
}

static void turn(struct client_member *m, uint64_t *next_us)
{
    const uint64_t now_us = client_now_us(m->client);
    if (poll_deadline_us(m) <= now_us) {
        client_member_leave(m);
        client_member_lose(m);
    }
    if (m->is_leave_due && m->failures > 0) {
        m->is_leave_due = false; /* Nobody to tell: the session timeout will. */
        client_changed(m->client);
    }
    if (m->coordinator_id < 0 && needs_coordinator(m, now_us)) {
        seek_coordinator(m);
    } else if (m->coordinator_id >= 0 && due_us(m) <= now_us) {
        beat(m);
    }
    const uint64_t again_us = m->failures > 0 ? m->retry_us : due_us(m);
    const uint64_t late_us = poll_deadline_us(m);
    *next_us = again_us > now_us && again_us < *next_us ? again_us : *next_us;
    *next_us = late_us < *next_us ? late_us : *next_us;
    client_member_topics_turn(m, next_us);
    client_commits_turn(m, next_us);
}

void client_members_turn(struct client *c, uint64_t *next_us)
{
    list_for_each (node, &c->members) {
        struct client_member *m = container_of(node, struct client_member, link);
        const enum err before = m->err;
        if (!c->is_stopping) {
            turn(m, next_us);
        }
        if (m->err != before) {
            client_changed(c);
        }
    }
}

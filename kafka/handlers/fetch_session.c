/* Fetch and its session: what the request does not say comes from there, and what the session knows
 * is left out of the answer.
 *
 * While the request waits, its session may go, or be asked by another connection: then the answer
 * names everything, which clients take, and the session is left as it is.
 */
#include <string.h>

#include "core/assert.h"
#include "core/shard.h"
#include "kafka/fetch_sessions.h"
#include "kafka/handlers/fetch_priv.h"

static bool is_by_id(const struct request *r)
{
    return r->version >= FETCH_VERSION_IDS;
}

/* ---- the request ---- */

static bool is_of_topic(const struct fetch_session_part *part, const struct fetch_request_topic *t)
{
    return uuid_equal(&part->topic_id, &t->topic_id) &&
           slice_equal(slice_of(part->topic, part->topic_size), t->topic);
}

/* Names are copied: the session may be gone when the answer is made. */
static size_t size_of(const struct fetch_session *session)
{
    size_t size = session->parts_count *
                  (sizeof(struct fetch_request_topic) + sizeof(struct fetch_request_partition));
    list_for_each (node, &session->parts) {
        size += container_of(node, struct fetch_session_part, link)->topic_size;
    }
    return size;
}

/* The request's topics, as if it had named all partitions of the session, in its order. memory is
 * of size_of. */
static void
fill_request(struct fetch_request *in, const struct fetch_session *session, void *memory)
{
    struct fetch_request_partition *partitions =
        (struct fetch_request_partition *)((struct fetch_request_topic *)memory +
                                           session->parts_count);
    uint8_t *names = (uint8_t *)(partitions + session->parts_count);
    struct fetch_request_topic *topic = NULL;
    in->topics = memory;
    in->topics_count = 0;
    list_for_each (node, &session->parts) {
        const struct fetch_session_part *part = container_of(node, struct fetch_session_part, link);
        if (topic == NULL || !is_of_topic(part, topic)) {
            topic = &in->topics[in->topics_count++];
            memcpy(names, part->topic, part->topic_size);
            *topic = (struct fetch_request_topic){
                .topic = slice_of(names, part->topic_size),
                .topic_id = part->topic_id,
                .partitions = partitions,
            };
            names += part->topic_size;
        }
        *partitions++ = part->in;
        topic->partitions_count++;
    }
}

/* As it was when the request came; else NULL. */
static struct fetch_session *find_own(const struct fetch *f)
{
    struct fetch_session *session =
        fetch_sessions_find(f->request->d->fetch_sessions, f->session_id);
    const bool is_own = session != NULL && session->serial == f->session_serial &&
                        session->epoch == f->session_epoch;
    return is_own ? session : NULL;
}

enum err fetch_fill_session(struct fetch *f)
{
    struct request *r = f->request;
    if (f->session_use != FETCH_IN_SESSION) {
        return ERR_OK;
    }
    struct fetch_session *session = find_own(f);
    if (session == NULL) {
        return ERR_NOT_FOUND;
    }
    if (f->session_size > r->arena.size_max - r->arena.used_size) {
        fetch_sessions_close(r->d->fetch_sessions, session);
        return ERR_NOT_FOUND; /* The client asks again, without it. */
    }
    void *memory = request_alloc(r, f->session_size, 1);
    if (memory == NULL) {
        return ERR_BUSY;
    }
    fill_request(r->in, session, memory);
    return ERR_OK;
}

static enum kafka_error go_on(struct fetch *f, struct fetch_sessions *fs)
{
    struct request *r = f->request;
    struct fetch_request *in = r->in;
    struct fetch_session *session = fetch_sessions_find(fs, in->session_id);
    if (session == NULL) {
        return KAFKA_FETCH_SESSION_ID_NOT_FOUND;
    }
    const enum kafka_error error =
        fetch_session_update(fs, session, in, is_by_id(r), r->d->s->now_us);
    if (error != KAFKA_NONE) {
        return error;
    }
    if (session->parts_count == 0) {
        fetch_sessions_close(fs, session);
        in->topics_count = 0;
        return KAFKA_NONE;
    }
    f->session_use = FETCH_IN_SESSION;
    f->session_id = session->id;
    f->session_epoch = session->epoch;
    f->session_serial = session->serial;
    f->session_parts_count = session->parts_count;
    f->session_size = size_of(session);
    return KAFKA_NONE;
}

enum kafka_error fetch_begin_session(struct fetch *f)
{
    struct request *r = f->request;
    struct fetch_sessions *fs = r->d->fetch_sessions;
    const struct fetch_request *in = r->in;
    if (r->version < FETCH_VERSION_SESSIONS) {
        return KAFKA_NONE;
    }
    if (in->session_epoch != FETCH_SESSION_EPOCH_INITIAL &&
        in->session_epoch != FETCH_SESSION_EPOCH_FINAL) {
        return go_on(f, fs);
    }
    struct fetch_session *old = fetch_sessions_find(fs, in->session_id);
    if (old != NULL) {
        fetch_sessions_close(fs, old);
    }
    if (in->session_epoch == FETCH_SESSION_EPOCH_INITIAL && in->topics_count > 0) {
        f->session_use = FETCH_OPENS_SESSION;
    }
    return KAFKA_NONE;
}

/* ---- the answer ---- */

static void open_session(struct fetch *f, struct fetch_sessions *fs)
{
    const struct request *r = f->request;
    const struct fetch_request *in = r->in;
    struct fetch_session *session =
        fetch_sessions_open(fs, is_by_id(r), (uint32_t)f->parts_count, r->d->s->now_us);
    const struct fetch_part *part = f->parts;
    for (size_t i = 0; i < in->topics_count && session != NULL; i++) {
        for (size_t k = 0; k < in->topics[i].partitions_count; k++, part++) {
            struct fetch_session_part *kept =
                fetch_session_put(fs, session, &in->topics[i], part->in, r->d->s->now_us);
            if (kept == NULL) {
                fetch_sessions_close(fs, session);
                return;
            }
            (void)fetch_session_take(session, kept, part->out);
        }
    }
    f->out.session_id = session == NULL ? FETCH_SESSION_NONE : session->id;
}

/* Takes the partitions out of the answer that the session does not have to name. The session's are
 * those of f->parts, in this order. */
static void leave_out_unchanged(struct fetch *f, struct fetch_session *session)
{
    size_t topics_count = 0;
    struct list *node = session->parts.next;
    for (size_t i = 0; i < f->out.responses_count; i++) {
        struct fetch_response_topic *topic = &f->out.responses[i];
        const size_t partitions_count = topic->partitions_count;
        topic->partitions_count = 0;
        for (size_t k = 0; k < partitions_count; k++) {
            struct fetch_session_part *part = container_of(node, struct fetch_session_part, link);
            node = node->next; /* Before it moves. */
            if (fetch_session_take(session, part, &topic->partitions[k])) {
                topic->partitions[topic->partitions_count++] = topic->partitions[k];
            }
        }
        if (topic->partitions_count > 0) {
            f->out.responses[topics_count++] = *topic;
        }
    }
    f->out.responses_count = topics_count;
}

void fetch_end_session(struct fetch *f)
{
    struct fetch_sessions *fs = f->request->d->fetch_sessions;
    if (!f->is_prepared) { /* Nothing is known of its partitions: none has changed. */
        f->out.session_id = f->session_use == FETCH_IN_SESSION ? f->session_id : FETCH_SESSION_NONE;
        return;
    }
    if (f->session_use == FETCH_OPENS_SESSION) {
        open_session(f, fs);
        return;
    }
    if (f->session_use == FETCH_IN_SESSION) {
        struct fetch_session *session = find_own(f);
        f->out.session_id = f->session_id;
        if (session != NULL) {
            assert_cmp(session->parts_count, ==, f->parts_count);
            leave_out_unchanged(f, session);
        }
    }
}

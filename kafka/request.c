#include "kafka/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "core/shard.h"
#include "core/wbuf.h"
#include "kafka/dispatch_priv.h"
#include "kafka/proto/header.h"

enum {
    ANSWER_SIZE_MAX = 256 << 20,
    TEXT_SIZE_MAX = 512, /* Above the longest topic name. */
    COMPLAINT_INTERVAL_US = 10 * 1000 * 1000,
};

void request_hold(struct request *r)
{
    assert_cmp(r->holds_count, >, 0);
    r->holds_count++;
}

void request_release(struct request *r)
{
    assert_cmp(r->holds_count, >, 0);
    r->holds_count--;
    if (r->holds_count == 0) {
        assert(request_is_answered(r));
        assert(list_is_empty(&r->parked_link));
        dispatch_recycle(r);
    }
}

bool request_is_answered(const struct request *r)
{
    return r->conn_request == NULL;
}

const struct net_address *request_endpoint(const struct request *r)
{
    assert(!request_is_answered(r));
    const struct dispatch_settings *settings = r->d->settings;
    const uint32_t index = conn_listener_index(r->conn);
    assert_cmp(index, <, settings->advertised_count);
    return &settings->advertised[index];
}

void *request_alloc(struct request *r, size_t count, size_t size)
{
    return arena_alloc_array(&r->arena, count, size);
}

struct slice request_text(struct request *r, const char *format, ...)
{
    char text[TEXT_SIZE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return slice_of_string(arena_strndup(&r->arena, text, strlen(text)));
}

/* The request's connection side ends here; what is left of r lives on for its operations. */
static struct conn_request *take_conn_request(struct request *r)
{
    assert(!request_is_answered(r));
    struct conn_request *cr = r->conn_request;
    r->conn_request = NULL;
    r->conn = NULL;
    dispatch_count_answer(r);
    return cr;
}

enum err request_encode_header(struct request *r, struct wbuf *w)
{
    return response_header_encode(w, r->api->key, r->version, r->correlation_id);
}

void request_answer(struct request *r, const void *response)
{
    struct wbuf w;
    wbuf_init(&w, ANSWER_SIZE_MAX);
    enum err e = request_encode_header(r, &w);
    if (e == ERR_OK) {
        e = r->api->schema->response.encode(&w, r->version, response);
    }
    if (e != ERR_OK) {
        /* Out of memory, or an answer that no client could take. */
        wbuf_done(&w);
        request_abort(r, err_name(e));
        return;
    }
    size_t size = 0;
    uint8_t *data = wbuf_take(&w, &size);
    conn_answer(take_conn_request(r), data, size);
}

void request_answer_pieces(struct request *r,
                           void *memory,
                           const struct conn_piece *pieces,
                           uint32_t pieces_count)
{
    conn_answer_pieces(take_conn_request(r), memory, pieces, pieces_count);
}

void request_on_release(struct request *r, struct conn_release *rel)
{
    assert(r->conn_request != NULL);
    conn_request_on_release(r->conn_request, rel);
}

void request_answer_nothing(struct request *r)
{
    conn_answer_nothing(take_conn_request(r));
}

void request_abort(struct request *r, const char *why)
{
    if (r->arena.is_over_budget) { /* It is not this one's fault, or not alone. */
        why = "\"all requests together take too much memory: raise --memory\"";
    }
    if (request_may_complain(r)) {
        log_warn(r->d->s->log,
                 "request_refused",
                 "peer=%s api=%s version=%d client_id=%.*s why=%s",
                 conn_peer(r->conn),
                 r->api->schema->name,
                 r->version,
                 (int)(r->client_id.size < 64 ? r->client_id.size : 64),
                 slice_is_null(r->client_id) ? "" : (const char *)r->client_id.data,
                 why);
    }
    conn_abort(take_conn_request(r));
}

void request_drop_frame(struct request *r)
{
    if (r->frame_buf == NULL) {
        return;
    }
    if (!request_is_answered(r)) {
        conn_request_drop_frame(r->conn_request);
    }
    buf_unref(r->frame_buf);
    r->frame_buf = NULL;
    r->client_id = (struct slice){0};
}

void request_park(struct request *r, void (*unpark)(struct request *r))
{
    assert(!request_is_answered(r));
    assert(list_is_empty(&r->parked_link));
    r->unpark = unpark;
    list_push_back(&r->d->parked, &r->parked_link);
    /* A barrier request is alone on its connection, so that the one place is enough. */
    assert_cmp(r->api->class, ==, CONN_BARRIER);
    conn_set_state(r->conn, r);
}

void request_unpark(struct request *r)
{
    if (list_is_empty(&r->parked_link)) {
        return;
    }
    list_remove(&r->parked_link);
    conn_set_state(r->conn, NULL);
}

bool request_may_complain(struct request *r)
{
    struct dispatch *d = r->d;
    if (d->s->now_us < d->complaint_after_us) {
        return false;
    }
    d->complaint_after_us = d->s->now_us + COMPLAINT_INTERVAL_US;
    return true;
}

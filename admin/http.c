/* The connection machine.
 *
 *   READING -> HANDLING -> ANSWERING -> READING ...          keep-alive
 *      |                      |
 *      +--------------------> +-------> LINGERING -> CLOSING -> CLOSED
 *        a bad request: its answer        after an error: what the peer still sends is read away,
 *                                         because closing on unread bytes resets the connection
 *                                         and the peer may lose the answer
 *
 * While a request is handled or answered the stream is paused; what the transport had read already
 * is kept in `pending`.
 */
#include "admin/http.h"

#include <http_parser.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "admin/http_text_priv.h"
#include "core/assert.h"
#include "core/shard.h"
#include "core/wbuf.h"
#include "net/log_limit.h"

enum {
    PENDING_SIZE_MAX = 256 << 10, /* A few receive buffers of the transport. */
    LINGER_US = 1000 * 1000,
    HTTP_SERVER_STATS = 4,
};

const struct http_limits http_limits_default = {
    .conns_max = 128,
    .body_size_max = 1 << 20,
    .bodies_size_max = 16 << 20,
    .request_timeout_us = 10 * 1000 * 1000,
    .keep_alive_timeout_us = 75 * 1000 * 1000,
    .answer_timeout_us = 30 * 1000 * 1000,
};

enum http_state {
    HTTP_READING,
    HTTP_HANDLING,
    HTTP_ANSWERING,
    HTTP_LINGERING,
    HTTP_CLOSING,
    HTTP_CLOSED,
};

struct header_place {
    uint32_t name_pos; /* In http_conn.text, as value_pos. */
    uint32_t name_size;
    uint32_t value_pos;
    uint32_t value_size;
};

struct http_conn {
    struct list link; /* http_server.conns */
    struct http_server *server;
    struct stream *stream;
    enum http_state state;
    struct timer timer;
    struct http_request request;

    http_parser parser;
    struct wbuf text; /* The url, then names and values. */
    size_t url_size;
    struct header_place headers[HTTP_HEADERS_MAX];
    uint32_t headers_count;
    bool is_in_value; /* The last piece of a header was of its value. */
    bool is_begun;    /* Some of the request is there. */
    bool is_keep_alive;
    uint32_t error_status; /* Why a parser callback gave up; 0 = it did not. */
    const char *error_detail;
    uint8_t *body;
    size_t body_size;
    size_t body_capacity;

    uint8_t *pending;
    size_t pending_pos;
    size_t pending_size;

    char head[HTTP_HEAD_SIZE_MAX];
    uint8_t *answer_data;
    struct iovec iov[2];
    struct stream_send send;
    struct iovec continue_iov;
    struct stream_send continue_send;
    bool is_sending;
    bool is_sending_continue;
    bool is_eof; /* The client sends no more; what it asked is answered. */
};

struct http_server {
    struct shard *shard;
    struct transport *transport;
    struct http_limits limits;
    void *context;
    void (*on_request)(void *context, struct http_request *r);
    struct list conns;
    size_t bodies_size;

    bool is_stopping;
    void *stop_context;
    void (*on_stopped)(void *context);
    struct task stop_task;

    struct log_limit log_refused;
    uint64_t conns_count;
    uint64_t refused_count;
    uint64_t requests_count;
    uint64_t errors_count;
    struct stat stats[HTTP_SERVER_STATS];
};

static void feed(struct http_conn *c, const uint8_t *data, size_t size);

/* --- memory ----------------------------------------------------------------------------------- */

static void forget_body(struct http_conn *c)
{
    c->server->bodies_size -= c->body_capacity;
    free(c->body);
    c->body = NULL;
    c->body_size = 0;
    c->body_capacity = 0;
}

static void forget_request(struct http_conn *c)
{
    forget_body(c);
    wbuf_done(&c->text);
    wbuf_init(&c->text, HTTP_URL_SIZE_MAX + HTTP_HEADERS_SIZE_MAX);
    c->url_size = 0;
    c->headers_count = 0;
    c->is_in_value = false;
    c->is_begun = false;
    c->error_status = 0;
}

static void forget_pending(struct http_conn *c)
{
    free(c->pending);
    c->pending = NULL;
    c->pending_pos = 0;
    c->pending_size = 0;
}

static void free_if_done(struct http_conn *c)
{
    struct http_server *hs = c->server;
    if (c->state != HTTP_CLOSED || c->is_sending || c->is_sending_continue) {
        return;
    }
    if (c->request.conn != NULL) {
        return; /* With the handler. */
    }
    forget_request(c);
    wbuf_done(&c->text);
    forget_pending(c);
    stream_free(c->stream);
    list_remove(&c->link);
    free(c);
    hs->conns_count--;
    if (hs->is_stopping && hs->conns_count == 0) {
        shard_post(hs->shard, &hs->stop_task);
    }
}

static void close_conn(struct http_conn *c)
{
    if (c->state >= HTTP_CLOSING) {
        return;
    }
    c->state = HTTP_CLOSING;
    timer_cancel(&c->server->shard->timers, &c->timer);
    forget_pending(c);
    stream_close(c->stream);
}

static void arm(struct http_conn *c, uint64_t timeout_us)
{
    shard_timer_arm(c->server->shard, &c->timer, timeout_us);
}

/* --- answering -------------------------------------------------------------------------------- */

static void on_answer_released(struct stream_send *send);

static void send_answer(struct http_conn *c, const struct http_answer *a)
{
    bool is_bare = c->parser.method == HTTP_HEAD && c->error_status == 0;
    const struct http_head head = {.status = a->status,
                                   .content_type = a->content_type,
                                   .header = a->header,
                                   .content_size = a->size,
                                   .wall_ms = c->server->shard->wall_ms,
                                   .is_keep_alive = c->is_keep_alive};
    c->iov[0] = (struct iovec){.iov_base = c->head, .iov_len = http_format_head(&head, c->head)};
    c->iov[1] = (struct iovec){.iov_base = a->data, .iov_len = a->size};
    c->answer_data = a->data;
    c->state = HTTP_ANSWERING;
    c->server->errors_count += a->status >= 400 ? 1 : 0;
    arm(c, c->server->limits.answer_timeout_us);
    c->is_sending = true;
    c->send = (struct stream_send){.iov = c->iov,
                                   .iov_count = is_bare || a->size == 0 ? 1 : 2,
                                   .on_released = on_answer_released};
    stream_send(c->stream, &c->send);
}

static void
send_problem(struct http_conn *c, uint32_t status, const char *detail, const char *header)
{
    struct http_answer a = {
        .status = status, .content_type = "application/problem+json", .header = header};
    a.data = (uint8_t *)http_format_problem(status, detail, &a.size);
    if (a.data == NULL) {
        a.size = 0; /* The status alone still tells the essential. */
    }
    send_answer(c, &a);
}

/* The request cannot be understood, or not be taken: nothing behind it can be, either. */
static void refuse_request(struct http_conn *c, uint32_t status, const char *detail)
{
    c->error_status = status;
    c->is_keep_alive = false;
    forget_body(c);
    forget_pending(c);
    stream_pause(c->stream);
    send_problem(c, status, detail, NULL);
}

static void read_next(struct http_conn *c)
{
    c->state = HTTP_READING;
    forget_request(c);
    http_parser_pause(&c->parser, 0);
    arm(c, c->server->limits.keep_alive_timeout_us);

    uint8_t *pending = c->pending;
    size_t pos = c->pending_pos;
    size_t size = c->pending_size;
    c->pending = NULL;
    forget_pending(c);
    if (pos < size) {
        feed(c, pending + pos, size - pos);
    }
    free(pending);
    if (c->state != HTTP_READING) {
        return;
    }
    if (c->is_eof) {
        close_conn(c);
    } else {
        stream_resume(c->stream);
    }
}

static void on_answer_released(struct stream_send *send)
{
    struct http_conn *c = container_of(send, struct http_conn, send);
    c->is_sending = false;
    free(c->answer_data);
    c->answer_data = NULL;
    if (c->state != HTTP_ANSWERING) {
        free_if_done(c);
        return;
    }
    if (c->is_keep_alive && !c->server->is_stopping) {
        read_next(c);
    } else if (c->error_status != 0 && !c->is_eof) {
        c->state = HTTP_LINGERING;
        arm(c, LINGER_US);
        stream_resume(c->stream);
    } else {
        close_conn(c);
    }
}

/* Takes the request back from the handler. NULL if the connection is gone. */
static struct http_conn *end_request(struct http_request *r)
{
    struct http_conn *c = r->conn;
    assert(c != NULL);
    r->conn = NULL;
    if (c->state == HTTP_HANDLING) {
        c->is_keep_alive = c->is_keep_alive && !c->server->is_stopping;
        return c;
    }
    free_if_done(c);
    return NULL;
}

void http_answer(struct http_request *r, const struct http_answer *a)
{
    struct http_conn *c = end_request(r);
    if (c == NULL) {
        free(a->data);
        return;
    }
    send_answer(c, a);
}

void http_answer_problem(struct http_request *r,
                         uint32_t status,
                         const char *detail,
                         const char *header)
{
    struct http_conn *c = end_request(r);
    if (c != NULL) {
        send_problem(c, status, detail, header);
    }
}

/* --- requests --------------------------------------------------------------------------------- */

static enum http_verb verb_of(const http_parser *p)
{
    switch (p->method) {
    case HTTP_GET:
        return HTTP_VERB_GET;
    case HTTP_HEAD:
        return HTTP_VERB_HEAD;
    case HTTP_POST:
        return HTTP_VERB_POST;
    case HTTP_PUT:
        return HTTP_VERB_PUT;
    case HTTP_DELETE:
        return HTTP_VERB_DELETE;
    case HTTP_PATCH:
        return HTTP_VERB_PATCH;
    case HTTP_OPTIONS:
        return HTTP_VERB_OPTIONS;
    default:
        return HTTP_VERB_OTHER;
    }
}

static struct slice text_at(const struct http_conn *c, size_t pos, size_t size)
{
    return size == 0 ? slice_of("", 0) : slice_of(c->text.data + pos, size);
}

/* The parser leaves it (RFC 9112, 5.1: it is no part of the value). */
static struct slice without_end_space(struct slice s)
{
    while (s.size > 0 && (s.data[s.size - 1] == ' ' || s.data[s.size - 1] == '\t')) {
        s.size--;
    }
    return s;
}

struct slice http_request_header(const struct http_request *r, const char *name)
{
    const struct http_conn *c = r->conn;
    size_t size = strlen(name);
    for (uint32_t i = 0; i < c->headers_count; i++) {
        const struct header_place *h = &c->headers[i];
        bool is_it = h->name_size == size &&
                     strncasecmp((const char *)c->text.data + h->name_pos, name, size) == 0;
        if (is_it) {
            return without_end_space(text_at(c, h->value_pos, h->value_size));
        }
    }
    return (struct slice){0};
}

/* "http://host/path" (a proxy's form) and "/path" are the same to us. */
static bool split_url(struct http_conn *c)
{
    struct http_parser_url url;
    http_parser_url_init(&url);
    bool is_connect = c->parser.method == HTTP_CONNECT;
    if (http_parser_parse_url((const char *)c->text.data, c->url_size, is_connect, &url) != 0) {
        return false;
    }
    c->request.path = slice_of("/", 1);
    c->request.query = slice_of("", 0);
    if ((url.field_set & (1 << UF_PATH)) != 0) {
        c->request.path = text_at(c, url.field_data[UF_PATH].off, url.field_data[UF_PATH].len);
    }
    if ((url.field_set & (1 << UF_QUERY)) != 0) {
        c->request.query = text_at(c, url.field_data[UF_QUERY].off, url.field_data[UF_QUERY].len);
    }
    return true;
}

static void start_request(struct http_conn *c)
{
    struct http_server *hs = c->server;
    timer_cancel(&hs->shard->timers, &c->timer);
    stream_pause(c->stream);
    c->is_keep_alive = http_should_keep_alive(&c->parser) != 0;
    c->request.conn = c;
    c->request.verb = verb_of(&c->parser);
    c->request.body = slice_of(c->body, c->body_size);
    bool has_host = !slice_is_null(http_request_header(&c->request, "Host"));
    if (!split_url(c) || (c->parser.http_minor >= 1 && !has_host)) {
        c->request.conn = NULL;
        refuse_request(c, 400, "The request needs a valid target and a Host header.");
        return;
    }
    hs->requests_count++;
    c->state = HTTP_HANDLING;
    hs->on_request(hs->context, &c->request); /* May answer; does not free c. */
}

/* --- the parser's callbacks ------------------------------------------------------------------- */

static const char headers_detail[] = "The headers may have 64 lines and 16 KiB.";
static const char version_detail[] = "Only HTTP/1.1 and HTTP/1.0 are spoken here.";
static const char body_detail[] = "The body is too large for this interface.";

/* Non-zero ends the parse. */
static int fail(struct http_conn *c, uint32_t status, const char *detail)
{
    c->error_status = status;
    c->error_detail = detail;
    return -1;
}

static int on_message_begin(http_parser *p)
{
    struct http_conn *c = p->data;
    c->is_begun = true;
    arm(c, c->server->limits.request_timeout_us);
    return 0;
}

static int add_text(struct http_conn *c, const char *data, size_t size)
{
    wbuf_bytes(&c->text, data, size);
    if (wbuf_failure(&c->text) != ERR_OK) {
        return fail(c, 503, "No memory for the request: try again later.");
    }
    return 0;
}

static int on_url(http_parser *p, const char *data, size_t size)
{
    struct http_conn *c = p->data;
    c->url_size += size;
    if (c->url_size > HTTP_URL_SIZE_MAX) {
        return fail(c, 414, "The request target may have 4096 bytes.");
    }
    return add_text(c, data, size);
}

/* Another piece of a header. */
static int add_header_text(struct http_conn *c, const char *data, size_t size)
{
    if (c->text.size - c->url_size + size > HTTP_HEADERS_SIZE_MAX) {
        return fail(c, 431, headers_detail);
    }
    return add_text(c, data, size);
}

static int on_header_field(http_parser *p, const char *data, size_t size)
{
    struct http_conn *c = p->data;
    if (c->headers_count == 0 || c->is_in_value) {
        if (c->headers_count == HTTP_HEADERS_MAX) {
            return fail(c, 431, headers_detail);
        }
        c->headers[c->headers_count++] = (struct header_place){.name_pos = (uint32_t)c->text.size};
        c->is_in_value = false;
    }
    c->headers[c->headers_count - 1].name_size += (uint32_t)size;
    return add_header_text(c, data, size);
}

static int on_header_value(http_parser *p, const char *data, size_t size)
{
    struct http_conn *c = p->data;
    assert_cmp(c->headers_count, >, 0);
    struct header_place *h = &c->headers[c->headers_count - 1];
    if (!c->is_in_value) {
        c->is_in_value = true;
        h->value_pos = (uint32_t)c->text.size;
    }
    h->value_size += (uint32_t)size;
    return add_header_text(c, data, size);
}

static void on_continue_released(struct stream_send *send)
{
    struct http_conn *c = container_of(send, struct http_conn, continue_send);
    c->is_sending_continue = false;
    free_if_done(c);
}

static void send_continue(struct http_conn *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (c->is_sending_continue) {
        return; /* Only a hint, and the last one has not even left. */
    }
    c->is_sending_continue = true;
    c->continue_iov =
        (struct iovec){.iov_base = (void *)(uintptr_t)text, .iov_len = sizeof(text) - 1};
    c->continue_send = (struct stream_send){
        .iov = &c->continue_iov, .iov_count = 1, .on_released = on_continue_released};
    stream_send(c->stream, &c->continue_send);
}

static int on_headers_complete(http_parser *p)
{
    struct http_conn *c = p->data;
    /* An upgrade that is not taken up is no error (RFC 9110, 7.8). */
    p->upgrade = 0;
    if (p->http_major != 1) {
        return fail(c, 505, version_detail);
    }
    bool has_length = p->content_length != UINT64_MAX; /* The parser's "none was given". */
    if (has_length && p->content_length > c->server->limits.body_size_max) {
        return fail(c, 413, body_detail);
    }
    c->request.conn = c;
    struct slice expect = http_request_header(&c->request, "Expect");
    c->request.conn = NULL;
    bool is_expecting =
        expect.size == 12 && strncasecmp((const char *)expect.data, "100-continue", 12) == 0;
    if (is_expecting && p->http_minor >= 1) {
        send_continue(c);
    }
    return 0;
}

static int on_body(http_parser *p, const char *data, size_t size)
{
    struct http_conn *c = p->data;
    struct http_server *hs = c->server;
    if (c->body_size + size > hs->limits.body_size_max) {
        return fail(c, 413, body_detail);
    }
    if (c->body_size + size > c->body_capacity) {
        size_t capacity = c->body_capacity == 0 ? 4096 : c->body_capacity;
        while (capacity < c->body_size + size) {
            capacity *= 2;
        }
        size_t growth = capacity - c->body_capacity;
        uint8_t *grown = hs->bodies_size + growth > hs->limits.bodies_size_max
                             ? NULL
                             : realloc(c->body, capacity);
        if (grown == NULL) {
            return fail(c, 503, "Too many large requests at once: try again later.");
        }
        c->body = grown;
        c->body_capacity = capacity;
        hs->bodies_size += growth;
    }
    memcpy(c->body + c->body_size, data, size);
    c->body_size += size;
    return 0;
}

static int on_message_complete(http_parser *p)
{
    http_parser_pause(p, 1);
    return 0;
}

static const http_parser_settings parser_settings = {
    .on_message_begin = on_message_begin,
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* --- the stream's callbacks ------------------------------------------------------------------- */

static void refuse_parse(struct http_conn *c)
{
    if (c->error_status != 0) {
        refuse_request(c, c->error_status, c->error_detail);
        return;
    }
    enum http_errno error = HTTP_PARSER_ERRNO(&c->parser);
    if (error == HPE_HEADER_OVERFLOW) {
        refuse_request(c, 431, headers_detail);
    } else if (error == HPE_INVALID_VERSION) {
        refuse_request(c, 505, version_detail);
    } else {
        refuse_request(c, 400, "This is not an HTTP/1.1 request (Kafka has another port).");
    }
}

static void keep_pending(struct http_conn *c, const uint8_t *data, size_t size)
{
    uint8_t *grown = c->pending_size + size > PENDING_SIZE_MAX
                         ? NULL
                         : realloc(c->pending, c->pending_size + size);
    if (grown == NULL) {
        close_conn(c);
        return;
    }
    memcpy(grown + c->pending_size, data, size);
    c->pending = grown;
    c->pending_size += size;
}

static void feed(struct http_conn *c, const uint8_t *data, size_t size)
{
    assert(c->state == HTTP_READING);
    size_t used = http_parser_execute(&c->parser, &parser_settings, (const char *)data, size);
    enum http_errno error = HTTP_PARSER_ERRNO(&c->parser);
    if (error == HPE_PAUSED) {
        if (used < size) {
            keep_pending(c, data + used, size - used);
        }
        if (c->state == HTTP_READING) {
            start_request(c);
        }
    } else if (error != HPE_OK || used != size) {
        refuse_parse(c);
    }
}

static void on_data(void *user, const uint8_t *data, size_t size)
{
    struct http_conn *c = user;
    switch (c->state) {
    case HTTP_READING:
        feed(c, data, size);
        break;
    case HTTP_HANDLING:
    case HTTP_ANSWERING:
        if (c->error_status == 0) {
            keep_pending(c, data, size);
        }
        break;
    case HTTP_LINGERING:
    case HTTP_CLOSING:
    case HTTP_CLOSED:
        break;
    }
}

static void on_received(void *user)
{
    (void)user;
    assert(false && "no stream_receive_into here");
}

static void on_eof(void *user)
{
    struct http_conn *c = user;
    c->is_eof = true;
    if (c->state == HTTP_READING || c->state == HTTP_LINGERING) {
        close_conn(c);
    }
}

static void on_closed(void *user, enum err reason)
{
    (void)reason;
    struct http_conn *c = user;
    timer_cancel(&c->server->shard->timers, &c->timer);
    c->state = HTTP_CLOSED;
    free_if_done(c);
}

static const struct stream_user_ops stream_ops = {
    .on_data = on_data,
    .on_received = on_received,
    .on_eof = on_eof,
    .on_closed = on_closed,
};

static void on_timer(struct timer *t)
{
    struct http_conn *c = container_of(t, struct http_conn, timer);
    if (c->state == HTTP_READING && c->is_begun) {
        refuse_request(c, 408, "The request took too long to arrive.");
    } else {
        close_conn(c);
    }
}

static void *on_accept(void *context,
                       struct stream *st,
                       const char *peer,
                       const struct stream_user_ops **ret_ops)
{
    struct http_server *hs = context;
    struct http_conn *c = NULL;
    if (!hs->is_stopping && hs->conns_count < hs->limits.conns_max) {
        c = calloc(1, sizeof(*c));
    }
    if (c == NULL) {
        hs->refused_count++;
        uint64_t held;
        if (log_limit_pass(&hs->log_refused, hs->shard->now_us, &held)) {
            log_warn(hs->shard->log,
                     "admin_connection_refused",
                     "peer=%s connections=%" PRIu64 " connections_max=%u held_back=%" PRIu64,
                     peer,
                     hs->conns_count,
                     hs->limits.conns_max,
                     held);
        }
        return NULL;
    }
    c->server = hs;
    c->stream = st;
    wbuf_init(&c->text, HTTP_URL_SIZE_MAX + HTTP_HEADERS_SIZE_MAX);
    http_parser_init(&c->parser, HTTP_REQUEST);
    c->parser.data = c;
    timer_init(&c->timer, on_timer);
    /* A client that connects is expected to ask. */
    arm(c, hs->limits.request_timeout_us);
    list_push_back(&hs->conns, &c->link);
    hs->conns_count++;
    *ret_ops = &stream_ops;
    return c;
}

/* --- the server ------------------------------------------------------------------------------- */

static void add_stats(struct http_server *hs)
{
    const struct stat rows[HTTP_SERVER_STATS] = {
        {.kind = STAT_GAUGE,
         .name = "coreflume_admin_connections",
         .help = "Open HTTP connections.",
         .value = &hs->conns_count},
        {.kind = STAT_COUNTER,
         .name = "coreflume_admin_connections_refused_total",
         .help = "HTTP connections closed at accept, at the limit of connections.",
         .value = &hs->refused_count},
        {.kind = STAT_COUNTER,
         .name = "coreflume_admin_requests_total",
         .help = "HTTP requests taken.",
         .value = &hs->requests_count},
        {.kind = STAT_COUNTER,
         .name = "coreflume_admin_errors_total",
         .help = "HTTP answers with a status of 400 and above.",
         .value = &hs->errors_count},
    };
    for (size_t i = 0; i < HTTP_SERVER_STATS; i++) {
        hs->stats[i] = rows[i];
        hs->stats[i].labels = "";
        stats_add(&hs->shard->stats, &hs->stats[i]);
    }
}

static void run_stop_task(struct task *t)
{
    struct http_server *hs = container_of(t, struct http_server, stop_task);
    hs->on_stopped(hs->stop_context); /* May free hs. */
}

enum err http_server_new(const struct http_server_options *o, struct http_server **ret_server)
{
    struct http_server *hs = calloc(1, sizeof(*hs));
    if (hs == NULL) {
        return ERR_BUSY;
    }
    hs->shard = o->shard;
    hs->transport = o->transport;
    hs->limits = o->limits;
    hs->context = o->context;
    hs->on_request = o->on_request;
    list_init(&hs->conns);
    task_init(&hs->stop_task, "http_server_stop", run_stop_task);
    add_stats(hs);
    *ret_server = hs;
    return ERR_OK;
}

enum err http_server_listen(struct http_server *hs,
                            const struct net_address *address,
                            uint16_t *ret_port,
                            char why[NET_WHY_SIZE])
{
    const struct listen_options o = {.address = *address, .context = hs, .on_accept = on_accept};
    return hs->transport->ops->listen(hs->transport, &o, ret_port, why);
}

void http_server_stop(struct http_server *hs, void *context, void (*on_stopped)(void *context))
{
    assert(!hs->is_stopping);
    hs->is_stopping = true;
    hs->stop_context = context;
    hs->on_stopped = on_stopped;
    hs->transport->ops->stop_listening(hs->transport, hs);
    list_for_each (node, &hs->conns) {
        struct http_conn *c = container_of(node, struct http_conn, link);
        if (c->state == HTTP_READING || c->state == HTTP_LINGERING) {
            close_conn(c);
        }
    }
    if (hs->conns_count == 0) {
        shard_post(hs->shard, &hs->stop_task);
    }
}

void http_server_free(struct http_server *hs)
{
    if (hs == NULL) {
        return;
    }
    assert_cmp(hs->conns_count, ==, 0);
    list_remove(&hs->stop_task.link);
    for (size_t i = 0; i < HTTP_SERVER_STATS; i++) {
        stats_remove(&hs->stats[i]);
    }
    free(hs);
}

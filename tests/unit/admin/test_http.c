/* HTTP over the fake transport. The handler answers every request with its verb, target and body,
 * at once, but /later, which the test answers.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/http.h"
#include "core/assert.h"

#include "tests/support/fake_transport.h"
#include "tests/support/test_shard.h"

enum {
    SECOND_US = 1000 * 1000,
};

struct rig {
    struct test_shard ts;
    struct fake_transport *ft;
    struct http_server *hs;
    uint16_t port;
    struct http_request *later;
    uint32_t requests_count;
    bool is_stopped;
};

static void answer_text(struct http_request *r, const char *text)
{
    http_answer(r,
                &(struct http_answer){.status = 200,
                                      .content_type = "text/plain",
                                      .data = (uint8_t *)strdup(text),
                                      .size = strlen(text)});
}

static void on_request(void *context, struct http_request *r)
{
    struct rig *g = context;
    g->requests_count++;
    if (slice_equal_string(r->path, "/later")) {
        g->later = r;
        return;
    }
    char text[8192];
    struct slice tag = http_request_header(r, "x-tag");
    (void)snprintf(text,
                   sizeof(text),
                   "%d %.*s?%.*s tag=%.*s body=%.*s",
                   (int)r->verb,
                   (int)r->path.size,
                   r->path.data,
                   (int)r->query.size,
                   r->query.data,
                   (int)tag.size,
                   tag.data,
                   (int)(r->body.size < 100 ? r->body.size : 100),
                   r->body.data);
    answer_text(r, text);
}

static void rig_init_limits(struct rig *g, const struct http_limits *limits)
{
    memset(g, 0, sizeof(*g));
    test_shard_init(&g->ts, 1 << 20);
    g->ft = fake_transport_new();
    const struct http_server_options o = {.shard = &g->ts.shard,
                                          .transport = fake_transport_of(g->ft),
                                          .limits = *limits,
                                          .context = g,
                                          .on_request = on_request};
    cr_assert(eq(int, http_server_new(&o, &g->hs), ERR_OK));
    const struct net_address a = {.host = "any"};
    char why[NET_WHY_SIZE];
    cr_assert(eq(int, http_server_listen(g->hs, &a, &g->port, why), ERR_OK));
}

static void rig_init(struct rig *g)
{
    rig_init_limits(g, &http_limits_default);
}

static void run(struct rig *g)
{
    do {
        test_shard_run(&g->ts);
    } while (fake_transport_run(g->ft) > 0);
    test_shard_run(&g->ts);
}

static void advance(struct rig *g, uint64_t us)
{
    test_shard_advance(&g->ts, us);
    run(g);
}

static void on_stopped(void *context)
{
    ((struct rig *)context)->is_stopped = true;
}

static void rig_done(struct rig *g)
{
    if (!g->is_stopped) {
        http_server_stop(g->hs, g, on_stopped);
        run(g);
        advance(g, 60 * (uint64_t)SECOND_US);
    }
    cr_assert(g->is_stopped);
    http_server_free(g->hs);
    fake_transport_of(g->ft)->ops->destroy(fake_transport_of(g->ft));
    test_shard_done(&g->ts);
}

static struct fake_peer *dial(struct rig *g)
{
    struct fake_peer *p = fake_transport_dial(g->ft, g->port, "192.0.2.1:5000");
    run(g);
    return p;
}

static void send_text(struct rig *g, struct fake_peer *p, const char *text)
{
    fake_peer_send(p, text, strlen(text));
    run(g);
}

static const char *received(struct fake_peer *p)
{
    static char text[1 << 20];
    struct slice s = fake_peer_received(p);
    cr_assert(lt(sz, s.size, sizeof(text)));
    if (s.size > 0) {
        memcpy(text, s.data, s.size);
    }
    text[s.size] = '\0';
    return text;
}

/* "200:body|404:body" of all answers. Each must be whole, except that HEAD has no body: then give
 * is_head. */
static const char *answers_of(struct fake_peer *p, bool is_head)
{
    static char text[1 << 16];
    const char *at = received(p);
    size_t length = 0;
    text[0] = '\0';
    while (*at != '\0') {
        int status = 0;
        cr_assert(eq(int, sscanf(at, "HTTP/1.1 %d ", &status), 1), "at=%.60s", at);
        const char *end = strstr(at, "\r\n\r\n");
        cr_assert(ne(ptr, (void *)end, NULL));
        size_t size = 0;
        const char *length_at = strstr(at, "Content-Length: ");
        if (length_at != NULL && length_at < end) {
            size = strtoul(length_at + 16, NULL, 10);
        }
        at = end + 4;
        size = is_head ? 0 : size;
        cr_assert(ge(sz, strlen(at), size));
        length += (size_t)snprintf(text + length,
                                   sizeof(text) - length,
                                   "%s%d:%.*s",
                                   length == 0 ? "" : "|",
                                   status,
                                   (int)size,
                                   at);
        at += size;
    }
    return text;
}

static void expect_answers(struct fake_peer *p, const char *expected)
{
    cr_assert(eq(str, (char *)answers_of(p, false), (char *)expected));
}

/* --- requests --------------------------------------------------------------------------------- */

/* However pipelined requests are cut, the same answers come, in order. */
Test(http, every_cut_gives_the_same_answers)
{
    static const char text[] =
        "GET /a?x=1 HTTP/1.1\r\nHost: h\r\nX-Tag: one\r\n\r\n"
        "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
        "\r\nPUT /c HTTP/1.1\r\nx-tAG:  three \r\nHost: h\r\n"
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n"
        "DELETE / HTTP/1.1\r\nHost: h\r\nX-Tag:\r\n\r\n";
    static const char expected[] = "200:0 /a?x=1 tag=one body=|200:2 /b? tag= body=hello|"
                                   "200:3 /c? tag=three body=abcde|200:4 /? tag= body=";
    const size_t size = sizeof(text) - 1;
    for (size_t cut = 0; cut <= size; cut++) {
        struct rig g;
        rig_init(&g);
        struct fake_peer *p = dial(&g);
        if (cut == 0) {
            for (size_t i = 0; i < size; i++) {
                fake_peer_send(p, text + i, 1);
            }
        } else {
            fake_peer_send(p, text, cut);
            fake_peer_send(p, text + cut, size - cut);
        }
        run(&g);
        cr_assert(eq(str, (char *)answers_of(p, false), (char *)expected),
                  "cut=%zu got=%s",
                  cut,
                  received(p));
        rig_done(&g);
    }
}

static const struct {
    const char *request;
    int status;
    const char *says; /* Part of the answer. */
    bool is_closed;
} refuse_rows[] = {
    {"\x00\x00\x00\x10 kafka", 400, "Kafka has another port", true},
    {"GET\r\n\r\n", 400, "application/problem+json", true},
    {"GET / HTTP/1.1\r\n\r\n", 400, "Host header", true},
    {"GET / HTTP/1.1\r\nHost h\r\n\r\n", 400, "not an HTTP/1.1 request", true},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", 400, "", true},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "", true},
    {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "", true},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\n\r\n", 413, "too large", true},
    {"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 400, "not an HTTP/1.1 request", true},
    {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505, "HTTP/1.1", true},
    {"GET / HTTP/1.0\r\n\r\n", 200, "Connection: close", true},
    {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, "Connection: keep-alive", false},
    {"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 200, "Connection: close", true},
    {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", 200, "Connection: keep-alive", false},
    {"GET http://other/x?y HTTP/1.1\r\nHost: h\r\n\r\n", 200, "0 /x?y ", false},
    {"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
     200,
     "0 /? ",
     false},
    {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 200, "6 *?", false},
};

/* What is wrong is told with its status, as problem+json, and ends the connection. */
Test(http, statuses)
{
    for (size_t i = 0; i < sizeof(refuse_rows) / sizeof(refuse_rows[0]); i++) {
        struct rig g;
        rig_init(&g);
        struct fake_peer *p = dial(&g);
        const char *request = refuse_rows[i].request;
        fake_peer_send(p, request, request[0] == '\0' ? 10 : strlen(request));
        run(&g);
        const char *got = received(p);
        char start[32];
        snprintf(start, sizeof(start), "HTTP/1.1 %d ", refuse_rows[i].status);
        cr_assert(eq(int, strncmp(got, start, strlen(start)), 0), "row=%zu got=%s", i, got);
        cr_assert(ne(ptr, strstr(got, refuse_rows[i].says), NULL), "row=%zu got=%s", i, got);
        advance(&g, SECOND_US); /* A refused client is read from for a moment. */
        cr_assert(eq(int, fake_peer_is_closed(p), refuse_rows[i].is_closed), "row=%zu", i);
        rig_done(&g);
    }
}

/* A target, a header block and a number of headers above the limit. */
Test(http, header_limits)
{
    static char text[64 << 10];
    const struct {
        size_t target_size;
        size_t header_size;
        int headers_count;
        const char *status;
    } rows[] = {
        {HTTP_URL_SIZE_MAX, 10, 1, "200"},
        {HTTP_URL_SIZE_MAX + 1, 10, 1, "414"},
        {1, HTTP_HEADERS_SIZE_MAX - 10, 1, "200"},
        {1, HTTP_HEADERS_SIZE_MAX, 1, "431"},
        {1, 10, HTTP_HEADERS_MAX - 1, "200"},
        {1, 10, HTTP_HEADERS_MAX, "431"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig g;
        rig_init(&g);
        struct fake_peer *p = dial(&g);
        size_t size = (size_t)sprintf(
            text, "GET /%0*d HTTP/1.1\r\nHost: h\r\n", (int)rows[i].target_size - 1, 0);
        if (rows[i].target_size == 1) {
            size = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: h\r\n");
        }
        for (int k = 0; k < rows[i].headers_count; k++) {
            size += (size_t)sprintf(text + size, "a: %0*d\r\n", (int)rows[i].header_size - 5, 0);
        }
        size += (size_t)sprintf(text + size, "\r\n");
        send_text(&g, p, text);
        cr_assert(eq(int, strncmp(received(p) + 9, rows[i].status, 3), 0),
                  "row=%zu got=%.100s",
                  i,
                  received(p));
        rig_done(&g);
    }
}

/* A body in chunks has no length to look at before: it is cut off when it gets too long; so are all
 * bodies together. */
Test(http, body_limits)
{
    struct http_limits limits = http_limits_default;
    limits.body_size_max = 10000;
    limits.bodies_size_max = 20000;
    struct rig g;
    rig_init_limits(&g, &limits);
    static char chunk[6000 + 16];
    int size = sprintf(chunk, "1770\r\n%06000d\r\n", 0);
    const char head[] = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct fake_peer *p = dial(&g);
    send_text(&g, p, head);
    fake_peer_send(p, chunk, (size_t)size);
    run(&g);
    expect_answers(p, "");
    fake_peer_send(p, chunk, (size_t)size);
    run(&g);
    cr_assert(eq(int, strncmp(received(p), "HTTP/1.1 413 ", 13), 0));

    struct fake_peer *holders[2];
    for (int i = 0; i < 2; i++) {
        holders[i] = dial(&g);
        send_text(&g, holders[i], head);
        fake_peer_send(holders[i], chunk, (size_t)size);
        run(&g);
        expect_answers(holders[i], "");
    }
    struct fake_peer *third = dial(&g);
    send_text(&g, third, head);
    fake_peer_send(third, chunk, (size_t)size);
    run(&g);
    cr_assert(eq(int, strncmp(received(third), "HTTP/1.1 503 ", 13), 0), "%s", received(third));
    send_text(&g, holders[0], "0\r\n\r\n");
    cr_assert(eq(int, strncmp(received(holders[0]), "HTTP/1.1 200 ", 13), 0));
    rig_done(&g);
}

Test(http, head_has_no_body)
{
    struct rig g;
    rig_init(&g);
    struct fake_peer *p = dial(&g);
    send_text(&g, p, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\nHEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    cr_assert(eq(str, (char *)answers_of(p, true), "200:|200:"));
    cr_assert(ne(ptr, strstr(received(p), "Content-Length: 15\r\n"), NULL));
    cr_assert(ne(ptr, strstr(received(p), "Date: Tue, 14 Nov 2023 22:13:2"), NULL));
    rig_done(&g);
}

/* A client that waits for 100 Continue gets it, or the reason why not. */
Test(http, expect_continue)
{
    struct rig g;
    rig_init(&g);
    struct fake_peer *p = dial(&g);
    send_text(
        &g, p, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    cr_assert(eq(str, (char *)received(p), "HTTP/1.1 100 Continue\r\n\r\n"));
    send_text(&g, p, "hi");
    expect_answers(p, "100:|200:2 /? tag= body=hi");
    struct fake_peer *q = dial(&g);
    send_text(
        &g,
        q,
        "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n");
    cr_assert(eq(int, strncmp(received(q), "HTTP/1.1 413 ", 13), 0));
    rig_done(&g);
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* The second request waits for the first one's answer, without being read. */
Test(http, one_request_at_a_time)
{
    struct rig g;
    rig_init(&g);
    struct fake_peer *p = dial(&g);
    send_text(&g, p, "GET /later HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
    send_text(&g, p, "GET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
    cr_assert(eq(u32, g.requests_count, 1));
    cr_assert(fake_peer_is_paused(p));
    answer_text(g.later, "1");
    run(&g);
    expect_answers(p, "200:1|200:0 /2? tag= body=|200:0 /3? tag= body=");
    rig_done(&g);
}

/* The peer leaves before the answer is there: it goes nowhere, and nothing is left. */
Test(http, peer_gone_before_the_answer)
{
    for (int is_problem = 0; is_problem < 2; is_problem++) {
        struct rig g;
        rig_init(&g);
        struct fake_peer *p = dial(&g);
        send_text(&g, p, "GET /later HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\n");
        fake_peer_close(p, ERR_IO);
        run(&g);
        cr_assert(eq(sz, fake_transport_streams_count(g.ft), 1));
        if (is_problem) {
            http_answer_problem(g.later, 500, "x", NULL);
        } else {
            answer_text(g.later, "1");
        }
        run(&g);
        cr_assert(eq(sz, fake_transport_streams_count(g.ft), 0));
        rig_done(&g);
    }
}

static const struct {
    const char *sent; /* Byte by byte, one a second. NULL: nothing at all. */
    const char *answered;
} slow_rows[] = {
    {NULL, ""},
    {"GET / HTTP/1.1\r\nHost: hhhhhhhhhhhhhhhhhhhhhhhhhhhhh", "HTTP/1.1 408 "},
    {"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", ""},
};

/* A request has to arrive within its time, however it trickles. */
Test(http, slow_requests_are_cut)
{
    for (size_t i = 0; i < sizeof(slow_rows) / sizeof(slow_rows[0]); i++) {
        struct rig g;
        rig_init(&g);
        struct fake_peer *p = dial(&g);
        uint64_t started_us = g.ts.clock.now_us;
        const char *at = slow_rows[i].sent;
        while (!fake_peer_is_closed(p)) {
            if (at != NULL && *at != '\0') {
                fake_peer_send(p, at++, 1);
            }
            advance(&g, SECOND_US);
            cr_assert(le(u64, g.ts.clock.now_us - started_us, 13 * (uint64_t)SECOND_US));
        }
        const char *got = received(p);
        cr_assert(eq(int, strncmp(got, slow_rows[i].answered, strlen(slow_rows[i].answered)), 0));
        cr_assert(eq(int, got[0] == '\0', slow_rows[i].answered[0] == '\0'));
        rig_done(&g);
    }
}

/* Between requests a connection may rest, but not for ever; a peer that does not take its answer is
 * cut too. */
Test(http, idle_and_unread)
{
    struct rig g;
    rig_init(&g);
    struct fake_peer *idle = dial(&g);
    send_text(&g, idle, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    struct fake_peer *unread = dial(&g);
    fake_peer_set_window(unread, 10);
    send_text(&g, unread, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    advance(&g, 29 * (uint64_t)SECOND_US);
    cr_assert(not(fake_peer_is_closed(unread)));
    advance(&g, 2 * (uint64_t)SECOND_US);
    cr_assert(fake_peer_is_closed(unread));
    advance(&g, 43 * (uint64_t)SECOND_US);
    cr_assert(not(fake_peer_is_closed(idle)));
    advance(&g, 2 * (uint64_t)SECOND_US);
    cr_assert(fake_peer_is_closed(idle));
    rig_done(&g);
}

/* `printf ... | nc`: a client that sends no more is answered, also what it pipelined. */
Test(http, half_closed_clients_are_answered)
{
    static const struct {
        const char *sent;
        bool is_later;
        const char *answers;
    } cases[] = {
        {"GET /echo HTTP/1.1\r\nHost: h\r\n\r\nGET /echo HTTP/1.1\r\nHost: h\r\n\r\n",
         false,
         "200:0 /echo? tag= body=|200:0 /echo? tag= body="},
        {"GET /later HTTP/1.1\r\nHost: h\r\n\r\n", true, "200:last"},
        {"GET /ec", false, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig g;
        rig_init(&g);
        struct fake_peer *p = dial(&g);
        send_text(&g, p, cases[i].sent);
        fake_peer_end(p);
        run(&g);
        if (cases[i].is_later) {
            cr_assert(not(fake_peer_is_closed(p)));
            answer_text(g.later, "last");
            run(&g);
        }
        expect_answers(p, cases[i].answers);
        cr_assert(fake_peer_is_closed(p), "i=%zu", i);
        rig_done(&g);
    }
}

Test(http, conns_max)
{
    struct http_limits limits = http_limits_default;
    limits.conns_max = 2;
    struct rig g;
    rig_init_limits(&g, &limits);
    struct fake_peer *a = dial(&g);
    dial(&g);
    cr_assert(fake_peer_is_refused(dial(&g)));
    cr_assert(test_shard_has_logged(&g.ts, "admin_connection_refused: peer=192.0.2.1:5000"));
    fake_peer_close(a, ERR_CLOSED);
    run(&g);
    cr_assert(not(fake_peer_is_refused(dial(&g))));
    rig_done(&g);
}

/* Stop: idle ones go at once, the one at work gets its answer, with Connection: close. */
Test(http, stop)
{
    struct rig g;
    rig_init(&g);
    struct fake_peer *idle = dial(&g);
    struct fake_peer *busy = dial(&g);
    send_text(&g, busy, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
    http_server_stop(g.hs, &g, on_stopped);
    run(&g);
    cr_assert(fake_peer_is_closed(idle));
    cr_assert(fake_peer_is_refused(dial(&g)));
    cr_assert(not(g.is_stopped));
    answer_text(g.later, "last");
    run(&g);
    expect_answers(busy, "200:last");
    cr_assert(ne(ptr, strstr(received(busy), "Connection: close"), NULL));
    cr_assert(g.is_stopped);
    rig_done(&g);
}

/* Whatever stands in a detail, the problem is valid JSON. */
Test(http, problem_is_json)
{
    struct rig g;
    rig_init(&g);
    struct fake_peer *p = dial(&g);
    send_text(&g, p, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
    http_answer_problem(g.later, 409, "a \"b\" \\ \n \xc3\xa4", "Retry-After: 1");
    run(&g);
    expect_answers(p,
                   "409:{\"type\":\"about:blank\",\"title\":\"Conflict\",\"status\":409,"
                   "\"detail\":\"a \\\"b\\\" \\\\ \\u000a \\u00c3\\u00a4\"}\n");
    cr_assert(ne(ptr, strstr(received(p), "\r\nRetry-After: 1\r\n"), NULL));
    cr_assert(ne(ptr, strstr(received(p), "\r\nContent-Type: application/problem+json\r\n"), NULL));
    rig_done(&g);
}

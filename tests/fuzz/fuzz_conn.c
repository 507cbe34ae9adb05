/* A server connection under a script: the input is a list of steps, {step, argument, bytes}. Steps
 * send bytes to the connection as they stand, end requests in one of four ways, open and shut the
 * peer's window, and close. Nothing may be left at the end.
 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "net/conn.h"

#include "tests/fuzz/fuzz.h"
#include "tests/support/fake_transport.h"
#include "tests/support/test_shard.h"

enum {
    REQUESTS_MAX = 8,
    FRAME_SIZE_MAX = 100 << 10,
};

struct rig {
    struct test_shard ts;
    struct fake_transport *ft;
    struct conn_server *cs;
    struct fake_peer *peer;
    struct conn_request *parked[REQUESTS_MAX];
    uint32_t parked_count;
    bool is_gone;
    bool is_stopped;
};

static enum conn_class classify(void *context, struct slice frame)
{
    (void)context;
    static const enum conn_class classes[4] = {
        CONN_OVERLAP, CONN_BARRIER, CONN_OVERLAP, CONN_REFUSE};
    return classes[frame.data[0] % 4];
}

static void on_request(void *context, struct conn_request *r)
{
    struct rig *g = context;
    assert_cmp(g->parked_count, <, REQUESTS_MAX);
    g->parked[g->parked_count++] = r;
}

static void on_closed(void *context, struct conn *c)
{
    (void)c;
    ((struct rig *)context)->is_gone = true;
}

static void on_stopped(void *context)
{
    ((struct rig *)context)->is_stopped = true;
}

static void run(struct rig *g)
{
    do {
        test_shard_run(&g->ts);
    } while (fake_transport_run(g->ft) > 0);
}

static void end_request(struct rig *g, uint8_t how)
{
    if (g->parked_count == 0) {
        return;
    }
    uint32_t index = (how >> 2) % g->parked_count;
    struct conn_request *r = g->parked[index];
    g->parked[index] = g->parked[--g->parked_count];
    size_t size = r->frame.size;
    switch (how % 4) {
    case 0: {
        uint8_t *copy = malloc(size);
        assert(copy != NULL);
        memcpy(copy, r->frame.data, size);
        conn_answer(r, copy, size);
        break;
    }
    case 1:
        conn_request_drop_frame(r);
        conn_answer_nothing(r);
        break;
    case 2:
        conn_answer(r, NULL, 0);
        break;
    default:
        conn_abort(r);
    }
}

/* One step of the script; returns the bytes of it. */
static size_t step(struct rig *g, const uint8_t *data, size_t size)
{
    uint8_t argument = data[1];
    size_t used = 2;
    switch (data[0] % 8) {
    case 0:
    case 1:
    case 2: {
        size_t sent = argument < size - 2 ? argument : size - 2;
        fake_peer_send(g->peer, data + 2, sent);
        used += sent;
        break;
    }
    case 3: { /* Many bytes, for frames that are received in place. */
        static const uint8_t zeros[64 << 10];
        fake_peer_send(g->peer, zeros, (size_t)argument << 8);
        break;
    }
    case 4:
    case 5:
        end_request(g, argument);
        break;
    case 6:
        fake_peer_set_window(g->peer, argument == 255 ? SIZE_MAX : argument);
        break;
    default:
        if (argument < 16) {
            fake_peer_close(g->peer, argument % 2 == 0 ? ERR_CLOSED : ERR_IO);
        } else {
            test_shard_advance(&g->ts, (uint64_t)argument * 10000);
        }
    }
    return used;
}

static void rig_init(struct rig *g)
{
    memset(g, 0, sizeof(*g));
    test_shard_init(&g->ts, 1 << 20);
    g->ft = fake_transport_new();
    const struct conn_server_options o = {
        .shard = &g->ts.shard,
        .transport = fake_transport_of(g->ft),
        .limits = {.frame_size_max = FRAME_SIZE_MAX,
                   .requests_max = REQUESTS_MAX,
                   .conns_max = 1,
                   .idle_timeout_us = 1000 * 1000,
                   .answers_size_max = 1000},
        .handler = {.context = g,
                    .classify = classify,
                    .on_request = on_request,
                    .on_closed = on_closed},
    };
    const struct net_address a = {.host = "any"};
    uint16_t port;
    char why[NET_WHY_SIZE];
    enum err e = conn_server_new(&o, &g->cs);
    assert(e == ERR_OK);
    e = conn_server_listen(g->cs, &a, 0, &port, why);
    assert(e == ERR_OK);
    g->peer = fake_transport_dial(g->ft, port, "fuzz");
    run(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rig g;
    rig_init(&g);
    size_t pos = 0;
    while (size - pos >= 2 && !g.is_gone) {
        pos += step(&g, data + pos, size - pos);
        if (data[pos - 1] % 2 == 0) {
            run(&g);
        }
    }
    conn_server_stop(g.cs, &g, on_stopped);
    run(&g);
    while (g.parked_count > 0) {
        end_request(&g, 0);
        run(&g);
    }
    test_shard_advance(&g.ts, CONN_STOP_TIMEOUT_US_DEFAULT);
    run(&g);
    assert(g.is_stopped);
    conn_server_free(g.cs);
    fake_transport_of(g.ft)->ops->destroy(fake_transport_of(g.ft));
    test_shard_done(&g.ts);
    return 0;
}

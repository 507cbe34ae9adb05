/* HTTP connections fed with the input in pieces. The first byte says how long the pieces are, the
 * second whether answers come at once. Nothing may be left at the end.
 */
#include <stdlib.h>
#include <string.h>

#include "admin/http.h"
#include "core/assert.h"

#include "tests/fuzz/fuzz.h"
#include "tests/support/fake_transport.h"
#include "tests/support/test_shard.h"

struct rig {
    struct test_shard ts;
    struct fake_transport *ft;
    struct http_server *hs;
    struct http_request *parked;
    bool is_parking;
    bool is_stopped;
    uint64_t touched;
};

/* Reads every byte a handler may read. */
static void touch(struct rig *g, struct slice s)
{
    for (size_t i = 0; i < s.size; i++) {
        g->touched = g->touched * 31 + s.data[i];
    }
}

static void answer(struct rig *g, struct http_request *r)
{
    touch(g, r->path);
    touch(g, r->query);
    touch(g, r->body);
    touch(g, http_request_header(r, "a"));
    http_answer_problem(r, 404, "no", NULL);
}

static void on_request(void *context, struct http_request *r)
{
    struct rig *g = context;
    if (g->is_parking) {
        g->parked = r;
    } else {
        answer(g, r);
    }
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

static void run_and_answer(struct rig *g)
{
    run(g);
    while (g->parked != NULL) {
        struct http_request *r = g->parked;
        g->parked = NULL;
        answer(g, r);
        run(g);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    static struct rig g;
    memset(&g, 0, sizeof(g));
    test_shard_init(&g.ts, 1 << 20);
    g.ft = fake_transport_new();
    const struct http_server_options o = {.shard = &g.ts.shard,
                                          .transport = fake_transport_of(g.ft),
                                          .limits = http_limits_default,
                                          .context = &g,
                                          .on_request = on_request};
    const struct net_address a = {.host = "any"};
    uint16_t port;
    char why[NET_WHY_SIZE];
    enum err e = http_server_new(&o, &g.hs);
    assert(e == ERR_OK);
    e = http_server_listen(g.hs, &a, &port, why);
    assert(e == ERR_OK);

    struct fake_peer *p = fake_transport_dial(g.ft, port, "fuzz");
    size_t piece = data[0] == 0 ? size : data[0];
    g.is_parking = data[1] % 2 == 1;
    for (size_t pos = 2; pos < size; pos += piece) {
        fake_peer_send(p, data + pos, size - pos < piece ? size - pos : piece);
        if (data[1] % 4 < 2) {
            run_and_answer(&g);
        }
    }
    run_and_answer(&g);
    http_server_stop(g.hs, &g, on_stopped);
    run_and_answer(&g);
    test_shard_advance(&g.ts, 60u * 1000 * 1000);
    run_and_answer(&g);
    assert(g.is_stopped);
    http_server_free(g.hs);
    fake_transport_of(g.ft)->ops->destroy(fake_transport_of(g.ft));
    test_shard_done(&g.ts);
    return 0;
}

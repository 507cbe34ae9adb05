/* The admin interface as a client sees it, over the fake transport. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "admin/admin.h"

#include "tests/support/fake_transport.h"
#include "tests/support/test_shard.h"

struct rig {
    struct test_shard ts;
    struct fake_transport *ft;
    struct admin *admin;
    bool is_ready;
    bool has_problem;
    bool is_stopped;
};

static bool is_ready(void *context, char ret_reason[ADMIN_REASON_SIZE])
{
    struct rig *g = context;
    if (!g->is_ready) {
        strcpy(ret_reason, "Recovering partitions: wait.");
    }
    return g->is_ready;
}

static uint32_t find_problems(void *context, struct admin_problem ret[ADMIN_PROBLEMS_MAX])
{
    struct rig *g = context;
    ret[0] = (struct admin_problem){"disk_full", "/var/\"odd\" dir", "free some space"};
    return g->has_problem;
}

static void rig_init(struct rig *g)
{
    memset(g, 0, sizeof(*g));
    test_shard_init(&g->ts, 1 << 20);
    g->ft = fake_transport_new();
    const struct admin_options o = {.shard = &g->ts.shard,
                                    .transport = fake_transport_of(g->ft),
                                    .address = {.host = "any"},
                                    .version = "1.2.3",
                                    .context = g,
                                    .is_ready = is_ready,
                                    .find_problems = find_problems};
    char why[NET_WHY_SIZE];
    cr_assert(eq(int, admin_new(&o, &g->admin, why), ERR_OK));
    cr_assert(lt(int, 0, admin_port(g->admin)));
}

static void run(struct rig *g)
{
    do {
        test_shard_run(&g->ts);
    } while (fake_transport_run(g->ft) > 0);
    test_shard_run(&g->ts);
}

static void on_stopped(void *context)
{
    ((struct rig *)context)->is_stopped = true;
}

static void rig_done(struct rig *g)
{
    admin_stop(g->admin, g, on_stopped);
    run(g);
    cr_assert(g->is_stopped);
    admin_free(g->admin);
    fake_transport_of(g->ft)->ops->destroy(fake_transport_of(g->ft));
    test_shard_done(&g->ts);
}

/* The whole answer to one request. */
static const char *ask(struct rig *g, const char *verb, const char *target)
{
    static char text[256 << 10];
    struct fake_peer *p = fake_transport_dial(g->ft, admin_port(g->admin), "192.0.2.1:5000");
    int size = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: h\r\n\r\n", verb, target);
    fake_peer_send(p, text, (size_t)size);
    run(g);
    struct slice s = fake_peer_received(p);
    cr_assert(lt(sz, s.size, sizeof(text)));
    memcpy(text, s.data, s.size);
    text[s.size] = '\0';
    return text;
}

static const struct {
    const char *verb;
    const char *target;
    bool is_ready;
    int status;
    const char *says;
} rows[] = {
    {"GET", "/healthz", false, 200, "{\"status\":\"alive\",\"problems\":[]}"},
    {"GET", "/healthz?x", true, 200, "alive"},
    {"GET", "/readyz", true, 200, "{\"status\":\"ready\"}"},
    {"GET", "/readyz", false, 503, "\"detail\":\"Recovering partitions: wait.\""},
    {"HEAD", "/readyz", false, 503, "Content-Length: "},
    {"GET", "/", false, 200, "coreflume 1.2.3"},
    {"GET", "/metrics", false, 200, "Content-Type: text/plain; version=0.0.4"},
    {"HEAD", "/metrics", false, 200, "Content-Type: text/plain; version=0.0.4"},
    {"POST", "/metrics", true, 405, "\r\nAllow: GET, HEAD\r\n"},
    {"DELETE", "/healthz", true, 405, "use GET or HEAD"},
    {"GET", "/health", true, 404, "There is no page /health: see /"},
    {"GET", "/healthz/", true, 404, "There is no page"},
    {"GET", "/%22%3cscript", true, 404, "There is no page /%22%3cscript:"},
};

Test(pages, answers)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig g;
        rig_init(&g);
        g.is_ready = rows[i].is_ready;
        const char *got = ask(&g, rows[i].verb, rows[i].target);
        char start[32];
        snprintf(start, sizeof(start), "HTTP/1.1 %d ", rows[i].status);
        cr_assert(eq(int, strncmp(got, start, strlen(start)), 0), "row=%zu got=%s", i, got);
        cr_assert(ne(ptr, strstr(got, rows[i].says), NULL), "row=%zu got=%s", i, got);
        rig_done(&g);
    }
}

Test(pages, problems_are_named_with_what_to_do)
{
    struct rig g;
    rig_init(&g);
    g.has_problem = true;
    const char *got = ask(&g, "GET", "/healthz");
    cr_assert(eq(int, strncmp(got, "HTTP/1.1 200 ", 13), 0), "a restart would not help");
    cr_assert(ne(ptr,
                 strstr(got,
                        "{\"code\":\"disk_full\",\"subject\":\"/var/\\\"odd\\\" dir\","
                        "\"action\":\"free some space\"}"),
                 NULL),
              "%s",
              got);
    rig_done(&g);
}

/* A long path is not repeated in full. */
Test(pages, long_paths_are_cut)
{
    struct rig g;
    rig_init(&g);
    char target[3000];
    memset(target, 'a', sizeof(target));
    target[0] = '/';
    target[sizeof(target) - 1] = '\0';
    const char *got = ask(&g, "GET", target);
    cr_assert(ne(ptr, strstr(got, "aaa...: see /"), NULL));
    cr_assert(lt(sz, strlen(got), 1000));
    rig_done(&g);
}

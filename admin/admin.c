/* Puts the HTTP server and the pages together. */
#include "admin/admin.h"

#include <stdio.h>
#include <stdlib.h>

#include "admin/pages.h"
#include "core/assert.h"
#include "core/shard.h"

struct admin {
    struct http_server *http;
    struct pages pages;
    uint16_t port;
};

static void on_request(void *context, struct http_request *r)
{
    struct admin *a = context;
    pages_serve(&a->pages, r);
}

enum err admin_new(const struct admin_options *o, struct admin **ret_admin, char why[NET_WHY_SIZE])
{
    assert(o->is_ready != NULL);
    assert(o->find_problems != NULL);
    assert(o->version != NULL);
    struct admin *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        (void)snprintf(why, NET_WHY_SIZE, "no memory for the admin interface");
        return ERR_BUSY;
    }
    a->pages = (struct pages){
        .shard = o->shard,
        .info = {.version = o->version, .start_wall_ms = o->shard->wall_ms},
        .context = o->context,
        .is_ready = o->is_ready,
        .find_problems = o->find_problems,
    };
    const struct http_server_options http = {.shard = o->shard,
                                             .transport = o->transport,
                                             .limits = http_limits_default,
                                             .context = a,
                                             .on_request = on_request};
    enum err e = http_server_new(&http, &a->http);
    if (e != ERR_OK) {
        (void)snprintf(why, NET_WHY_SIZE, "no memory for the admin interface");
        goto out_free;
    }
    e = http_server_listen(a->http, &o->address, &a->port, why);
    if (e != ERR_OK) {
        goto out_free_http;
    }
    *ret_admin = a;
    return ERR_OK;

out_free_http:
    http_server_free(a->http);
out_free:
    free(a);
    return e;
}

uint16_t admin_port(const struct admin *a)
{
    return a->port;
}

void admin_stop(struct admin *a, void *context, void (*on_stopped)(void *context))
{
    http_server_stop(a->http, context, on_stopped);
}

void admin_free(struct admin *a)
{
    if (a == NULL) {
        return;
    }
    http_server_free(a->http);
    free(a);
}

#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client_priv.h"
#include "core/assert.h"

enum {
    TIMEOUT_MS_DEFAULT = 30000,
};

static size_t count_items(const char *list)
{
    size_t count = 1;
    for (const char *p = list; *p != '\0'; p++) {
        count += *p == ',';
    }
    return count;
}

/* brokers: HOST:PORT,HOST:PORT */
static enum err parse_brokers(struct client *c, const char *brokers)
{
    c->bootstrap = calloc(count_items(brokers), sizeof(*c->bootstrap));
    if (c->bootstrap == NULL) {
        return client_fail(c->env, ERR_BUSY, "no memory for the list of brokers");
    }
    for (const char *item = brokers;;) {
        const size_t size = strcspn(item, ",");
        struct client_address *a = &c->bootstrap[c->bootstrap_count];
        if (!client_address_parse(slice_of(item, size), a)) {
            return client_fail(c->env,
                               ERR_INVALID,
                               "'%.*s' is not the address of a broker: HOST:PORT is",
                               (int)(size > 64 ? 64 : size),
                               item);
        }
        c->bootstrap_count++;
        if (item[size] == '\0') {
            return ERR_OK;
        }
        item += size + 1;
    }
}

enum err client_new_in(const struct client_options *options,
                       struct client_env *env,
                       char ret_why[CLIENT_WHY_SIZE],
                       struct client **ret_client)
{
    assert(options->brokers != NULL);
    struct client *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        ret_why[0] = '\0';
        return ERR_BUSY;
    }
    clock_init_real(&c->clock);
    rand_init_real(&c->rand);
    client_env_init(&c->own_env, &c->clock, &c->rand);
    c->env = env != NULL ? env : &c->own_env;
    c->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : TIMEOUT_MS_DEFAULT;
    c->client_id = strdup(options->client_id != NULL ? options->client_id : "coreflume");
    enum err e = c->client_id == NULL ? client_fail(c->env, ERR_BUSY, "no memory")
                                      : parse_brokers(c, options->brokers);
    if (e != ERR_OK) {
        memcpy(ret_why, c->env->why, CLIENT_WHY_SIZE);
        client_free(c);
        return e;
    }
    *ret_client = c;
    return ERR_OK;
}

enum err client_new(const struct client_options *options,
                    char ret_why[CLIENT_WHY_SIZE],
                    struct client **ret_client)
{
    return client_new_in(options, NULL, ret_why, ret_client);
}

void client_free(struct client *c)
{
    if (c == NULL) {
        return;
    }
    while (c->links != NULL) {
        struct client_link *link = c->links;
        c->links = link->next;
        client_conn_done(&link->conn);
        free(link);
    }
    free(c->nodes);
    free(c->bootstrap);
    free(c->client_id);
    free(c);
}

const char *client_why(const struct client *c)
{
    return c->env->why;
}

bool client_was_connected(const struct client *c)
{
    return c->was_connected;
}

static struct client_link *find_link(struct client *c, int32_t node_id)
{
    struct client_link *link = c->links;
    while (link != NULL && link->node_id != node_id) {
        link = link->next;
    }
    return link;
}

/* The connection object for a node, made if there is none. */
static enum err link_of(struct client *c, int32_t node_id, struct client_link **ret_link)
{
    struct client_link *found = find_link(c, node_id);
    if (found != NULL) {
        *ret_link = found;
        return ERR_OK;
    }
    struct client_link *link = calloc(1, sizeof(*link));
    if (link == NULL) {
        return client_fail(c->env, ERR_BUSY, "no memory for a connection");
    }
    link->node_id = node_id;
    client_conn_init(&link->conn, c->env, c->client_id);
    link->next = c->links;
    c->links = link;
    *ret_link = link;
    return ERR_OK;
}

static enum err
open_link(struct client *c, struct client_link *link, const struct client_address *address)
{
    enum err e = client_conn_open(&link->conn, address, client_deadline_us(c->env, c->timeout_ms));
    c->was_connected |= e == ERR_OK;
    return e;
}

static const struct client_node *find_node(const struct client *c, int32_t node_id)
{
    for (size_t i = 0; i < c->nodes_count; i++) {
        if (c->nodes[i].id == node_id) {
            return &c->nodes[i];
        }
    }
    return NULL;
}

/* The connection that found the cluster mostly leads to one of its brokers: no need for another.
 * The two exchange their connections; a closed one is as good for the one as for the other. */
static void adopt_bootstrap(struct client *c, const struct client_node *node)
{
    struct client_link *bootstrap = find_link(c, CLIENT_NODE_BOOTSTRAP);
    struct client_link *own = find_link(c, node->id);
    char name[CLIENT_NAME_SIZE];
    (void)snprintf(name, sizeof(name), "%s:%u", node->address.host, node->address.port);
    const bool is_needed = own == NULL || !client_conn_is_open(&own->conn);
    if (bootstrap == NULL || !client_conn_is_open(&bootstrap->conn) || !is_needed ||
        strcmp(bootstrap->conn.name, name) != 0) {
        return;
    }
    bootstrap->node_id = node->id;
    if (own != NULL) {
        own->node_id = CLIENT_NODE_BOOTSTRAP;
    }
}

enum err client_link_to(struct client *c, int32_t node_id, struct client_conn **ret_conn)
{
    const struct client_node *node = find_node(c, node_id);
    if (node == NULL) {
        return client_fail(c->env, ERR_NOT_FOUND, "node %d is not in the cluster now", node_id);
    }
    struct client_link *link = NULL;
    adopt_bootstrap(c, node);
    enum err e = link_of(c, node_id, &link);
    if (e != ERR_OK) {
        return e;
    }
    assert(link != NULL);
    if (!client_conn_is_open(&link->conn)) {
        const bool was_connected = c->was_connected;
        e = open_link(c, link, &node->address);
        if (e != ERR_OK && was_connected) {
            return client_fail(c->env,
                               e,
                               "%s, where the cluster says that node %d is: if it runs, its "
                               "advertised.listeners may be wrong for this machine",
                               c->env->why,
                               node_id);
        }
    }
    if (e == ERR_OK) {
        *ret_conn = &link->conn;
    }
    return e;
}

/* The addresses of the options, in order, until one answers. Of several failures the first is told:
 * it is about the broker the user thinks of. */
static enum err open_bootstrap(struct client *c, struct client_link *link)
{
    char why[CLIENT_WHY_SIZE] = "";
    enum err first = ERR_OK;
    for (size_t i = 0; i < c->bootstrap_count; i++) {
        enum err e = open_link(c, link, &c->bootstrap[i]);
        if (e == ERR_OK) {
            return ERR_OK;
        }
        if (first == ERR_OK) {
            first = e;
            memcpy(why, c->env->why, sizeof(why));
        }
    }
    memcpy(c->env->why, why, sizeof(why));
    return first;
}

/* An open connection if there is one, else to the bootstrap addresses, else to brokers that were
 * learnt: the cluster may have moved away from where it was first found. */
static enum err any_conn(struct client *c, struct client_conn **ret_conn, bool *ret_is_fresh)
{
    for (struct client_link *link = c->links; link != NULL; link = link->next) {
        if (client_conn_is_open(&link->conn)) {
            *ret_conn = &link->conn;
            *ret_is_fresh = false;
            return ERR_OK;
        }
    }
    struct client_link *link = NULL;
    enum err e = link_of(c, CLIENT_NODE_BOOTSTRAP, &link);
    if (e == ERR_OK) {
        e = open_bootstrap(c, link);
    }
    for (size_t i = 0; e != ERR_OK && e != ERR_BUSY && i < c->nodes_count; i++) {
        char why[CLIENT_WHY_SIZE];
        memcpy(why, c->env->why, sizeof(why));
        const enum err other = open_link(c, link, &c->nodes[i].address);
        if (other == ERR_OK) {
            e = ERR_OK;
        } else {
            memcpy(c->env->why, why, sizeof(why));
        }
    }
    if (e == ERR_OK) {
        *ret_conn = &link->conn;
        *ret_is_fresh = true;
    }
    return e;
}

enum err client_ask_once(struct client *c, const struct client_call *call)
{
    struct client_conn *conn = NULL;
    bool is_fresh = false;
    enum err e = any_conn(c, &conn, &is_fresh);
    return e == ERR_OK ? client_conn_call(conn, call, client_deadline_us(c->env, c->timeout_ms))
                       : e;
}

enum err client_ask_any(struct client *c, const struct client_call *call)
{
    for (;;) {
        struct client_conn *conn = NULL;
        bool is_fresh = false;
        enum err e = any_conn(c, &conn, &is_fresh);
        if (e != ERR_OK) {
            return e;
        }
        e = client_conn_call(conn, call, client_deadline_us(c->env, c->timeout_ms));
        /* Each round closes one connection that was open before; a fresh one ends the loop. */
        if (e != ERR_CLOSED || is_fresh) {
            return e;
        }
    }
}

void client_back_off(struct client *c, uint32_t attempt, uint64_t deadline_us)
{
    uint64_t wait_ms = CLIENT_BACKOFF_MS_MIN;
    for (uint32_t i = 1; i < attempt && wait_ms < CLIENT_BACKOFF_MS_MAX; i++) {
        wait_ms *= 2;
    }
    wait_ms = wait_ms > CLIENT_BACKOFF_MS_MAX ? CLIENT_BACKOFF_MS_MAX : wait_ms;
    /* Half of it random: clients that were cut off together do not come back together. */
    const uint64_t wait_us = wait_ms * 500 + rand_below(c->env->rand, wait_ms * 500);
    uint64_t until_us = clock_now_us(c->env->clock) + wait_us;
    until_us = until_us > deadline_us ? deadline_us : until_us;
    (void)c->env->wait(c->env, -1, 0, until_us);
}

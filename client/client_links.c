/* Which connection a call takes: to the broker it is for, or to any that can be reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client_priv.h"
#include "core/assert.h"

static struct client_link *link_at(struct list *node)
{
    return container_of(node, struct client_link, link);
}

static struct client_link *find_link(struct client *c, int32_t node_id, const void *owner)
{
    list_for_each (node, &c->links) {
        const struct client_link *link = link_at(node);
        if (link->node_id == node_id && link->owner == owner && !link->is_dropped) {
            return link_at(node);
        }
    }
    return NULL;
}

/* The connection object, made if there is none. NULL without memory. */
static struct client_link *link_of(struct client *c, int32_t node_id, const void *owner)
{
    struct client_link *link = find_link(c, node_id, owner);
    if (link != NULL) {
        return link;
    }
    link = calloc(1, sizeof(*link));
    if (link != NULL) {
        link->node_id = node_id;
        link->owner = owner;
        client_conn_init(&link->conn, c->env, c->client_id, &c->finished);
        list_push_back(&c->links, &link->link);
    }
    return link;
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

bool client_node_is_known(const struct client *c, int32_t node_id)
{
    return find_node(c, node_id) != NULL;
}

/* The connection that found the cluster mostly leads to one of its brokers: no need for another.
 * The two exchange their connections; a closed one is as good for the one as for the other. */
static void adopt_bootstrap(struct client *c, const struct client_node *node)
{
    struct client_link *bootstrap = find_link(c, CLIENT_NODE_BOOTSTRAP, NULL);
    struct client_link *own = find_link(c, node->id, NULL);
    char name[CLIENT_NAME_SIZE];
    (void)snprintf(name, sizeof(name), "%s:%u", node->address.host, node->address.port);
    const bool is_needed = own == NULL || (own->conn.state == CLIENT_CONN_CLOSED && !own->is_held);
    if (bootstrap == NULL || bootstrap->conn.state != CLIENT_CONN_OPEN || !is_needed ||
        (own != NULL && !list_is_empty(&own->conn.waiting)) ||
        strcmp(bootstrap->conn.name, name) != 0) {
        return;
    }
    bootstrap->node_id = node->id;
    if (own != NULL) {
        own->node_id = CLIENT_NODE_BOOTSTRAP;
    }
}

static void finish(struct client *c, struct client_call *call)
{
    list_init(&call->link);
    list_push_back(&c->finished, &call->link);
}

void client_post(struct client *c, struct client_call *call)
{
    call->serial = c->serial;
    if (call->node_id == CLIENT_NODE_ANY) {
        list_init(&call->link);
        list_push_back(&c->seeking, &call->link);
        return;
    }
    const struct client_node *node = find_node(c, call->node_id);
    if (node == NULL) {
        call->err = client_say(
            call->why, ERR_NOT_FOUND, "node %d is not in the cluster now", call->node_id);
        finish(c, call);
        return;
    }
    if (call->owner == NULL) {
        adopt_bootstrap(c, node);
    }
    struct client_link *link = link_of(c, call->node_id, call->owner);
    if (link == NULL) {
        call->err = client_say(call->why, ERR_BUSY, "no memory for a connection");
        finish(c, call);
        return;
    }
    client_conn_post(&link->conn, call);
}

/* ---- dialling ---- */

/* Looking the name up may take the C library long: without the lock, and the link stays meanwhile,
 * though its owner may go. */
static void dial(struct client *c, struct client_link *link, struct client_address address)
{
    struct client_places places;
    link->is_held = true;
    client_unlock(c);
    client_conn_resolve(c->env, &address, &places);
    client_lock(c);
    link->is_held = false;
    if (link->is_dropped) {
        return;
    }
    link->started_us = client_now_us(c);
    const bool is_advertised = link->node_id >= 0 && c->was_connected;
    client_conn_dial(&link->conn,
                     &address,
                     &places,
                     is_advertised ? link->node_id : -1,
                     client_after_us(c, c->timeout_ms));
}

/* What became of a connection since the last look. */
static void look_at(struct client *c, struct client_link *link)
{
    const enum client_conn_state state = link->conn.state;
    if (state == CLIENT_CONN_OPEN && !link->is_open) {
        link->is_open = true;
        link->serial = ++c->serial;
        link->failures = 0;
        c->was_connected = true;
    }
    if (state != CLIENT_CONN_CLOSED) {
        return;
    }
    if (link->started_us != 0 && !link->is_open && link->node_id != CLIENT_NODE_BOOTSTRAP) {
        link->failures++;
        link->retry_us = client_now_us(c) + client_back_off_us(c, link->failures);
    }
    link->is_open = false;
    link->started_us = 0;
}

/* Calls to a broker that is not connected. */
static void dial_if_needed(struct client *c, struct client_link *link, uint64_t *next_us)
{
    if (link->conn.state != CLIENT_CONN_CLOSED || list_is_empty(&link->conn.waiting)) {
        return;
    }
    const struct client_node *node = find_node(c, link->node_id);
    if (node == NULL) {
        char why[CLIENT_WHY_SIZE];
        enum err e =
            client_say(why, ERR_NOT_FOUND, "node %d is not in the cluster now", link->node_id);
        client_conn_fail(&link->conn, e, why);
        return;
    }
    if (client_now_us(c) < link->retry_us) {
        *next_us = link->retry_us < *next_us ? link->retry_us : *next_us;
        return;
    }
    dial(c, link, node->address);
    look_at(c, link);
}

/* ---- any broker ---- */

static struct client_link *any_open(struct client *c)
{
    list_for_each (node, &c->links) {
        struct client_link *link = link_at(node);
        if (link->owner == NULL && link->conn.state == CLIENT_CONN_OPEN) {
            return link;
        }
    }
    return NULL;
}

static void end_seeking(struct client *c, enum err e)
{
    while (!list_is_empty(&c->seeking)) {
        struct client_call *call = container_of(c->seeking.next, struct client_call, link);
        call->err = e;
        call->serial = UINT64_MAX; /* There is nobody whom it could be repeated to. */
        memcpy(call->why, c->seek_why, sizeof(call->why));
        list_remove(&call->link);
        finish(c, call);
    }
    c->seek_index = 0;
}

/* The addresses of the options, then those of brokers that were learnt: the cluster may have moved
 * away from where it was first found. False if there is none left. */
static bool next_address(const struct client *c, size_t index, struct client_address *ret_address)
{
    if (index < c->bootstrap_count) {
        *ret_address = c->bootstrap[index];
        return true;
    }
    index -= c->bootstrap_count;
    if (index < c->nodes_count) {
        *ret_address = c->nodes[index].address;
        return true;
    }
    return false;
}

static void seek(struct client *c)
{
    struct client_link *link = link_of(c, CLIENT_NODE_BOOTSTRAP, NULL);
    if (link == NULL) {
        end_seeking(c, client_say(c->seek_why, ERR_BUSY, "no memory for a connection"));
        return;
    }
    while (link->conn.state == CLIENT_CONN_CLOSED) {
        if (c->seek_index == 1) {
            c->seek_failure = link->conn.failure;
            memcpy(c->seek_why, link->conn.why, sizeof(c->seek_why));
        }
        struct client_address address;
        if (!next_address(c, c->seek_index, &address)) {
            end_seeking(c, c->seek_failure);
            return;
        }
        c->seek_index++;
        dial(c, link, address);
        look_at(c, link);
    }
}

static void send_to_any(struct client *c)
{
    if (list_is_empty(&c->seeking)) {
        return;
    }
    struct client_link *link = any_open(c);
    if (link == NULL) {
        seek(c);
        return;
    }
    c->seek_index = 0;
    /* It may break meanwhile: the others seek on. */
    while (!list_is_empty(&c->seeking) && link->conn.state == CLIENT_CONN_OPEN) {
        struct client_call *call = container_of(c->seeking.next, struct client_call, link);
        list_remove(&call->link);
        client_conn_post(&link->conn, call);
    }
}

/* ---- what the loop drives ---- */

static void free_link(struct client_link *link)
{
    client_conn_done(&link->conn);
    list_remove(&link->link);
    free(link);
}

/* Those that were held when their owner went. */
static void free_dropped(struct client *c)
{
    list_for_each_safe (node, &c->links) {
        if (link_at(node)->is_dropped) {
            free_link(link_at(node));
        }
    }
}

void client_links_turn(struct client *c, uint64_t *next_us)
{
    const uint64_t now_us = client_now_us(c);
    list_for_each (node, &c->links) {
        struct client_link *link = link_at(node);
        client_conn_expire(&link->conn, now_us);
        look_at(c, link);
        dial_if_needed(c, link, next_us);
    }
    send_to_any(c);
    free_dropped(c);
    list_for_each (node, &c->links) {
        const uint64_t deadline_us = client_conn_deadline(&link_at(node)->conn);
        *next_us = deadline_us < *next_us ? deadline_us : *next_us;
    }
}

/* A connection that was idle may turn out broken only when it is used: then the call goes again.
 * Each round closes one connection that was open before the call; a fresh one ends it. */
static bool is_worth_repeating(const struct client *c, const struct client_call *call)
{
    return call->err == ERR_CLOSED && call->node_id == CLIENT_NODE_ANY && call->is_repeatable &&
           call->was_sent && call->serial == c->serial;
}

void client_finish_calls(struct client *c)
{
    while (!list_is_empty(&c->finished)) {
        struct client_call *call = container_of(c->finished.next, struct client_call, link);
        list_remove(&call->link);
        if (!c->is_stopping && is_worth_repeating(c, call)) {
            list_push_back(&c->seeking, &call->link);
            continue;
        }
        if (call->on_done != NULL) {
            call->on_done(call);
        } else {
            call->is_done = true;
            client_changed(c);
        }
    }
}

bool client_cancel(struct client_call *call)
{
    if (call->was_sent) {
        return false;
    }
    list_remove(&call->link);
    return true;
}

void client_links_drop(struct client *c, const void *owner)
{
    list_for_each_safe (node, &c->links) {
        struct client_link *link = link_at(node);
        if (link->owner == owner) {
            client_conn_fail(&link->conn, ERR_CANCELLED, "the client is closed");
            link->is_dropped = true;
            if (!link->is_held) {
                free_link(link);
            }
        }
    }
}

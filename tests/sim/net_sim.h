/* The simulated net: net/transport.h in memory, with drawn delays, fragments of any size and
 * connections that break.
 *
 * The server's end of a link is a stream of one shard's transport; its callbacks come from that
 * shard's loop. The client's end belongs to the simulator; its callbacks come from the net, between
 * steps. Bytes of one direction keep their order; a link that breaks loses what was on its way.
 *
 * One net per incarnation of the machine. When that crashes, the streams are never looked at again,
 * and the clients are told that their links are gone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/list.h"
#include "core/shard.h"
#include "net/transport.h"

#include "tests/sim/machine.h"

struct net_sim;
struct net_link;

/* The client's end. */
struct net_client_ops {
    void (*on_connected)(void *client);
    void (*on_bytes)(void *client, const uint8_t *data, size_t size);
    /* The last callback. The link is gone. */
    void (*on_gone)(void *client);
};

struct net_sim_transport {
    struct transport transport;
    struct net_sim *net;
    struct shard *s;
    struct task task;
    struct listen_options listener; /* One is enough here. */
    bool is_listening;
};

struct net_sim {
    struct sim *sim;
    struct machine *machine;
    struct machine_source source;
    struct net_sim_transport transports[SIM_SHARDS_MAX];
    struct list links; /* struct net_link */
    uint64_t links_made;
    bool is_steady; /* No connection breaks by itself. */
};

/* Adds itself as a source to the machine. */
void net_sim_start(struct net_sim *net, struct machine *m);
struct transport *net_sim_transport(struct net_sim *net, uint16_t shard);
/* All streams were freed by their users; clients are told. */
void net_sim_stop(struct net_sim *net);
/* The machine crashed. */
void net_sim_crash(struct net_sim *net);

/* Connects to a drawn shard that listens. NULL if none does. */
struct net_link *net_dial(struct net_sim *net, void *client, const struct net_client_ops *ops);
/* Copies. */
void net_client_send(struct net_link *l, const void *data, size_t size);
/* Closes in order: what was sent still arrives. No callback comes after it. */
void net_client_close(struct net_link *l);

/* The client from inside: its connections, and what it knows of the cluster. Private to client/.
 *
 * One thread at a time, as the client.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/client_conn.h"
#include "client/client_env.h"
#include "kafka/proto/metadata.h"

enum {
    CLIENT_NODE_BOOTSTRAP = -1, /* Node id of a connection to an address of the options. */
    CLIENT_BACKOFF_MS_MIN = 50,
    CLIENT_BACKOFF_MS_MAX = 1000,
    CLIENT_ARENA_SIZE_MAX = 1 << 30,
};

/* A connection and whom it reaches; kept until the client goes. */
struct client_link {
    int32_t node_id;
    struct client_conn conn;
    struct client_link *next;
};

/* Where a broker is, as the latest metadata said. */
struct client_node {
    int32_t id;
    struct client_address address;
};

struct client {
    struct client_env *env;
    struct client_env own_env; /* env, unless a test brought its own. */
    struct clock clock;
    struct rand rand;
    char *client_id;
    uint32_t timeout_ms;
    bool was_connected;
    struct client_address *bootstrap;
    size_t bootstrap_count;
    struct client_node *nodes;
    size_t nodes_count;
    struct client_link *links;
};

/* With a world of the caller's, which must outlive the client; NULL: the kernel's. */
enum err client_new_in(const struct client_options *options,
                       struct client_env *env,
                       char ret_why[CLIENT_WHY_SIZE],
                       struct client **ret_client);

/* An open connection to the broker; ERR_NOT_FOUND if the latest metadata do not name it. */
enum err client_link_to(struct client *c, int32_t node_id, struct client_conn **ret_conn);

/* Asks any broker; once more over a fresh connection if one that was idle turns out broken. The
 * request must be one that does no harm when carried out twice. */
enum err client_ask_any(struct client *c, const struct client_call *call);

/* Asks any broker, once. */
enum err client_ask_once(struct client *c, const struct client_call *call);

/* Waits: backoff before attempt number attempt (1 = the first retry), jittered, not past the
 * deadline. */
void client_back_off(struct client *c, uint32_t attempt, uint64_t deadline_us);

/* ---- client_metadata.c ---- */

/* Metadata for names (NULL: all topics), decoded into arena; also learns where the brokers are. */
enum err client_metadata_ask(struct client *c,
                             const char *const *names,
                             size_t names_count,
                             struct arena *arena,
                             struct metadata_response *ret_response);

/* What a producer or consumer knows of its topic. */
struct client_topic {
    char *name;
    struct uuid id;
    int32_t partitions_count;
    int32_t *leaders; /* Node ids by partition; -1 = none. */
};

/* Asks for the topic. ERR_TOPIC_UNKNOWN. */
enum err client_topic_init(struct client *c, const char *name, struct client_topic *ret_topic);
void client_topic_done(struct client_topic *t);

/* Asks again. A topic that was deleted and created again under its name is an error: offsets and
 * sequences of the old one mean nothing in it. On error t is as before. */
enum err client_topic_refresh(struct client *c, struct client_topic *t);

/* ---- client_admin.c ---- */

/* Until an answer names it, a topic counts as not answered. */
void client_init_results(struct client_topic_result *results, size_t count);

/* message, if there is one, is the broker's own and better than ours: it may name the bad option.
 */
void client_set_result(struct client_topic_result *result, int16_t code, struct slice message);

/* The admin interface of a broker: HTTP on shard 0.
 *
 *   GET /          which pages there are
 *   GET /healthz   200 while the process turns its loop; what an operator has to look at
 *   GET /readyz    200 when the broker serves, else 503 with the reason
 *   GET /metrics   all shards' metrics for Prometheus
 *
 * Shard: 0.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "net/transport.h"

struct admin;
struct shard;

enum {
    ADMIN_REASON_SIZE = 256,
};

/* Texts are copied. */
struct admin_problem {
    const char *code; /* One word, for programs. */
    const char *subject;
    const char *action; /* What to do, for people. */
};

enum {
    ADMIN_PROBLEMS_MAX = 64,
};

struct admin_options {
    struct shard *shard; /* All shards of its group must run while requests are served. */
    struct transport *transport;
    struct net_address address;
    const char *version; /* Must outlive. */
    void *context;
    /* Whether clients are served; if not, ret_reason gets one line that says what is waited for. */
    bool (*is_ready)(void *context, char ret_reason[ADMIN_REASON_SIZE]);
    /* Returns how many there are now. Also called before metrics are read, so that what it looks at
     * is fresh on that page. */
    uint32_t (*find_problems)(void *context, struct admin_problem ret[ADMIN_PROBLEMS_MAX]);
};

/* Starts to listen. On failure why has one line that names the fix. */
enum err admin_new(const struct admin_options *o, struct admin **ret_admin, char why[NET_WHY_SIZE]);
/* The port bound. */
uint16_t admin_port(const struct admin *a);
/* Answers what is being worked on; on_stopped from the loop. */
void admin_stop(struct admin *a, void *context, void (*on_stopped)(void *context));
/* After on_stopped, or when the loop never ran. Accepts NULL. */
void admin_free(struct admin *a);

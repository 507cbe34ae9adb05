/* AlterConfigs and IncrementalAlterConfigs are one thing in two forms: this is the thing. A handler
 * brings its request into the form below; the rules of CONFIGS.md, section 3, that need no state
 * are here, the others in cluster/config_change.h. Each resource is altered as a whole or not at
 * all, and answers for itself.
 *
 * Shard: the request's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "core/slice.h"
#include "kafka/proto/error_codes.h"

struct request;

/* One resource. */
struct config_alteration {
    int8_t resource_type;
    struct slice resource_name; /* As the client wrote it, for the answer. */
    struct slice name;          /* As it is called here. */
    struct config_change *changes;
    size_t changes_count;
    /* The answer. */
    enum kafka_error error;
    struct slice message; /* Null if there is none. */

    struct controller_request request; /* Private, as what follows. */
    bool is_submitted;
};

struct config_alter {
    struct config_alteration *all;
    size_t count;
    bool is_replacing;
    bool is_validate_only;
    /* Called once, when all have their answer. */
    void (*answer)(struct request *r, struct config_alter *alter);
    size_t pending_count; /* Private. */
};

/* In the request's memory, as r->state; NULL at its limit. */
struct config_alter *config_alter_new(struct request *r, size_t count);
/* Likewise room for one resource's changes. */
bool config_alter_reserve(struct request *r, struct config_alteration *a, size_t changes_count);
void config_alter_run(struct request *r, struct config_alter *alter);

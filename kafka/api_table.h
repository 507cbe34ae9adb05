/* What is served: one row per API.
 *
 * Shard: any; constant.
 */
#pragma once

#include <stdint.h>

#include "kafka/proto/schema.h"
#include "net/conn.h"

struct request;

/* Who pays for a request when quotas are set. */
enum api_quota {
    API_QUOTA_NONE,
    API_QUOTA_PRODUCE,    /* producer_byte_rate */
    API_QUOTA_FETCH,      /* consumer_byte_rate */
    API_QUOTA_REQUEST,    /* request_percentage */
    API_QUOTA_CONTROLLER, /* controller_mutation_rate */
};

struct api {
    int16_t key;
    int16_t listed_min; /* What ApiVersions says ... */
    int16_t
        served_min; /* ... and what is not refused: the same but for Produce (CLIENTS rule 1). */
    int16_t max;
    enum conn_class class;
    enum api_quota quota;
    const struct schema_api *schema;
    /* Starts a request whose body is decoded; see request.h for how it ends. */
    void (*handle)(struct request *r);
};

enum {
    API_COUNT = 44,
};

extern const struct api API_TABLE[API_COUNT];

/* NULL if the key is not served. */
const struct api *api_find(int16_t key);

/* Which path means what.
 *
 * Shard: 0.
 */
#pragma once

#include "admin/admin.h"
#include "admin/http.h"
#include "admin/metrics.h"

struct pages {
    struct shard *shard;
    struct metrics_info info;
    void *context;
    bool (*is_ready)(void *context, char ret_reason[ADMIN_REASON_SIZE]);
    uint32_t (*find_problems)(void *context, struct admin_problem ret[ADMIN_PROBLEMS_MAX]);
};

/* Answers r, now or later. */
void pages_serve(struct pages *p, struct http_request *r);

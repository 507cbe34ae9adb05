/* The texts of HTTP answers. Pure.
 *
 * Shard: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/admin.h"

enum {
    HTTP_HEAD_SIZE_MAX = 1024,
};

/* "Not Found". Never NULL. */
const char *http_status_title(uint32_t status);

struct http_head {
    uint32_t status;
    const char *content_type;
    const char *header; /* NULL = none. */
    size_t content_size;
    int64_t wall_ms;
    bool is_keep_alive;
};

/* Status line and headers, up to and with the empty line. Returns the size. */
size_t http_format_head(const struct http_head *h, char ret_text[HTTP_HEAD_SIZE_MAX]);

/* A problem object, malloc'ed; NULL without memory. */
char *http_format_problem(uint32_t status, const char *detail, size_t *ret_size);
/* The page of /healthz, likewise. */
char *http_format_health(const struct admin_problem *problems, uint32_t count, size_t *ret_size);

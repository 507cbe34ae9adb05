/* Requests on their way to the controller engine: from what a client asked, and what this node has
 * (data directories, space), to a proposal.
 *
 * Shard: shard 0.
 */
#pragma once

#include <stdbool.h>

#include "core/err.h"
#include "core/wbuf.h"

struct cluster;
struct controller;
struct controller_request;

/* A request that changes topics: its command in bytes, and in r what its answer will say; or the
 * error, with r->message. */
enum err controller_judge(struct cluster *c,
                          const struct controller *engine,
                          struct controller_request *r,
                          struct wbuf *bytes);

/* It only asks what would happen (validate_only). */
bool controller_judge_is_question(const struct controller_request *r);

/* The command that registers this start of this node. */
void controller_judge_node(struct cluster *c, struct wbuf *bytes);

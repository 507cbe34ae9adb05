/* ListGroups: one group in the words of its answer.
 *
 * Shard: the coordinator's.
 */
#pragma once

#include <stdbool.h>

struct group;
struct list_groups_request;
struct list_groups_response_group;

/* False if the filters of in pass it over. What out points to is the group's. */
bool listing_fill(const struct group *g,
                  const struct list_groups_request *in,
                  struct list_groups_response_group *out);

/* Partitions that an operator has to do something about, by name, for the health page: each shard
 * tells shard 0 of its own, once per partition and start.
 *
 * Bounded: shard 0 remembers TROUBLES_MAX of topics that are there, and only counts the others;
 * what a shard cannot tell for want of memory stands in the log all the same.
 *
 * Shard: the owner's, as said at each call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/metadata.h"
#include "core/ids.h"

struct cluster;
struct cluster_problem;

enum {
    TROUBLES_MAX = 16,
    TROUBLE_NAME_SIZE = TOPIC_NAME_SIZE_MAX + 16,
};

enum trouble_kind {
    TROUBLE_DAMAGED, /* Served but for what was lost. */
    TROUBLE_FAILED,
    TROUBLE_WORSE, /* Failed, and was told of as damaged. */
};

struct trouble {
    struct partition_id id;
    enum trouble_kind kind;
    char name[TROUBLE_NAME_SIZE]; /* "<topic>-<partition>" */
};

/* Of shard 0; zeroed = none. */
struct troubles {
    struct trouble known[TROUBLES_MAX];
    uint32_t known_count;
    uint32_t more_count;
    char more_text[32]; /* "<N> more partitions" */
};

/* On the shard that owns the partition. */
void troubles_tell(struct cluster *c,
                   const struct partition_id *id,
                   const char *name,
                   enum trouble_kind kind);

/* On shard 0: adds those whose topics are still there to ret, which has room for count_max, and
 * returns how many. */
uint32_t
troubles_list(struct cluster *c, struct cluster_problem *ret, uint32_t count, uint32_t count_max);

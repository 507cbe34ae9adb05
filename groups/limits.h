/* Bounds of what groups may take (memory.h) that are reached: one line in the log when that begins
 * and one when it is over, and for the health page. A bound is over again below nine tenths of it.
 *
 * Shard: every shard has one; told to shard 0, which is asked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct group_memory;
struct groups_settings;
struct shard;

enum group_limit {
    GROUP_LIMIT_MEMORY,
    GROUP_LIMIT_GROUPS,
    GROUP_LIMIT_MEMBERS,
    GROUP_LIMIT_COUNT,
};

struct limits {
    struct shard *s;
    const struct group_memory *memory;
    const struct groups_settings *settings;
    struct limits *reader; /* Shard 0's, which outlives messages to it. */
    bool is_reached[GROUP_LIMIT_COUNT];
    uint32_t shards_count[GROUP_LIMIT_COUNT]; /* Of shard 0: where it is reached. */
};

/* Zeroed, with the first four set. Looks, and tells what has changed. */
void limits_look(struct limits *l);

struct group_problem {
    const char *code; /* "group_memory_full", "groups_full", "group_members_full" */
    const char *subject;
    const char *action;
};
/* Of shard 0. Returns how many there are. */
uint32_t limits_list(const struct limits *l, struct group_problem ret[GROUP_LIMIT_COUNT]);

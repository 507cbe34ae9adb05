/* Where the partitions of a topic that is created or grows go: picked once, and then part of the
 * command.
 *
 * Shard: shard 0.
 */
#pragma once

#include <stdint.h>

#include "cluster/commands.h"
#include "cluster/placement.h"
#include "core/ids.h"
#include "core/slice.h"

struct controller;

struct topic_places {
    struct uuid directories[COMMAND_DIRECTORIES_MAX]; /* Only those that were picked. */
    uint32_t directories_count;
    uint8_t *directory_of; /* By partition, as many as were asked for: index in directories. */
    int32_t partitions_count;
};

/* One of directories (at least one, at most COMMAND_DIRECTORIES_MAX) for each of partitions_count
 * partitions; how many partitions a directory has already, the controller knows. */
void topic_places_pick(const struct controller *ct,
                       const struct placement_directory *directories,
                       uint32_t directories_count,
                       int32_t partitions_count,
                       struct topic_places *places);
void topic_places_done(struct topic_places *places);

/* As they stand in a command; views into places. */
struct slice topic_places_directories(const struct topic_places *places);
struct slice topic_places_directory_of(const struct topic_places *places);

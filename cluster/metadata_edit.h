/* The writing side of metadata.h, for those who apply committed commands.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/commands.h"
#include "cluster/config_resources.h"
#include "cluster/metadata.h"
#include "cluster/settings.h"

/* Out of memory ends the process: an image that misses a committed change must not serve. */
struct metadata *
metadata_new(const struct cluster_settings *settings, uint64_t hash_seed, uint16_t shards_count);
/* Accepts NULL. */
void metadata_free(struct metadata *m);

void metadata_set_leader_epoch(struct metadata *m, int32_t leader_epoch);

/* The topic as added. ERR_EXISTS if there is one of that id or name. */
enum err metadata_add_topic(struct metadata *m,
                            const struct command_topic_created *created,
                            const struct topic **ret_topic);
/* The topic with its new partitions. ERR_NOT_FOUND if it is unknown, ERR_INVALID if the command is
 * not about the topic as it is, or its partitions would be in too many directories. */
enum err metadata_add_partitions(struct metadata *m,
                                 const struct command_partitions_added *added,
                                 const struct topic **ret_topic);
/* Of a topic, as altered; NULL if it is unknown. */
const struct topic *metadata_alter_topic(struct metadata *m,
                                         const struct command_configs_altered *altered);
/* Of anything else. After a broker's the settings of topics follow by metadata_derive_topic. */
void metadata_alter_resource(struct metadata *m, const struct command_configs_altered *altered);
/* What is in effect for the topic at that index, anew. */
const struct topic *metadata_derive_topic(struct metadata *m, uint32_t index);
/* False if unknown. Pointers to it are dead afterwards. */
bool metadata_remove_topic(struct metadata *m, const struct uuid *id);

/* In how many directories its partitions would be with these. */
uint32_t metadata_directories_with(const struct topic *t, struct slice directories);

/* What is in effect for a topic; NULL: for one without values of its own. */
struct topic_config_set metadata_topic_configs(const struct metadata *m, const struct topic *t);

/* Walks everything: order, both indexes agree. */
void metadata_check(const struct metadata *m);

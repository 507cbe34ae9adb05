/* Topics of the broker's own, by name as Kafka has them: what one is made with, whoever asks for it
 * first, and what nobody may do to it.
 *
 * Rules:
 *  1. A name of struct cluster_settings' table is internal, also in data that knew nothing of it.
 *     Whatever a request to create it leaves out comes from the table.
 *  2. It is compacted, always. Nobody deletes it, makes it grow or moves its log start: what is
 *     hashed over its partitions would be lost, or not be found.
 *  3. It counts for no limit of topics and partitions, and is created on a disk that is full for
 *     records: without it nobody could say where he stands.
 *  4. The names of Kafka's internal topics that are not in the table are nobody's.
 *
 * Shard: pure; any. cluster_ensure_internal_topic: that of c.
 */
#pragma once

#include <stdbool.h>

#include "cluster/cluster.h"
#include "cluster/settings.h"
#include "core/err.h"
#include "core/slice.h"

/* NULL if it is none. */
const struct internal_topic *internal_topic_find(const struct cluster_settings *settings,
                                                 struct slice name);

/* The same, of a broker. On the shard of c. */
const struct internal_topic *cluster_internal_topic(const struct cluster *c, struct slice name);
/* Whether Kafka would call a topic of that name internal, be there one or not. */
bool internal_topic_is_kafkas(struct slice name);
/* May it be created at all? ERR_INVALID: why says so. */
enum err internal_topic_check_name(const struct cluster_settings *settings,
                                   struct slice name,
                                   char why[TOPIC_NAME_WHY_SIZE]);
/* ERR_CONFIG_INVALID if a topic of that name may not have these configurations: it must say of
 * itself that it is compacted. */
enum err internal_topic_check_configs(const struct cluster_settings *settings,
                                      struct slice name,
                                      const struct topic_config_set *set,
                                      char why[TOPIC_NAME_WHY_SIZE]);
/* ERR_POLICY: of an internal topic, for doing what it may not suffer, as in "deleted". */
enum err
internal_topic_refuse(const struct topic *t, const char *what, char why[TOPIC_NAME_WHY_SIZE]);

/* Sees to it that the topic is there: on_done with ERR_OK once every shard knows it and its
 * partitions are open, whoever made it; or with the error, as of controller_submit. name is one of
 * the settings' table. Any number of shards may ask at the same time. */
struct internal_topic_request {
    struct controller_request request; /* Private, but for its message. */
    void *context;
    void (*on_done)(struct internal_topic_request *r, enum err e);
};
void cluster_ensure_internal_topic(struct cluster *c,
                                   struct internal_topic_request *r,
                                   const char *name);

#include "kafka/lookup.h"

#include <stddef.h>

#include "cluster/cluster.h"
#include "cluster/topic_name.h"
#include "kafka/request.h"

enum kafka_error
lookup_topic(const struct request *r, const struct lookup *how, const struct topic **ret_topic)
{
    const struct metadata *m = cluster_metadata(r->d->cluster);
    const struct topic *t =
        how->is_by_id ? metadata_topic_by_id(m, &how->id) : metadata_topic_by_name(m, how->name);
    if (t == NULL) {
        return how->is_by_id ? KAFKA_UNKNOWN_TOPIC_ID : KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    }
    *ret_topic = t;
    return KAFKA_NONE;
}

enum kafka_error lookup_absent(struct slice name)
{
    char why[TOPIC_NAME_WHY_SIZE];
    return topic_name_check(name, why) == ERR_OK ? KAFKA_UNKNOWN_TOPIC_OR_PARTITION
                                                 : KAFKA_INVALID_TOPIC_EXCEPTION;
}

enum kafka_error lookup_partition(enum kafka_error error,
                                  const struct topic *t,
                                  int32_t partition,
                                  struct partition_id *ret_id)
{
    if (error != KAFKA_NONE) {
        return error;
    }
    if (partition < 0 || partition >= t->partitions_count) {
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    }
    *ret_id = (struct partition_id){.topic_id = t->id, .partition = partition};
    return KAFKA_NONE;
}

bool lookup_is_served(const struct request *r, const struct topic *t, int32_t partition)
{
    return cluster_serves_directory(r->d->cluster, topic_directory(t, partition));
}

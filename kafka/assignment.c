#include "kafka/assignment.h"

#include "cluster/cluster.h"
#include "kafka/request.h"

enum kafka_error assignment_check(struct request *r,
                                  const int32_t *brokers,
                                  size_t brokers_count,
                                  struct slice *ret_why)
{
    const int32_t node_id = metadata_node_id(cluster_metadata(r->d->cluster));
    if (brokers_count == 0) {
        *ret_why = slice_of_string("The manual partition assignment includes an empty replica "
                                   "list.");
        return KAFKA_INVALID_REPLICA_ASSIGNMENT;
    }
    for (size_t i = 0; i < brokers_count; i++) {
        if (brokers[i] != node_id) {
            *ret_why = request_text(r,
                                    "The manual partition assignment includes broker %d, but no "
                                    "such broker is registered.",
                                    brokers[i]);
            return KAFKA_INVALID_REPLICA_ASSIGNMENT;
        }
    }
    if (brokers_count > 1) {
        *ret_why = request_text(
            r, "The manual partition assignment includes the broker %d more than once.", node_id);
        return KAFKA_INVALID_REPLICA_ASSIGNMENT;
    }
    return KAFKA_NONE;
}

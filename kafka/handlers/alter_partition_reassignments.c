/* AlterPartitionReassignments: with one node each partition stays where it is, and to ask for
 * exactly that is no error.
 */
#include "kafka/proto/alter_partition_reassignments.h"

#include "cluster/cluster.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
#include "kafka/request.h"

typedef struct alter_partition_reassignments_request_partition partition_in;
typedef struct alter_partition_reassignments_response_partition partition_out;

static void set_error(partition_out *out, enum kafka_error error, struct slice message)
{
    out->error_code = (int16_t)error;
    out->error_message = message;
}

static void judge(struct request *r, const partition_in *in, partition_out *out)
{
    const int32_t node_id = metadata_node_id(cluster_metadata(r->d->cluster));
    if (in->replicas == NULL) {
        set_error(out,
                  KAFKA_NO_REASSIGNMENT_IN_PROGRESS,
                  slice_of_string("No partition reassignment is in progress."));
        return;
    }
    if (in->replicas_count == 0) {
        set_error(
            out,
            KAFKA_INVALID_REPLICA_ASSIGNMENT,
            slice_of_string("The manual partition assignment includes an empty replica list."));
        return;
    }
    for (size_t i = 0; i < in->replicas_count; i++) {
        if (in->replicas[i] != node_id) {
            set_error(out,
                      KAFKA_INVALID_REPLICA_ASSIGNMENT,
                      request_text(r,
                                   "The manual partition assignment includes broker %d, but no "
                                   "such broker is registered.",
                                   in->replicas[i]));
            return;
        }
    }
    if (in->replicas_count > 1) {
        set_error(out,
                  KAFKA_INVALID_REPLICA_ASSIGNMENT,
                  request_text(r,
                               "The manual partition assignment includes the broker %d more than "
                               "once.",
                               node_id));
    }
}

static bool fill_topic(struct request *r,
                       const struct alter_partition_reassignments_request_topic *in,
                       struct alter_partition_reassignments_response_topic *out)
{
    const struct lookup how = {.name = in->name};
    const struct topic *t = NULL;
    const enum kafka_error topic_error = lookup_topic(r, &how, &t);
    alter_partition_reassignments_response_topic_init(out);
    out->name = in->name;
    out->partitions_count = in->partitions_count;
    out->partitions = request_alloc(r, in->partitions_count, sizeof(*out->partitions));
    if (out->partitions == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->partitions_count; i++) {
        partition_out *p = &out->partitions[i];
        struct partition_id id;
        alter_partition_reassignments_response_partition_init(p);
        p->partition_index = in->partitions[i].partition_index;
        const enum kafka_error error = lookup_partition(topic_error, t, p->partition_index, &id);
        if (error == KAFKA_NONE) {
            judge(r, &in->partitions[i], p);
        } else {
            set_error(p, error, kafka_error_advice(ERR_TOPIC_UNKNOWN));
        }
    }
    return true;
}

void handle_alter_partition_reassignments(struct request *r)
{
    const struct alter_partition_reassignments_request *in = r->in;
    struct alter_partition_reassignments_response out;
    alter_partition_reassignments_response_init(&out);
    out.allow_replication_factor_change = in->allow_replication_factor_change;
    out.responses_count = in->topics_count;
    out.responses = request_alloc(r, in->topics_count, sizeof(*out.responses));
    bool is_filled = out.responses != NULL;
    for (size_t i = 0; i < in->topics_count && is_filled; i++) {
        is_filled = fill_topic(r, &in->topics[i], &out.responses[i]);
    }
    if (is_filled) {
        request_answer(r, &out);
    } else {
        request_abort(r, "too many partitions");
    }
}

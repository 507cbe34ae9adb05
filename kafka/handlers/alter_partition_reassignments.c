/* AlterPartitionReassignments: with one node each partition stays where it is, and to ask for
 * exactly that is no error.
 */
#include "kafka/proto/alter_partition_reassignments.h"

#include "cluster/cluster.h"
#include "kafka/assignment.h"
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
    if (in->replicas == NULL) {
        set_error(out, KAFKA_NO_REASSIGNMENT_IN_PROGRESS, (struct slice){0});
        return;
    }
    struct slice why = {0};
    const enum kafka_error error = assignment_check(r, in->replicas, in->replicas_count, &why);
    set_error(out, error, why);
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
            set_error(p,
                      error,
                      t == NULL
                          ? request_text(r,
                                         "Unable to find a topic named %.*s.",
                                         (int)in->name.size,
                                         (const char *)in->name.data)
                          : request_text(
                                r, "Unable to find partition %s:%d.", t->name, p->partition_index));
        }
    }
    return true;
}

void handle_alter_partition_reassignments(struct request *r)
{
    const struct alter_partition_reassignments_request *in = r->in;
    struct alter_partition_reassignments_response out;
    alter_partition_reassignments_response_init(&out);
    out.error_message = (struct slice){0};
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

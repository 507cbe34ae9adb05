/* ElectLeaders: every partition is led by its one replica, so that no election is ever needed. */
#include "kafka/proto/elect_leaders.h"

#include "cluster/cluster.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
#include "kafka/request.h"

enum {
    ELECTION_PREFERRED = 0,
    ELECTION_UNCLEAN = 1,
};

typedef struct elect_leaders_response_replica_election_result topic_out;

static bool is_type_known(int8_t type)
{
    return type == ELECTION_PREFERRED || type == ELECTION_UNCLEAN;
}

/* All topics: as in Kafka, partitions that need no election are left out. */
static bool fill_all(struct request *r, struct elect_leaders_response *out)
{
    const struct metadata *m = cluster_metadata(r->d->cluster);
    const size_t count = metadata_topics_count(m);
    topic_out *topics = request_alloc(r, count, sizeof(*topics));
    if (topics == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        elect_leaders_response_replica_election_result_init(&topics[i]);
        topics[i].topic = slice_of_string(metadata_topic_at(m, (uint32_t)i)->name);
    }
    out->replica_election_results = topics;
    out->replica_election_results_count = count;
    return true;
}

/* What Kafka says of one partition; the request's type is good or not. */
static enum kafka_error judge(struct request *r,
                              const struct elect_leaders_request_topic_partition *in,
                              int32_t partition,
                              struct slice *ret_why)
{
    const struct elect_leaders_request *request = r->in;
    const struct lookup how = {.name = in->topic};
    const struct topic *t = NULL;
    struct partition_id id;
    if (!is_type_known(request->election_type)) {
        *ret_why = request_text(r, "Unknown election type %d", request->election_type);
        return KAFKA_INVALID_REQUEST;
    }
    const enum kafka_error topic_error = lookup_topic(r, &how, &t);
    const enum kafka_error error = lookup_partition(topic_error, t, partition, &id);
    if (t == NULL) {
        *ret_why = request_text(
            r, "No such topic as %.*s", (int)in->topic.size, (const char *)in->topic.data);
    } else if (error != KAFKA_NONE) {
        *ret_why = request_text(r, "No such partition as %s-%d", t->name, partition);
    }
    return error;
}

static bool fill_topic(struct request *r,
                       const struct elect_leaders_request_topic_partition *in,
                       topic_out *out)
{
    elect_leaders_response_replica_election_result_init(out);
    out->topic = in->topic;
    out->partition_result_count = in->partitions_count;
    out->partition_result = request_alloc(r, in->partitions_count, sizeof(*out->partition_result));
    if (out->partition_result == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->partitions_count; i++) {
        struct elect_leaders_response_partition_result *p = &out->partition_result[i];
        elect_leaders_response_partition_result_init(p);
        p->partition_id = in->partitions[i];
        p->error_message = slice_of_string("Leader election not needed for topic partition.");
        const enum kafka_error error = judge(r, in, p->partition_id, &p->error_message);
        p->error_code = (int16_t)(error == KAFKA_NONE ? KAFKA_ELECTION_NOT_NEEDED : error);
    }
    return true;
}

static bool fill_some(struct request *r, struct elect_leaders_response *out)
{
    const struct elect_leaders_request *in = r->in;
    const size_t count = in->topic_partitions_count;
    out->replica_election_results_count = count;
    out->replica_election_results = request_alloc(r, count, sizeof(*out->replica_election_results));
    if (out->replica_election_results == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!fill_topic(r, &in->topic_partitions[i], &out->replica_election_results[i])) {
            return false;
        }
    }
    return true;
}

void handle_elect_leaders(struct request *r)
{
    const struct elect_leaders_request *in = r->in;
    struct elect_leaders_response out;
    elect_leaders_response_init(&out);
    if (!is_type_known(in->election_type)) {
        out.error_code = KAFKA_INVALID_REQUEST;
    }
    if (in->topic_partitions == NULL ? fill_all(r, &out) : fill_some(r, &out)) {
        request_answer(r, &out);
    } else {
        request_abort(r, "the answer is too large");
    }
}

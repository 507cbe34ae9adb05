/* DescribeLogDirs: how much each partition takes on which data directory. Partitions that are
 * unknown or cannot be read are left out, as in Kafka.
 */
#include "kafka/proto/describe_log_dirs.h"

#include <string.h>

#include "kafka/fanout.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
#include "kafka/request.h"

typedef struct describe_log_dirs_response_result result_out;
typedef struct describe_log_dirs_response_topic topic_out;
typedef struct describe_log_dirs_response_partition partition_out;

enum {
    NO_TOPIC = -1,
};

struct part {
    struct fanout_part fan;
    struct slice topic;
    int64_t topic_number; /* In the order of the request. */
    uint32_t dir;         /* Index of its directory. */
    bool is_known;
};

/* A directory while its answer is counted and then filled. */
struct dir {
    struct cluster_log_dir at;
    int64_t topic_number; /* The last one met. */
    size_t topics_count;
    size_t partitions_count;
    partition_out *partitions; /* The next one. */
};

struct describe_log_dirs_state {
    struct fanout fanout;
    struct part *parts;
    size_t parts_count;
    struct dir *dirs;
    uint32_t dirs_count;
};

static void on_part(struct fanout *f, struct fanout_part *fan, enum err e)
{
    (void)f;
    container_of(fan, struct part, fan)->is_known = e == ERR_OK;
}

static void count_parts(struct describe_log_dirs_state *state)
{
    for (size_t i = 0; i < state->parts_count; i++) {
        const struct part *part = &state->parts[i];
        struct dir *dir = &state->dirs[part->dir];
        if (!part->is_known) {
            continue;
        }
        dir->topics_count += part->topic_number != dir->topic_number;
        dir->topic_number = part->topic_number;
        dir->partitions_count++;
    }
}

static bool fill_dir(struct request *r, struct dir *dir, result_out *out)
{
    describe_log_dirs_response_result_init(out);
    out->log_dir = slice_of_string(dir->at.path);
    out->error_code = dir->at.is_failed ? KAFKA_KAFKA_STORAGE_ERROR : KAFKA_NONE;
    out->usable_bytes = dir->at.usable_size;
    out->topics = request_alloc(r, dir->topics_count, sizeof(*out->topics));
    dir->partitions = request_alloc(r, dir->partitions_count, sizeof(*dir->partitions));
    dir->topic_number = NO_TOPIC;
    return out->topics != NULL && dir->partitions != NULL;
}

static void fill_part(const struct part *part, struct dir *dir, result_out *out)
{
    if (part->topic_number != dir->topic_number) {
        dir->topic_number = part->topic_number;
        topic_out *t = &out->topics[out->topics_count++];
        describe_log_dirs_response_topic_init(t);
        t->name = part->topic;
        t->partitions = dir->partitions;
    }
    partition_out *p = dir->partitions++;
    describe_log_dirs_response_partition_init(p);
    p->partition_index = part->fan.op.id.partition;
    p->partition_size = (int64_t)part->fan.op.out.size.log_size;
    out->topics[out->topics_count - 1].partitions_count++;
}

static void on_all(struct fanout *f)
{
    struct request *r = f->request;
    struct describe_log_dirs_state *state = r->state;
    struct describe_log_dirs_response out;
    describe_log_dirs_response_init(&out);
    count_parts(state);
    out.results_count = state->dirs_count;
    out.results = request_alloc(r, state->dirs_count, sizeof(*out.results));
    bool is_filled = out.results != NULL;
    for (uint32_t i = 0; i < state->dirs_count && is_filled; i++) {
        is_filled = fill_dir(r, &state->dirs[i], &out.results[i]);
    }
    if (!is_filled) {
        request_abort(r, "the answer is too large");
        return;
    }
    for (size_t i = 0; i < state->parts_count; i++) {
        const struct part *part = &state->parts[i];
        if (part->is_known) {
            fill_part(part, &state->dirs[part->dir], &out.results[part->dir]);
        }
    }
    request_answer(r, &out);
}

/* Asks for one partition, if it is in a directory of this node. name is the topic's, and stays. */
static void add_part(
    struct request *r, const struct topic *t, struct slice name, int64_t number, int32_t partition)
{
    struct describe_log_dirs_state *state = r->state;
    if (partition < 0 || partition >= t->partitions_count) {
        return;
    }
    uint32_t dir = 0;
    while (dir < state->dirs_count &&
           !uuid_equal(&state->dirs[dir].at.id, topic_directory(t, partition))) {
        dir++;
    }
    if (dir == state->dirs_count) {
        return; /* A lost one. */
    }
    struct part *part = &state->parts[state->parts_count++];
    part->topic = name;
    part->topic_number = number;
    part->dir = dir;
    part->fan.op.kind = PARTITION_SIZE;
    part->fan.op.id = (struct partition_id){.topic_id = t->id, .partition = partition};
    part->fan.op.current_leader_epoch = -1;
    fanout_add(&state->fanout, &part->fan);
}

static bool ask_all(struct request *r)
{
    struct describe_log_dirs_state *state = r->state;
    const struct metadata *m = cluster_metadata(r->d->cluster);
    size_t count = 0;
    for (uint32_t i = 0; i < metadata_topics_count(m); i++) {
        count += (size_t)metadata_topic_at(m, i)->partitions_count;
    }
    state->parts = request_alloc(r, count, sizeof(*state->parts));
    if (state->parts == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < metadata_topics_count(m); i++) {
        const struct topic *t = metadata_topic_at(m, i);
        const char *name = arena_strndup(&r->arena, t->name, strlen(t->name));
        if (name == NULL) {
            return false;
        }
        for (int32_t p = 0; p < t->partitions_count; p++) {
            add_part(r, t, slice_of_string(name), i, p);
        }
    }
    return true;
}

static bool ask_some(struct request *r)
{
    const struct describe_log_dirs_request *in = r->in;
    struct describe_log_dirs_state *state = r->state;
    size_t count = 0;
    for (size_t i = 0; i < in->topics_count; i++) {
        count += in->topics[i].partitions_count;
    }
    state->parts = request_alloc(r, count, sizeof(*state->parts));
    if (state->parts == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->topics_count; i++) {
        const struct lookup how = {.name = in->topics[i].topic};
        const struct topic *t = NULL;
        if (lookup_topic(r, &how, &t) != KAFKA_NONE) {
            continue;
        }
        for (size_t p = 0; p < in->topics[i].partitions_count; p++) {
            add_part(r, t, how.name, (int64_t)i, in->topics[i].partitions[p]);
        }
    }
    return true;
}

static bool find_dirs(struct request *r)
{
    struct describe_log_dirs_state *state = r->state;
    struct cluster_log_dir dirs[CLUSTER_LOG_DIRS_MAX];
    state->dirs_count = cluster_log_dirs(r->d->cluster, dirs);
    state->dirs = request_alloc(r, state->dirs_count, sizeof(*state->dirs));
    if (state->dirs == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < state->dirs_count; i++) {
        state->dirs[i] = (struct dir){.at = dirs[i], .topic_number = NO_TOPIC};
    }
    return true;
}

void handle_describe_log_dirs(struct request *r)
{
    const struct describe_log_dirs_request *in = r->in;
    struct describe_log_dirs_state *state = request_alloc(r, 1, sizeof(*state));
    r->state = state;
    if (state == NULL) {
        request_abort(r, "no memory");
        return;
    }
    fanout_init(&state->fanout, r);
    state->fanout.on_part = on_part;
    state->fanout.on_all = on_all;
    if (!find_dirs(r) || !(in->topics == NULL ? ask_all(r) : ask_some(r))) {
        request_abort(r, "too many partitions");
        return;
    }
    fanout_run(&state->fanout, FANOUT_NO_TIMEOUT);
}

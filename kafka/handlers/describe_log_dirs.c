/* DescribeLogDirs: how much each partition takes on which data directory. Partitions that are
 * unknown or cannot be read are left out, as in Kafka.
 */
#include "kafka/proto/describe_log_dirs.h"

#include <string.h>

#include "kafka/fanout.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

typedef struct describe_log_dirs_response_result result_out;
typedef struct describe_log_dirs_response_topic topic_out;
typedef struct describe_log_dirs_response_partition partition_out;

enum {
    NOWHERE = UINT32_MAX,
};

/* A topic that is asked about, by the request or because all are. */
struct topic_asked {
    struct lookup how;
    struct slice name;
    const int32_t *partitions; /* NULL: all. */
    size_t partitions_count;
};

/* The fanout's answer for a partition. */
struct found {
    int32_t partition;
    uint32_t dir; /* Index of its directory, NOWHERE if it is not told of. */
    int64_t size;
};

/* A directory while its answer is counted and then filled. */
struct dir {
    struct cluster_log_dir at;
    const struct topic_asked *topic; /* The last one met. */
    size_t topics_count;
    size_t partitions_count;
    partition_out *partitions; /* The next one. */
};

struct describe_log_dirs_state {
    struct fanout fanout;
    struct topic_asked *topics;
    struct found *found; /* Of all topics' partitions, in order. */
    struct dir *dirs;
    uint32_t dirs_count;
};

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
        state->dirs[i] = (struct dir){.at = dirs[i]};
    }
    return true;
}

/* Topics come and go while partitions are asked: who is asked about is settled at the start. */
static bool begin_all(struct fanout *f)
{
    struct request *r = f->request;
    struct describe_log_dirs_state *state = r->state;
    const struct metadata *m = cluster_metadata(r->d->cluster);
    f->topics_count = metadata_topics_count(m);
    state->topics = request_alloc(r, f->topics_count, sizeof(*state->topics));
    for (uint32_t i = 0; i < f->topics_count && state->topics != NULL; i++) {
        const struct topic *t = metadata_topic_at(m, i);
        const char *name = arena_strndup(&r->arena, t->name, strlen(t->name));
        if (name == NULL) {
            return false;
        }
        state->topics[i] = (struct topic_asked){
            .how = {.is_by_id = true, .id = t->id},
            .name = slice_of_string(name),
            .partitions_count = (size_t)t->partitions_count,
        };
    }
    return state->topics != NULL;
}

static bool begin_some(struct fanout *f)
{
    struct request *r = f->request;
    const struct describe_log_dirs_request *in = r->in;
    struct describe_log_dirs_state *state = r->state;
    f->topics_count = in->topics_count;
    state->topics = request_alloc(r, f->topics_count, sizeof(*state->topics));
    for (size_t i = 0; i < f->topics_count && state->topics != NULL; i++) {
        state->topics[i] = (struct topic_asked){
            .how = {.name = in->topics[i].topic},
            .name = in->topics[i].topic,
            .partitions = in->topics[i].partitions,
            .partitions_count = in->topics[i].partitions_count,
        };
    }
    return state->topics != NULL;
}

static bool begin(struct fanout *f)
{
    const struct describe_log_dirs_request *in = f->request->in;
    return find_dirs(f->request) && (in->topics == NULL ? begin_all(f) : begin_some(f));
}

static void describe_topic(const struct fanout *f, size_t index, struct fanout_topic *ret)
{
    const struct describe_log_dirs_state *state = f->request->state;
    ret->how = state->topics[index].how;
    ret->partitions_count = state->topics[index].partitions_count;
}

static bool begin_topic(struct fanout *f, const struct fanout_topic *t, void *answers)
{
    struct describe_log_dirs_state *state = f->request->state;
    struct found *found = answers;
    if (state->found == NULL) {
        state->found = found;
    }
    for (size_t i = 0; i < t->partitions_count; i++) {
        found[i].dir = NOWHERE;
    }
    return true;
}

static void
begin_part(struct fanout *f, const struct fanout_topic *t, size_t number, struct fanout_part *part)
{
    const struct describe_log_dirs_state *state = f->request->state;
    const int32_t *partitions = state->topics[t->index].partitions;
    struct found *found = part->answer;
    found->partition = partitions != NULL ? partitions[number] : (int32_t)number;
    if (fanout_find(t, found->partition, part) == KAFKA_NONE) {
        part->op.kind = PARTITION_SIZE;
        fanout_ask(f, part);
    }
}

static uint32_t find_dir(const struct describe_log_dirs_state *state, const struct uuid *id)
{
    for (uint32_t i = 0; i < state->dirs_count; i++) {
        if (uuid_equal(&state->dirs[i].at.id, id)) {
            return i;
        }
    }
    return NOWHERE; /* A lost one. */
}

static void on_part(struct fanout *f, struct fanout_part *part, enum err e)
{
    const struct request *r = f->request;
    const struct partition_id *id = &part->op.id;
    struct found *found = part->answer;
    const struct topic *t = metadata_topic_by_id(cluster_metadata(r->d->cluster), &id->topic_id);
    if (e == ERR_OK && t != NULL) {
        found->dir = find_dir(r->state, topic_directory(t, id->partition));
        found->size = (int64_t)part->op.out.size.log_size;
    }
}

typedef void
visit_fn(struct dir *dir, result_out *out, const struct topic_asked *t, const struct found *found);

/* All that is told of, in order; out is NULL or has one member per directory. */
static void for_each_found(struct fanout *f, result_out *out, visit_fn *visit)
{
    struct describe_log_dirs_state *state = f->request->state;
    const struct found *found = state->found;
    for (size_t i = 0; i < f->topics_count; i++) {
        const struct topic_asked *t = &state->topics[i];
        for (size_t k = 0; k < t->partitions_count; k++, found++) {
            if (found->dir != NOWHERE) {
                visit(&state->dirs[found->dir], out == NULL ? NULL : &out[found->dir], t, found);
            }
        }
    }
}

static void
count(struct dir *dir, result_out *out, const struct topic_asked *t, const struct found *found)
{
    (void)out;
    (void)found;
    dir->topics_count += dir->topic != t;
    dir->topic = t;
    dir->partitions_count++;
}

static void
fill(struct dir *dir, result_out *out, const struct topic_asked *t, const struct found *found)
{
    if (dir->topic != t) {
        dir->topic = t;
        topic_out *topic = &out->topics[out->topics_count++];
        describe_log_dirs_response_topic_init(topic);
        topic->name = t->name;
        topic->partitions = dir->partitions;
    }
    partition_out *p = dir->partitions++;
    describe_log_dirs_response_partition_init(p);
    p->partition_index = found->partition;
    p->partition_size = found->size;
    out->topics[out->topics_count - 1].partitions_count++;
}

static bool begin_result(struct request *r, struct dir *dir, result_out *out)
{
    describe_log_dirs_response_result_init(out);
    out->log_dir = slice_of_string(dir->at.path);
    out->error_code = dir->at.is_failed ? KAFKA_KAFKA_STORAGE_ERROR : KAFKA_NONE;
    out->total_bytes = dir->at.total_size;
    out->usable_bytes = dir->at.usable_size;
    out->topics = request_alloc(r, dir->topics_count, sizeof(*out->topics));
    dir->partitions = request_alloc(r, dir->partitions_count, sizeof(*dir->partitions));
    dir->topic = NULL;
    return out->topics != NULL && dir->partitions != NULL;
}

static void on_all(struct fanout *f)
{
    struct request *r = f->request;
    const struct describe_log_dirs_state *state = r->state;
    struct describe_log_dirs_response out;
    describe_log_dirs_response_init(&out);
    for_each_found(f, NULL, count);
    out.results_count = state->dirs_count;
    out.results = request_alloc(r, state->dirs_count, sizeof(*out.results));
    bool is_begun = out.results != NULL;
    for (uint32_t i = 0; i < state->dirs_count && is_begun; i++) {
        is_begun = begin_result(r, &state->dirs[i], &out.results[i]);
    }
    if (!is_begun) {
        request_abort(r, "the answer is too large");
        return;
    }
    for_each_found(f, out.results, fill);
    request_answer(r, &out);
}

static const struct fanout_kind DESCRIBE_LOG_DIRS = {
    .state_size = sizeof(struct describe_log_dirs_state),
    .part_size = sizeof(struct fanout_part),
    .answer_size = sizeof(struct found),
    .in_flight_max = FANOUT_IN_FLIGHT_MAX,
    .begin = begin,
    .describe_topic = describe_topic,
    .begin_topic = begin_topic,
    .begin_part = begin_part,
    .on_part = on_part,
    .on_all = on_all,
};

void handle_describe_log_dirs(struct request *r)
{
    fanout_handle(r, &DESCRIBE_LOG_DIRS, FANOUT_NO_TIMEOUT);
}

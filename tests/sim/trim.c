/* DeleteRecords, as an admin sends it: some partitions of a topic, to offsets of which some are the
 * high watermark, and some beyond it. */
#include <inttypes.h>

#include "kafka/proto/delete_records.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/schema.h"

#include "tests/sim/broker_mode.h"

enum {
    BEYOND_MAX = 5,
    TIMEOUT_MS = 30000,
};

static bool is_passing(const struct admin *a, int32_t partition, int16_t code)
{
    return code == KAFKA_REQUEST_TIMED_OUT || code == KAFKA_NOT_LEADER_OR_FOLLOWER ||
           (code == KAFKA_KAFKA_STORAGE_ERROR && run_explains(a->actor.run, a->topic, partition));
}

static void take_answer(struct admin *a, const struct delete_records_response_partition *answer)
{
    struct sim *sim = a->actor.run->sim;
    const bool is_known = answer->partition_index >= 0 &&
                          answer->partition_index < a->topic->partitions_count &&
                          a->asked[answer->partition_index].is_asked;
    sim_check(sim, is_known, "DeleteRecords: an answer for partition %d", answer->partition_index);
    const struct asked_start *asked = &a->asked[answer->partition_index];
    struct history *h = &a->topic->histories[answer->partition_index];
    if (is_passing(a, answer->partition_index, answer->error_code)) {
        return;
    }
    if (answer->error_code == KAFKA_OFFSET_OUT_OF_RANGE && asked->offset > asked->high_watermark) {
        return;
    }
    const int64_t wanted = asked->offset == -1 ? asked->high_watermark : asked->offset;
    sim_check(sim,
              answer->error_code == KAFKA_NONE && answer->low_watermark >= wanted,
              "%s: DeleteRecords to %" PRId64 ": error_code=%d low_watermark=%" PRId64
              " high_watermark=%" PRId64,
              h->name,
              asked->offset,
              answer->error_code,
              answer->low_watermark,
              asked->high_watermark);
    history_start(h, asked->start, answer->low_watermark);
    sim_mark(sim, "sim_records_deleted");
    sim_trace(sim, "trimmed", (uint64_t)answer->partition_index, (uint64_t)answer->low_watermark);
}

static void on_trimmed(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct kafka_caller *caller = kafka_caller_end(call, body);
    if (caller == NULL) {
        return;
    }
    struct admin *a = container_of(caller, struct admin, caller);
    struct sim *sim = a->actor.run->sim;
    struct delete_records_response response;
    enum err e = delete_records_response_decode(body, call->version, arena, &response);
    sim_check(sim, e == ERR_OK && response.topics_count == 1, "DeleteRecords: %s", err_name(e));
    for (size_t i = 0; i < response.topics[0].partitions_count; i++) {
        take_answer(a, &response.topics[0].partitions[i]);
    }
}

static int64_t draw_offset(struct sim *sim, const struct history *h)
{
    if (rand_one_in(&sim->rand, 8)) {
        return -1;
    }
    if (rand_one_in(&sim->rand, 8)) {
        return h->high_watermark + (int64_t)sim_between(sim, 0, BEYOND_MAX);
    }
    const int64_t low = rand_one_in(&sim->rand, 4) ? 0 : h->start;
    return low + (int64_t)sim_log_between(sim, 0, (uint64_t)(h->high_watermark - low));
}

void admin_send_trim(struct admin *a)
{
    struct sim *sim = a->actor.run->sim;
    struct sim_topic *t = a->topic;
    struct delete_records_request_partition partitions[TOPIC_PARTITIONS_MAX];
    struct delete_records_request_topic topic;
    struct delete_records_request request;
    delete_records_request_init(&request);
    delete_records_request_topic_init(&topic);
    for (int32_t i = 0; i < t->partitions_count; i++) {
        struct history *h = &t->histories[i];
        const bool is_left_out = i + 1 < t->partitions_count && rand_one_in(&sim->rand, 2);
        a->asked[i] = (struct asked_start){.is_asked = !is_left_out};
        if (is_left_out) {
            continue;
        }
        a->asked[i].offset = draw_offset(sim, h);
        a->asked[i].start = h->start;
        a->asked[i].high_watermark = h->high_watermark;
        history_ask_start(h, a->asked[i].offset);
        struct delete_records_request_partition *p = &partitions[topic.partitions_count++];
        delete_records_request_partition_init(p);
        p->partition_index = i;
        p->offset = a->asked[i].offset;
    }
    topic.name = slice_of_string(t->name);
    topic.partitions = partitions;
    request.topics = &topic;
    request.topics_count = 1;
    request.timeout_ms = TIMEOUT_MS;
    struct wbuf w;
    kafka_caller_begin(&a->caller,
                       &w,
                       DELETE_RECORDS_API.key,
                       DELETE_RECORDS_VERSION_MIN,
                       DELETE_RECORDS_VERSION_MAX);
    kafka_caller_send(&a->caller,
                      &w,
                      delete_records_request_encode(&w, a->caller.call.version, &request),
                      on_trimmed);
}

/* OffsetForLeaderEpoch, as consumers ask it after a broker came back: where an epoch ends. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/assert.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/offset_for_leader_epoch.h"
#include "kafka/proto/schema.h"

#include "tests/sim/history_epochs.h"
#include "tests/sim/read_call.h"

/* The epoch that the client believes in is not that of this start: it has to be told. */
static bool is_refused(const struct broker_run *run, const struct read_item *item, int16_t code)
{
    if (item->epoch_believed == -1 || item->epoch_believed == run->epoch) {
        return false;
    }
    const int16_t expected =
        item->epoch_believed < run->epoch ? KAFKA_FENCED_LEADER_EPOCH : KAFKA_UNKNOWN_LEADER_EPOCH;
    sim_check(run->sim,
              code == expected,
              "%s-%d: OffsetForLeaderEpoch by a client of epoch %d in epoch %d: error_code=%d",
              item->name,
              item->partition,
              item->epoch_believed,
              run->epoch,
              code);
    sim_mark(run->sim, "sim_epoch_refused");
    return true;
}

static void take_epoch(struct read_call *rc,
                       const struct read_item *item,
                       const struct offset_for_leader_epoch_response_partition *answer)
{
    struct broker_run *run = rc->consumer->actor.run;
    struct sim *sim = run->sim;
    struct history *h = read_item_history(run, item);
    if (h == NULL || read_item_is_passing(run, item, answer->error_code) ||
        is_refused(run, item, answer->error_code)) {
        return;
    }
    const bool is_known = item->epoch_asked >= 0 && item->epoch_asked <= run->epoch;
    sim_check(sim,
              answer->error_code == KAFKA_NONE && is_known == (answer->end_offset >= 0),
              "%s: OffsetForLeaderEpoch %d in epoch %d: error_code=%d end_offset=%" PRId64,
              h->name,
              item->epoch_asked,
              run->epoch,
              answer->error_code,
              answer->end_offset);
    if (!is_known) {
        return;
    }
    const struct epoch_end told = {
        .wanted = item->epoch_asked,
        .epoch = answer->leader_epoch,
        .end_offset = answer->end_offset,
    };
    const bool is_current = told.wanted == run->epoch;
    sim_check(sim,
              !is_current || (told.epoch == told.wanted && told.end_offset >= item->high_watermark),
              "%s: this leader epoch is %d, they tell of %d up to %" PRId64,
              h->name,
              run->epoch,
              told.epoch,
              told.end_offset);
    if (!is_current) {
        sim_mark(sim, "sim_old_epoch_found");
        history_epoch_check(h, &told);
    }
    sim_trace(sim, "epoch", (uint64_t)told.epoch, (uint64_t)told.end_offset);
}

static void on_epochs(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct read_call *rc = container_of(call, struct read_call, call);
    struct sim *sim = rc->consumer->actor.run->sim;
    rc->consumer->is_calling = false;
    if (body != NULL) {
        struct offset_for_leader_epoch_response response;
        enum err e = offset_for_leader_epoch_response_decode(body, call->version, arena, &response);
        sim_check(sim, e == ERR_OK, "OffsetForLeaderEpoch v%d: %s", call->version, err_name(e));
        for (size_t i = 0; i < response.topics_count; i++) {
            const struct offset_for_leader_epoch_response_topic *t = &response.topics[i];
            for (size_t j = 0; j < t->partitions_count; j++) {
                const struct read_item *item =
                    read_call_find(rc, t->topic, NULL, t->partitions[j].partition);
                if (item != NULL) {
                    take_epoch(rc, item, &t->partitions[j]);
                }
            }
        }
    }
    free(rc);
}

static void draw_epochs(struct broker_run *run, struct read_item *item)
{
    struct sim *sim = run->sim;
    const struct history *h = &run->topics[item->topic].histories[item->partition];
    const uint64_t dice = rand_below(&sim->rand, 8);
    item->epoch_asked = history_epoch_draw(h) + (dice == 0 ? 1 : 0);
    if (dice == 1) {
        item->epoch_asked = (int32_t)sim_between(sim, 0, (uint64_t)run->epoch + 1);
    } else if (dice == 2) {
        item->epoch_asked = run->epoch;
    }
    static const int32_t wrong[] = {-1, 0, 0, 1};
    item->epoch_believed = -1;
    if (rand_one_in(&sim->rand, 2)) {
        item->epoch_believed = run->epoch + wrong[rand_below(&sim->rand, 4)];
    }
}

void consumer_send_epochs(struct read_call *rc)
{
    struct consumer *c = rc->consumer;
    struct offset_for_leader_epoch_request_topic topics[READ_ITEMS_MAX];
    struct offset_for_leader_epoch_request_partition partitions[READ_ITEMS_MAX];
    struct offset_for_leader_epoch_request request;
    offset_for_leader_epoch_request_init(&request);
    request.replica_id = -1;
    request.topics = topics;
    request.topics_count = rc->items_count;
    for (uint32_t i = 0; i < rc->items_count; i++) {
        struct read_item *item = &rc->items[i];
        draw_epochs(c->actor.run, item);
        offset_for_leader_epoch_request_topic_init(&topics[i]);
        offset_for_leader_epoch_request_partition_init(&partitions[i]);
        topics[i].topic = slice_of_string(item->name);
        topics[i].partitions = &partitions[i];
        topics[i].partitions_count = 1;
        partitions[i].partition = item->partition;
        partitions[i].leader_epoch = item->epoch_asked;
        partitions[i].current_leader_epoch = item->epoch_believed;
    }
    rc->call =
        (struct kafka_call){.api_key = OFFSET_FOR_LEADER_EPOCH_API.key,
                            .version = (int16_t)sim_between(c->actor.run->sim,
                                                            OFFSET_FOR_LEADER_EPOCH_VERSION_MIN,
                                                            OFFSET_FOR_LEADER_EPOCH_VERSION_MAX),
                            .on_answer = on_epochs};
    struct wbuf w;
    kafka_client_begin(&c->client, &rc->call, &w);
    enum err e = offset_for_leader_epoch_request_encode(&w, rc->call.version, &request);
    assert(e == ERR_OK);
    kafka_client_send(&c->client, &rc->call, &w, true);
}

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/fetch.h"
#include "kafka/proto/list_offsets.h"
#include "kafka/proto/schema.h"

#include "tests/sim/history_epochs.h"
#include "tests/sim/read_call.h"

enum {
    TIMESTAMP_LATEST = -1,
    TIMESTAMP_EARLIEST = -2,
    PAUSE_ONE_IN = 200,
    RESUME_ONE_IN = 10,
    EPOCHS_ONE_IN = 16,
    FETCH_VERSION_LEADER = 9,  /* Has the leader's epoch, */
    FETCH_VERSION_EPOCHS = 12, /* and that of what was read last. */
};

struct history *read_item_history(const struct broker_run *run, const struct read_item *item)
{
    const struct sim_topic *t = &run->topics[item->topic];
    if (t->state != TOPIC_LIVE || t->life != item->life) {
        return NULL;
    }
    return (struct history *)&t->histories[item->partition];
}

bool read_item_is_passing(const struct broker_run *run, const struct read_item *item, int16_t code)
{
    return code == KAFKA_REQUEST_TIMED_OUT || code == KAFKA_NOT_LEADER_OR_FOLLOWER ||
           (code == KAFKA_KAFKA_STORAGE_ERROR &&
            run_explains(run, &run->topics[item->topic], item->partition));
}

struct read_item *
read_call_find(struct read_call *rc, struct slice name, const struct uuid *id, int32_t partition)
{
    for (uint32_t i = 0; i < rc->items_count; i++) {
        struct read_item *item = &rc->items[i];
        bool is_topic =
            id != NULL ? uuid_equal(id, &item->id) : slice_equal_string(name, item->name);
        if (is_topic && item->partition == partition) {
            return item;
        }
    }
    return NULL;
}

struct read_item read_item_of(const struct broker_run *run, uint32_t topic, int32_t partition)
{
    const struct sim_topic *t = &run->topics[topic];
    const struct history *h = &t->histories[partition];
    struct read_item item = {.topic = topic, .life = t->life, .partition = partition, .id = t->id};
    memcpy(item.name, t->name, sizeof(item.name));
    if (partition < t->partitions_count) {
        item.start = h->start;
        item.high_watermark = h->high_watermark;
        if (!h->was_ack_memory && h->acked_end > h->high_watermark) {
            item.high_watermark = h->acked_end; /* It is what was acknowledged, at least. */
        }
    }
    return item;
}

/* With nothing in the way of an entry that moves the log start. */
static void settle(const struct broker_run *run, struct history *h, const struct read_item *item)
{
    if (!run_explains(run, &run->topics[item->topic], item->partition)) {
        history_settle(h, item->sent_us);
    }
}

/* ---- fetching ---- */

static void take_fetched(struct read_call *rc,
                         const struct read_item *item,
                         const struct fetch_response_partition *answer)
{
    struct consumer *c = rc->consumer;
    struct broker_run *run = c->actor.run;
    struct sim *sim = run->sim;
    struct history *h = read_item_history(run, item);
    if (h == NULL || read_item_is_passing(run, item, answer->error_code)) {
        return;
    }
    struct consumer_position *position = &c->positions[item->topic][item->partition];
    const bool is_current = position->life == item->life && position->offset == item->offset;
    if (answer->error_code == KAFKA_OFFSET_OUT_OF_RANGE &&
        history_may_be_deleted(h, item->offset)) {
        sim_mark(sim, "sim_fetch_below_log_start");
        position->is_lost |= is_current;
        return;
    }
    sim_check(sim,
              answer->error_code == KAFKA_NONE && item->offset >= item->start,
              "%s: Fetch v%d at %" PRId64 ": error_code=%d high_watermark=%" PRId64,
              h->name,
              rc->call.version,
              item->offset,
              answer->error_code,
              answer->high_watermark);
    sim_check(sim,
              answer->diverging_epoch.epoch < 0,
              "%s: Fetch at %" PRId64 " diverges: epoch=%d end_offset=%" PRId64,
              h->name,
              item->offset,
              answer->diverging_epoch.epoch,
              answer->diverging_epoch.end_offset);
    history_high_watermark(h, item->high_watermark, answer->high_watermark);
    const bool has_start = rc->call.version >= 5;
    if (has_start) {
        history_start(h, item->start, answer->log_start_offset);
        settle(run, h, item);
    }
    sim_check(sim,
              answer->last_stable_offset == answer->high_watermark &&
                  (!has_start || answer->log_start_offset <= answer->high_watermark),
              "%s: last_stable_offset=%" PRId64 " log_start_offset=%" PRId64,
              h->name,
              answer->last_stable_offset,
              answer->log_start_offset);
    int64_t end = history_read(h, item->offset, answer->records);
    sim_check(sim,
              end <= answer->high_watermark,
              "%s: read beyond the high watermark: end=%" PRId64 " high_watermark=%" PRId64,
              h->name,
              end,
              answer->high_watermark);
    if (is_current) {
        position->offset = end;
    }
    sim_trace(sim, "fetched", (uint64_t)item->offset, (uint64_t)end);
}

static void take_partition(struct read_call *rc,
                           const struct fetch_response_topic *topic,
                           const struct fetch_response_partition *answer)
{
    struct sim *sim = rc->consumer->actor.run->sim;
    const struct uuid *id = rc->call.version >= FETCH_VERSION_IDS ? &topic->topic_id : NULL;
    struct read_item *item = read_call_find(rc, topic->topic, id, answer->partition_index);
    sim_check(sim,
              item != NULL && !item->is_answered,
              "Fetch v%d: an answer for partition %d, which is %s",
              rc->call.version,
              answer->partition_index,
              item == NULL ? "not asked for" : "there already");
    item->is_answered = true;
    session_take(rc, item, answer);
    take_fetched(rc, item, answer);
}

static void on_fetched(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct read_call *rc = container_of(call, struct read_call, call);
    struct sim *sim = rc->consumer->actor.run->sim;
    rc->consumer->is_calling = false;
    if (body == NULL) {
        session_lost_answer(rc);
        free(rc);
        return;
    }
    struct fetch_response response;
    enum err e = fetch_response_decode(body, call->version, arena, &response);
    sim_check(sim, e == ERR_OK, "Fetch v%d: %s", call->version, err_name(e));
    if (session_take_error(rc, &response)) {
        for (size_t i = 0; i < response.responses_count; i++) {
            const struct fetch_response_topic *t = &response.responses[i];
            for (size_t j = 0; j < t->partitions_count; j++) {
                take_partition(rc, t, &t->partitions[j]);
            }
        }
        session_end_answer(rc, &response);
    }
    free(rc);
}

/* What the client has read never is what the broker would have it cut. */
static void fill_epochs(const struct read_call *rc,
                        const struct read_item *item,
                        struct fetch_request_partition *partition)
{
    const struct broker_run *run = rc->consumer->actor.run;
    const struct history *h = read_item_history(run, item);
    if (h != NULL && rand_one_in(&run->sim->rand, 2)) {
        if (rc->call.version >= FETCH_VERSION_LEADER) {
            partition->current_leader_epoch = run->epoch;
        }
        if (rc->call.version >= FETCH_VERSION_EPOCHS) {
            partition->last_fetched_epoch = history_epoch_before(h, item->offset);
        }
    }
}

/* Partitions that the request names, each in a topic of its own. */
static void fill_topics(const struct read_call *rc,
                        struct fetch_request_topic *topics,
                        struct fetch_request_partition *partitions,
                        struct fetch_request *request)
{
    struct sim *sim = rc->consumer->actor.run->sim;
    request->topics = topics;
    request->topics_count = 0;
    for (uint32_t i = 0; i < rc->items_count; i++) {
        const struct read_item *item = &rc->items[i];
        if (rc->session_use == SESSION_GOES_ON && !item->is_named) {
            continue;
        }
        struct fetch_request_topic *topic = &topics[request->topics_count];
        struct fetch_request_partition *partition = &partitions[request->topics_count++];
        fetch_request_topic_init(topic);
        fetch_request_partition_init(partition);
        topic->topic = slice_of_string(item->name);
        topic->topic_id = item->id;
        topic->partitions = partition;
        topic->partitions_count = 1;
        partition->partition = item->partition;
        partition->fetch_offset = item->offset;
        fill_epochs(rc, item, partition);
        partition->partition_max_bytes = (int32_t)sim_log_between(sim, 1, 1 << 20);
    }
}

static void send_fetch(struct read_call *rc)
{
    struct consumer *c = rc->consumer;
    struct sim *sim = c->actor.run->sim;
    struct fetch_request_topic topics[READ_ITEMS_MAX];
    struct fetch_request_partition partitions[READ_ITEMS_MAX];
    struct fetch_request request;
    rc->call = (struct kafka_call){.api_key = FETCH_API.key, .on_answer = on_fetched};
    session_plan(rc);
    fetch_request_init(&request);
    request.max_wait_ms = c->actor.run->is_draining ? 10 : (int32_t)sim_log_between(sim, 0, 500);
    request.min_bytes = (int32_t)sim_log_between(sim, 0, 10000);
    request.max_bytes = (int32_t)sim_log_between(sim, 1, 1 << 20);
    request.isolation_level = (int8_t)rand_below(&sim->rand, 2);
    fill_topics(rc, topics, partitions, &request);
    session_fill(rc, &request);
    struct wbuf w;
    kafka_client_begin(&c->client, &rc->call, &w);
    enum err e = fetch_request_encode(&w, rc->call.version, &request);
    assert(e == ERR_OK);
    kafka_client_send(&c->client, &rc->call, &w, true);
}

/* ---- ListOffsets ---- */

/* A position that was lost is the earliest one now. */
static void find_again(struct consumer *c, const struct read_item *item, int64_t start)
{
    struct consumer_position *position = &c->positions[item->topic][item->partition];
    if (position->life == item->life && position->is_lost) {
        position->is_lost = false;
        position->offset = start > position->offset ? start : position->offset;
    }
}

static void take_offset(struct read_call *rc,
                        const struct read_item *item,
                        const struct list_offsets_response_partition *answer)
{
    struct broker_run *run = rc->consumer->actor.run;
    struct sim *sim = run->sim;
    struct history *h = read_item_history(run, item);
    if (h == NULL || item->is_early || read_item_is_passing(run, item, answer->error_code)) {
        return;
    }
    sim_check(sim,
              answer->error_code == KAFKA_NONE,
              "%s: ListOffsets: error_code=%d",
              h->name,
              answer->error_code);
    if (item->timestamp == TIMESTAMP_LATEST) {
        history_high_watermark(h, item->high_watermark, answer->offset);
    } else if (item->timestamp == TIMESTAMP_EARLIEST) {
        history_start(h, item->start, answer->offset);
        settle(run, h, item);
        find_again(rc->consumer, item, answer->offset);
    } else if (answer->offset != -1) {
        sim_check(sim,
                  answer->offset >= item->start && answer->timestamp >= item->timestamp,
                  "%s: ListOffsets: asked=%" PRId64 " got=%" PRId64,
                  h->name,
                  item->timestamp,
                  answer->timestamp);
    }
}

static void on_offsets(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct read_call *rc = container_of(call, struct read_call, call);
    struct sim *sim = rc->consumer->actor.run->sim;
    rc->consumer->is_calling = false;
    if (body != NULL) {
        struct list_offsets_response response;
        enum err e = list_offsets_response_decode(body, call->version, arena, &response);
        sim_check(sim, e == ERR_OK, "ListOffsets v%d: %s", call->version, err_name(e));
        for (size_t i = 0; i < response.topics_count; i++) {
            const struct list_offsets_response_topic *t = &response.topics[i];
            for (size_t j = 0; j < t->partitions_count; j++) {
                const struct read_item *item =
                    read_call_find(rc, t->name, NULL, t->partitions[j].partition_index);
                if (item != NULL) {
                    take_offset(rc, item, &t->partitions[j]);
                }
            }
        }
    }
    free(rc);
}

static int64_t draw_timestamp(struct sim *sim)
{
    uint64_t dice = rand_below(&sim->rand, 4);
    if (dice == 0) {
        return TIMESTAMP_EARLIEST;
    }
    if (dice == 1) {
        int64_t now_ms = clock_wall_ms(&sim->clock.clock);
        return now_ms - (int64_t)rand_below(&sim->rand, sim->clock.now_us / 1000 + 1);
    }
    return TIMESTAMP_LATEST;
}

static void send_list_offsets(struct read_call *rc)
{
    struct consumer *c = rc->consumer;
    struct broker_run *run = c->actor.run;
    struct sim *sim = run->sim;
    struct list_offsets_request_topic topics[READ_ITEMS_MAX];
    struct list_offsets_request_partition partitions[READ_ITEMS_MAX];
    struct list_offsets_request request;
    list_offsets_request_init(&request);
    request.replica_id = -1;
    request.topics = topics;
    for (uint32_t i = 0; i < rc->items_count; i++) {
        struct read_item *item = &rc->items[i];
        list_offsets_request_topic_init(&topics[i]);
        list_offsets_request_partition_init(&partitions[i]);
        item->timestamp = item->is_lost ? TIMESTAMP_EARLIEST : draw_timestamp(sim);
        topics[i].name = slice_of_string(run->topics[item->topic].name);
        topics[i].partitions = &partitions[i];
        topics[i].partitions_count = 1;
        partitions[i].partition_index = item->partition;
        partitions[i].timestamp = item->timestamp;
    }
    request.topics_count = rc->items_count;
    rc->call = (struct kafka_call){
        .api_key = LIST_OFFSETS_API.key,
        .version = (int16_t)sim_between(sim, LIST_OFFSETS_VERSION_MIN, LIST_OFFSETS_VERSION_MAX),
        .on_answer = on_offsets};
    struct wbuf w;
    kafka_client_begin(&c->client, &rc->call, &w);
    enum err e = list_offsets_request_encode(&w, rc->call.version, &request);
    assert(e == ERR_OK);
    kafka_client_send(&c->client, &rc->call, &w, true);
}

/* ---- acting ---- */

static bool is_paused(const struct consumer *c, struct consumer_position *position)
{
    struct sim *sim = c->actor.run->sim;
    if (c->actor.run->is_draining) {
        position->is_paused = false;
    } else if (rand_one_in(&sim->rand, position->is_paused ? RESUME_ONE_IN : PAUSE_ONE_IN)) {
        position->is_paused = !position->is_paused;
    }
    return position->is_paused;
}

/* Every partition that is known to be there, and not paused; with_early: those that are being
 * created, too. */
static void gather_items(struct consumer *c, struct read_call *rc, bool with_early)
{
    struct broker_run *run = c->actor.run;
    for (uint32_t i = 0; i < run->topics_count; i++) {
        struct sim_topic *t = &run->topics[i];
        bool is_known = t->state == TOPIC_LIVE && !uuid_is_zero(&t->id);
        if (!is_known && !(with_early && t->state == TOPIC_CREATING)) {
            continue;
        }
        for (int32_t j = 0; j < t->partitions_count; j++) {
            struct consumer_position *position = &c->positions[i][j];
            if (position->life != t->life) {
                *position = (struct consumer_position){.life = t->life};
            }
            if (!with_early && is_paused(c, position)) {
                continue;
            }
            /* Of a topic that is being created any partition is as good as any other. */
            uint64_t extra = rand_below(&run->sim->rand, run->sim->swarm.partitions_extra + 1);
            struct read_item *item = &rc->items[rc->items_count++];
            *item = read_item_of(run, i, j);
            item->partition = is_known ? j : j + (int32_t)extra;
            item->offset = position->offset;
            item->is_early = !is_known;
            item->is_lost = position->is_lost;
        }
    }
}

/* While a topic is being created, its partitions are asked for all the time; and so are those
 * where the position is lost. */
static bool draw_offsets(const struct consumer *c)
{
    const struct broker_run *run = c->actor.run;
    uint32_t one_in = 8;
    for (uint32_t i = 0; i < run->topics_count; i++) {
        const struct sim_topic *t = &run->topics[i];
        one_in = t->state == TOPIC_CREATING ? 1 : one_in;
        for (int32_t j = 0; t->state == TOPIC_LIVE && j < t->partitions_count; j++) {
            const struct consumer_position *position = &c->positions[i][j];
            one_in = position->life == t->life && position->is_lost ? 1 : one_in;
        }
    }
    return rand_one_in(&run->sim->rand, one_in);
}

static void consumer_act(struct actor *actor)
{
    struct consumer *c = container_of(actor, struct consumer, actor);
    actor_rest(actor);
    kafka_client_check(&c->client);
    if (c->is_calling || !actor_connect(actor, &c->client)) {
        return;
    }
    struct read_call *rc = calloc(1, sizeof(*rc));
    assert(rc != NULL);
    rc->consumer = c;
    bool asks_for_offsets = draw_offsets(c);
    gather_items(c, rc, asks_for_offsets);
    if (rc->items_count == 0 && (asks_for_offsets || c->session.id == 0)) {
        free(rc);
        return;
    }
    c->is_calling = true;
    const bool asks_for_epochs = c->actor.run->epoch != -1 && rc->items_count > 0;
    if (asks_for_epochs && !asks_for_offsets &&
        rand_one_in(&actor->run->sim->rand, EPOCHS_ONE_IN)) {
        consumer_send_epochs(rc);
    } else if (asks_for_offsets) {
        send_list_offsets(rc);
    } else {
        send_fetch(rc);
    }
}

void consumer_init(struct consumer *c, struct broker_run *run)
{
    *c = (struct consumer){.actor = {.run = run, .act = consumer_act}};
    kafka_client_init(&c->client, run->sim);
}

void consumer_done(struct consumer *c)
{
    kafka_client_done(&c->client);
}

void consumer_rewind(struct consumer *c)
{
    memset(c->positions, 0, sizeof(c->positions));
}

bool consumer_is_drained(const struct consumer *c)
{
    const struct broker_run *run = c->actor.run;
    for (uint32_t i = 0; i < run->topics_count; i++) {
        const struct sim_topic *t = &run->topics[i];
        for (int32_t j = 0; t->state == TOPIC_LIVE && j < t->partitions_count; j++) {
            const struct consumer_position *position = &c->positions[i][j];
            const struct history *h = &t->histories[j];
            bool is_read = position->life == t->life && !position->is_lost &&
                           position->offset >= h->high_watermark &&
                           position->offset >= h->acked_end;
            if (!is_read) {
                return false;
            }
        }
    }
    return true;
}

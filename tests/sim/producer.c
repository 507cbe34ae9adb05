#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/init_producer_id.h"
#include "kafka/proto/produce.h"
#include "kafka/proto/schema.h"

#include "tests/sim/broker_mode.h"

enum {
    CALLS_MAX = 5,
    BATCH_SIZE_DEFAULT = 1048588, /* max.message.bytes */
};

struct produce_item {
    struct lane *lane; /* May lead elsewhere by the time of the answer. */
    struct sim_topic *topic;
    uint32_t life;
    int32_t partition;
    uint32_t batch;
    int64_t start;          /* Of the log, as known when the request left. */
    uint32_t rules_version; /* Of the topic, likewise. */
    uint64_t sent_us;
};

struct produce_call {
    struct kafka_call call;
    struct producer *producer;
    struct produce_item items[LANES_MAX];
    uint32_t items_count;
};

static struct history *history_of(const struct lane *l)
{
    return &l->topic->histories[l->partition];
}

static bool lane_is_alive(const struct lane *l)
{
    return l->topic != NULL && l->topic->state == TOPIC_LIVE && l->topic->life == l->life;
}

static void lane_clear(struct lane *l)
{
    for (uint32_t i = 0; i < l->queue_count; i++) {
        batch_unmake(&l->queue[i].made);
    }
    batch_unmake(&l->last.made);
    *l = (struct lane){0};
}

/* Whether the lane still is what it was when the item was sent. */
static bool item_is_current(const struct produce_item *item)
{
    const struct lane *l = item->lane;
    return lane_is_alive(l) && l->topic == item->topic && l->life == item->life &&
           l->partition == item->partition;
}

/* One producer has one sequence per partition, so no two lanes may lead to the same one. */
static bool is_taken(const struct producer *p, const struct sim_topic *t, int32_t partition)
{
    for (uint32_t i = 0; i < p->lanes_count; i++) {
        const struct lane *l = &p->lanes[i];
        if (lane_is_alive(l) && l->topic == t && l->partition == partition) {
            return true;
        }
    }
    return false;
}

static void lane_choose(struct producer *p, struct lane *l)
{
    struct broker_run *run = p->actor.run;
    struct sim *sim = run->sim;
    struct sim_topic *t = &run->topics[rand_below(&sim->rand, run->topics_count)];
    if (t->state != TOPIC_LIVE || uuid_is_zero(&t->id)) {
        return;
    }
    if (t->rules.is_ack_memory && p->is_idempotent) {
        return; /* A batch that a crash took would leave a gap in the sequence for good. */
    }
    if ((t->kind.is_trimmed || t->kind.is_keyed) && p->is_idempotent &&
        sim->swarm.checkpoint_size == 0) {
        return; /* The broker may forget it with its batches, and take anything then. */
    }
    int32_t partition = (int32_t)rand_below(&sim->rand, (uint64_t)t->partitions_count);
    const bool is_given_up = p->given_up[t - run->topics][partition] == t->life;
    if (is_given_up || is_taken(p, t, partition)) {
        return;
    }
    l->topic = t;
    l->life = t->life;
    l->partition = partition;
}

static struct lane_entry *lane_find(struct lane *l, uint32_t batch)
{
    for (uint32_t i = 0; i < l->queue_count; i++) {
        if (l->queue[i].batch == batch) {
            return &l->queue[i];
        }
    }
    return NULL;
}

/* Takes entry out of the queue; keeps it as the last one acknowledged if it may be probed. */
static void lane_remove(struct lane *l, struct lane_entry *entry, bool is_kept)
{
    struct lane_entry gone = *entry;
    size_t behind = (size_t)(l->queue + l->queue_count - (entry + 1));
    memmove(entry, entry + 1, behind * sizeof(*entry));
    l->queue_count--;
    if (is_kept) {
        batch_unmake(&l->last.made);
        l->last = gone;
    } else {
        batch_unmake(&gone.made);
    }
}

/* A batch that is recoded is judged as it will be stored. */
static bool may_be_too_large(const struct lane *l, size_t size)
{
    const int64_t low = l->topic->rules.batch_size_low;
    return (int64_t)size > low || (l->topic->kind.is_recoded && low < BATCH_SIZE_DEFAULT);
}

static void lane_add_batch(struct producer *p, struct lane *l)
{
    struct sim *sim = p->actor.run->sim;
    const struct sim_swarm *w = &sim->swarm;
    char label[32];
    (void)snprintf(label, sizeof(label), "p%u", p->number);
    bool is_large = w->large_one_in != 0 && rand_one_in(&sim->rand, w->large_one_in);
    int32_t records_count = (int32_t)sim_between(sim, 1, w->batch_records_max);
    struct batch_identity identity = {-1, -1, -1};
    if (p->is_idempotent) {
        identity = (struct batch_identity){
            .producer_id = p->producer_id,
            .producer_epoch = p->producer_epoch,
            .base_sequence = l->sequence_next,
        };
    }
    struct lane_entry entry = {
        .made = batch_make(sim,
                           &(struct batch_wish){
                               .label = label,
                               .number = p->batches_count++,
                               .records_count = records_count,
                               .record_size_max = is_large ? 4 << 10 : w->record_size_max,
                               .wall_ms = clock_wall_ms(&sim->clock.clock),
                               .identity = identity,
                               .keys_count = l->topic->kind.is_keyed ? w->keys_count : 0,
                           })};
    if (p->is_idempotent && may_be_too_large(l, entry.made.size)) {
        batch_unmake(&entry.made); /* A hole in its sequence would be for good. */
        return;
    }
    l->sequence_next += records_count;
    entry.batch = history_add(history_of(l),
                              slice_of(entry.made.bytes, entry.made.size),
                              records_count,
                              p->is_idempotent);
    l->queue[l->queue_count++] = entry;
}

/* Sends the last acknowledged batch once more: it must be answered with its offset. */
static bool lane_add_probe(struct producer *p, struct lane *l)
{
    if (!p->is_idempotent || l->queue_count > 0 || l->last.made.bytes == NULL) {
        return false;
    }
    struct lane_entry probe = l->last;
    l->last = (struct lane_entry){0};
    probe.is_probe = true;
    probe.is_in_flight = false;
    l->queue[l->queue_count++] = probe;
    return true;
}

/* The next entry to be sent, in order; NULL if there is none now. */
static struct lane_entry *lane_next(const struct producer *p, struct lane *l)
{
    if (l->is_blocked && l->in_flight_count > 0) {
        return NULL;
    }
    /* A broker that knows nothing of a producer takes any sequence, as Kafka does: behind a first
     * batch that fails, the second would be taken. */
    if (p->is_idempotent && !l->is_known && l->in_flight_count > 0) {
        return NULL;
    }
    l->is_blocked = false;
    for (uint32_t i = 0; i < l->queue_count; i++) {
        if (!l->queue[i].is_in_flight) {
            return &l->queue[i];
        }
    }
    return NULL;
}

/* ---- answers ---- */

static void on_item_failed(struct produce_item *item, struct lane_entry *entry)
{
    entry->is_in_flight = false;
    item->lane->is_blocked = true;
}

static void on_item_acked(struct producer *p,
                          struct produce_item *item,
                          struct lane_entry *entry,
                          int64_t base_offset)
{
    struct sim *sim = p->actor.run->sim;
    struct lane *l = item->lane;
    if (p->is_idempotent) {
        sim_check(sim,
                  entry == l->queue,
                  "%s: a later batch of an idempotent producer was taken before an earlier one",
                  history_of(l)->name);
    }
    sim_trace(sim, "acked", entry->batch, (uint64_t)base_offset);
    history_acked(history_of(l), entry->batch, base_offset);
    l->is_known = true;
    lane_remove(l, entry, p->is_idempotent);
}

/* True if the client may repeat the batch after such an error. */
static bool is_allowed(const struct producer *p, const struct produce_item *item, int16_t code)
{
    const struct lane *l = item->lane;
    if (code == KAFKA_REQUEST_TIMED_OUT || code == KAFKA_NOT_LEADER_OR_FOLLOWER) {
        return true;
    }
    if (code == KAFKA_KAFKA_STORAGE_ERROR) {
        return run_explains(p->actor.run, l->topic, l->partition);
    }
    /* What comes behind a batch that failed is out of order until that one is repeated. */
    return code == KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER && p->is_idempotent && l->is_blocked &&
           l->queue[0].batch != item->batch;
}

/* The topic takes no batches of that size (any more). */
static void on_too_large(struct producer *p, struct produce_item *item, struct lane_entry *entry)
{
    struct lane *l = item->lane;
    sim_check(p->actor.run->sim,
              item->rules_version != l->topic->rules_version ||
                  may_be_too_large(l, entry->made.size),
              "%s: a batch of %zu is too large: the limit is %" PRId64,
              history_of(l)->name,
              entry->made.size,
              l->topic->rules.batch_size_low);
    sim_mark(p->actor.run->sim, "sim_batch_too_large");
    if (p->is_idempotent) {
        p->given_up[l->topic - p->actor.run->topics][l->partition] = l->life;
        lane_clear(l);
    } else {
        lane_remove(l, entry, false);
    }
}

/* It was taken, and not because it was there already. */
static void check_size(const struct produce_item *item, const struct lane_entry *entry)
{
    const struct lane *l = item->lane;
    struct history *h = history_of(l);
    const bool is_certain = item->rules_version == l->topic->rules_version &&
                            !l->topic->kind.is_recoded && h->batches[entry->batch].sent_count == 1;
    sim_check(h->sim,
              !is_certain || (int64_t)entry->made.size <= l->topic->rules.batch_size_high,
              "%s: a batch of %zu was taken: the limit is %" PRId64,
              h->name,
              entry->made.size,
              l->topic->rules.batch_size_high);
}

static void on_item_answered(struct producer *p,
                             struct produce_item *item,
                             const struct produce_response_partition *answer)
{
    struct sim *sim = p->actor.run->sim;
    struct lane *l = item->lane;
    if (!item_is_current(item)) {
        return; /* The topic was deleted. */
    }
    struct lane_entry *entry = lane_find(l, item->batch);
    assert(entry != NULL);
    l->in_flight_count--;
    if (answer->error_code == KAFKA_NONE && answer->log_start_offset != -1) {
        history_start(history_of(l), item->start, answer->log_start_offset);
    }
    if (answer->error_code == KAFKA_MESSAGE_TOO_LARGE) {
        on_too_large(p, item, entry);
        return;
    }
    if (answer->error_code == KAFKA_NONE) {
        check_size(item, entry);
        const struct sent_batch *b = &history_of(l)->batches[item->batch];
        if (!b->is_memory_enough && b->sent_count == 1) {
            history_entry_committed(history_of(l), item->sent_us);
        }
        on_item_acked(p, item, entry, answer->base_offset);
        return;
    }
    sim_check(sim,
              is_allowed(p, item, answer->error_code),
              "%s: Produce: error_code=%d message=%.*s batch=%u head=%u is_blocked=%d",
              history_of(l)->name,
              answer->error_code,
              (int)answer->error_message.size,
              (const char *)answer->error_message.data,
              item->batch,
              l->queue[0].batch,
              l->is_blocked);
    on_item_failed(item, entry);
}

static void on_call_lost(struct produce_call *pc)
{
    struct broker_run *run = pc->producer->actor.run;
    run->uncertain_us = run->sim->clock.now_us;
    for (uint32_t i = 0; i < pc->items_count; i++) {
        struct produce_item *item = &pc->items[i];
        struct lane *l = item->lane;
        if (item_is_current(item)) {
            struct lane_entry *entry = lane_find(l, item->batch);
            assert(entry != NULL);
            l->in_flight_count--;
            on_item_failed(item, entry);
        }
    }
}

static struct produce_item *
find_item(struct produce_call *pc, const struct produce_response_topic *t, int32_t partition)
{
    for (uint32_t i = 0; i < pc->items_count; i++) {
        struct produce_item *item = &pc->items[i];
        bool is_topic = pc->call.version >= 13 ? uuid_equal(&t->topic_id, &item->topic->id)
                                               : slice_equal_string(t->name, item->topic->name);
        if (is_topic && item->partition == partition) {
            return item;
        }
    }
    return NULL;
}

static void on_produced(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct produce_call *pc = container_of(call, struct produce_call, call);
    struct producer *p = pc->producer;
    struct sim *sim = p->actor.run->sim;
    p->calls_count--;
    if (body == NULL) {
        on_call_lost(pc);
        free(pc);
        return;
    }
    struct produce_response response;
    enum err e = produce_response_decode(body, call->version, arena, &response);
    sim_check(sim, e == ERR_OK, "Produce v%d: %s", call->version, err_name(e));
    uint32_t answers_count = 0;
    for (size_t i = 0; i < response.responses_count; i++) {
        const struct produce_response_topic *t = &response.responses[i];
        for (size_t j = 0; j < t->partition_responses_count; j++) {
            struct produce_item *item = find_item(pc, t, t->partition_responses[j].index);
            answers_count++;
            if (item != NULL) {
                on_item_answered(p, item, &t->partition_responses[j]);
            }
        }
    }
    sim_check(sim,
              answers_count == pc->items_count,
              "Produce: %u answers for %u partitions",
              answers_count,
              pc->items_count);
    free(pc);
}

static void on_init(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct producer *p = container_of(call, struct producer, init_call);
    struct broker_run *run = p->actor.run;
    struct sim *sim = run->sim;
    p->is_init_calling = false;
    if (body == NULL) {
        return;
    }
    struct init_producer_id_response response;
    enum err e = init_producer_id_response_decode(body, call->version, arena, &response);
    sim_check(sim, e == ERR_OK, "InitProducerId: %s", err_name(e));
    if (response.error_code == KAFKA_REQUEST_TIMED_OUT ||
        (response.error_code == KAFKA_KAFKA_STORAGE_ERROR &&
         (life_has_faults(&run->life) || dirs_lost_group_0(run)))) {
        return;
    }
    sim_check(sim,
              response.error_code == KAFKA_NONE && response.producer_id >= 0,
              "InitProducerId: error_code=%d producer_id=%" PRId64,
              response.error_code,
              response.producer_id);
    for (uint32_t i = 0; i < run->producer_ids_count; i++) {
        sim_check(sim,
                  run->producer_ids[i] != response.producer_id,
                  "a producer id was handed out twice: %" PRId64,
                  response.producer_id);
    }
    assert(run->producer_ids_count < PRODUCER_IDS_MAX);
    run->producer_ids[run->producer_ids_count++] = response.producer_id;
    p->producer_id = response.producer_id;
    p->producer_epoch = response.producer_epoch;
}

/* ---- requests ---- */

static void send_init(struct producer *p)
{
    struct init_producer_id_request request;
    init_producer_id_request_init(&request);
    request.transactional_id = (struct slice){0};
    request.transaction_timeout_ms = 60000;
    p->init_call = (struct kafka_call){
        .api_key = INIT_PRODUCER_ID_API.key,
        .version = (int16_t)sim_between(
            p->actor.run->sim, INIT_PRODUCER_ID_VERSION_MIN, INIT_PRODUCER_ID_VERSION_MAX),
        .on_answer = on_init};
    struct wbuf w;
    kafka_client_begin(&p->client, &p->init_call, &w);
    enum err e = init_producer_id_request_encode(&w, p->init_call.version, &request);
    assert(e == ERR_OK);
    p->is_init_calling = true;
    kafka_client_send(&p->client, &p->init_call, &w, true);
}

/* Puts the lanes' next entries into a request, at most one each. */
static void gather_items(struct producer *p, struct produce_call *pc)
{
    struct sim *sim = p->actor.run->sim;
    uint32_t wanted = (uint32_t)sim_between(sim, 1, p->lanes_count);
    uint32_t first = (uint32_t)rand_below(&sim->rand, p->lanes_count);
    for (uint32_t i = 0; i < p->lanes_count && pc->items_count < wanted; i++) {
        struct lane *l = &p->lanes[(first + i) % p->lanes_count];
        if (!lane_is_alive(l)) {
            lane_clear(l);
            lane_choose(p, l);
            continue;
        }
        bool has_probe = rand_one_in(&sim->rand, 20) && lane_add_probe(p, l);
        bool may_add = !has_probe && !p->actor.run->is_draining && !l->is_blocked &&
                       l->queue_count < LANE_QUEUE_MAX;
        if (may_add) {
            lane_add_batch(p, l);
        }
        struct lane_entry *entry = lane_next(p, l);
        if (entry != NULL) {
            entry->is_in_flight = true;
            l->in_flight_count++;
            pc->items[pc->items_count++] =
                (struct produce_item){.lane = l,
                                      .topic = l->topic,
                                      .life = l->life,
                                      .partition = l->partition,
                                      .batch = entry->batch,
                                      .sent_us = sim->clock.now_us,
                                      .start = history_of(l)->start,
                                      .rules_version = l->topic->rules_version};
        }
    }
}

static void encode_items(struct produce_call *pc, struct wbuf *w)
{
    struct produce_request_topic topics[LANES_MAX];
    struct produce_request_partition partitions[LANES_MAX];
    struct produce_request request;
    produce_request_init(&request);
    request.acks = pc->producer->acks;
    request.timeout_ms = 30000;
    request.topic_data = topics;
    for (uint32_t i = 0; i < pc->items_count; i++) {
        struct lane *l = pc->items[i].lane;
        const struct lane_entry *entry = lane_find(l, pc->items[i].batch);
        produce_request_topic_init(&topics[i]);
        produce_request_partition_init(&partitions[i]);
        topics[i].name = slice_of_string(l->topic->name);
        topics[i].topic_id = l->topic->id;
        topics[i].partition_data = &partitions[i];
        topics[i].partition_data_count = 1;
        partitions[i].index = l->partition;
        partitions[i].records = slice_of(entry->made.bytes, entry->made.size);
        history_sent(history_of(l), entry->batch);
    }
    request.topic_data_count = pc->items_count;
    enum err e = produce_request_encode(w, pc->call.version, &request);
    assert(e == ERR_OK);
}

/* Nobody will answer: what was sent is forgotten. */
static void forget_items(struct produce_call *pc)
{
    struct broker_run *run = pc->producer->actor.run;
    run->uncertain_us = run->sim->clock.now_us;
    for (uint32_t i = 0; i < pc->items_count; i++) {
        struct lane *l = pc->items[i].lane;
        struct lane_entry *entry = lane_find(l, pc->items[i].batch);
        l->in_flight_count--;
        lane_remove(l, entry, false);
    }
    free(pc);
}

static void send_produce(struct producer *p)
{
    struct produce_call *pc = calloc(1, sizeof(*pc));
    assert(pc != NULL);
    pc->producer = p;
    gather_items(p, pc);
    if (pc->items_count == 0) {
        free(pc);
        return;
    }
    pc->call = (struct kafka_call){.api_key = PRODUCE_API.key,
                                   .version = (int16_t)sim_between(
                                       p->actor.run->sim, PRODUCE_VERSION_MIN, PRODUCE_VERSION_MAX),
                                   .on_answer = on_produced};
    struct wbuf w;
    kafka_client_begin(&p->client, &pc->call, &w);
    encode_items(pc, &w);
    bool is_answered = p->acks != 0;
    kafka_client_send(&p->client, &pc->call, &w, is_answered);
    if (is_answered) {
        p->calls_count++;
    } else {
        forget_items(pc);
    }
}

static void producer_act(struct actor *actor)
{
    struct producer *p = container_of(actor, struct producer, actor);
    actor_rest(actor);
    kafka_client_check(&p->client);
    if (!actor_connect(actor, &p->client)) {
        return;
    }
    if (p->is_idempotent && p->producer_id == -1) {
        if (!p->is_init_calling) {
            send_init(p);
        }
        return;
    }
    if (p->calls_count < CALLS_MAX) {
        send_produce(p);
    }
}

void producer_init(struct producer *p, struct broker_run *run, uint32_t number)
{
    struct sim *sim = run->sim;
    *p = (struct producer){.actor = {.run = run, .act = producer_act},
                           .number = number,
                           .producer_id = -1,
                           .producer_epoch = -1};
    /* Where the broker may forget producers, one with sequences would find few topics to write to.
     */
    const struct sim_swarm *w = &sim->swarm;
    const bool is_forgetful =
        w->checkpoint_size == 0 && (w->start_weight > 0 || w->compacted_percent > 0);
    p->is_idempotent = !is_forgetful && rand_below(&sim->rand, 3) != 0;
    p->acks = -1;
    /* The first one is always acknowledged, or there would be nothing to check. */
    if (!p->is_idempotent && number > 0) {
        p->acks = (int16_t)((int)rand_below(&sim->rand, 3) - 1);
    }
    p->lanes_count = (uint32_t)sim_between(sim, 1, LANES_MAX);
    kafka_client_init(&p->client, sim);
}

void producer_done(struct producer *p)
{
    kafka_client_done(&p->client);
    for (uint32_t i = 0; i < p->lanes_count; i++) {
        lane_clear(&p->lanes[i]);
    }
}

bool producer_is_drained(const struct producer *p)
{
    if (p->calls_count > 0) {
        return false;
    }
    for (uint32_t i = 0; i < p->lanes_count; i++) {
        if (lane_is_alive(&p->lanes[i]) && p->lanes[i].queue_count > 0) {
            return false;
        }
    }
    return true;
}

bool producer_is_served(const struct producer *p)
{
    for (uint32_t i = 0; i < p->lanes_count; i++) {
        const struct lane *l = &p->lanes[i];
        if (lane_is_alive(l) && l->queue_count > 0 &&
            !run_explains(p->actor.run, l->topic, l->partition)) {
            return false;
        }
    }
    return true;
}

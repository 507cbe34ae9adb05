#include "tests/sim/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/schema.h"

#include "tests/sim/read_call.h"

enum {
    FORGET_ONE_IN = 2,
    ODD_ONE_IN = 40, /* Requests that are to be refused, or that end the session. */
};

static_assert((int)SESSION_TOPICS_MAX == (int)TOPICS_MAX, "one for each topic");
static_assert((int)SESSION_PARTITIONS_MAX == (int)TOPIC_PARTITIONS_MAX, "and partition");

static struct session *session_of(const struct read_call *rc)
{
    return &rc->consumer->session;
}

static struct session_part *part_of(const struct read_call *rc, const struct read_item *item)
{
    return &session_of(rc)->parts[item->topic][item->partition];
}

static bool is_by_id(const struct read_call *rc)
{
    return rc->call.version >= FETCH_VERSION_IDS;
}

/* Nobody and nothing but the client itself ends it. */
static bool is_firm(const struct read_call *rc)
{
    const struct session *s = session_of(rc);
    const struct consumer *c = rc->consumer;
    return c->actor.run->sim->swarm.sessions_max == SESSIONS_MANY && !s->may_vanish &&
           s->connection == c->client.connections_count;
}

/* ---- the request ---- */

static bool is_same_topic(const struct session *s,
                          const struct session_part *part,
                          const struct read_item *item)
{
    return s->is_by_id ? uuid_equal(&part->id, &item->id) : strcmp(part->name, item->name) == 0;
}

/* Somebody made sure that there is no such topic any more. */
static bool
is_gone(const struct session *s, const struct sim_topic *t, const struct session_part *part)
{
    if (t->life == part->life) {
        return t->state == TOPIC_ABSENT;
    }
    return s->is_by_id || t->state == TOPIC_ABSENT || strcmp(part->name, t->name) != 0;
}

static void forget(struct read_call *rc, struct read_item *item)
{
    struct session_part *part = part_of(rc, item);
    memcpy(item->name, part->name, sizeof(item->name));
    item->id = part->id;
    rc->forgotten[rc->forgotten_count++] = *item;
    *part = (struct session_part){0};
}

static void ask_for(struct read_call *rc, const struct read_item *wanted)
{
    struct session_part *part = part_of(rc, wanted);
    struct read_item *item = &rc->items[rc->items_count++];
    *item = *wanted;
    item->is_named = !part->is_in || part->offset != item->offset || part->life != item->life;
    if (!part->is_in) {
        part->high_watermark = -1;
        part->start = -1;
    }
    part->is_in = true;
    part->life = item->life;
    part->offset = item->offset;
    part->id = item->id;
    memcpy(part->name, item->name, sizeof(part->name));
}

/* The client has no use for it now, and has not said so. */
static void leave_in(struct read_call *rc, const struct read_item *place)
{
    const struct session_part *part = part_of(rc, place);
    struct read_item *item = &rc->items[rc->items_count++];
    *item = *place;
    item->life = part->life;
    item->id = part->id;
    memcpy(item->name, part->name, sizeof(item->name));
    item->offset = part->offset;
    item->is_gone = is_gone(session_of(rc), &rc->consumer->actor.run->topics[item->topic], part);
}

static void
plan_partition(struct read_call *rc, struct read_item *place, const struct read_item *wanted)
{
    struct sim *sim = rc->consumer->actor.run->sim;
    const struct session_part *part = part_of(rc, place);
    const bool is_replaced =
        part->is_in && wanted != NULL && !is_same_topic(session_of(rc), part, wanted);
    const bool is_unwanted =
        part->is_in && wanted == NULL && rand_one_in(&sim->rand, FORGET_ONE_IN);
    if (is_replaced || is_unwanted) {
        sim_mark(sim, "sim_session_forgets");
        forget(rc, place);
    }
    if (wanted != NULL) {
        ask_for(rc, wanted);
    } else if (part->is_in) {
        leave_in(rc, place);
    }
}

static const struct read_item *
find_wanted(const struct read_item *items, uint32_t count, const struct read_item *place)
{
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].topic == place->topic && items[i].partition == place->partition) {
            return &items[i];
        }
    }
    return NULL;
}

static void plan_changes(struct read_call *rc)
{
    struct read_item wanted[READ_ITEMS_MAX];
    const uint32_t wanted_count = rc->items_count;
    memcpy(wanted, rc->items, sizeof(wanted));
    rc->items_count = 0;
    for (uint32_t i = 0; i < rc->consumer->actor.run->topics_count; i++) {
        for (int32_t j = 0; j < TOPIC_PARTITIONS_MAX; j++) {
            struct read_item place = read_item_of(rc->consumer->actor.run, i, j);
            plan_partition(rc, &place, find_wanted(wanted, wanted_count, &place));
        }
    }
}

/* The session as it will be if it is opened. */
static void plan_all(struct read_call *rc)
{
    struct session *s = session_of(rc);
    const int32_t old_id = s->id != 0 ? s->id : s->old_id;
    *s = (struct session){.old_id = old_id};
    for (uint32_t i = 0; i < rc->items_count; i++) {
        struct session_part *part = part_of(rc, &rc->items[i]);
        const struct read_item *item = &rc->items[i];
        *part = (struct session_part){.is_in = true,
                                      .life = item->life,
                                      .id = item->id,
                                      .offset = item->offset,
                                      .high_watermark = -1,
                                      .start = -1};
        memcpy(part->name, item->name, sizeof(part->name));
    }
}

static enum session_use draw_use(struct read_call *rc)
{
    static const enum session_use odd[] = {
        SESSION_ENDS, SESSION_WRONG_EPOCH, SESSION_WRONG_TOPICS, SESSION_NOT_USED, SESSION_OPENS};
    struct sim *sim = rc->consumer->actor.run->sim;
    if (rc->items_count == 0) {
        return SESSION_GOES_ON; /* It forgets what it has. */
    }
    if (!sim_chance(sim, sim->swarm.session_percent)) {
        return SESSION_NOT_USED;
    }
    if (session_of(rc)->id == 0) {
        return SESSION_OPENS;
    }
    if (rand_one_in(&sim->rand, ODD_ONE_IN)) {
        return odd[rand_below(&sim->rand, sizeof(odd) / sizeof(odd[0]))];
    }
    return SESSION_GOES_ON;
}

/* zstd_min: the lowest version that may read it, if it has to. */
static int16_t draw_version(struct read_call *rc, int16_t zstd_min)
{
    struct sim *sim = rc->consumer->actor.run->sim;
    int16_t low = FETCH_VERSION_MIN;
    int16_t high = FETCH_VERSION_MAX;
    const bool is_in_session = rc->session_use != SESSION_NOT_USED &&
                               rc->session_use != SESSION_OPENS && rc->session_use != SESSION_ENDS;
    if (rc->session_use != SESSION_NOT_USED) {
        low = FETCH_VERSION_SESSIONS;
    }
    if (is_in_session) {
        const bool wants_ids =
            session_of(rc)->is_by_id != (rc->session_use == SESSION_WRONG_TOPICS);
        low = wants_ids ? FETCH_VERSION_IDS : low;
        high = wants_ids ? high : FETCH_VERSION_IDS - 1;
    }
    low = low < zstd_min ? zstd_min : low;
    return (int16_t)sim_between(sim, (uint64_t)low, (uint64_t)high);
}

static bool wants_zstd(const struct read_call *rc)
{
    const struct broker_run *run = rc->consumer->actor.run;
    for (uint32_t i = 0; i < run->topics_count; i++) {
        if ((run->topics[i].codecs_ever & (UINT32_C(1) << CODEC_ZSTD)) != 0) {
            return true;
        }
    }
    return false;
}

void session_plan(struct read_call *rc)
{
    rc->session_use = draw_use(rc);
    /* Older versions are told that they cannot read that. */
    const int16_t zstd_min = wants_zstd(rc) ? FETCH_VERSION_ZSTD : FETCH_VERSION_MIN;
    rc->call.version = draw_version(rc, zstd_min);
    switch (rc->session_use) {
    case SESSION_OPENS:
        plan_all(rc);
        session_of(rc)->is_by_id = is_by_id(rc);
        return;
    case SESSION_GOES_ON:
        plan_changes(rc);
        return;
    case SESSION_WRONG_EPOCH:
    case SESSION_WRONG_TOPICS:
        rc->items_count = 0;
        return;
    case SESSION_NOT_USED:
    case SESSION_ENDS:
        return;
    }
}

/* Another consumer takes this one's session for its own old one. */
static int32_t steal_id(struct read_call *rc)
{
    struct broker_run *run = rc->consumer->actor.run;
    struct consumer *victim = &run->consumers[rand_below(&run->sim->rand, run->consumers_count)];
    if (victim == rc->consumer || victim->session.id == 0) {
        return 0;
    }
    sim_mark(run->sim, "sim_session_of_another_closed");
    victim->session.may_vanish = true;
    return victim->session.id;
}

static int32_t draw_wrong_epoch(struct sim *sim, int32_t epoch)
{
    const int32_t wrong = epoch + (int32_t)sim_between(sim, 0, 4) - 2;
    return wrong >= 1 && wrong != epoch ? wrong : epoch + 1;
}

static void fill_forgotten(struct read_call *rc, struct fetch_request *request)
{
    for (uint32_t i = 0; i < rc->forgotten_count; i++) {
        struct read_item *item = &rc->forgotten[i];
        struct fetch_request_forgotten_topic *topic = &rc->forgotten_topics[i];
        fetch_request_forgotten_topic_init(topic);
        topic->topic = slice_of_string(item->name);
        topic->topic_id = item->id;
        topic->partitions = &item->partition;
        topic->partitions_count = 1;
    }
    request->forgotten_topics_data = rc->forgotten_topics;
    request->forgotten_topics_data_count = rc->forgotten_count;
}

void session_fill(struct read_call *rc, struct fetch_request *request)
{
    struct sim *sim = rc->consumer->actor.run->sim;
    struct session *s = session_of(rc);
    switch (rc->session_use) {
    case SESSION_NOT_USED:
        return;
    case SESSION_OPENS:
        request->session_epoch = 0;
        request->session_id = rand_one_in(&sim->rand, 4) ? steal_id(rc) : s->old_id;
        s->old_id = 0;
        return;
    case SESSION_ENDS:
        request->session_epoch = -1;
        request->session_id = s->id;
        *s = (struct session){0};
        return;
    case SESSION_WRONG_EPOCH:
        request->session_epoch = draw_wrong_epoch(sim, s->epoch);
        request->session_id = s->id;
        return;
    case SESSION_WRONG_TOPICS:
    case SESSION_GOES_ON:
        request->session_epoch = s->epoch;
        request->session_id = s->id;
        fill_forgotten(rc, request);
        return;
    }
}

/* ---- the answer ---- */

static bool is_refusal_wanted(const struct read_call *rc, int16_t code)
{
    return (code == KAFKA_INVALID_FETCH_SESSION_EPOCH && rc->session_use == SESSION_WRONG_EPOCH) ||
           (code == KAFKA_FETCH_SESSION_TOPIC_ID_ERROR && rc->session_use == SESSION_WRONG_TOPICS);
}

bool session_take_error(struct read_call *rc, const struct fetch_response *response)
{
    struct sim *sim = rc->consumer->actor.run->sim;
    const int16_t code = response->error_code;
    const bool is_odd =
        rc->session_use == SESSION_WRONG_EPOCH || rc->session_use == SESSION_WRONG_TOPICS;
    const bool is_in_session = is_odd || rc->session_use == SESSION_GOES_ON;
    if (code == KAFKA_NONE && !is_odd) {
        return true;
    }
    if (is_refusal_wanted(rc, code)) {
        sim_mark(sim, "sim_session_refused");
        return false;
    }
    sim_check(sim,
              code == KAFKA_FETCH_SESSION_ID_NOT_FOUND && is_in_session && !is_firm(rc),
              "Fetch v%d: error_code=%d session=%d epoch=%d use=%d",
              rc->call.version,
              code,
              session_of(rc)->id,
              session_of(rc)->epoch,
              (int)rc->session_use);
    sim_mark(sim, "sim_session_not_found");
    *session_of(rc) = (struct session){0};
    return false;
}

static void check_news(struct read_call *rc,
                       const struct read_item *item,
                       const struct fetch_response_partition *answer)
{
    const struct session_part *part = part_of(rc, item);
    const bool is_news = answer->error_code != KAFKA_NONE || answer->records.size > 0 ||
                         answer->diverging_epoch.epoch >= 0 || part->high_watermark == -1 ||
                         answer->high_watermark != part->high_watermark ||
                         answer->log_start_offset != part->start;
    sim_check(rc->consumer->actor.run->sim,
              is_news || !is_firm(rc),
              "%s-%d: session %d names it and tells nothing new: epoch=%d high_watermark=%" PRId64,
              item->name,
              item->partition,
              session_of(rc)->id,
              session_of(rc)->epoch,
              answer->high_watermark);
}

void session_take(struct read_call *rc,
                  const struct read_item *item,
                  const struct fetch_response_partition *answer)
{
    struct sim *sim = rc->consumer->actor.run->sim;
    struct session_part *part = part_of(rc, item);
    const bool is_in_session =
        rc->session_use == SESSION_GOES_ON || rc->session_use == SESSION_OPENS;
    if (!is_in_session) {
        return;
    }
    if (rc->session_use == SESSION_GOES_ON) {
        check_news(rc, item, answer);
    }
    if (item->is_gone &&
        is_gone(session_of(rc), &rc->consumer->actor.run->topics[item->topic], part)) {
        sim_mark(sim, "sim_session_tells_of_deletion");
        sim_check(sim,
                  answer->error_code == KAFKA_UNKNOWN_TOPIC_ID ||
                      answer->error_code == KAFKA_UNKNOWN_TOPIC_OR_PARTITION,
                  "%s-%d: it is deleted, and a session says error_code=%d",
                  item->name,
                  item->partition,
                  answer->error_code);
    }
    const bool is_failed = answer->error_code != KAFKA_NONE || answer->diverging_epoch.epoch >= 0;
    part->high_watermark = is_failed ? -1 : answer->high_watermark;
    part->start = answer->log_start_offset;
}

/* What the answer leaves out is as it was. */
static void check_left_out(const struct read_call *rc, const struct read_item *item)
{
    const struct broker_run *run = rc->consumer->actor.run;
    const struct session_part *part = part_of(rc, item);
    const bool is_gone_now =
        item->is_gone && is_gone(session_of(rc), &run->topics[item->topic], part);
    const bool is_known = read_item_history(run, item) != NULL;
    const bool is_unchanged = part->high_watermark >= item->high_watermark &&
                              part->start >= item->start && item->offset >= item->start;
    sim_check(run->sim,
              part->high_watermark != -1 && !is_gone_now && (!is_known || is_unchanged),
              "%s-%d: session %d leaves it out: told high_watermark=%" PRId64 " start=%" PRId64
              ", known %" PRId64 " and %" PRId64 " offset=%" PRId64 " is_gone=%d",
              item->name,
              item->partition,
              session_of(rc)->id,
              part->high_watermark,
              part->start,
              item->high_watermark,
              item->start,
              item->offset,
              item->is_gone);
    sim_mark(run->sim, "sim_session_leaves_out");
}

static void open_session(struct read_call *rc, int32_t id)
{
    struct session *s = session_of(rc);
    struct sim *sim = rc->consumer->actor.run->sim;
    sim_check(sim,
              id > 0 || sim->swarm.sessions_max != SESSIONS_MANY,
              "no session was opened: id=%d",
              id);
    s->id = id;
    s->epoch = 1;
    s->connection = rc->consumer->client.connections_count;
    if (id == 0) {
        sim_mark(sim, "sim_session_refused_for_room");
    }
}

/* All requests together took so much memory, for as long as this one may wait, that there was no
 * room to look at its partitions: nothing is said of any, and no session is opened, or the session
 * is as it was. Whether that has happened in this run the broker's mark tells. */
static bool had_no_room(const struct read_call *rc, const struct fetch_response *response)
{
    const int32_t id = rc->session_use == SESSION_GOES_ON ? session_of(rc)->id : 0;
    return rc->items_count > 0 && response->responses_count == 0 && response->session_id == id &&
           sim_has_mark(rc->consumer->actor.run->sim, "fetch_without_room");
}

void session_end_answer(struct read_call *rc, const struct fetch_response *response)
{
    struct sim *sim = rc->consumer->actor.run->sim;
    struct session *s = session_of(rc);
    if (had_no_room(rc, response)) {
        sim_mark(sim, "sim_fetch_had_no_room");
        if (rc->session_use == SESSION_GOES_ON) {
            s->epoch++;
        } else {
            *s = (struct session){0};
        }
        return;
    }
    for (uint32_t i = 0; i < rc->items_count; i++) {
        const struct read_item *item = &rc->items[i];
        if (!item->is_answered && rc->session_use == SESSION_GOES_ON) {
            check_left_out(rc, item);
        } else {
            sim_check(sim,
                      item->is_answered,
                      "%s-%d: Fetch v%d says nothing of it",
                      item->name,
                      item->partition,
                      rc->call.version);
        }
    }
    if (rc->session_use == SESSION_OPENS) {
        open_session(rc, response->session_id);
    } else if (rc->session_use == SESSION_GOES_ON && rc->items_count > 0) {
        sim_check(sim,
                  response->session_id == s->id,
                  "session %d answers as %d",
                  s->id,
                  response->session_id);
        s->epoch++;
    } else if (rc->session_use == SESSION_GOES_ON) {
        sim_check(sim, response->session_id == 0, "a session of nothing is open");
        *s = (struct session){0};
    }
}

void session_lost_answer(struct read_call *rc)
{
    struct session *s = session_of(rc);
    if (rc->session_use == SESSION_GOES_ON || rc->session_use == SESSION_OPENS) {
        *s = (struct session){.old_id = s->id};
    }
}

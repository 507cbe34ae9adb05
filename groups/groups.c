#include "groups/groups.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cluster/cluster.h"
#include "cluster/metadata.h"
#include "cluster/partition_follow.h"
#include "core/assert.h"
#include "core/logger.h"
#include "core/shard.h"
#include "core/utf8.h"
#include "groups/coordinator.h"
#include "groups/group_clock.h"
#include "groups/lag.h"
#include "groups/limits.h"
#include "groups/matching.h"
#include "groups/memory.h"
#include "groups/proposal.h"
#include "groups/settings.h"
#include "kafka/proto/list_groups.h"

enum {
    WAITING_MAX = 1000,            /* Calls of one seat that wait until it is loaded. */
    METADATA_DELAY_US = 50 * 1000, /* Many changes are looked at together. */
    LOADS_MAX = 8,                 /* Partitions of one shard that are replayed at the same time. */
    LOAD_AGAIN_US = 5 * 1000 * 1000, /* What there was no memory for. */
};

enum seat_state {
    SEAT_WAITING, /* For its turn to load. */
    SEAT_LOADING,
    SEAT_RESTING, /* There was no memory to load it: it is tried again. */
    SEAT_ACTIVE,
    SEAT_ENDING, /* What its coordinator proposed comes home, then it waits to be loaded again. */
    SEAT_FAILED,
    SEAT_OVER, /* Resigned: the broker stops, or the topic is gone. */
};

/* One partition of __consumer_offsets on this shard. */
struct seat {
    struct groups *g;
    struct list link;
    enum seat_state state;
    struct partition_id id;
    struct coordinator *coordinator; /* Of one that loads, is active or ends. */
    struct partition_follow follow;  /* While it loads. */
    struct list waiting;             /* struct group_call: while it loads. */
    uint32_t waiting_count;
    bool is_reading;     /* The follow's on_end has not come. */
    bool has_complained; /* Of records that cannot be read, */
    bool has_been_short; /* of want of memory: not each time it is tried. */
    struct timer timer;  /* Of its coordinator; or when it is tried again. */
    struct list appends; /* struct proposal, by append_link: in flight, in order. */
    uint64_t load_us;    /* When loading began. */
};

struct groups {
    struct groups_set *set;
    struct shard *s; /* NULL until the start. */
    struct cluster *cluster;
    bool is_quiescing;
    struct uuid topic_id; /* Of the seats. */
    struct list seats;
    struct seat **seat_of; /* By partition; NULL = not here. */
    int32_t partitions_count;
    bool lacks_seats; /* There was no memory for all of them. */
    uint32_t loads_count;
    struct timer metadata_timer;
    struct group_clock clock; /* All coordinators get their time from it. */
    struct timer pulse;
    struct group_memory memory;
    struct group_counters counters;
    struct matching matching;
    struct timer matching_timer; /* Its next turn. */
    struct coordinator_env env;
    struct lag *lag; /* NULL = there was no memory for it. */
    struct limits limits;
};

struct groups_set {
    const struct groups_settings *settings;
    uint16_t shards_count;
    struct groups groups[]; /* Each is touched by its own shard. */
};

static struct group_time now_of(struct groups *g)
{
    return (struct group_time){
        .now_us = group_clock_look(&g->clock, g->s->now_us),
        .wall_ms = g->s->wall_ms,
    };
}

/* ---- a seat's events ---- */

static void load_more(struct groups *g);
static void start_over(struct seat *seat);
static void serve(struct groups *g, struct seat *seat, struct group_call *call);

static void arm(struct groups *g, struct timer *t, uint64_t deadline_us)
{
    const uint64_t when_us = group_clock_when_us(&g->clock, deadline_us);
    if (when_us == UINT64_MAX) {
        timer_cancel(&g->s->timers, t);
    } else {
        timer_arm(&g->s->timers, t, when_us);
    }
}

/* After all that may have changed what is due, to it or to the shard. */
static void rearm(struct seat *seat)
{
    struct groups *g = seat->g;
    const bool is_active = seat->state == SEAT_ACTIVE;
    arm(g, &seat->timer, is_active ? coordinator_deadline_us(seat->coordinator) : UINT64_MAX);
    arm(g, &g->matching_timer, matching_deadline_us(&g->matching));
}

static void drop_coordinator(struct seat *seat)
{
    coordinator_free(seat->coordinator);
    seat->coordinator = NULL;
}

/* Nothing of its coordinator is in flight: it goes, or is loaded again. */
static void end_if_home(struct seat *seat)
{
    struct groups *g = seat->g;
    const bool is_ending = seat->state == SEAT_ENDING || seat->state == SEAT_OVER;
    if (!is_ending || !list_is_empty(&seat->appends) || seat->is_reading) {
        return;
    }
    drop_coordinator(seat);
    if (seat->state == SEAT_ENDING) {
        seat->state = SEAT_WAITING;
        load_more(g);
        return;
    }
    if (g->seat_of != NULL && g->seat_of[seat->id.partition] == seat) {
        g->seat_of[seat->id.partition] = NULL;
    }
    timer_cancel(&g->s->timers, &seat->timer);
    list_remove(&seat->link);
    free(seat);
}

static void on_timer(struct timer *t)
{
    struct seat *seat = container_of(t, struct seat, timer);
    if (seat->state == SEAT_RESTING) {
        seat->state = SEAT_WAITING;
        load_more(seat->g);
        return;
    }
    coordinator_tick(seat->coordinator, now_of(seat->g));
    rearm(seat);
}

/* One turn of patterns in each of the loop. */
static void on_matching_due(struct timer *t)
{
    struct groups *g = container_of(t, struct groups, matching_timer);
    const struct group_time now = now_of(g);
    if (matching_deadline_us(&g->matching) > now.now_us) {
        arm(g, t, matching_deadline_us(&g->matching));
        return;
    }
    const struct coordinator *c = coordinator_match(&g->matching, now);
    rearm(g->seat_of[coordinator_partition(c)]);
}

static void on_appended(struct partition_op *op)
{
    struct seat *seat = op->context;
    container_of(op, struct proposal, op)->is_home = true;
    /* One that is refused is home before those ahead of it are durable. */
    while (!list_is_empty(&seat->appends)) {
        struct proposal *p = container_of(seat->appends.next, struct proposal, append_link);
        if (!p->is_home) {
            break;
        }
        list_remove(&p->append_link);
        coordinator_on_appended(seat->coordinator, p, p->op.result, now_of(seat->g));
    }
    if (coordinator_is_broken(seat->coordinator) && seat->state == SEAT_ACTIVE) {
        start_over(seat);
        return;
    }
    rearm(seat);
    end_if_home(seat);
}

static void append(void *context, struct coordinator *c, struct proposal *p)
{
    struct groups *g = context;
    struct seat *seat = g->seat_of[coordinator_partition(c)];
    p->op = (struct partition_op){
        .kind = PARTITION_PRODUCE,
        .id = seat->id,
        .current_leader_epoch = -1,
        .on_done = on_appended,
        .context = seat,
        .in.produce = {.batch = proposal_batch(p), .acks = -1, .is_own = true},
    };
    p->is_home = false;
    list_push_back(&seat->appends, &p->append_link);
    cluster_partition_submit(g->cluster, &p->op);
}

static void answer(void *context, struct group_call *call)
{
    struct groups *g = context;
    call->coordinator = NULL;
    xmsg_forward(g->s, &call->msg);
}

static void intervals(void *context, struct slice group_id, struct groups_intervals *ret)
{
    struct groups *g = context;
    *ret = groups_intervals_of(g->set->settings, g->cluster, group_id);
}

/* ---- loading ---- */

static enum err on_batch(struct partition_follow *f, struct slice batch)
{
    struct seat *seat = f->context;
    const enum err e = coordinator_apply(seat->coordinator, batch);
    if (e != ERR_CORRUPT) {
        return e;
    }
    /* Somebody else's record in the topic: it says nothing about groups. */
    if (!seat->has_complained) {
        seat->has_complained = true;
        log_warn(seat->g->s->log,
                 "group_record_unreadable",
                 "topic=" GROUPS_TOPIC " partition=%" PRId32 " below_offset=%" PRId64
                 " effect=\"the record is passed over\"",
                 seat->id.partition,
                 seat->follow.offset);
    }
    return ERR_OK;
}

/* The calls that waited for the load, in order. */
static void serve_waiting(struct seat *seat)
{
    struct list *link = NULL;
    while ((link = list_pop_front(&seat->waiting)) != NULL) {
        seat->waiting_count--;
        struct group_call *call = container_of(link, struct group_call, link);
        call->on_cancel = NULL;
        call->keeper = NULL;
        serve(seat->g, seat, call);
    }
}

/* From here on all its records are its own appends. */
static void on_current(struct partition_follow *f)
{
    partition_follow_stop(f);
}

/* What there is of it helps nobody, and memory may come back. */
static void rest(struct seat *seat)
{
    struct groups *g = seat->g;
    drop_coordinator(seat);
    seat->state = SEAT_RESTING;
    shard_timer_arm(g->s, &seat->timer, LOAD_AGAIN_US);
    if (!seat->has_been_short) {
        seat->has_been_short = true;
        log_error(g->s->log,
                  "groups_not_loaded",
                  "topic=" GROUPS_TOPIC " partition=%" PRId32
                  " error=BUSY effect=\"its groups get COORDINATOR_LOAD_IN_PROGRESS; tried again "
                  "every few seconds\" "
                  "action=\"more memory, or a lower coreflume.groups.state.bytes\"",
                  seat->id.partition);
    }
}

static void fail(struct seat *seat, enum err e)
{
    drop_coordinator(seat);
    seat->state = SEAT_FAILED;
    log_error(seat->g->s->log,
              "groups_not_loaded",
              "topic=" GROUPS_TOPIC " partition=%" PRId32
              " error=%s effect=\"its groups get COORDINATOR_NOT_AVAILABLE\" "
              "action=\"groups of other partitions go on; stop the node, then put this one's files "
              "back from a copy, or, if it is damaged, see 'coreflume help log repair'\"",
              seat->id.partition,
              err_name(e));
}

static void activate(struct seat *seat)
{
    struct groups *g = seat->g;
    seat->state = SEAT_ACTIVE;
    seat->has_been_short = false;
    coordinator_activate(seat->coordinator, now_of(g));
    rearm(seat);
    if (coordinator_groups_count(seat->coordinator) > 0) {
        log_info(g->s->log,
                 "groups_loaded",
                 "partition=%" PRId32 " groups=%" PRIu32 " offset=%" PRId64 " ms=%" PRIu64,
                 seat->id.partition,
                 coordinator_groups_count(seat->coordinator),
                 seat->follow.offset,
                 (g->s->now_us - seat->load_us) / 1000);
    }
}

static void on_loaded(struct partition_follow *f, enum err e)
{
    struct seat *seat = f->context;
    struct groups *g = seat->g;
    seat->is_reading = false;
    assert_cmp(g->loads_count, >, 0);
    g->loads_count--;
    if (seat->state == SEAT_LOADING) {
        if (f->is_current) {
            activate(seat);
        } else if (e == ERR_BUSY) {
            rest(seat);
        } else {
            fail(seat, e);
        }
    }
    serve_waiting(seat);
    end_if_home(seat);
    load_more(g);
}

static void load(struct seat *seat)
{
    struct groups *g = seat->g;
    if (coordinator_new(&g->env, seat->id.partition, &seat->coordinator) != ERR_OK) {
        rest(seat);
        serve_waiting(seat);
        return;
    }
    seat->state = SEAT_LOADING;
    seat->is_reading = true;
    seat->load_us = g->s->now_us;
    g->loads_count++;
    seat->follow = (struct partition_follow){
        .id = seat->id,
        .offset = FOLLOW_FROM_START,
        .context = seat,
        .on_batch = on_batch,
        .on_current = on_current,
        .on_end = on_loaded,
    };
    partition_follow_begin(g->cluster, &seat->follow);
}

static void load_more(struct groups *g)
{
    list_for_each (link, &g->seats) {
        struct seat *seat = container_of(link, struct seat, link);
        if (g->loads_count == LOADS_MAX) {
            return;
        }
        if (seat->state == SEAT_WAITING) {
            load(seat);
        }
    }
}

/* ---- which partitions are here ---- */

/* Then it is OVER, or ENDING. */
static void resign(struct seat *seat, enum seat_state to)
{
    if (seat->is_reading) {
        partition_follow_stop(&seat->follow);
    }
    seat->state = to;
    if (seat->coordinator != NULL) {
        coordinator_resign(seat->coordinator);
    }
    serve_waiting(seat);
    rearm(seat);
    end_if_home(seat);
}

static void resign_all(struct groups *g)
{
    list_for_each_safe (link, &g->seats) {
        resign(container_of(link, struct seat, link), SEAT_OVER);
    }
    free(g->seat_of);
    g->seat_of = NULL;
    g->partitions_count = 0;
    g->lacks_seats = false;
}

/* False without memory. */
static bool take_seat(struct groups *g, const struct partition_id *id)
{
    struct seat *seat = calloc(1, sizeof(*seat));
    if (seat == NULL) {
        return false;
    }
    seat->g = g;
    seat->id = *id;
    timer_init(&seat->timer, on_timer);
    list_init(&seat->waiting);
    list_init(&seat->appends);
    list_push_back(&g->seats, &seat->link);
    g->seat_of[id->partition] = seat;
    return true;
}

/* Its state is lost: another coordinator is loaded when all that this one proposed is in the log or
 * never will be. */
static void start_over(struct seat *seat)
{
    struct groups *g = seat->g;
    log_error(g->s->log,
              "groups_start_over",
              "topic=" GROUPS_TOPIC " partition=%" PRId32
              " error=BUSY effect=\"its groups are loaded again\" "
              "action=\"more memory, or a lower coreflume.groups.state.bytes\"",
              seat->id.partition);
    assert(list_is_empty(&seat->waiting)); /* It was active. */
    resign(seat, SEAT_ENDING);
}

/* False without memory. */
static bool make_room_for_seats(struct groups *g, int32_t count)
{
    struct seat **seat_of = realloc(g->seat_of, (size_t)count * sizeof(*seat_of));
    if (seat_of == NULL) {
        return false;
    }
    g->seat_of = seat_of;
    for (int32_t i = g->partitions_count; i < count; i++) {
        seat_of[i] = NULL;
    }
    g->partitions_count = count;
    return true;
}

/* False without memory for all of them. */
static bool take_free_seats(struct groups *g, const struct metadata *m, const struct topic *t)
{
    if (t->partitions_count > g->partitions_count && !make_room_for_seats(g, t->partitions_count)) {
        return false;
    }
    bool has_all = true;
    for (int32_t i = 0; i < t->partitions_count; i++) {
        const struct partition_id id = {.topic_id = t->id, .partition = i};
        if (g->seat_of[i] == NULL && metadata_partition_shard(m, &id) == g->s->id) {
            has_all = take_seat(g, &id) && has_all;
        }
    }
    return has_all;
}

/* The topic has appeared, has grown, or is another one under its name. */
static void take_seats(struct groups *g)
{
    const struct metadata *m = cluster_metadata(g->cluster);
    const struct topic *t = metadata_topic_by_name(m, slice_of_string(GROUPS_TOPIC));
    if (t == NULL || !uuid_equal(&t->id, &g->topic_id)) {
        resign_all(g);
    }
    if (t == NULL || (t->partitions_count == g->partitions_count && !g->lacks_seats)) {
        return;
    }
    g->topic_id = t->id;
    const bool has_all = take_free_seats(g, m, t);
    if (!has_all && !g->lacks_seats) {
        log_error(g->s->log,
                  "groups_not_loaded",
                  "topic=" GROUPS_TOPIC
                  " error=BUSY effect=\"groups of some partitions get NOT_COORDINATOR; tried again "
                  "every second\" action=\"more memory\"");
    }
    g->lacks_seats = !has_all;
    load_more(g);
}

/* Clients may be waiting for seats, but not for the rest. */
void groups_on_metadata(struct groups *g)
{
    if (g->s == NULL || g->is_quiescing) {
        return;
    }
    take_seats(g);
    if (!timer_is_armed(&g->metadata_timer)) {
        shard_timer_arm(g->s, &g->metadata_timer, METADATA_DELAY_US);
    }
}

static void on_pulse(struct timer *t)
{
    struct groups *g = container_of(t, struct groups, pulse);
    (void)now_of(g);
    limits_look(&g->limits);
    if (g->lacks_seats) {
        take_seats(g);
    }
    shard_timer_arm(g->s, t, GROUP_CLOCK_PULSE_US);
}

static void on_metadata_timer(struct timer *t)
{
    struct groups *g = container_of(t, struct groups, metadata_timer);
    list_for_each (link, &g->seats) {
        struct seat *seat = container_of(link, struct seat, link);
        if (seat->state == SEAT_ACTIVE) {
            coordinator_on_metadata(seat->coordinator, now_of(g));
            rearm(seat);
        }
    }
}

/* ---- calls ---- */

int32_t groups_partition_of(struct slice group_id, int32_t count)
{
    /* String.hashCode of Java: over UTF-16 units. */
    uint32_t hash = 0;
    size_t at = 0;
    uint32_t code = 0;
    while (utf8_next(group_id, &at, &code)) {
        if (code > 0xffff) {
            hash = hash * 31 + (0xd7c0 + (code >> 10));
            code = 0xdc00 + (code & 0x3ff);
        }
        hash = hash * 31 + code;
    }
    const uint32_t positive = (int32_t)hash == INT32_MIN ? 0 : (uint32_t)abs((int32_t)hash);
    return (int32_t)(positive % (uint32_t)count);
}

static void call_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    struct group_call *call = container_of(m, struct group_call, msg);
    call->on_done(call);
}

/* Answers a call that no coordinator takes. */
static void refuse(struct groups *g, struct group_call *call, enum kafka_error e)
{
    group_call_refuse(call, e, (struct slice){0});
    answer(g, call);
}

/* What it is told instead of waiting: heartbeats that all is well, as in Kafka. */
static enum kafka_error error_while_loading(const struct group_call *call)
{
    return call->kind == GROUP_HEARTBEAT ? KAFKA_NONE : KAFKA_COORDINATOR_LOAD_IN_PROGRESS;
}

static void leave_queue(struct group_call *call)
{
    struct seat *seat = call->keeper;
    call->on_cancel = NULL;
    list_remove(&call->link);
    seat->waiting_count--;
    refuse(seat->g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
}

/* The calls of a client that comes back after a restart need not be tried again. */
static void wait_for_load(struct groups *g, struct seat *seat, struct group_call *call)
{
    if (call->kind == GROUP_HEARTBEAT || seat->waiting_count == WAITING_MAX) {
        refuse(g, call, error_while_loading(call));
        return;
    }
    seat->waiting_count++;
    list_push_back(&seat->waiting, &call->link);
    /* As at the gate: others are carried out, whether somebody waits for the answer or not. */
    if (call->kind == GROUP_JOIN) {
        call->keeper = seat;
        call->on_cancel = leave_queue;
    }
}

static void serve(struct groups *g, struct seat *seat, struct group_call *call)
{
    switch (seat->state) {
    case SEAT_WAITING:
    case SEAT_LOADING:
    case SEAT_ENDING:
        wait_for_load(g, seat, call);
        return;
    case SEAT_RESTING:
        refuse(g, call, error_while_loading(call));
        return;
    case SEAT_FAILED:
        refuse(g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
        return;
    case SEAT_OVER:
        refuse(g, call, KAFKA_NOT_COORDINATOR);
        return;
    case SEAT_ACTIVE:
        break;
    }
    call->coordinator = seat->coordinator;
    coordinator_call(seat->coordinator, call, now_of(g));
    rearm(seat);
}

/* A shard that has not begun to serve groups (others listen already), or does not any more. */
static bool is_away(const struct groups *g, struct shard *here, struct group_call *call)
{
    if (g->s != NULL) {
        return false;
    }
    group_call_refuse(call, error_while_loading(call), (struct slice){0});
    xmsg_forward(here, &call->msg);
    return true;
}

static void serve_call(struct shard *here, struct xmsg *m)
{
    struct group_call *call = container_of(m, struct group_call, msg);
    struct groups *g = call->server;
    if (is_away(g, here, call)) {
        return;
    }
    struct seat *seat = NULL;
    if (g->partitions_count > 0) {
        seat = g->seat_of[groups_partition_of(call->group_id, g->partitions_count)];
    }
    if (seat == NULL) {
        refuse(g, call, KAFKA_NOT_COORDINATOR);
    } else {
        serve(g, seat, call);
    }
}

static void send_call(struct groups *g,
                      uint16_t owner,
                      struct group_call *call,
                      void (*run)(struct shard *here, struct xmsg *m))
{
    call->server = &g->set->groups[owner];
    call->route[0] = (struct xmsg_hop){.shard = owner, .run = run};
    call->route[1] = (struct xmsg_hop){.shard = g->s->id, .run = call_home};
    call->msg.next_hop = call->route;
    xmsg_send(g->s, &call->msg);
}

void groups_submit(struct groups *g, struct group_call *call)
{
    const struct metadata *m = cluster_metadata(g->cluster);
    const struct topic *t = metadata_topic_by_name(m, slice_of_string(GROUPS_TOPIC));
    uint16_t owner = g->s->id;
    if (t != NULL) {
        const struct partition_id id = {
            .topic_id = t->id,
            .partition = groups_partition_of(call->group_id, t->partitions_count),
        };
        owner = metadata_partition_shard(m, &id);
    }
    send_call(g, owner, call, serve_call);
}

/* An empty list, with room for all groups. */
static void begin_list(struct groups *g, struct group_call *call)
{
    size_t count = 0;
    list_for_each (link, &g->seats) {
        const struct seat *seat = container_of(link, struct seat, link);
        count += seat->state == SEAT_ACTIVE ? coordinator_groups_count(seat->coordinator) : 0;
    }
    group_call_refuse(call, KAFKA_NONE, (struct slice){0});
    struct list_groups_response *out = call->out;
    if (out != NULL) {
        out->groups = group_call_alloc(call, count, sizeof(*out->groups));
    }
}

static void serve_list(struct shard *here, struct xmsg *m)
{
    struct group_call *call = container_of(m, struct group_call, msg);
    struct groups *g = call->server;
    if (is_away(g, here, call)) {
        return;
    }
    begin_list(g, call);
    list_for_each (link, &g->seats) {
        struct seat *seat = container_of(link, struct seat, link);
        struct list_groups_response *out = call->out;
        if (out == NULL) {
            break; /* It is too large. */
        }
        if (seat->state == SEAT_ACTIVE) {
            (void)coordinator_list(seat->coordinator, call);
        } else if (seat->state != SEAT_OVER) {
            out->error_code =
                (int16_t)(seat->state == SEAT_FAILED ? KAFKA_COORDINATOR_NOT_AVAILABLE
                                                     : KAFKA_COORDINATOR_LOAD_IN_PROGRESS);
        }
    }
    answer(g, call);
}

void groups_submit_list(struct groups *g, uint16_t shard_id, struct group_call *call)
{
    assert_cmp(call->kind, ==, GROUP_LIST);
    send_call(g, shard_id, call, serve_list);
}

uint64_t groups_commit_timeout_us(const struct groups *g)
{
    return (uint64_t)g->set->settings->commit_timeout_ms * 1000;
}

static void serve_cancel(struct shard *here, struct xmsg *m)
{
    struct group_cancel *cancel = container_of(m, struct group_cancel, msg);
    struct group_call *call = cancel->call;
    struct groups *g = cancel->server;
    call->is_hurried = true;
    call->is_client_gone = cancel->is_client_gone;
    if (call->coordinator != NULL) {
        struct seat *seat = g->seat_of[coordinator_partition(call->coordinator)];
        coordinator_cancel(seat->coordinator, call, now_of(g));
        rearm(seat);
    } else if (call->on_cancel != NULL) {
        call->on_cancel(call);
    }
    xmsg_forward(here, m);
}

static void cancel_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    struct group_cancel *cancel = container_of(m, struct group_cancel, msg);
    cancel->on_done(cancel);
}

void groups_cancel(struct groups *g, struct group_cancel *cancel)
{
    cancel->server = cancel->call->server;
    cancel->route[0] = cancel->call->route[0];
    cancel->route[0].run = serve_cancel;
    cancel->route[1] = (struct xmsg_hop){.shard = g->s->id, .run = cancel_home};
    cancel->msg.next_hop = cancel->route;
    xmsg_send(g->s, &cancel->msg);
}

/* ---- life ---- */

enum err groups_set_new(const struct groups_settings *settings,
                        uint16_t shards_count,
                        struct groups_set **ret_set)
{
    struct groups_set *set = calloc(1, sizeof(*set) + shards_count * sizeof(set->groups[0]));
    if (set == NULL) {
        return ERR_BUSY;
    }
    set->settings = settings;
    set->shards_count = shards_count;
    for (uint16_t i = 0; i < shards_count; i++) {
        set->groups[i].set = set;
        list_init(&set->groups[i].seats);
    }
    *ret_set = set;
    return ERR_OK;
}

void groups_set_free(struct groups_set *set)
{
    free(set);
}

struct groups *groups_set_get(struct groups_set *set, uint16_t shard_id)
{
    assert_cmp(shard_id, <, set->shards_count);
    return &set->groups[shard_id];
}

static int32_t partitions_count(void *context)
{
    const struct groups *g = context;
    return g->partitions_count;
}

static const struct coordinator *coordinator_at(void *context, int32_t partition)
{
    const struct groups *g = context;
    const struct seat *seat = g->seat_of[partition];
    return seat != NULL && seat->state == SEAT_ACTIVE ? seat->coordinator : NULL;
}

static void start_lag(struct groups *g)
{
    const struct lag_options options = {
        .s = g->s,
        .cluster = g->cluster,
        .memory = &g->memory,
        .counters = &g->counters,
        .context = g,
        .partitions_count = partitions_count,
        .coordinator_at = coordinator_at,
    };
    if (lag_new(&options, &g->lag) != ERR_OK) {
        log_warn(g->s->log, "group_lag_not_measured", "reason=no_memory");
    }
}

/* Of a limit of the node: one shard's part, rounded up. */
static uint64_t share(const struct groups *g, uint64_t limit)
{
    return (limit + g->set->shards_count - 1) / g->set->shards_count;
}

void groups_start(struct groups *g, struct shard *s, struct cluster *c)
{
    g->cluster = c;
    g->memory = (struct group_memory){
        .size_max = g->set->settings->state_size_max / g->set->shards_count,
        .groups_max = share(g, g->set->settings->groups_max),
        .members_max = share(g, g->set->settings->all_members_max),
    };
    g->env = (struct coordinator_env){
        .settings = g->set->settings,
        .metadata = cluster_metadata(c),
        .memory = &g->memory,
        .counters = &g->counters,
        .matching = &g->matching,
        .hash_seed = s->hash_seed,
        .rand = &s->rand,
        .log = s->log,
        .reached = s->reached,
        .context = g,
        .intervals = intervals,
        .append = append,
        .answer = answer,
    };
    matching_init(&g->matching);
    timer_init(&g->matching_timer, on_matching_due);
    timer_init(&g->metadata_timer, on_metadata_timer);
    timer_init(&g->pulse, on_pulse);
    group_clock_init(&g->clock, s->now_us);
    g->s = s;
    shard_timer_arm(s, &g->pulse, GROUP_CLOCK_PULSE_US);
    g->limits.s = s;
    g->limits.memory = &g->memory;
    g->limits.settings = g->set->settings;
    g->limits.reader = &g->set->groups[0].limits;
    start_lag(g);
    groups_on_metadata(g);
}

uint32_t groups_problems(const struct groups *g, struct group_problem ret[GROUP_LIMIT_COUNT])
{
    return limits_list(&g->limits, ret);
}

void groups_quiesce(struct groups *g)
{
    if (g->s == NULL || g->is_quiescing) {
        return;
    }
    g->is_quiescing = true;
    timer_cancel(&g->s->timers, &g->metadata_timer);
    timer_cancel(&g->s->timers, &g->pulse);
    timer_cancel(&g->s->timers, &g->matching_timer);
    if (g->lag != NULL) {
        lag_quiesce(g->lag);
    }
    resign_all(g);
}

void groups_stop(struct groups *g)
{
    assert(list_is_empty(&g->seats));
    lag_free(g->lag);
    g->lag = NULL;
    g->s = NULL;
}

#include "groups/lag.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "core/assert.h"
#include "core/shard.h"
#include "core/stats.h"
#include "core/utf8.h"
#include "groups/classic.h"
#include "groups/consumer.h"
#include "groups/group.h"
#include "groups/offsets.h"
#include "storage/batch.h"

enum {
    IN_FLIGHT_MAX = 8,
    BUCKETS = 1024,
    TIMES = 8192,
    TURN_LINES_MAX = 32,
    STEP_LOOKS_MAX = 512, /* Groups and offsets that are looked at in one turn. */
    LABEL_SIZE = 1024,    /* Group ids that take half of it have no series. */
};

#define PERIOD_US (UINT64_C(1000) * LAG_PERIOD_MS)

/* A pass takes about one hundredth of a core: it rests that many times as long as what it did
 * usually costs. How long it took says little: disks and other work are in that. */
enum {
    REST_FACTOR = 100,
    LOOK_COST_NS = 100,
    LINE_COST_NS = 3 * 1000,
    READ_COST_NS = 50 * 1000,
};

/* One of them; absent while its value is not known. */
struct figure {
    struct stat stat;
    bool is_shown;
    uint64_t value;  /* As it is shown, of the last pass. */
    uint64_t sum;    /* Of the pass that runs; of seconds the largest. */
    bool is_unknown; /* In the pass that runs: of one of its partitions. */
};

/* Two metrics with the same labels. */
struct series {
    struct list link; /* Of its bucket. */
    struct figure records;
    struct figure seconds;
    bool is_seen;
    const struct series *topic; /* Of a partition; it is seen whenever that is. NULL: a topic's. */
    int32_t partition;
    uint64_t hash;
    char labels[];
};

/* One committed offset. */
struct line {
    struct series *topic;
    struct series *partition; /* NULL = beyond the bound. */
    struct partition_id id;
    int64_t offset;
};

/* What a line says; instead of a number one of these. */
enum {
    NOT_KNOWN = -1,
    NO_TIME = -2, /* The record was written without one. */
};

/* When the record at an offset was made: remembered where its hash falls. */
struct time_entry {
    uint64_t key;
    int64_t ms; /* Or NO_TIME, or NOT_KNOWN. */
};

/* One of the operations in flight. */
struct probe {
    struct lag *l;
    struct partition_op op;
    struct line *line; /* NULL = idle. */
    bool is_waiting;   /* For the next turn. */
    int64_t records;   /* Left to read. */
    int64_t from;      /* The first of them that may be there. */
    uint8_t header[BATCH_HEADER_SIZE];
};

enum state_kind {
    STATE_EMPTY,
    STATE_PREPARING,
    STATE_COMPLETING,
    STATE_ASSIGNING,
    STATE_RECONCILING,
    STATE_STABLE,
    STATE_COUNT,
};

static const struct {
    const char *name;
    const char *labels;
} STATES[STATE_COUNT] = {
    [STATE_EMPTY] = {"Empty", "state=\"Empty\""},
    [STATE_PREPARING] = {"PreparingRebalance", "state=\"PreparingRebalance\""},
    [STATE_COMPLETING] = {"CompletingRebalance", "state=\"CompletingRebalance\""},
    [STATE_ASSIGNING] = {"Assigning", "state=\"Assigning\""},
    [STATE_RECONCILING] = {"Reconciling", "state=\"Reconciling\""},
    [STATE_STABLE] = {"Stable", "state=\"Stable\""},
};

struct totals {
    uint64_t states[STATE_COUNT];
    uint64_t offsets;
    uint64_t is_cut;
    uint64_t unknown_count;
};

enum {
    FIXED_STATS = STATE_COUNT + 12,
};

struct lag {
    struct lag_options o;
    struct timer timer;
    struct task task;
    bool is_stopping;
    /* Where the gathering of lines is, some groups per turn of the loop. */
    bool is_gathering;
    int32_t partition;
    uint32_t bucket;
    uint32_t buckets_count;
    uint32_t step_looks;
    struct list buckets[BUCKETS];
    uint32_t series_count[2]; /* Of topics, of partitions. */
    struct line *lines;
    uint32_t lines_count;
    uint32_t offsets_count; /* Looked at in this pass, as what follows. */
    uint32_t looks_count;
    uint32_t reads_count;
    uint32_t next;       /* The next line to be looked at. */
    uint32_t working;    /* Probes in flight. */
    uint32_t turn_lines; /* Looked at since the task ran. */
    struct probe probes[IN_FLIGHT_MAX];
    struct time_entry *times;
    struct totals totals; /* As they are shown. */
    struct totals sums;   /* Of the pass that runs. */
    struct stat fixed[FIXED_STATS];
    uint32_t fixed_count;
    /* The topic that lines are made of. */
    const struct group *g;
    bool has_topic;
    struct series *topic_series; /* NULL = it has none. */
    char topic_name[TOPIC_NAME_SIZE_MAX + 1];
};

/* ---- series ---- */

/* As the text format wants it: all but these three may stand there, of what is UTF-8. */
static size_t escape(char *to, struct slice text)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        const char c = (char)text.data[i];
        if (c == '"' || c == '\\' || c == '\n') {
            to[size++] = '\\';
        }
        to[size++] = c == '\n' ? 'n' : c;
    }
    return size;
}

/* One label that is not UTF-8, and all metrics are refused; and a label ends at a NUL here. */
static bool can_be_label(const struct group *g)
{
    return memchr(g->id, 0, g->id_size) == NULL && utf8_is_valid(group_id(g));
}

/* False if it does not fit, or has no place there. */
static bool format_topic(char *to, const struct group *g, struct slice topic)
{
    char id[LABEL_SIZE / 2];
    if (g->id_size * 2 > sizeof(id) || !can_be_label(g)) {
        return false;
    }
    const size_t id_size = escape(id, group_id(g));
    const int size = snprintf(to,
                              LABEL_SIZE,
                              "group=\"%.*s\",topic=\"%.*s\"",
                              (int)id_size,
                              id,
                              (int)topic.size,
                              (const char *)topic.data);
    assert_cmp(size, <, LABEL_SIZE - 32);
    return true;
}

static bool is_partition(const struct series *x)
{
    return x->topic != NULL;
}

static void init_figures(struct series *x)
{
    x->records.stat = (struct stat){
        .kind = STAT_GAUGE,
        .name = is_partition(x) ? "coreflume_group_partition_lag_records"
                                : "coreflume_group_lag_records",
        .labels = x->labels,
        .help = "Records that the group has not committed yet, those that are gone included.",
        .value = &x->records.value,
    };
    x->seconds.stat = (struct stat){
        .kind = STAT_GAUGE,
        .name = is_partition(x) ? "coreflume_group_partition_lag_seconds"
                                : "coreflume_group_lag_seconds",
        .labels = x->labels,
        .help =
            "Age of the oldest record that the group has not committed yet; 0 if there is none.",
        .value = &x->seconds.value,
    };
}

static void hide(struct figure *f)
{
    if (f->is_shown) {
        stats_remove(&f->stat);
        f->is_shown = false;
    }
}

/* What the pass has found. */
static void show(struct lag *l, struct figure *f)
{
    if (f->is_unknown) {
        hide(f);
    } else if (!f->is_shown) {
        stats_add(&l->o.s->stats, &f->stat);
        f->is_shown = true;
    }
    f->value = f->sum;
    f->sum = 0;
    f->is_unknown = false;
}

/* NULL without memory. */
static struct series *new_series(
    struct lag *l, uint64_t hash, const char *labels, const struct series *topic, int32_t partition)
{
    const size_t size = strlen(labels) + 1;
    struct series *x = calloc(1, sizeof(*x) + size);
    if (x == NULL) {
        return NULL;
    }
    x->topic = topic;
    x->partition = partition;
    x->hash = hash;
    memcpy(x->labels, labels, size);
    list_push_back(&l->buckets[hash % BUCKETS], &x->link);
    l->series_count[is_partition(x)]++;
    init_figures(x);
    return x;
}

static void drop_series(struct lag *l, struct series *x)
{
    hide(&x->records);
    hide(&x->seconds);
    list_remove(&x->link);
    l->series_count[is_partition(x)]--;
    free(x);
}

/* Whether there may be another one. */
static bool has_room(struct lag *l, bool is_of_partition)
{
    const bool has = l->series_count[is_of_partition] < LAG_SERIES_MAX;
    l->sums.is_cut = has ? l->sums.is_cut : 1;
    return has;
}

/* Both find or make it, NULL beyond the bound: then that costs next to nothing, since most offsets
 * of a large broker are there. */
static struct series *topic_series(struct lag *l, const struct group *g, struct slice topic)
{
    char labels[LABEL_SIZE];
    const uint64_t hash = hash_bytes(g->by_id.hash, topic.data, topic.size);
    list_for_each (link, &l->buckets[hash % BUCKETS]) {
        struct series *at = container_of(link, struct series, link);
        if (at->hash == hash && !is_partition(at) && format_topic(labels, g, topic) &&
            strcmp(at->labels, labels) == 0) {
            return at;
        }
    }
    if (!has_room(l, false)) {
        return NULL;
    }
    if (!format_topic(labels, g, topic)) {
        l->sums.is_cut = 1;
        return NULL;
    }
    return new_series(l, hash, labels, NULL, -1);
}

static struct series *partition_series(struct lag *l, const struct series *topic, int32_t partition)
{
    const uint64_t hash = hash_bytes(topic->hash, &partition, sizeof(partition));
    list_for_each (link, &l->buckets[hash % BUCKETS]) {
        struct series *at = container_of(link, struct series, link);
        if (at->topic == topic && at->partition == partition) {
            return at;
        }
    }
    if (!has_room(l, true)) {
        return NULL;
    }
    char labels[LABEL_SIZE];
    (void)snprintf(
        labels, sizeof(labels), "%s,partition=\"%" PRId32 "\"", topic->labels, partition);
    return new_series(l, hash, labels, topic, partition);
}

static struct series *see(struct series *x)
{
    if (x != NULL) {
        x->is_seen = true;
    }
    return x;
}

/* ---- what is to be looked at ---- */

static void set_topic(struct lag *l, struct slice topic)
{
    if (l->has_topic && slice_equal_string(topic, l->topic_name)) {
        return;
    }
    l->has_topic = true;
    l->topic_series = see(topic_series(l, l->g, topic));
    (void)snprintf(
        l->topic_name, sizeof(l->topic_name), "%.*s", (int)topic.size, (const char *)topic.data);
}

static bool add_line(void *context, const struct committed_offset *o)
{
    struct lag *l = context;
    if (l->lines_count == LAG_LINES_MAX || l->offsets_count == LAG_OFFSETS_MAX) {
        l->sums.is_cut = 1;
        return false;
    }
    l->offsets_count++;
    l->step_looks++;
    if (o->offset < 0) {
        return true;
    }
    set_topic(l, o->topic);
    if (l->topic_series != NULL) {
        l->lines[l->lines_count++] = (struct line){
            .topic = l->topic_series,
            .partition = see(partition_series(l, l->topic_series, o->partition)),
            .id = {.topic_id = o->topic_id, .partition = o->partition},
            .offset = o->offset,
        };
    }
    return true;
}

static void count_state(struct totals *t, const struct group *g)
{
    const char *name = g->consumer != NULL  ? consumer_state_name(g)
                       : g->classic != NULL ? classic_state_name(g)
                                            : "Empty";
    for (int i = 0; i < STATE_COUNT; i++) {
        t->states[i] += strcmp(STATES[i].name, name) == 0 ? 1 : 0;
    }
}

static void add_group(struct lag *l, const struct group *g)
{
    l->g = g;
    l->has_topic = false;
    l->sums.offsets += offsets_count(g);
    count_state(&l->sums, g);
    offsets_for_each(g, add_line, l);
}

static void add_bucket(struct lag *l, const struct coordinator *c)
{
    list_for_each (link, &c->groups.buckets[l->bucket]) {
        const struct group *g = group_at(link);
        l->step_looks++;
        if (group_exists(g)) {
            add_group(l, g);
        }
    }
    l->bucket++;
}

static void begin_gathering(struct lag *l)
{
    l->sums = (struct totals){0};
    l->lines_count = 0;
    l->offsets_count = 0;
    l->looks_count = 0;
    l->reads_count = 0;
    l->next = 0;
    l->partition = 0;
    l->bucket = 0;
}

/* Goes on where the last step was. False: all groups were looked at. */
static bool gather_more(struct lag *l)
{
    const int32_t count = l->o.partitions_count(l->o.context);
    for (l->step_looks = 0; l->step_looks < STEP_LOOKS_MAX && l->partition < count;) {
        const struct coordinator *c = l->o.coordinator_at(l->o.context, l->partition);
        if (c == NULL || l->bucket >= c->groups.buckets_count) {
            l->partition++;
            l->bucket = 0;
            continue;
        }
        if (l->bucket == 0) {
            l->buckets_count = c->groups.buckets_count;
        } else if (l->buckets_count != c->groups.buckets_count) {
            begin_gathering(l); /* It grew: groups are elsewhere. */
            return true;
        }
        add_bucket(l, c);
    }
    l->looks_count += l->step_looks;
    return l->partition < count;
}

/* ---- one line ---- */

static void probe_next(struct probe *p);

static struct time_entry *time_of(struct lag *l, const struct probe *p)
{
    const uint64_t seed = hash_bytes(l->o.s->hash_seed, &p->from, sizeof(p->from));
    const uint64_t key = partition_id_hash(seed, &p->line->id) | 1;
    struct time_entry *e = &l->times[key / 2 % TIMES];
    if (e->key != key) {
        *e = (struct time_entry){.key = key, .ms = NOT_KNOWN};
    }
    return e;
}

static void add_to_sum(struct figure *f, int64_t number)
{
    f->is_unknown |= number < 0;
    f->sum += number < 0 ? 0 : (uint64_t)number;
}

static void add_to_largest(struct figure *f, int64_t number)
{
    f->is_unknown |= number < 0;
    f->sum = number > 0 && (uint64_t)number > f->sum ? (uint64_t)number : f->sum;
}

static void end_line(struct probe *p, int64_t records, int64_t seconds)
{
    struct line *line = p->line;
    struct series *const all[] = {line->topic, line->partition};
    for (size_t i = 0; i < 2; i++) {
        if (all[i] != NULL) {
            add_to_sum(&all[i]->records, records);
            add_to_largest(&all[i]->seconds, seconds);
        }
    }
    p->l->sums.unknown_count += records < 0 || seconds < 0;
    p->line = NULL;
    probe_next(p);
}

static void end_line_at(struct probe *p, int64_t record_ms)
{
    const int64_t age_ms = p->l->o.s->wall_ms - record_ms;
    end_line(p, p->records, record_ms < 0 ? NOT_KNOWN : age_ms > 0 ? age_ms / 1000 : 0);
}

static void read_header(struct probe *p, int64_t offset);

static void on_read(struct partition_op *op)
{
    struct probe *p = op->context;
    const struct slice bytes = slice_of(p->header, op->result == ERR_OK ? op->out.fetch.size : 0);
    struct batch_header h;
    if (op->result == ERR_OK && bytes.size == 0) {
        end_line(p, p->records, 0); /* What was there was compacted away. */
        return;
    }
    if (batch_header_peek(bytes, &h) != ERR_OK) {
        end_line(p, p->records, NOT_KNOWN);
        return;
    }
    if (h.records_count == 0) {
        read_header(p, h.base_offset + h.last_offset_delta + 1); /* Compaction emptied it. */
        return;
    }
    const int64_t ms = batch_first_timestamp(&h);
    time_of(p->l, p)->ms = ms < 0 ? NO_TIME : ms;
    end_line_at(p, ms);
}

static void read_header(struct probe *p, int64_t offset)
{
    if (p->l->is_stopping) {
        end_line(p, p->records, NOT_KNOWN);
        return;
    }
    p->l->reads_count++;
    p->op = (struct partition_op){
        .kind = PARTITION_READ,
        .id = p->line->id,
        .current_leader_epoch = -1,
        .on_done = on_read,
        .context = p,
        .in.fetch = {.offset = offset,
                     .dst = p->header,
                     .dst_size = sizeof(p->header),
                     .is_header_enough = true},
    };
    cluster_partition_submit(p->l->o.cluster, &p->op);
}

static void on_offsets(struct partition_op *op)
{
    struct probe *p = op->context;
    const struct partition_offsets *o = &op->offsets;
    const int64_t committed = p->line->offset;
    if (op->result != ERR_OK || o->is_end_unknown) {
        end_line(p, NOT_KNOWN, NOT_KNOWN);
        return;
    }
    if (o->high_watermark <= committed) {
        end_line(p, 0, 0);
        return;
    }
    p->records = o->high_watermark - committed;
    p->from = committed < o->log_start_offset ? o->log_start_offset : committed;
    const int64_t ms = time_of(p->l, p)->ms;
    if (p->from == o->high_watermark) {
        end_line(p, p->records, 0); /* All of them are gone. */
    } else if (ms != NOT_KNOWN) {
        end_line_at(p, ms);
    } else {
        read_header(p, p->from);
    }
}

/* ---- passes ---- */

static uint64_t rest_us(const struct lag *l)
{
    const uint64_t cost_ns = (uint64_t)l->looks_count * LOOK_COST_NS +
                             (uint64_t)l->lines_count * LINE_COST_NS +
                             (uint64_t)l->reads_count * READ_COST_NS;
    const uint64_t rest = cost_ns * REST_FACTOR / 1000;
    return rest > PERIOD_US ? rest : PERIOD_US;
}

static void end_pass(struct lag *l)
{
    for (uint32_t i = 0; i < BUCKETS; i++) {
        list_for_each_safe (link, &l->buckets[i]) {
            struct series *x = container_of(link, struct series, link);
            if (!x->is_seen) {
                drop_series(l, x);
                continue;
            }
            show(l, &x->records);
            show(l, &x->seconds);
            x->is_seen = false;
        }
    }
    l->totals = l->sums;
    if (!l->is_stopping) {
        shard_timer_arm(l->o.s, &l->timer, rest_us(l));
    }
}

static void probe_next(struct probe *p)
{
    struct lag *l = p->l;
    if (l->next == l->lines_count || l->is_stopping) {
        l->working--;
        if (l->working == 0) {
            end_pass(l);
        }
        return;
    }
    if (l->turn_lines == TURN_LINES_MAX) { /* What is here is answered in this turn. */
        p->is_waiting = true;
        shard_post(l->o.s, &l->task);
        return;
    }
    l->turn_lines++;
    p->line = &l->lines[l->next++];
    p->op = (struct partition_op){
        .kind = PARTITION_OFFSETS,
        .id = p->line->id,
        .current_leader_epoch = -1,
        .on_done = on_offsets,
        .context = p,
    };
    cluster_partition_submit(l->o.cluster, &p->op);
}

static void on_task(struct task *task)
{
    struct lag *l = container_of(task, struct lag, task);
    l->turn_lines = 0;
    for (uint32_t i = 0; i < IN_FLIGHT_MAX; i++) {
        struct probe *p = &l->probes[i];
        if (p->is_waiting) {
            p->is_waiting = false;
            probe_next(p);
        }
    }
}

static void on_timer(struct timer *timer)
{
    struct lag *l = container_of(timer, struct lag, timer);
    if (!l->is_gathering) {
        l->is_gathering = true;
        begin_gathering(l);
    }
    if (gather_more(l)) {
        shard_timer_arm(l->o.s, &l->timer, 1); /* The next turn. */
        return;
    }
    l->is_gathering = false;
    l->working = IN_FLIGHT_MAX;
    l->turn_lines = 0;
    for (uint32_t i = 0; i < IN_FLIGHT_MAX; i++) {
        probe_next(&l->probes[i]);
    }
}

/* ---- life ---- */

static void add_fixed(struct lag *l, const struct stat *st)
{
    assert_cmp(l->fixed_count, <, FIXED_STATS);
    struct stat *to = &l->fixed[l->fixed_count++];
    *to = *st;
    to->labels = to->labels == NULL ? "" : to->labels;
    stats_add(&l->o.s->stats, to);
}

static void add_fixed_stats(struct lag *l)
{
    const struct totals *t = &l->totals;
    const struct stat all[] = {
        {.kind = STAT_GAUGE,
         .name = "coreflume_group_members",
         .help = "Members of groups.",
         .value = &l->o.memory->members_count},
        {.kind = STAT_GAUGE,
         .name = "coreflume_group_state_bytes",
         .help = "Memory that groups and their offsets take.",
         .value = &l->o.memory->size},
        {.kind = STAT_GAUGE,
         .name = "coreflume_group_state_bytes_max",
         .help = "Above that new state is refused.",
         .value = &l->o.memory->size_max},
        {.kind = STAT_GAUGE,
         .name = "coreflume_group_offsets",
         .help = "Committed offsets.",
         .value = &t->offsets},
        {.kind = STAT_GAUGE,
         .name = "coreflume_group_lag_is_cut",
         .help = "1 if some groups have no lag metrics: there are too many, or their name is "
                 "too long or not UTF-8.",
         .value = &t->is_cut},
        {.kind = STAT_GAUGE,
         .name = "coreflume_group_lag_unknown",
         .help = "Committed offsets whose lag is not known: metrics that would need it are absent.",
         .value = &t->unknown_count},
        {.kind = STAT_COUNTER,
         .name = "coreflume_group_commits_total",
         .help = "OffsetCommit requests that stored something.",
         .value = &l->o.counters->commits},
        {.kind = STAT_COUNTER,
         .name = "coreflume_group_rebalances_total",
         .help = "Generations and group epochs begun.",
         .value = &l->o.counters->rebalances},
        {.kind = STAT_COUNTER,
         .name = "coreflume_group_offsets_expired_total",
         .help = "Offsets removed by offsets.retention.minutes.",
         .value = &l->o.counters->offsets_expired},
        {.kind = STAT_COUNTER,
         .name = "coreflume_groups_expired_total",
         .help = "Groups removed with their last offsets.",
         .value = &l->o.counters->groups_expired},
        {.kind = STAT_COUNTER,
         .name = "coreflume_groups_deleted_total",
         .help = "Groups removed by DeleteGroups.",
         .value = &l->o.counters->groups_deleted},
        {.kind = STAT_COUNTER,
         .name = "coreflume_group_records_unknown_total",
         .help = "Records of __consumer_offsets that this version does not know.",
         .value = &l->o.counters->records_unknown},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        add_fixed(l, &all[i]);
    }
    for (int i = 0; i < STATE_COUNT; i++) {
        add_fixed(l,
                  &(struct stat){.kind = STAT_GAUGE,
                                 .name = "coreflume_groups",
                                 .labels = STATES[i].labels,
                                 .help = "Groups, by state.",
                                 .value = &t->states[i]});
    }
}

static bool allocate(struct lag *l)
{
    l->lines = calloc(LAG_LINES_MAX, sizeof(*l->lines));
    l->times = calloc(TIMES, sizeof(*l->times));
    for (uint32_t i = 0; i < IN_FLIGHT_MAX; i++) {
        l->probes[i] = (struct probe){.l = l};
    }
    return l->lines != NULL && l->times != NULL;
}

static void release(struct lag *l)
{
    free(l->lines);
    free(l->times);
    free(l);
}

enum err lag_new(const struct lag_options *o, struct lag **ret_lag)
{
    struct lag *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return ERR_BUSY;
    }
    l->o = *o;
    if (!allocate(l)) {
        release(l);
        return ERR_BUSY;
    }
    for (uint32_t i = 0; i < BUCKETS; i++) {
        list_init(&l->buckets[i]);
    }
    timer_init(&l->timer, on_timer);
    task_init(&l->task, "lag", on_task);
    shard_timer_arm(o->s, &l->timer, PERIOD_US);
    add_fixed_stats(l);
    *ret_lag = l;
    return ERR_OK;
}

void lag_quiesce(struct lag *l)
{
    l->is_stopping = true;
    timer_cancel(&l->o.s->timers, &l->timer);
}

void lag_free(struct lag *l)
{
    if (l == NULL) {
        return;
    }
    assert(l->is_stopping);
    assert_cmp(l->working, ==, 0);
    for (uint32_t i = 0; i < BUCKETS; i++) {
        list_for_each_safe (link, &l->buckets[i]) {
            drop_series(l, container_of(link, struct series, link));
        }
    }
    for (uint32_t i = 0; i < l->fixed_count; i++) {
        stats_remove(&l->fixed[i]);
    }
    release(l);
}

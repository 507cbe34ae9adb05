/* Gathering and writing the metrics page.
 *
 *   begin -> a message to each shard and back -> sort -> write in slices -> done
 */
#include "admin/metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/assert.h"
#include "core/shard.h"
#include "core/stats.h"
#include "core/wbuf.h"

enum {
    ARENA_SIZE_MAX = 32 << 20, /* Per shard. */
    PAGE_SIZE_MAX = 256 << 20,
    SLICE_SIZE = 16 << 10, /* Bytes of text per turn: about 150 us. */
};

/* A copy of one struct stat, with its value. */
struct sample {
    const char *name;
    const char *labels;
    const char *help;
    enum stat_kind kind;
    uint16_t shard;
    uint32_t order; /* In its shard's registry. */
    uint64_t value;
    const struct histogram *histogram;
};

/* The message to one shard. Written by it, then by home. */
struct part {
    struct xmsg msg;
    struct xmsg_hop route[2];
    struct job *job;
    struct arena arena;
    struct sample *samples;
    uint32_t samples_count;
    bool is_cut; /* The arena was full. */
};

struct job {
    struct shard *home;
    struct metrics_info info;
    void *context;
    metrics_done_fn *on_done;
    struct task task;
    uint16_t parts_missing;
    const struct sample **sorted;
    size_t sorted_count;
    size_t written_count;
    const char *name_before; /* Of the last sample written. */
    struct wbuf page;
    struct part parts[]; /* One per shard. */
};

/* --- on each shard ---------------------------------------------------------------------------- */

static bool copy_stat(struct part *p, struct sample *ret_sample, const struct stat *st)
{
    struct sample copy = {
        .name = arena_strndup(&p->arena, st->name, strlen(st->name)),
        .labels = arena_strndup(&p->arena, st->labels, strlen(st->labels)),
        .help = arena_strndup(&p->arena, st->help, strlen(st->help)),
        .kind = st->kind,
    };
    if (copy.name == NULL || copy.labels == NULL || copy.help == NULL) {
        return false;
    }
    if (st->kind == STAT_HISTOGRAM) {
        struct histogram *h = arena_alloc(&p->arena, sizeof(*h));
        if (h == NULL) {
            return false;
        }
        *h = *(const struct histogram *)st->value;
        copy.histogram = h;
    } else {
        copy.value = *(const uint64_t *)st->value;
    }
    *ret_sample = copy;
    return true;
}

/* Runs on the shard that is asked. */
static void collect(struct shard *here, struct xmsg *m)
{
    struct part *p = container_of(m, struct part, msg);
    size_t count = 0;
    list_for_each (node, &here->stats.all) {
        count++;
    }
    p->samples = arena_alloc_array(&p->arena, count, sizeof(*p->samples));
    p->is_cut = p->samples == NULL;
    list_for_each (node, &here->stats.all) {
        if (p->is_cut) {
            break;
        }
        struct sample *s = &p->samples[p->samples_count];
        p->is_cut = !copy_stat(p, s, container_of(node, struct stat, link));
        if (!p->is_cut) {
            s->shard = here->id;
            s->order = p->samples_count++;
        }
    }
    xmsg_forward(here, m);
}

/* --- back home: the text ---------------------------------------------------------------------- */

static void put_text(struct wbuf *w, const char *text)
{
    wbuf_bytes(w, text, strlen(text));
}

[[gnu::format(printf, 2, 3)]] static void put_format(struct wbuf *w, const char *format, ...)
{
    char text[128];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert_cmp(size, >=, 0);
    assert_cmp(size, <, sizeof(text));
    wbuf_bytes(w, text, (size_t)size);
}

/* HELP takes any text but for these two. */
static void put_help(struct wbuf *w, const char *help)
{
    for (const char *at = help; *at != '\0'; at++) {
        if (*at == '\\') {
            put_text(w, "\\\\");
        } else if (*at == '\n') {
            put_text(w, "\\n");
        } else {
            wbuf_i8(w, *at);
        }
    }
}

/* Labels come formatted, with their values escaped; a line break that slipped through would break
 * the page for all others. */
static void put_labels(struct wbuf *w, const struct sample *s)
{
    static const char own[] = "shard=\"";
    bool has_shard = strncmp(s->labels, own, sizeof(own) - 1) == 0;
    if (!has_shard) {
        put_format(w, "shard=\"%u\"", (unsigned)s->shard);
        if (s->labels[0] != '\0') {
            put_text(w, ",");
        }
    }
    for (const char *at = s->labels; *at != '\0'; at++) {
        if (*at == '\n') {
            put_text(w, "\\n");
        } else {
            wbuf_i8(w, *at);
        }
    }
}

static const char *kind_name(enum stat_kind kind)
{
    switch (kind) {
    case STAT_COUNTER:
        return "counter";
    case STAT_GAUGE:
        return "gauge";
    case STAT_HISTOGRAM:
        return "histogram";
    }
    return "untyped";
}

static void put_name(struct wbuf *w, const char *name, enum stat_kind kind, const char *help)
{
    put_text(w, "# HELP ");
    put_text(w, name);
    put_text(w, " ");
    put_help(w, help);
    put_text(w, "\n# TYPE ");
    put_text(w, name);
    put_text(w, " ");
    put_text(w, kind_name(kind));
    put_text(w, "\n");
}

/* Microseconds as seconds, exactly: a double would print 1e-06 or round. */
static void put_seconds(struct wbuf *w, uint64_t us)
{
    put_format(w, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
}

static void put_histogram(struct wbuf *w, const struct sample *s)
{
    const struct histogram *h = s->histogram;
    uint64_t below = 0;
    /* The last bucket also holds all that is larger: it is +Inf, the count. */
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        below += h->buckets[i];
        put_text(w, s->name);
        put_text(w, "_bucket{");
        put_labels(w, s);
        put_text(w, ",le=\"");
        if (i + 1 < HISTOGRAM_BUCKETS) {
            put_seconds(w, UINT64_C(1) << i);
        } else {
            put_text(w, "+Inf");
        }
        put_format(w, "\"} %" PRIu64 "\n", below);
    }
    put_text(w, s->name);
    put_text(w, "_sum{");
    put_labels(w, s);
    put_text(w, "} ");
    put_seconds(w, h->sum);
    put_text(w, "\n");
    put_text(w, s->name);
    put_text(w, "_count{");
    put_labels(w, s);
    put_format(w, "} %" PRIu64 "\n", below);
}

static void put_sample(struct wbuf *w, const struct sample *s)
{
    if (s->kind == STAT_HISTOGRAM) {
        put_histogram(w, s);
        return;
    }
    put_text(w, s->name);
    put_text(w, "{");
    put_labels(w, s);
    put_format(w, "} %" PRIu64 "\n", s->value);
}

static void put_process(struct job *j)
{
    struct wbuf *w = &j->page;
    bool is_cut = false;
    for (uint16_t i = 0; i < j->home->shards_count; i++) {
        is_cut |= j->parts[i].is_cut;
    }
    put_name(w, "coreflume_build_info", STAT_GAUGE, "The version that runs.");
    put_text(w, "coreflume_build_info{version=\"");
    put_text(w, j->info.version);
    put_text(w, "\"} 1\n");
    put_name(w, "process_start_time_seconds", STAT_GAUGE, "Start of the process, since 1970.");
    put_format(w,
               "process_start_time_seconds %" PRId64 ".%03" PRId64 "\n",
               j->info.start_wall_ms / 1000,
               j->info.start_wall_ms % 1000);
    put_name(w, "coreflume_metrics_cut", STAT_GAUGE, "1 if this page lacks metrics for size.");
    put_format(w, "coreflume_metrics_cut %d\n", is_cut ? 1 : 0);
}

/* --- back home: the job ----------------------------------------------------------------------- */

static void finish(struct job *j)
{
    uint8_t *page = NULL;
    size_t size = 0;
    bool is_whole = j->sorted != NULL && wbuf_failure(&j->page) == ERR_OK;
    if (is_whole) {
        page = wbuf_take(&j->page, &size);
    } else {
        wbuf_done(&j->page);
    }
    j->on_done(j->context, page, size);
    for (uint16_t i = 0; i < j->home->shards_count; i++) {
        arena_done(&j->parts[i].arena);
    }
    free(j->sorted);
    free(j);
}

static void write_slice(struct task *t)
{
    struct job *j = container_of(t, struct job, task);
    size_t end = j->page.size + SLICE_SIZE;
    bool is_failed = false;
    while (j->written_count < j->sorted_count && j->page.size < end && !is_failed) {
        const struct sample *s = j->sorted[j->written_count++];
        if (j->name_before == NULL || strcmp(j->name_before, s->name) != 0) {
            put_name(&j->page, s->name, s->kind, s->help);
            j->name_before = s->name;
        }
        put_sample(&j->page, s);
        is_failed = wbuf_failure(&j->page) != ERR_OK;
    }
    if (j->written_count < j->sorted_count && !is_failed) {
        shard_post(j->home, &j->task);
    } else {
        finish(j);
    }
}

static int compare(const void *left, const void *right)
{
    const struct sample *a = *(const struct sample *const *)left;
    const struct sample *b = *(const struct sample *const *)right;
    int by_name = strcmp(a->name, b->name);
    if (by_name != 0) {
        return by_name;
    }
    if (a->shard != b->shard) {
        return a->shard < b->shard ? -1 : 1;
    }
    return a->order < b->order ? -1 : 1;
}

static void sort_samples(struct job *j)
{
    size_t count = 0;
    for (uint16_t i = 0; i < j->home->shards_count; i++) {
        count += j->parts[i].samples_count;
    }
    j->sorted = malloc((count + 1) * sizeof(const struct sample *));
    if (j->sorted == NULL) {
        return;
    }
    for (uint16_t i = 0; i < j->home->shards_count; i++) {
        for (uint32_t k = 0; k < j->parts[i].samples_count; k++) {
            j->sorted[j->sorted_count++] = &j->parts[i].samples[k];
        }
    }
    qsort(j->sorted, j->sorted_count, sizeof(const struct sample *), compare);
}

static void collected(struct shard *here, struct xmsg *m)
{
    struct part *p = container_of(m, struct part, msg);
    struct job *j = p->job;
    assert(here == j->home);
    j->parts_missing--;
    if (j->parts_missing == 0) {
        sort_samples(j);
        put_process(j);
        shard_post(here, &j->task);
    }
}

void metrics_begin(struct shard *home,
                   const struct metrics_info *info,
                   void *context,
                   metrics_done_fn *on_done)
{
    uint16_t count = home->shards_count;
    struct job *j = calloc(1, sizeof(*j) + count * sizeof(j->parts[0]));
    if (j == NULL) {
        on_done(context, NULL, 0);
        return;
    }
    j->home = home;
    j->info = *info;
    j->context = context;
    j->on_done = on_done;
    j->parts_missing = count;
    task_init(&j->task, "metrics_page", write_slice);
    wbuf_init(&j->page, PAGE_SIZE_MAX);
    for (uint16_t i = 0; i < count; i++) {
        struct part *p = &j->parts[i];
        p->job = j;
        p->route[0] = (struct xmsg_hop){.shard = i, .run = collect};
        p->route[1] = (struct xmsg_hop){.shard = home->id, .run = collected};
        p->msg.next_hop = p->route;
        list_init(&p->msg.link);
        arena_init(&p->arena, ARENA_SIZE_MAX);
        xmsg_send(home, &p->msg);
    }
}

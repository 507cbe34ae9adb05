/* The metrics page of two shards that hold various stats. Both run in this thread, in turns. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/metrics.h"
#include "core/clock.h"
#include "core/disk_sim.h"
#include "core/io_sim.h"
#include "core/shard.h"

enum {
    SHARDS = 2,
    MEMORY_SIZE = 1 << 20,
};

struct rig {
    struct clock_sim clock;
    struct logger logger;
    struct disk_sim *disk;
    struct io_sim io[SHARDS];
    struct shard_group *group;
    struct shard shards[SHARDS];
    char *page;
    size_t page_size;
    uint32_t done_count;
};

static void drop_line(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)l;
    (void)level;
    (void)line;
    (void)size;
}

static int64_t wall_ms(struct logger *l)
{
    (void)l;
    return 0;
}

static void rig_init(struct rig *g)
{
    memset(g, 0, sizeof(*g));
    clock_init_sim(&g->clock, 1000, 1700000000000);
    g->logger = (struct logger){.sink = drop_line, .wall_ms = wall_ms};
    g->disk = disk_sim_new(&(struct disk_sim_options){.is_direct_capable = true});
    cr_assert(eq(int, shard_group_new(SHARDS, &g->group), ERR_OK));
    for (uint16_t i = 0; i < SHARDS; i++) {
        const struct io_sim_options io = {
            .disk = g->disk, .clock = &g->clock.clock, .rand_seed = i + 1u};
        io_sim_init(&g->io[i], &io);
        const struct shard_options o = {.backend = &g->io[i].backend,
                                        .clock = &g->clock.clock,
                                        .log = &g->logger,
                                        .rand_seed = 1,
                                        .memory_size = MEMORY_SIZE};
        cr_assert(eq(int, shard_init(&g->shards[i], g->group, i, &o), ERR_OK));
    }
}

static void rig_done(struct rig *g)
{
    for (uint16_t i = 0; i < SHARDS; i++) {
        shard_done(&g->shards[i]);
        io_sim_done(&g->io[i]);
    }
    shard_group_free(g->group);
    disk_sim_free(g->disk);
    free(g->page);
}

static void on_done(void *context, uint8_t *page, size_t size)
{
    struct rig *g = context;
    g->done_count++;
    free(g->page);
    g->page = NULL;
    if (page != NULL) {
        g->page = realloc(page, size + 1);
        g->page[size] = '\0';
    }
    g->page_size = size;
}

static const char *get_page(struct rig *g)
{
    const struct metrics_info info = {.version = "1.2.3", .start_wall_ms = 1700000000123};
    uint32_t before = g->done_count;
    metrics_begin(&g->shards[0], &info, g, on_done);
    cr_assert(eq(u32, g->done_count, before));
    for (int i = 0; i < 10000 && g->done_count == before; i++) {
        (void)shard_turn(&g->shards[0]);
        (void)shard_turn(&g->shards[1]);
    }
    cr_assert(eq(u32, g->done_count, before + 1));
    cr_assert(ne(ptr, g->page, NULL));
    return g->page;
}

static void add(struct shard *s, struct stat *st, enum stat_kind kind, const char *name)
{
    st->kind = kind;
    st->name = name;
    st->labels = st->labels == NULL ? "" : st->labels;
    st->help = "Help with \\ and\nline.";
    stats_add(&s->stats, st);
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        count++;
    }
    return count;
}

/* Lines of one name stand together, over all shards, behind one HELP and one TYPE. */
Test(metrics, groups_by_name)
{
    struct rig g;
    rig_init(&g);
    const uint64_t values[3] = {7, UINT64_MAX, 9};
    struct stat a = {.value = &values[0]};
    struct stat b = {.value = &values[1], .labels = "topic=\"t\",partition=\"0\""};
    struct stat c = {.value = &values[2], .labels = "shard=\"1\""};
    add(&g.shards[0], &a, STAT_COUNTER, "coreflume_test_total");
    add(&g.shards[0], &b, STAT_COUNTER, "coreflume_test_total");
    add(&g.shards[1], &c, STAT_COUNTER, "coreflume_test_total");
    const char *page = get_page(&g);
    cr_assert(ne(ptr,
                 strstr(page,
                        "# HELP coreflume_test_total Help with \\\\ and\\nline.\n"
                        "# TYPE coreflume_test_total counter\n"
                        "coreflume_test_total{shard=\"0\"} 7\n"
                        "coreflume_test_total{shard=\"0\",topic=\"t\",partition=\"0\"} "
                        "18446744073709551615\n"
                        "coreflume_test_total{shard=\"1\"} 9\n"),
                 NULL),
              "%s",
              page);
    cr_assert(eq(int, count_of(page, "# TYPE coreflume_test_total "), 1));
    cr_assert(ne(ptr, strstr(page, "coreflume_build_info{version=\"1.2.3\"} 1\n"), NULL));
    cr_assert(ne(ptr, strstr(page, "process_start_time_seconds 1700000000.123\n"), NULL));
    stats_remove(&a);
    stats_remove(&b);
    stats_remove(&c);
    rig_done(&g);
}

/* Buckets are cumulative and in seconds; the last is +Inf and equals the count. */
Test(metrics, histograms)
{
    struct rig g;
    rig_init(&g);
    struct histogram h = {0};
    histogram_record(&h, 0);
    histogram_record(&h, 1);
    histogram_record(&h, 3);
    histogram_record(&h, 1500000);
    histogram_record(&h, UINT64_C(1) << 40);
    struct stat st = {.value = &h, .labels = "api=\"x\""};
    add(&g.shards[1], &st, STAT_HISTOGRAM, "coreflume_test_seconds");
    const char *page = get_page(&g);
    static const char *const lines[] = {
        "# TYPE coreflume_test_seconds histogram\n",
        "coreflume_test_seconds_bucket{shard=\"1\",api=\"x\",le=\"0.000001\"} 1\n",
        "coreflume_test_seconds_bucket{shard=\"1\",api=\"x\",le=\"0.000002\"} 2\n",
        "coreflume_test_seconds_bucket{shard=\"1\",api=\"x\",le=\"0.000004\"} 3\n",
        "coreflume_test_seconds_bucket{shard=\"1\",api=\"x\",le=\"1.048576\"} 3\n",
        "coreflume_test_seconds_bucket{shard=\"1\",api=\"x\",le=\"2.097152\"} 4\n",
        "coreflume_test_seconds_bucket{shard=\"1\",api=\"x\",le=\"1073.741824\"} 4\n",
        "coreflume_test_seconds_bucket{shard=\"1\",api=\"x\",le=\"+Inf\"} 5\n",
        "coreflume_test_seconds_sum{shard=\"1\",api=\"x\"} 1099513.127780\n",
        "coreflume_test_seconds_count{shard=\"1\",api=\"x\"} 5\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        cr_assert(ne(ptr, strstr(page, lines[i]), NULL), "%s in %s", lines[i], page);
    }
    cr_assert(eq(int, count_of(page, "coreflume_test_seconds_bucket"), HISTOGRAM_BUCKETS));
    stats_remove(&st);
    rig_done(&g);
}

/* A large registry is written over many turns, whole. */
Test(metrics, many_samples_take_many_turns)
{
    enum { COUNT = 5000 };
    struct rig g;
    rig_init(&g);
    static struct stat stats[COUNT];
    static char labels[COUNT][32];
    const uint64_t value = 1;
    for (int i = 0; i < COUNT; i++) {
        sprintf(labels[i], "i=\"%d\"", i);
        stats[i] = (struct stat){.value = &value, .labels = labels[i]};
        add(&g.shards[i % 2], &stats[i], STAT_GAUGE, i % 3 == 0 ? "b" : "a");
    }
    const char *page = get_page(&g);
    cr_assert(eq(int, count_of(page, ",i=\""), COUNT));
    cr_assert(eq(int, count_of(page, "# TYPE a gauge\n"), 1));
    cr_assert(eq(int, count_of(page, "# TYPE b gauge\n"), 1));
    cr_assert(ne(ptr, strstr(page, "coreflume_metrics_cut 0\n"), NULL));
    cr_assert(lt(u64, g.page_size / (20 << 10), g.shards[0].counters.turns));
    for (int i = 0; i < COUNT; i++) {
        stats_remove(&stats[i]);
    }
    rig_done(&g);
}

/* The line discipline of the format: each line is a comment or `name{labels} value`, and each name
 * has been typed before. */
Test(metrics, every_line_is_well_formed)
{
    struct rig g;
    rig_init(&g);
    char page[64 << 10];
    strcpy(page, get_page(&g));
    char typed[128] = "";
    int samples = 0;
    for (char *save, *line = strtok_r(page, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            continue;
        }
        if (strncmp(line, "# TYPE ", 7) == 0) {
            sscanf(line + 7, "%127s", typed);
            continue;
        }
        size_t name_size = strcspn(line, "{ ");
        cr_assert(eq(int, strncmp(line, typed, name_size), 0), "%s", line);
        cr_assert(eq(sz, strlen(typed), name_size), "%s", line);
        const char *value = strrchr(line, ' ');
        cr_assert(eq(sz, strspn(value + 1, "0123456789."), strlen(value + 1)), "%s", line);
        samples++;
    }
    cr_assert(lt(int, 10, samples));
    rig_done(&g);
}

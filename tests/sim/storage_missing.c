/* A segment file that is not there: for one life it has another name, as if its disk had been
 * mounted wrongly. The log must not open without it, and goes on as if nothing had been when it is
 * back. */
#include <inttypes.h>
#include <stdio.h>

#include "core/assert.h"
#include "storage/segment_format.h"

#include "tests/sim/storage_mode.h"

enum {
    SEGMENTS_MAX = 64,
};

struct manifest {
    struct segment_name names[SEGMENTS_MAX];
    uint32_t count;
};

static void on_record(void *context, uint64_t sub, struct slice value)
{
    struct manifest *m = context;
    struct segment_record r;
    (void)sub;
    if (m->count < SEGMENTS_MAX && segment_record_decode(value, &r) == ERR_OK) {
        m->names[m->count++] =
            (struct segment_name){.base_index = r.base.index, .version = r.file_version};
    }
}

void missing_choose(struct storage_run *run)
{
    struct sim *sim = run->sim;
    struct missing *missing = &run->missing;
    struct part *p = &run->parts[rand_below(&sim->rand, run->parts_count)];
    if (missing->part != NULL && missing->part->is_file_missing) {
        return; /* First it comes back. */
    }
    missing->part = NULL;
    if (!sim_chance(sim, sim->swarm.missing_percent) || model_log_is_damaged(&p->model)) {
        return;
    }
    struct manifest manifest = {0};
    store_each(run->envs[p->shard].store, &p->id, STORE_SEGMENT, &manifest, on_record);
    if (manifest.count == 0) {
        return;
    }
    char topic[UUID_TEXT_SIZE];
    char name[SEGMENT_NAME_SIZE];
    uuid_format(&p->id.topic_id, topic);
    segment_name_format(&manifest.names[rand_below(&sim->rand, manifest.count)], ".log", name);
    (void)snprintf(missing->dir, sizeof(missing->dir), "/data/logs/%s-0", topic);
    (void)snprintf(missing->path, sizeof(missing->path), "%s/%s", missing->dir, name);
    (void)snprintf(missing->away, sizeof(missing->away), "%s/away", missing->dir);
    missing->part = p;
}

static void move(struct storage_run *run, const char *from, const char *to)
{
    struct disk_sim *d = run->sim->disk;
    const struct io_op ops[] = {
        {.kind = IO_RENAME, .path = from, .new_path = to},
        {.kind = IO_FSYNC_DIR, .path = run->missing.dir},
    };
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        const int64_t result = disk_sim_finish(disk_sim_start(d, &ops[i]), UINT64_MAX);
        sim_check(run->sim, result == 0, "a file cannot be moved: %" PRId64 " %s", result, from);
    }
}

void missing_take(struct storage_run *run)
{
    struct part *p = run->missing.part;
    if (p == NULL || p->model.is_wounded || p->model.rotten_count > 0) {
        return;
    }
    move(run, run->missing.path, run->missing.away);
    p->is_file_missing = true;
    sim_say(run->sim, "%s: goes without %s", p->name, run->missing.path);
}

void missing_give_back(struct storage_run *run)
{
    struct part *p = run->missing.part;
    if (p != NULL && p->is_file_missing) {
        move(run, run->missing.away, run->missing.path);
        p->is_file_missing = false;
        run->missing.part = NULL;
    }
}

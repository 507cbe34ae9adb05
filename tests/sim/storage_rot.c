#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

#include "tests/sim/storage_mode.h"

enum {
    HEAD_SKIP = ENTRY_HEAD_SIZE, /* Rewritten on append; what follows is mostly unique. */
};

struct search {
    struct storage_run *run;
    const char *dir; /* "/data/logs/<id>-0/" */
    const uint8_t *bytes;
    size_t size;
    uint32_t count; /* Of places: a file that was rewritten may not be gone yet, and markers of two
                       transactions may be alike. */
    char path[256];
    uint64_t pos; /* Of the needle. */
};

static void search_file(void *context, const char *path, uint64_t size)
{
    struct search *s = context;
    if (strncmp(path, s->dir, strlen(s->dir)) != 0 || size < s->size) {
        return;
    }
    uint8_t *content = malloc((size_t)size);
    assert(content != NULL);
    enum err e = disk_sim_peek(s->run->sim->disk, path, 0, content, (size_t)size);
    assert(e == ERR_OK);
    const uint8_t *found = memmem(content, (size_t)size, s->bytes, s->size);
    if (found != NULL) {
        const size_t rest = (size_t)size - (size_t)(found + 1 - content);
        s->count += memmem(found + 1, rest, s->bytes, s->size) == NULL ? 1 : 2;
        s->pos = (uint64_t)(found - content);
        (void)snprintf(s->path, sizeof(s->path), "%s", path);
    }
    free(content);
}

static void plant(struct storage_run *run, struct part *p, uint64_t index)
{
    struct sim *sim = run->sim;
    const struct model_entry *e = model_log_at(&p->model, index);
    /* What was compacted may stand as it was only in a file that nobody reads any more. */
    const bool is_rewritten = p->model.is_compacted && index <= p->model.settled_index;
    if (e->size <= HEAD_SKIP || e->next_offset <= p->model.start_offset || is_rewritten ||
        e->is_given_up) {
        return;
    }
    char topic[UUID_TEXT_SIZE];
    uuid_format(&p->id.topic_id, topic);
    char dir[128];
    (void)snprintf(dir, sizeof(dir), "/data/logs/%s-0/", topic);
    struct search s = {
        .run = run, .dir = dir, .bytes = e->bytes + HEAD_SKIP, .size = e->size - HEAD_SKIP};
    disk_sim_each_file(sim->disk, &s, search_file);
    sim_check(sim,
              s.count > 0,
              "%s: an acknowledged entry is not on the disk: index=%" PRIu64,
              p->name,
              index);
    if (s.count != 1) {
        return;
    }
    uint64_t start = s.pos - HEAD_SKIP - sizeof(struct entry_header);
    uint64_t pos = sim_between(sim, start, start + sizeof(struct entry_header) + e->size - 1);
    enum err result =
        disk_sim_flip_bit(sim->disk, s.path, pos, (uint32_t)rand_below(&sim->rand, 8));
    assert(result == ERR_OK);
    model_log_lose(&p->model, index, index + 1);
    sim_trace(sim, "rot", p->number, index);
    sim_say(sim, "%s: rot at index=%" PRIu64 " path=%s pos=%" PRIu64, p->name, index, s.path, pos);
}

void rot_plant(struct storage_run *run)
{
    struct sim *sim = run->sim;
    struct part *p = &run->parts[rand_below(&sim->rand, run->parts_count)];
    struct model_log *m = &p->model;
    bool is_quiet = m->flushed_index == m->last_index && m->cut_index == 0;
    if (m->flushed_index == 0 || model_log_is_damaged(m) || m->is_wounded || !is_quiet) {
        return;
    }
    /* The newest entries are the ones that could be taken for a torn write. */
    uint64_t depth = sim_log_between(sim, 0, m->flushed_index - 1);
    plant(run, p, m->flushed_index - depth);
}

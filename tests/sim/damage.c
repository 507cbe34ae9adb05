#include "tests/sim/damage.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "storage/segment_index.h"

enum {
    FILES_MAX = 64,
    PATH_SIZE = 256,
    SECTOR_SIZE = 512,
};

struct found {
    char paths[FILES_MAX][PATH_SIZE];
    uint64_t sizes[FILES_MAX];
    size_t count;
};

static void on_file(void *context, const char *path, uint64_t size)
{
    struct found *f = context;
    size_t length = strlen(path);
    bool is_index = length > 6 && strcmp(path + length - 6, ".index") == 0;
    if (is_index && size > 0 && f->count < FILES_MAX && length < PATH_SIZE) {
        memcpy(f->paths[f->count], path, length + 1);
        f->sizes[f->count++] = size;
    }
}

/* Makes a point of an index name a place where its entry is not, with a good checksum. False: there
 * is no such lie. What a point says of times is left alone: no entry could contradict it. */
static bool forge(struct sim *sim, uint8_t *bytes, size_t size)
{
    struct segment_index_header h;
    struct segment_points points = {0};
    if (segment_index_decode(slice_of(bytes, size), &h, &points) != ERR_OK || points.count == 0) {
        segment_points_done(&points);
        return false;
    }
    struct segment_point *p = &points.all[rand_below(&sim->rand, points.count)];
    switch (rand_below(&sim->rand, 3)) {
    case 0:
        p->pos += 8 * sim_between(sim, 1, 16);
        break;
    case 1:
        p->index += 1;
        break;
    default:
        p->offset += 1;
        break;
    }
    segment_index_encode(&h, &points, bytes);
    segment_points_done(&points);
    bool is_sound = segment_index_decode(slice_of(bytes, size), &h, &points) == ERR_OK;
    segment_points_done(&points);
    return is_sound;
}

static void spoil(struct sim *sim, const struct found *f)
{
    size_t victim = (size_t)rand_below(&sim->rand, f->count);
    size_t other = (size_t)rand_below(&sim->rand, f->count);
    uint64_t size = f->sizes[victim] < f->sizes[other] ? f->sizes[victim] : f->sizes[other];
    uint8_t *bytes = calloc(1, (size_t)f->sizes[victim]);
    assert(bytes != NULL);
    enum err e = ERR_OK;
    switch (rand_below(&sim->rand, 4)) {
    case 0: /* In the first block, where there is more than padding. */
        e = disk_sim_flip_bit(sim->disk,
                              f->paths[victim],
                              rand_below(&sim->rand, size < 400 ? size : 400),
                              (uint32_t)rand_below(&sim->rand, 8));
        break;
    case 1:
        rand_bytes(&sim->rand, bytes, SECTOR_SIZE);
        e = disk_sim_damage(sim->disk, f->paths[victim], 0, bytes, SECTOR_SIZE);
        break;
    case 2:
        e = disk_sim_peek(sim->disk, f->paths[victim], 0, bytes, (size_t)f->sizes[victim]);
        if (e == ERR_OK && forge(sim, bytes, (size_t)f->sizes[victim])) {
            e = disk_sim_damage(sim->disk, f->paths[victim], 0, bytes, (size_t)f->sizes[victim]);
            sim_mark(sim, "sim_index_forged");
        }
        break;
    default:
        e = disk_sim_peek(sim->disk, f->paths[other], 0, bytes, (size_t)size);
        assert(e == ERR_OK);
        e = disk_sim_damage(sim->disk, f->paths[victim], 0, bytes, (size_t)size);
        break;
    }
    assert(e == ERR_OK);
    free(bytes);
    sim_say(sim, "spoiled %s", f->paths[victim]);
    sim_mark(sim, "sim_index_spoiled");
}

void damage_index_file(struct sim *sim)
{
    if (!sim_chance(sim, sim->swarm.index_rot_percent)) {
        return;
    }
    struct found *f = calloc(1, sizeof(*f));
    assert(f != NULL);
    disk_sim_each_file(sim->disk, f, on_file);
    if (f->count > 0) {
        spoil(sim, f);
    }
    free(f);
}

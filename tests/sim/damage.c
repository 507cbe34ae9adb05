#include "tests/sim/damage.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "storage/segment_index.h"
#include "storage/store.h"
#include "storage/store_format.h"

enum {
    FILES_MAX = 64,
    PATH_SIZE = 256,
    SECTOR_SIZE = 512,
};

struct found {
    const char *suffix;
    char paths[FILES_MAX][PATH_SIZE];
    uint64_t sizes[FILES_MAX];
    size_t count;
};

static void on_file(void *context, const char *path, uint64_t size)
{
    struct found *f = context;
    size_t length = strlen(path);
    size_t suffix_size = strlen(f->suffix);
    bool is_one = length > suffix_size && strcmp(path + length - suffix_size, f->suffix) == 0;
    if (is_one && size > 0 && f->count < FILES_MAX && length < PATH_SIZE) {
        memcpy(f->paths[f->count], path, length + 1);
        f->sizes[f->count++] = size;
    }
}

/* The files whose names end so. */
static struct found *find_files(struct sim *sim, const char *suffix)
{
    struct found *f = calloc(1, sizeof(*f));
    assert(f != NULL);
    f->suffix = suffix;
    disk_sim_each_file(sim->disk, f, on_file);
    return f;
}

/* Makes a point of an index name a place where its entry is not, or a time that its stretch does
 * not reach, with a good checksum. False: there is no such lie. Times are never made earlier:
 * nothing would lead a search to where it could find that out. */
static bool forge(struct sim *sim, uint8_t *bytes, size_t size)
{
    struct segment_index_header h;
    struct segment_points points = {0};
    if (segment_index_decode(slice_of(bytes, size), &h, &points) != ERR_OK || points.count == 0) {
        segment_points_done(&points);
        return false;
    }
    struct segment_point *p = &points.all[rand_below(&sim->rand, points.count)];
    switch (rand_below(&sim->rand, 5)) {
    case 0:
        p->pos += 8 * sim_between(sim, 1, 16);
        break;
    case 1:
        p->index += 1;
        break;
    case 2:
    case 3:
        p->max_timestamp = h.max_timestamp;
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

/* Flips a bit of what a point of an index says of times: nothing but the checksum can tell. False:
 * there is no point. */
static bool rot_time(struct sim *sim, uint8_t *bytes, size_t size)
{
    enum { BITS = 42 }; /* Of the times of a run. */
    struct segment_index_header h;
    struct segment_points points = {0};
    if (segment_index_decode(slice_of(bytes, size), &h, &points) != ERR_OK || points.count == 0) {
        segment_points_done(&points);
        return false;
    }
    const uint64_t bit = rand_below(&sim->rand, BITS);
    uint8_t *point = bytes + sizeof(h) + rand_below(&sim->rand, points.count) * sizeof(*points.all);
    point[offsetof(struct segment_point, max_timestamp) + bit / 8] ^= (uint8_t)(1 << bit % 8);
    segment_points_done(&points);
    return true;
}

static void spoil(struct sim *sim, const struct found *f)
{
    size_t victim = (size_t)rand_below(&sim->rand, f->count);
    size_t other = (size_t)rand_below(&sim->rand, f->count);
    uint64_t size = f->sizes[victim] < f->sizes[other] ? f->sizes[victim] : f->sizes[other];
    uint8_t *bytes = calloc(1, (size_t)f->sizes[victim]);
    assert(bytes != NULL);
    enum err e = ERR_OK;
    const uint64_t how = rand_below(&sim->rand, 5);
    switch (how) {
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
    case 3:
        e = disk_sim_peek(sim->disk, f->paths[victim], 0, bytes, (size_t)f->sizes[victim]);
        if (e == ERR_OK && (how == 2 ? forge : rot_time)(sim, bytes, (size_t)f->sizes[victim])) {
            e = disk_sim_damage(sim->disk, f->paths[victim], 0, bytes, (size_t)f->sizes[victim]);
            sim_mark(sim, how == 2 ? "sim_index_forged" : "sim_index_time_rotten");
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
}

void damage_derived_file(struct sim *sim)
{
    if (!sim_chance(sim, sim->swarm.index_rot_percent)) {
        return;
    }
    bool is_checkpoint = sim->swarm.checkpoint_size > 0 && rand_one_in(&sim->rand, 2);
    struct found *f = find_files(sim, is_checkpoint ? ".checkpoint" : ".index");
    if (f->count > 0) {
        spoil(sim, f);
        sim_mark(sim, is_checkpoint ? "sim_checkpoint_spoiled" : "sim_index_spoiled");
    }
    free(f);
}

/* True if the block is one of a store, as store_blocks_encode makes it; that again with what
 * content says now. */
static bool reencode(const uint8_t *block, struct slice content, uint8_t *ret_block)
{
    struct store_block_header h;
    memcpy(&h, block, sizeof(h));
    if (h.payload_size > STORE_BLOCK_PAYLOAD_SIZE) {
        return false;
    }
    const struct store_stamp stamp = {.salt = h.salt,
                                      .epoch = h.epoch,
                                      .index = h.index,
                                      .snapshot_blocks = h.snapshot_blocks,
                                      .durable_blocks = h.durable_blocks};
    (void)store_blocks_encode(&stamp, slice_of(block + sizeof(h), h.payload_size), ret_block);
    if (memcmp(block, ret_block, STORE_BLOCK_SIZE) != 0) {
        return false;
    }
    (void)store_blocks_encode(&stamp, slice_of(content.data, h.payload_size), ret_block);
    return true;
}

/* Makes the votes of group 0 in a block something that nobody asks for. True if there were any. */
static bool forget_votes(uint8_t *payload)
{
    bool is_found = false;
    for (size_t i = 0; i + sizeof(struct store_record_header) <= STORE_BLOCK_PAYLOAD_SIZE; i++) {
        struct store_record_header h;
        memcpy(&h, payload + i, sizeof(h));
        bool is_vote = h.op == STORE_RECORD_PUT && h.kind == STORE_VOTE && h.partition == 0 &&
                       memcmp(h.topic_id, CONTROLLER_TOPIC_ID.bytes, sizeof(h.topic_id)) == 0;
        if (is_vote) {
            h.kind = UINT32_MAX;
            memcpy(payload + i, &h, sizeof(h));
            is_found = true;
        }
    }
    return is_found;
}

static void forget_votes_in(struct sim *sim, const char *path, uint64_t pos)
{
    uint8_t old[STORE_BLOCK_SIZE];
    uint8_t new[STORE_BLOCK_SIZE];
    enum err e = disk_sim_peek(sim->disk, path, pos, old, sizeof(old));
    assert(e == ERR_OK);
    memcpy(new, old, sizeof(old));
    if (!forget_votes(new + sizeof(struct store_block_header))) {
        return;
    }
    uint8_t encoded[STORE_BLOCK_SIZE];
    struct slice content = slice_of(new + sizeof(struct store_block_header), 0);
    if (reencode(old, content, encoded)) {
        e = disk_sim_damage(sim->disk, path, pos, encoded, sizeof(encoded));
        assert(e == ERR_OK);
        sim_say(sim, "vote forgotten: %s pos=%llu", path, (unsigned long long)pos);
    }
}

void damage_vote(struct sim *sim)
{
    if (!sim_chance(sim, sim->swarm.vote_loss_percent)) {
        return;
    }
    struct found *f = find_files(sim, ".store");
    for (size_t i = 0; i < f->count; i++) {
        for (uint64_t pos = STORE_BLOCK_SIZE; pos < f->sizes[i]; pos += STORE_BLOCK_SIZE) {
            forget_votes_in(sim, f->paths[i], pos);
        }
    }
    free(f);
}

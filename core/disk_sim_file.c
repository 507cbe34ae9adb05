/* Contents of simulated files: blocks, their unsynced versions, and what a power loss leaves. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/disk_sim_priv.h"

static bool is_zero(const uint8_t *data)
{
    return data[0] == 0 && memcmp(data, data + 1, BLOCK_SIZE - 1) == 0;
}

struct content *content_new(struct disk_sim *d)
{
    struct content *c = disk_sim_alloc(sizeof(*c));
    c->disk = d;
    list_init(&c->unsynced);
    return c;
}

static void version_free(struct version *v)
{
    list_remove(&v->content_link);
    list_remove(&v->disk_link);
    disk_sim_block_free(v->content->disk, v->data);
    free(v);
}

static void versions_free(struct version *newest)
{
    while (newest != NULL) {
        struct version *older = newest->older;
        version_free(newest);
        newest = older;
    }
}

static void ghost_free(struct disk_sim *d, struct ghost *g)
{
    for (size_t i = 0; i < g->blocks_count; i++) {
        disk_sim_block_free(d, g->blocks[i]);
    }
    free(g->blocks);
    *g = (struct ghost){0};
}

void ghosts_free(struct disk_sim *d)
{
    for (size_t i = 0; i < GHOSTS_MAX; i++) {
        ghost_free(d, &d->ghosts[i]);
    }
}

/* Takes the durable blocks of a file that goes. */
static void ghost_add(struct content *c)
{
    struct disk_sim *d = c->disk;
    struct ghost *g = &d->ghosts[d->ghosts_next];
    d->ghosts_next = (d->ghosts_next + 1) % GHOSTS_MAX;
    ghost_free(d, g);
    g->blocks = disk_sim_alloc(c->blocks_count * sizeof(*g->blocks));
    g->blocks_count = c->blocks_count;
    for (size_t i = 0; i < c->blocks_count; i++) {
        g->blocks[i] = c->blocks[i].durable;
        c->blocks[i].durable = NULL;
    }
}

void content_free(struct content *c)
{
    if (c == NULL) {
        return;
    }
    assert(c->in_flight_count == 0);
    if (c->durable_size > 0) {
        ghost_add(c);
    }
    for (size_t i = 0; i < c->blocks_count; i++) {
        versions_free(c->blocks[i].newest);
        disk_sim_block_free(c->disk, c->blocks[i].durable);
        disk_sim_block_free(c->disk, c->blocks[i].ancient);
    }
    assert(list_is_empty(&c->unsynced));
    free(c->blocks);
    free(c);
}

void content_reserve(struct content *c, uint64_t pos, uint64_t size)
{
    size_t count = (size_t)((pos + size + BLOCK_SIZE - 1) / BLOCK_SIZE);
    if (count > c->blocks_capacity) {
        size_t capacity = count < 16 ? 16 : count * 2;
        c->blocks = disk_sim_grow(c->blocks, c->blocks_capacity, capacity, sizeof(struct block));
        c->blocks_capacity = capacity;
    }
    if (count > c->blocks_count) {
        c->blocks_count = count;
    }
}

static const uint8_t *block_current(const struct block *b)
{
    return b->newest != NULL ? b->newest->data : b->durable;
}

/* False if the disk is full. */
static bool block_allocate(struct content *c, struct block *b, uint64_t sequence)
{
    if (b->allocated != 0) {
        return true;
    }
    if (!volume_has_room(c->volume)) {
        return false;
    }
    b->allocated = sequence;
    c->volume->allocated_count++;
    c->allocated_count++;
    return true;
}

static void version_push(struct content *c, uint64_t block, const struct version *content)
{
    struct version *v = disk_sim_alloc(sizeof(*v));
    *v = *content;
    v->content = c;
    v->block = block;
    v->older = c->blocks[block].newest;
    c->blocks[block].newest = v;
    list_push_back(&c->unsynced, &v->content_link);
    list_push_back(&c->disk->unsynced, &v->disk_link);
}

/* Bytes [from, to) of the file, as far as the mask lets them through, into a block that starts at
 * block_pos. Returns the position behind the last byte that did, or 0. */
static uint64_t copy_masked(const struct write_what *w, uint64_t from, uint64_t to, uint8_t *data)
{
    uint64_t end = 0;
    uint64_t first_sector = w->pos / IO_TORN_SIZE;
    while (from < to) {
        uint64_t sector = from / IO_TORN_SIZE;
        uint64_t next = (sector + 1) * IO_TORN_SIZE;
        if (next > to) {
            next = to;
        }
        if (w->mask == NULL || w->mask[sector - first_sector] != 0) {
            memcpy(data + from % BLOCK_SIZE, w->bytes + (from - w->pos), (size_t)(next - from));
            end = next;
        }
        from = next;
    }
    return end;
}

int64_t content_write(struct content *c, const struct write_what *w)
{
    struct disk_sim *d = c->disk;
    content_reserve(c, w->pos, w->size);
    uint64_t sequence = ++d->sequence;
    uint64_t from = w->pos;
    uint64_t end = w->pos + w->size;

    while (from < end) {
        uint64_t number = from / BLOCK_SIZE;
        uint64_t to = (number + 1) * BLOCK_SIZE < end ? (number + 1) * BLOCK_SIZE : end;
        struct block *b = &c->blocks[number];
        uint8_t *data = disk_sim_block_alloc(d);
        if (block_current(b) != NULL) {
            memcpy(data, block_current(b), BLOCK_SIZE);
        } else {
            memset(data, 0, BLOCK_SIZE);
        }
        uint64_t written_end = copy_masked(w, from, to, data);
        if (written_end != 0 && !block_allocate(c, b, sequence)) {
            disk_sim_block_free(d, data);
            break;
        }
        if (written_end == 0 || is_zero(data)) {
            disk_sim_block_free(d, data);
            data = NULL;
        }
        if (written_end != 0) {
            version_push(
                c,
                number,
                &(struct version){.sequence = sequence, .is_direct = w->is_direct, .data = data});
            c->size = written_end > c->size ? written_end : c->size;
        }
        from = to;
    }
    return from == w->pos ? -ENOSPC : (int64_t)(from - w->pos);
}

void content_read(const struct content *c, uint64_t pos, uint8_t *dst, size_t size)
{
    assert(pos + size <= c->size);
    while (size > 0) {
        uint64_t number = pos / BLOCK_SIZE;
        size_t in_block = (size_t)(pos % BLOCK_SIZE);
        size_t n = BLOCK_SIZE - in_block < size ? BLOCK_SIZE - in_block : size;
        const uint8_t *data = number < c->blocks_count ? block_current(&c->blocks[number]) : NULL;
        if (data != NULL) {
            memcpy(dst, data + in_block, n);
        } else {
            memset(dst, 0, n);
        }
        pos += n;
        dst += n;
        size -= n;
    }
}

/* Gives a block new durable content and remembers the old one. */
static void block_set_durable(struct content *c, struct block *b, uint8_t *data)
{
    if (b->durable != NULL) {
        disk_sim_block_free(c->disk, b->ancient);
        b->ancient = b->durable;
    }
    b->durable = data;
}

/* v and what it replaced are history: its data is the durable one now. */
static void version_settle(struct version *v)
{
    struct block *b = &v->content->blocks[v->block];
    struct version **place = &b->newest;
    while (*place != v) {
        place = &(*place)->older;
    }
    *place = NULL;
    block_set_durable(v->content, b, v->data);
    v->data = NULL;
    versions_free(v);
}

void content_sync(struct content *c, uint64_t sequence, uint64_t size)
{
    /* Settling frees v and older versions only, so the successor stays valid. */
    list_for_each_safe (node, &c->unsynced) {
        struct version *v = container_of(node, struct version, content_link);
        if (v->sequence > sequence) {
            break;
        }
        if (!v->is_abandoned) {
            c->blocks[v->block].is_extent_durable = true;
            version_settle(v);
        }
    }
    if (size > c->durable_size) {
        c->durable_size = size;
    }
}

void content_abandon(struct content *c, uint64_t sequence)
{
    list_for_each (node, &c->unsynced) {
        struct version *v = container_of(node, struct version, content_link);
        if (v->sequence <= sequence) {
            v->is_abandoned = true;
        }
    }
}

void disk_sim_flush_device(struct disk_sim *d, const struct volume *v_flushed, uint64_t sequence)
{
    list_for_each_safe (node, &d->unsynced) {
        struct version *v = container_of(node, struct version, disk_link);
        if (v->sequence > sequence) {
            break;
        }
        bool is_extent_durable = v->content->blocks[v->block].is_extent_durable;
        const bool is_here = v->content->volume == v_flushed;
        if (is_here && v->is_direct && !v->is_abandoned && is_extent_durable) {
            version_settle(v);
        }
    }
}

/* What the medium has in a sector, or in a whole block. */
struct fate {
    bool is_noise;
    const uint8_t *block; /* Else it comes from here; NULL = zeros. */
};

static struct fate
draw_mangled(const struct disk_sim *d, const struct block *b, uint64_t number, struct rand *r)
{
    const struct ghost *g = &d->ghosts[rand_below(r, GHOSTS_MAX)];
    switch (rand_below(r, 4)) {
    case 0:
        return (struct fate){.is_noise = true};
    case 1:
        return (struct fate){.block = b->ancient};
    case 2:
        return (struct fate){.block = number < g->blocks_count ? g->blocks[number] : NULL};
    default:
        return (struct fate){.block = NULL};
    }
}

static struct fate draw_fate(const struct content *c,
                             uint64_t number,
                             struct rand *r,
                             const struct disk_sim_crash *how)
{
    const struct block *b = &c->blocks[number];
    if (!disk_sim_chance(r, how->keep_sector)) {
        if (disk_sim_chance(r, how->mangle_sector)) {
            return draw_mangled(c->disk, b, number, r);
        }
        return (struct fate){.block = b->durable};
    }
    const struct version *v = b->newest;
    /* An earlier write of the same block may be what reached the medium last. */
    while (v->older != NULL && rand_one_in(r, 4)) {
        v = v->older;
    }
    return (struct fate){.block = v->data};
}

static void write_fate(const struct fate *fate, size_t in_block, struct rand *r, uint8_t *sector)
{
    if (fate->is_noise) {
        rand_bytes(r, sector, IO_TORN_SIZE);
    } else if (fate->block != NULL) {
        memcpy(sector, fate->block + in_block, IO_TORN_SIZE);
    } else {
        memset(sector, 0, IO_TORN_SIZE);
    }
}

static void block_become_hole(struct content *c, struct block *b)
{
    versions_free(b->newest);
    b->newest = NULL;
    block_set_durable(c, b, NULL);
    b->is_extent_durable = false;
    if (b->allocated != 0) {
        b->allocated = 0;
        c->allocated_count--;
        c->volume->allocated_count--;
    }
}

static void block_lose_power(struct content *c,
                             uint64_t number,
                             struct rand *r,
                             const struct disk_sim_crash *how)
{
    struct block *b = &c->blocks[number];
    assert(b->newest != NULL);
    if (!b->is_extent_durable && !disk_sim_chance(r, how->keep_extent)) {
        block_become_hole(c, b);
        return;
    }
    uint8_t *data = disk_sim_block_alloc(c->disk);
    bool is_whole = rand_one_in(r, 3);
    struct fate fate = draw_fate(c, number, r, how);
    for (size_t i = 0; i < BLOCK_SIZE; i += IO_TORN_SIZE) {
        if (!is_whole) {
            fate = draw_fate(c, number, r, how);
        }
        write_fate(&fate, i, r, data + i);
    }
    versions_free(b->newest);
    b->newest = NULL;
    if (is_zero(data)) {
        disk_sim_block_free(c->disk, data);
        data = NULL;
    }
    block_set_durable(c, b, data);
    b->is_extent_durable = true;
}

static uint64_t draw_size(const struct content *c, struct rand *r, const struct disk_sim_crash *how)
{
    assert(c->durable_size <= c->size);
    if (c->size == c->durable_size || disk_sim_chance(r, how->keep_extent)) {
        return c->size;
    }
    if (how->keep_extent == 0 || rand_one_in(r, 2)) {
        return c->durable_size;
    }
    /* Between the two, at the grain of blocks: several writes grew the file. */
    uint64_t size = c->durable_size + rand_below(r, c->size - c->durable_size);
    size -= size % BLOCK_SIZE;
    return size > c->durable_size ? size : c->durable_size;
}

void content_lose_power(struct content *c, struct rand *r, const struct disk_sim_crash *how)
{
    assert(c->in_flight_count == 0);
    uint64_t size = draw_size(c, r, how);
    while (!list_is_empty(&c->unsynced)) {
        struct version *v = container_of(c->unsynced.next, struct version, content_link);
        block_lose_power(c, v->block, r, how);
    }
    size_t count = (size_t)((size + BLOCK_SIZE - 1) / BLOCK_SIZE);
    for (size_t i = count; i < c->blocks_count; i++) {
        block_become_hole(c, &c->blocks[i]);
    }
    size_t in_block = (size_t)(size % BLOCK_SIZE);
    if (in_block != 0 && count <= c->blocks_count && c->blocks[count - 1].durable != NULL) {
        memset(c->blocks[count - 1].durable + in_block, 0, BLOCK_SIZE - in_block);
    }
    c->size = size;
    c->durable_size = size;
}

void node_truncate(struct disk_sim *d, struct node *n)
{
    assert(n->now->in_flight_count == 0);
    n->volume->allocated_count -= n->now->allocated_count;
    if (n->before == NULL) {
        n->before = n->now;
    } else {
        content_free(n->now); /* Two truncations without a sync: the middle life is forgotten. */
    }
    n->now = content_new(d);
    n->now->volume = n->volume;
    n->truncated = ++d->sequence;
}

void node_sync(struct node *n, uint64_t sequence, uint64_t size)
{
    if (n->before != NULL && n->truncated > sequence) {
        return; /* The sync began in the life before; what it covered is about to go anyway. */
    }
    content_free(n->before);
    n->before = NULL;
    content_sync(n->now, sequence, size);
}

void node_lose_power(struct node *n, struct rand *r, const struct disk_sim_crash *how)
{
    if (n->before != NULL && !disk_sim_chance(r, how->keep_extent)) {
        n->volume->allocated_count -= n->now->allocated_count;
        content_free(n->now);
        n->now = n->before;
        n->volume->allocated_count += n->now->allocated_count;
    } else {
        content_free(n->before);
    }
    n->before = NULL;
    content_lose_power(n->now, r, how);
}

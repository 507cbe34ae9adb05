#include "core/arena.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

enum {
    ARENA_BLOCK_SIZE_MIN = 4096,
    ARENA_BLOCK_SIZE_MAX = 64 * 1024, /* Larger only for a single larger allocation. */
    ARENA_ALIGN = _Alignof(max_align_t),
};

struct arena_block {
    struct arena_block *older;
    size_t size; /* Of data. */
    _Alignas(max_align_t) uint8_t data[];
};

void arena_init(struct arena *a, size_t size_max)
{
    arena_init_shared(a, size_max, NULL);
}

void arena_init_shared(struct arena *a, size_t size_max, struct arena_budget *budget)
{
    *a = (struct arena){.size_max = size_max, .budget = budget};
}

void arena_init_small(struct arena *a, size_t size_max, size_t first_size)
{
    *a = (struct arena){.size_max = size_max, .first_size = first_size};
}

/* False if there is not so much left. */
static bool charge(struct arena_budget *budget, size_t size)
{
    if (budget == NULL) {
        return true;
    }
    assert(budget->size <= budget->size_max);
    if (size > budget->size_max - budget->size) {
        return false;
    }
    budget->size += size;
    return true;
}

static void discharge(struct arena_budget *budget, size_t size)
{
    if (budget != NULL) {
        assert(budget->size >= size);
        budget->size -= size;
    }
}

static void free_block(struct arena *a)
{
    struct arena_block *block = a->blocks;
    a->blocks = block->older;
    discharge(a->budget, block->size);
    free(block);
}

void arena_done(struct arena *a)
{
    while (a->blocks != NULL) {
        free_block(a);
    }
    *a = (struct arena){.size_max = a->size_max, .first_size = a->first_size, .budget = a->budget};
}

void arena_reset(struct arena *a)
{
    while (a->blocks != NULL && a->blocks->older != NULL) {
        free_block(a);
    }
    /* A first block made for one huge request is not kept: an idle connection must stay small. */
    if (a->blocks != NULL && a->blocks->size > ARENA_BLOCK_SIZE_MIN) {
        free_block(a);
    }
    a->used_size = 0;
    a->is_over_budget = false;
    a->is_without_memory = false;
    a->cursor = a->blocks == NULL ? NULL : a->blocks->data;
    a->end = a->blocks == NULL ? NULL : a->blocks->data + a->blocks->size;
}

static bool add_block(struct arena *a, size_t size)
{
    size_t block_size = a->first_size == 0 ? ARENA_BLOCK_SIZE_MIN : a->first_size;
    if (a->blocks != NULL) {
        block_size = a->blocks->size * 2;
    }
    if (block_size > ARENA_BLOCK_SIZE_MAX) {
        block_size = ARENA_BLOCK_SIZE_MAX;
    }
    if (block_size < size) {
        block_size = size;
    }
    if (!charge(a->budget, block_size)) {
        a->is_over_budget = true;
        return false;
    }
    struct arena_block *block = malloc(sizeof(*block) + block_size);
    if (block == NULL) {
        discharge(a->budget, block_size);
        a->is_without_memory = true;
        return false;
    }
    block->older = a->blocks;
    block->size = block_size;
    a->blocks = block;
    a->cursor = block->data;
    a->end = block->data + block_size;
    return true;
}

void *arena_alloc(struct arena *a, size_t size)
{
    assert(a->used_size <= a->size_max);
    if (size > a->size_max - a->used_size || size > SIZE_MAX / 4) {
        return NULL;
    }
    size_t padded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (padded < ARENA_ALIGN) {
        padded = ARENA_ALIGN; /* Size 0 still gets an address of its own. */
    }
    if (padded > (size_t)(a->end - a->cursor) && !add_block(a, padded)) {
        return NULL;
    }
    void *memory = a->cursor;
    a->cursor += padded;
    /* The last allocation may round up past the limit; the account stays below it. */
    size_t left = a->size_max - a->used_size;
    a->used_size += padded < left ? padded : left;
    memset(memory, 0, size);
    return memory;
}

void *arena_alloc_array(struct arena *a, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        return NULL;
    }
    return arena_alloc(a, total);
}

char *arena_strndup(struct arena *a, const char *text, size_t size)
{
    if (size == SIZE_MAX) {
        return NULL;
    }
    char *copy = arena_alloc(a, size + 1);
    if (copy != NULL && size > 0) {
        memcpy(copy, text, size);
    }
    return copy;
}

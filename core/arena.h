/* Bump memory for what lives as long as one request. Nothing is freed singly; arena_reset gives all
 * back at once. Grows in blocks up to a limit; at the limit arena_alloc returns NULL, and decoders
 * report ERR_TOO_LARGE. Several arenas may share a budget, which bounds what they take together.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_block;

struct arena_budget {
    size_t size; /* Of the blocks of all arenas with this budget. */
    size_t size_max;
};

struct arena {
    struct arena_block *blocks; /* Newest first. */
    uint8_t *cursor;
    uint8_t *end;
    size_t used_size; /* Bytes handed out and lost to alignment. */
    size_t size_max;
    size_t first_size;           /* Of the first block; 0 = 4 KiB. */
    struct arena_budget *budget; /* NULL = none. */
    bool is_over_budget;         /* It was the budget that refused, since the last reset, */
    bool is_without_memory;      /* or there was no memory. */
};

void arena_init(struct arena *a, size_t size_max);
/* For many of which most stay small: grows from a first block of that size. */
void arena_init_small(struct arena *a, size_t size_max, size_t first_size);
/* At the budget's limit arena_alloc returns NULL, as at the arena's own. budget must outlive it. */
void arena_init_shared(struct arena *a, size_t size_max, struct arena_budget *budget);
void arena_done(struct arena *a);

/* Keeps the first block, so that a steady caller stops calling malloc. */
void arena_reset(struct arena *a);

/* Zeroed, aligned for any type. NULL at the limit. size 0 gives a valid, distinct-enough pointer.
 */
[[nodiscard]] void *arena_alloc(struct arena *a, size_t size);

/* count * size with overflow check. */
[[nodiscard]] void *arena_alloc_array(struct arena *a, size_t count, size_t size);

/* A NUL-terminated copy; NULL at the limit. */
[[nodiscard]] char *arena_strndup(struct arena *a, const char *text, size_t size);

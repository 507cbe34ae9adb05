#include "cluster/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

void *memory_alloc_array(size_t count, size_t size)
{
    /* One at least: calloc may answer NULL for nothing. */
    void *memory = calloc(count == 0 ? 1 : count, size == 0 ? 1 : size);
    if (memory == NULL) {
        panic("out of memory: cluster state needs %zu x %zu bytes", count, size);
    }
    return memory;
}

void *memory_alloc(size_t size)
{
    return memory_alloc_array(1, size);
}

void *memory_realloc_array(void *memory, size_t count, size_t size)
{
    void *moved = reallocarray(memory, count, size);
    if (moved == NULL) {
        panic("out of memory: cluster state needs %zu x %zu bytes", count, size);
    }
    return moved;
}

char *memory_copy_text(struct slice text)
{
    char *copy = memory_alloc(text.size + 1);
    if (text.size > 0) {
        memcpy(copy, text.data, text.size);
    }
    return copy;
}

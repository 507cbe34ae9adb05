#include "cluster/config_resources.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/memory.h"
#include "core/assert.h"

static void free_configs(struct topic_config_entry *configs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(configs[i].name);
        free(configs[i].value);
    }
    free(configs);
}

static uint64_t size_of(const struct config_resource_entry *e)
{
    return config_resource_size(slice_of_string(e->name), e->configs, e->configs_count);
}

void config_resources_done(struct config_resources *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        free(all->entries[i].name);
        free_configs(all->entries[i].configs, all->entries[i].configs_count);
    }
    free(all->entries);
    *all = (struct config_resources){0};
}

static int
compare(const struct config_resource_entry *e, enum config_resource kind, struct slice name)
{
    if (e->kind != kind) {
        return e->kind < kind ? -1 : 1;
    }
    return slice_compare(slice_of_string(e->name), name);
}

/* Where it is, or belongs. */
static uint32_t
position(const struct config_resources *all, enum config_resource kind, struct slice name)
{
    uint32_t low = 0;
    uint32_t high = all->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (compare(&all->entries[middle], kind, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_at(const struct config_resources *all,
                  uint32_t index,
                  enum config_resource kind,
                  struct slice name)
{
    return index < all->count && compare(&all->entries[index], kind, name) == 0;
}

const struct config_resource_entry *config_resources_find(const struct config_resources *all,
                                                          enum config_resource kind,
                                                          struct slice name)
{
    const uint32_t index = position(all, kind, name);
    return is_at(all, index, kind, name) ? &all->entries[index] : NULL;
}

static void remove_at(struct config_resources *all, uint32_t index)
{
    struct config_resource_entry *at = &all->entries[index];
    all->size -= size_of(at);
    free(at->name);
    free_configs(at->configs, at->configs_count);
    all->count--;
    memmove(at, at + 1, (all->count - index) * sizeof(*at));
}

void config_resources_set(struct config_resources *all,
                          enum config_resource kind,
                          struct slice name,
                          struct topic_config_entry *configs,
                          uint32_t configs_count)
{
    const uint32_t index = position(all, kind, name);
    if (is_at(all, index, kind, name)) {
        remove_at(all, index);
    }
    if (configs_count == 0) {
        free(configs);
        return;
    }
    all->entries = memory_realloc_array(all->entries, all->count + 1, sizeof(*all->entries));
    struct config_resource_entry *at = &all->entries[index];
    memmove(at + 1, at, (all->count - index) * sizeof(*at));
    all->count++;
    *at = (struct config_resource_entry){
        .kind = kind,
        .name = memory_copy_text(name),
        .configs = configs,
        .configs_count = configs_count,
    };
    all->size += size_of(at);
}

uint64_t config_resource_size(struct slice name,
                              const struct topic_config_entry *configs,
                              uint32_t configs_count)
{
    enum { OVERHEAD = 64 }; /* About what an entry takes beside its texts. */
    uint64_t size = name.size + OVERHEAD;
    for (uint32_t i = 0; i < configs_count; i++) {
        size += strlen(configs[i].name) + strlen(configs[i].value) + OVERHEAD;
    }
    return size;
}

void config_resources_check(const struct config_resources *all)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const struct config_resource_entry *e = &all->entries[i];
        size += size_of(e);
        assert_cmp(e->configs_count, >, 0);
        assert(i == 0 || compare(&all->entries[i - 1], e->kind, slice_of_string(e->name)) < 0);
    }
    assert_cmp(size, ==, all->size);
}

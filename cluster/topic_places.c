#include "cluster/topic_places.h"

#include <stdlib.h>

#include "cluster/controller.h"
#include "cluster/memory.h"
#include "core/assert.h"

/* Leaves the directories that were picked. */
static void drop_unused(struct topic_places *places, const uint32_t *taken)
{
    uint8_t numbers[COMMAND_DIRECTORIES_MAX];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < places->directories_count; i++) {
        numbers[i] = (uint8_t)kept;
        if (taken[i] > 0) {
            places->directories[kept++] = places->directories[i];
        }
    }
    places->directories_count = kept;
    for (int32_t p = 0; p < places->partitions_count; p++) {
        places->directory_of[p] = numbers[places->directory_of[p]];
    }
}

void topic_places_pick(const struct controller *ct,
                       const struct placement_directory *directories,
                       uint32_t directories_count,
                       int32_t partitions_count,
                       struct topic_places *places)
{
    assert_cmp(directories_count, >, 0);
    assert_cmp(directories_count, <=, COMMAND_DIRECTORIES_MAX);
    struct placement_directory *choices = memory_alloc_array(directories_count, sizeof(*choices));
    uint32_t taken[COMMAND_DIRECTORIES_MAX] = {0};
    places->directories_count = directories_count;
    places->partitions_count = partitions_count;
    places->directory_of = memory_alloc((size_t)partitions_count);
    for (uint32_t i = 0; i < directories_count; i++) {
        choices[i] = directories[i];
        choices[i].partitions_count = controller_directory_partitions(ct, &choices[i].id);
        places->directories[i] = choices[i].id;
    }
    for (int32_t p = 0; p < partitions_count; p++) {
        const uint32_t i = placement_pick_directory(choices, directories_count);
        choices[i].partitions_count++;
        taken[i]++;
        places->directory_of[p] = (uint8_t)i;
    }
    free(choices);
    drop_unused(places, taken);
}

void topic_places_done(struct topic_places *places)
{
    free(places->directory_of);
}

struct slice topic_places_directories(const struct topic_places *places)
{
    return slice_of(places->directories, (size_t)places->directories_count * UUID_SIZE);
}

struct slice topic_places_directory_of(const struct topic_places *places)
{
    const bool has_several = places->directories_count > 1;
    return slice_of(places->directory_of, has_several ? (size_t)places->partitions_count : 0);
}

#include "groups/partition_set.h"

#include <stdlib.h>
#include <string.h>

static int compare(const struct held_partition *a, const struct uuid *topic_id, int32_t partition)
{
    const int order = memcmp(a->topic_id.bytes, topic_id->bytes, UUID_SIZE);
    return order != 0 ? order : (a->partition > partition) - (a->partition < partition);
}

int held_partition_compare(const void *a, const void *b)
{
    const struct held_partition *right = b;
    return compare(a, &right->topic_id, right->partition);
}

bool partition_set_init(struct partition_set *set, struct arena *a, size_t count)
{
    set->count = 0;
    set->items = count > UINT32_MAX ? NULL : arena_alloc_array(a, count, sizeof(*set->items));
    return set->items != NULL;
}

static int compare_with_epoch(const void *a, const void *b)
{
    const int order = held_partition_compare(a, b);
    const int32_t left = ((const struct held_partition *)a)->epoch;
    const int32_t right = ((const struct held_partition *)b)->epoch;
    return order != 0 ? order : (left > right) - (left < right);
}

static bool is_sorted(const struct partition_set *set)
{
    for (uint32_t i = 1; i < set->count; i++) {
        if (held_partition_compare(&set->items[i - 1], &set->items[i]) >= 0) {
            return false;
        }
    }
    return true;
}

void partition_set_sort(struct partition_set *set)
{
    if (is_sorted(set)) {
        return;
    }
    qsort(set->items, set->count, sizeof(*set->items), compare_with_epoch);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < set->count; i++) {
        if (held_partition_compare(&set->items[kept - 1], &set->items[i]) != 0) {
            set->items[kept++] = set->items[i];
        }
    }
    set->count = kept;
}

const struct held_partition *
partition_set_find(const struct partition_set *set, const struct uuid *topic_id, int32_t partition)
{
    uint32_t low = 0;
    uint32_t high = set->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = compare(&set->items[middle], topic_id, partition);
        if (order == 0) {
            return &set->items[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

bool partition_set_equal(const struct partition_set *a, const struct partition_set *b)
{
    if (a->count != b->count) {
        return false;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        if (held_partition_compare(&a->items[i], &b->items[i]) != 0) {
            return false;
        }
    }
    return true;
}

/* Runs over both; how many of a are in b, at most up_to. */
static uint32_t
count_common(const struct partition_set *a, const struct partition_set *b, uint32_t up_to)
{
    uint32_t common = 0;
    uint32_t i = 0;
    uint32_t j = 0;
    while (i < a->count && j < b->count && common < up_to) {
        const int order = held_partition_compare(&a->items[i], &b->items[j]);
        common += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    return common;
}

bool partition_set_is_subset(const struct partition_set *of, const struct partition_set *set)
{
    return count_common(set, of, UINT32_MAX) == set->count;
}

bool partition_set_overlaps(const struct partition_set *a, const struct partition_set *b)
{
    return count_common(a, b, 1) != 0;
}

bool partition_set_filter(struct partition_set *ret_set,
                          struct arena *a,
                          const struct partition_set *from,
                          const struct partition_set *in,
                          bool is_in)
{
    if (!partition_set_init(ret_set, a, from->count)) {
        return false;
    }
    uint32_t j = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        while (j < in->count && held_partition_compare(&in->items[j], &from->items[i]) < 0) {
            j++;
        }
        const bool has =
            j < in->count && held_partition_compare(&in->items[j], &from->items[i]) == 0;
        if (has == is_in) {
            ret_set->items[ret_set->count++] = from->items[i];
        }
    }
    return true;
}

bool partition_set_unite(struct partition_set *ret_set,
                         struct arena *a,
                         const struct partition_set *left,
                         const struct partition_set *right)
{
    if (!partition_set_init(ret_set, a, (size_t)left->count + right->count)) {
        return false;
    }
    for (uint32_t i = 0; i < left->count; i++) {
        ret_set->items[ret_set->count++] = left->items[i];
    }
    for (uint32_t i = 0; i < right->count; i++) {
        ret_set->items[ret_set->count++] = right->items[i];
    }
    partition_set_sort(ret_set);
    return true;
}

uint32_t partition_set_topic_end(const struct partition_set *set, uint32_t start)
{
    uint32_t end = start + 1;
    while (end < set->count && uuid_equal(&set->items[end].topic_id, &set->items[start].topic_id)) {
        end++;
    }
    return end;
}

uint32_t partition_set_topics_count(const struct partition_set *set)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->count; i = partition_set_topic_end(set, i)) {
        count++;
    }
    return count;
}

enum err partition_set_copy(struct partition_set *ret_set, const struct partition_set *from)
{
    struct held_partition *items = NULL;
    if (from->count > 0) {
        items = malloc(partition_set_size(from));
        if (items == NULL) {
            return ERR_BUSY;
        }
        memcpy(items, from->items, partition_set_size(from));
    }
    *ret_set = (struct partition_set){items, from->count};
    return ERR_OK;
}

void partition_set_done(struct partition_set *set)
{
    free(set->items);
    *set = (struct partition_set){0};
}

#include "perf/bench/hdr.h"

#include <string.h>

#include "core/assert.h"

void hdr_reset(struct hdr *h)
{
    memset(h, 0, sizeof(*h));
    h->value_min = UINT64_MAX;
}

uint32_t hdr_index(uint64_t value)
{
    const uint64_t linear_max = 2 * HDR_HALF_COUNT - 1;
    const int highest_bit = 63 - __builtin_clzll(value | linear_max);
    const int power = highest_bit - HDR_HALF_BITS;
    const uint32_t within = (uint32_t)(value >> power);
    return (uint32_t)power * HDR_HALF_COUNT + within;
}

uint64_t hdr_highest_at(uint32_t index)
{
    uint32_t power = index / HDR_HALF_COUNT;
    power = power > 0 ? power - 1 : 0;
    const uint64_t within = index - power * HDR_HALF_COUNT;
    return ((within + 1) << power) - 1;
}

void hdr_record(struct hdr *h, uint64_t value, uint64_t count)
{
    if (value > HDR_VALUE_MAX) {
        value = HDR_VALUE_MAX;
        h->above_count += count;
    }
    const uint32_t index = hdr_index(value);
    assert_cmp(index, <, HDR_COUNTS);
    h->counts[index] += count;
    h->count += count;
    if (count > 0) {
        h->value_max = value > h->value_max ? value : h->value_max;
        h->value_min = value < h->value_min ? value : h->value_min;
    }
}

void hdr_add(struct hdr *to, const struct hdr *from)
{
    if (from->count == 0) {
        return;
    }
    const uint32_t last = hdr_index(from->value_max);
    for (uint32_t i = hdr_index(from->value_min); i <= last; i++) {
        to->counts[i] += from->counts[i];
    }
    to->count += from->count;
    to->above_count += from->above_count;
    to->value_max = from->value_max > to->value_max ? from->value_max : to->value_max;
    to->value_min = from->value_min < to->value_min ? from->value_min : to->value_min;
}

uint64_t hdr_value_at(const struct hdr *h, double quantile)
{
    if (h->count == 0) {
        return 0;
    }
    /* So many values, rounded up, and at least one. A hair less, so that 0.9 of ten is nine. */
    const double exact = quantile * (double)h->count;
    uint64_t wanted = (uint64_t)exact;
    wanted += exact - (double)wanted > 1e-12 * exact ? 1 : 0;
    wanted = wanted < 1 ? 1 : wanted;
    uint64_t seen = 0;
    const uint32_t last = hdr_index(h->value_max);
    for (uint32_t i = hdr_index(h->value_min); i < last; i++) {
        seen += h->counts[i];
        if (seen >= wanted) {
            return hdr_highest_at(i);
        }
    }
    return h->value_max;
}

double hdr_mean(const struct hdr *h)
{
    if (h->count == 0) {
        return 0;
    }
    double sum = 0;
    const uint32_t last = hdr_index(h->value_max);
    for (uint32_t i = hdr_index(h->value_min); i <= last; i++) {
        const uint64_t highest = hdr_highest_at(i);
        const uint64_t value = highest > h->value_max ? h->value_max : highest;
        sum += (double)h->counts[i] * (double)value;
    }
    return sum / (double)h->count;
}

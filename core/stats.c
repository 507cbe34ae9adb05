#include "core/stats.h"

void histogram_record(struct histogram *h, uint64_t value)
{
    /* Bucket i holds 2^(i-1) <= value < 2^i; the last one also holds whatever is larger. */
    size_t bucket = value == 0 ? 0 : 64 - (size_t)__builtin_clzll(value);
    if (bucket >= HISTOGRAM_BUCKETS) {
        bucket = HISTOGRAM_BUCKETS - 1;
    }
    h->buckets[bucket]++;
    h->count++;
    h->sum += value;
}

void stats_init(struct stats *ss)
{
    list_init(&ss->all);
}

void stats_add(struct stats *ss, struct stat *st)
{
    list_push_back(&ss->all, &st->link);
}

void stats_remove(struct stat *st)
{
    list_remove(&st->link);
}

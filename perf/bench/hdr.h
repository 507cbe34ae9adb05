/* A log-linear histogram in the layout of HdrHistogram: three significant digits, from 1 to an hour
 * in microseconds. Values above are counted as the highest; how many were is told.
 *
 * Values below 2048 have a bucket each. From there on each power of two is halved 1024 times: a
 * bucket is at most a thousandth of its value wide.
 *
 * Pure.
 */
#pragma once

#include <stdint.h>

enum {
    HDR_DIGITS = 3,
    HDR_HALF_BITS = 10, /* 1024 buckets per power of two. */
    HDR_HALF_COUNT = 1 << HDR_HALF_BITS,
    HDR_POWERS = 22, /* So that the highest value is in the last one. */
    HDR_COUNTS = (HDR_POWERS + 1) * HDR_HALF_COUNT,
};

#define HDR_VALUE_MAX 3600000000ULL

struct hdr {
    uint64_t counts[HDR_COUNTS];
    uint64_t count;       /* Of all values. */
    uint64_t value_max;   /* As recorded; 0: none. */
    uint64_t value_min;   /* UINT64_MAX: none. */
    uint64_t above_count; /* Values above the highest. */
};

void hdr_reset(struct hdr *h);
void hdr_record(struct hdr *h, uint64_t value, uint64_t count);
void hdr_add(struct hdr *to, const struct hdr *from);

/* The value that the share quantile (0..1) of all values does not exceed: the highest of its
 * bucket, but never above the highest recorded. 0 without values. */
uint64_t hdr_value_at(const struct hdr *h, double quantile);
double hdr_mean(const struct hdr *h);

/* Where a value is counted, and the highest value counted there. */
uint32_t hdr_index(uint64_t value);
uint64_t hdr_highest_at(uint32_t index);

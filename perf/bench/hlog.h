/* HdrHistogram logs: a line per interval, its histogram in the V2 encoding (zigzag LEB128 counts,
 * runs of zeros as their negative length), deflated, in base64. Any reader of HdrHistogram takes
 * them; values are microseconds.
 *
 * One thread.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "core/err.h"
#include "core/wbuf.h"

#include "perf/bench/hdr.h"

/* The V2 encoding, not compressed. ERR_BUSY without memory. */
enum err hlog_encode(const struct hdr *h, struct wbuf *w);

/* The same compressed, in base64, without a terminating zero. ERR_BUSY. */
enum err hlog_encode_base64(const struct hdr *h, struct wbuf *w);

/* The lines before the first interval. They and each interval are written at once: whoever follows
 * the file sees the run. */
void hlog_begin(FILE *out, int64_t start_wall_ms);

struct hlog_interval {
    const char *tag; /* Without commas and spaces. */
    double from_s;   /* Since the start. */
    double length_s;
    const struct hdr *histogram;
};
/* ERR_BUSY; whether it could be written shows ferror(out). */
enum err hlog_write(FILE *out, const struct hlog_interval *i);

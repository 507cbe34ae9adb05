/* What a run found out: rows and tables for people, JSON for programs.
 *
 * One thread.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "perf/bench/bench.h"

/* The heading of the rows; has_consumers: with what they saw. */
void report_heading(FILE *out, bool has_consumers);
/* Nothing below a tenth of a second: its rates would say nothing. */
void report_row(FILE *out, const struct bench_interval *i, bool has_consumers);

/* The table behind the rows. */
void report_window(FILE *out, const struct bench_window *w, bool has_consumers);
/* A step of a search, a line. */
void report_steps_heading(FILE *out);
void report_step(FILE *out, const struct bench_window *w);

/* Of reading alone. */
void report_reading_heading(FILE *out);
void report_reading_row(FILE *out, const struct bench_reading *row);
void report_reading(FILE *out, const struct bench_reading *all);

/* Objects; NULL without memory. */
json_t *report_row_json(const struct bench_interval *i, bool has_consumers);
json_t *report_window_json(const struct bench_window *w, bool has_consumers);
json_t *report_reading_row_json(const struct bench_reading *row);
json_t *report_reading_json(const struct bench_reading *all);

enum {
    REPORT_TEXT_SIZE = 32,
};

/* "12,345" */
const char *report_count(double count, char ret_text[REPORT_TEXT_SIZE]);
/* "412 us", "1.23 ms", "2.50 s" */
const char *report_time(uint64_t us, char ret_text[REPORT_TEXT_SIZE]);

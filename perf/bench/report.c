#include "perf/bench/report.h"

#include <inttypes.h>

#define ROW_S_MIN 0.1

static const struct {
    const char *name;
    const char *json;
    double quantile;
} columns[] = {
    {"p50", "p50_us", 0.5},
    {"p90", "p90_us", 0.9},
    {"p99", "p99_us", 0.99},
    {"p99.9", "p99_9_us", 0.999},
    {"p99.99", "p99_99_us", 0.9999},
    {"max", "max_us", 1.0},
};

enum {
    COLUMNS_COUNT = sizeof(columns) / sizeof(columns[0]),
};

const char *report_count(double count, char ret_text[REPORT_TEXT_SIZE])
{
    char digits[REPORT_TEXT_SIZE];
    const int size = snprintf(digits, sizeof(digits), "%.0f", count < 1e15 ? count : 1e15);
    size_t at = 0;
    for (int i = 0; i < size; i++) {
        if (i > 0 && (size - i) % 3 == 0) {
            ret_text[at++] = ',';
        }
        ret_text[at++] = digits[i];
    }
    ret_text[at] = '\0';
    return ret_text;
}

const char *report_time(uint64_t us, char ret_text[REPORT_TEXT_SIZE])
{
    if (us < 1000) {
        (void)snprintf(ret_text, REPORT_TEXT_SIZE, "%" PRIu64 " us", us);
        return ret_text;
    }
    const bool is_ms = us < 1000000;
    const double value = (double)us / (is_ms ? 1e3 : 1e6);
    const int digits = value < 10 ? 2 : value < 100 ? 1 : 0;
    (void)snprintf(ret_text, REPORT_TEXT_SIZE, "%.*f %s", digits, value, is_ms ? "ms" : "s");
    return ret_text;
}

/* ---- rows ---- */

void report_heading(FILE *out, bool has_consumers)
{
    (void)fprintf(out,
                  "%8s %11s %11s %8s %9s %9s %9s %9s%s %10s %8s %6s\n",
                  "second",
                  "offered/s",
                  "achieved/s",
                  "MB/s",
                  "p50",
                  "p99",
                  "p99.9",
                  "max",
                  has_consumers ? "   e2e p99" : "",
                  "backlog",
                  "failed",
                  "CPUs");
}

static const char *time_at(const struct hdr *h, double quantile, char text[REPORT_TEXT_SIZE])
{
    return h->count == 0 ? "-" : report_time(hdr_value_at(h, quantile), text);
}

void report_row(FILE *out, const struct bench_interval *i, bool has_consumers)
{
    if (i->length_s < ROW_S_MIN) {
        return;
    }
    char a[REPORT_TEXT_SIZE];
    char b[REPORT_TEXT_SIZE];
    char times[4][REPORT_TEXT_SIZE];
    char e2e[REPORT_TEXT_SIZE + 2] = "";
    if (has_consumers) {
        char text[REPORT_TEXT_SIZE];
        (void)snprintf(e2e, sizeof(e2e), " %9s", time_at(i->delivered, 0.99, text));
    }
    (void)fprintf(out,
                  "%8.1f %11s %11s %8.1f %9s %9s %9s %9s%s",
                  i->from_s + i->length_s,
                  report_count(i->offered_rate, a),
                  report_count(i->achieved_rate, b),
                  i->size_rate / 1e6,
                  time_at(i->published, 0.5, times[0]),
                  time_at(i->published, 0.99, times[1]),
                  time_at(i->published, 0.999, times[2]),
                  time_at(i->published, 1.0, times[3]),
                  e2e);
    (void)fprintf(out,
                  " %10s %8s %6.2f\n",
                  report_count((double)i->backlog_count, a),
                  report_count((double)i->failed_count, b),
                  i->cores);
    (void)fflush(out);
}

/* ---- the table ---- */

static void print_times(FILE *out, const char *name, const struct hdr *h)
{
    (void)fprintf(out, "%-12s", name);
    for (size_t i = 0; i < COLUMNS_COUNT; i++) {
        char text[REPORT_TEXT_SIZE];
        (void)fprintf(out, " %9s", time_at(h, columns[i].quantile, text));
    }
    (void)fputc('\n', out);
}

static void print_rates(FILE *out, const struct bench_window *w)
{
    char a[REPORT_TEXT_SIZE];
    char b[REPORT_TEXT_SIZE];
    (void)fprintf(out,
                  "%-12s %s records/s, %.2f MB/s\n",
                  "offered",
                  report_count(w->offered_rate, a),
                  w->offered_rate * w->record_size / 1e6);
    (void)fprintf(out,
                  "%-12s %s records/s, %.2f MB/s: %s records in %.2f s\n",
                  "achieved",
                  report_count(w->achieved_rate, a),
                  w->size_rate / 1e6,
                  report_count((double)w->acked_count, b),
                  w->seconds + w->settle_s);
}

static void print_losses(FILE *out, const struct bench_window *w)
{
    const struct {
        uint64_t count;
        const char *what;
    } losses[] = {
        {w->failed_count, "failed"},
        {w->unsent_count, "due but never sent: the producers had no room"},
        {w->unanswered_count, "sent but not answered in time"},
        {w->missing_count, "acknowledged but not read in time by every reader"},
    };
    bool is_clean = true;
    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
        if (losses[i].count > 0) {
            char text[REPORT_TEXT_SIZE];
            (void)fprintf(out,
                          "%-12s %s records %s\n",
                          is_clean ? "errors" : "",
                          report_count((double)losses[i].count, text),
                          losses[i].what);
            is_clean = false;
        }
    }
    if (is_clean) {
        (void)fprintf(out, "%-12s none\n", "errors");
    }
    if (w->failure[0] != '\0') {
        (void)fprintf(out, "%-12s first: %s\n", "", w->failure);
    }
}

static void print_generator(FILE *out, const struct usage *u)
{
    (void)fprintf(out,
                  "%-12s %.2f CPUs (busiest thread %.0f %%), the machine's were %.0f %% busy\n",
                  "generator",
                  u->cores,
                  u->busiest_share * 100,
                  u->machine_share * 100);
}

/* width as of printf: below 0 to the left. */
static void print_warnings(FILE *out, int width, const struct bench_warnings *w)
{
    for (size_t i = 0; i < w->count; i++) {
        (void)fprintf(out, "%*s %s\n", width, "WARNING", w->texts[i]);
    }
}

void report_window(FILE *out, const struct bench_window *w, bool has_consumers)
{
    (void)fprintf(out, "\n%-12s", "latency");
    for (size_t i = 0; i < COLUMNS_COUNT; i++) {
        (void)fprintf(out, " %9s", columns[i].name);
    }
    (void)fputc('\n', out);
    print_times(out, "publish", w->published);
    if (has_consumers) {
        print_times(out, "end to end", w->delivered);
    }
    print_times(out, "send slip", w->slip);
    (void)fputc('\n', out);
    print_rates(out, w);
    print_losses(out, w);
    print_generator(out, &w->usage);
    print_warnings(out, -12, &w->warnings);
    (void)fflush(out);
}

void report_steps_heading(FILE *out)
{
    (void)fprintf(out,
                  "%11s %11s %8s %9s %9s %6s\n",
                  "offered/s",
                  "achieved/s",
                  "MB/s",
                  "p50",
                  "p99",
                  "CPUs");
}

void report_step(FILE *out, const struct bench_window *w)
{
    char a[REPORT_TEXT_SIZE];
    char b[REPORT_TEXT_SIZE];
    char p50[REPORT_TEXT_SIZE];
    char p99[REPORT_TEXT_SIZE];
    (void)fprintf(out,
                  "%11s %11s %8.1f %9s %9s %6.2f  %s%s\n",
                  report_count(w->rate_to, a),
                  report_count(w->achieved_rate, b),
                  w->size_rate / 1e6,
                  time_at(w->published, 0.5, p50),
                  time_at(w->published, 0.99, p99),
                  w->usage.cores,
                  w->has_held      ? "held"
                  : w->was_stopped ? ""
                                   : "failed: ",
                  w->why_not);
    print_warnings(out, 11, &w->warnings);
    (void)fflush(out);
}

/* ---- reading alone ---- */

static double per_second(uint64_t count, double seconds)
{
    return seconds > 0 ? (double)count / seconds : 0;
}

void report_reading_heading(FILE *out)
{
    (void)fprintf(out, "%8s %11s %8s %12s %6s\n", "second", "records/s", "MB/s", "lag", "CPUs");
}

void report_reading_row(FILE *out, const struct bench_reading *row)
{
    char a[REPORT_TEXT_SIZE];
    char b[REPORT_TEXT_SIZE];
    (void)fprintf(out,
                  "%8.1f %11s %8.1f %12s %6.2f\n",
                  row->from_s + row->seconds,
                  report_count(per_second(row->records_count, row->seconds), a),
                  per_second(row->size, row->seconds) / 1e6,
                  report_count((double)row->lag_count, b),
                  row->usage.cores);
    (void)fflush(out);
}

void report_reading(FILE *out, const struct bench_reading *all)
{
    char a[REPORT_TEXT_SIZE];
    char b[REPORT_TEXT_SIZE];
    (void)fprintf(out,
                  "\n%-12s %s records/s, %.2f MB/s: %s records in %.2f s%s\n",
                  "read",
                  report_count(per_second(all->records_count, all->seconds), a),
                  per_second(all->size, all->seconds) / 1e6,
                  report_count((double)all->records_count, b),
                  all->seconds,
                  all->is_through ? ", up to the end" : "");
    (void)fprintf(out, "%-12s %s\n", "errors", all->failure[0] == '\0' ? "none" : all->failure);
    print_generator(out, &all->usage);
    print_warnings(out, -12, &all->warnings);
    (void)fflush(out);
}

/* ---- JSON ---- */

static json_t *times_json(const struct hdr *h)
{
    json_t *times = json_pack("{s:I, s:f}", "count", (json_int_t)h->count, "mean_us", hdr_mean(h));
    for (size_t i = 0; i < COLUMNS_COUNT; i++) {
        const uint64_t value = hdr_value_at(h, columns[i].quantile);
        (void)json_object_set_new(times, columns[i].json, json_integer((json_int_t)value));
    }
    return times;
}

json_t *report_row_json(const struct bench_interval *i, bool has_consumers)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:o, s:o}",
                     "from_s",
                     i->from_s,
                     "seconds",
                     i->length_s,
                     "offered_rate",
                     i->offered_rate,
                     "achieved_rate",
                     i->achieved_rate,
                     "bytes_per_s",
                     i->size_rate,
                     "backlog",
                     (json_int_t)i->backlog_count,
                     "failed",
                     (json_int_t)i->failed_count,
                     "generator_cpus",
                     i->cores,
                     "publish",
                     times_json(i->published),
                     "end_to_end",
                     has_consumers ? times_json(i->delivered) : json_null());
}

/* Null for none. What a broker says may be no text. */
static json_t *text_json(const char *text)
{
    if (text[0] == '\0') {
        return json_null();
    }
    json_t *string = json_string(text);
    return string != NULL ? string : json_string("(not UTF-8)");
}

static json_t *warnings_json(const struct bench_warnings *w)
{
    json_t *list = json_array();
    for (size_t i = 0; i < w->count; i++) {
        (void)json_array_append_new(list, text_json(w->texts[i]));
    }
    return list;
}

static json_t *generator_json(const struct usage *u)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}",
                     "cpu_s",
                     u->seconds,
                     "cpus",
                     u->cores,
                     "busiest_thread",
                     u->busiest_share,
                     "machine_busy",
                     u->machine_share,
                     "share_of_busy",
                     u->own_share);
}

static json_t *counts_json(const struct bench_window *w)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}",
                     "offered",
                     (json_int_t)w->offered_count,
                     "acknowledged",
                     (json_int_t)w->acked_count,
                     "failed",
                     (json_int_t)w->failed_count,
                     "unsent",
                     (json_int_t)w->unsent_count,
                     "unanswered",
                     (json_int_t)w->unanswered_count,
                     "missing",
                     (json_int_t)w->missing_count);
}

json_t *report_window_json(const struct bench_window *w, bool has_consumers)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:b, s:b, "
                     "s:o, s:o, s:o}",
                     "rate_from",
                     w->rate_from,
                     "rate_to",
                     w->rate_to,
                     "seconds",
                     w->seconds,
                     "settle_s",
                     w->settle_s,
                     "offered_rate",
                     w->offered_rate,
                     "achieved_rate",
                     w->achieved_rate,
                     "bytes_per_s",
                     w->size_rate,
                     "record_size",
                     w->record_size,
                     "records",
                     counts_json(w),
                     "publish",
                     times_json(w->published),
                     "end_to_end",
                     has_consumers ? times_json(w->delivered) : json_null(),
                     "send_slip",
                     times_json(w->slip),
                     "generator",
                     generator_json(&w->usage),
                     "stopped",
                     (int)w->was_stopped,
                     "held",
                     (int)w->has_held,
                     "why_not",
                     text_json(w->why_not),
                     "first_failure",
                     text_json(w->failure),
                     "warnings",
                     warnings_json(&w->warnings));
}

static json_t *reading_json(const struct bench_reading *x)
{
    return json_pack("{s:f, s:I, s:I, s:f, s:f, s:I}",
                     "seconds",
                     x->seconds,
                     "records",
                     (json_int_t)x->records_count,
                     "bytes",
                     (json_int_t)x->size,
                     "records_per_s",
                     per_second(x->records_count, x->seconds),
                     "bytes_per_s",
                     per_second(x->size, x->seconds),
                     "lag",
                     (json_int_t)x->lag_count);
}

json_t *report_reading_row_json(const struct bench_reading *row)
{
    json_t *object = reading_json(row);
    (void)json_object_set_new(object, "from_s", json_real(row->from_s));
    (void)json_object_set_new(object, "generator_cpus", json_real(row->usage.cores));
    return object;
}

json_t *report_reading_json(const struct bench_reading *all)
{
    json_t *object = reading_json(all);
    (void)json_object_set_new(object, "up_to_end", json_boolean(all->is_through));
    (void)json_object_set_new(object, "stopped", json_boolean(all->was_stopped));
    (void)json_object_set_new(object, "first_failure", text_json(all->failure));
    (void)json_object_set_new(object, "generator", generator_json(&all->usage));
    (void)json_object_set_new(object, "warnings", warnings_json(&all->warnings));
    return object;
}

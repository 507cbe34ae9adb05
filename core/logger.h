/* Log lines: one per event, `event: key=value key=value`, to a sink.
 *
 *   log_info(s->log, "segment_rolled", "topic=%s partition=%d base_index=%" PRIu64, ...);
 *
 * writes `2026-11-29T19:00:00.123Z INFO segment_rolled: topic=... partition=0 base_index=17`.
 * The sink is chosen at start (stderr in production, memory in the simulator) and must accept calls
 * from any shard.
 */
#pragma once

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    LOG_ERROR,
};

struct logger;
typedef void log_sink_fn(struct logger *l, enum log_level level, const char *line, size_t size);

struct logger {
    atomic_int level;  /* enum log_level: less important lines are dropped. By any shard. */
    log_sink_fn *sink; /* line has no newline at its end. */
    void *context;
    int64_t (*wall_ms)(struct logger *l);

    /* Of the sink to stderr. */
    int fd;
    bool is_socket;
    bool may_block;                     /* fd is stderr itself, shared with who knows whom. */
    atomic_uint_fast64_t dropped_count; /* Lines since the last that was taken. By any shard. */
};

/* To stderr, one write per line. A shard never waits for who reads it: what a full pipe does not
 * take is dropped, and counted in a line of its own as soon as there is room. */
void logger_init_stderr(struct logger *l, enum log_level level);
/* Gives back what that took; no line may follow. */
void logger_done(struct logger *l);

enum log_level logger_level(const struct logger *l);
void logger_set_level(struct logger *l, enum log_level level);

[[gnu::format(printf, 4, 5)]] void
log_event(struct logger *l, enum log_level level, const char *event, const char *format, ...);

#define log_debug(l, event, ...) log_event((l), LOG_DEBUG, (event), __VA_ARGS__)
#define log_info(l, event, ...)  log_event((l), LOG_INFO, (event), __VA_ARGS__)
#define log_warn(l, event, ...)  log_event((l), LOG_WARN, (event), __VA_ARGS__)
#define log_error(l, event, ...) log_event((l), LOG_ERROR, (event), __VA_ARGS__)

/* What the generator itself takes of the machine: whoever measures with a generator that is at its
 * limit measures the generator.
 *
 * One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    USAGE_THREADS_MAX = 4096, /* More are not looked at. */
};

struct usage_thread {
    int id;
    uint64_t cpu_ns;
};

/* The counters at one time. */
struct usage_sample {
    uint64_t at_us;
    uint64_t own_us;      /* Processor time of the process. */
    uint64_t machine_all; /* In the kernel's ticks, of all processors. */
    uint64_t machine_idle;
    struct usage_thread *threads; /* Ascending by id. */
    size_t threads_count;
};

/* Without memory, or where /proc is not to be read, figures are missing: they count as 0. */
void usage_take(struct usage_sample *s, uint64_t now_us);
/* Without the threads: cheap, for progress. */
void usage_take_own(struct usage_sample *s, uint64_t now_us);
void usage_done(struct usage_sample *s);

/* Between two samples. */
struct usage {
    double seconds;       /* Processor time. */
    double cores;         /* The same per second. */
    double busiest_share; /* Of one processor, by the busiest thread. */
    double machine_share; /* 0..1, of all processors, by everybody. */
    double own_share;     /* Of that by this process. */
};
void usage_between(const struct usage_sample *a, const struct usage_sample *b, struct usage *ret);

/* A thread at its limit; a machine without any processor time left, whoever took it. */
bool usage_is_thread_full(const struct usage *u);
bool usage_is_machine_full(const struct usage *u);

#include "perf/bench/usage.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define THREAD_FULL  0.90
#define MACHINE_FULL 0.95

enum {
    PATH_SIZE = 64,
};

static uint64_t own_us(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0) {
        return 0;
    }
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* The first line: user, nice, system, idle, iowait, irq, softirq, steal. */
static void read_machine(struct usage_sample *s)
{
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL) {
        return;
    }
    uint64_t ticks[8] = {0};
    const int got = fscanf(file,
                           "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                           " %" SCNu64 " %" SCNu64 " %" SCNu64,
                           &ticks[0],
                           &ticks[1],
                           &ticks[2],
                           &ticks[3],
                           &ticks[4],
                           &ticks[5],
                           &ticks[6],
                           &ticks[7]);
    (void)fclose(file);
    for (int i = 0; i < got; i++) {
        s->machine_all += ticks[i];
    }
    s->machine_idle = ticks[3] + ticks[4];
}

static uint64_t thread_cpu_ns(const char *id)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%.16s/schedstat", id);
    FILE *file = fopen(path, "re");
    uint64_t cpu_ns = 0;
    if (file != NULL) {
        const int got = fscanf(file, "%" SCNu64, &cpu_ns);
        cpu_ns = got == 1 ? cpu_ns : 0;
        (void)fclose(file);
    }
    return cpu_ns;
}

static int compare_threads(const void *a, const void *b)
{
    const int x = ((const struct usage_thread *)a)->id;
    const int y = ((const struct usage_thread *)b)->id;
    return (x > y) - (x < y);
}

static void read_threads(struct usage_sample *s)
{
    DIR *tasks = opendir("/proc/self/task");
    s->threads = calloc(USAGE_THREADS_MAX, sizeof(*s->threads));
    if (tasks != NULL && s->threads != NULL) {
        for (struct dirent *one = readdir(tasks);
             one != NULL && s->threads_count < USAGE_THREADS_MAX;
             one = readdir(tasks)) {
            const int id = (int)strtol(one->d_name, NULL, 10);
            if (id > 0) {
                s->threads[s->threads_count++] =
                    (struct usage_thread){id, thread_cpu_ns(one->d_name)};
            }
        }
        qsort(s->threads, s->threads_count, sizeof(*s->threads), compare_threads);
    }
    if (tasks != NULL) {
        (void)closedir(tasks);
    }
}

void usage_take_own(struct usage_sample *s, uint64_t now_us)
{
    *s = (struct usage_sample){.at_us = now_us, .own_us = own_us()};
}

void usage_take(struct usage_sample *s, uint64_t now_us)
{
    usage_take_own(s, now_us);
    read_machine(s);
    read_threads(s);
}

void usage_done(struct usage_sample *s)
{
    free(s->threads);
    s->threads = NULL;
    s->threads_count = 0;
}

/* Of threads that are in both: those of a run live through it. */
static uint64_t busiest_ns(const struct usage_sample *a, const struct usage_sample *b)
{
    uint64_t busiest = 0;
    size_t i = 0;
    for (size_t k = 0; k < b->threads_count; k++) {
        while (i < a->threads_count && a->threads[i].id < b->threads[k].id) {
            i++;
        }
        if (i < a->threads_count && a->threads[i].id == b->threads[k].id) {
            const uint64_t used = b->threads[k].cpu_ns - a->threads[i].cpu_ns;
            busiest = used > busiest ? used : busiest;
        }
    }
    return busiest;
}

void usage_between(const struct usage_sample *a, const struct usage_sample *b, struct usage *ret)
{
    *ret = (struct usage){0};
    if (b->at_us <= a->at_us) {
        return;
    }
    const double wall_us = (double)(b->at_us - a->at_us);
    ret->seconds = (double)(b->own_us - a->own_us) / 1e6;
    ret->cores = ret->seconds * 1e6 / wall_us;
    ret->busiest_share = (double)busiest_ns(a, b) / 1e3 / wall_us;
    const uint64_t all = b->machine_all - a->machine_all;
    const uint64_t idle = b->machine_idle - a->machine_idle;
    if (b->machine_all > a->machine_all && idle < all) {
        const long ticks_per_s = sysconf(_SC_CLK_TCK);
        ret->machine_share = (double)(all - idle) / (double)all;
        ret->own_share = ret->seconds * (double)ticks_per_s / (double)(all - idle);
    }
}

bool usage_is_thread_full(const struct usage *u)
{
    return u->busiest_share >= THREAD_FULL;
}

bool usage_is_machine_full(const struct usage *u)
{
    return u->machine_share >= MACHINE_FULL;
}

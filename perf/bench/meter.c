#include "perf/bench/meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

static void lock(struct meter *m)
{
    const int number = pthread_mutex_lock(&m->lock);
    assert_cmp(number, ==, 0);
}

static void unlock(struct meter *m)
{
    const int number = pthread_mutex_unlock(&m->lock);
    assert_cmp(number, ==, 0);
}

enum err meter_init(struct meter *m)
{
    *m = (struct meter){0};
    const int number = pthread_mutex_init(&m->lock, NULL);
    assert_cmp(number, ==, 0);
    struct hdr **all[] = {&m->running, &m->taken, &m->total};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        *all[i] = malloc(sizeof(struct hdr));
        if (*all[i] == NULL) {
            return ERR_BUSY;
        }
        hdr_reset(*all[i]);
    }
    return ERR_OK;
}

void meter_done(struct meter *m)
{
    free(m->running);
    free(m->taken);
    free(m->total);
    (void)pthread_mutex_destroy(&m->lock);
}

static bool is_in_window(const struct meter *m, uint64_t due_us)
{
    return due_us >= m->from_us && due_us < m->to_us;
}

static void record(struct meter *m, uint64_t due_us, uint64_t now_us, uint32_t count)
{
    hdr_record(m->running, now_us > due_us ? now_us - due_us : 0, count);
}

void meter_record(struct meter *m, uint64_t due_us, uint64_t now_us, uint32_t count)
{
    lock(m);
    m->good_count += count;
    if (is_in_window(m, due_us)) {
        record(m, due_us, now_us, count);
        m->window_good_count += count;
        m->window_last_us = now_us > m->window_last_us ? now_us : m->window_last_us;
    }
    unlock(m);
}

void meter_wait(struct meter *m, uint64_t due_us, uint64_t now_us, uint32_t count)
{
    lock(m);
    if (is_in_window(m, due_us)) {
        record(m, due_us, now_us, count);
        m->window_waited_count += count;
    }
    unlock(m);
}

void meter_miss(struct meter *m, uint64_t waited_us, uint64_t count)
{
    lock(m);
    hdr_record(m->running, waited_us, count);
    m->window_waited_count += count;
    unlock(m);
}

void meter_fail(struct meter *m, uint64_t due_us, uint32_t count, enum err e, const char *why)
{
    lock(m);
    m->bad_count += count;
    m->window_bad_count += is_in_window(m, due_us) ? count : 0;
    if (m->err == ERR_OK) {
        m->err = e;
        (void)snprintf(m->why, sizeof(m->why), "%s", why);
    }
    unlock(m);
}

void meter_counts(struct meter *m, struct meter_counts *ret_counts)
{
    lock(m);
    *ret_counts = (struct meter_counts){
        .good_count = m->good_count,
        .bad_count = m->bad_count,
        .window_good_count = m->window_good_count,
        .window_bad_count = m->window_bad_count,
        .window_waited_count = m->window_waited_count,
        .window_last_us = m->window_last_us,
    };
    unlock(m);
}

void meter_why(struct meter *m, char ret_why[CLIENT_WHY_SIZE])
{
    lock(m);
    memcpy(ret_why, m->why, CLIENT_WHY_SIZE);
    unlock(m);
}

void meter_open(struct meter *m, uint64_t from_us, uint64_t to_us)
{
    lock(m);
    m->from_us = from_us;
    m->to_us = to_us;
    m->window_good_count = 0;
    m->window_bad_count = 0;
    m->window_waited_count = 0;
    m->window_last_us = 0;
    hdr_reset(m->running);
    unlock(m);
    hdr_reset(m->taken);
    hdr_reset(m->total);
}

void meter_shorten(struct meter *m, uint64_t to_us)
{
    lock(m);
    m->to_us = to_us < m->to_us ? to_us : m->to_us;
    unlock(m);
}

const struct hdr *meter_take(struct meter *m)
{
    hdr_reset(m->taken);
    lock(m);
    struct hdr *full = m->running;
    m->running = m->taken;
    unlock(m);
    m->taken = full;
    hdr_add(m->total, full);
    return full;
}

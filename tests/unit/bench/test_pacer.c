/* The pacer, and with it the proof that a stall cannot hide: simulated time, no clock. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "perf/bench/hdr.h"
#include "perf/bench/pacer.h"

enum {
    SECOND_US = 1000000,
};

Test(bench_pacer, an_even_rate_is_due_at_even_distances)
{
    struct pacer p;
    uint64_t due_us;
    pacer_init(&p, 4, 4);
    pacer_start(&p, 100, 2 * SECOND_US);
    for (uint64_t k = 0; k < 8; k++) {
        cr_assert(pacer_peek(&p, &due_us));
        cr_assert(eq(u64, due_us, 100 + k * 250000));
        cr_assert(eq(u64, pacer_due_count(&p, due_us), k));
        cr_assert(eq(u64, pacer_due_count(&p, due_us + 1), k + 1));
        pacer_take(&p);
    }
    cr_assert(not(pacer_peek(&p, &due_us)));
    cr_assert(eq(u64, pacer_due_count(&p, UINT64_MAX), 8));
    cr_assert(eq(u64, pacer_due_count(&p, 0), 0));
}

/* From 0 to 100 per second in 4 s: 200 in all, half of them in the last 1.17 s. */
Test(bench_pacer, a_ramp_goes_evenly_up_and_down)
{
    static const struct {
        double from;
        double to;
        uint64_t in_first_half;
    } rows[] = {{0, 100, 50}, {100, 0, 150}, {50, 50, 100}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pacer p;
        uint64_t due_us;
        uint64_t last_us = 0;
        uint64_t count = 0;
        uint64_t first_half = 0;
        pacer_init(&p, rows[i].from, rows[i].to);
        pacer_start(&p, 0, 4 * SECOND_US);
        while (pacer_peek(&p, &due_us) && count < 1000) {
            cr_assert(le(u64, last_us, due_us));
            first_half += due_us < 2 * SECOND_US;
            last_us = due_us;
            count++;
            pacer_take(&p);
        }
        cr_assert(eq(u64, count, 200), "%zu", i);
        cr_assert(le(u64, first_half, rows[i].in_first_half + 1), "%zu", i);
        cr_assert(le(u64, rows[i].in_first_half, first_half), "%zu", i);
        cr_assert(eq(u64, pacer_due_count(&p, 4 * SECOND_US), 200), "%zu", i);
    }
}

/* At rates that do not divide a second the mistakes must not add up. */
Test(bench_pacer, uneven_rates_do_not_drift)
{
    struct pacer p;
    uint64_t due_us;
    pacer_init(&p, 333333.3, 333333.3);
    pacer_start(&p, 0, 3600ULL * SECOND_US);
    p.next = 1199999879;
    cr_assert(pacer_peek(&p, &due_us));
    cr_assert(le(u64, due_us, 3600ULL * SECOND_US));
    cr_assert(lt(u64, 3600ULL * SECOND_US - 10, due_us));
    cr_assert(eq(u64, pacer_due_count(&p, 3600ULL * SECOND_US), 1199999880));
}

/* ---- coordinated omission ----
 *
 * A broker that takes 1 ms for each of 1,000 operations a second, and stands still once, from
 * second 5 to second 6 of ten. While it does the sender is held up, too: it sends the operation
 * that is next and is stuck in it. By arithmetic: the 1,000 operations of the stalled second wait
 * between 1 s and nothing, evenly; so of all 10,000 a tenth does, and p90 is still 1 ms, p95 is
 * half a second, p99 900 ms, p99.9 990 ms, and the longest 1,001 ms.
 *
 * A sender that measures from when it sent sees one slow operation of 10,000 and calls p99.9 1 ms.
 */

enum {
    RATE = 1000,
    SERVICE_US = 1000,
    STALL_FROM_US = 5 * SECOND_US,
    STALL_TO_US = 6 * SECOND_US,
    CATCH_UP_US = 1, /* Behind the stall, as fast as it can. */
};

static struct hdr from_due;
static struct hdr from_sent;

static void run_stalled(void)
{
    struct pacer p;
    uint64_t due_us;
    uint64_t now_us = 0;
    hdr_reset(&from_due);
    hdr_reset(&from_sent);
    pacer_init(&p, RATE, RATE);
    pacer_start(&p, 0, 10 * SECOND_US);
    while (pacer_peek(&p, &due_us)) {
        const bool is_late = now_us > due_us;
        const uint64_t sent_us = is_late ? now_us : due_us;
        uint64_t done_us = sent_us + SERVICE_US;
        if (sent_us >= STALL_FROM_US && sent_us < STALL_TO_US) {
            done_us = STALL_TO_US + SERVICE_US;
            now_us = STALL_TO_US; /* Stuck in the send. */
        } else {
            now_us = sent_us + CATCH_UP_US;
        }
        hdr_record(&from_due, done_us - due_us, 1);
        hdr_record(&from_sent, done_us - sent_us, 1);
        pacer_take(&p);
    }
}

static void expect_near(uint64_t got, uint64_t wanted, uint64_t by)
{
    cr_assert(le(u64, got, wanted + by), "%lu, wanted %lu", got, wanted);
    cr_assert(le(u64, wanted - by, got), "%lu, wanted %lu", got, wanted);
}

Test(bench_pacer, a_stall_shows_in_all_that_was_due_meanwhile)
{
    run_stalled();
    cr_assert(eq(u64, from_due.count, 10000));
    cr_assert(eq(u64, hdr_value_at(&from_due, 0.5), SERVICE_US));
    cr_assert(lt(u64, hdr_value_at(&from_due, 0.9), 5000));
    expect_near(hdr_value_at(&from_due, 0.95), 500000, 5000);
    expect_near(hdr_value_at(&from_due, 0.99), 900000, 5000);
    expect_near(hdr_value_at(&from_due, 0.999), 990000, 5000);
    cr_assert(eq(u64, hdr_value_at(&from_due, 1), 1001000));
    /* What the same run looks like when it is measured wrongly. */
    cr_assert(eq(u64, hdr_value_at(&from_sent, 0.999), SERVICE_US));
}

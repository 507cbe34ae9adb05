/* When records were written, found out by reading them. Goal: what is not known is told from what
 * is not there, and one partition in trouble takes nothing from the others. Over a broker that
 * answers from a state (fake_group.h), with a clock that jumps. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "client/client_group.h"

#include "tests/unit/client/fake_group.h"

enum {
    TIMEOUT_MS = 5000,
    RECORD_MS = 1000, /* As fake_group writes them. */
};

static struct fake_group group;
static struct client *client;

static void setup(void)
{
    fake_group_init(&group);
    client = fake_group_client(&group);
}

static void teardown(void)
{
    client_free(client);
    fake_group_done(&group);
}

TestSuite(client_find_times, .init = setup, .fini = teardown);

static void expect(const struct client_time *t, enum err e, int64_t timestamp)
{
    cr_assert(eq(int, t->err, e), "partition %d: %s", (int)t->partition, err_name(t->err));
    cr_assert(eq(i64, t->timestamp, timestamp), "partition %d", (int)t->partition);
}

Test(client_find_times, one_way_each_may_end)
{
    struct client_time times[] = {{.partition = 0, .offset = 1},
                                  {.partition = 1, .offset = 3},
                                  {.partition = 2, .offset = 0},
                                  {.partition = 3, .offset = 0}};
    group.timeless = 1U << 2;
    group.damaged = 1U << 3;
    cr_assert(eq(int, client_find_times(client, "t", times, 4, TIMEOUT_MS), ERR_OK));
    expect(&times[0], ERR_OK, RECORD_MS);
    expect(&times[1], ERR_NOT_FOUND, -1);
    expect(&times[2], ERR_OK, -1);
    expect(&times[3], ERR_CORRUPT, -1);
}

/* Of a broker that is too slow, or away: the time is over, and what was found stays. */
Test(client_find_times, what_is_not_read_in_time_is_not_known)
{
    struct client_time times[] = {{.partition = 0, .offset = 0}, {.partition = 1, .offset = 2}};
    group.stuck = 1U << 0;
    const uint64_t began_us = group.broker.clock.now_us;
    cr_assert(eq(int, client_find_times(client, "t", times, 2, TIMEOUT_MS), ERR_OK));
    expect(&times[0], ERR_TIMED_OUT, -1);
    expect(&times[1], ERR_OK, RECORD_MS);
    cr_assert(le(u64, group.broker.clock.now_us - began_us, (TIMEOUT_MS + 1000) * (uint64_t)1000));
}

/* Who has all his answers does not wait for what has none. */
Test(client_find_times, records_without_a_time_do_not_hold_it_up)
{
    struct client_time times[] = {{.partition = 0, .offset = 0}};
    group.timeless = 1U << 0;
    const uint64_t began_us = group.broker.clock.now_us;
    cr_assert(eq(int, client_find_times(client, "t", times, 1, TIMEOUT_MS), ERR_OK));
    expect(&times[0], ERR_OK, -1);
    cr_assert(lt(u64, group.broker.clock.now_us - began_us, TIMEOUT_MS * (uint64_t)1000 / 2));
}

#include "tests/unit/client/member_rig.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

struct fake_group group;
struct client *client;
struct client_member *member;
static const char *const topics[] = {"t"};
char told[1024];
struct client_member_options options;

const struct client_topic_partition t0 = {"t", 0};
const struct client_topic_partition t1 = {"t", 1};

static void tell(char sign, const struct client_topic_partition *partitions, size_t count)
{
    char text[64];
    for (size_t i = 0; i < count; i++) {
        cr_assert(strcmp(partitions[i].topic, "t") == 0);
        (void)snprintf(text, sizeof(text), "%c%d ", sign, partitions[i].partition);
        (void)strncat(told, text, sizeof(told) - strlen(told) - 1);
    }
}

void on_assigned(struct client_member *m,
                 const struct client_topic_partition *partitions,
                 size_t count,
                 void *context)
{
    (void)m;
    (void)context;
    tell('+', partitions, count);
}

void on_revoked(struct client_member *m,
                const struct client_topic_partition *partitions,
                size_t count,
                void *context)
{
    (void)m;
    (void)context;
    tell('-', partitions, count);
}

void on_lost(struct client_member *m,
             const struct client_topic_partition *partitions,
             size_t count,
             void *context)
{
    (void)m;
    (void)context;
    tell('!', partitions, count);
}

void on_committed(enum err e, const char *why, void *context)
{
    (void)why;
    (void)context;
    (void)strncat(told, e == ERR_OK ? "ok " : "no ", sizeof(told) - strlen(told) - 1);
}

void member_rig_setup(void)
{
    fake_group_init(&group);
    client = fake_group_client(&group);
    member = NULL;
    told[0] = '\0';
    options = (struct client_member_options){
        .group = "g",
        .topics = topics,
        .topics_count = 1,
        .reading.reset = CLIENT_RESET_START,
        .on_assigned = on_assigned,
        .on_revoked = on_revoked,
        .on_lost = on_lost,
    };
}

void member_rig_teardown(void)
{
    client_member_free(member);
    member = NULL;
    client_free(client);
    fake_group_done(&group);
}

void expect_told(const char *wanted)
{
    cr_assert(strcmp(told, wanted) == 0, "told '%s', wanted '%s'", told, wanted);
    told[0] = '\0';
}

void expect_record(int32_t partition, int64_t offset)
{
    struct client_record r;
    enum err e = client_member_next(member, WAIT_MS, &r);
    cr_assert(e == ERR_OK, "%d@%d: %s", partition, (int)offset, client_why(client));
    cr_assert(eq(i32, r.partition, partition));
    cr_assert(eq(i64, r.offset, offset));
    cr_assert(strcmp(r.topic, "t") == 0);
}

void expect_nothing(enum err wanted)
{
    struct client_record r;
    enum err e = client_member_next(member, WAIT_MS, &r);
    cr_assert(eq(int, e, wanted), "%s", client_why(client));
}

void start(void)
{
    enum err e = client_member_new(client, &options, &member);
    cr_assert(e == ERR_OK, "%s", client_why(client));
}

void start_with(uint32_t partitions)
{
    fake_group_assign(&group, 1, partitions);
    start();
    for (int32_t i = 0; i < FAKE_GROUP_PARTITIONS; i++) {
        for (int64_t offset = 0; (partitions & (1U << i)) && offset < group.ends[i]; offset++) {
            expect_record(i, offset);
        }
    }
    expect_nothing(ERR_TIMED_OUT);
    group.trace_size = 0;
    told[0] = '\0';
}

/* A member over a group that the test plays (fake_group.h), and what its callbacks were told: for
 * tests of members. */
#pragma once

#include "client/client_group.h"
#include "client/client_member.h"

#include "tests/unit/client/fake_group.h"

enum {
    WAIT_MS = 400, /* Less than a request may take: nobody gives up. */
    SECOND_US = 1000000,
};

extern struct fake_group group;
extern struct client *client;
extern struct client_member *member;
extern struct client_member_options options; /* Of the member that is to come. */
extern char told[1024];                      /* What callbacks were told: "+0,1 -1 !0 ok no ". */

extern const struct client_topic_partition t0;
extern const struct client_topic_partition t1;

void member_rig_setup(void);
void member_rig_teardown(void);

/* The callbacks of options: they only tell. */
void on_assigned(struct client_member *m,
                 const struct client_topic_partition *partitions,
                 size_t count,
                 void *context);
void on_revoked(struct client_member *m,
                const struct client_topic_partition *partitions,
                size_t count,
                void *context);
void on_lost(struct client_member *m,
             const struct client_topic_partition *partitions,
             size_t count,
             void *context);
/* Of a commit. */
void on_committed(enum err e, const char *why, void *context);

/* Compares what was told since the last look, and forgets it. */
void expect_told(const char *wanted);
void expect_record(int32_t partition, int64_t offset);
void expect_nothing(enum err wanted);

void start(void);
/* A member that has read its partitions up to the end, and was quiet since. */
void start_with(uint32_t partitions);

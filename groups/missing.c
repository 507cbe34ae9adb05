/* Modules that are being written: each goes when it is there. */
#include <stdlib.h>

#include "core/assert.h"
#include "groups/consumer.h"
#include "groups/group.h"

/* ---- consumer ---- */

void consumer_classic_join(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

void consumer_classic_sync(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

void consumer_classic_heartbeat(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

void consumer_classic_leave(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

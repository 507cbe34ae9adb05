/* Modules that are being written: each goes when it is there. */
#include <stdlib.h>

#include "core/assert.h"
#include "groups/consumer.h"
#include "groups/group.h"
#include "groups/offsets.h"

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

/* ---- offsets ---- */

void offsets_commit(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

void offsets_fetch(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

void offsets_delete(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

void offsets_delete_group(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

enum err offsets_apply(struct coordinator *c, int16_t type, struct slice key, struct slice value)
{
    (void)c;
    (void)type;
    (void)key;
    (void)value;
    return ERR_OK;
}

void offsets_activate(struct group *g)
{
    (void)g;
}

void offsets_resign(struct group *g)
{
    (void)g;
}

void offsets_on_metadata(struct group *g)
{
    (void)g;
}

void offsets_free(struct group *g)
{
    (void)g;
}

uint64_t offsets_digest(const struct group *g)
{
    (void)g;
    return 0;
}

void offsets_check(const struct group *g)
{
    (void)g;
}

void offsets_for_each(const struct group *g,
                      void (*visit)(void *context, const struct committed_offset *o),
                      void *context)
{
    (void)g;
    (void)visit;
    (void)context;
}

uint64_t offsets_count(const struct group *g)
{
    (void)g;
    return 0;
}

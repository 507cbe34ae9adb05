/* Modules that are being written: each goes when it is there. */
#include <stdlib.h>

#include "core/assert.h"
#include "groups/classic.h"
#include "groups/consumer.h"
#include "groups/group.h"
#include "groups/offsets.h"

/* ---- classic ---- */

void classic_join(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

void classic_sync(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

void classic_heartbeat(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

void classic_leave(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

void classic_describe(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

enum err classic_apply(struct coordinator *c, int16_t type, struct slice key, struct slice value)
{
    (void)c;
    (void)type;
    (void)key;
    (void)value;
    return ERR_OK;
}

void classic_activate(struct group *g)
{
    (void)g;
}

void classic_resign(struct group *g)
{
    (void)g;
}

void classic_free(struct group *g)
{
    (void)g;
}

uint64_t classic_digest(const struct group *g)
{
    (void)g;
    return 0;
}

void classic_check(const struct group *g)
{
    (void)g;
}

const char *classic_state_name(const struct group *g)
{
    (void)g;
    return "";
}

bool classic_has_members(const struct group *g)
{
    (void)g;
    return false;
}

struct slice classic_protocol_type(const struct group *g)
{
    (void)g;
    return (struct slice){0};
}

enum kafka_error
classic_check_commit(struct group *g, const struct offset_commit_request *in, int16_t version)
{
    (void)g;
    (void)in;
    (void)version;
    return KAFKA_NONE;
}

bool classic_is_subscribed(const struct group *g, struct slice topic)
{
    (void)g;
    (void)topic;
    return false;
}

int64_t classic_empty_since_ms(const struct group *g)
{
    (void)g;
    return 0;
}

void classic_put_tombstones(const struct group *g, struct proposal *p)
{
    (void)g;
    (void)p;
}

/* ---- consumer ---- */

void consumer_heartbeat(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

void consumer_describe(struct group *g, struct group_call *call)
{
    (void)g;
    (void)call;
    group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}

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

enum err consumer_apply(struct coordinator *c, int16_t type, struct slice key, struct slice value)
{
    (void)c;
    (void)type;
    (void)key;
    (void)value;
    return ERR_OK;
}

void consumer_activate(struct group *g)
{
    (void)g;
}

void consumer_resign(struct group *g)
{
    (void)g;
}

void consumer_on_metadata(struct group *g)
{
    (void)g;
}

void consumer_free(struct group *g)
{
    (void)g;
}

uint64_t consumer_digest(const struct group *g)
{
    (void)g;
    return 0;
}

void consumer_check(const struct group *g)
{
    (void)g;
}

const char *consumer_state_name(const struct group *g)
{
    (void)g;
    return "";
}

bool consumer_has_members(const struct group *g)
{
    (void)g;
    return false;
}

enum kafka_error consumer_check_commit(struct group *g,
                                       struct slice member_id,
                                       int32_t member_epoch,
                                       int16_t version)
{
    (void)g;
    (void)member_id;
    (void)member_epoch;
    (void)version;
    return KAFKA_NONE;
}

enum kafka_error consumer_check_commit_partition(const struct group *g,
                                                 struct slice member_id,
                                                 int32_t member_epoch,
                                                 const struct partition_id *id)
{
    (void)g;
    (void)member_id;
    (void)member_epoch;
    (void)id;
    return KAFKA_NONE;
}

enum kafka_error
consumer_check_fetch(const struct group *g, struct slice member_id, int32_t member_epoch)
{
    (void)g;
    (void)member_id;
    (void)member_epoch;
    return KAFKA_NONE;
}

bool consumer_is_subscribed(const struct group *g, struct slice topic)
{
    (void)g;
    (void)topic;
    return false;
}

void consumer_put_tombstones(const struct group *g, struct proposal *p)
{
    (void)g;
    (void)p;
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

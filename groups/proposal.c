#include "groups/proposal.h"

#include <stdlib.h>

#include "core/assert.h"
#include "groups/group_priv.h"

struct proposal *proposal_new(struct group *g,
                              enum proposal_class class,
                              void (*on_applied)(struct proposal *p, enum err e))
{
    struct proposal *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    list_init(&p->link);
    p->c = g->c;
    p->g = g;
    p->class = class;
    p->on_applied = on_applied;
    batch_builder_init_in_place(&p->builder, PROPOSAL_SIZE_MAX);
    wbuf_init(&p->batch, PROPOSAL_SIZE_MAX);
    return p;
}

void proposal_put(struct proposal *p, struct slice key, struct slice value)
{
    const struct batch_record record = {
        .timestamp = p->c->time.wall_ms,
        .key = key,
        .value = value,
    };
    const enum err e = batch_builder_add(&p->builder, &record);
    if (p->failure == ERR_OK) {
        p->failure = e;
    }
}

void proposal_submit(struct proposal *p)
{
    static const struct batch_identity NOBODY = {-1, -1, -1};
    assert(p->failure != ERR_OK || p->builder.records_count > 0);
    if (p->failure != ERR_OK) {
        p->on_applied(p, p->failure);
        proposal_free(p);
        return;
    }
    batch_builder_take(&p->builder, &NOBODY, &p->batch);
    group_on_proposed(p);
    list_push_back(&p->c->proposals, &p->link);
    p->c->env->append(p->c->env->context, p->c, p);
}

void proposal_free(struct proposal *p)
{
    list_remove(&p->link);
    batch_builder_done(&p->builder);
    wbuf_done(&p->batch);
    free(p);
}

struct slice proposal_batch(const struct proposal *p)
{
    return wbuf_slice(&p->batch);
}

enum kafka_error proposal_error(enum err e)
{
    if (e == ERR_OK) {
        return KAFKA_NONE;
    }
    if (e == ERR_TOO_LARGE) {
        return KAFKA_UNKNOWN_SERVER_ERROR;
    }
    const bool is_gone = e == ERR_NOT_LEADER || e == ERR_FAILED || e == ERR_CANCELLED;
    return is_gone ? KAFKA_NOT_COORDINATOR : KAFKA_COORDINATOR_NOT_AVAILABLE;
}

#include "cluster/cluster.h"

#include <stdlib.h>

#include "cluster/cluster_priv.h"
#include "cluster/controller.h"
#include "cluster/controller_driver.h"
#include "cluster/internal_topics.h"
#include "cluster/memory.h"
#include "cluster/placement.h"
#include "core/assert.h"

/* ---- partition operations ---- */

static void serve_op(struct shard *here, struct xmsg *m)
{
    struct partition_op *op = container_of(m, struct partition_op, msg);
    struct cluster *c = op->server;
    assert(c->s == here);
    struct partition *p = partition_table_find(&c->partitions, &op->id);
    if (p == NULL || c->is_stopping) {
        op->offsets = (struct partition_offsets){-1, -1, -1, -1, -1};
        partition_op_finish(here, op, c->is_stopping ? ERR_CANCELLED : ERR_NOT_FOUND);
        return;
    }
    partition_serve(p, op);
}

static void tell_copied(struct partition_op *op)
{
    if (op->kind == PARTITION_PRODUCE && !op->is_copied && op->in.produce.on_copied != NULL) {
        op->is_copied = true;
        op->in.produce.on_copied(op);
    }
}

static void copied_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    tell_copied(container_of(m, struct partition_op, copied_msg));
}

/* A batch that was refused was never copied: its bytes are free now. */
static void op_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    struct partition_op *op = container_of(m, struct partition_op, msg);
    tell_copied(op);
    op->on_done(op);
}

void cluster_partition_submit(struct cluster *c, struct partition_op *op)
{
    assert_cmp(op->id.partition, >=, 0);
    const uint16_t home = c->s->id;
    const uint16_t owner = placement_shard(&op->id, c->set->shards_count);
    op->server = c->set->clusters[owner];
    op->route[0] = (struct xmsg_hop){.shard = owner, .run = serve_op};
    op->route[1] = (struct xmsg_hop){.shard = home, .run = op_home};
    op->copied_route = (struct xmsg_hop){.shard = home, .run = copied_home};
    op->msg.next_hop = op->route;
    op->is_copied = false;
    list_init(&op->link);
    xmsg_send(c->s, &op->msg);
}

static void serve_cancel(struct shard *here, struct xmsg *m)
{
    struct partition_cancel *cancel = container_of(m, struct partition_cancel, msg);
    struct cluster *c = cancel->server;
    struct partition *p = partition_table_find(&c->partitions, &cancel->id);
    if (p != NULL) {
        partition_cancel_op(p, cancel->target);
    }
    xmsg_forward(here, &cancel->msg);
}

static void cancel_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    struct partition_cancel *cancel = container_of(m, struct partition_cancel, msg);
    cancel->on_done(cancel);
}

void cluster_partition_cancel(struct cluster *c, struct partition_cancel *cancel)
{
    cancel->id = cancel->target->id;
    const uint16_t owner = placement_shard(&cancel->id, c->set->shards_count);
    cancel->server = c->set->clusters[owner];
    cancel->route[0] = (struct xmsg_hop){.shard = owner, .run = serve_cancel};
    cancel->route[1] = (struct xmsg_hop){.shard = c->s->id, .run = cancel_home};
    cancel->msg.next_hop = cancel->route;
    xmsg_send(c->s, &cancel->msg);
}

/* ---- controller requests ---- */

static void serve_request(struct shard *here, struct xmsg *m)
{
    struct controller_request *r = container_of(m, struct controller_request, msg);
    struct cluster *c = r->server;
    assert(c->s == here);
    if (c->controller == NULL) {
        r->result = ERR_CANCELLED; /* Stopped. */
        xmsg_forward(here, &r->msg);
        return;
    }
    controller_driver_serve(c->controller, r);
}

static void request_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    struct controller_request *r = container_of(m, struct controller_request, msg);
    r->on_done(r);
}

void controller_submit(struct cluster *c, struct controller_request *r)
{
    r->server = c->set->clusters[0];
    r->route[0] = (struct xmsg_hop){.shard = 0, .run = serve_request};
    r->route[1] = (struct xmsg_hop){.shard = c->s->id, .run = request_home};
    r->msg.next_hop = r->route;
    r->message[0] = '\0';
    list_init(&r->link);
    xmsg_send(c->s, &r->msg);
}

/* ---- the set ---- */

enum err cluster_set_new(const struct cluster_settings *settings,
                         uint16_t shards_count,
                         struct cluster_set **ret_set)
{
    if (shards_count == 0 || shards_count > SHARDS_MAX) {
        return ERR_INVALID;
    }
    struct cluster_set *set = memory_alloc(sizeof(*set));
    set->settings = settings;
    set->shards_count = shards_count;
    for (uint16_t i = 0; i < shards_count; i++) {
        /* One allocation each: shards do not share cache lines. */
        struct cluster *c = memory_alloc(sizeof(*c));
        c->set = set;
        c->settings = settings;
        list_init(&c->applying);
        timer_init(&c->drain_timer, shard_state_drained);
        set->clusters[i] = c;
    }
    *ret_set = set;
    return ERR_OK;
}

void cluster_set_free(struct cluster_set *set)
{
    if (set == NULL) {
        return;
    }
    for (uint16_t i = 0; i < set->shards_count; i++) {
        struct cluster *c = set->clusters[i];
        assert(c->dirs == NULL);
        assert(c->controller == NULL);
        partition_table_done(&c->partitions);
        free(c);
    }
    free(set);
}

struct cluster *cluster_set_get(struct cluster_set *set, uint16_t shard_id)
{
    assert_cmp(shard_id, <, set->shards_count);
    return set->clusters[shard_id];
}

static void check_partition(void *context, struct partition *p)
{
    (void)context;
    partition_check(p);
}

void cluster_check(struct cluster *c)
{
    if (c->metadata == NULL) {
        return; /* Not started, or stopped. */
    }
    metadata_check(c->metadata);
    partition_table_each(&c->partitions, NULL, check_partition);
    if (c->controller != NULL) {
        controller_check(controller_driver_engine(c->controller));
    }
}

const struct metadata *cluster_metadata(const struct cluster *c)
{
    return c->metadata;
}

int64_t cluster_broker_number(const struct cluster *c, const char *name, int64_t otherwise)
{
    const char *value = metadata_broker_config(c->metadata, name);
    struct topic_config spec;
    if (value == NULL) {
        return otherwise;
    }
    const bool is_known = config_spec_find(CONFIG_RESOURCE_BROKER, slice_of_string(name), &spec);
    assert(is_known);
    return topic_config_number(&spec, value);
}

const struct internal_topic *cluster_internal_topic(const struct cluster *c, struct slice name)
{
    return internal_topic_find(c->settings, name);
}

struct topic_config_set cluster_topic_configs(const struct cluster *c, const struct topic *t)
{
    return metadata_topic_configs(c->metadata, t);
}

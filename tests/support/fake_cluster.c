#include "tests/support/fake_cluster.h"

#include <string.h>

#include "cluster/internal_topics.h"
#include "cluster/metadata_edit.h"
#include "core/assert.h"

void fake_cluster_init(struct cluster *c)
{
    *c = (struct cluster){0};
    cluster_settings_init(&c->settings);
    c->settings.node_id = 1;
    c->metadata = metadata_new(&c->settings, 1, 1);
    metadata_set_leader_epoch(c->metadata, 5);
}

void fake_cluster_done(struct cluster *c)
{
    assert_cmp(c->ops_count, ==, 0);
    assert_cmp(c->cancels_count, ==, 0);
    assert_cmp(c->requests_count, ==, 0);
    assert_cmp(c->follows_count, ==, 0);
    metadata_free(c->metadata);
}

void fake_cluster_add_topic(struct cluster *c, const char *name, int32_t partitions_count)
{
    struct command_topic_created created = {
        .name = slice_of_string(name),
        .partitions_count = partitions_count,
        .replication_factor = 1,
    };
    memset(created.id.bytes, name[0], sizeof(created.id.bytes));
    const struct topic *t = NULL;
    enum err e = metadata_add_topic(c->metadata, &created, &t);
    assert(e == ERR_OK);
}

const struct metadata *cluster_metadata(const struct cluster *c)
{
    return c->metadata;
}

const struct internal_topic *cluster_internal_topic(const struct cluster *c, struct slice name)
{
    return internal_topic_find(&c->settings, name);
}

struct topic_config_set cluster_topic_configs(const struct cluster *c, const struct topic *t)
{
    return metadata_topic_configs(cluster_metadata(c), t);
}

int64_t cluster_broker_number(const struct cluster *c, const char *name, int64_t otherwise)
{
    (void)c;
    (void)name;
    return otherwise;
}

bool cluster_serves_directory(const struct cluster *c, const struct uuid *id)
{
    (void)c;
    (void)id;
    return true;
}

uint32_t cluster_log_dirs(struct cluster *c, struct cluster_log_dir ret[CLUSTER_LOG_DIRS_MAX])
{
    (void)c;
    ret[0] = (struct cluster_log_dir){.path = "/data", .usable_size = -1};
    return 1;
}

void cluster_partition_submit(struct cluster *c, struct partition_op *op)
{
    assert(op->on_done != NULL);
    assert_cmp(c->ops_count, <, FAKE_OPS_MAX);
    for (uint32_t i = 0; i < c->ops_count; i++) {
        assert(c->ops[i] != op);
    }
    c->ops[c->ops_count++] = op;
}

void cluster_partition_cancel(struct cluster *c, struct partition_cancel *cancel)
{
    assert_cmp(c->cancels_count, <, FAKE_OPS_MAX);
    c->cancels[c->cancels_count++] = cancel;
}

void partition_follow_begin(struct cluster *c, struct partition_follow *f)
{
    assert_cmp(c->follows_count, <, FAKE_FOLLOWS_MAX);
    c->follows[c->follows_count++] = f;
}

void partition_follow_stop(struct partition_follow *f)
{
    f->is_stopping = true;
}

void controller_submit(struct cluster *c, struct controller_request *r)
{
    assert_cmp(c->requests_count, <, FAKE_OPS_MAX);
    c->requests[c->requests_count++] = r;
}

struct partition_op *fake_cluster_op(struct cluster *c, int32_t partition)
{
    struct partition_op *found = NULL;
    for (uint32_t i = 0; i < c->ops_count; i++) {
        if (c->ops[i]->id.partition == partition) {
            assert(found == NULL);
            found = c->ops[i];
        }
    }
    assert(found != NULL);
    return found;
}

void fake_cluster_end_op_at(struct cluster *c,
                            struct partition_op *op,
                            enum err result,
                            const struct partition_offsets *offsets)
{
    uint32_t i = 0;
    while (i < c->ops_count && c->ops[i] != op) {
        i++;
    }
    assert_cmp(i, <, c->ops_count);
    memmove(&c->ops[i], &c->ops[i + 1], (c->ops_count - i - 1) * sizeof(c->ops[0]));
    c->ops_count--;
    op->result = result;
    op->offsets = *offsets;
    op->on_done(op);
}

void fake_cluster_end_op(struct cluster *c, struct partition_op *op, enum err result, int64_t high)
{
    const struct partition_offsets offsets = {
        .high_watermark = high,
        .last_stable_offset = high,
        .log_end_offset = high,
        .leader_epoch = 5,
    };
    fake_cluster_end_op_at(c, op, result, &offsets);
}

void fake_cluster_end_cancel(struct cluster *c)
{
    assert_cmp(c->cancels_count, >, 0);
    struct partition_cancel *cancel = c->cancels[0];
    c->cancels_count--;
    memmove(&c->cancels[0], &c->cancels[1], c->cancels_count * sizeof(c->cancels[0]));
    for (uint32_t i = 0; i < c->ops_count; i++) {
        if (c->ops[i] == cancel->target && c->ops[i]->kind == PARTITION_WAIT) {
            fake_cluster_end_op(c, c->ops[i], ERR_CANCELLED, c->ops[i]->in.wait.high_watermark);
            break;
        }
    }
    cancel->on_done(cancel);
}

void fake_cluster_end_follow(struct cluster *c)
{
    assert_cmp(c->follows_count, >, 0);
    struct partition_follow *f = c->follows[0];
    assert(f->is_stopping);
    c->follows_count--;
    memmove(&c->follows[0], &c->follows[1], c->follows_count * sizeof(c->follows[0]));
    f->on_end(f, ERR_CANCELLED);
}

void fake_cluster_end_request(struct cluster *c, enum err result)
{
    assert_cmp(c->requests_count, >, 0);
    struct controller_request *r = c->requests[0];
    c->requests_count--;
    memmove(&c->requests[0], &c->requests[1], c->requests_count * sizeof(c->requests[0]));
    r->result = result;
    r->on_done(r);
}

/* Starting and stopping a broker, as one task on shard 0:
 *
 *   IDLE -> WAIT_CLUSTER -> WAIT_OPEN -> RUNNING -> WAIT_QUIET -> WAIT_FLUSHED -> WAIT_CLOSED ->
 * OVER |                |                        ^
 *             +----------------+------------------------+    start failed, then broker_stop
 *
 * What has to be done on every shard (open, quiet, close) goes out as a message to each and comes
 * home; open goes from shard to shard, since shard 0 must bind a port before the others may.
 */
#include "broker/wiring.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/admin.h"
#include "cluster/cluster.h"
#include "core/assert.h"
#include "core/logger.h"
#include "core/shard.h"
#include "core/sm.h"
#include "core/xmsg.h"
#include "groups/groups.h"
#include "kafka/dispatch.h"
#include "net/conn.h"
#include "storage/data_dir.h"
#include "storage/recycle.h"
#include "storage/space.h"

enum broker_state {
    BROKER_IDLE,
    BROKER_WAIT_CLUSTER,
    BROKER_WAIT_OPEN,
    BROKER_RUNNING,
    BROKER_FAILED, /* The start ended with an error. */
    BROKER_WAIT_ADMIN,
    BROKER_WAIT_QUIET,
    BROKER_WAIT_FLUSHED,
    BROKER_WAIT_CLOSED,
    BROKER_OVER,
    BROKER_STATE_COUNT,
};

static const struct sm_state broker_states[BROKER_STATE_COUNT] = {
    [BROKER_IDLE] = {"IDLE", SM_BIT(BROKER_WAIT_CLUSTER) | SM_BIT(BROKER_FAILED)},
    [BROKER_WAIT_CLUSTER] = {"WAIT_CLUSTER", SM_BIT(BROKER_WAIT_OPEN) | SM_BIT(BROKER_FAILED)},
    [BROKER_WAIT_OPEN] = {"WAIT_OPEN", SM_BIT(BROKER_RUNNING) | SM_BIT(BROKER_FAILED)},
    [BROKER_RUNNING] = {"RUNNING", SM_BIT(BROKER_WAIT_ADMIN)},
    [BROKER_FAILED] = {"FAILED", SM_BIT(BROKER_WAIT_ADMIN)},
    [BROKER_WAIT_ADMIN] = {"WAIT_ADMIN", SM_BIT(BROKER_WAIT_QUIET)},
    [BROKER_WAIT_QUIET] = {"WAIT_QUIET", SM_BIT(BROKER_WAIT_FLUSHED) | SM_BIT(BROKER_WAIT_CLOSED)},
    [BROKER_WAIT_FLUSHED] = {"WAIT_FLUSHED", SM_BIT(BROKER_WAIT_CLOSED)},
    [BROKER_WAIT_CLOSED] = {"WAIT_CLOSED", SM_BIT(BROKER_OVER)},
    [BROKER_OVER] = {"OVER", 0},
};

/* What one shard has to serve clients. Touched by that shard only, but for the message, which is at
 * home on shard 0. */
struct front {
    struct broker *b;
    struct shard *s;
    struct transport *transport;
    struct dispatch *dispatch;
    struct conn_server *server;

    struct xmsg msg;
    struct xmsg_hop route[2];
    enum err result;
    char why[BROKER_WHY_SIZE];
};

struct broker {
    uint8_t state; /* enum broker_state */
    struct broker_options options;
    struct broker_settings settings; /* With what was found at start. */
    struct shard *s;                 /* Shard 0. */

    struct data_dir data_dirs[CLUSTER_DATA_DIRS_MAX];            /* The one with group 0 first. */
    uint32_t data_dirs_count;                                    /* Locked. */
    struct cluster_data_dir cluster_dirs[CLUSTER_DATA_DIRS_MAX]; /* For settings.cluster. */
    struct cluster_set *clusters;
    struct groups_set *groups;
    struct dispatch_settings dispatch_settings;
    struct net_address advertised[LISTENERS_MAX];

    struct admin *admin; /* NULL = none. */
    struct front *fronts;
    uint16_t fronts_count;
    uint16_t fronts_pending; /* Messages that are not home. */

    void *context;
    broker_started_fn *on_started;
    broker_stopped_fn *on_stopped;
    char why[BROKER_WHY_SIZE];
    enum err result;
    struct task report; /* Results are told from the loop, never inside broker_start. */
};

static void move(struct broker *b, enum broker_state to)
{
    sm_move(broker_states, &b->state, (uint8_t)to);
}

static void on_home(struct shard *here, struct xmsg *m);

/* Runs `run` on the shard of that index; it comes home by go_home. */
static void
send_front(struct broker *b, uint16_t index, void (*run)(struct shard *here, struct xmsg *m))
{
    struct front *f = &b->fronts[index];
    f->result = ERR_OK;
    f->route[0] = (struct xmsg_hop){.shard = index, .run = run};
    f->route[1] = (struct xmsg_hop){.shard = 0, .run = on_home};
    f->msg.next_hop = f->route;
    b->fronts_pending++;
    xmsg_send(b->s, &f->msg);
}

static void go_home(struct front *f, enum err e)
{
    f->result = e;
    xmsg_forward(f->s, &f->msg);
}

/* ---- on every shard: open, quiet, close ---- */

/* Binds the shard's listeners; shard 0 is first and leaves the ports it got in the settings. */
static enum err listen_all(struct front *f)
{
    struct broker *b = f->b;
    char why[NET_WHY_SIZE];
    for (uint32_t i = 0; i < b->settings.listeners_count; i++) {
        struct listener_settings *l = &b->settings.listeners[i];
        uint16_t port = 0;
        enum err e = conn_server_listen(f->server, &l->bind, i, &port, why);
        if (e != ERR_OK) {
            (void)snprintf(f->why, sizeof(f->why), "listener %s: %s", l->name, why);
            return e;
        }
        if (f->s->id == 0) {
            l->bind.port = port;
            b->advertised[i] = l->advertised;
            if (b->advertised[i].port == 0) {
                b->advertised[i].port = port;
            }
        }
    }
    return ERR_OK;
}

/* Shard 0 has its transport already, for the admin server. */
static enum err open_transport(struct front *f)
{
    struct broker *b = f->b;
    (void)snprintf(f->why, sizeof(f->why), "not enough memory for connections");
    if (f->transport != NULL) {
        return ERR_OK;
    }
    return b->options.transport_new(b->options.context, f->s, &f->transport);
}

/* max.connections, as it may have been altered. */
static void limit_conns(struct front *f, struct cluster *c)
{
    const struct broker *b = f->b;
    const int64_t altered = cluster_broker_number(c, "max.connections", 0);
    const uint32_t share = (uint32_t)((altered + b->fronts_count - 1) / b->fronts_count);
    if (f->server != NULL) {
        conn_server_set_conns_max(f->server,
                                  altered > 0 ? share : b->settings.kafka_limits.conns_max);
    }
}

static void on_broker_altered(void *context, struct shard *here, struct cluster *c)
{
    struct broker *b = context;
    limit_conns(&b->fronts[here->id], c);
}

static void on_metadata(void *context, struct shard *here)
{
    struct broker *b = context;
    groups_on_metadata(groups_set_get(b->groups, here->id));
}

static enum err open_front(struct front *f)
{
    struct broker *b = f->b;
    enum err e = open_transport(f);
    if (e != ERR_OK) {
        return e;
    }
    struct groups *groups = groups_set_get(b->groups, f->s->id);
    groups_start(groups, f->s, cluster_set_get(b->clusters, f->s->id));
    e = dispatch_new(
        &(struct dispatch_options){
            .s = f->s,
            .cluster = cluster_set_get(b->clusters, f->s->id),
            .groups = groups,
            .settings = &b->dispatch_settings,
        },
        &f->dispatch);
    if (e != ERR_OK) {
        return e;
    }
    e = conn_server_new(
        &(struct conn_server_options){
            .shard = f->s,
            .transport = f->transport,
            .limits = b->settings.kafka_limits,
            .handler = dispatch_conn_handler(f->dispatch),
            .stats_labels = "server=\"kafka\"",
        },
        &f->server);
    if (e != ERR_OK) {
        return e;
    }
    limit_conns(f, cluster_set_get(b->clusters, f->s->id));
    return listen_all(f);
}

static void run_open(struct shard *here, struct xmsg *m)
{
    struct front *f = container_of(m, struct front, msg);
    f->s = here;
    go_home(f, open_front(f));
}

static void on_conns_stopped(void *context)
{
    go_home(context, ERR_OK);
}

static void run_quiet(struct shard *here, struct xmsg *m)
{
    struct front *f = container_of(m, struct front, msg);
    f->s = here;
    here->is_stopping = true;
    if (f->dispatch != NULL) {
        dispatch_stop(f->dispatch);
    }
    if (f->b->groups != NULL) {
        groups_quiesce(groups_set_get(f->b->groups, here->id));
    }
    if (f->b->clusters != NULL) {
        cluster_quiesce(
            cluster_set_get(f->b->clusters, here->id)); /* The server waits for answers. */
    }
    if (f->server == NULL) {
        go_home(f, ERR_OK);
        return;
    }
    conn_server_stop(f->server, f, on_conns_stopped);
}

static void run_close(struct shard *here, struct xmsg *m)
{
    struct front *f = container_of(m, struct front, msg);
    conn_server_free(f->server);
    dispatch_free(f->dispatch);
    if (f->b->groups != NULL) {
        groups_stop(groups_set_get(f->b->groups, here->id));
    }
    if (f->transport != NULL) {
        f->transport->ops->destroy(f->transport);
    }
    f->server = NULL;
    f->dispatch = NULL;
    f->transport = NULL;
    go_home(f, ERR_OK);
}

/* ---- the task ---- */

static void report_start(struct broker *b, enum broker_state state, enum err e)
{
    move(b, state);
    b->result = e;
    shard_post(b->s, &b->report);
}

static void send_all_fronts(struct broker *b, void (*run)(struct shard *here, struct xmsg *m))
{
    for (uint16_t i = 0; i < b->fronts_count; i++) {
        send_front(b, i, run);
    }
}

static void on_cluster_stopped(void *context)
{
    struct broker *b = context;
    move(b, BROKER_WAIT_CLOSED);
    send_all_fronts(b, run_close);
}

/* Shard after shard, until all are open or one failed. */
static void end_open(struct broker *b, const struct front *f)
{
    const uint16_t next = (uint16_t)(f - b->fronts + 1);
    if (f->result != ERR_OK) {
        memcpy(b->why, f->why, sizeof(b->why));
        report_start(b, BROKER_FAILED, f->result);
    } else if (next < b->fronts_count) {
        send_front(b, next, run_open);
    } else {
        report_start(b, BROKER_RUNNING, ERR_OK);
    }
}

static void end_quiet(struct broker *b)
{
    if (b->clusters == NULL) {
        move(b, BROKER_WAIT_CLOSED);
        send_all_fronts(b, run_close);
        return;
    }
    move(b, BROKER_WAIT_FLUSHED);
    cluster_stop(b->clusters, b->s, b, on_cluster_stopped);
}

static void end_close(struct broker *b)
{
    admin_free(b->admin);
    b->admin = NULL;
    data_dirs_close(b->s, b->data_dirs, b->data_dirs_count);
    b->data_dirs_count = 0;
    move(b, BROKER_OVER);
    shard_post(b->s, &b->report);
}

static void on_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    struct front *f = container_of(m, struct front, msg);
    struct broker *b = f->b;
    assert_cmp(b->fronts_pending, >, 0);
    b->fronts_pending--;
    if (b->state == BROKER_WAIT_OPEN) {
        end_open(b, f);
    } else if (b->fronts_pending > 0) {
        return;
    } else if (b->state == BROKER_WAIT_QUIET) {
        end_quiet(b);
    } else {
        assert_cmp(b->state, ==, BROKER_WAIT_CLOSED);
        end_close(b);
    }
}

static void on_cluster_started(void *context, enum err e, const char *why)
{
    struct broker *b = context;
    if (e != ERR_OK) {
        (void)snprintf(b->why, sizeof(b->why), "%s", why);
        report_start(b, BROKER_FAILED, e);
        return;
    }
    move(b, BROKER_WAIT_OPEN);
    send_front(b, 0, run_open);
}

static uint64_t reserve_of(const struct broker *b, const struct data_dir *d)
{
    const uint64_t asked_size = b->settings.space_reserve_size;
    return asked_size != 0 ? asked_size : space_reserve_default(d->fs.size);
}

static uint64_t recycle_of(const struct broker *b, const struct data_dir *d)
{
    const uint64_t asked_size = b->settings.recycle_size_max;
    const uint64_t size_max = recycle_size_max(asked_size, d->fs.size, b->s->shards_count);
    if (asked_size > 0 && size_max < RECYCLE_SEGMENT_SIZE) {
        log_info(b->s->log,
                 "recycle_small",
                 "dir=%s size_max=%" PRIu64
                 " unit=core effect=\"files of larger segments are freed "
                 "and not used again: their topics write zeros first\" action=\"a larger disk, "
                 "fewer cores, or a smaller segment.bytes\"",
                 d->path,
                 size_max);
    }
    return size_max;
}

static void tell_cluster(struct broker *b)
{
    struct cluster_settings *cluster = &b->settings.cluster;
    for (uint32_t i = 0; i < b->data_dirs_count; i++) {
        const struct data_dir *d = &b->data_dirs[i];
        b->cluster_dirs[i] = (struct cluster_data_dir){
            .path = d->path,
            .id = d->directory_id,
            .device_id = d->fs.device_id,
            .is_flush_shared = d->fs.is_flush_shared,
            .quiet_fd = d->quiet_fd,
            .total_size = d->fs.size,
            .space_reserve_size = reserve_of(b, d),
            .recycle_size_max = recycle_of(b, d),
        };
    }
    cluster->data_dirs = b->cluster_dirs;
    cluster->data_dirs_count = b->data_dirs_count;
    cluster->cluster_id = b->data_dirs[0].cluster_id;
}

/* It works, but such directories fail together, and their free space is counted twice. */
static void warn_of_shared_disks(const struct broker *b)
{
    for (uint32_t i = 1; i < b->data_dirs_count; i++) {
        const struct data_dir *d = &b->data_dirs[i];
        uint32_t other = 0;
        while (b->data_dirs[other].fs.device_id != d->fs.device_id) {
            other++;
        }
        if (other < i) {
            log_warn(b->s->log,
                     "data_dirs_share_a_disk",
                     "dir=%s other=%s action=\"put each on a disk of its own: they fail together\"",
                     d->path,
                     b->data_dirs[other].path);
        }
    }
}

static enum err open_data_dirs(struct broker *b)
{
    static_assert((int)DATA_WHY_SIZE <= (int)BROKER_WHY_SIZE, "the line fits");
    const struct data_dirs_open how = {
        .paths = b->settings.data_dirs,
        .count = b->settings.data_dirs_count,
        .node_id = b->settings.cluster.node_id,
    };
    assert_cmp(how.count, <=, CLUSTER_DATA_DIRS_MAX);
    enum err e = data_dirs_open(b->s, &how, b->why, b->data_dirs);
    if (e == ERR_OK) {
        b->data_dirs_count = how.count;
        tell_cluster(b);
        warn_of_shared_disks(b);
    }
    return e;
}

/* ---- admin ---- */

static bool is_ready(void *context, char ret_reason[ADMIN_REASON_SIZE])
{
    const struct broker *b = context;
    if (b->state == BROKER_RUNNING) {
        return true;
    }
    (void)snprintf(ret_reason, ADMIN_REASON_SIZE, "state %s", broker_states[b->state].name);
    return false;
}

/* After the count that are there; returns how many there are now. */
static uint32_t add_group_problems(const struct broker *b,
                                   struct admin_problem ret[ADMIN_PROBLEMS_MAX],
                                   uint32_t count)
{
    struct group_problem problems[GROUP_LIMIT_COUNT];
    const uint32_t more = groups_problems(groups_set_get(b->groups, 0), problems);
    for (uint32_t i = 0; i < more && count < ADMIN_PROBLEMS_MAX; i++) {
        ret[count++] = (struct admin_problem){
            .code = problems[i].code,
            .subject = problems[i].subject,
            .action = problems[i].action,
        };
    }
    return count;
}

static uint32_t find_problems(void *context, struct admin_problem ret[ADMIN_PROBLEMS_MAX])
{
    struct broker *b = context;
    struct cluster_problem problems[CLUSTER_PROBLEMS_MAX];
    static_assert((int)CLUSTER_PROBLEMS_MAX <= (int)ADMIN_PROBLEMS_MAX, "they fit");
    if (b->state != BROKER_RUNNING) {
        return 0;
    }
    const uint32_t count = cluster_problems(cluster_set_get(b->clusters, 0), problems);
    for (uint32_t i = 0; i < count; i++) {
        ret[i] = (struct admin_problem){
            .code = problems[i].code,
            .subject = problems[i].subject,
            .action = problems[i].action,
        };
    }
    return add_group_problems(b, ret, count);
}

/* Before anything that takes long, so that it can be asked what the broker waits for. */
static enum err open_admin(struct broker *b)
{
    struct front *f = &b->fronts[0];
    if (!b->settings.has_admin) {
        return ERR_OK;
    }
    f->s = b->s;
    enum err e = open_transport(f);
    if (e != ERR_OK) {
        memcpy(b->why, f->why, sizeof(b->why));
        return e;
    }
    char why[NET_WHY_SIZE];
    e = admin_new(
        &(struct admin_options){
            .shard = b->s,
            .transport = f->transport,
            .address = b->settings.admin,
            .version = b->options.version,
            .context = b,
            .is_ready = is_ready,
            .find_problems = find_problems,
        },
        &b->admin,
        why);
    if (e != ERR_OK) {
        (void)snprintf(b->why, sizeof(b->why), "admin: %s", why);
        return e;
    }
    b->settings.admin.port = admin_port(b->admin);
    return ERR_OK;
}

static void on_admin_stopped(void *context)
{
    struct broker *b = context;
    move(b, BROKER_WAIT_QUIET);
    send_all_fronts(b, run_quiet);
}

/* ---- start and stop ---- */

void broker_start(struct broker *b, void *context, broker_started_fn *on_started)
{
    b->s = shard_group_get(b->options.group, 0);
    b->context = context;
    b->on_started = on_started;
    enum err e = open_data_dirs(b);
    if (e == ERR_OK) {
        e = open_admin(b);
    }
    if (e == ERR_OK) {
        (void)snprintf(b->why, sizeof(b->why), "not enough memory for the cluster's state");
        e = cluster_set_new(&b->settings.cluster, b->fronts_count, &b->clusters);
    }
    if (e == ERR_OK) {
        e = groups_set_new(&b->settings.groups, b->fronts_count, &b->groups);
    }
    if (e != ERR_OK) {
        report_start(b, BROKER_FAILED, e);
        return;
    }
    move(b, BROKER_WAIT_CLUSTER);
    cluster_start(b->clusters, b->s, b, on_cluster_started);
}

void broker_stop(struct broker *b, void *context, broker_stopped_fn *on_stopped)
{
    b->context = context;
    b->on_stopped = on_stopped;
    move(b, BROKER_WAIT_ADMIN);
    if (b->admin == NULL) {
        on_admin_stopped(b);
    } else {
        admin_stop(b->admin, b, on_admin_stopped);
    }
}

/* Tells the caller; it may free b. */
static void run_report(struct task *t)
{
    struct broker *b = container_of(t, struct broker, report);
    if (b->state == BROKER_OVER) {
        b->on_stopped(b->context);
    } else {
        b->on_started(b->context, b->result, b->why);
    }
}

/* ---- life ---- */

static void fill_dispatch_settings(struct broker *b)
{
    const struct broker_settings *settings = &b->settings;
    b->dispatch_settings = (struct dispatch_settings){
        .advertised = b->advertised,
        .advertised_count = settings->listeners_count,
        .rack = settings->cluster.rack,
        .is_auto_create = settings->is_auto_create,
        .is_delete_enabled = settings->is_delete_enabled,
        .fetch_size_max = settings->fetch_size_max,
        .fetch_sessions_max = settings->fetch_sessions_max,
        .fetch_session_eviction_us = settings->fetch_session_eviction_us,
        .configs = settings->configs,
        .configs_count = settings->configs_count,
    };
}

enum err broker_new(const struct broker_options *o, struct broker **ret_broker)
{
    struct broker *b = calloc(1, sizeof(*b));
    if (b == NULL) {
        return ERR_BUSY;
    }
    b->fronts_count = shard_group_count(o->group);
    b->fronts = calloc(b->fronts_count, sizeof(*b->fronts));
    if (b->fronts == NULL) {
        free(b);
        return ERR_BUSY;
    }
    b->options = *o;
    b->settings = *o->settings;
    for (uint16_t i = 0; i < b->fronts_count; i++) {
        b->fronts[i].b = b;
    }
    b->settings.cluster.on_broker_altered = on_broker_altered;
    b->settings.cluster.on_metadata = on_metadata;
    b->settings.cluster.broker_context = b;
    groups_settings_bind(&b->settings.groups, &b->settings.cluster);
    fill_dispatch_settings(b);
    task_init(&b->report, "broker_report", run_report);
    *ret_broker = b;
    return ERR_OK;
}

void broker_free(struct broker *b)
{
    if (b == NULL) {
        return;
    }
    assert(b->state == BROKER_IDLE || b->state == BROKER_OVER);
    groups_set_free(b->groups);
    cluster_set_free(b->clusters);
    free(b->fronts);
    free(b);
}

const struct net_address *broker_kafka_address(const struct broker *b, uint32_t index)
{
    assert_cmp(index, <, b->settings.listeners_count);
    return &b->settings.listeners[index].bind;
}

const struct net_address *broker_admin_address(const struct broker *b)
{
    return b->settings.has_admin ? &b->settings.admin : NULL;
}

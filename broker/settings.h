/* What a broker is told by its configuration, as plain values: filled by settings_from_config in
 * production and by hand in the simulator, constant once the broker was made.
 *
 * Shard: any; read-only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/settings.h"
#include "core/err.h"
#include "groups/settings.h"
#include "net/conn.h"
#include "net/transport.h"

struct broker_config;
struct config;

enum {
    LISTENERS_MAX = 16,
    LISTENER_NAME_SIZE = 64,
    SETTINGS_WHY_SIZE = 512,
};

struct listener_settings {
    char name[LISTENER_NAME_SIZE];
    struct net_address bind;
    /* What clients are told. Port 0: the port that was bound. */
    struct net_address advertised;
};

struct broker_settings {
    /* cluster_id and data_dirs are filled by the broker at start. */
    struct cluster_settings cluster;
    struct groups_settings groups;
    const char *data_dirs[CLUSTER_DATA_DIRS_MAX];
    uint32_t data_dirs_count;
    uint64_t space_reserve_size; /* Of each data directory; 0 = by the size of its disk. */
    uint64_t recycle_size_max;   /* Likewise; 0 = none. */

    struct listener_settings listeners[LISTENERS_MAX];
    uint32_t listeners_count;
    bool has_admin;
    struct net_address admin;

    struct conn_limits kafka_limits;    /* conns_max is per shard. */
    char *data_dirs_text;               /* What data_dirs points at; NULL: not ours. */
    struct cluster_lost_dir *lost_dirs; /* What cluster.lost_dirs points at. */

    bool is_auto_create;
    bool is_delete_enabled;
    uint32_t fetch_size_max;
    uint32_t fetch_sessions_max; /* Per shard. */
    uint64_t fetch_session_eviction_us;

    struct broker_config *configs; /* All options, as clients are told of them. */
    uint32_t configs_count;
};

/* All defaults; no listener, no data directory. */
void settings_init(struct broker_settings *settings);

/* From a checked configuration, which must outlive the result. ERR_CONFIG_INVALID: why is one line
 * that names what is wrong and where it was said; ERR_BUSY without memory. */
enum err settings_from_config(struct broker_settings *settings,
                              const struct config *config,
                              uint16_t shards_count,
                              char why[SETTINGS_WHY_SIZE]);
void settings_done(struct broker_settings *settings);

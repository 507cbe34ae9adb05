#include "kafka/api_table.h"

#include <stddef.h>

#include "kafka/handlers/handlers.h"
#include "kafka/proto/alter_configs.h"
#include "kafka/proto/alter_partition_reassignments.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/consumer_group_describe.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/create_acls.h"
#include "kafka/proto/create_partitions.h"
#include "kafka/proto/create_topics.h"
#include "kafka/proto/delete_acls.h"
#include "kafka/proto/delete_groups.h"
#include "kafka/proto/delete_records.h"
#include "kafka/proto/delete_topics.h"
#include "kafka/proto/describe_acls.h"
#include "kafka/proto/describe_client_quotas.h"
#include "kafka/proto/describe_cluster.h"
#include "kafka/proto/describe_configs.h"
#include "kafka/proto/describe_groups.h"
#include "kafka/proto/describe_log_dirs.h"
#include "kafka/proto/describe_producers.h"
#include "kafka/proto/describe_quorum.h"
#include "kafka/proto/describe_topic_partitions.h"
#include "kafka/proto/describe_transactions.h"
#include "kafka/proto/describe_user_scram_credentials.h"
#include "kafka/proto/elect_leaders.h"
#include "kafka/proto/fetch.h"
#include "kafka/proto/find_coordinator.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/incremental_alter_configs.h"
#include "kafka/proto/init_producer_id.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/list_config_resources.h"
#include "kafka/proto/list_groups.h"
#include "kafka/proto/list_offsets.h"
#include "kafka/proto/list_partition_reassignments.h"
#include "kafka/proto/list_transactions.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_delete.h"
#include "kafka/proto/offset_fetch.h"
#include "kafka/proto/offset_for_leader_epoch.h"
#include "kafka/proto/produce.h"
#include "kafka/proto/sync_group.h"
#include "kafka/proto/update_features.h"

/* Produce lists 0-2 and refuses them: librdkafka up to 2.11.0 compresses only for brokers that list
 * version 0 (KAFKA-18659). */
/* clang-format off */
const struct api API_TABLE[API_COUNT] = {
    /* key                                listed served max class         quota */
    {API_PRODUCE,                         0,     3,     13, CONN_OVERLAP, API_QUOTA_PRODUCE,    &PRODUCE_API,                         handle_produce},
    {API_FETCH,                           4,     4,     18, CONN_BARRIER, API_QUOTA_FETCH,      &FETCH_API,                           handle_fetch},
    {API_LIST_OFFSETS,                    1,     1,     11, CONN_BARRIER, API_QUOTA_REQUEST,    &LIST_OFFSETS_API,                    handle_list_offsets},
    {API_METADATA,                        0,     0,     13, CONN_BARRIER, API_QUOTA_REQUEST,    &METADATA_API,                        handle_metadata},
    {API_OFFSET_COMMIT,                   2,     2,     10, CONN_BARRIER, API_QUOTA_REQUEST,    &OFFSET_COMMIT_API,                   handle_offset_commit},
    {API_OFFSET_FETCH,                    1,     1,     10, CONN_BARRIER, API_QUOTA_REQUEST,    &OFFSET_FETCH_API,                    handle_offset_fetch},
    {API_FIND_COORDINATOR,                0,     0,     6,  CONN_BARRIER, API_QUOTA_REQUEST,    &FIND_COORDINATOR_API,                handle_find_coordinator},
    {API_JOIN_GROUP,                      0,     0,     9,  CONN_BARRIER, API_QUOTA_REQUEST,    &JOIN_GROUP_API,                      handle_join_group},
    {API_HEARTBEAT,                       0,     0,     4,  CONN_BARRIER, API_QUOTA_REQUEST,    &HEARTBEAT_API,                       handle_heartbeat},
    {API_LEAVE_GROUP,                     0,     0,     5,  CONN_BARRIER, API_QUOTA_REQUEST,    &LEAVE_GROUP_API,                     handle_leave_group},
    {API_SYNC_GROUP,                      0,     0,     5,  CONN_BARRIER, API_QUOTA_REQUEST,    &SYNC_GROUP_API,                      handle_sync_group},
    {API_DESCRIBE_GROUPS,                 0,     0,     6,  CONN_BARRIER, API_QUOTA_REQUEST,    &DESCRIBE_GROUPS_API,                 handle_describe_groups},
    {API_LIST_GROUPS,                     0,     0,     5,  CONN_BARRIER, API_QUOTA_REQUEST,    &LIST_GROUPS_API,                     handle_list_groups},
    {API_API_VERSIONS,                    0,     0,     4,  CONN_BARRIER, API_QUOTA_NONE,       &API_VERSIONS_API,                    handle_api_versions},
    {API_CREATE_TOPICS,                   2,     2,     7,  CONN_BARRIER, API_QUOTA_CONTROLLER, &CREATE_TOPICS_API,                   handle_create_topics},
    {API_DELETE_TOPICS,                   1,     1,     6,  CONN_BARRIER, API_QUOTA_CONTROLLER, &DELETE_TOPICS_API,                   handle_delete_topics},
    {API_DELETE_RECORDS,                  0,     0,     2,  CONN_BARRIER, API_QUOTA_REQUEST,    &DELETE_RECORDS_API,                  handle_delete_records},
    {API_INIT_PRODUCER_ID,                0,     0,     5,  CONN_BARRIER, API_QUOTA_REQUEST,    &INIT_PRODUCER_ID_API,                handle_init_producer_id},
    {API_OFFSET_FOR_LEADER_EPOCH,         2,     2,     4,  CONN_BARRIER, API_QUOTA_REQUEST,    &OFFSET_FOR_LEADER_EPOCH_API,         handle_offset_for_leader_epoch},
    {API_DESCRIBE_ACLS,                   1,     1,     3,  CONN_BARRIER, API_QUOTA_REQUEST,    &DESCRIBE_ACLS_API,                   handle_describe_acls},
    {API_CREATE_ACLS,                     1,     1,     3,  CONN_BARRIER, API_QUOTA_CONTROLLER, &CREATE_ACLS_API,                     handle_create_acls},
    {API_DELETE_ACLS,                     1,     1,     3,  CONN_BARRIER, API_QUOTA_CONTROLLER, &DELETE_ACLS_API,                     handle_delete_acls},
    {API_DESCRIBE_CONFIGS,                1,     1,     4,  CONN_BARRIER, API_QUOTA_REQUEST,    &DESCRIBE_CONFIGS_API,                handle_describe_configs},
    {API_ALTER_CONFIGS,                   0,     0,     2,  CONN_BARRIER, API_QUOTA_CONTROLLER, &ALTER_CONFIGS_API,                   handle_alter_configs},
    {API_DESCRIBE_LOG_DIRS,               1,     1,     5,  CONN_BARRIER, API_QUOTA_REQUEST,    &DESCRIBE_LOG_DIRS_API,               handle_describe_log_dirs},
    {API_CREATE_PARTITIONS,               0,     0,     3,  CONN_BARRIER, API_QUOTA_CONTROLLER, &CREATE_PARTITIONS_API,               handle_create_partitions},
    {API_DELETE_GROUPS,                   0,     0,     2,  CONN_BARRIER, API_QUOTA_REQUEST,    &DELETE_GROUPS_API,                   handle_delete_groups},
    {API_ELECT_LEADERS,                   0,     0,     2,  CONN_BARRIER, API_QUOTA_CONTROLLER, &ELECT_LEADERS_API,                   handle_elect_leaders},
    {API_INCREMENTAL_ALTER_CONFIGS,       0,     0,     1,  CONN_BARRIER, API_QUOTA_CONTROLLER, &INCREMENTAL_ALTER_CONFIGS_API,       handle_incremental_alter_configs},
    {API_ALTER_PARTITION_REASSIGNMENTS,   0,     0,     1,  CONN_BARRIER, API_QUOTA_CONTROLLER, &ALTER_PARTITION_REASSIGNMENTS_API,   handle_alter_partition_reassignments},
    {API_LIST_PARTITION_REASSIGNMENTS,    0,     0,     0,  CONN_BARRIER, API_QUOTA_REQUEST,    &LIST_PARTITION_REASSIGNMENTS_API,    handle_list_partition_reassignments},
    {API_OFFSET_DELETE,                   0,     0,     0,  CONN_BARRIER, API_QUOTA_REQUEST,    &OFFSET_DELETE_API,                   handle_offset_delete},
    {API_DESCRIBE_CLIENT_QUOTAS,          0,     0,     1,  CONN_BARRIER, API_QUOTA_REQUEST,    &DESCRIBE_CLIENT_QUOTAS_API,          handle_describe_client_quotas},
    {API_DESCRIBE_USER_SCRAM_CREDENTIALS, 0,     0,     0,  CONN_BARRIER, API_QUOTA_REQUEST,    &DESCRIBE_USER_SCRAM_CREDENTIALS_API, handle_describe_user_scram_credentials},
    {API_DESCRIBE_QUORUM,                 0,     0,     2,  CONN_BARRIER, API_QUOTA_REQUEST,    &DESCRIBE_QUORUM_API,                 handle_describe_quorum},
    {API_UPDATE_FEATURES,                 0,     0,     2,  CONN_BARRIER, API_QUOTA_CONTROLLER, &UPDATE_FEATURES_API,                 handle_update_features},
    {API_DESCRIBE_CLUSTER,                0,     0,     2,  CONN_BARRIER, API_QUOTA_REQUEST,    &DESCRIBE_CLUSTER_API,                handle_describe_cluster},
    {API_DESCRIBE_PRODUCERS,              0,     0,     0,  CONN_BARRIER, API_QUOTA_REQUEST,    &DESCRIBE_PRODUCERS_API,              handle_describe_producers},
    {API_DESCRIBE_TRANSACTIONS,           0,     0,     0,  CONN_BARRIER, API_QUOTA_REQUEST,    &DESCRIBE_TRANSACTIONS_API,           handle_describe_transactions},
    {API_LIST_TRANSACTIONS,               0,     0,     2,  CONN_BARRIER, API_QUOTA_REQUEST,    &LIST_TRANSACTIONS_API,               handle_list_transactions},
    {API_CONSUMER_GROUP_HEARTBEAT,        0,     0,     1,  CONN_BARRIER, API_QUOTA_REQUEST,    &CONSUMER_GROUP_HEARTBEAT_API,        handle_consumer_group_heartbeat},
    {API_CONSUMER_GROUP_DESCRIBE,         0,     0,     1,  CONN_BARRIER, API_QUOTA_REQUEST,    &CONSUMER_GROUP_DESCRIBE_API,         handle_consumer_group_describe},
    {API_LIST_CONFIG_RESOURCES,           0,     0,     1,  CONN_BARRIER, API_QUOTA_REQUEST,    &LIST_CONFIG_RESOURCES_API,           handle_list_config_resources},
    {API_DESCRIBE_TOPIC_PARTITIONS,       0,     0,     0,  CONN_BARRIER, API_QUOTA_REQUEST,    &DESCRIBE_TOPIC_PARTITIONS_API,       handle_describe_topic_partitions},
};
/* clang-format on */

const struct api *api_find(int16_t key)
{
    for (size_t i = 0; i < API_COUNT; i++) {
        if (API_TABLE[i].key == key) {
            return &API_TABLE[i];
        }
    }
    return NULL;
}

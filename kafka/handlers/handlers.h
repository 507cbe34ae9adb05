/* One function per API, each in the file of that name (the three of ACLs in acls.c). What they have
 * in common: r->in is the decoded request; they answer it once (request.h), whatever happens.
 *
 * Shard: the connection's.
 */
#pragma once

struct request;

void handle_alter_configs(struct request *r);
void handle_alter_partition_reassignments(struct request *r);
void handle_api_versions(struct request *r);
void handle_consumer_group_describe(struct request *r);
void handle_consumer_group_heartbeat(struct request *r);
void handle_create_acls(struct request *r);
void handle_create_partitions(struct request *r);
void handle_create_topics(struct request *r);
void handle_delete_acls(struct request *r);
void handle_delete_groups(struct request *r);
void handle_delete_records(struct request *r);
void handle_delete_topics(struct request *r);
void handle_describe_acls(struct request *r);
void handle_describe_client_quotas(struct request *r);
void handle_describe_cluster(struct request *r);
void handle_describe_configs(struct request *r);
void handle_describe_groups(struct request *r);
void handle_describe_log_dirs(struct request *r);
void handle_describe_producers(struct request *r);
void handle_describe_quorum(struct request *r);
void handle_describe_topic_partitions(struct request *r);
void handle_describe_transactions(struct request *r);
void handle_describe_user_scram_credentials(struct request *r);
void handle_elect_leaders(struct request *r);
void handle_fetch(struct request *r);
void handle_find_coordinator(struct request *r);
void handle_heartbeat(struct request *r);
void handle_incremental_alter_configs(struct request *r);
void handle_init_producer_id(struct request *r);
void handle_join_group(struct request *r);
void handle_leave_group(struct request *r);
void handle_list_config_resources(struct request *r);
void handle_list_groups(struct request *r);
void handle_list_offsets(struct request *r);
void handle_list_partition_reassignments(struct request *r);
void handle_list_transactions(struct request *r);
void handle_metadata(struct request *r);
void handle_offset_commit(struct request *r);
void handle_offset_delete(struct request *r);
void handle_offset_fetch(struct request *r);
void handle_offset_for_leader_epoch(struct request *r);
void handle_produce(struct request *r);
void handle_sync_group(struct request *r);
void handle_update_features(struct request *r);

"""Where Coreflume and Apache Kafka answer differently, and why: (a pattern, the reason). The pattern is searched in
"AREA/API vVERSION: LABEL: PATH: KAFKA'S | OURS". docs/differences-from-kafka.md has the same for users."""

NOT_YET = "|".join(map(str, (
    24, 25, 26, 27, 28,  # transactions
    17, 36, 38, 39, 40, 41, 51,  # authentication
    49,  # quotas
    76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92,  # share groups
    88, 89,  # streams groups
)))

EXPLAINED = [
    (r"\(order\): |list_config_resources v1: all: .*\.resource_type: [48] \|",
     "Kafka's order is that of hash tables; ours is sorted, or that of the request"),
    (r"leader_epoch: 0 \| 1$", "epochs are terms of a log whose first is 1"),
    (r"error_message: (null|) \| \S", "a message where Kafka has none: it says what to do"),

    # What is not there yet, and says so.
    (rf"^api_versions/.*api_keys\[({NOT_YET})\]: .*\| \(absent\)",
     "transactions, authentication and quotas are not served yet"),
    (r"^api_versions/.*api_keys\[(34|64|80|81)\]: .*\| \(absent\)",
     "moving replicas between directories, and KRaft voters and brokers, have no counterpart in one node"),
    (r"^api_versions/.*(finalized|supported)_features", "there are no features to switch"),
    (r"^coordinators/", "groups and transactions are refused with words; a retriable error would let clients wait for ever"),
    (r"update_features .*error_message: .*This version of Coreflume has no features to update", "there are no features to switch"),
    (r"get_telemetry_subscriptions ", "neither lists it without a receiver of metrics; Kafka answers all the same"),
    (r"No Authorizer is configured: this version of Coreflume has no ACLs", "the message says more"),
    (r"describe_acls v\d: unknown resource type", "Kafka closes the connection; SECURITY_DISABLED comes first here"),
    (r"^produce/.*transactional without an id.*: 53 \| 48$", "transactions are refused as such"),

    # Groups.
    (r"^group_coordinators/.*error_message: This most likely .* \| No such type", "the message says what is wrong"),
    (r"^fetches/.*: null member: .*: -1 \| 25$", "an epoch without a member id is a member unknown, not an unknown server error"),
    (r"^offset_deletes/.* simple: (again|twice|after): ", "a group that is nothing but its offsets goes with the last of them"),
    (r"^joins_of_members/describe_groups .*stable: then v\d: .*member_assignment:", "the last assignment is shown until there is another"),
    (r"^static_joins/join_group .*: consumer: taken over with more: generation_id: 0 \|",
     "no group has a generation 0: a member that takes over with another subscription is told the group's, and to join again"),

    (r'^describes/.*twice, and no name: groups\[""\]', "no group has the name \"\": INVALID_GROUP_ID"),
    (r"^consumer_joins/.* v0: all is wrong: error_message", "in version 0 the group's id is looked at first there"),
    (r"^consumer_moves/consumer_group_describe .*assignment.*partitions: \[0, 1\] \| \[0\]$",
     "what a member has still to give back is not shown as assigned"),

    # Rules of our own.
    (r"\[[^]]*\]: \(absent\) \| .*error_code\": 42\b",
     "what is named twice is answered twice, so that each thing named has its answer"),
    (r"delete_topics v6: (id twice|name twice|by name and by id): ", "likewise, and both the name and the id are told"),
    (r"(partition twice|: twice|no partitions).*\[[^]]*\]: \(absent\) \|", "what a request names is in the answer, as often as it is named"),
    (r"metadata v1[0-3]: (known id|unknown id|two ids|id and name|id and another name|no id and no name): (brokers|controller_id|cluster_id)",
     "a request that is wrong as a whole has the brokers in its answer all the same"),
    (r"metadata v1[23]: no id and no name: .*error_code: -1", "UNKNOWN_TOPIC_ID, not an unknown server error"),
    (r"(create_topics|describe_configs) v\d: .*min.insync.replicas\].(config_source: 3 \| 5|synonyms)", "Kafka sets it for the cluster where replicas can be eligible leaders"),
    (r"(create_topics|describe_configs) v\d: .*configs\[coreflume\.", "settings of our own"),
    (r"create_topics v7: .*topic_id: some id \| no id", "what is only checked gets no id"),
    (r"create_topics v\d: (10001|2147483647) partitions: ", "the number of partitions has a limit here, which the message names"),
    (r"create_partitions v\d: to (10004|2147483647): ", "likewise"),
    (r"or some brokers have all their log directories cordoned", "there is no cordoning"),
    (r"internal\.segment\.bytes|config hidden", "a name that Kafka hides from users"),
    (r"did you mean", "the message says more"),

    # Groups of the new protocol.
    (r"consumer_group_heartbeat v\d: .*heartbeat_interval_ms: 5000 \| 200$", "members come soon while their group is on its way to a new target"),
    (r"^consumer_joins/.*: (after )?expression ", "patterns are matched before the first answer"),
    (r"^consumer_joins/.* completing: .*partitions: \[\d\] \| \[\d\]$", "who of two new members gets which partition is a matter of their ids"),

    # Produce.
    (r"produce v\d+: magic 3: ", "a batch of an unknown format does not get better by sending it again: INVALID_RECORD, not CORRUPT_MESSAGE"),
    (r"produce v\d+: (a byte too many|partition twice): ", "what follows the one batch is refused; Kafka drops it without a word, and so a partition named twice"),
    (r"produce v\d+: codec 5: .*: -1 \| 76$", "UNSUPPORTED_COMPRESSION_TYPE, not an unknown server error"),
    (r"produce v\d+: gzip of rubbish: .*: -1 \| 87$", "INVALID_RECORD, not an unknown server error"),
    (r"produce v\d+: .*log_start_offset: 0 \| -1$", "a refusal says nothing about the log"),
    (r"produce v\d+: (no|one) key in a compacted topic: ", "the first record at fault is named, in our words"),
    (r"produce v\d+: too (old|new): ", "likewise"),
    (r"produce v\d+: older epoch: .*: 47 \| 87$", "an epoch below 0 is no epoch"),

    # Reading.
    (r"fetch v\d+: isolation 9: |list_offsets v\d+: isolation 7: ", "an isolation that does not exist is read uncommitted; Kafka fails"),
    (r"fetch v\d+: epoch -2: ", "an epoch below 0 is older than any"),
    (r"fetch v\d+: (a|another) replica: ", "replication has a protocol of its own: a replica id is refused as one without the right"),
    (r"fetch v\d+: (zero|negative) bytes: ", "at least one batch comes along, whatever the limit"),
    (r"list_offsets v\d+: epoch [01]: ", "epochs begin at 1: 0 is fenced, 1 is the current one"),
    (r"offset_for_leader_epoch v\d: of -2", "there is no such epoch"),
    (r"delete_records v\d: an empty one: ", "a partition named twice is asked twice"),

    # The cluster.
    (r"use bootstrap\.servers instead of bootstrap\.controllers", "the message says more"),
    (r"describe_topic_partitions v0: name '': ", "INVALID_TOPIC_EXCEPTION, not an unknown server error"),
    (r"__(consumer_offsets|transaction_state)", "Kafka's own topics for groups and transactions"),
    (r"describe_quorum v\d: the log: .*(leader_epoch|log_end_offset|high_watermark|replica_directory_id|port): ",
     "another log; its directory has an id, its listener is the broker's"),
    (r"describe_log_dirs v\d: .*partition_size: ", "bytes on disk, in steps of blocks"),

    # Configurations.
    (r"describe_configs v\d: (broker|all brokers).*configs\[[^]]*\]: .*\| \(absent\)$", "only what exists here is listed, not what nothing would read"),
    (r"describe_configs v\d: (broker|all brokers).*configs\[(listeners|log\.dirs?|advertised\.listeners|listener\.security\.protocol\.map)\]",
     "the two servers are started differently"),
    (r"describe_configs v\d: .*synonyms\[[^]]*\]: \(absent\) \| ", "every name has its default among its synonyms, also where Kafka has none"),
    (r"describe_configs v\d: .*type 8.*(configs\[org\.|value: ERROR \| INFO)", "one logger, root, which both have"),
    (r"describe_configs v\d: type (0|1|3|5|99|-1).*error_message: ", "the message says more"),
    (r"alter_configs v\d: (bad|negative) operation: .*: -1 \| 42$", "INVALID_REQUEST, not an unknown server error"),
    (r"alter_configs v\d: (fault )?hidden: ", "a name that Kafka hides from users"),
    (r"/alter_configs v\d: resource twice: ", "Kafka never answers"),
    (r"describe_configs v[34]: .*documentation: ", "broker settings are documented in our words; docs/topic-configs.md has the topics'"),
    (r"describe_configs v\d: broker.*value: 2147483647 \| 100000$", "max.connections: each costs memory"),
    (r"describe_configs v\d: broker.*value: null \| $", "what is not set is empty"),
    (r"describe_configs v\d: (broker '(x|1\.0| 1)'|type 8, broker 2).*: Unexpected|error_message: .* \| Unexpected broker id", "one text for all wrong ids"),
    (r"describe_configs v\d: type 32, synonyms: .*synonyms\[share\.", "Kafka names a default that no broker setting has"),
    (r"alter_configs v\d: empty name: ", "the message says more"),
]

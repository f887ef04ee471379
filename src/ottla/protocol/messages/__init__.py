"""One module per API of Apache Kafka 4.3.1: its request, its response, and the structs in them.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

from __future__ import annotations

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
FIND_COORDINATOR = 10
JOIN_GROUP = 11
HEARTBEAT = 12
LEAVE_GROUP = 13
SYNC_GROUP = 14
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
SASL_HANDSHAKE = 17
API_VERSIONS = 18
CREATE_TOPICS = 19
DELETE_TOPICS = 20
DELETE_RECORDS = 21
INIT_PRODUCER_ID = 22
OFFSET_FOR_LEADER_EPOCH = 23
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
WRITE_TXN_MARKERS = 27
TXN_OFFSET_COMMIT = 28
DESCRIBE_CONFIGS = 32
ALTER_CONFIGS = 33
DESCRIBE_LOG_DIRS = 35
SASL_AUTHENTICATE = 36
CREATE_PARTITIONS = 37
DELETE_GROUPS = 42
ELECT_LEADERS = 43
INCREMENTAL_ALTER_CONFIGS = 44
ALTER_PARTITION_REASSIGNMENTS = 45
LIST_PARTITION_REASSIGNMENTS = 46
OFFSET_DELETE = 47
DESCRIBE_CLIENT_QUOTAS = 48
ALTER_CLIENT_QUOTAS = 49
DESCRIBE_QUORUM = 55
ALTER_PARTITION = 56
UPDATE_FEATURES = 57
DESCRIBE_CLUSTER = 60
DESCRIBE_PRODUCERS = 61
BROKER_HEARTBEAT = 63
DESCRIBE_TRANSACTIONS = 65
LIST_TRANSACTIONS = 66
CONSUMER_GROUP_HEARTBEAT = 68
CONSUMER_GROUP_DESCRIBE = 69
GET_TELEMETRY_SUBSCRIPTIONS = 71
PUSH_TELEMETRY = 72
LIST_CONFIG_RESOURCES = 74
DESCRIBE_TOPIC_PARTITIONS = 75

# API key -> module, and the name that `Request` and `Response` are appended to.
MODULES: dict[int, tuple[str, str]] = {
    PRODUCE: ("produce", "Produce"),
    FETCH: ("fetch", "Fetch"),
    LIST_OFFSETS: ("list_offsets", "ListOffsets"),
    METADATA: ("metadata", "Metadata"),
    OFFSET_COMMIT: ("offset_commit", "OffsetCommit"),
    OFFSET_FETCH: ("offset_fetch", "OffsetFetch"),
    FIND_COORDINATOR: ("find_coordinator", "FindCoordinator"),
    JOIN_GROUP: ("join_group", "JoinGroup"),
    HEARTBEAT: ("heartbeat", "Heartbeat"),
    LEAVE_GROUP: ("leave_group", "LeaveGroup"),
    SYNC_GROUP: ("sync_group", "SyncGroup"),
    DESCRIBE_GROUPS: ("describe_groups", "DescribeGroups"),
    LIST_GROUPS: ("list_groups", "ListGroups"),
    SASL_HANDSHAKE: ("sasl_handshake", "SaslHandshake"),
    API_VERSIONS: ("api_versions", "ApiVersions"),
    CREATE_TOPICS: ("create_topics", "CreateTopics"),
    DELETE_TOPICS: ("delete_topics", "DeleteTopics"),
    DELETE_RECORDS: ("delete_records", "DeleteRecords"),
    INIT_PRODUCER_ID: ("init_producer_id", "InitProducerId"),
    OFFSET_FOR_LEADER_EPOCH: ("offset_for_leader_epoch", "OffsetForLeaderEpoch"),
    ADD_PARTITIONS_TO_TXN: ("add_partitions_to_txn", "AddPartitionsToTxn"),
    ADD_OFFSETS_TO_TXN: ("add_offsets_to_txn", "AddOffsetsToTxn"),
    END_TXN: ("end_txn", "EndTxn"),
    WRITE_TXN_MARKERS: ("write_txn_markers", "WriteTxnMarkers"),
    TXN_OFFSET_COMMIT: ("txn_offset_commit", "TxnOffsetCommit"),
    DESCRIBE_CONFIGS: ("describe_configs", "DescribeConfigs"),
    ALTER_CONFIGS: ("alter_configs", "AlterConfigs"),
    DESCRIBE_LOG_DIRS: ("describe_log_dirs", "DescribeLogDirs"),
    SASL_AUTHENTICATE: ("sasl_authenticate", "SaslAuthenticate"),
    CREATE_PARTITIONS: ("create_partitions", "CreatePartitions"),
    DELETE_GROUPS: ("delete_groups", "DeleteGroups"),
    ELECT_LEADERS: ("elect_leaders", "ElectLeaders"),
    INCREMENTAL_ALTER_CONFIGS: ("incremental_alter_configs", "IncrementalAlterConfigs"),
    ALTER_PARTITION_REASSIGNMENTS: ("alter_partition_reassignments", "AlterPartitionReassignments"),
    LIST_PARTITION_REASSIGNMENTS: ("list_partition_reassignments", "ListPartitionReassignments"),
    OFFSET_DELETE: ("offset_delete", "OffsetDelete"),
    DESCRIBE_CLIENT_QUOTAS: ("describe_client_quotas", "DescribeClientQuotas"),
    ALTER_CLIENT_QUOTAS: ("alter_client_quotas", "AlterClientQuotas"),
    DESCRIBE_QUORUM: ("describe_quorum", "DescribeQuorum"),
    ALTER_PARTITION: ("alter_partition", "AlterPartition"),
    UPDATE_FEATURES: ("update_features", "UpdateFeatures"),
    DESCRIBE_CLUSTER: ("describe_cluster", "DescribeCluster"),
    DESCRIBE_PRODUCERS: ("describe_producers", "DescribeProducers"),
    BROKER_HEARTBEAT: ("broker_heartbeat", "BrokerHeartbeat"),
    DESCRIBE_TRANSACTIONS: ("describe_transactions", "DescribeTransactions"),
    LIST_TRANSACTIONS: ("list_transactions", "ListTransactions"),
    CONSUMER_GROUP_HEARTBEAT: ("consumer_group_heartbeat", "ConsumerGroupHeartbeat"),
    CONSUMER_GROUP_DESCRIBE: ("consumer_group_describe", "ConsumerGroupDescribe"),
    GET_TELEMETRY_SUBSCRIPTIONS: ("get_telemetry_subscriptions", "GetTelemetrySubscriptions"),
    PUSH_TELEMETRY: ("push_telemetry", "PushTelemetry"),
    LIST_CONFIG_RESOURCES: ("list_config_resources", "ListConfigResources"),
    DESCRIBE_TOPIC_PARTITIONS: ("describe_topic_partitions", "DescribeTopicPartitions"),
}

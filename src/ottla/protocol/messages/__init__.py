"""One module per API of Apache Kafka 4.3.1: its request, its response, and the structs in them.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

from __future__ import annotations

# API key -> module, and the name that `Request` and `Response` are appended to.
MODULES: dict[int, tuple[str, str]] = {
    0: ("produce", "Produce"),
    1: ("fetch", "Fetch"),
    2: ("list_offsets", "ListOffsets"),
    3: ("metadata", "Metadata"),
    8: ("offset_commit", "OffsetCommit"),
    9: ("offset_fetch", "OffsetFetch"),
    10: ("find_coordinator", "FindCoordinator"),
    11: ("join_group", "JoinGroup"),
    12: ("heartbeat", "Heartbeat"),
    13: ("leave_group", "LeaveGroup"),
    14: ("sync_group", "SyncGroup"),
    15: ("describe_groups", "DescribeGroups"),
    16: ("list_groups", "ListGroups"),
    17: ("sasl_handshake", "SaslHandshake"),
    18: ("api_versions", "ApiVersions"),
    19: ("create_topics", "CreateTopics"),
    20: ("delete_topics", "DeleteTopics"),
    21: ("delete_records", "DeleteRecords"),
    22: ("init_producer_id", "InitProducerId"),
    23: ("offset_for_leader_epoch", "OffsetForLeaderEpoch"),
    24: ("add_partitions_to_txn", "AddPartitionsToTxn"),
    25: ("add_offsets_to_txn", "AddOffsetsToTxn"),
    26: ("end_txn", "EndTxn"),
    27: ("write_txn_markers", "WriteTxnMarkers"),
    28: ("txn_offset_commit", "TxnOffsetCommit"),
    32: ("describe_configs", "DescribeConfigs"),
    33: ("alter_configs", "AlterConfigs"),
    35: ("describe_log_dirs", "DescribeLogDirs"),
    36: ("sasl_authenticate", "SaslAuthenticate"),
    37: ("create_partitions", "CreatePartitions"),
    42: ("delete_groups", "DeleteGroups"),
    43: ("elect_leaders", "ElectLeaders"),
    44: ("incremental_alter_configs", "IncrementalAlterConfigs"),
    47: ("offset_delete", "OffsetDelete"),
    56: ("alter_partition", "AlterPartition"),
    57: ("update_features", "UpdateFeatures"),
    60: ("describe_cluster", "DescribeCluster"),
    61: ("describe_producers", "DescribeProducers"),
    63: ("broker_heartbeat", "BrokerHeartbeat"),
    65: ("describe_transactions", "DescribeTransactions"),
    66: ("list_transactions", "ListTransactions"),
    71: ("get_telemetry_subscriptions", "GetTelemetrySubscriptions"),
    72: ("push_telemetry", "PushTelemetry"),
    75: ("describe_topic_partitions", "DescribeTopicPartitions"),
}

"""Which function handles which API; those few clients ask for are imported when one does.

Most clusters in tests never see either: they need not wait for, nor hold in memory, what coordinates them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ottla.broker.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    API_VERSIONS,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_QUORUM,
    DESCRIBE_TOPIC_PARTITIONS,
    DESCRIBE_TRANSACTIONS,
    ELECT_LEADERS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    GET_TELEMETRY_SUBSCRIPTIONS,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_CONFIG_RESOURCES,
    LIST_GROUPS,
    LIST_OFFSETS,
    LIST_PARTITION_REASSIGNMENTS,
    LIST_TRANSACTIONS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    PUSH_TELEMETRY,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    UPDATE_FEATURES,
    WRITE_TXN_MARKERS,
    api_versions,
    fetch,
    metadata,
    produce,
)
from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request

Handler = Callable[[BrokerPort, Request, int], None]

_HANDLERS: dict[int, Handler] = {
    PRODUCE: produce.handle,
    FETCH: fetch.handle,
    METADATA: metadata.handle,
    API_VERSIONS: api_versions.handle,
}
_ON_DEMAND = {
    LIST_OFFSETS: "list_offsets",
    INIT_PRODUCER_ID: "init_producer_id",
    DELETE_TOPICS: "delete_topics",
    CREATE_TOPICS: "create_topics",
    OFFSET_COMMIT: "offset_commit",
    OFFSET_FETCH: "offset_fetch",
    FIND_COORDINATOR: "find_coordinator",
    JOIN_GROUP: "join_group",
    HEARTBEAT: "heartbeat",
    LEAVE_GROUP: "leave_group",
    SYNC_GROUP: "sync_group",
    DESCRIBE_GROUPS: "describe_groups",
    LIST_GROUPS: "list_groups",
    DELETE_GROUPS: "delete_groups",
    ELECT_LEADERS: "elect_leaders",
    OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    DELETE_RECORDS: "delete_records",
    DESCRIBE_CONFIGS: "describe_configs",
    ALTER_CONFIGS: "alter_configs",
    INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    SASL_HANDSHAKE: "sasl_handshake",
    SASL_AUTHENTICATE: "sasl_authenticate",
    DESCRIBE_LOG_DIRS: "describe_log_dirs",
    CREATE_PARTITIONS: "create_partitions",
    OFFSET_DELETE: "offset_delete",
    DESCRIBE_CLUSTER: "describe_cluster",
    DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
    ADD_OFFSETS_TO_TXN: "add_offsets_to_txn",
    END_TXN: "end_txn",
    WRITE_TXN_MARKERS: "write_txn_markers",
    TXN_OFFSET_COMMIT: "txn_offset_commit",
    DESCRIBE_PRODUCERS: "describe_producers",
    DESCRIBE_TRANSACTIONS: "describe_transactions",
    LIST_TRANSACTIONS: "list_transactions",
    ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
    LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
    DESCRIBE_CLIENT_QUOTAS: "describe_client_quotas",
    ALTER_CLIENT_QUOTAS: "alter_client_quotas",
    DESCRIBE_QUORUM: "describe_quorum",
    UPDATE_FEATURES: "update_features",
    LIST_CONFIG_RESOURCES: "list_config_resources",
    CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
    CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    GET_TELEMETRY_SUBSCRIPTIONS: "get_telemetry_subscriptions",
    PUSH_TELEMETRY: "push_telemetry",
}


def handler_of(api_key: int) -> Handler:
    """What handles requests with this key, one of `VERSIONS`."""
    found = _HANDLERS.get(api_key)
    if found is None:
        found = _HANDLERS[api_key] = import_module(f"ottla.broker.apis.{_ON_DEMAND[api_key]}").handle
    return found

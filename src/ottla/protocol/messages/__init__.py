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
    18: ("api_versions", "ApiVersions"),
    19: ("create_topics", "CreateTopics"),
    20: ("delete_topics", "DeleteTopics"),
    22: ("init_producer_id", "InitProducerId"),
    42: ("delete_groups", "DeleteGroups"),
}

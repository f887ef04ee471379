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
    18: ("api_versions", "ApiVersions"),
    19: ("create_topics", "CreateTopics"),
    20: ("delete_topics", "DeleteTopics"),
    22: ("init_producer_id", "InitProducerId"),
}

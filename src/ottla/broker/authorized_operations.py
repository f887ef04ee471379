"""What a client may do with a topic, a cluster or a group (KIP-430): a bit for each of Kafka's AclOperations.

There is no authorizer: each has all the operations that Kafka has for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.protocol.messages.describe_groups import DescribedGroup

TOPIC_OPERATIONS = 3576
CLUSTER_OPERATIONS = 8096
_GROUP_OPERATIONS = 3400


def grant_all(groups: Iterable[DescribedGroup] | Iterable[DescribedConsumerGroup]) -> None:
    """Write into the answer about each group what may be done with it; nothing for one that cannot be described."""
    for group in groups:
        if not group.error_code:
            group.authorized_operations = _GROUP_OPERATIONS

"""What a client may do with a topic, a cluster or a group (KIP-430): a bit for each of Kafka's AclOperations.

There is no authorizer: each has all the operations that Kafka has for it.
"""

from __future__ import annotations

TOPIC_OPERATIONS = 3576
CLUSTER_OPERATIONS = 8096
GROUP_OPERATIONS = 3400

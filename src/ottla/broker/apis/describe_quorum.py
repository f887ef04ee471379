"""DescribeQuorum, versions 0 to 2: which controller decides about the cluster's metadata.

One controller decides here (see UNSUPPORTED.md). The answer names it as the only voter and the leader of
`__cluster_metadata`-0, under the id of the broker that passes administrative requests on to it, with the version of its
image for offsets. There are no observers. Any other partition: UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

METADATA_TOPIC = "__cluster_metadata"
_NODES_FROM_VERSION = 2


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer from the image the controller published last."""
    topics = [
        ResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[
                _partition(broker, topic.topic_name, partition.partition_index, now_us)
                for partition in topic.partitions
            ],
        )
        for topic in request.message.topics
    ]
    nodes = _nodes(broker, request.listener) if request.version >= _NODES_FROM_VERSION else []
    broker.answer(request, DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes), now_us)


def _nodes(broker: BrokerPort, listener: str) -> list[Node]:
    nodes = []
    for address in broker.image.brokers:
        if address.broker_id == broker.image.controller_id:
            host, port = address.on(listener)
            nodes.append(Node(node_id=address.broker_id, listeners=[Listener(name=listener, host=host, port=port)]))
    return nodes


def _partition(broker: BrokerPort, topic: str, index: int, now_us: int) -> ResponsePartitionData:
    if (topic, index) != (METADATA_TOPIC, 0):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        detail = f"only {METADATA_TOPIC}-0 has a quorum"
        return ResponsePartitionData(partition_index=index, error_code=code, error_message=detail)
    image, wall_ms = broker.image, broker.wall_ms(now_us)
    voter = ReplicaState(
        replica_id=image.controller_id,
        log_end_offset=image.version,
        last_fetch_timestamp=wall_ms,
        last_caught_up_timestamp=wall_ms,
    )
    return ResponsePartitionData(
        partition_index=index,
        error_message=None,
        leader_id=image.controller_id,
        leader_epoch=1,
        high_watermark=image.version,
        current_voters=[voter],
    )

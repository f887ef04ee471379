"""DescribeCluster, versions 0 to 2: the brokers that are alive, and the cluster's id.

The controller's id is that of a broker that passes administrative requests on; every broker does. There are no
endpoints of controllers: asked for them the answer is MISMATCHED_ENDPOINT_TYPE, and UNSUPPORTED_ENDPOINT_TYPE for
anything else (KIP-919). Brokers that are fenced are not listed, also when asked for. Authorized operations: all.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.authorized_operations import CLUSTER_OPERATIONS
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse

_BROKERS, _CONTROLLERS = 1, 2


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer from the image the controller published last."""
    message, image = request.message, broker.image
    if message.endpoint_type != _BROKERS:
        asked_controllers = message.endpoint_type == _CONTROLLERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if asked_controllers else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        detail = "this is a broker's endpoint" if asked_controllers else "there are no endpoints of this type"
        broker.answer(request, DescribeClusterResponse(error_code=code, error_message=detail), now_us)
        return
    brokers = []
    for address in image.brokers:
        host, port = address.on(request.listener)
        brokers.append(DescribeClusterBroker(broker_id=address.broker_id, host=host, port=port, rack=address.rack))
    response = DescribeClusterResponse(
        error_message=None, cluster_id=image.cluster_id, controller_id=image.controller_id, brokers=brokers
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    broker.answer(request, response, now_us)

"""ListConfigResources, versions 0 and 1 (KIP-1142): the resources that DescribeConfigs can describe.

Topics, the brokers that are alive with their loggers, and subscriptions to clients' metrics; groups have no settings
here. Version 0 lists client metrics only. Without types everything is listed, by type and name; a type that does not
exist is UNSUPPORTED_VERSION, as in Apache Kafka.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.list_config_resources import ConfigResource, ListConfigResourcesResponse

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
_TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)
_TYPES_FROM_VERSION = 1


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """List them."""
    types = request.message.resource_types or _TYPES
    if request.version < _TYPES_FROM_VERSION:
        types = [CLIENT_METRICS]
    if any(asked not in _TYPES for asked in types):
        response = ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        broker.answer(request, response, now_us)
        return
    resources = []
    for asked in _TYPES:
        if asked in types:
            resources += [ConfigResource(resource_name=name, resource_type=asked) for name in _names(broker, asked)]
    broker.answer(request, ListConfigResourcesResponse(config_resources=resources), now_us)


def _names(broker: BrokerPort, asked: int) -> list[str]:
    if asked == TOPIC:
        return sorted(broker.image.topics)
    if asked in (BROKER, BROKER_LOGGER):
        return [str(address.broker_id) for address in broker.image.brokers]
    if asked == CLIENT_METRICS:
        return sorted(broker.image.client_metrics)
    return []

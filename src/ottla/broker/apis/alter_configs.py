"""AlterConfigs, versions 0 to 2: replaces all settings of topics or brokers; what is not named has its default again.

Old clients ask this way; current ones use IncrementalAlterConfigs, which changes only what it names. This broker and
the controller check both in the same way (`incremental_alter_configs.py`), except that here loggers and subscriptions
to clients' metrics are INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.incremental_alter_configs import Refusal, merged, refusals_of, told_by_controller
from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Check the resources here; those without a fault go to the controller."""
    message = request.message
    refusals = refusals_of(broker.broker_id, message, legacy=True)
    well = [resource for resource, refusal in zip(message.resources, refusals, strict=True) if refusal is None]
    if not well:
        broker.answer(request, _response(message, refusals, []), now_us)
        return

    def answered(answer: Any, now_us: int) -> None:
        broker.answer(request, _response(message, refusals, told_by_controller(answer, len(well))), now_us)

    broker.ask_controller(AlterConfigsRequest(resources=well, validate_only=message.validate_only), answered)


def _response(message: Any, refusals: list[Refusal | None], told: list[Any]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=code,
                error_message=detail,
            )
            for resource, (code, detail) in zip(message.resources, merged(refusals, told), strict=True)
        ]
    )

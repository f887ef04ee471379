"""AlterClientQuotas, versions 0 and 1: passed on to the controller, which keeps what clients may use (KIP-546).

`producer_byte_rate` and `consumer_byte_rate` are enforced (`ottla.broker.client_quotas`); `request_percentage`,
`controller_mutation_rate` and `connection_creation_rate` are stored and described, but not enforced. Where the
controller cannot be reached every entry gets NOT_CONTROLLER, which clients retry.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntityData,
    ResponseEntryData,
)


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Pass the request on."""
    broker.pass_on(request, unreachable)


def unreachable(message: AlterClientQuotasRequest) -> Any:
    """The answer where there is no controller."""
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=ErrorCode.NOT_CONTROLLER,
                error_message="the controller cannot be reached",
                entity=[
                    ResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            for entry in message.entries
        ]
    )

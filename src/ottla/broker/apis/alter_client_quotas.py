"""AlterClientQuotas, versions 0 and 1: refused with a sentence, since nothing here would enforce a quota."""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasResponse,
    ResponseEntityData,
    ResponseEntryData,
)

_DETAIL = "this broker enforces no quotas: none was set"


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Refuse each entry."""
    entries = [
        ResponseEntryData(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=_DETAIL,
            entity=[
                ResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
            ],
        )
        for entry in request.message.entries
    ]
    broker.answer(request, AlterClientQuotasResponse(entries=entries), now_us)

"""DescribeClientQuotas, versions 0 and 1: the quotas of the entities that a filter fits (KIP-546).

Each component of the filter names a type (`user`, `client-id`, `ip`) and what it must be: this name, the default, or
any. With `strict` an entity has no other types than those. A type that does not exist is UNSUPPORTED_VERSION, as in
Apache Kafka; one that is named twice, and addresses together with users or client ids, are INVALID_REQUEST.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.client_quotas import CLIENT_ID, IP, USER
from ottla.broker.events import QuotaEntity
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_EXACT, _DEFAULT, _ANY = 0, 1, 2


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Describe them."""
    message = request.message
    fault = _fault(message)
    if fault is not None:
        code, detail = fault
        response = DescribeClientQuotasResponse(error_code=code, error_message=detail, entries=None)
        broker.answer(request, response, now_us)
        return
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=key, value=value) for key, value in limits.items()],
        )
        for entity, limits in broker.image.quotas.items()
        if _fits(entity, message)
    ]
    broker.answer(request, DescribeClientQuotasResponse(error_message=None, entries=entries), now_us)


def _fault(message: DescribeClientQuotasRequest) -> tuple[int, str] | None:
    seen: dict[str, None] = {}
    for component in message.components:
        kind = component.entity_type
        if not kind:
            return ErrorCode.INVALID_REQUEST, "a part of the filter has no entity type"
        if kind in seen:
            return ErrorCode.INVALID_REQUEST, f"the filter names {kind} more than once"
        if kind not in (USER, CLIENT_ID, IP):
            return ErrorCode.UNSUPPORTED_VERSION, f"there are no quotas for {kind!r}"
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            return ErrorCode.INVALID_REQUEST, f"match type {component.match_type} is unknown"
        if component.match_type == _EXACT and component.match is None:
            return ErrorCode.INVALID_REQUEST, f"the filter is to match a name of {kind}, and gives none"
        if component.match_type != _EXACT and component.match is not None:
            return ErrorCode.INVALID_REQUEST, f"the filter gives a name of {kind} that is not to be matched"
        seen[kind] = None
    if IP in seen and len(seen) > 1:
        return ErrorCode.INVALID_REQUEST, "quotas for addresses are for no users and client ids as well"
    return None


def _fits(entity: QuotaEntity, message: DescribeClientQuotasRequest) -> bool:
    parts = dict(entity)
    for component in message.components:
        if component.entity_type not in parts:
            return False
        name = parts[component.entity_type]
        if component.match_type == _EXACT and name != component.match:
            return False
        if component.match_type == _DEFAULT and name is not None:
            return False
    return not message.strict or len(parts) == len(message.components)

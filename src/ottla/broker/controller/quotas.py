"""The controller's part of AlterClientQuotas (KIP-546): limits of users, client ids, both, and addresses.

Each entity is changed whole or not at all, independently of others in the same request. A limit that is removed and was
not there is no error. Brokers enforce the limits that `client_quotas` names; the others are only stored and described.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from math import inf

from ottla.broker.client_quotas import CLIENT_ID, CONSUMED, IP, PRODUCED, USER
from ottla.broker.controller.state import ControllerState
from ottla.broker.events import ClusterImage, QuotaEntity
from ottla.broker.refused import Refused, not_written
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntityData,
    ResponseEntryData,
)

_OF_CLIENTS = (PRODUCED, CONSUMED, "request_percentage", "controller_mutation_rate")
_OF_ADDRESSES = ("connection_creation_rate",)
_WHOLE = (PRODUCED, CONSUMED, "connection_creation_rate")


class Quotas:
    """Changes quotas; `publish` is given each new image."""

    def __init__(self, state: ControllerState, publish: Callable[[ClusterImage], None]) -> None:
        self._state = state
        self._publish = publish

    def alter(self, message: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        """Set and remove limits; each entity succeeds or fails by itself."""
        quotas = dict(self._state.image.quotas)
        results = []
        for entry in message.entries:
            result = ResponseEntryData(
                error_message=None,
                entity=[
                    ResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            results.append(result)
            try:
                entity = entity_of(entry)
                limits = _changed(quotas.get(entity, {}), entity, entry)
            except Refused as refusal:
                result.error_code, result.error_message = refusal.error_code, str(refusal)
                continue
            quotas.pop(entity, None)
            if limits:
                quotas[entity] = limits
        if not message.validate_only and quotas != self._state.image.quotas:
            try:
                self._publish(self._state.change({}, quotas=quotas))
            except OSError as error:
                failed = not_written(error)
                for result in results:
                    if not result.error_code:
                        result.error_code, result.error_message = failed.error_code, str(failed)
        return AlterClientQuotasResponse(entries=results)


def entity_of(entry: RequestEntryData) -> QuotaEntity:
    """The entity that the limits of a request are for, its parts in order; raises Refused where there is none such."""
    if not entry.entity:
        raise Refused(ErrorCode.INVALID_REQUEST, "a quota is for a user, a client id, both, or an address")
    parts: dict[str, str | None] = {}
    for part in entry.entity:
        if part.entity_type not in (USER, CLIENT_ID, IP):
            raise Refused(ErrorCode.INVALID_REQUEST, f"there are no quotas for {part.entity_type!r}")
        if part.entity_type in parts:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{part.entity_type} is named more than once")
        if part.entity_name == "":
            raise Refused(ErrorCode.INVALID_REQUEST, f"{part.entity_type} has an empty name")
        parts[part.entity_type] = part.entity_name
    if IP in parts and len(parts) > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "a quota for an address is for no user or client id as well")
    return tuple(sorted(parts.items(), key=lambda each: each[0]))


def _changed(limits: dict[str, float], entity: QuotaEntity, entry: RequestEntryData) -> dict[str, float]:
    known = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    changed = dict(limits)
    seen: dict[str, None] = {}
    for op in entry.ops:
        if op.key in seen:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{op.key} is named more than once")
        seen[op.key] = None
        if op.key not in known:
            raise Refused(ErrorCode.INVALID_REQUEST, f"there is no quota {op.key!r} here; there are {', '.join(known)}")
        if op.remove:
            changed.pop(op.key, None)
            continue
        if not 0 < op.value < inf:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{op.key}={op.value} must be a number greater than 0")
        if op.key in _WHOLE and op.value != int(op.value):
            raise Refused(ErrorCode.INVALID_REQUEST, f"{op.key}={op.value} must be an integer")
        if entity[0][0] == IP and entity[0][1] is not None:
            try:
                ip_address(entity[0][1])
            except ValueError:
                raise Refused(ErrorCode.INVALID_REQUEST, f"{entity[0][1]!r} is not an IP address") from None
        changed[op.key] = op.value
    return changed

"""IncrementalAlterConfigs, versions 0 and 1: sets, deletes, appends to and subtracts from settings (KIP-339).

This broker checks what concerns brokers and the form of the request: a resource or a setting named twice, a value that
is missing, and another broker's settings are INVALID_REQUEST (KIP-226: a broker's own settings are changed at that
broker, those of all brokers at any). The rest goes to the controller, which answers when every broker has the change.
There are no loggers whose levels could be set (INVALID_CONFIG), and no settings of groups (INVALID_REQUEST).
Subscriptions to clients' metrics (KIP-714) are resources like topics.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS = 2, 4, 8, 16
_DELETE = 1

Refusal = tuple[int, str]


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Check the resources here; those without a fault go to the controller."""
    message = request.message
    refusals = refusals_of(broker.broker_id, message)
    well = [resource for resource, refusal in zip(message.resources, refusals, strict=True) if refusal is None]
    if not well:
        broker.answer(request, _response(message, refusals, []), now_us)
        return

    def answered(answer: Any, now_us: int) -> None:
        broker.answer(request, _response(message, refusals, told_by_controller(answer, len(well))), now_us)

    broker.ask_controller(IncrementalAlterConfigsRequest(resources=well, validate_only=message.validate_only), answered)


def _response(message: Any, refusals: list[Refusal | None], told: list[Any]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
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


def merged(refusals: list[Refusal | None], told: list[tuple[int, str | None]]) -> list[tuple[int, str | None]]:
    """The result for each resource: the refusal found here, or the controller's answer."""
    answers = iter(told)
    return [refusal if refusal is not None else next(answers) for refusal in refusals]


def told_by_controller(answer: Any, count: int) -> list[tuple[int, str | None]]:
    """(error code, sentence) for each resource that was passed on; NOT_CONTROLLER without an answer."""
    if answer is None:
        return [(ErrorCode.NOT_CONTROLLER, "the controller cannot be reached")] * count
    return [(result.error_code, result.error_message) for result in answer.responses]


def refusals_of(broker_id: int, message: Any, *, legacy: bool = False) -> list[Refusal | None]:
    """What this broker finds wrong with each resource of the request; None: the controller checks the rest."""
    named = Counter((resource.resource_type, resource.resource_name) for resource in message.resources)
    twice = (ErrorCode.INVALID_REQUEST, "each resource may be named once only")
    return [
        twice
        if named[resource.resource_type, resource.resource_name] > 1
        else _refusal_of(broker_id, resource, legacy=legacy)
        for resource in message.resources
    ]


def _refusal_of(broker_id: int, resource: Any, *, legacy: bool) -> Refusal | None:
    kind, name = resource.resource_type, resource.resource_name
    names = [config.name for config in resource.configs]
    if len(dict.fromkeys(names)) != len(names):
        return ErrorCode.INVALID_REQUEST, "each setting may be named once only"
    for config in resource.configs:
        if config.value is None and (legacy or config.config_operation != _DELETE):
            return ErrorCode.INVALID_REQUEST, f"setting {config.name} has no value"
    if kind == TOPIC or (kind == CLIENT_METRICS and not legacy):
        return None
    if kind == BROKER or (kind == BROKER_LOGGER and not legacy):
        if name or kind == BROKER_LOGGER:
            if not name.lstrip("-").isdecimal():
                return ErrorCode.INVALID_REQUEST, f"a broker's id is an integer, not {name!r}"
            if name != str(broker_id):
                return ErrorCode.INVALID_REQUEST, f"this is broker {broker_id}, ask broker {name} itself"
        if kind == BROKER_LOGGER:
            return (ErrorCode.INVALID_CONFIG, f"there is no logger {names[0]!r}") if names else (0, "")
        return None
    return ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings here"

"""AlterPartitionReassignments, versions 0 and 1: passed on to the controller, which moves replicas (KIP-455).

The controller's decisions and errors are in `ottla.broker.controller.reassignments`. A request of version 1 can forbid
a change of the number of replicas. Where the controller cannot be reached the answer is NOT_CONTROLLER, which clients
retry.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Pass the request on."""
    broker.pass_on(request, unreachable)


def unreachable(message: AlterPartitionReassignmentsRequest) -> Any:
    """The answer where there is no controller."""
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=message.allow_replication_factor_change,
        error_code=ErrorCode.NOT_CONTROLLER,
        error_message="the controller cannot be reached",
        responses=[],
    )

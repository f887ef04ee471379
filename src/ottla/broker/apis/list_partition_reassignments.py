"""ListPartitionReassignments, version 0: partitions whose replicas are moving. None ever do (see UNSUPPORTED.md)."""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Say that there are none."""
    broker.answer(request, ListPartitionReassignmentsResponse(error_message=None, topics=[]), now_us)

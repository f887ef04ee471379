"""Which broker coordinates a consumer group (FindCoordinator)."""

from __future__ import annotations

from ottla.client.admin_driver import AdminDriver
from ottla.connection.request import ANY_NODE
from ottla.errors import OttlaError
from ottla.producer.coordinator import GROUP
from ottla.protocol.error_codes import kafka_error
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest


def find_group_coordinator(driver: AdminDriver, group_id: str) -> tuple[int, OttlaError | None]:
    """(broker id, None), as any broker answers it; (-1, error) where the answer is an error."""
    answer = driver.ask(FindCoordinatorRequest(key=group_id, key_type=GROUP), ANY_NODE).message
    if answer.error_code:
        return -1, kafka_error(answer.error_code, f"looking for the coordinator of group {group_id!r}")
    return answer.node_id, None

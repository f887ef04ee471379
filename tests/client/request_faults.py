"""What may go wrong with requests for records of a topic, for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.error_codes import ErrorCode

REQUEST_FAULTS: dict[str, Callable[[Any, str], Any]] = {
    "refuse": lambda faults, topic: faults.refuse(topic=topic, every=3, error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "lose_ack": lambda faults, topic: faults.lose_ack(topic=topic, every=5),
    "lose_request": lambda faults, topic: faults.lose_request(topic=topic, every=5),
}

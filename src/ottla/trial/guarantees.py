"""The three delivery guarantees of the field, as producer settings, in the order in which they are shown.

At-most-once never sends anything twice, at-least-once sends again until it is answered, exactly-once does so too and
lets the broker recognise what it already has (idempotence, KIP-98; it holds within one producer session).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.ledger.schema import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE


@dataclass(slots=True, frozen=True)
class Guarantee:
    """`settings` go to `Producer`; `words` say them on the screen; `is_answered` is False for acks=0."""

    name: str
    settings: dict[str, Any]
    words: str
    is_answered: bool = True


GUARANTEES = (
    Guarantee(
        AT_MOST_ONCE, {"acks": 0, "retries": 0, "enable_idempotence": False}, "acks=0, no retries", is_answered=False
    ),
    Guarantee(AT_LEAST_ONCE, {"acks": "all", "enable_idempotence": False}, "acks=all, retries"),
    Guarantee(EXACTLY_ONCE, {"acks": "all", "enable_idempotence": True}, "acks=all, retries, idempotence"),
)

# What every run sets besides. One request in flight keeps the order under retries, and the faults on the same
# records; short pauses, because a few hundred connections are about to be cut on purpose.
COMMON_SETTINGS: dict[str, Any] = {
    "max_in_flight_requests_per_connection": 1,
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 100,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 100,
    "request_timeout_ms": 10_000,
    "delivery_timeout_ms": 45_000,
    "max_block_ms": 20_000,
}

"""What every producer of a run sets besides the settings that claim its guarantee (`audit.promises`).

One request in flight keeps the order under retries, and the faults on the same records; short pauses, because a few
hundred connections are about to be cut on purpose.
"""

from __future__ import annotations

from typing import Any

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

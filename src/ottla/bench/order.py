"""What a client is to send, and what was measured: the words between `ottla bench` and its worker processes."""

from __future__ import annotations

from typing import Any, NamedTuple

LINGER_MS = 5
# The default of librdkafka, whose users rarely change it.
BATCH_BYTES = 1_000_000
# A client sends no more than this, so that a fast one does not fill the disk and the memory.
RECORDS_MAX = 2_000_000
ACKS_PER_S = 500


class Order(NamedTuple):
    """Send for `seconds` as fast as it goes, then for as long at `ACKS_PER_S` records a second without lingering."""

    client: str
    bootstrap_servers: str
    topic: str
    record_bytes: int
    seconds: float
    # About security, under the names that this client has for it.
    settings: dict[str, Any]


class Measured(NamedTuple):
    """What came of it: `records` acknowledged in `seconds`, `sent` in all, and milliseconds to acknowledgements.

    Without latencies where a client learns of whole tables.
    """

    version: str
    sent: int
    records: int
    seconds: float
    ack_p50_ms: float | None
    ack_p99_ms: float | None

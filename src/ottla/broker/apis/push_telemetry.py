"""PushTelemetry, version 0 (KIP-714): a client's metrics, of which the last ones are kept.

The decisions and errors are in `ottla.broker.client_telemetry`.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.messages.push_telemetry import PushTelemetryResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Take them."""
    error_code = broker.client_telemetry.push(request, broker.image.client_metrics, now_us)
    broker.answer(request, PushTelemetryResponse(error_code=error_code), now_us)

"""GetTelemetrySubscriptions, version 0 (KIP-714): which metrics a client is to push, how often, and under which id.

The decisions and errors are in `ottla.broker.client_telemetry`.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer with the subscription."""
    answer = broker.client_telemetry.subscription(request, broker.image.client_metrics, now_us)
    broker.answer(request, answer, now_us)

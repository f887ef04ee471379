"""GetTelemetrySubscriptions, version 0 (KIP-714): which of its metrics a client is to push, how often, and under what.

What is decided, and the errors, stand in `ottla.broker.client_telemetry`.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Say it."""
    answer = broker.client_telemetry.subscription(request, broker.image.client_metrics, now_us)
    broker.answer(request, answer, now_us)

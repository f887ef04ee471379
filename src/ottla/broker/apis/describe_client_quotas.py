"""DescribeClientQuotas, versions 0 and 1: finds no quotas, since there are none (UNSUPPORTED.md)."""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Say that there are none."""
    broker.answer(request, DescribeClientQuotasResponse(error_message=None, entries=[]), now_us)

"""SaslHandshake, versions 0 and 1: always refused when it reaches the core.

On a SASL listener `broker.authentication` answers it before the core sees it. What is left is a client that begins
SASL on a listener without it, or again where sessions do not end: ILLEGAL_SASL_STATE, as with Kafka.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer that SASL cannot begin here."""
    broker.answer(request, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]), now_us)

"""SaslAuthenticate, versions 0 to 2: always refused when it reaches the core.

On a SASL listener `broker.authentication` answers it before the core sees it; anywhere else, and once a client is
authenticated, it gets ILLEGAL_SASL_STATE, as with Kafka.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer that SaslHandshake comes first."""
    answer = SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslAuthenticate without a SaslHandshake before it"
    )
    broker.answer(request, answer, now_us)

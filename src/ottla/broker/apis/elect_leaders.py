"""ElectLeaders, versions 0 to 2: passed on to the controller, which elects the preferred leaders or, unclean, any
living replica where there is no leader (KIP-460; before version 1 only preferred ones are elected).

The controller's decisions and errors are in `ottla.broker.controller.leadership`. Where it cannot be reached the answer
is NOT_CONTROLLER, which clients retry.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

_ERROR_CODE_FROM_VERSION = 1


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Pass the request on."""

    def answered(message: Any, answered_us: int) -> None:
        if not isinstance(message, ElectLeadersResponse):
            message = ElectLeadersResponse(error_code=ErrorCode.NOT_CONTROLLER)
        if request.version < _ERROR_CODE_FROM_VERSION:
            message.error_code = 0  # this version cannot carry it
        broker.answer(request, message, answered_us)

    message: ElectLeadersRequest = request.message
    broker.ask_controller(message, answered)

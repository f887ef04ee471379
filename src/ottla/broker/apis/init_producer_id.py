"""InitProducerId, versions 0 to 5: a producer id that no other producer of this cluster has or had, with epoch 0.

The controller gives ids away (see there). There are no transactions: a transactional id gets UNSUPPORTED_VERSION,
an empty one INVALID_REQUEST. A producer without one is given a new id whatever id it has, as Kafka does. Where the
controller cannot be reached the answer is COORDINATOR_NOT_AVAILABLE, which clients ask again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.core import BrokerCore


def handle(core: BrokerCore, request: Request, now_us: int) -> None:
    """Ask the controller for an id."""
    transactional_id = request.message.transactional_id
    if transactional_id is None:
        core.ask_controller(request, unreachable)
        return
    code = ErrorCode.UNSUPPORTED_VERSION if transactional_id else ErrorCode.INVALID_REQUEST
    core.answer(request, refused(code), now_us)


def unreachable(message: InitProducerIdRequest) -> Any:
    """The answer where there is no controller."""
    return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def refused(error_code: int) -> InitProducerIdResponse:
    """An answer without an id."""
    return InitProducerIdResponse(error_code=error_code, producer_id=-1, producer_epoch=-1)

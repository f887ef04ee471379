"""InitProducerId, versions 0 to 5: gives a producer its producer id and epoch.

Without a transactional id: a new id with epoch 0, whatever id the producer had, from the controller (see there). With
one, the coordinator of that id answers: the same producer id again, with a higher epoch, which fences older producers;
a transaction that is still open is aborted first, meanwhile CONCURRENT_TRANSACTIONS. From version 3 on a producer may
name the id and epoch it had (KIP-360) and is refused with PRODUCER_FENCED (before version 4 INVALID_PRODUCER_EPOCH)
where another one has come after it. Timeouts below 1 ms or above `transaction.max.timeout.ms`:
INVALID_TRANSACTION_TIMEOUT. Where the controller cannot be reached: COORDINATOR_NOT_AVAILABLE, which clients retry.
Two-phase commit (version 6, KIP-939) is not supported, as in Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_FENCED_FROM_VERSION = 4


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Ask the controller for an id, or the transaction coordinator."""
    message: InitProducerIdRequest = request.message
    transactional_id = message.transactional_id
    if (message.producer_id == -1) != (message.producer_epoch == -1) or transactional_id == "":
        broker.answer(request, refused(ErrorCode.INVALID_REQUEST), now_us)
    elif transactional_id is None:
        # Whatever id it names: only transactional producers keep theirs. The controller ignores the other fields.
        broker.pass_on(request, unreachable)
    elif not 0 < message.transaction_timeout_ms <= broker.settings.transaction_max_timeout_ms:
        broker.answer(request, refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT), now_us)
    else:
        _initialize(broker, request, transactional_id, now_us)


def _initialize(broker: BrokerPort, request: Request, transactional_id: str, now_us: int) -> None:
    # Imported here: most clusters never see a transaction.
    from ottla.broker.refused import Refused

    message: InitProducerIdRequest = request.message
    expected = (message.producer_id, message.producer_epoch) if message.producer_id != -1 else None

    def done(error_code: int, producer_id: int, epoch: int, later_us: int) -> None:
        if error_code == ErrorCode.PRODUCER_FENCED and request.version < _FENCED_FROM_VERSION:
            error_code = ErrorCode.INVALID_PRODUCER_EPOCH
        answer = InitProducerIdResponse(error_code=error_code, producer_id=producer_id, producer_epoch=epoch)
        broker.answer(request, answer, later_us)

    try:
        timeout_ms = message.transaction_timeout_ms
        broker.transactions.initialize(transactional_id, timeout_ms, expected, done, now_us)
    except Refused as refusal:
        done(refusal.error_code, -1, -1, now_us)


def unreachable(message: InitProducerIdRequest) -> Any:
    """The answer where there is no controller."""
    return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def refused(error_code: int) -> InitProducerIdResponse:
    """An answer without an id."""
    return InitProducerIdResponse(error_code=error_code, producer_id=-1, producer_epoch=-1)

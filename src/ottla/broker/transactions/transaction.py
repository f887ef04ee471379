"""One transactional id: its states, and what a request makes of it. Pure: nothing here reads or writes anything.

    Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing ...
                     -> PrepareAbort  -> CompleteAbort  -> Ongoing ...

`Transaction.data` is what is stored. Every `*_data` function gives what is to be stored next, or raises
Refused with Kafka's error code; the coordinator appends it to the log and takes it over (`settle`) once it
is replicated. Until then, and while markers are written, it is `pending`, and further requests get
CONCURRENT_TRANSACTIONS.

Two ways to end a transaction (`client_version`): up to version 1 the epoch stays the same from one transaction to the
next, and the same EndTxn again is answered with NONE. From version 2 on (KIP-890) every end raises the epoch, so a
repeated EndTxn has the previous epoch and cannot be taken for that of a new transaction. A producer that is replaced
(InitProducerId) or too slow (timeout) is fenced: the epoch is raised, too. Where the epochs of a producer id are used
up a new id takes its place.

Invariant: states change as `TRANSITIONS` allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from ottla.broker.refused import Refused
from ottla.protocol.error_codes import ErrorCode

EPOCH_MAX = (1 << 15) - 1
NO_PRODUCER = -1
NO_EPOCH = -1
NO_TIME = -1
Place = tuple[str, int]


class TransactionState(Enum):
    """The states, under their names in DescribeTransactions."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"


_S = TransactionState
# State -> the states that may follow. In version 2 a producer may abort although nothing has begun here.
TRANSITIONS: dict[TransactionState, tuple[TransactionState, ...]] = {
    _S.EMPTY: (_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD),
    _S.ONGOING: (_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT),
    _S.PREPARE_COMMIT: (_S.COMPLETE_COMMIT,),
    _S.PREPARE_ABORT: (_S.COMPLETE_ABORT,),
    _S.COMPLETE_COMMIT: (_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD),
    _S.COMPLETE_ABORT: (_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD),
    _S.DEAD: (),
}
PREPARED = (_S.PREPARE_COMMIT, _S.PREPARE_ABORT)
COMPLETE = (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT)


class DoneAlready(Exception):
    """A producer asks again for what has happened: nothing is left to do, and the answer has no error."""


class ProducerIdWanted(Exception):
    """The epochs of the producer id are used up: call again with a new id."""


class TransactionData(NamedTuple):
    """What is known of a transactional id; times in milliseconds since 1970, -1 for none.

    `next_producer_id` takes the place of `producer_id` when the transaction is complete; `last_epoch` is the previous
    one, where its owner may still use it (KIP-360). `partitions` are in the order they were added.
    """

    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    epoch: int
    last_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: tuple[Place, ...]
    started_ms: int
    updated_ms: int
    client_version: int

    @property
    def epoch_exhausted(self) -> bool:
        """Whether no producer may be given the next epoch: the last one is kept for fencing."""
        return _exhausted(self.epoch)


class Transaction:
    """A transactional id; `pending` is what is being stored, or waits for its markers, None where nothing is."""

    def __init__(self, transactional_id: str, data: TransactionData) -> None:
        self.transactional_id = transactional_id
        self.data = data
        self.pending: TransactionData | None = None

    def prepare(self, data: TransactionData) -> None:
        """Take `data` as what comes next."""
        assert data.state in TRANSITIONS[self.data.state], f"{self.data.state} -> {data.state}"
        self.pending = data

    def settle(self) -> None:
        """What is pending is stored for good."""
        assert self.pending is not None
        self.data, self.pending = self.pending, None


def new_data(producer_id: int, timeout_ms: int, now_ms: int) -> TransactionData:
    """A transactional id that was not used before."""
    return TransactionData(
        producer_id, NO_PRODUCER, NO_PRODUCER, NO_EPOCH, NO_EPOCH, timeout_ms, _S.EMPTY, (), NO_TIME, now_ms, 0
    )


def initialized_data(
    data: TransactionData,
    timeout_ms: int,
    expected: tuple[int, int] | None,
    new_producer_id: int | None,
    now_ms: int,
) -> TransactionData:
    """What InitProducerId makes of a transactional id that has no transaction; ProducerIdWanted, Refused.

    `expected` is the (producer id, epoch) that the producer had and wants to go on with (KIP-360).
    """
    given_epoch = expected[1] if expected is not None else None
    empty = data._replace(
        state=_S.EMPTY,
        previous_producer_id=data.producer_id,
        timeout_ms=timeout_ms,
        partitions=(),
        started_ms=NO_TIME,
        updated_ms=now_ms,
    )
    if data.epoch_exhausted and given_epoch in (None, data.epoch):
        if new_producer_id is None:
            raise ProducerIdWanted
        last_epoch = data.epoch if given_epoch is not None else NO_EPOCH
        return empty._replace(producer_id=new_producer_id, epoch=0, last_epoch=last_epoch)
    if given_epoch is None:
        return empty._replace(epoch=data.epoch + 1, last_epoch=NO_EPOCH)
    if data.epoch == NO_EPOCH or given_epoch == data.epoch:
        return empty._replace(epoch=data.epoch + 1, last_epoch=data.epoch)
    if given_epoch == data.last_epoch:
        return empty  # Asked again: the answer to the first request was lost.
    raise Refused(ErrorCode.PRODUCER_FENCED)


def check_expected(data: TransactionData, expected: tuple[int, int] | None) -> None:
    """Refused where another producer has the transactional id by now."""
    if expected is None or data.epoch == NO_EPOCH or expected[0] == data.producer_id:
        return
    if expected[0] != data.previous_producer_id or not _exhausted(expected[1]):
        raise Refused(ErrorCode.PRODUCER_FENCED)


def _check_owner(transaction: Transaction, producer_id: int, epoch: int) -> None:
    if transaction.data.producer_id != producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.data.epoch != epoch:
        raise Refused(ErrorCode.PRODUCER_FENCED)


def _check_settled(transaction: Transaction) -> None:
    """Refused where the next state is not stored yet. Who has been given that state's identity is not fenced."""
    if transaction.pending is not None or transaction.data.state in PREPARED:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)


def added_data(
    transaction: Transaction, producer_id: int, epoch: int, places: Iterable[Place], client_version: int, now_ms: int
) -> TransactionData:
    """What adding partitions makes of it, which may begin a transaction; DoneAlready, Refused."""
    data = transaction.data
    _check_settled(transaction)
    _check_owner(transaction, producer_id, epoch)
    ongoing = data.state is _S.ONGOING
    partitions = tuple(dict.fromkeys((*data.partitions, *places)))
    if ongoing and len(partitions) == len(data.partitions):
        raise DoneAlready
    return data._replace(
        state=_S.ONGOING,
        previous_producer_id=data.producer_id,
        partitions=partitions,
        started_ms=data.started_ms if ongoing else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def check_verifiable(transaction: Transaction, producer_id: int, epoch: int) -> None:
    """Refused where it cannot be told which partitions are in this producer's transaction."""
    _check_owner(transaction, producer_id, epoch)
    if transaction.data.state in PREPARED:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)


def fenced_data(transaction: Transaction, server_version: int, now_ms: int) -> TransactionData:
    """An ongoing transaction about to be aborted, with a raised epoch, which fences its producer.

    From version 2 on the end raises it anyway, and the producer may go on from the epoch it had, unless another one
    has.
    """
    data = transaction.data
    if server_version < 2:
        data = data._replace(epoch=min(EPOCH_MAX, data.epoch + 1), last_epoch=NO_EPOCH)
    return _prepared(data, _S.PREPARE_ABORT, server_version, NO_PRODUCER, now_ms)


def ended_data(
    transaction: Transaction,
    producer_id: int,
    epoch: int,
    committed: bool,
    client_version: int,
    new_producer_id: int | None,
    now_ms: int,
) -> TransactionData:
    """What EndTxn makes of it; ProducerIdWanted, DoneAlready, Refused."""
    data = transaction.data
    wanted = _S.PREPARE_COMMIT if committed else _S.PREPARE_ABORT
    if client_version < 2:
        _check_owner(transaction, producer_id, epoch)
        _check_settled(transaction)
        repeated = True
    else:
        _check_settled(transaction)
        repeated = _is_repeated(data, producer_id, epoch)
    if data.state is _S.ONGOING:
        return _ended(data, wanted, client_version, new_producer_id, now_ms)
    if data.state in COMPLETE and repeated:
        same = data.state is (_S.COMPLETE_COMMIT if committed else _S.COMPLETE_ABORT)
        if same:
            raise DoneAlready
        raise Refused(ErrorCode.INVALID_TXN_STATE)
    if client_version < 2 or committed:
        raise Refused(ErrorCode.INVALID_TXN_STATE)
    # Nothing has begun, as far as is known here; the producer gets its next epoch all the same.
    return _ended(data._replace(started_ms=now_ms), wanted, client_version, new_producer_id, now_ms)


def _is_repeated(data: TransactionData, producer_id: int, epoch: int) -> bool:
    """Whether a version 2 EndTxn repeats the end of the previous transaction; Refused for any other wrong epoch."""
    overflow = data.previous_producer_id == producer_id and epoch == EPOCH_MAX - 1 and data.epoch == 0
    repeated = overflow or data.epoch == epoch + 1
    if data.producer_id != producer_id and not overflow:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not (epoch == data.epoch or (data.state in COMPLETE and repeated)):
        raise Refused(ErrorCode.PRODUCER_FENCED)
    return repeated


def _ended(
    data: TransactionData, state: TransactionState, client_version: int, new_producer_id: int | None, now_ms: int
) -> TransactionData:
    next_producer_id = NO_PRODUCER
    if client_version >= 2 and data.epoch_exhausted:
        if new_producer_id is None:
            raise ProducerIdWanted
        next_producer_id = new_producer_id
    return _prepared(data, state, client_version, next_producer_id, now_ms)


def _prepared(
    data: TransactionData, state: TransactionState, client_version: int, next_producer_id: int, now_ms: int
) -> TransactionData:
    raised = client_version >= 2
    return data._replace(
        state=state,
        previous_producer_id=data.producer_id,
        next_producer_id=next_producer_id,
        epoch=min(EPOCH_MAX, data.epoch + 1) if raised else data.epoch,
        last_epoch=data.epoch if raised else data.last_epoch,
        updated_ms=now_ms,
        # Kafka writes 0 for producers of both earlier versions.
        client_version=client_version if raised else 0,
    )


def completed_data(data: TransactionData, now_ms: int) -> TransactionData:
    """What a prepared transaction becomes when all its markers are written."""
    replaced = data.client_version >= 2 and data.next_producer_id != NO_PRODUCER
    return data._replace(
        state=_S.COMPLETE_COMMIT if data.state is _S.PREPARE_COMMIT else _S.COMPLETE_ABORT,
        previous_producer_id=data.producer_id,
        producer_id=data.next_producer_id if replaced else data.producer_id,
        epoch=0 if replaced else data.epoch,
        next_producer_id=NO_PRODUCER,
        partitions=(),
        updated_ms=now_ms,
    )


def _exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1

"""The states of a transactional producer, the events that change them, and a transaction's identity."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

FEATURE = "transaction.version"
# The newest versions of Produce, EndTxn and TxnOffsetCommit that mean transaction version 1.
VERSION_1_CAPS = {0: 11, 26: 4, 28: 4}
# A coordinator that cannot be reached for so long may have moved.
REACH_US = 1_000_000


def version_in(features: Mapping[str, int]) -> int:
    """The transaction version (KIP-890), 1 or 2, by a cluster's finalized features."""
    return 2 if features.get(FEATURE, 0) > 1 else 1


class TransactionState(IntEnum):
    """The state of a transactional producer."""

    UNINITIALIZED = 0
    INITIALIZING = 1
    READY = 2
    OPEN = 3
    PREPARING = 4
    PREPARED = 5
    COMMITTING = 6
    ABORTABLE = 7
    ABORTING = 8
    FATAL = 9


class TransactionEvent(IntEnum):
    """What changes the state."""

    INITIALIZE = 0
    GIVEN = 1
    DENIED = 2
    BEGIN = 3
    PREPARE = 4
    STORED = 5
    COMMIT = 6
    ABORT = 7
    FAIL = 8
    ENDED = 9
    RENEW = 10
    BREAK = 11
    RELEASE = 12


_S, _V = TransactionState, TransactionEvent
# FAIL: the transaction can only be aborted. RENEW: it ended, and a new epoch is needed. RELEASE: the same, where the
# identity is one that the user gave: InitProducerId, which may abort what another producer has begun, is sent when the
# user begins again. BREAK, possible in every state:
# the producer is fenced, or has another error that a new transaction does not mend.
TRANSITIONS: dict[tuple[TransactionState, TransactionEvent], TransactionState] = {
    (_S.UNINITIALIZED, _V.INITIALIZE): _S.INITIALIZING,
    (_S.INITIALIZING, _V.GIVEN): _S.READY,
    (_S.INITIALIZING, _V.DENIED): _S.UNINITIALIZED,
    (_S.READY, _V.INITIALIZE): _S.INITIALIZING,
    (_S.READY, _V.BEGIN): _S.OPEN,
    (_S.OPEN, _V.PREPARE): _S.PREPARING,
    (_S.OPEN, _V.COMMIT): _S.COMMITTING,
    (_S.OPEN, _V.ABORT): _S.ABORTING,
    (_S.OPEN, _V.FAIL): _S.ABORTABLE,
    (_S.PREPARING, _V.STORED): _S.PREPARED,
    (_S.PREPARING, _V.ABORT): _S.ABORTING,
    (_S.PREPARING, _V.FAIL): _S.ABORTABLE,
    (_S.PREPARED, _V.INITIALIZE): _S.INITIALIZING,
    (_S.PREPARED, _V.COMMIT): _S.COMMITTING,
    (_S.PREPARED, _V.ABORT): _S.ABORTING,
    (_S.COMMITTING, _V.ENDED): _S.READY,
    (_S.COMMITTING, _V.RENEW): _S.INITIALIZING,
    (_S.COMMITTING, _V.RELEASE): _S.UNINITIALIZED,
    (_S.COMMITTING, _V.FAIL): _S.ABORTABLE,
    (_S.ABORTABLE, _V.ABORT): _S.ABORTING,
    (_S.ABORTING, _V.ENDED): _S.READY,
    (_S.ABORTING, _V.RENEW): _S.INITIALIZING,
    (_S.ABORTING, _V.RELEASE): _S.UNINITIALIZED,
    **{(state, _V.BREAK): _S.FATAL for state in _S if state is not _S.FATAL},
}
NOT_BEGUN = "no transaction is open; call begin_transaction() first, or send inside `with producer.transaction():`"
# The text of errors for a call that a state does not allow; ABORTABLE and FATAL have an error of their own.
STANDING = {
    _S.UNINITIALIZED: NOT_BEGUN,
    _S.INITIALIZING: "the producer has no identity yet; call init_transactions() again",
    _S.READY: NOT_BEGUN,
    _S.OPEN: "a transaction is open; commit or abort it first",
    _S.PREPARING: "the transaction is being prepared; call prepare_transaction() again",
    _S.PREPARED: "the transaction is prepared; commit or abort it",
    _S.COMMITTING: "the transaction is being committed; call commit_transaction() again",
    _S.ABORTING: "the transaction is being aborted; call abort_transaction() again",
}


class TransactionIdentity(NamedTuple):
    """What identifies one transaction at its coordinator: a client that has it can end the transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

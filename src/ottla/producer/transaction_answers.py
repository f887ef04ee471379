"""What a transactional producer does after each error code of a coordinator (KIP-588, KIP-1050).

The tables follow Java's TransactionManager (4.3), and a test compares them with it for every code. There are four
exceptions:

- EndTxn is sent again after UNKNOWN_SERVER_ERROR: to request the same end again is always safe, and giving up would
  leave the outcome unknown.
- INVALID_TXN_STATE for EndTxn(commit) means that the transaction was aborted because it lasted longer than
  `transaction.timeout.ms`. The producer may go on after aborting. In transaction version 1 it does not mean that if an
  earlier EndTxn(commit) was not answered.
- InitProducerId that was refused for lack of authorization may be tried again by the same producer.
- INVALID_PRODUCER_ID_MAPPING ends Java's producer. This one requests a new identity and names the one it had: the
  coordinator refuses that if the id has a later identity (and aborts an open transaction of it), and gives a new
  identity if the id was removed (`transactional.id.expiration.ms`). If the user gave the identity, that waits until the
  next transaction begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from ottla.protocol.error_codes import ErrorCode, is_retriable

_E = ErrorCode


class Reaction(IntEnum):
    """What to do about an answer that is an error."""

    AGAIN = 0
    """Ask again after a pause."""
    LOOK = 1
    """The coordinator is another broker: look for it, then ask again."""
    ABORT = 2
    """The transaction can only be aborted."""
    RENEW = 3
    """The coordinator has no state of this producer id: abort by requesting a new identity."""
    GONE = 4
    """There is no transaction that can be ended in this way."""
    DENY = 5
    """Not allowed; nothing has happened, and it may be tried again."""
    FENCED = 6
    """A newer producer uses this transactional id."""
    BREAK = 7
    """This producer cannot go on."""


class RequestKind(IntEnum):
    """The requests of a transaction, as far as they go to coordinators."""

    INITIALIZE = 0
    ADD_PARTITIONS = 1
    ADD_OFFSETS = 2
    COMMIT_OFFSETS = 3
    END = 4


_FOR_ALL = {
    _E.COORDINATOR_NOT_AVAILABLE: Reaction.LOOK,
    _E.NOT_COORDINATOR: Reaction.LOOK,
    _E.INVALID_PRODUCER_EPOCH: Reaction.FENCED,
    _E.PRODUCER_FENCED: Reaction.FENCED,
    _E.TRANSACTION_ABORTABLE: Reaction.ABORT,
}
_UNKNOWN_IDENTITY = {
    _E.UNKNOWN_PRODUCER_ID: Reaction.RENEW,
    _E.INVALID_PRODUCER_ID_MAPPING: Reaction.RENEW,
}
_TABLES: dict[RequestKind, dict[int, Reaction]] = {
    RequestKind.INITIALIZE: {
        **_FOR_ALL,
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Reaction.DENY,
        _E.CLUSTER_AUTHORIZATION_FAILED: Reaction.DENY,
    },
    RequestKind.ADD_PARTITIONS: {
        **_FOR_ALL,
        **_UNKNOWN_IDENTITY,
        _E.TOPIC_AUTHORIZATION_FAILED: Reaction.ABORT,
        # The errors of the other partitions decide.
        _E.OPERATION_NOT_ATTEMPTED: Reaction.AGAIN,
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Reaction.BREAK,
        _E.INVALID_TXN_STATE: Reaction.BREAK,
    },
    RequestKind.ADD_OFFSETS: {**_FOR_ALL, **_UNKNOWN_IDENTITY, _E.GROUP_AUTHORIZATION_FAILED: Reaction.ABORT},
    RequestKind.COMMIT_OFFSETS: {
        **_FOR_ALL,
        _E.REQUEST_TIMED_OUT: Reaction.LOOK,
        _E.GROUP_AUTHORIZATION_FAILED: Reaction.ABORT,
        _E.FENCED_INSTANCE_ID: Reaction.ABORT,
        _E.UNKNOWN_MEMBER_ID: Reaction.ABORT,
        _E.ILLEGAL_GENERATION: Reaction.ABORT,
    },
    RequestKind.END: {
        **_FOR_ALL,
        **_UNKNOWN_IDENTITY,
        _E.INVALID_TXN_STATE: Reaction.GONE,
        _E.UNKNOWN_SERVER_ERROR: Reaction.AGAIN,
    },
}
# Any other error of a partition concerns this transaction only.
_OTHERWISE = {RequestKind.ADD_PARTITIONS: Reaction.ABORT}

# Errors of EndTxn after which the outcome may be in the coordinator's log nevertheless, now or later.
LEAVES_OPEN = frozenset(
    (
        _E.UNKNOWN_SERVER_ERROR,
        _E.REQUEST_TIMED_OUT,
        _E.COORDINATOR_NOT_AVAILABLE,
        _E.NOT_COORDINATOR,
        _E.KAFKA_STORAGE_ERROR,
    )
)


def reaction_to(kind: RequestKind, code: int) -> Reaction:
    """Return what to do about this error code in an answer to this kind of request."""
    known = _TABLES[kind].get(code)
    if known is not None:
        return known
    if is_retriable(code):
        return Reaction.AGAIN
    return _OTHERWISE.get(kind, Reaction.BREAK)


def most_serious(kind: RequestKind, codes: Mapping[tuple[str, int], int]) -> tuple[int, Reaction] | None:
    """Return the most serious error code of many partitions, and what to do about it; None without errors."""
    errors: Iterable[int] = [code for code in codes.values() if code]
    return max(((code, reaction_to(kind, code)) for code in errors), key=lambda found: found[1], default=None)

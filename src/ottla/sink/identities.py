"""The transactional ids of a sink: one for its driver, few for its tasks. Pure.

    ottla-sink-6-orders/driver          the coordinator's: whoever has its newest epoch may decide
    ottla-sink-6-orders/17/0/turn       counts attempts at Spark partition 17 whose number is 0; nobody writes with it
    ottla-sink-6-orders/17/0/2/60000    such an attempt's: place 2, for transactions that may last 60,000 ms
    ottla-sink-6-orders/17/0/2          the same in transaction version 1
    ottla-sink-6-orders@own/17/0/turn   the count of a sink that keeps its decisions in topic `own`

The length of the sink id stands in front, so that no sink's prefix is the prefix of another one's ids. Whoever reads
another topic than the one where a sink decides would abort what is decided, and so does not find its tasks. The driver
has one id whatever the topic is: of two drivers with one sink id only the newest can decide.

Two attempts that can be alive at once must not share a task's id. Looking at an id is not enough: an attempt may be
held up between its look and the request by which it takes the id. So an attempt first takes a turn, by InitProducerId
for the id `turn`: no other attempt is given the same epoch of it. The epoch says which of the `PLACES` ids is the
attempt's. If that one is in use (`is_free`), the attempt takes another turn. How it takes the id, and why it takes it
from nobody, is told in `taking`.

Attempts with different numbers have different ids. Those with the same number belong to different plans, or to a stage
that was run again: Spark gives a stage up when it has failed four times in succession.
"""

from __future__ import annotations

from collections.abc import Collection

from ottla.client.transaction_admin import TransactionDescription
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.settings import CONTROL_TOPIC

PLACES = 4
TURNS_MOST = 4 * PLACES
_TURN = "/turn"
_FREE = ("CompleteCommit", "CompleteAbort")
_EPOCH_MAX = 32_767


def prefix_of(sink_id: str, control_topic: str = CONTROL_TOPIC) -> str:
    """What the transactional ids of this sink's tasks begin with, and of no other's that decides in this topic."""
    elsewhere = "" if control_topic == CONTROL_TOPIC else f"@{control_topic}"
    return f"ottla-sink-{len(sink_id.encode())}-{sink_id}{elsewhere}/"


def coordinator_id(sink_id: str) -> str:
    """The transactional id of the sink's driver."""
    return f"{prefix_of(sink_id)}driver"


def turn_id(prefix: str, partition_id: int, attempt_number: int) -> str:
    """The transactional id that counts the attempts at this partition with this number; `prefix` is the sink's."""
    return f"{prefix}{partition_id}/{attempt_number}{_TURN}"


def is_turn(transactional_id: str) -> bool:
    """Whether this id of a sink only counts attempts: it never has a transaction."""
    return transactional_id.endswith(_TURN)


def task_transactional_id(turn: TransactionIdentity, timeout_ms: int | None = None) -> str:
    """The transactional id at the place of an attempt that was given this turn; without a timeout, of version 1."""
    of_place = f"{turn.transactional_id.removesuffix(_TURN)}/{turn.producer_epoch % PLACES}"
    return of_place if timeout_ms is None else f"{of_place}/{timeout_ms}"


def is_last_of_place(turn: TransactionIdentity, newest: TransactionDescription | None) -> bool:
    """Whether no later turn was given the same place; `newest` is the turn that was given last.

    When the epochs of a producer id are used up turns go on with another one: nobody knows then.
    """
    if newest is None or newest.producer_id != turn.producer_id:
        return False
    return newest.producer_epoch < turn.producer_epoch + PLACES


def is_free(described: TransactionDescription | None, idle: Collection[TransactionIdentity]) -> bool:
    """Whether no attempt that may be alive has this transactional id.

    `idle` are those that the plan found with an identity and without a transaction: whoever was given one of them is of
    an earlier plan. One found so since then belongs to an attempt of this plan that has not sent anything yet.

    The last epoch of a producer id is for fencing (a timeout). A transaction of it could not be ended: Kafka gives each
    end the next epoch (KIP-890), and there is none.
    """
    if described is None:
        return True
    if described.producer_epoch == _EPOCH_MAX:
        return False
    if described.state in _FREE:
        return True
    known = TransactionIdentity(described.transactional_id, described.producer_id, described.producer_epoch)
    return described.state == "Empty" and known in idle

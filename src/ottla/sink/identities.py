"""The transactional ids of a sink: one for its driver, few for its tasks. Pure.

    ottla-sink-6-orders/driver          the driver's: the process with its newest epoch may decide
    ottla-sink-6-orders/17/0/turn       counts attempts at Spark partition 17 with number 0; it never has a transaction
    ottla-sink-6-orders/17/0/2/60000    the id of such an attempt: slot 2, transaction.timeout.ms=60000
    ottla-sink-6-orders/17/0/2          the same in transaction version 1
    ottla-sink-6-orders@own/17/0/turn   the same count for a sink with the control topic `own`

The length of the sink id comes first, so that the ids of one sink never begin with the prefix of another. A program
that reads another control topic does not find the decision. It does not find the tasks' ids either, so it cannot abort
what is decided. The driver's id does not depend on the topic: of two drivers with one sink id only the newest can
decide.

Two attempts that may be alive must not have the same id. To ask whether an id is in use is not enough: an attempt may
be delayed between the answer and the request that takes the id. So an attempt first sends InitProducerId for the id
that ends in `turn`. The epoch in the answer is its ticket, a number that no other attempt gets. The ticket says which
of the task's ids it may take (its slot). If that id is in use (not `is_free`), the attempt takes another ticket.
`taking` describes how it takes the id, and why it takes it from no other attempt.

Attempts with different numbers have different ids. Attempts with the same number belong to different plans, or to a
stage that was run again: Spark fails the job after four failures of a stage in succession.
"""

from __future__ import annotations

from ottla.client.transaction_admin import TransactionDescription
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.settings import CONTROL_TOPIC

SLOTS = 4
TICKETS_MOST = 4 * SLOTS
# Not to be changed: brokers have stored the counts of earlier releases under this name.
_TICKET = "/turn"
_FREE = ("CompleteCommit", "CompleteAbort")
_EPOCH_MAX = 32_767


def prefix_of(sink_id: str, control_topic: str = CONTROL_TOPIC) -> str:
    """The prefix of the transactional ids of this sink's tasks, and of no other sink that decides in this topic."""
    elsewhere = "" if control_topic == CONTROL_TOPIC else f"@{control_topic}"
    return f"ottla-sink-{len(sink_id.encode())}-{sink_id}{elsewhere}/"


def driver_id(sink_id: str) -> str:
    """The transactional id of the sink's driver."""
    return f"{prefix_of(sink_id)}driver"


def ticket_id(prefix: str, partition_id: int, attempt_number: int) -> str:
    """The transactional id that counts the attempts at this partition with this number; `prefix` is the sink's."""
    return f"{prefix}{partition_id}/{attempt_number}{_TICKET}"


def is_ticket_id(transactional_id: str) -> bool:
    """Whether this id of a sink only counts attempts: it never has a transaction."""
    return transactional_id.endswith(_TICKET)


def task_transactional_id(ticket: TransactionIdentity, timeout_ms: int | None = None) -> str:
    """The transactional id of the attempt with this ticket; without a timeout, that of transaction version 1.

    From version 2 on a ticket that was confirmed has used up two epochs.
    """
    number = ticket.producer_epoch if timeout_ms is None else ticket.producer_epoch // 2
    of_slot = f"{ticket.transactional_id.removesuffix(_TICKET)}/{number % SLOTS}"
    return of_slot if timeout_ms is None else f"{of_slot}/{timeout_ms}"


def version_of(transactional_id: str) -> int:
    """The transaction version in which the transactions of this id of a task are begun and ended.

    The name says it, not the cluster. A cluster's version can be changed while its clients are connected: if one of
    them ended a transaction as in version 1, the id would keep its epoch, and the next attempt, which relies on a new
    one, would send what brokers take for duplicates.
    """
    # A slot, or a timeout: at least 1,000 ms.
    return 1 if int(transactional_id.rpartition("/")[2]) < SLOTS else 2


def is_free(described: TransactionDescription | None) -> bool:
    """Whether no attempt that may be alive has this transactional id.

    An id without a transaction belongs to an attempt of this plan that has sent nothing yet: a plan leaves none of
    earlier ones.

    The last epoch of a producer id is for fencing (a timeout). A transaction of it could not be ended: Kafka gives each
    end the next epoch (KIP-890), and there is none.
    """
    if described is None:
        return True
    if described.producer_epoch == _EPOCH_MAX:
        return False
    return described.state in _FREE

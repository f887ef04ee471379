"""How an attempt takes a transactional id that no other living attempt has: first a ticket (`identities`), then the id.

From transaction version 2 on (KIP-890) every end of a transaction gives its id a new epoch. An attempt that finds an id
without an open transaction begins one with exactly the producer id and epoch that it found (AddPartitionsToTxn). If
another attempt has used the id since, brokers refuse this without effect. Brokers let two attempts begin if both found
the same. So each then confirms its ticket: if a later one was given, the attempt, which has sent nothing yet, takes
another ticket and does not use the id. To confirm it the coordinator must store something, so a broker that is cut off
from the others, and is no longer the coordinator, cannot do it. If an id does not exist, InitProducerId creates it,
with the ticket's identity as the expected one (KIP-360): brokers refuse this if the id exists by then.

In version 1 the end of a transaction does not change the epoch, and an id can be taken only by InitProducerId, which
aborts a transaction that is open under it. If an attempt is delayed before that until a later ticket leads to its slot,
it aborts the transaction of that attempt.
"""

from __future__ import annotations

from ottla.errors import OttlaError, TransactionError
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.sink.batch import Attempt, BatchId, Plan
from ottla.sink.identities import SLOTS, TICKETS_MOST, is_free, task_transactional_id, ticket_id
from ottla.sink.refusals import forgotten
from ottla.sink.session import Session


def take_identity(session: Session, plan: Plan, batch: BatchId, attempt: Attempt) -> TransactionIdentity:
    """An identity that this attempt alone has, newer than all those of earlier plans with this transactional id.

    Raises ProducerFenced if the plan is no longer the newest, TransactionError if all slots are in use.

    From transaction version 2 on, a driver that commits or aborts the batch first gets a new identity, and then ends
    all identities of tasks that it finds. So this checks the driver's identity last.
    """
    port, timeout_ms = session.port, session.settings.transaction_timeout_ms
    tickets = ticket_id(session.prefix, attempt.partition_id, attempt.attempt_number)
    for _ in range(TICKETS_MOST):
        ticket = port.next_identity(tickets, timeout_ms)
        is_exact = session.version >= 2
        identity = _begun(session, ticket) if is_exact else _fenced(session, ticket)
        if identity is None or (is_exact and not session.is_newest(ticket)):
            continue
        known = port.describe_transactions([session.driver_id])
        if session.is_newest_driver(plan.driver_identity, known):
            return identity
        if is_exact:
            session.end((identity,), committed=False)
        if session.driver_id not in known:
            raise forgotten(f"{batch} of sink {session.settings.sink_id!r}")
        raise over_for(session, batch, attempt)
    raise TransactionError(
        f"none of the {SLOTS} transactional ids of task {attempt.partition_id} of {batch} is free: attempts before "
        f"this one, also with number {attempt.attempt_number}, still run, or died and left transactions open. Start "
        "the query again; if it happens again, look in Spark's log why attempts fail"
    )


def _begun(session: Session, ticket: TransactionIdentity) -> TransactionIdentity | None:
    """An identity whose transaction has begun, None if the id is in use (transaction version 2)."""
    port, timeout_ms = session.port, session.settings.transaction_timeout_ms
    # An id keeps the timeout that it was created with.
    transactional_id = task_transactional_id(ticket, timeout_ms)
    known = port.describe_transactions([transactional_id]).get(transactional_id)
    if known is None:
        identity = port.first_identity(transactional_id, timeout_ms, ticket)
    elif is_free(known):
        identity = TransactionIdentity(transactional_id, known.producer_id, known.producer_epoch)
    else:
        identity = None
    return identity if identity is not None and port.begin(identity, session.settings.receipts_topic) else None


def _fenced(session: Session, ticket: TransactionIdentity) -> TransactionIdentity | None:
    """The next identity of an id, None if the id is in use (transaction version 1)."""
    port, transactional_id = session.port, task_transactional_id(ticket)
    known = port.describe_transactions([transactional_id]).get(transactional_id)
    if not is_free(known):
        return None
    return port.next_identity(transactional_id, session.settings.transaction_timeout_ms)


def over_for(session: Session, batch: BatchId, attempt: Attempt) -> OttlaError:
    """The error if an attempt was fenced, or finds that its plan is no longer the newest."""
    return kafka_error(
        ErrorCode.PRODUCER_FENCED,
        f"{batch} of sink {session.settings.sink_id!r} is over for task {attempt.partition_id}: it was committed by "
        "other attempts, or was aborted, or another query or write has begun a batch of this sink, or ottla sink "
        "recover has stopped this one. Queries, and writes that run at the same time, need a sink.id each",
    )

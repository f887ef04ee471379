"""How an attempt takes a transactional id that no living attempt has: first a turn (`identities`), then the id.

From transaction version 2 on (KIP-890) every end of a transaction gives its id another epoch. An attempt that finds an
id at rest begins a transaction of exactly the producer id and epoch that it found (AddPartitionsToTxn). If another
attempt has used the id since then, this is refused, and nothing has happened. Two that found the same are both let in,
so each asks for the newest turn then: whoever's place was given to a later turn goes away, and it has sent nothing. An
id that does not exist is made by InitProducerId with the turn's identity as the one that is expected (KIP-360): brokers
refuse that where the id exists by now.

In version 1 an epoch outlives its transaction, and an id can be taken by InitProducerId only, which aborts what is open
under it. An attempt that is delayed before that, until its place comes again, aborts the transaction of another one.
"""

from __future__ import annotations

from ottla.errors import OttlaError, TransactionError
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.sink.batch import Attempt, BatchId, Plan
from ottla.sink.identities import PLACES, TURNS_MOST, is_free, is_last_of_place, task_transactional_id, turn_id
from ottla.sink.session import Session


def take_identity(session: Session, plan: Plan, batch: BatchId, attempt: Attempt) -> TransactionIdentity:
    """The identity of this attempt alone, behind all those of earlier plans.

    Raises ProducerFenced where the plan is not the newest any more, TransactionError where all places are in use.

    Whoever commits or gives up the batch replaces the coordinator's identity first, and ends all identities of tasks
    that are found behind that. So the coordinator is looked at last: a task that lives on opens nothing after that.
    """
    port, timeout_ms = session.port, session.settings.transaction_timeout_ms
    turns = turn_id(session.prefix, attempt.partition_id, attempt.attempt_number)
    for _ in range(TURNS_MOST):
        turn = port.next_identity(turns, timeout_ms)
        is_exact = port.transaction_version() >= 2
        identity = _begun(session, plan, turn) if is_exact else _fenced(session, plan, turn)
        if identity is None:
            continue
        known = port.describe_transactions([session.coordinator_id, turns])
        is_alone = not is_exact or is_last_of_place(turn, known.get(turns))
        if not session.is_coordinator(plan.coordinator, known):
            if is_exact and is_alone:
                session.end((identity,), committed=False)
            raise _too_late(session, batch, attempt)
        if is_alone:
            return identity
    raise TransactionError(
        f"partition {attempt.partition_id} of {batch} has {PLACES} attempts number {attempt.attempt_number} that are "
        "alive at once; see why they neither end nor die, and start the query again"
    )


def _begun(session: Session, plan: Plan, turn: TransactionIdentity) -> TransactionIdentity | None:
    """An identity with a transaction that has begun, None where the id is in use."""
    port, timeout_ms = session.port, session.settings.transaction_timeout_ms
    # An id keeps the timeout that it was made with.
    transactional_id = task_transactional_id(turn, timeout_ms)
    known = port.describe_transactions([transactional_id]).get(transactional_id)
    if known is None:
        identity = port.first_identity(transactional_id, timeout_ms, turn)
    elif is_free(known, plan.idle):
        identity = TransactionIdentity(transactional_id, known.producer_id, known.producer_epoch)
    else:
        identity = None
    return identity if identity is not None and port.begin(identity, session.settings.markers_topic) else None


def _fenced(session: Session, plan: Plan, turn: TransactionIdentity) -> TransactionIdentity | None:
    """The next identity of an id, None where that is in use."""
    port, transactional_id = session.port, task_transactional_id(turn)
    known = port.describe_transactions([transactional_id]).get(transactional_id)
    if not is_free(known, plan.idle):
        return None
    return port.next_identity(transactional_id, session.settings.transaction_timeout_ms)


def _too_late(session: Session, batch: BatchId, attempt: Attempt) -> OttlaError:
    return kafka_error(
        ErrorCode.PRODUCER_FENCED,
        f"{batch} of sink {session.settings.sink_id!r} is over for partition {attempt.partition_id}: it was committed "
        "by other attempts or was given up, or another driver has taken the sink over",
    )

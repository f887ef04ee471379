"""Step 3: R is written in the coordinator's own transaction, and with the commit of that the batch is decided.

The order of things leaves no room for a driver that is held up. R is appended first; then every task's transaction is
looked at: it must be open, with more time left than the margin. From the append to the commit R's own transaction has
less time than that (`SinkSettings.decision_timeout_ms`). So a driver that is stopped for long between look and commit
finds its decision taken back by the coordinator, rather than one committed that cannot be carried out.

Whoever gets no answer asks for the commit again, and in the end reads R: only that tells.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence

from ottla.client.producer import Producer
from ottla.errors import KafkaError, OttlaError, ProducerFenced, TransactionError, TransactionUnfinished
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.sink.barriers import Barrier, reach
from ottla.sink.batch import BatchId, Plan, Prepared
from ottla.sink.decision import Decision, encode
from ottla.sink.identities import are_only_claims
from ottla.sink.refusals import attempted_twice, check_alive, check_parts
from ottla.sink.session import Session

_log = logging.getLogger("ottla.sink")

# How often a commit that is not answered within max.block.ms is asked for.
_ASKED_TIMES = 3
_REQUEST_BYTES_MAX = 16 * 1024 * 1024
# Neither the size of a decision nor the moment it leaves is the user's business.
_OWN = {"linger.ms": 0, "max.request.size": _REQUEST_BYTES_MAX, "interceptor.classes": None}


class _Refused(Exception):
    """R was not committed for a reason of ours: `error` says it as it is to be told."""

    def __init__(self, error: OttlaError) -> None:
        super().__init__(error)
        self.error = error


def decide(
    session: Session, plan: Plan, decision: Decision, prepared: Sequence[Prepared]
) -> TransactionIdentity | None:
    """Write R and commit it, if all that these tasks prepared is as it should be; when this returns, it is decided.

    Returns the coordinator's identity after that, None where nobody has told. Raises TransactionError or ProducerFenced
    where it is not decided, TransactionUnfinished where that is not known.
    """
    reach(Barrier.COMMIT_DECISION)
    try:
        return _write(session, plan, decision, prepared)
    except (_Refused, OttlaError) as error:
        # A commit that is asked for again finds its tasks' transactions ended, as they should be.
        if is_decided(session, decision.coordinator, decision.batch):
            return None
        raise (error.error if isinstance(error, _Refused) else _undecided(session, decision, error)) from error


def is_decided(session: Session, coordinator: TransactionIdentity, batch: BatchId) -> bool:
    """Whether R holds this batch, decided by this coordinator."""
    found = session.read_decision()
    return found is not None and found.coordinator == coordinator and found.batch == batch


def _write(
    session: Session, plan: Plan, decision: Decision, prepared: Sequence[Prepared]
) -> TransactionIdentity | None:
    settings = session.settings
    given = settings.for_sending(session.coordinator_id)
    for name in _OWN:
        given.pop(name.replace(".", "_"), None)
    producer = Producer.from_config({**given, **_OWN})
    try:
        producer.init_transactions(decision.coordinator)
        producer.begin_transaction()
        record = producer.send(settings.control_topic, encode(decision), settings.sink_id.encode(), partition=0)
        record.result()
        try:
            _check(session, plan, decision, prepared)
        except OttlaError as error:
            raise _Refused(error) from error
        reach(Barrier.COMMIT_ASKED)
        _ask_for_commit(producer)
        return producer.transaction_identity
    finally:
        # What went wrong is known already, or nothing did; a transaction that is still open is aborted.
        with contextlib.suppress(OttlaError, TimeoutError):
            producer.close()


def _check(session: Session, plan: Plan, decision: Decision, prepared: Sequence[Prepared]) -> None:
    """The last look at what the tasks have prepared."""
    settings, batch = session.settings, decision.batch
    entries = [message.entry for message in prepared if message.entry is not None]
    claims = [message.claim for message in prepared if message.claim is not None]
    identities = [*(entry.identity for entry in entries), *claims]
    described = session.admin.describe_transactions(identity.transactional_id for identity in identities)
    check_alive(settings, batch, entries, described, plan.planned_ms, time.time_ns() // 1_000_000)
    if settings.atomic:
        if not are_only_claims(claims, described):
            raise attempted_twice(batch)
        check_parts(batch, prepared, described.get(session.coordinator_id), settings.control_topic)


def _ask_for_commit(producer: Producer) -> None:
    for _ in range(_ASKED_TIMES - 1):
        try:
            return producer.commit_transaction()
        except TransactionUnfinished as unfinished:
            _log.warning("%s", unfinished)
    return producer.commit_transaction()


def _undecided(session: Session, decision: Decision, error: OttlaError) -> OttlaError:
    """The error as one that says what is decided and what is not."""
    what = f"{decision.batch} of sink {session.settings.sink_id!r}"
    if isinstance(error, TransactionUnfinished) or session.is_deciding(decision.coordinator.producer_id):
        return TransactionUnfinished(
            f"whether {what} is decided is not known yet: {error}; the next start of the query finds out, and goes on "
            "accordingly"
        )
    if _is_fenced(error):
        said = (
            f"{what} is not decided: another driver has taken the sink over, or ottla sink recover has, or this batch "
            "was aborted; end this one"
        )
        return kafka_error(ErrorCode.PRODUCER_FENCED, said)
    return TransactionError(f"{what} is not decided, and nothing of it is visible: {error}")


def _is_fenced(error: BaseException | None) -> bool:
    while error is not None:
        fenced = isinstance(error, KafkaError) and error.code == ErrorCode.INVALID_PRODUCER_EPOCH
        if fenced or isinstance(error, ProducerFenced):
            return True
        error = getattr(error, "first", None) or error.__cause__
    return False

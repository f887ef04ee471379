"""Steps 3 to 5, on the driver after the tasks: decide, apply, or abort.

`commit` writes R in the coordinator's own transaction, under exactly the identity of the plan the tasks belong to: a
driver that was replaced meanwhile is refused by the broker. With the commit of that transaction the batch is decided,
whatever happens to anybody afterwards. Whoever gets no answer asks for the commit again, and in the end reads R.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence

from ottla.client.producer import Producer
from ottla.errors import KafkaError, OttlaError, ProducerFenced, TransactionError, TransactionUnfinished
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.sink import barriers
from ottla.sink.applying import apply
from ottla.sink.barriers import reach
from ottla.sink.batch import BatchId, Entry, Plan, Prepared, Skipped
from ottla.sink.decision import Decision, encode
from ottla.sink.identities import are_only_claims
from ottla.sink.refusals import (
    Message,
    attempted_twice,
    check_alive,
    check_apart,
    check_parts,
    check_skipped,
    check_together,
    role,
    sum_of,
)
from ottla.sink.session import Session, session_of
from ottla.sink.settings import SinkSettings

_log = logging.getLogger("ottla.sink")

# How often a commit that is not answered within max.block.ms is asked for.
_ASKED_TIMES = 3
_REQUEST_BYTES_MAX = 16 * 1024 * 1024


def commit(settings: SinkSettings, messages: Sequence[Message]) -> None:
    """Decide the batch of these messages and make it visible; returns when all of it is.

    Raises UserMistake or TransactionError where it is refused, and nothing of it is visible; ProducerFenced where
    another driver has taken over; TransactionUnfinished where it is decided (or nobody knows yet) and the next plan
    goes on with it. The same call again does no harm.
    """
    if not messages:
        return
    plan, batch = check_together(settings, messages)
    session = session_of(settings)
    reach(barriers.COMMIT_CHECK)
    prepared = [message for message in messages if isinstance(message, Prepared)]
    if plan.last is not None and not prepared:
        check_skipped(settings.sink_id, plan.last, messages)
        return
    decision = _to_decide(session, plan, batch, messages, prepared)
    if settings.atomic:
        check_apart(batch, prepared)
    entries = [entry for entry in decision.entries if not entry.landed]
    decide(session, plan, decision, entries, _claims(session, batch, prepared) if settings.atomic else None)
    reach(barriers.COMMIT_APPLY)
    lost = () if settings.atomic else apply(session, batch, entries)
    if lost:
        raise TransactionError(
            f"{batch} of sink {settings.sink_id!r} is decided, and {sum(entry.totals.rows for entry in lost)} of its "
            f"rows were taken back by transaction.timeout.ms ({settings.transaction_timeout_ms}) before they were "
            "committed; start the query again, and it writes them once more"
        )
    reach(barriers.COMMIT_END)


def _to_decide(
    session: Session, plan: Plan, batch: BatchId, messages: Sequence[Message], prepared: Sequence[Prepared]
) -> Decision:
    settings, last = session.settings, plan.last
    written = [message.entry for message in prepared if message.entry is not None]
    kept: list[Entry] = []
    if last is not None and last.batch == batch:
        check_skipped(settings.sink_id, last, messages)
        before = session.read_decision()
        rewritten = {entry.partition_id for entry in written}
        if before is None or before.batch != batch or len(messages) != last.tasks or rewritten != set(last.lost):
            raise TransactionError(
                f"{batch} of sink {settings.sink_id!r} has {len(messages)} tasks and had {last.tasks}: what a timeout "
                "took back can only be written again by the same tasks; run it with the number of partitions it had"
            )
        kept = [entry._replace(landed=True) for entry in before.entries if entry.partition_id not in rewritten]
    else:
        for message in messages:
            role(settings.sink_id, last, batch, message.attempt.partition_id)
        if any(isinstance(message, Skipped) for message in messages):
            raise OttlaError(f"some tasks of {batch} were skipped and others not: the batch is given up")
    entries = tuple(sorted([*written, *kept]))
    totals = sum_of(messages)
    tasks = len(messages)
    return Decision(settings.sink_id, batch, totals, tasks, entries, plan.coordinator, _now_ms(), settings.atomic)


def _claims(session: Session, batch: BatchId, prepared: Sequence[Prepared]) -> Callable[[], None]:
    """What is looked at last of all before an atomic batch is committed: that nobody else takes part."""
    claims = [message.claim for message in prepared if message.claim is not None]

    def check() -> None:
        ids = [session.coordinator_id, *(claim.transactional_id for claim in claims)]
        described = session.admin.describe_transactions(ids)
        coordinator = described.pop(session.coordinator_id, None)
        if not are_only_claims(claims, described):
            raise attempted_twice(batch)
        check_parts(batch, prepared, coordinator, session.settings.control_topic)

    return check


def decide(
    session: Session,
    plan: Plan,
    decision: Decision,
    entries: Sequence[Entry],
    check_last: Callable[[], None] | None = None,
) -> None:
    """Write R and commit it, unless `check_last` raises: when this returns, the batch is decided."""
    described = session.admin.describe_transactions(entry.identity.transactional_id for entry in entries)
    try:
        check_alive(session.settings, decision.batch, entries, described, plan.planned_ms, _now_ms())
    except TransactionError:
        # A commit that is asked for again finds them ended, as they should be.
        if is_decided(session, decision.coordinator, decision.batch):
            return
        raise
    reach(barriers.COMMIT_DECISION)
    try:
        _write(session, decision, check_last)
    except OttlaError as error:
        if is_decided(session, decision.coordinator, decision.batch):
            return
        raise _undecided(session, decision, error) from error


def is_decided(session: Session, coordinator: tuple[str, int, int], batch: BatchId) -> bool:
    """Whether R holds this batch, decided by this coordinator."""
    found = session.read_decision()
    return found is not None and found.coordinator == coordinator and found.batch == batch


def _write(session: Session, decision: Decision, check_last: Callable[[], None] | None) -> None:
    settings = session.settings
    given = settings.for_sending(session.coordinator_id)
    own = {"linger.ms": 0, "max.request.size": _REQUEST_BYTES_MAX, "interceptor.classes": None}
    for name in own:
        given.pop(name.replace(".", "_"), None)
    producer = Producer.from_config({**given, **own})
    try:
        producer.init_transactions(decision.coordinator)
        producer.begin_transaction()
        record = producer.send(settings.control_topic, encode(decision), settings.sink_id.encode(), partition=0)
        record.result()
        if check_last is not None:
            check_last()
        reach(barriers.COMMIT_ASKED)
        _ask_for_commit(producer)
    finally:
        # What went wrong is known already, or nothing did.
        with contextlib.suppress(OttlaError, TimeoutError):
            producer.close()


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
    if isinstance(error, TransactionUnfinished) or session.is_deciding(decision.coordinator):
        return TransactionUnfinished(
            f"whether {what} is decided is not known yet: {error}; the next start of the query finds out, and goes on "
            "accordingly"
        )
    if _is_fenced(error):
        return kafka_error(
            ErrorCode.PRODUCER_FENCED,
            f"{what} is not decided, for another driver has taken the sink over; end this one",
        )
    return TransactionError(f"{what} is not decided, and nothing of it is visible: {error}")


def _is_fenced(error: BaseException | None) -> bool:
    while error is not None:
        fenced = isinstance(error, KafkaError) and error.code == ErrorCode.INVALID_PRODUCER_EPOCH
        if fenced or isinstance(error, ProducerFenced):
            return True
        error = getattr(error, "first", None) or error.__cause__
    return False


def abort(settings: SinkSettings, messages: Sequence[Message | None]) -> None:
    """Give up what these messages prepared, so that readers need not wait for it; what is decided is committed instead.

    `messages` may lack those of tasks that failed (None). Raises what `commit` raises; the next plan does the same.
    """
    known = [message for message in messages if message is not None]
    if not known:
        return
    session = session_of(settings)
    plan, batch = known[0].plan, known[0].batch
    entries = [message.entry for message in known if isinstance(message, Prepared) and message.entry is not None]
    reach(barriers.ABORT_FENCE)
    # From here on a decision of this plan is either complete or impossible.
    session.end([plan.coordinator], committed=False)
    if is_decided(session, plan.coordinator, batch):
        decision = session.read_decision()
        assert decision is not None
        if not decision.atomic:
            apply(session, batch, [entry for entry in decision.entries if not entry.landed])
        return
    if session.is_deciding(plan.coordinator):
        _log.warning("whether %s is decided is not known yet; the next start of the query finds out", batch)
        return
    reach(barriers.ABORT_END)
    if settings.atomic:
        return  # that was one transaction
    session.end([entry.identity for entry in entries], committed=False)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

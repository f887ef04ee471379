"""What a process keeps of a sink from one batch to the next: connections, and how far the decisions have been read.

Planning and commit run in processes that live on over batches; `session_of` finds what the batch before left there. All
of it can be had anew at any time: nothing that matters is remembered here only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence

from ottla.client.transaction_admin import TransactionDescription
from ottla.errors import KafkaError, OttlaError, ProducerFenced
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.error_codes import ErrorCode
from ottla.sink.batch import Entry
from ottla.sink.decision import Decision, decode, is_same
from ottla.sink.identities import coordinator_id, prefix_of
from ottla.sink.kafka import Kafka
from ottla.sink.marker import Written, decode_marker
from ottla.sink.refusals import taken_over
from ottla.sink.settings import SinkSettings
from ottla.sink.sweep import fates
from ottla.sink.transaction_log import Fate, TransactionLog

_SESSIONS_MAX = 32


class Session:
    """One sink, as one process knows it; `port` is all it asks."""

    def __init__(self, settings: SinkSettings, port: Kafka) -> None:
        self.settings = settings
        self.port = port
        self.coordinator_id = coordinator_id(settings.sink_id)
        self.prefix = prefix_of(settings.sink_id, settings.control_topic)
        """What its tasks' transactional ids begin with."""
        self._key = settings.sink_id.encode()
        self._decisions = self._no_decisions()
        self.owner: str | None = None
        """The query that was found to be the sink's."""
        self._has_topics = False
        self._timeout_is_known = False

    def close(self) -> None:
        """Close the connections."""
        self.port.close()

    def has_decisions(self) -> bool:
        """Whether the topic of decisions exists."""
        return self.port.has_topic(self.settings.control_topic)

    def ensure_topics(self) -> None:
        """Make the two topics where they are missing; UserMistake for topics that forget."""
        if not self._has_topics:
            self.port.ensure_topics()
            self._has_topics = True

    # ---- reading ------------------------------------------------------------------------------------------------

    def read_decision(self) -> Decision | None:
        """The last decision, None where there is none.

        A decision that is just being written is not waited for: see `is_deciding`.
        """
        log = self._read(self.settings.control_topic, self._decisions)
        log.forget_old()
        self._decisions = log
        last = log.last_committed
        return None if last is None else decode(last.record.value or b"")

    @property
    def identity_after_decision(self) -> TransactionIdentity | None:
        """The coordinator's since the decision that was read last, for as long as nobody has planned or decided."""
        last = self._decisions.last_committed
        return None if last is None else TransactionIdentity(self.coordinator_id, last.producer_id, last.end_epoch)

    def read_decisions(self) -> list[Decision]:
        """All decisions that are still there, in their order; compaction keeps the last one only."""
        log = self._read(self.settings.control_topic, self._no_decisions())
        found: list[Decision] = []
        for each in log.settled:
            if each.fate is Fate.COMMITTED:
                decision = decode(each.record.value or b"")
                if found and is_same(found[-1], decision):
                    # Written anew, once all of it had landed.
                    found.pop()
                found.append(decision)
        return found

    def sink_of(self, query_id: str) -> str | None:
        """Another sink whose last decision is one of this query."""
        told = query_id.encode()
        log = TransactionLog(lambda record: record.key != self._key and told in (record.value or b""))
        newest = {
            each.record.key: decode(each.record.value or b"")
            for each in self._read(self.settings.control_topic, log).settled
            if each.fate is Fate.COMMITTED
        }
        return next((each.sink_id for each in newest.values() if each.batch.query_id == query_id), None)

    def is_deciding(self, producer_id: int | None = None, but: Decision | None = None) -> bool:
        """Whether a decision whose transaction is still open was read; of this producer id, and not the same as `but`.

        One of another id than the coordinator has now can never be committed.
        """
        of_producer = [each for each in self._decisions.open if producer_id in (None, each.producer_id)]
        return any(but is None or not is_same(decode(each.record.value or b""), but) for each in of_producer)

    def fates(self, entries: Sequence[Entry]) -> dict[int, Fate | None]:
        """What became of entries, by their marker's offset; None where the markers topic has lost it."""
        return fates(entries, self._read_markers(entries)) if entries else {}

    def written(self, entries: Sequence[Entry]) -> dict[int, Written]:
        """What entries' markers say of offsets, by their marker's offset; without those that are gone."""
        log = self._read_markers(entries) if entries else None
        found = () if log is None else (*log.settled, *log.open)
        return {each.record.offset: decode_marker(each.record.value or b"") for each in found}

    def _read_markers(self, entries: Sequence[Entry]) -> TransactionLog:
        wanted = {entry.marker_offset for entry in entries}
        topic = self.settings.markers_topic
        try:
            first_offset = max(min(wanted), self.port.begin_offset(topic))
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            # Somebody has deleted the topic: all that is wanted is gone.
            return TransactionLog(lambda _: False, max(wanted) + 1)
        return self._read(topic, TransactionLog(lambda record: record.offset in wanted, first_offset))

    def _no_decisions(self) -> TransactionLog:
        return TransactionLog(lambda record: record.key == self._key)

    def _read(self, topic: str, log: TransactionLog) -> TransactionLog:
        """The log with what has come since, or one from its beginning where an unclean election has taken it back."""
        end = self.port.end_offset(topic)
        if end < log.next_offset:
            log = log.begin_again()
        if end > log.next_offset:
            for records in self.port.read(topic, log.next_offset, end):
                log.take(records)
            log.next_offset = max(log.next_offset, end)
        return log

    # ---- transactions -------------------------------------------------------------------------------------------

    def fence(self, has_tasks: bool = True) -> TransactionIdentity:
        """Become the one who may decide, once what an older driver was deciding is complete; UserMistake.

        The control topic has a control marker of this then (`has_read_fence`): a transaction without records is begun
        there, and aborted. Raises ProducerFenced where another driver does the same.
        """
        settings = self.settings
        if has_tasks and not self._timeout_is_known:
            # Only to be refused, before anything has begun, where brokers do not allow what tasks will ask for.
            self.port.next_identity(self.coordinator_id, settings.transaction_timeout_ms)
            self._timeout_is_known = True
        begun = self.port.next_identity(self.coordinator_id, settings.decision_timeout_ms)
        if not self.port.begin(begun, settings.control_topic):
            raise taken_over(settings.sink_id)
        coordinator, trouble = self.give_up(begun)
        if trouble is not None:
            raise taken_over(settings.sink_id) if isinstance(trouble, ProducerFenced) else trouble
        self._decisions.await_end(begun)
        return coordinator

    @property
    def has_read_fence(self) -> bool:
        """Whether `read_decision` has come as far as `fence`: to all that was decided before it.

        A leader that was replaced, and has not heard of it, knows less.
        """
        return self._decisions.has_awaited

    def confirm(self, coordinator: TransactionIdentity) -> TransactionIdentity | None:
        """The coordinator's identity from now on, None where this one has been fenced so far.

        From transaction version 2 on it is another one: a broker writes that down, which one that was replaced and cut
        off from the others cannot do. In version 1 a broker is only asked.
        """
        if self.port.transaction_version() < 2:
            known = self.port.describe_transactions([self.coordinator_id])
            return coordinator if self.is_coordinator(coordinator, known) else None
        confirmed, trouble = self.give_up(coordinator)
        if trouble is not None and not isinstance(trouble, ProducerFenced):
            raise trouble
        return confirmed if trouble is None else None

    def is_coordinator(self, identity: TransactionIdentity, described: Mapping[str, TransactionDescription]) -> bool:
        """Whether this is the coordinator's identity, by what its id was described as."""
        known = described.get(self.coordinator_id)
        return known is not None and (known.producer_id, known.producer_epoch) == identity[1:]

    def end(
        self, identities: Sequence[TransactionIdentity], committed: bool
    ) -> Mapping[TransactionIdentity, OttlaError | None]:
        """Commit or abort transactions at the same time; see `ottla.end_transactions`."""
        if not identities:
            return {}
        return {identity: told.error for identity, told in self.port.end(identities, committed).items()}

    def is_given_up(self, coordinator: TransactionIdentity) -> bool:
        """Whether what this identity of the coordinator's was deciding was aborted, and nobody has planned since.

        Before transaction version 2 nobody can tell: a timeout leaves the next epoch, and so does another's plan.
        """
        if self.port.transaction_version() < 2:
            return False
        known = self.port.describe_transactions([self.coordinator_id]).get(self.coordinator_id)
        after = (coordinator.producer_id, coordinator.producer_epoch + 1)
        return (
            known is not None and known.state == "CompleteAbort" and after == (known.producer_id, known.producer_epoch)
        )

    def give_up(self, coordinator: TransactionIdentity) -> tuple[TransactionIdentity, OttlaError | None]:
        """Abort what this identity of the coordinator's may be deciding; the identity it has then, and what went wrong.

        From transaction version 2 on (KIP-890) it is another one, also where nothing had begun.
        """
        ended = self.port.end([coordinator], committed=False)[coordinator]
        return ended.identity, ended.error


_sessions: list[Session] = []
_owner_pid = os.getpid()
_lock = threading.Lock()


def session_of(settings: SinkSettings) -> Session:
    """This process's session for these settings."""
    global _owner_pid
    with _lock:
        if _owner_pid != os.getpid():
            # A fork: its parent's connections are not ours.
            _sessions.clear()
            _owner_pid = os.getpid()
        for session in _sessions:
            if session.settings == settings:
                _sessions.remove(session)
                _sessions.append(session)
                return session
        session = Session(settings, Kafka(settings))
        _sessions.append(session)
        oldest = _sessions.pop(0) if len(_sessions) > _SESSIONS_MAX else None
    if oldest is not None:
        oldest.close()
    return session

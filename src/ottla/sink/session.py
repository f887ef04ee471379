"""What a process keeps of a sink from one batch to the next: connections, and the last decision that it has read.

Plan and commit run in processes that outlive a batch; `session_of` returns what the batch before used. All of it can be
made or read again at any time.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence

from ottla.client.transaction_admin import TransactionDescription
from ottla.errors import KafkaError, OttlaError, ProducerFenced
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.error_codes import ErrorCode
from ottla.sink.batch import Entry
from ottla.sink.decision import Decision, decode, is_same
from ottla.sink.identities import driver_id, prefix_of, version_of
from ottla.sink.kafka import Kafka
from ottla.sink.receipt import Written, decode_receipt
from ottla.sink.refusals import taken_over
from ottla.sink.settings import SinkSettings
from ottla.sink.sweep import fates
from ottla.sink.transaction_log import Fate, Stored, TransactionLog

_log = logging.getLogger("ottla.sink")

_SESSIONS_MAX = 32


class Session:
    """One sink in one process; `port` sends all its requests."""

    def __init__(self, settings: SinkSettings, port: Kafka) -> None:
        self.settings = settings
        self.port = port
        self.driver_id = driver_id(settings.sink_id)
        self.prefix = prefix_of(settings.sink_id, settings.control_topic)
        """What its tasks' transactional ids begin with."""
        self._key = settings.sink_id.encode()
        self._decisions = self._no_decisions()
        self.owner: str | None = None
        """The query that the sink was found to belong to."""
        self.only_sink_of: str | None = None
        """The query of which no other sink was found to have decided its batches."""
        self.version = 1
        """The transaction version (KIP-890) of the plan that is made or carried out, 1 or 2."""
        self._has_topics = False
        self._timeout_is_known = False

    def close(self) -> None:
        """Close the connections."""
        self.port.close()

    def has_decisions(self) -> bool:
        """Whether the topic of decisions exists."""
        return self.port.has_topic(self.settings.control_topic)

    def ensure_topics(self) -> None:
        """Create the two topics if they are missing; UserMistake for topics that delete old records."""
        if not self._has_topics:
            self.port.ensure_topics()
            self._has_topics = True

    # ---- reading ------------------------------------------------------------------------------------------------

    def read_decision(self) -> Decision | None:
        """The last decision, None if there is none.

        This does not wait for a decision that is being written: see `is_deciding`.
        """
        log = self._read(self.settings.control_topic, self._decisions)
        log.forget_old()
        self._decisions = log
        last = log.last_committed
        return None if last is None else self._decode(last)

    @property
    def identity_after_decision(self) -> TransactionIdentity | None:
        """The driver's identity after the decision that was read last, unless a driver has planned or decided since."""
        last = self._decisions.last_committed
        return None if last is None else TransactionIdentity(self.driver_id, last.producer_id, last.end_epoch)

    def read_decisions(self) -> list[Decision]:
        """All decisions that the topic still has, in order; compaction keeps only the last one."""
        log = self._read(self.settings.control_topic, self._no_decisions())
        found: list[Decision] = []
        for each in log.settled:
            if each.fate is Fate.COMMITTED:
                decision = self._decode(each)
                if found and is_same(found[-1], decision):
                    # The same decision, written again with its notes.
                    found.pop()
                found.append(decision)
        return found

    def last_decisions(self, part: str = "") -> list[Decision]:
        """The last decision of each sink in the control topic, of those whose record contains this text.

        A record that is no decision is left out, and logged.
        """
        told = part.encode()
        log = TransactionLog(lambda record: told in (record.value or b""))
        newest = {
            each.record.key: each
            for each in self._read(self.settings.control_topic, log).settled
            if each.fate is Fate.COMMITTED
        }
        found = []
        for each in newest.values():
            try:
                found.append(self._decode(each))
            except OttlaError as error:
                _log.warning("left out: %s", error)
        return found

    def _decode(self, stored: Stored) -> Decision:
        offset = stored.record.offset
        return decode(stored.record.value or b"", f"at offset {offset} of topic {self.settings.control_topic!r}")

    def others_of(self, query_id: str) -> list[Decision]:
        """The last decisions of other sinks that are of this query."""
        others = [each for each in self.last_decisions(query_id) if each.sink_id != self.settings.sink_id]
        return [each for each in others if each.batch.query_id == query_id]

    def is_deciding(self, producer_id: int | None = None, but: Decision | None = None) -> bool:
        """Whether a decision was read whose transaction is still open; decisions that equal `but` do not count.

        With `producer_id` only decisions of that producer id count. A decision whose producer id is no longer that of
        the driver's transactional id can never be committed.
        """
        of_producer = [each for each in self._decisions.open if producer_id in (None, each.producer_id)]
        return any(but is None or not is_same(self._decode(each), but) for each in of_producer)

    def fates(self, entries: Sequence[Entry], patience_s: float | None = None) -> dict[int, Fate | None]:
        """What became of entries, by the offset of their receipt; None if the topic no longer goes back so far.

        A receipt beyond the end of the topic is left out. Unreachable if nothing more comes for so long (None: the
        port's own patience).
        """
        return fates(entries, self._read_receipts(entries, patience_s)) if entries else {}

    def written(self, entries: Sequence[Entry]) -> dict[int, Written]:
        """The offsets in the receipts of entries, by the offset of the receipt; receipts that are gone are left out."""
        log = self._read_receipts(entries) if entries else None
        found = () if log is None else (*log.settled, *log.open)
        owners = {entry.receipt_offset: entry.identity for entry in entries}
        return {
            each.record.offset: decode_receipt(each.record.value or b"")
            for each in found
            # If somebody has deleted the topic, and it was made again, another record may be there.
            if (each.producer_id, each.producer_epoch) == owners[each.record.offset][1:]
        }

    def _read_receipts(self, entries: Sequence[Entry], patience_s: float | None = None) -> TransactionLog:
        wanted = {entry.receipt_offset for entry in entries}
        topic = self.settings.receipts_topic
        try:
            first_offset = max(min(wanted), self.port.begin_offset(topic))
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            # Somebody has deleted the topic: all that is wanted is gone.
            return TransactionLog(lambda _: False, max(wanted) + 1)
        return self._read(topic, TransactionLog(lambda record: record.offset in wanted, first_offset), patience_s)

    def _no_decisions(self) -> TransactionLog:
        return TransactionLog(lambda record: record.key == self._key)

    def _read(self, topic: str, log: TransactionLog, patience_s: float | None = None) -> TransactionLog:
        """The log, read to the end; read from the beginning if an unclean election has made the topic shorter."""
        end = self.port.end_offset(topic)
        if end < log.next_offset:
            log = log.begin_again()
        if end > log.next_offset:
            for records in self.port.read(topic, log.next_offset, end, patience_s):
                log.take(records)
            log.next_offset = max(log.next_offset, end)
        return log

    # ---- transactions -------------------------------------------------------------------------------------------

    def fence(self, has_tasks: bool = True) -> TransactionIdentity:
        """Get a new identity for the driver, which alone may decide; an older driver's decision is complete then.

        Also begin a transaction without records in the control topic, and abort it: its control marker shows how far R
        must be read (`has_read_fence`). Raises ProducerFenced if another driver does the same, UserMistake.
        """
        settings = self.settings
        if has_tasks and not self._timeout_is_known:
            # This checks that brokers allow the tasks' timeout, before anything has begun.
            self.port.next_identity(self.driver_id, settings.transaction_timeout_ms)
            self._timeout_is_known = True
        begun = self.port.next_identity(self.driver_id, settings.decision_timeout_ms)
        self.version = self.port.transaction_version()
        if self.version < 2:
            # An identity of version 2 that ends gets the next epoch, and the coordinator takes its end for repeated if
            # the id has that epoch. So a plan of version 1 must not leave the epoch after that of another driver.
            begun = self.port.next_identity(self.driver_id, settings.decision_timeout_ms)
        if not self.port.begin(begun, settings.control_topic):
            raise taken_over(settings.sink_id)
        driver_identity, error = self.give_up(begun)
        if error is not None:
            raise taken_over(settings.sink_id) if isinstance(error, ProducerFenced) else error
        self._decisions.await_end(begun)
        return driver_identity

    @property
    def has_read_fence(self) -> bool:
        """Whether `read_decision` has read the control marker of `fence`, and so every decision before it.

        An isolated broker that is no longer the leader does not have that control marker.
        """
        return self._decisions.has_awaited

    def confirm(self, driver_identity: TransactionIdentity) -> TransactionIdentity | None:
        """The driver's identity from now on, None if this one has been fenced.

        From transaction version 2 on the identity gets a new epoch, which the coordinator must store. An isolated
        broker that is no longer the coordinator cannot store it. In version 1 a broker is only asked for the identity.
        """
        if self.version < 2:
            known = self.port.describe_transactions([self.driver_id])
            return driver_identity if self.is_newest_driver(driver_identity, known) else None
        return self._with_next_epoch(driver_identity)

    def is_newest(self, ticket: TransactionIdentity) -> bool:
        """Whether no later ticket was given (transaction version 2); OttlaError if no coordinator can store an answer.

        The id gets a new epoch, which the coordinator must store. A ticket that is confirmed is not newest any more.
        """
        return self._with_next_epoch(ticket) is not None

    def _with_next_epoch(self, identity: TransactionIdentity) -> TransactionIdentity | None:
        """The identity after an EndTxn of transaction version 2, None if it has been fenced; OttlaError otherwise."""
        following, error = self.give_up(identity)
        if error is not None and not isinstance(error, ProducerFenced):
            raise error
        return following if error is None else None

    def is_newest_driver(self, identity: TransactionIdentity, described: Mapping[str, TransactionDescription]) -> bool:
        """Whether this is the newest identity of the driver, by this answer of DescribeTransactions."""
        known = described.get(self.driver_id)
        return known is not None and (known.producer_id, known.producer_epoch) == identity[1:]

    def end(
        self, identities: Sequence[TransactionIdentity], committed: bool
    ) -> Mapping[TransactionIdentity, OttlaError | None]:
        """Commit or abort tasks' transactions at the same time; see `ottla.end_transactions`."""
        if not identities:
            return {}
        versions = {each: version_of(each.transactional_id) for each in identities}
        return {identity: told.error for identity, told in self.port.end(versions, committed).items()}

    def is_given_up(self, driver_identity: TransactionIdentity) -> bool:
        """Whether what this identity of the driver was deciding was aborted, and no driver has planned since.

        Before transaction version 2 this cannot be known: a timeout leaves the next epoch, and so does another plan.
        """
        if self.version < 2:
            return False
        known = self.port.describe_transactions([self.driver_id]).get(self.driver_id)
        after = (driver_identity.producer_id, driver_identity.producer_epoch + 1)
        return (
            known is not None and known.state == "CompleteAbort" and after == (known.producer_id, known.producer_epoch)
        )

    def give_up(self, identity: TransactionIdentity) -> tuple[TransactionIdentity, OttlaError | None]:
        """Abort the transaction of an identity, if there is one; returns the identity after that, and the error.

        From transaction version 2 on (KIP-890) it has a new epoch, also if no transaction had begun.
        """
        ended = self.port.end({identity: self.version}, committed=False)[identity]
        return ended.identity, ended.error


_sessions: list[Session] = []
_owner_pid = os.getpid()
_lock = threading.Lock()


def session_of(settings: SinkSettings) -> Session:
    """This process's session for these settings."""
    global _owner_pid
    with _lock:
        if _owner_pid != os.getpid():
            # This process was forked: it must not use its parent's connections.
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

"""What a process keeps of a sink from one batch to the next: connections, and how far the decisions have been read.

Planning and commit run in processes that live on over batches; `session_of` finds what the batch before left there. All
of it can be had anew at any time: nothing that matters is remembered here only.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence

from ottla.client.admin import Admin
from ottla.client.authorized_operations import check_allowed
from ottla.client.reader import Reader
from ottla.client.transaction_handle import end_and_follow, end_transactions
from ottla.errors import KafkaError, OttlaError, UserMistake
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.error_codes import ErrorCode
from ottla.reader.settings import ReaderSettings
from ottla.sink.batch import Entry
from ottla.sink.decision import Decision, decode, is_same
from ottla.sink.identities import coordinator_id
from ottla.sink.settings import SinkSettings
from ottla.sink.sweep import fate_described, fates
from ottla.sink.transaction_log import Fate, TransactionLog

_log = logging.getLogger("ottla.sink")

_SESSIONS_MAX = 32
_REPLICATION_FACTOR_MAX = 3
# Markers are of use until their batch is done, and tell who wrote what for a while after that.
_MARKERS_RETENTION_MS = 24 * 3_600_000
_DECISIONS_BYTES_MAX = 16 * 1024 * 1024
_PAUSE_S = 0.02


class Session:
    """One sink's connections."""

    def __init__(self, settings: SinkSettings) -> None:
        self.settings = settings
        self.coordinator_id = coordinator_id(settings.sink_id)
        self._reading = settings.for_reading()
        api_timeout = ReaderSettings({"bootstrap_servers": settings.bootstrap_servers, **self._reading})
        self.patience_s = api_timeout.default_api_timeout_ms / 1000
        self.admin = Admin(settings.bootstrap_servers, **self._reading)
        self._key = settings.sink_id.encode()
        self._decisions = TransactionLog(self._key)
        self.owner: str | None = None
        """The query that was found to be the sink's."""
        self._has_topics = False
        self._timeout_is_known = False

    def close(self) -> None:
        """Close the connections."""
        self.admin.close()

    # ---- topics -------------------------------------------------------------------------------------------------

    def ensure_topics(self) -> None:
        """Make the two topics where they are missing; UserMistake for a control topic that forgets."""
        if self._has_topics:
            return
        settings = self.settings
        brokers = len(self.admin.cluster().brokers)
        replicas = min(_REPLICATION_FACTOR_MAX, brokers)
        shared = {"min.insync.replicas": 2 if replicas >= _REPLICATION_FACTOR_MAX else 1}
        decisions = {
            **shared,
            "cleanup.policy": "compact",
            "max.message.bytes": _DECISIONS_BYTES_MAX,
            "segment.bytes": 2 * _DECISIONS_BYTES_MAX,
            "segment.ms": 600_000,
            "min.cleanable.dirty.ratio": 0.1,
        }
        self._ensure(settings.control_topic, replicas, decisions)
        self._ensure(settings.markers_topic, replicas, {**shared, "retention.ms": _MARKERS_RETENTION_MS})
        self._check_cleanup(settings.control_topic)
        for topic in (settings.control_topic, settings.markers_topic):
            check_authorized(self.admin, topic, {"READ", "WRITE"})
        self._has_topics = True

    def _check_cleanup(self, topic: str) -> None:
        try:
            policy = self.admin.describe_configs(topic=topic)["cleanup.policy"].value
        except (KafkaError, LookupError) as error:
            # Not everybody may read a topic's settings, though all else is allowed.
            _log.info("whether %s is compacted is not known: %s", topic, error)
            return
        if policy != "compact":
            raise UserMistake(
                f"topic {topic!r} has cleanup.policy={policy}, and would lose the sink's decisions in time; set it to "
                f"compact (ottla topics alter {topic} --config cleanup.policy=compact)"
            )

    def has_topics(self) -> bool:
        """Whether any sink has ever written there."""
        return self._exists(self.settings.control_topic) and self._exists(self.settings.markers_topic)

    def _exists(self, topic: str) -> bool:
        try:
            self.admin.describe(topic)
        except KafkaError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return False
            raise
        return True

    def _ensure(self, topic: str, replicas: int, configs: Mapping[str, object]) -> None:
        if self._exists(topic):
            return
        try:
            self.admin.create_topics(topic, partitions=1, replication_factor=replicas, configs=configs)
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            # Another sink has just made it, and this broker may hear of it in a moment.
            while not self._exists(topic):
                self.pause()

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

    def read_decisions(self) -> list[Decision]:
        """All decisions that are still there, in their order; compaction keeps the last one only."""
        log = self._read(self.settings.control_topic, TransactionLog(self._key))
        found: list[Decision] = []
        for each in log.settled:
            if each.fate is Fate.COMMITTED:
                decision = decode(each.record.value or b"")
                if found and is_same(found[-1], decision):
                    # Written anew, once all of it had landed.
                    found.pop()
                found.append(decision)
        return found

    def is_deciding(self, producer_id: int | None = None, but: Decision | None = None) -> bool:
        """Whether a decision whose transaction is still open was read; of this producer id, and not the same as `but`.

        One of another id than the coordinator has now can never be committed.
        """
        of_producer = [each for each in self._decisions.open if producer_id in (None, each.producer_id)]
        return any(but is None or not is_same(decode(each.record.value or b""), but) for each in of_producer)

    def read_markers(self, first_offset: int) -> TransactionLog:
        """This sink's markers from an offset on, or from the first one that is still there."""
        log = TransactionLog(self._key)
        log.next_offset = max(first_offset, self.admin.begin_offsets(self.settings.markers_topic)[0])
        return self._read(self.settings.markers_topic, log)

    def _read(self, topic: str, log: TransactionLog) -> TransactionLog:
        end = self.admin.end_offsets(topic)[0]
        if end < log.next_offset:
            # An unclean election has taken back what was read.
            log = TransactionLog(self._key)
        if end == log.next_offset:
            return log
        place = (topic, 0)
        start = log.next_offset or "earliest"
        bootstrap_servers = self.settings.bootstrap_servers
        with Reader(bootstrap_servers, assignments={place: (start, end)}, **self._reading) as reader:
            for fetched in reader.iter_raw():
                log.take(fetched.records)
        return log

    # ---- transactions -------------------------------------------------------------------------------------------

    def fence(self) -> TransactionIdentity:
        """Become the one who may decide, once what an older driver was deciding is complete; UserMistake."""
        settings = self.settings
        if not self._timeout_is_known:
            # Only to be refused, before anything has begun, where brokers do not allow what tasks will ask for.
            self.take_identity(self.coordinator_id, settings.transaction_timeout_ms)
            self._timeout_is_known = True
        return self.take_identity(self.coordinator_id, settings.decision_timeout_ms)

    def is_newest(self, coordinator: TransactionIdentity) -> bool:
        """Whether nobody has fenced this identity of the coordinator's so far."""
        known = self.admin.describe_transactions([self.coordinator_id]).get(self.coordinator_id)
        return known is not None and (known.producer_id, known.producer_epoch) == coordinator[1:]

    def take_identity(self, transactional_id: str, timeout_ms: int) -> TransactionIdentity:
        """The next identity of a transactional id, whose transactions may last so long; UserMistake."""
        try:
            fenced = self.admin.fence_producers([transactional_id], transaction_timeout_ms=timeout_ms)
        except KafkaError as error:
            if error.code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise
            raise self._too_long(timeout_ms) from error
        return fenced[transactional_id]

    def _too_long(self, timeout_ms: int) -> UserMistake:
        name = "transaction.max.timeout.ms"
        try:
            broker_id = self.admin.cluster().brokers[0].broker_id
            name = f"{name}={self.admin.describe_configs(broker_id=broker_id)[name].value}"
        except (OttlaError, LookupError) as error:
            # Not everybody may read the brokers' settings.
            _log.info("%s is not known: %s", name, error)
        return UserMistake(
            f"{self.settings.timeout_name}={timeout_ms} is more than the brokers allow ({name}); give sink "
            f"{self.settings.sink_id!r} a shorter one, or raise that setting of the brokers"
        )

    def end(
        self, identities: Sequence[TransactionIdentity], committed: bool
    ) -> Mapping[TransactionIdentity, OttlaError | None]:
        """Commit or abort transactions at the same time; see `ottla.end_transactions`."""
        if not identities:
            return {}
        return end_transactions(identities, committed, self.settings.bootstrap_servers, **self._reading)

    def give_up(self, coordinator: TransactionIdentity) -> tuple[TransactionIdentity, OttlaError | None]:
        """Abort what this identity of the coordinator's may be deciding; the identity it has then, and what went wrong.

        From transaction version 2 on (KIP-890) it is another one, also where nothing had begun.
        """
        ended = end_and_follow([coordinator], False, self.settings.bootstrap_servers, **self._reading)[coordinator]
        return ended.identity, ended.error

    def fates(self, entries: Sequence[Entry]) -> dict[int, Fate | None]:
        """What became of entries, by their marker's offset; None where neither log nor coordinator can tell."""
        if not entries:
            return {}
        log = self.read_markers(min(entry.marker_offset for entry in entries))
        found: dict[int, Fate | None] = dict(fates(entries, log))
        gone = [entry for entry in entries if entry.marker_offset not in found]
        described = self.admin.describe_transactions(entry.identity.transactional_id for entry in gone)
        for entry in gone:
            found[entry.marker_offset] = fate_described(entry, described.get(entry.identity.transactional_id))
        return found

    def pause(self) -> None:
        """Let a moment pass before the next look."""
        time.sleep(_PAUSE_S)


def check_authorized(admin: Admin, topic: str, needed: set[str]) -> None:
    """Raise KafkaError (TOPIC_AUTHORIZATION_FAILED) where this user may describe a topic and not do what is needed."""
    try:
        allowed = admin.describe(topic, include_authorized_operations=True).authorized_operations
    except OttlaError as error:
        # Brokers before Kafka 2.3 do not tell.
        _log.info("what this user may do with %s is not known: %s", topic, error)
        return
    check_allowed(topic, allowed, needed)


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
        session = Session(settings)
        _sessions.append(session)
        oldest = _sessions.pop(0) if len(_sessions) > _SESSIONS_MAX else None
    if oldest is not None:
        oldest.close()
    return session

"""All requests of the sink to Kafka, by ottla's own clients, and all its reads of this machine's clocks.

A `Session` has it as its `port`. Nothing else in this package uses sockets or clocks, except the modules that this one
calls (`topics`, `verification`, `kept_producers`), and `barriers`. Tests give it simulated clients and clocks, so that
days pass in seconds and every process can be killed or delayed at every request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from ottla.client.admin import Admin, transactions_of
from ottla.client.producer import Producer
from ottla.client.reader import Reader
from ottla.client.transaction_admin import ListedTransaction, TransactionDescription
from ottla.client.transaction_handle import EndingDriver
from ottla.errors import KafkaError, OttlaError, TransactionUnfinished, UserMistake
from ottla.producer.transaction_endings import Ended
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.error_codes import ErrorCode
from ottla.reader.settings import ReaderSettings
from ottla.records.batch_header import Buffer
from ottla.sink import topics, verification
from ottla.sink.kept_producers import Hears, KeptProducers
from ottla.sink.settings import SinkSettings, settings_for_reading

_log = logging.getLogger("ottla.sink")

_PAUSE_S = 0.02
_LOOK_MS = 3_000
# The errors for a request with an identity that is no longer that of its transactional id.
_TAKEN = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class Kafka:
    """One process's connections to one cluster; they are made when they are needed, and kept.

    Each call raises what the client of the same name raises. A call gives up after `patience_s`; code that repeats
    calls must also give up then.
    """

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._reading = settings_for_reading(settings.client_settings)
        self._producers = KeptProducers()
        # Kept for the next call, if the last one succeeded; None while one is in use.
        self._ending: EndingDriver | None = None
        self._reader: Reader | None = None
        api_timeout = ReaderSettings({"bootstrap_servers": settings.bootstrap_servers, **self._reading})
        self.patience_s = self._answers_within_s = api_timeout.default_api_timeout_ms / 1000

    @cached_property
    def _admin(self) -> Admin:
        return self._new_admin()

    def _new_admin(self, **more: Any) -> Admin:
        return Admin(self._settings.bootstrap_servers, **{**self._reading, **more})

    def ensure_topics(self) -> None:
        """Make the sink's two topics where they are missing; UserMistake for topics or brokers that cannot be used."""
        # Any broker may answer. The timeout is short, so that a dead one is not waited for.
        with self._new_admin(default_api_timeout_ms=_LOOK_MS) as admin:
            verification.check(admin)
        topics.ensure(self._admin, self._settings)

    def has_topic(self, name: str) -> bool:
        """Whether one of the sink's topics exists."""
        return topics.exists(self._admin, name)

    def list_transactions(self, prefix: str, states: Iterable[str]) -> list[ListedTransaction]:
        """As `Admin.list_transactions`."""
        return self._admin.list_transactions(prefix, states)

    def describe_transactions(self, transactional_ids: Iterable[str]) -> Mapping[str, TransactionDescription]:
        """As `Admin.describe_transactions`."""
        return self._admin.describe_transactions(transactional_ids)

    def forget_coordinators(self, transactional_ids: Iterable[str]) -> None:
        """Look for the coordinators of these ids anew when they are asked next."""
        transactions_of(self._admin).forget_coordinators(transactional_ids)

    def next_identity(self, transactional_id: str, timeout_ms: int) -> TransactionIdentity:
        """InitProducerId: the next identity of a transactional id with this transaction timeout; UserMistake."""
        try:
            fenced = self._admin.fence_producers([transactional_id], transaction_timeout_ms=timeout_ms)
        except KafkaError as error:
            if error.code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise
            raise self._too_long(timeout_ms) from error
        return fenced[transactional_id]

    def transaction_version(self) -> int:
        """The finalized transaction version (KIP-890), 1 or 2, by the last answer of a broker; 1 before the first."""
        return transactions_of(self._admin).version

    def first_identity(
        self, transactional_id: str, timeout_ms: int, ticket: TransactionIdentity
    ) -> TransactionIdentity | None:
        """Create a transactional id and return its identity; None without effect if the id exists.

        `ticket` is any identity of another id: brokers refuse it if the id exists (KIP-360).
        """
        try:
            return transactions_of(self._admin).fence([transactional_id], timeout_ms, ticket)[transactional_id]
        except KafkaError as error:
            if error.code not in _TAKEN:
                raise
            return None

    def begin(self, identity: TransactionIdentity, topic: str) -> bool:
        """Begin a transaction of exactly this identity with partition 0 of this topic, unless it has begun already.

        False without effect if the id has another identity by now.
        """
        try:
            transactions_of(self._admin).begin(identity, topic, 0)
        except KafkaError as error:
            if error.code not in _TAKEN:
                raise
            return False
        return True

    def _too_long(self, timeout_ms: int) -> UserMistake:
        name = "transaction.max.timeout.ms"
        try:
            broker_id = self._admin.cluster().brokers[0].broker_id
            name = f"{name}={self._admin.describe_configs(broker_id=broker_id)[name].value}"
        except (OttlaError, LookupError) as error:
            # This user may not be allowed to read the brokers' settings.
            _log.info("%s is not known: %s", name, error)
        return UserMistake(
            f"{self._settings.timeout_name}={timeout_ms} is more than the brokers allow ({name}); give sink "
            f"{self._settings.sink_id!r} a shorter one, or raise that setting of the brokers"
        )

    def end(self, versions: Mapping[TransactionIdentity, int], committed: bool) -> Mapping[TransactionIdentity, Ended]:
        """Commit or abort transactions of these versions at the same time; for each, its identity then, and its error.

        This does not depend on what this client has heard of the cluster's version: its connections may be older.
        """
        ending, self._ending = self._ending, None
        if ending is None:
            ending = EndingDriver.of({"bootstrap_servers": self._settings.bootstrap_servers, **self._reading})
        is_known = False
        try:
            told = ending.end(versions, committed)
            is_known = not any(isinstance(each.error, TransactionUnfinished) for each in told.values())
            return told
        finally:
            if is_known and self._ending is None:
                self._ending = ending
            else:
                # It would go on sending requests for what is unfinished.
                ending.close()

    def begin_offset(self, topic: str) -> int:
        """The first offset of partition 0 that is still there."""
        return self._admin.begin_offsets(topic)[0]

    def end_offset(self, topic: str) -> int:
        """The high watermark of partition 0."""
        return self._admin.end_offsets(topic)[0]

    def read(self, topic: str, start_offset: int, end_offset: int, patience_s: float | None = None) -> Iterator[Buffer]:
        """Whole record batches of partition 0 as they are stored, from `start_offset` (0: the first one) on.

        Unreachable if nothing more comes for `patience_s`.
        """
        assignments = {(topic, 0): (start_offset or "earliest", end_offset)}
        reader, self._reader = self._reader, None
        if reader is None:
            reader = Reader(self._settings.bootstrap_servers, assignments=assignments, **self._reading)
        else:
            reader.assign(assignments)
        is_read = False
        try:
            # `end_offset` may come from the real leader. An isolated broker that was the leader may never reach it.
            for fetched in reader.iter_raw(patience_s=self._answers_within_s if patience_s is None else patience_s):
                yield fetched.records
            is_read = True
        finally:
            if is_read and self._reader is None:
                self._reader = reader
            else:
                reader.close()

    def producer(
        self, settings: Mapping[str, Any], identity: TransactionIdentity, version: int, hears: Hears | None = None
    ) -> Producer:
        """A producer with these settings and exactly this identity, in this transaction version; it fences no other.

        `hears` is called with the outcome of each batch. The caller closes the producer, or passes it to `keep`.
        """
        return self._producers.take(settings, identity, version, hears)

    def keep(self, producer: Producer) -> None:
        """Keep a producer that is no longer used and has nothing to end, for the next call of `producer`."""
        self._producers.keep(producer)

    def now_ms(self) -> int:
        """The time of day, in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def passed_s(self) -> float:
        """A clock that never jumps, in seconds."""
        return time.monotonic()

    def pause(self, pause_s: float = _PAUSE_S) -> None:
        """Wait before the next request."""
        time.sleep(pause_s)

    def close(self) -> None:
        """Close all connections."""
        self._producers.close()
        for kept in (self._ending, self._reader):
            if kept is not None:
                kept.close()
        if "_admin" in self.__dict__:
            self._admin.close()

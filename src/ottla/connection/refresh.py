"""When metadata is requested, and for which topics.

"All topics" are those that the client uses, never all of the cluster. They are requested the first time, after
`metadata.max.age.ms`, and when an answer or a lost connection shows that metadata is stale. A topic that no request has
named yet is requested at once, because a user waits for it. That request names new topics only: with all topics in it,
the cost would grow with the square of their number. Topics that are missing, or have a partition without a leader, are
requested again without the others.

Between these requests `retry.backoff.ms` passes; it doubles while something stays missing. The first request for a new
topic neither waits for that nor delays it.

Invariant: at most one request is in flight, so answers come in the order of the requests.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Any

from ottla.connection.backoff import backoff_us
from ottla.connection.metadata import Metadata
from ottla.connection.settings import ConnectionSettings
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

# Errors of a topic after which it is requested again; after any other error it is not.
_RETRIABLE_TOPIC_ERRORS = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)
# A missing topic is not requested any more when so much time has passed since it was last wanted.
MISSING_TOPIC_KEPT_US = 300_000_000
# Kafka's own limit; brokers refuse longer names, and those with anything but ASCII.
TOPIC_NAME_MAX = 249


class MetadataRefresh:
    """Decides when metadata is requested, and for which topics."""

    __slots__ = (
        "_age_max_us",
        "_auto_create_topics",
        "_backoff_max_ms",
        "_backoff_ms",
        "_failures",
        "_fresh",
        "_metadata",
        "_missing",
        "_not_before_us",
        "_on_first_questions",
        "_rng",
        "in_flight",
        "in_flight_for_all",
        "needed",
        "topics",
        "unanswered_since_us",
    )

    def __init__(
        self,
        settings: ConnectionSettings,
        metadata: Metadata,
        rng: Random,
        auto_create_topics: bool,
    ) -> None:
        self.in_flight = False
        # Whether the request in flight, or the last one, is for all topics.
        self.in_flight_for_all = True
        # Whether a refresh of all topics is needed, at the pace of the backoff.
        self.needed = False
        # Topic -> when it was last wanted. A dict for its order.
        self.topics: dict[str, int] = {}
        # Since when requests have brought no metadata (KIP-1102); None if the last one did, or none was needed yet.
        self.unanswered_since_us: int | None = None
        self._metadata = metadata
        self._rng = rng
        self._backoff_ms = settings.retry_backoff_ms
        self._backoff_max_ms = settings.retry_backoff_max_ms
        self._age_max_us = settings.metadata_max_age_ms * 1000
        self._auto_create_topics = auto_create_topics
        # Topics that no request has named yet; and topics that are missing or without a leader. Dicts for their order.
        self._fresh: dict[str, None] = {}
        self._missing: dict[str, None] = {}
        # Whether the request in flight names only topics that no request has named before.
        self._on_first_questions = False
        self._failures = 0
        self._not_before_us = 0

    def want(self, topic: object, now_us: int) -> bool:
        """Note that this topic is wanted; True where a request is needed."""
        if not isinstance(topic, str):
            return False  # callers check this; here it would end the I/O thread, or make every request unsendable
        if len(topic) > TOPIC_NAME_MAX or not topic.isascii():
            # With one such name in it a request fails as a whole, for all its topics.
            if topic not in self._metadata.topics:
                self._metadata.refuse(topic, ErrorCode.INVALID_TOPIC_EXCEPTION)
            return False
        if topic not in self.topics:
            self._fresh[topic] = None
        elif topic not in self._fresh:
            known = self._metadata.topics.get(topic)
            if known is None or known.error_code:
                self._missing[topic] = None
        self.topics[topic] = now_us
        return self.is_wanted

    def forget(self, topic: str) -> None:
        """Stop asking about this topic."""
        self.topics.pop(topic, None)
        self._fresh.pop(topic, None)
        self._missing.pop(topic, None)

    @property
    def is_wanted(self) -> bool:
        """Whether a request is needed as soon as the backoff allows it."""
        return bool(self.needed or self._fresh or self._missing)

    def due_us(self) -> int | None:
        """Return when the next request should be sent, None where none is needed or one is in flight."""
        if self.in_flight:
            return None
        if self._fresh:
            return 0
        if self.needed or self._missing:
            return self._not_before_us
        if not self._metadata.version or not self.topics:
            return None
        return self._metadata.updated_us + self._age_max_us

    def begin(self, now_us: int) -> None:
        """Note that a request is due now, whether or not a broker can be found that takes it."""
        if self.unanswered_since_us is None:
            self.unanswered_since_us = now_us

    def request(self, now_us: int) -> MetadataRequest:
        """Return the request to send now; counts as in flight until `answered` or `lost`."""
        asked: Collection[str]
        may_repeat = self._not_before_us <= now_us
        self._on_first_questions = bool(self._fresh)
        if self._is_for_all(now_us, may_repeat):
            asked = self.topics
            self.needed = False
            self._missing = {}
        elif may_repeat:
            asked = {**self._missing, **self._fresh}
            self._on_first_questions = not self._missing
            self._missing = {}
        else:
            asked = self._fresh
        self.in_flight = True
        self.in_flight_for_all = len(asked) == len(self.topics)
        self._fresh = {}
        topics = [MetadataRequestTopic(name=name) for name in asked]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self._auto_create_topics)

    def _is_for_all(self, now_us: int, may_repeat: bool) -> bool:
        if not self._metadata.version:
            return True
        aged = self._metadata.updated_us + self._age_max_us <= now_us
        return aged or (self.needed and may_repeat)

    def answered(self, response: Any, now_us: int) -> None:
        """Note what is still missing after this answer, which `metadata` has taken in already."""
        self.in_flight = False
        incomplete = True
        if response.error_code or not response.brokers:
            self.needed = True
        else:
            self.unanswered_since_us = None
            incomplete = self._something_is_missing(response, now_us)
        self._pace(incomplete, now_us)

    def lost(self, now_us: int) -> None:
        """The request got no answer: try again after a pause."""
        self.in_flight = False
        self.needed = True
        self._pace(True, now_us)

    def _pace(self, incomplete: bool, now_us: int) -> None:
        if self._on_first_questions and not self.in_flight_for_all:
            if incomplete:
                # A new topic is requested again soon, however long the backoff of the other topics is by now.
                self._failures = 1
                soon_us = now_us + self._pause_us(1)
                if self._not_before_us <= now_us or soon_us < self._not_before_us:
                    self._not_before_us = soon_us
            return
        if not (incomplete or self.needed):
            self._failures = 0
        self._failures += 1
        self._not_before_us = now_us + self._pause_us(self._failures)

    def _pause_us(self, failures: int) -> int:
        return backoff_us(self._rng, failures, self._backoff_ms, self._backoff_max_ms)

    def _something_is_missing(self, response: Any, now_us: int) -> bool:
        missing = False
        for topic in response.topics:
            wanted_us = self.topics.get(topic.name)
            if wanted_us is None:
                continue
            if topic.error_code:
                lasting = topic.error_code not in _RETRIABLE_TOPIC_ERRORS
                if lasting or now_us - wanted_us > MISSING_TOPIC_KEPT_US:
                    self.forget(topic.name)
                    continue
            elif all(place.leader is not None for place in self._metadata.topics[topic.name].partitions.values()):
                self._missing.pop(topic.name, None)
                continue
            self._missing[topic.name] = None
            missing = True
        return missing

"""When metadata is asked for, and for which topics.

A refresh is due when an answer said that the metadata is stale, when a wanted topic or its leader is missing, or when
the metadata has aged. Refreshes keep a distance of `retry.backoff.ms`, doubling while something stays missing, with
one exception: a topic that no request has named yet is asked for at once, because a user waits for it.

Invariant: at most one request is in flight, so its answer is newer than all answers before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connection.metadata import Metadata
from ottla.connection.settings import ConnectionSettings
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

# Errors of a topic in a Metadata answer that may be gone with the next one; any other error ends the asking.
RETRIABLE_TOPIC_ERRORS = frozenset((3, 5, 6, 9, 13, 14, 15, 72, 78, 100))
# A topic nobody could find for this long is not asked for any more until somebody wants it again.
MISSING_TOPIC_KEPT_US = 300_000_000
# Kafka's own limit; brokers refuse longer names, and those with anything but ASCII.
TOPIC_NAME_MAX = 249
INVALID_TOPIC = 17


class MetadataRefresh:
    """Decides when to ask; `backoff(failures, first_ms, most_ms)` gives a jittered pause in microseconds."""

    __slots__ = (
        "_age_max_us",
        "_auto_create_topics",
        "_backoff",
        "_backoff_max_ms",
        "_backoff_ms",
        "_failures",
        "_metadata",
        "_not_before_us",
        "_urgent",
        "in_flight",
        "needed",
        "topics",
        "unanswered_since_us",
    )

    def __init__(
        self,
        settings: ConnectionSettings,
        metadata: Metadata,
        backoff: Callable[[int, int, int], int],
        auto_create_topics: bool,
    ) -> None:
        self.in_flight = False
        self.needed = False
        # Topic -> when it was last wanted. A dict for its order.
        self.topics: dict[str, int] = {}
        # Since when metadata is being asked for in vain (KIP-1102); None while nothing is asked or all is well.
        self.unanswered_since_us: int | None = None
        self._metadata = metadata
        self._backoff = backoff
        self._backoff_ms = settings.retry_backoff_ms
        self._backoff_max_ms = settings.retry_backoff_max_ms
        self._age_max_us = settings.metadata_max_age_ms * 1000
        self._auto_create_topics = auto_create_topics
        self._urgent = False
        self._failures = 0
        self._not_before_us = 0

    def want(self, topic: object, now_us: int) -> bool:
        """Note that somebody wants this topic; True where a refresh is needed for it."""
        if not isinstance(topic, str):
            return False  # nobody lets such a thing come here; it would end the thread, or spoil every request
        if len(topic) > TOPIC_NAME_MAX or not topic.isascii():
            # One such name would keep the whole request, and so every other topic, from being asked for.
            if topic not in self._metadata.topics:
                self._metadata.refuse(topic, INVALID_TOPIC)
            return False
        if topic not in self.topics:
            self._urgent = True
            if not self.in_flight:
                self._not_before_us = now_us
        self.topics[topic] = now_us
        known = self._metadata.topics.get(topic)
        if self._urgent or known is None or known.error_code:
            self.needed = True
        return self.needed

    def due_us(self) -> int | None:
        """Return when the next request should leave, None where none is needed or one is under way."""
        if self.in_flight:
            return None
        if self.needed:
            return self._not_before_us
        if not self._metadata.version or not self.topics:
            return None
        return self._metadata.updated_us + self._age_max_us

    def begin(self, now_us: int) -> None:
        """Note that a request is due now, whether or not a broker can be found that takes it."""
        if self.unanswered_since_us is None:
            self.unanswered_since_us = now_us

    def request(self) -> MetadataRequest:
        """Return the request to send now; counts as in flight until `answered` or `lost`."""
        self.in_flight = True
        self.needed = False
        self._urgent = False
        topics = [MetadataRequestTopic(name=name) for name in self.topics]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self._auto_create_topics)

    def answered(self, response: Any, now_us: int) -> None:
        """Take note of what the answer, already folded into the metadata, still lacks."""
        self.in_flight = False
        if response.error_code or not response.brokers:
            self.needed = True
        else:
            self.unanswered_since_us = None
            if self._something_is_missing(response, now_us):
                self.needed = True
        if not self.needed:
            self._failures = 0
        self._pace(now_us)

    def lost(self, now_us: int) -> None:
        """The request got no answer: try again after a pause."""
        self.in_flight = False
        self.needed = True
        self._pace(now_us)

    def _pace(self, now_us: int) -> None:
        if self._urgent:
            self._not_before_us = now_us
            return
        self._failures += 1
        self._not_before_us = now_us + self._backoff(self._failures, self._backoff_ms, self._backoff_max_ms)

    def _something_is_missing(self, response: Any, now_us: int) -> bool:
        missing = False
        for topic in response.topics:
            wanted_us = self.topics.get(topic.name)
            if wanted_us is None:
                continue
            if topic.error_code:
                lasting = topic.error_code not in RETRIABLE_TOPIC_ERRORS
                if lasting or now_us - wanted_us > MISSING_TOPIC_KEPT_US:
                    del self.topics[topic.name]
                else:
                    missing = True
            elif any(place.leader is None for place in self._metadata.topics[topic.name].partitions.values()):
                missing = True
        return missing

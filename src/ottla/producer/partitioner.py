"""How many partitions each topic has, which the partitioner needs, and which topics are waited for.

The partition of each record (by a hash of the key, or the sticky partition of KIP-794) is chosen by the compiled
`records/append`, with the counts that this file announces and the loads of `partition_load`. A topic is announced when
it is wanted, and again when its count or its error changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.connection.metadata import Metadata
from ottla.producer.events import TopicKnown
from ottla.protocol.error_codes import ErrorCode, kafka_error

if TYPE_CHECKING:
    from collections.abc import Iterable


class TopicPartitions:
    """Keeps what was announced of each topic, and which topics are still waited for."""

    __slots__ = ("_waited_for", "told")

    def __init__(self) -> None:
        # Topic -> what was announced of it: (partitions, error code).
        self.told: dict[str, tuple[int, int]] = {}
        # A dict for its order.
        self._waited_for: dict[str, bool] = {}

    def want(self, topic: str) -> None:
        """Note that a call waits for this topic: the next `news` announces it, changed or not."""
        self._waited_for[topic] = True

    def is_waited_for(self, topic: str) -> bool:
        """Tell whether a call still waits for this topic."""
        return topic in self._waited_for

    def forget(self, topic: str) -> None:
        """Forget a topic that was not used for long: it is announced again when it is wanted."""
        self.told.pop(topic, None)

    def news(self, topics: Iterable[str], metadata: Metadata) -> list[TopicKnown]:
        """Return what must be announced now of these topics: those with new metadata, or newly wanted."""
        found = []
        for topic in topics:
            known = metadata.topics.get(topic)
            if known is None or (topic not in self._waited_for and topic not in self.told):
                continue
            code = known.error_code
            count = 0 if code else len(known.partitions)
            if not count and not code:
                code = ErrorCode.LEADER_NOT_AVAILABLE
            if topic not in self._waited_for and self.told.get(topic) == (count, code):
                continue
            self.told[topic] = count, code
            if count:
                self._waited_for.pop(topic, None)
            found.append(TopicKnown(topic, count, kafka_error(code, topic=topic) if code else None))
        return found

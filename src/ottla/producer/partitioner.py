"""What the partitioner decides between: how many partitions each topic has, and who waits to hear it.

The decision itself (a hash of the key, or the sticky partition of KIP-794) is made per record by the compiled
`records/append`, on the figures this file and `partition_load` announce. A topic is announced when somebody asked for
it, and again when its figure or its error changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.connection.metadata import Metadata
from ottla.producer.events import TopicKnown
from ottla.protocol.error_codes import ErrorCode, kafka_error

if TYPE_CHECKING:
    from collections.abc import Iterable


class TopicPartitions:
    """Keeps what was announced of each topic, and which topics somebody still waits for."""

    __slots__ = ("_waited_for", "told")

    def __init__(self) -> None:
        # Topic -> what was announced of it: (partitions, error code).
        self.told: dict[str, tuple[int, int]] = {}
        # A dict for its order.
        self._waited_for: dict[str, bool] = {}

    def want(self, topic: str) -> None:
        """Somebody waits for this topic: the next `news` speaks of it whether it changed or not."""
        self._waited_for[topic] = True

    def is_waited_for(self, topic: str) -> bool:
        """Tell whether somebody still waits to hear of this topic."""
        return topic in self._waited_for

    def forget(self, topic: str) -> None:
        """Nobody has used this topic for long: it is announced again when somebody wants it."""
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

"""What a partitioner of the user's own is told of the cluster.

Views are made by the producer core when metadata changed and only for topics somebody sends to; users' threads read
them without asking the core.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.connection.metadata import Metadata


@dataclass(slots=True, frozen=True)
class ClusterView:
    """One topic's partitions as last heard of; `leaders` are broker ids by partition, None where there is none."""

    topic: str
    leaders: tuple[int | None, ...]

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has: 0 to one less may be chosen."""
        return len(self.leaders)

    @property
    def available(self) -> tuple[int, ...]:
        """The partitions that have a leader."""
        return tuple(partition for partition, leader in enumerate(self.leaders) if leader is not None)


class ClusterViews:
    """Keeps what was told of each topic."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[str, ClusterView] = {}

    def forget(self, topic: str) -> None:
        """Nobody has used this topic for long: it is told of anew when somebody does."""
        self._told.pop(topic, None)

    def news(self, topics: Iterable[str], metadata: Metadata) -> list[ClusterView]:
        """Return the views that are not what was told before."""
        found = []
        for topic in topics:
            known = metadata.topics.get(topic)
            if known is None or known.error_code or not known.partitions:
                continue
            view = ClusterView(topic, tuple(place.leader for place in known.partitions.values()))
            if self._told.get(topic) != view:
                self._told[topic] = view
                found.append(view)
        return found

"""What a user's own partitioner gets to see of the cluster.

The producer core makes a view when metadata changed, only for topics that are sent to. Users' threads read it without a
call into the core.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.connection.metadata import Metadata


@dataclass(slots=True, frozen=True)
class ClusterView:
    """One topic's partitions by the last metadata; `leaders` are broker ids by partition, None where there is none."""

    topic: str
    leaders: tuple[int | None, ...]

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has; they are numbered from 0."""
        return len(self.leaders)

    @property
    def available(self) -> tuple[int, ...]:
        """The partitions that have a leader."""
        return tuple(partition for partition, leader in enumerate(self.leaders) if leader is not None)


class ClusterViews:
    """Keeps the last view of each topic."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[str, ClusterView] = {}

    def forget(self, topic: str) -> None:
        """Remove the view of a topic that was not used for long."""
        self._told.pop(topic, None)

    def news(self, topics: Iterable[str], metadata: Metadata) -> list[ClusterView]:
        """Return the views of these topics that differ from the last ones."""
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

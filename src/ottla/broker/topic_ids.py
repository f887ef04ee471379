"""Topic ids in requests (KIP-516): newer versions of Produce, Fetch, OffsetCommit and OffsetFetch name no topics.

All handlers use names, so ids are turned into names when a request comes in; None stands for an id that no topic has.
The table follows the image, topic by topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.broker.events import ClusterImage
from ottla.protocol.message import ZERO_UUID

if TYPE_CHECKING:
    from ottla.protocol.messages.delete_topics import DeleteTopicsRequest

FROM_VERSION = 13  # of Produce and of Fetch alike


class TopicIds:
    """Finds topics by id in the newest image."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}

    def follow(self, old: ClusterImage, new: ClusterImage, changed: Iterable[str]) -> None:
        """These topics are new, gone or changed."""
        for name in changed:
            before, after = old.topics.get(name), new.topics.get(name)
            if before is not None and self._names.get(before.topic_id) == name:
                del self._names[before.topic_id]
            if after is not None:
                self._names[after.topic_id] = name

    def name_of(self, topic_id: bytes) -> str | None:
        """The topic that has this id."""
        return self._names.get(topic_id)

    def name_all(self, asked: list[Any], attribute: str) -> None:
        """Give each of the `asked` topics the name that belongs to its id, as `attribute`."""
        for topic in asked:
            setattr(topic, attribute, self._names.get(topic.topic_id))


def topics_asked(message: DeleteTopicsRequest) -> list[tuple[str | None, bytes]]:
    """(name, topic id) of the topics to delete; one of the two is given."""
    asked: list[tuple[str | None, bytes]] = [(name, ZERO_UUID) for name in message.topic_names]
    asked += [(topic.name, topic.topic_id) for topic in message.topics]
    return asked

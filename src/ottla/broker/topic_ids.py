"""Topic ids in requests (KIP-516): newer versions of Produce, Fetch, OffsetCommit and OffsetFetch name no topics.

Everything behind the door goes by names, so ids are turned into names when a request comes in; None stands for an id
that no topic has. The table is made anew when the image's topics have changed and a request asks by id.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.events import TopicImage

FROM_VERSION = 13  # of Produce and of Fetch alike


class TopicIds:
    """Finds topics by id in the newest image."""

    __slots__ = ("_names", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, TopicImage] = {}
        self._names: dict[bytes, str] = {}

    def name_all(self, asked: list[Any], attribute: str, topics: dict[str, TopicImage]) -> None:
        """Give each of the `asked` topics the name that belongs to its id, as `attribute`."""
        if topics is not self._topics:
            self._topics = topics
            self._names = {topic.topic_id: name for name, topic in topics.items()}
        for topic in asked:
            setattr(topic, attribute, self._names.get(topic.topic_id))

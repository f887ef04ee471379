"""The topics of an image by name: a map that never changes; making the next one costs only what changed.

The newest map holds a dictionary. Its successor takes it over and changes it in place; the older map keeps what the
changed topics were before, and looks everything else up in its successor. An older map makes a dictionary of its own
when it is iterated over, or used for a look-up many changes later.

Invariant: what a map says of a topic never changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.broker.events import TopicImage

# How many maps a look-up goes through before the map makes a dictionary of its own.
_STEPS_MAX = 16


class TopicMap(Mapping[str, TopicImage]):
    """Topics by name, in the order in which they were made."""

    __slots__ = ("_before", "_newer", "_own")

    def __init__(self, topics: dict[str, TopicImage]) -> None:
        self._own: dict[str, TopicImage] | None = topics
        self._newer: TopicMap | None = None
        self._before: dict[str, TopicImage | None] = {}

    def followed_by(self, changes: Mapping[str, TopicImage | None]) -> TopicMap:
        """A map like this one, with these topics changed (None: gone)."""
        own = self._whole()
        before = {name: own.get(name) for name in changes}
        _change(own, changes)
        self._own, self._newer, self._before = None, TopicMap(own), before
        return self._newer

    def __getitem__(self, name: str) -> TopicImage:
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def _find(self, name: str) -> TopicImage | None:
        each = self
        for _ in range(_STEPS_MAX):
            if each._own is not None:
                return each._own.get(name)
            if name in each._before:
                return each._before[name]
            assert each._newer is not None
            each = each._newer
        return self._whole().get(name)

    def _whole(self) -> dict[str, TopicImage]:
        if self._own is None:
            older = [self]
            while (newer := older[-1]._newer) is not None:
                older.append(newer)
            newest = older.pop()._own
            assert newest is not None
            own = dict(newest)
            for each in reversed(older):
                _change(own, each._before)
            self._own, self._newer, self._before = own, None, {}
        return self._own


def _change(topics: dict[str, TopicImage], changes: Mapping[str, TopicImage | None]) -> None:
    for name, topic in changes.items():
        if topic is None:
            topics.pop(name, None)
        else:
            topics[name] = topic

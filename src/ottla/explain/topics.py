"""Which topic a name stood for: a topic that is deleted and made again, or is in another cluster, is another one.

Topic ids (KIP-516) tell them apart. For requests without an id, answers before and after it that gave the topic's name
and id tell them apart, those of the same broker if there are any; and so do deletions that were captured.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ottla.tap.exchange import Exchange, PartitionPart

# In place of a topic's id: it is not known which of several topics was meant.
UNKNOWN = "?"


class Topic(NamedTuple):
    """A topic of this `name`; `which` tells several of the same name apart, and is None if only one was seen.

    `is_certain`: whether its id is in the request, or an answer after the request gave it again.
    """

    name: str
    which: str | None
    is_certain: bool


class CapturedTopics:
    """The topics of a capture."""

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        self._names: dict[str, str] = {}
        # Name -> (time, broker, id), in order; name -> times of deletions.
        self._told: dict[str, list[tuple[int, str, str]]] = {}
        self._deleted: dict[str, list[int]] = {}
        for exchange in exchanges:
            for part in exchange.partitions:
                self._learn(exchange, part)
        for told in self._told.values():
            told.sort()
        for deletions in self._deleted.values():
            deletions.sort()
        self._ids = {name: {each[2] for each in told} for name, told in self._told.items()}

    def of(self, exchange: Exchange, part: PartitionPart) -> Topic | None:
        """The topic that this part of an exchange is about; None where it names none."""
        topic_id = part.topic_id
        name = part.topic or (None if topic_id is None else self._names.get(topic_id, topic_id))
        if name is None:
            return None
        if len(self._ids.get(name, ())) > 1:
            return self._by_time(name, exchange) if topic_id is None else Topic(name, topic_id, True)
        told = self._told.get(name, [])
        deletions = self._deleted.get(name)
        which = None if not deletions else f"behind {bisect_right(deletions, exchange.time_us)} deletions"
        return Topic(name, which, topic_id is not None or (bool(told) and exchange.time_us <= told[-1][0]))

    def _learn(self, exchange: Exchange, part: PartitionPart) -> None:
        if part.topic is None:
            return
        at_us = exchange.response_us or exchange.time_us
        if part.topic_id is not None:
            self._names[part.topic_id] = part.topic
            self._told.setdefault(part.topic, []).append((at_us, exchange.broker, part.topic_id))
        if exchange.api == "DeleteTopics" and part.error is None and exchange.response_us is not None:
            self._deleted.setdefault(part.topic, []).append(at_us)

    def _by_time(self, name: str, exchange: Exchange) -> Topic:
        """One of several topics of a name, by the answers shortly before and after the request."""
        told = self._told[name]
        same_broker = [each for each in told if each[1] == exchange.broker]
        near = same_broker or told
        before = bisect_left(near, (exchange.time_us + 1,)) - 1
        behind = bisect_left(near, ((exchange.response_us or exchange.time_us),))
        first = near[before] if before >= 0 else None
        second = near[behind] if behind < len(near) else None
        if first is None or second is None or first[2] == second[2]:
            found = first or second
            assert found is not None
            return Topic(name, found[2], first is not None and second is not None)
        deletions = [each for each in self._deleted.get(name, ()) if first[0] <= each <= second[0]]
        if len(deletions) == 1:
            return Topic(name, (first if exchange.time_us < deletions[0] else second)[2], True)
        return Topic(name, UNKNOWN, False)

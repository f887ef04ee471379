"""A fault plan: which fault fires for which request that reaches a broker, and whether that really happened.

A `RequestFault` says what goes wrong and for which requests; a `FaultPlan` counts, for each of them, the requests that
match it (a retry is one more request) and answers two questions of the broker: which fault fires for this request
before its records are appended, and which one afterwards. All brokers of a cluster share one plan, so that "the third
request" means the third of the cluster.

Invariants: both questions are decided when the request arrives, from counts, the time and the fault's own seed alone,
so that the same requests in the same order always have the same faults. At most one fault fires for a request: of
several, one that fires before the append, and of these the one that was added first. Only after a fault that holds the
request may another one fire after the append. `fired` counts only what really happened: an answer is lost only if
something had been appended. It never exceeds `times`, however many requests are handled at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from ottla.errors import ConfigError
from ottla.faults.request_fault import Does, RequestFault

ANYWHERE: tuple[tuple[str, int], ...] = ()


class FaultContext:
    """What a plan needs to know of one request; made anew for each request, carried through it.

    `partitions` are the (topic, partition) pairs the request touches; none for requests that touch no topic.
    `broker_id` is the broker that handles it.
    """

    __slots__ = ("_after", "api", "broker_id", "partitions")

    def __init__(self, api: str, partitions: tuple[tuple[str, int], ...] = ANYWHERE, broker_id: int = -1) -> None:
        self.api = api
        self.partitions = partitions
        self.broker_id = broker_id
        self._after: tuple[_Entry, tuple[tuple[str, int], ...]] | None = None

    @property
    def may_fire_later(self) -> bool:
        """Whether a fault waits for the request to be handled."""
        return self._after is not None


def fault_context(
    message: Any, broker_id: int, kept: Iterable[tuple[str, int]] = (), names: Mapping[bytes, str] | None = None
) -> FaultContext:
    """What a plan is told of a request. A Fetch touches all partitions of its session, too: `kept`.

    `names`: the topics by their ids, where the request has not been given their names.
    """
    api = type(message).__name__.removesuffix("Request")
    pairs: tuple[tuple[str, int], ...] = ANYWHERE
    if api == "Produce":
        pairs = tuple(
            (_name(topic.name, topic, names), data.index)
            for topic in message.topic_data
            for data in topic.partition_data
        )
    elif api == "Fetch":
        asked = (
            (_name(each.topic, each, names), wanted.partition) for each in message.topics for wanted in each.partitions
        )
        pairs = tuple(dict.fromkeys((*asked, *kept)))
    elif api == "ListOffsets":
        pairs = tuple((topic.name, wanted.partition_index) for topic in message.topics for wanted in topic.partitions)
    return FaultContext(api, pairs, broker_id)


def _name(name: str, topic: Any, names: Mapping[bytes, str] | None) -> str:
    return name if name or names is None else names.get(topic.topic_id, "")


class Action:
    """What to do to a request, and to which of its partitions (for the kinds that answer with an error)."""

    __slots__ = ("delay_us", "does", "error", "fault_id", "kind", "moment", "partitions")

    def __init__(self, fault_id: int, fault: RequestFault, partitions: tuple[tuple[str, int], ...]) -> None:
        self.fault_id = fault_id
        self.kind = fault.kind
        self.does = fault.does
        self.error = fault.error or 0
        self.delay_us = (fault.delay_ms or 0) * 1000
        self.moment = fault.moment
        self.partitions = partitions


class _Entry:
    """A fault with its counts."""

    __slots__ = ("_begin_us", "_chance", "_end_us", "fault", "fault_id", "fired", "matched")

    def __init__(self, fault_id: int, fault: RequestFault, now_us: int) -> None:
        self.fault_id = fault_id
        self.fault = fault
        self._chance = Random(fault.seed or 0) if fault.probability is not None else None
        self._begin_us = now_us + fault.after_ms * 1000 if fault.after_ms is not None else None
        begin_us = self._begin_us or now_us
        self._end_us = begin_us + fault.duration_ms * 1000 if fault.duration_ms is not None else None
        self.matched = 0
        self.fired = 0

    def touched(self, context: FaultContext, now_us: int) -> tuple[tuple[str, int], ...] | None:
        """The partitions of the request the fault is about; None where the fault is about another request."""
        fault = self.fault
        if fault.api != context.api or (fault.broker_id is not None and fault.broker_id != context.broker_id):
            return None
        if (self._begin_us is not None and now_us < self._begin_us) or (
            self._end_us is not None and now_us >= self._end_us
        ):
            return None
        if fault.topic is None:
            return context.partitions
        found = tuple(
            pair
            for pair in context.partitions
            if pair[0] == fault.topic and (fault.partition is None or pair[1] == fault.partition)
        )
        return found or None

    def is_spent(self) -> bool:
        """Whether it has fired as often as it may."""
        return self.fault.times is not None and self.fired >= self.fault.times

    def is_due(self) -> bool:
        """Whether the fault fires for the request just counted."""
        fault = self.fault
        if fault.nth is not None:
            return self.matched == fault.nth
        if self.is_spent():
            return False
        if self._chance is not None:
            return self._chance.random() < (fault.probability or 0)
        return fault.every is None or self.matched % fault.every == 0

    def fire(self, partitions: tuple[tuple[str, int], ...]) -> Action:
        self.fired += 1
        return Action(self.fault_id, self.fault, partitions)


class FaultPlan:
    """The faults in force and what became of them; `active` is False where there are none (nothing to ask then)."""

    __slots__ = ("_entries", "_in_force", "active", "on_fired")

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._in_force: tuple[_Entry, ...] = ()
        self.active = False
        # Called whenever a fault has fired.
        self.on_fired: Callable[[], None] | None = None

    def add(self, fault: RequestFault, now_us: int = 0, fault_id: int | None = None) -> int:
        """Put a fault in force and return its id (the next one unless given); its times count from `now_us`."""
        fault_id = len(self._entries) + 1 if fault_id is None else fault_id
        entry = _Entry(fault_id, fault, now_us)
        self._entries[fault_id] = entry
        self._in_force += (entry,)
        self.active = True
        return fault_id

    def heal(self, fault_id: int) -> None:
        """Take a fault out of force; its counts stay readable. Healing twice is no mistake."""
        healed = self._entry(fault_id)
        self._in_force = tuple(entry for entry in self._in_force if entry is not healed)
        self.active = bool(self._in_force)

    def fault(self, fault_id: int) -> RequestFault:
        """The fault with this id, healed or not."""
        return self._entry(fault_id).fault

    def fired(self, fault_id: int) -> int:
        """For how many requests the fault has fired."""
        return self._entry(fault_id).fired

    def matched(self, fault_id: int) -> int:
        """How many requests matched the fault while it was in force, whether it fired or not."""
        return self._entry(fault_id).matched

    def before_append(self, context: FaultContext, now_us: int = 0) -> Action | None:
        """Count the request and say what fires before anything is appended; call it once per request."""
        before: tuple[_Entry, tuple[tuple[str, int], ...]] | None = None
        context._after = None
        for entry in self._in_force:
            partitions = entry.touched(context, now_us)
            if partitions is None:
                continue
            entry.matched += 1
            if not entry.is_due():
                continue
            if entry.fault.is_before_append:
                before = before or (entry, partitions)
            else:
                context._after = context._after or (entry, partitions)
        if before is None:
            return None
        if before[0].fault.does is not Does.HOLD:
            context._after = None
        return self._fire(before[0], before[1])

    def after_append(self, context: FaultContext, appended: tuple[tuple[str, int], ...] | None = None) -> Action | None:
        """What fires for the request now that it has been handled.

        `appended` names the partitions where its records are stored now: a fault that applies to none of them does
        not fire. None stands for all of them.
        """
        if context._after is None:
            return None
        entry, partitions = context._after
        if entry not in self._in_force or entry.is_spent():
            context._after = None
            return None  # healed, or fired for others, while the request was handled
        if appended is not None and partitions:
            partitions = tuple(pair for pair in partitions if pair in appended)
            if not partitions:
                return None
        context._after = None
        return self._fire(entry, partitions)

    def _fire(self, entry: _Entry, partitions: tuple[tuple[str, int], ...]) -> Action:
        action = entry.fire(partitions)
        if self.on_fired is not None:
            self.on_fired()
        return action

    def _entry(self, fault_id: int) -> _Entry:
        entry = self._entries.get(fault_id)
        if entry is None:
            raise ConfigError(f"there is no fault with id {fault_id}; ids come from add()")
        return entry

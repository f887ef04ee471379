"""A fault plan: which of the requests that reach a broker are struck, by what, and whether that really happened.

A `FaultRule` (`rule.py` lists the kinds) says what goes wrong and for which requests; a `FaultPlan` counts, per rule,
the requests that match it (a retry is one more request) and answers two questions of the broker: what strikes this
request before its records are appended, and what strikes it afterwards. All brokers of a cluster share one plan, so
that "the third request" means the third of the cluster.

Invariants: both questions are decided when the request arrives, from counts, the time and the rule's own seed alone,
so that the same requests in the same order are struck in the same way; at most one rule strikes a request, one that
strikes before the append first, then the rule added first; `fired` counts only what really happened: an answer is
lost only where something had been appended.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ottla.errors import ConfigError
from ottla.faults.rule import FaultRule

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


class Action:
    """What to do to a request, and to which of its partitions (for the kinds that answer with an error)."""

    __slots__ = ("delay_us", "error", "kind", "moment", "partitions", "rule_id")

    def __init__(self, rule_id: int, rule: FaultRule, partitions: tuple[tuple[str, int], ...]) -> None:
        self.rule_id = rule_id
        self.kind = rule.kind
        self.error = rule.error or 0
        self.delay_us = (rule.delay_ms or 0) * 1000
        self.moment = rule.moment
        self.partitions = partitions


class _Entry:
    """A rule with its counts."""

    __slots__ = ("_begin_us", "_chance", "_end_us", "fired", "matched", "rule", "rule_id")

    def __init__(self, rule_id: int, rule: FaultRule, now_us: int) -> None:
        self.rule_id = rule_id
        self.rule = rule
        self._chance = Random(rule.seed or 0) if rule.probability is not None else None
        self._begin_us = now_us + rule.after_ms * 1000 if rule.after_ms is not None else None
        begin_us = self._begin_us or now_us
        self._end_us = begin_us + rule.duration_ms * 1000 if rule.duration_ms is not None else None
        self.matched = 0
        self.fired = 0

    def touched(self, context: FaultContext, now_us: int) -> tuple[tuple[str, int], ...] | None:
        """The partitions of the request the rule is about; None where the rule is about another request."""
        rule = self.rule
        if rule.api != context.api or (rule.broker_id is not None and rule.broker_id != context.broker_id):
            return None
        if (self._begin_us is not None and now_us < self._begin_us) or (
            self._end_us is not None and now_us >= self._end_us
        ):
            return None
        if rule.topic is None:
            return context.partitions
        found = tuple(
            pair
            for pair in context.partitions
            if pair[0] == rule.topic and (rule.partition is None or pair[1] == rule.partition)
        )
        return found or None

    def is_due(self) -> bool:
        """Whether the request just counted is one to strike."""
        rule = self.rule
        if rule.nth is not None:
            return self.matched == rule.nth
        if rule.times is not None and self.fired >= rule.times:
            return False
        if self._chance is not None:
            return self._chance.random() < (rule.probability or 0)
        return rule.every is None or self.matched % rule.every == 0

    def strike(self, partitions: tuple[tuple[str, int], ...]) -> Action:
        self.fired += 1
        return Action(self.rule_id, self.rule, partitions)


class FaultPlan:
    """The rules in force and what became of them; `active` is False where there are none (nothing to ask then)."""

    __slots__ = ("_entries", "_in_force", "active", "struck")

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._in_force: tuple[_Entry, ...] = ()
        self.active = False
        # Called whenever a rule has struck.
        self.struck: Callable[[], None] | None = None

    def add(self, rule: FaultRule, now_us: int = 0) -> int:
        """Put a rule in force and return its id; times of the rule count from `now_us`."""
        rule_id = len(self._entries) + 1
        entry = _Entry(rule_id, rule, now_us)
        self._entries[rule_id] = entry
        self._in_force += (entry,)
        self.active = True
        return rule_id

    def heal(self, rule_id: int) -> None:
        """Take a rule out of force; its counts stay readable. Healing twice is no mistake."""
        healed = self._entry(rule_id)
        self._in_force = tuple(entry for entry in self._in_force if entry is not healed)
        self.active = bool(self._in_force)

    def rule(self, rule_id: int) -> FaultRule:
        """The rule with this id, healed or not."""
        return self._entry(rule_id).rule

    def fired(self, rule_id: int) -> int:
        """How many requests the rule has struck."""
        return self._entry(rule_id).fired

    def matched(self, rule_id: int) -> int:
        """How many requests the rule was about while it was in force, struck or not."""
        return self._entry(rule_id).matched

    def before_append(self, context: FaultContext, now_us: int = 0) -> Action | None:
        """Count the request and say what strikes it before anything is appended; call it once per request."""
        before: tuple[_Entry, tuple[tuple[str, int], ...]] | None = None
        context._after = None
        for entry in self._in_force:
            partitions = entry.touched(context, now_us)
            if partitions is None:
                continue
            entry.matched += 1
            if not entry.is_due():
                continue
            if entry.rule.is_before_append:
                before = before or (entry, partitions)
            else:
                context._after = context._after or (entry, partitions)
        if before is None:
            return None
        context._after = None
        return self._strike(before[0], before[1])

    def after_append(self, context: FaultContext, appended: tuple[tuple[str, int], ...] | None = None) -> Action | None:
        """What strikes the request now that it has been handled.

        `appended` names the partitions where its records are stored now: a rule that is about none of them does not
        strike. None stands for all of them.
        """
        if context._after is None:
            return None
        entry, partitions = context._after
        if appended is not None and partitions:
            partitions = tuple(pair for pair in partitions if pair in appended)
            if not partitions:
                return None
        context._after = None
        return self._strike(entry, partitions)

    def _strike(self, entry: _Entry, partitions: tuple[tuple[str, int], ...]) -> Action:
        action = entry.strike(partitions)
        if self.struck is not None:
            self.struck()
        return action

    def _entry(self, rule_id: int) -> _Entry:
        entry = self._entries.get(rule_id)
        if entry is None:
            raise ConfigError(f"there is no fault with id {rule_id}; ids come from add()")
        return entry

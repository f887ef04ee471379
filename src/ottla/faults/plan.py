"""A fault plan: which of the requests that reach a broker are struck, by what, and whether that really happened.

A `FaultRule` says what goes wrong and for which requests; a `FaultPlan` counts, per rule, the requests that match it
(a retry is one more request) and answers two questions of the broker: what strikes this request before its records
are appended, and what strikes it afterwards. All brokers of a cluster share one plan, so that "the third request"
means the third of the cluster.

Invariants: both questions are decided when the request arrives, from counts alone, so that the same requests in the
same order are struck in the same way; at most one rule strikes a request, one that strikes before the append first,
then the rule added first; `fired` counts only what really happened: an answer is lost only where something had been
appended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ottla.errors import ConfigError

BEFORE_APPEND = ("lose_request", "refuse")
AFTER_APPEND = ("lose_ack", "refuse_after_append", "delay_ack")
KINDS = BEFORE_APPEND + AFTER_APPEND

NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
_DEFAULT_ERROR = {"refuse": NOT_ENOUGH_REPLICAS, "refuse_after_append": NOT_ENOUGH_REPLICAS_AFTER_APPEND}

ANYWHERE: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True, frozen=True)
class FaultRule:
    """One thing that goes wrong: `kind` for the requests of `api` that touch `topic` and `partition` (None: any).

    Kinds: "lose_request" (thrown away before the append, connection cut), "refuse" (answered with `error`, nothing
    appended), "lose_ack" (appended, connection cut instead of an answer), "refuse_after_append" (appended and
    answered with `error`), "delay_ack" (appended, answered `delay_ms` late). A request that expects no answer keeps
    its connection when it or its answer is lost.

    `nth` strikes the n-th matching request only (from 1), `every` each k-th; without both every one is struck;
    `times` bounds how often. `error` is Kafka's error code. Raises ConfigError.
    """

    kind: str
    topic: str | None = None
    partition: int | None = None
    nth: int | None = None
    every: int | None = None
    times: int | None = None
    api: str = "Produce"
    error: int | None = None
    delay_ms: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"fault kind {self.kind!r} is unknown; known kinds are {', '.join(KINDS)}")
        for name, least in (("nth", 1), ("every", 1), ("times", 1), ("partition", 0), ("delay_ms", 1)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise ConfigError(f"fault {self.kind}: {name}={value!r} must be an integer of at least {least}")
        if self.nth is not None and (self.every is not None or self.times is not None):
            raise ConfigError(
                f"fault {self.kind}: nth strikes once and excludes every and times; give one or the other"
            )
        if self.partition is not None and self.topic is None:
            raise ConfigError(f"fault {self.kind}: partition={self.partition} needs a topic")
        refusing = self.kind in _DEFAULT_ERROR
        if refusing and self.api != "Produce":
            raise ConfigError(f"fault {self.kind} is for Produce requests only, not for {self.api}")
        if refusing and self.error is None:
            object.__setattr__(self, "error", _DEFAULT_ERROR[self.kind])
        elif self.error is not None and not (refusing and isinstance(self.error, int) and self.error != 0):
            raise ConfigError(f"fault {self.kind}: error={self.error!r} must be one of Kafka's error codes, for refuse")
        if (self.kind == "delay_ack") != (self.delay_ms is not None):
            raise ConfigError(f"fault {self.kind}: delay_ms={self.delay_ms} goes with delay_ack, and only with it")

    def to_dict(self) -> dict[str, object]:
        """The rule as plain values (JSON keeps them); what was not given is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, fields: Mapping[str, object]) -> FaultRule:
        """The rule that `to_dict` wrote; raises ConfigError for unknown fields."""
        unknown = [name for name in fields if name not in cls.__slots__]
        if unknown:
            raise ConfigError(f"fault field {unknown[0]!r} is unknown; known fields are {', '.join(cls.__slots__)}")
        return cls(**fields)  # type: ignore[arg-type]


class FaultContext:
    """What a plan needs to know of one request; made anew for each request, carried through it.

    `partitions` are the (topic, partition) pairs the request touches; none for requests that touch no topic.
    """

    __slots__ = ("_after", "api", "partitions")

    def __init__(self, api: str, partitions: tuple[tuple[str, int], ...] = ANYWHERE) -> None:
        self.api = api
        self.partitions = partitions
        self._after: tuple[_Entry, tuple[tuple[str, int], ...]] | None = None


class Action:
    """What to do to a request, and to which of its partitions (for the kinds that answer with an error)."""

    __slots__ = ("delay_us", "error", "kind", "partitions", "rule_id")

    def __init__(self, rule_id: int, rule: FaultRule, partitions: tuple[tuple[str, int], ...]) -> None:
        self.rule_id = rule_id
        self.kind = rule.kind
        self.error = rule.error or 0
        self.delay_us = (rule.delay_ms or 0) * 1000
        self.partitions = partitions


class _Entry:
    """A rule with its counts."""

    __slots__ = ("fired", "matched", "rule", "rule_id")

    def __init__(self, rule_id: int, rule: FaultRule) -> None:
        self.rule_id = rule_id
        self.rule = rule
        self.matched = 0
        self.fired = 0

    def touched(self, context: FaultContext) -> tuple[tuple[str, int], ...] | None:
        """The partitions of the request the rule is about; None where the rule is about another request."""
        rule = self.rule
        if rule.api != context.api:
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
        return rule.every is None or self.matched % rule.every == 0

    def strike(self, partitions: tuple[tuple[str, int], ...]) -> Action:
        self.fired += 1
        return Action(self.rule_id, self.rule, partitions)


class FaultPlan:
    """The rules in force and what became of them; `active` is False where there are none (nothing to ask then)."""

    __slots__ = ("_entries", "_in_force", "active")

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._in_force: tuple[_Entry, ...] = ()
        self.active = False

    def add(self, rule: FaultRule) -> int:
        """Put a rule in force and return its id."""
        rule_id = len(self._entries) + 1
        entry = _Entry(rule_id, rule)
        self._entries[rule_id] = entry
        self._in_force += (entry,)
        self.active = True
        return rule_id

    def heal(self, rule_id: int) -> None:
        """Take a rule out of force; its counts stay readable. Healing twice is no mistake."""
        healed = self._entry(rule_id)
        self._in_force = tuple(entry for entry in self._in_force if entry is not healed)
        self.active = bool(self._in_force)

    def fired(self, rule_id: int) -> int:
        """How many requests the rule has struck."""
        return self._entry(rule_id).fired

    def matched(self, rule_id: int) -> int:
        """How many requests the rule was about while it was in force, struck or not."""
        return self._entry(rule_id).matched

    def before_append(self, context: FaultContext) -> Action | None:
        """Count the request and say what strikes it before anything is appended; call it once per request."""
        before: tuple[_Entry, tuple[tuple[str, int], ...]] | None = None
        context._after = None
        for entry in self._in_force:
            partitions = entry.touched(context)
            if partitions is None:
                continue
            entry.matched += 1
            if not entry.is_due():
                continue
            if entry.rule.kind in BEFORE_APPEND:
                before = before or (entry, partitions)
            else:
                context._after = context._after or (entry, partitions)
        if before is None:
            return None
        context._after = None
        return before[0].strike(before[1])

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
        return entry.strike(partitions)

    def _entry(self, rule_id: int) -> _Entry:
        entry = self._entries.get(rule_id)
        if entry is None:
            raise ConfigError(f"there is no fault with id {rule_id}; ids come from add()")
        return entry

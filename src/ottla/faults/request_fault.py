"""Faults that apply to requests: to which ones, and when they fire."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ottla.faults.fault import BEFORE_APPEND, Fault
from ottla.faults.fields import (
    AFTER,
    API,
    BROKER,
    DELAY,
    DURATION,
    EVERY,
    NTH,
    PARTITION,
    REQUEST,
    SEED,
    SHARE,
    TIMES,
    TOPIC,
    Field,
)

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span

PRODUCE = "Produce"
# The requests that a plan tells apart by topic.
_OF_TOPICS = (PRODUCE, "Fetch", "ListOffsets")
WHICH = (TOPIC, PARTITION, NTH, EVERY, TIMES, SHARE, SEED, BROKER, API, AFTER, DURATION)
# What is drawn: mostly Produce, and what transactions and readers ask for.
APIS_DRAWN = (
    PRODUCE,
    PRODUCE,
    PRODUCE,
    "EndTxn",
    "InitProducerId",
    "AddPartitionsToTxn",
    "TxnOffsetCommit",
    "WriteTxnMarkers",
    "FindCoordinator",
    "Metadata",
    "Fetch",
    "ListOffsets",
)
DELAYS_DRAWN_MS = (5, 200, 700, 3_000)


class Does(Enum):
    """What a fault does to a request, or to its answer; brokers and proxies carry it out."""

    # Answer with an error.
    REFUSE = auto()
    # Handle the request, or send the answer, `delay_ms` late.
    DELAY = auto()
    # Keep it back until the fault is healed.
    HOLD = auto()
    # Throw it away, and cut the connection.
    CUT = auto()
    # Throw it away; the connection stays open and silent.
    SILENCE = auto()
    # Handle the request once more, `delay_ms` later.
    REPEAT = auto()
    # Only brokers can do these.
    END_BROKER = auto()
    PAUSE_BROKER = auto()


class RequestFault(Fault):
    """Applies to requests of `api` that touch `topic` and `partition` (None: any) and reach `broker_id` (None: any).

    With `nth` it fires for the n-th of them only (from 1), with `every` for each k-th, with `probability` for each with
    that chance (drawn from `seed`); without these for every one; `times` bounds how often. `after_ms`, `duration_ms`:
    only from so long after it began, and for so long. A request that expects no answer keeps its connection when it,
    or its answer, is lost.
    """

    does: ClassVar[Does]
    optional: ClassVar[tuple[Field, ...]] = WHICH
    defaults: ClassVar[dict[str, Any]] = {"api": PRODUCE}

    topic: str | None
    partition: int | None
    nth: int | None
    every: int | None
    times: int | None
    probability: float | None
    seed: int | None
    broker_id: int | None
    api: str
    after_ms: int | None
    duration_ms: int | None
    # Only some kinds have these fields. The others have None, so that `plan` and its callers can read them of any kind.
    delay_ms: int | None = None
    error: int | None = None
    moment: str | None = None

    def check(self) -> None:
        """ConfigError where fields do not go together."""
        if self.nth is not None and (self.every is not None or self.times is not None):
            raise self.wrong("nth fires once and excludes every and times; give one or the other")
        if self.partition is not None and self.topic is None:
            raise self.wrong(f"partition={self.partition} needs a topic")
        if self.topic is not None and self.api not in _OF_TOPICS:
            *others, last = _OF_TOPICS
            of = f"{', '.join(others)} and {last}"
            raise self.wrong(f"it would never fire: topic goes with {of}, not with api={self.api!r}; leave topic out")
        if self.probability is not None and (self.nth is not None or self.every is not None):
            raise self.wrong("probability excludes nth and every; give one or the other")
        if self.seed is not None and self.probability is None and not self.draws_bytes:
            raise self.wrong(f"seed={self.seed} goes with a probability, or with a fault that cuts the power")

    @property
    def draws_bytes(self) -> bool:
        """Whether `seed` also says what is left of the bytes that were not synced."""
        return False

    @property
    def applies_to_requests(self) -> bool:
        """A `FaultPlan` asks it."""
        return True

    @property
    def waits(self) -> bool:
        """It fires for what comes while it is in force."""
        return True

    @property
    def is_before_append(self) -> bool:
        """Whether it fires before anything is appended."""
        return self.kind in BEFORE_APPEND or self.moment == REQUEST

    def begin(self, site: Site, effect: Effect) -> None:
        """The `FaultPlan` knows of it; there is nothing to be done before a request comes."""

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """For requests that come; None where too few do."""
        given = cls.draw_fields(drawing)
        if not drawing.await_requests(span, given["api"], given.get("topic"), given["every"]):
            return None
        return cls(**given)

    @classmethod
    def draw_fields(cls, drawing: Drawing) -> dict[str, Any]:
        """Which requests it applies to, and its other fields."""
        chance = drawing.chance
        given: dict[str, Any] = {
            "api": chance.choice(APIS_DRAWN),
            "every": chance.choice((1, 1, 2, 3, 5)),
            "times": chance.choice((1, 1, 5)),
        }
        if DELAY in (*cls.wanted, *cls.optional):
            given["delay_ms"] = chance.choice(DELAYS_DRAWN_MS)
        if given["api"] == PRODUCE and chance.random() < 0.5:
            given["topic"] = chance.choice(drawing.topics).name
        return given

    def tell(self) -> str:
        """ "lose ack of Produce (every=2, topic='t0')"."""
        more = ", ".join(f"{name}={value!r}" for name, value in self.to_dict().items() if name not in ("kind", "api"))
        return f"{self.kind.replace('_', ' ')} of {self.api}{f' ({more})' if more else ''}"

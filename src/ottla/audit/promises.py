"""What is promised, in one table: the three delivery guarantees, and the sixteen properties that are judged.

At-most-once never sends anything twice, at-least-once sends again until it is answered, exactly-once does so too and
lets the broker recognise what it already has (idempotence, KIP-98; it holds within one producer session). Which of them
a producer claims follows from its settings.

Both judges hold what they find against this table, and so does whoever runs producers to be judged: what is promised
stands nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.audit import findings as kinds
from ottla.ledger.schema import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE


@dataclass(slots=True, frozen=True)
class Promise:
    """One delivery guarantee.

    `settings`: keywords of a producer that claims it, `settings_words` the same for people. `never`: the kinds of
    anomaly that it forbids; `never_one_by_one`: further ones that it forbids with one request in flight;
    `by_the_network`: those of `never` that are not the producer's doing where the network delivers a request twice.
    `shows`: the kinds that must be found where faults are to tell the guarantees apart. `lacks`: what exactly-once has
    and it has not. `words`: what is expected of such a run, for people; `claim_words`: what a program claims with it.
    """

    guarantee: str
    settings: Mapping[str, Any]
    settings_words: str
    never: tuple[str, ...]
    shows: tuple[str, ...]
    words: str
    claim_words: str
    never_one_by_one: tuple[str, ...] = ()
    by_the_network: tuple[str, ...] = ()
    lacks: str = ""

    @property
    def is_answered(self) -> bool:
        """Whether brokers answer such a producer (False for acks=0)."""
        return bool(self.settings["acks"])

    def forbids(self, *, max_in_flight: int, is_redelivered: bool) -> tuple[str, ...]:
        """The kinds of anomaly that it forbids with so many requests in flight, where requests were delivered twice."""
        more = self.never_one_by_one if max_in_flight == 1 else ()
        excused = self.by_the_network if is_redelivered else ()
        return tuple(kind for kind in (*self.never, *more) if kind not in excused)


_ALWAYS_WRONG = (kinds.ALTERED, kinds.FAILED_BUT_STORED, kinds.WRONG_OFFSET, kinds.MISREAD)

PROMISES = {
    promise.guarantee: promise
    for promise in (
        Promise(
            AT_MOST_ONCE,
            settings={"acks": 0, "retries": 0, "enable_idempotence": False},
            settings_words="acks=0, no retries",
            never=(kinds.DUPLICATED, *_ALWAYS_WRONG),
            by_the_network=(kinds.DUPLICATED,),
            shows=(kinds.LOST,),
            words="nothing duplicated; losses appear",
            claim_words="nothing duplicated; losses are allowed",
            lacks="acknowledgements and retries",
        ),
        Promise(
            AT_LEAST_ONCE,
            settings={"acks": "all", "enable_idempotence": False},
            settings_words="acks=all, retries",
            never=(kinds.LOST, *_ALWAYS_WRONG),
            never_one_by_one=(kinds.REORDERED,),
            shows=(kinds.DUPLICATED,),
            words="nothing lost; duplicates appear",
            claim_words="nothing lost; duplicates are allowed",
            lacks="idempotence",
        ),
        Promise(
            EXACTLY_ONCE,
            settings={"acks": "all", "enable_idempotence": True},
            settings_words="acks=all, retries, idempotence",
            never=(kinds.LOST, kinds.DUPLICATED, kinds.REORDERED, *_ALWAYS_WRONG),
            shows=(),
            words="every record once, in order, unaltered",
            claim_words="every record once, in order, unaltered",
        ),
    )
}
"""By their names, in the order in which they are shown."""


def claimed(*, acks: int, idempotent: bool) -> Promise:
    """The promise that these settings make; `acks` is 0, 1 or -1.

    acks=1 promises at-least-once for as long as its leader lives.
    """
    if acks == 0:
        return PROMISES[AT_MOST_ONCE]
    return PROMISES[EXACTLY_ONCE if idempotent else AT_LEAST_ONCE]


@dataclass(slots=True, frozen=True)
class Property:
    """One property: its number, what it is about, and the kinds of `findings` that would break it."""

    number: int
    name: str
    kinds: tuple[str, ...]


PROPERTIES = (
    Property(1, "every record has one outcome", (kinds.UNSETTLED,)),
    Property(2, "nothing acknowledged is lost", (kinds.LOST,)),
    Property(3, "no duplicate that is not allowed", (kinds.DUPLICATED, kinds.REPEATED)),
    Property(4, "nothing that failed is stored", (kinds.FAILED_BUT_STORED,)),
    Property(5, "each record stays at the offset told", (kinds.WRONG_OFFSET, kinds.CHANGED)),
    Property(6, "order within a partition", (kinds.REORDERED,)),
    Property(7, "readers skip and repeat nothing", (kinds.MISPOLLED, kinds.MISREAD)),
    Property(8, "unaltered, and in the right partition", (kinds.ALTERED, kinds.MISPLACED, kinds.CORRUPT)),
    Property(9, "sequence numbers and fencing", (kinds.SEQUENCE, kinds.REFUSED, kinds.FENCED)),
    Property(10, "leaders and replicas agree", (kinds.EPOCH, kinds.WATERMARK, kinds.TRUNCATED, kinds.DIVERGED)),
    Property(11, "acked once all in-sync replicas had it", (kinds.UNDER_REPLICATED,)),
    Property(
        12,
        "transactions",
        (kinds.ABORTED_READ, kinds.TORN, kinds.EARLY_READ, kinds.ZOMBIE, kinds.GROUP_OFFSET, kinds.HANGING),
    ),
    Property(13, "the guarantee claimed was kept", (kinds.BROKEN_PROMISE,)),
    Property(
        14,
        "nothing stuck, late or failed without cause",
        (kinds.STUCK, kinds.OVERDUE, kinds.KEPT_WAITING, kinds.UNCAUSED),
    ),
    Property(15, "faults fired; weaker settings show damage", (kinds.FAULTLESS, kinds.UNCONTROLLED)),
    Property(16, "the same seed gives the same run", (kinds.UNREPEATABLE,)),
)
"""All that a cluster and its clients promise, in the order of their numbers."""

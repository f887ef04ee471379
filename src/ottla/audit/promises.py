"""What is promised, in one table: the three delivery guarantees.

At-most-once never sends anything twice, at-least-once sends again until it is answered, exactly-once does so too and
lets the broker recognise what it already has (idempotence, KIP-98; it holds within one producer session). Which of them
a producer claims follows from its settings.

Both judges compare what they find with this table, and the runs that are judged take their settings from it: what is
promised stands nowhere else.
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
    and this one does not. `words`: what is expected of such a run, for people; `claim_words`: what a program claims
    with it.
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

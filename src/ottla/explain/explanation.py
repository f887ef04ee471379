"""All that is concluded from a capture: what is broken, which faults explain it, and a plan that shows it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ottla.errors import UserMistake
from ottla.explain.breaches import Breach, find_breaches
from ottla.explain.placement import Placement, place_batches
from ottla.explain.replay import Replay, make_small, replay
from ottla.explain.sighting import Attempt, Sighting, look
from ottla.explain.suspects import Suspect, find_suspects
from ottla.simulation.plan import Plan
from ottla.simulation.shrink import Shrunk
from ottla.tap.exchange import Entry

SHRINK_RUNS_MAX = 200


@dataclass(slots=True)
class Explanation:
    """What was concluded from one capture.

    `replayed` is None if there was nothing to explain; `small` is the smallest plan that shows it.
    """

    seen: Sighting
    placements: list[Placement]
    breaches: list[Breach]
    suspects: list[Suspect]
    replayed: Replay | None = None
    small: Shrunk | None = None

    @property
    def is_broken(self) -> bool:
        """Whether a promise of exactly-once is certain to be broken."""
        return bool(self.breaches)

    @property
    def plan(self) -> Plan | None:
        """The smallest plan there is."""
        if self.small is not None:
            return self.small.plan
        return None if self.replayed is None else self.replayed.plan

    @property
    def reproduced(self) -> bool:
        """Whether the simulator shows the same."""
        return self.replayed is not None and self.replayed.is_same

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plan = self.plan
        return {
            "requests": len(self.seen.exchanges),
            "produce_attempts": len(self.seen.attempts),
            "broken": self.is_broken,
            "breaches": [
                {
                    "kind": each.kind,
                    "topic": each.place[0],
                    "partition": each.place[1],
                    "records": each.records,
                    "offsets": list(each.offsets),
                    "words": each.words,
                    "claims": each.claims,
                    "forbidden_by_claim": each.is_claimed,
                    "attempts": [_attempt(attempt) for attempt in each.attempts],
                }
                for each in self.breaches
            ],
            "suspects": [
                {
                    "words": each.words,
                    "attempt": _attempt(each.attempt),
                    "faults": [fault.to_dict() for fault in each.faults],
                }
                for each in self.suspects
            ],
            "unseen": list(self.seen.unseen),
            "reproduced": self.reproduced,
            "plan": None if plan is None else plan.to_dict(),
        }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    exchange = attempt.exchange
    return {
        "connection": exchange.connection,
        "client": exchange.client,
        "client_id": exchange.client_id,
        "broker": exchange.broker,
        "correlation_id": exchange.correlation_id,
        "sent_us": attempt.sent_us,
        "outcome": str(exchange.outcome),
        "error": attempt.error,
        "acks": exchange.acks,
        "nth_of_partition": attempt.nth,
        "records": attempt.batch.record_count,
        "offset": attempt.offset,
        "stands_at": attempt.stands_at,
    }


def read(entries: Iterable[Entry], name: str) -> Explanation:
    """What a capture shows, and what is broken; nothing is simulated. UserMistake if it has no Produce request."""
    seen = look(entries)
    if not seen.exchanges:
        tls = next((each for each in seen.unseen if "TLS" in each), None)
        why = f"it does not show {tls}" if tls else "no request is in it"
        raise UserMistake(f"{name} explains nothing: {why}; record with `ottla proxy --record`, which ends TLS itself")
    if not seen.attempts:
        raise UserMistake(
            f"{name} has no Produce request that can be read: give a capture of what producers send "
            "(`ottla tap` shows what is in it)"
        )
    placements = [place_batches(each) for each in seen.partitions.values()]
    for placement in placements:
        if placement.begins_again:
            topic, partition = placement.seen.place
            seen.unseen.append(
                f"what became of {topic}-{partition}: its offsets begin again at 0, and whether the topic was deleted "
                "and made again was not told"
            )
    breaches = [each for placement in placements for each in find_breaches(placement)]
    return Explanation(seen, placements, breaches, find_suspects(seen, placements, breaches))


def explain(entries: Iterable[Entry], name: str, *, shrinks: bool = True) -> Explanation:
    """Explain a capture: read it, and reproduce in the simulator what it shows."""
    found = read(entries, name)
    reproduce(found, shrinks=shrinks)
    return found


def reproduce(
    found: Explanation,
    *,
    shrinks: bool = True,
    progress: Callable[[Plan, int], None] | None = None,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Try in the simulator the faults that were suspected; `progress` and `goes_on` are as for `shrink`."""
    if not found.suspects and not found.breaches:
        return
    found.replayed = replay(found.seen, found.placements, found.suspects, found.breaches)
    if shrinks and found.breaches and found.replayed.is_same:
        wanted = found.breaches[0].kind
        found.small = make_small(found.replayed, wanted, runs_max=SHRINK_RUNS_MAX, progress=progress, goes_on=goes_on)

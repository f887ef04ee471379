"""Broken promise: what a producer's settings claim, held against what was seen of its records.

acks=0 claims at-most-once; acks=1 and acks=all without idempotence claim at-least-once (acks=1 only as long as its
leader lives: `durability`); idempotence claims exactly-once and in order, within the life of one instance. A record
that was reported failed and is stored, or acknowledged at another's offset, breaks every claim.

Nothing new is looked at here: this is the table of what the checkers of single partitions and `losses` found, by
producer, so that a verdict names the claim that broke. Its tallies are the figures of that table. Not observable:
partitions whose final read did not reach the end.
"""

from __future__ import annotations

from ottla.audit import findings as kinds
from ottla.audit.chronicle import ProducerPromise
from ottla.audit.findings import BROKEN_PROMISE, EVIDENCE_MAX, Finding, Findings
from ottla.ledger.schema import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE

_ALWAYS = (kinds.FAILED_BUT_STORED, kinds.WRONG_OFFSET)
_NEVER: dict[str, tuple[str, ...]] = {
    AT_MOST_ONCE: _ALWAYS,
    AT_LEAST_ONCE: (kinds.LOST, *_ALWAYS),
    EXACTLY_ONCE: (kinds.LOST, kinds.DUPLICATED, kinds.REORDERED, *_ALWAYS),
}


def claim(promise: ProducerPromise) -> str:
    """The guarantee that these settings claim."""
    if promise.acks == 0:
        return AT_MOST_ONCE
    return EXACTLY_ONCE if promise.idempotent else AT_LEAST_ONCE


def forbidden(promise: ProducerPromise) -> tuple[str, ...]:
    """The kinds of anomaly that must not be seen of this producer."""
    never = _NEVER[claim(promise)]
    if promise.acks != 0 and not promise.idempotent and promise.max_in_flight == 1:
        never = (*never, kinds.REORDERED)
    return never


def check_claims(
    promises: list[ProducerPromise],
    seen: dict[str, dict[str, int]],
    unseen: tuple[str, ...],
    evidence_max: int = EVIDENCE_MAX,
) -> Finding:
    """Producers that show what they claim never to do; `seen`: producer -> kind of anomaly -> how often."""
    found = Findings(BROKEN_PROMISE, evidence_max)
    for promise in promises:
        counts = seen.get(promise.producer, {})
        for kind, count in counts.items():
            if count:
                found.tally(f"{promise.producer}: {kind}", count)
        broken = [f"{counts[kind]} {kind}" for kind in forbidden(promise) if counts.get(kind)]
        if broken:
            found.add(
                f"{promise.producer} claims {claim(promise)} (acks={promise.acks}), and shows {', '.join(broken)}"
            )
    for what in unseen:
        found.not_seen(what)
    return found.finding()

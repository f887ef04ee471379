"""Broken promise: what a producer's settings claim, compared with what was seen of its records.

Which guarantee they claim, and what that forbids, stands in `promises`. With acks=1 it holds only as long as its leader
lives (`durability`).

Nothing new is looked at here: this sums what the checkers of single partitions and `losses` found, by producer, so that
a verdict names the broken claim. Its tallies are these sums. Not observable: partitions whose final read did not reach
the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.audit.chronicles.chronicle import ProducerPromise
from ottla.audit.findings import BROKEN_PROMISE, EVIDENCE_MAX, Finding, Findings
from ottla.audit.promises import Promise, claimed


def read_promise(producer: str, settings: Mapping[str, Any]) -> ProducerPromise:
    """What a producer with these settings (keywords of `Producer`, else Kafka's defaults) promises.

    `delivery_timeout_ms` and `linger_ms` are known where they are given.
    """
    acks = -1 if settings.get("acks", "all") == "all" else int(settings["acks"])
    return ProducerPromise(
        producer,
        acks,
        idempotent=bool(settings.get("enable_idempotence", acks == -1)),
        transactional_id=settings.get("transactional_id"),
        delivery_timeout_ms=settings.get("delivery_timeout_ms", -1),
        max_in_flight=settings.get("max_in_flight_requests_per_connection", 5),
        linger_ms=settings.get("linger_ms", -1),
        transaction_timeout_ms=settings.get("transaction_timeout_ms", 60_000),
        retries=settings.get("retries", -1),
    )


def claim(producer: ProducerPromise) -> Promise:
    """The guarantee that its settings claim."""
    return claimed(acks=producer.acks, idempotent=producer.idempotent)


def forbidden(producer: ProducerPromise, *, is_redelivered: bool) -> tuple[str, ...]:
    """The kinds of anomaly that must not be seen of it; `is_redelivered`: requests were delivered twice."""
    return claim(producer).forbids(max_in_flight=producer.max_in_flight, is_redelivered=is_redelivered)


def check_claims(
    promises: list[ProducerPromise],
    seen: dict[str, dict[str, int]],
    unseen: tuple[str, ...],
    evidence_max: int = EVIDENCE_MAX,
    *,
    is_redelivered: bool = False,
) -> Finding:
    """Producers with anomalies that their claim forbids; `seen`: producer -> kind of anomaly -> how often."""
    found = Findings(BROKEN_PROMISE, evidence_max)
    for promise in promises:
        counts = seen.get(promise.producer, {})
        for kind, count in counts.items():
            if count:
                found.tally(f"{promise.producer}: {kind}", count)
        broken = [
            f"{counts[kind]} {kind}" for kind in forbidden(promise, is_redelivered=is_redelivered) if counts.get(kind)
        ]
        if broken:
            guarantee = claim(promise).guarantee
            found.add(f"{promise.producer} claims {guarantee} (acks={promise.acks}), and shows {', '.join(broken)}")
    for what in unseen:
        found.not_seen(what)
    return found.finding()

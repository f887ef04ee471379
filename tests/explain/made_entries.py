"""Captures made by hand: what one producer sent to a partition, what was answered and what was fetched."""

from __future__ import annotations

from ottla.explain.explanation import read
from ottla.tap.exchange import Batch, Entry, Exchange, Outcome, PartitionPart

NONE = -1


def batch(name: str, count: int = 1, *, stamps: tuple[int, int] | None = None, offset: int = 0) -> Batch:
    first, last = stamps or (None, None)
    return Batch(
        base_offset=offset,
        record_count=count,
        size_bytes=100 * count,
        producer_id=NONE,
        producer_epoch=NONE,
        base_sequence=NONE,
        codec="none",
        crc=1,
        base_timestamp_ms=first,
        max_timestamp_ms=last,
        sha256=name,
    )


def exchange(api: str, at_ms: int, part: PartitionPart | None, *, took_ms: int | None = 1, acks: int = -1) -> Exchange:
    """One that was answered after `took_ms`; None: never, and its connection ended 1 ms later."""
    is_due = took_ms is not None
    return Exchange(
        connection=1,
        client="10.0.0.1:40000",
        broker="10.0.0.2:9092",
        outcome=Outcome.ANSWERED if is_due else Outcome.UNANSWERED if acks else Outcome.NOT_DUE,
        request_us=at_ms * 1000,
        response_us=(at_ms + (took_ms or 0)) * 1000 if is_due else None,
        end_us=None if is_due or not acks else (at_ms + 1) * 1000,
        correlation_id=at_ms,
        api=api,
        acks=acks if api == "Produce" else None,
        partitions=() if part is None else (part,),
    )


def produced(
    at_ms: int, sent: Batch, offset: int | None = None, *, error: str | None = None, acks: int = -1
) -> Exchange:
    part = PartitionPart(topic="orders", partition=0, offset=offset, batches=(sent,), error=error)
    took_ms = None if offset is None and error is None else 1
    return exchange("Produce", at_ms, part, took_ms=took_ms, acks=acks)


def fetched(at_ms: int, *batches: Batch) -> Exchange:
    end = batches[-1].base_offset + batches[-1].record_count
    part = PartitionPart(
        topic="orders", partition=0, offset=batches[0].base_offset, high_watermark=end, batches=batches
    )
    return exchange("Fetch", at_ms, part)


BEGUN = exchange("ApiVersions", 0, None)


def told(*entries: Entry) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.kind, each.offsets) for each in read([BEGUN, *entries], "it").breaches]

"""What the brokers of one side saw of a trial: Produce requests batch by batch, and what happened besides.

The values come from `Cluster.recorded`; times are microseconds of the machine's clock, which all processes share.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.audit.findings import Anomaly


@dataclass(slots=True)
class Exchange:
    """One batch of a Produce request, and what became of it.

    `order`, `ended_order`: its numbers in the order of all that was seen. `first`, `last`: the numbers of its records,
    -1 where they are not known. `appended_at`: its base offset in the log of the leader, -1 where it was not appended;
    `base_offset`: the one in the answer. `ending`: see `ottla.cluster.recorder`. `held`, `synced`: the running brokers
    that had it, in the log and on the disk, when it ended. `attempt`: 1 for the first time that this batch was sent;
    `in_flight`: how many batches of its partition had no answer when it came, itself counted.
    """

    order: int
    at_us: int
    ended_order: int
    ended_us: int
    broker: int
    connection: int
    partition: int
    acks: int
    producer_id: int
    producer_epoch: int
    sequence: int
    count: int
    size: int
    crc: int
    first: int
    last: int
    appended_at: int
    base_offset: int
    error: str
    ending: str
    reason: str
    high_watermark: int
    held: list[int]
    synced: list[int]
    attempt: int = 1
    in_flight: int = 1

    @property
    def end_us(self) -> int:
        """When it ended; when it came, where it never did."""
        return max(self.ended_us, self.at_us)

    def is_about(self, anomaly: Anomaly) -> bool:
        """Whether the record or one of the offsets of an anomaly is in it."""
        if anomaly.partition not in (self.partition, -1):
            return False
        if 0 <= self.first <= anomaly.sequence <= self.last:
            return True
        begin = self.appended_at
        return begin >= 0 and any(begin <= offset < begin + self.count for offset in anomaly.offsets)


@dataclass(slots=True)
class Recorded:
    """All of it, by time.

    `flushes`: (when, how many records had their outcome then); `left_out`: how many entries did not fit.
    """

    exchanges: list[Exchange]
    events: list[Mapping[str, Any]]
    watermarks: list[tuple[int, int, int]]
    flushes: list[tuple[int, int]]
    left_out: int = 0
    _marks: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    @classmethod
    def read(cls, told: Mapping[str, Any] | None, flushes: Sequence[tuple[int, int]] = ()) -> Recorded | None:
        """From what `Cluster.recorded` returned; None where nothing was recorded."""
        if told is None:
            return None
        exchanges = [Exchange(**each) for each in told["exchanges"]]
        _count_attempts(exchanges)
        _count_in_flight(exchanges)
        found = cls(
            exchanges, told["events"], [tuple(each) for each in told["watermarks"]], [*flushes], told["left_out"]
        )
        for at_us, partition, mark in found.watermarks:
            times, marks = found._marks.setdefault(partition, ([], []))
            times.append(at_us)
            marks.append(mark)
        return found

    @property
    def began_us(self) -> int:
        """When the first of it happened."""
        times = [each.at_us for each in self.exchanges[:1]] + [each["at_us"] for each in self.events[:1]]
        return min(times, default=0)

    def high_watermark(self, partition: int, at_us: int) -> int:
        """The high watermark of a partition at a time, as its leader had it."""
        times, marks = self._marks.get(partition, ([], []))
        place = bisect_right(times, at_us)
        return marks[place - 1] if place else 0

    def about(self, anomaly: Anomaly) -> Iterator[Exchange]:
        """The exchanges in which the record of an anomaly, or one of its offsets, was."""
        return (each for each in self.exchanges if each.is_about(anomaly))


def _count_attempts(exchanges: Sequence[Exchange]) -> None:
    """A batch that is sent again has the same bytes, but for what its leader stamps into them: the same CRC."""
    sent: dict[tuple[int, int, int, int], int] = {}
    for each in exchanges:
        batch = each.partition, each.producer_id, each.sequence, each.crc
        each.attempt = sent[batch] = sent.get(batch, 0) + 1


def _count_in_flight(exchanges: Sequence[Exchange]) -> None:
    open_until: dict[int, list[int]] = {}
    for each in exchanges:
        ends = [end_us for end_us in open_until.get(each.partition, ()) if end_us > each.at_us]
        ends.append(each.end_us)
        open_until[each.partition] = ends
        each.in_flight = len(ends)

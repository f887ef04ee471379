"""Records of a topic as JSON: a page of them from any offset or time on, or a single one.

A page reads as many offsets of each partition as it may show records, so what it costs does not depend on how large
the topic is. It ends early where records are large (`_PAGE_BYTES_MAX`) or brokers slow, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.partition_offsets import Place, Wanted, partition_offsets
from ottla.console.batches import Batches
from ottla.console.kafka import Kafka
from ottla.console.long_records import LongBatch, all_batches, parts_of
from ottla.console.rows import Rows
from ottla.console.shown import LIST_BYTES, RECORD_BYTES, Registry
from ottla.errors import OttlaError, UserMistake
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.reader.position import EARLIEST, LATEST

if TYPE_CHECKING:
    from ottla.client.reader import Reader
    from ottla.reader.events import Fetched

LIMIT_MAX = 200
NEWEST, OLDEST, OFFSET, TIME, CURSOR = "newest", "oldest", "offset", "time", "cursor"
_PAGE_BYTES_MAX = 64 << 20
_PAGE_S = 10.0
_PATIENCE_S = 5.0
# A page across many partitions takes some records of each.
_SHARE = 4
# Behind a gap (compacted records, markers) there may be nothing in the range that was read.
_TRIES = 6
_ROWS_AT_ONCE = 1_000
# A sentence names so many partitions.
_NAMED_MAX = 20
_ENDS_EARLY = "records are large or brokers slow: the page ends before its last record"

Range = tuple[int, int]
"""(first offset, the one behind the last)"""


class Page:
    """What is read for one page: rows, and what went wrong."""

    def __init__(self, kafka: Kafka, topic: str, registry: Registry | None, most_bytes: int = LIST_BYTES) -> None:
        self._kafka, self._topic, self._registry, self._most_bytes = kafka, topic, registry, most_bytes
        self.batches: dict[int, Batches] = {}
        self.records: list[dict[str, Any]] = []
        self.errors: list[str] = []
        # {partition: the offset behind what was read of its range}
        self.reached: dict[int, int] = {}

    def read(self, ranges: Mapping[int, Range]) -> None:
        """Read these ranges; a partition that cannot be read is an error, and the others are shown."""
        self.reached = {}
        left = self._left(ranges)
        until = time.monotonic() + _PAGE_S
        budget = _PAGE_BYTES_MAX
        while left:
            assigned = {(self._topic, partition): each for partition, each in left.items()}
            with self._kafka.reader(assigned, long=False) as reader:
                try:
                    for fetched in reader.iter_raw(patience_s=_PATIENCE_S):
                        self._take(reader, fetched, left[fetched.partition][1])
                        budget -= len(fetched.records)
                        if (budget <= 0 or time.monotonic() > until) and self._left(left):
                            self.errors.append(_ENDS_EARLY)
                            return
                    return
                except OttlaError as error:
                    self.errors.append(str(error))
                    if error.partition is None or error.partition not in left:
                        return
                    del left[error.partition]
                    left = self._left(left)

    def _left(self, ranges: Mapping[int, Range]) -> dict[int, Range]:
        """What is still to be read of these ranges."""
        begins = {partition: max(first, self.reached.get(partition, first)) for partition, (first, _) in ranges.items()}
        return {each: (begins[each], end) for each, (_, end) in ranges.items() if begins[each] < end}

    def _take(self, reader: Reader, fetched: Fetched, end: int) -> None:
        partition = fetched.partition
        self.batches.setdefault(partition, Batches(self._topic, partition)).take(fetched)
        rows = Rows(self._topic, partition, self._most_bytes, self._registry)
        for part in parts_of(fetched):
            if isinstance(part, LongBatch):
                found = part.records(end, rows.taken_bytes, reader._settings, rows.room)
                self.records += rows.of_long(part.header, found)
                self.reached[partition] = min(end, part.header.last_offset + 1)
                continue
            for piece in reader.decode_pieces(part, rows_enough=_ROWS_AT_ONCE):
                self.records += rows.of_columns(piece)
            self.reached[partition] = reader.reached(self._topic, partition) or fetched.fetch_offset

    def with_transactions(self) -> list[dict[str, Any]]:
        """The records, each with how its transaction ended (None: it is in none)."""
        for each in self.batches.values():
            each.look_up(self._kafka)
        for record in self.records:
            record["transaction"] = self.batches[record["partition"]].transaction(record["offset"])
        return self.records


def page(
    kafka: Kafka,
    topic: str,
    registry: Registry | None,
    *,
    partition: int | None = None,
    start: str = NEWEST,
    at: int = 0,
    cursor: Mapping[int, int] | None = None,
    backward: bool = False,
    limit: int = 50,
) -> dict[str, Any]:
    """A page of records: `start` is newest, oldest, offset or time (`at` says which), or cursor.

    `cursor` {partition: offset} is what the last page answered as `older` (read on `backward`) or `newer`.
    """
    known = bounds(kafka, topic, partition)
    begins, ends = known.begins, known.ends
    starts = _starts(kafka, known, start, at, cursor)
    is_backward = start == NEWEST or (start == CURSOR and backward)
    count = limit if len(starts) <= _SHARE else max(1, -(-limit * _SHARE // len(starts)))
    found = Page(kafka, topic, registry)
    ranges: dict[int, Range] = {}
    for _ in range(_TRIES):
        ranges = {
            each: (max(begins[each], first - count), first) if is_backward else (first, min(ends[each], first + count))
            for each, first in starts.items()
        }
        found.read(ranges)
        if found.records or found.errors or all(first >= end for first, end in ranges.values()):
            break
        starts = {each: first if is_backward else end for each, (first, end) in ranges.items()}
        count *= 4
    read: dict[int, int] = {}
    for each in found.records:
        read[each["partition"]] = read.get(each["partition"], 0) + 1
    found.records = records = _ordered(found.records, is_backward)[:limit]
    further = {
        each: _further(
            [record["offset"] for record in records if record["partition"] == each],
            read.get(each, 0),
            starts[each],
            _done(found, each, first, end, starts[each], is_backward),
            is_backward,
        )
        for each, (first, end) in ranges.items()
    }
    lowest, highest = (further, starts) if is_backward else (starts, further)
    return {
        "records": found.with_transactions(),
        "errors": [*found.errors, *([unread_told(topic, known.silent)] if known.silent else [])],
        "older": lowest if any(lowest[each] > begins[each] for each in lowest) else None,
        "newer": highest if any(highest[each] < ends[each] for each in highest) else None,
        "leaderless": len(known.unread) - len(known.silent),
        "offsets": sum(ends[each] - begins[each] for each in ends),
    }


def _done(found: Page, partition: int, first: int, end: int, start: int, is_backward: bool) -> int:
    """Up to where a range was read; where an error kept it from being read, it is read again with the next page."""
    if not found.errors or first >= end:
        return first if is_backward else end
    reached = found.reached.get(partition)
    if is_backward:
        return start if reached is None else first
    return first if reached is None else min(end, reached)


def _further(shown: list[int], read: int, start: int, done: int, is_backward: bool) -> int:
    """Where the next page begins in a partition: records that were read and did not fit come again."""
    if len(shown) == read:
        return done
    if not shown:
        return start
    return min(shown) if is_backward else max(shown) + 1


def _ordered(records: list[dict[str, Any]], is_backward: bool) -> list[dict[str, Any]]:
    """By time across partitions, and never against the offsets of one partition."""
    by_partition: dict[int, list[dict[str, Any]]] = {}
    for record in records:
        by_partition.setdefault(record["partition"], []).append(record)
    sign = -1 if is_backward else 1
    rows: list[tuple[int, int, int, dict[str, Any]]] = []
    for partition, each in by_partition.items():
        each.sort(key=lambda record: sign * record["offset"])
        reached: int | None = None
        for record in each:
            now = sign * int(record["timestamp_ms"] or 0)
            reached = now if reached is None else max(reached, now)
            rows.append((reached, partition, sign * record["offset"], record))
    rows.sort(key=lambda row: row[:3])
    return [row[3] for row in rows]


class Bounds(NamedTuple):
    """Where partitions begin, their high watermarks and last stable offsets, by partition: of those that tell all.

    `unread` are the others that were asked for, {partition: its leader, None where it has none}.
    """

    begins: dict[int, int]
    ends: dict[int, int]
    stable: dict[int, int]
    leaders: dict[Place, int]
    unread: dict[int, int | None]

    @property
    def silent(self) -> dict[int, int | None]:
        """Those that have a leader, and do not tell."""
        return {partition: leader for partition, leader in self.unread.items() if leader is not None}


def bounds(kafka: Kafka, topic: str, partition: int | None) -> Bounds:
    """Where the partitions of a topic begin and end, or one of them; KafkaError where the topic does not have it."""
    check_partition(kafka, topic, partition)
    found: list[dict[Place, int]] = [{}, {}, {}]
    leaders: dict[Place, int] = {}
    for is_fresh in (False, True):
        # One whose leader has moved is asked for again, at its new leader.
        if is_fresh:
            kafka.metadata(fresh=True)
        asked = [(topic, each.partition_index) for each in kafka.topic(topic).partitions]
        asked = [place for place in asked if partition in (None, place[1])]
        now = {place: leader for place, leader in kafka.leaders(topic).items() if place in asked}
        moved = {place: leader for place, leader in now.items() if leaders.get(place) != leader}
        moved = {place: leader for place, leader in moved.items() if not all(place in each for each in found)}
        leaders = now
        if moved:
            wanted = Wanted(EARLIEST), Wanted(LATEST), Wanted(LATEST, read_committed=True)
            for each, more in zip(found, partition_offsets(kafka.driver, moved, *wanted), strict=True):
                each.update(more)
        told = {place for place in asked if all(place in each for each in found)}
        if len(told) == len(asked):
            break
    begins, ends, stable = ({place[1]: each[place] for place in sorted(told)} for each in found)
    unread = {place[1]: leaders.get(place) for place in sorted(asked) if place not in told}
    return Bounds(begins, ends, stable, {place: leaders[place] for place in told if place in leaders}, unread)


def unread_told(topic: str, unread: Mapping[int, int | None]) -> str:
    """A sentence about partitions that cannot be read now."""
    without = [each for each, leader in unread.items() if leader is None]
    reasons = [f"{_numbered(without)} of {topic} {'has' if len(without) == 1 else 'have'} no leader"] if without else []
    for broker_id in sorted({leader for leader in unread.values() if leader is not None}):
        of_it = _numbered([each for each, leader in unread.items() if leader == broker_id])
        reasons.append(f"broker {broker_id}, which leads {of_it} of {topic}, did not tell the offsets there")
    return "; ".join(reasons)


def _numbered(partitions: list[int]) -> str:
    shown = [str(each) for each in partitions[:_NAMED_MAX]]
    if len(partitions) > len(shown):
        shown.append(f"{len(partitions) - len(shown)} more")
    return f"partition {shown[0]}" if len(shown) == 1 else f"partitions {', '.join(shown[:-1])} and {shown[-1]}"


def _starts(kafka: Kafka, known: Bounds, start: str, at: int, cursor: Mapping[int, int] | None) -> dict[int, int]:
    """{partition: the offset from which the page is read, forward or backward}."""
    begins, ends = known.begins, known.ends
    if start == NEWEST:
        return dict(ends)
    if start == OLDEST:
        return dict(begins)
    if start == CURSOR:
        wanted = {each: first for each, first in (cursor or {}).items() if each in ends}
        return {each: min(max(first, begins[each]), ends[each]) for each, first in wanted.items()}
    if start == OFFSET:
        return {each: min(max(at, begins[each]), ends[each]) for each in ends}
    if start == TIME:
        return first_since(kafka, known, at)
    raise UserMistake(f"start={start:.20} is none of {NEWEST}, {OLDEST}, {OFFSET}, {TIME} and {CURSOR}")


def first_since(kafka: Kafka, known: Bounds, since_ms: int) -> dict[int, int]:
    """{partition: the first offset with this timestamp or a later one, its end where there is none}.

    Partitions whose leader does not tell it begin where they begin: more is read than was asked for, and not less.
    """
    found = partition_offsets(kafka.driver, known.leaders, Wanted(since_ms))[0]
    told = {partition: offset for (_, partition), offset in found.items()}
    starts = {each: told.get(each, first) for each, first in known.begins.items()}
    return {each: known.ends[each] if first < 0 else first for each, first in starts.items()}


def check_partition(kafka: Kafka, topic: str, partition: int | None) -> None:
    """KafkaError where the topic does not have this partition."""
    count = len(kafka.topic(topic).partitions)
    if partition is not None and not 0 <= partition < count:
        raise kafka_error(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"the topic has {count} {'partition' if count == 1 else 'partitions'}, counted from 0",
            topic=topic,
            partition=partition,
        )


def record(kafka: Kafka, topic: str, partition: int, offset: int, registry: Registry | None) -> dict[str, Any]:
    """One record with all that is known of it; UserMistake where there is none at this offset."""
    _check_offset(kafka, topic, partition, offset)
    found = Page(kafka, topic, registry, RECORD_BYTES)
    found.read({partition: (offset, offset + 1)})
    if not found.records:
        if found.errors:
            raise OttlaError(found.errors[0])
        raise _no_record(topic, partition, offset)
    [only] = found.with_transactions()
    return {**only, "batch": found.batches[partition].described(offset)}


def raw(kafka: Kafka, topic: str, partition: int, offset: int, part: str) -> tuple[int, Iterator[bytes]]:
    """How long the key or the value of one record is, and all of it in pieces; UserMistake where there is none."""
    _check_offset(kafka, topic, partition, offset)
    with kafka.reader({(topic, partition): (offset, offset + 1)}, long=False) as reader:
        for fetched in reader.iter_raw(patience_s=_PATIENCE_S):
            for batch in all_batches(fetched):
                found = batch.part(part, reader._settings)
                if found is None:
                    continue
                if found[0] < 0:
                    raise UserMistake(f"the record at offset {offset} of {topic}-{partition} has no {part}.")
                return found
    raise _no_record(topic, partition, offset)


def _check_offset(kafka: Kafka, topic: str, partition: int, offset: int) -> None:
    """UserMistake where the partition has no record there; for a partition without a leader the reader raises."""
    known = bounds(kafka, topic, partition)
    if partition in known.ends and not known.begins[partition] <= offset < known.ends[partition]:
        raise _no_record(topic, partition, offset)


def _no_record(topic: str, partition: int, offset: int) -> UserMistake:
    return UserMistake(
        f"there is no record at offset {offset} of {topic}-{partition}: it was deleted or compacted, the partition "
        "ends before it, or a transaction's marker is there."
    )

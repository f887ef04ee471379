"""A search through a topic, as lines of JSON while it goes on: matches, and how far it has come.

It reads column by column and holds a few megabytes at a time, however large the topic is. It ends at the end that the
topic had when it began, at `limit` matches, or when the browser closes the connection. Its last line says where it has
stopped, so that it can go on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ottla.console.conditions import Conditions
from ottla.console.headers import Headers
from ottla.console.kafka import Kafka
from ottla.console.record_views import bounds, first_since, unread_told
from ottla.console.rows import Rows
from ottla.console.shown import LIST_BYTES, Registry
from ottla.errors import OttlaError

MATCHES_MAX = 1_000
_TELL_S = 0.2
_PATIENCE_S = 10.0
_ROWS_AT_ONCE = 20_000
_BYTES_AT_ONCE = 4 << 20

Line = dict[str, Any]


def search(
    kafka: Kafka,
    topic: str,
    registry: Registry | None,
    given: Mapping[str, str],
    *,
    partition: int | None = None,
    since_ms: int | None = None,
    cursor: Mapping[int, int] | None = None,
    limit: int = 100,
) -> Iterator[Line]:
    """Lines {"match": record}, {"progress": ...} about five a second, {"error": sentence}, and {"end": ...} at last."""
    conditions = Conditions(given, None if registry is None else _decoder(topic, registry))
    known = bounds(kafka, topic, partition)
    begins, ends, unread = known.begins, known.ends, known.unread
    if since_ms is not None:
        begins = first_since(kafka, known, since_ms)
    if cursor is not None:
        begins = {each: min(max(cursor[each], begins[each]), ends[each]) for each in begins if each in cursor}
        unread = {each: leader for each, leader in unread.items() if each in cursor}
    if unread:
        yield {"error": f"{unread_told(topic, unread)}: not searched"}
    ends = {each: ends[each] for each in begins}
    unsearched = {each: (cursor or {}).get(each, 0) for each in unread}
    yield from _Search(kafka, topic, registry, conditions, begins, ends, unsearched, limit).lines()


def _decoder(topic: str, registry: Registry) -> Callable[[bytes, Any], Any]:
    import json

    from ottla.console.shown import names_schema

    def decode(stored: bytes, headers: Headers) -> Any:
        of_record = tuple((name, value) for name, (_, value) in headers.first)
        if not names_schema("value", stored, of_record):
            return json.loads(stored)
        try:
            return registry.decode(topic, "value", stored, of_record)[0]
        except OttlaError as error:
            raise ValueError(str(error)) from None

    return decode


class _Search:
    def __init__(
        self,
        kafka: Kafka,
        topic: str,
        registry: Registry | None,
        conditions: Conditions,
        begins: dict[int, int],
        ends: dict[int, int],
        unsearched: dict[int, int],
        limit: int,
    ) -> None:
        self._kafka, self._topic, self._registry, self._conditions = kafka, topic, registry, conditions
        self._begins, self._ends, self._limit = begins, ends, limit
        # {partition: the offset from which it was to be searched}
        self._unsearched = unsearched
        self._reached = dict(begins)
        self._total = sum(ends[each] - begins[each] for each in begins)
        self._matches = self._records = self._bytes = 0
        self._began = self._told = time.monotonic()

    def lines(self) -> Iterator[Line]:
        yield {"progress": self._progress()}
        left = {each for each, begin in self._begins.items() if begin < self._ends[each]}
        while left and self._matches < self._limit:
            assigned = {(self._topic, each): (self._reached[each], self._ends[each]) for each in sorted(left)}
            try:
                with self._kafka.reader(assigned, long=True) as reader:
                    for fetched in reader.iter_raw(patience_s=_PATIENCE_S):
                        self._bytes += len(fetched.records)
                        yield from self._of_buffer(reader, fetched)
                        if self._matches >= self._limit:
                            break
                    else:
                        self._reached.update({each: self._ends[each] for each in left})
                break
            except OttlaError as error:
                yield {"error": str(error)}
                if error.partition not in left:
                    self._unsearched.update(
                        {each: self._reached[each] for each in left if self._reached[each] < self._ends[each]}
                    )
                    break
                # The others are searched all the same.
                left.discard(error.partition)
                self._unsearched[error.partition] = self._reached[error.partition]
                left = {each for each in left if self._reached[each] < self._ends[each]}
        if self._conditions.too_deep:
            told = f"records whose JSON is nested too deeply to be looked into: {self._conditions.too_deep}"
            yield {"error": told}
        is_done = not self._unsearched and all(self._reached[each] >= end for each, end in self._ends.items())
        yield {
            "end": {
                **self._progress(),
                "is_done": is_done,
                "unsearched": sorted(self._unsearched),
                "cursor": None if is_done else {**self._unsearched, **self._reached},
            }
        }

    def _of_buffer(self, reader: Any, fetched: Any) -> Iterator[Line]:
        partition = fetched.partition
        for piece in reader.decode_pieces(fetched, rows_enough=_ROWS_AT_ONCE, bytes_enough=_BYTES_AT_ONCE):
            rows = self._conditions.rows(piece) if piece.num_rows else []
            found = piece.take(rows[: self._limit - self._matches]) if rows else None
            behind = reader.reached(self._topic, partition)
            if found is not None:
                for record in Rows(self._topic, partition, LIST_BYTES, self._registry).of_columns(found):
                    self._matches += 1
                    yield {"match": record}
            self._records += piece.num_rows
            if found is not None and self._matches >= self._limit:
                behind = found.column("offset")[found.num_rows - 1].as_py() + 1
            self._reached[partition] = max(self._reached[partition], behind)
            now = time.monotonic()
            if now - self._told >= _TELL_S:
                self._told = now
                yield {"progress": self._progress()}
            if self._matches >= self._limit:
                return

    def _progress(self) -> dict[str, Any]:
        passed = sum(min(self._reached[each], end) - self._begins[each] for each, end in self._ends.items())
        return {
            "offsets": passed,
            "offsets_total": self._total,
            "records": self._records,
            "bytes": self._bytes,
            "matches": self._matches,
            "seconds": round(time.monotonic() - self._began, 3),
        }

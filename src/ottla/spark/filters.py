"""What a query's filters say about offsets: partitions and offsets that the filters exclude are not read.

Spark passes filters to a Python source only in batches, with `spark.sql.python.filterPushdown.enabled`. The source
returns all filters, so Spark filters the rows again. So the source may read more than the query needs, and never less.

Timestamps of a partition need not rise. Brokers know the first record with a given timestamp or a later one, and all
records before it are older. So a lower bound for the timestamp says where to begin. An upper bound does not say where
to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from ottla.spark.offset_ranges import OffsetRange

_EQUAL = (EqualTo, EqualNullSafe)


class Pushed:
    """A reader's `pushFilters`, which keeps what it is given.

    It looks like the base class's own method: if filters are not passed to sources, Spark refuses a reader with a
    method of its own.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self) -> None:
        self.filters: tuple[Filter, ...] = ()

    def __call__(self, filters: Sequence[Filter]) -> Sequence[Filter]:
        """Keep the filters; Spark is to apply all of them."""
        self.filters = tuple(filters)
        return filters


def narrow_ranges(ranges: Sequence[OffsetRange], filters: Sequence[Filter]) -> list[OffsetRange]:
    """Those parts of the ranges that may pass the filters on topic, partition and offset."""
    narrowed = []
    for span in ranges:
        if not all(
            _may_pass(each, value)
            for name, value in (("topic", span.topic), ("partition", span.partition))
            for each in _about(filters, name)
        ):
            continue
        start, end = span.start, span.end
        for each in _about(filters, "offset"):
            first, last = _bounds(each)
            start = start if first is None else max(start, first)
            end = end if last is None else min(end, last + 1)
        if start < end:
            narrowed.append(replace(span, start=start, end=end))
    return narrowed


def oldest_ms(filters: Sequence[Filter]) -> int | None:
    """Records older than this cannot pass the filters on the timestamp; None if the filters give no such time.

    Also None if times before 1970 pass: for Spark a record without a timestamp has such a time, and brokers do not find
    it by a time.
    """
    oldest = [
        int(each.value.timestamp() * 1000) - 1
        for each in _about(filters, "timestamp")
        if isinstance(each, (*_EQUAL, GreaterThan, GreaterThanOrEqual))
        and isinstance(each.value, datetime)
        and each.value.tzinfo is not None
    ]
    youngest = max(oldest, default=-1)
    return youngest if youngest >= 0 else None


def begin_at(ranges: Sequence[OffsetRange], youngest: dict[tuple[str, int], int]) -> list[OffsetRange]:
    """The ranges from these offsets on; -1 where there is nothing to read."""
    begun = []
    for span in ranges:
        start = youngest[span.topic, span.partition]
        if 0 <= start < span.end:
            begun.append(replace(span, start=max(start, span.start)))
    return begun


def _about(filters: Sequence[Filter], column: str) -> list[Any]:
    """Those that compare this column with a value."""
    return [
        each
        for each in filters
        if isinstance(each, (*_EQUAL, In, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual))
        and each.attribute == (column,)
        and each.value is not None
    ]


def _may_pass(each: Any, value: str | int) -> bool:
    if isinstance(each, In):
        return value in each.value
    if isinstance(each, _EQUAL):
        return bool(value == each.value)
    if not isinstance(value, int):
        return True
    first, last = _bounds(each)
    return (first is None or value >= first) and (last is None or value <= last)


def _bounds(each: Any) -> tuple[int | None, int | None]:
    """The first and the last whole number that pass."""
    if isinstance(each, In):
        numbers = [number for number in each.value if number is not None]
        return (min(numbers), max(numbers)) if numbers else (0, -1)
    if isinstance(each, _EQUAL):
        return each.value, each.value
    if isinstance(each, GreaterThan):
        return each.value + 1, None
    if isinstance(each, GreaterThanOrEqual):
        return each.value, None
    return None, each.value - (1 if isinstance(each, LessThan) else 0)

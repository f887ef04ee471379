"""The streaming source: micro-batches of offsets, planned on the driver over connections that stay open.

Spark keeps one `OttlaStreamReader` in a process of its own for as long as a query runs, and asks it: how far may the
next micro-batch go (`latestOffset`), which ranges is that (`partitions`). A restarted query goes on from Spark's
checkpoint.

Where all partitions begin and end is asked at the same time. Partitions are looked for at most once a second, and once
more if there is something to read (`are_the_same`). Tasks read with `range_reader`.
"""

# ruff: noqa: N802  (methods are called as Spark calls them)

from __future__ import annotations

import logging
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.errors import KafkaError, OttlaError, UserMistake
from ottla.spark.bytes_per_offset import BytesPerOffset
from ottla.spark.limits import EARLIEST_OFFSET, LATEST_OFFSET
from ottla.spark.mistakes import plainly
from ottla.spark.offset_ranges import Place, pack_ranges, split_ranges
from ottla.spark.offset_resolution import PartitionsToRead, resolve_limits
from ottla.spark.options import SourceOptions
from ottla.spark.range_partition import RangePartition, read_partition
from ottla.spark.range_reader import report_loss
from ottla.spark.stream_offsets import (
    beginnings,
    count_available,
    from_json,
    plan_micro_batch,
    share_out,
    to_json,
)

_log = logging.getLogger("ottla.spark")

_PARTITIONS_MAX_AGE_S = 1.0
# Short, because the stream waits for it, and the next micro-batch commits later offsets. With AvailableNow there is a
# last micro-batch, whose offsets nobody commits later.
_COMMIT_TIMEOUT_MS = 1_000
_COMMIT_TIMEOUT_AVAILABLE_NOW_MS = 30_000


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver; reads their ranges in the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._partitions: PartitionsToRead | None = None
        self._bytes_per_offset: BytesPerOffset | None = None
        # Where the partitions began and ended at the last look.
        self._first: dict[Place, int] = {}
        self._latest: dict[Place, int] = {}
        self._available_now = False
        self._target: dict[Place, int] | None = None
        self._last_batch_s: float | None = None
        self._committed: dict[Place, int] | None = None
        # The end of the micro-batch that reads topics made anew from their first record on, and these topics.
        self._begun_anew: tuple[dict[Place, int], tuple[str, ...]] = ({}, ())

    def __getstate__(self) -> dict[str, Any]:
        # To the tasks go the options alone; connections belong to the driver's process.
        return {"_options": self._options, "_schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_options"], state["_schema"])  # type: ignore[misc]

    # ---- what Spark asks on the driver --------------------------------------------------------------------------

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        partitions = self._opened()
        (starts,) = resolve_limits([self._options.start], self._options, partitions.lookup, partitions.find())
        # Nothing is processed yet, so there is nothing to commit.
        self._committed = starts
        return to_json(starts)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options say of a micro-batch's size. Spark takes one limit; `latestOffset` knows the others."""
        options = self._options
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than to where the partitions end when the first micro-batch is planned."""
        self._available_now = True

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the micro-batch that begins at `start` ends; `start` itself where there is nothing to do yet."""
        begun = from_json(start)
        self._forget_made_anew(begun)
        # Spark asks this once the last micro-batch is done, and calls `commit` for it only when another one follows.
        self._commit(begun)
        if self._target is None:
            self._look(0.0 if self._available_now else _PARTITIONS_MAX_AGE_S)
            # Another look at the topics costs a request, so it is left out where nothing is to be read.
            while self._latest != begun and not self._opened().are_the_same():
                self._look(_PARTITIONS_MAX_AGE_S)
            if self._available_now:
                self._target = self._latest
        latest = self._latest
        if not latest:
            return start
        made_anew = self._opened().made_anew
        if latest == begun:
            if made_anew and self._options.fail_on_data_loss:
                report_loss(_told_anew(made_anew), fail=True)
            return start
        begin = beginnings(_without(begun, made_anew), latest, self._first)
        if not isinstance(limit, ReadAllAvailable):
            if self._must_wait(count_available(begin, latest)):
                return start
            most = self._most_offsets(begin, latest, limit)
            if most is not None:
                latest = share_out(begin, latest, most)
        self._last_batch_s = time.monotonic()
        return to_json(latest)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the partitions ended at the last look: what `latestOffset` shows in a query's progress."""
        return to_json(self._latest) if self._latest else None

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One task per offset range, or for several small ones; lost data is reported here."""
        begun, stops = from_json(start), from_json(end)
        if begun == stops:
            return []
        options = self._options
        first = self._first_offsets(stops)
        ranges, losses = plan_micro_batch(begun, stops, first)
        made_anew = self._opened().made_anew
        if made_anew:
            # All that such a topic holds is new. That is remembered until this micro-batch is over.
            ranges, _ = plan_micro_batch(_without(begun, made_anew), stops, first)
            losses.insert(0, _told_anew(made_anew))
            self._begun_anew = (stops, tuple(made_anew))
        if losses:
            report_loss("; ".join(losses), fail=options.fail_on_data_loss)
        ranges = self._opened().identified(ranges)
        pieces = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        packs = pack_ranges(pieces, options.min_partitions, options.max_records_per_partition)
        return [RangePartition(pack) for pack in packs]

    @plainly
    def commit(self, end: dict[str, Any]) -> None:
        """What was read before `end` is processed: tell the group, where kafka.group.id names one."""
        self._commit(from_json(end))

    def stop(self) -> None:
        """Close the connections."""
        if self._partitions is not None:
            self._partitions.close()
            self._partitions = None

    # ---- what tasks do ------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow RecordBatches of one task's ranges, in offset order within each."""
        return read_partition(self._options, partition, self._schema)

    # ---- planning -----------------------------------------------------------------------------------------------

    def _opened(self) -> PartitionsToRead:
        if self._partitions is None:
            self._partitions = PartitionsToRead(self._options)
            if self._options.max_bytes_per_trigger is not None:
                self._bytes_per_offset = BytesPerOffset(self._partitions.lookup)
                # Before the first micro-batch, also where there is nothing to read yet.
                self._bytes_per_offset.check(self._partitions.find())
        return self._partitions

    def _look(self, max_age_s: float) -> None:
        """Learn where the partitions begin and end."""
        try:
            self._ask_offsets(self._opened().find(max_age_s))
        except KafkaError as error:
            if error.name != "UNKNOWN_TOPIC_OR_PARTITION":
                raise
            # The topic was deleted meanwhile: what is lost is reported when the micro-batch is planned.
            self._ask_offsets(self._opened().find())

    def _forget_made_anew(self, begun: Mapping[Place, int]) -> None:
        """Treat topics made anew like any other topic, once the micro-batch that first reads them is finished."""
        end, topics = self._begun_anew
        if topics and begun == end:
            for topic in topics:
                self._opened().made_anew.pop(topic, None)
            self._begun_anew = ({}, ())

    def _ask_offsets(self, places: Sequence[Place]) -> None:
        self._first, self._latest = self._opened().lookup.offsets_of(
            [dict.fromkeys(places, EARLIEST_OFFSET), dict.fromkeys(places, LATEST_OFFSET)]
        )

    def _commit(self, offsets: dict[Place, int]) -> None:
        """Commit to the group. The query does not depend on it, so a retriable error is only logged; others fail it."""
        group_id = self._options.group_id
        if group_id is None or not offsets or offsets == self._committed:
            return
        timeout_ms = _COMMIT_TIMEOUT_AVAILABLE_NOW_MS if self._available_now else _COMMIT_TIMEOUT_MS
        try:
            self._opened().lookup.commit(group_id, offsets, timeout_ms)
            self._committed = offsets
        except OttlaError as error:
            if not error.retriable:
                raise UserMistake(
                    f"The option kafka.group.id is {group_id!r}, and what is processed cannot be committed there: "
                    f"{error}. Take a group that has no members and that this user may write to (READ on the group)."
                ) from None
            _log.warning("%s; the next micro-batch commits again", error)

    def _first_offsets(self, stops: Mapping[Place, int]) -> Mapping[Place, int]:
        """Where the partitions of a micro-batch begin; they are asked for if a restarted query repeats its last one."""
        if not all(place in self._first for place in stops):
            self._look(0.0)
        return self._first

    def _most_offsets(self, begin: Mapping[Place, int], latest: Mapping[Place, int], limit: ReadLimit) -> int | None:
        """How many offsets the next micro-batch may have, by the smallest of the limits; None where none is set."""
        most_bytes = self._options.max_bytes_per_trigger
        limits = [self._options.max_offsets_per_trigger]
        if isinstance(limit, ReadMaxRows):
            limits.append(limit.max_rows)
        if self._bytes_per_offset is not None and most_bytes is not None:
            limits.append(self._bytes_per_offset.most_offsets(begin, latest, most_bytes))
        return min((each for each in limits if each is not None), default=None)

    def _must_wait(self, available: int) -> bool:
        """Whether there is too little for a micro-batch, and it has not been waited for long enough."""
        options = self._options
        if options.min_offsets_per_trigger is None or self._available_now or self._last_batch_s is None:
            return False
        waited_ms = (time.monotonic() - self._last_batch_s) * 1000
        return available < options.min_offsets_per_trigger and waited_ms < options.max_trigger_delay_ms


def _told_anew(topics: Iterable[str]) -> str:
    return "; ".join(f"topic {topic} was deleted and made anew" for topic in topics)


def _without(offsets: Mapping[Place, int], topics: Container[str]) -> Mapping[Place, int]:
    """The offsets, but for those of these topics."""
    return {place: offset for place, offset in offsets.items() if place[0] not in topics} if topics else offsets

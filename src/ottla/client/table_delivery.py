"""`TableDelivery`: what became of each row of a table that was sent.

It keeps the batches that the rows are in, not the rows: the outcome and base offset of a batch are enough for all its
records. The Arrow table of `result` is made by a few column operations per batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ottla.client.arrow import need_pyarrow
from ottla.records.delivery import ACKED, FAILED, PENDING, UNKNOWN, SealedBatch
from ottla.timeouts import seconds

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.coroutine_waits import CoroutineWaits
    from ottla.client.thread_waits import ThreadWaits


class TableDelivery:
    """The outcome of one `send_table`, row by row; `send_table` returns it."""

    def __init__(self, waits: ThreadWaits | CoroutineWaits, topic: str) -> None:
        self.topic = topic
        self._waits = waits
        # The queued batches. If something ended `send_table` early, the last ones may not have been queued.
        self._batches: list[SealedBatch] = []
        # How many rows of the input were read; more than were queued if something ended `send_table` early.
        self.rows_read = 0
        self._ended_by = ""
        # All batches before this one have their outcome.
        self._settled = 0

    def add(self, batches: list[SealedBatch]) -> None:
        """Add batches just before they are queued: an interruption in between must lose no queued batch."""
        self._batches += batches

    def end_early(self, error: BaseException) -> None:
        """`send_table` ends with this error: give it this delivery as its attribute `table`, and a note."""
        self._ended_by = type(error).__name__
        self.go_with(error)
        if len(self):
            error.add_note(
                f"{len(self)} rows of the table were taken before this exception and are being sent. flush() waits for "
                "them and reports those that fail. The attribute table of this exception is their TableDelivery."
            )

    def go_with(self, error: BaseException) -> None:
        """Become the attribute `table` of an error."""
        with contextlib.suppress(AttributeError):  # some exceptions take no attributes
            error.table = self  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as None: an error with the attribute `table` can be pickled, the rows' outcomes cannot."""
        return type(None), ()

    def __len__(self) -> int:
        """How many rows were sent."""
        return sum(batch.record_count for batch in self._queued())

    def _queued(self) -> list[SealedBatch]:
        # A batch gets its `created_us` when it is queued.
        return [batch for batch in self._batches if batch.created_us]

    def __repr__(self) -> str:
        counts = dict.fromkeys((ACKED, FAILED, UNKNOWN, PENDING), 0)
        for batch in self._queued():
            for leaf in batch.leaves():
                counts[leaf.outcome] = counts.get(leaf.outcome, 0) + leaf.record_count
        return (
            f"<{type(self).__name__} of {len(self)} rows to {self.topic!r}: {counts[ACKED]} acked, "
            f"{counts[FAILED]} failed, {counts[UNKNOWN]} unknown, {counts[PENDING]} pending>"
        )

    def done(self) -> bool:
        """Whether every row has its outcome: acked, failed or unknown."""
        batches = self._batches
        at = self._settled
        while at < len(batches) and (not batches[at].created_us or all(leaf.outcome for leaf in batches[at].leaves())):
            at += 1
        self._settled = at
        return at == len(batches)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until `done`; TimeoutError after `timeout` seconds."""
        if not self._waits.wait_for(self.done, seconds(timeout)):
            raise TimeoutError(f"rows sent to {self.topic!r} are still on their way after {timeout} s")

    def result(self, timeout: float | None = None) -> pa.Table:
        """Wait, and return an Arrow table with one row per row sent, in the order of the input.

        Columns: partition (int32), offset (int64; -1 where acks=0 asked for no answer, null where the record is not
        known to be stored), error (string; null where it is stored, else "failed: ..." or "unknown: ..."). Raises
        TimeoutError after `timeout` seconds. Errors shown here are not raised again by `flush` and `close`. If an
        exception ended `send_table` early, there is one row per row that was read; the error of those that were not
        sent is "failed: not sent: ...". Rows that were not read were not sent.
        """
        need_pyarrow("TableDelivery.result")
        import pyarrow as pa

        batches = self._looked_at(timeout)
        _, *columns = _told(batches, self._unsent(batches), self._ended_by)
        return pa.table(columns, schema=_schema())

    def failures(self, timeout: float | None = None) -> pa.Table:
        """Wait as `result` does, and return only the rows that are not known to be stored, in the order of the input.

        Columns: row (int64, counted from 0), partition (int32), error (string, as in `result`). Rows that were stored
        cost nothing, unless an exception ended `send_table` early.
        """
        need_pyarrow("TableDelivery.failures")
        import pyarrow as pa

        batches = self._looked_at(timeout)
        not_acked = [batch for batch in batches if batch.outcome != ACKED]
        rows, partitions, _, errors = _told(not_acked, self._unsent(batches), self._ended_by)
        schema = _schema().remove(1).insert(0, pa.field("row", pa.int64()))
        return pa.table([rows, partitions, errors], schema=schema)

    def _unsent(self, batches: list[SealedBatch]) -> Any:
        """The rows that were read and are in none of the batches."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._ended_by or self.rows_read == 0:
            return pa.array([], pa.int64())
        rows = pc.subtract(_counted_from_1(self.rows_read), 1)
        return rows.filter(pc.invert(pc.is_in(rows, value_set=_rows(batches))))

    def _looked_at(self, timeout: float | None) -> list[SealedBatch]:
        """Wait until each batch has its outcome; return them all."""
        self.wait(timeout)
        # A batch that was too large for the broker was split, and each part has its own outcome.
        batches = [leaf for batch in self._queued() for leaf in batch.leaves()]
        for batch in batches:
            batch.mark_looked()
        return batches


class AsyncTableDelivery(TableDelivery):
    """The outcome of one `AsyncProducer.send_table`: awaiting it gives the Arrow table of `result`."""

    def __init__(self, waits: CoroutineWaits, topic: str) -> None:
        super().__init__(waits, topic)
        self._coroutine_waits = waits

    def __await__(self) -> Generator[Any, None, pa.Table]:
        """Wait until `done`; cancelling the wait changes nothing about the rows."""
        return self._awaited().__await__()

    async def _awaited(self) -> pa.Table:
        import asyncio

        await self._coroutine_waits.until(self.done)
        # Sorting millions of rows takes a while.
        return await asyncio.to_thread(self.result, 0)


def _schema() -> pa.Schema:
    import pyarrow as pa

    fields: list[pa.Field[Any]] = [
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("error", pa.string()),
    ]
    return pa.schema(fields)


def _told(batches: list[SealedBatch], unsent: Any, ended_by: str) -> list[Any]:
    """Row, partition, offset and error of each record, and of each row not sent, in order of the rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    one_two_three = _counted_from_1(max((batch.record_count for batch in batches), default=0))
    not_sent = pa.scalar(f"failed: not sent: send_table ended early ({ended_by})", pa.string())
    partitions: list[Any] = [pa.nulls(len(unsent), pa.int32())]
    offsets: list[Any] = [pa.nulls(len(unsent), pa.int64())]
    errors: list[Any] = [pa.repeat(not_sent, len(unsent))]
    for batch in batches:
        count = batch.record_count
        ordinals = one_two_three.slice(0, count)
        partitions.append(pa.repeat(pa.scalar(batch.partition, pa.int32()), count))
        if batch.outcome != ACKED:
            word = "unknown" if batch.outcome == UNKNOWN else "failed"
            offsets.append(pa.nulls(count, pa.int64()))
            errors.append(pa.repeat(pa.scalar(f"{word}: {batch.error}", pa.string()), count))
            continue
        if batch.base_offset < 0:
            offsets.append(pa.repeat(pa.scalar(-1, pa.int64()), count))
        else:
            offsets.append(pc.add(ordinals, batch.base_offset - 1))
        errors.append(pa.nulls(count, pa.string()))
    rows: Any = pa.concat_arrays([unsent, _rows(batches)])
    order = pc.sort_indices(rows)
    columns = [rows, *(pa.concat_arrays(pieces) for pieces in (partitions, offsets, errors))]
    return [column.take(order) for column in columns]


def _rows(batches: list[SealedBatch]) -> Any:
    """The input row of each record, batch by batch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not batches:
        return pa.array([], pa.int64())
    one_two_three = _counted_from_1(max(batch.record_count for batch in batches))
    rows: list[Any] = []
    for batch in batches:
        count = batch.record_count
        if batch.rows is None:
            rows.append(pc.add(one_two_three.slice(0, count), batch.first_row - 1))
        else:
            rows.append(pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(batch.rows)]))
    return pa.concat_arrays(rows)


def _counted_from_1(count: int) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count))

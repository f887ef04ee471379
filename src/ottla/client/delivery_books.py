"""The books of a producer: which batches have no outcome yet, and which records failed or are unknown.

A batch is on the books from the moment it is taken from the appender, open or not, until its callbacks have run: so a
flush ends after the callbacks. (An AsyncProducer's callbacks run later, in its event loop; its `flush` waits for them,
too.) A batch's memory is given back before its callbacks, so that they can send. Its label is the number of flushes
seen before. A flush is over when no batch with an older label is left, whatever is sent meanwhile. Failed and unknown
batches are kept until `report`.

Users' threads call `is_clear_before`, `report` and `forget_not_acked`; the thread with the loop's turn the others.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.errors import DeliveryError, OttlaError
from ottla.producer.events import BatchSplit
from ottla.records.append import Appender
from ottla.records.delivery import SealedBatch

if TYPE_CHECKING:
    from ottla.client.interceptors import Interceptors

# How many failed and unknown batches are kept one by one until `report`; older ones are only counted.
_NOT_ACKED_MAX = 1000


class DeliveryBooks:
    """The batches of one producer between the appender and their outcomes."""

    __slots__ = (
        "_appender",
        "_interceptors",
        "_label_of",
        "_not_acked",
        "_not_acked_before",
        "_outstanding",
        "records_settled",
    )

    def __init__(self, appender: Appender, interceptors: Interceptors | None) -> None:
        # How many records have an outcome; any thread may read it.
        self.records_settled = 0
        self._appender = appender
        self._interceptors = interceptors
        self._label_of: dict[SealedBatch, int] = {}
        self._outstanding: dict[int, int] = {}
        self._not_acked: deque[tuple[SealedBatch, OttlaError, bool]] = deque()
        self._not_acked_before = _NotAcked()

    def enter(self, batches: list[SealedBatch], label: int) -> None:
        """Put batches on the books, open ones too."""
        label_of = self._label_of
        for batch in batches:
            label_of[batch] = label
        self._outstanding[label] = self._outstanding.get(label, 0) + len(batches)

    def give_back(self, batch: SealedBatch) -> None:
        """Free the memory of this batch; its outcome is set next."""
        self._appender.release(batch.buffer_bytes)

    def take_off(self, batch: SealedBatch) -> None:
        """Take a batch off the books: it has its outcome, and its callbacks have run or are on `landing`."""
        self.records_settled += batch.record_count
        label = self._label_of.pop(batch)
        left = self._outstanding[label] - 1
        if left:
            self._outstanding[label] = left
        else:
            del self._outstanding[label]

    def enter_parts(self, split: BatchSplit) -> None:
        """Put the parts of a batch in its place."""
        label = self._label_of.pop(split.batch)
        for part in split.parts:
            self._label_of[part] = label
        self._outstanding[label] += len(split.parts) - 1
        # Two batches may be a little larger than one: the difference counts as used, without any waiting.
        self._appender.release(split.batch.buffer_bytes - sum(part.buffer_bytes for part in split.parts))

    def is_clear_before(self, label: int) -> bool:
        """Whether no batch with an older label is left."""
        # A copy, for the I/O thread changes it meanwhile. It is small: one label for each flush that goes on.
        return all(each >= label for each in list(self._outstanding))

    # ---- failed and unknown records ---------------------------------------------------------------------------------

    def settle_not_acked(self, batch: SealedBatch, error: OttlaError, *, unknown: bool) -> None:
        """Give a batch the outcome failed or unknown, and keep it for `report`."""
        self._not_acked.append((batch, error, unknown))
        if len(self._not_acked) > _NOT_ACKED_MAX:
            self._not_acked_before.add(*self._not_acked.popleft())
        if self._interceptors is not None:
            self._interceptors.on_ack(batch, "unknown" if unknown else "failed", error=error)
        if unknown:
            batch.lose(error)
        else:
            batch.fail(error)

    def fail_at_last(self, batches: Iterable[SealedBatch], error: OttlaError) -> None:
        """Settle as failed the batches that the core was never given."""
        for batch in batches:
            self._settle_at_last(batch, error, unknown=False)

    def lose_all(self, error: OttlaError) -> None:
        """The I/O thread has died: settle all batches on the books, open ones as failed, the others as unknown."""
        for batch in list(self._label_of):
            is_open = batch.is_open
            self._appender.close(batch)
            self.give_back(batch)
            for leaf in batch.leaves():
                self._settle_at_last(leaf, error, unknown=not is_open)
            self.take_off(batch)

    def _settle_at_last(self, batch: SealedBatch, error: OttlaError, *, unknown: bool) -> None:
        """Settle a batch; an exception, of a logging handler for example, must not keep the next ones from it."""
        if not batch.outcome:
            with contextlib.suppress(BaseException):
                self.settle_not_acked(batch, error, unknown=unknown)

    def report(self) -> None:
        """Raise DeliveryError for failed and unknown records whose deliveries were not asked; each is reported once."""
        told, self._not_acked_before = self._not_acked_before, _NotAcked()
        while self._not_acked:
            told.add(*self._not_acked.popleft())
        if told.first is not None:
            raise told.as_error() from told.first

    def forget_not_acked(self) -> None:
        """Report none of the records that failed so far: the user knows of them."""
        self._not_acked.clear()
        self._not_acked_before = _NotAcked()


class _NotAcked:
    """Failed and unknown records, counted."""

    __slots__ = ("failed", "first", "unknown")

    def __init__(self) -> None:
        self.failed = 0
        self.unknown = 0
        self.first: OttlaError | None = None

    def add(self, batch: SealedBatch, error: OttlaError, unknown: bool) -> None:
        unlooked = batch.unlooked()
        if not unlooked:
            return
        if unknown:
            self.unknown += unlooked
        else:
            self.failed += unlooked
        if self.first is None:
            self.first = error

    def as_error(self) -> DeliveryError:
        parts = []
        if self.failed:
            parts.append(f"{self.failed} record{' was' if self.failed == 1 else 's were'} not delivered")
        if self.unknown:
            parts.append(f"{self.unknown} record{' is' if self.unknown == 1 else 's are'} unknown (perhaps stored)")
        return DeliveryError(
            f"{' and '.join(parts)}; the first cause: {self.first}",
            failed=self.failed,
            unknown=self.unknown,
            first=self.first,
        )

"""The batch that a record is in, and the `Delivery` that its sender has (compiled).

A `SealedBatch` exists from its first record on; the I/O thread settles it by `complete`, `fail` or `lose`. A `Delivery`
is one record's view of it. It is made for each record, so it has little more than a pointer to the batch, a row number
and a timestamp. `Appender`, `TableEncoder` and `records/split` make batches; they use the C fields, which delivery.pxd
declares for the compiled modules.

Invariants
- A batch's outcome changes once. Callbacks that were added before run once, in the order in which they were added: in
  the I/O thread, or, for a producer in an event loop, there, batch by batch (`_landing`). A callback that is added
  later runs at once, in the thread that adds it.
- A batch that was split (by `records/split`) has the outcome SPLIT: its parts have its records and its callbacks, and a
  Delivery changes to its part when it is next used.
- What a callback raises is logged under `ottla.producer`. KeyboardInterrupt is raised again after all have run, but not
  in the I/O thread.
- A settled batch has neither its bytes nor its callbacks any more: a Delivery that is kept keeps no record in memory.
"""

from __future__ import annotations

from time import monotonic_ns, thread_time_ns

import cython
from crc32c import crc32c
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t
from cython.cimports.ottla.async_functions import is_async
from cython.cimports.ottla.records.awaiting import Awaitable, at_once, future_here, with_future
from cython.cimports.ottla.records.wire import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_BYTES,
    PRODUCER_POSITION,
    TRANSACTIONAL,
    put_header,
    put_int16,
    put_int32,
    put_int64,
)

from ottla.errors import ClosedError, DeliveryFailed, DeliveryUnknown
from ottla.records.awaiting import releasing
from ottla.records.compression import CODEC_IDS, compress
from ottla.timeouts import seconds

PENDING, ACKED, FAILED, UNKNOWN, SPLIT = 0, 1, 2, 3, 4
_WORDS = ("pending", "acked", "failed", "unknown", "split")
# To read a thread's time twice takes a tenth of the time of lz4 for a small batch: only one batch in so many is timed.
_TIMED_EVERY = cython.declare(cython.int, 8)
_packed = cython.declare(cython.int, 0)


@cython.cfunc
@cython.exceptval(check=False)
def _is_timed() -> cython.bint:
    """Whether this batch is the one whose compression is timed."""
    global _packed
    _packed = (_packed + 1) % _TIMED_EVERY
    return _packed == 1


@cython.final
@cython.cclass
class RecordMetadata:
    """Where a record was stored: `offset` is -1 where it is not known, as with acks=0."""

    def __init__(self, topic: str, partition: int, offset: int, timestamp_ms: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms

    def __repr__(self) -> str:
        return (
            f"RecordMetadata(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp_ms={self.timestamp_ms})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordMetadata):
            return NotImplemented
        theirs: RecordMetadata = other
        return (self.topic, self.partition, self.offset, self.timestamp_ms) == (
            theirs.topic,
            theirs.partition,
            theirs.offset,
            theirs.timestamp_ms,
        )

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset, self.timestamp_ms))

    def __reduce__(self) -> tuple:
        return RecordMetadata, (self.topic, self.partition, self.offset, self.timestamp_ms)


@cython.final
@cython.cclass
class SealedBatch:
    """One record batch: made when its first record arrives, and handed over at once.

    Records are added while it `is_open`. Once it `is_finished` (closed, and compressed) it can be sent; the following
    holds from then on.

    `size_bytes` is its size on the wire (with header, after compression), `uncompressed_bytes` its size before
    compression, `buffer_bytes` the memory to `release`, `record_bytes_max` the size of its largest record before
    compression (0: not known). `outcome` is PENDING, ACKED, FAILED, UNKNOWN or SPLIT and changes once. `first_row` and
    `rows` are for `send_table`: the row of each record in the input, either counted from `first_row` or listed in
    `rows` (int64).
    """

    def __cinit__(self):
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        self.first_row = -1
        self.codec = "none"
        self.is_finished = True

    @property
    def rows(self) -> object:
        """A memoryview of int64, one input row per record, or None where they count up from `first_row`."""
        return None if self._rows is None else memoryview(self._rows).cast("q")

    @property
    def has_callbacks(self) -> bool:
        """Whether there are callbacks for when it is settled."""
        return self._callbacks is not None

    def assign(self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool = False) -> None:
        """Write the producer's identity and the first record's sequence number, then the CRC.

        May be called again, with a new epoch for example, as long as the batch is not settled.
        """
        if self._buffer is None:
            raise ClosedError("This batch is settled; its bytes are gone.")
        at: cython.p_char = PyByteArray_AS_STRING(self._buffer)
        if is_transactional:
            at[ATTRIBUTES_POSITION + 1] |= TRANSACTIONAL
        else:
            at[ATTRIBUTES_POSITION + 1] &= ~TRANSACTIONAL
        put_int64(at + PRODUCER_POSITION, producer_id)
        put_int16(at + PRODUCER_POSITION + 8, producer_epoch)
        put_int32(at + PRODUCER_POSITION + 10, base_sequence)
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        crc: uint32_t = crc32c(memoryview(self._buffer)[ATTRIBUTES_POSITION:])
        put_int32(at + CRC_POSITION, crc)
        self._stamped = True

    def buffers(self) -> list:
        """The bytes for the wire, in one piece; empty once the batch is settled."""
        if self._buffer is None:
            return []
        if not self._stamped:
            self.assign(-1, -1, -1)
        return [self._buffer]

    def complete(self, base_offset: int, log_append_time_ms: int = -1) -> None:
        """Settle as stored from `base_offset` on (-1: not known, as with acks=0)."""
        if self.outcome == 0:
            self.base_offset = base_offset
            self.log_append_time_ms = log_append_time_ms
            self._settle(1, None)

    def fail(self, error: object) -> None:
        """Settle as certainly not stored."""
        self._settle(2, error)

    def lose(self, error: object) -> None:
        """Settle as unknown: perhaps stored."""
        self._settle(3, error)

    @cython.cfunc
    @cython.exceptval(-1)
    def _pack(self, compression: str, level: object) -> cython.Py_ssize_t:
        """Compress the records, unless that makes them larger; return how many bytes it saves.

        `size_bytes` changes only at the end: so a caller can count the memory in one step.
        """
        with memoryview(self._buffer) as whole:
            if _is_timed():
                # The thread's own time, without the time in which other threads had the processor or the interpreter.
                began_ns: int64_t = thread_time_ns()
                packed = compress(compression, level, whole[HEADER_BYTES:])
                self.pack_ns += _TIMED_EVERY * (thread_time_ns() - began_ns)
            else:
                packed = compress(compression, level, whole[HEADER_BYTES:])
        size: cython.Py_ssize_t = HEADER_BYTES + len(packed)
        saved: cython.Py_ssize_t = self.size_bytes - size
        # The batch may be settled by now, if the I/O thread died.
        if saved <= 0 or self._buffer is None:
            return 0
        if self._pool is None:
            self._buffer[HEADER_BYTES:] = packed
        else:
            # Into a smaller buffer: the large one is used for another batch at once.
            smaller: bytearray = self._pool.take(size)
            smaller[HEADER_BYTES:] = packed
            larger: bytearray = self._buffer
            self._buffer = smaller
            self._pool.give(larger)
        put_header(
            PyByteArray_AS_STRING(self._buffer),
            size,
            CODEC_IDS[compression],
            self.record_count,
            self.base_timestamp,
            self.max_timestamp,
        )
        self.codec = compression
        self.buffer_bytes -= saved
        self.size_bytes -= saved
        return saved

    @cython.cfunc
    def _settle(self, outcome: cython.int, error: object) -> object:
        if self.outcome != 0:
            return None
        self.error = error
        self.outcome = outcome
        callbacks: list = self._callbacks
        landing: object = self._landing
        self._callbacks = None
        self._landing = None
        if self._pool is not None and self._buffer is not None:
            self._pool.give(self._buffer)
        self._buffer = None
        self._hooks = None
        self._home = None
        if callbacks is not None:
            if landing is None:
                # Signals do not come to the I/O thread: a KeyboardInterrupt here is the callback's own error.
                run_callbacks(callbacks, False)
            else:
                landing.append(callbacks)
        return None

    def unlooked(self) -> int:
        """How many records of a failed or unknown batch have an outcome that was not read yet."""
        return self.record_count - self._looked if self.outcome == 2 or self.outcome == 3 else 0

    def mark_looked(self) -> None:
        """Note that the outcome of all records was read."""
        self._looked = self.record_count

    def leaves(self) -> list:
        """The batches that have its records now, in order: itself, or the parts it was split into."""
        if self._parts is None:
            return [self]
        found: list = []
        part: SealedBatch
        for part in self._parts:
            found += part.leaves()
        return found

    @cython.cfunc
    def _part_with(self, row: int32_t) -> SealedBatch:
        part: SealedBatch
        found: SealedBatch = None
        for part in self._parts:
            if part._first > row:
                break
            found = part
        return found

    @cython.cfunc
    def _divide(self, parts: list) -> object:
        """Replace this batch by its parts, which get its callbacks."""
        part: SealedBatch
        delivery: Delivery
        shares: list = []
        count: cython.Py_ssize_t = -1
        i: cython.Py_ssize_t
        # Allocating may have let another thread add a callback: then again. After the last check nothing else runs.
        while count != (0 if self._callbacks is None else len(self._callbacks)):
            callbacks: list = [] if self._callbacks is None else self._callbacks
            count = len(callbacks)
            shares = [[] for _ in parts]
            for i in range(0, count, 2):
                delivery = callbacks[i]
                at: cython.Py_ssize_t = len(parts) - 1
                while at > 0 and cython.cast(SealedBatch, parts[at])._first > delivery._row:
                    at -= 1
                share: list = shares[at]
                share.append(delivery)
                share.append(callbacks[i + 1])
        for i in range(len(parts)):
            part = parts[i]
            part._callbacks = shares[i]
        self._callbacks = None
        self._landing = None
        self._buffer = None
        self._hooks = None
        self._home = None
        self._parts = parts
        self.outcome = 4
        return None

    def __repr__(self) -> str:
        return (
            f"<SealedBatch {self.topic}-{self.partition}: {self.record_count} records, {self.size_bytes} bytes, "
            f"{_WORDS[self.outcome]}>"
        )


@cython.cfunc
def sealed_batch(
    topic: str,
    partition: cython.int,
    batch: bytearray,
    record_count: int32_t,
    base_timestamp: int64_t,
    max_timestamp: int64_t,
    codec: str,
    first_row: int64_t,
    rows: bytes,
) -> SealedBatch:
    """Return a batch, with its header written: `batch` has 61 free bytes, then the records section.

    `rows` is int64 in native byte order, one for each record, or None where they count up from `first_row`.
    """
    sealed: SealedBatch = SealedBatch()
    sealed.topic = topic
    sealed.partition = partition
    sealed.record_count = record_count
    sealed.size_bytes = len(batch)
    sealed.buffer_bytes = len(batch)
    sealed.uncompressed_bytes = len(batch)
    sealed.base_timestamp = base_timestamp
    sealed.max_timestamp = max_timestamp
    sealed.codec = codec
    sealed.first_row = first_row
    sealed._rows = rows
    sealed._buffer = batch
    codec_id: cython.int = CODEC_IDS[codec]
    put_header(PyByteArray_AS_STRING(batch), sealed.size_bytes, codec_id, record_count, base_timestamp, max_timestamp)
    return sealed


@cython.ccall
def run_callbacks(callbacks: list, may_interrupt: cython.bint = True) -> object:
    """Call every function with its delivery; what they raise is logged.

    With `may_interrupt`, KeyboardInterrupt is raised again at the end: on users' threads it may be from a signal.
    """
    interrupt: object = None
    i: cython.Py_ssize_t
    for i in range(0, len(callbacks), 2):
        try:
            callbacks[i + 1](callbacks[i])
        except BaseException as error:
            if may_interrupt and isinstance(error, KeyboardInterrupt):
                interrupt = error
                continue
            import logging

            from ottla.foreign_names import about_callback

            logging.getLogger("ottla.producer").exception(
                "The delivery callback %r raised; the delivery itself is not affected.%s",
                callbacks[i + 1],
                about_callback(callbacks[i + 1], error),
            )
    if interrupt is not None:
        raise interrupt
    return None


@cython.cfunc
def _no_attribute(delivery: object, name: str) -> object:
    from ottla.foreign_names import OF_DELIVERY, no_attribute

    return no_attribute(delivery, name, OF_DELIVERY)


# Not tracked by the garbage collector, because a program may keep millions of them. No reference cycle with a Delivery
# lasts: a batch drops its callbacks when it is settled.
@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class Delivery:
    """The outcome of one record sent: call `result()`, `await` it, or give a function to `add_done_callback`."""

    def __init__(self) -> None:
        raise TypeError("A Delivery is what Producer.send returns; it cannot be made otherwise.")

    @property
    def topic(self) -> str:
        """The topic the record was sent to."""
        return self._batch.topic

    @property
    def partition(self) -> int:
        """The partition the record went to."""
        return self._batch.partition

    def done(self) -> bool:
        """Whether the record has its outcome: acked, failed or unknown."""
        return self._place().outcome != 0

    def result(self, timeout: object = None) -> RecordMetadata:
        """Wait until the record is stored, at most `timeout` seconds, and say where.

        Raises DeliveryFailed (certainly not stored), DeliveryUnknown (perhaps stored) or TimeoutError.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._metadata()

    @cython.cfunc
    def _metadata(self) -> RecordMetadata:
        batch: SealedBatch = self._place()
        told: RecordMetadata = RecordMetadata.__new__(RecordMetadata)
        told.topic = batch.topic
        told.partition = batch.partition
        told.offset = batch.base_offset + self._row if batch.base_offset >= 0 else -1
        told.timestamp_ms = self._timestamp if batch.log_append_time_ms < 0 else batch.log_append_time_ms
        return told

    def __await__(self) -> Awaitable:
        """Wait as `result` does, in a coroutine; cancelling the wait changes nothing about the record."""
        future: object = None
        batch: SealedBatch = self._place()
        outcome: cython.int = batch.outcome
        if outcome == 0:
            if self._batch._hooks is not None:
                self._batch._hooks.is_awaited(batch)
            future = future_here()
            self._add_callback(releasing(future))
        elif outcome == 1:
            return at_once(self._metadata())
        return with_future(self, None if future is None else future.__await__())

    def exception(self, timeout: object = None) -> Exception | None:
        """Wait as `result` does and return what it would raise, or None for a stored record."""
        # Checked also if there is no wait: an error of `timeout` must not depend on how fast the broker was.
        longest_s = None if timeout is None else seconds(timeout)
        batch: SealedBatch = self._place()
        if batch.outcome == 0:
            batch = self._wait(longest_s)
        if batch.outcome == 1:
            return None
        if not self._is_looked:
            self._is_looked = True
            batch._looked += 1
        where = f"{batch.topic}-{batch.partition}"
        if batch.outcome == 2:
            error = DeliveryFailed(f"The record for {where} is not stored: {batch.error}", failed=1, first=batch.error)
        else:
            error = DeliveryUnknown(
                f"Whether the record for {where} is stored is not known: {batch.error}", unknown=1, first=batch.error
            )
        error.__cause__ = batch.error
        return error

    @cython.cfunc
    def _wait(self, longest_s: object) -> SealedBatch:
        """Wait for the outcome of the record's batch, or of its part if the batch is split meanwhile."""
        began_ns: int64_t = monotonic_ns()
        left: object = longest_s
        while True:
            batch: SealedBatch = self._place()
            hooks = batch._hooks
            if hooks is not None and batch.outcome == 0:
                hooks.wait(batch, left)
            if batch.outcome != 4:
                break
            if longest_s is not None:
                left = max(0, longest_s - (monotonic_ns() - began_ns) / 1e9)
        if batch.outcome == 0:
            raise TimeoutError(
                f"The record for {batch.topic}-{batch.partition} has no outcome after {longest_s} s; it may still "
                "get one."
            )
        return batch

    @cython.cfunc
    def _place(self) -> SealedBatch:
        """The batch the record is in now; the one it was written into may have been split."""
        batch: SealedBatch = self._batch
        part: SealedBatch
        while batch._parts is not None:
            part = batch._part_with(self._row)
            self._row -= part._first
            self._batch = part
            batch = part
        return batch

    def add_done_callback(self, fn: object) -> None:
        """Call `fn(delivery)` when the outcome is known, or at once if it is known already.

        It is called in the I/O thread, for deliveries of an AsyncProducer in its event loop, or at once in this thread.
        What `fn` raises is logged under `ottla.producer`.
        """
        if not callable(fn):
            raise TypeError(f"add_done_callback takes a function of the Delivery; {fn!r:.60} cannot be called.")
        if is_async(fn):
            raise TypeError(
                f"add_done_callback is given an async function, which nobody would await: {fn!r:.60}; give a plain "
                "one, which may start a task."
            )
        self._add_callback(fn)

    @cython.cfunc
    def _add_callback(self, fn: object) -> object:
        fresh: list = None
        while True:
            batch: SealedBatch = self._place()
            if batch.outcome != 0:
                run_callbacks([self, fn])
                return None
            if batch._callbacks is not None or fresh is not None:
                break
            # Allocating may let the I/O thread settle or split the batch: begin again.
            fresh = []
        if batch._callbacks is None:
            batch._callbacks = fresh
        batch._callbacks.append(self)
        batch._callbacks.append(fn)
        return None

    # What futures and messages of other clients have, for an error that helps. Without `__getattr__`: with it `result`
    # takes twice as long.
    @property
    def get(self) -> object:
        raise _no_attribute(self, "get")

    @property
    def add_callback(self) -> object:
        raise _no_attribute(self, "add_callback")

    @property
    def add_errback(self) -> object:
        raise _no_attribute(self, "add_errback")

    @property
    def offset(self) -> object:
        raise _no_attribute(self, "offset")

    def __reduce__(self) -> object:
        raise TypeError("A Delivery cannot be pickled: its producer knows the outcome; pickle what result() returns.")

    def __repr__(self) -> str:
        return f"<Delivery to {self._batch.topic}-{self._batch.partition}: {_WORDS[self._place().outcome]}>"

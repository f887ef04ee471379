"""One record into its partition's open batch: the only path that runs once per record (compiled).

`Appender.send` checks the record, picks its partition (murmur2 of the key, or KIP-794's uniform sticky partition),
writes it in wire format straight behind the records already in that partition's open batch, and returns a
`Delivery`. Everything behind it works per batch: the I/O thread calls `take_ready`, `assign`s producer id and
sequence, sends `buffers()` and settles the batch by `complete`, `fail` or `lose`.

Invariants
- The interpreter lock guards all state. Whatever could run other Python code (allocating an object the garbage
  collector tracks, a hook, compression, the clock given by a caller) happens before the state is looked at: `send`
  looks again from the beginning after each such step, and from the last look to the end of writing nothing else runs.
- A partition's batches are handed out in the order in which they were sealed, also while one of them is still being
  compressed by another thread.
- `buffered_bytes` counts the memory of every open and sealed batch until `release`; only `add_sealed` with nothing
  else buffered may pass `buffer_memory`.
- `hooks.wake()` is called at most once for each time the I/O thread sets `sleeping`. The I/O thread sets `sleeping`,
  then asks `linger_deadline_us()`, then waits: what arrives in between is in that answer.
- A tight `send` loop would keep the interpreter lock for itself, 5 ms at a time. So a sender that has sealed
  `_TURN_BYTES` without the I/O thread coming for them waits, without the lock, until it has (or `_TURN_US` are over).

The file is long because what runs once per record has to be one compiled unit: only within one do the classes see each
other's C fields.
"""

from __future__ import annotations

from time import monotonic_ns

import cython
from crc32c import crc32c
from cython.cimports.cpython.bytearray import (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_Resize,
)
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_Check, PyBytes_GET_SIZE
from cython.cimports.cpython.list import PyList_GET_ITEM
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.ottla.records.wire import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_BYTES,
    PRODUCER_POSITION,
    TRANSACTIONAL,
    PyThread_acquire_lock,
    PyThread_acquire_lock_timed,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_get_thread_ident,
    PyThread_release_lock,
    PyThread_type_lock,
    likely,
    partition_of,
    put_header,
    put_int16,
    put_int32,
    put_int64,
    put_varint,
    split_mix,
    unlikely,
    varint_bytes,
    zigzag,
)
from cython.cimports.posix.time import CLOCK_REALTIME, clock_gettime, timespec

from ottla.errors import ClosedError, DeliveryFailed, DeliveryUnknown, RecordError
from ottla.records.compression import CODEC_IDS, check_level, compress

PENDING, ACKED, FAILED, UNKNOWN = 0, 1, 2, 3

_FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 2048)
_TURN_BYTES = cython.declare(cython.Py_ssize_t, 65536)
_TURN_US = cython.declare(cython.longlong, 2000)


@cython.final
@cython.cclass
class RecordMetadata:
    """Where a record was stored: `offset` is -1 when no acknowledgement was asked for (acks=0)."""

    topic = cython.declare(str, visibility="readonly")
    partition = cython.declare(cython.int, visibility="readonly")
    offset = cython.declare(int64_t, visibility="readonly")
    timestamp_ms = cython.declare(int64_t, visibility="readonly")

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
    """One record batch on its way: made when its first record arrives, handed out once it is sealed.

    `size_bytes` is what goes on the wire (header included, after compression), `buffer_bytes` the memory to
    `release`. `outcome` is PENDING, ACKED, FAILED or UNKNOWN and changes once. `first_row` and `rows` are
    `send_table`'s: the row of each record in the input, either counted from `first_row` or listed in `rows` (int64).
    """

    topic = cython.declare(str, visibility="readonly")
    partition = cython.declare(cython.int, visibility="readonly")
    record_count = cython.declare(int32_t, visibility="readonly")
    size_bytes = cython.declare(cython.Py_ssize_t, visibility="readonly")
    buffer_bytes = cython.declare(cython.Py_ssize_t, visibility="readonly")
    created_us = cython.declare(int64_t, visibility="readonly")
    base_timestamp = cython.declare(int64_t, visibility="readonly")
    max_timestamp = cython.declare(int64_t, visibility="readonly")
    codec = cython.declare(str, visibility="readonly")
    outcome = cython.declare(cython.int, visibility="readonly")
    base_offset = cython.declare(int64_t, visibility="readonly")
    log_append_time_ms = cython.declare(int64_t, visibility="readonly")
    error = cython.declare(object, visibility="readonly")
    producer_id = cython.declare(int64_t, visibility="readonly")
    producer_epoch = cython.declare(cython.int, visibility="readonly")
    base_sequence = cython.declare(int32_t, visibility="readonly")
    first_row = cython.declare(int64_t, visibility="readonly")
    _rows = cython.declare(bytes)
    _buffer = cython.declare(bytearray)
    _hooks = cython.declare(object)
    _callbacks = cython.declare(list)  # delivery, function, delivery, function, ...
    _home = cython.declare(object)  # the Partition it came from
    _looked = cython.declare(int32_t)
    _stamped = cython.declare(cython.bint)
    _compressing = cython.declare(cython.bint)

    def __cinit__(self):
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        self.first_row = -1
        self.codec = "none"

    @property
    def rows(self) -> object:
        """A memoryview of int64, one input row per record, or None where they count up from `first_row`."""
        return None if self._rows is None else memoryview(self._rows).cast("q")

    def assign(self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool = False) -> None:
        """Write the producer's identity and the first record's sequence number, then the CRC over it all.

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
        """Settle as stored from `base_offset` on (-1: nobody knows, acks=0)."""
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
    def _settle(self, outcome: cython.int, error: object) -> object:
        if self.outcome != 0:
            return None
        self.error = error
        self.outcome = outcome
        callbacks: list = self._callbacks
        self._callbacks = None
        self._buffer = None
        self._hooks = None
        self._home = None
        if callbacks is not None:
            _run_callbacks(callbacks)
        return None

    def unlooked(self) -> int:
        """How many records of a failed or unknown batch nobody has asked the outcome of."""
        return self.record_count - self._looked if self.outcome > 1 else 0

    def mark_looked(self) -> None:
        """Somebody has taken notice of the outcome of all records at once."""
        self._looked = self.record_count

    def __repr__(self) -> str:
        return (
            f"<SealedBatch {self.topic}-{self.partition}: {self.record_count} records, {self.size_bytes} bytes, "
            f"{('pending', 'acked', 'failed', 'unknown')[self.outcome]}>"
        )


def sealed_batch(
    topic: str,
    partition: int,
    batch: bytearray,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    codec: str = "none",
    first_row: int = -1,
    rows: object = None,
) -> SealedBatch:
    """A batch whose bytes are finished but for the header: `batch` holds 61 free bytes, then the records section.

    `rows` is int64 in native byte order, one for each record.
    """
    sealed = SealedBatch()
    sealed.topic = topic
    sealed.partition = partition
    sealed.record_count = record_count
    sealed.size_bytes = len(batch)
    sealed.buffer_bytes = len(batch)
    sealed.base_timestamp = base_timestamp
    sealed.max_timestamp = max_timestamp
    sealed.codec = codec
    sealed.first_row = first_row
    sealed._rows = rows
    sealed._buffer = batch
    codec_id: cython.int = CODEC_IDS[codec]
    put_header(PyByteArray_AS_STRING(batch), sealed.size_bytes, codec_id, record_count, base_timestamp, max_timestamp)
    return sealed


@cython.cfunc
def _run_callbacks(callbacks: list) -> object:
    """Call every function with its delivery; what they raise is logged, but Ctrl+C is passed on at the end."""
    interrupt: object = None
    i: cython.Py_ssize_t
    for i in range(0, len(callbacks), 2):
        try:
            callbacks[i + 1](callbacks[i])
        except KeyboardInterrupt as error:
            interrupt = error
        except BaseException:
            import logging

            logging.getLogger("ottla.producer").exception(
                "The delivery callback %r raised; the delivery itself is not affected.", callbacks[i + 1]
            )
    if interrupt is not None:
        raise interrupt
    return None


# No cycle can last through a Delivery (a batch drops its callbacks when it is settled), so the collector need not
# know the millions of them a program may keep.
@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class Delivery:
    """What became of one record sent: ask `result()`, or be told by `add_done_callback`."""

    _batch = cython.declare(SealedBatch)
    _timestamp = cython.declare(int64_t)
    _row = cython.declare(int32_t)
    _is_looked = cython.declare(cython.bint)

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
        """Whether the outcome is known, be it that nobody will ever know."""
        return self._batch.outcome != 0

    def result(self, timeout: object = None) -> RecordMetadata:
        """Wait until the record is stored, at most `timeout` seconds, and say where.

        Raises DeliveryFailed (certainly not stored), DeliveryUnknown (perhaps stored) or TimeoutError.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        batch: SealedBatch = self._batch
        offset: int64_t = batch.base_offset + self._row if batch.base_offset >= 0 else -1
        timestamp = self._timestamp if batch.log_append_time_ms < 0 else batch.log_append_time_ms
        return RecordMetadata(batch.topic, batch.partition, offset, timestamp)

    def exception(self, timeout: object = None) -> Exception | None:
        """Wait as `result` does and return what it would raise, or None for a stored record."""
        batch: SealedBatch = self._batch
        if batch.outcome == 0:
            hooks = batch._hooks
            if hooks is not None:
                hooks.wait(batch, timeout)
            if batch.outcome == 0:
                raise TimeoutError(
                    f"The record for {batch.topic}-{batch.partition} has no outcome after {timeout} s; it may still "
                    "get one."
                )
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

    def add_done_callback(self, fn: object) -> None:
        """Call `fn(delivery)` when the outcome is known: in the I/O thread, or at once if it is known already.

        What `fn` raises is logged under `ottla.producer`.
        """
        self._add_callback(fn)

    @cython.cfunc
    def _add_callback(self, fn: object) -> object:
        batch: SealedBatch = self._batch
        fresh: list = [] if batch._callbacks is None else batch._callbacks
        # Allocating the list may have let the I/O thread settle the batch: only now is the outcome looked at.
        if batch.outcome != 0:
            _run_callbacks([self, fn])
            return None
        if batch._callbacks is None:
            batch._callbacks = fresh
        batch._callbacks.append(self)
        batch._callbacks.append(fn)
        return None

    def __repr__(self) -> str:
        outcome = ("pending", "acked", "failed", "unknown")[self._batch.outcome]
        return f"<Delivery to {self._batch.topic}-{self._batch.partition}: {outcome}>"


@cython.final
@cython.cclass
class Partition:
    """A partition's open batch while records are written into it, and its place in the row of open batches."""

    topic = cython.declare(str)
    index = cython.declare(cython.int)
    batch = cython.declare(SealedBatch)  # None: no batch is open
    data = cython.declare(cython.p_char)
    position = cython.declare(cython.Py_ssize_t)
    capacity = cython.declare(cython.Py_ssize_t)
    count = cython.declare(int32_t)
    base_timestamp = cython.declare(int64_t)
    max_timestamp = cython.declare(int64_t)
    last_bytes = cython.declare(cython.Py_ssize_t)  # what the batch before needed: the next one's first capacity
    earlier = cython.declare(object)
    later = cython.declare(object)
    held_in_turn = cython.declare(int64_t)

    def __cinit__(self, topic: str, index: int):
        self.topic = topic
        self.index = index
        self.last_bytes = _FIRST_CAPACITY
        self.held_in_turn = -1


@cython.final
@cython.cclass
class Topic:
    """A topic's partitions, as far as metadata told, and its sticky partition."""

    partitions = cython.declare(list)
    count = cython.declare(int32_t)
    sticky = cython.declare(int32_t)
    sticky_bytes = cython.declare(cython.Py_ssize_t)


@cython.final
@cython.cclass
class Appender:
    """All open batches of one producer; see the module's words on who calls what.

    `hooks` has `topic_missing(topic)`, `memory_wanted(nbytes)`, `wake()`, `wait(batch, timeout_s)` and
    `check_usable()`. `clock_us` and `clock_ms` (callables) replace the monotonic and the wall clock.
    """

    sleeping = cython.declare(cython.bint, visibility="public")
    closed_error = cython.declare(object, visibility="public")
    buffered_bytes = cython.declare(int64_t, visibility="readonly")
    records_appended = cython.declare(int64_t, visibility="readonly")
    batch_size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    max_request_size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    buffer_memory = cython.declare(int64_t, visibility="readonly")
    linger_us = cython.declare(int64_t, visibility="readonly")
    memory_waiters = cython.declare(cython.int, visibility="readonly")
    _open_bytes = cython.declare(int64_t)
    _partitions = cython.declare(cython.Py_ssize_t)
    _compression = cython.declare(str)
    _level = cython.declare(object)
    _codec_id = cython.declare(cython.int)
    _ignore_keys = cython.declare(cython.bint)
    _clock_us = cython.declare(object)
    _clock_ms = cython.declare(object)
    _hooks = cython.declare(object)
    _random = cython.declare(uint64_t)
    _topics = cython.declare(dict)
    _last_name = cython.declare(object)
    _last_topic = cython.declare(Topic)
    _first_open = cython.declare(Partition)
    _last_open = cython.declare(Partition)
    _sealed = cython.declare(list)
    _compressing = cython.declare(cython.int)
    _turn = cython.declare(int64_t)
    _untaken_bytes = cython.declare(cython.Py_ssize_t)
    _taker = cython.declare(cython.ulong)
    _turn_lock = cython.declare(PyThread_type_lock)
    _turn_awaited = cython.declare(cython.bint)

    def __cinit__(self):
        self._turn_lock = PyThread_allocate_lock()
        if self._turn_lock == cython.NULL:
            raise MemoryError
        PyThread_acquire_lock(self._turn_lock, 0)

    def __dealloc__(self):
        if self._turn_lock != cython.NULL:
            PyThread_free_lock(self._turn_lock)

    def __init__(
        self,
        *,
        batch_size: int,
        max_request_size: int,
        buffer_memory: int,
        linger_us: int,
        hooks: object,
        compression: str = "none",
        compression_level: object = None,
        ignore_keys: bool = False,
        seed: int = 0,
        clock_us: object = None,
        clock_ms: object = None,
    ) -> None:
        check_level(compression, compression_level)
        self.batch_size = max(batch_size, HEADER_BYTES)
        self.max_request_size = max_request_size
        self.buffer_memory = buffer_memory
        self.linger_us = linger_us
        self._compression = compression
        self._level = compression_level
        self._codec_id = CODEC_IDS[compression]
        self._ignore_keys = ignore_keys
        self._clock_us = clock_us
        self._clock_ms = clock_ms
        self._hooks = hooks
        self._random = seed & 0xFFFFFFFFFFFFFFFF
        self._topics = {}
        self._sealed = []

    # ------------------------------------------------------------------ one record

    def send(
        self,
        topic: object,
        value: object = None,
        key: object = None,
        *,
        headers: object = None,
        partition: object = None,
        timestamp_ms: object = None,
        on_delivery: object = None,
    ) -> Delivery:
        """Append one record to its partition's open batch.

        `value` and `key` are bytes-like, str (sent as UTF-8) or None; `headers` a list of (str, bytes or None);
        `timestamp_ms` counts from 1970 and defaults to now. Raises RecordError for a record that cannot be sent as
        it is, BufferFull when `buffer.memory` stays full for `max.block.ms`, and whatever keeps the topic from being
        known.
        """
        value_at: cython.p_const_char = cython.NULL
        value_bytes: cython.Py_ssize_t = -1
        key_at: cython.p_const_char = cython.NULL
        key_bytes: cython.Py_ssize_t = -1
        extra: object = None
        timestamp: int64_t
        if value is not None:
            if likely(PyBytes_Check(value)):
                value_at = PyBytes_AS_STRING(value)
                value_bytes = PyBytes_GET_SIZE(value)
            else:
                value = _text_or_bytes("value", value)
                value_at = _data_of(value, cython.address(value_bytes))
        if key is not None:
            if likely(PyBytes_Check(key)):
                key_at = PyBytes_AS_STRING(key)
                key_bytes = PyBytes_GET_SIZE(key)
            else:
                key = _text_or_bytes("key", key)
                key_at = _data_of(key, cython.address(key_bytes))
        if headers is not None:
            extra = _encode_headers(headers)
        if timestamp_ms is not None:
            timestamp = _checked_timestamp(timestamp_ms)
        elif self._clock_ms is not None:
            timestamp = self._clock_ms()
        else:
            timestamp = _wall_clock_ms()
        delivery: Delivery = Delivery.__new__(Delivery)
        return self._append(
            delivery, topic, value_at, value_bytes, key_at, key_bytes, extra, partition, timestamp, on_delivery
        )

    @cython.cfunc
    def _append(
        self,
        delivery: Delivery,
        topic: object,
        value_at: cython.p_const_char,
        value_bytes: cython.Py_ssize_t,
        key_at: cython.p_const_char,
        key_bytes: cython.Py_ssize_t,
        extra: object,
        partition: object,
        timestamp: int64_t,
        on_delivery: object,
    ) -> Delivery:
        state: Topic
        home: Partition
        index: int32_t
        body: cython.Py_ssize_t
        need: cython.Py_ssize_t
        keyed: cython.bint = key_bytes >= 0 and not self._ignore_keys
        fixed: cython.Py_ssize_t = 1  # the attributes, and all that does not depend on the batch
        fixed += varint_bytes(zigzag(key_bytes)) + (key_bytes if key_bytes > 0 else 0)
        fixed += varint_bytes(zigzag(value_bytes)) + (value_bytes if value_bytes > 0 else 0)
        fixed += PyBytes_GET_SIZE(extra) if extra is not None else 1
        opened: cython.bint = False
        while True:
            if unlikely(self.closed_error is not None):
                raise self.closed_error
            if likely(topic is self._last_name):
                state = self._last_topic
            else:
                state = self._topic(topic)
                if state is None:
                    continue
            if partition is not None:
                index = _checked_partition(topic, partition, state.count)
            elif keyed:
                index = partition_of(key_at, key_bytes, state.count)
            else:
                index = state.sticky
            home = cython.cast(Partition, PyList_GET_ITEM(state.partitions, index))
            if home.batch is not None:
                body = fixed + varint_bytes(zigzag(timestamp - home.base_timestamp))
                body += varint_bytes(zigzag(home.count))
                need = body + varint_bytes(zigzag(body))
                if likely(home.position + need <= home.capacity):
                    break
                if self._grow(home, home.position + need):
                    break
                if partition is None and not keyed:
                    self._unstick(state, need)
                self._publish(self._seal(home))
            else:
                body = fixed + 2  # deltas of 0
                need = body + varint_bytes(zigzag(body))
                if partition is None and not keyed and self._unstick(state, need):
                    continue
                if self._open(home, need):
                    opened = True
                    break
        if home.count == 0:
            home.base_timestamp = home.max_timestamp = timestamp
        elif timestamp > home.max_timestamp:
            home.max_timestamp = timestamp
        to: cython.p_char = home.data + home.position
        to = put_varint(to, zigzag(body))
        to[0] = 0
        to = put_varint(to + 1, zigzag(timestamp - home.base_timestamp))
        to = put_varint(to, zigzag(home.count))
        to = put_varint(to, zigzag(key_bytes))
        if key_bytes > 0:
            memcpy(to, key_at, key_bytes)
            to += key_bytes
        to = put_varint(to, zigzag(value_bytes))
        if value_bytes > 0:
            memcpy(to, value_at, value_bytes)
            to += value_bytes
        if extra is None:
            to[0] = 0
        else:
            memcpy(to, PyBytes_AS_STRING(extra), PyBytes_GET_SIZE(extra))
        if partition is None and not keyed:
            state.sticky_bytes += need
        delivery._batch = home.batch
        delivery._timestamp = timestamp
        delivery._row = home.count
        home.position += need
        home.count += 1
        self.records_appended += 1
        if on_delivery is not None:
            delivery._add_callback(on_delivery)
        if opened and self.sleeping and (self.linger_us == 0 or self._first_open is home):
            self._wake()
        return delivery

    @cython.cfunc
    def _topic(self, name: object) -> Topic:
        """The topic's state, or None after having waited for it: look again."""
        if not isinstance(name, str) or not name:
            raise RecordError(f"A topic is a non-empty str, not {name!r}.")
        state: Topic = self._topics.get(name)
        if state is None or state.count == 0:
            self._hooks.check_usable()
            self._hooks.topic_missing(name)
            return None
        self._last_name = name
        self._last_topic = state
        return state

    @cython.cfunc
    @cython.exceptval(-1)
    def _unstick(self, state: Topic, need: cython.Py_ssize_t) -> cython.int:
        """Move on to another sticky partition once a batch's worth went to this one (KIP-794)."""
        if state.sticky_bytes == 0 or state.sticky_bytes + need + HEADER_BYTES <= self.batch_size:
            return 0
        state.sticky_bytes = 0
        if state.count > 1:
            step: int32_t = 1 + split_mix(cython.address(self._random)) % cython.cast(uint32_t, state.count - 1)
            state.sticky = (state.sticky + step) % state.count
        return 1

    # ------------------------------------------------------------------ opening, growing, sealing

    @cython.cfunc
    @cython.exceptval(-1)
    def _open(self, home: Partition, need: cython.Py_ssize_t) -> cython.bint:
        """Give the partition an open batch with room for `need` bytes of record, unless somebody else just did.

        True when this call opened it: then nothing else has run since. Waits for memory, and is False afterwards.
        """
        least: cython.Py_ssize_t = HEADER_BYTES + need
        if least > self.max_request_size:
            raise RecordError(
                f"A record for {home.topic}-{home.index} needs {least} bytes with its batch; max.request.size allows "
                f"{self.max_request_size}. Send less in one record, or raise max.request.size (and the topic's "
                "max.message.bytes)."
            )
        if least > self.buffer_memory:
            raise RecordError(
                f"A record for {home.topic}-{home.index} needs {least} bytes; buffer.memory is {self.buffer_memory}."
            )
        capacity: cython.Py_ssize_t = max(least, min(home.last_bytes, self.batch_size))
        if self.buffered_bytes + capacity > self.buffer_memory:
            # Memory is short. A batch that took the little that is left would leave with a record or two in it, and
            # so would all after it; wait for a fair share instead.
            capacity = max(least, min(self.batch_size, self.buffer_memory // (2 * self._partitions)))
            if self.buffered_bytes + capacity > self.buffer_memory:
                self._wait_for_memory(capacity)
                return False
        batch: SealedBatch = SealedBatch()
        buffer: bytearray = PyByteArray_FromStringAndSize(cython.NULL, capacity)
        created_us: int64_t = self._now_us()
        # All that can run other code has run.
        if home.batch is not None or self.closed_error is not None:
            return False
        if self.buffered_bytes + capacity > self.buffer_memory:
            return False
        batch.topic = home.topic
        batch.partition = home.index
        batch.created_us = created_us
        batch._hooks = self._hooks
        batch._home = home
        batch._buffer = buffer
        home.batch = batch
        home.data = PyByteArray_AS_STRING(buffer)
        home.capacity = capacity
        home.position = HEADER_BYTES
        home.count = 0
        self.buffered_bytes += capacity
        self._open_bytes += capacity
        home.earlier = self._last_open
        if self._last_open is None:
            self._first_open = home
        else:
            self._last_open.later = home
        self._last_open = home
        return True

    @cython.cfunc
    @cython.exceptval(-1)
    def _grow(self, home: Partition, wanted: cython.Py_ssize_t) -> cython.bint:
        """Make room for `wanted` bytes in all; False when the batch would pass `batch_size` or memory is short."""
        capacity: cython.Py_ssize_t = min(max(2 * home.capacity, wanted), self.batch_size)
        if wanted > capacity or self.buffered_bytes + capacity - home.capacity > self.buffer_memory:
            return False
        PyByteArray_Resize(home.batch._buffer, capacity)
        home.data = PyByteArray_AS_STRING(home.batch._buffer)
        self.buffered_bytes += capacity - home.capacity
        self._open_bytes += capacity - home.capacity
        home.capacity = capacity
        return True

    @cython.cfunc
    def _seal(self, home: Partition) -> SealedBatch:
        """Close the open batch and queue it. Nothing else runs meanwhile; `_publish` does what may take long."""
        batch: SealedBatch = home.batch
        size: cython.Py_ssize_t = home.position
        PyByteArray_Resize(batch._buffer, size)
        self.buffered_bytes -= home.capacity - size
        self._open_bytes -= home.capacity
        home.last_bytes = size
        batch.record_count = home.count
        batch.base_timestamp = home.base_timestamp
        batch.max_timestamp = home.max_timestamp
        batch.size_bytes = batch.buffer_bytes = size
        put_header(PyByteArray_AS_STRING(batch._buffer), size, 0, home.count, home.base_timestamp, home.max_timestamp)
        self._unlink(home)
        if self._codec_id:
            batch._compressing = True
            self._compressing += 1
        self._sealed.append(batch)
        self._untaken_bytes += size
        home.batch = None
        return batch

    @cython.cfunc
    def _unlink(self, home: Partition) -> object:
        earlier: Partition = home.earlier
        later: Partition = home.later
        home.earlier = home.later = None
        if earlier is None:
            self._first_open = later
        else:
            earlier.later = later
        if later is None:
            self._last_open = earlier
        else:
            later.earlier = earlier
        return None

    @cython.cfunc
    def _publish(self, batch: SealedBatch) -> object:
        """Compress what was just sealed, tell the I/O thread, and let it have its turn."""
        if self._codec_id:
            self._compress([batch])
        if self.sleeping:
            self._wake()
        elif self._untaken_bytes >= _TURN_BYTES:
            self._give_way()
        return None

    @cython.cfunc
    def _compress(self, batches: list) -> object:
        """Compress sealed batches where they lie in the queue; `_hold_back` keeps them there until this is done."""
        batch: SealedBatch
        try:
            for batch in batches:
                self._pack(batch)
        finally:
            # What memory was too short for, or Ctrl+C came before, goes as it is: nothing is lost.
            for batch in batches:
                batch._compressing = False
                self._compressing -= 1
        return None

    @cython.cfunc
    def _pack(self, batch: SealedBatch) -> object:
        with memoryview(batch._buffer) as whole:
            packed = compress(self._compression, self._level, whole[HEADER_BYTES:])
        size: cython.Py_ssize_t = HEADER_BYTES + len(packed)
        if size >= batch.size_bytes:
            return None
        batch._buffer[HEADER_BYTES:] = packed
        put_header(
            PyByteArray_AS_STRING(batch._buffer),
            size,
            self._codec_id,
            batch.record_count,
            batch.base_timestamp,
            batch.max_timestamp,
        )
        self.buffered_bytes -= batch.buffer_bytes - size
        batch.codec = self._compression
        batch.size_bytes = batch.buffer_bytes = size
        return None

    # ------------------------------------------------------------------ with the I/O thread

    @cython.cfunc
    @cython.exceptval(-1)
    def _now_us(self) -> int64_t:
        return monotonic_ns() // 1000 if self._clock_us is None else self._clock_us()

    @cython.cfunc
    def _wake(self) -> object:
        self.sleeping = False
        self._hooks.wake()
        return None

    @cython.cfunc
    def _wait_for_memory(self, nbytes: cython.Py_ssize_t) -> object:
        self._hooks.check_usable()
        self.memory_waiters += 1
        try:
            if self.sleeping:
                self._wake()
            self._hooks.memory_wanted(nbytes)
        finally:
            self.memory_waiters -= 1
        return None

    @cython.cfunc
    def _give_way(self) -> object:
        """Let the I/O thread have the interpreter until it comes for what is sealed."""
        if self._taker == 0 or self._turn_awaited or self._taker == PyThread_get_thread_ident():
            return None
        PyThread_acquire_lock(self._turn_lock, 0)  # a turn that came when an earlier wait was over
        self._turn_awaited = True
        with cython.nogil:
            PyThread_acquire_lock_timed(self._turn_lock, _TURN_US, 0)
        self._turn_awaited = False
        self._untaken_bytes = 0
        return None

    def set_topic(self, topic: str, partition_count: int) -> None:
        """Metadata says: the topic has this many partitions."""
        if partition_count < 1:
            raise ValueError(f"Topic {topic!r} cannot have {partition_count} partitions.")
        state: Topic = self._topics.get(topic)
        if state is None:
            state = Topic()
            state.partitions = []
            state.sticky = split_mix(cython.address(self._random)) % cython.cast(uint32_t, partition_count)
        while len(state.partitions) < partition_count:
            state.partitions.append(Partition(topic, len(state.partitions)))
            self._partitions += 1
        state.count = partition_count
        if state.sticky >= state.count:
            state.sticky = 0
        self._topics[topic] = state

    def forget_topic(self, topic: str) -> None:
        """The next `send` to the topic asks `hooks.topic_missing` again; what is buffered stays."""
        state: Topic = self._topics.get(topic)
        if state is not None:
            state.count = 0  # the partitions stay: their order must hold when the topic is known again
        self._last_name = None
        self._last_topic = None

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic is known to have; 0 when it is not known."""
        state: Topic = self._topics.get(topic)
        return 0 if state is None else state.count

    def take_ready(self, now_us: int, force: bool = False) -> list:
        """Hand over what is sealed, and (sealing them) the batches whose linger is over; all with `force`.

        So are all where somebody waits for memory that open batches hold. For one thread, the one that does the I/O.
        """
        now: int64_t = now_us
        everything: cython.bint = force or self._open_ones_must_go()
        home: Partition
        due: list = []
        self._taker = PyThread_get_thread_ident()
        while self._first_open is not None:
            home = self._first_open
            if not everything and home.batch.created_us + self.linger_us > now:
                break
            due.append(self._seal(home))
        if self._codec_id:
            self._compress(due)
        self._untaken_bytes = 0
        if self._turn_awaited:
            self._turn_awaited = False
            PyThread_release_lock(self._turn_lock)
        taken: list = self._sealed
        self._sealed = []
        if self._compressing:
            taken = self._hold_back(taken)
        return taken

    @cython.cfunc
    def _open_ones_must_go(self) -> cython.bint:
        """Somebody waits for memory, and too little of it is in sealed batches, which free it when they are settled."""
        return self.memory_waiters > 0 and 2 * self._open_bytes >= self.buffered_bytes

    @cython.cfunc
    def _hold_back(self, batches: list) -> list:
        """Put back the batches other threads are still compressing, and those behind them in their partitions."""
        batch: SealedBatch
        home: Partition
        ready: list = []
        held: list = []
        self._turn += 1
        for batch in batches:
            home = batch._home
            if batch._compressing or home.held_in_turn == self._turn:
                home.held_in_turn = self._turn
                held.append(batch)
            else:
                ready.append(batch)
        self._sealed = held + self._sealed
        return ready

    def linger_deadline_us(self) -> int | None:
        """When `take_ready` will have something: 0 for now, None for not before something is sent."""
        if self._sealed and not self._compressing:
            return 0
        home: Partition = self._first_open
        if home is None:
            return None
        return 0 if self._open_ones_must_go() else home.batch.created_us + self.linger_us

    def add_sealed(self, batches: object) -> None:
        """Queue finished batches in order, each behind the open batch of its partition, waiting for memory."""
        batch: SealedBatch
        earlier: SealedBatch
        state: Topic
        home: Partition
        created_us: int64_t
        for batch in batches:
            created_us = self._now_us()
            while True:
                if self.closed_error is not None:
                    raise self.closed_error
                state = self._topic(batch.topic)
                if state is None:
                    continue
                if self.buffered_bytes == 0 or self.buffered_bytes + batch.buffer_bytes <= self.buffer_memory:
                    break
                self._wait_for_memory(batch.buffer_bytes)
            home = state.partitions[_checked_partition(batch.topic, batch.partition, state.count)]
            earlier = self._seal(home) if home.batch is not None else None
            batch.created_us = created_us
            batch._hooks = self._hooks
            batch._home = home
            self.buffered_bytes += batch.buffer_bytes
            self.records_appended += batch.record_count
            self._sealed.append(batch)
            self._untaken_bytes += batch.size_bytes
            if earlier is not None and self._codec_id:
                self._compress([earlier])
            if self.sleeping:
                self._wake()
            elif self._untaken_bytes >= _TURN_BYTES:
                self._give_way()

    def release(self, nbytes: int) -> None:
        """Give back the memory of a settled batch (its `buffer_bytes`)."""
        self.buffered_bytes -= nbytes


# ---------------------------------------------------------------------- checks and conversions off the fast path


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _wall_clock_ms() -> int64_t:
    now = cython.declare(timespec)
    clock_gettime(CLOCK_REALTIME, cython.address(now))
    return cython.cast(int64_t, now.tv_sec) * 1000 + now.tv_nsec // 1000000


@cython.cfunc
def _text_or_bytes(what: str, given: object) -> object:
    """A str or bytes object with the same content; RecordError for what is neither text nor bytes."""
    if isinstance(given, str):
        return given
    try:
        return bytes(memoryview(given))
    except TypeError:
        pass
    raise RecordError(
        f"A record's {what} is bytes, str or None, not {type(given).__name__}: {given!r:.60}. Serialize it first, "
        "for example with json.dumps."
    )


@cython.cfunc
def _data_of(text_or_bytes: object, size: cython.pointer(cython.Py_ssize_t)) -> cython.p_const_char:
    if PyBytes_Check(text_or_bytes):
        size[0] = PyBytes_GET_SIZE(text_or_bytes)
        return PyBytes_AS_STRING(text_or_bytes)
    try:
        return PyUnicode_AsUTF8AndSize(text_or_bytes, size)
    except UnicodeEncodeError as error:
        raise RecordError(f"The text {text_or_bytes!r:.60} cannot be sent as UTF-8: {error.reason}.") from error


@cython.cfunc
@cython.exceptval(-1)
def _checked_timestamp(timestamp_ms: object) -> int64_t:
    if isinstance(timestamp_ms, int) and not isinstance(timestamp_ms, bool) and 0 <= timestamp_ms < 1 << 63:
        return timestamp_ms
    raise RecordError(f"A timestamp_ms is an int from 0 on, in milliseconds since 1970, not {timestamp_ms!r:.60}.")


@cython.cfunc
@cython.exceptval(-1)
def _checked_partition(topic: object, partition: object, count: int32_t) -> int32_t:
    if isinstance(partition, int) and not isinstance(partition, bool) and 0 <= partition < count:
        return partition
    raise RecordError(f"Topic {topic} has partitions 0 to {count - 1}, not {partition!r:.60}.")


@cython.cfunc
def _number(value: cython.Py_ssize_t) -> bytes:
    """A zigzag varint as bytes."""
    room = cython.declare(cython.char[10])
    end: cython.p_char = put_varint(room, zigzag(value))
    return room[: end - room]


@cython.cfunc
def _encode_headers(headers: object) -> bytes:
    """The end of a record: how many headers, and each one's name and value."""
    try:
        pairs = [(name, value) for name, value in headers]
    except (TypeError, ValueError):
        raise RecordError(f"Headers are a list of (str, bytes or None) pairs, not {headers!r:.60}.") from None
    pieces: list = [_number(len(pairs))]
    for name, value in pairs:
        if not isinstance(name, str):
            raise RecordError(f"A header's name is a str, not {type(name).__name__}: {name!r:.60}.")
        content = _encoded("header name", name)
        pieces += (_number(len(content)), content)
        if value is None:
            pieces.append(_number(-1))
        else:
            content = _encoded("header value", value)
            pieces += (_number(len(content)), content)
    return b"".join(pieces)


@cython.cfunc
def _encoded(what: str, given: object) -> bytes:
    if not isinstance(given, bytes):
        given = _text_or_bytes(what, given)
    size: cython.Py_ssize_t = 0
    at: cython.p_const_char = _data_of(given, cython.address(size))
    return at[:size]

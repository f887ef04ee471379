"""Appends one record to its partition's open batch: the only code that runs once per record (compiled).

`Appender.send` checks the record, chooses its partition (a hash of the key, KIP-794's sticky partition, or the next in
turn), writes it in wire format after the records in that partition's open batch, and returns a `Delivery`. All later
code works per batch. A batch is handed over when it is opened (`take_new`): the producer's core has it while it grows.
A batch that is full is closed here, by the thread that filled it, and compressed; then `take_filled` returns it. Any
other open batch is closed by the core, with `close`, when it can be sent with a request.

Invariants
- The interpreter lock guards all state. Whatever could run other Python code (allocating an object the garbage
  collector tracks, a hook, compression, the clock given by a caller) happens before the state is read: after each such
  step `send` reads it again from the beginning. From the last read to the end of writing nothing else runs.
- A partition's batches are handed over in the order in which they are to be stored. At most one of them is open, and
  it is the last.
- `memory` counts every batch, open or closed, and its callbacks, until `release`.
- `hooks.wake()` is called at most once for each time the I/O thread sets `sleeping`. A record that opens a batch calls
  it only if the batch is due before `wakes_us`. The I/O thread sets `sleeping`, then calls `has_news()`, then waits: so
  it misses nothing that comes in between.
- A full batch is compressed by the thread that takes it out of `_unpacked` first. Senders leave up to `_LENT_MAX` of
  them to the I/O thread, so that two processors compress, and compress the rest themselves.
- In an event loop (`landing` is given) nothing here waits: hooks raise `MustWait`, compression is left to the I/O
  thread, and `send_async` calls `hooks.send_later` where it would have to wait. A call that is cancelled while it waits
  has not appended its record: appending is the last step.
- A loop that only calls `send` would hold the interpreter lock for 5 ms at a time. So a sender that has filled
  `_PAUSE_BYTES` waits without the lock until the I/O thread has taken them (or `_PAUSE_US` are over).

The file is long because the first invariant holds for all of `send`, its memory and the handing over together.
"""

from __future__ import annotations

from time import monotonic_ns

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_Check, PyBytes_GET_SIZE
from cython.cimports.cpython.list import PyList_GET_ITEM
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.ottla.records.awaiting import at_once
from cython.cimports.ottla.records.buffers import BufferPool
from cython.cimports.ottla.records.delivery import Delivery, SealedBatch
from cython.cimports.ottla.records.memory import BlockedCall, BufferMemory
from cython.cimports.ottla.records.partitions import Partition, Topic, key_rule
from cython.cimports.ottla.records.record_parts import (
    checked_callback,
    checked_partition,
    checked_timestamp,
    checked_topic,
    data_of,
    encode_headers,
    header_pairs,
    text_or_bytes,
    whole_number,
)
from cython.cimports.ottla.records.wire import (
    HEADER_BYTES,
    KeyRule,
    PyThread_acquire_lock,
    PyThread_acquire_lock_timed,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_get_thread_ident,
    PyThread_release_lock,
    PyThread_type_lock,
    likely,
    partition_of,
    put_bytes,
    put_varint,
    split_mix,
    unlikely,
    varint_bytes,
    wall_clock_ms,
    zigzag,
)

from ottla.errors import RecordError, fresh
from ottla.records.awaiting import MustWait
from ottla.records.compression import CODEC_IDS, check_level

_PAUSE_BYTES = cython.declare(cython.Py_ssize_t, 262144)
_PAUSE_US = cython.declare(cython.longlong, 2000)
# Memory of settled batches that is kept for new ones, beyond `buffer.memory`.
_KEPT_BYTES_MAX = cython.declare(cython.Py_ssize_t, 16 << 20)
# How many batches are left to the I/O thread to compress, and how many bytes it compresses before it sends them.
_LENT_MAX = cython.declare(cython.int, 2)
_PACKED_IN_A_TURN_BYTES = cython.declare(cython.Py_ssize_t, 262144)
# The memory of a callback until its batch is settled: a Delivery, and two list entries.
_CALLBACK_BYTES = cython.declare(cython.Py_ssize_t, 72)
# In an event loop: other tasks run after so many records in a row. While one coroutine waits for the I/O thread, the
# others wait, too, if so many bytes are in full batches.
_PAUSE_RECORDS = cython.declare(cython.int, 1000)
_PAUSE_BYTES_FOR_ALL = cython.declare(cython.Py_ssize_t, 1 << 20)
# The value of `_last_name` before any topic was looked up: no caller of `send` can have this object.
_NO_NAME = cython.declare(object, object())


@cython.final
@cython.cclass
class Appender:
    """All open batches of one producer.

    `hooks` has the methods of `Hooks`, `ProducerHooks` or, in an event loop, `CoroutineHooks` in append.pyi. `refusal`,
    an exception, says why no record is taken now. `landing` is a deque for callbacks that an event loop runs.
    `clock_us` and `clock_ms` (callables) replace the monotonic and the wall clock. `partitioner` is a short name of
    producer/partitioner_class.py. With `places`, `hooks.place(topic, key, call)` returns each record's partition; None
    leaves it to the partitioner.
    """

    sleeping = cython.declare(cython.bint, visibility="public")
    # When the I/O thread wakes by itself: for a batch that is due later it need not be woken.
    wakes_us = cython.declare(int64_t, visibility="public")
    refusal = cython.declare(object, visibility="public")
    memory = cython.declare(BufferMemory, visibility="readonly")
    records_appended = cython.declare(int64_t, visibility="readonly")
    batch_size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    max_request_size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    linger_us = cython.declare(int64_t, visibility="readonly")
    buffers = cython.declare(BufferPool, visibility="readonly")
    _memory_is_wanted = cython.declare(cython.bint)
    # Whether all open batches were made ready before their linger.ms was over; False again when a batch is opened.
    is_released = cython.declare(cython.bint, visibility="public")
    _open_bytes = cython.declare(int64_t)
    _partitions = cython.declare(cython.Py_ssize_t)
    _compression = cython.declare(str)
    _level = cython.declare(object)
    _codec_id = cython.declare(cython.int)
    _rule = cython.declare(KeyRule)
    _places = cython.declare(cython.bint)
    _clock_us = cython.declare(object)
    _clock_ms = cython.declare(object)
    _hooks = cython.declare(object)
    _random = cython.declare(uint64_t)
    _topics = cython.declare(dict)
    _last_name = cython.declare(object)
    _last_topic = cython.declare(Topic)
    # Batches not handed over yet; then batches that were handed over before they were finished, and are finished now.
    _new = cython.declare(list)
    _filled = cython.declare(list)
    _unpacked = cython.declare(list)
    # How many batches the I/O thread is compressing.
    _packing_there = cython.declare(cython.int)
    _untaken_bytes = cython.declare(cython.Py_ssize_t)
    _taker = cython.declare(cython.ulong)
    _pause_lock = cython.declare(PyThread_type_lock)
    _pause_awaited = cython.declare(cython.bint)
    _landing = cython.declare(object)
    pause_is_asked = cython.declare(cython.bint, visibility="public")
    # Whether `hooks.send_at_once` is called before the I/O thread is woken for a batch's first record.
    is_eager = cython.declare(cython.bint, visibility="public")
    _sends_in_a_row = cython.declare(cython.int)

    def __cinit__(self):
        self._pause_lock = PyThread_allocate_lock()
        if self._pause_lock == cython.NULL:
            raise MemoryError
        PyThread_acquire_lock(self._pause_lock, 0)
        self._last_name = _NO_NAME

    def __dealloc__(self):
        if self._pause_lock != cython.NULL:
            PyThread_free_lock(self._pause_lock)

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
        partitioner: str = "default",
        places: bool = False,
        ignore_keys: bool = False,
        seed: int = 0,
        landing: object = None,
        clock_us: object = None,
        clock_ms: object = None,
    ) -> None:
        check_level(compression, compression_level)
        # Not above max.request.size: then a record that is too large fits into no batch, and `_open` refuses it.
        self.batch_size = max(min(batch_size, max_request_size), HEADER_BYTES)
        self.max_request_size = max_request_size
        self.memory = BufferMemory(buffer_memory)
        self.linger_us = linger_us
        self.buffers = BufferPool(min(_KEPT_BYTES_MAX, buffer_memory // 2))
        self._compression = compression
        self._level = compression_level
        self._codec_id = CODEC_IDS[compression]
        self._rule = key_rule(partitioner, ignore_keys)
        self._places = places
        self._clock_us = clock_us
        self._clock_ms = clock_ms
        self._hooks = hooks
        self._random = seed & 0xFFFFFFFFFFFFFFFF
        self._landing = landing
        self._topics = {}
        self._new = []
        self._filled = []
        self._unpacked = []

    @property
    def buffered_bytes(self) -> int:
        """The memory of batches and callbacks, and what calls were given and have not used yet."""
        return self.memory.used_bytes

    @property
    def buffer_memory(self) -> int:
        """The setting `buffer.memory`."""
        return self.memory.limit_bytes

    @property
    def memory_waiters(self) -> int:
        """How many calls wait for memory."""
        return self.memory.waiting_count

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
        if unlikely(self._places):
            return self._send_placed(topic, value, key, headers, partition, timestamp_ms, on_delivery, None)
        return self._send(topic, value, key, headers, partition, timestamp_ms, on_delivery, None)

    def send_blocked(
        self,
        call: BlockedCall | None,
        topic: object,
        value: object,
        key: object,
        headers: object,
        partition: object,
        timestamp_ms: object,
        on_delivery: object,
    ) -> Delivery:
        """As `send`, for a call that has waited; the caller must `end` the call."""
        if self._places:
            return self._send_placed(topic, value, key, headers, partition, timestamp_ms, on_delivery, call)
        return self._send(topic, value, key, headers, partition, timestamp_ms, on_delivery, call)

    def send_async(
        self,
        topic: object,
        value: object = None,
        key: object = None,
        *,
        headers: object = None,
        partition: object = None,
        timestamp_ms: object = None,
        on_delivery: object = None,
    ) -> object:
        """As `send`, in an event loop: return an awaitable of the Delivery, which is done unless it has to wait."""
        if headers is not None and not isinstance(headers, list):
            # An iterator can be read only once, and headers may be read twice.
            headers = header_pairs(headers)
        least: cython.Py_ssize_t = _PAUSE_BYTES_FOR_ALL if self.pause_is_asked else _PAUSE_BYTES
        if self.memory.waiting_count == 0 and self._sends_in_a_row < _PAUSE_RECORDS and self._untaken_bytes < least:
            self._sends_in_a_row += 1
            try:
                if self._places:
                    return at_once(
                        self._send_placed(topic, value, key, headers, partition, timestamp_ms, on_delivery, None)
                    )
                return at_once(self._send(topic, value, key, headers, partition, timestamp_ms, on_delivery, None))
            except MustWait:
                pass
        return self._hooks.send_later(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    @cython.cfunc
    @cython.inline
    def _send(
        self,
        topic: object,
        value: object,
        key: object,
        headers: object,
        partition: object,
        timestamp_ms: object,
        on_delivery: object,
        call: BlockedCall | None,
    ) -> Delivery:
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
                value = text_or_bytes("value", value)
                value_at = data_of(value, cython.address(value_bytes))
        if key is not None:
            if likely(PyBytes_Check(key)):
                key_at = PyBytes_AS_STRING(key)
                key_bytes = PyBytes_GET_SIZE(key)
            else:
                key = text_or_bytes("key", key)
                key_at = data_of(key, cython.address(key_bytes))
        if headers is not None:
            extra = encode_headers(headers)
        if on_delivery is not None:
            checked_callback(on_delivery)
        if timestamp_ms is not None:
            timestamp = checked_timestamp(timestamp_ms)
        elif self._clock_ms is not None:
            timestamp = self._clock_ms()
        else:
            timestamp = wall_clock_ms()
        delivery: Delivery = Delivery.__new__(Delivery)
        return self._append(
            delivery, topic, value_at, value_bytes, key_at, key_bytes, extra, partition, timestamp, on_delivery, call
        )

    @cython.cfunc
    def _send_placed(
        self,
        topic: object,
        value: object,
        key: object,
        headers: object,
        partition: object,
        timestamp_ms: object,
        on_delivery: object,
        call: BlockedCall | None,
    ) -> Delivery:
        """As `_send`, with a partition from the user's function; separate, so that `_send` stays small."""
        own: cython.bint = call is None
        if own:
            call = BlockedCall()
        try:
            if partition is None:
                if key is not None and not PyBytes_Check(key):
                    given: object = text_or_bytes("key", key)
                    key_bytes: cython.Py_ssize_t = 0
                    key_at: cython.p_const_char = data_of(given, cython.address(key_bytes))
                    key = key_at[:key_bytes]
                partition = self._hooks.place(topic, key, call)
            return self._send(topic, value, key, headers, partition, timestamp_ms, on_delivery, call)
        finally:
            if own:
                self.end(call)

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
        call: BlockedCall | None,
    ) -> Delivery:
        state: Topic
        home: Partition
        index: int32_t
        body: cython.Py_ssize_t
        need: cython.Py_ssize_t
        keyed: cython.bint = key_bytes >= self._rule.least_bytes
        fixed: cython.Py_ssize_t = 1  # the attributes, and all that does not depend on the batch
        fixed += varint_bytes(zigzag(key_bytes)) + (key_bytes if key_bytes > 0 else 0)
        fixed += varint_bytes(zigzag(value_bytes)) + (value_bytes if value_bytes > 0 else 0)
        fixed += PyBytes_GET_SIZE(extra) if extra is not None else 1
        opened: cython.bint = False
        # Whether it has to wait first: for `wanted` bytes of memory, or for its topic (0).
        later: cython.bint = False
        wanted: int64_t = 0
        while True:
            if unlikely(self.refusal is not None):
                raise fresh(self.refusal)
            if likely(topic is self._last_name):
                state = self._last_topic
            else:
                state = self._topic(topic)
                if state is None:
                    if call is None:
                        wanted = 0
                        later = True
                        break
                    self._hooks.topic_missing(topic, call)
                    continue
            if partition is not None:
                if unlikely(not isinstance(partition, int)):
                    partition = whole_number(topic, partition, state.count)
                    continue
                index = checked_partition(topic, partition, state.count)
            elif keyed:
                index = partition_of(self._rule.hash, key_at, key_bytes, state.count)
            else:
                index = state.sticky
            home = cython.cast(Partition, PyList_GET_ITEM(state.partitions, index))
            if home.batch is not None:
                body = fixed + varint_bytes(zigzag(timestamp - home.base_timestamp))
                body += varint_bytes(zigzag(home.count))
                need = body + varint_bytes(zigzag(body))
                if likely(home.position + need <= home.capacity) or self._grow(home, home.position + need):
                    if on_delivery is None or self._takes_callback(call):
                        break
                    wanted = _CALLBACK_BYTES
                    later = True
                    break
                if partition is None and not keyed:
                    state.move_on(need, self._room(home), cython.address(self._random))
                self._fill(home)
                self._publish()
            else:
                body = fixed + 2  # deltas of 0
                need = body + varint_bytes(zigzag(body))
                if (
                    partition is None
                    and not keyed
                    and state.move_on(need, self._room(home), cython.address(self._random))
                ):
                    continue
                wanted = self._open(home, need, _CALLBACK_BYTES if on_delivery is not None else 0, call)
                if wanted == 0:
                    opened = True
                    break
                if wanted > 0:
                    later = True
                    break
        if unlikely(later):
            return self._append_later(
                delivery,
                topic,
                value_at,
                value_bytes,
                key_at,
                key_bytes,
                extra,
                partition,
                timestamp,
                on_delivery,
                call,
                wanted,
            )
        if home.count == 0:
            home.base_timestamp = home.max_timestamp = timestamp
        elif timestamp > home.max_timestamp:
            home.max_timestamp = timestamp
        to: cython.p_char = home.data + home.position
        to = put_varint(to, zigzag(body))
        to[0] = 0
        to = put_varint(to + 1, zigzag(timestamp - home.base_timestamp))
        to = put_varint(to, zigzag(home.count))
        to = put_bytes(to, key_at, key_bytes)
        to = put_bytes(to, value_at, value_bytes)
        if extra is None:
            to[0] = 0
        else:
            memcpy(to, PyBytes_AS_STRING(extra), PyBytes_GET_SIZE(extra))
        if partition is None and not keyed:
            state.sticky_bytes += need
            if unlikely(self._rule.in_rotation):
                state.rotate()
        delivery._batch = home.batch
        delivery._timestamp = timestamp
        delivery._row = home.count
        home.position += need
        home.count += 1
        if need > home.record_bytes_max:
            home.record_bytes_max = need
        self.records_appended += 1
        if on_delivery is not None:
            # Counted first: to make the list may let the I/O thread run, which may close the batch.
            home.callback_bytes += _CALLBACK_BYTES
            self._open_bytes += _CALLBACK_BYTES
            delivery._add_callback(on_delivery)
        if (
            opened
            and self.sleeping
            and home.due_us < self.wakes_us
            and not (self.is_eager and self._hooks.send_at_once())
        ):
            self._wake()
        return delivery

    @cython.cfunc
    @cython.exceptval(check=False)
    def _takes_callback(self, call: BlockedCall | None) -> cython.bint:
        """Take memory for a callback, first from what the call was given when it waited; False if there is none."""
        if call is not None and call.given_bytes >= _CALLBACK_BYTES:
            call.given_bytes -= _CALLBACK_BYTES
        elif self.memory.has_room(_CALLBACK_BYTES) or self.memory.used_bytes == 0:
            self.memory.add(_CALLBACK_BYTES)
        else:
            return False
        return True

    @cython.cfunc
    def _append_later(
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
        call: BlockedCall | None,
        nbytes: int64_t,
    ) -> Delivery:
        """Wait for `nbytes` of memory (0: for the topic only), then append; memory that is not used is given back."""
        own: cython.bint = call is None
        if own:
            call = BlockedCall()
        try:
            if nbytes:
                self._wait_for_memory(call, nbytes)
            return self._append(
                delivery,
                topic,
                value_at,
                value_bytes,
                key_at,
                key_bytes,
                extra,
                partition,
                timestamp,
                on_delivery,
                call,
            )
        finally:
            if own or self._landing is None:
                self.end(call)

    @cython.cfunc
    def _topic(self, name: object) -> Topic:
        """The topic's state; None if its metadata must be waited for."""
        checked_topic(name)
        state: Topic = self._topics.get(name)
        if state is None or state.count == 0:
            return None
        self._last_name = name
        self._last_topic = state
        return state

    # ------------------------------------------------------------------ opening, growing, closing

    @cython.cfunc
    @cython.exceptval(-2)
    def _open(self, home: Partition, need: cython.Py_ssize_t, extra: int64_t, call: BlockedCall | None) -> int64_t:
        """Give the partition an open batch with room for `need` bytes of record, and take `extra` bytes of memory.

        Returns 0 if this call opened it; nothing else has run since. -1: another call opened one, or records are
        refused now: begin again. Above 0: there is no memory; wait for so many bytes.
        """
        least: cython.Py_ssize_t = HEADER_BYTES + need
        if least > self.max_request_size:
            raise RecordError(
                f"A record for {home.topic}-{home.index} needs {least} bytes with its batch; max.request.size allows "
                f"{self.max_request_size}. Send less in one record, or raise max.request.size (and the topic's "
                "max.message.bytes)."
            )
        if least > self.memory.limit_bytes:
            raise RecordError(
                f"A record for {home.topic}-{home.index} needs {least} bytes; buffer.memory is "
                f"{self.memory.limit_bytes}. Send less in one record, or raise buffer_memory."
            )
        given: int64_t = 0 if call is None else call.given_bytes
        capacity: cython.Py_ssize_t = max(least, min(home.last_bytes, self._room(home)))
        if not self._has_room(capacity + extra, given):
            # Memory is short. With what is left, this batch and all after it would have a record or two each: wait for
            # a fair share instead.
            capacity = max(least, min(self.batch_size, self.memory.limit_bytes // (2 * self._partitions)))
            if not self._has_room(capacity + extra, given):
                return capacity + extra
        batch: SealedBatch = SealedBatch()
        buffer: bytearray = self.buffers.take(capacity)
        created_us: int64_t = self._now_us()
        # All that can run other code has run.
        if home.batch is not None or self.refusal is not None:
            return -1
        if not self._has_room(capacity + extra, given):
            return capacity + extra
        if given:
            # What the call was given is counted already.
            self.memory.add(capacity + extra - given)
            call.given_bytes = 0
        else:
            self.memory.add(capacity + extra)
        batch.created_us = created_us
        batch.is_open = True
        batch.is_finished = False
        batch._hooks = self._hooks
        batch._landing = self._landing
        batch._pool = self.buffers
        home.open(batch, buffer)
        home.due_us = created_us + self.linger_us
        self._open_bytes += capacity
        self._new.append(batch)
        self.is_released = False
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _has_room(self, nbytes: int64_t, given: int64_t) -> cython.bint:
        """Whether a call may take `nbytes` of memory: of what it was `given`, or, if that is 0, of the free memory."""
        return nbytes <= given or (given == 0 and self.memory.has_room(nbytes))

    @cython.cfunc
    @cython.exceptval(-1)
    def _grow(self, home: Partition, wanted: cython.Py_ssize_t) -> cython.bint:
        """Make room for `wanted` bytes in all; False when the batch would pass its limit or memory is short."""
        capacity: cython.Py_ssize_t = min(max(2 * home.capacity, wanted), self._room(home))
        if wanted > capacity or not self.memory.has_room(capacity - home.capacity):
            return False
        before: cython.Py_ssize_t = home.capacity
        home.resize(capacity)
        self.memory.add(capacity - before)
        self._open_bytes += capacity - before
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _room(self, home: Partition) -> cython.Py_ssize_t:
        """How large a batch may be before compression: `batch_size` is the size after it (as in Java)."""
        if home.room <= self.batch_size:
            return self.batch_size
        return max(self.batch_size, min(home.room, self.max_request_size))

    @cython.cfunc
    def _seal(self, home: Partition) -> SealedBatch:
        """Close the open batch. Nothing else runs meanwhile; it is compressed afterwards."""
        batch: SealedBatch = home.batch
        capacity: cython.Py_ssize_t = home.capacity
        home.close()
        batch.is_open = False
        self.memory.add(batch.size_bytes - capacity)
        self._open_bytes -= capacity + home.callback_bytes
        return batch

    @cython.cfunc
    def _fill(self, home: Partition) -> object:
        """Close a batch that is full, or that must come before others; `_publish` does what may take long."""
        batch: SealedBatch = self._seal(home)
        self._untaken_bytes += batch.size_bytes
        if self._codec_id:
            self._unpacked.append(batch)
        else:
            self._finish(batch)
        return None

    @cython.cfunc
    def _finish(self, batch: SealedBatch) -> object:
        """Mark the batch as finished: it can be sent."""
        batch.is_finished = True
        if batch._is_handed_over:
            self._filled.append(batch)
        return None

    def close(self, batch: SealedBatch) -> bool:
        """Close a batch that was handed over, if it is open, and compress it; False while another thread does that."""
        home: Partition = batch._home
        if batch.is_open:
            self._seal(home)
            # While this is above 0, senders do not wait for the I/O thread: see `_publish`.
            self._packing_there += 1
            try:
                if self._codec_id:
                    self._compressed(batch)
            except MemoryError:
                pass  # it is sent uncompressed
            finally:
                self._packing_there -= 1
                batch.is_finished = True
        return batch.is_finished

    def lend(self, batch: SealedBatch) -> bool:
        """Leave it to the I/O thread to compress a table's batch that `add_sealed` will queue; False if it is busy."""
        if len(self._unpacked) + self._packing_there >= self._lendable():
            return False
        batch.is_finished = False
        self._unpacked.append(batch)
        if self.sleeping:
            self._wake()
        return True

    @cython.cfunc
    def _publish(self) -> object:
        """After a batch was closed: compress what is not left to the I/O thread, wake that thread, and let it run.

        In an event loop that would stop all other tasks: there the I/O thread compresses, and `hooks.send_later` waits.
        """
        if self._landing is None:
            while len(self._unpacked) + self._packing_there > self._lendable():
                if not self._compress_next():
                    break
        if self.sleeping:
            self._wake()
        elif self._untaken_bytes >= _PAUSE_BYTES and self._landing is None and not self._packing_there:
            self._give_way()
        return None

    @cython.cfunc
    @cython.exceptval(check=False)
    def _lendable(self) -> cython.int:
        """How many batches may wait for the I/O thread to compress them: none if there is no such thread."""
        return 0 if self._taker == 0 or self._taker == PyThread_get_thread_ident() else _LENT_MAX

    @cython.cfunc
    @cython.exceptval(-1)
    def _compress_next(self) -> cython.Py_ssize_t:
        """Compress the first batch that no thread has taken yet; returns its size, 0 if there is none."""
        if not self._unpacked:
            return 0
        batch: SealedBatch = self._unpacked.pop(0)
        size: cython.Py_ssize_t = batch.size_bytes
        try:
            self._compressed(batch)
        except MemoryError:
            pass  # it is sent uncompressed
        finally:
            # Also after KeyboardInterrupt: the batch is sent uncompressed, and the I/O thread is woken for it.
            self._finish(batch)
            if self.sleeping:
                self._wake()
        return size

    @cython.cfunc
    def _compress_there(self) -> object:
        """Compress in the I/O thread: enough to have something to send."""
        left: cython.Py_ssize_t = _PACKED_IN_A_TURN_BYTES
        while self._unpacked and left > 0:
            self._packing_there += 1
            try:
                left -= self._compress_next()
            finally:
                self._packing_there -= 1
        return None

    @cython.cfunc
    def _compressed(self, batch: SealedBatch) -> object:
        if batch._buffer is None:
            return None
        home: Partition = batch._home
        uncompressed: cython.Py_ssize_t = batch.size_bytes
        saved: cython.Py_ssize_t = batch._pack(self._compression, self._level)
        # A batch of a table that is not queued yet has no hooks, and its memory is not counted yet.
        if batch._hooks is not None:
            self.memory.add(-saved)
        # With batch.size=0 every batch has one record, whatever its ratio; batches of tables have their own sizes.
        if home is not None and batch.first_row < 0 and self.batch_size > HEADER_BYTES:
            home.learn_ratio(uncompressed, uncompressed - saved, self.batch_size)
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
    def _wait_for_memory(self, call: BlockedCall, nbytes: int64_t) -> object:
        self._hooks.check_usable()
        if self._landing is None:
            self._compress_next()
        self.memory.join(call, nbytes)
        if not call.is_waiting:
            return None
        self._memory_is_wanted = True
        if self.sleeping:
            self._wake()
        self._hooks.memory_wanted(call)
        return None

    @cython.cfunc
    def _give_way(self) -> object:
        """Release the interpreter lock until the I/O thread has taken the full batches, or `_PAUSE_US` are over."""
        if self._taker == 0 or self._pause_awaited or self._taker == PyThread_get_thread_ident():
            return None
        PyThread_acquire_lock(self._pause_lock, 0)  # in case it was released after an earlier wait had timed out
        self._pause_awaited = True
        with cython.nogil:
            PyThread_acquire_lock_timed(self._pause_lock, _PAUSE_US, 0)
        self._pause_awaited = False
        self._untaken_bytes = 0
        return None

    def pause_is_due(self) -> bool:
        """In an event loop: whether full batches have so many bytes that the I/O thread should take them first."""
        self._sends_in_a_row = 0
        return self._untaken_bytes >= _PAUSE_BYTES

    def set_topic(self, topic: str, partition_count: int) -> None:
        """Set how many partitions the topic has by the metadata."""
        if partition_count < 1:
            raise ValueError(f"Topic {topic!r} cannot have {partition_count} partitions.")
        state: Topic = self._topics.get(topic)
        if state is None:
            state = Topic()
            if not self._rule.in_rotation:
                state.sticky = split_mix(cython.address(self._random)) % cython.cast(uint32_t, partition_count)
        self._partitions += partition_count - state.count
        state.set_count(topic, partition_count)
        self._topics[topic] = state

    def set_load(self, topic: str, load: object) -> None:
        """From now on send keyless records to the topic as this PartitionLoad says; None: to all partitions alike."""
        state: Topic = self._topics.get(topic)
        if state is not None:
            state.set_load(load, cython.address(self._random))

    def forget_topic(self, topic: str) -> None:
        """Have the next `send` to the topic call `hooks.topic_missing` again; what is buffered stays."""
        state: Topic = self._topics.get(topic)
        if state is not None:
            state.load = None
            self._partitions -= state.count
            state.count = 0  # the partitions stay: their batches must stay in order when the topic is known again
        self._last_name = _NO_NAME
        self._last_topic = None

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic is known to have; 0 when it is not known."""
        state: Topic = self._topics.get(topic)
        return 0 if state is None else state.count

    def take_new(self) -> list:
        """Hand over the batches that are new since the last call, open ones too, each partition's in order.

        Called by the I/O thread, or by another thread while that one sleeps; by one at a time. It compresses some of
        the full batches first.
        """
        batch: SealedBatch
        if not self.sleeping or self._taker == 0:
            self._taker = PyThread_get_thread_ident()
        self._untaken_bytes = 0
        self.pause_is_asked = False
        self._memory_is_wanted = False
        # Before compressing, for which senders need not wait.
        if self._pause_awaited:
            self._pause_awaited = False
            PyThread_release_lock(self._pause_lock)
        if self._unpacked:
            self._compress_there()
        if not self._new:
            return []
        # The list that is returned must not get new batches.
        taken: list = self._new
        self._new = []
        for batch in taken:
            batch._is_handed_over = True
        return taken

    def take_filled(self) -> list:
        """Hand over the batches that `take_new` returned before they were finished, and that are finished now."""
        if not self._filled:
            return []
        taken: list = self._filled
        self._filled = []
        return taken

    def end(self, call: BlockedCall) -> None:
        """End a call: give back the memory that it did not use.

        Wakes the I/O thread if other calls have got memory by this. Also if calls still wait and open batches have most
        of the memory: then these batches must be sent, and the call that opened one may not have woken the I/O thread.
        """
        self.memory.end(call)
        if self.sleeping and (self.memory.has_served or (not self.is_released and self._is_short())):
            self._wake()

    def has_news(self) -> bool:
        """Whether the I/O thread has batches to take, waiting calls to wake, or open batches to make ready."""
        return bool(
            self._new
            or self._filled
            or self._unpacked
            or self._memory_is_wanted
            or self.memory.has_served
            or (not self.is_released and self._is_short())
        )

    @property
    def is_short_of_memory(self) -> bool:
        """Whether calls wait for memory and open batches have at least half of that in use, so must be sent."""
        return self._is_short()

    @cython.cfunc
    @cython.exceptval(check=False)
    def _is_short(self) -> cython.bint:
        return self.memory.waiting_count > 0 and 2 * self._open_bytes >= self.memory.used_bytes

    def add_sealed(self, batches: object) -> None:
        """Queue closed batches in order, each behind the open batch of its partition; waits for memory.

        Those given to `lend` before are finished when the I/O thread has compressed them.
        """
        batch: SealedBatch
        for batch in batches:
            self._add(batch)

    @cython.cfunc
    def _add(self, batch: SealedBatch) -> object:
        state: Topic
        home: Partition
        # Each batch may wait for `max.block.ms`: a table may be larger than `buffer.memory`.
        call: BlockedCall = BlockedCall()
        created_us: int64_t
        is_filled: cython.bint
        try:
            while True:
                # Read in each round: the delivery timeout begins when the batch need not wait any more.
                created_us = self._now_us()
                if self.refusal is not None:
                    raise fresh(self.refusal)
                state = self._topic(batch.topic)
                if state is None:
                    self._hooks.topic_missing(batch.topic, call)
                    continue
                if self._has_room(batch.buffer_bytes, call.given_bytes) or self.memory.used_bytes == 0:
                    break
                self._wait_for_memory(call, batch.buffer_bytes)
            home = state.partitions[checked_partition(batch.topic, batch.partition, state.count)]
            # Nothing else runs from here to the end of this block. Of a batch that was given to `lend`, the thread that
            # compresses it checks `_hooks`: if set, its memory is counted.
            self.memory.add(batch.buffer_bytes - call.given_bytes)
            call.given_bytes = 0
            is_filled = home.batch is not None
            if is_filled:
                self._fill(home)
            batch.created_us = created_us
            batch._hooks = self._hooks
            batch._landing = self._landing
            batch._home = home
            self.records_appended += batch.record_count
            self._new.append(batch)
            self._untaken_bytes += batch.size_bytes
        finally:
            self.end(call)
        if is_filled and self._landing is None:
            self._publish()
        elif self.sleeping:
            self._wake()
        elif self._untaken_bytes >= _PAUSE_BYTES and not self._packing_there:
            self._give_way()
        return None

    def release(self, nbytes: int) -> None:
        """Give back the memory of a settled batch (its `buffer_bytes`)."""
        self.memory.add(-nbytes)

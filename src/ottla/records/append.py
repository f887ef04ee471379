"""One record into its partition's open batch: the only path that runs once per record (compiled).

`Appender.send` checks the record, picks its partition (a hash of the key, KIP-794's sticky partition, or the next in
turn), writes it in wire format straight behind the records already in that partition's open batch, and returns a
`Delivery`. Everything behind it works per batch: the I/O thread calls `take_ready`, `assign`s producer id and
sequence, sends `buffers()` and settles the batch by `complete`, `fail` or `lose`.

Invariants
- The interpreter lock guards all state. Whatever could run other Python code (allocating an object the garbage
  collector tracks, a hook, compression, the clock given by a caller) happens before the state is looked at: `send`
  looks again from the beginning after each such step, and from the last look to the end of writing nothing else runs.
- A partition's batches are handed out in the order in which they were sealed, also while one of them is still being
  compressed by another thread.
- `buffered_bytes` counts the memory of every open and sealed batch, and of its callbacks, until `release`; only
  `add_sealed` with nothing else buffered may pass `buffer_memory`.
- `hooks.wake()` is called at most once for each time the I/O thread sets `sleeping`. The I/O thread sets `sleeping`,
  then asks `linger_deadline_us()`, then waits: what arrives in between is in that answer.
- A sealed batch is compressed by whichever thread comes for it first: it stands in `_unpacked` until one takes it out,
  and counts in `_compressing` until that one is done. Senders leave `_LENT_MAX` of them to the I/O thread, so that two
  processors compress, and see to the rest themselves.
- In an event loop (`landing` is given) nothing here waits: hooks raise `MustWait`, compression is left to the I/O
  thread, and `send_async` hands over to `hooks.send_later` where it would have to wait. Who is cancelled while it
  waits has not been appended: appending is the last thing that happens.
- A tight `send` loop would keep the interpreter lock for itself, 5 ms at a time. So a sender that has sealed
  `_TURN_BYTES` without the I/O thread coming for them waits, without the lock, until it has (or `_TURN_US` are over).

The file is a little long because `send`, the memory it takes and the handing over keep the first invariant together.
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

from ottla.errors import RecordError
from ottla.records.awaiting import MustWait
from ottla.records.compression import CODEC_IDS, check_level

_TURN_BYTES = cython.declare(cython.Py_ssize_t, 262144)
_TURN_US = cython.declare(cython.longlong, 2000)
# Memory of settled batches that is kept for others, beyond `buffer.memory`: what is sealed and sent at once.
_KEPT_BYTES_MAX = cython.declare(cython.Py_ssize_t, 16 << 20)
# So many batches are left to the I/O thread to compress; and in one turn it compresses so much, then it sends that.
_LENT_MAX = cython.declare(cython.int, 2)
_PACKED_IN_A_TURN_BYTES = cython.declare(cython.Py_ssize_t, 262144)
# What a callback keeps alive until its batch is settled: a Delivery, and a place in a list for each of the two.
_CALLBACK_BYTES = cython.declare(cython.Py_ssize_t, 72)
# In an event loop: so many records in a row, then others get their turn; and so much may be sealed while one of its
# coroutines waits for the I/O thread, until all of them do.
_TURN_RECORDS = cython.declare(cython.int, 1000)
_TURN_BYTES_FOR_ALL = cython.declare(cython.Py_ssize_t, 1 << 20)
# Stands where no topic was looked up last. `send` may be given anything, None too, but never this.
_NO_NAME = cython.declare(object, object())


@cython.final
@cython.cclass
class Appender:
    """All open batches of one producer; see the module's words on who calls what.

    `hooks` has `topic_missing(topic)`, `memory_wanted(nbytes)`, `wake()`, `wait(batch, timeout_s)`, `is_awaited(batch)`
    and `check_usable()`; in an event loop also `send_later`, which takes what `send` takes. `landing`, a deque, is
    where callbacks go that an event loop is to run. `clock_us` and `clock_ms` (callables) replace the monotonic and
    the wall clock. `partitioner` is a short name of producer/partitioner_class.py; with `places`,
    `hooks.place(topic, key)` is asked for each record's partition first, and may leave it to the partitioner by None.
    """

    sleeping = cython.declare(cython.bint, visibility="public")
    closed_error = cython.declare(object, visibility="public")
    buffered_bytes = cython.declare(int64_t, visibility="readonly")
    records_appended = cython.declare(int64_t, visibility="readonly")
    batch_size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    max_request_size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    buffer_memory = cython.declare(int64_t, visibility="readonly")
    linger_us = cython.declare(int64_t, visibility="readonly")
    buffers = cython.declare(BufferPool, visibility="readonly")
    memory_waiters = cython.declare(cython.int, visibility="readonly")
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
    _first_open = cython.declare(Partition)
    _last_open = cython.declare(Partition)
    _sealed = cython.declare(list)
    _unpacked = cython.declare(list)
    _compressing = cython.declare(cython.int)
    # How many batches the I/O thread has taken to compress and is not done with.
    _packing_there = cython.declare(cython.int)
    _turn = cython.declare(int64_t)
    _untaken_bytes = cython.declare(cython.Py_ssize_t)
    _taker = cython.declare(cython.ulong)
    _turn_lock = cython.declare(PyThread_type_lock)
    _turn_awaited = cython.declare(cython.bint)
    _landing = cython.declare(object)
    turn_is_asked = cython.declare(cython.bint, visibility="public")
    # Whether `hooks.send_at_once` is asked before the I/O thread is woken for a first record.
    is_eager = cython.declare(cython.bint, visibility="public")
    _sends_in_a_row = cython.declare(cython.int)

    def __cinit__(self):
        self._turn_lock = PyThread_allocate_lock()
        if self._turn_lock == cython.NULL:
            raise MemoryError
        PyThread_acquire_lock(self._turn_lock, 0)
        self._last_name = _NO_NAME

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
        partitioner: str = "default",
        places: bool = False,
        ignore_keys: bool = False,
        seed: int = 0,
        landing: object = None,
        clock_us: object = None,
        clock_ms: object = None,
    ) -> None:
        check_level(compression, compression_level)
        # So a record that max.request.size does not allow fits into no batch, and `_open` refuses it.
        self.batch_size = max(min(batch_size, max_request_size), HEADER_BYTES)
        self.max_request_size = max_request_size
        self.buffer_memory = buffer_memory
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
        self._sealed = []
        self._unpacked = []

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
        return self._send(topic, value, key, headers, partition, timestamp_ms, on_delivery)

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
        """`send` in an event loop: an awaitable of the Delivery, done already unless there is something to wait for."""
        if headers is not None and not isinstance(headers, list):
            # An iterator gives them once only, and they may be asked for twice.
            headers = header_pairs(headers)
        least: cython.Py_ssize_t = _TURN_BYTES_FOR_ALL if self.turn_is_asked else _TURN_BYTES
        if self.memory_waiters == 0 and self._sends_in_a_row < _TURN_RECORDS and self._untaken_bytes < least:
            self._sends_in_a_row += 1
            try:
                return at_once(self._send(topic, value, key, headers, partition, timestamp_ms, on_delivery))
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
        if unlikely(self._places):
            partition = self._placed(topic, key_at, key_bytes, partition)
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
            delivery, topic, value_at, value_bytes, key_at, key_bytes, extra, partition, timestamp, on_delivery
        )

    @cython.cfunc
    def _placed(
        self, topic: object, key_at: cython.p_const_char, key_bytes: cython.Py_ssize_t, partition: object
    ) -> object:
        """The partition given, or what the user's function says; apart, so that `_send` stays small for all others."""
        if partition is not None:
            return partition
        return self._hooks.place(topic, None if key_bytes < 0 else key_at[:key_bytes])

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
        keyed: cython.bint = key_bytes >= self._rule.least_bytes
        fixed: cython.Py_ssize_t = 1  # the attributes, and all that does not depend on the batch
        fixed += varint_bytes(zigzag(key_bytes)) + (key_bytes if key_bytes > 0 else 0)
        fixed += varint_bytes(zigzag(value_bytes)) + (value_bytes if value_bytes > 0 else 0)
        fixed += PyBytes_GET_SIZE(extra) if extra is not None else 1
        opened: cython.bint = False
        while True:
            if unlikely(self.closed_error is not None):
                raise self.closed_error
            if (
                on_delivery is not None
                and self.buffered_bytes > 0
                and self.buffered_bytes + _CALLBACK_BYTES > self.buffer_memory
            ):
                self._wait_for_memory(_CALLBACK_BYTES)
                continue
            if likely(topic is self._last_name):
                state = self._last_topic
            else:
                state = self._topic(topic)
                if state is None:
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
                if likely(home.position + need <= home.capacity):
                    break
                if self._grow(home, home.position + need):
                    break
                if partition is None and not keyed:
                    state.move_on(need, self._room(home), cython.address(self._random))
                self._seal(home)
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
        to = put_bytes(to, key_at, key_bytes)
        to = put_bytes(to, value_at, value_bytes)
        if extra is None:
            to[0] = 0
        else:
            memcpy(to, PyBytes_AS_STRING(extra), PyBytes_GET_SIZE(extra))
        if partition is None and not keyed:
            state.sticky_bytes += need
            if unlikely(self._rule.in_turn):
                state.take_turn()
        delivery._batch = home.batch
        delivery._timestamp = timestamp
        delivery._row = home.count
        home.position += need
        home.count += 1
        if need > home.record_bytes_max:
            home.record_bytes_max = need
        self.records_appended += 1
        if on_delivery is not None:
            # Counted first: making the list may let the I/O thread seal the batch.
            home.callback_bytes += _CALLBACK_BYTES
            self._open_bytes += _CALLBACK_BYTES
            self.buffered_bytes += _CALLBACK_BYTES
            delivery._add_callback(on_delivery)
        if (
            opened
            and self.sleeping
            and (self.linger_us == 0 or self._first_open is home)
            and not (self.is_eager and self._hooks.send_at_once())
        ):
            self._wake()
        return delivery

    @cython.cfunc
    def _topic(self, name: object) -> Topic:
        """The topic's state, or None after having waited for it: look again."""
        checked_topic(name)
        state: Topic = self._topics.get(name)
        if state is None or state.count == 0:
            self._hooks.check_usable()
            self._hooks.topic_missing(name)
            return None
        self._last_name = name
        self._last_topic = state
        return state

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
                f"A record for {home.topic}-{home.index} needs {least} bytes; buffer.memory is {self.buffer_memory}. "
                "Send less in one record, or raise buffer_memory."
            )
        capacity: cython.Py_ssize_t = max(least, min(home.last_bytes, self._room(home)))
        if self.buffered_bytes + capacity > self.buffer_memory:
            # Memory is short. A batch that took the little that is left would leave with a record or two in it, and
            # so would all after it; wait for a fair share instead.
            capacity = max(least, min(self.batch_size, self.buffer_memory // (2 * self._partitions)))
            if self.buffered_bytes + capacity > self.buffer_memory:
                self._wait_for_memory(capacity)
                return False
        batch: SealedBatch = SealedBatch()
        buffer: bytearray = self.buffers.take(capacity)
        created_us: int64_t = self._now_us()
        # All that can run other code has run.
        if home.batch is not None or self.closed_error is not None:
            return False
        if self.buffered_bytes + capacity > self.buffer_memory:
            return False
        batch.created_us = created_us
        batch._hooks = self._hooks
        batch._landing = self._landing
        batch._pool = self.buffers
        home.open(batch, buffer)
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
        """Make room for `wanted` bytes in all; False when the batch would pass its limit or memory is short."""
        capacity: cython.Py_ssize_t = min(max(2 * home.capacity, wanted), self._room(home))
        if wanted > capacity or self.buffered_bytes + capacity - home.capacity > self.buffer_memory:
            return False
        before: cython.Py_ssize_t = home.capacity
        home.resize(capacity)
        self.buffered_bytes += capacity - before
        self._open_bytes += capacity - before
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _room(self, home: Partition) -> cython.Py_ssize_t:
        """What a batch may hold before compression: `batch_size` is meant for what is stored (as in Java)."""
        if home.room <= self.batch_size:
            return self.batch_size
        return max(self.batch_size, min(home.room, self.max_request_size))

    @cython.cfunc
    def _seal(self, home: Partition) -> SealedBatch:
        """Close the open batch and queue it. Nothing else runs meanwhile; `_publish` does what may take long."""
        batch: SealedBatch = home.batch
        capacity: cython.Py_ssize_t = home.capacity
        home.close()
        self.buffered_bytes -= capacity - batch.size_bytes
        self._open_bytes -= capacity + home.callback_bytes
        self._unlink(home)
        if self._codec_id:
            self._leave(batch)
        self._sealed.append(batch)
        self._untaken_bytes += batch.size_bytes
        return batch

    @cython.cfunc
    def _leave(self, batch: SealedBatch) -> object:
        """Have the batch compressed by whoever comes for it first."""
        batch._compressing = True
        self._compressing += 1
        self._unpacked.append(batch)
        return None

    def lend(self, batch: SealedBatch) -> bool:
        """Have the I/O thread compress a batch of a table that `add_sealed` is to queue soon; False when it is busy."""
        if len(self._unpacked) + self._packing_there >= self._lendable():
            return False
        self._leave(batch)
        if self.sleeping:
            self._wake()
        return True

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
    def _publish(self) -> object:
        """Something was just sealed: compress what is there to do, tell the I/O thread, and let it have its turn.

        In an event loop others would stand still: the I/O thread compresses, and giving way is `hooks.send_later`'s.
        """
        if self._landing is None:
            while len(self._unpacked) + self._packing_there > self._lendable():
                if not self._compress_next():
                    break
        if self.sleeping:
            self._wake()
        elif self._untaken_bytes >= _TURN_BYTES and self._landing is None and not self._packing_there:
            self._give_way()
        return None

    @cython.cfunc
    @cython.exceptval(check=False)
    def _lendable(self) -> cython.int:
        """How many batches may wait for the I/O thread to compress them: none where there is no such thread."""
        return 0 if self._taker == 0 or self._taker == PyThread_get_thread_ident() else _LENT_MAX

    @cython.cfunc
    @cython.exceptval(-1)
    def _compress_next(self) -> cython.Py_ssize_t:
        """Compress the first batch that nobody has taken yet, where it lies in the queue; how large it was, 0 for none.

        `_hold_back` keeps it in the queue until this is done.
        """
        if not self._unpacked:
            return 0
        batch: SealedBatch = self._unpacked.pop(0)
        size: cython.Py_ssize_t = batch.size_bytes
        try:
            self._pack(batch)
        finally:
            # What memory was too short for, or Ctrl+C came before, goes as it is: nothing is lost.
            batch._compressing = False
            self._compressing -= 1
        return size

    @cython.cfunc
    def _compress_there(self, everything: cython.bint) -> object:
        """The I/O thread's share: `everything`, or what is enough to have something to send."""
        left: cython.Py_ssize_t = _PACKED_IN_A_TURN_BYTES
        while self._unpacked and (everything or left > 0):
            self._packing_there += 1
            try:
                left -= self._compress_next()
            finally:
                self._packing_there -= 1
        return None

    @cython.cfunc
    def _pack(self, batch: SealedBatch) -> object:
        home: Partition = batch._home
        uncompressed: cython.Py_ssize_t = batch.size_bytes
        saved: cython.Py_ssize_t = batch._pack(self._compression, self._level)
        # What is not queued yet is not counted yet.
        if batch._hooks is not None:
            self.buffered_bytes -= saved
        # With batch.size=0 every record goes alone, however small it gets; and tables have sizes of their own.
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
    def _wait_for_memory(self, nbytes: cython.Py_ssize_t) -> object:
        self._hooks.check_usable()
        if self._landing is None and self._compress_next():
            return None  # what it became takes less
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

    def turn_is_due(self) -> bool:
        """In an event loop: whether what is sealed waits for the I/O thread, which should come for it first."""
        self._sends_in_a_row = 0
        return self._untaken_bytes >= _TURN_BYTES

    def waits_for_memory(self, waits: bool) -> None:
        """In an event loop: somebody begins to wait for memory, or has ended it; open batches hold some."""
        self.memory_waiters += 1 if waits else -1
        if waits and self.sleeping:
            self._wake()

    def set_topic(self, topic: str, partition_count: int) -> None:
        """Metadata says: the topic has this many partitions."""
        if partition_count < 1:
            raise ValueError(f"Topic {topic!r} cannot have {partition_count} partitions.")
        state: Topic = self._topics.get(topic)
        if state is None:
            state = Topic()
            if not self._rule.in_turn:
                state.sticky = split_mix(cython.address(self._random)) % cython.cast(uint32_t, partition_count)
        self._partitions += state.set_count(topic, partition_count)
        self._topics[topic] = state

    def set_load(self, topic: str, load: object) -> None:
        """The core says: from now on keyless records to the topic go where this PartitionLoad says (None: anywhere)."""
        state: Topic = self._topics.get(topic)
        if state is not None:
            state.set_load(load, cython.address(self._random))

    def forget_topic(self, topic: str) -> None:
        """The next `send` to the topic asks `hooks.topic_missing` again; what is buffered stays."""
        state: Topic = self._topics.get(topic)
        if state is not None:
            state.load = None
            state.count = 0  # the partitions stay: their order must hold when the topic is known again
        self._last_name = _NO_NAME
        self._last_topic = None

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic is known to have; 0 when it is not known."""
        state: Topic = self._topics.get(topic)
        return 0 if state is None else state.count

    def take_ready(self, now_us: int, force: bool = False) -> list:
        """Hand over what is sealed, and (sealing them) the batches whose linger is over; all with `force`.

        So are all where somebody waits for memory that open batches hold. For the thread that does the I/O, or for
        another while that one sleeps, one at a time.
        """
        now: int64_t = now_us
        everything: cython.bint = force or self._open_ones_must_go()
        home: Partition
        if not self.sleeping or self._taker == 0:
            self._taker = PyThread_get_thread_ident()
        while self._first_open is not None:
            home = self._first_open
            if not everything and home.batch.created_us + self.linger_us > now:
                break
            self._seal(home)
        self._untaken_bytes = 0
        self.turn_is_asked = False
        # Before compressing, which others need not wait for.
        if self._turn_awaited:
            self._turn_awaited = False
            PyThread_release_lock(self._turn_lock)
        if self._unpacked:
            self._compress_there(force)
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
        if self._unpacked or (self._sealed and not self._compressing):
            return 0
        home: Partition = self._first_open
        if home is None:
            return None
        return 0 if self._open_ones_must_go() else home.batch.created_us + self.linger_us

    def add_sealed(self, batches: object) -> None:
        """Queue finished batches in order, each behind the open batch of its partition, waiting for memory.

        Those that were lent are finished when the I/O thread has compressed them.
        """
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
            home = state.partitions[checked_partition(batch.topic, batch.partition, state.count)]
            earlier = self._seal(home) if home.batch is not None else None
            batch.created_us = created_us
            batch._hooks = self._hooks
            batch._landing = self._landing
            batch._home = home
            self.buffered_bytes += batch.buffer_bytes
            self.records_appended += batch.record_count
            self._sealed.append(batch)
            self._untaken_bytes += batch.size_bytes
            if earlier is not None and self._landing is None:
                self._publish()
            elif self.sleeping:
                self._wake()
            elif self._untaken_bytes >= _TURN_BYTES and not self._packing_there:
                self._give_way()

    def release(self, nbytes: int) -> None:
        """Give back the memory of a settled batch (its `buffer_bytes`)."""
        self.buffered_bytes -= nbytes

"""Where records go: a topic's partitions with their open batches, and its sticky partition (compiled, KIP-794).

An `Appender` looks a `Topic` up by name, picks one of its `Partition`s and writes the record behind what is already
in that partition's open batch. Both classes are C fields that partitions.pxd lays open to the compiled modules;
Python sees nothing of them.

Invariants
- A topic never loses a partition, whatever metadata says later: batches of it may be open or sealed, and their order
  has to hold when the partition is known again. `count` says how many are known now, 0 when the topic is not.
- A partition is in its appender's row of open batches (`earlier`, `later`) exactly as long as `batch` is not None.
- The sticky partition moves on only between batches: once `batch_size` bytes of keyless records went to it. So
  partitions get equal shares of bytes, however slow one of them is.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_Resize
from cython.cimports.libc.stdint import int32_t, uint32_t, uint64_t
from cython.cimports.ottla.records.delivery import SealedBatch
from cython.cimports.ottla.records.wire import HEADER_BYTES, put_header, split_mix

_FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 2048)


@cython.final
@cython.cclass
class Partition:
    """A partition's open batch while records are written into it, and its place in the row of open batches."""

    def __cinit__(self, topic: str, index: int):
        self.topic = topic
        self.index = index
        self.last_bytes = _FIRST_CAPACITY
        self.held_in_turn = -1

    @cython.cfunc
    def open(self, batch: SealedBatch, buffer: bytearray) -> object:
        """Have the records to come written into `buffer`."""
        batch.topic = self.topic
        batch.partition = self.index
        batch._home = self
        batch._buffer = buffer
        self.batch = batch
        self.data = PyByteArray_AS_STRING(buffer)
        self.capacity = len(buffer)
        self.position = HEADER_BYTES
        self.count = 0
        self.record_bytes_max = 0
        self.callback_bytes = 0
        return None

    @cython.cfunc
    def resize(self, capacity: cython.Py_ssize_t) -> object:
        """Give the open batch this much room, or cut off what it did not need."""
        PyByteArray_Resize(self.batch._buffer, capacity)
        self.data = PyByteArray_AS_STRING(self.batch._buffer)
        self.capacity = capacity
        return None

    @cython.cfunc
    def close(self) -> object:
        """Finish the open batch: its header, and what it says of itself."""
        batch: SealedBatch = self.batch
        self.resize(self.position)
        self.last_bytes = self.position
        batch.record_count = self.count
        batch.base_timestamp = self.base_timestamp
        batch.max_timestamp = self.max_timestamp
        batch.size_bytes = batch.uncompressed_bytes = self.position
        batch.buffer_bytes = self.position + self.callback_bytes
        batch.record_bytes_max = self.record_bytes_max
        put_header(self.data, self.position, 0, self.count, self.base_timestamp, self.max_timestamp)
        self.batch = None
        return None


@cython.final
@cython.cclass
class Topic:
    """A topic's partitions, as far as metadata told, and its sticky partition."""

    def __cinit__(self):
        self.partitions = []

    @cython.cfunc
    @cython.exceptval(-1)
    def set_count(self, name: str, count: int32_t) -> int32_t:
        """Metadata says: the topic has this many partitions; how many of them were never heard of."""
        known: int32_t = len(self.partitions)
        while len(self.partitions) < count:
            self.partitions.append(Partition(name, len(self.partitions)))
        self.count = count
        if self.sticky >= count:
            self.sticky = 0
        return len(self.partitions) - known

    @cython.cfunc
    @cython.exceptval(check=False)
    def move_on(
        self, need: cython.Py_ssize_t, batch_size: cython.Py_ssize_t, random: cython.pointer(uint64_t)
    ) -> cython.bint:
        """Choose another sticky partition once a batch's worth went to this one; whether it was time to."""
        if self.sticky_bytes == 0 or self.sticky_bytes + need + HEADER_BYTES <= batch_size:
            return False
        self.sticky_bytes = 0
        if self.count > 1:
            step: int32_t = 1 + split_mix(random) % cython.cast(uint32_t, self.count - 1)
            self.sticky = (self.sticky + step) % self.count
        return True

"""Where records go: a topic's partitions with their open batches, and its sticky partition (compiled, KIP-794).

An `Appender` looks a `Topic` up by name, chooses one of its `Partition`s and writes the record after those in that
partition's open batch. Both classes have C fields only, which partitions.pxd declares for the compiled modules; they
cannot be used from Python. A `PartitionLoad` comes from the producer core: to which of a topic's partitions records
without a key may go, and in which shares.

Invariants
- A topic never loses a `Partition`, whatever later metadata says: it may have open or sealed batches, which must stay
  in order when the partition is known again. `count` is how many are known now, 0 when the topic is not known.
- The sticky partition changes when keyless records as large as a batch went to it. So partitions get shares of bytes,
  not of batches, by the load; equal ones where there is none.
- A sticky partition that a new load leaves out is changed at once. (Java waits until its batch is full, and so sends a
  partition without a leader some more records.)
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_Resize
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.ottla.records.delivery import SealedBatch
from cython.cimports.ottla.records.wire import CRC32, HEADER_BYTES, MURMUR2, KeyRule, put_header, split_mix

_FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 2048)
_NO_KEY_IS_THAT_LONG = cython.declare(cython.Py_ssize_t, 1 << 62)


@cython.cfunc
@cython.exceptval(check=True)
def key_rule(partitioner: str, ignore_keys: cython.bint) -> KeyRule:
    """The rule of a partitioner by its short name; for `consistent_random` an empty key is none, as in librdkafka."""
    rule: KeyRule = KeyRule(least_bytes=0, hash=MURMUR2, in_rotation=False)
    if partitioner == "consistent_random":
        rule.least_bytes = 1
        rule.hash = CRC32
    elif partitioner == "round_robin":
        rule.in_rotation = True
    elif partitioner not in ("default", "uniform_sticky"):
        raise ValueError(f"There is no partitioner {partitioner!r}.")
    if ignore_keys or partitioner in ("round_robin", "uniform_sticky"):
        rule.least_bytes = _NO_KEY_IS_THAT_LONG
    return rule


@cython.final
@cython.cclass
class PartitionLoad:
    """Which partitions keyless records may go to, and in which shares; immutable.

    `frequencies` are the running sums of the shares, so the last is the sum of all: partitions 0, 3 and 4 with
    (4, 5, 8) get 4, 1 and 3 of eight choices.
    """

    def __cinit__(self, partitions: tuple, frequencies: tuple):
        count: int32_t = len(partitions)
        i: int32_t
        if count == 0 or len(frequencies) != count or frequencies[0] < 1:
            raise ValueError(f"{frequencies} are not the running sums of the shares of partitions {partitions}.")
        self.places = cython.cast(cython.pointer(int32_t), malloc(count * cython.sizeof(int32_t)))
        self.sums = cython.cast(cython.pointer(int64_t), malloc(count * cython.sizeof(int64_t)))
        if self.places == cython.NULL or self.sums == cython.NULL:
            raise MemoryError
        for i in range(count):
            self.places[i] = partitions[i]
            self.sums[i] = frequencies[i]
        self.end = max(partitions) + 1
        self.count = count

    def __dealloc__(self):
        free(self.places)
        free(self.sums)

    @property
    def partitions(self) -> tuple:
        """The partitions, by number."""
        return tuple([self.places[i] for i in range(self.count)])

    @property
    def frequencies(self) -> tuple:
        """The running sums of their shares."""
        return tuple([self.sums[i] for i in range(self.count)])

    def __repr__(self) -> str:
        return f"PartitionLoad({self.partitions}, {self.frequencies})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionLoad):
            return NotImplemented
        theirs: PartitionLoad = other
        return self.partitions == theirs.partitions and self.frequencies == theirs.frequencies

    def __hash__(self) -> int:
        return hash((self.partitions, self.frequencies))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def has(self, partition: int32_t) -> cython.bint:
        """Whether the partition may be picked."""
        i: int32_t = 0
        while i < self.count and self.places[i] != partition:
            i += 1
        return i < self.count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def pick(self, random: cython.pointer(uint64_t)) -> int32_t:
        """Draw a partition: the first whose running sum is above a random number."""
        drawn: int64_t = cython.cast(int64_t, split_mix(random) % cython.cast(uint64_t, self.sums[self.count - 1]))
        low: int32_t = 0
        high: int32_t = self.count - 1
        middle: int32_t
        while low < high:
            middle = (low + high) // 2
            if self.sums[middle] > drawn:
                high = middle
            else:
                low = middle + 1
        return self.places[low]


@cython.final
@cython.cclass
class Partition:
    """A partition's open batch while records are written into it."""

    def __cinit__(self, topic: str, index: int):
        self.topic = topic
        self.index = index
        self.last_bytes = _FIRST_CAPACITY
        self.compression_ratio = 1.0

    @cython.cfunc
    def learn_ratio(
        self, uncompressed: cython.Py_ssize_t, compressed: cython.Py_ssize_t, batch_size: cython.Py_ssize_t
    ) -> object:
        """Set `room` by how well a batch was compressed: the next one should have `batch_size` bytes afterwards.

        As in Java's producer, a worse ratio counts at once, of a better one an eighth of the difference; 5 % are added
        for safety.
        """
        found: cython.double = min(1.0, cython.cast(cython.double, compressed) / uncompressed)
        if found > self.compression_ratio:
            self.compression_ratio = found
        else:
            self.compression_ratio += (found - self.compression_ratio) / 8
        self.room = cython.cast(cython.Py_ssize_t, batch_size / (self.compression_ratio * 1.05))
        return None

    @cython.cfunc
    def open(self, batch: SealedBatch, buffer: bytearray) -> object:
        """Make `batch` the open batch, with `buffer` for its records."""
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
        """Resize the open batch's buffer."""
        PyByteArray_Resize(self.batch._buffer, capacity)
        self.data = PyByteArray_AS_STRING(self.batch._buffer)
        self.capacity = capacity
        return None

    @cython.cfunc
    def close(self) -> object:
        """Close the open batch: set its fields, and write its header."""
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
    """A topic's partitions by the metadata, and its sticky partition."""

    def __cinit__(self):
        self.partitions = []

    @cython.cfunc
    def set_count(self, name: str, count: int32_t) -> object:
        """Set how many partitions the topic has by the metadata."""
        while len(self.partitions) < count:
            self.partitions.append(Partition(name, len(self.partitions)))
        self.count = count
        if self.load is not None and self.load.end > count:
            self.load = None  # the core will give a new one
        if self.sticky >= count:
            self.sticky = 0
        return None

    @cython.cfunc
    def set_load(self, load: PartitionLoad, random: cython.pointer(uint64_t)) -> object:
        """From now on send keyless records as `load` says; None: to all partitions alike."""
        if load is not None and load.end > self.count:
            return None  # made when the topic had more partitions
        self.load = load
        if load is not None and not load.has(self.sticky):
            self.sticky_bytes = 0
            self.sticky = load.pick(random)
        return None

    @cython.cfunc
    @cython.exceptval(check=False)
    def rotate(self) -> cython.void:
        """Change to the next partition, as round robin does after every record."""
        self.sticky_bytes = 0
        self.sticky = (self.sticky + 1) % self.count
        if self.load is not None:
            # This ends: the load has at least one partition, and none above the count.
            while not self.load.has(self.sticky):
                self.sticky = (self.sticky + 1) % self.count

    @cython.cfunc
    @cython.exceptval(check=False)
    def move_on(
        self, need: cython.Py_ssize_t, batch_size: cython.Py_ssize_t, random: cython.pointer(uint64_t)
    ) -> cython.bint:
        """Change the sticky partition if so many bytes as a batch has went to it; return whether it did."""
        if self.sticky_bytes == 0 or self.sticky_bytes + need + HEADER_BYTES <= batch_size:
            return False
        self.sticky_bytes = 0
        if self.load is not None:
            self.sticky = self.load.pick(random)
        elif self.count > 1:
            step: int32_t = 1 + split_mix(random) % cython.cast(uint32_t, self.count - 1)
            self.sticky = (self.sticky + step) % self.count
        return True

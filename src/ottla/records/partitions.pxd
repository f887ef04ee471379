"""What the compiled modules see of a topic and its partitions: the C fields, read and written without a call."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from ottla.records.delivery cimport SealedBatch
from ottla.records.wire cimport KeyRule


@cython.final
cdef class PartitionLoad:
    cdef int32_t count
    cdef int32_t end
    cdef int32_t *places
    cdef int64_t *sums

    cdef bint has(self, int32_t partition) noexcept nogil
    cdef int32_t pick(self, uint64_t *random) noexcept nogil


cdef KeyRule key_rule(str partitioner, bint ignore_keys) except *


@cython.final
cdef class Partition:
    cdef str topic
    cdef int index
    cdef SealedBatch batch  # None: no batch is open
    cdef char *data
    cdef Py_ssize_t position
    cdef Py_ssize_t capacity
    cdef int32_t count
    cdef int64_t base_timestamp
    cdef int64_t max_timestamp
    cdef int64_t record_bytes_max
    cdef Py_ssize_t callback_bytes
    cdef Py_ssize_t last_bytes  # the size of the batch before: the next one's first capacity
    cdef double compression_ratio  # expected of the next batch, 1 at first
    cdef Py_ssize_t room  # the size before compression at which a batch should be full; 0 before the first batch
    cdef int64_t due_us  # when linger.ms is over for the open batch

    cdef object learn_ratio(self, Py_ssize_t uncompressed, Py_ssize_t compressed, Py_ssize_t batch_size)
    cdef object open(self, SealedBatch batch, bytearray buffer)
    cdef object resize(self, Py_ssize_t capacity)
    cdef object close(self)


@cython.final
cdef class Topic:
    cdef list partitions
    cdef int32_t count
    cdef int32_t sticky
    cdef Py_ssize_t sticky_bytes
    cdef PartitionLoad load  # None: all partitions alike

    cdef object set_count(self, str name, int32_t count)
    cdef object set_load(self, PartitionLoad load, uint64_t *random)
    cdef bint move_on(self, Py_ssize_t need, Py_ssize_t batch_size, uint64_t *random) noexcept
    cdef void rotate(self) noexcept

"""What the compiled modules see of a batch and its deliveries: the C fields, read and written without a call.

Fields with an underscore are not for Python; `Appender` fills them in while a batch is open.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t

from ottla.records.buffers cimport BufferPool


@cython.final
cdef class RecordMetadata:
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp_ms


@cython.final
cdef class SealedBatch:
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly int32_t record_count
    cdef readonly Py_ssize_t size_bytes
    cdef readonly Py_ssize_t buffer_bytes
    cdef readonly Py_ssize_t uncompressed_bytes
    cdef public int64_t pack_ns
    cdef readonly int64_t record_bytes_max
    cdef readonly int64_t created_us
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly str codec
    cdef readonly int outcome
    cdef readonly bint is_open
    cdef readonly bint is_finished
    cdef readonly int64_t base_offset
    cdef readonly int64_t log_append_time_ms
    cdef readonly object error
    cdef readonly int64_t producer_id
    cdef readonly int producer_epoch
    cdef readonly int32_t base_sequence
    cdef readonly int64_t first_row
    cdef bytes _rows
    cdef bytearray _buffer
    cdef object _hooks
    cdef list _callbacks  # delivery, function, delivery, function, ...
    cdef object _landing  # a deque for callbacks that an event loop runs; None: the thread that settles runs them
    cdef BufferPool _pool  # gets its memory once it is settled; None: the memory is freed
    cdef object _home  # the Partition it came from
    cdef list _parts  # what it was split into, None while it is whole
    cdef int32_t _first  # of a part: the row of its first record in the batch it was split from
    cdef int32_t _looked
    cdef bint _stamped
    cdef bint _is_handed_over  # `take_new` has returned it

    cdef Py_ssize_t _pack(self, str compression, object level) except? -1
    cdef object _settle(self, int outcome, object error)
    cdef SealedBatch _part_with(self, int32_t row)
    cdef object _divide(self, list parts)


@cython.final
cdef class Delivery:
    cdef SealedBatch _batch
    cdef int64_t _timestamp
    cdef int32_t _row
    cdef bint _is_looked

    cdef RecordMetadata _metadata(self)
    cdef SealedBatch _wait(self, object timeout)
    cdef SealedBatch _place(self)
    cdef object _add_callback(self, object fn)


cpdef object run_callbacks(list callbacks)

cdef SealedBatch sealed_batch(
    str topic,
    int partition,
    bytearray batch,
    int32_t record_count,
    int64_t base_timestamp,
    int64_t max_timestamp,
    str codec,
    int64_t first_row,
    bytes rows,
)

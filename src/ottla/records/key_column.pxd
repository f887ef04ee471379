"""What the encoder calls where a function of the user's own places the rows."""

cimport cython
from libc.stdint cimport int64_t

from ottla.records.arrow_layout cimport ArrowArray, ArrowSchema, Blobs, GrowingBlobs, Numbers


@cython.final
cdef class KeyColumn:
    cdef GrowingBlobs _blobs
    cdef ArrowArray _array
    cdef ArrowSchema _schema
    cdef const void *_buffers[3]

    cdef object _close(self)


cdef KeyColumn keys_of(const Blobs *column, int64_t row, int64_t rows)


@cython.final
cdef class Placement:
    cdef Numbers numbers
    cdef object _kept  # whose memory `numbers` points into


cdef Placement placement(str name, object partitions, int64_t rows)

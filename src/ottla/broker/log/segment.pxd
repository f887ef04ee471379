"""What of segment.py is C when it is compiled (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.broker.log.segment_index cimport GrowingIndex
from ottla.records.batch_header cimport BatchHeader


cdef class Segment:
    cdef public object _folder
    cdef public bint _index_doubted
    cdef public object _index_interval_bytes
    cdef public object _storage
    cdef public int64_t base_offset
    cdef public object born_ms
    cdef public object file
    cdef public int64_t first_timestamp
    cdef public object index
    cdef public int64_t next_offset
    cdef public object path
    cdef public int64_t size

    cpdef bint has_room(self, int64_t size, int64_t last_offset, int64_t segment_bytes, int64_t index_bytes) except -1
    @cython.locals(header=BatchHeader)
    cpdef append(self, list buffers, list headers)
    cpdef append_at(self, records, BatchHeader header, int64_t base_offset)
    @cython.locals(index=GrowingIndex, size=int64_t, begin=int64_t, end=int64_t)
    cdef _note(self, BatchHeader header, int64_t base_offset)
    cpdef int64_t oldest_timestamp(self) except? -2
    cpdef position_of(self, offset)

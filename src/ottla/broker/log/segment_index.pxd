"""What of segment_index.py is C when it is compiled (see setup.py)."""

from libc.stdint cimport int64_t


cdef class GrowingIndex:
    cdef public object _begins
    cdef public int64_t _bytes_since_entry
    cdef public object _ends
    cdef public int64_t _interval_bytes
    cdef public object _positions
    cdef public object _time_ends
    cdef public object _times
    cdef public int64_t max_timestamp
    cdef public int64_t max_timestamp_end

    cpdef add(self, int64_t position, int64_t size, int64_t begin, int64_t end, int64_t max_timestamp)
    cpdef bint is_full(self, int64_t index_bytes_max) except -1
    cdef _add_time(self)

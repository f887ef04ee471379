"""What of position.py is C when it is compiled (see setup.py)."""

cimport cython


@cython.final
cdef class Position:
    cdef public object asked_epoch
    cdef public object buffered_bytes
    cdef public object checked_epoch
    cdef public bint checks_end
    cdef public object end
    cdef public object end_epoch
    cdef public object epoch
    cdef public object failures
    cdef public object fetch_offset
    cdef public bint has_read
    cdef public bint in_flight
    cdef public bint is_bounded
    cdef public object not_before_us
    cdef public object nearest
    cdef public object nearest_until_us
    cdef public object partition
    cdef public object shuns_nearest_until_us
    cdef public object start
    cdef public bint start_is_timestamp
    cdef public object state
    cdef public object stuck_reason
    cdef public object stuck_since_us
    cdef public object topic
    cdef public object topic_id
    cdef public object wanted_start

    cpdef asks_for(self)
    cpdef is_stuck(self, reason, now_us)

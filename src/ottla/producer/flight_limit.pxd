"""What of flight_limit.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class FlightLimit:
    cdef public int64_t useful
    cdef public int64_t _most
    cdef public int64_t _alone_us
    cdef public list _lone
    cdef public int64_t _answered_us
    cdef public int64_t _untried
    cdef public int64_t _in_company
    cdef public int64_t _try_after

    cpdef bint allows(self, int64_t in_flight) except -1
    cpdef sent(self, int64_t in_flight)
    @cython.locals(took_us=int64_t, overlap_us=int64_t)
    cpdef answered(self, int64_t in_flight, int64_t sent_us, int64_t now_us)
    @cython.locals(middle_us=int64_t)
    cdef _took_alone(self, int64_t took_us)

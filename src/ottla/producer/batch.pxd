"""What of batch.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class Batch:
    cdef public object sealed
    cdef public object queue
    cdef public int64_t number
    cdef public int64_t deadline_us
    cdef public int64_t ready_us
    cdef public int64_t size_bytes
    cdef public object state
    cdef public bint is_settled
    cdef public bint is_timed
    cdef public bint numbered
    cdef public int64_t attempts
    cdef public object error

    cpdef move(self, event)

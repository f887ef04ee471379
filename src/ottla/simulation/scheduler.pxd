"""What of scheduler.py is C when it is compiled (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class Scheduler:
    cdef public object now_us
    cdef public list _actions
    cdef public int64_t _asked

    cpdef at(self, time_us, action, argument=*)
    cpdef after(self, delay_us, action, argument=*)

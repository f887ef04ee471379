"""What of schedule.py is C when it is compiled (see setup.py)."""

cimport cython


cdef class Schedule:
    cdef public object now_us
    cdef public object _soon
    cdef public list _later
    cdef public object _asked

    cpdef at(self, time_us, action, argument=*)
    cpdef after(self, delay_us, action, argument=*)
    cpdef next_us(self)
    cpdef run_next(self)

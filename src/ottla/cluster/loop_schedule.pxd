"""What of loop_schedule.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.host.schedule cimport Schedule


@cython.final
cdef class LoopSchedule(Schedule):
    cdef public object _loop
    cdef public bint _running
    cdef public bint _goes_on
    cdef public object _timer
    cdef public object _timer_us

    cpdef post(self, action, argument=*)
    cdef _run(self)
    cdef _arm(self)

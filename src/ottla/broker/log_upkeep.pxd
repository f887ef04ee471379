"""What of log_upkeep.py is C when it is compiled (see setup.py)."""

cimport cython


@cython.final
cdef class _Job:
    cdef public object due_us
    cdef public object interval_us
    cdef public object run


@cython.final
cdef class LogUpkeep:
    cdef public object _cleaner
    cdef public object _clock
    cdef public object _directory
    cdef public object _flush_checked_us
    cdef public list _jobs
    cdef public object _next_us
    cdef public object _poll_us
    cdef public object _settings
    cdef public dict _topics

    cpdef deadline_us(self)
    @cython.locals(job=_Job)
    cpdef tick(self, now_us)

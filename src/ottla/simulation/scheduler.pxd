"""What of scheduler.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.host.schedule cimport Schedule


@cython.final
cdef class Scheduler(Schedule):
    pass

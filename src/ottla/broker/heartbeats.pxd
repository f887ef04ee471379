"""What of heartbeats.py is C when it is compiled (see setup.py)."""

cimport cython


@cython.final
cdef class Heartbeats:
    cdef public object _core
    cdef public object _interval_us
    cdef public bint _is_fenced
    cdef public object _reported_version
    cdef public bint _wants_to_go
    cdef public object due_us

    cpdef send(self, now_us)

"""What of crossing.py is C when it is compiled (see setup.py)."""

cimport cython


@cython.final
cdef class Crossing:
    cdef public object at_us
    cdef public object what
    cdef public object sender
    cdef public object receiver
    cdef public object number
    cdef public object message
    cdef public object arrives_us

"""What of waiting.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython


@cython.final
cdef class Waiting:
    cdef public object _clock
    cdef public list _waiters

    cpdef look(self)

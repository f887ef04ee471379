"""What of trace.py is C when it is compiled (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.host.crossing cimport Crossing


@cython.final
cdef class Trace:
    cdef public object _hash
    cdef public list _unhashed
    cdef public int64_t messages
    cdef public object lines
    cdef public list listeners

    cpdef add(self, Crossing crossing)
    cdef _take_in(self)

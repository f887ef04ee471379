"""What of purgatory.py is C when it is compiled (see setup.py)."""

cimport cython


@cython.final
cdef class Purgatory:
    cdef public dict _buckets
    cdef public list _heap

    @cython.locals(waiting=dict)
    cpdef add(self, operation, deadline_us)
    @cython.locals(waiting=dict)
    cpdef remove(self, operation)
    @cython.locals(heap=list, buckets=dict, waiting=dict)
    cpdef deadline_us(self)
    @cython.locals(heap=list, buckets=dict, waiting=dict)
    cpdef expire(self, now_us)

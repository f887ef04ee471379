"""What of chance.py is C when it is compiled: words of 64 bits instead of Python's integers (see setup.py)."""

cimport cython
from libc.stdint cimport uint64_t

cdef uint64_t _WORD
cdef uint64_t _STEP
cdef uint64_t _FIRST
cdef uint64_t _SECOND
cdef uint64_t _HALF


@cython.final
cdef class Stream:
    cdef public uint64_t state

    @cython.locals(state=uint64_t)
    cpdef uint64_t next(self)
    @cython.locals(word=uint64_t)
    cpdef uint64_t below(self, uint64_t limit)

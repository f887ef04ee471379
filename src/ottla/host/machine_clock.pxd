"""What of machine_clock.py is C when it is compiled (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class OwnClock:
    cdef public int64_t ppm
    cdef public int64_t jump_us
    cdef public bint is_right
    cdef public int64_t _begin_us
    cdef public int64_t _own_begin_us

    cpdef own_us(self, world_us)
    cpdef world_us(self, own_us)

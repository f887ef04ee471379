"""What the compiled modules see of a producer's memory: the C fields, read and written without a call."""

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class BlockedCall:
    cdef public object deadline_us
    cdef readonly int64_t wanted_bytes
    cdef readonly int64_t given_bytes
    cdef readonly bint is_waiting


@cython.final
cdef class BufferMemory:
    cdef readonly int64_t limit_bytes
    cdef readonly int64_t used_bytes
    cdef public bint has_served
    cdef int waiting_count
    cdef list _line

    cdef bint has_room(self, int64_t nbytes) noexcept
    cdef object add(self, int64_t nbytes)
    cdef object _serve(self)

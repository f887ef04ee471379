"""What of request.py is C when it is compiled: classes as structs (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class Pending:
    cdef public object token
    cdef public int64_t sent_us
    cdef public bint answered


@cython.final
cdef class Answer:
    cdef public object token
    cdef public object message
    cdef public object failure
    cdef public bint sent
    cdef public object node_id
    cdef public bint unsupported
    cdef public bint unsendable

"""What of request.py is C when it is compiled (see setup.py)."""

cimport cython


@cython.final
cdef class Request:
    cdef public object after
    cdef public object client
    cdef public object client_id
    cdef public object connection_id
    cdef public object context
    cdef public object correlation_id
    cdef public bint expects_answer
    cdef public object listener
    cdef public object message
    cdef public object refusal
    cdef public object size
    cdef public object version

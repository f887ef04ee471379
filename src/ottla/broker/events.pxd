"""What of events.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.value cimport Value


@cython.final
cdef class RequestReceived(Value):
    cdef public object client
    cdef public object client_id
    cdef public object connection_id
    cdef public object correlation_id
    cdef public object listener
    cdef public object message
    cdef public object size
    cdef public object version


@cython.final
cdef class Respond(Value):
    cdef public object connection_id
    cdef public object correlation_id
    cdef public object message
    cdef public object version

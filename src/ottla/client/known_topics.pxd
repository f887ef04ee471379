"""What of known_topics.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython


@cython.final
cdef class KnownTopics:
    cdef public object _appender
    cdef public object _client_id
    cdef public dict _known
    cdef public dict _loads
    cdef public dict _refusals
    cdef public dict _views

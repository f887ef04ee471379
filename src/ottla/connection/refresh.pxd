"""What of refresh.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython

from ottla.connection.metadata cimport Metadata


@cython.final
cdef class MetadataRefresh:
    cdef public bint in_flight
    cdef public bint in_flight_for_all
    cdef public bint needed
    cdef public dict topics
    cdef public object unanswered_since_us
    cdef public Metadata _metadata
    cdef public object _rng
    cdef public object _backoff_ms
    cdef public object _backoff_max_ms
    cdef public object _age_max_us
    cdef public bint _auto_create_topics
    cdef public dict _fresh
    cdef public dict _missing
    cdef public bint _on_first_questions
    cdef public object _failures
    cdef public object _not_before_us

    cpdef due_us(self)

"""What of connections.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.connection.node cimport Node
from ottla.connection.refresh cimport MetadataRefresh
from ottla.connection.request cimport Pending


@cython.final
cdef class Connections:
    cdef public list outputs
    cdef public list answers
    cdef public dict nodes
    cdef public object addresses
    cdef public dict meters
    cdef public dict features
    cdef public object brokers_met
    cdef public dict version_caps
    cdef public bint is_closed
    cdef public int64_t _features_epoch
    cdef public object _settings
    cdef public object _rng
    cdef public MetadataRefresh _refresh
    cdef public object _request_timeout_us
    cdef public object _idle_us
    cdef public object _sessions
    cdef public int64_t _next_connection_id
    cdef public int64_t _next_correlation_id

    cpdef bint is_open(self, Node node, now_us) except -1
    cpdef bint can_send(self, Node node, now_us) except -1
    cpdef bint has_rested(self, Node node, now_us) except -1
    cpdef open_when_rested(self, Node node, now_us)
    cpdef bint renews(self, Node node, now_us) except -1
    cpdef transmit(self, Node node, message, token, now_us, bint answered, version=*)
    cpdef _put(self, Node node, message, version, token, now_us, bint answered)
    @cython.locals(request=Pending)
    cpdef Pending take_response(self, Node node, correlation_id, message, now_us)
    @cython.locals(request=Pending)
    cpdef transmitted(self, Node node, correlation_id, now_us)
    cpdef deadline_us(self, Node node)
    @cython.locals(request=Pending)
    cdef _timeout_us(self, Node node)
    cpdef tick(self, Node node, now_us)

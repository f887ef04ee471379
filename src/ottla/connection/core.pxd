"""What of core.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.connection.asks cimport Ask, Asks
from ottla.connection.connections cimport Connections
from ottla.connection.metadata cimport Metadata
from ottla.connection.node cimport Node
from ottla.connection.nodes cimport Nodes
from ottla.connection.refresh cimport MetadataRefresh
from ottla.connection.request cimport Pending


@cython.final
cdef class ConnectionCore:
    cdef public object settings
    cdef public Metadata metadata
    cdef public object addresses
    cdef public dict meters
    cdef public object _rng
    cdef public object _request_timeout_us
    cdef public MetadataRefresh _refresh
    cdef public Connections _connections
    cdef public Nodes _nodes
    cdef public Asks _asks

    @cython.locals(connections=Connections, node=Node, request=Pending)
    cpdef receive(self, event, now_us)
    cpdef list outputs(self)
    @cython.locals(node=Node, ask=Ask, some_ready=bint)
    cpdef deadline_us(self)
    @cython.locals(node=Node)
    cpdef tick(self, now_us)
    cpdef use_topic(self, topic, now_us)
    cpdef leader(self, topic, partition)
    @cython.locals(node=Node)
    cpdef bint can_send(self, node_id, now_us) except -1
    @cython.locals(node=Node)
    cpdef bint is_open(self, node_id, now_us) except -1
    @cython.locals(node=Node)
    cpdef int64_t in_flight(self, node_id) except -1
    @cython.locals(node=Node)
    cpdef request(self, node_id, message, token, now_us, answered=*, version=*)
    cpdef list take_answers(self)
    @cython.locals(connections=Connections, node=Node, asked=Node)
    cpdef _advance(self, now_us)

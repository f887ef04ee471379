"""What of core.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.connection.metadata cimport Metadata
from ottla.connection.node cimport Node, Pending
from ottla.connection.refresh cimport MetadataRefresh


@cython.final
cdef class Answer:
    cdef public object token
    cdef public object message
    cdef public object failure
    cdef public bint sent
    cdef public object node_id
    cdef public bint unsupported
    cdef public bint unsendable


@cython.final
cdef class ConnectionCore:
    cdef public object settings
    cdef public Metadata metadata
    cdef public dict meters
    cdef public dict features
    cdef public int64_t _features_epoch
    cdef public dict _version_caps
    cdef public object _rng
    cdef public object _request_timeout_us
    cdef public object _idle_us
    cdef public bint _rebootstraps
    cdef public object _rebootstrap_trigger_us
    cdef public MetadataRefresh _refresh
    cdef public list _outputs
    cdef public list _answers
    cdef public dict _nodes
    cdef public dict _by_connection
    cdef public object _sessions
    cdef public int64_t _next_connection_id
    cdef public int64_t _next_correlation_id
    cdef public list _asks
    cdef public bint _closed
    cdef public object addresses
    cdef public object brokers_met
    cdef public object _refused_patience_us

    @cython.locals(node=Node)
    cpdef receive(self, event, now_us)
    cpdef list outputs(self)
    @cython.locals(node=Node, some_ready=bint)
    cpdef deadline_us(self)
    @cython.locals(node=Node)
    cpdef tick(self, now_us)
    cpdef use_topic(self, topic, now_us)
    cpdef leader(self, topic, partition)
    @cython.locals(node=Node)
    cpdef bint can_send(self, node_id, now_us) except -1
    cpdef bint is_open(self, node_id, now_us) except -1
    @cython.locals(node=Node)
    cpdef int64_t in_flight(self, node_id) except -1
    @cython.locals(node=Node)
    cpdef request(self, node_id, message, token, now_us, answered=*, version=*)
    cpdef list take_answers(self)
    cdef bint _has_rested(self, Node node, now_us) except -1
    cdef _connect_when_rested(self, Node node, now_us)
    cdef bint _renews(self, Node node, now_us) except -1
    cdef _transmit(self, Node node, message, token, now_us, bint answered, version=*)
    cpdef _put(self, Node node, message, version, token, now_us, bint answered)
    @cython.locals(request=Pending)
    cdef _on_received(self, Node node, correlation_id, message, now_us)
    @cython.locals(node=Node)
    cpdef _advance(self, now_us)
    cdef _rebootstrap_due_us(self)
    @cython.locals(request=Pending)
    cdef _node_deadline_us(self, Node node)
    cdef _tick_node(self, Node node, now_us)

"""What of nodes.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython

from ottla.connection.connections cimport Connections
from ottla.connection.metadata cimport Metadata
from ottla.connection.node cimport Node


@cython.final
cdef class Nodes:
    cdef public dict by_id
    cdef public object _bootstrap_servers
    cdef public bint _rebootstraps
    cdef public object _rebootstrap_trigger_us
    cdef public object _refused_patience_us
    cdef public object _rng
    cdef public Metadata _metadata
    cdef public Connections _connections

    cpdef rebootstrap_due_us(self, unanswered_since_us)
    @cython.locals(ready=Node, node=Node, connecting=bint, others=bint)
    cpdef Node any_node(self, now_us, avoid=*)

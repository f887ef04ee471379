"""What of asks.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython

from ottla.connection.connections cimport Connections
from ottla.connection.metadata cimport Metadata
from ottla.connection.node cimport Node
from ottla.connection.nodes cimport Nodes
from ottla.connection.refresh cimport MetadataRefresh


@cython.final
cdef class Ask:
    cdef public object message
    cdef public object token
    cdef public object where
    cdef public object deadline_us
    cdef public object avoid
    cdef public object version


@cython.final
cdef class Asks:
    cdef public list waiting
    cdef public Connections _connections
    cdef public Nodes _nodes
    cdef public Metadata _metadata
    cdef public MetadataRefresh _refresh

    @cython.locals(ask=Ask, node=Node)
    cpdef dispatch(self, now_us)
    @cython.locals(node=Node)
    cdef Node _destination(self, Ask ask, now_us)

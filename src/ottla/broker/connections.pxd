"""What of connections.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.outbox cimport Outbox
from ottla.broker.request cimport Request


@cython.final
cdef class Connection:
    cdef public object connection_id
    cdef public bint hung_up
    cdef public bint is_answered
    cdef public bint is_muted
    cdef public object parked
    cdef public object waiting


@cython.final
cdef class Connections:
    cdef public object _due
    cdef public dict _known
    cdef public Outbox _outbox

    @cython.locals(connection=Connection)
    cpdef bint arrived(self, event) except -1
    @cython.locals(connection=Connection)
    cpdef next_due(self)
    @cython.locals(connection=Connection)
    cpdef send(self, Request request, message)
    @cython.locals(connection=Connection)
    cpdef park(self, connection_id, waiter)

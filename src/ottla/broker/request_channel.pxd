"""What of request_channel.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.connections cimport Connections
from ottla.broker.fetch_sessions cimport FetchSessions
from ottla.broker.metrics cimport BrokerMetrics
from ottla.broker.request cimport Request


@cython.final
cdef class RequestChannel:
    cdef public Connections _connections
    cdef public FetchSessions _fetch_sessions
    cdef public object _handle
    cdef public BrokerMetrics _metrics
    cdef public object _faults
    cdef public object _topic_ids
    cdef public dict _woken

    cpdef receive(self, event, now_us)
    cpdef bint step(self, now_us) except -1
    cpdef wake(self, waiting)
    cpdef answer(self, Request request, message, now_us)
    @cython.locals(request=Request)
    cdef _come_in(self, event, now_us)

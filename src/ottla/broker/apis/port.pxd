"""What of port.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.connections cimport Connections
from ottla.broker.request_channel cimport RequestChannel
from ottla.broker.fetch_sessions cimport FetchSessions
from ottla.broker.metrics cimport BrokerMetrics
from ottla.broker.outbox cimport Outbox
from ottla.broker.purgatory cimport Purgatory
from ottla.broker.replicas cimport Replicas
from ottla.broker.request cimport Request


@cython.final
cdef class BrokerPort:
    cdef public object _clock
    cdef public Connections _connections
    cdef public object _coordinators
    cdef public RequestChannel _channel
    cdef public object _client_telemetry
    cdef public BrokerMetrics _metrics
    cdef public Outbox _outbox
    cdef public Replicas _replicas
    cdef public object _rng
    cdef public object broker_id
    cdef public FetchSessions fetch_sessions
    cdef public Purgatory purgatory
    cdef public object quotas
    cdef public object settings
    cdef public object static_settings
    cdef public object topic_ids
    cdef public dict topics

    cpdef answer(self, Request request, message, now_us)
    cpdef park(self, Request request, waiter)
    cpdef wake(self, waiting)
    cpdef leader_of(self, topic, index)
    cpdef heard_from_follower(self, broker_id, now_us)
    cpdef traffic(self, topic)
    cpdef wall_ms(self, now_us)
    cpdef next_number(self)

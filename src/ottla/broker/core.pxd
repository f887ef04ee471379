"""What of core.py is C when it is compiled (see setup.py)."""


from ottla.broker.apis.port cimport BrokerPort
from ottla.broker.connections cimport Connections
from ottla.broker.request_channel cimport RequestChannel
from ottla.broker.metrics cimport BrokerMetrics
from ottla.broker.outbox cimport Outbox
from ottla.broker.purgatory cimport Purgatory
from ottla.broker.replicas cimport Replicas
from ottla.broker.request cimport Request
from ottla.broker.write_back cimport WriteBack


cdef class BrokerCore:
    cdef public object _clock
    cdef public object _coordinators
    cdef public RequestChannel _channel
    cdef public object _heartbeats
    cdef public Outbox _outbox
    cdef public BrokerPort _port
    cdef public object _faults
    cdef public WriteBack _write_back
    cdef public object broker_epoch
    cdef public object broker_id
    cdef public Connections connections
    cdef public bint is_halted
    cdef public BrokerMetrics metrics
    cdef public Purgatory purgatory
    cdef public Replicas replicas
    cdef public object rng
    cdef public object settings

    cpdef outputs(self)
    cpdef deadline_us(self)
    cpdef tick(self, now_us)
    cpdef _handle(self, Request request, now_us)
    cdef _settle(self, now_us)

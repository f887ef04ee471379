"""What of core.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.heartbeats cimport Heartbeats
from ottla.broker.isr_proposals cimport IsrProposals
from ottla.broker.log.upkeep cimport LogUpkeep
from ottla.broker.metrics cimport BrokerMetrics
from ottla.broker.purgatory cimport Purgatory
from ottla.broker.replica cimport ReplicaFetcher
from ottla.broker.request cimport Connection, Request
from ottla.broker.write_back cimport WriteBack


cdef class BrokerCore:
    cdef public dict _asked
    cdef public object _budget
    cdef public dict _connections
    cdef public object _due
    cdef public dict _fetchers
    cdef public object _groups
    cdef public Heartbeats _heartbeats
    cdef public object _number
    cdef public list _outputs
    cdef public dict _peers_asked
    cdef public IsrProposals _proposals
    cdef public object _transactions
    cdef public WriteBack _write_back
    cdef public object broker_epoch
    cdef public object broker_id
    cdef public object directory
    cdef public object faults
    cdef public object fetch_sessions
    cdef public object image
    cdef public bint is_halted
    cdef public BrokerMetrics metrics
    cdef public Purgatory purgatory
    cdef public object rng
    cdef public object settings
    cdef public object static_settings
    cdef public object storage
    cdef public object topic_ids
    cdef public dict topics
    cdef public LogUpkeep upkeep
    cdef public object wall_offset_us
    cdef public dict held
    cdef public dict woken

    cpdef outputs(self)
    @cython.locals(fetcher=ReplicaFetcher)
    cpdef deadline_us(self)
    @cython.locals(fetcher=ReplicaFetcher)
    cpdef tick(self, now_us)
    cpdef wall_ms(self, now_us)
    cpdef heard_from_follower(self, broker_id, now_us)
    cpdef answer(self, Request request, message, now_us)
    @cython.locals(connection=Connection)
    cpdef send(self, Request request, message)
    cpdef next_number(self)
    @cython.locals(connection=Connection)
    cdef _request_received(self, event, now_us)
    @cython.locals(request=Request)
    cdef _handle(self, event, now_us)
    cpdef dispatch(self, Request request, now_us)
    @cython.locals(connection=Connection)
    cdef _settle(self, now_us)
    cdef _ask_leader(self, ReplicaFetcher fetcher, now_us)

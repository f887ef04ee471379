"""What of replicas.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.fetch_sessions cimport FetchSessions
from ottla.broker.isr_proposals cimport IsrProposals
from ottla.broker.log_upkeep cimport LogUpkeep
from ottla.broker.metrics cimport BrokerMetrics
from ottla.broker.outbox cimport Outbox
from ottla.broker.replica cimport ReplicaFetcher


@cython.final
cdef class Replicas:
    cdef public object _budget
    cdef public dict _changed
    cdef public dict _fetchers
    cdef public BrokerMetrics _metrics
    cdef public Outbox _outbox
    cdef public object broker_epoch
    cdef public object broker_id
    cdef public object directory
    cdef public FetchSessions fetch_sessions
    cdef public object image
    cdef public IsrProposals proposals
    cdef public object settings
    cdef public object static_settings
    cdef public object topic_ids
    cdef public dict topics
    cdef public LogUpkeep upkeep

    @cython.locals(fetcher=ReplicaFetcher)
    cpdef deadline_us(self)
    @cython.locals(fetcher=ReplicaFetcher)
    cpdef tick(self, now_us)
    @cython.locals(fetcher=ReplicaFetcher)
    cpdef leader_answered(self, broker_id, token, answer, now_us)
    cpdef heard_from_follower(self, broker_id, now_us)
    cpdef why_not_here(self, topic, index)
    cpdef leader_of(self, topic, index)
    cdef _ask_leader(self, ReplicaFetcher fetcher, now_us)

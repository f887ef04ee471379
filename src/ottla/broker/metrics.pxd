"""What of metrics.py is C when it is compiled (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class TopicTraffic:
    cdef public int64_t bytes_in
    cdef public int64_t bytes_out
    cdef public int64_t failed_fetches
    cdef public int64_t failed_produces
    cdef public int64_t fetches
    cdef public int64_t messages_in
    cdef public int64_t produces
    cdef public int64_t replication_bytes_in
    cdef public int64_t replication_bytes_out


@cython.final
cdef class StageTimes:
    cdef public list buckets
    cdef public int64_t count
    cdef public int64_t max_us
    cdef public int64_t sum_us

    cpdef took(self, int64_t time_us)


@cython.final
cdef class RequestCounters:
    cdef public list stages
    cdef public int64_t bytes
    cdef public int64_t bytes_max
    cdef public int64_t count


@cython.final
cdef class BrokerMetrics:
    cdef public object isr_expands
    cdef public object isr_shrinks
    cdef public object leader_elections
    cdef public dict requests
    cdef public object sendfile_bytes
    cdef public dict topics
    cdef public object unclean_leader_elections

    @cython.locals(counters=RequestCounters)
    cpdef requested(self, api_key, int64_t size_bytes)
    @cython.locals(counters=RequestCounters, stage=StageTimes, stages=list)
    cpdef answered(self, api_key, tuple times_us)

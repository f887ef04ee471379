"""What of replica.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.partition cimport Partition


@cython.final
cdef class ReplicaFetcher:
    cdef public object _broker_epoch
    cdef public object _broker_id
    cdef public object _leader_id
    cdef public object _settings
    cdef public object _token
    cdef public dict _topics
    cdef public object ask_again_us

    @cython.locals(partition=Partition, partitions=dict)
    cpdef question(self, token, now_us)
    @cython.locals(partition=Partition, partitions=dict)
    cpdef answered(self, token, response, now_us)
    cdef _wanted(self, Partition partition)
    cdef _set_back(self, Partition partition, now_us)
    cdef _ask_again(self, time_us)

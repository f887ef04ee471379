"""What of replica.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.partition cimport Partition


@cython.final
cdef class ReplicaFetcher:
    cdef public object _broker_epoch
    cdef public object _broker_id
    cdef public dict _changed
    cdef public dict _cuts
    cdef public object _epoch
    cdef public dict _followed
    cdef public dict _forgotten
    cdef public object _full_token
    cdef public object _leader_id
    cdef public dict _resting
    cdef public object _session_id
    cdef public object _settings
    cdef public object _token
    cdef public object ask_again_us

    cpdef changed(self, Partition partition)
    @cython.locals(partition=Partition, is_full=bint)
    cpdef question(self, token, now_us)
    @cython.locals(partition=Partition)
    cpdef answered(self, token, response, now_us)
    cdef _forget(self, Partition partition)
    cdef _wanted(self, Partition partition)
    cdef _set_back(self, Partition partition, now_us)
    cdef _ask_again(self, time_us)

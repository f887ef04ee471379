"""What of metadata.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class PartitionMetadata:
    cdef public object leader
    cdef public int64_t leader_epoch
    cdef public object replicas
    cdef public object isr
    cdef public int64_t error_code


@cython.final
cdef class TopicMetadata:
    cdef public object name
    cdef public object topic_id
    cdef public int64_t error_code
    cdef public dict partitions
    cdef public bint is_internal


@cython.final
cdef class Metadata:
    cdef public dict brokers
    cdef public object cluster_id
    cdef public int64_t controller_id
    cdef public dict topics
    cdef public dict heard_of
    cdef public object updated_us
    cdef public int64_t version

    @cython.locals(known=TopicMetadata, place=PartitionMetadata)
    cpdef leader(self, topic, partition)

"""What of metrics.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.connection.sampled cimport Meter, SampleClock
from ottla.connection.traffic cimport LoopMeter
from ottla.records.delivery cimport SealedBatch


@cython.final
cdef class TopicMeter(Meter):
    cdef public int64_t batches
    cdef public int64_t records
    cdef public int64_t bytes
    cdef public int64_t record_bytes
    cdef public double compression_ratio
    cdef public int64_t queue_us
    cdef public int64_t pack_ns
    cdef public int64_t records_retried
    cdef public int64_t records_acked
    cdef public int64_t records_failed
    cdef public int64_t records_unknown
    cdef public int64_t record_errors
    cdef public int64_t splits
    cdef public int64_t batch_bytes_max
    cdef public int64_t record_bytes_max
    cdef public int64_t queue_us_max

    @cython.locals(size=int64_t, uncompressed=int64_t, queue_us=int64_t)
    cpdef sent(self, SealedBatch batch, int64_t now_us)


@cython.final
cdef class ClientMeter(Meter):
    cdef public int64_t produce_requests
    cdef public int64_t buffer_wait_ns
    cdef public int64_t buffer_exhausted
    cdef public int64_t metadata_wait_ns
    cdef public int64_t flush_ns
    cdef public int64_t txn_init_ns
    cdef public int64_t txn_begin_ns
    cdef public int64_t txn_send_offsets_ns
    cdef public int64_t txn_prepare_ns
    cdef public int64_t txn_commit_ns
    cdef public int64_t txn_abort_ns
    cdef public int64_t waits
    cdef public int64_t lone_waits


@cython.final
cdef class AllTopics(Meter):
    cdef public int64_t batches
    cdef public int64_t records
    cdef public int64_t bytes
    cdef public int64_t queue_us
    cdef public int64_t pack_ns
    cdef public int64_t records_retried


@cython.final
cdef class ProducerMetrics:
    cdef public AllTopics _all_topics
    cdef public SampleClock clock
    cdef public ClientMeter client
    cdef public LoopMeter loop
    cdef public dict topics
    cdef public object _nodes
    cdef public object _client_id
    cdef public object last_retry

    cpdef TopicMeter topic(self, name)
    cpdef tick(self, now_us)

    @cython.locals(meter=TopicMeter, batches=int64_t, records=int64_t, size=int64_t, queue_us=int64_t, pack_ns=int64_t, retried=int64_t)
    cpdef tuple _sums_of_topics(self)

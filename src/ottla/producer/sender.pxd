"""What of sender.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.connection.core cimport ConnectionCore
from ottla.connection.request cimport Answer
from ottla.producer.accumulator cimport Accumulator, NodeQueues, PartitionQueue
from ottla.producer.batch cimport Batch
from ottla.producer.flight_limit cimport FlightLimit
from ottla.producer.idempotence cimport Idempotence
from ottla.producer.in_flight cimport InFlightRequest
from ottla.producer.metrics cimport ProducerMetrics, TopicMeter


@cython.final
cdef class Sender:
    cdef public list settled
    cdef public int64_t unsettled
    cdef public ConnectionCore _connection
    cdef public Accumulator _accumulator
    cdef public Idempotence _idempotence
    cdef public ProducerMetrics _metrics
    cdef public object _acks
    cdef public bint _answered
    cdef public int64_t _retries
    cdef public int64_t _delivery_timeout_ms
    cdef public object _timeout_ms
    cdef public int64_t _request_bytes_max
    cdef public object _compression
    cdef public object _compression_level
    cdef public int64_t _in_flight_max
    cdef public dict _limits
    cdef public object _backoff_ms
    cdef public object _backoff_max_ms

    @cython.locals(node=NodeQueues, in_flight=int64_t, may_close=bint)
    cpdef send_ready(self, int64_t now_us, bint may_connect=*)
    @cython.locals(limit=FlightLimit)
    cdef bint _may_close(self, node_id, int64_t in_flight) except -1
    @cython.locals(batch=Batch, queue=PartitionQueue, metrics=ProducerMetrics, topics=dict, limit=FlightLimit)
    cdef _send(self, node_id, list batches, int64_t now_us, int64_t in_flight)
    @cython.locals(request=InFlightRequest, batch=Batch, limit=FlightLimit)
    cpdef take_answer(self, Answer answer, int64_t now_us)
    @cython.locals(queue=PartitionQueue)
    cdef _take_part(self, Batch batch, part, node_id, int64_t now_us)
    @cython.locals(queue=PartitionQueue)
    cdef _ack(self, Batch batch, base_offset, log_append_time_ms)
    cpdef give_up_expired(self, int64_t now_us)

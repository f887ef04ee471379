"""What of core.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython

from ottla.connection.core cimport ConnectionCore
from ottla.connection.request cimport Answer
from ottla.producer.accumulator cimport Accumulator
from ottla.producer.idempotence cimport Idempotence
from ottla.producer.metrics cimport ProducerMetrics
from ottla.producer.sender cimport Sender


@cython.final
cdef class ProducerCore:
    cdef public object settings
    cdef public ConnectionCore _connection
    cdef public object addresses
    cdef public ProducerMetrics meters
    cdef public Idempotence _idempotence
    cdef public Accumulator _accumulator
    cdef public Sender _sender
    cdef public object _transactions
    cdef public object _topics
    cdef public object _topic_idle_us
    cdef public object _views
    cdef public object _loads
    cdef public list _outputs
    cdef public object _now_us
    cdef public bint _work_to_do
    cdef public object _metadata_version
    cdef public object _refreshed_us
    cdef public dict _heard_of
    cdef public object _close_at_us
    cdef public object _end_until_us
    cdef public object _closing_questions
    cdef public bint _closed
    cdef public object _brokers_met
    cdef public object _telemetry
    cdef public object _rng

    cpdef receive(self, event, now_us)
    cpdef tick(self, now_us)
    cpdef list outputs(self)
    cpdef deadline_us(self)
    cpdef _work(self)
    cdef _tell_of_batches(self)
    @cython.locals(answer=Answer)
    cpdef bint _take_answers(self, now_us) except -1

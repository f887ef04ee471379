"""What of idempotence.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.connection.core cimport ConnectionCore
from ottla.producer.accumulator cimport PartitionQueue
from ottla.producer.batch cimport Batch


@cython.final
cdef class Idempotence:
    cdef public bint enabled
    cdef public object state
    cdef public int64_t producer_id
    cdef public int64_t producer_epoch
    cdef public object error
    cdef public object transactional_id
    cdef public ConnectionCore _connection
    cdef public object _backoff
    cdef public int64_t _failures
    cdef public object _not_before_us
    cdef public object _failed_node_id

    cpdef bint ready(self, int64_t now_us) except -1
    cpdef deadline_us(self)
    @cython.locals(queue=PartitionQueue)
    cpdef number(self, Batch batch)

"""What of in_flight.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.producer.accumulator cimport PartitionQueue
from ottla.producer.batch cimport Batch


@cython.final
cdef class InFlightRequest:
    cdef public object node_id
    cdef public list batches
    cdef public int64_t sent_us
    cdef public int64_t others

    @cython.locals(batch=Batch, queue=PartitionQueue)
    cpdef list answers(self, response)

"""What of accumulator.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.connection.core cimport ConnectionCore
from ottla.producer.batch cimport Batch


@cython.final
cdef class PartitionQueue:
    cdef public object topic
    cdef public int64_t partition
    cdef public object topic_id
    cdef public object waiting
    cdef public object in_flight
    cdef public int64_t next_number
    cdef public int64_t node_id
    cdef public object blocked_until_us
    cdef public int64_t sent_us
    cdef public bint listed
    cdef public bint retrying
    cdef public int64_t producer_id
    cdef public int64_t producer_epoch
    cdef public int64_t next_sequence
    cdef public bint established
    cdef public bint hole
    cdef public bint admitted

    @cython.locals(place=cython.Py_ssize_t, other=Batch)
    cpdef put_back(self, Batch batch)
    @cython.locals(first=Batch)
    cpdef bint may_send(self, int64_t in_flight_max) except -1


@cython.final
cdef class Accumulator:
    cdef public dict queues
    cdef public dict ready
    cdef public list leaderless
    cdef public dict drained_us
    cdef public ConnectionCore _connection
    cdef public object _idempotence
    cdef public int64_t _in_flight_max
    cdef public int64_t _delivery_timeout_us
    cdef public list _resting
    cdef public int64_t _rest_count
    cdef public object _expiry_us

    @cython.locals(queue=PartitionQueue, deadline_us=int64_t)
    cpdef add(self, sealed, int64_t now_us)
    cpdef schedule(self, PartitionQueue queue, int64_t now_us)
    @cython.locals(queue=PartitionQueue, batch=Batch, taken=list, size=int64_t)
    cpdef list take(self, node_id, int64_t most_bytes, int64_t now_us)
    @cython.locals(queue=PartitionQueue)
    cpdef back(self, Batch batch)
    cpdef rest_over(self, int64_t now_us)
    cpdef list expired(self, int64_t now_us)

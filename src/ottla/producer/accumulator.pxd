"""What of accumulator.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.connection.core cimport ConnectionCore
from ottla.producer.batch cimport Batch
from ottla.records.delivery cimport SealedBatch


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
    cdef public bint lingers
    cdef public bint is_due
    cdef public bint retrying
    cdef public int64_t producer_id
    cdef public int64_t producer_epoch
    cdef public int64_t next_sequence
    cdef public bint established
    cdef public bint hole
    cdef public bint admitted

    @cython.locals(index=cython.Py_ssize_t, other=Batch)
    cpdef put_back(self, Batch batch)
    @cython.locals(first=Batch)
    cpdef bint may_send(self, int64_t in_flight_max) except -1


@cython.final
cdef class NodeQueues:
    cdef public object sendable
    cdef public dict due
    cdef public dict lingering
    cdef public bint due_comes_first


@cython.final
cdef class Accumulator:
    cdef public dict queues
    cdef public dict nodes
    cdef public list leaderless
    cdef public object open_batches
    cdef public list closed
    cdef public dict drained_us
    cdef public ConnectionCore _connection
    cdef public object _idempotence
    cdef public int64_t _in_flight_max
    cdef public int64_t _delivery_timeout_us
    cdef public int64_t _linger_us
    cdef public bint _tells_closed
    cdef public dict _open
    cdef public list _lingers
    cdef public list _resting
    cdef public int64_t _rest_count
    cdef public object _expiry_us

    @cython.locals(queue=PartitionQueue, batch=Batch, created_us=int64_t, deadline_us=int64_t)
    cpdef add(self, SealedBatch sealed, int64_t now_us)
    @cython.locals(queue=PartitionQueue, deadline_us=int64_t)
    cpdef filled(self, SealedBatch sealed, int64_t now_us)
    @cython.locals(queue=PartitionQueue, batch=Batch)
    cpdef release_open(self, int64_t now_us)
    @cython.locals(batch=Batch, node=NodeQueues, sealed=SealedBatch)
    cpdef schedule(self, PartitionQueue queue, int64_t now_us)
    @cython.locals(kept=list)
    cdef _note_linger(self, Batch batch)
    @cython.locals(node=NodeQueues)
    cdef _unlist(self, PartitionQueue queue)
    @cython.locals(queue=PartitionQueue)
    cdef bint _still_lingers(self, Batch batch) except -1
    @cython.locals(queue=PartitionQueue, batch=Batch, node=NodeQueues, taken=list, left=int64_t, takes_lingering=bint)
    cpdef list take(self, node_id, int64_t most_bytes, int64_t now_us, int64_t in_flight, bint may_close)
    @cython.locals(queue=PartitionQueue, left=int64_t)
    cdef int64_t _take_open(self, node_id, dict listed, list taken, int64_t most_bytes, int64_t now_us) except? -1
    @cython.locals(queue=PartitionQueue, batch=Batch, sealed=SealedBatch, left=int64_t)
    cdef int64_t _take_from(self, node_id, queues, list taken, int64_t most_bytes, int64_t now_us) except? -1
    cdef bint _close(self, Batch batch) except -1
    @cython.locals(sealed=SealedBatch, queue=PartitionQueue)
    cdef _finish(self, Batch batch)
    @cython.locals(queue=PartitionQueue)
    cpdef back(self, Batch batch)
    @cython.locals(queue=PartitionQueue, batch=Batch)
    cpdef rest_over(self, int64_t now_us)
    cpdef list expired(self, int64_t now_us)
    @cython.locals(batch=Batch)
    cpdef drop_first(self, PartitionQueue queue)

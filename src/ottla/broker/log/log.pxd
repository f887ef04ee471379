"""What of log.py is C when it is compiled (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.broker.log.leader_epochs cimport LeaderEpochs
from ottla.broker.log.segment cimport Segment
from ottla.records.batch_header cimport BatchHeader


cdef class Log:
    cdef public bytes _epochs_stored
    cdef public list _syncs
    cdef public object aborted
    cdef public object cleaned_to
    cdef public object cuts
    cdef public object directory
    cdef public LeaderEpochs epochs
    cdef public object flushed_us
    cdef public object folder
    cdef public int64_t log_end_offset
    cdef public int64_t log_start_offset
    cdef public object producers
    cdef public int64_t recovery_point
    cdef public list segments
    cdef public object settings
    cdef public object snapshot_offset
    cdef public object storage

    @cython.locals(segment=Segment, base_offset=int64_t, size=int64_t, end=int64_t)
    cpdef append(self, records, BatchHeader header, leader_epoch)
    @cython.locals(segment=Segment)
    cpdef append_copies(self, list buffers, list headers)
    @cython.locals(segment=Segment, header=BatchHeader)
    cdef _append_run(self, list buffers, list headers)
    @cython.locals(more=int64_t, oldest_ms=int64_t, waited_ms=int64_t)
    cdef bint _is_due(self, Segment segment, int64_t ahead, int64_t size, int64_t last_offset, BatchHeader header) except -1
    cpdef note_producer(self, BatchHeader header, base_offset, batch=*)
    @cython.locals(segment=Segment)
    cpdef slice(self, offset, end_offset, max_bytes, at_least_one)
    @cython.locals(segment=Segment)
    cpdef _number_of(self, offset)
    @cython.locals(segment=Segment)
    cpdef segment_of(self, offset)

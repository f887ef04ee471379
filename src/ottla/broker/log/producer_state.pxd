"""What of producer_state.py is C when it is compiled (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.records.batch_header cimport BatchHeader


@cython.final
cdef class ProducerEntry:
    cdef public list batches
    cdef public object coordinator_epoch
    cdef public int64_t epoch
    cdef public int64_t last_timestamp_ms
    cdef public int64_t transaction_offset


cdef class ProducerStates:
    cdef public dict _ended
    cdef public dict _entries
    cdef public object _guards_given
    cdef public dict _open
    cdef public dict _verifications

    @cython.locals(entry=ProducerEntry, first=int64_t, last=int64_t, last_appended=int64_t)
    cpdef check(self, BatchHeader header)
    @cython.locals(entry=ProducerEntry, batches=list, first=int64_t, last=int64_t)
    cpdef note(self, BatchHeader header, base_offset, end_marker=*)
    cdef ProducerEntry _entry_in(self, BatchHeader header)
    cpdef stable_end(self, high_watermark)

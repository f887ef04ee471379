"""What of batch_header.py is C when it is compiled: a header as a struct (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class BatchHeader:
    cdef public int64_t base_offset
    cdef public int64_t batch_length
    cdef public int64_t partition_leader_epoch
    cdef public int64_t magic
    cdef public int64_t crc
    cdef public int64_t attributes
    cdef public int64_t last_offset_delta
    cdef public int64_t base_timestamp
    cdef public int64_t max_timestamp
    cdef public int64_t producer_id
    cdef public int64_t producer_epoch
    cdef public int64_t base_sequence
    cdef public int64_t record_count
    cdef public int64_t position


@cython.locals(header=BatchHeader)
cpdef BatchHeader read_header(buffer, Py_ssize_t position=*)

cpdef check_crc(buffer, BatchHeader header, position=*)

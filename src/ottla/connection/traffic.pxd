"""What of traffic.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.connection.sampled cimport Meter


@cython.final
cdef class NodeMeter(Meter):
    cdef public int64_t requests
    cdef public int64_t request_bytes
    cdef public int64_t outgoing_bytes
    cdef public int64_t responses
    cdef public int64_t incoming_bytes
    cdef public int64_t network_operations
    cdef public int64_t connections_opened
    cdef public int64_t connections_closed
    cdef public int64_t authentications
    cdef public int64_t authentication_failures
    cdef public int64_t reauthentications
    cdef public int64_t reauthentication_failures
    cdef public int64_t reauthentication_us
    cdef public int64_t produce_latency_us
    cdef public int64_t produce_answers
    cdef public int64_t throttle_ms
    cdef public int64_t request_bytes_max
    cdef public int64_t produce_latency_us_max
    cdef public int64_t throttle_ms_max
    cdef public int64_t reauthentication_us_max

    cpdef request_written(self, int64_t size_bytes)
    cpdef answered(self, int64_t throttle_ms)
    cpdef produced(self, int64_t latency_us)


@cython.final
cdef class LoopMeter(Meter):
    cdef public int64_t selects
    cdef public int64_t wait_ns
    cdef public int64_t work_ns

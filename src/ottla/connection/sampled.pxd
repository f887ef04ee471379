"""What of sampled.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython


@cython.final
cdef class SampleClock:
    cdef public object due_us
    cdef public object last_us
    cdef public object sample_count
    cdef public object window_us


cdef class Meter:
    cdef public tuple _samples

"""What of delivery_books.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.records.delivery cimport SealedBatch


@cython.final
cdef class DeliveryBooks:
    cdef public object _appender
    cdef public object _interceptors
    cdef public dict _label_of
    cdef public dict _outstanding
    cdef public int64_t records_settled
    cdef public object _not_acked
    cdef public object _not_acked_before

    @cython.locals(batch=SealedBatch, records=int64_t)
    cpdef enter(self, list batches, label)
    cpdef give_back(self, SealedBatch batch)
    cpdef take_off(self, SealedBatch batch)

"""What of isr_proposals.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.outbox cimport Outbox


@cython.final
cdef class IsrProposals:
    cdef public object _broker_epoch
    cdef public object _broker_id
    cdef public object _check_us
    cdef public object _half_lag_us
    cdef public bint _is_asking
    cdef public Outbox _outbox
    cdef public object _settings
    cdef public dict _topics
    cdef public dict _waiting
    cdef public dict alive
    cdef public dict heard_us
    cdef public object lag_us
    cdef public object send_us

    cpdef propose(self, partition)
    cpdef tick(self, now_us)
    cpdef send(self, now_us)

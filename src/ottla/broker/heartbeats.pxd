"""What of heartbeats.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.outbox cimport Outbox
from ottla.broker.replicas cimport Replicas


@cython.final
cdef class Heartbeats:
    cdef public object _interval_us
    cdef public bint _is_fenced
    cdef public Outbox _outbox
    cdef public Replicas _replicas
    cdef public object _reported_version
    cdef public object _rng
    cdef public bint _wants_to_go
    cdef public object due_us

    @cython.locals(replicas=Replicas)
    cpdef send(self, now_us)

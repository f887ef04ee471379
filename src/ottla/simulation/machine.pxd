"""What of machine.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.simulation.clock cimport Clock
from ottla.simulation.scheduler cimport Scheduler


@cython.final
cdef class Machine:
    cdef public object core
    cdef public Clock clock
    cdef public Scheduler _scheduler
    cdef public object _perform
    cdef public object _armed_us
    cdef public object _frozen
    cdef public list _held
    cdef public bint is_dead
    cdef public object acted

    cpdef deliver(self, event)
    cpdef turn(self)
    cpdef ring(self)
    @cython.locals(outputs=list)
    cdef _carry_out(self, list outputs)

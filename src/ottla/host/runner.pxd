"""What of runner.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.host.machine_clock cimport OwnClock
from ottla.host.schedule cimport Schedule


cdef class Runner:
    cdef public object core
    cdef public OwnClock clock
    cdef public Schedule schedule
    cdef public object _perform
    cdef public object _armed_us
    cdef public object _frozen
    cdef public list _held
    cdef public bint is_dead
    cdef public object acted
    cdef public object failed

    cpdef deliver(self, event)
    cpdef carry_out(self)
    cpdef ring(self)
    cpdef perform(self, output)
    @cython.locals(outputs=list)
    cdef _carry_out(self, list outputs)

"""What of interbroker.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.simulation.network cimport Network
from ottla.simulation.scheduler cimport Scheduler
from ottla.simulation.trace cimport Crossing, Trace


@cython.final
cdef class InterBroker:
    cdef public object _world
    cdef public Scheduler _scheduler
    cdef public Network _network
    cdef public Trace _trace
    cdef public object _rng
    cdef public list _cuts
    cdef public dict _names
    cdef public object _loss_chance
    cdef public dict _questions
    cdef public dict _orders
    cdef public object _numbers
    cdef public object lost

    cdef _lost_us(self, one, other)
    cpdef ask_peer(self, broker_id, question)
    cpdef answer_peer(self, connection_id, message)
    cpdef ask_controller(self, broker_id, question)
    cpdef answer_from_controller(self, answer)
    cdef _cross(self, what, sender, receiver, number, message, arrives_us)
    cdef _deliver(self, broker_id, event, wait_us=*)
    cdef _later(self, machine, event, wait_us)

"""What of links.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.host.crossing cimport Crossing
from ottla.host.schedule cimport Schedule


@cython.final
cdef class Links:
    cdef public Schedule _schedule
    cdef public object _wires
    cdef public object _crossed
    cdef public dict _names
    cdef public object _rng
    cdef public object _request_timeout_us
    cdef public dict brokers
    cdef public object controller
    cdef public object image
    cdef public object published
    cdef public bint has_slow_disk
    cdef public list _cuts
    cdef public list _losses
    cdef public dict _questions
    cdef public dict _patience
    cdef public bint _is_timed
    cdef public dict _asked
    cdef public object _numbers
    cdef public object _orders

    cdef _lost_us(self, one, other)
    cpdef ask_peer(self, broker_id, question)
    cpdef answer_peer(self, connection_id, message)
    cdef _time_oldest(self)
    cpdef ask_controller(self, broker_id, question)
    cpdef answer_from_controller(self, answer)
    cpdef publish(self, output)
    cdef _cross(self, what, sender, receiver, number, message, arrives_us)
    cdef _deliver(self, broker_id, event, wait_us=*)
    cdef _later(self, runner, event, wait_us)

"""What of event_loops_turn.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython

from ottla.client.callers_turn cimport CallersTurn
from ottla.client.channel cimport Channel
from ottla.client.io_loop cimport IoLoop


@cython.final
cdef class EventLoopsTurn(CallersTurn):
    cdef public object _landing
    cdef public object _land
    cdef public list _lent
    cdef public object _awaited
    cdef public object _poller
    cdef public object _event_loop
    cdef public bint _can_be_called

    @cython.locals(channel=Channel)
    cpdef begin_to_await(self, batch, event_loop)
    cdef bint _read_in(self, event_loop) except -1
    @cython.locals(loop=IoLoop)
    cpdef take_answers(self)
    cpdef end(self)
    @cython.locals(channel=Channel)
    cdef _take_answers(self, now_us)
    @cython.locals(channel=Channel, before=Py_ssize_t, is_heard=bint)
    cdef bint _hear(self, bint is_awaited, now_us) except -1
    @cython.locals(channel=Channel)
    cdef _take_all_back(self)

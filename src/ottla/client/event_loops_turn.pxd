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

    @cython.locals(channel=Channel)
    cpdef begin_to_await(self, batch, event_loop)
    @cython.locals(loop=IoLoop)
    cpdef take_answers(self)
    cpdef end(self)
    @cython.locals(channel=Channel)
    cdef _take_answers(self, now_us)
    @cython.locals(channel=Channel)
    cdef _take_all_back(self)

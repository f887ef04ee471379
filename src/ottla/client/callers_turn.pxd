"""What of callers_turn.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.client.channel cimport Channel
from ottla.client.io_loop cimport IoLoop


cdef class CallersTurn:
    cdef public object _driver
    cdef public IoLoop _loop
    cdef public object _core
    cdef public object _request_timeout_us
    cdef public object _caller
    cdef public int64_t _waits
    cdef public Channel _begun
    cdef public bint _settles_all
    cdef public list _left
    cdef public object _given_back
    cdef public object _broken
    cdef public int64_t taken
    cdef public int64_t _used_us

    @cython.locals(loop=IoLoop)
    cpdef bint send_at_once(self) except -1
    @cython.locals(channel=Channel)
    cpdef await_answer(self, batch, timeout_s)
    cpdef thread_looks(self)
    cdef bint _is_alone(self) except -1
    cdef Channel _waits_now(self)
    @cython.locals(loop=IoLoop)
    cdef bint _borrow(self, Channel channel) except -1
    cdef _lend(self, Channel channel)
    cdef _take_back(self, Channel channel)
    cdef _give_back(self, Channel channel)
    cdef _break_down(self, error)
    @cython.locals(channel=Channel)
    cpdef resume(self)
    cpdef list take_left(self)
    cpdef removed(self, Channel channel)
    cpdef close(self)
    cdef _leave_to_thread(self)
    @cython.locals(loop=IoLoop)
    cdef _await(self, Channel channel, timeout_ms)
    @cython.locals(loop=IoLoop)
    cdef _pull(self, Channel channel, is_readable)
    @cython.locals(loop=IoLoop, answers=list)
    cdef bint _take_in(self, Channel channel, now_us) except -1
    @cython.locals(loop=IoLoop, outputs=list, acked=list, count=Py_ssize_t, written=Channel)
    cdef Channel _carry_out(self, now_us)


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

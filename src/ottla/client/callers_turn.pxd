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
    cdef _leave_to_thread(self)
    @cython.locals(loop=IoLoop)
    cdef _await(self, Channel channel, timeout_ms)
    @cython.locals(loop=IoLoop)
    cdef _pull(self, Channel channel, is_readable)
    @cython.locals(loop=IoLoop, answers=list)
    cdef bint _take_in(self, Channel channel, now_us) except -1
    @cython.locals(loop=IoLoop, outputs=list, acked=list, count=Py_ssize_t, written=Channel)
    cdef Channel _carry_out(self, now_us)

"""What of io_loop.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.client.channel cimport Channel
from ottla.connection.traffic cimport LoopMeter, NodeMeter


cdef class IoLoop:
    cdef public object clock
    cdef public bint _by_machine
    cdef public LoopMeter _meter
    cdef public int64_t _woke_ns
    cdef public object _core
    cdef public object _front
    cdef public object _client_id
    cdef public object _security
    cdef public object _connecting
    cdef public object _poller
    cdef public object _doorbell
    cdef public bint _sleeping
    cdef public object _posted
    cdef public object _resolved
    cdef public object _explained
    cdef public object turn
    cdef public object guest
    cdef public object _failed
    cdef public object _ident
    cdef public object _core_due_us
    cdef public double sleep_max_s
    cdef public int64_t wakes_us
    cdef public dict _channels
    cdef public dict _by_fd
    cdef public list _dirty
    cdef public bint _stopping
    cdef public object addresses
    cdef public object _connection_log
    cdef public list _came_back
    cdef public object _thread

    @cython.locals(meter=LoopMeter, idle_ns=int64_t, woke_ns=int64_t, due_now=bint)
    cdef _turn(self)
    cdef _take_posted(self, now_us)
    cdef _sleep(self)
    cdef _timeout_s(self, now_us)
    cpdef now_us(self)
    cpdef bint is_idle(self, now_us) except -1
    @cython.locals(channel=Channel, outputs=list, results=list)
    cdef _carry_out(self, now_us)
    @cython.locals(channel=Channel)
    cpdef enqueue(self, output, now_us)
    @cython.locals(channel=Channel)
    cpdef push_all(self, now_us)
    cpdef tuple read(self, Channel channel)
    cpdef watch_again(self, Channel channel)
    cpdef fail(self, Channel channel, loss)
    cdef _push(self, Channel channel, now_us)
    @cython.locals(correlation_id=object)
    cdef _report_transmitted(self, Channel channel, now_us)
    @cython.locals(channel=Channel)
    cdef _handle(self, list events, now_us)
    cdef _pull(self, Channel channel, now_us)
    @cython.locals(channel=Channel)
    cdef _take_resolved(self, now_us)
    @cython.locals(channel=Channel)
    cdef _take_explained(self, now_us)
    @cython.locals(channel=Channel)
    cdef _take_failed(self, now_us)
    cdef _watch(self, Channel channel)
    cdef _finish_connecting(self, Channel channel, now_us)
    cdef _shake_hands(self, Channel channel, now_us)
    cdef _lose(self, Channel channel, loss, now_us)
    cdef _disconnect(self, output, now_us)
    cdef _tell_of_loss(self, Channel channel, loss, now_us)
    cdef _log_loss(self, Channel channel, loss, now_us)
    cdef _tell_who_came_back(self, now_us)
    cdef _remove(self, Channel channel)

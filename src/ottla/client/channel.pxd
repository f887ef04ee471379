"""What of channel.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython

from ottla.connection.traffic cimport NodeMeter
from ottla.protocol.frames cimport FrameBuffer


@cython.final
cdef class Channel:
    cdef public object connection_id
    cdef public object host
    cdef public object port
    cdef public object sock
    cdef public object fd
    cdef public bint connected
    cdef public bint answered
    cdef public bint served
    cdef public bint waits_to_write
    cdef public bint borrowed
    cdef public object awaited
    cdef public object address
    cdef public list _addresses
    cdef public list _outgoing
    cdef public Py_ssize_t _outgoing_bytes
    cdef public NodeMeter meter
    cdef public Py_ssize_t sent_bytes
    cdef public Py_ssize_t received_bytes
    cdef public object _unanswered
    cdef public FrameBuffer _frames
    cdef public object _buffers
    cdef public object _security
    cdef public object _tls

    cpdef enqueue(self, correlation_id, client_id, message, version, answered)
    @cython.locals(sent=Py_ssize_t)
    cpdef bint push(self) except -1
    cpdef list take_transmitted(self)
    cpdef tuple pull(self)
    @cython.locals(room=Py_ssize_t, received=Py_ssize_t)
    cdef _pull_into(self, list answers)
    cdef tuple _decode(self, frame)

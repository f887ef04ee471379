"""What of client_connection.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.protocol.frames cimport FrameBuffer


@cython.final
cdef class _Sending:
    cdef public object _slice
    cdef public object fd
    cdef public object left
    cdef public object position


@cython.final
cdef class ClientConnection:
    cdef public object _authenticator
    cdef public object stages
    cdef public bint _busy
    cdef public object _client
    cdef public bint _closed
    cdef public bint _deaf
    cdef public bint _ending
    cdef public FrameBuffer _frames
    cdef public object _loop
    cdef public object _out
    cdef public bint _reading
    cdef public object _server
    cdef public bint _silent
    cdef public object _socket
    cdef public object _tls
    cdef public object _waiting
    cdef public bint _writing
    cdef public object active_s
    cdef public object client_id
    cdef public object connection_id
    cdef public object listener
    cdef public object peer

    cpdef respond(self, response)
    cpdef proceed(self)
    cdef _read_on_if_decrypted(self)
    cdef _read_off(self)
    cdef _end_if_done(self)
    cdef _hand_over(self)
    cdef _answered(self)
    cdef bint _flush(self) except -1
    @cython.locals(pieces=list, left=Py_ssize_t, sent=Py_ssize_t, size=Py_ssize_t)
    cdef _send_pieces(self)
    cdef _send_slice(self, item)


@cython.final
cdef class Clients:
    cdef public dict by_id

    @cython.locals(client=ClientConnection)
    cpdef respond(self, response)

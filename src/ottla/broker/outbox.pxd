"""What of outbox.py is C when it is compiled (see setup.py)."""

cimport cython


@cython.final
cdef class Outbox:
    cdef public dict _controller_asked
    cdef public object _number
    cdef public list _outputs
    cdef public dict _peers_asked

    cpdef put(self, output)
    cpdef take(self)
    cpdef next_number(self)
    cpdef ask_controller(self, message, answered)
    cpdef ask_peer(self, broker_id, message, answered)
    cpdef controller_answered(self, token, answer, now_us)
    cpdef bint peer_answered(self, token, answer, now_us) except -1

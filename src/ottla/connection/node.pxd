"""What of node.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.connection.request cimport Pending
from ottla.connection.traffic cimport NodeMeter


@cython.final
cdef class Node:
    cdef public object node_id
    cdef public object host
    cdef public object port
    cdef public object state
    cdef public object connection_id
    cdef public dict pending
    cdef public dict versions
    cdef public dict agreed_versions
    cdef public int64_t failures
    cdef public int64_t unopened
    cdef public object setup_timeout_us
    cdef public int64_t patient_until_us
    cdef public bint is_open
    cdef public int64_t since_us
    cdef public object rest_until_us
    cdef public object throttled_until_us
    cdef public int64_t last_used_us
    cdef public bint wanted
    cdef public object conversation
    cdef public object renew_at_us
    cdef public NodeMeter meter

    @cython.locals(pending=Pending)
    cpdef oldest_sent_us(self)


cpdef version_for(Node node, message_class, caps=*)

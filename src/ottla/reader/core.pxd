"""What of core.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.connection.core cimport ConnectionCore
from ottla.reader.position cimport Position


@cython.final
cdef class ReaderCore:
    cdef public dict _fetching
    cdef public object _isolation_level
    cdef public object _nearest_us
    cdef public list _open
    cdef public list _outputs
    cdef public dict _positions
    cdef public object _settings
    cdef public dict _topics
    cdef public ConnectionCore connection
    cdef public object addresses

    @cython.locals(position=Position)
    cpdef receive(self, event, now_us)
    cpdef outputs(self)
    @cython.locals(position=Position)
    cpdef deadline_us(self)
    cpdef tick(self, now_us)
    @cython.locals(position=Position)
    cdef _advance(self, now_us)
    @cython.locals(position=Position)
    cdef _ask(self, now_us)
    cdef bint _keeps_nearest(self, Position position, now_us) except -1
    cdef _leave_nearest(self, Position position, now_us)
    cdef _reachable_leader(self, Position position, now_us)
    cdef bint _is_in_doubt(self, Position position, node_id) except -1
    cdef _gives_up(self, Position position, now_us)
    cdef _begin_request(self, Position position)
    @cython.locals(position=Position)
    cdef dict _ids_of(self, list positions)


@cython.final
cdef class _WantedTopic:
    cdef public object event
    cdef public object missing_since_us
    cdef public object since_us


@cython.final
cdef class _Asked:
    cdef public dict ids
    cdef public bint is_fetch
    cdef public list positions

"""What of fetch.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.partition cimport Partition


@cython.final
cdef class PendingFetch:
    cdef public object bucket
    cdef public object _core
    cdef public bint _done
    cdef public object _follower_id
    cdef public object _request
    cdef public list _topics

    @cython.locals(partition=Partition)
    cpdef add(self, topic, list wanted, now_us)
    @cython.locals(partition=Partition)
    cpdef start(self, now_us)
    cpdef wake(self)
    cpdef attempt(self, now_us, last=*)
    @cython.locals(partition=Partition)
    cpdef cancel(self)
    cdef _waiters(self, Partition partition)
    cdef _end_offset(self, Partition partition)
    @cython.locals(partition=Partition)
    cdef _has_news(self)
    cdef _begins_later(self, asked, Partition partition)
    cdef _read(self, topic, asked, Partition partition, max_bytes, at_least_one)
    cdef _fault(self, asked, Partition partition)
    cdef _diverging(self, asked, Partition partition)


cdef _is_at_the_end(asked, Partition partition, log)

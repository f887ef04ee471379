"""What of fetch_sessions.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.partition cimport Partition


@cython.final
cdef class FetchSession:
    cdef public object _topic_ids
    cdef public dict _topics
    cdef public object created_us
    cdef public object epoch
    cdef public object follower_id
    cdef public object id
    cdef public bint is_kept
    cdef public bint is_listening
    cdef public dict joining
    cdef public dict news
    cdef public object parked
    cdef public dict partitions
    cdef public dict untold
    cdef public object used_us
    cdef public bint uses_topic_ids

    @cython.locals(known=SessionPartition, gone=SessionPartition, partitions=dict, by_id=bint)
    cpdef ask(self, message)
    @cython.locals(found=Partition)
    cpdef find(self, SessionPartition each)
    @cython.locals(each=SessionPartition)
    cpdef listen(self)
    @cython.locals(each=SessionPartition)
    cpdef end(self)
    cdef _hear_no_more_of(self, SessionPartition each)
    cdef dict _waiters(self, Partition partition)


@cython.final
cdef class SessionPartition:
    cdef public object asked
    cdef public object index
    cdef public Partition partition
    cdef public FetchSession session
    cdef public object told_high_watermark
    cdef public object told_log_start
    cdef public object topic
    cdef public object topic_id

    cpdef wake(self)
    cpdef note(self)
    cpdef isr_changed(self)


@cython.final
cdef class FetchSessions:
    cdef public object _rng
    cdef public dict _sessions
    cdef public object _slots
    cdef public object _topic_ids
    cdef public dict _topics
    cdef public object evictions
    cdef public dict of_followers

    cpdef of(self, message)
    @cython.locals(session=FetchSession)
    cpdef begin(self, message, follower_id, by_id)
    @cython.locals(session=FetchSession)
    cpdef go_on(self, message, follower_id, by_id, now_us)
    cpdef keep(self, FetchSession session, now_us)
    cpdef close(self, FetchSession session)

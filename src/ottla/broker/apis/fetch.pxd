"""What of fetch.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.apis.port cimport BrokerPort
from ottla.broker.fetch_sessions cimport FetchSession, SessionPartition
from ottla.broker.metrics cimport TopicTraffic
from ottla.broker.partition cimport Partition
from ottla.broker.request cimport Request


@cython.final
cdef class PendingFetch:
    cdef public object bucket
    cdef public BrokerPort _broker
    cdef public bint _done
    cdef public object _follower_id
    cdef public bint _is_full
    cdef public Request _request
    cdef public FetchSession _session

    @cython.locals(session=FetchSession, broker=BrokerPort)
    cpdef start(self, now_us)
    @cython.locals(session=FetchSession, each=SessionPartition, partition=Partition, joining=dict, broker=BrokerPort)
    cdef _note_follower(self, now_us)
    cpdef wake(self)
    @cython.locals(session=FetchSession, answers=dict, broker=BrokerPort)
    cpdef attempt(self, now_us, last=*)
    @cython.locals(each=SessionPartition, topics=dict, by_id=bint)
    cdef _by_topic(self, dict answers)
    cpdef cancel(self)
    cdef _finish(self, bint kept)
    cdef _end_offset(self, Partition partition)
    @cython.locals(each=SessionPartition, partition=Partition, news=dict, follows=bint)
    cdef _has_news(self)
    @cython.locals(session=FetchSession)
    cdef _let_go(self, SessionPartition each, Partition partition)
    cdef _begins_later(self, asked, Partition partition)
    @cython.locals(session=FetchSession, each=SessionPartition, partition=Partition, news=dict, follows=bint)
    cdef _collect(self, dict answers, left)
    @cython.locals(each=SessionPartition)
    cdef _completed(self, dict answers)
    @cython.locals(session=FetchSession, each=SessionPartition, partition=Partition, untold=dict)
    cdef _collect_untold(self, dict answers)
    @cython.locals(partition=Partition)
    cdef _read(self, SessionPartition each, max_bytes, at_least_one)
    cdef bint _says_its_rack(self) except -1
    cdef bint _may_follow(self, Partition partition) except -1
    cdef _nearest(self, asked, Partition partition)
    cdef _fault(self, asked, Partition partition)
    cdef _diverging(self, asked, Partition partition)


cdef _is_at_the_end(asked, Partition partition, log)

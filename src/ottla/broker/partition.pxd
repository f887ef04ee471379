"""What of partition.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.log.log cimport Log
from ottla.broker.metrics cimport TopicTraffic
from ottla.records.batch_header cimport BatchHeader


@cython.final
cdef class Follower:
    cdef public object broker_epoch
    cdef public object caught_up_us
    cdef public object end_offset
    cdef public object fetched_us
    cdef public object leader_end_offset
    cdef public object log_start_offset


@cython.final
cdef class RecentBudget:
    cdef public object limit_bytes
    cdef public object used_bytes


@cython.final
cdef class Partition:
    cdef public RecentBudget _budget
    cdef public object _directory
    cdef public object _flush_ms
    cdef public bint _is_shut
    cdef public object _proposals
    cdef public list _waiting_acks
    cdef public object broker_id
    cdef public dict consumers_waiting
    cdef public dict deletions_waiting
    cdef public object epoch_start_offset
    cdef public object fetch_again_us
    cdef public object fetch_asked
    cdef public object fetcher
    cdef public object followed_from
    cdef public dict followers
    cdef public dict followers_waiting
    cdef public object high_watermark
    cdef public object index
    cdef public object isr
    cdef public object leader
    cdef public object leader_epoch
    cdef public Log log
    cdef public object partition_epoch
    cdef public object proposed
    cdef public object recent
    cdef public object replicas
    cdef public object settings
    cdef public object topic
    cdef public object topic_id
    cdef public TopicTraffic traffic

    @cython.locals(log=Log, follower=Follower)
    cpdef append(self, records, BatchHeader header, now_us)
    cpdef await_replication(self, end_offset, order, waiter)
    @cython.locals(follower=Follower)
    cpdef follower_fetched(self, broker_id, fetch_offset, now_us, broker_epoch=*)
    @cython.locals(follower=Follower)
    cpdef follower_begins(self, broker_id, log_start_offset, now_us)
    @cython.locals(follower=Follower, log=Log, waiting=list)
    cpdef advance_high_watermark(self, now_us)
    cpdef follow_high_watermark(self, high_watermark)
    cpdef follow_log_start(self, offset)
    cdef _let_join(self, broker_id, Follower follower)
    cdef _may_join(self, broker_id, Follower follower)
    @cython.locals(log=Log)
    cpdef slice_for_follower(self, offset, max_bytes, at_least_one)
    cpdef append_copies(self, list buffers, list headers)
    cdef _keep_recent(self, base_offset, next_offset, batch)

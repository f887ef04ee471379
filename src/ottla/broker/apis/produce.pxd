"""What of produce.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.broker.apis.port cimport BrokerPort
from ottla.broker.log.log cimport Log
from ottla.broker.metrics cimport TopicTraffic
from ottla.broker.partition cimport Partition
from ottla.broker.request cimport Request
from ottla.records.batch_header cimport BatchHeader


@cython.final
cdef class PendingProduce:
    cdef public object bucket
    cdef public BrokerPort _broker
    cdef public dict _outstanding
    cdef public Request _request
    cdef public object _response

    cpdef await_partition(self, Partition partition, end_offset, answer)
    cpdef replicated(self, order, error_code, now_us)
    cpdef expire(self, now_us)
    cdef _stop_waiting(self)


@cython.locals(partition=Partition, pending=PendingProduce)
cdef _append_all(BrokerPort broker, Request request, verified, now_us)
@cython.locals(traffic=TopicTraffic)
cdef _count_failed(BrokerPort broker, topic)
cdef Partition _leading(BrokerPort broker, Request request, topic, partitions, index)
@cython.locals(header=BatchHeader, log=Log, traffic=TopicTraffic)
cdef _append(Partition partition, Request request, data, answer, verified, now_us, wall_ms, allowance)
cdef _contiguous(records)
@cython.locals(header=BatchHeader)
cdef BatchHeader _checked_header(records, version)
cdef _answer(BrokerPort broker, Request request, response, now_us)
cdef _name_leaders(BrokerPort broker, Request request, response)
cdef bint _concerns(action, topic, index) except -1
cdef _fail(answer, error_code, detail)
cdef _fail_after_append(answer, error_code, detail)

"""What of witness.py is C when it is compiled (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t

from ottla.broker.core cimport BrokerCore
from ottla.broker.log.log cimport Log
from ottla.broker.partition cimport Partition
from ottla.host.runner cimport Runner


@cython.final
cdef class _Watched:
    cdef public object high_watermark
    cdef public object index
    cdef public object leader
    cdef public object leader_epoch
    cdef public object log_end_offset
    cdef public int64_t log_start_offset
    cdef public object name
    cdef public Partition partition


@cython.final
cdef class Witness:
    cdef public dict _batches
    cdef public dict _committed_up_to
    cdef public list _compacted
    cdef public dict _dark
    cdef public list _images
    cdef public list _names
    cdef public dict _roles
    cdef public object moves
    cdef public object _run
    cdef public list _watched
    cdef public object _world

    @cython.locals(core=BrokerCore, seen=_Watched, partition=Partition, log=Log)
    cpdef _broker_acted(self, broker_id)
    cdef _note_marks(self, broker_id, name, index, Partition partition, BrokerCore core)
    cpdef _image_published(self, image)

"""What of storage.py is C when it is compiled (see setup.py)."""

from ottla.broker.write_back cimport WriteBack
from ottla.host.disk_faults cimport DiskFaults


cdef class DiskFile:
    cdef public dict _begun
    cdef public bint _closed
    cdef public object _descriptor
    cdef public bint _failing
    cdef public DiskFaults _faults
    cdef public bint _is_named
    cdef public bint _lasts
    cdef public object _name
    cdef public object _open_files
    cdef public WriteBack _write_back
    cdef public object path
    cdef public object size
    cdef public bint used

    cpdef append(self, buffers)
    cdef _open_descriptor(self)

"""What of write_back.py is C when it is compiled (see setup.py)."""

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class _Unsynced:
    cdef public object ends
    cdef public object size
    cdef public object step_begin_us
    cdef public object synced
    cdef public object written_us

    cpdef next_step(self, end, now_us, interval_us)
    cpdef settle(self, now_us, interval_us)


@cython.final
cdef class WriteBack:
    cdef public dict _files
    cdef public dict _of_folder
    cdef public object _step_us
    cdef public object flush_count
    cdef public object flush_time_us
    cdef public object flush_time_us_max
    cdef public object interval_us
    cdef public object now_us

    @cython.locals(unsynced=_Unsynced)
    cpdef wrote(self, path, begin, end)

"""What of disk_faults.py is C when it is compiled (see setup.py)."""

cimport cython


@cython.final
cdef class DiskFaults:
    cdef public list full
    cdef public list failing

    cpdef check(self, operation, path=*)
    cpdef check_append(self, path=*)

"""What the compiled modules see of a BufferPool, and of a bytearray."""

cimport cython


cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(void *thing) nogil
    ctypedef struct PyByteArrayObject:
        Py_ssize_t ob_alloc


@cython.final
cdef class BufferPool:
    cdef readonly Py_ssize_t limit_bytes
    cdef readonly Py_ssize_t kept_bytes
    cdef list _kept

    cdef bytearray take(self, Py_ssize_t size)
    cdef object give(self, bytearray buffer)

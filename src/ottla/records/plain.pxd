"""What of plain.py is C when it is compiled (see setup.py)."""

cimport cython


@cython.final
cdef class _Section:
    cdef public bytes data
    cdef public object header
    cdef public Py_ssize_t position
    cdef public object allowance
    cdef public Py_ssize_t spare_bytes

    cpdef pay(self, Py_ssize_t count)
    @cython.locals(byte=cython.long)
    cpdef varint(self, bits=*)
    cpdef take(self, size)
    cpdef blob(self)


cdef _decode_records(header, data, allowance)
@cython.locals(section=_Section)
cdef _decode_record(header, _Section section)

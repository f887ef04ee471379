"""What of primitives.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython


@cython.final
cdef class Decoder:
    cdef public object buffer
    cdef public Py_ssize_t position
    cdef public Py_ssize_t end

    cpdef finish(self)
    @cython.locals(position=Py_ssize_t)
    cpdef fixed(self, layout)
    cpdef int8(self)
    cpdef int16(self)
    cpdef uint16(self)
    cpdef int32(self)
    cpdef uint32(self)
    cpdef int64(self)
    cpdef float64(self)
    cpdef bint boolean(self) except -1
    cpdef uvarint(self)
    cpdef varint(self)
    cpdef varlong(self)
    cpdef uuid(self)
    cpdef string(self)
    cpdef nullable_string(self)
    cpdef compact_string(self)
    cpdef nullable_compact_string(self)
    cpdef byte_string(self)
    cpdef nullable_byte_string(self)
    cpdef compact_byte_string(self)
    cpdef nullable_compact_byte_string(self)
    cpdef count(self, element_bytes_min)
    cpdef nullable_count(self, element_bytes_min)
    cpdef compact_count(self, element_bytes_min)
    cpdef nullable_compact_count(self, element_bytes_min)
    cpdef skip_tags(self)
    cpdef tagged_fields(self)
    cpdef bint has_struct(self) except -1
    cdef _take(self, length)
    cdef _text(self, length)
    cdef _checked_count(self, count, element_bytes_min)
    cdef _long_uvarint(self, bits)
    cdef _cut_short(self, wanted)
    cdef _unexpected_null(self, kind)


@cython.final
cdef class Encoder:
    cdef public bytearray out
    cdef public list _chunks
    cdef public Py_ssize_t _chunks_bytes

    cpdef list chunks(self)
    cpdef uvarint(self, value)
    cpdef varint(self, value)
    cpdef varlong(self, value)
    cpdef uuid(self, value)
    cpdef string(self, value)
    cpdef nullable_string(self, value)
    cpdef compact_string(self, value)
    cpdef nullable_compact_string(self, value)
    cpdef byte_string(self, value)
    cpdef nullable_byte_string(self, value)
    cpdef compact_byte_string(self, value)
    cpdef nullable_compact_byte_string(self, value)
    cpdef records(self, value)
    cpdef compact_records(self, value)
    cpdef count(self, values)
    cpdef nullable_count(self, values)
    cpdef compact_count(self, values)
    cpdef nullable_compact_count(self, values)
    cpdef numbers(self, values, code)
    cpdef tagged_fields(self, fields)
    cdef _pass_on(self, list parts, Py_ssize_t size)

"""The functions that `decode` calls for each row."""

from libc.stdint cimport int64_t

from ottla.schemas.protobuf.parts cimport Part, Reading

cdef bint read_message(Reading *reading, Part *root, const char *data, int64_t size) noexcept nogil
cdef bint append_row(Reading *reading, Part *part) noexcept nogil
cdef void forget(Part *part) noexcept nogil
cdef void truncate(Part *part, int64_t length) noexcept nogil

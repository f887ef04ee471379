"""The function that `encode` calls for each row."""

from libc.stdint cimport int64_t

from ottla.schemas.protobuf.sources cimport Source, Writing

cdef bint put_message(Writing *writing, Source *message, int64_t row) noexcept nogil

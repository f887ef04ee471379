"""The columns that messages are decoded into."""

cimport cython
from libc.stdint cimport int64_t

from ottla.records.arrow_layout cimport Blobs
from ottla.schemas.protobuf.parts cimport Part, Reading


@cython.final
cdef class DecodedMessages:
    cdef Part _root
    cdef Reading _reading
    cdef list _allocated  # addresses
    cdef list _kept  # names and formats that the C structs point to
    cdef list _paths  # by a part's index
    cdef readonly int64_t failed_count
    cdef readonly list failed_rows
    cdef int64_t _times  # bytes of columns that a byte of payload may make

    cdef void *_zeroed(self, size_t count, size_t size)
    cdef const char *_text(self, bytes text)
    cdef object _open(self, Part *part, object plan)
    cdef object _open_children(self, Part *part, object plan)
    cdef object _open_names(self, Part *part, object plan)
    cdef object _decode(self, Blobs *column, int64_t rows, object frame, bint nulls, int64_t first_row)
    cdef object _reason(self)
    cdef object _finish(self, Part *part)
    cdef void _free(self, Part *part) noexcept

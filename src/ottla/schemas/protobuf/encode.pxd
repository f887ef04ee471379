"""The column that messages are encoded into."""

cimport cython
from libc.stdint cimport int64_t

from ottla.records.arrow_layout cimport ArrowArray, ArrowSchema, Growing
from ottla.schemas.protobuf.sources cimport Source, Writing


@cython.final
cdef class EncodedMessages:
    cdef Writing _writing
    cdef Growing _ends
    cdef Growing _valid
    cdef int64_t _length
    cdef int64_t _null_count
    cdef ArrowArray _array
    cdef ArrowSchema _schema
    cdef const void *_buffers[3]
    cdef Source _root
    cdef list _allocated  # addresses
    cdef list _kept  # names that the C structs point to
    cdef list _paths  # by a source's index

    cdef object _free_sources(self)
    cdef void *_zeroed(self, size_t count, size_t size)
    cdef object _open(self, ArrowSchema *schema, ArrowArray *array, object plan, object columns)
    cdef object _read_fields(
        self, Source *source, ArrowSchema *schema, ArrowArray *array, int64_t parent_offset, object plan, object columns
    )
    cdef object _field(self, Source *source, object plan)
    cdef object _read(
        self, Source *source, ArrowSchema *schema, ArrowArray *array, int64_t parent_offset, object plan
    )
    cdef object _read_nested(
        self, Source *source, ArrowSchema *schema, ArrowArray *array, object plan, str kind
    )
    cdef object _read_names(self, Source *source, object plan)
    cdef object _write(self, int64_t rows, bytes prefix, int64_t first_row)
    cdef object _problem(self)
    cdef object _finish(self)

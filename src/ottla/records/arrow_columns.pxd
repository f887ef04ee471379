"""What the encoder calls to find its columns in a chunk, once per chunk and column."""

from libc.stdint cimport int64_t, uint8_t

from ottla.records.arrow_data cimport Chunk
from ottla.records.arrow_layout cimport ArrowArray, ArrowSchema, Blobs, Lists

cdef str type_name(const ArrowSchema *schema)
cdef object wrong_type(str role, str name, const ArrowSchema *schema, str allowed)
cdef Py_ssize_t column_index(Chunk chunk, str role, str name) except? -1
cdef const uint8_t *validity_of(const ArrowArray *array) noexcept
cdef bint is_byte_strings(const ArrowSchema *schema) except? -1
cdef object read_byte_strings(
    Blobs *column, const ArrowSchema *schema, const ArrowArray *array, int64_t parent_offset, str role, str name
)
cdef object read_headers(
    Lists *column, const ArrowSchema *schema, const ArrowArray *array, int64_t parent_offset, str name
)

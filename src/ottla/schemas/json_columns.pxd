"""What of json_columns.py is C when it is compiled; `key_texts` uses it, too."""

cimport cython
from libc.stdint cimport int64_t

from ottla.records.arrow_layout cimport ArrowArray, ArrowSchema, Growing
from ottla.schemas.json_nodes cimport Node


@cython.final
cdef class JsonColumn:
    cdef Growing _text
    cdef Growing _ends
    cdef int64_t _length
    cdef ArrowArray _array
    cdef ArrowSchema _schema
    cdef const void *_buffers[3]
    cdef Node _root
    cdef bytes _prefix
    cdef const char *_prefix_data  # of `_prefix`
    cdef int64_t _prefix_bytes
    cdef list _columns  # the names
    cdef list _allocated  # the addresses of child nodes
    cdef list _labels

    cdef object _free_nodes(self)
    cdef Node *_child_nodes(self, Node *node, Py_ssize_t count)
    cdef object _label(self, Node *node, str name)
    cdef object _open(self, ArrowSchema *schema, ArrowArray *array, object columns)
    cdef object _check_floats(self, int64_t rows, int64_t first_row)
    cdef object _read(self, Node *node, ArrowSchema *schema, ArrowArray *array, int64_t parent_offset, str column)
    cdef object _read_text(self, Node *node, ArrowSchema *schema, ArrowArray *array, str column)
    cdef object _read_decimal(self, Node *node, str kind, ArrowSchema *schema, str column)
    cdef object _read_time(self, Node *node, str kind)
    cdef object _read_nested(self, Node *node, str kind, ArrowSchema *schema, ArrowArray *array, str column)
    cdef object _write_chunk(self, int64_t rows)
    cdef bint _write_rows(self, int64_t row, int64_t until) noexcept nogil
    cdef object _finish(self)

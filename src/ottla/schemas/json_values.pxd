"""The functions that `json_columns` calls: one for each row, and before that one for each column with floats."""

from libc.stdint cimport int64_t

from ottla.records.arrow_layout cimport Growing
from ottla.schemas.json_nodes cimport Node

cdef bint put_value(Growing *out, const Node *node, int64_t row) noexcept nogil
cdef int64_t first_not_finite(const Node *node, int64_t begin, int64_t end, double *value) noexcept nogil

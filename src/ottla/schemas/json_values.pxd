"""The one function that `json_columns` calls, once per row."""

from libc.stdint cimport int64_t

from ottla.records.arrow_layout cimport Growing
from ottla.schemas.json_nodes cimport Node

cdef bint put_value(Growing *out, const Node *node, int64_t row) noexcept nogil

"""The plan of a decoder, for the compiled modules that run it."""

cimport cython

from libc.stdint cimport int64_t

from ottla.records.arrow_layout cimport ArrowSchema
from ottla.schemas.avro.building cimport Building, Step


@cython.final
cdef class Layout:
    # The columns before the first row; each one's children are next to each other.
    cdef Building *columns
    cdef ArrowSchema *schemas
    cdef ArrowSchema **_pointers
    cdef int count
    cdef list _texts  # keeps names and formats in memory
    cdef dict numbers  # the index of each `Column`
    cdef list is_row  # whether a column has one value for each row (it is in no list)

    cdef object _fill(self, int i, object column, int first_child)


@cython.final
cdef class Program:
    cdef Step *steps
    cdef list _pointers  # of the lists of children and offsets, to be freed
    cdef list _kept  # keeps constants in memory
    cdef list plans

    cdef object _fill(self, Step *step, int number, object plan, dict numbers, Layout layout)
    cdef void *_memory(self, size_t count, size_t size)
    cdef object _keep(self, Step *step, bytes constant)
    cdef object _fill_symbols(self, Step *step, tuple symbols)


cdef void *zeroed(size_t count, size_t size)

"""What the compiled modules see of Arrow data in memory: the C structs behind it, and making capsules of them."""

cimport cython

from ottla.records.arrow_layout cimport ArrowArray, ArrowSchema


@cython.final
cdef class OwnedSchema:
    cdef ArrowSchema c


@cython.final
cdef class Chunk:
    cdef ArrowArray c
    cdef OwnedSchema schema


cdef Chunk import_array(object data)
cdef object schema_capsule(const ArrowSchema *source, object owner)
cdef object array_capsule(const ArrowArray *source, object owner)

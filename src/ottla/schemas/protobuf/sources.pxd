"""The tree of sources from which messages are encoded: each is a field with the column of its values."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from ottla.records.arrow_layout cimport Blobs, Growing
from ottla.schemas.protobuf.parts cimport Kind


cdef enum Range:
    # The range of a field's whole numbers.
    OF_INT32
    OF_UINT32
    OF_INT64
    OF_UINT64


cdef enum Fault:
    NONE
    IS_MISSING
    NULL_ITEM
    OUT_OF_RANGE
    NO_SUCH_NAME
    TWO_OF_ONEOF
    NO_TIME
    FLOAT_TOO_LARGE
    BAD_LAYOUT
    MEMORY_SHORT


cdef struct Source:
    Kind kind
    Kind inner
    Range range
    int index  # for its path
    uint64_t tag
    # Whether a default is not written.
    bint implicit
    bint required
    bint packed
    bint is_single_float
    int oneof
    # The column; a field without one is never written. `type` is Arrow's format character of numbers.
    bint has_column
    char type
    const uint8_t *validity
    const void *values
    int64_t offset
    Blobs text
    bint by_name
    bint is_large
    int64_t width
    int64_t per_second
    # An enum's names, sorted as bytes, with their numbers.
    int64_t name_count
    const char **names
    int64_t *name_bytes
    int32_t *name_numbers
    Source *children
    int child_count
    # The child that is set in each oneof of the current message, or -1.
    int *chosen
    int chosen_count


cdef struct Writing:
    Growing out
    Fault fault
    Source *source
    int64_t row  # of `source`'s column

"""The tree of nodes from which JSON is written: each is a column, or a part of a nested one."""

from libc.stdint cimport int64_t

from ottla.records.arrow_layout cimport Blobs


cdef enum Form:
    # How a node's values are written.
    AS_NULL
    AS_BOOLEAN
    AS_WHOLE
    AS_UNSIGNED
    AS_FLOAT
    AS_DOUBLE
    AS_TEXT
    AS_DECIMAL
    AS_DATE
    AS_TIME
    AS_TIMESTAMP
    AS_LIST
    AS_STRUCT
    AS_MAP


cdef struct Node:
    # A column, or a part of a nested one: the place of its values and how to write them.
    Form form
    Blobs text
    const unsigned char *validity
    const void *values
    int64_t offset
    # Whether it has floats, in itself or in a part.
    bint has_floats
    char type
    bint is_large
    int64_t width
    # Of times: units in a second (of dates: in a day), and digits of the fraction; of decimals `digits` is the scale.
    int64_t per_second
    int digits
    bint is_utc
    # A struct's (or the row's) fields; `label` is a field's name in quotes, escaped, with its colon.
    Node *children
    int child_count
    const char *label
    int64_t label_bytes

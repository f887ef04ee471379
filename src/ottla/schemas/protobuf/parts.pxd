"""The tree of parts into which messages are decoded: each has the current row's value so far, and its column."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from ottla.records.arrow_layout cimport ArrowArray, ArrowSchema, Growing


cdef enum Kind:
    # How a value is written.
    AS_BOOL
    AS_VARINT32
    AS_VARINT64
    AS_ZIGZAG32
    AS_ZIGZAG64
    AS_FIXED32
    AS_FIXED64
    AS_STRING
    AS_BYTES
    AS_ENUM
    AS_TIMESTAMP
    AS_DURATION
    AS_WRAPPER
    AS_MESSAGE
    AS_GROUP
    AS_LIST
    AS_MAP


cdef enum Store:
    # How a column is stored: a byte a value (turned into bits at the end), 4 or 8 bytes, text, or children.
    # The stores of numbers come first.
    IN_BITS
    IN_4
    IN_8
    IN_TEXT
    IN_CHILDREN


cdef enum Status:
    FINE
    CUT_SHORT
    VARINT_TOO_LONG
    BAD_TAG
    STRAY_GROUP_END
    OPEN_GROUP
    ODD_PACKED
    NOT_UTF8
    MISSING
    BAD_TIME
    TIME_TOO_FAR
    TOO_DEEP
    NO_MAGIC
    OTHER_SCHEMA
    OTHER_MESSAGE
    NOT_ARROW
    # From here on it is no error of the row.
    TOO_MUCH
    NO_MEMORY


cdef struct Part:
    Kind kind
    Kind inner
    Store store
    int wire
    # Whether its values may be packed.
    bint packable
    bint nullable
    bint required
    bint closed
    int index  # for its path
    int64_t number
    int oneof
    Part *children
    int child_count
    # The child of a field number: `dense` by number if it is small; `sorted` are the children's indexes by number.
    int32_t *dense
    int64_t dense_count
    int32_t *sorted
    # The member of each oneof that is set so far.
    Part **chosen
    int chosen_count
    # An enum's names.
    int64_t name_count
    int32_t *name_numbers
    const char **names
    int64_t *name_bytes
    int32_t default_number
    # Of times: units per second.
    int64_t per_second

    # The value of the row that is being read.
    bint seen
    bint dropped
    uint64_t bits
    int64_t nanos
    const char *text
    int64_t text_bytes
    Growing entries  # of a map: the bytes of each entry, as Slice

    # The column: `valid` has a byte for each row; it is empty if the part cannot be null.
    Growing values
    Growing data
    Growing valid
    int64_t length

    ArrowArray array
    ArrowSchema schema
    const void *buffers[3]
    ArrowArray **child_arrays
    ArrowSchema **child_schemas


cdef struct Slice:
    const char *data
    int64_t size


cdef struct Reading:
    # The error and its part; how many bytes of memory the columns may still take.
    Status status
    Part *part
    int64_t bytes_left

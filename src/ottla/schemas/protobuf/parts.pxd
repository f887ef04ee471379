"""What columns are decoded into: a tree of parts, each with the value that its row has so far, and its column."""

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
    # How a column is laid out: a byte (made a bit in the end), 4 or 8 bytes, or text; parts of a message have none.
    # Numbers come first.
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
    # From here on it is not the row's own fault.
    TOO_MUCH
    NO_MEMORY


cdef struct Part:
    Kind kind
    Kind inner
    Store store
    int wire
    # Whether several values may be written side by side.
    bint packable
    bint nullable
    bint required
    bint closed
    int index  # for its path
    int64_t number
    int oneof
    Part *children
    int child_count
    # Which child has a field's number: an index where numbers are small, else the children's indexes by their numbers.
    int32_t *dense
    int64_t dense_count
    int32_t *sorted
    # The member of each oneof that counts so far.
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
    Growing entries  # of a map: where each entry lies, as Slice

    # The column: `valid` has a byte for each row, and nothing where a part cannot be null.
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
    # What has gone wrong, and where; how many bytes may still be made.
    Status status
    Part *part
    int64_t bytes_left

"""How Arrow lays data out: the structs of its C data interface, columns of byte strings, whole numbers and lists read
without copies, and columns being written (inline pieces of the compiled modules).

https://arrow.apache.org/docs/format/CDataInterface.html. What a producer of Arrow data hands over is trusted to be
laid out as its format says; only lengths are looked at before they are used.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset


cdef struct ArrowSchema:
    const char *format
    const char *name
    const char *metadata
    int64_t flags
    int64_t n_children
    ArrowSchema **children
    ArrowSchema *dictionary
    void (*release)(ArrowSchema *) noexcept nogil
    void *private_data


cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void **buffers
    ArrowArray **children
    ArrowArray *dictionary
    void (*release)(ArrowArray *) noexcept nogil
    void *private_data


cdef struct ArrowArrayStream:
    int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept nogil
    int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept nogil
    const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
    void (*release)(ArrowArrayStream *) noexcept nogil
    void *private_data


cdef enum:
    NULLABLE = 2  # ArrowSchema.flags


cdef enum Kind:
    ALL_NULL
    OFFSETS_32
    OFFSETS_64
    VIEWS
    FIXED_WIDTH


cdef struct Blobs:
    # A column of byte strings, or a dictionary of them with a column of indices.
    Kind kind
    int64_t offset
    const uint8_t *validity
    const void *offsets  # or the views, or the fixed-width values
    const char *data
    const void **buffers
    int64_t width
    int64_t length  # of the dictionary
    # The indices, if there is a dictionary; then the fields above are those of the dictionary.
    const void *indices
    const uint8_t *index_validity
    int64_t index_offset
    char index_type


cdef struct Numbers:
    # A column of whole numbers; `type` is Arrow's format character, and `values` NULL where there is no column.
    char type
    int64_t offset
    const uint8_t *validity
    const void *values


cdef inline bint is_set(const uint8_t *bitmap, int64_t i) noexcept nogil:
    return bitmap == NULL or bitmap[i >> 3] >> (i & 7) & 1


cdef inline int64_t whole_number(const void *values, char type, int64_t i) noexcept nogil:
    if type == c'l':
        return (<const int64_t *> values)[i]
    if type == c'i':
        return (<const int32_t *> values)[i]
    if type == c'c':
        return (<const int8_t *> values)[i]
    if type == c'C':
        return (<const uint8_t *> values)[i]
    if type == c's':
        return (<const int16_t *> values)[i]
    if type == c'S':
        return (<const uint16_t *> values)[i]
    if type == c'I':
        return (<const uint32_t *> values)[i]
    return <int64_t> (<const uint64_t *> values)[i]


cdef inline bint number_at(const Numbers *column, int64_t row, int64_t *number) noexcept nogil:
    """False where the row is null or there is no such column."""
    if column.values == NULL or not is_set(column.validity, column.offset + row):
        return False
    number[0] = whole_number(column.values, column.type, column.offset + row)
    return True


cdef inline object named_at(const Numbers *column, int64_t row):
    """The number of a row that is not null, for a message: also one that only uint64 can hold."""
    cdef int64_t number = whole_number(column.values, column.type, column.offset + row)
    if column.type == c'L':
        return <uint64_t> number
    return number


cdef inline int64_t blob_at(const Blobs *column, int64_t row, const char **data) noexcept nogil:
    """The length of a row's bytes, -1 where it is null, -2 where the column is not laid out as Arrow says."""
    cdef int64_t i = row + column.offset
    cdef int64_t begin, length, index
    cdef const char *view
    if column.kind == ALL_NULL:
        return -1
    if column.indices != NULL:
        index = row + column.index_offset
        if not is_set(column.index_validity, index):
            return -1
        index = whole_number(column.indices, column.index_type, index)
        if index < 0 or index >= column.length:
            return -2
        i = index + column.offset
    if not is_set(column.validity, i):
        return -1
    if column.kind == OFFSETS_32:
        begin = (<const int32_t *> column.offsets)[i]
        length = (<const int32_t *> column.offsets)[i + 1] - begin
        data[0] = column.data + begin
    elif column.kind == OFFSETS_64:
        begin = (<const int64_t *> column.offsets)[i]
        length = (<const int64_t *> column.offsets)[i + 1] - begin
        data[0] = column.data + begin
    elif column.kind == VIEWS:
        view = <const char *> column.offsets + 16 * i
        length = (<const int32_t *> view)[0]
        if length <= 12:
            data[0] = view + 4
        else:
            data[0] = <const char *> column.buffers[2 + (<const int32_t *> view)[2]] + (<const int32_t *> view)[3]
    else:
        length = column.width
        data[0] = <const char *> column.offsets + i * length
    return length if length >= 0 else -2


# ---------------------------------------------------------------------- lists


cdef struct Lists:
    # A column of lists or maps of (key, value); `offsets` is NULL where there is no such column.
    bint is_large
    int64_t offset
    const uint8_t *validity
    const void *offsets
    const uint8_t *item_validity
    int64_t item_offset
    Blobs keys
    Blobs values


cdef inline int64_t list_at(const Lists *column, int64_t row, int64_t *begin) noexcept nogil:
    """How many items a row has (none where it is null), the first of them in `begin`; -2 for nonsense."""
    cdef int64_t i = row + column.offset
    cdef int64_t length
    if column.offsets == NULL or not is_set(column.validity, i):
        return 0
    if column.is_large:
        begin[0] = (<const int64_t *> column.offsets)[i]
        length = (<const int64_t *> column.offsets)[i + 1] - begin[0]
    else:
        begin[0] = (<const int32_t *> column.offsets)[i]
        length = (<const int32_t *> column.offsets)[i + 1] - begin[0]
    return length if length >= 0 else -2


# ---------------------------------------------------------------------- columns that grow


cdef struct Growing:
    # Bytes being collected; `data` is NULL as long as there are none.
    char *data
    int64_t size
    int64_t capacity


cdef inline bint reserve(Growing *column, int64_t more) noexcept nogil:
    """Make room for `more` bytes behind the ones there are, at least doubling; False when memory is short."""
    cdef int64_t capacity
    cdef char *data
    if column.size + more <= column.capacity:
        return True
    capacity = 2 * column.capacity if 2 * column.capacity > column.size + more else column.size + more
    capacity = (capacity + 63) & ~<int64_t> 63
    data = <char *> realloc(column.data, capacity)
    if data == NULL:
        return False
    column.data = data
    column.capacity = capacity
    return True


cdef inline bint extend(Growing *column, const char *data, int64_t size) noexcept nogil:
    if not reserve(column, size):
        return False
    memcpy(column.data + column.size, data, size)
    column.size += size
    return True


cdef inline int turn_into_offsets(Growing *ends, int64_t length, int64_t total) noexcept nogil:
    """Make Arrow's offsets of where each of `length` byte strings ends (64 bits each), in place.

    `total` is the last end. 1: the offsets have 64 bits, 0: 32 bits do, -1: there is no memory.
    """
    if not reserve(ends, 8):
        return -1
    cdef int64_t *wide = <int64_t *> ends.data
    cdef int32_t *narrow = <int32_t *> ends.data
    cdef bint is_large = total > 0x7FFFFFFF
    cdef int64_t before = 0
    cdef int64_t end
    cdef int64_t i
    # From the first to the last: a number is read before another one is written over it.
    for i in range(length + 1):
        end = wide[i] if i < length else 0
        if is_large:
            wide[i] = before
        else:
            narrow[i] = <int32_t> before
        before = end
    return is_large


cdef struct GrowingBlobs:
    # A byte string column with 32-bit offsets; `reserve_rows` writes its first offset, 0.
    Growing offsets
    Growing data
    Growing validity
    int64_t length
    int64_t null_count


cdef inline bint reserve_rows(GrowingBlobs *column, int64_t more) noexcept nogil:
    cdef int64_t before = column.validity.capacity
    column.offsets.size = 4 * (column.length + 1)
    column.validity.size = (column.length + 7) >> 3
    if not reserve(&column.offsets, 4 * more) or not reserve(&column.validity, (more >> 3) + 1):
        return False
    if column.length == 0:
        (<int32_t *> column.offsets.data)[0] = 0
    # Rows are valid until `append_blob` marks one as null.
    memset(column.validity.data + before, 0xFF, column.validity.capacity - before)
    return True


cdef inline bint append_blob(GrowingBlobs *column, const char *data, int64_t size) noexcept nogil:
    """Append to a column whose rows are reserved; `size` -1 is null. False when memory or the offsets run out."""
    if size < 0:
        column.validity.data[column.length >> 3] &= ~(1 << (column.length & 7))
        column.null_count += 1
    else:
        if column.data.size + size > 0x7FFFFFFF:
            return False
        if size > 0 and not extend(&column.data, data, size):
            return False
    column.length += 1
    (<int32_t *> column.offsets.data)[column.length] = <int32_t> column.data.size
    return True


cdef inline void free_blobs(GrowingBlobs *column) noexcept nogil:
    free(column.offsets.data)
    free(column.data.data)
    free(column.validity.data)

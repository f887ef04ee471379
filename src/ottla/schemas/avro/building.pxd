"""Arrow columns of any type while rows are added to them, and the steps that read them from payloads (inline pieces of
the compiled modules).

The columns of one decoding are an array, in which a column's children are next to each other. Every column grows by
itself. Their memory together is limited: `Reading.room_bytes` is how many bytes they may still take, and `empty_items`
how many items that take no bytes in the payload may still come.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy, memset

from ottla.records.arrow_layout cimport Growing
from ottla.records.wire cimport likely, unlikely


cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text) noexcept


cdef enum Storage:
    # Where the values of a column lie.
    STORE_NOTHING
    STORE_BITS
    STORE_FIXED
    STORE_BLOBS
    STORE_LISTS
    STORE_FIELDS


cdef struct Building:
    # A column. `values` are bits, numbers or offsets; `data` is the bytes of byte strings.
    Storage storage
    int64_t width
    bint is_nullable
    int first_child
    int child_count
    int64_t length
    Growing validity
    Growing values
    Growing data


cdef enum Op:
    # What a step does with the next bytes.
    OP_NULL
    OP_BOOLEAN
    OP_INT
    OP_LONG
    OP_FLOAT
    OP_DOUBLE
    OP_BYTES
    OP_STRING
    OP_FIXED
    OP_ENUM
    OP_DECIMAL_BYTES
    OP_DECIMAL_FIXED
    OP_INT_LONG
    OP_INT_FLOAT
    OP_INT_DOUBLE
    OP_LONG_FLOAT
    OP_LONG_DOUBLE
    OP_FLOAT_DOUBLE
    OP_TIME
    OP_RECORD
    OP_ARRAY
    OP_MAP
    OP_UNION
    OP_OPTIONAL
    OP_MEMBER
    OP_CONSTANT
    OP_FAIL
    OP_SKIP_NOTHING
    OP_SKIP_BYTES
    OP_SKIP_VARINT
    OP_SKIP_SIZED
    OP_SKIP_RECORD
    OP_SKIP_BLOCKS
    OP_SKIP_ENTRIES


cdef enum Reason:
    # Why a row cannot be read.
    FINE
    ENDS_EARLY
    LONG_VARINT
    NOT_INT
    NOT_BOOLEAN
    NOT_TEXT
    NEGATIVE_LENGTH
    NO_SYMBOL
    UNKNOWN_SYMBOL
    NO_BRANCH
    WRONG_COUNT
    WRONG_BLOCK
    EMPTY_ITEMS
    WIDE_DECIMAL
    TOO_DEEP
    NO_PLACE
    BYTES_LEFT
    SHORT_FRAME
    NO_ID
    NOT_TIME
    UNKNOWN_ID
    # From here on columns cannot grow, which is no error of one payload.
    NO_MEMORY
    NO_ROOM
    NO_OFFSETS


cdef struct Step:
    Op op
    int number  # its index among the steps, to look up its path
    int column  # -1 where there is none
    Step **children
    int child_count
    # A size, the branch that is null, the index of a member, or the first number that is no time of day. Of arrays and
    # maps: whether an item takes bytes.
    int64_t size
    # Of an enum, two numbers a symbol: where it begins in `data` (-1 if the reader has no such symbol), its length.
    int64_t *offsets
    # Symbols, an encoded default, or the bound of a decimal.
    const char *data
    int64_t data_bytes


cdef struct Reading:
    # A payload being read into columns.
    const char *at
    const char *end
    Building *columns
    int depth
    int64_t room_bytes
    int64_t empty_items
    int64_t empty_fields
    Step *failed
    Reason reason


cdef inline bint grow(Growing *column, int64_t size, Reading *reading) noexcept nogil:
    """Make room for `size` bytes in all, at least doubling; False, and the reason is set, if that is not possible."""
    cdef int64_t capacity = 2 * column.capacity if 2 * column.capacity > size else size
    cdef char *data
    capacity = (capacity + 63) & ~<int64_t> 63
    if capacity - column.capacity > reading.room_bytes:
        reading.reason = NO_ROOM
        return False
    data = <char *> realloc(column.data, capacity)
    if data == NULL:
        reading.reason = NO_MEMORY
        return False
    reading.room_bytes -= capacity - column.capacity
    column.data = data
    column.capacity = capacity
    return True


cdef inline bint put_validity(Building *column, bint is_valid, Reading *reading) noexcept nogil:
    """Write whether the next value is valid; to be called before the column's length grows."""
    cdef int64_t at = column.length >> 3
    cdef int bit = column.length & 7
    cdef uint8_t *byte
    if not column.is_nullable:
        return True
    if unlikely(at >= column.validity.capacity) and not grow(&column.validity, at + 1, reading):
        return False
    byte = <uint8_t *> column.validity.data + at
    byte[0] = <uint8_t> ((byte[0] & ~(1 << bit)) | (is_valid << bit))
    return True


cdef inline char *next_value(Building *column, int64_t width, Reading *reading) noexcept nogil:
    """Where the next value of so many bytes is to be written; NULL if there is no room."""
    cdef int64_t at = column.length * width
    if unlikely(at + width > column.values.capacity) and not grow(&column.values, at + width, reading):
        return NULL
    return column.values.data + at


cdef inline bint put_bit(Building *column, bint value, Reading *reading) noexcept nogil:
    cdef int64_t at = column.length >> 3
    cdef int bit = column.length & 7
    cdef uint8_t *byte
    if unlikely(at >= column.values.capacity) and not grow(&column.values, at + 1, reading):
        return False
    byte = <uint8_t *> column.values.data + at
    byte[0] = <uint8_t> ((byte[0] & ~(1 << bit)) | (value << bit))
    return True


cdef inline bint put_offset(Building *column, int64_t offset, Reading *reading) noexcept nogil:
    """Write where the next value ends; the first offset, 0, is there from the start."""
    cdef int64_t end = 4 * (column.length + 2)
    if unlikely(offset > 0x7FFFFFFF):
        reading.reason = NO_OFFSETS
        return False
    if unlikely(end > column.values.capacity) and not grow(&column.values, end, reading):
        return False
    (<int32_t *> column.values.data)[column.length + 1] = <int32_t> offset
    return True


cdef inline bint put_blob(Building *column, const char *data, int64_t size, Reading *reading) noexcept nogil:
    cdef int64_t end = column.data.size + size
    if not put_offset(column, end, reading):
        return False
    if unlikely(end > column.data.capacity) and not grow(&column.data, end, reading):
        return False
    memcpy(column.data.data + column.data.size, data, size)
    column.data.size = end
    return True


cdef inline bint put_null(Building *column, Reading *reading) noexcept nogil:
    """Append a null; to a column without nulls an empty value: its parent is null in this row."""
    cdef char *value
    cdef int i
    if not put_validity(column, False, reading):
        return False
    if column.storage == STORE_BITS:
        if not put_bit(column, False, reading):
            return False
    elif column.storage == STORE_FIXED:
        value = next_value(column, column.width, reading)
        if value == NULL:
            return False
        memset(value, 0, column.width)
    elif column.storage == STORE_BLOBS or column.storage == STORE_LISTS:
        if not put_offset(column, (<int32_t *> column.values.data)[column.length], reading):
            return False
    elif column.storage == STORE_FIELDS:
        for i in range(column.child_count):
            if not put_null(reading.columns + column.first_child + i, reading):
                return False
    column.length += 1
    return True


cdef inline void cut(Building *columns, Building *column, int64_t length) noexcept nogil:
    """Cut a column and its children to `length` values; a child may have one value more than its parent."""
    cdef int i
    if column.length > length:
        column.length = length
    if column.storage == STORE_BLOBS:
        column.data.size = (<int32_t *> column.values.data)[length]
    elif column.storage == STORE_LISTS:
        cut(columns, columns + column.first_child, (<int32_t *> column.values.data)[length])
    elif column.storage == STORE_FIELDS:
        for i in range(column.child_count):
            cut(columns, columns + column.first_child + i, length)


cdef inline bint is_ascii(const char *data, int64_t size) noexcept nogil:
    """Whether no byte has its highest bit set; the last word may overlap the one before it."""
    cdef uint64_t word, last
    cdef uint32_t half, last_half
    cdef int64_t at = 0
    if size >= 8:
        memcpy(&last, data + size - 8, 8)
        while at < size - 8:
            memcpy(&word, data + at, 8)
            last |= word
            at += 8
        return last & <uint64_t> 0x8080808080808080ULL == 0
    if size >= 4:
        memcpy(&half, data, 4)
        memcpy(&last_half, data + size - 4, 4)
        return (half | last_half) & <uint32_t> 0x80808080 == 0
    for at in range(size):
        if <uint8_t> data[at] & 0x80:
            return False
    return True


cdef inline bint is_utf8(const char *data, int64_t size) noexcept nogil:
    """Whether these bytes are UTF-8: no surrogates, nothing longer than needed, nothing beyond U+10FFFF."""
    cdef const uint8_t *at = <const uint8_t *> data
    cdef const uint8_t *end = at + size
    cdef uint8_t first, second
    if likely(is_ascii(data, size)):
        return True
    while True:
        while at < end and at[0] < 0x80:
            at += 1
        if at == end:
            return True
        first = at[0]
        if first < 0xC2 or first > 0xF4:
            return False
        if end - at < 2:
            return False
        second = at[1]
        if second & 0xC0 != 0x80:
            return False
        if first < 0xE0:
            at += 2
            continue
        if end - at < 3 or at[2] & 0xC0 != 0x80:
            return False
        if first < 0xF0:
            if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
                return False
            at += 3
            continue
        if end - at < 4 or at[3] & 0xC0 != 0x80:
            return False
        if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
            return False
        at += 4

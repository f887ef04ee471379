"""One row of Arrow columns -> one payload of Avro (inline pieces of the compiled encoder).

A `Source` is a column, or a part of a nested one, with the Avro type as which it is written. When a function returns
False, `writing.reason` says why, and `failed` is the source whose value cannot be written.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from ottla.records.arrow_layout cimport Blobs, Growing, blob_at, is_set, reserve, whole_number
from ottla.records.wire cimport likely, put_varint, unlikely, zigzag
from ottla.schemas.avro.reading cimport exceeds


cdef enum Put:
    # How a value is written.
    PUT_NOTHING
    PUT_BOOLEAN
    PUT_WHOLE
    PUT_FLOAT
    PUT_DOUBLE
    PUT_WIDENED
    PUT_SIZED
    PUT_PLAIN
    PUT_FIXED
    PUT_SYMBOL
    PUT_DECIMAL_BYTES
    PUT_DECIMAL_FIXED
    PUT_RECORD
    PUT_ARRAY
    PUT_MAP
    PUT_MEMBER
    PUT_CONSTANT


cdef enum Unfit:
    # Why a row cannot be written.
    FITS
    IS_NULL
    OUT_OF_RANGE
    NOT_WHOLE
    WRONG_SIZE
    NO_SUCH_SYMBOL
    TOO_MANY_DIGITS
    SEVERAL_MEMBERS
    BAD_LAYOUT
    MEMORY_SHORT


cdef struct Source:
    Put put
    int number  # its index among the sources, to look up its path
    char type
    bint is_large
    bint may_be_null
    int64_t offset
    const uint8_t *validity
    const void *values
    Blobs blobs
    int64_t width
    # Of a union: the branch of the value, and the branch null; -1 if there is none.
    int branch
    int null_branch
    # Of whole numbers: by what they are multiplied or divided, and the allowed range after that. `is_plain`: they have
    # 64 bits and are written as they are.
    bint is_plain
    int64_t multiply
    int64_t divide
    int64_t low
    int64_t high
    # Of an enum: size, place in `data` and number of each symbol, sorted by size and then by bytes.
    int64_t symbol_count
    const int64_t *symbols
    # Symbols, an encoded default, or the bound of a decimal.
    const char *data
    int64_t data_bytes
    Source *children
    int child_count


cdef struct Writing:
    Growing text
    Source *failed
    Unfit reason
    # With NO_SUCH_SYMBOL: the text.
    const char *symbol
    int64_t symbol_bytes


cdef inline bint unfit(Source *source, Unfit reason, Writing *writing) noexcept nogil:
    if writing.failed == NULL:
        writing.failed = source
        writing.reason = reason
    return False


cdef inline bint need(Writing *writing, int64_t size) noexcept nogil:
    return likely(writing.text.capacity - writing.text.size >= size) or reserve(&writing.text, size)


cdef inline void put_long(Writing *writing, int64_t number) noexcept nogil:
    """Write a number, for which there is room."""
    cdef char *to = writing.text.data + writing.text.size
    writing.text.size = put_varint(to, zigzag(number)) - writing.text.data


cdef inline void put_raw(Writing *writing, const char *data, int64_t size) noexcept nogil:
    """Write bytes, for which there is room."""
    memcpy(writing.text.data + writing.text.size, data, size)
    writing.text.size += size


cdef inline bint put_whole(Source *source, int64_t i, Writing *writing) noexcept nogil:
    cdef int64_t number
    if source.is_plain:
        put_long(writing, (<const int64_t *> source.values)[i])
        return True
    number = whole_number(source.values, source.type, i)
    if source.type == c'L' and number < 0:
        return unfit(source, OUT_OF_RANGE, writing)
    if source.divide > 1:
        if number % source.divide != 0:
            return unfit(source, NOT_WHOLE, writing)
        number = number // source.divide
    elif source.multiply > 1:
        if number > source.high // source.multiply or number < -(source.high // source.multiply):
            return unfit(source, OUT_OF_RANGE, writing)
        number *= source.multiply
    if unlikely(number < source.low or number > source.high):
        return unfit(source, OUT_OF_RANGE, writing)
    put_long(writing, number)
    return True


cdef inline int64_t symbol_of(Source *source, const char *data, int64_t size) noexcept nogil:
    """The number of a symbol; -1 if the enum does not have it."""
    cdef int64_t low = 0
    cdef int64_t high = source.symbol_count
    cdef int64_t middle
    cdef int64_t its_size
    cdef int order
    while low < high:
        middle = (low + high) // 2
        its_size = source.symbols[3 * middle]
        if its_size == size:
            order = memcmp(source.data + source.symbols[3 * middle + 1], data, size)
            if order == 0:
                return source.symbols[3 * middle + 2]
        else:
            order = -1 if its_size < size else 1
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return -1


cdef inline bint put_bytes_of(Source *source, int64_t row, Writing *writing) noexcept nogil:
    """Write a text, bytes, a fixed or a symbol."""
    cdef const char *data = NULL
    cdef int64_t size = blob_at(&source.blobs, row, &data)
    cdef int64_t number
    if unlikely(size < 0):
        return unfit(source, IS_NULL if size == -1 else BAD_LAYOUT, writing)
    if source.put == PUT_SYMBOL:
        number = symbol_of(source, data, size)
        if number < 0:
            writing.symbol = data
            writing.symbol_bytes = size
            return unfit(source, NO_SUCH_SYMBOL, writing)
        put_long(writing, number)
        return True
    if source.put == PUT_FIXED:
        if size != source.width:
            return unfit(source, WRONG_SIZE, writing)
    if unlikely(not need(writing, size + 10)):
        return unfit(source, MEMORY_SHORT, writing)
    if source.put != PUT_FIXED:
        put_long(writing, size)
    put_raw(writing, data, size)
    return True


cdef inline bint put_plain(Source *source, int64_t i, Writing *writing) noexcept nogil:
    """Write a text or bytes of the most common layout: 32-bit offsets, no dictionary."""
    cdef int64_t begin = (<const int32_t *> source.values)[i]
    cdef int64_t size = (<const int32_t *> source.values)[i + 1] - begin
    if unlikely(size < 0):
        return unfit(source, BAD_LAYOUT, writing)
    if unlikely(not need(writing, size + 10)):
        return unfit(source, MEMORY_SHORT, writing)
    put_long(writing, size)
    put_raw(writing, source.blobs.data + begin, size)
    return True


cdef inline bint put_decimal_of(Source *source, int64_t i, Writing *writing) noexcept nogil:
    """Write a little-endian number in two's complement as big-endian: as short as possible, or of the fixed size."""
    cdef const uint8_t *value = <const uint8_t *> source.values + i * source.width
    cdef int64_t width = source.width
    cdef uint8_t sign = 0xFF if value[width - 1] & 0x80 else 0
    cdef int64_t size = width
    cdef int64_t k
    if exceeds(<const char *> value, source.data, width):
        return unfit(source, TOO_MANY_DIGITS, writing)
    if source.put == PUT_DECIMAL_FIXED:
        size = source.high
        if not need(writing, size):
            return unfit(source, MEMORY_SHORT, writing)
    else:
        while size > 1 and value[size - 1] == sign and (value[size - 2] ^ sign) & 0x80 == 0:
            size -= 1
        put_long(writing, size)
    for k in range(size):
        writing.text.data[writing.text.size + k] = <char> (value[size - 1 - k] if size - 1 - k < width else sign)
    writing.text.size += size
    return True


cdef inline bint put_items(Source *source, int64_t i, Writing *writing) noexcept nogil:
    """Write an array or a map, as one block."""
    cdef int64_t begin, end, k
    if source.width:
        begin = i * source.width
        end = begin + source.width
    elif source.is_large:
        begin = (<const int64_t *> source.values)[i]
        end = (<const int64_t *> source.values)[i + 1]
    else:
        begin = (<const int32_t *> source.values)[i]
        end = (<const int32_t *> source.values)[i + 1]
    if unlikely(end < begin):
        return unfit(source, BAD_LAYOUT, writing)
    if end > begin:
        put_long(writing, end - begin)
    for k in range(begin, end):
        if not put_source(&source.children[0], k, writing):
            return False
        if source.put == PUT_MAP and not put_source(&source.children[1], k, writing):
            return False
    if not need(writing, 1):
        return unfit(source, MEMORY_SHORT, writing)
    put_long(writing, 0)
    return True


cdef inline bint is_null(Source *source, int64_t row) noexcept nogil:
    cdef int64_t index
    if source.put == PUT_NOTHING:
        return True
    if source.validity != NULL and not is_set(source.validity, source.offset + row):
        return True
    if source.blobs.indices != NULL and source.blobs.validity != NULL:
        # The dictionary's own value may be null.
        index = whole_number(source.blobs.indices, source.blobs.index_type, row + source.blobs.index_offset)
        return 0 <= index < source.blobs.length and not is_set(source.blobs.validity, source.blobs.offset + index)
    return False


cdef inline bint put_member(Source *source, int64_t i, Writing *writing) noexcept nogil:
    """Write the only field of a struct that is not null, as a branch of the union."""
    cdef int k
    cdef int found = -1
    for k in range(source.child_count):
        if not is_null(&source.children[k], i):
            if found >= 0:
                return unfit(source, SEVERAL_MEMBERS, writing)
            found = k
    if found >= 0:
        return put_source(&source.children[found], i, writing)
    if source.null_branch < 0:
        return unfit(source, IS_NULL, writing)
    put_long(writing, source.null_branch)
    return True


cdef inline bint put_source(Source *source, int64_t row, Writing *writing) noexcept nogil:
    """Write the value of a row."""
    cdef int64_t i = source.offset + row
    cdef Put put = source.put
    cdef double wide
    cdef int k
    if unlikely(not need(writing, 64)):
        return unfit(source, MEMORY_SHORT, writing)
    if unlikely(source.may_be_null) and is_null(source, row):
        if source.null_branch >= 0:
            put_long(writing, source.null_branch)
            return True
        # The type null itself takes no byte.
        return source.put == PUT_NOTHING or unfit(source, IS_NULL, writing)
    if source.branch >= 0:
        put_long(writing, source.branch)
    if put == PUT_WHOLE:
        return put_whole(source, i, writing)
    elif put == PUT_PLAIN:
        return put_plain(source, i, writing)
    elif put == PUT_SIZED or put == PUT_FIXED or put == PUT_SYMBOL:
        return put_bytes_of(source, row, writing)
    elif put == PUT_DOUBLE:
        put_raw(writing, <const char *> source.values + 8 * i, 8)
    elif put == PUT_FLOAT:
        put_raw(writing, <const char *> source.values + 4 * i, 4)
    elif put == PUT_WIDENED:
        wide = (<const float *> source.values)[i]
        put_raw(writing, <const char *> &wide, 8)
    elif put == PUT_BOOLEAN:
        writing.text.data[writing.text.size] = is_set(<const uint8_t *> source.values, i)
        writing.text.size += 1
    elif put == PUT_RECORD:
        for k in range(source.child_count):
            if unlikely(not put_source(&source.children[k], i, writing)):
                return False
    elif put == PUT_ARRAY or put == PUT_MAP:
        return put_items(source, i, writing)
    elif put == PUT_MEMBER:
        return put_member(source, i, writing)
    elif put == PUT_CONSTANT:
        if not need(writing, source.data_bytes):
            return unfit(source, MEMORY_SHORT, writing)
        put_raw(writing, source.data, source.data_bytes)
    else:
        return put_decimal_of(source, i, writing)
    return True

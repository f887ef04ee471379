"""One payload of Avro -> one row of the columns (inline pieces of the compiled decoder).

Nothing that is read is believed: every length and count is held against the bytes that are left before it is used, and
columns grow with the bytes that are there, never with what they claim. A function that returns False has said why in
`reading.reason`; `failed` is the innermost step that was at work.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from ottla.records.wire cimport bits, get_varint, likely, unlikely, unzigzag
from ottla.schemas.avro.building cimport *

cdef enum:
    # A type that contains itself may be passed over so deep.
    DEPTH_MAX = 1000


cdef inline bint fail(Step *step, Reason reason, Reading *reading) noexcept nogil:
    if reading.failed == NULL:
        reading.failed = step
    if reading.reason == FINE:
        reading.reason = reason
    return False


cdef inline bint get_long(Reading *reading, int64_t *number) noexcept nogil:
    cdef uint64_t value, word, stops
    cdef const char *at = reading.at
    cdef int64_t left = reading.end - at
    if likely(left > 0 and <uint8_t> at[0] < 0x80):
        number[0] = unzigzag(<uint8_t> at[0])
        reading.at = at + 1
        return True
    if likely(left > 1 and <uint8_t> at[1] < 0x80):
        number[0] = unzigzag((<uint8_t> at[0] & 0x7F) | <uint64_t> <uint8_t> at[1] << 7)
        reading.at = at + 2
        return True
    if likely(left >= 8):
        memcpy(&word, at, 8)
        stops = ~word & <uint64_t> 0x8080808080808080ULL
        if likely(stops != 0):
            # All bits below the first byte that is the last: of each byte seven, moved together step by step.
            word &= (stops ^ (stops - 1)) & <uint64_t> 0x7F7F7F7F7F7F7F7FULL
            word = ((word & <uint64_t> 0x7F007F007F007F00ULL) >> 1) | (word & <uint64_t> 0x007F007F007F007FULL)
            word = ((word & <uint64_t> 0x3FFF00003FFF0000ULL) >> 2) | (word & <uint64_t> 0x00003FFF00003FFFULL)
            word = ((word & <uint64_t> 0x0FFFFFFF00000000ULL) >> 4) | (word & <uint64_t> 0x000000000FFFFFFFULL)
            number[0] = unzigzag(word)
            reading.at = at + (bits(stops & (~stops + 1)) >> 3)
            return True
    at = get_varint(at, reading.end, &value)
    if unlikely(at == NULL):
        reading.reason = LONG_VARINT if left >= 10 else ENDS_EARLY
        return False
    reading.at = at
    number[0] = unzigzag(value)
    return True


cdef inline bint get_int(Reading *reading, int64_t *number) noexcept nogil:
    if unlikely(not get_long(reading, number)):
        return False
    if unlikely(number[0] != <int32_t> number[0]):
        reading.reason = NOT_INT
        return False
    return True


cdef inline const char *take(Reading *reading, int64_t size) noexcept nogil:
    """The next so many bytes; NULL where they are not there."""
    cdef const char *at = reading.at
    if unlikely(size > reading.end - at):
        reading.reason = ENDS_EARLY
        return NULL
    reading.at = at + size
    return at


cdef inline const char *take_sized(Reading *reading, int64_t *size) noexcept nogil:
    """The bytes behind a length."""
    if unlikely(not get_long(reading, size)):
        return NULL
    if unlikely(size[0] < 0):
        reading.reason = NEGATIVE_LENGTH
        return NULL
    return take(reading, size[0])


cdef inline bint put_number(Building *column, const char *value, int64_t width, Reading *reading) noexcept nogil:
    """Append a number as it lies in memory (Avro and Arrow are both little-endian)."""
    cdef char *to
    if unlikely(not put_validity(column, True, reading)):
        return False
    to = next_value(column, width, reading)
    if unlikely(to == NULL):
        return False
    memcpy(to, value, width)
    column.length += 1
    return True


cdef inline bint put_whole(Step *step, Building *column, Reading *reading) noexcept nogil:
    """Read a whole number into a column of larger ones, or of floats."""
    cdef int64_t number = 0
    cdef float single
    cdef double wide
    if step.op == OP_LONG_FLOAT or step.op == OP_LONG_DOUBLE:
        if unlikely(not get_long(reading, &number)):
            return False
    elif unlikely(not get_int(reading, &number)):
        return False
    if step.op == OP_INT_LONG:
        return put_number(column, <const char *> &number, 8, reading)
    if step.op == OP_INT_FLOAT or step.op == OP_LONG_FLOAT:
        single = <float> number
        return put_number(column, <const char *> &single, 4, reading)
    wide = <double> number
    return put_number(column, <const char *> &wide, 8, reading)


cdef inline bint put_text(Building *column, const char *data, int64_t size, Reading *reading) noexcept nogil:
    if unlikely(not put_validity(column, True, reading) or not put_blob(column, data, size, reading)):
        return False
    column.length += 1
    return True


cdef inline bint put_symbol(Step *step, Building *column, Reading *reading) noexcept nogil:
    cdef int64_t number = 0
    cdef int64_t begin
    if unlikely(not get_int(reading, &number)):
        return False
    if unlikely(number < 0 or number >= step.size):
        reading.reason = NO_SYMBOL
        return False
    begin = step.offsets[2 * number]
    if unlikely(begin < 0):
        reading.reason = UNKNOWN_SYMBOL
        return False
    return put_text(column, step.data + begin, step.offsets[2 * number + 1], reading)


cdef inline bint exceeds(const char *value, const char *bound, int64_t width) noexcept nogil:
    """Whether a little-endian number is as large as the bound, or larger, whatever its sign."""
    cdef uint8_t magnitude[32]
    cdef int64_t i
    cdef int carry = 1
    cdef int byte
    memcpy(magnitude, value, width)
    if magnitude[width - 1] & 0x80:
        for i in range(width):
            byte = (~magnitude[i] & 0xFF) + carry
            magnitude[i] = <uint8_t> byte
            carry = byte >> 8
    i = width - 1
    while i >= 0:
        if magnitude[i] != <uint8_t> bound[i]:
            return magnitude[i] > <uint8_t> bound[i]
        i -= 1
    return True


cdef inline bint put_decimal(
    Step *step, Building *column, const char *data, int64_t size, Reading *reading
) noexcept nogil:
    """Append a big-endian number in two's complement, of any size, to a column of 16 or 32 bytes."""
    cdef uint8_t value[32]
    cdef int64_t i
    cdef int64_t width = column.width
    cdef uint8_t sign = 0xFF if size > 0 and data[0] & 0x80 else 0
    memset(value, sign, width)
    for i in range(size):
        if i < width:
            value[i] = <uint8_t> data[size - 1 - i]
        elif <uint8_t> data[size - 1 - i] != sign:
            reading.reason = WIDE_DECIMAL
            return False
    if (value[width - 1] & 0x80 != 0) != (sign != 0) or exceeds(<const char *> value, step.data, width):
        reading.reason = WIDE_DECIMAL
        return False
    return put_number(column, <const char *> value, width, reading)


cdef inline bint get_count(Step *step, Reading *reading, int64_t *count, const char **block_end) noexcept nogil:
    """How many items come next, 0 at the end; `block_end` is where they end if that is written down, else NULL."""
    cdef int64_t size = 0
    block_end[0] = NULL
    if unlikely(not get_long(reading, count)):
        return False
    if unlikely(count[0] < 0):
        if count[0] < -(<int64_t> 1 << 62):
            reading.reason = WRONG_COUNT
            return False
        count[0] = -count[0]
        if not get_long(reading, &size):
            return False
        if size < 0 or size > reading.end - reading.at:
            reading.reason = WRONG_BLOCK
            return False
        block_end[0] = reading.at + size
    if step.size and count[0] > reading.end - reading.at:
        reading.reason = WRONG_COUNT
        return False
    if not step.size:
        reading.empty_items -= count[0]
        if reading.empty_items < 0:
            reading.reason = EMPTY_ITEMS
            return False
    return True


cdef inline bint read_items(Step *step, Building *column, Reading *reading) noexcept nogil:
    """Read the blocks of an array or a map."""
    cdef Building *items = reading.columns + column.first_child
    cdef Building *keys = NULL
    cdef Step *item = step.children[0]
    cdef const char *block_end = NULL
    cdef const char *key
    cdef int64_t count = 0
    cdef int64_t size = 0
    cdef int64_t i
    if not put_validity(column, True, reading):
        return fail(step, NO_ROOM, reading)
    if step.op == OP_MAP:
        keys = reading.columns + items.first_child
    while True:
        if unlikely(not get_count(step, reading, &count, &block_end)):
            return fail(step, FINE, reading)
        if count == 0:
            break
        for i in range(count):
            if keys != NULL:
                key = take_sized(reading, &size)
                if unlikely(key == NULL):
                    return fail(step, FINE, reading)
                if unlikely(not is_utf8(key, size)):
                    return fail(step, NOT_TEXT, reading)
                if unlikely(not put_text(keys, key, size, reading)):
                    return fail(step, FINE, reading)
            if unlikely(not read_value(item, reading)):
                return False
            if keys != NULL:
                items.length += 1
        if unlikely(block_end != NULL and block_end != reading.at):
            return fail(step, WRONG_BLOCK, reading)
    if unlikely(not put_offset(column, items.length, reading)):
        return fail(step, FINE, reading)
    column.length += 1
    return True


cdef inline bint skip_items(Step *step, Reading *reading) noexcept nogil:
    """Pass over the blocks of an array or a map."""
    cdef const char *block_end = NULL
    cdef int64_t count = 0
    cdef int64_t size = 0
    cdef int64_t i
    while True:
        if unlikely(not get_count(step, reading, &count, &block_end)):
            return fail(step, FINE, reading)
        if count == 0:
            return True
        if block_end != NULL:
            reading.at = block_end
            continue
        for i in range(count):
            if step.op == OP_SKIP_ENTRIES and take_sized(reading, &size) == NULL:
                return fail(step, FINE, reading)
            if not read_value(step.children[0], reading):
                return False


cdef inline bint read_branch(Step *step, Reading *reading) noexcept nogil:
    cdef int64_t branch = 0
    if unlikely(not get_long(reading, &branch)):
        return fail(step, FINE, reading)
    if unlikely(branch < 0 or branch >= step.child_count):
        return fail(step, NO_BRANCH, reading)
    return read_value(step.children[branch], reading)


cdef inline bint read_member(Step *step, Building *column, Reading *reading) noexcept nogil:
    """Read into one field of a struct that stands for a union; the others are null."""
    cdef int i
    if not put_validity(column, True, reading):
        return fail(step, FINE, reading)
    for i in range(column.child_count):
        if i == step.size:
            if not read_value(step.children[0], reading):
                return False
        elif not put_null(reading.columns + column.first_child + i, reading):
            return fail(step, FINE, reading)
    column.length += 1
    return True


cdef inline bint read_constant(Step *step, Reading *reading) noexcept nogil:
    """Read a default, which stands encoded in the step."""
    cdef const char *at = reading.at
    cdef const char *end = reading.end
    reading.at = step.data
    reading.end = step.data + step.data_bytes
    if not read_value(step.children[0], reading):
        return False
    reading.at = at
    reading.end = end
    return True


cdef inline bint read_parts(Step *step, Reading *reading) noexcept nogil:
    """Read the parts of a record one after the other, into it or past it."""
    cdef int i
    reading.depth += 1
    if unlikely(reading.depth > DEPTH_MAX):
        return fail(step, TOO_DEEP, reading)
    if step.column >= 0 and not put_validity(reading.columns + step.column, True, reading):
        return fail(step, FINE, reading)
    for i in range(step.child_count):
        if unlikely(not read_value(step.children[i], reading)):
            return False
    if step.column >= 0:
        reading.columns[step.column].length += 1
    reading.depth -= 1
    return True


cdef inline bint read_value(Step *step, Reading *reading) noexcept nogil:
    """Do one step: read a value into its column, or pass over it."""
    cdef Building *column = reading.columns + step.column
    cdef Op op = step.op
    cdef int64_t size = 0
    cdef const char *data
    cdef float single
    cdef double wide
    cdef bint is_fine
    if op == OP_INT:
        # The lower half comes first in memory.
        is_fine = get_int(reading, &size) and put_number(column, <const char *> &size, 4, reading)
    elif op == OP_LONG:
        is_fine = get_long(reading, &size) and put_number(column, <const char *> &size, 8, reading)
    elif op == OP_DOUBLE or op == OP_FLOAT:
        size = 8 if op == OP_DOUBLE else 4
        data = take(reading, size)
        is_fine = data != NULL and put_number(column, data, size, reading)
    elif op == OP_STRING:
        data = take_sized(reading, &size)
        if likely(data != NULL) and unlikely(not is_utf8(data, size)):
            return fail(step, NOT_TEXT, reading)
        is_fine = data != NULL and put_text(column, data, size, reading)
    elif op == OP_BYTES:
        data = take_sized(reading, &size)
        is_fine = data != NULL and put_text(column, data, size, reading)
    elif op == OP_OPTIONAL:
        if likely(reading.at < reading.end and (<uint8_t> reading.at[0] | 2) == 2):
            size = <uint8_t> reading.at[0] >> 1
            reading.at += 1
            if size == step.size:
                is_fine = put_null(column, reading)
            else:
                return read_value(step.children[size], reading)
        else:
            return read_branch(step, reading)
    elif op == OP_UNION:
        return read_branch(step, reading)
    elif op == OP_NULL:
        is_fine = put_null(column, reading)
    elif op == OP_BOOLEAN:
        data = take(reading, 1)
        if likely(data != NULL) and unlikely(<uint8_t> data[0] > 1):
            return fail(step, NOT_BOOLEAN, reading)
        is_fine = data != NULL and put_validity(column, True, reading) and put_bit(column, data[0], reading)
        if is_fine:
            column.length += 1
    elif op == OP_ENUM:
        is_fine = put_symbol(step, column, reading)
    elif op == OP_RECORD or op == OP_SKIP_RECORD:
        return read_parts(step, reading)
    elif op == OP_ARRAY or op == OP_MAP:
        return read_items(step, column, reading)
    elif op == OP_FIXED:
        data = take(reading, step.size)
        is_fine = data != NULL and put_number(column, data, step.size, reading)
    elif op == OP_DECIMAL_BYTES:
        data = take_sized(reading, &size)
        is_fine = data != NULL and put_decimal(step, column, data, size, reading)
    elif op == OP_DECIMAL_FIXED:
        data = take(reading, step.size)
        is_fine = data != NULL and put_decimal(step, column, data, step.size, reading)
    elif op == OP_FLOAT_DOUBLE:
        data = take(reading, 4)
        if data == NULL:
            return fail(step, FINE, reading)
        memcpy(&single, data, 4)
        wide = single
        is_fine = put_number(column, <const char *> &wide, 8, reading)
    elif op == OP_MEMBER:
        return read_member(step, column, reading)
    elif op == OP_CONSTANT:
        return read_constant(step, reading)
    elif op == OP_SKIP_NOTHING:
        return True
    elif op == OP_SKIP_BYTES:
        is_fine = take(reading, step.size) != NULL
    elif op == OP_SKIP_VARINT:
        is_fine = get_long(reading, &size)
    elif op == OP_SKIP_SIZED:
        is_fine = take_sized(reading, &size) != NULL
    elif op == OP_SKIP_BLOCKS or op == OP_SKIP_ENTRIES:
        return skip_items(step, reading)
    elif op == OP_FAIL:
        return fail(step, NO_PLACE, reading)
    else:
        is_fine = put_whole(step, column, reading)
    if likely(is_fine):
        return True
    return fail(step, FINE, reading)

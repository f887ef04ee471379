"""One payload of Avro -> one row of the columns (inline pieces of the compiled decoder).

Every length and count is checked against the bytes that are left before it is used, so columns grow only with bytes
that are there. Functions take the position in the payload and return the position after what they read. NULL or False
means that the row cannot be read: then `reading.reason` says why, `failed` is the step, and `at` the position.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from ottla.records.wire cimport bits, get_varint, likely, unlikely, unzigzag
from ottla.schemas.avro.building cimport *

cdef enum:
    # How deep records, arrays and maps may nest; threads may have small stacks.
    DEPTH_MAX = 200


cdef inline const char *fail(Step *step, Reason reason, const char *at, Reading *reading) noexcept nogil:
    """Keep the innermost step that fails; `reason` counts if none was set before."""
    if reading.failed == NULL:
        reading.failed = step
        reading.at = at
    if reading.reason == FINE:
        reading.reason = reason
    return NULL


cdef inline const char *get_long(const char *at, Reading *reading, int64_t *number) noexcept nogil:
    cdef uint64_t value, word, stops
    cdef const char *behind
    cdef int64_t left = reading.end - at
    if likely(left > 0 and <uint8_t> at[0] < 0x80):
        number[0] = unzigzag(<uint8_t> at[0])
        return at + 1
    if likely(left >= 8):
        memcpy(&word, at, 8)
        stops = ~word & <uint64_t> 0x8080808080808080ULL
        if likely(stops != 0):
            # Seven bits of each byte up to the varint's last one, moved together step by step.
            word &= (stops ^ (stops - 1)) & <uint64_t> 0x7F7F7F7F7F7F7F7FULL
            word = ((word & <uint64_t> 0x7F007F007F007F00ULL) >> 1) | (word & <uint64_t> 0x007F007F007F007FULL)
            word = ((word & <uint64_t> 0x3FFF00003FFF0000ULL) >> 2) | (word & <uint64_t> 0x00003FFF00003FFFULL)
            word = ((word & <uint64_t> 0x0FFFFFFF00000000ULL) >> 4) | (word & <uint64_t> 0x000000000FFFFFFFULL)
            number[0] = unzigzag(word)
            return at + (bits(stops & (~stops + 1)) >> 3)
    behind = get_varint(at, reading.end, &value)
    if unlikely(behind == NULL):
        reading.reason = LONG_VARINT if left >= 10 else ENDS_EARLY
        return NULL
    number[0] = unzigzag(value)
    return behind


cdef inline const char *get_int(const char *at, Reading *reading, int64_t *number) noexcept nogil:
    at = get_long(at, reading, number)
    if unlikely(at != NULL and number[0] != <int32_t> number[0]):
        reading.reason = NOT_INT
        return NULL
    return at


cdef inline bint has(const char *at, int64_t size, Reading *reading) noexcept nogil:
    """Whether so many bytes are left."""
    if likely(size <= reading.end - at):
        return True
    reading.reason = ENDS_EARLY
    return False


cdef inline const char *get_sized(const char *at, Reading *reading, int64_t *size) noexcept nogil:
    """Read a length into `size`; return the position of the bytes after it."""
    at = get_long(at, reading, size)
    if unlikely(at == NULL):
        return NULL
    if unlikely(size[0] < 0):
        reading.reason = NEGATIVE_LENGTH
        return NULL
    return at if has(at, size[0], reading) else NULL


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


cdef inline const char *read_promoted(Step *step, const char *at, Building *column, Reading *reading) noexcept nogil:
    """Read a number into a column of a wider type."""
    cdef int64_t number = 0
    cdef float single
    cdef double wide
    if step.op == OP_FLOAT_DOUBLE:
        if unlikely(not has(at, 4, reading)):
            return NULL
        memcpy(&single, at, 4)
        wide = single
        return at + 4 if put_number(column, <const char *> &wide, 8, reading) else NULL
    if step.op == OP_LONG_FLOAT or step.op == OP_LONG_DOUBLE:
        at = get_long(at, reading, &number)
    else:
        at = get_int(at, reading, &number)
    if unlikely(at == NULL):
        return NULL
    if step.op == OP_INT_LONG:
        return at if put_number(column, <const char *> &number, 8, reading) else NULL
    if step.op == OP_INT_FLOAT or step.op == OP_LONG_FLOAT:
        single = <float> number
        return at if put_number(column, <const char *> &single, 4, reading) else NULL
    wide = <double> number
    return at if put_number(column, <const char *> &wide, 8, reading) else NULL


cdef inline bint put_text(Building *column, const char *data, int64_t size, Reading *reading) noexcept nogil:
    if unlikely(not put_validity(column, True, reading) or not put_blob(column, data, size, reading)):
        return False
    column.length += 1
    return True


cdef inline const char *read_symbol(Step *step, const char *at, Building *column, Reading *reading) noexcept nogil:
    cdef int64_t number = 0
    cdef int64_t begin
    at = get_int(at, reading, &number)
    if unlikely(at == NULL):
        return NULL
    if unlikely(number < 0 or number >= step.size):
        reading.reason = NO_SYMBOL
        return NULL
    begin = step.offsets[2 * number]
    if unlikely(begin < 0):
        reading.reason = UNKNOWN_SYMBOL
        return NULL
    return at if put_text(column, step.data + begin, step.offsets[2 * number + 1], reading) else NULL


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


cdef inline const char *get_count(
    Step *step, const char *at, Reading *reading, int64_t *count, const char **block_end
) noexcept nogil:
    """How many items come next, 0 at the end; `block_end` is where they end if the payload says so, else NULL."""
    cdef int64_t size = 0
    block_end[0] = NULL
    at = get_long(at, reading, count)
    if unlikely(at == NULL):
        return NULL
    if unlikely(count[0] < 0):
        if count[0] < -(<int64_t> 1 << 62):
            reading.reason = WRONG_COUNT
            return NULL
        count[0] = -count[0]
        at = get_long(at, reading, &size)
        if at == NULL:
            return NULL
        if size < 0 or size > reading.end - at:
            reading.reason = WRONG_BLOCK
            return NULL
        block_end[0] = at + size
    if step.size and count[0] > reading.end - at:
        reading.reason = WRONG_COUNT
        return NULL
    if not step.size:
        reading.empty_items -= count[0]
        if reading.empty_items < 0:
            reading.reason = EMPTY_ITEMS
            return NULL
    return at


cdef inline const char *read_key(const char *at, Building *keys, Reading *reading) noexcept nogil:
    cdef int64_t size = 0
    at = get_sized(at, reading, &size)
    if unlikely(at == NULL):
        return NULL
    if unlikely(not is_utf8(at, size)):
        reading.reason = NOT_TEXT
        return NULL
    return at + size if put_text(keys, at, size, reading) else NULL


cdef inline const char *read_items(Step *step, const char *at, Building *column, Reading *reading) noexcept nogil:
    """Read the blocks of an array or a map."""
    cdef Building *items = reading.columns + column.first_child
    cdef Building *keys = NULL
    cdef Step *item = step.children[0]
    cdef const char *block_end = NULL
    cdef const char *behind
    cdef int64_t count = 0
    cdef int64_t i
    if not put_validity(column, True, reading):
        return fail(step, FINE, at, reading)
    reading.depth += 1
    if unlikely(reading.depth > DEPTH_MAX):
        return fail(step, TOO_DEEP, at, reading)
    if step.op == OP_MAP:
        keys = reading.columns + items.first_child
    while True:
        behind = get_count(step, at, reading, &count, &block_end)
        if unlikely(behind == NULL):
            return fail(step, FINE, at, reading)
        at = behind
        if count == 0:
            break
        for i in range(count):
            if keys != NULL:
                behind = read_key(at, keys, reading)
                if unlikely(behind == NULL):
                    return fail(step, FINE, at, reading)
                at = behind
            at = read_value(item, at, reading)
            if unlikely(at == NULL):
                return NULL
            if keys != NULL:
                items.length += 1
        if unlikely(block_end != NULL and block_end != at):
            return fail(step, WRONG_BLOCK, at, reading)
    if unlikely(not put_offset(column, items.length, reading)):
        return fail(step, FINE, at, reading)
    column.length += 1
    reading.depth -= 1
    return at


cdef inline const char *skip_items(Step *step, const char *at, Reading *reading) noexcept nogil:
    """Skip the blocks of an array or a map."""
    cdef const char *block_end = NULL
    cdef const char *behind
    cdef int64_t count = 0
    cdef int64_t size = 0
    cdef int64_t i
    reading.depth += 1
    if unlikely(reading.depth > DEPTH_MAX):
        return fail(step, TOO_DEEP, at, reading)
    while True:
        behind = get_count(step, at, reading, &count, &block_end)
        if unlikely(behind == NULL):
            return fail(step, FINE, at, reading)
        at = behind
        if count == 0:
            reading.depth -= 1
            return at
        if block_end != NULL:
            at = block_end
            continue
        for i in range(count):
            if step.op == OP_SKIP_ENTRIES:
                behind = get_sized(at, reading, &size)
                if behind == NULL:
                    return fail(step, FINE, at, reading)
                at = behind + size
            at = read_value(step.children[0], at, reading)
            if at == NULL:
                return NULL


cdef inline const char *read_branch(Step *step, const char *at, Reading *reading) noexcept nogil:
    cdef int64_t branch = 0
    cdef const char *behind = get_long(at, reading, &branch)
    if unlikely(behind == NULL):
        return fail(step, FINE, at, reading)
    if unlikely(branch < 0 or branch >= step.child_count):
        return fail(step, NO_BRANCH, at, reading)
    return read_value(step.children[branch], behind, reading)


cdef inline const char *read_member(Step *step, const char *at, Building *column, Reading *reading) noexcept nogil:
    """Read a union's value into its field of the struct; the other fields are null."""
    cdef int i
    if not put_validity(column, True, reading):
        return fail(step, FINE, at, reading)
    for i in range(column.child_count):
        if i == step.size:
            at = read_value(step.children[0], at, reading)
            if at == NULL:
                return NULL
        elif not put_null(reading.columns + column.first_child + i, reading):
            return fail(step, FINE, at, reading)
    column.length += 1
    return at


cdef inline const char *read_constant(Step *step, const char *at, Reading *reading) noexcept nogil:
    """Read the default of a step; it takes no bytes of the payload."""
    cdef const char *end = reading.end
    reading.end = step.data + step.data_bytes
    if read_value(step.children[0], step.data, reading) == NULL:
        return NULL
    reading.end = end
    return at


cdef inline const char *read_parts(Step *step, const char *at, Reading *reading) noexcept nogil:
    """Read or skip the parts of a record one after the other."""
    cdef int i
    reading.depth += 1
    if unlikely(reading.depth > DEPTH_MAX):
        return fail(step, TOO_DEEP, at, reading)
    if step.column >= 0 and not put_validity(reading.columns + step.column, True, reading):
        return fail(step, FINE, at, reading)
    for i in range(step.child_count):
        at = read_value(step.children[i], at, reading)
        if unlikely(at == NULL):
            return NULL
    if step.column >= 0:
        reading.columns[step.column].length += 1
    reading.depth -= 1
    return at


cdef inline const char *read_value(Step *step, const char *at, Reading *reading) noexcept nogil:
    """Do one step: read a value into its column, or skip it."""
    cdef Building *column = reading.columns + step.column
    cdef Op op = step.op
    cdef int64_t size = 0
    cdef const char *behind = NULL
    if op == OP_INT:
        behind = get_int(at, reading, &size)
        # Little-endian: the lower half is the first in memory.
        if likely(behind != NULL and put_number(column, <const char *> &size, 4, reading)):
            return behind
    elif op == OP_LONG:
        behind = get_long(at, reading, &size)
        if likely(behind != NULL and put_number(column, <const char *> &size, 8, reading)):
            return behind
    elif op == OP_DOUBLE:
        if likely(has(at, 8, reading) and put_number(column, at, 8, reading)):
            return at + 8
    elif op == OP_FLOAT:
        if likely(has(at, 4, reading) and put_number(column, at, 4, reading)):
            return at + 4
    elif op == OP_STRING:
        behind = get_sized(at, reading, &size)
        if likely(behind != NULL):
            if unlikely(not is_utf8(behind, size)):
                return fail(step, NOT_TEXT, at, reading)
            if likely(put_text(column, behind, size, reading)):
                return behind + size
    elif op == OP_BYTES:
        behind = get_sized(at, reading, &size)
        if likely(behind != NULL and put_text(column, behind, size, reading)):
            return behind + size
    elif op == OP_OPTIONAL:
        if unlikely(at >= reading.end or (<uint8_t> at[0] | 2) != 2):
            return read_branch(step, at, reading)
        size = <uint8_t> at[0] >> 1
        if size != step.size:
            return read_value(step.children[size], at + 1, reading)
        if likely(put_null(column, reading)):
            return at + 1
    elif op == OP_UNION:
        return read_branch(step, at, reading)
    elif op == OP_NULL:
        if likely(put_null(column, reading)):
            return at
    elif op == OP_BOOLEAN:
        if likely(has(at, 1, reading)):
            if unlikely(<uint8_t> at[0] > 1):
                return fail(step, NOT_BOOLEAN, at, reading)
            if likely(put_validity(column, True, reading) and put_bit(column, at[0], reading)):
                column.length += 1
                return at + 1
    elif op == OP_ENUM:
        behind = read_symbol(step, at, column, reading)
        if likely(behind != NULL):
            return behind
    elif op == OP_RECORD or op == OP_SKIP_RECORD:
        return read_parts(step, at, reading)
    elif op == OP_ARRAY or op == OP_MAP:
        return read_items(step, at, column, reading)
    elif op == OP_FIXED:
        if likely(has(at, step.size, reading) and put_number(column, at, step.size, reading)):
            return at + step.size
    elif op == OP_DECIMAL_BYTES:
        behind = get_sized(at, reading, &size)
        if likely(behind != NULL and put_decimal(step, column, behind, size, reading)):
            return behind + size
    elif op == OP_DECIMAL_FIXED:
        if likely(has(at, step.size, reading) and put_decimal(step, column, at, step.size, reading)):
            return at + step.size
    elif op == OP_TIME:
        behind = get_long(at, reading, &size)
        if likely(behind != NULL):
            if unlikely(size < 0 or size >= step.size):
                return fail(step, NOT_TIME, at, reading)
            # Little-endian: the lower half of a column of 32 bits is the first in memory.
            if likely(put_number(column, <const char *> &size, column.width, reading)):
                return behind
    elif op == OP_MEMBER:
        return read_member(step, at, column, reading)
    elif op == OP_CONSTANT:
        return read_constant(step, at, reading)
    elif op == OP_SKIP_NOTHING:
        return at
    elif op == OP_SKIP_BYTES:
        if likely(has(at, step.size, reading)):
            return at + step.size
    elif op == OP_SKIP_VARINT:
        behind = get_long(at, reading, &size)
        if likely(behind != NULL):
            return behind
    elif op == OP_SKIP_SIZED:
        behind = get_sized(at, reading, &size)
        if likely(behind != NULL):
            return behind + size
    elif op == OP_SKIP_BLOCKS or op == OP_SKIP_ENTRIES:
        return skip_items(step, at, reading)
    elif op == OP_FAIL:
        return fail(step, NO_PLACE, at, reading)
    else:
        behind = read_promoted(step, at, column, reading)
        if likely(behind != NULL):
            return behind
    return fail(step, FINE, at, reading)

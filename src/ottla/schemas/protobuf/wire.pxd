"""Protobuf's wire format, piece by piece (inline): varints, tags, and text that has to be UTF-8.

https://protobuf.dev/programming-guides/encoding/
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef enum Wire:
    WIRE_VARINT = 0
    WIRE_64 = 1
    WIRE_BYTES = 2
    WIRE_GROUP = 3
    WIRE_GROUP_END = 4
    WIRE_32 = 5


cdef inline const char *get_varint(const char *at, const char *end, uint64_t *value) noexcept nogil:
    """Read a varint into `value`; return its end, NULL if the bytes end first, `end` + 1 if it is too long."""
    cdef uint64_t number
    cdef uint64_t byte
    cdef int shift
    if at < end and not at[0] & 0x80:
        value[0] = <uint8_t> at[0]
        return at + 1
    number = 0
    shift = 0
    while shift < 70:
        if at >= end:
            return NULL
        byte = <uint8_t> at[0]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = number
            return at
        shift += 7
    return end + 1


cdef inline char *put_varint(char *to, uint64_t number) noexcept nogil:
    while number > 0x7F:
        to[0] = <char> (number & 0x7F | 0x80)
        to += 1
        number >>= 7
    to[0] = <char> number
    return to + 1


cdef inline int varint_bytes(uint64_t number) noexcept nogil:
    cdef int count = 1
    while number > 0x7F:
        count += 1
        number >>= 7
    return count


cdef inline bint is_utf8(const char *text, int64_t size) noexcept nogil:
    cdef const uint8_t *at = <const uint8_t *> text
    cdef const uint8_t *end = at + size
    cdef uint64_t word
    cdef uint8_t first
    while at < end:
        while end - at >= 8:
            memcpy(&word, at, 8)
            if word & <uint64_t> 0x8080808080808080:
                break
            at += 8
        if at == end:
            break
        first = at[0]
        if first < 0x80:
            at += 1
        elif first < 0xC2:
            return False
        elif first < 0xE0:
            if end - at < 2 or at[1] & 0xC0 != 0x80:
                return False
            at += 2
        elif first < 0xF0:
            if end - at < 3 or at[1] & 0xC0 != 0x80 or at[2] & 0xC0 != 0x80:
                return False
            # Forms that are longer than needed, and halves of surrogate pairs, are not UTF-8.
            if (first == 0xE0 and at[1] < 0xA0) or (first == 0xED and at[1] > 0x9F):
                return False
            at += 3
        elif first < 0xF5:
            if end - at < 4 or at[1] & 0xC0 != 0x80 or at[2] & 0xC0 != 0x80 or at[3] & 0xC0 != 0x80:
                return False
            if (first == 0xF0 and at[1] < 0x90) or (first == 0xF4 and at[1] > 0x8F):
                return False
            at += 4
        else:
            return False
    return True

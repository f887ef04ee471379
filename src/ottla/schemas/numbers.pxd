"""Numbers and dates as text, without the interpreter's lock (inline pieces of the compiled modules).

Each function writes at `to` and returns the position after the text; the caller has made room.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset


cdef extern from "Python.h":
    char *PyOS_double_to_string(double, char, int, int, int *)
    double PyOS_string_to_double(const char *, char **, void *) except? -1.0
    int DOT_ZERO "Py_DTSF_ADD_DOT_0"


cdef inline char *put_unsigned(char *to, uint64_t number) noexcept nogil:
    cdef char digits[20]
    cdef int count = 0
    while True:
        digits[count] = <char> (48 + number % 10)
        count += 1
        number //= 10
        if number == 0:
            break
    while count:
        count -= 1
        to[0] = digits[count]
        to += 1
    return to


cdef inline char *put_digits(char *to, int64_t number) noexcept nogil:
    if number < 0:
        to[0] = c'-'
        return put_unsigned(to + 1, <uint64_t> 0 - <uint64_t> number)
    return put_unsigned(to, <uint64_t> number)


cdef inline char *put_date(char *to, int64_t days) noexcept nogil:
    """Days since 1970-01-01 as YYYY-MM-DD in the proleptic Gregorian calendar.

    The year begins in March here: then the leap day is its last day. 400 years have 146097 days.
    """
    cdef int64_t shifted = days + 719468
    cdef int64_t era = (shifted if shifted >= 0 else shifted - 146096) // 146097
    cdef int64_t day_of_era = shifted - era * 146097
    cdef int64_t year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    cdef int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    cdef int64_t shifted_month = (5 * day_of_year + 2) // 153
    cdef int64_t day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    cdef int64_t month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    cdef int64_t year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    if year < 0:
        to[0] = c'-'
        to += 1
        year = -year
    if year < 1000:
        memset(to, c'0', 3)
        to += 3 if year < 10 else 2 if year < 100 else 1
    to = put_unsigned(to, <uint64_t> year)
    to[0] = c'-'
    to[1] = <char> (48 + month // 10)
    to[2] = <char> (48 + month % 10)
    to[3] = c'-'
    to[4] = <char> (48 + day // 10)
    to[5] = <char> (48 + day % 10)
    return to + 6


cdef inline char *put_decimal(char *to, const unsigned char *value, int width, int scale) noexcept nogil:
    """A little-endian two's complement number of up to 32 bytes, divided by ten to the `scale` (-100 to 100)."""
    cdef uint32_t limbs[8]
    cdef char digits[90]
    cdef uint64_t remainder
    cdef int count = width // 4
    cdef int size = 0
    cdef int i
    cdef bint carry = True
    memcpy(limbs, value, width)
    if limbs[count - 1] >> 31:
        to[0] = c'-'
        to += 1
        for i in range(count):
            limbs[i] = ~limbs[i]
            if carry:
                limbs[i] += 1
                carry = limbs[i] == 0
    while True:
        while count > 0 and limbs[count - 1] == 0:
            count -= 1
        if count == 0:
            break
        remainder = 0
        for i in range(count - 1, -1, -1):
            remainder = remainder << 32 | limbs[i]
            limbs[i] = <uint32_t> (remainder // 10)
            remainder %= 10
        digits[size] = <char> (48 + remainder)
        size += 1
    # `digits` has the last digit first; at least one digit is written before the point.
    count = scale + 1 if scale > 0 else 1
    for i in range((size if size > count else count) - 1, -1, -1):
        to[0] = digits[i] if i < size else c'0'
        to += 1
        if i == scale and scale > 0:
            to[0] = c'.'
            to += 1
    if scale < 0 and size > 0:
        memset(to, c'0', -scale)
        to += -scale
    return to


cdef inline char *_put_padded(char *to, int64_t number, int width) noexcept nogil:
    """A number that is not negative, with zeros in front."""
    cdef int i
    for i in range(width - 1, -1, -1):
        to[i] = <char> (48 + number % 10)
        number //= 10
    return to + width


cdef inline char *put_clock(char *to, int64_t since, int64_t per_second, int digits) noexcept nogil:
    """A time since midnight as HH:MM:SS, and a fraction of so many digits where there is one."""
    cdef int64_t seconds = since // per_second
    cdef int64_t fraction = since % per_second
    if since < 0 or seconds >= 360000:  # not valid in Arrow, and the hour has two digits
        seconds = fraction = 0
    to = _put_padded(to, seconds // 3600, 2)
    to[0] = c':'
    to = _put_padded(to + 1, seconds // 60 % 60, 2)
    to[0] = c':'
    to = _put_padded(to + 1, seconds % 60, 2)
    if fraction != 0:
        to[0] = c'.'
        to = _put_padded(to + 1, fraction, digits)
    return to

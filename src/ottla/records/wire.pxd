"""Inline pieces that the compiled modules share: varints, big-endian numbers, the hashes of keys, the time.

They live in a .pxd so that each module gets them inlined; nothing of this file is seen by Python.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec


cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    #define ottla_likely(x) (x)
    #define ottla_unlikely(x) (x)
    #define ottla_prefetch(p) ((void)(p))
    static inline int ottla_bits(unsigned long long x) { unsigned long i; _BitScanReverse64(&i, x); return (int)i + 1; }
    #else
    #define ottla_likely(x) __builtin_expect(!!(x), 1)
    #define ottla_unlikely(x) __builtin_expect(!!(x), 0)
    #define ottla_prefetch(p) __builtin_prefetch(p)
    static inline int ottla_bits(unsigned long long x) { return 64 - __builtin_clzll(x); }
    #endif
    """
    bint likely "ottla_likely"(bint) noexcept nogil
    bint unlikely "ottla_unlikely"(bint) noexcept nogil
    void prefetch "ottla_prefetch"(const void *) noexcept nogil
    # Position of the highest bit set, counted from 1; the argument is never 0.
    int bits "ottla_bits"(uint64_t) noexcept nogil


cdef extern from "pythread.h" nogil:
    ctypedef void *PyThread_type_lock
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock)
    int PyThread_acquire_lock(PyThread_type_lock, int)
    int PyThread_acquire_lock_timed(PyThread_type_lock, long long, int)
    void PyThread_release_lock(PyThread_type_lock)
    unsigned long PyThread_get_thread_ident()


cdef inline uint64_t zigzag(int64_t number) noexcept nogil:
    return (<uint64_t> number << 1) ^ <uint64_t> (number >> 63)


cdef inline int64_t unzigzag(uint64_t number) noexcept nogil:
    return <int64_t> (number >> 1) ^ -<int64_t> (number & 1)


cdef inline int varint_bytes(uint64_t number) noexcept nogil:
    """How many bytes put_varint will write."""
    return (bits(number | 1) + 6) // 7


cdef inline char *put_varint(char *to, uint64_t number) noexcept nogil:
    while unlikely(number > 0x7F):
        to[0] = <char> (number & 0x7F | 0x80)
        number >>= 7
        to += 1
    to[0] = <char> number
    return to + 1


cdef inline char *put_bytes(char *to, const char *data, int64_t size) noexcept nogil:
    """Write a length and that many bytes; `size` -1 is null."""
    to = put_varint(to, zigzag(size))
    if size > 0:
        memcpy(to, data, size)
        to += size
    return to


cdef inline const char *get_varint(const char *at, const char *end, uint64_t *number) noexcept nogil:
    """Read at most ten bytes before `end`; NULL when they run out, or the number does not fit 64 bits."""
    cdef uint64_t value
    cdef uint8_t byte
    cdef int shift = 0
    if likely(at < end and <uint8_t> at[0] < 0x80):
        number[0] = <uint8_t> at[0]
        return at + 1
    value = 0
    while at < end:
        byte = <uint8_t> at[0]
        at += 1
        if shift == 63 and byte > 1:
            return NULL
        value |= <uint64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            number[0] = value
            return at
        shift += 7
    return NULL


cdef inline const char *get_int32_varint(const char *at, const char *end, int64_t *number) noexcept nogil:
    """Read a zigzag varint of at most five bytes before `end`; NULL when they run out or it does not fit 32 bits."""
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int shift = 0
    while at < end:
        byte = <uint8_t> at[0]
        at += 1
        if shift == 28 and byte > 0x0F:
            return NULL
        value |= <uint64_t> (byte & 0x7F) << shift
        if likely(byte < 0x80):
            number[0] = unzigzag(value)
            return at
        shift += 7
    return NULL


cdef inline int64_t get_big_endian(const char *at, int size) noexcept nogil:
    """A signed number of `size` bytes."""
    cdef int64_t value = <int8_t> at[0]
    cdef int i
    for i in range(1, size):
        value = <int64_t> (<uint64_t> value << 8) | <uint8_t> at[i]
    return value


cdef inline void put_int16(char *to, int value) noexcept nogil:
    to[0] = <char> (value >> 8)
    to[1] = <char> value


cdef inline void put_int32(char *to, int64_t value) noexcept nogil:
    cdef int i
    for i in range(4):
        to[i] = <char> (value >> (24 - 8 * i))


cdef inline void put_int64(char *to, int64_t value) noexcept nogil:
    cdef int i
    for i in range(8):
        to[i] = <char> (<uint64_t> value >> (56 - 8 * i))


cdef inline uint32_t _little_endian_word(const uint8_t *data) noexcept nogil:
    return data[0] | <uint32_t> data[1] << 8 | <uint32_t> data[2] << 16 | <uint32_t> data[3] << 24


cdef inline uint32_t murmur2(const char *data, Py_ssize_t size) noexcept nogil:
    """Kafka's 32-bit Murmur 2: seed 0x9747b28c, the length in the seed, little-endian words."""
    cdef const uint8_t *at = <const uint8_t *> data
    cdef uint32_t multiplier = 0x5BD1E995
    cdef uint32_t digest = <uint32_t> 0x9747B28C ^ <uint32_t> size
    cdef uint32_t word
    while size >= 4:
        word = _little_endian_word(at) * multiplier
        word = (word ^ word >> 24) * multiplier
        digest = digest * multiplier ^ word
        at += 4
        size -= 4
    if size:
        if size == 3:
            digest ^= <uint32_t> at[2] << 16
        if size >= 2:
            digest ^= <uint32_t> at[1] << 8
        digest = (digest ^ at[0]) * multiplier
    digest = (digest ^ digest >> 13) * multiplier
    return digest ^ digest >> 15


cdef extern from *:
    """
    /* What CRC-32 makes of four bits; a table of 16 is in the cache when a key comes along. */
    static const uint32_t ottla_crc32_of_nibble[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
        0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C
    };
    """
    const uint32_t *_crc32_of_nibble "ottla_crc32_of_nibble"


cdef inline uint32_t crc32(const char *data, Py_ssize_t size) noexcept nogil:
    """The CRC-32 of zlib and Ethernet: polynomial 0x04C11DB7, reflected."""
    cdef const uint8_t *at = <const uint8_t *> data
    cdef uint32_t digest = <uint32_t> 0xFFFFFFFF
    while size > 0:
        digest = digest ^ at[0]
        digest = digest >> 4 ^ _crc32_of_nibble[digest & 15]
        digest = digest >> 4 ^ _crc32_of_nibble[digest & 15]
        at += 1
        size -= 1
    return digest ^ <uint32_t> 0xFFFFFFFF


cdef enum KeyHash:
    MURMUR2  # Java's
    CRC32  # librdkafka's


cdef struct KeyRule:
    # Records whose key has at least `least_bytes` (a null key has -1) are placed by the hash of the key.
    Py_ssize_t least_bytes
    KeyHash hash
    bint in_rotation  # the others go to the partitions in turn, record by record


cdef inline int32_t partition_of(KeyHash key_hash, const char *key, Py_ssize_t size, int32_t count) noexcept nogil:
    if likely(key_hash == MURMUR2):
        return <int32_t> ((murmur2(key, size) & <uint32_t> 0x7FFFFFFF) % <uint32_t> count)
    return <int32_t> (crc32(key, size) % <uint32_t> count)


cdef inline uint64_t split_mix(uint64_t *state) noexcept nogil:
    """The next number of SplitMix64."""
    cdef uint64_t z
    state[0] += <uint64_t> 0x9E3779B97F4A7C15ULL
    z = state[0]
    z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9ULL
    z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EBULL
    return z ^ (z >> 31)


cdef inline int64_t wall_clock_ms() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t> now.tv_sec * 1000 + now.tv_nsec // 1000000


# A record batch header, as the producing side writes it (KIP-98). The CRC comes later.
cdef enum:
    HEADER_BYTES = 61
    CRC_POSITION = 17
    ATTRIBUTES_POSITION = 21
    PRODUCER_POSITION = 43
    TRANSACTIONAL = 0x10


cdef inline void put_header(
    char *to, Py_ssize_t batch_bytes, int codec_id, int32_t count, int64_t base_timestamp, int64_t max_timestamp
) noexcept nogil:
    put_int64(to, 0)  # base offset: the broker's
    put_int32(to + 8, batch_bytes - 12)
    put_int32(to + 12, -1)  # leader epoch: the broker's
    to[16] = 2
    put_int32(to + CRC_POSITION, 0)
    put_int16(to + ATTRIBUTES_POSITION, codec_id)
    put_int32(to + 23, count - 1)
    put_int64(to + 27, base_timestamp)
    put_int64(to + 35, max_timestamp)
    put_int64(to + PRODUCER_POSITION, -1)
    put_int16(to + 51, -1)
    put_int32(to + 53, -1)
    put_int32(to + 57, count)


cdef extern from *:
    """
    /* No batch begins beyond: its last offset still fits 64 bits. */
    #define OTTLA_OFFSET_MAX 9223372032559808511LL
    """
    const int64_t OFFSET_MAX "OTTLA_OFFSET_MAX"

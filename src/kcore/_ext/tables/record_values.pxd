"""Writes numbers and lists of metadata records; the caller's buffer must be large enough."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

cdef enum:
    ID_BYTES = 16
    FRAME_VERSION = 1


cdef inline uint8_t* put_varint(uint8_t* at, uint32_t number) noexcept nogil:
    while number >= 0x80:
        at[0] = <uint8_t>(number & 0x7F | 0x80)
        number >>= 7
        at += 1
    at[0] = <uint8_t>number
    return at + 1


cdef inline int32_t varint_size(uint32_t number) noexcept nogil:
    cdef int32_t size = 1
    while number >= 0x80:
        number >>= 7
        size += 1
    return size


cdef inline uint8_t* put32(uint8_t* at, int32_t number) noexcept nogil:
    cdef uint32_t bits = <uint32_t>number
    at[0], at[1], at[2], at[3] = <uint8_t>(bits >> 24), <uint8_t>(bits >> 16), <uint8_t>(bits >> 8), <uint8_t>bits
    return at + 4


cdef inline uint8_t* put64(uint8_t* at, int64_t number) noexcept nogil:
    return put32(put32(at, <int32_t>(number >> 32)), <int32_t>number)


cdef inline uint8_t* put_id(uint8_t* at, const uint8_t* id) noexcept nogil:
    memcpy(at, id, ID_BYTES)
    return at + ID_BYTES


cdef inline uint8_t* put_frame(uint8_t* at, int kind, int version) noexcept nogil:
    at[0], at[1], at[2] = FRAME_VERSION, <uint8_t>kind, <uint8_t>version
    return at + 3


cdef inline int32_t count_rows(const int16_t* rows, int32_t width) noexcept nogil:
    """The number of brokers of a packed row."""
    cdef int32_t count = 0
    while count < width and rows[count] >= 0:
        count += 1
    return count


cdef inline uint8_t* put_brokers(
    uint8_t* at, const int16_t* rows, int32_t count, const int32_t* id_of
) noexcept nogil:
    """Write a compact array of the ids of broker rows."""
    cdef int32_t k
    at = put_varint(at, <uint32_t>count + 1)
    for k in range(count):
        at = put32(at, id_of[rows[k]])
    return at

"""Loads and stores of big-endian numbers at any address."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t


cdef inline uint16_t load16(const uint8_t *at) noexcept:
    return <uint16_t>(at[0] << 8 | at[1])


cdef inline uint32_t load32(const uint8_t *at) noexcept:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline uint64_t load64(const uint8_t *at) noexcept:
    return <uint64_t>load32(at) << 32 | load32(at + 4)

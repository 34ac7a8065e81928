"""Writes record values as uncompressed batches of magic 2 (KIP-98); all records have one timestamp. Omits the checksum.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from kcore._ext.tables.record_values cimport put32, put64, put_varint, varint_size

cdef enum:
    HEADER_BYTES = 61
    LENGTH_END = 12  # Bytes of a batch that its length does not count: base offset and length.
    MAGIC = 2
    AROUND_VALUE = 4  # One byte each for attributes, timestamp delta, a null key's length and the number of headers.


cdef inline uint32_t zigzag(uint32_t number) noexcept nogil:
    """The zigzag encoding of a number that is not negative and below 2^31."""
    return number << 1


cdef inline uint8_t* put_record(uint8_t* at, uint32_t offset_delta, const uint8_t* value, uint32_t size) noexcept nogil:
    cdef uint32_t length = size + AROUND_VALUE + <uint32_t>varint_size(zigzag(offset_delta))
    length += <uint32_t>varint_size(zigzag(size))
    at = put_varint(at, zigzag(length))
    at[0], at[1] = 0, 0
    at = put_varint(at + 2, zigzag(offset_delta))
    at[0] = 1  # The zigzag varint of the key's length -1: no key.
    at = put_varint(at + 1, zigzag(size))
    memcpy(at, value, size)
    at[size] = 0
    return at + size + 1


cdef inline int64_t record_size(uint32_t offset_delta, uint32_t size) noexcept nogil:
    cdef uint32_t length = size + AROUND_VALUE + <uint32_t>varint_size(zigzag(offset_delta))
    length += <uint32_t>varint_size(zigzag(size))
    return <int64_t>length + varint_size(zigzag(length))


cdef void put_header(
    uint8_t* at, int64_t base_offset, int32_t epoch, int64_t time_ms, int64_t size, int32_t count
) noexcept nogil:
    at = put32(put32(put64(at, base_offset), <int32_t>(size - LENGTH_END)), epoch)
    at[0] = MAGIC
    at = put32(at + 1, 0)  # The checksum.
    at[0], at[1] = 0, 0  # Attributes.
    at = put64(put64(put32(at + 2, count - 1), time_ms), time_ms)
    at = put64(at, -1)  # No producer id, epoch and sequence.
    at[0], at[1] = 0xFF, 0xFF
    put32(put32(at + 2, -1), count)


def batch(
    const uint8_t[::1] values, const int64_t[::1] offsets, Py_ssize_t first, int64_t base_offset, int32_t epoch,
    int64_t time_ms, int64_t most_bytes, uint8_t[::1] out,
) -> tuple:
    """Write one batch to the start of `out`: the values from `first` on that fit in `most_bytes`, at least one.

    Returns the batch's size and the index of the next value. Value k is values[offsets[k]:offsets[k + 1]]. `out` has at
    least `most_bytes` bytes, or as many as a batch of only the first value, if that is larger.
    """
    cdef Py_ssize_t k, end = offsets.shape[0] - 1
    cdef int64_t size = HEADER_BYTES, one
    cdef uint8_t* at
    assert 0 <= first < end and 0 <= offsets[first] and offsets[end] <= values.shape[0]
    with nogil:
        for k in range(first, end):
            one = record_size(<uint32_t>(k - first), <uint32_t>(offsets[k + 1] - offsets[k]))
            if size + one > most_bytes and k > first:
                end = k
                break
            size += one
    assert size <= out.shape[0]
    with nogil:
        at = &out[0] + HEADER_BYTES
        for k in range(first, end):
            at = put_record(at, <uint32_t>(k - first), &values[0] + offsets[k], <uint32_t>(offsets[k + 1] - offsets[k]))
        put_header(&out[0], base_offset, epoch, time_ms, size, <int32_t>(end - first))
    return size, end

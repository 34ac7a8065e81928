"""Kernels for columns of strings, as offsets and bytes: find equal neighbours, repeat strings, pack spans."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy


def starts_group(const int32_t[::1] offsets, const uint8_t[::1] values, uint8_t[::1] starts):
    """Set starts[k] to 1 if string k differs from string k - 1, otherwise to 0; starts[0] is 1."""
    cdef int64_t k, size, before = -1
    cdef const uint8_t* text = &values[0] if values.shape[0] else NULL
    with nogil:
        for k in range(starts.shape[0]):
            size = offsets[k + 1] - offsets[k]
            starts[k] = size != before or size and memcmp(text + offsets[k], text + offsets[k - 1], size) != 0
            before = size


def repeat(
    const int32_t[::1] offsets, const uint8_t[::1] values, const int32_t[::1] row_offsets,
    int32_t[::1] repeated_offsets, uint8_t[::1] repeated,
):
    """Write string k for each row from row_offsets[k] to row_offsets[k + 1]; the output arrays have the exact size."""
    cdef int64_t k, row, size, at = 0
    repeated_offsets[0] = 0
    with nogil:
        for k in range(row_offsets.shape[0] - 1):
            size = offsets[k + 1] - offsets[k]
            for row in range(row_offsets[k], row_offsets[k + 1]):
                if size:
                    memcpy(&repeated[at], &values[offsets[k]], size)
                at += size
                repeated_offsets[row + 1] = <int32_t>at


def pack(const uint8_t[::1] source, const int64_t[:, ::1] spans__mx, const int64_t[::1] places__m, uint8_t[::1] packed):
    """Copy span m of `source` to places__m[m]. The spans must lie in `source`, their copies in `packed`."""
    cdef Py_ssize_t m
    cdef int64_t size
    with nogil:
        for m in range(spans__mx.shape[0]):
            size = spans__mx[m, 1] - spans__mx[m, 0]
            if size:
                memcpy(&packed[places__m[m]], &source[spans__mx[m, 0]], size)

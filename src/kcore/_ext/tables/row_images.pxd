"""Copies a row of several columns to one packed image, from which a revert restores the row."""

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy

cdef enum:
    MAX_COLUMNS = 16

cdef struct RowColumns:
    uint8_t* data[MAX_COLUMNS]
    Py_ssize_t width[MAX_COLUMNS]  # Bytes a row.
    Py_ssize_t count
    Py_ssize_t stride  # Bytes of an image: the sum of the widths.

cdef RowColumns row_columns_of(tuple columns) except *


cdef inline void save_row(const RowColumns* c, int32_t row, uint8_t* image) noexcept nogil:
    """Copy the row's bytes of each column, one column after the other, to `image`."""
    cdef Py_ssize_t k
    for k in range(c.count):
        memcpy(image, c.data[k] + <Py_ssize_t>row * c.width[k], c.width[k])
        image += c.width[k]

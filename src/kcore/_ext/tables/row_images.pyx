"""Saves rows of several columns to packed images, and restores rows from their images."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kcore._ext.arrays cimport address_of
from kcore._ext.tables.row_images cimport MAX_COLUMNS, RowColumns, save_row


cdef RowColumns row_columns_of(tuple columns) except *:
    """The struct from C-ordered arrays of at least one dimension."""
    cdef RowColumns c
    cdef Py_ssize_t k
    assert len(columns) <= MAX_COLUMNS
    c.count, c.stride = len(columns), 0
    for k in range(c.count):
        column = columns[k]
        c.data[k] = <uint8_t*>address_of(column)
        c.width[k] = column.itemsize * (column.shape[1] if column.ndim > 1 else 1)
        c.stride += c.width[k]
    return c


def save(tuple columns, const int32_t[::1] rows, uint8_t[:, ::1] images, Py_ssize_t first) -> None:
    """Save `rows` to `images` from images[first] on. The columns must have all these rows."""
    cdef RowColumns c = row_columns_of(columns)
    cdef Py_ssize_t k
    assert images.shape[1] == c.stride and 0 <= first <= images.shape[0] - rows.shape[0]
    with nogil:
        for k in range(rows.shape[0]):
            save_row(&c, rows[k], &images[first + k, 0])


def restore(
    tuple columns, const int32_t[::1] rows, const uint8_t[:, ::1] images, const int64_t[:, ::1] layout
) -> None:
    """Restore rows from their images. If a row has several images, its first image is restored.

    `layout` has three numbers for each column. The first two are its first byte in an image, and its number of bytes
    there (0 if the images lack the column). The third is the byte that fills the rest of a column that is wider now.
    """
    cdef RowColumns c = row_columns_of(columns)
    cdef Py_ssize_t k, r
    cdef uint8_t* at
    assert images.shape[0] >= rows.shape[0] and layout.shape[0] == c.count and layout.shape[1] == 3
    for k in range(c.count):
        assert 0 <= layout[k, 1] <= c.width[k] and 0 <= layout[k, 0] <= images.shape[1] - layout[k, 1]
    with nogil:
        for r in range(rows.shape[0] - 1, -1, -1):
            for k in range(c.count):
                at = c.data[k] + <Py_ssize_t>rows[r] * c.width[k]
                memcpy(at, &images[r, 0] + layout[k, 0], layout[k, 1])
                memset(at + layout[k, 1], <int>layout[k, 2], c.width[k] - layout[k, 1])

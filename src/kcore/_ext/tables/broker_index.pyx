"""Kernels of the broker index, which lists for each broker the partition rows that have the broker as a replica.

Axes: `p` partition row, `s` replica slot, `b` broker row. All lists of partition rows ascend.
"""

from libc.stdint cimport int16_t, int32_t, int64_t


cdef void count_replicas(const int16_t[:, ::1] replicas__ps, int64_t[::1] count__b) noexcept nogil:
    cdef Py_ssize_t p, s
    for p in range(replicas__ps.shape[0]):
        for s in range(replicas__ps.shape[1]):
            if replicas__ps[p, s] < 0:
                break
            count__b[replicas__ps[p, s]] += 1


cdef void deal_rows(const int16_t[:, ::1] replicas__ps, int64_t[::1] next__b, int32_t[::1] arena) noexcept nogil:
    cdef Py_ssize_t p, s
    cdef int16_t b
    for p in range(replicas__ps.shape[0]):
        for s in range(replicas__ps.shape[1]):
            b = replicas__ps[p, s]
            if b < 0:
                break
            arena[next__b[b]] = <int32_t> p
            next__b[b] += 1


cdef void merge_rows(int32_t[::1] rows, Py_ssize_t size, const int32_t[::1] fresh) noexcept nogil:
    # Merges in place from the back, so that rows before the first fresh row are not read.
    cdef Py_ssize_t old = size - 1
    cdef Py_ssize_t new = fresh.shape[0] - 1
    while new >= 0:
        if old >= 0 and rows[old] > fresh[new]:
            rows[old + new + 1] = rows[old]
            old -= 1
        else:
            rows[old + new + 1] = fresh[new]
            new -= 1


cdef Py_ssize_t drop_rows(int32_t[::1] rows, Py_ssize_t start, Py_ssize_t size,
                          const int32_t[::1] gone) noexcept nogil:
    cdef Py_ssize_t at, kept = start, dropped = 0
    for at in range(start, size):
        if dropped < gone.shape[0] and rows[at] == gone[dropped]:
            dropped += 1
        else:
            rows[kept] = rows[at]
            kept += 1
    return kept


def count(const int16_t[:, ::1] replicas__ps, int64_t[::1] count__b) -> None:
    """Add the number of each broker's replicas to `count__b`. Broker rows are packed and below len(count__b)."""
    with nogil:
        count_replicas(replicas__ps, count__b)


def deal(const int16_t[:, ::1] replicas__ps, int64_t[::1] next__b, int32_t[::1] arena) -> None:
    """Append every partition row to the lists of its brokers: the second half of a counting sort, after `count`.

    `next__b`: the index in `arena` at which each broker's list continues; advanced to the list's end.
    """
    with nogil:
        deal_rows(replicas__ps, next__b, arena)


def merge(int32_t[::1] rows, Py_ssize_t size, const int32_t[::1] fresh) -> None:
    """Merge the rows `fresh`, which are not in `rows` yet, into the first `size` of `rows`, which has room for both."""
    assert 0 <= size <= rows.shape[0] - fresh.shape[0]
    with nogil:
        merge_rows(rows, size, fresh)


def drop(int32_t[::1] rows, Py_ssize_t start, Py_ssize_t size, const int32_t[::1] gone) -> int:
    """Remove the rows `gone` from `rows[start:size]`, which has all of them; returns the new size."""
    assert 0 <= start <= size <= rows.shape[0]
    with nogil:
        size = drop_rows(rows, start, size, gone)
    return size

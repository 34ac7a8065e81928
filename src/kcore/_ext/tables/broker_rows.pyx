"""Checks that rows of brokers are packed, in range and without duplicates, so that other kernels can trust them.

Axes: `p` partition row, `s` position in the row (replica slot or ISR position).
"""

from libc.stdint cimport int16_t


cdef bint is_sound(const int16_t[:, ::1] brokers__ps, Py_ssize_t p, Py_ssize_t brokers) noexcept nogil:
    cdef Py_ssize_t s, before
    cdef Py_ssize_t width = brokers__ps.shape[1]
    for s in range(width):
        if brokers__ps[p, s] == -1:
            break
        if brokers__ps[p, s] < 0 or brokers__ps[p, s] >= brokers:
            return False
        for before in range(s):
            if brokers__ps[p, before] == brokers__ps[p, s]:
                return False
    else:
        return True
    for s in range(s, width):
        if brokers__ps[p, s] != -1:
            return False
    return True


cdef Py_ssize_t find_unsound(const int16_t[:, ::1] brokers__ps, Py_ssize_t brokers) noexcept nogil:
    cdef Py_ssize_t p
    for p in range(brokers__ps.shape[0]):
        if not is_sound(brokers__ps, p, brokers):
            return p
    return -1


def first_unsound(const int16_t[:, ::1] brokers__ps, Py_ssize_t brokers) -> int:
    """The first unsound row, or -1. A sound row has distinct broker rows below `brokers`, then -1 to its end."""
    with nogil:
        p = find_unsound(brokers__ps, brokers)
    return p

"""The buffer to which a message is written, and the error that ends the write."""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from kcore._ext.wire.wire_program cimport MAX_DEPTH, Crumb

cdef extern from *:
    """
    static inline void store32(uint8_t *at, uint32_t number) {
        at[0] = number >> 24; at[1] = number >> 16; at[2] = number >> 8; at[3] = number;
    }
    """
    void store32(uint8_t *at, uint32_t number)

cdef extern from "Python.h":
    PyObject *new_bytes "PyBytes_FromStringAndSize" (const char *data, Py_ssize_t size)
    int resize_bytes "_PyBytes_Resize" (PyObject **value, Py_ssize_t size)
    char *PyBytes_AS_STRING(PyObject *value)
    void Py_INCREF(PyObject *value)

cdef struct Writer:
    uint8_t *start
    uint8_t *at
    uint8_t *end
    bint fixed           # The caller owns the buffer: it cannot grow.
    PyObject *grown      # The bytes object that replaces a first buffer that is too small; NULL before.
    const char *why
    PyObject *culprit    # The value that failed.
    bint unsupported
    int depth
    Crumb crumbs[MAX_DEPTH]

cdef inline void open_writer(Writer *w, uint8_t *start, Py_ssize_t room, bint fixed) noexcept:
    w.start, w.at, w.end, w.fixed = start, start, start + room, fixed
    w.grown, w.why, w.culprit, w.unsupported, w.depth = NULL, NULL, NULL, False, 0


cdef inline int fail(Writer *w, PyObject *culprit, const char *why) noexcept:
    w.why, w.culprit = why, culprit
    if culprit is not NULL:
        Py_INCREF(culprit)
    return -1


cdef inline void leave_crumb(Writer *w, PyObject *name, Py_ssize_t index) noexcept:
    if w.depth < MAX_DEPTH:
        w.crumbs[w.depth].name, w.crumbs[w.depth].index = name, index
        w.depth += 1


cdef inline int make_room(Writer *w, Py_ssize_t size) noexcept:
    return 0 if size <= w.end - w.at else grow(w, size)


cdef inline int grow(Writer *w, Py_ssize_t size) noexcept:
    """Replace the buffer by one at least twice as large, and set `start`, `at` and `end` to positions in it."""
    cdef Py_ssize_t used = w.at - w.start
    cdef Py_ssize_t room = 2 * (used + size)
    if w.fixed:
        return fail(w, NULL, "out has no room for the message")
    if w.grown is not NULL:
        if resize_bytes(&w.grown, room) < 0:
            return -1
    else:
        w.grown = new_bytes(NULL, room)
        if w.grown is NULL:
            return -1
        memcpy(PyBytes_AS_STRING(w.grown), w.start, used)
    w.start = <uint8_t *>PyBytes_AS_STRING(w.grown)
    w.at, w.end = w.start + used, w.start + room
    return 0


cdef inline void store(uint8_t *at, uint64_t number, Py_ssize_t size) noexcept:
    """Store a big-endian number of `size` bytes. The compiler makes each case a byte swap and a move."""
    if size == 4:
        store32(at, <uint32_t>number)
    elif size == 1:
        at[0] = <uint8_t>number
    elif size == 2:
        at[0] = <uint8_t>(number >> 8)
        at[1] = <uint8_t>number
    else:
        store32(at, <uint32_t>(number >> 32))
        store32(at + 4, <uint32_t>number)


cdef inline int put_varint(Writer *w, uint32_t number) noexcept:
    if number < 0x80 and w.at < w.end:
        w.at[0] = <uint8_t>number
        w.at += 1
        return 0
    if make_room(w, varint_size(number)) < 0:
        return -1
    w.at += store_varint(w.at, number)
    return 0


cdef inline int varint_size(uint32_t number) noexcept:
    cdef int size = 1
    while number >= 0x80:
        number >>= 7
        size += 1
    return size


cdef inline int store_varint(uint8_t *at, uint32_t number) noexcept:
    cdef int size = 0
    while number >= 0x80:
        at[size] = number & 0x7F | 0x80
        number >>= 7
        size += 1
    at[size] = <uint8_t>number
    return size + 1


cdef inline int insert_varint(Writer *w, Py_ssize_t mark, uint32_t number) noexcept:
    """Insert a varint before the bytes from `mark` on, for a size or count that is known only after them."""
    cdef int size = varint_size(number)
    if make_room(w, size) < 0:
        return -1
    memmove(w.start + mark + size, w.start + mark, w.at - w.start - mark)
    store_varint(w.start + mark, number)
    w.at += size
    return 0


cdef inline int put_bytes(Writer *w, const void *data, Py_ssize_t size) noexcept:
    if make_room(w, size) < 0:
        return -1
    memmove(w.at, data, size)
    w.at += size
    return 0

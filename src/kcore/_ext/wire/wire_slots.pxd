"""Reads an instance's fields and a list's elements, for the modules that write message objects."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from kcore._ext.wire.wire_buffer cimport Writer, fail, make_room, put_varint, store
from kcore._ext.wire.wire_program cimport STRING, Step

cdef extern from "Python.h":
    bint PyList_Check(PyObject *value)
    bint PyTuple_Check(PyObject *value)
    Py_ssize_t size_of "PySequence_Fast_GET_SIZE" (PyObject *sequence)
    PyObject *item_of "PySequence_Fast_GET_ITEM" (PyObject *sequence, Py_ssize_t i)
    PyObject *Py_None

cdef enum:
    MAX_LENGTH = 0x7FFFFFFE  # The largest length: a compact length is written plus one, and must fit Java's int.


cdef inline PyObject *slot_at(PyObject *instance, Py_ssize_t slot) noexcept:
    return (<PyObject **>(<char *>instance + slot))[0]


cdef inline PyObject *field_of(PyObject *instance, const Step *step) noexcept:
    """A borrowed reference to a field's value; None if the user deleted the field or did not run `__init__`."""
    cdef PyObject *value = slot_at(instance, step.slot)
    return Py_None if value is NULL else value


cdef inline bint is_sequence(PyObject *value) noexcept:
    return PyList_Check(value) or PyTuple_Check(value)


cdef inline int put_length(Writer *w, const Step *step, int64_t length) noexcept:
    """Write the length before a value; -1 is null."""
    cdef Py_ssize_t size = 2 if step.kind == STRING else 4
    if length > MAX_LENGTH:
        return fail(w, NULL, "longer than 2147483646 bytes or elements")
    if step.compact:
        return put_varint(w, <uint32_t>(length + 1))
    if make_room(w, size) < 0:
        return -1
    store(w.at, <uint64_t>length, size)
    w.at += size
    return 0

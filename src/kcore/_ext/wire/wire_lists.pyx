"""The attributes of int32 arrays, which a decoded message keeps packed until a user reads the attribute."""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int32_t

from kcore._ext.wire.recent_ints cimport int_object
from kcore._ext.wire.wire_program cimport new_list, packed_ints, slot_of_member

cdef extern from "Python.h":
    bint PyObject_TypeCheck(PyObject *value, PyTypeObject *type)
    void set_item "PyList_SET_ITEM" (PyObject *values, Py_ssize_t i, PyObject *value)
    void Py_DECREF(PyObject *value)


cdef PyObject *list_of(const int32_t *numbers, Py_ssize_t count) noexcept:
    cdef PyObject *number
    cdef PyObject *values = new_list(count)
    cdef Py_ssize_t i
    if values is NULL:
        return NULL
    for i in range(count):
        number = int_object(numbers[i])
        if number is NULL:
            Py_DECREF(values)
            return NULL
        set_item(values, i, number)
    return values


cdef class ListField:
    """The attribute of a field that is an array of int32s.

    It behaves as `member`, the slot's own descriptor. But the first read converts packed numbers to a list and stores
    the list in the slot.
    """

    cdef readonly object member
    cdef PyTypeObject *owner
    cdef Py_ssize_t slot

    def __init__(self, member: object) -> None:
        self.member = member
        self.owner = <PyTypeObject *>member.__objclass__
        self.slot = slot_of_member(member)

    def __get__(self, instance: object, owner: object) -> object:
        cdef PyObject **slot
        cdef PyObject *packed
        cdef PyObject *made
        cdef const int32_t *numbers
        cdef Py_ssize_t count
        if instance is None:
            return self
        if not PyObject_TypeCheck(<PyObject *>instance, self.owner):
            return self.member.__get__(instance)  # TypeError.
        slot = <PyObject **>(<char *><void *>instance + self.slot)
        packed = slot[0]
        if packed is NULL:
            return self.member.__get__(instance)  # AttributeError.
        numbers = packed_ints(packed, &count)
        if numbers is not NULL:
            made = list_of(numbers, count)
            if made is NULL:
                raise MemoryError
            slot[0] = made
            Py_DECREF(packed)
        return <object>slot[0]

    def __set__(self, instance: object, value: object) -> None:
        self.member.__set__(instance, value)

    def __delete__(self, instance: object) -> None:
        self.member.__delete__(instance)

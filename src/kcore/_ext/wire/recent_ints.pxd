"""Reuses recently made int objects. Each module that cimports this file has a table of its own."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

cdef extern from *:
    """
    enum { RECENT_INTS = 1024 };
    static struct { int64_t value; PyObject *number; } recent_ints[RECENT_INTS];

    /* The int object of a value. Broker ids and epochs repeat, so one object serves all recent uses of a value. */
    static inline PyObject *int_object(int64_t value) {
        size_t at = (size_t)value & (RECENT_INTS - 1);
        PyObject *number = recent_ints[at].number;
        if (recent_ints[at].value != value || number == NULL) {
            if ((number = PyLong_FromLongLong(value)) == NULL) return NULL;
            Py_XDECREF(recent_ints[at].number);
            recent_ints[at].value = value;
            recent_ints[at].number = number;
        }
        Py_INCREF(number);
        return number;
    }
    """
    PyObject *int_object(int64_t value)

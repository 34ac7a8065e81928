"""Values of a message that are made here instead of by several calls of Python's: Uuids, views of records."""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint8_t

cdef extern from *:
    """
    /* A Uuid is a bytes subclass with nothing added: made as bytes makes its own subclasses. It refers to nothing, so
       the collector need not look at it: there may be a million. */
    static PyObject *new_uuid(PyTypeObject *type, const unsigned char *data) {
        PyObject *uuid = type->tp_alloc(type, 16);
        if (uuid == NULL) return NULL;
        memcpy(((PyBytesObject *)uuid)->ob_sval, data, 16);
        _Py_COMP_DIAG_PUSH
        _Py_COMP_DIAG_IGNORE_DEPR_DECLS
        ((PyBytesObject *)uuid)->ob_shash = -1;
        _Py_COMP_DIAG_POP
        if (PyObject_IS_GC(uuid)) PyObject_GC_UnTrack(uuid);
        return uuid;
    }

    /* A view of bytes, whatever the elements of the source are; narrowed in place, while nobody else has it.
       `last`: the view before it of the same source, which it then shares the buffer with: half the price. */
    static PyObject *new_view(PyObject *source, PyObject *last, const unsigned char *begin, Py_ssize_t length) {
        PyObject *view = PyMemoryView_FromObject(last ? last : source), *whole = view;
        if (view != NULL && last == NULL && !PyBytes_CheckExact(source)) {
            view = PyObject_CallMethod(whole, "cast", "s", "B");
            Py_DECREF(whole);
        }
        if (view == NULL) return NULL;
        Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
        buffer->buf = (char *)begin;
        buffer->len = buffer->shape[0] = length;
        return view;
    }
    """
    PyObject *new_uuid(PyTypeObject *type, const uint8_t *data)
    PyObject *new_view(PyObject *source, PyObject *last, const uint8_t *begin, Py_ssize_t length)

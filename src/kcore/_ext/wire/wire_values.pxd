"""Makes Uuids and views of records by C code, which is faster than Python's constructors."""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint8_t

cdef extern from *:
    """
    /* A Uuid is a subclass of bytes, and made in the same way as bytes makes instances of subclasses. It refers to no
       object, so the collector need not visit the perhaps million Uuids of a message. */
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

    /* A view of `length` bytes from `begin` on; `source` may have other elements than bytes. A new view is narrowed in
       place, before other code sees it. `last`: the previous view of the same source; sharing its buffer halves the
       time. */
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

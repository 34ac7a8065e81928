"""The address of an array, for kernels with so little work that a memory view of each array would cost more."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer


cdef inline void* address_of(object array) except? NULL:
    """The address of a contiguous array's first byte; a memory view costs six times as much. The caller must keep a
    reference to the array.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
    PyBuffer_Release(&view)
    return view.buf

"""Writes one message object to bytes, by its program."""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from kcore._ext.wire.wire_buffer cimport Writer
from kcore._ext.wire.wire_program cimport Layout, Program, Step

cdef object write_message(Program program, object message)
cdef Py_ssize_t write_message_into(Program program, object message, uint8_t *out, Py_ssize_t room) except -1

# For `wire_parts`, which writes a message in parts.
cdef int raise_error(Writer *w, object words) except -1
cdef int refuse_absent(Writer *w, const Layout *layout, PyObject *instance) noexcept
cdef int write_one(Writer *w, const Step *step, PyObject *value) noexcept
cdef int write_tagged(Writer *w, const Layout *layout, PyObject *instance) noexcept

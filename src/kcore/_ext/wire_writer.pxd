"""Writes one message object as bytes, as its program says."""

from libc.stdint cimport uint8_t

from kcore._ext.wire_program cimport Program

cdef object write_message(Program program, object message)
cdef Py_ssize_t write_message_into(Program program, object message, uint8_t *out, Py_ssize_t room) except -1

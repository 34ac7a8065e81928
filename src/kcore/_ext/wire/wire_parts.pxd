"""Writes one message object to bytes in parts, by its program."""

from kcore._ext.wire.wire_program cimport Program

cdef object parts_of(Program program, object message)

"""Writes one message object part by part, by its program."""

from kcore._ext.wire.wire_program cimport Program

cdef object parts_of(Program program, object message)

"""Writes one message object part by part, as its program says."""

from kcore._ext.wire.wire_program cimport Program

cdef object parts_of(Program program, object message)

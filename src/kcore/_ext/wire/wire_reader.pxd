"""Reads one message object from bytes, by its program."""

from libc.stdint cimport int64_t

from kcore._ext.wire.wire_program cimport Program

cdef object read_message(
    Program program,
    const unsigned char *data,
    Py_ssize_t size,
    Py_ssize_t *end,
    object source,
    int64_t room=*,
    bint gives_way=*,
)

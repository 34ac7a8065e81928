"""Writes records that differ in the lengths of a few vectors."""

from libc.stdint cimport int64_t

from kcore._ext.wire.sink cimport Sink

cdef bint can_be_mixed(Sink* s, int64_t child) noexcept nogil
cdef int64_t write_mixed(Sink* s, int64_t row, int64_t count) noexcept nogil

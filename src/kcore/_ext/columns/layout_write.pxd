"""Learns the layouts of records to write."""

from libc.stdint cimport int64_t

from kcore._ext.wire.sink cimport Sink

cdef bint find_layout(Sink* s, int64_t child, int64_t row, bint is_mixed) noexcept nogil

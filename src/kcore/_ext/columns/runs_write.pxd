"""Writes many records at once: those of one layout, and flat records of different layouts."""

from libc.stdint cimport int64_t, uint8_t

from kcore._ext.columns.program cimport Node
from kcore._ext.wire.sink cimport Layout, Sink
from kcore._ext.columns.steps cimport Steps

cdef void write_run(Sink* s, const Layout* layout, int64_t row, int64_t count) noexcept nogil
cdef void write_block(
    const Sink* s, const Steps* steps, uint8_t* records, const uint8_t* same, int64_t done, int64_t count
) noexcept nogil
cdef void write_others(Sink* s, const Node* node, int64_t row, int64_t count) noexcept nogil

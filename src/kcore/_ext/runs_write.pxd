"""Runs of records, written."""

from libc.stdint cimport int64_t

from kcore._ext.program cimport Node
from kcore._ext.sink cimport Layout, Sink

cdef void write_run(Sink* s, const Layout* layout, int64_t row, int64_t count) noexcept nogil
cdef void write_others(Sink* s, const Node* node, int64_t row, int64_t count) noexcept nogil

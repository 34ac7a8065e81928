"""Runs of flat records, written."""

from libc.stdint cimport int64_t

from kcore._ext.program cimport Node
from kcore._ext.sink cimport Sink

cdef int64_t count_alike(const Sink* s, const Node* node, int64_t begin, int64_t end) noexcept nogil
cdef void write_run(Sink* s, const Node* node, int64_t row, int64_t count) noexcept nogil
cdef void write_others(Sink* s, const Node* node, int64_t row, int64_t count) noexcept nogil

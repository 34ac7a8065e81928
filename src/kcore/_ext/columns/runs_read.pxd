"""Reads many records at once: those of one layout, and flat records of different layouts."""

from libc.stdint cimport int64_t, uint8_t

from kcore._ext.columns.program cimport Node
from kcore._ext.columns.steps cimport Steps
from kcore._ext.columns.walk cimport Layout, Places, Walk

cdef int64_t chain(Walk* w, const Node* node, int64_t count, Places* places) noexcept nogil
cdef bint count_others(Walk* w, const Node* node, int64_t count, const Places* places) noexcept nogil
cdef void copy_others(Walk* w, const Node* node, int64_t row, int64_t count, const Places* places) noexcept nogil


cdef inline int64_t* total_of(const Walk* w, int64_t key) noexcept nogil:
    """The counter of a node's rows (key at least 0) or of a column's elements (`elements_key`)."""
    return &w.rows[key] if key >= 0 else &w.totals[-1 - key]


cdef bint count_run(Walk* w, const Layout* layout, int64_t count) noexcept nogil
cdef void copy_block(Walk* w, const Steps* steps, const uint8_t* records, int64_t count) noexcept nogil
cdef void copy_run(Walk* w, Layout* layout, int64_t count) noexcept nogil

"""Runs of records, read."""

from libc.stdint cimport int64_t

from kcore._ext.program cimport Node
from kcore._ext.walk cimport Layout, Places, Walk

cdef int64_t chain(Walk* w, const Node* node, int64_t count, Places* places) noexcept nogil
cdef bint count_others(Walk* w, const Node* node, int64_t count, const Places* places) noexcept nogil
cdef void copy_others(Walk* w, const Node* node, int64_t row, int64_t count, const Places* places) noexcept nogil
cdef bint count_run(Walk* w, const Layout* layout, int64_t count) noexcept nogil
cdef void copy_run(Walk* w, Layout* layout, int64_t count) noexcept nogil
